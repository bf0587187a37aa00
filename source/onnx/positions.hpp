// Positions along an axis: as data they gather, and where they are known at import they are views.
#pragma once

#include <cstdint>
#include <vector>

#include "onnx/value.hpp"

namespace vkfuse::onnx {

/// Positions and weights are listed on the host, one by one: a node of a few bytes must not take gigabytes.
inline constexpr std::int64_t kMostPositions = 1 << 22;

/// i32, or i64 where an axis is longer than i32 counts.
DType position_dtype(std::int64_t size);

/// Index operands count from the end where they are negative. The result counts from 0, in
/// position_dtype(size); an index known to lie outside the axis is an error.
Result<Tensor> positions(const Value& indices, std::int64_t size);

/// The elements of an axis at known positions, each in 0 .. size-1, in this order. Positions that step
/// evenly are slices, each repeated equally often a broadcast, a few runs of these a concatenation:
/// no index is loaded then. Only the rest is a gather.
Tensor take(const Tensor& x, int axis, const std::vector<std::int64_t>& requested);

/// Index tuples as positions of rows: what GatherND reads and ScatterND writes.
struct FlatPositions {
  Tensor positions;        ///< [count]: which row each tuple means
  std::int64_t count = 0;  ///< how many tuples there are
  std::size_t axes = 0;    ///< how many axes of the input a tuple indexes
  std::int64_t rows = 0;   ///< the product of those axes and of the batch axes before them

  /// The input with those axes as one.
  [[nodiscard]] Tensor rows_of(const Tensor& x) const;
  std::size_t batch = 0;
};

/// `indices` is [batch..., any..., axes]; its first `batch` dimensions are those of the input, and each
/// tuple indexes the axes that follow them. All of these dimensions must be numbers.
Result<FlatPositions> flat_positions(const Value& indices, const Shape& input, std::size_t batch);

/// A constant of i32 or i64 positions (see position_dtype), or of reals rounded to a dtype.
Tensor position_constant(const std::vector<std::int64_t>& values, Shape shape, DType dtype = DType::i32);
Tensor real_constant(const std::vector<double>& values, Shape shape, DType dtype);

}  // namespace vkfuse::onnx
