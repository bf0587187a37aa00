#include "cut.hpp"

#include <algorithm>
#include <map>

namespace vkfuse::bench {

namespace {

class Cutter {
 public:
  Cutter(const ir::Graph& graph, std::vector<ir::NodeId> stored) : graph_(graph) {
    std::sort(stored.begin(), stored.end());
    stored.erase(std::unique(stored.begin(), stored.end()), stored.end());
    for (ir::NodeId id : stored) names_[id] = fmt::format("stored{}", id);
    for (const ir::Output& output : graph.outputs()) {
      if (names_.count(output.value) > 0) names_[output.value] = output.name;
    }
  }

  Result<std::vector<ir::Graph>> pieces() {
    std::vector<ir::Graph> all;
    for (const auto& [id, name] : names_) {
      VKF_TRY(piece, piece_of({{name, id}}));
      all.push_back(std::move(piece));
    }
    std::vector<ir::Output> rest;
    for (const ir::Output& output : graph_.outputs()) {
      const auto stored = names_.find(output.value);
      if (stored == names_.end() || stored->second != output.name) rest.push_back(output);
    }
    if (rest.empty()) return all;
    VKF_TRY(piece, piece_of(rest));
    all.push_back(std::move(piece));
    return all;
  }

 private:
  /// The nodes that `outputs` need, down to inputs and other stored values.
  Result<ir::Graph> piece_of(const std::vector<ir::Output>& outputs) const {
    const auto is_output = [&](ir::NodeId id) {
      return std::any_of(outputs.begin(), outputs.end(), [&](const ir::Output& output) { return output.value == id; });
    };
    // A stored value that is an output under a second name is read, and copied.
    const auto is_read = [&](ir::NodeId id) {
      const auto stored = names_.find(id);
      return stored != names_.end() && !(is_output(id) && outputs.front().name == stored->second);
    };
    std::vector<bool> needed(graph_.size(), false);
    for (const ir::Output& output : outputs) needed[output.value] = true;
    for (ir::NodeId id = static_cast<ir::NodeId>(graph_.size()); id-- > 0;) {
      if (!needed[id] || is_read(id)) continue;
      for (ir::NodeId operand : graph_.node(id).operands) needed[operand] = true;
    }
    ir::Graph piece;
    piece.name = graph_.name;
    std::vector<ir::NodeId> at(graph_.size(), 0);
    for (ir::NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed[id]) continue;
      const ir::Node& node = graph_.node(id);
      std::vector<ir::NodeId> operands;
      if (!is_read(id)) {
        for (ir::NodeId operand : node.operands) operands.push_back(at[operand]);
      }
      VKF_TRY(copy,
              is_read(id) ? piece.add_input(names_.at(id), node.type) : append_copy(piece, node, std::move(operands)));
      at[id] = copy;
    }
    for (const ir::Output& output : outputs) VKF_CHECK_OK(piece.add_output(output.name, at[output.value]));
    return piece;
  }

  const ir::Graph& graph_;
  std::map<ir::NodeId, std::string> names_;  ///< of the stored values
};

}  // namespace

Result<std::vector<ir::Graph>> cut(const ir::Graph& graph, std::vector<ir::NodeId> stored) {
  return Cutter(graph, std::move(stored)).pieces();
}

}  // namespace vkfuse::bench
