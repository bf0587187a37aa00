// Expressions over other axes.
#include <algorithm>

#include "index/arithmetic.hpp"
#include "index/index.hpp"
#include "index/rules.hpp"

namespace vkfuse::index {
namespace {

using Term = Expr::Term;

/// `value_of(axis)` is the expression for an axis, or nullptr where it stays. `bits` says which it knows.
template <typename Lookup>
Expr replace_axes(const Expr& expr, std::uint64_t bits, const Lookup& value_of) {
  const auto stays = [&](const Term& term) { return (term.atom->axis_bits & bits) == 0; };
  if (std::ranges::all_of(expr.terms(), stays)) return expr;
  Sum sum{expr.constant(), {}};
  sum.terms.reserve(expr.terms().size() + 4);
  for (const Term& term : expr.terms()) {
    const Atom& atom = *term.atom;
    if (stays(term)) {
      sum.terms.push_back(term);
    } else if (atom.kind == Atom::Kind::axis) {
      const Expr* value = value_of(atom.id);
      value != nullptr ? sum.add(*value, term.coefficient) : sum.terms.push_back(term);
    } else {
      const Expr operand = replace_axes(atom.operand, bits, value_of);
      const bool is_div = atom.kind == Atom::Kind::div;
      sum.add(is_div ? floor_div(operand, atom.divisor) : floor_mod(operand, atom.divisor), term.coefficient);
    }
  }
  return {sum.constant, std::move(sum.terms)};
}

/// The split that frees the operand of a quotient or remainder from a multiple of its divisor.
std::optional<Split> split_inside(const Atom& atom) {
  for (const auto& [coefficient, inner] : atom.operand.terms()) {
    const std::int64_t step = std::abs(coefficient);
    if (inner->kind != Atom::Kind::axis || atom.divisor % step != 0) continue;
    const std::int64_t factor = atom.divisor / step;
    const std::int64_t size = inner->high + 1;
    if (factor > 1 && factor < size && size % factor == 0) return Split{inner->id, factor};
  }
  return std::nullopt;
}

/// The size of an axis that occurs in the expression.
std::int64_t size_of(const Expr& expr, AxisId axis) {
  for (const Term& term : expr.terms()) {
    if ((term.atom->axis_bits & bit_of(axis)) == 0) continue;
    if (term.atom->kind == Atom::Kind::axis) {
      if (term.atom->id == axis) return term.atom->high + 1;
    } else if (const std::int64_t size = size_of(term.atom->operand, axis); size != 0) {
      return size;
    }
  }
  return 0;
}

/// With every useful split done, over axes that exist nowhere else.
Expr fully_split(Expr expr) {
  AxisId fresh = std::numeric_limits<AxisId>::min();
  while (const auto split = useful_split(expr)) {
    const Expr outer = Expr::axis(fresh++, size_of(expr, split->axis) / split->factor);
    const Expr inner = Expr::axis(fresh++, split->factor);
    expr = substitute(expr, split->axis, outer * split->factor + inner);
  }
  return expr;
}

/// The only unknown of a component, where its coefficient is 1 or -1.
std::optional<Expr::Term> pivot_of(const Expr& component, std::span<const AxisId> unknowns) {
  std::optional<Expr::Term> pivot;
  for (const Term& term : component.terms()) {
    const auto occurs = [&](AxisId unknown) { return depends_on(Expr(0, {term}), unknown); };
    if (std::ranges::none_of(unknowns, occurs)) continue;
    if (pivot || term.atom->kind != Atom::Kind::axis || std::abs(term.coefficient) != 1) return std::nullopt;
    pivot = term;
  }
  return pivot;
}

}  // namespace

Expr substitute(const Expr& expr, AxisId axis, const Expr& value) {
  return replace_axes(expr, bit_of(axis), [&](AxisId id) { return id == axis ? &value : nullptr; });
}

Expr substitute(const Expr& expr, const std::map<AxisId, Expr>& axes) {
  std::uint64_t bits = 0;
  for (const auto& [axis, value] : axes) bits |= bit_of(axis);
  return replace_axes(expr, bits, [&](AxisId id) {
    const auto found = axes.find(id);
    return found == axes.end() ? nullptr : &found->second;
  });
}

Expr rename_data(const Expr& expr, const std::map<DataId, DataId>& names) {
  if (!depends_on_data(expr)) return expr;
  Sum sum{expr.constant(), {}};
  for (const Term& term : expr.terms()) {
    const Atom& atom = *term.atom;
    if (!atom.on_data) {
      sum.terms.push_back(term);
    } else if (atom.kind == Atom::Kind::data) {
      sum.add(Expr::data(names.at(atom.id), atom.high + 1), term.coefficient);
    } else {
      const Expr operand = rename_data(atom.operand, names);
      sum.add(atom.kind == Atom::Kind::div ? floor_div(operand, atom.divisor) : floor_mod(operand, atom.divisor),
              term.coefficient);
    }
  }
  return {sum.constant, std::move(sum.terms)};
}

Expr linearize(std::span<const Expr> coordinates, std::span<const std::int64_t> sizes) {
  check(coordinates.size() == sizes.size(), "Coordinates and sizes of an array differ in number.");
  Sum sum;
  std::optional<std::int64_t> weight = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (!coordinates[i].is_constant(0)) {
      // An empty array may have other sizes whose product does not fit; its coordinates are all 0.
      check(weight.has_value(), "A stride of an array does not fit 64 bits.");
      sum.add(coordinates[i], *weight);
    }
    std::int64_t next = 0;
    weight = weight && !__builtin_mul_overflow(*weight, sizes[i], &next) ? std::optional(next) : std::nullopt;
  }
  return {sum.constant, std::move(sum.terms)};
}

std::vector<Expr> delinearize(const Expr& position, std::span<const std::int64_t> sizes) {
  std::vector<Expr> coordinates(sizes.size());
  std::int64_t weight = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    // Divided at once and not digit by digit: the form in which linearize finds the position again.
    coordinates[i] = floor_div(position, weight);
    const std::int64_t size = std::max<std::int64_t>(sizes[i], 1);  // an empty array has no coordinates to get wrong
    if (i == 0) break;
    coordinates[i] = floor_mod(coordinates[i], size);
    if (__builtin_mul_overflow(weight, size, &weight)) break;  // larger than any position
  }
  return coordinates;
}

std::optional<Split> useful_split(const Expr& expr) {
  for (const Term& term : expr.terms()) {
    const Atom& atom = *term.atom;
    if (atom.kind != Atom::Kind::div && atom.kind != Atom::Kind::mod) continue;
    // From the inside out: (a / 2) % 3 becomes a division of the new outer axis.
    if (const auto inner = useful_split(atom.operand)) return inner;
    if (const auto split = split_inside(atom)) return split;
  }
  return std::nullopt;
}

bool covers(const Expr& expr, std::int64_t count) {
  // As many points as values: an inner axis that a quotient drops would repeat every value.
  std::int64_t points = 1;
  for (const AxisId axis : axes_of(expr)) points = saturating_mul(points, size_of(expr, axis));
  if (points != count) return false;
  const Expr number = fully_split(expr);
  const auto by_weight = [](const Term* a, const Term* b) {
    return std::abs(a->coefficient) < std::abs(b->coefficient);
  };
  std::vector<const Term*> digits;
  for (const Term& term : number.terms()) {
    if (term.atom->kind != Atom::Kind::axis) return false;
    digits.push_back(&term);
  }
  std::sort(digits.begin(), digits.end(), by_weight);
  std::int64_t weight = 1;
  std::int64_t lowest = number.constant();  // a digit that counts down starts at its largest
  for (const Term* digit : digits) {
    if (std::abs(digit->coefficient) != weight) return false;
    if (digit->coefficient < 0) lowest = saturating_add(lowest, -saturating_mul(weight, digit->atom->high));
    weight = saturating_mul(weight, digit->atom->high + 1);
  }
  return lowest == 0 && weight == count;
}

std::optional<std::map<AxisId, Expr>> solve(std::span<const Expr> map, std::span<const Expr> target,
                                            std::span<const AxisId> unknowns) {
  check(map.size() == target.size(), "A map and its target differ in their number of components.");
  std::map<AxisId, Expr> values;
  for (std::size_t i = 0; i < map.size(); ++i) {
    const auto pivot = pivot_of(map[i], unknowns);
    if (!pivot) continue;
    const Expr offset = map[i] - Expr(0, {*pivot});
    values.try_emplace(pivot->atom->id, (target[i] - offset) * pivot->coefficient);
  }
  for (std::size_t i = 0; i < map.size(); ++i) {
    const auto open = [&](AxisId unknown) { return !values.contains(unknown) && depends_on(map[i], unknown); };
    if (std::ranges::any_of(unknowns, open) || substitute(map[i], values) != target[i]) return std::nullopt;
  }
  return values;
}

}  // namespace vkfuse::index
