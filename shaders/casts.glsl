// Floats to integers: truncated, saturated, NaN to 0. What Vulkan leaves open never reaches it.

bool f32_to_bool(float x) {
  return f32_magnitude_bits(x) != 0u;
}

int f32_to_i32(float x) {
  uint magnitude = f32_magnitude_bits(x);
  int whole = int(magnitude < 0x4f000000u ? x : 0.0);  // below 2^31; else, and for NaN, 0
  int largest = (floatBitsToUint(x) & 0x80000000u) != 0u ? int(0x80000000u) : 0x7fffffff;
  bool saturates = magnitude - 0x4f000000u <= 0x30800000u;  // up to infinity
  return saturates ? largest : whole;
}

uint f32_to_u32(float x) {
  if (f32_is_nan(x) || x <= 0.0) return 0u;
  return x >= 4294967296.0 ? 0xffffffffu : uint(x);
}

// Sign-extends, for compilers that take a comparison of int64_t(x) for one that has the same result for every x.
int64_t i64_from_i32(int x) {
  return packInt2x32(ivec2(x, x >> 31));
}

int64_t f32_to_i64(float x) {
  if (f32_is_nan(x)) return int64_t(0);
  if (x >= 9223372036854775808.0) return 0x7fffffffffffffffL;
  return x <= -9223372036854775808.0 ? -0x7fffffffffffffffL - 1L : int64_t(x);
}

uint64_t f32_to_u64(float x) {
  if (f32_is_nan(x) || x <= 0.0) return uint64_t(0);
  return x >= 18446744073709551616.0 ? 0xffffffffffffffffUL : uint64_t(x);
}

uvec2 f32_to_u64p(float x) {
  if (f32_is_nan(x) || x <= 0.0) return uvec2(0u);
  if (x >= 18446744073709551616.0) return uvec2(0xffffffffu);
  uint high = uint(x * 2.3283064365386962890625e-10);
  precise float low = x - float(high) * 4294967296.0;  // exact: both have the bits of x
  return uvec2(uint(low), high);
}

uvec2 f32_to_i64p(float x) {
  if (x >= 9223372036854775808.0) return uvec2(0xffffffffu, 0x7fffffffu);
  if (x <= -9223372036854775808.0) return uvec2(0u, 0x80000000u);
  uvec2 magnitude = f32_to_u64p(abs(x));
  return f32_is_negative(x) ? pair_neg(magnitude) : magnitude;
}

// Sign-extends.
uvec2 pair_from_i32(int x) {
  return uvec2(uint(x), uint(x >> 31));
}

// Correctly rounded: the bits that do not fit one word are kept as one sticky bit.
float u64p_to_f32(uvec2 x) {
  if (x.y == 0u) return float(x.x);
  int shift = 31 - findMSB(x.y);
  uvec2 normal = pair_shift_left(x, uvec2(uint(shift), 0u));
  precise float result = float(normal.y | uint(normal.x != 0u)) * f32_power_of_two(32 - shift);
  return result;
}

float i64p_to_f32(uvec2 x) {
  float magnitude = u64p_to_f32(i64p_abs(x));
  return pair_is_negative(x) ? -magnitude : magnitude;
}
