// The walk of build_loops: which value is needed at which position.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "segment/walk_axes.hpp"

namespace vkfuse::segment {

class Builder {
 public:
  Builder(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols, const Base& base,
          std::span<const SplitRequest> splits)
      : graph_(graph),
        segment_(segment),
        symbols_(symbols),
        base_(base),
        axes_(base, splits),
        requests_(equal_members(graph, segment)) {}

  /// A stored value and its coordinates in terms of the base's axes.
  void add_root(ir::NodeId node, const Coordinates& coordinates);
  /// Walks from the roots to the loads.
  Result<void> run();

  /// What the walk needs changed before it can go on: the caller starts another one.
  [[nodiscard]] std::optional<SplitRequest> requested_split() const { return requested_split_; }

  [[nodiscard]] const WalkAxes& axes() const { return axes_; }
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

 private:
  static constexpr index::AxisId kFirstFresh = 1 << 20;

  [[nodiscard]] bool is_member(ir::NodeId node) const;
  const Sizes& sizes_of(ir::NodeId node);
  std::int64_t count_of(ir::NodeId node);
  /// Whether a value has no elements; sizes_of knows no zeros.
  [[nodiscard]] bool is_empty(ir::NodeId node) const;
  ValueId request_element(ir::NodeId node, Coordinates coordinates, int context) {
    return requests_.find_or_add(node, std::move(coordinates), context);
  }
  /// The predicates that choose rows. What is reduced or scanned is needed at all positions along the reduction, also
  /// by an element of the result that a choice needs at some of them only.
  int of_whole_rows(int context);
  /// Where predicates choose elements along a reduction: the value is that of whole rows, and true.
  bool is_left_to_whole_rows(ValueId id);
  [[nodiscard]] bool varies_along_reduction(const index::Expr& expr) const;
  /// The axes of an expression, and those of the positions at which its data is read.
  void add_axes_of(const index::Expr& expr, std::set<index::AxisId>& axes) const;

  void request_base();
  Result<void> process(ValueId id);
  void process_load(ValueId id);
  void process_elementwise(ValueId id);
  void process_generate(ValueId id);
  void process_view(ValueId id);
  Result<void> process_gather(ValueId id);
  void process_update(ValueId id);

  // choices.cpp
  void process_choice(ValueId id);
  void process_pad(ValueId id);
  void process_slice_assign(ValueId id);
  void process_concat(ValueId id);
  void choose(ValueId id, ValueId where_it_holds, ValueId otherwise, Predicate predicate);

  // reductions.cpp
  struct ReducedOperand {
    ir::NodeId node = 0;
    std::function<Coordinates(const Coordinates&)> at;  ///< where it is read, of a position along what is reduced
  };
  /// Axes beside the base's over which a contraction or a reduction runs.
  struct Inner {
    int group = 0;
    Coordinates coordinates;
  };
  Result<void> process_reduction(ValueId id);
  void reduce_one_element(ValueId id, const ReducedOperand& operand, const Sizes& reduced_sizes);
  Result<void> reduce_apart(ValueId id, const ReducedOperand& operand, const Sizes& reduced_sizes);
  Result<void> reduce_along(ValueId id, const ReducedOperand& operand, const Sizes& reduced_sizes);
  Result<void> process_contraction(ValueId id);
  Result<std::optional<Coordinates>> contraction_coordinates(ValueId id, const Sizes& contracted,
                                                             std::span<const ReducedOperand> operands);
  Result<Inner> add_inner_axes(ir::NodeId node, const Sizes& sizes);
  [[nodiscard]] bool is_contraction(ir::NodeId node) const;
  [[nodiscard]] bool is_after_contraction(ir::NodeId node) const;
  /// Whether a reduction has nothing to do with the reduction axes: of a row's statistics that came in parts, beside a
  /// contraction.
  [[nodiscard]] bool runs_apart(ir::NodeId node, std::span<const index::Expr> rows, std::int64_t count) const;
  Coordinates reduction_coordinates(const Sizes& reduced_sizes, std::span<const ReducedOperand> operands);
  Result<void> fix_reduction_axes(ir::NodeId node, std::span<const index::Expr> rows, std::int64_t count);
  bool request_split(const index::Expr& expr);

  // scans_and_sorts.cpp
  Result<void> process_scan(ValueId id);
  Result<void> fix_direction(ir::NodeId node, const index::Expr& along, std::int64_t size);
  Result<void> process_sort(ValueId id);

  // store_positions.cpp
  using OperandPositions = std::vector<std::pair<ir::NodeId, Coordinates>>;
  /// The values of `fresh` axes at which some operand of `node` at `coordinates`, near or far, is one that
  /// is needed already.
  std::optional<std::map<index::AxisId, index::Expr>> meet(ir::NodeId node, const Coordinates& coordinates,
                                                           const std::vector<index::AxisId>& fresh,
                                                           bool through_reductions);
  index::Expr fresh_axis(std::int64_t size, std::vector<index::AxisId>& fresh);
  /// An unknown position along each axis of these sizes.
  Coordinates fresh_coordinates(const Sizes& sizes, std::vector<index::AxisId>& fresh);
  OperandPositions operand_positions(ir::NodeId node, const Coordinates& coordinates, bool through_reductions);
  OperandPositions view_operands(ir::NodeId node, const Coordinates& coordinates);
  OperandPositions gather_operands(ir::NodeId node, const Coordinates& coordinates);
  OperandPositions reduced_operands(ir::NodeId node, const Coordinates& coordinates);
  OperandPositions contraction_operands(ir::NodeId node, const Coordinates& coordinates);
  [[nodiscard]] bool is_projection_beside(ir::NodeId id, ir::NodeId base, int depth = 0);
  [[nodiscard]] std::set<ir::NodeId> products_below(ir::NodeId id) const;
  [[nodiscard]] bool is_sum_beside_base(ir::NodeId id);
  // Where a value may stand.
  /// Where it is needed, or views that move all elements about, or elementwise ops, lead to it from a value that is.
  std::optional<Coordinates> forward_position(ir::NodeId node, int depth);
  std::optional<Coordinates> position_from_users(ir::NodeId node) { return forward_position(node, 0); }
  std::optional<Coordinates> position_from_operands(ir::NodeId node);
  Coordinates result_of_base();
  std::optional<Coordinates> position_beside_base(ir::NodeId node);
  std::optional<Coordinates> position_of_base(ir::NodeId node);

  // finish.cpp
  using Numbers = std::map<int, ValueId>;  ///< of requests, aliases as what they stand for, as values of the loops
  [[nodiscard]] std::vector<ValueId> ordered() const;
  Numbers write_values(Loops& loops) const;
  void write_stores(Loops& loops, const Numbers& numbers);
  /// Where an element is stored whose position names some of the rows' axes only: where the others are 0.
  [[nodiscard]] std::vector<Predicate> where_others_are_zero(const index::Expr& offset) const;
  [[nodiscard]] Store update_store(ValueId request, ir::NodeId node, Coordinates coordinates) const;

  const ir::Graph& graph_;
  const Segment& segment_;
  const SymbolValues& symbols_;
  const Base& base_;
  WalkAxes axes_;
  std::vector<std::pair<Sizes, Inner>> inner_;  ///< of reductions
  int contractions_inside_ = 0;                 ///< whose axes are beside the base's
  std::map<ir::NodeId, Sizes> sizes_;
  ElementRequests requests_;
  PredicateContexts contexts_;
  std::map<ir::NodeId, Coordinates> stores_;
  index::AxisId next_fresh_ = kFirstFresh;
  std::optional<SplitRequest> requested_split_;
  std::optional<bool> backwards_;  ///< the direction in which the scans so far walk the reduction axes
};

}  // namespace vkfuse::segment
