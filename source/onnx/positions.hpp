// Positions along an axis: as data they gather, and where they are known at import they are views.
#pragma once

#include <cstdint>
#include <vector>

#include "api/known_positions.hpp"
#include "onnx/value.hpp"

namespace vkfuse::onnx {

using api::kMostPositions;
using api::position_constant;
using api::position_dtype;
using api::real_constant;
using api::take;

/// Index operands count from the end where they are negative. The result counts from 0, in
/// position_dtype(size); an index known to lie outside the axis is an error.
Result<Tensor> positions(const Value& indices, std::int64_t size);

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

}  // namespace vkfuse::onnx
