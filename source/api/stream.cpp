#include "vkfuse/stream.hpp"

#include <algorithm>
#include <unordered_map>

#include "api/stream_memory.hpp"
#include "api/stream_plans.hpp"
#include "base/host_memory.hpp"
#include "base/shape.hpp"
#include "ir/structured.hpp"

namespace vkfuse {

using api::Recorded;
using api::Recorder;
using api::StreamMemory;
using api::StreamValue;
using NodePtr = std::shared_ptr<const Tensor::Node>;

namespace {

constexpr int kPatience = 4;  // evaluations that a handle is held through before it is computed unasked

struct Held {
  NodePtr node;
  int passed = 0;
};

Result<void> check_leaf(DType dtype, const Shape& shape) {
  VKF_CHECK_OK(check_dtype(dtype));
  return ir::check_dims("A tensor", shape);
}

std::string sentence(const Tensor::Node& node, const std::string& fate) {
  return fmt::format("{} = {}: {}\n", to_text(node.type), node.op->name, fate);
}

/// Makes a node with a value one without operands. They go to `history`, whose end frees them.
void forget(Tensor::Node& node, std::vector<Tensor>& history) {
  std::move(node.operands.begin(), node.operands.end(), std::back_inserter(history));
  node.operands.clear();
  if (node.gradient != nullptr) {
    history.insert(history.end(), node.gradient->operands.begin(), node.gradient->operands.end());
    node.gradient.reset();
  }
  node.op = &ops::row("input");
  node.payload = ir::InputPayload{};
}

}  // namespace

struct Stream::State {
  State(const Device& on, const CompileOptions& options)
      : memory(std::make_shared<StreamMemory>(on)),
        plans(on, options),
        recorder(std::make_shared<Recorder>()),
        name(options.name) {}

  std::shared_ptr<StreamMemory> memory;
  api::StreamPlans plans;
  std::shared_ptr<Recorder> recorder;
  std::string name;
  StreamReport report;
  std::string explanation;

  Result<void> check_own(const Tensor& tensor) const {
    if (!tensor.valid()) return Error(tensor.error());
    if (tensor.node()->recorder == recorder) return {};
    if (tensor.node()->recorder != nullptr) return invalid("A {} is of another stream.", to_text(tensor.node()->type));
    return {};  // of literals alone, or of inputs, which are refused by name
  }

  /// A tensor with a value.
  Tensor leaf(DType dtype, Shape shape, std::shared_ptr<api::StreamStorage> storage, std::uint64_t bytes) const {
    auto node = std::make_shared<Tensor::Node>();
    node->op = &ops::row("input");
    node->type = {dtype, std::move(shape)};
    node->payload = ir::InputPayload{};
    node->value = std::make_shared<const StreamValue>(StreamValue{std::move(storage), bytes});
    node->recorder = recorder;
    return Tensor(NodePtr(std::move(node)));
  }

  /// Handles that the program holds, and that have no value: nodes with owners beside other nodes. `asked` are held
  /// too, by the caller of eval(), and are left out.
  [[nodiscard]] std::vector<Held> held(std::span<const Tensor> asked) const {
    std::vector<Held> alive;
    std::unordered_map<const Tensor::Node*, long> owners;  // that are nodes, or this function
    for (const Recorder::Entry& entry : recorder->live) {
      NodePtr node = entry.node.lock();
      if (node == nullptr || node->value != nullptr) continue;
      ++owners[node.get()];
      for (const Tensor& operand : node->operands) ++owners[operand.node().get()];
      if (node->gradient != nullptr)
        for (const Tensor& operand : node->gradient->operands) ++owners[operand.node().get()];
      alive.push_back({std::move(node), entry.passed});
    }
    std::erase_if(alive, [&](const Held& one) {
      const bool is_asked =
          std::any_of(asked.begin(), asked.end(), [&](const Tensor& tensor) { return tensor.node() == one.node; });
      return is_asked || one.node.use_count() == owners.at(one.node.get());
    });
    return alive;
  }

  Result<void> eval(std::span<const Tensor> asked);
  Result<void> run(const Recorded& recorded);
  void settle(const std::vector<Held>& left, const std::vector<Tensor>& kept);
};

/// Computes what was recorded; its roots have values afterwards.
Result<void> Stream::State::run(const Recorded& recorded) {
  VKF_TRY(plan, plans.find_or_compile(recorded));
  Bindings bindings;
  bindings.symbols = plan.symbols;
  for (std::size_t i = 0; i < recorded.leaves.size(); ++i)
    bindings.inputs["x" + std::to_string(i)] = recorded.leaves[i]->value->storage->buffer;
  std::vector<std::shared_ptr<const StreamValue>> values;
  for (std::size_t i = 0; i < recorded.roots.size(); ++i) {
    const TensorType& type = recorded.nodes[recorded.roots[i]]->type;
    VKF_TRY(sizes, resolve(type.shape, {}));
    VKF_TRY(bytes, byte_count(type.dtype, sizes));
    VKF_TRY(storage, memory->take(static_cast<std::uint64_t>(bytes)));
    bindings.outputs[i == 0 ? "y" : "y" + std::to_string(i)] = storage->buffer;
    values.push_back(
        std::make_shared<const StreamValue>(StreamValue{std::move(storage), static_cast<std::uint64_t>(bytes)}));
  }
  VKF_TRY(submission, plan.program->submit(bindings));
  VKF_CHECK_OK(memory->add(std::move(submission)));
  VKF_TRY(specialization, plan.program->state()->program->specialization(plan.symbols));
  report.kernels = specialization->dispatches();
  report.bytes = 0;
  for (std::size_t i = 0; i < specialization->steps.size(); ++i) report.bytes += specialization->bytes_moved(i);
  ++report.evaluations;
  // The nodes forget what they were made from. That may free operands, so it comes last; the roots are held by whoever
  // asked.
  for (std::size_t i = 0; i < recorded.roots.size(); ++i) {
    auto& node = const_cast<Tensor::Node&>(*recorded.nodes[recorded.roots[i]]);
    node.value = std::move(values[i]);
  }
  std::vector<Tensor> history;
  for (const std::size_t root : recorded.roots) {
    auto& node = const_cast<Tensor::Node&>(*recorded.nodes[root]);
    forget(node, history);
    node.recorder = recorder;
  }
  return {};
}

/// Remembers for how long handles have been held, and says what becomes of them.
void Stream::State::settle(const std::vector<Held>& left, const std::vector<Tensor>& kept) {
  std::unordered_map<const Tensor::Node*, int> passed;
  for (const Held& one : left) {
    passed[one.node.get()] = one.passed + 1;
    explanation += sentence(
        *one.node,
        fmt::format("held through {} evaluation{} without being asked for, not computed; recomputed if it is read",
                    one.passed + 1, one.passed == 0 ? "" : "s"));
  }
  recorder->tidy();
  for (Recorder::Entry& entry : recorder->live) {
    const auto found = passed.find(entry.node.lock().get());
    if (found != passed.end()) entry.passed = found->second;
  }
  report.kept += kept.size();
}

Result<void> Stream::State::eval(std::span<const Tensor> asked) {
  std::vector<Tensor> roots;
  for (const Tensor& tensor : asked) {
    VKF_CHECK_OK(check_own(tensor));
    const auto same = [&](const Tensor& other) { return other.node() == tensor.node(); };
    if (tensor.node()->value == nullptr && std::none_of(roots.begin(), roots.end(), same)) roots.push_back(tensor);
  }
  if (roots.empty()) return {};
  std::vector<Held> left = held(asked);
  std::vector<Tensor> kept;
  std::erase_if(left, [&](const Held& one) {
    if (one.passed < kPatience) return false;
    kept.push_back(Tensor(one.node));
    return true;
  });
  std::string text;
  for (const Tensor& tensor : roots) text += sentence(*tensor.node(), "computed, as it was asked for");
  for (const Tensor& tensor : kept)
    text += sentence(*tensor.node(), fmt::format("computed, as it was held through {} evaluations", kPatience));
  roots.insert(roots.end(), kept.begin(), kept.end());
  VKF_TRY(recorded, api::record_of(roots));
  VKF_CHECK_OK(run(recorded));
  explanation = std::move(text);
  settle(left, kept);
  return {};
}

Stream::Stream(const Device& device, const CompileOptions& options)
    : state_(std::make_shared<State>(device, options)) {}

Result<Tensor> Stream::tensor(DType dtype, std::vector<std::int64_t> sizes, std::span<const std::byte> bytes) const {
  return api::guarded([&]() -> Result<Tensor> {
    const Shape shape(sizes.begin(), sizes.end());
    VKF_CHECK_OK(check_leaf(dtype, shape));
    // The rules of a literal: they are the same, and said there.
    ir::Graph scratch;
    auto copy = std::make_shared<std::vector<std::byte>>();
    if (dtype == DType::boolean) copy->assign(bytes.begin(), bytes.end());
    VKF_TRY(requested, byte_count(dtype, sizes));
    if (static_cast<std::uint64_t>(requested) != bytes.size())
      return invalid("A tensor of type {} needs {} bytes, but {} were given.", to_text(TensorType{dtype, shape}),
                     requested, bytes.size());
    if (dtype == DType::boolean) {
      VKF_TRY(checked, scratch.add_constant({dtype, shape}, std::move(copy)));
      static_cast<void>(checked);
    }
    VKF_TRY(storage, state_->memory->take(bytes.size(), /*idle=*/true));
    const Buffer::State& place = *storage->buffer.state();
    VKF_CHECK_OK(place.context->transfer().upload(place.buffer, place.offset, bytes));
    return state_->leaf(dtype, shape, std::move(storage), bytes.size());
  });
}

Result<Tensor> Stream::wrap(const Buffer& buffer, DType dtype, std::vector<std::int64_t> sizes) const {
  return api::guarded([&]() -> Result<Tensor> {
    if (buffer.state() == nullptr) return invalid("The buffer is empty: allocate one with Device::allocate.");
    if (buffer.state()->context != state_->memory->device().state()->context)
      return invalid("The buffer is of another device than the stream.");
    const Shape shape(sizes.begin(), sizes.end());
    VKF_CHECK_OK(check_leaf(dtype, shape));
    VKF_TRY(bytes, byte_count(dtype, sizes));
    if (static_cast<std::uint64_t>(bytes) > buffer.size())
      return invalid("A tensor of type {} takes {} bytes, but the buffer has {}.", to_text(TensorType{dtype, shape}),
                     bytes, buffer.size());
    buffer.state()->may_change();  // rows may be appended in place
    auto storage = std::make_shared<api::StreamStorage>();
    storage->buffer = buffer;
    storage->used = buffer.size();  // what is behind the tensor is the caller's
    return state_->leaf(dtype, shape, std::move(storage), static_cast<std::uint64_t>(bytes));
  });
}

Result<Tensor> Stream::append(const Tensor& tensor, const Tensor& rows) const {
  return api::guarded([&]() -> Result<Tensor> {
    VKF_CHECK_OK(state_->check_own(tensor));
    VKF_CHECK_OK(state_->check_own(rows));
    const TensorType& type = tensor.node()->type;
    const TensorType& more = rows.node()->type;
    const bool fits = type.dtype == more.dtype && !type.shape.empty() && type.shape.size() == more.shape.size() &&
                      std::equal(type.shape.begin() + 1, type.shape.end(), more.shape.begin() + 1);
    if (!fits)
      return invalid("{} cannot be appended to {}: dtypes, and all dimensions but the first, must be equal.",
                     to_text(more), to_text(type));
    const auto all_rows = checked_add(type.shape[0].size(), more.shape[0].size());
    if (!all_rows)
      return invalid("{} cannot be appended to {}: 64 bits do not count the rows of both.", to_text(more),
                     to_text(type));
    const Tensor both[] = {tensor, rows};
    VKF_CHECK_OK(state_->eval(both));
    const StreamValue& before = *tensor.node()->value;
    const StreamValue& behind = *rows.node()->value;
    std::shared_ptr<api::StreamStorage> storage = before.storage;
    if (storage->used != before.bytes || storage->buffer.size() < before.bytes + behind.bytes) {
      VKF_TRY(larger, state_->memory->take(2 * (before.bytes + behind.bytes)));
      VKF_CHECK_OK(state_->memory->copy(before.storage->buffer, larger->buffer, 0, before.bytes));
      storage = std::move(larger);
    }
    VKF_CHECK_OK(state_->memory->copy(behind.storage->buffer, storage->buffer, before.bytes, behind.bytes));
    storage->used = before.bytes + behind.bytes;
    Shape shape = type.shape;
    shape[0] = Dim(*all_rows);
    const std::uint64_t bytes = storage->used;
    return state_->leaf(type.dtype, std::move(shape), std::move(storage), bytes);
  });
}

Result<void> Stream::eval(std::span<const Tensor> tensors) const {
  return api::guarded([&]() -> Result<void> { return state_->eval(tensors); });
}

Result<void> Stream::eval(std::initializer_list<Tensor> tensors) const {
  return eval(std::span<const Tensor>(tensors.begin(), tensors.size()));
}

Result<HostTensor> Stream::read(const Tensor& tensor) const {
  return api::guarded([&]() -> Result<HostTensor> {
    VKF_CHECK_OK(state_->eval(std::span(&tensor, 1)));
    const Tensor::Node& node = *tensor.node();
    HostTensor result{node.type.dtype, {}, zero_bytes(node.value->bytes)};
    for (const Dim& dim : node.type.shape) result.sizes.push_back(dim.size());
    VKF_CHECK_OK(node.value->storage->buffer.read(result.bytes));
    return result;
  });
}

Result<Buffer> Stream::buffer(const Tensor& tensor) const {
  return api::guarded([&]() -> Result<Buffer> {
    VKF_CHECK_OK(state_->eval(std::span(&tensor, 1)));
    api::StreamStorage& storage = *tensor.node()->value->storage;
    storage.is_handed_out = true;
    return storage.buffer;
  });
}

StreamReport Stream::report() const {
  StreamReport made = state_->report;
  made.plans = state_->plans.compiled();
  made.held = state_->held({}).size();
  state_->recorder->tidy();
  made.recorded = state_->recorder->live.size();
  made.buffer_bytes = state_->memory->bytes();
  return made;
}

std::string Stream::explain() const { return state_->explanation; }

Result<std::string> Stream::dump(std::span<const Tensor> tensors) const {
  return api::guarded([&]() -> Result<std::string> {
    for (const Tensor& tensor : tensors) VKF_CHECK_OK(state_->check_own(tensor));
    VKF_TRY(recorded, api::record_of(tensors));
    VKF_TRY(graph, api::graph_of(recorded, nullptr, state_->name));
    if (graph.outputs().empty()) return invalid("A program needs at least one output.");
    return ir::print(graph);
  });
}

Result<std::string> Stream::dump(std::initializer_list<Tensor> tensors) const {
  return dump(std::span<const Tensor>(tensors.begin(), tensors.size()));
}

}  // namespace vkfuse
