// 32-bit integers: division by zero is defined, and signed values are divided by their magnitudes. Of two numbers that
// are known one is chosen without a branch: SwiftShader's compiler did not come to an end with the branches of sixteen
// elements.

// x / 0 is 0.
uint u32_div(uint x, uint y) {
  uint quotient = x / max(y, 1u);
  return y == 0u ? 0u : quotient;
}

// x rem 0 is x.
uint u32_rem(uint x, uint y) {
  uint rest = x % max(y, 1u);
  return y == 0u ? x : rest;
}

// Truncates; x / 0 is 0; the smallest number divided by -1 wraps to itself.
int i32_div(int x, int y) {
  int quotient = int(u32_div(uint(abs(x)), uint(abs(y))));
  int negative = -quotient;
  return (x ^ y) < 0 ? negative : quotient;
}

// The sign of the dividend; x rem 0 is x.
int i32_rem(int x, int y) {
  int rest = int(u32_rem(uint(abs(x)), uint(abs(y))));
  int negative = -rest;
  return x < 0 ? negative : rest;
}

// The sign of the divisor; x mod 0 is x.
int i32_mod(int x, int y) {
  int rest = i32_rem(x, y);
  int moved = rest + y;
  bool apart = (rest ^ y) < 0;
  bool moves = apart && rest != 0;  // by a y of 0: to the same
  return moves ? moved : rest;
}

// x^n, wrapping.
uint u32_pow(uint x, uint n) {
  uint result = 1u;
  for (uint left = n; left != 0u; left >>= 1) {
    if ((left & 1u) != 0u) result *= x;
    x *= x;
  }
  return result;
}

// x^n, wrapping; a negative power is 0, except of 1 and -1.
int i32_pow(int x, int n) {
  if (n >= 0) return int(u32_pow(uint(x), uint(n)));
  if (x == 1) return 1;
  return x == -1 ? 1 - 2 * (n & 1) : 0;
}
