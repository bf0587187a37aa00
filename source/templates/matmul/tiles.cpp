#include "templates/matmul/tiles.hpp"

#include <set>

namespace vkfuse::schedule {

using segment::Loops;
using segment::ValueId;

std::vector<ValueId> backward_slice_of_operand(const Loops& loops, const MatmulParams& tile,
                                               const TileOperand& tile_operand) {
  std::set<ValueId> all;
  const auto add = [&](ValueId value) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, value);
    all.insert(backward_slice.begin(), backward_slice.end());
  };
  add(tile_operand.value);
  for (const MatmulParams::RowReduction& reduction : tile.row_reductions) {
    if (&tile.tile_operands[static_cast<std::size_t>(reduction.tile_operand)] == &tile_operand)
      add(loops.values[reduction.reduction].operands[0]);
  }
  return {all.begin(), all.end()};
}

std::int64_t iterations_of_step(const MatmulParams& tile, const TileShape& shape) {
  std::int64_t all = shape.k + 20;
  for (const TileOperand& tile_operand : tile.tile_operands)
    all += ceil_div(
               std::int64_t{tile_operand.second ? shape.n : shape.m} * shape.k / elements_in_tile(tile_operand, shape),
               shape.workgroup()) +
           1;
  return all;
}

int elements_in_tile(const TileOperand& tile_operand, const TileShape& shape) {
  int elements = tile_operand.elements;
  while (elements > 4 && (tile_operand.second ? shape.n : shape.m) * shape.k / elements < shape.workgroup())
    elements /= 2;
  return elements;
}

}  // namespace vkfuse::schedule
