// Index arithmetic.

// n / d for n < 2^31, by multiplication: magic = ceil(2^(31 + s) / d) and shift = s - 1 with
// s = ceil(log2 d); d = 1 has magic 0.
uint quotient(uint n, uint magic, uint shift) {
  uint high, low;
  umulExtended(n, magic, high, low);
  return magic == 0u ? n : high >> shift;
}
