// Functions of 16-bit floats, in f32 registers: within 2^-12 of the result, half of what rounding it to
// f16 costs, from the driver's exp2 and no branches.

// Below 2^-6, where a function is as good as linear, and NaN: one unsigned compare finds both.
bool f16_keeps(float x) {
  return f32_magnitude_bits(x) - 0x3c800000u > 0x43000000u;
}

// tanh(x) / x is a function of x^2, here of that brought to [-1, 1]: a minimax polynomial, a little too large, within
// 0.87 * 2^-12. Beyond 4.65 the result is 1, so that 1 - tanh(x) becomes 0 as it does where tanh is rounded.
float f16_tanh(float x) {
  float held = clamp(x, -4.65, 4.65);
  precise float z = fma(held * held, 0.0924962386, -1.0);
  precise float p = fma(-0.343452334, z, 0.360423505);
  p = fma(p, z, 0.759011149);
  p = fma(p, z, -0.732592523);
  p = fma(p, z, -0.751911521);
  p = fma(p, z, 0.673892498);
  p = fma(p, z, 0.297943175);
  p = fma(p, z, -0.216064945);
  p = fma(p, z, -0.128524467);
  p = fma(p, z, 0.114564866);
  p = fma(p, z, -0.0764834732);
  p = fma(p, z, 0.103919655);
  p = fma(p, z, -0.149064407);
  p = fma(p, z, 0.303347349);
  p = p * held;
  p = abs(x) > 4.65 ? f32_copy_sign(1.0, x) : p;
  return f32_is_nan(x) ? x : p;
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

// (1 + erf(x)) / 2, within 2^-19, where exp2 and reciprocals keep NaN and infinities: 1 / (1 + 2^-p), of which p / x is
// a minimax polynomial of x^2 that stands for log2((1 + erf) / (1 - erf)) / x up to x = 3.6.
float f16_half_one_plus_erf(float x) {
  precise float z = min(x * x, 13.0);
  precise float p = fma(9.26144247e-05, z, -0.00119478862);
  p = fma(p, z, -0.00143993876);
  p = fma(p, z, 0.297005923);
  p = fma(p, z, 3.25575283);
  precise float result = 1.0 / (1.0 + exp2(-x * p));
  return result;
}

float f16_one_plus_erf(float x) {
  precise float result = 2.0 * f16_half_one_plus_erf(x);
  return result;
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

// tanh with fewer instructions, two of which are of the few units for exponentials and roots.
float f16_tanh_native(float x) {
  precise float root = inversesqrt(1.0 + exp2(min(abs(x) * 2.88539, 32.0)));
  precise float far = fma(-2.0, root * root, 1.0);
  return f16_keeps(x) ? x : f32_copy_sign(far, x);
}

// outer * tanh(x / (2 log2(e))), within 2^-20 of `outer`, where exp2 keeps NaN and infinities.
float f16_capped(float x, float outer) {
  precise float result = fma(-2.0 * outer, 1.0 / (exp2(x) + 1.0), outer);
  return result;
}
