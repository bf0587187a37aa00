#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "ranks 1 to 4": mul, add, fma
// 2 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) ALIASED readonly buffer Buffer0 { uint w[]; } in_x;  // %0 : f16[6, 5, 4, 64]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uint w[]; } in_channel;  // %1 : f16[5, 1, 1]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uint w[]; } in_row;  // %3 : f16[64]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uint w[]; } in_matrix;  // %5 : f16[4, 64]
layout(set = 0, binding = 4) ALIASED writeonly buffer Buffer4 { uint w[]; } out_y;  // %6 : f16[6, 5, 4, 64]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

// One element.
void element(float in_x, float in_row, float in_matrix, float in_channel_e, out float out_y_result) {
  precise float v4 = fma(in_x, in_channel_e, in_row);
  precise float out_y = fma(v4, in_matrix, in_x);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uint q = chunk / 128u;
  uint r = q % 5u;
  float in_channel_e = f16x2_values_native(in_channel.w[r >> 1] >> ((r & 1u) * 16u))[0];
  uint in_x_w0 = in_x.w[chunk];
  uint r1 = chunk % 32u;
  uint in_row_w0 = in_row.w[r1];
  uint r2 = chunk % 128u;
  uint in_matrix_w0 = in_matrix.w[r2];
  vec2 in_x_0 = f16x2_values_native(in_x_w0);
  vec2 in_row_0 = f16x2_values_native(in_row_w0);
  vec2 in_matrix_0 = f16x2_values_native(in_matrix_w0);
  vec2 out_y_0;
  element(in_x_0[0], in_row_0[0], in_matrix_0[0], in_channel_e, out_y_0[0]);
  element(in_x_0[1], in_row_0[1], in_matrix_0[1], in_channel_e, out_y_0[1]);
  out_y.w[chunk] = f16x2_bits_native(out_y_0);
}
