// Sums in two parts, and the means of them. A norm subtracts the mean from what it is of, and an inverse root may
// amplify what is left by 300: the mean of equal elements is exactly these.

// One more term of high + low; `low` has what the additions to `high` have lost (Knuth's two-sum).
void f32_add_term(inout float high, inout float low, float x) {
  precise float sum = high + x;
  precise float added = sum - high;
  precise float lost = low + ((high - (sum - added)) + (x - added));
  high = sum;
  low = lost;
}

// What count * x leaves of a sum of two parts: exactly nothing where the sum is that.
float f32_left_of_sum(float high, float low, float x, uint count) {
  float thousands = float(count & 0xfffff000u);  // exact, as the rest is
  float ones = float(count & 0xfffu);
  precise float large = x * thousands;
  precise float small = x * ones;
  precise float lost = f32_product_rest(x, thousands, large) + f32_product_rest(x, ones, small);
  precise float left = ((high - large) - small) + (low - lost);
  return left;
}

// The mean of a sum of two parts, as two parts again: a quotient that is nearly it, corrected by what it leaves, and
// what the sum has beyond that mean. The correction is a quotient, too, so a rest that was found from it would be what
// dividing has lost. Of a sum that is no number, that.
void f32_correct_mean(float quotient, inout float high, inout float low, uint count) {
  precise float mean = quotient + f32_left_of_sum(high, low, quotient, count) / float(count);
  precise float rest = f32_left_of_sum(high, low, mean, count) / float(count);
  bool is_number = f32_is_finite(mean);
  high = is_number ? mean : quotient;
  low = f32_is_finite(rest) ? rest : 0.0;  // count times the mean may be infinite where the sum is not
}

// A sum of two parts divided by a count; devices divide within 2.5 ulp.
void f32_mean_parts(inout float high, inout float low, uint count) {
  precise float quotient = high / float(count);
  f32_correct_mean(quotient, high, low, count);
}

// The first part of that alone.
float f32_mean(float high, float low, uint count) {
  f32_mean_parts(high, low, count);
  return high;
}

// As f32_add_term.
void f64_add_term(inout double high, inout double low, double x) {
  precise double sum = high + x;
  precise double added = sum - high;
  precise double lost = low + ((high - (sum - added)) + (x - added));
  high = sum;
  low = lost;
}

// As f32_mean: the upper 21 bits of the quotient times a count are exact.
double f64_mean(double high, double low, uint count) {
  double number = double(count);
  precise double quotient = high / number;
  double top = packDouble2x32(uvec2(0u, unpackDouble2x32(quotient).y));
  precise double rest = quotient - top;
  precise double left = ((high - top * number) - rest * number) + low;
  precise double mean = quotient + left / number;
  return f64_is_finite(mean) ? mean : quotient;
}
