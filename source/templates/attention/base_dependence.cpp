#include "templates/attention/base_dependence.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "schedule/operands.hpp"

namespace vkfuse::schedule {

namespace {

using segment::Loops;
using segment::Value;
using segment::ValueId;

/// How a value changes where all weights of a row become c times as large: it is multiplied by c `factors` times, then
/// log(c) is added to it `terms` times. Never both.
struct Change {
  int factors = 0, terms = 0;
  [[nodiscard]] bool none() const { return factors == 0 && terms == 0; }
  friend bool operator==(const Change&, const Change&) = default;
};

using Changes = std::vector<std::optional<Change>>;  ///< nothing: in another way

class Follower {
 public:
  Follower(const ir::Graph& graph, const Loops& loops, const AttentionParams& tile)
      : graph_(graph), loops_(loops), values_(tile.values), changes_(loops.values.size()) {
    for (const WeightedSum& one : tile.sums) changes_[one.sum] = Change{1, 0};
    changes_[values_.total] = Change{1, 0};
    changes_[values_.most] = Change{0, -1};
  }

  bool run() {
    for (ValueId id : backward_slice_of_results(loops_)) changes_[id] = change_of(id);
    return std::all_of(loops_.stores.begin(), loops_.stores.end(), [&](const segment::Store& store) {
      return changes_[store.value] && changes_[store.value]->none();
    });
  }

 private:
  [[nodiscard]] std::optional<Change> change_of(ValueId id) const {
    const Value& value = loops_.values[id];
    if (value.kind == Value::Kind::compute) return computed(value);
    const auto stays = [&](ValueId operand) { return changes_[operand] && changes_[operand]->none(); };
    const bool all = std::all_of(value.operands.begin(), value.operands.end(), stays) &&
                     std::all_of(value.data.begin(), value.data.end(), stays);
    return all ? std::optional(Change{}) : std::nullopt;
  }

  [[nodiscard]] std::optional<Change> computed(const Value& value) const {
    std::vector<Change> of;
    for (ValueId operand : value.operands) {
      if (!changes_[operand]) return std::nullopt;
      of.push_back(*changes_[operand]);
    }
    if (std::all_of(of.begin(), of.end(), [](const Change& one) { return one.none(); })) return Change{};
    if (value.operands.size() == 1) return of_one(value, of[0]);
    switch (graph_.node(value.node).op->role) {
      case ops::Role::add: return sum_of(of[0], of[1], 1);
      case ops::Role::sub: return sum_of(of[0], of[1], -1);
      case ops::Role::mul: return product_of(of[0], of[1], 1);
      case ops::Role::div: return product_of(of[0], of[1], -1);
      case ops::Role::select: return chosen(value, of);
      default: return std::nullopt;
    }
  }

  [[nodiscard]] std::optional<Change> of_one(const Value& value, const Change& of) const {
    const ir::Node& node = graph_.node(value.node);
    const ops::Role role = node.op->role;
    if (role == ops::Role::neg) return Change{of.factors, -of.terms};
    // What is c times as large may be too large for f16.
    const bool fits = is_float(node.type.dtype) && (node.type.dtype != DType::f16 || of.factors == 0);
    if (role == ops::Role::cast && fits) return of;
    if (role == ops::Role::exp && of.factors == 0) return Change{of.terms, 0};
    if (node.op->name == "log" && of.terms == 0) return Change{0, of.factors};
    return asks_whether_finite(value) ? std::optional(Change{}) : std::nullopt;
  }

  static std::optional<Change> sum_of(const Change& a, const Change& b, int sign) {
    if (a.factors == 0 && b.factors == 0) return Change{0, a.terms + sign * b.terms};
    return a == b ? std::optional(a) : std::nullopt;
  }
  static std::optional<Change> product_of(const Change& a, const Change& b, int sign) {
    if (a.terms != 0 || b.terms != 0) return std::nullopt;
    return Change{a.factors + sign * b.factors, 0};
  }
  /// A base is finite where the largest score is.
  [[nodiscard]] bool asks_whether_finite(const Value& value) const {
    return value.kind == Value::Kind::compute && graph_.node(value.node).op->name == "is_finite" &&
           value.operands[0] == values_.most;
  }
  /// A base that is not finite is the largest score itself: nothing changes there.
  [[nodiscard]] std::optional<Change> chosen(const Value& value, const std::vector<Change>& of) const {
    if (!of[0].none()) return std::nullopt;
    if (of[1] == of[2] || asks_whether_finite(loops_.values[value.operands[0]])) return of[1];
    return std::nullopt;
  }

  const ir::Graph& graph_;
  const Loops& loops_;
  const AttentionValues& values_;
  Changes changes_;
};

}  // namespace

bool results_do_not_depend_on_base(const ir::Graph& graph, const Loops& loops, const AttentionParams& tile) {
  return Follower(graph, loops, tile).run();
}

bool results_tell_whether_most_is_nan(const ir::Graph& graph, const Loops& loops, const AttentionParams& tile) {
  if (!tile.values.has_softmax) return false;
  const std::vector<ValueId> slice = backward_slice_of_results(loops);
  const bool asked = std::any_of(slice.begin(), slice.end(), [&](ValueId id) {
    const Value& value = loops.values[id];
    return value.kind == Value::Kind::compute && graph.node(value.node).op->name == "is_finite" &&
           value.operands[0] == tile.values.most;
  });
  return asked || !results_do_not_depend_on_base(graph, loops, tile);
}

}  // namespace vkfuse::schedule
