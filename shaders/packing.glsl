// Words of a buffer and the elements they hold. A word is always read and written whole, so 8- and
// 16-bit tensors need no 8- or 16-bit storage.

vec2 f16x2_values(uint word) {
  return vec2(f16_value(word & 0xffffu), f16_value(word >> 16));
}

uint f16x2_bits(vec2 v) {
  return f16_bits(v.x) | (f16_bits(v.y) << 16);
}

// With the device's own conversions (feature tier T2); its self-test has shown them to round to nearest even.
vec2 f16x2_values_native(uint word) {
  return vec2(unpackFloat2x16(word));
}

uint f16x2_bits_native(vec2 v) {
  return packFloat2x16(f16vec2(v));
}

// `zero` is 0, which the compiler must not know: NVIDIA's takes a number that is rounded and read again for what it
// was.
float f16_round_native(uint zero, float x) {
  return f16x2_values_native(f16x2_bits_native(vec2(x, 0.0)) | zero).x;
}

vec2 bf16x2_values(uint word) {
  return uintBitsToFloat(uvec2(word << 16, word & 0xffff0000u));
}

uint bf16x2_bits(vec2 v) {
  return bf16_bits(v.x) | (bf16_bits(v.y) << 16);
}

ivec2 i16x2_values(uint word) {
  return ivec2(int(word << 16), int(word)) >> 16;
}

uint i16x2_bits(ivec2 v) {
  return (uint(v.x) & 0xffffu) | (uint(v.y) << 16);
}

uvec2 u16x2_values(uint word) {
  return uvec2(word & 0xffffu, word >> 16);
}

uint u16x2_bits(uvec2 v) {
  return (v.x & 0xffffu) | (v.y << 16);
}

ivec4 i8x4_values(uint word) {
  return ivec4(int(word << 24), int(word << 16), int(word << 8), int(word)) >> 24;
}

uint i8x4_bits(ivec4 v) {
  uvec4 bytes = uvec4(v) & 0xffu;
  return bytes.x | (bytes.y << 8) | (bytes.z << 16) | (bytes.w << 24);
}

uvec4 u8x4_values(uint word) {
  return (uvec4(word) >> uvec4(0u, 8u, 16u, 24u)) & 0xffu;
}

uint u8x4_bits(uvec4 v) {
  uvec4 bytes = v & 0xffu;
  return bytes.x | (bytes.y << 8) | (bytes.z << 16) | (bytes.w << 24);
}

bvec4 boolx4_values(uint word) {
  return notEqual(u8x4_values(word), uvec4(0u));
}

uint boolx4_bits(bvec4 v) {
  return u8x4_bits(uvec4(v));
}
