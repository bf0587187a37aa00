// Floats of 8, 6 and 4 bits: a sign, an exponent and a fraction, from the high bits down. Bits above a code do not
// count. Results are the bits of an f32, which holds each of them exactly.

// Of a code without infinities and NaN.
uint float_bits_of_code(uint code, int bits, int fraction_bits, int bias) {
  uint sign = bitfieldExtract(code, bits - 1, 1) << 31;
  uint magnitude = bitfieldExtract(code, 0, bits - 1);
  uint normal = (magnitude << (23 - fraction_bits)) + (uint(127 - bias) << 23);
  // Below the smallest normal number of the format in units of its last place: a normal f32.
  float unit = uintBitsToFloat(uint(128 - bias - fraction_bits) << 23);
  uint small = floatBitsToUint(float(magnitude) * unit);
  return sign | (magnitude >> fraction_bits == 0u ? small : normal);
}

uint float8_e4m3fn_bits(uint code) {
  return (code & 0x7fu) == 0x7fu ? 0x7fc00000u : float_bits_of_code(code, 8, 3, 7);
}

uint float8_e5m2_bits(uint code) {
  uint magnitude = code & 0x7fu;
  uint bits = float_bits_of_code(code, 8, 2, 15);
  bits = magnitude == 0x7cu ? bits & 0x80000000u | 0x7f800000u : bits;
  return magnitude > 0x7cu ? 0x7fc00000u : bits;
}

uint float8_e4m3fnuz_bits(uint code) {
  return (code & 0xffu) == 0x80u ? 0x7fc00000u : float_bits_of_code(code, 8, 3, 8);
}

uint float8_e5m2fnuz_bits(uint code) {
  return (code & 0xffu) == 0x80u ? 0x7fc00000u : float_bits_of_code(code, 8, 2, 16);
}

uint float6_e2m3fn_bits(uint code) { return float_bits_of_code(code, 6, 3, 1); }

uint float6_e3m2fn_bits(uint code) { return float_bits_of_code(code, 6, 2, 3); }

uint float4_e2m1fn_bits(uint code) { return float_bits_of_code(code, 4, 1, 1); }

// An exponent alone; the smallest is half of the smallest normal f32.
uint float8_e8m0fnu_bits(uint code) {
  uint exponent = code & 0xffu;
  uint bits = exponent == 0u ? 0x00400000u : exponent << 23;
  return exponent == 0xffu ? 0x7fc00000u : bits;
}
