#include "templates/matmul/tiles.hpp"

#include <set>

#include "schedule/access.hpp"

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

std::vector<ValueId> kept_along_sum(const ir::Graph& graph, const Loops& loops, const Schedule& schedule,
                                    const TileOperand& tile_operand) {
  constexpr int kMostWords = 16;  // registers of a thread, while it multiplies
  const MatmulParams& tile = schedule.as<MatmulParams>();
  const auto* staged = std::get_if<CooperativeMatrixProducts>(&tile.products);
  if (staged == nullptr || size_of(staged->mma.a) != 2 || tile_operand.along_k) return {};
  const int extent = tile_operand.second ? tile.shape.n : tile.shape.m;
  const int chunks_of_row = extent / tile_operand.elements;
  const bool at_one_place =
      chunks_of_row * tile.shape.k % schedule.workgroup == 0 && schedule.workgroup % chunks_of_row == 0;
  if (!at_one_place) return {};
  std::vector<ValueId> kept;
  int words = 0;
  for (ValueId id : backward_slice_of_operand(loops, tile, tile_operand)) {
    const segment::Value& load = loops.values[id];
    if (load.kind != segment::Value::Kind::load || (load.axes & set_of(tile.k)) != 0 || !load.data.empty() ||
        !load.predicates.empty() || schedule.loads[id].kind != AccessKind::vector)
      continue;
    kept.push_back(id);
    words += registers_of_chunk(schedule.loads[id], size_of(graph.node(load.node).type.dtype), tile_operand.elements);
  }
  return words <= kMostWords ? kept : std::vector<ValueId>();
}

int elements_in_tile(const TileOperand& tile_operand, const TileShape& shape) {
  const int extent = tile_operand.second ? shape.n : shape.m;
  const int along = tile_operand.along_k ? shape.k : extent;
  int elements = tile_operand.elements;
  while (elements > 4 && (extent * shape.k / elements < shape.workgroup() || along % elements != 0)) elements /= 2;
  return elements;
}

}  // namespace vkfuse::schedule
