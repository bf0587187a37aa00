#include "templates/matmul/match.hpp"

#include <algorithm>
#include <bit>

#include "schedule/means.hpp"
#include "schedule/operands.hpp"
#include "templates/matmul/tiles.hpp"

namespace vkfuse::schedule {

using segment::AxisSet;
using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

/// Whether a thread can reduce such values one by one.
bool reduces_plainly(const ir::Graph& graph, const Value& reduction) {
  const ops::Reduction& how = graph.node(reduction.node).op->reduction;
  return (how.kind == ops::Reduction::Kind::plain || how.kind == ops::Reduction::Kind::mean) &&
         reduction.online == Value::Online::no && has_vectors(graph.node(reduction.node).type.dtype);
}

/// Hoisted values of rows are of m alone, and each thread computes it for some rows.
bool match_row_values(const ir::Graph& graph, const Loops& loops, AxisSet others, MatmulParams& tile) {
  std::vector<bool> asked(loops.values.size(), false);
  for (const Value& value : loops.values) {
    for (const std::vector<ValueId>* read : {&value.operands, &value.data}) {
      for (ValueId id : *read) asked[id] = asked[id] || !value.hoisted;
    }
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

/// Whether a second operand is made of hoisted values, which a tile knows at the rows of the first: numbers of the
/// whole tensor, as the scale with which it is quantised, depend on neither.
bool second_asks_for_row_values(const Loops& loops, const MatmulParams& tile) {
  const auto is_hoisted = [&](ValueId id) { return loops.values[id].hoisted; };
  const auto asks = [&](ValueId id) {
    return std::ranges::any_of(loops.values[id].operands, is_hoisted) ||
           std::ranges::any_of(loops.values[id].data, is_hoisted);
  };
  return std::ranges::any_of(tile.tile_operands, [&](const TileOperand& operand) {
    return operand.second &&
           (is_hoisted(operand.value) || std::ranges::any_of(backward_slice_of_operand(loops, tile, operand), asks));
  });
}

/// Epilogue reductions are over the innermost axes of n.
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
  while (last->kind == Value::Kind::compute && ops::element_row(*graph.node(last->node).op).role == ops::Role::cast) {
    tile.kept = last->operands[0];
    last = &loops.values[tile.kept];
  }
  return has_vectors(graph.node(loops.values[tile.kept].node).type.dtype);
}

/// The sets of loop axes that tell operands apart.
struct AxisSets {
  AxisSet columns = 0;  ///< k
  AxisSet rows = 0;     ///< all others that results have
  AxisSet m = 0, n = 0;
};

/// The number of an operand, which is added where it is new.
int number_of_operand(MatmulParams& tile, ValueId value, bool second) {
  for (std::size_t i = 0; i < tile.tile_operands.size(); ++i) {
    if (tile.tile_operands[i].value == value && tile.tile_operands[i].second == second) return static_cast<int>(i);
  }
  tile.tile_operands.push_back({value, second, false, 1});
  return static_cast<int>(tile.tile_operands.size()) - 1;
}

/// The innermost axis of what is stored: threads beside each other store elements beside each other, and those of one
/// row of an epilogue reduction are beside each other.
int innermost_stored_axis(const Loops& loops, AxisSet rows) {
  const std::vector<int> order =
      loops.stores.empty() ? std::vector<int>() : memory_order(loops, loops.stores.front().offset);
  int last = order.empty() ? static_cast<int>(std::bit_width(rows)) - 1 : order.front();
  for (const Value& epilogue : loops.values) {
    if (epilogue.kind == Value::Kind::epilogue) last = static_cast<int>(std::bit_width(epilogue.over)) - 1;
  }
  return last;
}

/// Of the first contraction, m and n: what its operands have alone; n has the innermost axis of what is stored. False
/// of a sum of squares, say.
bool match_m_and_n(const Loops& loops, AxisSet first, AxisSet second, AxisSets& sets) {
  const AxisSet m = first & ~second;
  const AxisSet n = second & ~first;
  if (m == 0 || n == 0) return false;
  sets.m = m;
  sets.n = n;
  if (((m >> innermost_stored_axis(loops, sets.rows)) & 1u) != 0) std::swap(sets.m, sets.n);
  return true;
}

/// Adds a contraction's sum to the tile; false where its operands do not run along m and n as those before do.
bool match_sum(const Loops& loops, ValueId id, const AxisSets& sets, MatmulParams& tile) {
  std::vector<ValueId> operands = loops.values[loops.values[id].operands[0]].operands;
  const auto axes = [&](std::size_t i) { return loops.values[operands[i]].axes; };
  if ((axes(0) & sets.n) != 0) std::swap(operands[0], operands[1]);
  if ((axes(0) & sets.n) != 0 || (axes(1) & sets.m) != 0) return false;
  if ((axes(0) & sets.columns) == 0 || (axes(1) & sets.columns) == 0) return false;
  const int first = number_of_operand(tile, operands[0], false);
  tile.sums.push_back({id, first, number_of_operand(tile, operands[1], true)});
  return true;
}

/// The contractions; all other reductions are in `others`.
bool match_sums(const ir::Graph& graph, const Loops& loops, AxisSets& sets, MatmulParams& tile,
                std::vector<ValueId>& others) {
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& reduction = loops.values[id];
    if (reduction.kind == Value::Kind::scan) return false;
    if (reduction.kind != Value::Kind::reduction) continue;
    if (!sums_own_products(graph, loops, reduction)) {
      others.push_back(id);
      continue;
    }
    const std::vector<ValueId>& operands = loops.values[reduction.operands[0]].operands;
    if (sets.m == 0 && !match_m_and_n(loops, loops.values[operands[0]].axes & sets.rows,
                                      loops.values[operands[1]].axes & sets.rows, sets)) {
      others.push_back(id);
      continue;
    }
    if (!match_sum(loops, id, sets, tile)) return false;
  }
  return !tile.sums.empty();
}

/// Reductions beside the sums are of rows of the first operand.
bool match_row_reductions(const ir::Graph& graph, const Loops& loops, const AxisSets& sets,
                          const std::vector<ValueId>& others, MatmulParams& tile) {
  const auto first = std::find_if(tile.tile_operands.begin(), tile.tile_operands.end(),
                                  [](const TileOperand& one) { return !one.second; });
  const int operand = static_cast<int>(first - tile.tile_operands.begin());
  for (ValueId id : others) {
    const Value& reduction = loops.values[id];
    const AxisSet own = loops.values[reduction.operands[0]].axes;
    if (!reduces_plainly(graph, reduction) || (own & sets.n) != 0 || (own & sets.columns) == 0) return false;
    tile.row_reductions.push_back({id, operand, sums_in_two_parts(graph, loops, id) ? 2 : 1});
  }
  return true;
}

}  // namespace

std::optional<MatmulParams> match_matmul(const ir::Graph& graph, const Loops& loops) {
  if (loops.keys() != 0 || loops.passes != 1) return std::nullopt;
  AxisSets sets;
  sets.columns = loops.columns();
  sets.rows = ((AxisSet{1} << loops.axes.size()) - 1) & ~sets.columns & ~loops.inner();
  MatmulParams tile;
  std::vector<ValueId> others;
  if (!match_sums(graph, loops, sets, tile, others) || !match_row_reductions(graph, loops, sets, others, tile))
    return std::nullopt;
  if (std::any_of(loops.stores.begin(), loops.stores.end(),
                  [&](const segment::Store& store) { return (store.axes & sets.columns) != 0; }))
    return std::nullopt;
  tile.m = axes_in(loops, sets.m);
  tile.n = axes_in(loops, sets.n);
  tile.k = axes_in(loops, sets.columns);
  tile.batch = axes_in(loops, sets.rows & ~sets.m & ~sets.n);
  if (!match_row_values(graph, loops, sets.n | sets.columns, tile) || second_asks_for_row_values(loops, tile) ||
      !match_epilogues(graph, loops, tile))
    return std::nullopt;
  return tile;
}

}  // namespace vkfuse::schedule
