#version 450

// segment 0 of graph "concat of a computed value, an input and a slice": neg, slice, concat, relu
// 4 elements per item, 1 item in flight per invocation
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint items;  // in the iteration space
  uint row;    // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_a;  // %0 : f32[128, 64]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_b;  // %1 : f32[128, 32]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_c;  // %2 : f32[128, 100]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uvec4 w[]; } out_y;  // %6 : f32[128, 128]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// NaN if either operand is.
float f32_max(float x, float y) {
  bool x_is_nan = f32_is_nan(x);
  bool y_is_nan = f32_is_nan(y);
  float most = x < y ? y : x;
  most = y_is_nan ? y : most;
  return x_is_nan ? x : most;
}

// One element.
void element(uint item, uint j, float in_a, float in_b, float in_c, out float out_y_result) {
  precise float v3 = -in_a;
  uint r = item % 32u;
  float v5 = ((j + r * 4u - 64u) < 32u) ? in_b : in_c;
  float v5_v = ((j + r * 4u) < 64u) ? v3 : v5;
  precise float out_y = f32_max(v5_v, 0.0);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint item = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (item >= p.items) return;
  uint q = item / 32u;
  uint r1 = item % 32u;
  uint in_a_i = ((r1 * 4u) < 64u) ? q * 16u + r1 : 0u;
  uvec4 in_a_w0 = in_a.w[in_a_i];
  uint in_b_i = ((r1 * 4u - 64u) < 32u) ? q * 8u + r1 - 16u : 0u;
  uvec4 in_b_w0 = in_b.w[in_b_i];
  uint in_c_i = ((r1 * 4u - 96u) < 32u) ? q * 25u + r1 - 23u : 0u;
  uvec4 in_c_w0 = in_c.w[in_c_i];
  vec4 in_a_0 = uintBitsToFloat(in_a_w0);
  vec4 in_b_0 = uintBitsToFloat(in_b_w0);
  vec4 in_c_0 = uintBitsToFloat(in_c_w0);
  vec4 out_y_0;
  element(item, 0u, in_a_0[0], in_b_0[0], in_c_0[0], out_y_0[0]);
  element(item, 1u, in_a_0[1], in_b_0[1], in_c_0[1], out_y_0[1]);
  element(item, 2u, in_a_0[2], in_b_0[2], in_c_0[2], out_y_0[2]);
  element(item, 3u, in_a_0[3], in_b_0[3], in_c_0[3], out_y_0[3]);
  out_y.w[item] = floatBitsToUint(out_y_0);
}
