#include <algorithm>
#include <map>
#include <set>

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
      const auto* constant = std::get_if<ir::ConstantPayload>(&read.payload);
      const bool literal = constant != nullptr && constant->bytes->size() == static_cast<std::size_t>(size_of(read.type.dtype));
      const bool free = read.op->cls == ops::OpClass::view || read.op->cls == ops::OpClass::generate || literal;
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

bool is_concat_of_more(const ir::Node& node, std::size_t most) {
  return node.op->name == "concat" && std::set<ir::NodeId>(node.operands.begin(), node.operands.end()).size() > most;
}

/// The values in runs of which each has `most` different ones at most, as concatenations.
Result<std::vector<ir::NodeId>> concats_of_runs(ir::Graph& graph, const ir::Node& like, const std::vector<ir::NodeId>& values, std::size_t most) {
  std::vector<ir::NodeId> made;
  for (std::size_t first = 0, end = 0; first < values.size(); first = end) {
    std::set<ir::NodeId> different;
    for (end = first; end < values.size(); ++end) {
      if (different.size() == most && different.count(values[end]) == 0) break;
      different.insert(values[end]);
    }
    const std::vector<ir::NodeId> run(values.begin() + static_cast<std::ptrdiff_t>(first), values.begin() + static_cast<std::ptrdiff_t>(end));
    if (run.size() == 1) {
      made.push_back(run.front());
      continue;
    }
    VKF_TRY(part, graph.add_structured(*like.op, run, like.payload));
    made.push_back(part);
  }
  return made;
}

}  // namespace

Result<std::optional<Rewritten>> narrow_concats(const ir::Graph& graph, std::uint32_t buffers) {
  if (buffers < 3) return std::optional<Rewritten>();
  const std::size_t most = buffers - 1;
  const auto is_wide = [&](const ir::Node& node) { return is_concat_of_more(node, most); };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_wide)) return std::optional<Rewritten>();
  Rewriter rewriter(graph);
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
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

Result<std::optional<Rewritten>> narrow_form(Result<std::optional<Rewritten>> form, std::uint32_t buffers) {
  if (!form || !*form) return form;
  VKF_TRY(narrow, narrow_concats((*form)->graph, buffers));
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
      VKF_TRY(view, rewriter.graph().add_structured(ops::row("reshape"), {value}, ir::NoPayload{}, graph.node(output.value).type.shape));
      value = view;
    }
    values.push_back(value);
  }
  for (std::size_t i = 0; i < values.size(); ++i) VKF_CHECK_OK(rewriter.graph().add_output(graph.outputs()[i].name, values[i]));
  return std::move(rewriter.graph());
}

}  // namespace vkfuse::passes
