// What is true of an expression at every point.
#include <algorithm>
#include <numeric>

#include "index/arithmetic.hpp"
#include "index/index.hpp"
#include "index/rules.hpp"

namespace vkfuse::index {
namespace {

using Term = Expr::Term;

bool is_leaf(const Atom& atom) { return atom.kind == Atom::Kind::axis || atom.kind == Atom::Kind::data; }

void collect(const Expr& expr, Atom::Kind kind, std::vector<int>& ids) {
  for (const Term& term : expr.terms()) {
    if (term.atom->kind == kind) {
      ids.push_back(term.atom->id);
    } else if (!is_leaf(*term.atom)) {
      collect(term.atom->operand, kind, ids);
    }
  }
}

std::vector<int> ids_of(const Expr& expr, Atom::Kind kind) {
  std::vector<int> ids;
  collect(expr, kind, ids);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

bool contains(const Atom& atom, AxisId axis) {
  if ((atom.axis_bits & bit_of(axis)) == 0) return false;
  return atom.kind == Atom::Kind::axis ? atom.id == axis : depends_on(atom.operand, axis);
}

/// The largest power of two that is at most `limit`.
std::int64_t power_below(std::int64_t limit) {
  std::int64_t power = 1;
  while (power <= limit / 2) power *= 2;
  return power;
}

}  // namespace

Interval interval_of(const Expr& expr) {
  Interval range{expr.constant(), expr.constant()};
  for (const auto& [coefficient, atom] : expr.terms()) {
    const std::int64_t first = saturating_mul(coefficient, atom->low);
    const std::int64_t last = saturating_mul(coefficient, atom->high);
    range.low = saturating_add(range.low, std::min(first, last));
    range.high = saturating_add(range.high, std::max(first, last));
  }
  return range;
}

// No atom has a congruence of its own: what its operand and divisor had in common was taken out of it.
Congruence congruence_of(const Expr& expr) {
  std::int64_t modulus = 0;
  for (const Term& term : expr.terms()) modulus = std::gcd(modulus, term.coefficient);
  return {modulus, modulus == 0 ? expr.constant() : floor_remainder(expr.constant(), modulus)};
}

std::int64_t alignment_of(const Expr& expr, std::int64_t limit) {
  const Congruence congruence = congruence_of(expr);
  // The lowest bit that is set in either: multiples of it are all that occurs.
  const std::uint64_t bits =
      static_cast<std::uint64_t>(congruence.modulus) | static_cast<std::uint64_t>(congruence.remainder);
  const std::uint64_t lowest = bits & (~bits + 1);
  const std::int64_t most = power_below(limit);
  return bits == 0 || lowest > static_cast<std::uint64_t>(most) ? most : static_cast<std::int64_t>(lowest);
}

bool depends_on(const Expr& expr, AxisId axis) {
  return std::ranges::any_of(expr.terms(), [&](const Term& term) { return contains(*term.atom, axis); });
}

bool depends_on_data(const Expr& expr) {
  return std::ranges::any_of(expr.terms(), [](const Term& term) { return term.atom->on_data; });
}

std::vector<AxisId> axes_of(const Expr& expr) { return ids_of(expr, Atom::Kind::axis); }
std::vector<DataId> data_of(const Expr& expr) { return ids_of(expr, Atom::Kind::data); }

std::optional<std::int64_t> stride_of(const Expr& expr, AxisId axis) {
  std::int64_t stride = 0;
  for (const auto& [coefficient, atom] : expr.terms()) {
    if (!contains(*atom, axis)) continue;
    if (atom->kind != Atom::Kind::axis) return std::nullopt;
    stride = coefficient;
  }
  return stride;
}

std::optional<Run> run_along(const Expr& expr, AxisId axis, std::int64_t axis_size, std::int64_t count,
                             std::int64_t limit) {
  check(count > 0 && axis_size % count == 0, "The size of an axis is no multiple of the run along it.");
  if (!depends_on(expr, axis)) return Run{0, alignment_of(expr, limit)};
  if (count == 1) return Run{stride_of(expr, axis).value_or(0), alignment_of(expr, limit)};
  constexpr AxisId outer = std::numeric_limits<AxisId>::min();
  constexpr AxisId inner = outer + 1;
  const Expr step = Expr::axis(inner, count);
  const Expr along = substitute(expr, axis, Expr::axis(outer, axis_size / count) * count + step);
  const auto stride = stride_of(along, inner);
  if (!stride) return std::nullopt;
  return Run{*stride, alignment_of(along - step * *stride, limit)};
}

}  // namespace vkfuse::index
