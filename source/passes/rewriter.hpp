// What every pass does: copy a graph node by node, and leave some out.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.hpp"

namespace vkfuse::passes {

/// Casts among them.
inline bool is_elementwise(const ir::Node& node) { return node.op->cls == ops::OpClass::elementwise || node.op->cls == ops::OpClass::convert; }

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

  // --- new nodes, of nodes of the copy ---
  Result<ir::NodeId> op(std::string_view name, std::vector<ir::NodeId> operands) { return to_.add(ops::row(name), std::move(operands)); }
  Result<ir::NodeId> reshape(ir::NodeId value, Shape shape) { return to_.add_structured(ops::row("reshape"), {value}, ir::NoPayload{}, std::move(shape)); }
  Result<ir::NodeId> cast(ir::NodeId value, DType dtype) { return to_.node(value).type.dtype == dtype ? value : to_.add(ops::row("cast"), {value}, dtype); }
  /// A reduction along the last axis.
  Result<ir::NodeId> fold_rows(std::string_view name, ir::NodeId value) {
    return to_.add_structured(ops::row(name), {value}, ir::AxesPayload{{static_cast<int>(to_.node(value).type.shape.size()) - 1}});
  }

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
