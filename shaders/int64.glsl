// Native 64-bit integers, by the same rules as 32-bit ones.

// x / 0 is 0.
uint64_t u64_div(uint64_t x, uint64_t y) {
  return y == 0 ? uint64_t(0) : x / y;
}

// x rem 0 is x.
uint64_t u64_rem(uint64_t x, uint64_t y) {
  return y == 0 ? x : x % y;
}

// The magnitude as unsigned: right for the smallest number too.
uint64_t i64_magnitude(int64_t x) {
  uint64_t sign = uint64_t(x >> 63);  // not a choice of -x and x: LLVM behind lavapipe has 0 for it where x was an i32
  return (uint64_t(x) ^ sign) - sign;
}

// Truncates; x / 0 is 0; the smallest number divided by -1 wraps to itself.
int64_t i64_div(int64_t x, int64_t y) {
  int64_t quotient = int64_t(u64_div(i64_magnitude(x), i64_magnitude(y)));
  return (x ^ y) < 0 ? -quotient : quotient;
}

// The sign of the dividend; x rem 0 is x.
int64_t i64_rem(int64_t x, int64_t y) {
  int64_t rest = int64_t(u64_rem(i64_magnitude(x), i64_magnitude(y)));
  return x < 0 ? -rest : rest;
}

// The sign of the divisor; x mod 0 is x.
int64_t i64_mod(int64_t x, int64_t y) {
  int64_t rest = i64_rem(x, y);
  return y != 0 && rest != 0 && (rest ^ y) < 0 ? rest + y : rest;
}

// x^n, wrapping.
uint64_t u64_pow(uint64_t x, uint64_t n) {
  uint64_t result = uint64_t(1);
  for (uint64_t left = n; left != 0; left >>= 1) {
    if ((left & uint64_t(1)) != 0) result *= x;
    x *= x;
  }
  return result;
}

// x^n, wrapping; a negative power is 0, except of 1 and -1.
int64_t i64_pow(int64_t x, int64_t n) {
  if (n >= 0) return int64_t(u64_pow(uint64_t(x), uint64_t(n)));
  if (x == 1) return int64_t(1);
  if (x != -1) return int64_t(0);
  return (n & int64_t(1)) != 0 ? int64_t(-1) : int64_t(1);
}
