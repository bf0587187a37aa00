// Where the elements of views, and of products' operands, come from, as index expressions.
#pragma once

#include <optional>

#include "segment/loops.hpp"

namespace vkfuse::segment {

/// Coordinates in an operand, and the condition under which the element comes from there.
struct OperandPosition {
  std::vector<index::Expr> coordinates;
  std::optional<Predicate> predicate;  ///< none: always
};

/// Where element `coordinates` of a view comes from in its operand number `operand`. `sizes` are those of
/// the result and of the operand; concat is told where along its axis the operand begins.
OperandPosition position_in_operand(const ir::Node& view, std::span<const index::Expr> coordinates, const Sizes& result,
                                    const Sizes& operand_sizes, std::size_t operand, std::int64_t begin);

/// Where a dot reads its first or second operand, of `rank` axes: for element `coordinates` of its result, at `along`
/// on the contracted axes.
std::vector<index::Expr> position_in_matmul_operand(const ir::DotPayload& dot, bool second, std::size_t rank,
                                                    std::span<const index::Expr> coordinates,
                                                    std::span<const index::Expr> along);

/// The coordinates of an operand that broadcasts to the result.
std::vector<index::Expr> broadcast_coordinates(std::span<const index::Expr> coordinates, const Sizes& operand);

}  // namespace vkfuse::segment
