// Sine, cosine, tangent of f64 and their inverses, which Vulkan has no instructions for. Polynomials are minimax
// (Remez). Units are measured: of 2^-52 of the result.

// x - n * pi/2 in two parts for |x| <= 2^20, and n (Cody and Waite): pi/2 is taken in three parts of 33 bits, whose
// products with n are exact, and a rest, so that the result is good to an ulp even next to a multiple.
dvec2 f64_quarter_near(double x, out int n) {
  double whole = f64_nearest(x * 0.6366197723675814lf, n);
  precise double rest = x - whole * 1.5707963267341256lf;
  precise double second = -whole * 6.077100506303966e-11lf;
  precise double third = -whole * 2.0222662487111665e-21lf;
  dvec2 once = f64_sum(rest, second);
  dvec2 twice = f64_sum(once.x, third);
  precise double low = (once.y + twice.y) - whole * 8.4784276603689e-32lf;
  return f64_sum(twice.x, low);
}

// Adds factor * digit + carry to sum, and returns what goes to the next digit.
uint f64_add_digit(inout uint sum, uint factor, uint digit, uint carry) {
  uint high;
  uint low;
  umulExtended(factor, digit, high, low);
  uint over;
  low = uaddCarry(low, carry, over);
  uint over_sum;
  sum = uaddCarry(sum, low, over_sum);
  return high + over + over_sum;
}

// Adds factor * digits, lowest first, to sum, modulo 2^128. Of the digit below them only what is carried counts.
uvec4 f64_add_product(uvec4 sum, uint factor, uvec4 digits, uint below) {
  uint carry;
  uint unused;
  umulExtended(factor, below, carry, unused);
  carry = f64_add_digit(sum.x, factor, digits.x, carry);
  carry = f64_add_digit(sum.y, factor, digits.y, carry);
  carry = f64_add_digit(sum.z, factor, digits.z, carry);
  f64_add_digit(sum.w, factor, digits.w, carry);
  return sum;
}

// A number of 128 bits, lowest digits first, in two parts; good to 2^-100 of it where its upper half is not 0.
dvec2 f64_of_digits(uvec4 digits) {
  precise double top = double(digits.w) * 79228162514264337593543950336.0lf;
  precise double second = double(digits.z) * 18446744073709551616.0lf;
  precise double third = double(digits.y) * 4294967296.0lf;
  dvec2 upper = f64_sum(top, second);
  dvec2 all = f64_sum(upper.x, third);
  precise double low = upper.y + all.y + double(digits.x);
  return f64_sum(all.x, low);
}

// The 192 bits of 2/pi from the bit `skipped` on, where 64 zeros come first; highest digits first.
void f64_two_over_pi(int skipped, out uvec4 upper, out uvec2 lower) {
  uint digits[38] = uint[](
      0u, 0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u,
      0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u,
      0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu,
      0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu,
      0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u);
  int first = skipped >> 5;
  int shift = skipped & 31;
  upper = uvec4(digits[first], digits[first + 1], digits[first + 2], digits[first + 3]);
  lower = uvec2(digits[first + 4], digits[first + 5]);
  uint last = digits[first + 6];
  if (shift > 0) {
    int back = 32 - shift;
    upper = upper << shift | uvec4(upper.yzw, lower.x) >> back;
    lower = lower << shift | uvec2(lower.y, last) >> back;
  }
}

// The same as f64_quarter_near for any larger finite x, modulo a turn (Payne and Hanek 1983): x = m * 2^e is multiplied
// by the 192 bits of 2/pi that matter, in integers; earlier bits only add whole turns, later ones less than 2^-126.
dvec2 f64_quarter_far(double x, out int n) {
  uvec2 bits = f64_magnitude_bits(x);
  uint m_low = bits.x << 11;
  uint m_high = (bits.y & 0xfffffu) << 11 | bits.x >> 21 | 0x80000000u;
  uvec4 upper;
  uvec2 lower;
  f64_two_over_pi(max(int(bits.y >> 20) - 1024, 0), upper, lower);
  uvec4 product = f64_add_product(uvec4(0u), m_low, upper.wzyx, lower.x);
  product = f64_add_product(product, m_high, uvec4(lower.x, upper.wzy), lower.y);

  n = int((product.w + 0x20000000u) >> 30);
  product.w -= uint(n) << 30;  // now the signed distance from the nearest quarter
  bool below = (product.w & 0x80000000u) != 0u;
  if (below) product = ~product;  // the opposite, but for a last bit that does not matter
  dvec2 fraction = f64_of_digits(product);
  precise double high = fraction.x * 1.5707963267948966lf;
  precise double low = f64_product_rest(fraction.x, 1.5707963267948966lf, high) +
                       (fraction.x * 6.123233995736766e-17lf + fraction.y * 1.5707963267948966lf);
  double scale = f64_power_of_two(-126);
  if (f64_is_negative(x) != below) scale = -scale;
  if (f64_is_negative(x)) n = -n;
  return dvec2(high * scale, low * scale);
}

// r and n with x = n * pi/2 + r modulo a turn and |r| <= pi/4, r in two parts. x is finite.
dvec2 f64_quarter(double x, out int n) {
  if (f64_magnitude_bits(x).y < 0x41300000u) return f64_quarter_near(x, n);  // 2^20
  return f64_quarter_far(x, n);
}

// sin(r) for |r| <= pi/4, by a polynomial good to 2^-57.
double f64_sin_reduced(dvec2 r) {
  precise double z = r.x * r.x;
  precise double p = 1.5895877615698568e-10lf;
  p = p * z - 2.5050742818296896e-08lf;
  p = p * z + 2.7557313598002675e-06lf;
  p = p * z - 0.00019841269829549255lf;
  p = p * z + 0.008333333333322108lf;
  p = p * z - 0.1666666666666663lf;
  p = r.x + (p * z * r.x + r.y * (1.0lf - 0.5lf * z));
  return p;
}

// cos(r) for |r| <= pi/4, by a polynomial good to 2^-63.
double f64_cos_reduced(dvec2 r) {
  precise double z = r.x * r.x;
  precise double p = -1.1359014593778506e-11lf;
  p = p * z + 2.0875711461760876e-09lf;
  p = p * z - 2.755731426875435e-07lf;
  p = p * z + 2.4801587289205364e-05lf;
  p = p * z - 0.0013888888888873702lf;
  p = p * z + 0.041666666666666595lf;
  precise double half_square = 0.5lf * z;
  precise double near = 1.0lf - half_square;
  p = near + (((1.0lf - near) - half_square) + (p * z * z - r.x * r.y));
  return p;
}

// The sine n quarters of a turn beyond r.
double f64_sin_turned(dvec2 r, int n) {
  double sine = f64_sin_reduced(r);
  double cosine = f64_cos_reduced(r);
  double value = (n & 1) != 0 ? cosine : sine;
  return (n & 2) != 0 ? -value : value;
}

// 0.6 units for every finite x; NaN for infinities.
double f64_sin(double x) {
  if (!f64_is_finite(x)) return f64_nan();
  int n;
  dvec2 r = f64_quarter(x, n);
  double sine = f64_sin_turned(r, n);
  return f64_to_bool(x) ? sine : x;
}

// 0.6 units for every finite x; NaN for infinities.
double f64_cos(double x) {
  if (!f64_is_finite(x)) return f64_nan();
  int n;
  dvec2 r = f64_quarter(x, n);
  return f64_sin_turned(r, n + 1);
}

// 1.4 units for every finite x; NaN for infinities.
double f64_tan(double x) {
  if (!f64_is_finite(x)) return f64_nan();
  int n;
  dvec2 r = f64_quarter(x, n);
  double sine = f64_sin_reduced(r);
  double cosine = f64_cos_reduced(r);
  precise double result = (n & 1) != 0 ? -cosine / sine : sine / cosine;
  return f64_to_bool(x) ? result : x;
}

// asin(a) - a for 0 <= a <= 0.5, by a polynomial good to 2^-59 of a.
double f64_asin_curve(double a) {
  precise double z = a * a;
  precise double p = 0.03261397991363959lf;
  p = p * z - 0.020957228594772424lf;
  p = p * z + 0.021663331284500608lf;
  p = p * z + 0.0037313080902722914lf;
  p = p * z + 0.010771606214893228lf;
  p = p * z + 0.011400881961092109lf;
  p = p * z + 0.013980517837928566lf;
  p = p * z + 0.017351643546848483lf;
  p = p * z + 0.022372212794438216lf;
  p = p * z + 0.030381942805855905lf;
  p = p * z + 0.04464285717198761lf;
  p = p * z + 0.0749999999997446lf;
  p = p * z + 0.1666666666666674lf;
  p = p * z * a;
  return p;
}

// asin(a) for a <= 0.5, else half of acos(a), which is the arc sine of half the angle's sine; in two parts. The square
// root is corrected by what its square is off.
dvec2 f64_asin_parts(double a) {
  bool near_one = a > 0.5lf;
  precise double square = 0.5lf * (1.0lf - a);
  double root = near_one ? sqrt(square) : a;
  precise double root_square = root * root;
  precise double missed = (square - root_square) - f64_product_rest(root, root, root_square);
  precise double root_rest = near_one && root > 0.0lf ? missed / (2.0lf * root) : 0.0lf;
  precise double low = f64_asin_curve(root) + root_rest;
  return dvec2(root, low);
}

// 0.7 units; NaN outside [-1, 1].
double f64_asin(double x) {
  double a = abs(x);
  if (a > 1.0lf || f64_is_nan(x)) return f64_nan();
  dvec2 parts = f64_asin_parts(a);
  precise double near_zero = parts.x + parts.y;
  precise double high = 1.5707963267948966lf - 2.0lf * parts.x;
  precise double lost = (1.5707963267948966lf - high) - 2.0lf * parts.x;
  precise double near_one = high + (lost + (6.123233995736766e-17lf - 2.0lf * parts.y));
  return f64_copy_sign(a > 0.5lf ? near_one : near_zero, x);
}

// 0.8 units; NaN outside [-1, 1].
double f64_acos(double x) {
  double a = abs(x);
  if (a > 1.0lf || f64_is_nan(x)) return f64_nan();
  dvec2 parts = f64_asin_parts(a);
  bool near_one = a > 0.5lf;
  bool negative = f64_is_negative(x);
  double times = near_one ? 2.0lf : 1.0lf;
  if (near_one == negative) times = -times;
  double base = near_one ? (negative ? 3.141592653589793lf : 0.0lf) : 1.5707963267948966lf;
  double base_rest = near_one ? (negative ? 1.2246467991473532e-16lf : 0.0lf) : 6.123233995736766e-17lf;
  precise double sum = base + (times * parts.x + (times * parts.y + base_rest));
  return sum;
}

// atan(a) for 0 <= a <= 1 in two parts: of 0, 1/2 or 1, and of (a - c) / (1 + a c), by a polynomial good to 2^-57.
dvec2 f64_atan_reduced(double a) {
  bool low_third = a < 0.3125lf;
  bool mid_third = a < 0.75lf;
  double centre = low_third ? 0.0lf : mid_third ? 0.5lf : 1.0lf;
  double base = low_third ? 0.0lf : mid_third ? 0.4636476090008061lf : 0.7853981633974483lf;
  double base_rest = low_third ? 0.0lf : mid_third ? 2.2698777452961687e-17lf : 3.061616997868383e-17lf;
  precise double t = (a - centre) / (1.0lf + a * centre);
  precise double z = t * t;
  precise double p = -0.03443612616135218lf;
  p = p * z + 0.055381688571154636lf;
  p = p * z - 0.06629145976656883lf;
  p = p * z + 0.07689801604168808lf;
  p = p * z - 0.09090805160013576lf;
  p = p * z + 0.11111108498040209lf;
  p = p * z - 0.1428571424849812lf;
  p = p * z + 0.19999999999740362lf;
  p = p * z - 0.3333333333333271lf;
  precise double curve = base_rest + p * z * t;
  dvec2 sum = f64_sum(base, t);
  precise double low = sum.y + curve;
  return dvec2(sum.x, low);
}

// The angle of the point (x, y) with 0 <= y: from that of the shorter coordinate over the longer one.
double f64_angle(double slope, bool steep, bool left) {
  dvec2 angle = f64_atan_reduced(slope);
  if (steep != left) angle = -angle;
  double base = steep ? 1.5707963267948966lf : left ? 3.141592653589793lf : 0.0lf;
  double base_rest = steep ? 6.123233995736766e-17lf : left ? 1.2246467991473532e-16lf : 0.0lf;
  precise double high = base + angle.x;
  precise double lost = angle.x - (high - base);  // base is 0 or the larger
  precise double result = high + (lost + (angle.y + base_rest));
  return result;
}

// 0.8 units; +-pi/2 at the infinities.
double f64_atan(double x) {
  if (f64_is_nan(x)) return x;
  double a = abs(x);
  bool steep = a > 1.0lf;
  precise double slope = steep ? 1.0lf / a : a;
  return f64_copy_sign(f64_angle(slope, steep, false), x);
}

// 1.1 units, with C's rules for zeros and infinities.
double f64_atan2(double y, double x) {
  if (f64_is_nan(x) || f64_is_nan(y)) return f64_nan();
  uvec2 x_bits = f64_magnitude_bits(x);
  uvec2 y_bits = f64_magnitude_bits(y);
  bool steep = u64p_lt(x_bits, y_bits);
  double longer = packDouble2x32(steep ? y_bits : x_bits);
  double shorter = packDouble2x32(steep ? x_bits : y_bits);
  bool diagonal = x_bits == y_bits;
  precise double ratio = shorter / (diagonal ? 1.0lf : longer);
  double slope = diagonal ? (x_bits == uvec2(0u) ? 0.0lf : 1.0lf) : ratio;
  return f64_copy_sign(f64_angle(slope, steep, f64_is_negative(x)), y);
}
