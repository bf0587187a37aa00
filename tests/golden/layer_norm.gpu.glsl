#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "layer norm": reduce_mean, reshape, sub, mul, reduce_mean, add, rsqrt, reshape, ... 11 ops in all
// 256 lanes per row, 1 row per workgroup, 2 elements per item, 9 items per lane, kept in registers
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint items;  // rows
  uint row;    // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_x;  // %0 : f16[512, 4098]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uint w[]; } in_weight;  // %11 : f16[4098]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_bias;  // %13 : f16[4098]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uint w[]; } out_y;  // %14 : f16[512, 4098]

// With the device's own conversions (rung T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_negative(float x) {
  return (floatBitsToUint(x) & 0x80000000u) != 0u;
}

// The magnitude of x with the sign of s, exactly, zeros and denormals included: negations flush those on SwiftShader, and on NVIDIA whatever bits of
// a magnitude are flipped is a negation. Not by masking and joining bits: in kernels that divide positions, Mesa 22.3's CPU driver then loses the exponent.
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

shared float v1_shared[8];
shared float v5_shared[8];

void v1_join(inout float a, float b) {
  precise float joined = a + b;
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
  precise float v5_more = fma(v3, v3, v5);
  v5 = v5_more;
}

// One element of pass 2.
void pass2(float in_x, float v1, float v8, float in_weight, float in_bias, out float out_y_result) {
  precise float v3 = in_x - v1;
  precise float v10 = v8 * v3;
  precise float out_y = fma(v10, in_weight, in_bias);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint lane = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint column_lane = lane;
  uint row = workgroup;
  bool inside = row < p.items;
  row = min(row, p.items - 1u);
  uint in_x_w0[9];
  uint in_weight_w0[9];
  uint in_bias_w0[9];
  [[unroll]] for (uint t = 0u; t < 9u; ++t) {
    uint column = min(t * 256u + column_lane, 2048u);
    in_x_w0[t] = in_x.w[row * 2049u + column];
    in_weight_w0[t] = in_weight.w[column];
    in_bias_w0[t] = in_bias.w[column];
  }
  float v1 = 0.0;
  [[unroll]] for (uint t = 0u; t < 9u; ++t) {
    uint column = t * 256u + column_lane;
    if (column < 2049u) {
      vec2 in_x_0 = f16x2_values_native(in_x_w0[t]);
      pass0(in_x_0[0], v1);
      pass0(in_x_0[1], v1);
    }
  }
  for (uint mask = 16u; mask > 0u; mask >>= 1) {
    v1_join(v1, subgroupShuffleXor(v1, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v1_shared[gl_SubgroupID] = v1;
  }
  barrier();
  v1 = v1_shared[gl_SubgroupInvocationID % 8u];
  for (uint mask = 4u; mask > 0u; mask >>= 1) {
    v1_join(v1, subgroupShuffleXor(v1, mask));
  }
  v1 = v1 / float(4098u);
  float v5 = 0.0;
  [[unroll]] for (uint t = 0u; t < 9u; ++t) {
    uint column = t * 256u + column_lane;
    if (column < 2049u) {
      vec2 in_x_0 = f16x2_values_native(in_x_w0[t]);
      pass1(in_x_0[0], v1, v5);
      pass1(in_x_0[1], v1, v5);
    }
  }
  for (uint mask = 16u; mask > 0u; mask >>= 1) {
    v5_join(v5, subgroupShuffleXor(v5, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v5_shared[gl_SubgroupID] = v5;
  }
  barrier();
  v5 = v5_shared[gl_SubgroupInvocationID % 8u];
  for (uint mask = 4u; mask > 0u; mask >>= 1) {
    v5_join(v5, subgroupShuffleXor(v5, mask));
  }
  v5 = v5 / float(4098u);
  precise float v7 = v5 + 1.001358e-05;
  precise float v8 = f32_rsqrt(v7);
  [[unroll]] for (uint t = 0u; t < 9u; ++t) {
    uint column = t * 256u + column_lane;
    if (column < 2049u) {
      vec2 in_x_0 = f16x2_values_native(in_x_w0[t]);
      vec2 in_weight_0 = f16x2_values_native(in_weight_w0[t]);
      vec2 in_bias_0 = f16x2_values_native(in_bias_w0[t]);
      vec2 out_y_0;
      pass2(in_x_0[0], v1, v8, in_weight_0[0], in_bias_0[0], out_y_0[0]);
      pass2(in_x_0[1], v1, v8, in_weight_0[1], in_bias_0[1], out_y_0[1]);
      if (inside) {
        out_y.w[row * 2049u + column] = f16x2_bits_native(out_y_0);
      }
    }
  }
}
