// The walk behind build_loops: which value is needed at which position.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "segment/loops.hpp"

namespace vkfuse::segment {

/// The value whose elements the loop axes count.
struct Base {
  ir::NodeId node = 0;
  std::optional<ir::NodeId> reduction;  ///< set: `node` is not stored, it is what this member folds
  Sizes sizes;                          ///< of a contraction: its result's, then those of the contracted axes
};

/// A piece of one of the base's dimensions that has to become two: outer * factor + inner.
struct SplitRequest {
  int dim = 0;
  int piece = 0;
  std::int64_t factor = 1;
};

class Builder {
 public:
  struct BaseAxis {
    index::AxisId id = 0;
    std::int64_t size = 1;
    int dim = 0;
    int piece = 0;
    int group = 0;  ///< of own axes: those that one member runs over
  };
  using Coordinates = std::vector<index::Expr>;

  Builder(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols, const Base& base,
          std::span<const SplitRequest> splits);

  /// A stored value and its coordinates in terms of the base's axes.
  void add_root(ir::NodeId node, const Coordinates& coordinates);
  /// Walks from the roots to the loads.
  Result<void> run();

  /// What the walk needs changed before it can go on: the caller starts another one.
  [[nodiscard]] std::optional<SplitRequest> requested_split() const { return requested_split_; }

  [[nodiscard]] const std::vector<BaseAxis>& axes() const { return axes_; }
  /// Keys, or inner axes: beside the base's.
  [[nodiscard]] const std::vector<BaseAxis>& own_axes() const { return own_axes_; }
  [[nodiscard]] bool is_reduction_axis(index::AxisId id) const { return reduction_axes_.count(id) != 0; }
  [[nodiscard]] bool has_store(ir::NodeId node) const { return stores_.count(node) != 0; }
  void add_store(ir::NodeId node, Coordinates coordinates) { stores_[node] = std::move(coordinates); }

  struct Found {
    Coordinates coordinates;
    bool is_requested = false;  ///< the value exists already
  };
  /// Where a stored value stands: where it is needed anyway, or where its operands are, or at the base's own
  /// position if the sizes agree. `complete` says whether an offset writes all of `count` elements.
  std::optional<Found> find_position(ir::NodeId node,
                                     const std::function<bool(const index::Expr&, std::int64_t)>& complete);

  Result<Loops> finish();
  [[nodiscard]] bool is_projection_beside(ir::NodeId id, ir::NodeId base, int depth = 0);
  /// Where a value stands if views that move whole elements about, or elementwise ops, lead to it from one that is
  /// needed anyway.
  std::optional<Coordinates> forward_position(ir::NodeId node, int depth = 0);
  [[nodiscard]] std::int64_t product_of_axes() const;

 private:
  static constexpr index::AxisId kFirstFresh = 1 << 20;

  /// A value that somebody needs, before views are resolved.
  struct ElementRequest {
    ir::NodeId node = 0;
    Coordinates coordinates;
    int context = 0;  ///< of guards
    Value value;
    std::optional<ValueId> alias;
  };
  struct Context {
    int parent = -1;
    Predicate predicate;
  };

  [[nodiscard]] std::vector<ValueId> ordered(const std::function<ValueId(ValueId)>& resolved) const;
  const Sizes& sizes_of(ir::NodeId node);
  std::int64_t count_of(ir::NodeId node);
  ValueId request_element(ir::NodeId node, Coordinates coordinates, int context);
  int predicated(int context, Predicate predicate);
  [[nodiscard]] std::vector<Predicate> predicates_of(int context) const;
  /// The guards that choose rows. What is reduced or scanned is needed at all columns, also by an element of the result
  /// that a choice needs at some of them only.
  int of_whole_rows(int context);
  [[nodiscard]] bool varies_along_reduction(const index::Expr& expr) const;

  Result<void> process(ValueId id);
  void process_elementwise(ValueId id);
  void process_generate(ValueId id);
  void process_view(ValueId id);
  void process_choice(ValueId id);
  Result<void> process_gather(ValueId id);
  Result<void> process_reduction(ValueId id);
  Result<void> process_contraction(ValueId id);
  /// Axes beside the columns over which a contraction or a reduction runs.
  struct Inner {
    int group = 0;
    Coordinates coordinates;
  };
  Result<Inner> add_inner_axes(ir::NodeId node, const Sizes& sizes);
  [[nodiscard]] bool is_after_contraction(ir::NodeId node) const;
  /// Whether a reduction has nothing to do with the columns: of a row's statistics that came in parts, beside a
  /// contraction.
  [[nodiscard]] bool runs_apart(ir::NodeId node, std::span<const index::Expr> rows, std::int64_t count) const;
  struct ReducedOperand {
    ir::NodeId node = 0;
    std::function<Coordinates(const Coordinates&)> at;  ///< where it is read, of a position along what is reduced
  };
  Coordinates reduction_coordinates(const Sizes& reduced_sizes, int context, std::span<const ReducedOperand> operands);
  Result<void> process_scan(ValueId id);
  Result<void> process_sort(ValueId id);
  Result<void> fix_reduction_axes(ir::NodeId node, std::span<const index::Expr> rows, std::int64_t count);
  [[nodiscard]] std::vector<index::Expr> reduction_axes() const;
  [[nodiscard]] index::Expr reduction_position() const;
  bool request_split(const index::Expr& expr);

  /// The values of `fresh` axes at which some operand of `node` at `coordinates`, near or far, is one that
  /// is needed already.
  std::optional<std::map<index::AxisId, index::Expr>> meet(ir::NodeId node, const Coordinates& coordinates, int context,
                                                           const std::vector<index::AxisId>& fresh,
                                                           bool through_reductions);
  index::Expr fresh_axis(std::int64_t size, std::vector<index::AxisId>& fresh);
  std::vector<std::pair<ir::NodeId, Coordinates>> operand_positions(ir::NodeId node, const Coordinates& coordinates,
                                                                    bool through_reductions);

  const ir::Graph& graph_;
  const Segment& segment_;
  const SymbolValues& symbols_;
  const Base& base_;
  std::vector<BaseAxis> axes_;
  std::vector<BaseAxis> own_axes_;
  Role own_role_ = Role::key;
  int own_groups_ = 0;
  std::vector<std::pair<Sizes, Inner>> inner_;  ///< of reductions
  bool contracts_inside_ = false;               ///< one of them is a contraction's
  Coordinates base_coordinates_;
  std::set<index::AxisId> reduction_axes_;
  bool reduction_axes_known_ = false;
  std::map<ir::NodeId, Sizes> sizes_;
  std::vector<ElementRequest> element_requests_;
  std::map<ir::NodeId, std::vector<ValueId>, std::greater<>> by_node_;
  std::vector<Context> contexts_{{}};
  std::map<ir::NodeId, Coordinates> stores_;
  index::AxisId next_fresh_ = kFirstFresh;
  std::optional<SplitRequest> requested_split_;
  std::optional<bool> backwards_;  ///< the direction in which the scans so far walk the columns
};

}  // namespace vkfuse::segment
