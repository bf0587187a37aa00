// Ops that are written in terms of others before anything is planned.
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
  NodeId gather(NodeId data, NodeId indices) {
    return keep(graph_.add_structured(ops::row("gather"), {data, indices}, ir::AxisPayload{0}));
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

/// Every row of the result looks for its updates. `set`: the last update of each row is found first, by
/// positions alone, and then read or not: no row is written twice, whatever the indices. The other modes
/// fold the updates of the row.
Result<NodeId> scatter(ir::Graph& graph, const ir::Node& node, NodeId base, NodeId indices, NodeId updates) {
  Writer w(graph);
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
  requested = w.cast(requested, DType::i32);
  const auto mode = std::get<ir::ScatterPayload>(node.payload).mode;
  if (mode == ir::ScatterMode::set) {
    const NodeId hit = w.op("eq", {w.reshape(requested, {Dim(1), count}), w.iota({rows, Dim(1)}, 0)});
    const NodeId position = w.op("select", {hit, w.iota({Dim(1), count}, 1), w.scalar(DType::i32, -1)});
    const NodeId last = w.reduce("reduce_max", position, {1});
    Shape one_per_row{rows};
    one_per_row.resize(type.shape.size(), Dim(1));
    const NodeId found = w.op("ge", {w.reshape(last, one_per_row), w.scalar(DType::i32, 0)});
    return w.done(w.op("select", {found, w.gather(updates, last), base}));
  }
  // [rows, count, ...]: one column per update.
  Shape hit_rows{rows, Dim(1)};
  Shape hit_columns{Dim(1), count};
  Shape update_shape{Dim(1), count};
  for (std::size_t i = 1; i < type.shape.size(); ++i) {
    hit_rows.emplace_back(1);
    hit_columns.emplace_back(1);
    update_shape.push_back(type.shape[i]);
  }
  const NodeId hit = w.op("eq", {w.reshape(requested, hit_columns), w.iota(hit_rows, 0)});
  const Joining ops = joining(mode);
  const double identity = ops::row(ops.reduce).reduction.identity;
  const NodeId mine = w.op("select", {hit, w.reshape(updates, update_shape), w.scalar(type.dtype, identity)});
  return w.done(w.op(ops.join, {base, w.reduce(ops.reduce, mine, {1})}));
}

}  // namespace

Result<ir::Graph> decompose(const ir::Graph& graph) {
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    if (node.op->cls != ops::OpClass::scatter) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    const std::vector<NodeId> operands = rewriter.mapped(id);
    auto made = scatter(rewriter.graph(), node, operands[0], operands[1], operands[2]);
    if (!made) return std::move(made).error().within(fmt::format("writing out %{} = {}", id, node.op->name));
    rewriter.alias(id, *made);
  }
  return rewriter.finish();
}

}  // namespace vkfuse::passes
