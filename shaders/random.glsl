// Philox 4x32-10 (Salmon et al., 2011).

// The four words of a block: ten rounds of multiply and exchange.
uvec4 philox4(uvec2 seed, uvec2 block) {
  uvec4 counter = uvec4(block, 0u, 0u);
  for (int round = 0; round < 10; ++round) {
    uint low0;
    uint high0;
    uint low1;
    uint high1;
    umulExtended(0xD2511F53u, counter.x, high0, low0);
    umulExtended(0xCD9E8D57u, counter.z, high1, low1);
    counter = uvec4(high1 ^ counter.y ^ seed.x, low1, high0 ^ counter.w ^ seed.y, low0);
    seed += uvec2(0x9E3779B9u, 0xBB67AE85u);
  }
  return counter;
}

// The word of one element: word index % 4 of block index / 4.
uint philox(uvec2 seed, uvec2 index) {
  uvec4 words = philox4(seed, uvec2(index.x >> 2 | index.y << 30, index.y >> 2));
  return words[index.x & 3u];
}
