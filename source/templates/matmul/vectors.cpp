#include <algorithm>
#include <tuple>

#include "schedule/operands.hpp"
#include "templates/matmul/match.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

constexpr std::int64_t kFarApart = 16;  ///< elements: neighbours in memory that share no sector

/// What is read side by side along some axes.
struct Run {
  Along along;
  bool flattened = false;
  std::int64_t size = 1;  ///< of the axis

  /// Of two that are as good, the longer one: neighbouring threads read neighbours.
  [[nodiscard]] std::tuple<double, int, std::int64_t> worth() const { return {along.bytes, along.elements, size}; }
};

/// What is read in one piece across axes, as the weights of a convolution are, is as good as along one of them.
Run run_along(const Problem& problem, const std::vector<ValueId>& backward_slice, const std::vector<int>& axes) {
  const auto last = static_cast<std::size_t>(axes.back());
  const auto read = [&](const Loops& loops, bool merged = false) {
    return along(problem.graph, loops, backward_slice,
                 RunAxis{axes.back(), true, merged, problem.target.type != DeviceType::cpu}, problem.tuning);
  };
  const Run innermost{read(problem.loops), false, problem.loops.axes[last].size};
  if (axes.size() < 2) return innermost;
  const Loops merged = segment::with_axes_merged(problem.loops, axes, axes.back());
  const Run all{read(merged, true), true, merged.axes[last].size};
  return all.along.bytes >= innermost.along.bytes && all.along.elements > innermost.along.elements ? all : innermost;
}

/// Elements of memory between neighbours along an axis: the least of any load's.
std::int64_t nearest_neighbour(const Loops& loops, const std::vector<ValueId>& backward_slice, int axis) {
  std::int64_t nearest = kFarApart;
  for (ValueId id : backward_slice) {
    const Value& load = loops.values[id];
    const auto stride = load.kind == Value::Kind::load ? index::stride_of(load.offset, axis) : std::nullopt;
    if (stride && *stride != 0) nearest = std::min(nearest, std::abs(*stride));
  }
  return nearest;
}

/// So many neighbours along an axis of which no two lie side by side are read together.
int neighbours_along(const Problem& problem, const std::vector<ValueId>& backward_slice, int axis) {
  constexpr int kMost = 8;
  const Loops& loops = problem.loops;
  const auto is_load = [&](ValueId id) { return loops.values[id].kind == Value::Kind::load; };
  const auto is_read_in_words = [&](ValueId id) {
    return !is_load(id) || unaligned_access(problem.graph, loops, loops.values[id], axis, kMost);
  };
  int count = nearest_neighbour(loops, backward_slice, axis) < kFarApart ? 4 : 1;
  if (std::any_of(backward_slice.begin(), backward_slice.end(), is_load) &&
      std::all_of(backward_slice.begin(), backward_slice.end(), is_read_in_words))
    count = kMost;
  while (loops.axes[static_cast<std::size_t>(axis)].size % count != 0) count /= 2;
  return count;
}

void choose_vectors_of(const Problem& problem, const MatmulParams& tile, TileOperand& tile_operand) {
  const std::vector<ValueId> backward_slice = backward_slice_of(problem.loops, tile_operand.value);
  const std::vector<int>& own = tile_operand.second ? tile.n : tile.m;
  const Run k = run_along(problem, backward_slice, tile.k);
  const Run other = run_along(problem, backward_slice, own);
  tile_operand.along_k = k.worth() >= other.worth();
  const Run& chosen = tile_operand.along_k ? k : other;
  tile_operand.elements = std::max(1, chosen.along.elements);
  tile_operand.flattened = chosen.flattened;
  if (tile_operand.elements > 1) return;
  // No two lie side by side, as where a convolution skips positions: neighbours that are near each other share at
  // least what it takes to find them.
  const int along_k = neighbours_along(problem, backward_slice, tile.k.back());
  const int along_own = neighbours_along(problem, backward_slice, own.back());
  if (along_k == along_own && along_k == 1) return;
  const auto nearest = [&](int axis) { return nearest_neighbour(problem.loops, backward_slice, axis); };
  tile_operand.along_k = std::pair(along_k, -nearest(tile.k.back())) > std::pair(along_own, -nearest(own.back()));
  tile_operand.elements = std::max(along_k, along_own);
  tile_operand.flattened = false;
}

/// A thread meets the same rows again and again where it reads along them.
void read_along_k(const Problem& problem, const MatmulParams& tile, TileOperand& tile_operand) {
  if (tile_operand.along_k) return;
  tile_operand.along_k = true;
  tile_operand.flattened = false;
  const std::vector<ValueId> backward_slice = backward_slice_of(problem.loops, tile_operand.value);
  tile_operand.elements =
      std::max(1, along(problem.graph, problem.loops, backward_slice, RunAxis{tile.k.back()}, problem.tuning).elements);
}

}  // namespace

void choose_vectors(const Problem& problem, MatmulParams& tile) {
  for (TileOperand& tile_operand : tile.tile_operands) choose_vectors_of(problem, tile, tile_operand);
  for (const MatmulParams::RowReduction& reduction : tile.row_reductions)
    read_along_k(problem, tile, tile.tile_operands[static_cast<std::size_t>(reduction.tile_operand)]);
  for (TileOperand& tile_operand : tile.tile_operands) {
    if (!tile_operand.second && !tile.row_values.empty()) read_along_k(problem, tile, tile_operand);
  }
  const std::int64_t size = problem.loops.axes[static_cast<std::size_t>(tile.n.back())].size;
  tile.elements = 4;
  while (size % tile.elements != 0) tile.elements /= 2;
}

}  // namespace vkfuse::schedule
