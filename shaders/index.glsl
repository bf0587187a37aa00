// Index arithmetic.

// n / d for n < 2^31, by multiplication: magic = ceil(2^(31 + shift) / d) with shift = ceil(log2 d).
uint quotient(uint n, uint magic, uint shift) {
  uint high, low;
  umulExtended(n << 1, magic, high, low);
  return high >> shift;
}

// A 64-bit integer, as two words, as an index: clamped to 0 .. last.
uint u64p_index(uvec2 v, uint last) {
  return v.y != 0u ? last : min(v.x, last);
}

uint i64p_index(uvec2 v, uint last) {
  return int(v.y) < 0 ? 0u : u64p_index(v, last);
}

// The same where the device has 64-bit integers.
uint u64_index(uint64_t v, uint last) {
  return u64p_index(unpackUint2x32(v), last);
}

uint i64_index(int64_t v, uint last) {
  return i64p_index(unpackUint2x32(uint64_t(v)), last);
}
