#include "templates/matmul/match.hpp"

#include <algorithm>
#include <bit>

#include "schedule/means.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::schedule {

using segment::AxisSet;
using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

/// Whether a thread can fold such values one by one.
bool reduces_plainly(const ir::Graph& graph, const Value& reduction) {
  const ops::Reduction& how = graph.node(reduction.node).op->reduction;
  return (how.kind == ops::Reduction::Kind::plain || how.kind == ops::Reduction::Kind::mean) &&
         reduction.online == Value::Online::no && has_vectors(graph.node(reduction.node).type.dtype);
}

/// Hoisted values of rows are of m alone, and each thread computes it for some rows.
bool match_row_values(const ir::Graph& graph, const Loops& loops, AxisSet others, MatmulParams& tile) {
  std::vector<bool> asked(loops.values.size(), false);
  for (const Value& value : loops.values) {
    for (ValueId operand : value.operands) asked[operand] = asked[operand] || !value.hoisted;
  }
  for (const segment::Store& store : loops.stores) asked[store.value] = true;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (!value.hoisted) {
      if (value.kind == Value::Kind::nested) return false;
      continue;
    }
    if ((value.axes & others) != 0 || !has_vectors(graph.node(value.node).type.dtype)) return false;
    if (value.kind == Value::Kind::nested && (!reduces_plainly(graph, value) || value.over != loops.inner()))
      return false;
    if (asked[id]) tile.row_values.push_back(id);
  }
  return true;
}

/// Tails fold the innermost axes of n.
bool match_epilogues(const ir::Graph& graph, const Loops& loops, MatmulParams& tile) {
  AxisSet over = 0;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (value.kind != Value::Kind::epilogue) continue;
    if (!reduces_plainly(graph, value) || (over != 0 && over != value.over)) return false;
    over = value.over;
    tile.epilogues.push_back(id);
  }
  if (tile.epilogues.empty()) return true;
  std::vector<int> inner;
  for (auto axis = tile.n.rbegin(); axis != tile.n.rend() && ((over >> *axis) & 1u) != 0; ++axis)
    inner.insert(inner.begin(), *axis);
  if (inner != axes_in(loops, over)) return false;
  constexpr std::int64_t kLargestBlock = 256;
  const std::int64_t block = count_along(loops, inner);
  if (block % 4 != 0 || block > kLargestBlock || loops.axes[static_cast<std::size_t>(inner.back())].size % 4 != 0)
    return false;
  tile.block = static_cast<int>(block);
  tile.kept = loops.values[tile.epilogues.front()].operands[0];
  const Value* last = &loops.values[tile.kept];
  while (last->kind == Value::Kind::compute && ops::element_row(*graph.node(last->node).op).name == "cast") {
    tile.kept = last->operands[0];
    last = &loops.values[tile.kept];
  }
  return has_vectors(graph.node(loops.values[tile.kept].node).type.dtype);
}

}  // namespace

std::optional<MatmulParams> match_matmul(const ir::Graph& graph, const Loops& loops) {
  const AxisSet columns = loops.columns();
  const AxisSet rows = ((AxisSet{1} << loops.axes.size()) - 1) & ~columns & ~loops.inner();
  if (loops.keys() != 0 || loops.passes != 1) return std::nullopt;
  MatmulParams tile;
  AxisSet m = 0;
  AxisSet n = 0;
  std::vector<ValueId> others;
  const auto tile_operand = [&](ValueId value, bool second) {
    for (std::size_t i = 0; i < tile.tile_operands.size(); ++i) {
      if (tile.tile_operands[i].value == value && tile.tile_operands[i].second == second) return static_cast<int>(i);
    }
    tile.tile_operands.push_back({value, second, false, 1});
    return static_cast<int>(tile.tile_operands.size()) - 1;
  };
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& reduction = loops.values[id];
    if (reduction.kind == Value::Kind::scan) return std::nullopt;
    if (reduction.kind != Value::Kind::reduction) continue;
    if (!sums_own_products(graph, loops, reduction)) {
      others.push_back(id);
      continue;
    }
    std::vector<ValueId> tile_operands = loops.values[reduction.operands[0]].operands;
    const auto own = [&](int i) { return loops.values[tile_operands[static_cast<std::size_t>(i)]].axes & rows; };
    if (m == 0) {
      m = own(0) & ~own(1);
      n = own(1) & ~own(0);
      if (m == 0 || n == 0) {  // a sum of squares, say
        m = n = 0;
        others.push_back(id);
        continue;
      }
      // Threads beside each other store elements beside each other: n has the innermost axis of what is stored.
      const std::vector<int> order =
          loops.stores.empty() ? std::vector<int>() : memory_order(loops, loops.stores.front().offset);
      int last = order.empty() ? static_cast<int>(std::bit_width(rows)) - 1 : order.front();
      for (const Value& epilogue : loops.values) {
        if (epilogue.kind == Value::Kind::epilogue)
          last = static_cast<int>(std::bit_width(epilogue.over)) - 1;  // those of one row are beside each other
      }
      if (((m >> last) & 1u) != 0) std::swap(m, n);
    }
    if ((own(0) & n) != 0) std::swap(tile_operands[0], tile_operands[1]);
    if ((own(0) & n) != 0 || (own(1) & m) != 0) return std::nullopt;
    const auto reduced = [&](int i) {
      return (loops.values[tile_operands[static_cast<std::size_t>(i)]].axes & columns) != 0;
    };
    if (!reduced(0) || !reduced(1)) return std::nullopt;
    const int first = tile_operand(tile_operands[0], false);
    tile.sums.push_back({id, first, tile_operand(tile_operands[1], true)});
  }
  if (tile.sums.empty()) return std::nullopt;
  for (ValueId id : others) {
    const Value& reduction = loops.values[id];
    const AxisSet own = loops.values[reduction.operands[0]].axes;
    if (!reduces_plainly(graph, reduction) || (own & n) != 0 || (own & columns) == 0) return std::nullopt;
    const auto first = std::find_if(tile.tile_operands.begin(), tile.tile_operands.end(),
                                    [](const TileOperand& one) { return !one.second; });
    tile.row_reductions.push_back(
        {id, static_cast<int>(first - tile.tile_operands.begin()), sums_in_two_parts(graph, loops, id) ? 2 : 1});
  }
  for (const segment::Store& store : loops.stores) {
    if ((store.axes & columns) != 0) return std::nullopt;
  }
  tile.m = axes_in(loops, m);
  tile.n = axes_in(loops, n);
  tile.k = axes_in(loops, columns);
  tile.batch = axes_in(loops, rows & ~m & ~n);
  if (!match_row_values(graph, loops, n | columns, tile) || !match_epilogues(graph, loops, tile)) return std::nullopt;
  return tile;
}

}  // namespace vkfuse::schedule
