// Sine, cosine, tangent and their inverses.

// x - n * pi/2 for |x| <= 200, and n: pi/2 is taken in parts of 17 bits, whose products with n are
// exact, and a rest, so that the result is good to an ulp even next to a multiple.
float f32_quarter_near(float x, out int n) {
  precise float whole = floor(x * 0.636619747 + 0.5);
  precise float rest = ((x - whole * 1.5707855224609375) - whole * 1.0804273188114166e-05) - whole * 6.07710063e-11;
  n = int(whole);
  return rest;
}

// The same for any larger finite x, modulo a turn (Payne and Hanek): x = m * 2^e is multiplied by the 96
// bits of 2/pi that matter, in integers; earlier bits only add whole turns, later ones less than 2^-62.
float f32_quarter_far(float x, out int n) {
  const uint two_over_pi[7] = uint[](0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u);
  uint bits = f32_magnitude_bits(x);
  uint m = bits << 8 | 0x80000000u;
  int skipped = int(bits >> 23) - 128;
  int first = skipped >> 5;
  int shift = skipped & 31;
  uint high = two_over_pi[first];
  uint middle = two_over_pi[first + 1];
  uint low = two_over_pi[first + 2];
  if (shift > 0) {
    high = high << shift | middle >> (32 - shift);
    middle = middle << shift | low >> (32 - shift);
    low = low << shift | two_over_pi[first + 3] >> (32 - shift);
  }
  // The top 64 of the low 96 bits of m * (high, middle, low): quarters, 2 bits, and a fraction of one.
  uint unused;
  uint from_low;
  umulExtended(m, low, from_low, unused);
  uvec2 middle_product;
  umulExtended(m, middle, middle_product.y, middle_product.x);
  uvec2 product = pair_add(uvec2(from_low, m * high), middle_product);

  n = int((product.y + 0x20000000u) >> 30);
  product.y -= uint(n) << 30;  // now the signed distance from the nearest quarter
  bool below = pair_is_negative(product);
  if (below) product = pair_neg(product);
  int leading = product.y != 0u ? 31 - findMSB(product.y) : 63 - findMSB(product.x);
  product = pair_shift_left(product, uvec2(uint(leading), 0u));
  precise float fraction = float(product.y >> 8) * f32_power_of_two(-22 - leading);
  precise float fraction_rest = float(product.y & 0xffu) * f32_power_of_two(-30 - leading);
  precise float rest = fraction * 1.57079637 + (fraction_rest * 1.57079637 - fraction * 4.37113883e-08);
  if (f32_is_negative(x) != below) rest = -rest;
  if (f32_is_negative(x)) n = -n;
  return rest;
}

// r and n with x = n * pi/2 + r modulo a turn and |r| <= pi/4, r good to about an ulp. x is finite.
float f32_quarter(float x, out int n) {
  if (f32_magnitude_bits(x) <= 0x43480000u) return f32_quarter_near(x, n);  // 200
  return f32_quarter_far(x, n);
}

// sin(r) for |r| <= pi/4, by a minimax polynomial good to 2^-28.
float f32_sin_reduced(float r) {
  precise float square = r * r;
  precise float p = (-0.000195156594 * square + 0.00833216682) * square - 0.166666552;
  p = p * square * r + r;
  return p;
}

// cos(r) for |r| <= pi/4, by a minimax polynomial good to 2^-33.
float f32_cos_reduced(float r) {
  precise float square = r * r;
  precise float p = (2.44366147e-05 * square - 0.00138873525) * square + 0.0416666456;
  p = p * square * square + (1.0 - 0.5 * square);
  return p;
}

// The sine n quarters of a turn beyond r.
float f32_sin_turned(float r, int n) {
  float value = (n & 1) != 0 ? f32_cos_reduced(r) : f32_sin_reduced(r);
  return (n & 2) != 0 ? -value : value;
}

// 2 ulp for every finite x.
float f32_sin(float x) {
  if (!f32_is_finite(x)) return f32_nan();
  int n;
  float r = f32_quarter(x, n);
  return f32_sin_turned(r, n);
}

// 2 ulp for every finite x.
float f32_cos(float x) {
  if (!f32_is_finite(x)) return f32_nan();
  int n;
  float r = f32_quarter(x, n);
  return f32_sin_turned(r, n + 1);
}

// 6 ulp for every finite x.
float f32_tan(float x) {
  if (!f32_is_finite(x)) return f32_nan();
  int n;
  float r = f32_quarter(x, n);
  float sine = f32_sin_reduced(r);
  float cosine = f32_cos_reduced(r);
  precise float result = (n & 1) != 0 ? -cosine / sine : sine / cosine;
  return result;
}

// asin(a) for 0 <= a <= 0.5, by a minimax polynomial good to 2^-27.
float f32_asin_reduced(float a) {
  precise float square = a * a;
  precise float p = 0.0422186144;
  p = p * square + 0.024147585;
  p = p * square + 0.0454770997;
  p = p * square + 0.0749524161;
  p = p * square + 0.166667536;
  p = p * square * a + a;
  return p;
}

// acos(a) for 0.5 <= a <= 1: twice the arc sine of the half angle's sine.
float f32_acos_near_one(float a) {
  precise float square = 0.5 * (1.0 - a);
  precise float result = 2.0 * f32_asin_reduced(f32_sqrt(square));
  return result;
}

// 3 ulp; NaN outside [-1, 1].
float f32_asin(float x) {
  float a = abs(x);
  if (f32_magnitude_bits(x) > 0x3f800000u) return f32_nan();
  if (a <= 0.5) return f32_copy_sign(f32_asin_reduced(a), x);
  precise float result = 1.57079637 - (f32_acos_near_one(a) + 4.37113883e-08);
  return f32_copy_sign(result, x);
}

// 2 ulp and the error of the square root; NaN outside [-1, 1].
float f32_acos(float x) {
  float a = abs(x);
  if (f32_magnitude_bits(x) > 0x3f800000u) return f32_nan();
  if (a > 0.5) {
    float angle = f32_acos_near_one(a);
    precise float opposite = 3.14159274 - (angle + 8.74227766e-08);
    return f32_is_negative(x) ? opposite : angle;
  }
  precise float result = 1.57079637 - (f32_copy_sign(f32_asin_reduced(a), x) + 4.37113883e-08);
  return result;
}

// atan(a) for 0 <= a <= 1, by a minimax polynomial good to 2^-28.
float f32_atan_reduced(float a) {
  precise float square = a * a;
  precise float p = -0.00182721927;
  p = p * square + 0.0110644614;
  p = p * square - 0.0314557217;
  p = p * square + 0.0582345426;
  p = p * square - 0.0841945633;
  p = p * square + 0.109575741;
  p = p * square - 0.142652452;
  p = p * square + 0.199986383;
  p = p * square - 0.333333015;
  p = p * square * a + a;
  return p;
}

// 2 ulp and the error of a division.
float f32_atan(float x) {
  if (f32_is_nan(x)) return x;
  float a = abs(x);
  if (a <= 1.0) return f32_copy_sign(f32_atan_reduced(a), x);
  precise float result = 1.57079637 - (f32_atan_reduced(f32_div(1.0, a)) + 4.37113883e-08);
  return f32_copy_sign(result, x);
}

// 3 ulp and the error of a division, with C's rules for zeros and infinities.
float f32_atan2(float y, float x) {
  if (f32_is_nan(x) || f32_is_nan(y)) return f32_nan();
  uint x_bits = f32_magnitude_bits(x);
  uint y_bits = f32_magnitude_bits(y);
  bool steep = y_bits > x_bits;
  float longer = uintBitsToFloat(steep ? y_bits : x_bits);
  float shorter = uintBitsToFloat(steep ? x_bits : y_bits);
  float slope = x_bits == y_bits ? float(x_bits != 0u) : f32_div(shorter, longer);
  precise float angle = f32_atan_reduced(slope);
  if (steep) angle = 1.57079637 - (angle + 4.37113883e-08);
  if (f32_is_negative(x)) angle = 3.14159274 - (angle + 8.74227766e-08);
  return f32_copy_sign(angle, y);
}
