// libFuzzer's side of the fuzzer: what is tried next. Bytes alone seldom stay a message, so most changes are those of mutate.hpp.
#include <algorithm>
#include <cstdint>

#include "importer/mutate.hpp"
#include "importer/target.hpp"

namespace vkfuse::onnx {
namespace {

std::string text_of(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

/// The bytes of a model where libFuzzer wants them; 0 if there is no room.
std::size_t put(const std::string& model, std::uint8_t* data, std::size_t most) {
  if (model.size() > most) return 0;
  std::copy(model.begin(), model.end(), data);
  return model.size();
}

}  // namespace
}  // namespace vkfuse::onnx

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vkfuse::onnx::import_bytes(vkfuse::onnx::text_of(data, size));
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  using namespace vkfuse::onnx;
  static const std::vector<std::string> seeds = seed_models();
  Random random(seed);
  if (random() % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  // A model of one operator now and then, so that each of them is a beginning without a file of its own.
  const std::string& other = seeds[random() % seeds.size()];
  const std::string one = random() % 16 == 0 ? other : text_of(data, size);
  const std::size_t made = put(mutated(one, other, random), data, most);
  return made > 0 ? made : LLVMFuzzerMutate(data, size, most);
}

std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* one, std::size_t one_size, const std::uint8_t* other, std::size_t other_size, std::uint8_t* out,
                                      std::size_t most, unsigned seed) {
  using namespace vkfuse::onnx;
  Random random(seed);
  return put(mutated(text_of(one, one_size), text_of(other, other_size), random), out, most);
}
}
