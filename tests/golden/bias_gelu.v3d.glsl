#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "bias + GELU": add, mul, mul, erf, fma
// 8 elements per chunk, 1 chunk in flight per invocation
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint row;     // workgroups in one row of the dispatch
  uint size0;
  uint magic0;
  uint shift0;
} p;

layout(set = 0, binding = 0) ALIASED readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[n, 768]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uvec4 w[]; } in_bias;  // %1 : f16[768]
layout(set = 0, binding = 2) ALIASED writeonly buffer Buffer2 { uvec4 w[]; } out_y;  // %8 : f16[n, 768]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

// Below 2^-6, where a function is as good as linear, and NaN: one unsigned compare finds both.
bool f16_keeps(float x) {
  return f32_magnitude_bits(x) - 0x3c800000u > 0x43000000u;
}

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

// The exponent is a minimax log2(1 - erf(a)), good to 2^-20 of erf; a small x has erf 2/sqrt(pi) x.
float f16_erf(float x) {
  precise float a = min(abs(x), 4.0);
  precise float p = fma(-0.0029961006, a, 0.029797269);
  p = fma(p, a, -0.14893696);
  p = fma(p, a, -0.9183765);
  p = fma(p, a, -1.6279082);
  precise float far = 1.0 - exp2(p * a);
  precise float near = x * 1.1283792;
  return f16_keeps(x) ? near : f32_copy_sign(far, x);
}

// n / d for n < 2^31, by multiplication: magic = ceil(2^(31 + shift) / d) with shift = ceil(log2 d).
uint quotient(uint n, uint magic, uint shift) {
  uint high, low;
  umulExtended(n << 1, magic, high, low);
  return high >> shift;
}

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

// One element.
void element(float in_x, float in_bias, out float out_y_result) {
  precise float v2 = in_x + in_bias;
  precise float v4 = v2 * 0.5;
  precise float v6 = v2 * 0.70703125;
  precise float v7 = f16_erf(v6);
  precise float out_y = fma(v4, v7, v4);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uvec4 in_x_w0 = in_x.w[chunk];
  uint r = chunk - quotient(chunk, p.magic0, p.shift0) * p.size0;
  uvec4 in_bias_w0 = in_bias.w[r];
  vec4 in_x_0 = vec4(f16x2_values_native(in_x_w0.x), f16x2_values_native(in_x_w0.y));
  vec4 in_bias_0 = vec4(f16x2_values_native(in_bias_w0.x), f16x2_values_native(in_bias_w0.y));
  vec4 out_y_0;
  element(in_x_0[0], in_bias_0[0], out_y_0[0]);
  element(in_x_0[1], in_bias_0[1], out_y_0[1]);
  element(in_x_0[2], in_bias_0[2], out_y_0[2]);
  element(in_x_0[3], in_bias_0[3], out_y_0[3]);
  vec4 in_x_1 = vec4(f16x2_values_native(in_x_w0.z), f16x2_values_native(in_x_w0.w));
  vec4 in_bias_1 = vec4(f16x2_values_native(in_bias_w0.z), f16x2_values_native(in_bias_w0.w));
  vec4 out_y_1;
  element(in_x_1[0], in_bias_1[0], out_y_1[0]);
  element(in_x_1[1], in_bias_1[1], out_y_1[1]);
  element(in_x_1[2], in_bias_1[2], out_y_1[2]);
  element(in_x_1[3], in_bias_1[3], out_y_1[3]);
  out_y.w[chunk] = uvec4(f16x2_bits_native(out_y_0.xy), f16x2_bits_native(out_y_0.zw), f16x2_bits_native(out_y_1.xy), f16x2_bits_native(out_y_1.zw));
}
