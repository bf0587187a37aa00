// Exponentials, logarithms and powers.

// Vulkan's precision, 3 + 2|x| ulp; NaN, which a driver may lose, stays NaN.
float f32_exp(float x) {
  float power = exp(x);
  return f32_is_nan(x) ? x : power;
}

// As f32_exp.
float f32_exp2(float x) {
  float power = exp2(x);
  return f32_is_nan(x) ? x : power;
}

// Vulkan's precision, 3 ulp or 2^-21 on [0.5, 2]; -infinity at zeros, NaN below. Drivers take a denormal for the
// smallest normal number, or for zero: its bits, as a whole number, are x * 2^149, and that is a normal number.
float f32_log(float x) {
  uint magnitude = f32_magnitude_bits(x);
  if (magnitude == 0u) return -f32_infinity();
  if (f32_is_negative(x)) return f32_nan();
  precise float logarithm = log(magnitude < 0x800000u ? float(magnitude) : x);
  precise float result = magnitude < 0x800000u ? logarithm - 103.27893 : logarithm;  // 149 log(2)
  return magnitude >= 0x7f800000u ? x : result;
}

// As f32_log.
float f32_log2(float x) {
  uint magnitude = f32_magnitude_bits(x);
  if (magnitude == 0u) return -f32_infinity();
  if (f32_is_negative(x)) return f32_nan();
  precise float logarithm = log2(magnitude < 0x800000u ? float(magnitude) : x);
  precise float result = magnitude < 0x800000u ? logarithm - 149.0 : logarithm;
  return magnitude >= 0x7f800000u ? x : result;
}

// x - n log(2) for the whole n that brings it closest to 0. For |x| <= 128; x - n * 0.693... is exact.
float f32_exp_reduce(float x, out int n) {
  precise float whole = floor(x * 1.44269502 + 0.5);
  precise float rest = (x - whole * 0.693359375) + whole * 0.000212194442;
  n = int(whole);
  return rest;
}

// e^r - 1 for |r| <= log(2)/2, by a minimax polynomial good to 2^-31.
float f32_expm1_reduced(float r) {
  precise float p = 0.000199188624;
  p = p * r + 0.00139413716;
  p = p * r + 0.00833326671;
  p = p * r + 0.041666355;
  p = p * r + 0.166666672;
  p = p * r + 0.5;
  p = p * r * r + r;
  return p;
}

// e^x * 2^k for |x| <= 104 and |k| <= 1, 1 ulp. Not the built-in, whose error grows with x.
float f32_exp_times(float x, int k) {
  int n;
  float r = f32_exp_reduce(x, n);
  precise float fraction = 1.0 + f32_expm1_reduced(r);
  return f32_scale(fraction, n + k);
}

// 2 ulp everywhere.
float f32_expm1(float x) {
  if (f32_is_nan(x)) return x;
  if (x > 89.0) return f32_infinity();
  if (x < -18.0) return -1.0;
  int n;
  float r = f32_exp_reduce(x, n);
  float fraction = f32_expm1_reduced(r);
  if (n == 0) return fraction;
  float scale = f32_power_of_two(n - 1);  // half of 2^n, which may overflow
  precise float result = 2.0 * (scale * fraction + (scale - 0.5));
  return result;
}

// log(1 + f) + n log(2) for sqrt(1/2) <= 1 + f <= sqrt(2), by a minimax polynomial good to 2^-30.
float f32_log1p_reduced(float f, int n) {
  precise float p = 0.0694247112;
  p = p * f - 0.117453374;
  p = p * f + 0.118352547;
  p = p * f - 0.123902291;
  p = p * f + 0.142251581;
  p = p * f - 0.166690782;
  p = p * f + 0.20001848;
  p = p * f - 0.249999866;
  p = p * f + 0.333333164;
  precise float square = f * f;
  precise float whole = float(n);
  precise float result = p * f * square - whole * 0.000212194442 - 0.5 * square;
  result = (f + result) + whole * 0.693359375;
  return result;
}

// A positive normal number's bits as m * 2^n with sqrt(1/2) <= m < sqrt(2); returns m.
float f32_near_one(uint bits, out int n) {
  n = int((bits + 0x3f800000u - 0x3f3504f3u) >> 23) - 127;
  return uintBitsToFloat(bits - uint(n << 23));
}

// 2 ulp; -infinity at -1, NaN below.
float f32_log1p(float x) {
  if (f32_is_nan(x) || x >= f32_infinity()) return x;
  if (x <= -1.0) return x == -1.0 ? -f32_infinity() : f32_nan();
  if (x > -0.29 && x < 0.41) return f32_log1p_reduced(x, 0);
  precise float sum = 1.0 + x;
  precise float lost = x > 1.0 ? 1.0 - (sum - x) : x - (sum - 1.0);
  int n;
  precise float f = f32_near_one(floatBitsToUint(sum), n) - 1.0;
  precise float result = f32_log1p_reduced(f, n) + lost / sum;
  return result;
}

// log2 of a positive finite number, given its bits, as a sum of two floats good to about 2^-32: from
// the series of 2 atanh(s) with s = (m - 1) / (m + 1), the first term of which is kept in two parts.
vec2 f32_log2_extended(uint bits) {
  int subnormal_shift = bits < 0x800000u ? 23 - findMSB(bits) : 0;
  int n;
  float m = f32_near_one(bits << subnormal_shift, n);
  precise float whole = float(n - subnormal_shift);

  precise float f = m - 1.0;
  precise float g = m + 1.0;
  precise float g_rest = m - (g - 1.0);
  precise float s = f / g;
  precise float s_g = s * g;
  precise float s_rest = ((f - s_g) - f32_product_rest(s, g, s_g) - s * g_rest) / g;

  precise float first = s * 2.88539004;  // 2 / log(2) = 2.88539004 + 3.85192607e-8
  precise float first_rest = f32_product_rest(s, 2.88539004, first) + s * 3.85192607e-8 + s_rest * 2.88539004;
  precise float square = s * s;
  precise float series = ((0.337896883 * square + 0.411846548) * square + 0.57708019) * square + 0.961796701;
  precise float high = whole + first;
  precise float low = (whole == 0.0 ? 0.0 : (whole - high) + first) + (first_rest + series * square * s);
  precise float sum = high + low;
  precise float sum_rest = low - (sum - high);
  return vec2(sum, sum_rest);
}

// 2^(high + low) for |high| <= 200 and a small low, 1 ulp.
float f32_exp2_extended(float high, float low) {
  precise float whole = floor(high + 0.5);
  precise float r = (high - whole) + low;
  precise float p = 1.53194433e-05;
  p = p * r + 0.000154681329;
  p = p * r + 0.00133334147;
  p = p * r + 0.00961803459;
  p = p * r + 0.0555041097;
  p = p * r + 0.240226507;
  p = p * r + 0.693147182;
  p = p * r + 1.0;
  return f32_scale(p, int(whole));
}

// 0 where y is not a whole number, 1 where it is odd, 2 where it is even.
int f32_parity(float y) {
  uint magnitude = f32_magnitude_bits(y);
  if (magnitude >= 0x4b800000u) return 2;  // from 2^24 on, and the infinities
  if (magnitude < 0x3f800000u) return magnitude == 0u ? 2 : 0;
  int fraction_bits = 150 - int(magnitude >> 23);
  uint significand = (magnitude & 0x7fffffu) | 0x800000u;
  if ((significand & ((1u << fraction_bits) - 1u)) != 0u) return 0;
  return 2 - int(significand >> fraction_bits & 1u);
}

// x^y for a positive finite x and a finite y.
float f32_pow_positive(uint x_bits, float y) {
  vec2 logarithm = f32_log2_extended(x_bits);
  precise float high = y * logarithm.x;
  if (high > 200.0) return f32_infinity();
  if (high < -200.0) return 0.0;
  precise float low = f32_product_rest(y, logarithm.x, high) + y * logarithm.y;
  return f32_exp2_extended(high, low);
}

// 4 ulp, with C's rules for zeros, infinities, NaN and negative bases.
float f32_pow(float x, float y) {
  uint x_bits = f32_magnitude_bits(x);
  uint y_bits = f32_magnitude_bits(y);
  if (y_bits == 0u || floatBitsToUint(x) == 0x3f800000u) return 1.0;
  if (x_bits > 0x7f800000u || y_bits > 0x7f800000u) return f32_nan();
  if (y_bits == 0x7f800000u) {
    if (x_bits == 0x3f800000u) return 1.0;
    return (x_bits > 0x3f800000u) != f32_is_negative(y) ? f32_infinity() : 0.0;
  }
  int parity = f32_parity(y);
  float sign = f32_is_negative(x) && parity == 1 ? -1.0 : 1.0;
  if (x_bits == 0u || x_bits == 0x7f800000u) {
    bool vanishes = (x_bits == 0u) != f32_is_negative(y);
    return f32_copy_sign(vanishes ? 0.0 : f32_infinity(), sign);
  }
  if (f32_is_negative(x) && parity == 0) return f32_nan();
  return f32_copy_sign(f32_pow_positive(x_bits, y), sign);
}

// 3 ulp: the exponential is of a number that is never positive.
float f32_sigmoid(float x) {
  if (f32_is_nan(x)) return x;
  float small = f32_exp_times(-min(abs(x), 104.0), 0);
  precise float result = (x < 0.0 ? small : 1.0) / (1.0 + small);
  return result;
}

// e^-Q with a minimax Q of a - 2.5: the complement of erf for 1 <= a <= 4, good to 2^-33 of 1.
float f32_erf_complement(float a) {
  precise float t = a - 2.5;
  precise float q = 2.16865374e-05;
  q = q * t - 6.18182094e-05;
  q = q * t + 0.000430911692;
  q = q * t - 0.00216652616;
  q = q * t + 0.0108534982;
  q = q * t + 0.943891823;
  q = q * t + 5.35268068;
  q = q * t + 7.80681515;
  return f32_exp_times(-q, 0);
}

// 2 ulp.
float f32_erf(float x) {
  if (f32_is_nan(x)) return x;
  float a = abs(x);
  if (a >= 4.0) return f32_copy_sign(1.0, x);
  if (a >= 1.0) {
    precise float far = 1.0 - f32_erf_complement(a);
    return f32_copy_sign(far, x);
  }
  precise float square = x * x;
  precise float p = -9.72215003e-06;
  p = p * square + 0.000112862079;
  p = p * square - 0.000848704367;
  p = p * square + 0.0052212514;
  p = p * square - 0.0268655177;
  p = p * square + 0.112837844;
  p = p * square - 0.376126379;
  p = p * square + 0.128379166;  // 2/sqrt(pi) - 1
  p = p * x + x;
  return p;
}
