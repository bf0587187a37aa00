// Floats of 8, 6 and 4 bits: a sign, an exponent and a fraction, from the high bits down. Bits above a code do not
// count. Results are the bits of an f32, which holds each of them exactly.

// Of a code without infinities and NaN. Below the smallest normal number of the format a code counts units of its last
// place: as the last bits of a float whose own last place is as much, less that float.
uint float_bits_of_code(uint code, int bits, int fraction_bits, int bias) {
  uint sign = bitfieldExtract(code, bits - 1, 1) << 31;
  uint magnitude = bitfieldExtract(code, 0, bits - 1);
  uint normal = (magnitude << (23 - fraction_bits)) + (uint(127 - bias) << 23);
  uint least = uint(151 - bias - fraction_bits) << 23;
  precise float few = uintBitsToFloat(least | magnitude) - uintBitsToFloat(least);
  uint small = floatBitsToUint(few);
  uint value = magnitude >> fraction_bits == 0u ? small : normal;
  return sign | value;
}

uint float8_e4m3fn_bits(uint code) {
  uint bits = float_bits_of_code(code, 8, 3, 7);
  return (code & 0x7fu) == 0x7fu ? 0x7fc00000u : bits;
}

uint float8_e5m2_bits(uint code) {
  uint bits = float_bits_of_code(code, 8, 2, 15);
  uint magnitude = code & 0x7fu;
  uint infinity = bits & 0x80000000u | 0x7f800000u;
  bits = magnitude == 0x7cu ? infinity : bits;
  return magnitude > 0x7cu ? 0x7fc00000u : bits;
}

uint float8_e4m3fnuz_bits(uint code) {
  uint bits = float_bits_of_code(code, 8, 3, 8);
  return (code & 0xffu) == 0x80u ? 0x7fc00000u : bits;
}

uint float8_e5m2fnuz_bits(uint code) {
  uint bits = float_bits_of_code(code, 8, 2, 16);
  return (code & 0xffu) == 0x80u ? 0x7fc00000u : bits;
}

uint float6_e2m3fn_bits(uint code) { return float_bits_of_code(code, 6, 3, 1); }

uint float6_e3m2fn_bits(uint code) { return float_bits_of_code(code, 6, 2, 3); }

uint float4_e2m1fn_bits(uint code) { return float_bits_of_code(code, 4, 1, 1); }

// An exponent alone; the smallest is half of the smallest normal f32.
uint float8_e8m0fnu_bits(uint code) {
  uint exponent = code & 0xffu;
  uint normal = exponent << 23;
  uint bits = exponent == 0u ? 0x00400000u : normal;
  return exponent == 0xffu ? 0x7fc00000u : bits;
}

// The four codes of a word, the first in its low bits.

uvec4 float8_e4m3fn_x4_bits(uint word) {
  return uvec4(float8_e4m3fn_bits(word), float8_e4m3fn_bits(word >> 8), float8_e4m3fn_bits(word >> 16),
               float8_e4m3fn_bits(word >> 24));
}

uvec4 float8_e5m2_x4_bits(uint word) {
  return uvec4(float8_e5m2_bits(word), float8_e5m2_bits(word >> 8), float8_e5m2_bits(word >> 16),
               float8_e5m2_bits(word >> 24));
}

uvec4 float8_e4m3fnuz_x4_bits(uint word) {
  return uvec4(float8_e4m3fnuz_bits(word), float8_e4m3fnuz_bits(word >> 8), float8_e4m3fnuz_bits(word >> 16),
               float8_e4m3fnuz_bits(word >> 24));
}

uvec4 float8_e5m2fnuz_x4_bits(uint word) {
  return uvec4(float8_e5m2fnuz_bits(word), float8_e5m2fnuz_bits(word >> 8), float8_e5m2fnuz_bits(word >> 16),
               float8_e5m2fnuz_bits(word >> 24));
}

// The same with the device's own conversions of f16 (feature tier T2), which its self-test has shown to be right: codes
// are moved to where an f16 has its sign and its exponent, and what the exponents are apart is a factor.

vec4 f16x4_values_of_codes(uint even, uint odd) {
  vec2 first = vec2(unpackFloat2x16(even)), second = vec2(unpackFloat2x16(odd));
  return vec4(first.x, second.x, first.y, second.y);
}

// Codes with 4 bits of an exponent.
vec4 f16x4_values_of_e4m3(uint word) {
  return f16x4_values_of_codes((word << 8 & 0x80008000u) | (word << 7 & 0x3f803f80u),
                               (word & 0x80008000u) | (word >> 1 & 0x3f803f80u));
}

// Codes with 5 bits of an exponent.
vec4 f16x4_values_of_e5m2(uint word) { return f16x4_values_of_codes(word << 8 & 0xff00ff00u, word & 0xff00ff00u); }

// NaN where `same` has no bit of a byte.
uvec4 nan_where_zero(uvec4 bits, uint same) {
  if (((same - 0x01010101u) & ~same & 0x80808080u) == 0u) return bits;
  uvec4 bytes = uvec4(same, same >> 8, same >> 16, same >> 24) & 0xffu;
  return mix(bits, uvec4(0x7fc00000u), equal(bytes, uvec4(0u)));
}

uvec4 float8_e4m3fn_x4_bits_native(uint word) {
  return nan_where_zero(floatBitsToUint(f16x4_values_of_e4m3(word) * 256.0), ~word & 0x7f7f7f7fu);
}

uvec4 float8_e5m2_x4_bits_native(uint word) {
  uvec4 bits = floatBitsToUint(f16x4_values_of_e5m2(word));
  if (((word & 0x7f7f7f7fu) + 0x03030303u & 0x80808080u) == 0u) return bits;  // no code of a NaN
  return mix(bits, uvec4(0x7fc00000u), greaterThan(bits & 0x7fffffffu, uvec4(0x7f800000u)));
}

uvec4 float8_e4m3fnuz_x4_bits_native(uint word) {
  return nan_where_zero(floatBitsToUint(f16x4_values_of_e4m3(word) * 128.0), word ^ 0x80808080u);
}

// Exponents from 24 on are taken as 16 less, as 31 would be an infinity.
uvec4 float8_e5m2fnuz_x4_bits_native(uint word) {
  vec4 small = f16x4_values_of_e5m2(word) * 0.5, large = f16x4_values_of_e5m2(word & 0xbfbfbfbfu) * 32768.0;
  bvec4 is_large = equal(uvec4(word, word >> 8, word >> 16, word >> 24) & 0x60u, uvec4(0x60u));
  return nan_where_zero(floatBitsToUint(mix(small, large, is_large)), word ^ 0x80808080u);
}
