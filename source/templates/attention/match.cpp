#include "templates/attention/match.hpp"

#include <algorithm>
#include <set>

#include "schedule/operands.hpp"

namespace vkfuse::schedule {

using segment::AxisSet;
using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

constexpr std::int64_t kMostElements = 256;  // of d and of n: a thread has its share of n in registers

bool is_op(const ir::Graph& graph, const Value& value, ops::Role role) {
  return value.kind == Value::Kind::compute && graph.node(value.node).op->role == role;
}

/// What is contracted at every row and column; whether nothing is scanned, sorted or reduced there.
bool find_products(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (value.kind == Value::Kind::scan || value.kind == Value::Kind::sort) return false;
    if (value.kind != Value::Kind::nested) continue;
    if (graph.node(value.node).op->cls != ops::OpClass::contraction) return false;
    tile.products.push_back({.sum = id, .d = axes_in(loops, value.over)});
  }
  return true;
}

/// The reductions: contractions and, where there is a softmax, one maximum and the sum of exponentials below it beside
/// one contraction.
bool find_reductions(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  int most = 0, total = 0;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (value.kind != Value::Kind::reduction) continue;
    if (value.online == Value::Online::softmax) {
      tile.values.total = id;
      ++total;
    } else if (sums_own_products(graph, loops, value)) {
      tile.sums.push_back({.sum = id});
    } else if (graph.node(value.node).op->reduction.join == "max" &&
               graph.node(value.node).op->reduction.kind == ops::Reduction::Kind::plain) {
      tile.values.most = id;
      ++most;
    } else {
      return false;
    }
  }
  tile.values.has_softmax = most + total > 0;
  if (!tile.values.has_softmax) return !tile.sums.empty() && !tile.products.empty();
  return most == 1 && total == 1 && tile.sums.size() == 1 && tile.products.size() <= 1 &&
         loops.values[tile.values.total].partner == tile.values.most;
}

bool contains(const std::vector<ValueId>& backward_slice, ValueId id) {
  return std::find(backward_slice.begin(), backward_slice.end(), id) != backward_slice.end();
}

bool converts_floats(const ir::Graph& graph, const ir::Node& cast) {
  return is_float(cast.type.dtype) && is_float(graph.node(cast.operands[0]).type.dtype);
}

/// Whether a value is the exponential times something that is not made of it: sums of these weights are rescaled as the
/// exponential is.
bool scales(const ir::Graph& graph, const Loops& loops, ValueId id, ValueId exponential) {
  if (id == exponential) return true;
  const Value& value = loops.values[id];
  if (value.kind != Value::Kind::compute) return false;
  const ir::Node& node = graph.node(value.node);
  const auto made_of_it = [&](std::size_t k) {
    return contains(backward_slice_of(loops, value.operands[k]), exponential);
  };
  const auto through = [&](std::size_t k) { return scales(graph, loops, value.operands[k], exponential); };
  const ops::Role op = node.op->role;
  if (op == ops::Role::neg) return through(0);
  if (op == ops::Role::cast) return converts_floats(graph, node) && through(0);
  if (op == ops::Role::mul) return made_of_it(0) ? !made_of_it(1) && through(0) : through(1);
  if (op == ops::Role::div) return !made_of_it(1) && through(0);
  if (op != ops::Role::select || made_of_it(0)) return false;
  if (number_of(graph, loops.values[value.operands[2]]) == 0.0) return through(1);
  return number_of(graph, loops.values[value.operands[1]]) == 0.0 && through(2);
}

/// Without a softmax: the factor that is computed from products. The other one is multiplied with it.
bool find_computed_weight(const Loops& loops, WeightedSum& sum) {
  const Value& product = loops.values[loops.values[sum.sum].operands[0]];
  const auto is_computed = [&](ValueId id) {
    const std::vector<ValueId> slice = backward_slice_of(loops, id);
    return std::any_of(slice.begin(), slice.end(),
                       [&](ValueId one) { return loops.values[one].kind == Value::Kind::nested; });
  };
  if (is_computed(product.operands[0]) == is_computed(product.operands[1])) return false;
  const std::size_t side = is_computed(product.operands[0]) ? 0 : 1;
  sum.weight = product.operands[side];
  sum.value.value = product.operands[1 - side];
  // Neither waits for another sum.
  return loops.values[sum.weight].level == 0 && loops.values[sum.value.value].level == 0;
}

/// What a weight is before it is rounded to the type that it is multiplied in.
ValueId before_rounding(const ir::Graph& graph, const Loops& loops, ValueId id) {
  const Value& value = loops.values[id];
  return is_op(graph, value, ops::Role::cast) && converts_floats(graph, graph.node(value.node)) ? value.operands[0]
                                                                                                : id;
}

/// Whether each of several sums has another weight, which is no product as it is: a weight is passed on under its name,
/// beside the products.
bool weights_differ(const ir::Graph& graph, const Loops& loops, const AttentionParams& tile) {
  std::set<ValueId> found;
  return std::all_of(tile.sums.begin(), tile.sums.end(), [&](const WeightedSum& sum) {
    ValueId weight = sum.weight;
    for (ValueId before = before_rounding(graph, loops, weight); before != weight;
         before = before_rounding(graph, loops, weight))
      weight = before;
    return loops.values[weight].kind != Value::Kind::nested && found.insert(weight).second;
  });
}

/// The weights of all sums, those first that others are computed from.
bool find_computed_weights(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  if (!std::all_of(tile.sums.begin(), tile.sums.end(),
                   [&](WeightedSum& sum) { return find_computed_weight(loops, sum); }))
    return false;
  std::stable_sort(tile.sums.begin(), tile.sums.end(), [&](const WeightedSum& a, const WeightedSum& b) {
    return before_rounding(graph, loops, a.weight) < before_rounding(graph, loops, b.weight);
  });
  return tile.sums.size() == 1 || weights_differ(graph, loops, tile);
}

/// The exponential of the score less its maximum, which one operand of the products is computed from.
bool find_weight(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  tile.values.score = loops.values[tile.values.most].operands[0];
  WeightedSum& sum = tile.sums[0];
  const Value& product = loops.values[loops.values[sum.sum].operands[0]];
  std::optional<ValueId> weight;
  for (std::size_t side = 0; side < 2; ++side) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, product.operands[side]);
    for (ValueId id : backward_slice) {
      const Value& value = loops.values[id];
      if (!is_op(graph, value, ops::Role::exp) || !is_op(graph, loops.values[value.operands[0]], ops::Role::sub))
        continue;
      const Value& apart = loops.values[value.operands[0]];
      if (apart.operands[0] != tile.values.score || apart.operands[1] != tile.values.most) continue;
      if (weight && *weight != product.operands[side]) return false;
      weight = product.operands[side];
      tile.values.exponential = id;
      sum.value.value = product.operands[1 - side];
    }
  }
  if (!weight || !scales(graph, loops, *weight, tile.values.exponential)) return false;
  sum.weight = *weight;
  // Only the exponential waits for the reductions.
  const ValueId stops[] = {tile.values.exponential};
  const auto waits = [&](ValueId id) {
    const Value& value = loops.values[id];
    return std::any_of(value.operands.begin(), value.operands.end(),
                       [&](ValueId operand) { return loops.values[operand].kind == Value::Kind::reduction; });
  };
  const auto contracts = [&](ValueId id) { return loops.values[id].kind == Value::Kind::nested; };
  for (ValueId root : {sum.weight, sum.value.value}) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, root, stops);
    if (std::any_of(backward_slice.begin(), backward_slice.end(), waits) ||
        std::any_of(backward_slice.begin(), backward_slice.end(), contracts))
      return false;
  }
  const std::vector<ValueId> third = backward_slice_of(loops, sum.value.value);
  return std::find(third.begin(), third.end(), tile.values.exponential) == third.end() &&
         loops.values[tile.values.score].level == 0;
}

/// Axes of rows: of the weights alone, and of what they are multiplied with alone.
struct RowAxes {
  AxisSet m = 0, n = 0;
  friend bool operator==(const RowAxes&, const RowAxes&) = default;
};

/// The operands of a contraction that the score is computed from: the one along k is the second.
bool find_operands(const ir::Graph& graph, const Loops& loops, const RowAxes& rows, const AttentionParams& tile,
                   ScoreProduct& found) {
  const Value& product = loops.values[loops.values[found.sum].operands[0]];
  const auto reduced = [&](std::size_t side) {
    return (loops.values[product.operands[side]].axes & loops.columns()) != 0;
  };
  if (reduced(0) == reduced(1) || !has_vectors(graph.node(product.node).type.dtype) ||
      !is_float(graph.node(product.node).type.dtype))
    return false;
  found.query.value = product.operands[reduced(0) ? 1 : 0];
  found.key.value = product.operands[reduced(0) ? 0 : 1];
  AxisSet others = loops.inner();
  for (const int axis : found.d) others &= ~(AxisSet{1} << axis);
  const auto stays_apart = [&](ValueId id, AxisSet axes) {
    const std::vector<ValueId> slice = backward_slice_of(loops, id);
    return (loops.values[id].axes & (axes | others)) == 0 && std::none_of(slice.begin(), slice.end(), [&](ValueId one) {
             return loops.values[one].kind == Value::Kind::nested || loops.values[one].kind == Value::Kind::reduction;
           });
  };
  const std::vector<ValueId> scores = tile.scores();
  const auto is_made_of_it = [&](ValueId score) { return contains(backward_slice_of(loops, score), found.sum); };
  return std::any_of(scores.begin(), scores.end(), is_made_of_it) && stays_apart(found.query.value, rows.n) &&
         stays_apart(found.key.value, rows.n | rows.m);
}

/// Axes that are neither reduced nor beside those that are.
AxisSet rows_of(const Loops& loops) {
  const AxisSet all = (AxisSet{1} << loops.axes.size()) - 1;
  return all & ~loops.columns() & ~loops.inner() & ~loops.keys();
}

/// Nothing where the operand of the weights has no axis that they lack, or none of what is reduced.
std::optional<RowAxes> row_axes(const Loops& loops, const WeightedSum& sum) {
  const AxisSet rows = rows_of(loops);
  const AxisSet weight = loops.values[sum.weight].axes & rows;
  const AxisSet value = loops.values[sum.value.value].axes & rows;
  if ((value & ~weight) == 0 || (loops.values[sum.value.value].axes & loops.columns()) == 0) return std::nullopt;
  return RowAxes{.m = weight & ~value, .n = value & ~weight};
}

bool find_axes(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  const AxisSet columns = loops.columns();
  const AxisSet inner = loops.inner();
  const AxisSet rows = rows_of(loops);
  const std::optional<RowAxes> of_rows = row_axes(loops, tile.sums[0]);
  if (loops.keys() != 0 || !of_rows) return false;
  if (!std::all_of(tile.sums.begin(), tile.sums.end(),
                   [&](const WeightedSum& sum) { return row_axes(loops, sum) == of_rows; }))
    return false;
  tile.axes.batch = axes_in(loops, rows & ~of_rows->m & ~of_rows->n);
  tile.axes.m = axes_in(loops, of_rows->m);
  tile.axes.n = axes_in(loops, of_rows->n);
  tile.axes.k = axes_in(loops, columns);
  const auto is_long = [&](const std::vector<int>& axes) { return count_along(loops, axes) > kMostElements; };
  if (is_long(tile.axes.n) || std::any_of(tile.products.begin(), tile.products.end(),
                                          [&](const ScoreProduct& product) { return is_long(product.d); }))
    return false;
  if (std::any_of(loops.stores.begin(), loops.stores.end(),
                  [&](const segment::Store& store) { return (store.axes & columns) != 0; }))
    return false;
  if (tile.products.empty()) return inner == 0;
  return std::all_of(tile.products.begin(), tile.products.end(),
                     [&](ScoreProduct& product) { return find_operands(graph, loops, *of_rows, tile, product); });
}

/// Whether what is reduced is f32 or less: registers are of that type, whatever the products before it are in.
bool reduces_floats(const ir::Graph& graph, const Loops& loops, const AttentionParams& tile) {
  const std::vector<ValueId> all = tile.reductions();
  return std::all_of(all.begin(), all.end(), [&](ValueId id) {
    const DType dtype = graph.node(loops.values[id].node).type.dtype;
    return is_float(dtype) && has_vectors(dtype);
  });
}

}  // namespace

std::optional<AttentionParams> match_attention(const ir::Graph& graph, const Loops& loops) {
  AttentionParams tile;
  if (!find_products(graph, loops, tile) || !find_reductions(graph, loops, tile) || !reduces_floats(graph, loops, tile))
    return std::nullopt;
  const bool is_weighted =
      tile.values.has_softmax ? find_weight(graph, loops, tile) : find_computed_weights(graph, loops, tile);
  if (!is_weighted || !find_axes(graph, loops, tile)) return std::nullopt;
  return tile;
}

}  // namespace vkfuse::schedule
