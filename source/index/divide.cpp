// Floor quotients and remainders by a positive number. Every rule holds for negative operands too: quotients
// round towards minus infinity, remainders are never negative.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/mutations.hpp"
#include "index/arithmetic.hpp"
#include "index/index.hpp"
#include "index/rules.hpp"

namespace vkfuse::index {
namespace {

using Term = Expr::Term;

/// expr = divisor * whole + rest.
struct Parts {
  Expr whole;
  Expr rest;
};

/// Multiples of the divisor go into `whole`. Coefficients are truncated, not floored, so that -x stays -x
/// and both parts grow the same way: their intervals stay tight. The constant of the rest is not negative.
Parts take_multiples(const Expr& expr, std::int64_t divisor) {
  const bool small =
      std::ranges::all_of(expr.terms(), [&](const Term& term) { return std::abs(term.coefficient) < divisor; });
  const std::int64_t constant = floor_quotient(expr.constant(), divisor);
  if (small) return {constant, expr - Expr(constant * divisor)};
  std::vector<Term> whole;
  std::vector<Term> rest;
  for (const Term& term : expr.terms()) {
    const std::int64_t quotient = term.coefficient / divisor;
    const std::int64_t remainder = term.coefficient % divisor;
    if (quotient != 0) whole.push_back({quotient, term.atom});
    if (remainder != 0) rest.push_back({remainder, term.atom});
  }
  return {Expr(constant, std::move(whole)), Expr(floor_remainder(expr.constant(), divisor), std::move(rest))};
}

/// Whether every value lies in 0 .. divisor-1. No other single quotient can be that of a rest: its constant is
/// in that range and the interval of every atom contains 0. A saturated end says no, as it must.
bool is_remainder(const Expr& rest, std::int64_t divisor) {
  const auto [low, high] = interval_of(rest);
  return low >= 0 && high < VKF_PLANT(remainder_bound, divisor, divisor + 1);
}

/// Numbers worth trying as a common factor of the divisor and some of the terms, largest first.
class CommonFactors {
 public:
  CommonFactors(const Expr& expr, std::int64_t divisor) {
    for (const Term& term : expr.terms()) {
      const std::int64_t factor = std::gcd(term.coefficient, divisor);
      if (factor == 1) continue;
      const std::size_t before = count_;
      insert(factor);
      for (std::size_t i = 0; i < before; ++i) insert(std::gcd(factor, all_[i]));
    }
    std::sort(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(count_), std::greater<>());
  }
  [[nodiscard]] std::span<const std::int64_t> all() const { return {all_.data(), count_}; }

 private:
  void insert(std::int64_t factor) {
    const auto end = all_.begin() + static_cast<std::ptrdiff_t>(count_);
    if (factor > 1 && count_ < all_.size() && std::find(all_.begin(), end, factor) == end) all_[count_++] = factor;
  }
  std::array<std::int64_t, 16> all_{};
  std::size_t count_ = 0;
};

/// expr = factor * whole + rest with factor dividing the divisor and 0 <= rest < factor everywhere, so that
/// expr / divisor = whole / (divisor / factor) and expr % divisor = factor * (whole % (divisor / factor)) + rest.
struct Factored {
  std::int64_t factor = 1;
  Parts parts;
};
std::optional<Factored> take_factor(const Expr& expr, std::int64_t divisor) {
  const CommonFactors factors(expr, divisor);
  for (const std::int64_t factor : factors.all()) {
    Parts parts = take_multiples(expr, factor);
    if (is_remainder(parts.rest, factor)) return Factored{factor, std::move(parts)};
  }
  return std::nullopt;
}

/// Whether a * b and every coefficient of expr times a stay far from the end of 64 bits.
bool may_scale(const Expr& expr, std::int64_t a, std::int64_t b) {
  constexpr std::int64_t limit = kHighest / 4;
  const auto small = [&](std::int64_t value) { return value <= limit / a && value >= -(limit / a); };
  return small(b) && small(expr.constant()) &&
         std::ranges::all_of(expr.terms(), [&](const Term& term) { return small(term.coefficient); });
}

/// (y + x / a) / b = (a * y + x) / (a * b).
std::optional<Expr> divide_outside(const Expr& expr, std::int64_t divisor) {
  for (const Term& term : expr.terms()) {
    const Atom& atom = *term.atom;
    if (term.coefficient != 1 || atom.kind != Atom::Kind::div || !may_scale(expr, atom.divisor, divisor)) continue;
    Sum sum;
    sum.add(expr, atom.divisor);
    sum.add(Expr(0, {term}), -atom.divisor);
    sum.add(atom.operand);
    return floor_div({sum.constant, std::move(sum.terms)}, atom.divisor * divisor);
  }
  return std::nullopt;
}

/// (x % (a * b)) / a = (x / a) % b.
std::optional<Expr> digit_of_remainder(const Expr& expr, std::int64_t divisor) {
  if (expr.constant() != 0 || expr.terms().size() != 1) return std::nullopt;
  const auto& [coefficient, atom] = expr.terms()[0];
  if (coefficient != 1 || atom->kind != Atom::Kind::mod || atom->divisor % divisor != 0) return std::nullopt;
  return floor_mod(floor_div(atom->operand, divisor), atom->divisor / divisor);
}

/// c * (x % m) is c * x modulo every divisor of c * m.
std::optional<Expr> drop_inner_remainders(const Expr& expr, std::int64_t divisor) {
  const auto drops = [&](const Term& term) {
    if (term.atom->kind != Atom::Kind::mod) return false;
    return term.atom->divisor % (divisor / std::gcd(term.coefficient, divisor)) == 0;
  };
  if (std::ranges::none_of(expr.terms(), drops)) return std::nullopt;
  Sum sum{expr.constant(), {}};
  for (const Term& term : expr.terms()) {
    if (!drops(term)) {
      sum.terms.push_back(term);
    } else if (may_scale(term.atom->operand, std::abs(term.coefficient), 1)) {
      sum.add(term.atom->operand, term.coefficient);
    } else {
      return std::nullopt;
    }
  }
  return Expr(sum.constant, std::move(sum.terms));
}

Expr atom_of(Atom::Kind kind, const Expr& operand, std::int64_t divisor) {
  auto atom = std::make_shared<Atom>();
  atom->kind = kind;
  atom->operand = operand;
  atom->divisor = divisor;
  if (kind == Atom::Kind::div) {
    const Interval range = interval_of(operand);
    // A saturated end says nothing about the operand, so it must not be divided.
    atom->low = range.low == kLowest ? kLowest : floor_quotient(range.low, divisor);
    atom->high = range.high == kHighest ? kHighest : floor_quotient(range.high, divisor);
  } else {
    atom->high = divisor - 1;
  }
  for (const Term& term : operand.terms()) {
    atom->axis_bits |= term.atom->axis_bits;
    atom->on_data = atom->on_data || term.atom->on_data;
  }
  return {0, {{1, std::move(atom)}}};
}

/// The quotient of what take_multiples leaves.
Expr divide_rest(const Expr& rest, std::int64_t divisor) {
  if (is_remainder(rest, divisor)) return 0;
  if (const auto factored = take_factor(rest, divisor))
    return floor_div(factored->parts.whole, divisor / factored->factor);
  if (const auto outside = divide_outside(rest, divisor)) return *outside;
  if (const auto digit = digit_of_remainder(rest, divisor)) return *digit;
  return atom_of(Atom::Kind::div, rest, divisor);
}

}  // namespace

Expr floor_div(const Expr& a, std::int64_t divisor) {
  check(divisor > 0, "An index expression is divided by a number that is not positive.");
  if (divisor == 1) return a;
  if (a.is_constant()) return floor_quotient(a.constant(), divisor);
  const Parts parts = take_multiples(a, divisor);
  if (parts.rest.is_constant()) return parts.whole;
  return parts.whole + divide_rest(parts.rest, divisor);
}

// Whole ranges and common factors come before inner remainders are dropped: these keep the operand's range small.
Expr floor_mod(const Expr& a, std::int64_t divisor) {
  check(divisor > 0, "An index expression is taken modulo a number that is not positive.");
  if (divisor == 1) return 0;
  const Expr rest = take_multiples(a, divisor).rest;
  if (rest.is_constant()) return rest;
  if (is_remainder(rest, divisor)) return rest;
  if (const auto factored = take_factor(rest, divisor)) {
    return floor_mod(factored->parts.whole, divisor / factored->factor) * factored->factor + factored->parts.rest;
  }
  if (const auto wider = drop_inner_remainders(rest, divisor)) return floor_mod(*wider, divisor);
  return atom_of(Atom::Kind::mod, rest, divisor);
}

}  // namespace vkfuse::index
