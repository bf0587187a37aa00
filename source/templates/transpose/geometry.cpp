#include "templates/transpose/geometry.hpp"

#include <algorithm>

namespace vkfuse::schedule {

using index::AxisId;
using index::Expr;
using segment::Loops;

namespace {

constexpr std::int64_t kBanks = 32;

}  // namespace

Loops merge_inner(const Loops& loops, int count) {
  if (count == 1) return loops;
  const std::size_t first = loops.axes.size() - static_cast<std::size_t>(count);
  std::vector<int> axes;
  for (std::size_t axis = first; axis < loops.axes.size(); ++axis) axes.push_back(static_cast<int>(axis));
  Loops result = segment::with_axes_merged(loops, axes, axes.front());
  result.axes.resize(first + 1);
  return result;
}

std::int64_t Box::tiles() const {
  std::int64_t count = 1;
  for (std::int64_t along : blocks) count *= along;
  return count;
}

Box box_of(const Loops& loops, const TransposeParams& tile) {
  Box box;
  const std::size_t outer = loops.axes.size() - static_cast<std::size_t>(tile.merged);
  for (std::size_t axis = 0; axis < loops.axes.size(); ++axis) {
    if (axis <= outer) {
      box.sizes.push_back(loops.axes[axis].size);
      box.extents.push_back(tile.extents[axis]);
    } else {
      box.sizes.back() *= loops.axes[axis].size;
      box.extents.back() *= tile.extents[axis];
    }
  }
  for (std::size_t axis = 0; axis < box.sizes.size(); ++axis) {
    box.blocks.push_back(ceil_div(box.sizes[axis], box.extents[axis]));
    if (axis < outer) box.rows *= box.extents[axis];
  }
  box.columns = box.extents.back();
  return box;
}

Expr TileArray::entry(const Expr& row, const Expr& column) const {
  const Expr in_row = index::floor_div(column, packed);
  // One row alone would put what threads read together, some entries apart, into few banks.
  return pitch > 0 ? row * pitch + in_row : in_row + index::floor_div(in_row, kBanks);
}

TileArray array_of(const Box& box, const TransposedLoad& load) {
  TileArray array;
  array.packed = load.packed;
  const std::int64_t in_row = box.columns / load.packed;
  if (box.rows == 1) {
    array.entries = in_row + (in_row - 1) / kBanks;
  } else {
    array.pitch = in_row | 1;
    array.entries = box.rows * array.pitch;
  }
  return array;
}

std::int64_t run_length(const TransposeParams& tile, const TransposedLoad& load) {
  std::int64_t length = 1;
  for (int axis : load.run) length *= tile.extents[static_cast<std::size_t>(axis)];
  return length;
}

std::int64_t unit_count(const Box& box, const TransposedLoad& load) {
  return box.volume() / load.elements / load.packed;
}

std::int64_t threads_along(std::int64_t count, std::int64_t stride) {
  constexpr std::int64_t kFewest = 4;  // 64 bytes of memory, where they are vectors
  const std::int64_t threads = std::max(kFewest, kBanks / std::max<std::int64_t>(stride, 1));
  if (count % threads == 0) return threads;
  return count % kFewest == 0 ? kFewest : count;
}

}  // namespace vkfuse::schedule
