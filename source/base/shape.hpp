// Shape arithmetic: broadcasting and checked element counts.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "vkfuse/dtype.hpp"
#include "vkfuse/shape.hpp"

namespace vkfuse {

/// Sizes once every symbol has its number.
using Sizes = std::vector<std::int64_t>;

/// The value of each symbol by name.
using SymbolValues = std::map<std::string, std::int64_t, std::less<>>;

/// Element type and shape of a value.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// "f32[n, 4096]".
std::string to_text(const TensorType& type);

/// Fails on a number that is no dtype, as a caller may cast it from anything.
Result<void> check_dtype(DType dtype);

/// a * b and a + b, or nothing when the result does not fit 64 bits.
std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b);
std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b);

/// The product of the sizes, or an error when it overflows 64 bits.
Result<std::int64_t> element_count(std::span<const std::int64_t> sizes);

/// Bytes of a dense tensor, or an error when that overflows.
Result<std::int64_t> byte_count(DType dtype, std::span<const std::int64_t> sizes);

/// Every dimension as a number; an error names a symbol without a value or a broken promise.
Result<Sizes> resolve(const Shape& shape, const SymbolValues& symbols);

/// NumPy's rule: shapes are aligned at the innermost dimension; a dimension of 1 stretches.
/// A symbol equals itself and stretches a 1; a symbol against another number is an error.
Result<Shape> broadcast(const Shape& a, const Shape& b);

}  // namespace vkfuse
