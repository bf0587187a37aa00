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

/// An operand of a view.
struct ViewOperand {
  const Sizes& result;     ///< the sizes of the view
  const Sizes& sizes;      ///< those of the operand
  std::size_t number = 0;  ///< which of the operands it is
  std::int64_t begin = 0;  ///< of concat: where along its axis the operand begins
};

/// Where element `coordinates` of a view comes from in an operand.
OperandPosition position_in_operand(const ir::Node& view, std::span<const index::Expr> coordinates,
                                    const ViewOperand& operand);

/// Where a gather reads an element of its result: in the indices, and in the data, at 0 along the axis where data
/// chooses.
struct GatherPosition {
  std::vector<index::Expr> in_indices;
  std::vector<index::Expr> in_data;
};
GatherPosition position_in_gather(const ir::Node& gather, std::span<const index::Expr> coordinates,
                                  const Sizes& data_sizes, const Sizes& index_sizes);

/// Where a reduction over `axes` reads its operand, of `rank` axes: for element `rows` of its result, at `along` on the
/// reduced axes, in ascending order.
std::vector<index::Expr> position_in_reduced(std::span<const int> axes, std::size_t rank,
                                             std::span<const index::Expr> rows, std::span<const index::Expr> along);

/// Where a dot reads its first or second operand, of `rank` axes: for element `coordinates` of its result, at `along`
/// on the contracted axes.
std::vector<index::Expr> position_in_matmul_operand(const ir::DotPayload& dot, bool second, std::size_t rank,
                                                    std::span<const index::Expr> coordinates,
                                                    std::span<const index::Expr> along);

/// The coordinates of an operand that broadcasts to the result.
std::vector<index::Expr> broadcast_coordinates(std::span<const index::Expr> coordinates, const Sizes& operand);

}  // namespace vkfuse::segment
