// Element types for which vkfuse has no dtype: floats of 8, 6 and 4 bits, integers of 4 and 2. The program holds each
// element in a byte, and converts where an operator asks for numbers.
#pragma once

#include <optional>
#include <string_view>

#include "vkfuse/float_codes.hpp"

namespace vkfuse::onnx {

/// A TensorProto.DataType that is no dtype.
struct NarrowType {
  int data_type = 0;
  std::string_view name;
  int bits = 0;
  DType held = DType::u8;                  ///< integers are their values, floats their codes in the low bits
  std::optional<FloatFormat> format = {};  ///< of floats
};

/// Null for what is a dtype, and for what is no type.
const NarrowType* find_narrow(int data_type);

/// The numbers of held elements: f32 of floats; integers as they are.
Tensor widened(const Tensor& held, const NarrowType& type);
/// Numbers as held elements: floats round to the nearest, ties to even; integers keep their low bits.
Tensor narrowed(const Tensor& x, const NarrowType& type, const EncodeFloatOptions& options);

}  // namespace vkfuse::onnx
