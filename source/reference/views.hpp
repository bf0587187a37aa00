// Views on numbers: which element of which operand an element of the result is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace vkfuse::reference {

/// An element of an operand by its flat row-major index.
struct Source {
  std::size_t operand = 0;
  std::int64_t index = 0;
};

/// Where the elements of a view at these flat indices come from. `result` and `operands` are the sizes of
/// the node and of what it reads.
std::vector<Source> view_sources(const ir::Node& node, std::span<const Sizes> operands, const Sizes& result,
                                 std::span<const std::int64_t> indices);

/// A view that reads one operand at the sum of an offset and of each coordinate times a stride.
struct AffineView {
  std::vector<std::int64_t> strides;  ///< by axis of the result
  std::int64_t offset = 0;
};
/// What `permute`, `broadcast`, `slice`, `reverse` and `unfold` are; nothing for other views.
std::optional<AffineView> affine_view(const ir::Node& node, const Sizes& operand, const Sizes& result);
/// Strides of a dense tensor; those of an operand that broadcasts to a shape, 0 along axes that it repeats.
std::vector<std::int64_t> dense_strides(const Sizes& sizes);
std::vector<std::int64_t> broadcast_strides(const Sizes& shape, const Sizes& operand);
/// Where the elements from `begin` to `end` of a tensor of these sizes are read.
void affine_run(const Sizes& sizes, const AffineView& view, std::int64_t begin, std::int64_t end,
                std::vector<std::int64_t>& into);

/// The coordinates of a flat index, and back. `at` has one entry for each axis.
void coordinates_of(std::int64_t index, const Sizes& sizes, std::vector<std::int64_t>& at);
std::int64_t flat_index(const std::vector<std::int64_t>& at, const Sizes& sizes);

/// The flat index in an operand that broadcasts to a shape, of a flat index of that shape.
std::int64_t broadcast_index(std::int64_t index, const Sizes& shape, const Sizes& operand);

}  // namespace vkfuse::reference
