// Exponentials, logarithms, powers and the error function of f64, which Vulkan has no instructions for. Arguments are
// reduced as Cody and Waite do (1980); polynomials are minimax (Remez). Units are measured: of 2^-52 of the result.

// x - n log(2) for the whole n that brings it closest to 0, in two parts. For |x| <= 1100, whose n * 0.693... is exact.
dvec2 f64_exp_reduce(double x, out int n) {
  double whole = f64_nearest(x * 1.4426950408889634lf, n);
  precise double high = x - whole * 0.693147180559663lf;
  precise double low = whole * 2.8235290563031577e-13lf;
  precise double rest = high - low;
  precise double lost = (high - rest) - low;
  return dvec2(rest, lost);
}

// e^r - 1 - r for |r| <= log(2)/2, by a polynomial good to 2^-61.
double f64_exp_curve(double r) {
  precise double p = 2.092474039982288e-09lf;
  p = p * r + 2.5109375814502962e-08lf;
  p = p * r + 2.7557241809041575e-07lf;
  p = p * r + 2.755724330731349e-06lf;
  p = p * r + 2.4801587361650452e-05lf;
  p = p * r + 0.0001984126988694559lf;
  p = p * r + 0.0013888888888866297lf;
  p = p * r + 0.008333333333321341lf;
  p = p * r + 0.0416666666666667lf;
  p = p * r + 0.16666666666666677lf;
  p = p * r + 0.5lf;
  p = p * r * r;
  return p;
}

// e^(high + low) * 2^k in 0.6 units for -746 <= high <= 711, a small low and |k| <= 1.
double f64_exp_extended(double high, double low, int k) {
  int n;
  dvec2 r = f64_exp_reduce(high, n);
  double curve = f64_exp_curve(r.x);
  precise double moved = low + low * (r.x + curve);  // low times the exponential
  precise double fraction = 1.0lf + (r.x + (curve + (r.y + moved)));
  return f64_scale(fraction, n + k);
}

// 0.6 units; NaN for NaN.
double f64_exp(double x) {
  double power = f64_exp_extended(clamp(x, -746.0lf, 710.0lf), 0.0lf, 0);
  return f64_is_nan(x) ? x : power;
}

// 0.6 units, and exact for whole numbers; NaN for NaN.
double f64_exp2(double x) {
  int n;
  double within = clamp(x, -1080.0lf, 1030.0lf);
  precise double t = within - f64_nearest(within, n);
  precise double r = t * 0.6931471805599453lf;
  precise double low = f64_product_rest(t, 0.6931471805599453lf, r) + t * 2.3190468138462996e-17lf;
  precise double fraction = 1.0lf + (r + (f64_exp_curve(r) + low));
  double power = f64_scale(fraction, n);
  return f64_is_nan(x) ? x : power;
}

// 0.9 units, e^x - 1.
double f64_expm1(double x) {
  if (f64_is_nan(x)) return x;
  int n;
  dvec2 r = f64_exp_reduce(clamp(x, -38.0lf, 710.0lf), n);
  precise double fraction = r.x + (f64_exp_curve(r.x) + r.y);
  double scale = f64_power_of_two(max(n, -60) - 1);  // half of 2^n, which may overflow
  precise double far = 2.0lf * (scale * fraction + (scale - 0.5lf));
  return f64_copy_sign(n == 0 ? fraction : far, x);
}

// log(1 + f) + n log(2) + low for sqrt(1/2) <= 1 + f <= sqrt(2): from the series of 2 atanh(s), s = f / (2 + f), of
// which f and its square are taken as they are.
double f64_log1p_reduced(double f, int n, double low) {
  precise double s = f / (2.0lf + f);
  precise double z = s * s;
  precise double p = 0.14804914532654986lf;
  p = p * z + 0.15313206028151957lf;
  p = p * z + 0.18183595190748722lf;
  p = p * z + 0.2222219802380812lf;
  p = p * z + 0.2857142874726531lf;
  p = p * z + 0.39999999999395164lf;
  p = p * z + 0.6666666666666737lf;
  precise double whole = double(n);
  precise double half_square = 0.5lf * f * f;
  precise double curve = s * (half_square + p * z) + (whole * 2.8235290563031577e-13lf + low);
  precise double result = whole * 0.693147180559663lf - ((half_square - curve) - f);
  return result;
}

// 0.7 units; -infinity at zeros, NaN below.
double f64_log(double x) {
  uvec2 bits = f64_magnitude_bits(x);
  if (bits == uvec2(0u)) return -f64_infinity();
  if (f64_is_negative(x) || f64_is_nan(x)) return f64_nan();
  int n;
  precise double f = f64_near_one(bits, n) - 1.0lf;
  double logarithm = f64_log1p_reduced(f, n, 0.0lf);
  return f64_is_inf(x) ? x : logarithm;
}

// 0.7 units; -infinity at -1, NaN below.
double f64_log1p(double x) {
  if (f64_is_nan(x)) return x;
  if (x <= -1.0lf) return x == -1.0lf ? -f64_infinity() : f64_nan();
  bool near = x > -0.29lf && x < 0.41lf;
  precise double sum = 1.0lf + x;
  precise double lost = x > 1.0lf ? 1.0lf - (sum - x) : x - (sum - 1.0lf);
  precise double shifted = lost / sum;
  int n;
  precise double f = f64_near_one(f64_magnitude_bits(sum), n) - 1.0lf;
  double logarithm = f64_log1p_reduced(near ? x : f, near ? 0 : n, near ? 0.0lf : shifted);
  return f64_is_inf(x) ? x : f64_copy_sign(logarithm, x);
}

// log of a positive finite number, given its bits, in two parts good to about 2^-66: as f64_log1p_reduced, but with the
// first two terms of the series in two parts.
dvec2 f64_log_extended(uvec2 bits) {
  int n;
  double m = f64_near_one(bits, n);
  precise double f = m - 1.0lf;
  precise double g = m + 1.0lf;
  precise double g_rest = m - (g - 1.0lf);
  precise double s = f / g;
  precise double s_g = s * g;
  precise double s_rest = ((f - s_g) - f64_product_rest(s, g, s_g) - s * g_rest) / g;

  precise double z = s * s;
  precise double z_rest = f64_product_rest(s, s, z) + 2.0lf * s * s_rest;
  precise double cube = s * z;
  precise double cube_rest = f64_product_rest(s, z, cube) + (s * z_rest + s_rest * z);
  precise double third = cube * 0.6666666666666666lf;
  precise double third_rest = f64_product_rest(cube, 0.6666666666666666lf, third) + cube * 3.700743415417188e-17lf +
                              cube_rest * 0.6666666666666666lf;
  precise double p = 0.11731810819568136lf;
  p = p * z + 0.11705400053174672lf;
  p = p * z + 0.1333483638123267lf;
  p = p * z + 0.15384594370190494lf;
  p = p * z + 0.1818181834104301lf;
  p = p * z + 0.22222222221630397lf;
  p = p * z + 0.2857142857142941lf;
  p = p * z + 0.4lf;
  precise double first = 2.0lf * s;
  precise double sum = first + third;
  precise double low = (third - (sum - first)) + (2.0lf * s_rest + third_rest + p * z * cube);

  precise double whole = double(n);
  precise double shift = whole * 0.693147180559663lf;
  precise double high = shift + sum;
  low += (sum - (high - shift)) + whole * 2.8235290563031577e-13lf;
  precise double total = high + low;
  precise double total_rest = low - (total - high);
  return dvec2(total, total_rest);
}

// 0.5 units, and exact for powers of two; -infinity at zeros, NaN below.
double f64_log2(double x) {
  uvec2 bits = f64_magnitude_bits(x);
  if (bits == uvec2(0u)) return -f64_infinity();
  if (f64_is_negative(x) || f64_is_nan(x)) return f64_nan();
  dvec2 natural = f64_log_extended(bits);
  precise double high = natural.x * 1.4426950408889634lf;
  precise double low = f64_product_rest(natural.x, 1.4426950408889634lf, high) + natural.x * 2.0355273740931033e-17lf +
                       natural.y * 1.4426950408889634lf;
  precise double logarithm = high + low;
  return f64_is_inf(x) ? x : logarithm;
}

// 0 where y is not a whole number, 1 where it is odd, 2 where it is even. y is finite.
int f64_parity(double y) {
  if (f64_trunc(y) != y) return 0;
  precise double half_of = y * 0.5lf;
  return f64_trunc(half_of) == half_of ? 2 : 1;
}

// x^y for a positive finite x and a finite y: e^(y log(x)) with both in two parts.
double f64_pow_positive(uvec2 x_bits, double y) {
  dvec2 logarithm = f64_log_extended(x_bits);
  precise double high = y * logarithm.x;
  precise double low = f64_product_rest(y, logarithm.x, high) + y * logarithm.y;
  double power = f64_exp_extended(clamp(high, -746.0lf, 710.0lf), abs(high) < 746.0lf ? low : 0.0lf, 0);
  return power;
}

// 0.8 units, with C's rules for zeros, infinities, NaN and negative bases.
double f64_pow(double x, double y) {
  uvec2 x_bits = f64_magnitude_bits(x);
  uvec2 y_bits = f64_magnitude_bits(y);
  bool from_one = x_bits == uvec2(0u, 0x3ff00000u);
  if (y_bits == uvec2(0u) || (from_one && !f64_is_negative(x))) return 1.0lf;
  if (f64_is_nan(x) || f64_is_nan(y)) return f64_nan();
  if (f64_is_inf(y)) {
    if (from_one) return 1.0lf;
    return (x_bits.y >= 0x3ff00000u) != f64_is_negative(y) ? f64_infinity() : 0.0lf;
  }
  int parity = f64_parity(y);
  double sign = f64_is_negative(x) && parity == 1 ? -1.0lf : 1.0lf;
  if (x_bits == uvec2(0u) || f64_is_inf(x)) {
    bool vanishes = (x_bits == uvec2(0u)) != f64_is_negative(y);
    return f64_copy_sign(vanishes ? 0.0lf : f64_infinity(), sign);
  }
  if (f64_is_negative(x) && parity == 0) return f64_nan();
  return f64_copy_sign(f64_pow_positive(x_bits, y), sign);
}

// 1.5 units: the exponential is of a number that is never positive.
double f64_sigmoid(double x) {
  double small = f64_exp_extended(-clamp(abs(x), 0.0lf, 746.0lf), 0.0lf, 0);
  precise double result = (x < 0.0lf ? small : 1.0lf) / (1.0lf + small);
  return f64_is_nan(x) ? x : result;
}

// e^-Q with a minimax Q of a - 1.5: the complement of erf for 1 <= a <= 6, good to 2^-54 of 1.
double f64_erf_complement(double a) {
  precise double t = a - 1.5lf;
  precise double p = -1.039081280693458e-12lf;
  p = p * t + 1.9463368281548488e-11lf;
  p = p * t - 1.630595531425035e-10lf;
  p = p * t + 7.917917431256456e-10lf;
  p = p * t - 2.227993266128051e-09lf;
  p = p * t + 1.0695161743700123e-09lf;
  p = p * t + 2.7738165359929134e-08lf;
  p = p * t - 1.925055826021223e-07lf;
  p = p * t + 8.187779961336782e-07lf;
  p = p * t - 2.370882162187031e-06lf;
  p = p * t + 2.6468403856404463e-06lf;
  p = p * t + 2.24736970433952e-05lf;
  p = p * t - 0.00021596330658811354lf;
  p = p * t + 0.0012572166858339lf;
  p = p * t - 0.006006746386314103lf;
  p = p * t + 0.02582414063369513lf;
  p = p * t + 0.8926403306150341lf;
  p = p * t + 3.508800801779527lf;
  p = p * t + 3.3844920895515527lf;
  return f64_exp_extended(-p, 0.0lf, 0);
}

// 0.7 units; 1 from 6 on, where the complement is below half a unit.
double f64_erf(double x) {
  if (f64_is_nan(x)) return x;
  double a = abs(x);
  precise double far = 1.0lf - f64_erf_complement(clamp(a, 1.0lf, 6.0lf));
  double z = clamp(a, 0.0lf, 1.0lf);
  z *= z;
  precise double p = 5.952592945935708e-11lf;
  p = p * z - 1.137029829812905e-09lf;
  p = p * z + 1.4659158259676743e-08lf;
  p = p * z - 1.6350227603941133e-07lf;
  p = p * z + 1.6460993109082531e-06lf;
  p = p * z - 1.492559484936337e-05lf;
  p = p * z + 0.00012055331096098527lf;
  p = p * z - 0.0008548326980459631lf;
  p = p * z + 0.005223977624812442lf;
  p = p * z - 0.02686617064507632lf;
  p = p * z + 0.11283791670954876lf;
  p = p * z - 0.3761263890318375lf;
  p = p * z + 0.1283791670955126lf;
  p = p * a + a;
  return f64_copy_sign(a >= 6.0lf ? 1.0lf : a >= 1.0lf ? far : p, x);
}
