// The axes that the walk counts positions by: those of the base, and others beside them.
#pragma once

#include <algorithm>
#include <optional>
#include <set>

#include "index/arithmetic.hpp"
#include "segment/element_requests.hpp"

namespace vkfuse::segment {

/// The elements of a shape, or the largest number where there are more.
inline std::int64_t saturating_product(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count = index::saturating_mul(count, size);
  return count;
}

inline bool has_no_elements(const Sizes& sizes) { return std::find(sizes.begin(), sizes.end(), 0) != sizes.end(); }
/// The positions of a member that a kernel runs over: of an update, the rows that it writes.
inline const Shape& walked_shape(const ir::Graph& graph, ir::NodeId member) {
  const ir::Node& node = graph.node(member);
  return node.op->role == ops::Role::update_rows ? graph.node(node.operands[2]).type.shape : node.type.shape;
}
/// Whether no value that a segment stores has elements.
inline bool stores_nothing(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols) {
  return std::all_of(segment.stores.begin(), segment.stores.end(), [&](ir::NodeId id) {
    const auto sizes = resolve(walked_shape(graph, id), symbols);
    return sizes && has_no_elements(*sizes);
  });
}

/// The value whose elements the loop axes count.
struct Base {
  ir::NodeId node = 0;
  std::optional<ir::NodeId> reduction;  ///< set: `node` is not stored, it is what this member reduces
  Sizes sizes;                          ///< of a contraction: its result's, then those of the contracted axes
};

/// A piece of one of the base's dimensions that has to become two: outer * factor + inner.
struct SplitRequest {
  int dim = 0;
  int piece = 0;
  std::int64_t factor = 1;
};

struct WalkAxis {
  index::AxisId id = 0;
  std::int64_t size = 1;
  int dim = 0;
  int piece = 0;
  int group = 0;  ///< of axes beside the base's: those that one member runs over
};

struct WalkAxes {
  WalkAxes(const Base& value, std::span<const SplitRequest> splits);

  std::vector<WalkAxis> base;
  Coordinates base_coordinates;
  std::set<index::AxisId> reduction;  ///< of the base's, those that members reduce or scan
  bool is_reduction_known = false;
  /// Keys, or inner axes: beside the base's.
  std::vector<WalkAxis> own;
  Role own_role = Role::key;
  int own_groups = 0;

  [[nodiscard]] bool is_reduction(index::AxisId id) const { return reduction.count(id) != 0; }
  [[nodiscard]] bool has_keys() const { return !own.empty() && own_role == Role::key; }
  /// Whether an axis that the position names is a reduction axis.
  [[nodiscard]] bool uses_reduction(const index::Expr& position) const;
  /// The reduction axes are those of the base for which this holds.
  template <typename IsReduction>
  void fix_reduction(const IsReduction& is_reduced) {
    for (const WalkAxis& axis : base) {
      if (is_reduced(axis)) reduction.insert(axis.id);
    }
    is_reduction_known = true;
  }
  [[nodiscard]] std::int64_t count() const;  ///< of the base's positions
  [[nodiscard]] std::int64_t reduction_count() const;
  [[nodiscard]] std::size_t reduction_rank() const;
  /// The position in the order in which positions along the reduction axes are counted.
  [[nodiscard]] index::Expr reduction_position() const;
  /// The split of one of the base's axes that a position needs.
  [[nodiscard]] std::optional<SplitRequest> split_for(const index::Expr& position) const;
  /// Axes of these sizes beside the base's, which one member runs over, and the position along them.
  Coordinates add_inner(const Sizes& sizes, bool first);
};

}  // namespace vkfuse::segment
