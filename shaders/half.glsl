// Functions of 16-bit floats, in f32 registers: within 2^-12 of the result, half of what rounding it to
// f16 costs, from the driver's exp2 and no branches.

// Small arguments are their own tangent, to a^2/3.
float f16_tanh(float x) {
  precise float a = min(abs(x), 10.0);
  precise float far = 1.0 - 2.0 / (exp2(a * 2.88539) + 1.0);
  float result = f32_copy_sign(a < 0.015625 ? a : far, x);
  return f32_is_nan(x) ? x : result;
}

// The exponent is a minimax log2(1 - erf(a)), good to 2^-20 of erf; below 2^-6 erf is 2/sqrt(pi) a.
float f16_erf(float x) {
  precise float a = min(abs(x), 4.0);
  precise float p = fma(-0.0029961006, a, 0.029797269);
  p = fma(p, a, -0.14893696);
  p = fma(p, a, -0.9183765);
  p = fma(p, a, -1.6279082);
  precise float far = 1.0 - exp2(p * a);
  precise float near = a * 1.1283792;
  float result = f32_copy_sign(a < 0.015625 ? near : far, x);
  return f32_is_nan(x) ? x : result;
}

// e^-x is held below 2^126, where Vulkan bounds the division.
float f16_sigmoid(float x) {
  precise float power = exp2(min(x * -1.442695, 125.0));
  precise float result = 1.0 / (1.0 + power);
  return f32_is_nan(x) ? x : result;
}
