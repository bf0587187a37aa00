// Tests and exact changes of floats on their bits: no driver can flush, fold or assume them away.

// The bits without the sign: 0 for both zeros, above 0x7f800000 for NaN.
uint f32_magnitude_bits(float x) {
  return floatBitsToUint(x) & 0x7fffffffu;
}

bool f32_is_nan(float x) {
  return f32_magnitude_bits(x) > 0x7f800000u;
}

bool f32_is_inf(float x) {
  return f32_magnitude_bits(x) == 0x7f800000u;
}

bool f32_is_finite(float x) {
  return f32_magnitude_bits(x) < 0x7f800000u;
}

bool f32_is_negative(float x) {
  return (floatBitsToUint(x) & 0x80000000u) != 0u;
}

float f32_nan() {
  return uintBitsToFloat(0x7fc00000u);
}

float f32_infinity() {
  return uintBitsToFloat(0x7f800000u);
}

// The magnitude of x with the sign of s, exactly, zeros and denormals included: negations flush those on SwiftShader,
// and on NVIDIA whatever bits of a magnitude are flipped is a negation. Not by masking and joining bits: in kernels
// that divide positions, Mesa 22.3's CPU driver then loses the exponent.
float f32_copy_sign(float x, float s) {
  uint bits = floatBitsToUint(x);
  return uintBitsToFloat(f32_is_negative(s) == f32_is_negative(x) ? bits : bits ^ 0x80000000u);
}

// 2^e for -126 <= e <= 127, exactly.
float f32_power_of_two(int e) {
  return uintBitsToFloat(uint(e + 127) << 23);
}

// x * 2^e for |e| <= 252, in two steps so that neither factor overflows.
float f32_scale(float x, int e) {
  int half_way = e / 2;
  precise float result = x * f32_power_of_two(half_way) * f32_power_of_two(e - half_way);
  return result;
}

// The top 12 significant bits of x: its square, and its product with another such, are exact.
float f32_top(float x) {
  return uintBitsToFloat(floatBitsToUint(x) & 0xfffff000u);
}

// a * b less its rounding p = a * b: the part that p lost.
float f32_product_rest(float a, float b, float p) {
  float a_top = f32_top(a);
  float b_top = f32_top(b);
  precise float a_rest = a - a_top;
  precise float b_rest = b - b_top;
  precise float rest = ((a_top * b_top - p) + a_top * b_rest + a_rest * b_top) + a_rest * b_rest;
  return rest;
}
