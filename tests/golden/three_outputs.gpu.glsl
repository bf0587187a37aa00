#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "three outputs": exp, cast, gt
// 4 elements per chunk, 1 chunk in flight per invocation, masked tail
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint last;    // elements of the last chunk
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) ALIASED buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f32[4099]
layout(set = 0, binding = 1) ALIASED writeonly buffer Buffer1 { uvec4 w[]; } out_exp;  // %1 : f32[4099]
layout(set = 0, binding = 2) writeonly buffer Buffer2 { uvec2 w[]; } out_half;  // %2 : f16[4099]
layout(set = 0, binding = 3) writeonly buffer Buffer3 { uint w[]; } out_larger;  // %3 : bool[4099]

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

// Vulkan's precision, 3 + 2|x| ulp; NaN, which a driver may lose, stays NaN.
float f32_exp(float x) {
  float power = exp(x);
  return f32_is_nan(x) ? x : power;
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

uint u8x4_bits(uvec4 v) {
  uvec4 bytes = v & 0xffu;
  return bytes.x | (bytes.y << 8) | (bytes.z << 16) | (bytes.w << 24);
}

uint boolx4_bits(bvec4 v) {
  return u8x4_bits(uvec4(v));
}

// One element.
void element(float in_x, out float out_exp_result, out float out_half_result, out bool out_larger_result) {
  precise float out_exp = f32_exp(in_x);
  precise float out_half = out_exp;
  bool out_larger = out_exp > in_x;
  out_exp_result = out_exp;
  out_half_result = out_half;
  out_larger_result = out_larger;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uvec4 in_x_w0 = in_x.w[chunk];
  vec4 in_x_0 = uintBitsToFloat(in_x_w0);
  vec4 out_exp_0;
  vec4 out_half_0;
  bvec4 out_larger_0;
  element(in_x_0[0], out_exp_0[0], out_half_0[0], out_larger_0[0]);
  element(in_x_0[1], out_exp_0[1], out_half_0[1], out_larger_0[1]);
  element(in_x_0[2], out_exp_0[2], out_half_0[2], out_larger_0[2]);
  element(in_x_0[3], out_exp_0[3], out_half_0[3], out_larger_0[3]);
  uvec4 out_exp_w0 = floatBitsToUint(out_exp_0);
  if (chunk + 1u < p.chunks || p.last == 4u) {
    out_exp.w[chunk] = out_exp_w0;
  } else {
    for (uint k = 0u; k < 4u && k < p.last; ++k) out_exp.w[chunk][k] = out_exp_w0[k];
  }
  uvec2 out_half_w0 = uvec2(f16x2_bits_native(out_half_0.xy), f16x2_bits_native(out_half_0.zw));
  if (chunk + 1u < p.chunks || p.last == 4u) {
    out_half.w[chunk] = out_half_w0;
  } else {
    for (uint k = 0u; k < 2u && k < (p.last + 1u) / 2u; ++k) out_half.w[chunk][k] = out_half_w0[k];
  }
  out_larger.w[chunk] = boolx4_bits(out_larger_0);
}
