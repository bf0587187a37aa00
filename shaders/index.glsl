// Index arithmetic.

// n / d for n < 2^31, by multiplication: magic = ceil(2^(31 + shift) / d) with shift = ceil(log2 d).
uint quotient(uint n, uint magic, uint shift) {
  uint high, low;
  umulExtended(n << 1, magic, high, low);
  return high >> shift;
}
