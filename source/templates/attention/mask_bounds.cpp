// Which positions of a softmax a mask leaves to a row, where it is made of positions: causal masks and windows,
// however they are written. Blocks beyond are not visited; where masked scores are finite, not at first.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "schedule/operands.hpp"
#include "templates/attention/mask_conditions.hpp"
#include "templates/attention/tiles.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<float>::max();
/// A score that is not above this is masked. Exponentials of f32 are 0 from 104 below the largest score on, and less
/// than this would leave no room for scores that are not masked.
constexpr double kMasked = -4096;
/// A score so far below another one counts for nothing beside it.
constexpr double kApart = 128;
/// Where a number is added to scores to mask them, those are taken to stay below seven eighths of its magnitude.
constexpr double kShareOfAdded = 1.0 / 8;

/// Walks from the score to what it is masked with.
class MaskSearch {
 public:
  /// `k`: the axes that are bounded, as one.
  MaskSearch(const ir::Graph& graph, const Loops& loops, const AttentionAxes& axes, const std::vector<int>& k)
      : graph_(graph),
        loops_(loops),
        conditions_(graph, loops, axes.m.empty() ? -1 : axes.m.back(), k, batch_of(axes)) {}

  MaskBounds run(ValueId score) {
    visit(score, {});
    return std::move(found_);
  }
  /// The same of a weight that is not a softmax's: where it is 0.
  MaskBounds run_weight(ValueId weight) {
    visit_weight(weight);
    return std::move(found_);
  }

 private:
  static segment::AxisSet batch_of(const AttentionAxes& axes) {
    segment::AxisSet batch = 0;
    for (const int axis : axes.batch) batch |= segment::AxisSet{1} << axis;
    return batch;
  }

  /// What becomes of a masked score on its way to the softmax.
  struct Path {
    double scale = 1;
    double floor = -kInfinity;  ///< it may be this instead, where it is less
    bool added = false;         ///< to something that is data
  };

  void visit_weight(ValueId id);
  void visit_chosen_weight(const Value& value);
  void visit_power(ValueId exponent);
  void leave(const Necessary& left, bool added);
  void visit(ValueId id, Path path);
  void visit_choice(const Value& value, Path path);
  void visit_maximum(const Value& maximum, Path path);
  void visit_sum(const Value& sum, Path path);
  void visit_product(const Value& product, Path path);
  void mask(const Necessary& left, double number, const Path& path);
  [[nodiscard]] std::optional<double> number_of_operand(const Value& value, std::size_t k) const {
    return number_of(graph_, loops_.values[value.operands[k]]);
  }
  /// The largest number that a value may be.
  std::optional<double> largest(ValueId id) {
    double most = -kInfinity;
    for (const Case& one : conditions_.cases(id)) {
      if (std::isnan(one.number)) return std::nullopt;
      most = std::max(most, one.number);
    }
    return most;
  }

  const ir::Graph& graph_;
  const Loops& loops_;
  MaskConditions conditions_;
  MaskBounds found_;
};

/// Beyond the bounds nothing counts.
void MaskSearch::leave(const Necessary& left, bool added) {
  const Necessary all = both({.bounds = found_}, left);
  found_.upper = all.bounds.upper;
  found_.lower = all.bounds.lower;
  found_.added = found_.added || added;
}

/// What a weight is multiplied with may be an infinity where it is 0: bounds count as those of something added.
void MaskSearch::visit_weight(ValueId id) {
  const Value& value = loops_.values[id];
  const ops::Role role = conditions_.role_of(id);
  if (value.kind == Value::Kind::choose || role == ops::Role::select) return visit_chosen_weight(value);
  switch (role) {
    case ops::Role::cast:
      if (is_float(graph_.node(value.node).type.dtype)) visit_weight(value.operands[0]);
      return;
    case ops::Role::neg:
    case ops::Role::div: return visit_weight(value.operands[0]);
    case ops::Role::mul: visit_weight(value.operands[0]); return visit_weight(value.operands[1]);
    case ops::Role::exp: return visit_power(value.operands[0]);
    default: return;
  }
}

void MaskSearch::visit_chosen_weight(const Value& value) {
  const bool chooses = value.kind == Value::Kind::choose;
  const std::size_t first = chooses ? 0 : 1;
  for (const bool truth : {true, false}) {
    const auto number = number_of_operand(value, first + (truth ? 0 : 1));
    if (number != 0.0) continue;
    const Necessary left =
        chooses ? conditions_.where_chosen(value, !truth) : conditions_.where(value.operands[0], !truth);
    if (!left.bounds.empty()) leave(left, true);
    return visit_weight(value.operands[first + (truth ? 1 : 0)]);
  }
}

/// Of a score less a number that the row has. Only -infinity leaves nothing whatever that number is.
void MaskSearch::visit_power(ValueId exponent) {
  MaskBounds before = std::exchange(found_, {});
  visit(exponent, {});
  const MaskBounds here = std::exchange(found_, std::move(before));
  if (!here.negligible_below && !here.empty()) leave({.bounds = here}, true);
}

/// Scores are `number`, or have it added, wherever the bounds do not hold.
void MaskSearch::mask(const Necessary& left, double number, const Path& path) {
  const double scaled = std::max(number * path.scale, path.floor);
  if (!(scaled <= kMasked) || left.bounds.empty()) return;
  leave(left, path.added);
  if (std::isinf(scaled)) return;
  const double apart = path.added ? std::max(scaled * kShareOfAdded, path.floor + kApart) : scaled + kApart;
  found_.negligible_below = std::max(found_.negligible_below.value_or(-kLargest), apart);
}

void MaskSearch::visit(ValueId id, Path path) {
  const Value& value = loops_.values[id];
  const bool chooses = value.kind == Value::Kind::choose;
  const ops::Role role = conditions_.role_of(id);
  if (chooses || role == ops::Role::select) return visit_choice(value, path);
  switch (role) {
    case ops::Role::cast:
      if (is_float(graph_.node(value.node).type.dtype)) visit(value.operands[0], path);
      return;
    case ops::Role::add:
    case ops::Role::sub: return visit_sum(value, path);
    case ops::Role::mul:
    case ops::Role::div: return visit_product(value, path);
    case ops::Role::max: return visit_maximum(value, path);
    default: return;
  }
}

void MaskSearch::visit_choice(const Value& value, Path path) {
  const bool chooses = value.kind == Value::Kind::choose;
  const std::size_t first = chooses ? 0 : 1;
  for (const bool truth : {true, false}) {
    const auto number = largest(value.operands[first + (truth ? 1 : 0)]);
    if (!number || !(*number * path.scale <= kMasked)) continue;
    mask(chooses ? conditions_.where_chosen(value, truth) : conditions_.where(value.operands[0], truth), *number, path);
    // Where this choice hides a key, too, the score is its number, whatever the others say.
    path.floor = std::max(path.floor, *number * path.scale);
    return visit(value.operands[first + (truth ? 0 : 1)], path);
  }
}

void MaskSearch::visit_maximum(const Value& maximum, Path path) {
  for (const std::size_t k : {0U, 1U}) {
    const auto number = number_of_operand(maximum, k);
    if (!number || !(*number * path.scale <= kMasked)) continue;
    path.floor = std::max(path.floor, *number * path.scale);
    return visit(maximum.operands[1 - k], path);
  }
}

void MaskSearch::visit_sum(const Value& sum, Path path) {
  const bool subtracts = graph_.node(sum.node).op->role == ops::Role::sub;
  path.added = true;
  for (const std::size_t k : {1U, 0U}) {
    Necessary left{.never = true};
    double masked = -kInfinity;
    bool masks = false;
    for (const Case& one : conditions_.cases(sum.operands[k])) {
      const double number = subtracts && k == 1 ? -one.number : one.number;
      if (number * path.scale <= kMasked) {
        masks = true;
        masked = std::max(masked, number);
      } else {
        left = either(left, one.where);
      }
    }
    if (!masks) continue;
    mask(left, masked, path);
    if (!subtracts || k == 1) visit(sum.operands[1 - k], path);
    return;
  }
  visit(sum.operands[0], path);
  if (!subtracts) visit(sum.operands[1], path);
}

void MaskSearch::visit_product(const Value& product, Path path) {
  const bool divides = graph_.node(product.node).op->role == ops::Role::div;
  for (const std::size_t k : {1U, 0U}) {
    const auto number = number_of_operand(product, k);
    if (!number || !(*number > 0) || std::isinf(*number) || (divides && k == 0)) continue;
    path.scale *= divides ? 1 / *number : *number;
    return visit(product.operands[1 - k], path);
  }
}

MaskBounds bounds_along(const ir::Graph& graph, const Loops& loops, const AttentionParams& tile,
                        const std::vector<int>& k) {
  if (tile.values.has_softmax) return MaskSearch(graph, loops, tile.axes, k).run(tile.values.score);
  // Of several sums, what no weight goes beyond.
  std::vector<MaskBounds> all;
  for (const WeightedSum& one : tile.sums) all.push_back(MaskSearch(graph, loops, tile.axes, k).run_weight(one.weight));
  const bool alike = std::all_of(all.begin(), all.end(), [&](const MaskBounds& one) { return one == all.front(); });
  return alike ? all.front() : MaskBounds{};
}

}  // namespace

void find_mask_bounds(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  tile.mask = bounds_along(graph, loops, tile, tile.axes.k);
  if (!tile.mask.empty() || tile.axes.k.size() == 1) return;
  MaskBounds in_runs = bounds_along(graph, loops, tile, {tile.axes.k.back()});
  // Finite masks visit what was left out at last, as one stretch of blocks. In runs it is no stretch.
  if (in_runs.empty() || in_runs.negligible_below) return;
  tile.mask = std::move(in_runs);
  tile.mask.in_runs = true;
}

std::int64_t keys_per_run(const Loops& loops, const AttentionParams& tile) {
  return tile.mask.in_runs ? loops.axes[static_cast<std::size_t>(tile.axes.k.back())].size
                           : count_along(loops, tile.axes.k);
}

Blocks blocks_of(const Loops& loops, const AttentionParams& tile, std::int64_t tile_m) {
  const std::int64_t rows = tile.axes.m.empty() ? 1 : loops.axes[static_cast<std::size_t>(tile.axes.m.back())].size;
  const std::int64_t keys = keys_per_run(loops, tile);
  // Of keys whose number is data, half are taken to be there.
  const std::int64_t expected = keys / 2;
  std::int64_t lowest = tile_m * tile.tile_m() % rows;
  std::int64_t highest = std::min(lowest + tile.tile_m(), rows) - 1;
  if (tile.axes.m.size() > 1 && lowest + tile.tile_m() > rows) {  // it goes on in the next run
    lowest = 0;
    highest = rows - 1;
  }
  std::int64_t last = keys - 1;
  std::int64_t first = 0;
  const auto furthest = [&](const MaskBound& bound, bool upper) {
    std::int64_t found = upper ? INT64_MIN : INT64_MAX;
    for (const MaskLine& line : bound) {
      if (line.data && !upper) continue;
      const std::int64_t at =
          line.data ? expected : line.slope * ((line.slope > 0) == upper ? highest : lowest) + line.constant;
      found = upper ? std::max(found, at) : std::min(found, at);
    }
    return found;
  };
  for (const MaskBound& bound : tile.mask.upper) last = std::min(last, furthest(bound, true));
  for (const MaskBound& bound : tile.mask.lower) {
    if (const std::int64_t at = furthest(bound, false); at != INT64_MAX) first = std::max(first, at);
  }
  return {first / tile.tile_k(), (std::max<std::int64_t>(last, -1) + tile.tile_k()) / tile.tile_k()};
}

}  // namespace vkfuse::schedule
