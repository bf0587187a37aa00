// Which nodes share a kernel.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partition/refusal.hpp"
#include "schedule/schedule.hpp"
#include "segment/segment.hpp"

namespace vkfuse::partition {

/// What the search can do; each can be switched off.
enum class PlannerPass : std::uint8_t {
  vertical,             ///< a producer and a reader become one kernel
  triples,              ///< where two do not pay as one, they are tried with a producer of the first
  siblings,             ///< kernels that read the same become one
  horizontal,           ///< kernels that have nothing in common do, where their launches cost much of their time
  moves,                ///< parts of a kernel go to another one, or become one
  local_search,         ///< neighbouring kernels of few ops are divided anew, in the best of all ways
  exhaustive,           ///< graphs of few ops: all partitions are looked at
  min_cut,              ///< what a kernel reads, and what it computes again, is the cheapest of all ways
  channels_last,        ///< convolutions have their channels as the last axis where that is modelled faster
  merged_matmuls,       ///< matmuls of one value with several others are one where that is modelled faster
  partial_statistics,   ///< norms after contractions leave no kernel of their own where partial statistics are modelled
                        ///< faster
  recomputed_products,  ///< products larger than their factors are computed in every kernel that multiplies them,
                        ///< where that is modelled faster
  padded_rows,          ///< rows of large products become multiples of 16 bytes where that is modelled faster
  rematerialization,    ///< a value is computed where it is read instead of being stored
  memo,                 ///< kernels of equal structure are costed once; plans are the same without
};
inline constexpr std::array<PlannerPass, 15> kPlannerPasses = {PlannerPass::vertical,
                                                               PlannerPass::triples,
                                                               PlannerPass::siblings,
                                                               PlannerPass::horizontal,
                                                               PlannerPass::moves,
                                                               PlannerPass::local_search,
                                                               PlannerPass::exhaustive,
                                                               PlannerPass::min_cut,
                                                               PlannerPass::channels_last,
                                                               PlannerPass::merged_matmuls,
                                                               PlannerPass::partial_statistics,
                                                               PlannerPass::recomputed_products,
                                                               PlannerPass::padded_rows,
                                                               PlannerPass::rematerialization,
                                                               PlannerPass::memo};
/// Those that plan another form of the graph, in this order.
inline constexpr std::array<PlannerPass, 5> kGraphRewrites = {
    PlannerPass::recomputed_products, PlannerPass::channels_last, PlannerPass::merged_matmuls,
    PlannerPass::partial_statistics, PlannerPass::padded_rows};
constexpr std::string_view name_of(PlannerPass planner_pass) {
  constexpr std::string_view names[] = {"vertical",
                                        "triples",
                                        "siblings",
                                        "horizontal",
                                        "moves",
                                        "local-search",
                                        "exhaustive",
                                        "min-cut",
                                        "channels-last",
                                        "merged-matmuls",
                                        "partial-statistics",
                                        "recomputed-products",
                                        "padded-rows",
                                        "rematerialization",
                                        "memo"};
  return names[static_cast<int>(planner_pass)];
}
/// Names of version 0.1 are read, too.
std::optional<PlannerPass> planner_pass_named(std::string_view name);

/// Who decides what is stored. All but the first are for comparison.
enum class Policy : std::uint8_t {
  bytes,          ///< what moves fewer bytes and is modelled no slower
  store_all,      ///< what several ops read is stored
  recompute_all,  ///< what is computed element by element is stored only as a result
  greedy_io,      ///< producers into readers in graph order while that moves no more bytes, whatever it costs
};
inline constexpr std::array<Policy, 4> kPolicies = {Policy::bytes, Policy::store_all, Policy::recompute_all,
                                                    Policy::greedy_io};
constexpr std::string_view name_of(Policy policy) {
  constexpr std::string_view names[] = {"bytes", "store-all", "recompute-all", "greedy-io"};
  return names[static_cast<int>(policy)];
}
std::optional<Policy> policy_named(std::string_view name);

struct Options {
  bool fusion = true;  ///< off: one kernel per op
  Policy policy = Policy::bytes;
  std::set<PlannerPass> without;
  std::set<ir::NodeId>
      alone;           ///< ops that share a kernel with no other: a compiler has refused a kernel that had more of them
  SymbolValues sizes;  ///< that stand for symbols; of one that is missing, the representative one
  /// Of what large products (ir::large_products) lead to, in bytes: to pass on a larger one counts as more than any
  /// kernel takes, so that what can be computed without it is.
  std::int64_t largest_product = std::numeric_limits<std::int64_t>::max();
  std::int64_t memory_budget = 0;  ///< the most bytes that intermediate values may take; 0: any number
  [[nodiscard]] bool has(PlannerPass planner_pass) const { return without.count(planner_pass) == 0; }
};

/// A value that is written by one kernel and read by another, and why the two are not one.
struct FusionBoundary {
  ir::NodeId value = 0;
  std::vector<Refusal> reasons;
};

struct Partition {
  std::vector<segment::Segment> segments;  ///< in an order where producers come first
  std::vector<FusionBoundary> fusion_boundaries;
};

/// Partitions every node that an output needs. Two kernels are fused when the result is convex,
/// fits the target, moves no more bytes and is modelled no slower than the two. A value may be computed by several
/// kernels, and is stored by one at most.
Result<Partition> partition(const ir::Graph& graph, const Target& target, const Options& options = {});

}  // namespace vkfuse::partition
