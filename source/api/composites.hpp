// What the definitions of composites share, with each other and with the importer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::api {

/// Of a sequence in a cache: positions and their sums are i32.
inline constexpr std::int64_t kMostCachePositions = std::int64_t{1} << 26;

/// A binary op on a tensor and a number, which is rounded to its dtype.
Tensor with_number(std::string_view op, const Tensor& x, double number);
std::string text_of_type(const Tensor& x);
/// A scalar of i32.
Tensor whole_number(std::int64_t value);
/// The tensor, or an invalid one that carries the error.
Tensor or_failed(Result<Tensor> made);

/// Deviations times scale / sqrt(variance + epsilon), and the bias; both in the dtype of the variance. All broadcast.
Tensor batch_normalised(const Tensor& deviation, const Tensor& variance, const NormOptions& options);

/// scatter_along where positions count from 0 and are known to be in range.
Tensor scatter_at(const Tensor& x, const Tensor& positions, const Tensor& updates, int axis, std::string_view mode);

/// one_hot of positions that count from 0, as i32.
Tensor hot_at(const Tensor& positions, std::int64_t depth, const Tensor& on, const Tensor& off, int axis);

}  // namespace vkfuse::api
