#version 450

// segment 0 of graph "slice, pointwise, permute": slice, tanh, permute, reshape
// 4 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f32[32, 64, 132]
layout(set = 0, binding = 1) writeonly buffer Buffer1 { uvec4 w[]; } out_y;  // %4 : f32[64, 1920]

bool f32_is_negative(float x) {
  return (floatBitsToUint(x) & 0x80000000u) != 0u;
}

// The magnitude of x with the sign of s, exactly, zeros and denormals included: negations flush those on SwiftShader,
// and on NVIDIA whatever bits of a magnitude are flipped is a negation. Not by masking and joining bits: in kernels
// that divide positions, Mesa 22.3's CPU driver then loses the exponent.
float f32_copy_sign(float x, float s) {
  uint bits = floatBitsToUint(x);
  return uintBitsToFloat(f32_is_negative(s) == f32_is_negative(x) ? bits : bits ^ 0x80000000u);
}

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// 9 ulp at 0.625, by what Vulkan allows exp2 and the division; less elsewhere. Both ranges are computed
// and one is chosen: the invocations of a subgroup rarely agree on one, and CPU drivers pay for every
// branch. Beyond 10 the far formula rounds to 1.
float f32_tanh(float x) {
  precise float a = min(abs(x), 10.0);
  precise float far = 1.0 - 2.0 / (exp2(a * 2.88539004) + 1.0);
  precise float square = a * a;
  precise float p = -0.00571704144;
  p = p * square + 0.0206505843;
  p = p * square - 0.0537434965;
  p = p * square + 0.133314908;
  p = p * square - 0.333332837;
  p = p * square * a + a;
  float result = f32_copy_sign(a >= 0.625 ? far : p, x);
  return f32_is_nan(x) ? x : result;
}

// One element.
void element(float in_x, out float out_y_result) {
  precise float v2 = f32_tanh(in_x);
  out_y_result = v2;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uint q = chunk / 32u;
  uint r = q % 15u;
  uint r1 = chunk % 32u;
  uint q1 = chunk / 480u;
  uvec4 in_x_w0 = in_x.w[r * 4224u + r1 + 4192u - q1 * 33u];
  vec4 in_x_0 = uintBitsToFloat(in_x_w0);
  vec4 out_y_0;
  element(in_x_0[0], out_y_0[0]);
  element(in_x_0[1], out_y_0[1]);
  element(in_x_0[2], out_y_0[2]);
  element(in_x_0[3], out_y_0[3]);
  out_y.w[chunk] = floatBitsToUint(out_y_0);
}
