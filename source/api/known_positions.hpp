// Positions along an axis that are known when the graph is written down: views where they follow a rule.
#pragma once

#include <cstdint>
#include <vector>

#include "vkfuse/tensor.hpp"

namespace vkfuse::api {

/// Positions and weights are listed on the host, one by one: a node of a few bytes must not take gigabytes.
inline constexpr std::int64_t kMostPositions = 1 << 22;

/// i32, or i64 where an axis is longer than i32 counts.
DType position_dtype(std::int64_t size);

/// The elements of an axis at known positions, each in 0 .. size-1, in this order. Positions that step
/// evenly are slices, each repeated equally often a broadcast, a few runs of these a concatenation:
/// no index is loaded then. Only the rest is a gather.
Tensor take(const Tensor& x, int axis, const std::vector<std::int64_t>& requested);

/// A constant of i32 or i64 positions (see position_dtype), or of reals rounded to a dtype.
Tensor position_constant(const std::vector<std::int64_t>& values, Shape shape, DType dtype = DType::i32);
Tensor real_constant(const std::vector<double>& values, Shape shape, DType dtype);

}  // namespace vkfuse::api
