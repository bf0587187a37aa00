// How values are divided over a mesh: local shapes, the steps from one layout to another, and what they cost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/sharding.hpp"

namespace vkfuse::parallel {

/// Every axis whole.
inline Layout whole_layout(std::size_t rank) { return Layout(rank, -1); }

/// The axis of the value that is divided over this axis of the mesh, or -1.
int axis_over(const Layout& layout, int mesh_axis);

/// The shape of one rank's part; every divided dimension is a multiple.
Shape local_shape(const Shape& shape, const Layout& layout, const std::vector<int>& mesh);

/// Whether each divided dimension is a number and a multiple.
bool divides(const Shape& shape, const Layout& layout, const std::vector<int>& mesh);

/// One step from a layout towards another.
struct Reshard {
  enum class Kind : std::uint8_t {
    slice,       ///< keep this rank's part along `to`: nothing is sent
    all_to_all,  ///< from being divided along `from` to being divided along `to`
    all_gather,  ///< put the parts along `from` together
  };
  Kind kind = Kind::slice;
  int mesh_axis = 0;
  int from = -1, to = -1;  ///< axes of the value
};

/// The steps, in an order that sends few bytes: first what makes parts smaller, gathers last.
std::vector<Reshard> steps_between(const Layout& from, const Layout& to, std::size_t mesh_axes);

/// Bytes that one rank sends in these steps, for a value of so many bytes on all ranks together.
double cost_between(const Layout& from, const Layout& to, double bytes, const std::vector<int>& mesh);

/// Bytes that one rank sends where a value of so many bytes on each is summed over an axis of the mesh.
double cost_of_sum(double local_bytes, int ranks);

/// The parts of two layouts that go together: `first`, and of `second` what is left of the mesh and of the axes.
Layout merged(const Layout& first, const Layout& second);

/// The layout of a reshape's result, and what its operand must have for it: an axis stays divided where it is the
/// outermost of the axes that are joined or taken apart.
struct ReshapeLayouts {
  Layout operand, result;
};
ReshapeLayouts through_reshape(const Shape& from, const Shape& to, const Layout& layout, const std::vector<int>& mesh);

}  // namespace vkfuse::parallel
