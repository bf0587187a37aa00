// A plan as a file: what was decided, and enough of what it was decided about to know it again.
#pragma once

#include "plan/plan.hpp"

namespace vkfuse::plan {

/// The plan as JSON: the segments, how each is scheduled at the sizes that stand for symbols, the reasons of
/// boundaries, the costs that decided between schedules; a digest of the graph, of the device's limits, and of the file
/// itself. Weights are not part of it.
Result<std::string> to_file(const Plan& plan);

/// The plan in `text` for a graph that the pass pipeline has prepared, on this target. Nothing in the text is believed:
/// whoever wrote it, the segments compute every result from values that are there, and each is one kernel on the
/// target. One sentence if the text is no plan, was changed, or is of another graph, another device, or another version
/// that schedules otherwise.
Result<Plan> from_file(std::string_view text, ir::Graph graph, const Target& target);

/// What make_plan() decides by, as one line: two graphs, targets or options of one key have one plan, in this build of
/// vkfuse and any of the same sources. Empty where a graph has code of the user's, which is not compared.
std::string file_key(const ir::Graph& graph, const Target& target, const partition::Options& options);

/// What the member `digest` of a file is, of the others as JSON without blanks: for who changes a plan on purpose.
std::string file_digest(std::string_view others);

}  // namespace vkfuse::plan
