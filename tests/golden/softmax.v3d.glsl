#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "softmax of the last axis": reduce_max, reshape, sub, exp, reduce_sum, reshape, div
// 64 threads per row, 2 rows per workgroup, 4 elements per chunk, 4 chunks per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f32[64, 1000]
layout(set = 0, binding = 1) writeonly buffer Buffer1 { uvec4 w[]; } out_y;  // %7 : f32[64, 1000]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// NaN if either operand is.
float f32_max(float x, float y) {
  return x < y || f32_is_nan(y) ? y : x;  // no order has x NaN
}

float f32_max_bits(float x, float y) {
  return f32_is_nan(x) ? x : f32_max(x, y);
}

// Vulkan's precision, 3 + 2|x| ulp; NaN, which a driver may lose, stays NaN.
float f32_exp(float x) {
  float power = exp(x);
  return f32_is_nan(x) ? x : power;
}

// Within 2.5 ulp, as Vulkan promises for divisors up to 2^126: a larger one is scaled down first.
float f32_div(float x, float y) {
  float scale = f32_magnitude_bits(y) >= 0x7e800000u ? 0.0625 : 1.0;
  precise float quotient = x / (y * scale) * scale;
  return quotient;
}

shared float v1_shared[8];
shared float v5_shared[8];

// Four more elements: one exponential rescales the sum for all of them.
void v5_join_four(inout float most, inout float sum, vec4 x) {
  float top = f32_max_bits(f32_max_bits(f32_max_bits(x.x, x.y), f32_max_bits(x.z, x.w)), most);
  precise float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;  // as long as all are -infinity
  precise float fallen = most - base;
  precise float scale = most == base ? 1.0 : f32_exp(fallen);
  precise vec4 apart = x - base;
  precise float added = (f32_exp(apart.x) + f32_exp(apart.y)) + (f32_exp(apart.z) + f32_exp(apart.w));
  sum = fma(sum, scale, added);
  most = top;
}

// A maximum and the sum of exponentials below it, with those below another maximum.
void v5_join(inout float a, inout float a1, float b, float b1) {
  precise float most = f32_max_bits(a, b);
  precise float own_scale = a == most ? 1.0 : f32_exp((a - most));
  precise float other_scale = b == most ? 1.0 : f32_exp((b - most));
  a1 = fma(a1, own_scale, b1 * other_scale);
  a = most;
}

// One element of pass 0.
void pass0(float in_x, out float v5_x) {
  v5_x = in_x;
}

// One element of pass 1.
void pass1(float in_x, float v1, float v5, out float out_y_result) {
  precise float v3 = in_x - v1;
  precise float v4 = f32_exp(v3);
  precise float out_y = f32_div(v4, v5);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint reduction_thread = thread % 64u;
  uint row = workgroup * 2u + thread / 64u;
  bool inside = row < p.chunks;
  row = min(row, p.chunks - 1u);
  float v1 = uintBitsToFloat(0xff800000u);
  float v5 = 0.0;
  for (uint first = reduction_thread; first < 250u; first += 128u) {
    uvec4 in_x_w0[2];
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = min(first + u * 64u, 250u - 1u);
      in_x_w0[u] = in_x.w[row * 250u + column];
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = first + u * 64u;
      if (column < 250u) {
        vec4 in_x_0 = uintBitsToFloat(in_x_w0[u]);
        vec4 v5_x_0;
        pass0(in_x_0[0], v5_x_0[0]);
        pass0(in_x_0[1], v5_x_0[1]);
        pass0(in_x_0[2], v5_x_0[2]);
        pass0(in_x_0[3], v5_x_0[3]);
        v5_join_four(v1, v5, v5_x_0);
      }
    }
  }
  for (uint mask = 8u; mask > 0u; mask >>= 1) {
    v5_join(v1, v5, subgroupShuffleXor(v1, mask), subgroupShuffleXor(v5, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v1_shared[gl_SubgroupID] = v1;
    v5_shared[gl_SubgroupID] = v5;
  }
  barrier();
  v1 = v1_shared[gl_SubgroupID / 4u * 4u + gl_SubgroupInvocationID % 4u];
  v5 = v5_shared[gl_SubgroupID / 4u * 4u + gl_SubgroupInvocationID % 4u];
  for (uint mask = 2u; mask > 0u; mask >>= 1) {
    v5_join(v1, v5, subgroupShuffleXor(v1, mask), subgroupShuffleXor(v5, mask));
  }
  if (f32_magnitude_bits(v1) >= 0x7f800000u) v5 = uintBitsToFloat(0x7fc00000u);
  for (uint first = reduction_thread; first < 250u; first += 128u) {
    uvec4 in_x_w0[2];
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = min(first + u * 64u, 250u - 1u);
      in_x_w0[u] = in_x.w[row * 250u + column];
    }
    [[unroll]] for (uint u = 0u; u < 2u; ++u) {
      uint column = first + u * 64u;
      if (column < 250u) {
        vec4 in_x_0 = uintBitsToFloat(in_x_w0[u]);
        vec4 out_y_0;
        pass1(in_x_0[0], v1, v5, out_y_0[0]);
        pass1(in_x_0[1], v1, v5, out_y_0[1]);
        pass1(in_x_0[2], v1, v5, out_y_0[2]);
        pass1(in_x_0[3], v1, v5, out_y_0[3]);
        if (inside) {
          out_y.w[row * 250u + column] = floatBitsToUint(out_y_0);
        }
      }
    }
  }
}
