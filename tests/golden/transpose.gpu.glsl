#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

// segment 0 of graph "transpose with a bias": permute, mul, add
// tiles of 64 x 64, 8 elements per chunk, 2 chunks per invocation
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // tiles
  uint row;     // workgroups in one row of the dispatch
  uint size0;
  uint size1;
  uint size2;
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[n, m]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_b;  // %4 : f16[n]
layout(set = 0, binding = 2) writeonly buffer Buffer2 { uvec4 w[]; } out_y;  // %5 : f16[m, n]

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

shared uint in_x_tile[2112];

// One element.
void element(float in_x, float in_b, out float out_y_result) {
  precise float out_y = fma(in_x, 2.0, in_b);
  out_y_result = out_y;
}

void main() {
  uint tile = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  if (tile >= p.chunks) return;
  uint thread = gl_LocalInvocationID.x;
  uint block1 = tile % 64u;
  uint block0 = tile / 64u;
  // Vectors along the axes of memory.
  uint q = thread / 128u;
  uint r = thread % 4u;
  uint q1 = thread / 4u;
  uint r1 = q1 % 32u;
  uvec4 in_x_r0 = in_x.w[block0 * 8u + block1 * p.size0 + q * 4u + r + r1 * p.size1];
  uvec4 in_x_r1 = in_x.w[block0 * 8u + block1 * p.size0 + q * 4u + r + r1 * p.size1 + p.size2];
  uvec4 in_b_w0[2];
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint chunk = u * gl_WorkGroupSize.x + thread;
    uint r2 = chunk % 8u;
    in_b_w0[u] = in_b.w[block1 * 8u + r2];
  }
  uint in_x_to = q * 1056u + r * 264u + r1;
  in_x_tile[in_x_to] = (in_x_r0.x & 0x0000ffffu) | (in_x_r1.x << 16);
  in_x_tile[in_x_to + 33u] = (in_x_r0.x >> 16) | (in_x_r1.x & 0xffff0000u);
  in_x_tile[in_x_to + 66u] = (in_x_r0.y & 0x0000ffffu) | (in_x_r1.y << 16);
  in_x_tile[in_x_to + 99u] = (in_x_r0.y >> 16) | (in_x_r1.y & 0xffff0000u);
  in_x_tile[in_x_to + 132u] = (in_x_r0.z & 0x0000ffffu) | (in_x_r1.z << 16);
  in_x_tile[in_x_to + 165u] = (in_x_r0.z >> 16) | (in_x_r1.z & 0xffff0000u);
  in_x_tile[in_x_to + 198u] = (in_x_r0.w & 0x0000ffffu) | (in_x_r1.w << 16);
  in_x_tile[in_x_to + 231u] = (in_x_r0.w >> 16) | (in_x_r1.w & 0xffff0000u);
  barrier();
  // Items along the axes of the stores.
  [[unroll]] for (uint u = 0u; u < 2u; ++u) {
    uint chunk = u * gl_WorkGroupSize.x + thread;
    uint q2 = chunk / 8u;
    uint r2 = chunk % 8u;
    uint in_x_from = q2 * 33u + r2 * 4u;
    vec4 in_x_0 = vec4(f16x2_values_native(in_x_tile[in_x_from]), f16x2_values_native(in_x_tile[in_x_from + 1u]));
    vec4 in_b_0 = vec4(f16x2_values_native(in_b_w0[u].x), f16x2_values_native(in_b_w0[u].y));
    vec4 out_y_0;
    element(in_x_0[0], in_b_0[0], out_y_0[0]);
    element(in_x_0[1], in_b_0[1], out_y_0[1]);
    element(in_x_0[2], in_b_0[2], out_y_0[2]);
    element(in_x_0[3], in_b_0[3], out_y_0[3]);
    vec4 in_x_1 = vec4(f16x2_values_native(in_x_tile[in_x_from + 2u]), f16x2_values_native(in_x_tile[in_x_from + 3u]));
    vec4 in_b_1 = vec4(f16x2_values_native(in_b_w0[u].z), f16x2_values_native(in_b_w0[u].w));
    vec4 out_y_1;
    element(in_x_1[0], in_b_1[0], out_y_1[0]);
    element(in_x_1[1], in_b_1[1], out_y_1[1]);
    element(in_x_1[2], in_b_1[2], out_y_1[2]);
    element(in_x_1[3], in_b_1[3], out_y_1[3]);
    out_y.w[block0 * p.size0 + block1 * 8u + q2 * p.size2 + r2] = uvec4(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw), f16x2_bits_native(out_y_1.xy), f16x2_bits_native(out_y_1.zw));
  }
}
