// Several axes counted as one: what lies side by side in memory may run across their borders.
#include <algorithm>

#include "segment/loops.hpp"

namespace vkfuse::segment {

using index::Expr;

Loops with_axes_merged(Loops loops, std::span<const int> axes, int into) {
  if (axes.size() < 2) return loops;
  Sizes sizes;
  AxisSet merged = 0;
  std::int64_t all = 1;
  for (int axis : axes) {
    sizes.push_back(loops.axes[static_cast<std::size_t>(axis)].size);
    all *= sizes.back();
    merged |= AxisSet{1} << axis;
  }
  // By way of an axis that exists nowhere else: one id has one size.
  constexpr index::AxisId kTemporary = 1 << 25;
  const std::vector<Expr> digits = index::delinearize(Expr::axis(kTemporary, all), sizes);
  std::map<index::AxisId, Expr> places;
  for (std::size_t i = 0; i < axes.size(); ++i) places.emplace(axes[i], digits[i]);
  const std::map<index::AxisId, Expr> last{{kTemporary, Expr::axis(into, all)}};
  const auto move = [&](Expr& expr) { expr = index::substitute(index::substitute(expr, places), last); };
  const auto rename = [&](AxisSet& set) {
    if ((set & merged) != 0) set = (set & ~merged) | (AxisSet{1} << into);
  };
  for (Value& value : loops.values) {
    move(value.offset);
    for (Predicate& predicate : value.predicates) {
      for (Predicate::Range& range : predicate.ranges) move(range.value);
    }
    rename(value.axes);
  }
  for (Store& store : loops.stores) {
    move(store.offset);
    for (Predicate& predicate : store.predicates) {
      for (Predicate::Range& range : predicate.ranges) move(range.value);
    }
    rename(store.axes);
  }
  for (int axis : axes) loops.axes[static_cast<std::size_t>(axis)].size = axis == into ? all : 1;
  return loops;
}

}  // namespace vkfuse::segment
