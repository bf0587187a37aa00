#version 450
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "textbook": mul, relu, add
// 4 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) ALIASED readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f32[1048576]
layout(set = 0, binding = 1) ALIASED writeonly buffer Buffer1 { uvec4 w[]; } out_y;  // %5 : f32[1048576]

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
void element(float in_x, out float out_y_result) {
  precise float v2 = in_x * 2.0;
  precise float v3 = f32_max_bits(v2, 0.0);
  precise float out_y = v3 + 1.0;
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uvec4 in_x_w0 = in_x.w[chunk];
  vec4 in_x_0 = uintBitsToFloat(in_x_w0);
  vec4 out_y_0;
  element(in_x_0[0], out_y_0[0]);
  element(in_x_0[1], out_y_0[1]);
  element(in_x_0[2], out_y_0[2]);
  element(in_x_0[3], out_y_0[3]);
  out_y.w[chunk] = floatBitsToUint(out_y_0);
}
