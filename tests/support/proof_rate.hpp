// How many accesses of everything that this process has compiled are proven to stay inside their buffers: printed after
// all tests, and at least 95 of 100.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>

#include "support/compare.hpp"

namespace vkfuse::test {

/// After all tests, whatever their order. A program registers one.
class ProofRate : public testing::Environment {
 public:
  void TearDown() override {
    const segment::Proof proof = proof_so_far();
    const double rate =
        proof.accesses == 0 ? 1 : static_cast<double>(proof.proven) / static_cast<double>(proof.accesses);
    std::printf("%lld of %lld accesses are proven to stay inside their buffers: %.2f %%; the others are clamped.\n",
                static_cast<long long>(proof.proven), static_cast<long long>(proof.accesses), 100 * rate);
    // A run of few tests may be all about positions that are data, which nobody can prove.
    if (proof.accesses >= 5000) {
      EXPECT_GE(rate, 0.95);
    }
  }
};

}  // namespace vkfuse::test
