#include "api/tensor_node.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace vkfuse {

using NodePtr = std::shared_ptr<const Tensor::Node>;

Tensor::Node::~Node() {
  // Each operand that only this node holds would destroy its own operands in turn: collect instead.
  std::vector<Tensor> pending = std::move(operands);
  const auto collect = [&pending](std::shared_ptr<const api::OwnGradient>& own) {
    if (own != nullptr && own.use_count() == 1) {
      auto& operands_of_rule = const_cast<api::OwnGradient&>(*own).operands;  // the last owner is about to destroy it
      for (Tensor& operand : operands_of_rule) pending.push_back(std::move(operand));
      operands_of_rule.clear();
    }
    own.reset();
  };
  collect(gradient);
  while (!pending.empty()) {
    Tensor tensor = std::move(pending.back());
    pending.pop_back();
    if (tensor.node_ == nullptr || tensor.node_.use_count() > 1) continue;
    auto& owned = const_cast<Node&>(*tensor.node_);  // the last owner is about to destroy it
    for (Tensor& operand : owned.operands) pending.push_back(std::move(operand));
    owned.operands.clear();
    collect(owned.gradient);
  }
}

namespace {

Tensor made(std::shared_ptr<Tensor::Node> node) { return Tensor(NodePtr(std::move(node))); }

/// The type of most nodes, found without a graph: elementwise ops are what programs are recorded with call by call.
std::optional<TensorType> infer_quickly(const Tensor::Node& node) {
  constexpr std::size_t kMostOperands = 4;
  const bool elementwise = node.op->cls == ops::OpClass::elementwise || node.op->cls == ops::OpClass::convert;
  const std::size_t count = node.operands.size();
  if (!elementwise || count == 0 || count > kMostOperands || static_cast<int>(count) != node.op->arity)
    return std::nullopt;
  std::array<DType, kMostOperands> dtypes{};
  const Shape* shape = &node.operands[0].shape();
  Shape joined;
  for (std::size_t i = 0; i < count; ++i) {
    dtypes[i] = node.operands[i].dtype();
    const Shape& other = node.operands[i].shape();
    if (other == *shape || other.empty()) continue;
    auto both = broadcast(*shape, other);
    if (!both) return std::nullopt;
    joined = *std::move(both);
    shape = &joined;
  }
  const auto dtype =
      ops::infer_dtype(*node.op, std::span(dtypes).first(count),
                       node.op->cls == ops::OpClass::convert ? std::optional(node.type.dtype) : std::nullopt);
  if (!dtype) return std::nullopt;
  return TensorType{*dtype, *shape};
}

/// Checks one node with the graph builder's own rules, on stand-ins for its operands. What is refused, and why, is said
/// there.
Result<TensorType> infer(const Tensor::Node& node) {
  if (auto quick = infer_quickly(node)) return *std::move(quick);
  ir::Graph scratch;
  std::vector<ir::NodeId> operands;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    VKF_TRY(id, scratch.add_input("operand" + std::to_string(i), {node.operands[i].dtype(), node.operands[i].shape()}));
    operands.push_back(id);
  }
  VKF_TRY(id, ir::append_copy(scratch, {node.op, {}, node.type, node.payload}, operands));
  return scratch.node(id).type;
}

Tensor scalar_like(const Tensor& tensor, double value) {
  return tensor.valid() ? Tensor::scalar(tensor.dtype(), value) : tensor;
}

}  // namespace

namespace api {

Tensor build_tensor(const ops::OpRow& op, std::vector<Tensor> operands, TensorType type, ir::Payload payload) {
  for (const Tensor& operand : operands) {
    if (!operand.valid()) return operand;
  }
  if (auto known = check_dtype(type.dtype); !known) return Tensor::failed(std::move(known).error());
  auto node = std::make_shared<Tensor::Node>();
  node->op = &op;
  node->operands = std::move(operands);
  node->type = std::move(type);
  node->payload = std::move(payload);
  auto inferred = infer(*node);
  if (!inferred) return Tensor::failed(std::move(inferred).error());
  node->type = *std::move(inferred);
  for (const Tensor& operand : node->operands) {
    const std::shared_ptr<Recorder>& recorder = operand.node()->recorder;
    if (recorder == nullptr || recorder == node->recorder) continue;
    if (node->recorder != nullptr)
      return Tensor::failed(invalid(
          "The operands of '{}' are of two streams: read one of them, and give it to the other.", node->op->name));
    node->recorder = recorder;
  }
  if (node->recorder == nullptr) return made(std::move(node));
  Recorder& recorder = *node->recorder;
  const NodePtr recorded = std::move(node);
  recorder.note(recorded);
  return Tensor(recorded);
}

Tensor with_own_gradient(Tensor built, OwnGradient gradient) {
  if (!built.valid()) return built;
  auto& node = const_cast<Tensor::Node&>(*built.node());
  node.gradient = std::make_shared<const OwnGradient>(std::move(gradient));
  return built;
}

Tensor as_constant(Tensor built) { return with_own_gradient(std::move(built), {}); }

void Recorder::tidy() {
  std::erase_if(live, [](const Entry& entry) {
    const NodePtr node = entry.node.lock();
    return node == nullptr || node->value != nullptr;
  });
  tidy_at = std::max<std::size_t>(tidy_at, 2 * live.size());
}

int counted_axis(int axis, std::size_t rank) {
  const int count = static_cast<int>(rank);
  return axis < 0 && axis >= -count ? axis + count : axis;
}

}  // namespace api

using api::build_tensor;

Tensor Tensor::failed(Error error) {
  auto node = std::make_shared<Node>();
  node->error = std::move(error);
  return made(std::move(node));
}

Tensor Tensor::input(std::string name, DType dtype, Shape shape) {
  return build_tensor(ops::row("input"), {}, {dtype, std::move(shape)}, ir::InputPayload{std::move(name)});
}

Tensor Tensor::constant(DType dtype, Shape shape, std::span<const std::byte> bytes) {
  auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return build_tensor(ops::row("constant"), {}, {dtype, std::move(shape)}, ir::ConstantPayload{std::move(copy)});
}

Tensor Tensor::scalar(DType dtype, double value) {
  if (auto known = check_dtype(dtype); !known) return failed(std::move(known).error());
  return build_tensor(ops::row("constant"), {}, {dtype, {}}, ir::ConstantPayload{ir::encode_scalar(dtype, value)});
}

Tensor Tensor::scalar_int(DType dtype, std::int64_t value) {
  if (auto known = check_dtype(dtype); !known) return failed(std::move(known).error());
  auto bytes = std::make_shared<std::vector<std::byte>>();
  ir::encode_int(dtype, value, *bytes);
  return build_tensor(ops::row("constant"), {}, {dtype, {}}, ir::ConstantPayload{std::move(bytes)});
}

Tensor Tensor::iota(DType dtype, Shape shape, int axis) {
  return build_tensor(ops::row("iota"), {}, {dtype, std::move(shape)}, ir::IotaPayload{axis});
}

Tensor Tensor::random(Shape shape, std::uint64_t seed) {
  return build_tensor(ops::row("random"), {}, {DType::u32, std::move(shape)}, ir::RandomPayload{seed});
}

Tensor Tensor::apply(std::string_view op, std::initializer_list<Tensor> operands) {
  return apply(op, std::span<const Tensor>(operands.begin(), operands.size()));
}

Tensor Tensor::apply(std::string_view op, std::span<const Tensor> operands) {
  const ops::OpRow* row = ops::find(op);
  if (row == nullptr || row->cls != ops::OpClass::elementwise) {
    return failed(invalid("'{}' is not the name of an elementwise op.", op));
  }
  return build_tensor(*row, {operands.begin(), operands.end()}, {}, ir::NoPayload{});
}

bool Tensor::valid() const { return node_ != nullptr && !node_->error.has_value(); }

const Error& Tensor::error() const {
  static const Error moved_from{ErrorCode::invalid_argument, "The tensor handle was moved from.", {}};
  return node_ != nullptr && node_->error ? *node_->error : moved_from;
}

DType Tensor::dtype() const { return valid() ? node_->type.dtype : DType::f32; }

const Shape& Tensor::shape() const {
  static const Shape none;
  return valid() ? node_->type.shape : none;
}

Tensor Tensor::cast(DType dtype) const {
  if (valid() && dtype == this->dtype()) return *this;
  return build_tensor(ops::row("cast"), {*this}, {dtype, {}}, ir::NoPayload{});
}

Tensor Tensor::bitcast(DType dtype) const {
  if (valid() && dtype == this->dtype()) return *this;
  return build_tensor(ops::row("bitcast"), {*this}, {dtype, {}}, ir::NoPayload{});
}

Tensor operator+(const Tensor& a, const Tensor& b) { return Tensor::apply("add", {a, b}); }
Tensor operator-(const Tensor& a, const Tensor& b) { return Tensor::apply("sub", {a, b}); }
Tensor operator*(const Tensor& a, const Tensor& b) { return Tensor::apply("mul", {a, b}); }
Tensor operator/(const Tensor& a, const Tensor& b) { return Tensor::apply("div", {a, b}); }
Tensor operator-(const Tensor& a) { return Tensor::apply("neg", {a}); }
Tensor operator+(const Tensor& a, double b) { return a + scalar_like(a, b); }
Tensor operator-(const Tensor& a, double b) { return a - scalar_like(a, b); }
Tensor operator*(const Tensor& a, double b) { return a * scalar_like(a, b); }
Tensor operator/(const Tensor& a, double b) { return a / scalar_like(a, b); }
Tensor operator+(double a, const Tensor& b) { return scalar_like(b, a) + b; }
Tensor operator-(double a, const Tensor& b) { return scalar_like(b, a) - b; }
Tensor operator*(double a, const Tensor& b) { return scalar_like(b, a) * b; }
Tensor operator/(double a, const Tensor& b) { return scalar_like(b, a) / b; }

namespace api {

Result<ir::NodeId> append(ir::Graph& graph, const Tensor& root, NodeIds& ids) {
  std::vector<const Tensor::Node*> stack{root.node().get()};
  while (!stack.empty()) {
    const Tensor::Node* node = stack.back();
    if (ids.count(node) != 0) {
      stack.pop_back();
      continue;
    }
    if (node->value != nullptr)
      return invalid("A {} has its elements on a device: ask its Stream for what is computed with it.",
                     to_text(node->type));
    bool ready = true;
    for (std::size_t i = node->operands.size(); i-- > 0;) {
      const Tensor::Node* operand = node->operands[i].node().get();
      if (ids.count(operand) != 0) continue;
      stack.push_back(operand);
      ready = false;
    }
    if (!ready) continue;
    stack.pop_back();
    std::vector<ir::NodeId> operands;
    for (const Tensor& operand : node->operands) operands.push_back(ids.at(operand.node().get()));
    VKF_TRY(id, ir::append_copy(graph, {node->op, {}, node->type, node->payload}, std::move(operands)));
    ids[node] = id;
  }
  return ids.at(root.node().get());
}

Result<ir::Graph> to_graph(std::span<const Tensor> outputs, std::span<const std::string> names,
                           const std::string& graph_name) {
  if (outputs.empty()) return invalid("A program needs at least one output.");
  if (names.size() > outputs.size())
    return invalid("{} output names were given for {} outputs.", names.size(), outputs.size());
  ir::Graph graph;
  NodeIds ids;
  graph.name = graph_name;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].valid()) return Error(outputs[i].error()).within(fmt::format("building output {}", i));
    auto id = append(graph, outputs[i], ids);
    if (!id) return std::move(id).error().within(fmt::format("building output {}", i));
    const std::string name = i < names.size() ? names[i] : i == 0 ? "y" : "y" + std::to_string(i);
    VKF_CHECK_OK(graph.add_output(name, *id));
  }
  return graph;
}

}  // namespace api
}  // namespace vkfuse
