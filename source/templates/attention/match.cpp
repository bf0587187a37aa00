#include "templates/attention/match.hpp"

#include <algorithm>

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

/// The reductions: one contraction and, where there is a softmax, one maximum and the sum of exponentials below it.
bool find_reductions(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  int most = 0, total = 0, sums = 0;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (value.kind != Value::Kind::reduction) continue;
    if (value.online == Value::Online::softmax) {
      tile.values.total = id;
      ++total;
    } else if (sums_own_products(graph, loops, value)) {
      tile.values.sum = id;
      ++sums;
    } else if (graph.node(value.node).op->reduction.join == "max" &&
               graph.node(value.node).op->reduction.kind == ops::Reduction::Kind::plain) {
      tile.values.most = id;
      ++most;
    } else {
      return false;
    }
  }
  tile.values.has_softmax = most + total > 0;
  if (!tile.values.has_softmax) return sums == 1 && !tile.products.empty();
  return most == 1 && total == 1 && sums == 1 && tile.products.size() <= 1 &&
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
bool find_computed_weight(const Loops& loops, AttentionParams& tile) {
  const Value& product = loops.values[loops.values[tile.values.sum].operands[0]];
  const auto is_computed = [&](ValueId id) {
    const std::vector<ValueId> slice = backward_slice_of(loops, id);
    return std::any_of(slice.begin(), slice.end(),
                       [&](ValueId one) { return loops.values[one].kind == Value::Kind::nested; });
  };
  if (is_computed(product.operands[0]) == is_computed(product.operands[1])) return false;
  const std::size_t side = is_computed(product.operands[0]) ? 0 : 1;
  tile.values.score = tile.values.exponential = tile.values.weight = product.operands[side];
  tile.value.value = product.operands[1 - side];
  return loops.values[tile.values.weight].level == 0;
}

/// The exponential of the score less its maximum, which one operand of the products is computed from.
bool find_weight(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  tile.values.score = loops.values[tile.values.most].operands[0];
  const Value& product = loops.values[loops.values[tile.values.sum].operands[0]];
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
      tile.value.value = product.operands[1 - side];
    }
  }
  if (!weight || !scales(graph, loops, *weight, tile.values.exponential)) return false;
  tile.values.weight = *weight;
  // Only the exponential waits for the reductions.
  const ValueId stops[] = {tile.values.exponential};
  const auto waits = [&](ValueId id) {
    const Value& value = loops.values[id];
    return std::any_of(value.operands.begin(), value.operands.end(),
                       [&](ValueId operand) { return loops.values[operand].kind == Value::Kind::reduction; });
  };
  const auto contracts = [&](ValueId id) { return loops.values[id].kind == Value::Kind::nested; };
  for (ValueId root : {tile.values.weight, tile.value.value}) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, root, stops);
    if (std::any_of(backward_slice.begin(), backward_slice.end(), waits) ||
        std::any_of(backward_slice.begin(), backward_slice.end(), contracts))
      return false;
  }
  const std::vector<ValueId> third = backward_slice_of(loops, tile.value.value);
  return std::find(third.begin(), third.end(), tile.values.exponential) == third.end() &&
         loops.values[tile.values.score].level == 0;
}

/// Axes of rows: of the weights alone, and of what they are multiplied with alone.
struct RowAxes {
  AxisSet m = 0, n = 0;
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
  return contains(backward_slice_of(loops, tile.values.score), found.sum) && stays_apart(found.query.value, rows.n) &&
         stays_apart(found.key.value, rows.n | rows.m);
}

bool find_axes(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  const AxisSet columns = loops.columns();
  const AxisSet inner = loops.inner();
  const AxisSet all = (AxisSet{1} << loops.axes.size()) - 1;
  const AxisSet rows = all & ~columns & ~inner & ~loops.keys();
  const AxisSet weight = loops.values[tile.values.weight].axes & rows;
  const AxisSet third = loops.values[tile.value.value].axes & rows;
  const AxisSet n = third & ~weight;
  const AxisSet m = weight & ~third;
  if (loops.keys() != 0 || n == 0 || (loops.values[tile.value.value].axes & columns) == 0) return false;
  tile.axes.batch = axes_in(loops, rows & ~m & ~n);
  tile.axes.m = axes_in(loops, m);
  tile.axes.n = axes_in(loops, n);
  tile.axes.k = axes_in(loops, columns);
  const auto is_long = [&](const std::vector<int>& axes) { return count_along(loops, axes) > kMostElements; };
  if (is_long(tile.axes.n) || std::any_of(tile.products.begin(), tile.products.end(),
                                          [&](const ScoreProduct& product) { return is_long(product.d); }))
    return false;
  if (std::any_of(loops.stores.begin(), loops.stores.end(),
                  [&](const segment::Store& store) { return (store.axes & columns) != 0; }))
    return false;
  if (tile.products.empty()) return inner == 0;
  return std::all_of(tile.products.begin(), tile.products.end(), [&](ScoreProduct& product) {
    return find_operands(graph, loops, {m, n}, tile, product);
  });
}

}  // namespace

std::optional<AttentionParams> match_attention(const ir::Graph& graph, const Loops& loops) {
  AttentionParams tile;
  if (!find_products(graph, loops, tile) || !find_reductions(graph, loops, tile)) return std::nullopt;
  const bool is_weighted =
      tile.values.has_softmax ? find_weight(graph, loops, tile) : find_computed_weight(loops, tile);
  if (!is_weighted || !find_axes(graph, loops, tile)) return std::nullopt;
  return tile;
}

}  // namespace vkfuse::schedule
