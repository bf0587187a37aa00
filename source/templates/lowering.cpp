#include "templates/lowering.hpp"

#include <algorithm>
#include <array>

#include "templates/attention/lower.hpp"
#include "templates/custom/lower.hpp"
#include "templates/matmul/lower.hpp"
#include "templates/pointwise/lower.hpp"
#include "templates/reduction/lower.hpp"
#include "templates/sort/lower.hpp"
#include "templates/stencil/lower.hpp"
#include "templates/transpose/lower.hpp"

namespace vkfuse::lowering {

namespace {

/// A template, as lowering sees it: one row per folder.
struct TemplateRow {
  schedule::Template kind;
  Result<std::vector<RelocatableKernel>> (*lower)(const LoweringInput& in);
};

constexpr std::array kTemplates = {
    TemplateRow{schedule::Template::pointwise, lower_pointwise},
    TemplateRow{schedule::Template::reduction, lower_reduction},
    TemplateRow{schedule::Template::sort, lower_sort},
    TemplateRow{schedule::Template::matmul, lower_matmul},
    TemplateRow{schedule::Template::attention, lower_attention},
    TemplateRow{schedule::Template::stencil, lower_stencil},
    TemplateRow{schedule::Template::transpose, lower_transpose},
    TemplateRow{schedule::Template::custom, lower_custom},
};

Result<std::vector<RelocatableKernel>> lower_by_template(const LoweringInput& in) {
  const auto row = std::find_if(kTemplates.begin(), kTemplates.end(),
                                [&](const TemplateRow& one) { return one.kind == in.schedule.kind(); });
  check(row != kTemplates.end(), "every template has a row");
  return row->lower(in);
}

/// The nodes of a segment in the order in which its kernel mentions them.
std::vector<ir::NodeId> named_nodes(const segment::Loops& loops, const segment::Segment& segment) {
  std::vector<ir::NodeId> nodes = schedule::buffers_read(loops);
  for (const segment::Value& value : loops.values) nodes.push_back(value.node);
  nodes.insert(nodes.end(), segment.members.begin(),
               segment.members.end());  // views last: the text does not show how many there are
  return nodes;
}

/// Names by that order alone: equal kernels then have equal text.
NodeNames local_identifiers(std::span<const ir::NodeId> nodes) {
  NodeNames names;
  for (ir::NodeId id : nodes) names.emplace(id, "v" + std::to_string(names.size()));
  return names;
}

}  // namespace

Result<std::vector<RelocatableKernel>> relocatable(const LoweringInput& planned) {
  if (planned.loops.opaque) return lower_by_template(planned);
  const segment::Loops loops = schedule::scheduled_loops(planned.graph, planned.loops, planned.schedule);
  LoweringInput in = planned.with(loops);
  const std::vector<ir::NodeId> nodes = named_nodes(loops, in.segment);
  // With names that do not depend on where in a graph the segment is, layers that repeat, as most models do, compile
  // once.
  in.names.by_order = local_identifiers(nodes);
  in.names.of_graph = in.options.only_canonical_key ? in.names.by_order : identifiers(in.graph, nodes);
  return lower_by_template(in);
}

Result<std::vector<Kernel>> lower(const LoweringInput& in) {
  VKF_TRY(relocatables, relocatable(in));
  std::vector<Kernel> kernels;
  for (const RelocatableKernel& one : relocatables) {
    const SizeBinding size_binding = SizeBinding::alone(one.relocations, one.most_words);
    const auto words = size_binding.words_for(one.relocations);
    check(words.has_value(), "a text is filled in with numbers of its own");
    kernels.push_back(bind_sizes(one, size_binding, *words));
  }
  return kernels;
}

}  // namespace vkfuse::lowering
