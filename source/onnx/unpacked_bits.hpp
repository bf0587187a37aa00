// Integers of few bits that stand one after the other in bytes.
#pragma once

#include <cstdint>

#include "vkfuse/tensor.hpp"

namespace vkfuse::onnx {

/// u8 [..., n], n a number, as u8 [..., 8 n / bits], each of `bits` bits (2, 3, 4 or 8), the first in the low ones. Of
/// 3 bits n is a multiple of 3.
Tensor unpacked_bits(const Tensor& bytes, std::int64_t bits);

}  // namespace vkfuse::onnx
