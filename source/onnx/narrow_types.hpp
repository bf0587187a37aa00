// Element types for which vkfuse has no dtype: floats of 8, 6 and 4 bits, integers of 4 and 2. The program holds each
// element in a byte, and converts where an operator asks for numbers.
#pragma once

#include <cstdint>
#include <string_view>

#include "vkfuse/tensor.hpp"

namespace vkfuse::onnx {

/// How a float's bits are numbers: sign, exponent, fraction. What a type lacks is -1.
struct FloatFormat {
  int fraction_bits = 0;
  int bias = 0;
  std::int32_t largest = 0;     ///< the code of the largest finite magnitude
  std::int32_t overflow = 0;    ///< what is larger becomes, without saturation: infinity or NaN
  std::int32_t nan = 0;         ///< the code that NaN becomes
  std::int32_t infinity = -1;   ///< the magnitude's code, where there is one
  std::int32_t first_nan = -1;  ///< magnitudes from this code on are NaN
  bool negative_zero = true;    ///< false: its code is the only NaN
};

/// A TensorProto.DataType that is no dtype.
struct NarrowType {
  int data_type = 0;
  std::string_view name;
  int bits = 0;
  DType held = DType::u8;  ///< integers are their values, floats their codes in the low bits
  bool is_float = false;
  FloatFormat format = {};
  bool is_power_of_two = false;  ///< FLOAT8E8M0: an exponent alone
};

/// Null for what is a dtype, and for what is no type.
const NarrowType* find_narrow(int data_type);

/// How numbers become narrow floats.
struct NarrowRounding {
  bool saturates = true;         ///< beyond the largest magnitude: to it; else to infinity, or NaN where there is none
  std::string_view mode = "up";  ///< of powers of two: "up", "down" or "nearest"
};

/// The numbers of held elements: f32 of floats; integers as they are.
Tensor widened(const Tensor& held, const NarrowType& type);
/// Numbers as held elements: floats round to the nearest, ties to even; integers keep their low bits.
Tensor narrowed(const Tensor& x, const NarrowType& type, const NarrowRounding& rounding);

}  // namespace vkfuse::onnx
