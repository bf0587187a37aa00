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

/// What the search can do, by the planner pass that is switched off to do without.
struct SearchPass {
  PlannerPass planner_pass;
  bool (*run)(Context&, Search&);
};
constexpr SearchPass kSearchPasses[] = {
    {PlannerPass::vertical, fuse_vertically},         {PlannerPass::siblings, fuse_siblings},
    {PlannerPass::horizontal, fuse_horizontally},     {PlannerPass::moves, move_parts},
    {PlannerPass::local_search, search_locally},      {PlannerPass::exhaustive, search_exhaustively},
    {PlannerPass::min_cut, rematerialize_by_min_cut}, {PlannerPass::rematerialization, rematerialize_values},
};

constexpr int kMostIterations = 8;

/// Whether it changed anything; what is switched off changes nothing.
bool run(PlannerPass planner_pass, Context& context, Search& search) {
  const auto* row = std::find_if(std::begin(kSearchPasses), std::end(kSearchPasses),
                                 [&](const SearchPass& one) { return one.planner_pass == planner_pass; });
  check(row != std::end(kSearchPasses), "the search has this pass");
  return context.options.has(planner_pass) && row->run(context, search);
}

/// What is stored and what is computed again, until nothing changes any more. Min-cuts look at all values of a kernel
/// together, and come when kernels are what they will be.
void settle(Context& context, Search& search, bool with_min_cuts) {
  for (int iteration = 0; iteration < kMostIterations; ++iteration) {
    bool changed = run(PlannerPass::rematerialization, context, search);
    if (with_min_cuts) changed = run(PlannerPass::min_cut, context, search) || changed;
    if (!changed) return;
    run(PlannerPass::vertical, context, search);
  }
}

/// What moves fewer bytes and is modelled no slower.
void fuse_by_bytes(Context& context, Search& search) {
  const auto changes = [&](PlannerPass planner_pass) { return run(planner_pass, context, search); };
  changes(PlannerPass::vertical);
  settle(context, search, false);
  if (changes(PlannerPass::siblings)) changes(PlannerPass::vertical);
  for (int iteration = 0; iteration < kMostIterations && changes(PlannerPass::moves); ++iteration) {
    changes(PlannerPass::vertical);
    settle(context, search, false);
  }
  if (changes(PlannerPass::exhaustive)) return settle(context, search, true);
  for (int iteration = 0; iteration < kMostIterations; ++iteration) {
    if (changes(PlannerPass::horizontal)) changes(PlannerPass::vertical);
    settle(context, search, true);
    // Kernels have become siblings that were none before their parts moved.
    if (changes(PlannerPass::siblings)) changes(PlannerPass::vertical);
    if (!changes(PlannerPass::local_search)) return;
    changes(PlannerPass::vertical);
  }
}

void fuse(Context& context, Search& search) {
  const Options& options = context.options;
  if (!options.fusion) return;
  if (options.policy == Policy::bytes) return fuse_by_bytes(context, search);
  fuse_vertically(context, search);
  if (options.policy == Policy::recompute_all && rematerialize_all_values(context, search))
    fuse_vertically(context, search);
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
  for (;;) {
    Context context(GraphAnalysis(graph, sizes, kept), target, options, cost_cache);
    Start start = start_clusters(context);
    const std::vector<ir::NodeId> views =
        start.error ? views_to_materialize(context, start) : views_over_budget(context, start);
    if (start.error && VKF_PLANT(views_never_stored, views.empty(), true)) return *std::move(start.error);
    if (start.error || !views.empty()) {
      for (ir::NodeId view : views) kept[view] = true;
      continue;
    }
    Search search{std::move(start.clusters)};
    if (warm_start != nullptr) warm_start_from(context, search, *warm_start);
    fuse(context, search);
    VKF_CHECK_OK(check_sizes(context, search.clusters));
    return finish(context, search);
  }
}

}  // namespace vkfuse::partition
