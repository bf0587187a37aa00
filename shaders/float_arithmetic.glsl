// Division, roots, minimum and remainder of floats. What kernels call most selects instead of branching, and `||` with
// a function after it is a branch: a driver that compiles for a CPU needs minutes for a hundred of them in a row, and
// with 288 in a thread a pool takes an H200 3.6 times as long (bench/results/h200-pools.txt).

// Within 2.5 ulp, as Vulkan promises for divisors up to 2^126: a larger one is scaled down first.
float f32_div(float x, float y) {
  float scale = f32_magnitude_bits(y) >= 0x7e800000u ? 0.0625 : 1.0;
  precise float quotient = x / (y * scale) * scale;
  return quotient;
}

// NaN if either operand is, where an execution mode keeps NaN: no order has x NaN.
float f32_min(float x, float y) {
  bool is_less = y < x;
  bool is_nan = y != y;
  return is_less || is_nan ? y : x;
}

// NaN if either operand is, where an execution mode keeps NaN: no order has x NaN.
float f32_max(float x, float y) {
  bool is_larger = x < y;
  bool is_nan = y != y;
  return is_larger || is_nan ? y : x;
}

// f32_min and f32_max where no execution mode keeps NaN: a driver may then make a minimum of the comparison, which
// gives the operand that is a number, but not of these of bits. An H200 does.
float f32_min_bits(float x, float y) {
  float lesser = y < x ? y : x;
  lesser = f32_is_nan(y) ? y : lesser;
  return f32_is_nan(x) ? x : lesser;
}

float f32_max_bits(float x, float y) {
  float larger = x < y ? y : x;
  larger = f32_is_nan(y) ? y : larger;
  return f32_is_nan(x) ? x : larger;
}

// -1, 0 or 1; NaN for NaN.
float f32_sign(float x) {
  if (f32_is_nan(x) || f32_magnitude_bits(x) == 0u) return x;
  return f32_is_negative(x) ? -1.0 : 1.0;
}

// Vulkan's precision inside the domain; zeros, infinity and NaN give themselves, negatives NaN.
float f32_sqrt(float x) {
  uint magnitude = f32_magnitude_bits(x);
  if (magnitude == 0u || magnitude > 0x7f800000u) return x;
  if (f32_is_negative(x)) return f32_nan();
  return magnitude == 0x7f800000u ? x : sqrt(x);
}

// 2 ulp inside the domain; an infinity of the sign of a zero, 0 for infinity, NaN for negatives.
float f32_rsqrt(float x) {
  uint magnitude = f32_magnitude_bits(x);
  if (magnitude > 0x7f800000u) return x;
  if (magnitude == 0u) return f32_copy_sign(f32_infinity(), x);
  if (f32_is_negative(x)) return f32_nan();
  return magnitude == 0x7f800000u ? 0.0 : inversesqrt(x);
}

// A finite magnitude as the result * 2^exponent, exactly.
uint f32_whole_fraction(uint magnitude, out int exponent) {
  uint field = magnitude >> 23;
  uint fraction = magnitude & 0x7fffffu;
  exponent = max(int(field), 1) - 150;
  return field != 0u ? fraction | 0x800000u : fraction;
}

// fraction * 2^exponent for a fraction below 2^24 and -149 <= exponent <= 104. One return: after a loop that ends where
// the fraction is 0, Mesa 25.0's CPU driver loses what the loop found where a branch asks for that again.
float f32_from_whole(uint fraction, int exponent) {
  int shift = min(23 - findMSB(fraction), exponent + 149);
  uint field = uint(exponent - shift + 149);  // the hidden bit of a normal number adds one more
  return fraction == 0u ? 0.0 : uintBitsToFloat((field << 23) + (fraction << shift));
}

// C's fmod, exact: long division of the fractions, eight bits of the quotient a step.
float f32_rem(float x, float y) {
  uint x_bits = f32_magnitude_bits(x);
  uint y_bits = f32_magnitude_bits(y);
  if (x_bits >= 0x7f800000u || y_bits > 0x7f800000u || y_bits == 0u) return f32_nan();
  if (x_bits < y_bits) return x;
  int x_exponent;
  int y_exponent;
  uint rest = f32_whole_fraction(x_bits, x_exponent);
  uint divisor = f32_whole_fraction(y_bits, y_exponent);
  rest %= divisor;
  for (int left = x_exponent - y_exponent; left > 0 && rest != 0u; left -= 8) {
    rest = (rest << min(left, 8)) % divisor;
  }
  return f32_copy_sign(f32_from_whole(rest, y_exponent), x);
}

// Python's %: the sign of the divisor; one rounding where the remainder changes sign.
float f32_mod(float x, float y) {
  float rest = f32_rem(x, y);
  if (f32_is_nan(rest)) return rest;
  if (f32_magnitude_bits(rest) == 0u) return f32_copy_sign(rest, y);
  precise float moved = rest + y;
  return f32_is_negative(rest) != f32_is_negative(y) ? moved : rest;
}
