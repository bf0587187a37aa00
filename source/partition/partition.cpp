#include "partition/partition.hpp"

#include <algorithm>

#include "base/mutations.hpp"
#include "partition/search.hpp"

namespace vkfuse::partition {

namespace {

template <typename List>
auto named(const List& list, std::string_view name) -> std::optional<typename List::value_type> {
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& one) { return name_of(one) == name; });
  return found == list.end() ? std::nullopt : std::optional(*found);
}

constexpr int kMostIterations = 8;

void join_producers(Search& search, const Options& options) {
  if (options.has(PlannerPass::vertical)) search.fuse_vertically();
}

/// What is stored and what is computed again, until nothing changes any more. Cuts look at all values of a kernel
/// together, and come when kernels are what they will be.
void settle(Search& search, const Options& options, bool cuts) {
  for (int round = 0; round < kMostIterations; ++round) {
    bool changed = options.has(PlannerPass::rematerialization) && search.rematerialize_values(false);
    if (cuts && options.has(PlannerPass::min_cut)) changed = search.rematerialize_by_min_cut() || changed;
    if (options.has(PlannerPass::vertical) && changed) changed = search.fuse_vertically() || changed;
    if (!changed) return;
  }
}

/// What moves fewer bytes and is modelled no slower.
void by_bytes(Search& search, const Options& options) {
  join_producers(search, options);
  settle(search, options, false);
  if (options.has(PlannerPass::siblings) && search.fuse_siblings()) join_producers(search, options);
  for (int round = 0; options.has(PlannerPass::moves) && round < kMostIterations && search.move_parts(); ++round) {
    join_producers(search, options);
    settle(search, options, false);
  }
  if (options.has(PlannerPass::exhaustive) && search.search_exhaustively()) return settle(search, options, true);
  for (int round = 0; round < kMostIterations; ++round) {
    if (options.has(PlannerPass::horizontal) && search.fuse_horizontally()) join_producers(search, options);
    settle(search, options, true);
    if (!options.has(PlannerPass::local_search) || !search.search_locally()) return;
    join_producers(search, options);
  }
}

}  // namespace

std::optional<PlannerPass> planner_pass_named(std::string_view name) {
  constexpr std::pair<std::string_view, PlannerPass> kOldNames[] = {{"windows", PlannerPass::local_search},
                                                                    {"exact", PlannerPass::exhaustive},
                                                                    {"cut", PlannerPass::min_cut},
                                                                    {"joined", PlannerPass::merged_matmuls},
                                                                    {"statistics", PlannerPass::partial_statistics},
                                                                    {"recompute", PlannerPass::rematerialization}};
  for (const auto& [old_name, planner_pass] : kOldNames) {
    if (name == old_name) return planner_pass;
  }
  return named(kPlannerPasses, name);
}
std::optional<Policy> policy_named(std::string_view name) { return named(kPolicies, name); }

Result<Partition> partition(const ir::Graph& graph, const Target& target, const Options& options) {
  CostCache cost_cache;
  VKF_TRY(costed, partition(graph, target, options, cost_cache));
  return std::move(costed.partition);
}

Result<CostedPartition> partition(const ir::Graph& graph, const Target& target, const Options& options,
                                  CostCache& cost_cache, const WarmStart* warm_start) {
  SymbolValues sizes = options.sizes;
  sizes.merge(schedule::representative_symbols(graph));
  std::vector<bool> kept(graph.size(), false);
  std::optional<GraphAnalysis> analysis;
  std::optional<Search> searched;
  for (;;) {
    analysis.emplace(graph, sizes, kept);
    searched.emplace(*analysis, target, options, cost_cache);
    auto started = searched->start();
    const std::vector<ir::NodeId> wide = started ? searched->views_over_budget() : std::vector<ir::NodeId>();
    for (ir::NodeId view : wide) kept[view] = true;
    if (started && wide.empty()) break;
    if (started) continue;
    const std::vector<ir::NodeId> views = searched->views_to_materialize();
    if (VKF_PLANT(views_never_stored, views.empty(), true)) return std::move(started).error();
    for (ir::NodeId view : views) kept[view] = true;
  }
  Search& search = *searched;
  if (warm_start != nullptr) search.warm_start_from(*warm_start);
  if (options.fusion && options.policy == Policy::bytes) by_bytes(search, options);
  if (options.fusion && options.policy != Policy::bytes) search.fuse_vertically();
  if (options.fusion && options.policy == Policy::recompute_all && search.rematerialize_values(true))
    search.fuse_vertically();
  VKF_CHECK_OK(search.check_sizes());
  return search.finish();
}

}  // namespace vkfuse::partition
