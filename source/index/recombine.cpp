// Sums in which quotients and remainders of one number meet again.
#include <algorithm>

#include "index/arithmetic.hpp"
#include "index/index.hpp"
#include "index/rules.hpp"

namespace vkfuse::index {
namespace {

using Term = Expr::Term;

bool fits(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) && product != kLowest;
}

const Term* find(std::span<const Term> terms, const Atom& atom) {
  for (const Term& term : terms) {
    if (compare(*term.atom, atom) == 0) return &term;
  }
  return nullptr;
}

/// Whether the sum holds factor * (the terms of `expr`). That must fit.
bool holds(const Sum& sum, const Expr& expr, std::int64_t factor) {
  return std::ranges::all_of(expr.terms(), [&](const Term& term) {
    const Term* found = find(sum.terms, *term.atom);
    return found != nullptr && found->coefficient == term.coefficient * factor;
  });
}

/// Two terms leave, factor * expr comes.
void replace(Sum& sum, std::size_t i, std::size_t j, const Expr& expr, std::int64_t factor) {
  sum.terms.erase(sum.terms.begin() + static_cast<std::ptrdiff_t>(std::max(i, j)));
  sum.terms.erase(sum.terms.begin() + static_cast<std::ptrdiff_t>(std::min(i, j)));
  sum.add(expr, factor);
}

/// Beyond this, sums of two operands might not fit; no tensor is that large.
constexpr std::int64_t kLargestDivisor = kHighest / 4;

/// The number N whose remainder N % b and quotient N / b these are, if they are those of one number.
std::optional<Expr> number_of(const Atom& remainder, const Atom& quotient) {
  if (quotient.kind != Atom::Kind::div || quotient.divisor % remainder.divisor != 0) return std::nullopt;
  if (quotient.divisor > kLargestDivisor) return std::nullopt;
  // (N / a) / b has become N / (a * b), and either operand may have lost inner remainders that the other has
  // kept: equal modulo b is what counts.
  Expr number = floor_div(quotient.operand, quotient.divisor / remainder.divisor);
  if (number != remainder.operand && !floor_mod(number - remainder.operand, remainder.divisor).is_constant(0))
    return std::nullopt;
  return number;
}

/// N % b with b * ((T + N / b) % c) is (b * T + N) % (b * c).
std::optional<Expr> join_remainders(const Atom& lower, const Atom& upper) {
  if (upper.kind != Atom::Kind::mod || upper.divisor > kLargestDivisor / lower.divisor) return std::nullopt;
  for (const Term& term : upper.operand.terms()) {
    if (term.coefficient != 1) continue;
    if (const auto number = number_of(lower, *term.atom)) {
      // An operand has no coefficient as large as its divisor, so these products fit as well.
      return floor_mod((upper.operand - Expr(0, {term})) * lower.divisor + *number, lower.divisor * upper.divisor);
    }
  }
  return std::nullopt;
}

/// N % b with b * (N / b) is N; and likewise with a remainder on top.
bool join_digits(Sum& sum, std::size_t low) {
  const std::shared_ptr<const Atom> remainder = sum.terms[low].atom;
  const std::int64_t factor = sum.terms[low].coefficient;
  if (!fits(factor, remainder->divisor)) return false;
  for (std::size_t high = 0; high < sum.terms.size(); ++high) {
    if (sum.terms[high].coefficient != factor * remainder->divisor) continue;
    const Atom& upper = *sum.terms[high].atom;
    auto joined = number_of(*remainder, upper);
    if (!joined) joined = join_remainders(*remainder, upper);
    if (!joined) continue;
    replace(sum, low, high, *joined, factor);
    return true;
  }
  return false;
}

/// E - b * (E / b) is E % b, and E - E % b is b * (E / b).
bool complement(Sum& sum, std::size_t at) {
  const std::shared_ptr<const Atom> atom = sum.terms[at].atom;
  const bool is_div = atom->kind == Atom::Kind::div;
  const std::int64_t coefficient = sum.terms[at].coefficient;
  if (is_div && coefficient % atom->divisor != 0) return false;
  const std::int64_t factor = is_div ? -(coefficient / atom->divisor) : -coefficient;
  // Every number of the operand is less than the divisor, so that factor times each of them fits as well.
  if (!fits(factor, atom->divisor) || !holds(sum, atom->operand, factor)) return false;
  sum.terms.erase(sum.terms.begin() + static_cast<std::ptrdiff_t>(at));
  sum.add(atom->operand, -factor);  // cancels the terms; E's constant was never in the sum
  if (is_div) {
    sum.add(floor_mod(atom->operand, atom->divisor), factor);
  } else {
    sum.add(floor_div(atom->operand, atom->divisor), factor * atom->divisor);
  }
  return true;
}

}  // namespace

bool recombine(Sum& sum) {
  for (std::size_t i = sum.terms.size(); i-- > 0;) {
    const Atom::Kind kind = sum.terms[i].atom->kind;
    if (kind != Atom::Kind::div && kind != Atom::Kind::mod) return false;  // sorted: only leaves are left
    if ((kind == Atom::Kind::mod && join_digits(sum, i)) || complement(sum, i)) return true;
  }
  return false;
}

}  // namespace vkfuse::index
