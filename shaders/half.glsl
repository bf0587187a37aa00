// Functions of 16-bit floats, in f32 registers: within 2^-12 of the result, half of what rounding it to
// f16 costs, from the driver's exp2 and no branches.

// Below 2^-6, where a function is as good as linear, and NaN: one unsigned compare finds both.
bool f16_keeps(float x) {
  return f32_magnitude_bits(x) - 0x3c800000u > 0x43000000u;
}

// tanh is x up to x^3/3 for a small x.
float f16_tanh(float x) {
  precise float power = exp2(min(abs(x) * 2.88539, 32.0));
  precise float far = fma(-2.0, 1.0 / (power + 1.0), 1.0);
  return f16_keeps(x) ? x : f32_copy_sign(far, x);
}

// The exponent is a minimax log2(1 - erf(a)), good to 2^-20 of erf; a small x has erf 2/sqrt(pi) x.
float f16_erf(float x) {
  precise float a = min(abs(x), 4.0);
  precise float p = fma(-0.0029961006, a, 0.029797269);
  p = fma(p, a, -0.14893696);
  p = fma(p, a, -0.9183765);
  p = fma(p, a, -1.6279082);
  precise float far = 1.0 - exp2(p * a);
  precise float near = x * 1.1283792;
  return f16_keeps(x) ? near : f32_copy_sign(far, x);
}

// e^-x is held below 2^126, where Vulkan bounds the division.
float f16_sigmoid(float x) {
  precise float power = exp2(min(x * -1.442695, 125.0));
  precise float result = 1.0 / (1.0 + power);
  return f32_is_nan(x) ? x : result;
}

// Where exp2 keeps NaN and infinities. The square of an inverse root is two instructions, a quotient some ten.
float f16_sigmoid_native(float x) {
  precise float root = inversesqrt(1.0 + exp2(x * -1.442695));
  precise float result = root * root;
  return result;
}

// The same of tanh.
float f16_tanh_native(float x) {
  precise float root = inversesqrt(1.0 + exp2(min(abs(x) * 2.88539, 32.0)));
  precise float far = fma(-2.0, root * root, 1.0);
  return f16_keeps(x) ? x : f32_copy_sign(far, x);
}
