// Ops that are written in terms of others before anything is planned.
#include <bit>
#include <limits>

#include "base/mutations.hpp"
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::NodeId;

/// Appends nodes and remembers the first error.
class Writer {
 public:
  explicit Writer(ir::Graph& graph) : graph_(graph) {}

  NodeId op(std::string_view name, std::vector<NodeId> operands) {
    return keep(graph_.add(ops::row(name), std::move(operands)));
  }
  NodeId cast(NodeId value, DType dtype) {
    return type(value).dtype == dtype ? value : keep(graph_.add(ops::row("cast"), {value}, dtype));
  }
  NodeId reshape(NodeId value, Shape shape) {
    return type(value).shape == shape
               ? value
               : keep(graph_.add_structured(ops::row("reshape"), {value}, ir::NoPayload{}, std::move(shape)));
  }
  NodeId reduce(std::string_view name, NodeId value, std::vector<int> axes) {
    return keep(graph_.add_structured(ops::row(name), {value}, ir::AxesPayload{std::move(axes)}));
  }
  NodeId gather(NodeId data, NodeId indices, bool or_zero = false) {
    return keep(graph_.add_structured(ops::row("gather"), {data, indices}, ir::AxisPayload{0, or_zero}));
  }
  /// Ascending, of one axis.
  NodeId argsort(NodeId value) {
    return keep(
        graph_.add_structured(ops::row("argsort"), {value}, ir::SortPayload{0, false, type(value).shape[0].size()}));
  }
  NodeId update(NodeId base, NodeId starts, NodeId rows, const ir::UpdatePayload& how) {
    return keep(graph_.add_structured(ops::row("update_rows"), {base, starts, rows}, how));
  }
  NodeId iota(Shape shape, int axis) { return keep(graph_.add_iota({DType::i32, std::move(shape)}, axis)); }
  NodeId scalar(DType dtype, double value) { return graph_.add_scalar(dtype, value); }
  [[nodiscard]] const TensorType& type(NodeId id) const { return graph_.node(id).type; }

  Result<NodeId> done(NodeId result) {
    if (error_) return *std::move(error_);
    return result;
  }

 private:
  NodeId keep(Result<NodeId> made) {
    if (made) return *made;
    if (!error_) error_ = std::move(made).error();
    return 0;
  }

  ir::Graph& graph_;
  std::optional<Error> error_;
};

/// The elementwise row and its identity for a mode that joins.
struct Joining {
  std::string_view reduce;
  std::string_view join;
};
Joining joining(ir::ScatterMode mode) {
  switch (mode) {
    case ir::ScatterMode::add: return {"reduce_sum", "add"};
    case ir::ScatterMode::mul: return {"reduce_prod", "mul"};
    case ir::ScatterMode::max: return {"reduce_max", "max"};
    default: return {"reduce_min", "min"};
  }
}

/// What a scatter is given: rows of `updates` for the rows of `base` at `positions`, of i32, negative or after the
/// last row where there is none.
struct Scatter {
  NodeId base = 0, positions = 0, updates = 0;
  ir::ScatterMode mode = ir::ScatterMode::set;
};

/// The type of `base` with these two axes in place of its first.
Shape with_first_axes(const TensorType& type, Dim first, Dim second) {
  Shape shape{first, second};
  shape.insert(shape.end(), type.shape.begin() + 1, type.shape.end());
  return shape;
}

Shape then_ones(const TensorType& type, Dim first, Dim second) {
  Shape shape{first, second};
  shape.resize(type.shape.size() + 1, Dim(1));
  return shape;
}

/// The row of `updates` at `row_of` where a row has an update, and the row of `base` elsewhere; so no updates, as a
/// symbol may say, are no mistake.
NodeId set_rows(Writer& w, const Scatter& of, NodeId has_update, NodeId row_of) {
  const TensorType type = w.type(of.base);
  Shape one_per_row{type.shape[0]};
  one_per_row.resize(type.shape.size(), Dim(1));
  return w.op("select", {w.reshape(has_update, one_per_row), w.gather(of.updates, row_of, true), of.base});
}

/// `base` with what its rows take of `updates` [1, k, ...], where `takes` [rows, k, 1, ...] says so, joined onto it.
NodeId join_rows(Writer& w, const Scatter& of, NodeId takes, NodeId updates) {
  const TensorType type = w.type(of.base);
  const Joining ops = joining(of.mode);
  const double identity = ops::row(ops.reduce).reduction.identity;
  const NodeId column = w.reshape(updates, with_first_axes(type, Dim(1), w.type(of.positions).shape[0]));
  const NodeId mine = w.op("select", {takes, column, w.scalar(type.dtype, identity)});
  return w.op(ops.join, {of.base, w.reduce(ops.reduce, mine, {1})});
}

/// Every row of the result looks at all updates for its own. `set`: the last update of each row is found first, by
/// positions alone, and then read or not: no row is written twice, whatever the positions.
NodeId scatter_by_comparing(Writer& w, const Scatter& of) {
  const TensorType type = w.type(of.base);
  const Dim rows = type.shape[0], count = w.type(of.positions).shape[0];
  if (of.mode == ir::ScatterMode::set) {
    const NodeId hit = w.op("eq", {w.reshape(of.positions, {Dim(1), count}), w.iota({rows, Dim(1)}, 0)});
    const NodeId position = w.op("select", {hit, w.iota({Dim(1), count}, 1), w.scalar(DType::i32, -1)});
    const NodeId last = w.reduce("reduce_max", position, {1});
    return set_rows(w, of, w.op("ge", {last, w.scalar(DType::i32, 0)}), last);
  }
  const NodeId hit =
      w.op("eq", {w.reshape(of.positions, then_ones(type, Dim(1), count)), w.iota(then_ones(type, rows, Dim(1)), 0)});
  return join_rows(w, of, hit, of.updates);
}

/// How many of `count` ascending numbers are less than the numbers 0, 1, ... of `rows` rows, or as large at most:
/// binary search.
NodeId count_below(Writer& w, NodeId ascending, Dim rows, bool or_equal) {
  const std::int64_t count = w.type(ascending).shape[0].size();
  const NodeId row = w.iota({rows}, 0);
  NodeId below = w.scalar(DType::i32, 0);
  for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count))); step > 0; step /= 2) {
    const NodeId more = w.op("add", {below, w.scalar(DType::i32, static_cast<double>(step))});
    const NodeId number = w.gather(ascending, w.op("sub", {more, w.scalar(DType::i32, 1)}));
    const NodeId holds = w.op("and", {w.op("le", {more, w.scalar(DType::i32, static_cast<double>(count))}),
                                      w.op(or_equal ? "le" : "lt", {number, row})});
    below = w.op("select", {holds, more, below});
  }
  return below;
}

/// Updates in the order of their rows, in which those of one row are neighbours, in their own order: each row finds
/// where its own begin and end, and looks at no other.
NodeId scatter_by_sorting(Writer& w, const Scatter& of) {
  const TensorType type = w.type(of.base);
  const Dim rows = type.shape[0], count = w.type(of.positions).shape[0];
  const NodeId order = w.argsort(of.positions);
  const NodeId ascending = w.gather(of.positions, order);
  const NodeId end = count_below(w, ascending, rows, true);
  if (of.mode == ir::ScatterMode::set) {
    const NodeId last = w.op("max", {w.op("sub", {end, w.scalar(DType::i32, 1)}), w.scalar(DType::i32, 0)});
    const NodeId own = w.op("eq", {w.gather(ascending, last), w.iota({rows}, 0)});
    return set_rows(w, of, own, w.gather(order, last));
  }
  const NodeId begin = count_below(w, ascending, rows, false);
  const NodeId column = w.iota(then_ones(type, Dim(1), count), 1);
  const auto of_rows = [&](NodeId bound) { return w.reshape(bound, then_ones(type, rows, Dim(1))); };
  const NodeId own = w.op("and", {w.op("ge", {column, of_rows(begin)}), w.op("lt", {column, of_rows(end)})});
  return join_rows(w, of, own, w.gather(of.updates, order));
}

/// How often looking at all updates for each row, or each element of `base`, compares; a symbol is taken for 1,024.
double comparisons_of(const TensorType& base, Dim count, ir::ScatterMode mode) {
  double comparisons = static_cast<double>(count.size());
  const std::size_t axes = mode == ir::ScatterMode::set ? 1 : base.shape.size();
  for (std::size_t i = 0; i < axes; ++i)
    comparisons *= base.shape[i].is_symbol() ? 1024 : static_cast<double>(base.shape[i].size());
  return comparisons;
}

Result<NodeId> scatter(ir::Graph& graph, const ir::Node& node, std::span<const NodeId> operands,
                       double most_comparisons) {
  Writer w(graph);
  const NodeId base = operands[0], indices = operands[1], updates = operands[2];
  const TensorType type = w.type(base);
  const Dim rows = type.shape[0];
  const Dim count = w.type(indices).shape[0];
  if (count == Dim(0)) return base;
  // Out of range indices must not wrap into range.
  NodeId requested = indices;
  if (w.type(indices).dtype == DType::i64 && !rows.is_symbol()) {
    requested =
        w.op("clamp", {indices, w.scalar(DType::i64, -1), w.scalar(DType::i64, static_cast<double>(rows.size()))});
  } else if (w.type(indices).dtype == DType::u32 && !rows.is_symbol()) {
    requested = w.op("min", {indices, w.scalar(DType::u32, static_cast<double>(rows.size()))});
  }
  const Scatter of{base, w.cast(requested, DType::i32), updates, std::get<ir::ScatterPayload>(node.payload).mode};
  // Of how many updates a binary search is made is in its text.
  const bool sorts = !count.is_symbol() && comparisons_of(type, count, of.mode) > most_comparisons;
  return w.done(sorts ? scatter_by_sorting(w, of) : scatter_by_comparing(w, of));
}

/// Rows that are written into a number of the kernel's text, which is in no buffer. Nothing for other updates.
std::optional<Result<NodeId>> update_of_literal(ir::Graph& graph, const ir::Node& node,
                                                std::span<const NodeId> operands) {
  const NodeId base = operands[0], starts = operands[1], rows = operands[2];
  if (literal_element(graph.node(base)) == nullptr) return std::nullopt;
  Writer w(graph);
  const Shape& written = w.type(rows).shape;
  if (std::find(written.begin(), written.end(), Dim(0)) != written.end()) return Result<NodeId>(base);
  const auto& update = std::get<ir::UpdatePayload>(node.payload);
  if (update.circular) return Result<NodeId>(rows);
  const DType dtype = w.type(starts).dtype;
  if (update.has_position_of_each_row(w.type(starts).shape)) {
    const Shape count{written[static_cast<std::size_t>(update.axis)]};
    const NodeId is_there = w.op("eq", {w.reshape(starts, count), w.scalar(dtype, 0)});
    const NodeId positions = w.op("select", {is_there, w.scalar(DType::i32, 0), w.scalar(DType::i32, 1)});
    const Scatter of{w.reshape(base, {Dim(1)}), positions, w.reshape(rows, count)};
    return w.done(w.reshape(scatter_by_comparing(w, of), w.type(base).shape));
  }
  const NodeId is_first = w.op("lt", {starts, w.scalar(dtype, 1)});
  return w.done(w.op("select", {w.reshape(is_first, w.type(base).shape), rows, base}));
}

/// Of rows with a position each, those below 0 are left out: they get one that is past the end of every base.
std::optional<Result<NodeId>> update_at_positions(ir::Graph& graph, const ir::Node& node,
                                                  std::span<const NodeId> operands) {
  const auto& update = std::get<ir::UpdatePayload>(node.payload);
  const NodeId base = operands[0], positions = operands[1], rows = operands[2];
  Writer w(graph);
  const DType dtype = w.type(positions).dtype;
  const bool is_signed = dtype != DType::u32;
  if (!update.has_position_of_each_row(w.type(positions).shape) || !is_signed) return std::nullopt;
  const NodeId is_left_out = w.op("lt", {positions, w.scalar(dtype, 0)});
  const NodeId past_the_end = w.scalar(dtype, std::numeric_limits<std::int32_t>::max());
  const NodeId placed =
      VKF_PLANT(negative_row_first, w.op("select", {is_left_out, past_the_end, positions}), positions);
  return w.done(w.update(base, placed, rows, update));
}

/// The graph with what `write` makes of the ops of a class; nothing where they stay.
template <typename Write>
Result<ir::Graph> with_written(const ir::Graph& graph, ops::OpClass cls, const Write& write) {
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    std::optional<Result<NodeId>> written;
    if (node.op->cls == cls) written = write(rewriter.graph(), node, rewriter.mapped(id));
    if (!written) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    Result<NodeId> made = *std::move(written);
    if (!made) return std::move(made).error().within(fmt::format("writing out %{} = {}", id, node.op->name));
    rewriter.alias(id, *made);
  }
  return rewriter.finish();
}

}  // namespace

Result<ir::Graph> decompose(const ir::Graph& graph, double most_comparisons) {
  return with_written(graph, ops::OpClass::scatter,
                      [&](ir::Graph& made, const ir::Node& node, const std::vector<NodeId>& operands) {
                        return scatter(made, node, operands, most_comparisons);
                      });
}

Result<ir::Graph> write_out_updates(const ir::Graph& graph) {
  const auto is_update = [](const ir::Node& node) { return node.op->cls == ops::OpClass::update; };
  if (std::ranges::none_of(graph.nodes(), is_update)) return graph;
  return with_written(graph, ops::OpClass::update,
                      [](ir::Graph& made, const ir::Node& node, const std::vector<NodeId>& operands) {
                        std::optional<Result<NodeId>> literal = update_of_literal(made, node, operands);
                        return literal ? std::move(literal) : update_at_positions(made, node, operands);
                      });
}

}  // namespace vkfuse::passes
