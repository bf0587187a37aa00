// What every pass does: copy a graph node by node, and leave some out.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace vkfuse::passes {

/// Copies a graph node by node; `map` takes old ids to new ones.
class Rewriter {
 public:
  explicit Rewriter(const ir::Graph& from) : from_(from), map_(from.size(), 0) { to_.name = from.name; }

  Result<void> keep(ir::NodeId id) {
    VKF_TRY(made, ir::append_copy(to_, from_.node(id), mapped(id)));
    map_[id] = made;
    return {};
  }
  void alias(ir::NodeId id, ir::NodeId made) { map_[id] = made; }
  [[nodiscard]] std::vector<ir::NodeId> mapped(ir::NodeId id) const {
    std::vector<ir::NodeId> operands;
    for (ir::NodeId operand : from_.node(id).operands) operands.push_back(map_[operand]);
    return operands;
  }
  [[nodiscard]] ir::NodeId at(ir::NodeId id) const { return map_[id]; }
  ir::Graph& graph() { return to_; }

  Result<ir::Graph> finish() {
    for (const ir::Output& output : from_.outputs()) VKF_CHECK_OK(to_.add_output(output.name, map_[output.value]));
    return std::move(to_);
  }

 private:
  const ir::Graph& from_;
  ir::Graph to_;
  std::vector<ir::NodeId> map_;
};

}  // namespace vkfuse::passes
