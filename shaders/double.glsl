// f64: tests on the bits, minimum and maximum with NaN, whole numbers, casts.

bool f64_is_nan(double x) {
  uvec2 bits = unpackDouble2x32(x);
  uint high = bits.y & 0x7fffffffu;
  return high > 0x7ff00000u || (high == 0x7ff00000u && bits.x != 0u);
}

bool f64_is_inf(double x) {
  uvec2 bits = unpackDouble2x32(x);
  return (bits.y & 0x7fffffffu) == 0x7ff00000u && bits.x == 0u;
}

bool f64_is_finite(double x) {
  return (unpackDouble2x32(x).y & 0x7ff00000u) != 0x7ff00000u;
}

// NaN if either operand is.
double f64_min(double x, double y) {
  if (f64_is_nan(x)) return x;
  if (f64_is_nan(y)) return y;
  return y < x ? y : x;
}

// NaN if either operand is.
double f64_max(double x, double y) {
  if (f64_is_nan(x)) return x;
  if (f64_is_nan(y)) return y;
  return x < y ? y : x;
}

// -1, 0 or 1; NaN for NaN.
double f64_sign(double x) {
  if (f64_is_nan(x) || !f64_to_bool(x)) return x;
  return (unpackDouble2x32(x).y & 0x80000000u) != 0u ? -1.0lf : 1.0lf;
}

// By its bits: Mesa's trunc() of doubles is wrong above 2^31 on processors without AVX2, and its roundEven() takes
// halves to zero there.
double f64_trunc(double x) {
  uvec2 bits = unpackDouble2x32(x);
  int kept = int((bits.y >> 20) & 0x7ffu) - 1023;  // bits of the fraction that stand before the point
  if (kept >= 52) return x;  // a whole number, an infinity or NaN
  if (kept < 0) return packDouble2x32(uvec2(0u, bits.y & 0x80000000u));
  uvec2 lost = kept < 20 ? uvec2(0xffffffffu, 0xfffffu >> kept) : uvec2(0xffffffffu >> (kept - 20), 0u);
  return packDouble2x32(bits & ~lost);
}

double f64_floor(double x) {
  double whole = f64_trunc(x);
  return x < whole ? whole - 1.0lf : whole;
}

double f64_ceil(double x) {
  double whole = f64_trunc(x);
  return x > whole ? whole + 1.0lf : whole;
}

// Halves go to the even number.
double f64_round(double x) {
  double whole = f64_trunc(x);
  precise double rest = abs(x - whole);  // exact; NaN of an infinity
  bool odd = f64_trunc(whole * 0.5lf) != whole * 0.5lf;
  bool away = rest > 0.5lf || (rest == 0.5lf && odd);
  if (!away) return whole;
  return (unpackDouble2x32(x).y & 0x80000000u) != 0u ? whole - 1.0lf : whole + 1.0lf;
}

bool f64_to_bool(double x) {
  uvec2 bits = unpackDouble2x32(x);
  return (bits.y & 0x7fffffffu) != 0u || bits.x != 0u;
}

int f64_to_i32(double x) {
  if (f64_is_nan(x)) return 0;
  if (x >= 2147483647.0lf) return 0x7fffffff;
  return x <= -2147483648.0lf ? int(0x80000000u) : int(x);
}

uint f64_to_u32(double x) {
  if (f64_is_nan(x) || x <= 0.0lf) return 0u;
  return x >= 4294967295.0lf ? 0xffffffffu : uint(x);
}

int64_t f64_to_i64(double x) {
  if (f64_is_nan(x)) return int64_t(0);
  if (x >= 9223372036854775808.0lf) return 0x7fffffffffffffffL;
  return x <= -9223372036854775808.0lf ? -0x7fffffffffffffffL - 1L : int64_t(x);
}

uint64_t f64_to_u64(double x) {
  if (f64_is_nan(x) || x <= 0.0lf) return uint64_t(0);
  return x >= 18446744073709551616.0lf ? 0xffffffffffffffffUL : uint64_t(x);
}

uvec2 f64_to_u64p(double x) {
  if (f64_is_nan(x) || x <= 0.0lf) return uvec2(0u);
  if (x >= 18446744073709551616.0lf) return uvec2(0xffffffffu);
  uint high = uint(x * 2.3283064365386962890625e-10lf);
  precise double low = x - double(high) * 4294967296.0lf;  // exact: both have the bits of x
  return uvec2(uint(low), high);
}

uvec2 f64_to_i64p(double x) {
  if (x >= 9223372036854775808.0lf) return uvec2(0xffffffffu, 0x7fffffffu);
  if (x <= -9223372036854775808.0lf) return uvec2(0u, 0x80000000u);
  uvec2 magnitude = f64_to_u64p(abs(x));
  return x < 0.0lf ? pair_neg(magnitude) : magnitude;
}

double u64p_to_f64(uvec2 x) {
  precise double result = double(x.y) * 4294967296.0lf + double(x.x);
  return result;
}

double i64p_to_f64(uvec2 x) {
  precise double result = double(int(x.y)) * 4294967296.0lf + double(x.x);
  return result;
}

// Truncated to f32 with the last bit set where anything was lost: a later rounding to f16 or bf16
// then is as if it were the only one. By its bits: Mesa 25.0's CPU driver takes a number that is
// rounded and widened again for the number itself.
float f64_to_f32_odd(double x) {
  uvec2 bits = unpackDouble2x32(x);
  uint sign = bits.y & 0x80000000u;
  int exponent = int((bits.y >> 20) & 0x7ffu) - 896;  // an f32's: 255 is that of infinities
  if (!f64_is_finite(x)) return float(x);
  if (exponent > 254) return uintBitsToFloat(sign | 0x7f7fffffu);
  uint fraction = (bits.y & 0xfffffu) << 3 | bits.x >> 29;
  bool odd = (bits.x & 0x1fffffffu) != 0u;
  if (exponent > 0) return uintBitsToFloat(sign | uint(exponent) << 23 | fraction | uint(odd));
  if (!f64_to_bool(x)) return uintBitsToFloat(sign);
  int shift = min(1 - exponent, 25);  // of a subnormal f32, of which nothing may be left
  uint whole = fraction | 0x800000u;
  uint kept = whole >> shift;
  return uintBitsToFloat(sign | kept | uint(odd || kept << shift != whole));
}
