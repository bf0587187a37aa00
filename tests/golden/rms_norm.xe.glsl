#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "residual and RMS norm": add, mul, reduce_mean, add, rsqrt, reshape, mul, mul
// 256 threads per row, 1 row per workgroup, 8 elements per chunk, 2 chunks per thread, kept in registers
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // rows
  uint row;     // workgroups in one row of the dispatch
  uint size0;
  uint size1;
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_residual;  // %0 : f16[n, 4096]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_x;  // %1 : f16[n, 4096]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_weight;  // %10 : f16[4096]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec4 w[]; } out_sum;  // %2 : f16[n, 4096]
layout(set = 0, binding = 4) writeonly buffer Buffer4 { uvec4 w[]; } out_y;  // %11 : f16[n, 4096]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
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

shared float v4_shared[16];

void v4_join(inout float a, float b) {
  precise float joined = a + b;
  a = joined;
}

// One element of pass 0.
void pass0(float in_residual, float in_x, inout float v4, out float out_sum_result) {
  precise float out_sum = in_residual + in_x;
  precise float v4_more = fma(out_sum, out_sum, v4);
  v4 = v4_more;
  out_sum_result = out_sum;
}

// One element of pass 1.
void pass1(float in_residual, float in_x, float v7, float in_weight, out float out_y_result) {
  precise float out_sum = in_residual + in_x;
  precise float v9 = v7 * out_sum;
  precise float out_y = v9 * in_weight;
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint reduction_thread = thread;
  uint row = workgroup;
  bool inside = row < p.chunks;
  row = min(row, p.chunks - 1u);
  uvec4 in_residual_w0[2];
  uvec4 in_x_w0[2];
  uvec4 in_weight_w0[2];
  [[unroll]] for (uint t = 0u; t < 2u; ++t) {
    uint column = t * 256u + reduction_thread;
    in_residual_w0[t] = in_residual.w[row * p.size0 + column];
    in_x_w0[t] = in_x.w[row * p.size0 + column];
    in_weight_w0[t] = in_weight.w[column];
  }
  float v4 = 0.0;
  [[unroll]] for (uint t = 0u; t < 2u; ++t) {
    uint column = t * 256u + reduction_thread;
    vec4 in_residual_0 = vec4(f16x2_values_native(in_residual_w0[t].x), f16x2_values_native(in_residual_w0[t].y));
    vec4 in_x_0 = vec4(f16x2_values_native(in_x_w0[t].x), f16x2_values_native(in_x_w0[t].y));
    vec4 out_sum_0;
    pass0(in_residual_0[0], in_x_0[0], v4, out_sum_0[0]);
    pass0(in_residual_0[1], in_x_0[1], v4, out_sum_0[1]);
    pass0(in_residual_0[2], in_x_0[2], v4, out_sum_0[2]);
    pass0(in_residual_0[3], in_x_0[3], v4, out_sum_0[3]);
    vec4 in_residual_1 = vec4(f16x2_values_native(in_residual_w0[t].z), f16x2_values_native(in_residual_w0[t].w));
    vec4 in_x_1 = vec4(f16x2_values_native(in_x_w0[t].z), f16x2_values_native(in_x_w0[t].w));
    vec4 out_sum_1;
    pass0(in_residual_1[0], in_x_1[0], v4, out_sum_1[0]);
    pass0(in_residual_1[1], in_x_1[1], v4, out_sum_1[1]);
    pass0(in_residual_1[2], in_x_1[2], v4, out_sum_1[2]);
    pass0(in_residual_1[3], in_x_1[3], v4, out_sum_1[3]);
    if (inside) {
      out_sum.w[row * p.size0 + column] = uvec4(f16x2_bits_native(out_sum_0.xy), f16x2_bits_native(out_sum_0.zw), f16x2_bits_native(out_sum_1.xy), f16x2_bits_native(out_sum_1.zw));
    }
  }
  for (uint mask = 8u; mask > 0u; mask >>= 1) {
    v4_join(v4, subgroupShuffleXor(v4, mask));
  }
  if (gl_SubgroupInvocationID == 0u) {
    v4_shared[gl_SubgroupID] = v4;
  }
  barrier();
  v4 = v4_shared[gl_SubgroupInvocationID];
  for (uint mask = 8u; mask > 0u; mask >>= 1) {
    v4_join(v4, subgroupShuffleXor(v4, mask));
  }
  v4 = v4 / float(p.size1);
  precise float v6 = v4 + 1.001358e-05;
  precise float v7 = f32_rsqrt(v6);
  [[unroll]] for (uint t = 0u; t < 2u; ++t) {
    uint column = t * 256u + reduction_thread;
    vec4 in_residual_0 = vec4(f16x2_values_native(in_residual_w0[t].x), f16x2_values_native(in_residual_w0[t].y));
    vec4 in_x_0 = vec4(f16x2_values_native(in_x_w0[t].x), f16x2_values_native(in_x_w0[t].y));
    vec4 in_weight_0 = vec4(f16x2_values_native(in_weight_w0[t].x), f16x2_values_native(in_weight_w0[t].y));
    vec4 out_y_0;
    pass1(in_residual_0[0], in_x_0[0], v7, in_weight_0[0], out_y_0[0]);
    pass1(in_residual_0[1], in_x_0[1], v7, in_weight_0[1], out_y_0[1]);
    pass1(in_residual_0[2], in_x_0[2], v7, in_weight_0[2], out_y_0[2]);
    pass1(in_residual_0[3], in_x_0[3], v7, in_weight_0[3], out_y_0[3]);
    vec4 in_residual_1 = vec4(f16x2_values_native(in_residual_w0[t].z), f16x2_values_native(in_residual_w0[t].w));
    vec4 in_x_1 = vec4(f16x2_values_native(in_x_w0[t].z), f16x2_values_native(in_x_w0[t].w));
    vec4 in_weight_1 = vec4(f16x2_values_native(in_weight_w0[t].z), f16x2_values_native(in_weight_w0[t].w));
    vec4 out_y_1;
    pass1(in_residual_1[0], in_x_1[0], v7, in_weight_1[0], out_y_1[0]);
    pass1(in_residual_1[1], in_x_1[1], v7, in_weight_1[1], out_y_1[1]);
    pass1(in_residual_1[2], in_x_1[2], v7, in_weight_1[2], out_y_1[2]);
    pass1(in_residual_1[3], in_x_1[3], v7, in_weight_1[3], out_y_1[3]);
    if (inside) {
      out_y.w[row * p.size0 + column] = uvec4(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw), f16x2_bits_native(out_y_1.xy), f16x2_bits_native(out_y_1.zw));
    }
  }
}
