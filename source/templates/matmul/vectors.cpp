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

}  // namespace

void choose_vectors(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, MatmulParams& tile) {
  for (TileOperand& tile_operand : tile.tile_operands) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, tile_operand.value);
    const std::vector<int>& own = tile_operand.second ? tile.n : tile.m;
    // What is read in one piece across axes, as the weights of a convolution are, is as good as along one of them.
    struct Choice {
      Along run;
      bool flattened = false;
      std::int64_t size = 1;
    };
    const auto choice = [&](const std::vector<int>& axes) {
      Choice innermost{along(graph, loops, backward_slice, RunAxis{axes.back(), true}, tuning), false,
                       loops.axes[static_cast<std::size_t>(axes.back())].size};
      if (axes.size() < 2) return innermost;
      const Loops merged = segment::with_axes_merged(loops, axes, axes.back());
      Choice all{along(graph, merged, backward_slice, RunAxis{axes.back(), true}, tuning), true,
                 merged.axes[static_cast<std::size_t>(axes.back())].size};
      return all.run.bytes >= innermost.run.bytes && all.run.elements > innermost.run.elements ? all : innermost;
    };
    const Choice k = choice(tile.k);
    const Choice other = choice(own);
    // Of two that are as good, the longer run: neighbouring threads read neighbours.
    const auto worth = [&](const Choice& one) { return std::tuple(one.run.bytes, one.run.elements, one.size); };
    tile_operand.along_k = worth(k) >= worth(other);
    const Choice& chosen = tile_operand.along_k ? k : other;
    tile_operand.elements = std::max(1, chosen.run.elements);
    tile_operand.flattened = chosen.flattened;
    if (tile_operand.elements > 1) continue;
    // No two lie side by side, as where a convolution skips positions: neighbours that are near each other share at
    // least what it takes to find them.
    const auto nearest = [&](int axis) {
      std::int64_t stride = kFarApart;
      for (ValueId id : backward_slice) {
        const Value& load = loops.values[id];
        const auto own_stride = load.kind == Value::Kind::load ? index::stride_of(load.offset, axis) : std::nullopt;
        if (own_stride && *own_stride != 0) stride = std::min(stride, std::abs(*own_stride));
      }
      return stride;
    };
    const auto is_load = [&](ValueId id) { return loops.values[id].kind == Value::Kind::load; };
    const auto neighbours = [&](int axis) {
      constexpr int kMost = 8;
      const auto is_read_in_words = [&](ValueId id) {
        return !is_load(id) || unaligned_access(graph, loops, loops.values[id], axis, kMost);
      };
      int count = nearest(axis) < kFarApart ? 4 : 1;
      if (std::any_of(backward_slice.begin(), backward_slice.end(), is_load) &&
          std::all_of(backward_slice.begin(), backward_slice.end(), is_read_in_words))
        count = kMost;
      while (loops.axes[static_cast<std::size_t>(axis)].size % count != 0) count /= 2;
      return count;
    };
    const int along_k = neighbours(tile.k.back());
    const int along_own = neighbours(own.back());
    if (along_k == along_own && along_k == 1) continue;
    tile_operand.along_k = std::pair(along_k, -nearest(tile.k.back())) > std::pair(along_own, -nearest(own.back()));
    tile_operand.elements = std::max(along_k, along_own);
    tile_operand.flattened = false;
  }
  // A thread meets the same rows again and again where it reads along them.
  const auto read_along_k = [&](TileOperand& tile_operand) {
    if (tile_operand.along_k) return;
    tile_operand.along_k = true;
    tile_operand.flattened = false;
    tile_operand.elements = std::max(
        1, along(graph, loops, backward_slice_of(loops, tile_operand.value), RunAxis{tile.k.back()}, tuning).elements);
  };
  for (const MatmulParams::RowReduction& reduction : tile.row_reductions)
    read_along_k(tile.tile_operands[static_cast<std::size_t>(reduction.tile_operand)]);
  for (TileOperand& tile_operand : tile.tile_operands) {
    if (!tile_operand.second && !tile.row_values.empty()) read_along_k(tile_operand);
  }
  const std::int64_t size = loops.axes[static_cast<std::size_t>(tile.n.back())].size;
  tile.elements = 4;
  while (size % tile.elements != 0) tile.elements /= 2;
}

}  // namespace vkfuse::schedule
