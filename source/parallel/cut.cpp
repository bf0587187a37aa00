#include "parallel/cut.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "ir/structured.hpp"

namespace vkfuse::parallel {

namespace {

using ir::NodeId;
using ops::OpClass;

/// One that no input of the user's has: "%12", with more signs where a name begins like that.
std::string prefix_for(const ir::Graph& graph) {
  std::string prefix = "%";
  for (const NodeId id : graph.inputs()) {
    while (std::get<ir::InputPayload>(graph.node(id).payload).name.starts_with(prefix)) prefix += '%';
  }
  return prefix;
}

class Cutter {
 public:
  Cutter(const Lowered& lowered, bool in_order)
      : lowered_(lowered), graph_(lowered.graph), in_order_(in_order), prefix_(prefix_for(lowered.graph)) {}

  Result<Cut> run() {
    find_levels();
    Cut cut;
    cut.steps.resize(static_cast<std::size_t>(last_));
    roots_.resize(static_cast<std::size_t>(last_) + 1);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (is_collective(graph_.node(id))) add_step(cut, id);
    }
    for (const ir::Output& output : graph_.outputs()) {
      const NodeId value = before_reshapes(output.value);
      need(value);
      note_input(value);
      cut.outputs.push_back({output.name, value_name(value), graph_.node(output.value).type});
    }
    cut.parts.resize(roots_.size());
    // Later parts tell earlier ones what to store.
    for (std::size_t k = roots_.size(); k-- > 0;) {
      VKF_TRY(part, build_part(static_cast<int>(k)));
      cut.parts[k] = std::move(part);
    }
    cut.inputs = std::move(inputs_);
    return cut;
  }

 private:
  /// The part in which a value is known: results of collectives in the part after them.
  void find_levels() {
    levels_.assign(graph_.size(), 0);
    free_.assign(graph_.size(), false);
    int slot = 0, first = 0;  // a slot, and the first part that may compute its values
    for (const NodeId id : by_slots()) {
      if (!lowered_.slots.empty() && lowered_.slots[id] != slot) {
        slot = lowered_.slots[id];
        first = last_;
      }
      const ir::Node& node = graph_.node(id);
      levels_[id] = first;
      for (const NodeId operand : node.operands) levels_[id] = std::max(levels_[id], levels_[operand]);
      if (is_collective(node)) {
        levels_[id] = std::max(levels_[id] + 1, in_order_ ? last_ : 0);
      }
      last_ = std::max(last_, levels_[id]);
      free_[id] = is_free(node);
    }
  }

  /// Values in the order of their slots, operands first.
  [[nodiscard]] std::vector<NodeId> by_slots() const {
    std::vector<NodeId> order(graph_.size());
    std::iota(order.begin(), order.end(), 0);
    if (!lowered_.slots.empty()) std::ranges::stable_sort(order, {}, [&](NodeId id) { return lowered_.slots[id]; });
    return order;
  }

  /// What every part has for itself: literals, positions, and what follows from them element by element, as masks do.
  /// Such a mask is seen where it is computed, and not where it is read.
  [[nodiscard]] bool is_free(const ir::Node& node) const {
    const OpClass cls = node.op->cls;
    if (cls == OpClass::constant || cls == OpClass::generate) return true;
    if (cls != OpClass::view && cls != OpClass::elementwise && cls != OpClass::convert) return false;
    return std::ranges::all_of(node.operands, [&](NodeId operand) { return free_[operand]; });
  }

  [[nodiscard]] std::string value_name(NodeId id) const {
    const auto* input = std::get_if<ir::InputPayload>(&graph_.node(id).payload);
    return input != nullptr ? input->name : fmt::format("{}{}", prefix_, id);
  }

  /// Whether a value is given to parts: an input of the graph, or the result of a collective.
  [[nodiscard]] bool is_given(NodeId id) const {
    return graph_.node(id).op->cls == OpClass::input || is_collective(graph_.node(id));
  }

  /// The value is stored by the part that computes it.
  void need(NodeId id) {
    if (!is_given(id)) roots_[static_cast<std::size_t>(levels_[id])].insert(id);
  }

  void note_input(NodeId id) {
    const auto* input = std::get_if<ir::InputPayload>(&graph_.node(id).payload);
    if (input != nullptr) inputs_.insert(input->name);
  }

  [[nodiscard]] Participation role_of(NodeId collective) const {
    const auto found = lowered_.roles.find(collective);
    return found == lowered_.roles.end() ? Participation{} : found->second;
  }

  /// Which has the same bytes.
  [[nodiscard]] NodeId before_reshapes(NodeId id) const {
    while (graph_.node(id).op->name == "reshape") id = graph_.node(id).operands.front();
    return id;
  }

  void add_step(Cut& cut, NodeId id) {
    const ir::Node& node = graph_.node(id);
    const NodeId operand = before_reshapes(node.operands.front());
    const Participation role = role_of(id);
    if (role.sends) {
      need(operand);
      note_input(operand);
    }
    cut.steps[static_cast<std::size_t>(levels_[id] - 1)].push_back({{node.op, {}, node.type, node.payload},
                                                                    graph_.node(operand).type,
                                                                    value_name(operand),
                                                                    value_name(id),
                                                                    lowered_.origins.at(id),
                                                                    role});
  }

  Result<ir::Graph> build_part(int level) {
    ir::Graph part;
    part.name = fmt::format("{} part {}", graph_.name, level);
    std::map<NodeId, NodeId> made;
    for (const NodeId root : std::set<NodeId>(roots_[static_cast<std::size_t>(level)])) {
      VKF_CHECK_OK(append(part, root, level, made));
      VKF_CHECK_OK(part.add_output(value_name(root), made.at(root)));
    }
    return part;
  }

  /// With what it needs, without recursion: graphs are deep.
  Result<void> append(ir::Graph& part, NodeId root, int level, std::map<NodeId, NodeId>& made) {
    std::vector<NodeId> open = {root};
    while (!open.empty()) {
      const NodeId id = open.back();
      if (made.contains(id)) {
        open.pop_back();
        continue;
      }
      const ir::Node& node = graph_.node(id);
      if (is_given(id) || (levels_[id] < level && !free_[id])) {
        need(id);
        note_input(id);
        check(!is_collective(node) || role_of(id).receives, "a rank reads what has come to it");
        VKF_TRY(input, part.add_input(value_name(id), node.type));
        made[id] = input;
        continue;
      }
      const std::size_t before = open.size();
      for (const NodeId operand : node.operands) {
        if (!made.contains(operand)) open.push_back(operand);
      }
      if (open.size() != before) continue;
      std::vector<NodeId> operands;
      for (const NodeId operand : node.operands) operands.push_back(made.at(operand));
      VKF_TRY(copy, ir::append_copy(part, node, std::move(operands)));
      made[id] = copy;
    }
    return {};
  }

  const Lowered& lowered_;
  const ir::Graph& graph_;
  bool in_order_;
  std::string prefix_;
  std::vector<int> levels_;
  std::vector<bool> free_;
  int last_ = 0;
  std::vector<std::set<NodeId>> roots_;
  std::set<std::string, std::less<>> inputs_;
};

std::string attributes_of(const ir::Node& node) {
  std::string text;
  ir::each_attribute(node.payload, [&](std::string_view name, const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::vector<int>>) {
      text += fmt::format(" {}=[{}]", name, fmt::join(value, ", "));
    } else if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, int>) {
      text += fmt::format(" {}={}", name, value);
    }
  });
  return text;
}

}  // namespace

Result<Cut> cut_at_collectives(const Lowered& lowered, bool in_order) {
  // A rank of a pipeline may have no outputs; what it was given has some.
  const bool may_have_none = !lowered.slots.empty();
  if (!may_have_none || !lowered.graph.outputs().empty()) VKF_CHECK_OK(ir::verify(lowered.graph));
  return Cutter(lowered, in_order).run();
}

// Those of one rank alone are its values, which a pass drops.
bool is_collective(const ir::Node& node) {
  return node.op->cls == OpClass::collective && ir::group_of(node)->ranks > 1;
}

std::vector<std::string> collective_lines(const ir::Graph& graph) {
  std::vector<std::string> lines;
  for (const ir::Node& node : graph.nodes()) {
    if (!is_collective(node)) continue;
    lines.push_back(
        fmt::format("{}{} of {}", node.op->name, attributes_of(node), to_text(graph.node(node.operands.front()).type)));
  }
  return lines;
}

}  // namespace vkfuse::parallel
