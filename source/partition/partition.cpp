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

constexpr int kMostRounds = 8;

void join_producers(Search& search, const Options& options) {
  if (options.has(Mechanism::vertical)) search.merge_producers();
}

/// What is stored and what is computed again, until nothing changes any more. Cuts look at all values of a kernel
/// together, and come when kernels are what they will be.
void settle(Search& search, const Options& options, bool cuts) {
  for (int round = 0; round < kMostRounds; ++round) {
    bool changed = options.has(Mechanism::recompute) && search.recompute_values(false);
    if (cuts && options.has(Mechanism::cut)) changed = search.cut_reads() || changed;
    if (options.has(Mechanism::vertical) && changed) changed = search.merge_producers() || changed;
    if (!changed) return;
  }
}

/// What moves fewer bytes and is modelled no slower.
void by_bytes(Search& search, const Options& options) {
  join_producers(search, options);
  settle(search, options, false);
  if (options.has(Mechanism::siblings) && search.merge_siblings()) join_producers(search, options);
  for (int round = 0; options.has(Mechanism::moves) && round < kMostRounds && search.move_parts(); ++round) {
    join_producers(search, options);
    settle(search, options, false);
  }
  if (options.has(Mechanism::exact) && search.search_all()) return settle(search, options, true);
  for (int round = 0; round < kMostRounds; ++round) {
    if (options.has(Mechanism::horizontal) && search.merge_unrelated()) join_producers(search, options);
    settle(search, options, true);
    if (!options.has(Mechanism::windows) || !search.redivide_windows()) return;
    join_producers(search, options);
  }
}

}  // namespace

std::optional<Mechanism> mechanism_named(std::string_view name) { return named(kMechanisms, name); }
std::optional<Policy> policy_named(std::string_view name) { return named(kPolicies, name); }

Result<Partition> partition(const ir::Graph& graph, const Target& target, const Options& options) {
  Prices prices;
  VKF_TRY(priced, partition(graph, target, options, prices));
  return std::move(priced.partition);
}

Result<Priced> partition(const ir::Graph& graph, const Target& target, const Options& options, Prices& prices,
                         const Seed* seed) {
  SymbolValues sizes = options.sizes;
  sizes.merge(schedule::nominal_symbols(graph));
  std::vector<bool> kept(graph.size(), false);
  std::optional<Facts> facts;
  std::optional<Search> searched;
  for (;;) {
    facts.emplace(graph, sizes, kept);
    searched.emplace(*facts, target, options, prices);
    auto started = searched->start();
    const std::vector<ir::NodeId> wide = started ? searched->views_over_budget() : std::vector<ir::NodeId>();
    for (ir::NodeId view : wide) kept[view] = true;
    if (started && wide.empty()) break;
    if (started) continue;
    const std::vector<ir::NodeId> views = searched->views_to_keep();
    if (VKF_PLANT(views_never_stored, views.empty(), true)) return std::move(started).error();
    for (ir::NodeId view : views) kept[view] = true;
  }
  Search& search = *searched;
  if (seed != nullptr) search.begin_with(*seed);
  if (options.fusion && options.policy == Policy::bytes) by_bytes(search, options);
  if (options.fusion && options.policy != Policy::bytes) search.merge_producers();
  if (options.fusion && options.policy == Policy::recompute_all && search.recompute_values(true))
    search.merge_producers();
  VKF_CHECK_OK(search.check_sizes());
  return search.finish();
}

}  // namespace vkfuse::partition
