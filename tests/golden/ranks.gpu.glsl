#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// segment 0 of graph "ranks 1 to 4": mul, add, fma
// 8 elements per item, 1 item in flight per invocation
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint items;  // in the iteration space
  uint last;   // elements of the last item
  uint row;    // workgroups in one row of the dispatch
  uint size1;
  uint size2;
  uint size3;
  uint magic1;
  uint shift1;
  uint magic2;
  uint shift2;
  uint magic3;
  uint shift3;
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[6, 5, 4, 64]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uint w[]; } in_channel;  // %1 : f16[5, 1, 1]
layout(set = 0, binding = 2) readonly buffer Buffer2 { uvec4 w[]; } in_row;  // %2 : f16[64]
layout(set = 0, binding = 3) readonly buffer Buffer3 { uvec4 w[]; } in_matrix;  // %3 : f16[4, 64]
layout(set = 0, binding = 4) writeonly buffer Buffer4 { uvec4 w[]; } out_y;  // %6 : f16[6, 5, 4, 64]

// n / d for n < 2^31, by multiplication: magic = ceil(2^(31 + shift) / d) with shift = ceil(log2 d).
uint quotient(uint n, uint magic, uint shift) {
  uint high, low;
  umulExtended(n << 1, magic, high, low);
  return high >> shift;
}

// With the device's own conversions (rung T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

// One element.
void element(float in_x, float in_channel, float in_row, float in_matrix, out float out_y_result) {
  precise float v5 = fma(in_x, in_channel, in_row);
  precise float out_y = fma(v5, in_matrix, in_x);
  out_y_result = out_y;
}

// 4 consecutive elements.
void group(vec4 in_x, float in_channel, vec4 in_row, vec4 in_matrix, out vec4 out_y) {
  element(in_x[0], in_channel, in_row[0], in_matrix[0], out_y[0]);
  element(in_x[1], in_channel, in_row[1], in_matrix[1], out_y[1]);
  element(in_x[2], in_channel, in_row[2], in_matrix[2], out_y[2]);
  element(in_x[3], in_channel, in_row[3], in_matrix[3], out_y[3]);
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint item = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (item >= p.items) return;
  uint q3 = quotient(item, p.magic3, p.shift3);
  uint c3 = item - q3 * p.size3;
  uint q2 = quotient(q3, p.magic2, p.shift2);
  uint c2 = q3 - q2 * p.size2;
  uint q1 = quotient(q2, p.magic1, p.shift1);
  uint c1 = q2 - q1 * p.size1;
  uvec4 in_x_w0 = in_x.w[item];
  float in_channel_s = f16x2_values_native(in_channel.w[c1 >> 1])[c1 & 1u];
  uvec4 in_row_w0 = in_row.w[c3];
  uvec4 in_matrix_w0 = in_matrix.w[c2 * p.size3 + c3];
  vec4 in_x_0 = vec4(f16x2_values_native(in_x_w0.x), f16x2_values_native(in_x_w0.y));
  vec4 in_row_0 = vec4(f16x2_values_native(in_row_w0.x), f16x2_values_native(in_row_w0.y));
  vec4 in_matrix_0 = vec4(f16x2_values_native(in_matrix_w0.x), f16x2_values_native(in_matrix_w0.y));
  vec4 out_y_0;
  group(in_x_0, in_channel_s, in_row_0, in_matrix_0, out_y_0);
  vec4 in_x_1 = vec4(f16x2_values_native(in_x_w0.z), f16x2_values_native(in_x_w0.w));
  vec4 in_row_1 = vec4(f16x2_values_native(in_row_w0.z), f16x2_values_native(in_row_w0.w));
  vec4 in_matrix_1 = vec4(f16x2_values_native(in_matrix_w0.z), f16x2_values_native(in_matrix_w0.w));
  vec4 out_y_1;
  group(in_x_1, in_channel_s, in_row_1, in_matrix_1, out_y_1);
  out_y.w[item] = uvec4(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw), f16x2_bits_native(out_y_1.xy), f16x2_bits_native(out_y_1.zw));
}
