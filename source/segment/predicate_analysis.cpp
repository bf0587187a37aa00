// What loops touch, and what is proven about it.
#include "segment/predicate_analysis.hpp"

#include <algorithm>

namespace vkfuse::segment {

using index::Expr;

std::optional<Window> window_of(const Loops& loops) {
  if (loops.stores.size() != 1) return std::nullopt;
  const Store& store = loops.stores[0];
  const Value& value = loops.values[store.value];
  if (value.kind != Value::Kind::load || !value.predicates.empty() || !value.data.empty()) return std::nullopt;
  const Expr apart = value.offset - store.offset;
  if (!apart.terms().empty()) return std::nullopt;
  return Window{value.node, apart.constant()};
}

std::int64_t elements_touched(const Loops& loops, const Value& load) {
  std::int64_t positions = 1;
  for (std::size_t i = 0; i < loops.axes.size(); ++i) {
    const bool own = index::depends_on(load.offset, static_cast<int>(i));
    const bool by_data = std::any_of(load.data.begin(), load.data.end(),
                                     [&](ValueId id) { return ((loops.values[id].axes >> i) & 1u) != 0; });
    if (!own && !by_data) continue;
    const auto product = checked_mul(positions, loops.axes[i].size);
    positions = product.value_or(INT64_MAX);
  }
  std::int64_t kept = positions;
  for (const Predicate& predicate : load.predicates) {
    if (!predicate.negated) continue;
    // All but what the ranges cut out, if they are of axes of their own; along other axes they cut everything.
    std::int64_t cut = 1;
    for (const Predicate::Range& range : predicate.ranges) cut *= range.size;
    for (index::AxisId axis : index::axes_of(load.offset)) {
      const bool named =
          std::any_of(predicate.ranges.begin(), predicate.ranges.end(),
                      [&](const Predicate::Range& range) { return index::depends_on(range.value, axis); });
      if (!named) cut *= loops.axes[static_cast<std::size_t>(axis)].size;
    }
    kept = std::max<std::int64_t>(0, kept - cut);
  }
  return std::min(kept, load.buffer_elements);
}

Expr narrowed(Expr offset, std::span<const Predicate> predicates) {
  int fresh = 1 << 28;
  for (const Predicate& predicate : predicates) {
    if (predicate.negated) continue;
    for (const Predicate::Range& range : predicate.ranges) {
      if (range.value.terms().empty()) continue;
      const Expr::Term& own = range.value.terms().front();
      for (const Expr::Term& term : offset.terms()) {
        const bool same = Expr(0, {{1, term.atom}}) == Expr(0, {{1, own.atom}});
        if (!same || term.coefficient % own.coefficient != 0) continue;
        const std::int64_t times = term.coefficient / own.coefficient;
        offset = offset - range.value * times + Expr::axis(fresh++, range.size) * times;
        break;
      }
    }
  }
  return offset;
}

namespace {

/// Whether every position that is data exists, whatever the data: the entries of a sort are positions in the row
/// that is sorted. Kernels clamp them all the same: lanes that have no row read what nobody wrote.
bool reads_known_positions(const Loops& loops, const Expr& offset) {
  return std::all_of(offset.terms().begin(), offset.terms().end(), [&](const Expr::Term& term) {
    if (!term.atom->on_data) return true;
    if (term.atom->kind != index::Atom::Kind::data) return false;
    return loops.values[loops.data.at(term.atom->id)].kind == Value::Kind::sort &&
           loops.key_count() <= term.atom->high + 1;
  });
}

}  // namespace

Proof prove_in_bounds(const Loops& loops) {
  Proof proof;
  if (loops.opaque) return proof;  // nothing is known of them
  const auto inside = [](std::int64_t elements, const Expr& offset) {
    const index::Interval interval = index::interval_of(offset);
    return interval.low >= 0 && interval.high < elements;
  };
  for (const Value& value : loops.values) {
    if (value.kind != Value::Kind::load) continue;
    ++proof.accesses;
    const bool proven = reads_known_positions(loops, value.offset) &&
                        (inside(value.buffer_elements, value.offset) ||
                         inside(value.buffer_elements, narrowed(value.offset, value.predicates)));
    proof.proven += proven ? 1 : 0;
  }
  for (const Store& store : loops.stores) {
    ++proof.accesses;
    proof.proven += inside(store.buffer_elements, narrowed(store.offset, store.predicates)) ? 1 : 0;
  }
  return proof;
}

}  // namespace vkfuse::segment
