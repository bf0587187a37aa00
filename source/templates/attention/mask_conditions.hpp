// What positions a mask may leave, from the values of loops that it is made of.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ops/comparisons.hpp"
#include "templates/attention/params.hpp"

namespace vkfuse::schedule {

/// What holds at every position (m, k) of which something is true: bounds of k, all of them. `never`: there is no such
/// position.
struct Necessary {
  MaskBounds bounds;
  bool never = false;
};
Necessary both(Necessary a, const Necessary& b);
Necessary either(const Necessary& a, const Necessary& b);

/// A number that a value may be, and what holds where it is that number.
struct Case {
  double number = 0;  ///< NaN: any
  Necessary where;
};

/// Reads conditions and numbers off the values of loops, for bounds of k by rows of m. Values that are data may be
/// anything anywhere.
class MaskConditions {
 public:
  /// `k`: the axes of keys, outermost first, which count as one; `batch`: those at whose positions data is the same for
  /// all rows and keys.
  MaskConditions(const ir::Graph& graph, const segment::Loops& loops, int m, const std::vector<int>& k,
                 segment::AxisSet batch);

  // Data is followed where it is an i32 of the batch alone that is compared as it is with positions: in a sum it might
  // wrap.

  /// What holds where a boolean is `truth`.
  Necessary where(segment::ValueId id, bool truth);
  /// Where a choice by position takes its first operand, or its second.
  Necessary where_chosen(const segment::Value& choice, bool first);
  /// Every number that a value may be; one case of any number where these are not few.
  std::vector<Case> cases(segment::ValueId id);
  [[nodiscard]] ops::Role role_of(segment::ValueId id) const;

 private:
  [[nodiscard]] const segment::Value& value(segment::ValueId id) const { return loops_.values[id]; }
  [[nodiscard]] const ir::Node& node(segment::ValueId id) const { return graph_.node(value(id).node); }
  [[nodiscard]] index::Expr of_one_key_axis(const index::Expr& expr) const;
  [[nodiscard]] std::optional<index::Expr> position_of(segment::ValueId id);
  [[nodiscard]] std::optional<index::Expr> sum_of_positions(segment::ValueId id);
  [[nodiscard]] std::optional<index::Expr> data_of(segment::ValueId id) const;
  [[nodiscard]] Necessary not_above_zero(const index::Expr& expr) const;
  [[nodiscard]] bool is_near(const index::Expr& others, const MaskLine& line) const;
  [[nodiscard]] Necessary where_apart(const ops::Comparison& of, const index::Expr& apart) const;
  Necessary where_compared(segment::ValueId id, const ops::Comparison& of);
  Necessary where_converted(segment::ValueId id, bool truth);
  std::vector<Case> cases_of_op(segment::ValueId id);
  std::vector<Case> cases_of_choice(segment::ValueId id);
  std::vector<Case> cases_of_numbers(segment::ValueId id);
  /// Values are looked at again wherever they are read; of very many nothing is known.
  [[nodiscard]] bool spends() { return work_ > 0 && --work_ > 0; }

  const ir::Graph& graph_;
  const segment::Loops& loops_;
  const int m_, k_;
  const std::int64_t keys_;
  const segment::AxisSet batch_;
  std::map<index::AxisId, index::Expr> key_axes_;  ///< by the position of the key, where they are several
  int work_ = 4000;
};

}  // namespace vkfuse::schedule
