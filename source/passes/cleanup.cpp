#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/target.hpp"
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

Result<Rewritten> live_part(const ir::Graph& graph) {
  std::vector<bool> live(graph.size(), false);
  for (const ir::Output& output : graph.outputs()) live[output.value] = true;
  for (ir::NodeId id = static_cast<ir::NodeId>(graph.size()); id-- > 0;) {
    if (graph.node(id).op->cls == ops::OpClass::input) live[id] = true;
    if (!live[id]) continue;
    for (ir::NodeId operand : graph.node(id).operands) live[operand] = true;
  }
  Rewriter rewriter(graph);
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    if (live[id]) VKF_CHECK_OK(rewriter.keep(id));
  }
  return rewriter.finish_with_places();
}

}  // namespace

Result<ir::Graph> remove_dead(const ir::Graph& graph) {
  VKF_TRY(live, live_part(graph));
  return std::move(live.graph);
}

Result<Rewritten> without_dead(Rewritten made) {
  VKF_TRY(live, live_part(made.graph));
  return behind(made, std::move(live));
}

Result<ir::Graph> store_operands(const ir::Graph& graph) {
  Rewriter rewriter(graph);
  std::map<ir::NodeId, ir::NodeId> copies;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    if (node.op->cls != ops::OpClass::opaque) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    std::vector<ir::NodeId> operands;
    for (ir::NodeId operand : node.operands) {
      const ir::Node& read = graph.node(operand);
      const bool free = read.op->cls == ops::OpClass::view || read.op->cls == ops::OpClass::generate ||
                        literal_element(read) != nullptr;
      if (free && copies.count(operand) == 0) {
        VKF_TRY(copy, rewriter.graph().add(ops::row("copy"), {rewriter.at(operand)}));
        copies[operand] = copy;
      }
      operands.push_back(free ? copies.at(operand) : rewriter.at(operand));
    }
    VKF_TRY(made, ir::append_copy(rewriter.graph(), node, std::move(operands)));
    rewriter.alias(id, made);
  }
  return rewriter.finish();
}

namespace {

/// However few values they are, a kernel chooses between operands: it computes each operand and each choice at a
/// position (Builder::run bounds them).
constexpr std::size_t kMostOperands = static_cast<std::size_t>(KernelBudget{}.choices) / 2;

bool is_concat_of_more(const ir::Node& node, std::size_t most) {
  if (node.op->role != ops::Role::concat) return false;
  return node.operands.size() > kMostOperands ||
         std::set<ir::NodeId>(node.operands.begin(), node.operands.end()).size() > most;
}

/// The values in runs of which each has `most` different ones at most, as concatenations.
Result<std::vector<ir::NodeId>> concats_of_runs(ir::Graph& graph, const ir::Node& like,
                                                const std::vector<ir::NodeId>& values, std::size_t most) {
  std::vector<ir::NodeId> made;
  for (std::size_t first = 0, end = 0; first < values.size(); first = end) {
    std::set<ir::NodeId> different;
    for (end = first; end < values.size(); ++end) {
      if (end - first == kMostOperands || (different.size() == most && different.count(values[end]) == 0)) break;
      different.insert(values[end]);
    }
    const std::vector<ir::NodeId> run(values.begin() + static_cast<std::ptrdiff_t>(first),
                                      values.begin() + static_cast<std::ptrdiff_t>(end));
    if (run.size() == 1) {
      made.push_back(run.front());
      continue;
    }
    VKF_TRY(part, graph.add_structured(*like.op, run, like.payload));
    made.push_back(part);
  }
  return made;
}

/// Whether a concatenation is of one value, so often that choosing between copies would be all its kernel does; also
/// where each doubles the one before.
bool repeats_one(const ir::Graph& graph, const ir::Node& node) {
  constexpr std::size_t kFew = 4;
  if (node.op->role != ops::Role::concat || node.operands.size() < 2) return false;
  const ir::NodeId one = node.operands.front();
  if (std::any_of(node.operands.begin(), node.operands.end(), [&](ir::NodeId operand) { return operand != one; }))
    return false;
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
  return !node.type.shape[axis].is_symbol() &&
         (node.operands.size() > kFew || graph.node(one).op->role == ops::Role::concat);
}

/// [n] as [1, n], stretched to [times, n], is [times * n]: no condition on positions.
Result<ir::NodeId> repeated(Rewriter& rewriter, ir::NodeId value, std::size_t axis, std::size_t times,
                            const Shape& made) {
  Shape apart = rewriter.graph().node(value).type.shape;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis), Dim(1));
  Shape stretched = apart;
  stretched[axis] = Dim(static_cast<std::int64_t>(times));
  VKF_TRY(first, rewriter.reshape(value, std::move(apart)));
  VKF_TRY(all, rewriter.graph().add_structured(ops::row("broadcast"), {first}, ir::NoPayload{}, std::move(stretched)));
  return rewriter.reshape(all, made);
}

}  // namespace

Result<std::optional<Rewritten>> limit_concats(const ir::Graph& graph, std::uint32_t buffers) {
  const std::size_t most = buffers < 3 ? std::numeric_limits<std::size_t>::max() : buffers - 1;
  const auto is_wide = [&](const ir::Node& node) { return is_concat_of_more(node, most); };
  const auto changes = [&](const ir::Node& node) { return is_wide(node) || repeats_one(graph, node); };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), changes)) return std::optional<Rewritten>();
  Rewriter rewriter(graph);
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    if (repeats_one(graph, node)) {
      const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
      VKF_TRY(made,
              repeated(rewriter, rewriter.at(node.operands.front()), axis, node.operands.size(), node.type.shape));
      rewriter.alias(id, made);
      continue;
    }
    if (!is_wide(node)) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    std::vector<ir::NodeId> values = rewriter.mapped(id);
    do {
      VKF_TRY(fewer, concats_of_runs(rewriter.graph(), node, values, most));
      values = std::move(fewer);
    } while (values.size() > 1);
    rewriter.alias(id, values.front());
  }
  VKF_TRY(made, rewriter.finish_with_places());
  return std::optional(std::move(made));
}

Result<std::optional<Rewritten>> limit_concats_of(Result<std::optional<Rewritten>> form, std::uint32_t buffers) {
  if (!form || !*form) return form;
  VKF_TRY(narrow, limit_concats((*form)->graph, buffers));
  return narrow ? std::optional(behind(**form, *std::move(narrow))) : *std::move(form);
}

Result<ir::Graph> separate_outputs(const ir::Graph& graph) {
  Rewriter rewriter(graph);
  for (ir::NodeId id = 0; id < graph.size(); ++id) VKF_CHECK_OK(rewriter.keep(id));
  std::set<ir::NodeId> written;
  std::vector<ir::NodeId> values;
  for (const ir::Output& output : graph.outputs()) {
    const ops::OpClass cls = graph.node(output.value).op->cls;
    const bool computed = cls != ops::OpClass::input && cls != ops::OpClass::constant;
    ir::NodeId value = rewriter.at(output.value);
    if (!computed || !written.insert(output.value).second) {
      VKF_TRY(view, rewriter.graph().add_structured(ops::row("reshape"), {value}, ir::NoPayload{},
                                                    graph.node(output.value).type.shape));
      value = view;
    }
    values.push_back(value);
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    VKF_CHECK_OK(rewriter.graph().add_output(graph.outputs()[i].name, values[i]));
  return std::move(rewriter.graph());
}

}  // namespace vkfuse::passes
