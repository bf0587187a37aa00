// libFuzzer's side of a fuzzer: what is tried next, and what ends the process. Bytes that change one by one seldom stay
// a text or a message, so most changes are the fuzzer's own.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/fuzzer.hpp"

const vkfuse::test::Fuzzer& vkfuse_fuzzer();

namespace vkfuse::test {
namespace {

std::string text_of(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

/// The bytes where libFuzzer wants them; 0 if there is no room.
std::size_t put(const std::string& bytes, std::uint8_t* data, std::size_t most) {
  if (bytes.size() > most) return 0;
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

std::string mutated(const std::string& one, const std::string& other, std::mt19937_64& random) {
  const auto change = vkfuse_fuzzer().mutate != nullptr ? vkfuse_fuzzer().mutate : mutated_bytes;
  return change(one, other, random);
}

const std::vector<std::string>& inputs() {
  static const std::vector<std::string> all =
      vkfuse_fuzzer().inputs != nullptr ? vkfuse_fuzzer().inputs() : std::vector<std::string>{std::string(200, '\1')};
  return all;
}

}  // namespace
}  // namespace vkfuse::test

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

/// VKFUSE_FUZZ_SEEDS names the folder, one of libFuzzer's corpora, that its inputs are written to.
int LLVMFuzzerInitialize(int*, char***) {
  const char* folder = std::getenv("VKFUSE_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  for (std::size_t i = 0; i < vkfuse::test::inputs().size(); ++i) {
    std::ofstream file(std::filesystem::path(folder) / ("input-" + std::to_string(i)), std::ios::binary);
    file << vkfuse::test::inputs()[i];
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    vkfuse_fuzzer().run(vkfuse::test::text_of(data, size));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "FAULT: %s\n", error.what());
    std::abort();
  }
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  using namespace vkfuse::test;
  std::mt19937_64 random(seed);
  if (vkfuse_fuzzer().inputs == nullptr || random() % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  // One of the first inputs now and then, so that each of them is a beginning.
  const std::string& other = inputs()[random() % inputs().size()];
  const std::string one = random() % 16 == 0 ? other : text_of(data, size);
  const std::size_t made = put(mutated(one, other, random), data, most);
  return made > 0 ? made : LLVMFuzzerMutate(data, size, most);
}

std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* one, std::size_t one_size, const std::uint8_t* other,
                                      std::size_t other_size, std::uint8_t* out, std::size_t most, unsigned seed) {
  using namespace vkfuse::test;
  std::mt19937_64 random(seed);
  return put(mutated(text_of(one, one_size), text_of(other, other_size), random), out, most);
}
}
