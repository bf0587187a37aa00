// Hyperbolic functions and their inverses.

// 3 ulp.
float f32_sinh(float x) {
  if (f32_is_nan(x)) return x;
  float a = abs(x);
  if (a > 90.0) return f32_copy_sign(f32_infinity(), x);
  if (a >= 1.0) {
    precise float far = f32_exp_times(a, -1) - f32_exp_times(-a, -1);
    return f32_copy_sign(far, x);
  }
  precise float square = x * x;
  precise float p = (2.81743974e-06 * square + 0.000198360663) * square + 0.00833335053;
  p = (p * square + 0.166666672) * square * x + x;
  return p;
}

// 2 ulp.
float f32_cosh(float x) {
  if (f32_is_nan(x)) return x;
  float a = abs(x);
  if (a > 90.0) return f32_infinity();
  precise float result = f32_exp_times(a, -1) + f32_exp_times(-a, -1);
  return result;
}

// 9 ulp at 0.625, by what Vulkan allows exp2 and the division; less elsewhere. Both ranges are computed
// and one is chosen: the invocations of a subgroup rarely agree on one, and CPU drivers pay for every
// branch. Beyond 10 the far formula rounds to 1.
float f32_tanh(float x) {
  precise float a = min(abs(x), 10.0);
  precise float far = 1.0 - 2.0 / (exp2(a * 2.88539004) + 1.0);
  precise float square = a * a;
  precise float p = -0.00571704144;
  p = p * square + 0.0206505843;
  p = p * square - 0.0537434965;
  p = p * square + 0.133314908;
  p = p * square - 0.333332837;
  p = p * square * a + a;
  float result = f32_copy_sign(a >= 0.625 ? far : p, x);
  return f32_is_nan(x) ? x : result;
}

// 4 ulp: log1p(a + a^2 / (1 + sqrt(a^2 + 1))); log(2a) where the square would overflow. One logarithm and one return:
// Mesa 25.0's CPU driver loses the result of a branch that calls the logarithm again.
float f32_asinh(float x) {
  precise float a = abs(x);
  bool far = a > 1e9;
  precise float square = mix(a * a, 0.0, far);
  precise float excess = mix(a + square / (1.0 + sqrt(square + 1.0)), a, far);
  precise float result = f32_log1p(excess) + mix(0.0, 0.693147182, far);
  result = f32_copy_sign(result, x);
  return mix(x, result, f32_is_finite(x));
}

// 4 ulp; NaN below 1. As above.
float f32_acosh(float x) {
  bool far = x > 1e9;
  precise float t = x - 1.0;
  precise float excess = mix(t + f32_sqrt(t * t + 2.0 * t), x, far);
  precise float result = f32_log1p(excess) + mix(0.0, 0.693147182, far);
  return mix(result, f32_nan(), f32_is_nan(x) || x < 1.0);
}

// 4 ulp; infinite at +-1, NaN outside.
float f32_atanh(float x) {
  float a = abs(x);
  if (f32_magnitude_bits(x) > 0x3f800000u) return f32_nan();
  if (a == 1.0) return f32_copy_sign(f32_infinity(), x);
  precise float ratio = 2.0 * a / (1.0 - a);
  precise float result = 0.5 * f32_log1p(ratio);
  return f32_copy_sign(result, x);
}
