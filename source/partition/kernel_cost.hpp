// What a kernel of some members would move and take, or why there cannot be one. Kernels of equal structure are costed
// once.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "partition/cost_cache.hpp"
#include "partition/graph_analysis.hpp"
#include "partition/partition.hpp"
#include "partition/refusal.hpp"

namespace vkfuse::partition {

struct KernelCost {
  segment::Segment segment;
  std::int64_t bytes = 0;
  double microseconds = 0;  ///< modelled
  int spilled = 0;          ///< registers of a thread that the device has not, by the estimate
  std::string over_budget;  ///< why a driver would compile it for too long; else empty
};

struct CostCache::Known {
  using Key = std::vector<std::uint32_t>;
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  struct Outcome {
    std::optional<Refusal> refusal;  ///< its nodes are counted as in the key
    std::int64_t bytes = 0;
    double microseconds = 0;
    int spilled = 0;
    std::string over_budget;
    int search = 0;  ///< the last one that asked
  };
  std::map<std::string, std::uint32_t> numbers;  ///< of texts: what nodes compute, and what kernels read
  std::unordered_map<Key, Outcome, Hash> outcomes;
  int searches = 0;
};

class KernelCostModel {
 public:
  KernelCostModel(const GraphAnalysis& analysis, const Target& target, const Options& options, CostCache& cost_cache);

  /// The kernel of these members, which are sorted, and what of it is stored. Several members are refused over the
  /// target's budget; a member by itself is not, as there is no other kernel for it.
  OrRefusal<KernelCost> operator()(const std::vector<ir::NodeId>& members,
                                   const std::function<bool(ir::NodeId)>& stored);

  /// Of the costs of a kernel that stores this, the part that is for values over Options::largest_product.
  struct Surcharge {
    std::int64_t bytes = 0;
    double microseconds = 0;
  };
  [[nodiscard]] Surcharge surcharge(const segment::Segment& segment) const;

  /// Bytes of all that the kernel would read and store, whole: what it moves at least where nothing is sliced.
  std::int64_t estimate(const std::vector<ir::NodeId>& members, const std::function<bool(ir::NodeId)>& stored);

  /// Of a whole value.
  [[nodiscard]] std::int64_t bytes_of(ir::NodeId id) const { return bytes_[id]; }

  /// Whether a node of another graph computes what this one does, but for the operands.
  [[nodiscard]] bool is_alike(const ir::Graph& other, ir::NodeId there, ir::NodeId here) const;

  /// Kernels costed so far that this search has not asked for before: searches end where there are too many, whatever
  /// others have asked.
  [[nodiscard]] int costed() const { return costed_; }

  /// Whether what a kernel reads and stores fits the buffers of the device. Costs do not ask: a value that no buffer
  /// can hold may yet be one that is never stored.
  Result<void> check_size(const segment::Segment& segment) const;

 private:
  using Key = CostCache::Known::Key;
  using Outcome = CostCache::Known::Outcome;
  segment::Segment segment_of(const std::vector<ir::NodeId>& members, const std::function<bool(ir::NodeId)>& stored);
  [[nodiscard]] Key key_of(const segment::Segment& segment, std::vector<ir::NodeId>& nodes);
  /// Why these ops are no kernel whatever their loops are.
  [[nodiscard]] std::optional<Refusal> refusal_of_members(const std::vector<ir::NodeId>& members) const;
  /// Why these values are not stored by one kernel whatever its loops are.
  [[nodiscard]] std::optional<Refusal> refusal_of_stores(const std::vector<ir::NodeId>& stores) const;
  /// From the cache, or computed and kept there. `nodes` are those of the key.
  Outcome cached_outcome(Key key, const std::vector<ir::NodeId>& nodes, const segment::Segment& segment);
  [[nodiscard]] Outcome outcome_of(const segment::Segment& segment) const;

  const GraphAnalysis& analysis_;
  const Target& target_;
  const Target roomy_;
  const bool memo_;
  const std::set<ir::NodeId>& alone_;  ///< see Options::alone
  const SymbolValues apart_;           ///< sizes at which no two symbols have the same
  std::vector<std::uint32_t> kinds_;   ///< equal for nodes of equal op, type and payload
  std::vector<std::uint32_t> types_;   ///< equal for values that kernels read alike
  std::vector<bool> stored_;
  std::vector<bool> too_large_;                ///< values over Options::largest_product
  VisitedSet visited_;                         ///< of nodes
  std::vector<std::uint32_t> numbers_in_key_;  ///< in a key, of nodes that are marked
  std::vector<std::int64_t> bytes_;            ///< of each value
  std::vector<int> statements_;                ///< of one element of each value
  CostCache::Known& cost_cache_;
  const int search_;
  int costed_ = 0;
};

}  // namespace vkfuse::partition
