// Exact changes of f64 on their bits, and arithmetic that keeps what a rounding loses (Dekker 1971, Knuth). A value
// "in two parts" is a dvec2, high and low, whose sum is meant; the low part is at most half a unit of the high one.

double f64_nan() {
  return packDouble2x32(uvec2(0u, 0x7ff80000u));
}

double f64_infinity() {
  return packDouble2x32(uvec2(0u, 0x7ff00000u));
}

// The bits without the sign.
uvec2 f64_magnitude_bits(double x) {
  return unpackDouble2x32(x) & uvec2(0xffffffffu, 0x7fffffffu);
}

bool f64_is_negative(double x) {
  return (unpackDouble2x32(x).y & 0x80000000u) != 0u;
}

// The magnitude of x with the sign of s, exactly, zeros and denormals included.
double f64_copy_sign(double x, double s) {
  uvec2 bits = unpackDouble2x32(x);
  return packDouble2x32(uvec2(bits.x, f64_is_negative(s) == f64_is_negative(x) ? bits.y : bits.y ^ 0x80000000u));
}

// 2^e for -1022 <= e <= 1023, exactly.
double f64_power_of_two(int e) {
  return packDouble2x32(uvec2(0u, uint(e + 1023) << 20));
}

// x * 2^e for |e| <= 2044, in two steps so that neither factor overflows.
double f64_scale(double x, int e) {
  int half_way = e / 2;
  precise double result = x * f64_power_of_two(half_way) * f64_power_of_two(e - half_way);
  return result;
}

// The whole number next to x for |x| < 2^31, and the same as an int: added to 1.5 * 2^52, a number keeps no fraction.
double f64_nearest(double x, out int n) {
  precise double shifted = x + 6755399441055744.0lf;
  n = int(unpackDouble2x32(shifted).x);
  precise double whole = shifted - 6755399441055744.0lf;
  return whole;
}

// The top 26 significant bits of x: its square, and its product with another such, are exact.
double f64_top(double x) {
  return packDouble2x32(unpackDouble2x32(x) & uvec2(0xf8000000u, 0xffffffffu));
}

// a * b less its rounding p = a * b: the part that p lost.
double f64_product_rest(double a, double b, double p) {
  double a_top = f64_top(a);
  double b_top = f64_top(b);
  precise double a_rest = a - a_top;
  precise double b_rest = b - b_top;
  precise double rest = ((a_top * b_top - p) + a_top * b_rest + a_rest * b_top) + a_rest * b_rest;
  return rest;
}

// a + b in two parts, exactly.
dvec2 f64_sum(double a, double b) {
  precise double sum = a + b;
  precise double b_part = sum - a;
  precise double rest = (a - (sum - b_part)) + (b - b_part);
  return dvec2(sum, rest);
}

// A finite magnitude other than 0 as the result * 2^exponent, exactly, with the result in [1, 2).
double f64_fraction(uvec2 magnitude, out int exponent) {
  bool subnormal = magnitude.y < 0x100000u;
  if (subnormal) magnitude = unpackDouble2x32(u64p_to_f64(magnitude));  // the bits as a whole number: x * 2^1074
  exponent = int(magnitude.y >> 20) - (subnormal ? 2097 : 1023);
  return packDouble2x32(uvec2(magnitude.x, (magnitude.y & 0xfffffu) | 0x3ff00000u));
}

// The same with the result in [sqrt(1/2), sqrt(2)).
double f64_near_one(uvec2 magnitude, out int exponent) {
  double fraction = f64_fraction(magnitude, exponent);
  bool upper = unpackDouble2x32(fraction).y >= 0x3ff6a09eu;
  exponent += upper ? 1 : 0;
  precise double halved = fraction * (upper ? 0.5lf : 1.0lf);
  return halved;
}

// One step of a long division of scaled by divisor, whose inverse is about 1 / divisor: what is left after the nearest
// whole quotient, exactly, for quotients below 2^25. Both products have 52 bits at most.
double f64_rest_of_quotient(double scaled, double divisor, double inverse) {
  int unused;
  precise double quotient = f64_nearest(scaled * inverse, unused);
  precise double top = f64_top(divisor);
  precise double low = divisor - top;
  precise double rest = (scaled - quotient * top) - quotient * low;
  return rest;
}

// fraction * 2^exponent for a fraction that is 0 or has |fraction| in [2^-52, 2), where the result is a number of f64:
// exactly, subnormal results included.
double f64_from_fraction(double fraction, int exponent) {
  uvec2 bits = f64_magnitude_bits(fraction);
  if (bits.y == 0u) return 0.0lf;
  int field = int(bits.y >> 20) + exponent;
  uvec2 significand = uvec2(bits.x, (bits.y & 0xfffffu) | 0x100000u);
  uvec2 normal = uvec2(bits.x, (bits.y & 0xfffffu) | uint(max(field, 1)) << 20);
  uvec2 shifted = u64p_shift_right(significand, uvec2(uint(clamp(1 - field, 0, 63)), 0u));
  return packDouble2x32(field > 0 ? normal : shifted);
}

// C's fmod, exact: long division of the fractions, 24 bits of the quotient a step.
double f64_rem(double x, double y) {
  uvec2 x_bits = f64_magnitude_bits(x);
  uvec2 y_bits = f64_magnitude_bits(y);
  if (!f64_is_finite(x) || f64_is_nan(y) || y_bits == uvec2(0u)) return f64_nan();
  if (u64p_lt(x_bits, y_bits)) return x;
  int x_exponent;
  int y_exponent;
  double rest = f64_fraction(x_bits, x_exponent);
  double divisor = f64_fraction(y_bits, y_exponent);
  precise double inverse = 1.0lf / divisor;
  rest = f64_rest_of_quotient(rest, divisor, inverse);
  for (int left = x_exponent - y_exponent; left > 0 && rest != 0.0lf; left -= 24) {
    precise double scaled = rest * f64_power_of_two(min(left, 24));
    rest = f64_rest_of_quotient(scaled, divisor, inverse);
  }
  precise double positive = rest < 0.0lf ? rest + divisor : rest;
  return f64_copy_sign(f64_from_fraction(positive, y_exponent), x);
}

// Python's %: the sign of the divisor; one rounding where the remainder changes sign.
double f64_mod(double x, double y) {
  double rest = f64_rem(x, y);
  if (f64_is_nan(rest)) return rest;
  if (!f64_to_bool(rest)) return f64_copy_sign(rest, y);
  precise double moved = rest + y;
  return f64_is_negative(rest) != f64_is_negative(y) ? moved : rest;
}
