// Which operand of a product comes first. The axes of the second one are the innermost of the result, and kernels store
// it so; what reads it through a permute that makes an axis of the first one the innermost would read elements that are
// a row apart. As the gradient of x * w with respect to w, and that of a convolution with respect to its image.
#include <algorithm>

#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;

/// A part of an axis of a view: so many elements along an axis of the product.
struct Part {
  int axis = 0;  ///< of the product
  std::int64_t size = 1;
};
/// For each axis of a view its parts, the innermost last.
using Parts = std::vector<std::vector<Part>>;

/// Elements side by side that are enough for a vector access.
constexpr std::int64_t kShortRow = 8;
/// A product of fewer bytes is in a cache however it is read.
constexpr std::int64_t kLeastBytes = 64 << 10;

/// The parts of `size` elements at the end of `parts`, taken away from there. False where none are so many.
bool take_last(std::vector<Part>& parts, std::int64_t size, std::vector<Part>& taken) {
  while (size > 1) {
    if (parts.empty()) return false;
    Part& last = parts.back();
    if (size % last.size == 0) {
      size /= last.size;
      taken.insert(taken.begin(), last);
      parts.pop_back();
      continue;
    }
    if (last.size % size != 0) return false;
    taken.insert(taken.begin(), {last.axis, size});
    last.size /= size;
    size = 1;
  }
  return true;
}

std::optional<Parts> through_reshape(const Parts& parts, const Shape& shape) {
  std::vector<Part> all;
  for (const std::vector<Part>& axis : parts) {
    std::copy_if(axis.begin(), axis.end(), std::back_inserter(all), [](const Part& part) { return part.size > 1; });
  }
  Parts made(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i].is_symbol() || !take_last(all, shape[i].size(), made[i])) return std::nullopt;
  }
  return made;
}

/// The parts of a view's axes, where those of its operand are known. Nothing of views that mix axes otherwise.
std::optional<Parts> through(const Node& view, const Parts& parts) {
  switch (view.op->role) {
    case ops::Role::reshape: return through_reshape(parts, view.type.shape);
    case ops::Role::permute: {
      Parts made;
      for (const int axis : std::get<ir::AxesPayload>(view.payload).axes)
        made.push_back(parts[static_cast<std::size_t>(axis)]);
      return made;
    }
    default: break;
  }
  if (view.type.shape.size() != parts.size()) return std::nullopt;
  Parts made = parts;  // of slices and padding: an axis that has become longer or shorter is one part
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (view.type.shape[i].is_symbol()) return std::nullopt;
    std::int64_t before = 1;
    for (const Part& part : made[i]) before *= part.size;
    const std::int64_t size = view.type.shape[i].size();
    if (before != size) made[i] = {{made[i].empty() ? 0 : made[i].back().axis, size}};
  }
  return made;
}

/// The axes of a product that are the first operand's alone, and from `end` on the second's.
struct FirstAxes {
  int begin = 0, end = 0;
};

/// Whether neighbours of a view lie along axes of the first operand: those of which there are first enough for a row.
bool is_along_first(const Parts& parts, FirstAxes of_first) {
  std::int64_t first = 1, other = 1;
  for (auto axis = parts.rbegin(); axis != parts.rend(); ++axis) {
    for (auto part = axis->rbegin(); part != axis->rend(); ++part) {
      const bool is_first = part->axis >= of_first.begin && part->axis < of_first.end;
      (is_first ? first : other) *= part->size;
      if (std::max(first, other) >= kShortRow) return first > other;
    }
  }
  return false;
}

class DotOperandOrder {
 public:
  explicit DotOperandOrder(const Graph& graph) : graph_(graph), users_(graph.users()), is_output_(graph.size(), false) {
    for (const ir::Output& output : graph.outputs()) is_output_[output.value] = true;
  }

  /// Whether all that reads a product, and has a use for an order of its elements, has an axis of the first operand as
  /// its innermost.
  [[nodiscard]] bool is_turned(NodeId id) const {
    const auto& dot = std::get<ir::DotPayload>(graph_.node(id).payload);
    const Shape& shape = graph_.node(id).type.shape;
    Parts parts;
    double bytes = size_of(graph_.node(id).type.dtype);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis].is_symbol()) return false;
      parts.push_back({{static_cast<int>(axis), shape[axis].size()}});
      bytes *= static_cast<double>(shape[axis].size());
    }
    if (bytes < kLeastBytes) return false;
    const std::size_t of_a = graph_.node(graph_.node(id).operands[0]).type.shape.size() - dot.contract_a.size();
    const Votes votes = votes_on(id, std::move(parts), {static_cast<int>(dot.batch_a.size()), static_cast<int>(of_a)});
    return votes.for_first > 0 && votes.against == 0;
  }

 private:
  struct Votes {
    int for_first = 0, against = 0;
  };

  /// Of a value that is the product or a view of it: of chains of any length.
  [[nodiscard]] Votes votes_on(NodeId product, Parts parts, FirstAxes of_first) const {
    Votes votes;
    std::vector<std::pair<NodeId, Parts>> open{{product, std::move(parts)}};
    while (!open.empty()) {
      const auto [id, seen] = std::move(open.back());
      open.pop_back();
      const auto vote = [&, &along = seen] { ++(is_along_first(along, of_first) ? votes.for_first : votes.against); };
      if (is_output_[id]) vote();
      for (const NodeId reader : users_[id]) {
        const Node& node = graph_.node(reader);
        if (node.op->cls == ops::OpClass::contraction) continue;  // which takes any order
        if (node.op->cls != ops::OpClass::view || node.operands[0] != id) {
          vote();
        } else if (auto inner = through(node, seen)) {
          open.emplace_back(reader, *std::move(inner));
        } else {
          ++votes.against;
        }
      }
    }
    return votes;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;
};

/// The product with its operands the other way round, and its axes as they were.
Result<NodeId> turned(Rewriter& rewriter, const Graph& graph, NodeId id) {
  Node node = graph.node(id);
  auto& dot = std::get<ir::DotPayload>(node.payload);
  const auto batches = static_cast<int>(dot.batch_a.size());
  const auto rank = static_cast<int>(node.type.shape.size());
  const auto of_b = static_cast<int>(graph.node(node.operands[1]).type.shape.size() - dot.contract_b.size()) - batches;
  std::swap(dot.batch_a, dot.batch_b);
  std::swap(dot.contract_a, dot.contract_b);
  std::vector<NodeId> operands = rewriter.mapped(id);
  std::swap(operands[0], operands[1]);
  VKF_TRY(product, ir::append_copy(rewriter.graph(), node, std::move(operands)));
  std::vector<int> order;
  for (int axis = 0; axis < batches; ++axis) order.push_back(axis);
  for (int axis = batches + of_b; axis < rank; ++axis) order.push_back(axis);
  for (int axis = batches; axis < batches + of_b; ++axis) order.push_back(axis);
  return rewriter.graph().add_structured(ops::row("permute"), {product}, ir::AxesPayload{std::move(order)});
}

}  // namespace

Result<Graph> order_dot_operands(const Graph& graph) {
  const DotOperandOrder order(graph);
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op->role != ops::Role::dot || !order.is_turned(id)) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    VKF_TRY(made, turned(rewriter, graph, id));
    rewriter.alias(id, made);
  }
  return rewriter.finish();
}

}  // namespace vkfuse::passes
