#version 450

// segment 0 of graph "concat of a computed value, an input and a slice": neg, slice, concat, relu
// 1 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_a;  // %0 : f32[128, 64]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uint w[]; } in_b;  // %2 : f32[128, 32]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_c;  // %3 : f32[128, 100]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uint w[]; } out_y;  // %6 : f32[128, 128]

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

// One element.
void element(float in_a, float in_a_e, float in_b, float in_c, out float out_y_result, out float out_y_part_result, out float out_y_part1_result, out float out_y_part2_result) {
  precise float v1 = -in_a;
  precise float out_y = f32_max_bits(v1, 0.0);
  precise float v1_v = -in_a_e;
  precise float out_y_v = f32_max_bits(v1_v, 0.0);
  precise float out_y_v1 = f32_max_bits(in_b, 0.0);
  precise float out_y_v2 = f32_max_bits(in_c, 0.0);
  out_y_result = out_y;
  out_y_part_result = out_y_v;
  out_y_part1_result = out_y_v1;
  out_y_part2_result = out_y_v2;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uint q = chunk / 32u;
  uint r = chunk % 32u;
  uint in_a_w0 = in_a.w[q * 64u + r];
  uint in_a_e_w0 = in_a.w[q * 64u + r + 32u];
  uint in_b_w0 = in_b.w[chunk];
  uint in_c_w0 = in_c.w[q * 100u + r + 4u];
  float in_a_0 = uintBitsToFloat(in_a_w0);
  float in_a_e_0 = uintBitsToFloat(in_a_e_w0);
  float in_b_0 = uintBitsToFloat(in_b_w0);
  float in_c_0 = uintBitsToFloat(in_c_w0);
  float out_y_0;
  float out_y_part_0;
  float out_y_part1_0;
  float out_y_part2_0;
  element(in_a_0, in_a_e_0, in_b_0, in_c_0, out_y_0, out_y_part_0, out_y_part1_0, out_y_part2_0);
  out_y.w[q * 128u + r] = floatBitsToUint(out_y_0);
  out_y.w[q * 128u + r + 32u] = floatBitsToUint(out_y_part_0);
  out_y.w[q * 128u + r + 64u] = floatBitsToUint(out_y_part1_0);
  out_y.w[q * 128u + r + 96u] = floatBitsToUint(out_y_part2_0);
}
