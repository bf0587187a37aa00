// A fuzzer is a function that takes any bytes, and inputs to begin with. Its source is a test, which tries seeded
// mutations of those, the same on every machine; compiled with VKFUSE_LIBFUZZER it is a program of libFuzzer
// (docs/testing.md).
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace vkfuse::test {

struct Fuzzer {
  /// Takes the bytes; whether they were accepted. What they show to be wrong is thrown: fault(), or whatever the
  /// library throws.
  bool (*run)(const std::string& bytes) = nullptr;
  /// What to begin with. Without any, inputs are noise, of which a Random draws.
  std::vector<std::string> (*inputs)() = nullptr;
  long cases = 0;  ///< of a run of ctest
  /// A changed copy, with parts of `other` perhaps; else bytes, words and lines are changed.
  std::string (*mutate)(const std::string& bytes, const std::string& other, std::mt19937_64& random) = nullptr;
};

/// What an input has shown.
[[noreturn]] void fault(const std::string& sentence);

/// Changes of bytes, numbers and lines, one to four of them.
std::string mutated_bytes(const std::string& bytes, const std::string& other, std::mt19937_64& random);

/// Its inputs, then as many cases as it has, of which one in a hundred must be accepted: a fuzzer whose every input is
/// refused shows little. VKFUSE_FUZZ_CASES: as many; VKFUSE_SEED: one case alone; VKFUSE_FUZZ_INPUT: what a file holds,
/// alone; VKFUSE_FUZZ_INPUTS: the files of a folder are inputs, too.
void try_mutations(const Fuzzer& fuzzer);

}  // namespace vkfuse::test

#ifdef VKFUSE_LIBFUZZER
#define VKFUSE_FUZZER(name, ...)                              \
  const vkfuse::test::Fuzzer& vkfuse_fuzzer() {               \
    static const vkfuse::test::Fuzzer fuzzer = {__VA_ARGS__}; \
    return fuzzer;                                            \
  }
const vkfuse::test::Fuzzer& vkfuse_fuzzer();
#else
/// A fuzzer by the members of Fuzzer; outside of every namespace, one in a source.
#define VKFUSE_FUZZER(name, ...) \
  TEST(Fuzzers, name) { vkfuse::test::try_mutations({__VA_ARGS__}); }
#endif
