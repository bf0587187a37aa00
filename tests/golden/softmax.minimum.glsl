#version 450
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "softmax of the last axis": reduce_max, reshape, sub, exp, reduce_sum, reshape, div
// 64 threads per row, 2 rows per workgroup, 4 elements per chunk, 4 chunks per thread, kept in registers
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

float f32_max_bits(float x, float y) {
  float larger = x < y ? y : x;
  larger = f32_is_nan(y) ? y : larger;
  return f32_is_nan(x) ? x : larger;
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

shared float v1_shared[128];
shared float v5_shared[128];

void v1_join(inout float a, float b) {
  precise float joined = f32_max_bits(a, b);
  a = joined;
}

void v5_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

// One element of pass 0.
void pass0(float in_x, inout float v1) {
  v1_join(v1, in_x);
}

// One element of pass 1.
void pass1(float in_x, float v1, inout float v5) {
  precise float v3 = in_x - v1;
  precise float v4 = f32_exp(v3);
  v5_join(v5, v4);
}

// One element of pass 2.
void pass2(float in_x, float v1, float v5, out float out_y_result) {
  precise float v3 = in_x - v1;
  precise float v4 = f32_exp(v3);
  precise float out_y = f32_div(v4, v5);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_LocalInvocationID.x;
  uint reduction_thread = thread % 64u;
  uint row = workgroup * 2u + thread / 64u;
  bool inside = row < p.chunks;
  row = min(row, p.chunks - 1u);
  uvec4 in_x_w0[4];
  [[unroll]] for (uint t = 0u; t < 4u; ++t) {
    uint column = min(t * 64u + reduction_thread, 249u);
    in_x_w0[t] = in_x.w[row * 250u + column];
  }
  float v1 = uintBitsToFloat(0xff800000u);
  [[unroll]] for (uint t = 0u; t < 4u; ++t) {
    uint column = t * 64u + reduction_thread;
    if (column < 250u) {
      vec4 in_x_0 = uintBitsToFloat(in_x_w0[t]);
      pass0(in_x_0[0], v1);
      pass0(in_x_0[1], v1);
      pass0(in_x_0[2], v1);
      pass0(in_x_0[3], v1);
    }
  }
  v1_shared[thread] = v1;
  barrier();
  for (uint reach = 32u; reach > 0u; reach >>= 1) {
    if (reduction_thread < reach) {
      v1_join(v1, v1_shared[thread + reach]);
      v1_shared[thread] = v1;
    }
    barrier();
  }
  v1 = v1_shared[thread - reduction_thread];
  float v5 = 0.0;
  [[unroll]] for (uint t = 0u; t < 4u; ++t) {
    uint column = t * 64u + reduction_thread;
    if (column < 250u) {
      vec4 in_x_0 = uintBitsToFloat(in_x_w0[t]);
      pass1(in_x_0[0], v1, v5);
      pass1(in_x_0[1], v1, v5);
      pass1(in_x_0[2], v1, v5);
      pass1(in_x_0[3], v1, v5);
    }
  }
  v5_shared[thread] = v5;
  barrier();
  for (uint reach = 32u; reach > 0u; reach >>= 1) {
    if (reduction_thread < reach) {
      v5_join(v5, v5_shared[thread + reach]);
      v5_shared[thread] = v5;
    }
    barrier();
  }
  v5 = v5_shared[thread - reduction_thread];
  [[unroll]] for (uint t = 0u; t < 4u; ++t) {
    uint column = t * 64u + reduction_thread;
    if (column < 250u) {
      vec4 in_x_0 = uintBitsToFloat(in_x_w0[t]);
      vec4 out_y_0;
      pass2(in_x_0[0], v1, v5, out_y_0[0]);
      pass2(in_x_0[1], v1, v5, out_y_0[1]);
      pass2(in_x_0[2], v1, v5, out_y_0[2]);
      pass2(in_x_0[3], v1, v5, out_y_0[3]);
      if (inside) {
        out_y.w[row * 250u + column] = floatBitsToUint(out_y_0);
      }
    }
  }
}
