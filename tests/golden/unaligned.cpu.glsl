#version 450
#extension GL_EXT_spirv_intrinsics : require

// segment 0 of graph "unaligned rows": mul, iota, cast, add
// 8 elements per chunk, 1 chunk in flight per invocation, masked tail, chunks run across rows
layout(local_size_x_id = 0) in;
#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from

layout(push_constant) uniform Sizes {
  uint chunks;  // in the iteration space
  uint last;    // elements of the last chunk
  uint row;     // workgroups in one row of the dispatch
} p;

layout(set = 0, binding = 0) ALIASED readonly buffer Buffer0 { uvec4 w[]; } in_x;  // %0 : f16[37, 31]
layout(set = 0, binding = 1) readonly buffer Buffer1 { uint w[]; } in_scale;  // %1 : f16[37, 1]
layout(set = 0, binding = 2) ALIASED writeonly buffer Buffer2 { uvec4 w[]; } out_y;  // %5 : f16[37, 31]

// The value of f16 bits, exactly; NaN becomes the canonical quiet one. High bits must be zero.
float f16_value(uint bits) {
  uint sign = (bits & 0x8000u) << 16;
  uint magnitude = bits & 0x7fffu;
  uint normal = (magnitude << 13) + 0x38000000u;
  uint small = floatBitsToUint(float(magnitude) * 5.9604644775390625e-08);  // units of 2^-24: a normal f32
  uint value = magnitude >= 0x400u ? normal : small;
  value = magnitude >= 0x7c00u ? 0x7f800000u : value;
  value |= sign;
  value = magnitude > 0x7c00u ? 0x7fc00000u : value;
  return uintBitsToFloat(value);
}

vec2 f16x2_values(uint word) {
  return vec2(f16_value(word & 0xffffu), f16_value(word >> 16));
}

// The bits of the nearest f16, halves to even; NaN becomes the canonical 0x7e00. Selects, no branches: a kernel
// has many of these.
uint f16_bits(float x) {
  uint sign = floatBitsToUint(x) >> 16 & 0x8000u;
  uint magnitude = floatBitsToUint(x) & 0x7fffffffu;
  uint normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  // Below 2^-14 in units of 2^-24; what a device may flush to zero is far below half of one.
  precise float units = roundEven(uintBitsToFloat(min(magnitude, 0x38800000u)) * 16777216.0);
  uint small = uint(units);
  uint bits = magnitude >= 0x38800000u ? normal : small;
  bits = magnitude >= 0x477ff000u ? 0x7c00u : bits;  // from 65520 on
  bits |= sign;
  return magnitude > 0x7f800000u ? 0x7e00u : bits;
}

uint f16x2_bits(vec2 v) {
  return f16_bits(v.x) | (f16_bits(v.y) << 16);
}

// One element.
void element(uint position, float in_x, out float out_y_result) {
  uint q = position / 31u;
  float in_scale_e = f16x2_values(in_scale.w[q >> 1] >> ((q & 1u) * 16u))[0];
  uint r = position % 31u;
  int v3 = int(r);
  precise float v4 = float(v3);
  precise float out_y = fma(in_x, in_scale_e, v4);
  out_y_result = out_y;
}

void main() {
  uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;
  uint end = (p.chunks - 1u) * 8u + p.last - 1u;
  uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  uint start = chunk * 8u;
  uvec4 in_x_w0 = in_x.w[chunk];
  vec4 in_x_0 = vec4(f16x2_values(in_x_w0.x), f16x2_values(in_x_w0.y));
  vec4 out_y_0;
  element(start, in_x_0[0], out_y_0[0]);
  element(min(start + 1u, end), in_x_0[1], out_y_0[1]);
  element(min(start + 2u, end), in_x_0[2], out_y_0[2]);
  element(min(start + 3u, end), in_x_0[3], out_y_0[3]);
  vec4 in_x_1 = vec4(f16x2_values(in_x_w0.z), f16x2_values(in_x_w0.w));
  vec4 out_y_1;
  element(min(start + 4u, end), in_x_1[0], out_y_1[0]);
  element(min(start + 5u, end), in_x_1[1], out_y_1[1]);
  element(min(start + 6u, end), in_x_1[2], out_y_1[2]);
  element(min(start + 7u, end), in_x_1[3], out_y_1[3]);
  uvec4 out_y_w0 = uvec4(f16x2_bits(out_y_0.xy), f16x2_bits(out_y_0.zw), f16x2_bits(out_y_1.xy), f16x2_bits(out_y_1.zw));
  if (chunk + 1u < p.chunks || p.last == 8u) {
    out_y.w[chunk] = out_y_w0;
  } else {
    for (uint k = 0u; k < 4u && k < (p.last + 1u) / 2u; ++k) out_y.w[chunk][k] = out_y_w0[k];
  }
}
