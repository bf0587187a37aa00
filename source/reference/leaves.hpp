// Elements that are known without operands: of inputs, constants and generators.
#pragma once

#include <cmath>
#include <cstddef>

#include "reference/elementwise.hpp"

namespace vkfuse::reference {

/// An element of an input or a constant.
inline Element stored_element(DType dtype, const std::byte* at) {
  if (!is_float(dtype)) return {0, ir::decode_int(dtype, at), 0};
  const double value = ir::decode(dtype, at);
  // A device may read an f32 denormal as zero.
  return {value, 0, dtype != DType::f16 && std::abs(value) < 0x1p-126 ? std::abs(value) : 0};
}

/// The element of `iota` at this position along its axis.
Element iota_element(DType dtype, std::int64_t position);

/// An element of a generator at a flat index.
Element generated_element(const ir::Node& node, const Sizes& sizes, std::int64_t index);

}  // namespace vkfuse::reference
