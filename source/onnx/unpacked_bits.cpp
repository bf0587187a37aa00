#include "onnx/unpacked_bits.hpp"

#include "onnx/compose.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {

Tensor unpacked_bits(const Tensor& bytes, std::int64_t bits) {
  if (bits == 8 || !bytes.valid()) return bytes;
  if (bits == 4) return unpack_int4(bytes, false);
  // As few bytes as hold whole integers are one word.
  const std::int64_t together = 8 % bits == 0 ? 1 : bits, each = 8 * together / bits;
  const auto number = [](std::int64_t value) { return Tensor::scalar_int(DType::u32, value); };
  const int last = static_cast<int>(bytes.shape().size());
  Shape words = bytes.shape(), result = bytes.shape();
  words.back() = Dim(words.back().size() / together);
  result.back() = Dim(words.back().size() * each);
  words.push_back(Dim(together));
  const Tensor apart = bytes.reshape(words).cast(DType::u32);
  Tensor word = apart.select(last, 0);
  for (std::int64_t i = 1; i < together; ++i)
    word = op("bit_or", word, op("shift_left", apart.select(last, i), number(8 * i)));
  const Tensor shift = Tensor::iota(DType::u32, {each}, 0) * number(bits);
  const Tensor integers = op("shift_right", word.unsqueeze(last), shift);
  return op("bit_and", integers, number((std::int64_t{1} << bits) - 1)).cast(DType::u8).reshape(result);
}

}  // namespace vkfuse::onnx
