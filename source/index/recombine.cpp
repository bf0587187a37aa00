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

/// Whether the sum holds factor * (the terms of `expr`).
bool holds(const Sum& sum, const Expr& expr, std::int64_t factor) {
  return std::ranges::all_of(expr.terms(), [&](const Term& term) {
    const Term* found = find(sum.terms, *term.atom);
    return found != nullptr && fits(term.coefficient, factor) && found->coefficient == term.coefficient * factor;
  });
}

/// Two terms leave, factor * expr comes.
void replace(Sum& sum, std::size_t i, std::size_t j, const Expr& expr, std::int64_t factor) {
  sum.terms.erase(sum.terms.begin() + static_cast<std::ptrdiff_t>(std::max(i, j)));
  sum.terms.erase(sum.terms.begin() + static_cast<std::ptrdiff_t>(std::min(i, j)));
  sum.add(expr, factor);
}

/// F % b with b * (F / b) is F; F % b with b * ((T + F / b) % c) is (b * T + F) % (b * c).
bool join_digits(Sum& sum, std::size_t low) {
  const std::shared_ptr<const Atom> digit = sum.terms[low].atom;
  const std::int64_t factor = sum.terms[low].coefficient;
  if (!fits(factor, digit->divisor)) return false;
  std::optional<Expr> quotient;  // worth computing only for a term with the right coefficient
  for (std::size_t high = 0; high < sum.terms.size(); ++high) {
    const Atom& upper = *sum.terms[high].atom;
    if (sum.terms[high].coefficient != factor * digit->divisor || upper.operand.is_constant()) continue;
    if (!quotient) quotient = floor_div(digit->operand, digit->divisor);
    if (quotient->constant() != 0 || quotient->terms().size() != 1 || quotient->terms()[0].coefficient != 1)
      return false;
    const Atom& whole = *quotient->terms()[0].atom;
    if (compare(upper, whole) == 0) {
      replace(sum, low, high, digit->operand, factor);
      return true;
    }
    if (upper.kind != Atom::Kind::mod || !fits(digit->divisor, upper.divisor)) continue;
    const Term* inside = find(upper.operand.terms(), whole);
    if (inside == nullptr || inside->coefficient != 1) continue;
    // The operand of a remainder has no coefficient as large as the divisor, so this product fits as well.
    const Expr number = digit->operand + (upper.operand - *quotient) * digit->divisor;
    replace(sum, low, high, floor_mod(number, digit->divisor * upper.divisor), factor);
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
  if (!fits(factor, atom->divisor) || !fits(factor, atom->operand.constant()) || !holds(sum, atom->operand, factor))
    return false;
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
