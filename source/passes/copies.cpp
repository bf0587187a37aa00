// Views that are worth storing are copied: a view is never stored by itself, and a copy may be, by itself or in
// the kernel that computes what it is a view of.
#include <algorithm>
#include <map>
#include <set>

#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::NodeId;

/// Whether other elements are side by side in the result of a permute than in its operand.
bool turns_rows(const ir::Graph& graph, const ir::Node& permute) {
  const std::vector<int> before = long_axes(graph.node(permute.operands[0]).type.shape);
  const std::vector<int> after = long_axes(permute.type.shape);
  return !after.empty() &&
         std::get<ir::AxesPayload>(permute.payload).axes[static_cast<std::size_t>(after.back())] != before.back();
}

/// What windows are read through and reads a permute that turns what they are of; nothing where none does.
std::optional<NodeId> reader_of_turned(const ir::Graph& graph, NodeId windows) {
  for (NodeId id = windows;; id = graph.node(id).operands[0]) {
    const ir::Node& node = graph.node(id);
    if (node.op->cls != ops::OpClass::view || node.op->role == ops::Role::concat) return std::nullopt;
    const ir::Node& before = graph.node(node.operands[0]);
    if (before.op->role == ops::Role::permute && turns_rows(graph, before)) return id;
  }
}

}  // namespace

Result<ir::Graph> copy_turned_images(const ir::Graph& graph) {
  std::set<NodeId> readers;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op->role != ops::Role::unfold) continue;
    if (const auto reader = reader_of_turned(graph, id)) readers.insert(*reader);
  }
  Rewriter rewriter(graph);
  std::map<NodeId, NodeId> copies;  // of permutes, whose other readers go on reading them
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (readers.count(id) == 0) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    const NodeId image = graph.node(id).operands[0];
    if (copies.count(image) == 0) {
      VKF_TRY(copy, rewriter.op("copy", {rewriter.at(image)}));
      copies[image] = copy;
    }
    std::vector<NodeId> operands = rewriter.mapped(id);
    operands[0] = copies.at(image);
    VKF_TRY(made, ir::append_copy(rewriter.graph(), graph.node(id), std::move(operands)));
    rewriter.alias(id, made);
  }
  return rewriter.finish();
}

namespace {

/// Of each axis of a shape, the axis of a reshape of it that it is a part of; empty where one is a part of several.
std::vector<int> axes_after_reshape(const Shape& before, const Shape& after) {
  std::vector<int> part;
  for (std::size_t j = 0; j < after.size(); ++j) {
    if (after[j].is_symbol()) {
      if (part.size() == before.size() || !(before[part.size()] == after[j])) return {};
      part.push_back(static_cast<int>(j));
      continue;
    }
    std::int64_t size = 1;
    while (size < after[j].size() && part.size() < before.size() && !before[part.size()].is_symbol()) {
      size *= before[part.size()].size();
      part.push_back(static_cast<int>(j));
    }
    if (size != after[j].size()) return {};
  }
  part.resize(before.size(), static_cast<int>(after.size()) - 1);  // of one element
  return part;
}

bool is_in(const std::vector<int>& axes, int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

/// A factor of a product, as it is read.
struct Factor {
  const Shape& shape;
  const std::vector<int>& batch;
  const std::vector<int>& contracted;
};

/// Whether a factor's rows are one behind the other in the result of a permute, but not in what that is of: axes of
/// other kinds are between theirs.
bool parts_rows(const ir::Node& permute, const Factor& factor) {
  const std::vector<int> part = axes_after_reshape(permute.type.shape, factor.shape);
  if (part.empty()) return false;
  /// Of the permute's axes in an order, runs that rows go along.
  const auto runs_of_rows = [&](const std::vector<int>& order) {
    int runs = 0;
    bool in_run = false;
    for (const int axis : order) {
      if (permute.type.shape[static_cast<std::size_t>(axis)] == Dim(1)) continue;
      const int own = part[static_cast<std::size_t>(axis)];
      const bool row = !is_in(factor.batch, own) && !is_in(factor.contracted, own);
      runs += row && !in_run ? 1 : 0;
      in_run = row;
    }
    return runs;
  };
  const std::vector<int>& axes = std::get<ir::AxesPayload>(permute.payload).axes;
  std::vector<int> as_read(axes.size()), as_stored(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    as_read[i] = static_cast<int>(i);
    as_stored[static_cast<std::size_t>(axes[i])] = static_cast<int>(i);
  }
  return runs_of_rows(as_read) == 1 && runs_of_rows(as_stored) > 1;
}

/// The permutes of contractions' results that part the rows of a factor, which alone reads them.
class PartedRows {
 public:
  explicit PartedRows(const ir::Graph& graph) : graph_(graph), users_(graph.users()), is_output_(graph.size(), false) {
    for (const ir::Output& output : graph.outputs()) is_output_[output.value] = true;
  }

  [[nodiscard]] std::set<NodeId> permutes() const {
    std::set<NodeId> all;
    for (const ir::Node& node : graph_.nodes()) {
      const auto* dot = std::get_if<ir::DotPayload>(&node.payload);
      if (dot == nullptr) continue;
      add(node.operands[0], dot->batch_a, dot->contract_a, all);
      add(node.operands[1], dot->batch_b, dot->contract_b, all);
    }
    return all;
  }

 private:
  void add(NodeId factor, const std::vector<int>& batch, const std::vector<int>& contracted,
           std::set<NodeId>& all) const {
    NodeId id = factor;
    while (graph_.node(id).op->role == ops::Role::reshape && has_one_reader(id)) id = graph_.node(id).operands[0];
    const ir::Node& permute = graph_.node(id);
    if (permute.op->role != ops::Role::permute || !has_one_reader(id)) return;
    const NodeId source = permute.operands[0];
    const bool is_contraction = std::holds_alternative<ir::DotPayload>(graph_.node(source).payload);
    if (is_contraction && has_one_reader(source) &&
        parts_rows(permute, {graph_.node(factor).type.shape, batch, contracted}))
      all.insert(id);
  }

  [[nodiscard]] bool has_one_reader(NodeId id) const { return !is_output_[id] && users_[id].size() == 1; }

  const ir::Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;
};

}  // namespace

Result<ir::Graph> copy_parted_rows(const ir::Graph& graph) {
  const std::set<NodeId> parted = PartedRows(graph).permutes();
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    VKF_CHECK_OK(rewriter.keep(id));
    if (parted.count(id) == 0) continue;
    VKF_TRY(copy, rewriter.op("copy", {rewriter.at(id)}));
    rewriter.alias(id, copy);
  }
  return rewriter.finish();
}

Result<ir::Graph> copy_views(const ir::Graph& graph) {
  VKF_TRY(images, copy_turned_images(graph));
  return copy_parted_rows(images);
}

}  // namespace vkfuse::passes
