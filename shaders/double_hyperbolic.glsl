// Hyperbolic functions of f64 and their inverses, which Vulkan has no instructions for. Units are measured: of 2^-52 of
// the result.

// 1.2 units.
double f64_sinh(double x) {
  if (f64_is_nan(x)) return x;
  double a = abs(x);
  double half_power = f64_exp_extended(clamp(a, 1.0lf, 711.0lf), 0.0lf, -1);
  precise double far = half_power - 0.25lf / half_power;
  double z = clamp(a, 0.0lf, 1.0lf);
  z *= z;
  precise double p = 7.759563883313741e-13lf;
  p = p * z + 1.6057232632525112e-10lf;
  p = p * z + 2.505212348864357e-08lf;
  p = p * z + 2.7557319154838836e-06lf;
  p = p * z + 0.00019841269841438977lf;
  p = p * z + 0.008333333333333137lf;
  p = p * z + 0.16666666666666669lf;
  p = p * z * a + a;
  return f64_copy_sign(a >= 1.0lf ? far : p, x);
}

// 1 unit.
double f64_cosh(double x) {
  double half_power = f64_exp_extended(clamp(abs(x), 0.0lf, 711.0lf), 0.0lf, -1);
  precise double result = half_power + 0.25lf / half_power;
  return f64_is_nan(x) ? x : result;
}

// 1.4 units, from e^-2|x| - 1.
double f64_tanh(double x) {
  if (f64_is_nan(x)) return x;
  double power = f64_expm1(-2.0lf * abs(x));
  precise double result = -power / (power + 2.0lf);
  return f64_copy_sign(result, x);
}

// 1.1 units: log1p(a + a^2 / (1 + sqrt(a^2 + 1))); log(2a) where the square would overflow.
double f64_asinh(double x) {
  if (!f64_is_finite(x)) return x;
  double a = abs(x);
  bool far = a > 1e18lf;
  precise double square = a * a;
  precise double excess = a + square / (1.0lf + sqrt(square + 1.0lf));
  precise double result = f64_log1p(far ? a : excess) + (far ? 0.6931471805599453lf : 0.0lf);
  return f64_copy_sign(result, x);
}

// 1.1 units; NaN below 1.
double f64_acosh(double x) {
  if (x < 1.0lf || f64_is_nan(x)) return f64_nan();
  bool far = x > 1e18lf;
  precise double t = x - 1.0lf;
  precise double square = t * t + 2.0lf * t;
  precise double excess = t + (square > 0.0lf && !far ? sqrt(square) : 0.0lf);
  precise double result = f64_log1p(far ? x : excess) + (far ? 0.6931471805599453lf : 0.0lf);
  return result;
}

// 1.2 units; infinite at +-1, NaN outside.
double f64_atanh(double x) {
  double a = abs(x);
  if (a > 1.0lf || f64_is_nan(x)) return f64_nan();
  precise double ratio = 2.0lf * a / (1.0lf - a);
  precise double result = 0.5lf * f64_log1p(ratio);
  return f64_copy_sign(a == 1.0lf ? f64_infinity() : result, x);
}
