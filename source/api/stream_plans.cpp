#include "api/stream_plans.hpp"

#include <algorithm>
#include <unordered_map>

#include "api/stream_memory.hpp"
#include "ir/structured.hpp"

namespace vkfuse::api {

namespace {

constexpr std::size_t kMostFamilies = 256;
constexpr std::size_t kMostPlans = 16;  // of one structure
constexpr std::size_t kCompared = 64;   // bytes of a constant up to which its elements are part of the structure

/// Appends values so that no two lists of values make one text.
class Text {
 public:
  template <typename T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <typename T>
  void add(const std::vector<T>& values) {
    add(values.size());
    text_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void add(const std::string& value) {
    add(value.size());
    text_ += value;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add_payload(Text& text, const ir::Payload& payload) {
  text.add(payload.index());
  if (const auto* constant = std::get_if<ir::ConstantPayload>(&payload)) {
    if (constant->bytes->size() <= kCompared) {
      text.add(*constant->bytes);
    } else {
      text.add(constant->bytes.get());
    }
  }
  ir::each_attribute(payload, [&text](const char*, const auto& member) { text.add(member); });
}

/// Whether the sizes of a node's shape are given and do not follow from its operands.
bool states_sizes(const Tensor::Node& node) {
  return node.value != nullptr || node.op->shape_is_attribute || node.op->cls == ops::OpClass::generate ||
         node.op->cls == ops::OpClass::constant;
}

/// Constants have the sizes of their bytes.
bool may_vary(const Tensor::Node& node) { return node.op->cls != ops::OpClass::constant; }

class Walk {
 public:
  Result<void> add(const Tensor& root) {
    if (!root.valid()) return Error(root.error());
    std::vector<const Tensor::Node*> stack{root.node().get()};
    while (!stack.empty()) {
      const Tensor::Node* node = stack.back();
      if (index_.count(node) != 0) {
        stack.pop_back();
        continue;
      }
      bool ready = true;
      for (std::size_t i = node->operands.size(); i-- > 0;) {
        const Tensor::Node* operand = node->operands[i].node().get();
        if (index_.count(operand) != 0) continue;
        stack.push_back(operand);
        ready = false;
      }
      if (!ready) continue;
      stack.pop_back();
      VKF_CHECK_OK(append(*node));
    }
    recorded.roots.push_back(index_.at(root.node().get()));
    text_.add(recorded.roots.back());
    return {};
  }

  Recorded finish() {
    recorded.structure = text_.take();
    return std::move(recorded);
  }

 private:
  Result<void> append(const Tensor::Node& node) {
    if (node.value == nullptr && node.op->cls == ops::OpClass::input) {
      return invalid("The input '{}' has no elements: a stream computes with tensors of its own.",
                     std::get<ir::InputPayload>(node.payload).name);
    }
    index_.emplace(&node, recorded.nodes.size());
    recorded.nodes.push_back(&node);
    if (node.value != nullptr) recorded.leaves.push_back(&node);
    text_.add(node.value != nullptr ? nullptr : node.op);
    text_.add(node.type.dtype);
    text_.add(node.operands.size());
    for (const Tensor& operand : node.operands) text_.add(index_.at(operand.node().get()));
    if (node.value == nullptr) add_payload(text_, node.payload);
    if (!states_sizes(node)) return {};
    text_.add(node.type.shape.size());
    for (const Dim& dim : node.type.shape) {
      if (may_vary(node)) {
        recorded.sizes.push_back(dim.size());
      } else {
        text_.add(dim.size());
      }
    }
    return {};
  }

  Recorded recorded;
  Text text_;
  std::unordered_map<const Tensor::Node*, std::size_t> index_;
};

std::string symbol_name(int symbol) { return "d" + std::to_string(symbol); }

/// The values of a pattern's symbols at these sizes, if it is a pattern of theirs.
std::optional<SymbolValues> match(const std::vector<SizePattern>& pattern, const std::vector<std::int64_t>& sizes) {
  SymbolValues symbols;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (pattern[i].symbol < 0) {
      if (pattern[i].size != sizes[i]) return std::nullopt;
    } else if (symbols.emplace(symbol_name(pattern[i].symbol), sizes[i]).first->second != sizes[i]) {
      return std::nullopt;
    }
  }
  return symbols;
}

/// What these sizes and those of a pattern have in common: sizes that differ become symbols, one for all that are equal
/// both here and there.
std::vector<SizePattern> joined(const std::vector<SizePattern>& pattern, const std::vector<std::int64_t>& sizes) {
  std::map<std::tuple<int, std::int64_t, std::int64_t>, int> symbols;
  std::vector<SizePattern> made;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (pattern[i].symbol < 0 && pattern[i].size == sizes[i]) {
      made.push_back(pattern[i]);
      continue;
    }
    const std::tuple key{pattern[i].symbol, pattern[i].symbol < 0 ? pattern[i].size : 0, sizes[i]};
    const int next = static_cast<int>(symbols.size());
    made.push_back({0, symbols.emplace(key, next).first->second});
  }
  return made;
}

std::vector<SizePattern> numbers(const std::vector<std::int64_t>& sizes) {
  std::vector<SizePattern> made;
  for (const std::int64_t size : sizes) made.push_back({size, -1});
  return made;
}

}  // namespace

Result<Recorded> record_of(std::span<const Tensor> roots) {
  Walk walk;
  for (const Tensor& root : roots) VKF_CHECK_OK(walk.add(root));
  return walk.finish();
}

Result<ir::Graph> graph_of(const Recorded& recorded, const std::vector<SizePattern>* pattern, const std::string& name) {
  ir::Graph graph;
  graph.name = name;
  std::unordered_map<const Tensor::Node*, ir::NodeId> ids;
  std::size_t next_size = 0;
  std::size_t next_leaf = 0;
  for (const Tensor::Node* node : recorded.nodes) {
    TensorType type = node->type;
    if (states_sizes(*node) && may_vary(*node)) {
      for (Dim& dim : type.shape) {
        if (pattern != nullptr && (*pattern)[next_size].symbol >= 0)
          dim = Dim::any(symbol_name((*pattern)[next_size].symbol));
        ++next_size;
      }
    }
    std::vector<ir::NodeId> operands;
    for (const Tensor& operand : node->operands) operands.push_back(ids.at(operand.node().get()));
    if (node->value != nullptr) {
      VKF_TRY(id, graph.add_input("x" + std::to_string(next_leaf++), std::move(type)));
      ids[node] = id;
    } else {
      VKF_TRY(id, ir::append_copy(graph, {node->op, {}, std::move(type), node->payload}, std::move(operands)));
      ids[node] = id;
    }
  }
  for (std::size_t i = 0; i < recorded.roots.size(); ++i) {
    VKF_CHECK_OK(graph.add_output(i == 0 ? "y" : "y" + std::to_string(i), ids.at(recorded.nodes[recorded.roots[i]])));
  }
  return graph;
}

Result<StreamPlan> StreamPlans::compile(const Recorded& recorded, std::vector<SizePattern> pattern, bool symbols) {
  VKF_TRY(graph, graph_of(recorded, symbols ? &pattern : nullptr, options_.name));
  VKF_TRY(program, compile_graph(device_, std::move(graph), options_));
  ++compiled_;
  return StreamPlan{std::move(pattern), std::move(program)};
}

Result<FittingPlan> StreamPlans::find_or_compile(const Recorded& recorded) {
  Family& family = families_[recorded.structure];
  family.used = ++clock_;
  forget_oldest();
  std::vector<StreamPlan>& plans = family.plans;
  for (auto plan = plans.begin(); plan != plans.end(); ++plan) {
    auto symbols = match(plan->pattern, recorded.sizes);
    if (!symbols) continue;
    std::rotate(plans.begin(), plan, plan + 1);
    return FittingPlan{&plans.front().program, *std::move(symbols)};
  }
  std::optional<StreamPlan> made;
  if (!plans.empty() && !family.sizes_are_numbers) {
    auto general = compile(recorded, joined(plans.front().pattern, recorded.sizes), true);
    if (general) made = *std::move(general);
    family.sizes_are_numbers = !made;
  }
  if (!made) {
    VKF_TRY(exact, compile(recorded, numbers(recorded.sizes), false));
    made = std::move(exact);
  }
  if (family.constants.empty()) {
    for (const Tensor::Node* node : recorded.nodes) {
      const auto* constant = std::get_if<ir::ConstantPayload>(&node->payload);
      if (constant != nullptr) family.constants.push_back(constant->bytes);
    }
  }
  plans.insert(plans.begin(), *std::move(made));
  if (plans.size() > kMostPlans) plans.pop_back();
  return FittingPlan{&plans.front().program, *match(plans.front().pattern, recorded.sizes)};
}

void StreamPlans::forget_oldest() {
  if (families_.size() <= kMostFamilies) return;
  const auto oldest = std::min_element(families_.begin(), families_.end(),
                                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  families_.erase(oldest);
}

}  // namespace vkfuse::api
