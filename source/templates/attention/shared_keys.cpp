// Which keys are the values of attention, too: gradients multiply with one of the factors of their scores.
#include <algorithm>
#include <map>

#include "templates/attention/tiles.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

/// Whether two values are one but for the axes that their positions are along.
bool is_same_along(const Loops& loops, ValueId a, ValueId b, const std::map<index::AxisId, index::Expr>& of_a) {
  const Value& one = loops.values[a];
  const Value& other = loops.values[b];
  if (a == b && std::none_of(of_a.begin(), of_a.end(),
                             [&](const auto& renamed) { return ((one.axes >> renamed.first) & 1u) != 0; }))
    return true;
  if (one.kind != other.kind || one.node != other.node || !one.data.empty() || !other.data.empty() ||
      one.predicates.size() != other.predicates.size() || one.operands.size() != other.operands.size() ||
      !(index::substitute(one.offset, of_a) == other.offset))
    return false;
  for (std::size_t i = 0; i < one.predicates.size(); ++i) {
    segment::Predicate renamed = one.predicates[i];
    for (segment::Predicate::Range& range : renamed.ranges) range.value = index::substitute(range.value, of_a);
    if (!(renamed == other.predicates[i])) return false;
  }
  return std::equal(one.operands.begin(), one.operands.end(), other.operands.begin(),
                    [&](ValueId x, ValueId y) { return is_same_along(loops, x, y, of_a); });
}

}  // namespace

std::optional<std::size_t> keys_that_are_values(const Loops& loops, const AttentionParams& tile,
                                                const AttentionOperand& values) {
  for (std::size_t which = 0; which < tile.products.size(); ++which) {
    const ScoreProduct& product = tile.products[which];
    const auto same_size = [&](int d, int n) {
      return loops.axes[static_cast<std::size_t>(d)].size == loops.axes[static_cast<std::size_t>(n)].size;
    };
    if (!product.key.along_k || values.along_k ||
        !std::equal(product.d.begin(), product.d.end(), tile.axes.n.begin(), tile.axes.n.end(), same_size))
      continue;
    std::map<index::AxisId, index::Expr> to_n;
    for (std::size_t i = 0; i < product.d.size(); ++i)
      to_n.emplace(product.d[i],
                   index::Expr::axis(tile.axes.n[i], loops.axes[static_cast<std::size_t>(tile.axes.n[i])].size));
    if (is_same_along(loops, product.key.value, values.value, to_n)) return which;
  }
  return std::nullopt;
}

}  // namespace vkfuse::schedule
