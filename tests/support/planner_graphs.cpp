#include "support/planner_graphs.hpp"

#include <set>

#include "support/device.hpp"
#include "support/random.hpp"

namespace vkfuse::test {

namespace {

using ir::NodeId;

class Drawer {
 public:
  Drawer(std::uint64_t seed, int ops) : random_(seed), ops_(ops) {
    const std::vector<int> sizes = {32, 64, 256, 512, 1024, 4096};
    rows_ = random_.pick(sizes);
    columns_ = random_.chance(30) ? rows_ : random_.pick(sizes);
    graph_.name = fmt::format("planner {}", seed);
  }

  ir::Graph run() {
    const std::size_t inputs = 1 + random_.below(3) + static_cast<std::size_t>(ops_ / 16);
    for (std::size_t i = 0; i < inputs; ++i) values_.push_back(input({Dim(rows_), Dim(columns_)}));
    while (made_ < ops_) add_op();
    const std::vector<std::vector<NodeId>> users = graph_.users();
    std::set<NodeId> results;
    for (NodeId id : values_) {
      // What nobody reads is a result, or what it is a view of; and so is every tenth value.
      if (!users[id].empty() && (is_view(id) || !random_.chance(10))) continue;
      while (is_view(id)) id = graph_.node(id).operands[0];
      if (!graph_.node(id).operands.empty()) results.insert(id);
    }
    int count = 0;
    for (NodeId id : results) must(graph_.add_output(fmt::format("y{}", count++), id));
    return std::move(graph_);
  }

 private:
  [[nodiscard]] bool is_view(NodeId id) const { return graph_.node(id).op->cls == ops::OpClass::view; }
  NodeId input(Shape shape) {
    return must(graph_.add_input(fmt::format("in{}", inputs_++), {DType::f32, std::move(shape)}));
  }
  NodeId any() {
    // Recent values more often: graphs then grow deep as well as wide.
    const std::size_t recent = std::min<std::size_t>(values_.size(), 5);
    return random_.chance(65) ? values_[values_.size() - 1 - random_.below(recent)] : random_.pick(values_);
  }
  NodeId note(NodeId id, bool counts = true) {
    values_.push_back(id);
    made_ += counts ? 1 : 0;
    return id;
  }

  void add_op() {
    const NodeId x = any();
    const Shape shape = graph_.node(x).type.shape;
    const std::size_t kind = random_.below(100);
    if (kind < 30) return add_unary(x);
    if (kind < 65) return add_binary(x);
    if (kind < 82) return add_fold(x, shape);
    if (kind < 90) return add_view(x, shape);
    add_product(x, shape);
  }

  void add_unary(NodeId x) {
    const std::vector<std::string_view> names = {"relu", "neg", "tanh", "exp", "sin", "sqrt"};
    note(must(graph_.add(ops::row(random_.pick(names)), {x})));
  }

  void add_binary(NodeId x) {
    const std::vector<std::string_view> names = {"add", "mul", "sub", "max"};
    for (int attempt = 0; attempt < 8; ++attempt) {
      const NodeId y = any();
      if (!broadcast(graph_.node(x).type.shape, graph_.node(y).type.shape)) continue;
      std::vector<NodeId> operands{x, y};
      if (random_.chance(50)) std::swap(operands[0], operands[1]);
      note(must(graph_.add(ops::row(random_.pick(names)), operands)));
      return;
    }
    add_unary(x);
  }

  void add_fold(NodeId x, const Shape& shape) {
    const int axis = random_.chance(75) ? 1 : 0;
    if (shape[static_cast<std::size_t>(axis)] == Dim(1)) return add_unary(x);
    const NodeId reduced = note(must(graph_.add_structured(ops::row(random_.chance(60) ? "reduce_sum" : "reduce_max"),
                                                           {x}, ir::AxesPayload{{axis}})));
    values_.pop_back();
    Shape kept = shape;
    kept[static_cast<std::size_t>(axis)] = Dim(1);
    note(must(graph_.add_structured(ops::row("reshape"), {reduced}, ir::NoPayload{}, kept)), false);
  }

  void add_view(NodeId x, const Shape& shape) {
    if (shape[0] == shape[1] && random_.chance(60)) {
      note(must(graph_.add_structured(ops::row("permute"), {x}, ir::AxesPayload{{1, 0}})), false);
    } else {
      note(must(graph_.add_structured(ops::row("broadcast"), {x}, ir::NoPayload{}, {Dim(rows_), Dim(columns_)})),
           false);
    }
  }

  void add_product(NodeId x, const Shape& shape) {
    if (shape[1] == Dim(1) || shape[0] == Dim(1)) return add_unary(x);
    NodeId factor = any();
    if (graph_.node(factor).type.shape[0] != shape[1] || graph_.node(factor).type.shape[1] != Dim(columns_))
      factor = input({shape[1], Dim(columns_)});
    note(must(graph_.add_structured(ops::row("dot"), {x, factor}, ir::DotPayload{{}, {}, {1}, {0}})));
  }

  Random random_;
  int ops_;
  int rows_ = 1, columns_ = 1;
  int inputs_ = 0;
  int made_ = 0;
  ir::Graph graph_;
  std::vector<NodeId> values_;
};

/// Writes layers down.
class Layers {
 public:
  ir::Graph run(int layers) {
    NodeId x = input("x", {Dim(kTokens), Dim(kWidth)});
    for (layer_ = 0; layer_ < layers; ++layer_) x = layer(x);
    must(graph_.add_output("y", x));
    graph_.name = fmt::format("{} layers", layers);
    return std::move(graph_);
  }

 private:
  static constexpr int kTokens = 1024, kWidth = 1024, kHeads = 16, kHidden = 4096;
  NodeId input(const std::string& name, Shape shape) {
    return must(graph_.add_input(name, {DType::f32, std::move(shape)}));
  }
  NodeId weight(const char* name, Shape shape) {
    return input(fmt::format("layers.{:03}.{}", layer_, name), std::move(shape));
  }
  NodeId op(const char* name, std::vector<NodeId> operands) {
    return must(graph_.add(ops::row(name), std::move(operands)));
  }
  NodeId scalar(double value) { return graph_.add_scalar(DType::f32, value); }
  NodeId reshape(NodeId x, Shape shape) {
    return must(graph_.add_structured(ops::row("reshape"), {x}, ir::NoPayload{}, std::move(shape)));
  }
  NodeId permute(NodeId x, std::vector<int> axes) {
    return must(graph_.add_structured(ops::row("permute"), {x}, ir::AxesPayload{std::move(axes)}));
  }
  NodeId reduction(const char* name, NodeId x) {
    const Shape shape = graph_.node(x).type.shape;
    const int axis = static_cast<int>(shape.size()) - 1;
    Shape kept = shape;
    kept.back() = Dim(1);
    return reshape(must(graph_.add_structured(ops::row(name), {x}, ir::AxesPayload{{axis}})), kept);
  }
  NodeId product(NodeId x, NodeId w) {
    return must(graph_.add_structured(ops::row("dot"), {x, w}, ir::DotPayload{{}, {}, {1}, {0}}));
  }
  NodeId norm(NodeId x, const char* name) {
    const NodeId mean = reduction("reduce_mean", op("mul", {x, x}));
    const NodeId scaled = op("mul", {x, op("rsqrt", {op("add", {mean, scalar(1e-5)})})});
    return op("mul", {scaled, weight(name, {Dim(kWidth)})});
  }
  NodeId heads(NodeId x) { return permute(reshape(x, {Dim(kTokens), Dim(kHeads), Dim(kWidth / kHeads)}), {1, 0, 2}); }

  NodeId layer(NodeId x) {
    const NodeId normed = norm(x, "norm1");
    const NodeId q = heads(product(normed, weight("q", {Dim(kWidth), Dim(kWidth)})));
    const NodeId k = heads(product(normed, weight("k", {Dim(kWidth), Dim(kWidth)})));
    const NodeId v = heads(product(normed, weight("v", {Dim(kWidth), Dim(kWidth)})));
    const NodeId scores =
        op("mul",
           {must(graph_.add_structured(ops::row("dot"), {q, k}, ir::DotPayload{{0}, {0}, {2}, {2}})), scalar(0.125)});
    const NodeId exponentials = op("exp", {op("sub", {scores, reduction("reduce_max", scores)})});
    const NodeId weights = op("div", {exponentials, reduction("reduce_sum", exponentials)});
    const NodeId mixed = must(graph_.add_structured(ops::row("dot"), {weights, v}, ir::DotPayload{{0}, {0}, {2}, {1}}));
    const NodeId joined = reshape(permute(mixed, {1, 0, 2}), {Dim(kTokens), Dim(kWidth)});
    const NodeId middle = op("add", {x, product(joined, weight("o", {Dim(kWidth), Dim(kWidth)}))});
    const NodeId again = norm(middle, "norm2");
    const NodeId gate = product(again, weight("gate", {Dim(kWidth), Dim(kHidden)}));
    const NodeId up = product(again, weight("up", {Dim(kWidth), Dim(kHidden)}));
    const NodeId hidden = op("mul", {op("mul", {gate, op("sigmoid", {gate})}), up});
    return op("add", {middle, product(hidden, weight("down", {Dim(kHidden), Dim(kWidth)}))});
  }

  int layer_ = 0;
  ir::Graph graph_;
};

}  // namespace

ir::Graph random_planner_graph(std::uint64_t seed, int ops) { return Drawer(seed, ops).run(); }
ir::Graph layered_graph(int layers) { return Layers().run(layers); }

std::string projections_text(int rows) {
  return fmt::format(R"(graph "projections" {{
  %0 = input "x" : f16[{0}, 768]
  %1 = input "a" : f16[768, 768]
  %2 = input "b" : f16[768, 256]
  %3 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f16[{0}, 768]
  %4 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %2 : f16[{0}, 256]
  output "y" = %3
  output "z" = %4
}})",
                     rows);
}

}  // namespace vkfuse::test
