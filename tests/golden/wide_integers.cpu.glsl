#version 450
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "wide integers": cast, mul, max
// 4 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_y;  // %0 : i32[100]
layout(set = 0, binding = 1) ALIASED readonly buffer Buffer1 { uvec4 w[]; } in_x;  // %2 : i64[100]
layout(set = 0, binding = 2) ALIASED writeonly buffer Buffer2 { uvec4 w[]; } out_z;  // %5 : i64[100]

// Sign-extends.
uvec2 pair_from_i32(int x) {
  return uvec2(uint(x), uint(x >> 31));
}

// Wraps.
uvec2 pair_mul(uvec2 x, uvec2 y) {
  uint low;
  uint high;
  umulExtended(x.x, y.x, high, low);
  return uvec2(low, high + x.x * y.y + x.y * y.x);
}

bool i64p_lt(uvec2 x, uvec2 y) {
  bool high = int(x.y) < int(y.y);
  bool same = x.y == y.y;
  bool low = x.x < y.x;
  return high || (same && low);
}

uvec2 i64p_max(uvec2 x, uvec2 y) {
  return i64p_lt(x, y) ? y : x;
}

// One element.
void element(int in_y, uvec2 in_x, out uvec2 out_z_result) {
  uvec2 v1 = pair_from_i32(in_y);
  uvec2 v3 = pair_mul(v1, in_x);
  uvec2 out_z = i64p_max(v3, uvec2(0xd5fa0e00u, 0xfffffffeu));
  out_z_result = out_z;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uvec4 in_y_w0 = in_y.w[chunk];
  uvec4 in_x_w0 = in_x.w[chunk * 2u];
  uvec4 in_x_w1 = in_x.w[chunk * 2u + 1u];
  ivec4 in_y_0 = ivec4(in_y_w0);
  uvec2[4] in_x_0 = uvec2[4](uvec2(in_x_w0.x, in_x_w0.y), uvec2(in_x_w0.z, in_x_w0.w), uvec2(in_x_w1.x, in_x_w1.y), uvec2(in_x_w1.z, in_x_w1.w));
  uvec2[4] out_z_0;
  element(in_y_0[0], in_x_0[0], out_z_0[0]);
  element(in_y_0[1], in_x_0[1], out_z_0[1]);
  element(in_y_0[2], in_x_0[2], out_z_0[2]);
  element(in_y_0[3], in_x_0[3], out_z_0[3]);
  out_z.w[chunk * 2u] = uvec4(out_z_0[0].x, out_z_0[0].y, out_z_0[1].x, out_z_0[1].y);
  out_z.w[chunk * 2u + 1u] = uvec4(out_z_0[2].x, out_z_0[2].y, out_z_0[3].x, out_z_0[3].y);
}
