// Constants whose elements follow from their positions, as exporters store what a model computes of sizes alone.
#pragma once

#include <optional>

#include "index/index.hpp"
#include "ir/graph.hpp"

namespace vkfuse::passes {

/// What every element of a constant of whole numbers or booleans is: an expression of its coordinates, axis i of the
/// shape being axis i, with a step for each axis; one number where all are equal. Nothing where they are not so.
std::optional<index::Expr> ramp_of(const ir::Node& constant);

/// Whether it is a matrix of floats, or several, every element of which is 0; of -0, none is.
bool is_matrix_of_zeros(const ir::Node& constant);

/// slope * row + constant.
struct Line {
  std::int64_t slope = 0, constant = 0;
};

/// A constant of two values, as a triangle is: one where begin(row) <= column < end(row), another one elsewhere.
struct Band {
  int row = 0, column = 0;              ///< axes; along the others all elements are equal
  std::optional<Line> begin, end;       ///< nothing: the first, or the last, column
  std::size_t inside = 0, outside = 0;  ///< elements that have the two values
};

/// Looks at every element once, and at few of one that is none.
std::optional<Band> band_of(const ir::Node& constant);

}  // namespace vkfuse::passes
