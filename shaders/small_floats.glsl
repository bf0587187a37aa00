// f16 and bf16 in integer arithmetic: the built-in packing loses infinities and neighbours on some
// drivers, and its rounding is the driver's choice.

// The bits of the nearest f16, halves to even; NaN becomes the canonical 0x7e00.
uint f16_bits(float x) {
  uint bits = floatBitsToUint(x);
  uint sign = bits >> 16 & 0x8000u;
  uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // from 65520 on
  if (magnitude >= 0x38800000u) {                       // normal: from 2^-14 on
    return sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  if (magnitude < 0x33000000u) return sign;  // below half of the smallest, 2^-25
  int shift = 126 - int(magnitude >> 23);    // in units of 2^-24: 14 to 24
  uint fraction = (magnitude & 0x7fffffu) | 0x800000u;
  uint steps = fraction >> shift;
  uint rest = fraction & ((1u << shift) - 1u);
  uint half_way = 1u << (shift - 1);
  return sign | (steps + uint(rest > half_way || (rest == half_way && (steps & 1u) != 0u)));
}

// The value of f16 bits, exactly; NaN becomes the canonical quiet one. High bits must be zero.
float f16_value(uint bits) {
  uint sign = (bits & 0x8000u) << 16;
  uint magnitude = bits & 0x7fffu;
  if (magnitude > 0x7c00u) return uintBitsToFloat(0x7fc00000u);
  if (magnitude == 0x7c00u) return uintBitsToFloat(sign | 0x7f800000u);
  if (magnitude >= 0x400u) return uintBitsToFloat(sign | (magnitude << 13) + 0x38000000u);
  if (magnitude == 0u) return uintBitsToFloat(sign);
  int top = findMSB(magnitude);  // subnormal: magnitude * 2^-24, a normal f32
  return uintBitsToFloat(sign | uint(top + 103) << 23 | (magnitude << (23 - top) & 0x7fffffu));
}

// The nearest f16, halves to even.
float f16_round(float x) {
  return f16_value(f16_bits(x));
}

// The bits of the nearest bf16, halves to even; NaN becomes the canonical 0x7fc0.
uint bf16_bits(float x) {
  uint bits = floatBitsToUint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

// The value of bf16 bits, exactly; NaN becomes the canonical quiet one. High bits must be zero.
float bf16_value(uint bits) {
  return uintBitsToFloat((bits & 0x7fffu) > 0x7f80u ? 0x7fc00000u : bits << 16);
}

// The nearest bf16, halves to even.
float bf16_round(float x) {
  return bf16_value(bf16_bits(x));
}
