#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// segment 0 of graph "layer norm": reduce_mean, reshape, sub, mul, reduce_mean, add, rsqrt, reshape, ... 11 ops in all
// 256 threads per row, 1 row per workgroup, 2 elements per chunk, 9 chunks per thread
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_x;  // %0 : f16[512, 4098]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uint w[]; } in_weight;  // %11 : f16[4098]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_bias;  // %13 : f16[4098]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uint w[]; } out_y;  // %14 : f16[512, 4098]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_finite(float x) {
  return f32_magnitude_bits(x) < 0x7f800000u;
}

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

bool f32_is_negative(float x) {
  return (floatBitsToUint(x) & 0x80000000u) != 0u;
}

// The magnitude of x with the sign of s, exactly, zeros and denormals included: negations flush those on SwiftShader,
// and on NVIDIA whatever bits of a magnitude are flipped is a negation. Not by masking and joining bits: in kernels
// that divide positions, Mesa 22.3's CPU driver then loses the exponent.
float f32_copy_sign(float x, float s) {
  uint bits = floatBitsToUint(x);
  return uintBitsToFloat(f32_is_negative(s) == f32_is_negative(x) ? bits : bits ^ 0x80000000u);
}

float f32_infinity() {
  return uintBitsToFloat(0x7f800000u);
}

float f32_nan() {
  return uintBitsToFloat(0x7fc00000u);
}

// 2 ulp inside the domain; an infinity of the sign of a zero, 0 for infinity, NaN for negatives.
float f32_rsqrt(float x) {
  uint magnitude = f32_magnitude_bits(x);
  if (magnitude > 0x7f800000u) return x;
  if (magnitude == 0u) return f32_copy_sign(f32_infinity(), x);
  if (f32_is_negative(x)) return f32_nan();
  return magnitude == 0x7f800000u ? 0.0 : inversesqrt(x);
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared float v5_count_shared[16];
shared float v1_shared[16];
shared float v5_shared[16];
shared float v1_low_shared[16];

// Count, mean, squares around the mean, and what rounding that has lost, of two sets taken together.
void v5_join(inout float a, inout float a1, inout float a2, inout float a3, float b, float b1, float b2, float b3) {
  precise float count = a + b;
  precise float apart = (b1 - a1) + (b3 - a3);
  precise float share = count == 0.0 ? 0.0 : b / count;
  a2 = a2 + b2 + apart * (apart * (a * share));
  precise float moved = apart * share;
  precise float mean = a1 + moved;
  precise float low = a3 + (moved - (mean - a1));
  bool finite = f32_is_finite(apart);  // else infinities of one sign, or no number
  a3 = finite ? a == 0.0 ? b3 : low : 0.0;
  a1 = finite ? a == 0.0 ? b1 : mean : a1 + b1;
  a = count;
}

// One element of pass 0.
void pass0(float in_x, inout float v5_count, inout float v1, inout float v5, inout float v1_low) {
  v5_join(v5_count, v1, v5, v1_low, 1.0, in_x, 0.0, 0.0);
}

// One element of pass 1.
void pass1(float in_x, float v1, float v8, float in_weight, float in_bias, float v1_low, out float out_y_result) {
  precise float v3 = (in_x - v1) - v1_low;
  precise float v10 = v8 * v3;
  precise float out_y = fma(v10, in_weight, in_bias);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint reduction_thread = thread;
  uint row = workgroup;
  bool inside = row < p.chunks;
  row = min(row, p.chunks - 1u);
  float v5_count = 0.0;
  float v1 = 0.0;
  float v5 = 0.0;
  float v1_low = 0.0;
  for (uint first = reduction_thread; first < 2049u; first += 1024u) {
    uint in_x_w0[4];
    {
      const uint u = 0u;
      uint column = min(first + u * 256u, 2049u - 1u);
      in_x_w0[u] = in_x.w[row * 2049u + column];
    }
    {
      const uint u = 1u;
      uint column = min(first + u * 256u, 2049u - 1u);
      in_x_w0[u] = in_x.w[row * 2049u + column];
    }
    {
      const uint u = 2u;
      uint column = min(first + u * 256u, 2049u - 1u);
      in_x_w0[u] = in_x.w[row * 2049u + column];
    }
    {
      const uint u = 3u;
      uint column = min(first + u * 256u, 2049u - 1u);
      in_x_w0[u] = in_x.w[row * 2049u + column];
    }
    {
      const uint u = 0u;
      uint column = first + u * 256u;
      if (column < 2049u) {
        vec2 in_x_0 = f16x2_values_native(in_x_w0[u]);
        pass0(in_x_0[0], v5_count, v1, v5, v1_low);
        pass0(in_x_0[1], v5_count, v1, v5, v1_low);
      }
    }
    {
      const uint u = 1u;
      uint column = first + u * 256u;
      if (column < 2049u) {
        vec2 in_x_0 = f16x2_values_native(in_x_w0[u]);
        pass0(in_x_0[0], v5_count, v1, v5, v1_low);
        pass0(in_x_0[1], v5_count, v1, v5, v1_low);
      }
    }
    {
      const uint u = 2u;
      uint column = first + u * 256u;
      if (column < 2049u) {
        vec2 in_x_0 = f16x2_values_native(in_x_w0[u]);
        pass0(in_x_0[0], v5_count, v1, v5, v1_low);
        pass0(in_x_0[1], v5_count, v1, v5, v1_low);
      }
    }
    {
      const uint u = 3u;
      uint column = first + u * 256u;
      if (column < 2049u) {
        vec2 in_x_0 = f16x2_values_native(in_x_w0[u]);
        pass0(in_x_0[0], v5_count, v1, v5, v1_low);
        pass0(in_x_0[1], v5_count, v1, v5, v1_low);
      }
    }
  }
  for (uint mask = 8u; mask > 0u; mask >>= 1) {
    v5_join(v5_count, v1, v5, v1_low, subgroupShuffleXor(v5_count, mask), subgroupShuffleXor(v1, mask), subgroupShuffleXor(v5, mask), subgroupShuffleXor(v1_low, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v5_count_shared[gl_SubgroupID] = v5_count;
    v1_shared[gl_SubgroupID] = v1;
    v5_shared[gl_SubgroupID] = v5;
    v1_low_shared[gl_SubgroupID] = v1_low;
  }
  barrier();
  v5_count = v5_count_shared[gl_SubgroupInvocationID];
  v1 = v1_shared[gl_SubgroupInvocationID];
  v5 = v5_shared[gl_SubgroupInvocationID];
  v1_low = v1_low_shared[gl_SubgroupInvocationID];
  for (uint mask = 8u; mask > 0u; mask >>= 1) {
    v5_join(v5_count, v1, v5, v1_low, subgroupShuffleXor(v5_count, mask), subgroupShuffleXor(v1, mask), subgroupShuffleXor(v5, mask), subgroupShuffleXor(v1_low, mask));
  }
  if (f32_magnitude_bits(v1) >= 0x7f800000u) v5 = uintBitsToFloat(0x7fc00000u);
  v5 = v5 / float(4098u);
  precise float v7 = v5 + 1.001358e-05;
  precise float v8 = f32_rsqrt(v7);
  for (uint first = reduction_thread; first < 2049u; first += 1024u) {
    uint in_x_w0[4];
    uint in_weight_w0[4];
    uint in_bias_w0[4];
    {
      const uint u = 0u;
      uint column = min(first + u * 256u, 2049u - 1u);
      in_x_w0[u] = in_x.w[row * 2049u + column];
      in_weight_w0[u] = in_weight.w[column];
      in_bias_w0[u] = in_bias.w[column];
    }
    {
      const uint u = 1u;
      uint column = min(first + u * 256u, 2049u - 1u);
      in_x_w0[u] = in_x.w[row * 2049u + column];
      in_weight_w0[u] = in_weight.w[column];
      in_bias_w0[u] = in_bias.w[column];
    }
    {
      const uint u = 2u;
      uint column = min(first + u * 256u, 2049u - 1u);
      in_x_w0[u] = in_x.w[row * 2049u + column];
      in_weight_w0[u] = in_weight.w[column];
      in_bias_w0[u] = in_bias.w[column];
    }
    {
      const uint u = 3u;
      uint column = min(first + u * 256u, 2049u - 1u);
      in_x_w0[u] = in_x.w[row * 2049u + column];
      in_weight_w0[u] = in_weight.w[column];
      in_bias_w0[u] = in_bias.w[column];
    }
    {
      const uint u = 0u;
      uint column = first + u * 256u;
      if (column < 2049u) {
        vec2 in_x_0 = f16x2_values_native(in_x_w0[u]);
        vec2 in_weight_0 = f16x2_values_native(in_weight_w0[u]);
        vec2 in_bias_0 = f16x2_values_native(in_bias_w0[u]);
        vec2 out_y_0;
        pass1(in_x_0[0], v1, v8, in_weight_0[0], in_bias_0[0], v1_low, out_y_0[0]);
        pass1(in_x_0[1], v1, v8, in_weight_0[1], in_bias_0[1], v1_low, out_y_0[1]);
        if (inside) {
          out_y.w[row * 2049u + column] = f16x2_bits_native(out_y_0);
        }
      }
    }
    {
      const uint u = 1u;
      uint column = first + u * 256u;
      if (column < 2049u) {
        vec2 in_x_0 = f16x2_values_native(in_x_w0[u]);
        vec2 in_weight_0 = f16x2_values_native(in_weight_w0[u]);
        vec2 in_bias_0 = f16x2_values_native(in_bias_w0[u]);
        vec2 out_y_0;
        pass1(in_x_0[0], v1, v8, in_weight_0[0], in_bias_0[0], v1_low, out_y_0[0]);
        pass1(in_x_0[1], v1, v8, in_weight_0[1], in_bias_0[1], v1_low, out_y_0[1]);
        if (inside) {
          out_y.w[row * 2049u + column] = f16x2_bits_native(out_y_0);
        }
      }
    }
    {
      const uint u = 2u;
      uint column = first + u * 256u;
      if (column < 2049u) {
        vec2 in_x_0 = f16x2_values_native(in_x_w0[u]);
        vec2 in_weight_0 = f16x2_values_native(in_weight_w0[u]);
        vec2 in_bias_0 = f16x2_values_native(in_bias_w0[u]);
        vec2 out_y_0;
        pass1(in_x_0[0], v1, v8, in_weight_0[0], in_bias_0[0], v1_low, out_y_0[0]);
        pass1(in_x_0[1], v1, v8, in_weight_0[1], in_bias_0[1], v1_low, out_y_0[1]);
        if (inside) {
          out_y.w[row * 2049u + column] = f16x2_bits_native(out_y_0);
        }
      }
    }
    {
      const uint u = 3u;
      uint column = first + u * 256u;
      if (column < 2049u) {
        vec2 in_x_0 = f16x2_values_native(in_x_w0[u]);
        vec2 in_weight_0 = f16x2_values_native(in_weight_w0[u]);
        vec2 in_bias_0 = f16x2_values_native(in_bias_w0[u]);
        vec2 out_y_0;
        pass1(in_x_0[0], v1, v8, in_weight_0[0], in_bias_0[0], v1_low, out_y_0[0]);
        pass1(in_x_0[1], v1, v8, in_weight_0[1], in_bias_0[1], v1_low, out_y_0[1]);
        if (inside) {
          out_y.w[row * 2049u + column] = f16x2_bits_native(out_y_0);
        }
      }
    }
  }
}
