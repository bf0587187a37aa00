#version 450
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "many inputs": add, add
// 4 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) ALIASED readonly buffer Buffer0 { uvec4 w[]; } in_a;  // %0 : f32[256]
layout(set = 0, binding = 1) ALIASED readonly buffer Buffer1 { uvec4 w[]; } in_b;  // %1 : f32[256]
layout(set = 0, binding = 2) ALIASED readonly buffer Buffer2 { uvec4 w[]; } in_c;  // %3 : f32[256]
layout(set = 0, binding = 3) ALIASED writeonly buffer Buffer3 { uvec4 w[]; } v4;  // %4 : f32[256]

// One element.
void element(float in_a, float in_b, float in_c, out float v4_result) {
  precise float v2 = in_a + in_b;
  precise float v4 = v2 + in_c;
  v4_result = v4;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uvec4 in_a_w0 = in_a.w[chunk];
  uvec4 in_b_w0 = in_b.w[chunk];
  uvec4 in_c_w0 = in_c.w[chunk];
  vec4 in_a_0 = uintBitsToFloat(in_a_w0);
  vec4 in_b_0 = uintBitsToFloat(in_b_w0);
  vec4 in_c_0 = uintBitsToFloat(in_c_w0);
  vec4 v4_0;
  element(in_a_0[0], in_b_0[0], in_c_0[0], v4_0[0]);
  element(in_a_0[1], in_b_0[1], in_c_0[1], v4_0[1]);
  element(in_a_0[2], in_b_0[2], in_c_0[2], v4_0[2]);
  element(in_a_0[3], in_b_0[3], in_c_0[3], v4_0[3]);
  v4.w[chunk] = floatBitsToUint(v4_0);
}

#version 450
#extension GL_EXT_spirv_intrinsics : require

// segment 1 of graph "many inputs": add
// 4 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) ALIASED readonly buffer Buffer0 { uvec4 w[]; } v4;  // %4 : f32[256]
layout(set = 0, binding = 1) ALIASED readonly buffer Buffer1 { uvec4 w[]; } in_d;  // %5 : f32[256]
layout(set = 0, binding = 2) ALIASED writeonly buffer Buffer2 { uvec4 w[]; } out_sum;  // %6 : f32[256]

// One element.
void element(float v4, float in_d, out float out_sum_result) {
  precise float out_sum = v4 + in_d;
  out_sum_result = out_sum;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uvec4 v4_w0 = v4.w[chunk];
  uvec4 in_d_w0 = in_d.w[chunk];
  vec4 v4_0 = uintBitsToFloat(v4_w0);
  vec4 in_d_0 = uintBitsToFloat(in_d_w0);
  vec4 out_sum_0;
  element(v4_0[0], in_d_0[0], out_sum_0[0]);
  element(v4_0[1], in_d_0[1], out_sum_0[1]);
  element(v4_0[2], in_d_0[2], out_sum_0[2]);
  element(v4_0[3], in_d_0[3], out_sum_0[3]);
  out_sum.w[chunk] = floatBitsToUint(out_sum_0);
}
