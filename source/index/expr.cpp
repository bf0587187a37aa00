// The canonical form: sorted terms, each atom once, digits of one number joined.
#include <algorithm>

#include "index/arithmetic.hpp"
#include "index/index.hpp"
#include "index/rules.hpp"

namespace vkfuse::index {
namespace {

template <typename T>
int three_way(const T& a, const T& b) {
  return static_cast<int>(b < a) - static_cast<int>(a < b);
}

bool is_leaf(const Atom& atom) { return atom.kind == Atom::Kind::axis || atom.kind == Atom::Kind::data; }

/// Sorted, no atom twice, no coefficient 0.
void sort_and_merge(std::vector<Expr::Term>& terms) {
  const auto before = [](const Expr::Term& a, const Expr::Term& b) { return compare(*a.atom, *b.atom) < 0; };
  if (!std::is_sorted(terms.begin(), terms.end(), before)) std::sort(terms.begin(), terms.end(), before);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < terms.size();) {
    std::int64_t coefficient = terms[i].coefficient;
    std::size_t next = i + 1;
    for (; next < terms.size() && compare(*terms[i].atom, *terms[next].atom) == 0; ++next) {
      check(terms[i].atom->high == terms[next].atom->high,
            "An axis or data value of an index expression has two sizes.");
      coefficient = exact_add(coefficient, terms[next].coefficient);
    }
    // The one number without a magnitude: no later rule needs to think of it.
    check(coefficient != kLowest, "A coefficient of an index expression does not fit 64 bits.");
    if (coefficient != 0) {
      if (kept != i) terms[kept].atom = std::move(terms[i].atom);
      terms[kept].coefficient = coefficient;
      ++kept;
    }
    i = next;
  }
  terms.resize(kept);
}

Expr leaf(Atom::Kind kind, int id, std::int64_t size) {
  check(size >= 0, "An axis or data value of an index expression has a negative size.");
  // One value only. (An axis of size 0 has none, and then any will do: its loop never runs.)
  if (size <= 1) return 0;
  auto atom = std::make_shared<Atom>();
  atom->kind = kind;
  atom->id = id;
  atom->high = size - 1;
  if (kind == Atom::Kind::axis) atom->axis_bits = bit_of(id);
  atom->on_data = kind == Atom::Kind::data;
  return {0, {{1, std::move(atom)}}};
}

std::string atom_text(const Atom& atom) {
  if (atom.kind == Atom::Kind::axis) return fmt::format("a{}", atom.id);
  if (atom.kind == Atom::Kind::data) return fmt::format("d{}", atom.id);
  std::string operand = to_text(atom.operand);
  const bool bare =
      atom.operand.constant() == 0 && atom.operand.terms().size() == 1 && atom.operand.terms()[0].coefficient == 1;
  if (!bare) operand = "(" + operand + ")";
  return fmt::format("({}{}{})", operand, atom.kind == Atom::Kind::div ? "/" : "%", atom.divisor);
}

}  // namespace

int compare(const Atom& a, const Atom& b) {
  if (&a == &b) return 0;
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (is_leaf(a)) return three_way(a.id, b.id);
  if (a.divisor != b.divisor) return a.divisor < b.divisor ? -1 : 1;
  return Expr::compare(a.operand, b.operand);
}

void Sum::add(const Expr& expr, std::int64_t factor) {
  constant = exact_add(constant, exact_mul(expr.constant(), factor));
  const auto more = expr.terms();
  terms.reserve(terms.size() + more.size());
  for (const Expr::Term& term : more) terms.push_back({exact_mul(term.coefficient, factor), term.atom});
}

Expr::Expr(std::int64_t constant, std::vector<Term> terms) : constant_(constant) {
  sort_and_merge(terms);
  if (!terms.empty() && !is_leaf(*terms.back().atom)) {
    Sum sum{constant, std::move(terms)};
    while (recombine(sum)) sort_and_merge(sum.terms);
    constant_ = sum.constant;
    terms = std::move(sum.terms);
  }
  if (!terms.empty()) terms_ = std::make_shared<const std::vector<Term>>(std::move(terms));
}

Expr Expr::axis(AxisId id, std::int64_t size) { return leaf(Atom::Kind::axis, id, size); }
Expr Expr::data(DataId id, std::int64_t size) { return leaf(Atom::Kind::data, id, size); }

std::optional<AxisId> Expr::as_axis() const {
  if (constant_ != 0 || terms().size() != 1) return std::nullopt;
  const Term& term = terms()[0];
  if (term.coefficient != 1 || term.atom->kind != Atom::Kind::axis) return std::nullopt;
  return term.atom->id;
}

int Expr::compare(const Expr& a, const Expr& b) {
  if (a.terms_ != b.terms_) {
    const auto left = a.terms();
    const auto right = b.terms();
    if (left.size() != right.size()) return left.size() < right.size() ? -1 : 1;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (const int order = index::compare(*left[i].atom, *right[i].atom); order != 0) return order;
      if (const int order = three_way(left[i].coefficient, right[i].coefficient); order != 0) return order;
    }
  }
  return three_way(a.constant_, b.constant_);
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_constant() || b.is_constant()) {
    Expr sum = a.is_constant() ? b : a;
    sum.constant_ = exact_add(a.constant_, b.constant_);
    return sum;
  }
  Sum sum;
  sum.terms.reserve(a.terms().size() + b.terms().size());
  sum.add(a);
  sum.add(b);
  return {sum.constant, std::move(sum.terms)};
}

Expr operator-(const Expr& a, const Expr& b) {
  Sum sum;
  sum.terms.reserve(a.terms().size() + b.terms().size());
  sum.add(a);
  sum.add(b, -1);
  return {sum.constant, std::move(sum.terms)};
}

Expr operator*(const Expr& a, std::int64_t factor) {
  if (factor == 0) return 0;
  if (factor == 1) return a;
  Sum sum;
  sum.add(a, factor);
  return {sum.constant, std::move(sum.terms)};
}

std::string to_text(const Expr& expr) {
  std::string text;
  const auto append = [&](std::int64_t factor, const std::string& what) {
    const std::string sign = text.empty() ? (factor < 0 ? "-" : "") : (factor < 0 ? " - " : " + ");
    std::string digits = std::to_string(factor);
    if (factor < 0) digits.erase(0, 1);
    text += sign + (what.empty() ? digits : digits == "1" ? what : digits + "*" + what);
  };
  for (const Expr::Term& term : expr.terms()) append(term.coefficient, atom_text(*term.atom));
  if (expr.constant() != 0 || text.empty()) append(expr.constant(), "");
  return text;
}

std::int64_t evaluate(const Expr& expr, const std::map<AxisId, std::int64_t>& axes,
                      const std::map<DataId, std::int64_t>& data) {
  std::int64_t sum = expr.constant();
  for (const Expr::Term& term : expr.terms()) {
    const Atom& atom = *term.atom;
    std::int64_t value = 0;
    if (is_leaf(atom)) {
      const auto& values = atom.kind == Atom::Kind::axis ? axes : data;
      const auto found = values.find(atom.id);
      check(found != values.end(), "An axis or data value of an index expression is evaluated without a value.");
      value = found->second;
    } else {
      value = evaluate(atom.operand, axes, data);
      value = atom.kind == Atom::Kind::div ? floor_quotient(value, atom.divisor) : floor_remainder(value, atom.divisor);
    }
    sum = exact_add(sum, exact_mul(term.coefficient, value));
  }
  return sum;
}

}  // namespace vkfuse::index
