// 64-bit integers as pairs of words, low word first, for devices without native ones. pair_* functions serve both
// signs; i64p_* and u64p_* differ. What is known either way is chosen without a branch: a driver that compiles for a
// CPU may not come to an end with those of sixteen elements.

// Wraps.
uvec2 pair_add(uvec2 x, uvec2 y) {
  uint carry;
  uint low = uaddCarry(x.x, y.x, carry);
  return uvec2(low, x.y + y.y + carry);
}

// Wraps.
uvec2 pair_sub(uvec2 x, uvec2 y) {
  uint borrow;
  uint low = usubBorrow(x.x, y.x, borrow);
  return uvec2(low, x.y - y.y - borrow);
}

// Wraps.
uvec2 pair_neg(uvec2 x) {
  return pair_sub(uvec2(0u), x);
}

// Wraps.
uvec2 pair_mul(uvec2 x, uvec2 y) {
  uint low;
  uint high;
  umulExtended(x.x, y.x, high, low);
  return uvec2(low, high + x.x * y.y + x.y * y.x);
}

bool pair_is_negative(uvec2 x) {
  return (x.y & 0x80000000u) != 0u;
}

bool u64p_lt(uvec2 x, uvec2 y) {
  bool high = x.y < y.y;
  bool same = x.y == y.y;
  bool low = x.x < y.x;
  return high || (same && low);
}

bool i64p_lt(uvec2 x, uvec2 y) {
  bool high = int(x.y) < int(y.y);
  bool same = x.y == y.y;
  bool low = x.x < y.x;
  return high || (same && low);
}

uvec2 u64p_min(uvec2 x, uvec2 y) {
  return u64p_lt(y, x) ? y : x;
}

uvec2 i64p_min(uvec2 x, uvec2 y) {
  return i64p_lt(y, x) ? y : x;
}

uvec2 u64p_max(uvec2 x, uvec2 y) {
  return u64p_lt(x, y) ? y : x;
}

uvec2 i64p_max(uvec2 x, uvec2 y) {
  return i64p_lt(x, y) ? y : x;
}

uvec2 u64p_abs(uvec2 x) {
  return x;
}

// The smallest number stays itself.
uvec2 i64p_abs(uvec2 x) {
  uvec2 negated = pair_neg(x);
  return pair_is_negative(x) ? negated : x;
}

uvec2 u64p_sign(uvec2 x) {
  return uvec2(uint(x != uvec2(0u)), 0u);
}

uvec2 i64p_sign(uvec2 x) {
  uvec2 sign = u64p_sign(x);
  return pair_is_negative(x) ? uvec2(0xffffffffu) : sign;
}

// By the low six bits of y.
uvec2 pair_shift_left(uvec2 x, uvec2 y) {
  uint amount = y.x & 31u;
  uint carried = x.x >> 1 >> (31u - amount);
  uvec2 near = uvec2(x.x << amount, x.y << amount | carried);
  uvec2 far = uvec2(0u, near.x);
  return (y.x & 32u) != 0u ? far : near;
}

// By the low six bits of y, filling with zeros.
uvec2 u64p_shift_right(uvec2 x, uvec2 y) {
  uint amount = y.x & 31u;
  uint carried = x.y << 1 << (31u - amount);
  uvec2 near = uvec2(x.x >> amount | carried, x.y >> amount);
  uvec2 far = uvec2(near.y, 0u);
  return (y.x & 32u) != 0u ? far : near;
}

// By the low six bits of y, filling with the sign.
uvec2 i64p_shift_right(uvec2 x, uvec2 y) {
  uvec2 filling = uvec2(pair_is_negative(x) ? 0xffffffffu : 0u);
  return u64p_shift_right(x ^ filling, y) ^ filling;
}

// Long division, one bit a step: the quotient, and the remainder in `rest`: for a y of zero, x.
uvec2 pair_divide(uvec2 x, uvec2 y, out uvec2 rest) {
  uvec2 quotient = uvec2(0u);
  rest = uvec2(0u);
  for (int step = 0; step < 64; ++step) {
    bool carry = pair_is_negative(rest);
    rest = uvec2(rest.x << 1 | x.y >> 31, rest.y << 1 | rest.x >> 31);
    x = uvec2(x.x << 1, x.y << 1 | x.x >> 31);
    quotient = uvec2(quotient.x << 1, quotient.y << 1 | quotient.x >> 31);
    bool below = u64p_lt(rest, y);
    bool fits = carry || !below;
    uvec2 less = pair_sub(rest, y);
    rest = fits ? less : rest;
    quotient.x |= uint(fits);
  }
  return quotient;
}

// x / 0 is 0.
uvec2 u64p_div(uvec2 x, uvec2 y) {
  uvec2 rest;
  uvec2 quotient = pair_divide(x, y, rest);
  return y == uvec2(0u) ? y : quotient;
}

// x rem 0 is x.
uvec2 u64p_rem(uvec2 x, uvec2 y) {
  uvec2 rest;
  pair_divide(x, y, rest);
  return rest;
}

// The same as the remainder, whose sign nobody changes.
uvec2 u64p_mod(uvec2 x, uvec2 y) {
  return u64p_rem(x, y);
}

// Truncates; x / 0 is 0; the smallest number divided by -1 wraps to itself.
uvec2 i64p_div(uvec2 x, uvec2 y) {
  uvec2 quotient = u64p_div(i64p_abs(x), i64p_abs(y));
  uvec2 negated = pair_neg(quotient);
  return pair_is_negative(x ^ y) ? negated : quotient;
}

// The sign of the dividend; x rem 0 is x.
uvec2 i64p_rem(uvec2 x, uvec2 y) {
  uvec2 rest = u64p_rem(i64p_abs(x), i64p_abs(y));
  uvec2 negated = pair_neg(rest);
  return pair_is_negative(x) ? negated : rest;
}

// The sign of the divisor; x mod 0 is x.
uvec2 i64p_mod(uvec2 x, uvec2 y) {
  uvec2 rest = i64p_rem(x, y);
  uvec2 moved = pair_add(rest, y);
  bool some = rest != uvec2(0u);
  bool apart = pair_is_negative(rest ^ y);
  bool moves = some && apart;  // by a y of zero: to the same
  return moves ? moved : rest;
}

// x^n, wrapping.
uvec2 u64p_pow(uvec2 x, uvec2 n) {
  uvec2 result = uvec2(1u, 0u);
  while (n != uvec2(0u)) {
    uvec2 times = pair_mul(result, x);
    result = (n.x & 1u) != 0u ? times : result;
    x = pair_mul(x, x);
    n = uvec2(n.x >> 1 | n.y << 31, n.y >> 1);
  }
  return result;
}

// x^n, wrapping; a negative power is 0, except of 1 and -1.
uvec2 i64p_pow(uvec2 x, uvec2 n) {
  if (!pair_is_negative(n)) return u64p_pow(x, n);
  if (x == uvec2(1u, 0u)) return x;
  if (x != uvec2(0xffffffffu)) return uvec2(0u);
  return (n.x & 1u) != 0u ? x : uvec2(1u, 0u);
}
