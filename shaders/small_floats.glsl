// f16 and bf16 in integer arithmetic: the built-in packing loses infinities and neighbours on some
// drivers, and its rounding is the driver's choice.

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

// The nearest f16, halves to even.
float f16_round(float x) {
  uint bits = floatBitsToUint(x);
  uint sign = bits & 0x80000000u;
  uint magnitude = bits & 0x7fffffffu;
  uint normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u)) & 0xffffe000u;
  // Below 2^-14 to whole units of 2^-24; what a device may flush to zero is far below half of one.
  precise float units = roundEven(uintBitsToFloat(min(magnitude, 0x38800000u)) * 16777216.0);
  precise float small = units * 5.9604644775390625e-08;
  uint subnormal = floatBitsToUint(small);
  uint value = magnitude >= 0x38800000u ? normal : subnormal;
  value = magnitude >= 0x477ff000u ? 0x7f800000u : value;  // from 65520 on
  value |= sign;
  return uintBitsToFloat(magnitude > 0x7f800000u ? 0x7fc00000u : value);
}

// The bits of the nearest bf16, halves to even; NaN becomes the canonical 0x7fc0. Selects here, too.
uint bf16_bits(float x) {
  uint bits = floatBitsToUint(x);
  uint rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded;
}

// The value of bf16 bits, exactly; NaN becomes the canonical quiet one. High bits must be zero.
float bf16_value(uint bits) {
  uint value = bits << 16;
  value = (bits & 0x7fffu) > 0x7f80u ? 0x7fc00000u : value;
  return uintBitsToFloat(value);
}

// The nearest bf16, halves to even.
float bf16_round(float x) {
  return bf16_value(bf16_bits(x));
}
