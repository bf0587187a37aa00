// What the search asks of a graph again and again.
#pragma once

#include <algorithm>
#include <vector>

#include "schedule/schedule.hpp"
#include "segment/segment.hpp"

namespace vkfuse::partition {

inline void sort_unique(std::vector<ir::NodeId>& nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
}

inline bool contains(const std::vector<ir::NodeId>& sorted, ir::NodeId id) {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

struct GraphAnalysis {
  /// `kept`: views that are stored.
  GraphAnalysis(const ir::Graph& of, SymbolValues sizes, std::vector<bool> kept);

  const ir::Graph& graph;
  SymbolValues symbols;
  std::vector<bool> is_materialized;
  std::vector<bool> is_output;
  std::vector<bool> is_alias;     ///< a result whose elements another buffer holds in order
  std::vector<bool> is_computed;  ///< some kernel has to
  // Seen through the nodes that every kernel has its own of: views, positions, aliases.
  std::vector<std::vector<ir::NodeId>> users;
  std::vector<std::vector<ir::NodeId>> operands;
  std::vector<std::vector<ir::NodeId>> between;  ///< those nodes, of each node's operands

  /// Views and positions cost nothing where they are needed: every kernel that wants one has its own, and none is
  /// stored unless it is a result, or kept because a kernel cannot read all that it is made of.
  [[nodiscard]] bool is_free(ir::NodeId id) const;
  /// Computed element by element, at any position that is asked for.
  [[nodiscard]] bool is_pointwise(ir::NodeId id) const;
  /// The members, which are sorted, that the roots are computed from, themselves included.
  [[nodiscard]] std::vector<ir::NodeId> closure_of(std::vector<ir::NodeId> roots,
                                                   const std::vector<ir::NodeId>& members) const;

 private:
  /// Operands of a node and what is between, from those of the nodes before it.
  void see_through(ir::NodeId id, VisitedSet& listed, VisitedSet& passed);
  [[nodiscard]] bool lies_elsewhere(ir::NodeId id, std::vector<bool>& escapes, VisitedSet& visited) const;
};

}  // namespace vkfuse::partition
