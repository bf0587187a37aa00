#version 450
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "pad": pad, add
// 4 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uint w[]; } in_x;  // %0 : f32[30, 62]
layout(set = 0, binding = 1) ALIASED readonly buffer Buffer1 { uvec4 w[]; } in_z;  // %3 : f32[32, 64]
layout(set = 0, binding = 2) ALIASED writeonly buffer Buffer2 { uvec4 w[]; } out_y;  // %4 : f32[32, 64]

// One element.
void element(uint chunk, uint j, float in_z, out float out_y_result) {
  uint q = chunk / 16u;
  uint r = chunk % 16u;
  uint in_x_i = ((q - 1u) < 30u && (j + r * 4u - 1u) < 62u) ? j + q * 62u + r * 4u - 63u : 0u;
  float in_x_e = uintBitsToFloat(in_x.w[in_x_i]);
  float v2 = ((q - 1u) < 30u && (j + r * 4u - 1u) < 62u) ? in_x_e : 0.0;
  precise float out_y = v2 + in_z;
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uvec4 in_z_w0 = in_z.w[chunk];
  vec4 in_z_0 = uintBitsToFloat(in_z_w0);
  vec4 out_y_0;
  element(chunk, 0u, in_z_0[0], out_y_0[0]);
  element(chunk, 1u, in_z_0[1], out_y_0[1]);
  element(chunk, 2u, in_z_0[2], out_y_0[2]);
  element(chunk, 3u, in_z_0[3], out_y_0[3]);
  out_y.w[chunk] = floatBitsToUint(out_y_0);
}
