#version 450
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "many inputs": add, add
// 1 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) ALIASED readonly buffer Buffer0 { uint w[]; } in_a;  // %0 : f32[256]
layout(set = 0, binding = 1) ALIASED readonly buffer Buffer1 { uint w[]; } in_b;  // %1 : f32[256]
layout(set = 0, binding = 2) ALIASED readonly buffer Buffer2 { uint w[]; } in_c;  // %3 : f32[256]
layout(set = 0, binding = 3) ALIASED writeonly buffer Buffer3 { uint w[]; } v4;  // %4 : f32[256]

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
  uint in_a_w0 = in_a.w[chunk];
  uint in_b_w0 = in_b.w[chunk];
  uint in_c_w0 = in_c.w[chunk];
  float in_a_0 = uintBitsToFloat(in_a_w0);
  float in_b_0 = uintBitsToFloat(in_b_w0);
  float in_c_0 = uintBitsToFloat(in_c_w0);
  float v4_0;
  element(in_a_0, in_b_0, in_c_0, v4_0);
  v4.w[chunk] = floatBitsToUint(v4_0);
}

#version 450
#extension GL_EXT_spirv_intrinsics : require

// segment 1 of graph "many inputs": add
// 1 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) ALIASED readonly buffer Buffer0 { uint w[]; } v4;  // %4 : f32[256]
layout(set = 0, binding = 1) ALIASED readonly buffer Buffer1 { uint w[]; } in_d;  // %5 : f32[256]
layout(set = 0, binding = 2) ALIASED writeonly buffer Buffer2 { uint w[]; } out_sum;  // %6 : f32[256]

// One element.
void element(float v4, float in_d, out float out_sum_result) {
  precise float out_sum = v4 + in_d;
  out_sum_result = out_sum;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uint v4_w0 = v4.w[chunk];
  uint in_d_w0 = in_d.w[chunk];
  float v4_0 = uintBitsToFloat(v4_w0);
  float in_d_0 = uintBitsToFloat(in_d_w0);
  float out_sum_0;
  element(v4_0, in_d_0, out_sum_0);
  out_sum.w[chunk] = floatBitsToUint(out_sum_0);
}
