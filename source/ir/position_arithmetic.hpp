// What ops make of positions, as expressions of the index algebra.
#pragma once

#include <optional>
#include <span>

#include "index/index.hpp"
#include "ops/op.hpp"

namespace vkfuse::ir {

/// Positions and their sums that are not beyond this fit 32 bits.
inline constexpr std::int64_t kFarthestPosition = std::int64_t{1} << 30;

/// The result of an op, of this dtype, whose operands are these expressions; nothing where that is no expression. It is
/// for the caller to ask whether the dtype has all of its numbers (index::has_all_of).
using PositionArithmetic = std::optional<index::Expr> (*)(DType dtype, std::span<const index::Expr> operands);

/// Null for an op whose results are no expressions of positions.
PositionArithmetic position_arithmetic_of(ops::Role role);

/// A literal, if it is a whole number and not beyond the farthest position.
std::optional<index::Expr> whole_number(double literal);

}  // namespace vkfuse::ir
