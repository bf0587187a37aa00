#version 450
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "masks": gt, and, not, select
// 4 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) ALIASED readonly buffer Buffer0 { uint w[]; } in_x;  // %0 : i8[1000]
layout(set = 0, binding = 1) ALIASED readonly buffer Buffer1 { uint w[]; } in_keep;  // %3 : bool[1000]
layout(set = 0, binding = 2) ALIASED writeonly buffer Buffer2 { uint w[]; } out_y;  // %6 : i8[1000]

ivec4 i8x4_values(uint word) {
  return ivec4(int(word << 24), int(word << 16), int(word << 8), int(word)) >> 24;
}

uvec4 u8x4_values(uint word) {
  return (uvec4(word) >> uvec4(0u, 8u, 16u, 24u)) & 0xffu;
}

bvec4 boolx4_values(uint word) {
  return notEqual(u8x4_values(word), uvec4(0u));
}

uint i8x4_bits(ivec4 v) {
  uvec4 bytes = uvec4(v) & 0xffu;
  return bytes.x | (bytes.y << 8) | (bytes.z << 16) | (bytes.w << 24);
}

// One element.
void element(int in_x, bool in_keep, out int out_y_result) {
  bool v2 = in_x > 3;
  bool v4 = v2 && in_keep;
  bool v5 = !v4;
  int out_y = bitfieldExtract(v5 ? 3 : in_x, 0, 8);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uint in_x_w0 = in_x.w[chunk];
  uint in_keep_w0 = in_keep.w[chunk];
  ivec4 in_x_0 = i8x4_values(in_x_w0);
  bvec4 in_keep_0 = boolx4_values(in_keep_w0);
  ivec4 out_y_0;
  element(in_x_0[0], in_keep_0[0], out_y_0[0]);
  element(in_x_0[1], in_keep_0[1], out_y_0[1]);
  element(in_x_0[2], in_keep_0[2], out_y_0[2]);
  element(in_x_0[3], in_keep_0[3], out_y_0[3]);
  out_y.w[chunk] = i8x4_bits(out_y_0);
}
