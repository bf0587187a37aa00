// Index expressions as text.
#include <algorithm>

#include "base/mutations.hpp"
#include "lowering/emitter.hpp"

namespace vkfuse::lowering {

using index::Atom;
using index::Expr;

bool always_inside(const Expr& position, std::int64_t size) {
  const index::Interval interval = index::interval_of(position);
  return interval.low >= 0 && interval.high < size;
}

index::Expr Emitter::in_scope(const Scope& scope, const Expr& expr) const {
  return index::substitute(expr, scope.axes);
}

Code Emitter::position(Scope& scope, const Expr& expr) { return scoped(scope, in_scope(scope, expr)); }

Code Emitter::data_index(Scope& scope, int data, std::int64_t size) {
  const auto known = scope.data_names.find({data, VKF_PLANT(one_clamp_for_all, size, 0)});
  if (known != scope.data_names.end()) return known->second;
  const ValueId id = loops_.data.at(data);
  const Code value = use(scope, id);
  const Code last = numbers_.size(size - 1);
  Code text;
  switch (ops::register_type_of(dtype_of(loops_.values[id]))) {
    case ops::RegisterType::u32: text = code("min({}, {})", value, last); break;
    case ops::RegisterType::i32:
      text = VKF_PLANT(unclamped_position, code("min(uint(max({}, 0)), {})", value, last), code("uint({})", value));
      break;
    case ops::RegisterType::i64:
      text = dialect_.native_int64 ? code("i64_index({}, {})", value, last) : code("i64p_index({}, {})", value, last);
      break;
    default:
      text = dialect_.native_int64 ? code("u64_index({}, {})", value, last) : code("u64p_index({}, {})", value, last);
      break;
  }
  const Code name = unique((is_literal(id) ? "picked" : names_.values[id]) + "_index");
  scope.out->line("uint {} = {};", name, text);
  scope.data_names[{data, VKF_PLANT(one_clamp_for_all, size, 0)}] = name;
  return name;
}

Code Emitter::atom_text(Scope& scope, const Atom& atom) {
  if (atom.kind == Atom::Kind::axis) return scope.axis_names.at(atom.id);
  if (atom.kind == Atom::Kind::data) return data_index(scope, atom.id, atom.high + 1);
  const Expr self(0, {{1, std::make_shared<const Atom>(atom)}});
  for (const auto& [known, name] : scope.known) {
    if (known == self) return name;
  }
  const bool divides = atom.kind == Atom::Kind::div;
  // Simplification may leave an operand that can be negative; unsigned division wants it lifted.
  const std::int64_t low = index::interval_of(atom.operand).low;
  const std::int64_t lift = low < 0 ? schedule::ceil_div(-low, atom.divisor) : 0;
  const Code operand = scoped(scope, atom.operand + Expr(lift * atom.divisor));
  Code value = divides ? numbers_.quotient(operand, atom.divisor, schedule_.wide)
                       : numbers_.remainder(operand, atom.divisor, schedule_.wide);
  if (lift > 0 && divides) value += code(" - {}", numbers_.size(lift));
  const Code name = unique(divides ? "q" : "r");
  scope.out->line("uint {} = {};", name, value);
  scope.known.emplace_back(self, name);
  return name;
}

Code Emitter::scoped(Scope& scope, const Expr& expr) {
  // Positive terms first: unsigned arithmetic wraps, but text that begins with a minus reads badly.
  Code text;
  const auto add = [&](bool negative, const Code& term) {
    if (text.empty()) {
      text = negative ? "0u - " + term : term;
    } else {
      text += (negative ? " - " : " + ") + term;
    }
  };
  for (const bool negative : {false, true}) {
    for (const Expr::Term& term : expr.terms()) {
      if ((term.coefficient < 0) != negative) continue;
      const Code atom = atom_text(scope, *term.atom);
      const std::int64_t factor = negative ? -term.coefficient : term.coefficient;
      add(negative, factor == 1 ? atom : code("{} * {}", atom, numbers_.size(factor)));
    }
    if (!negative && expr.constant() > 0) add(false, numbers_.size(expr.constant()));
  }
  if (expr.constant() < 0) add(true, numbers_.size(-expr.constant()));
  return text.empty() ? Code::zero() : text;
}

Code Emitter::condition(Scope& scope, std::span<const segment::Predicate> predicates) {
  Code text;
  for (const segment::Predicate& predicate : predicates) {
    Code all;
    for (const segment::Predicate::Range& range : predicate.ranges) {
      const Expr value = in_scope(scope, range.value);
      if (always_inside(value, range.size)) continue;
      const Code at = scoped(scope, value).parenthesised();
      // Unsigned: what is negative is large.
      const Code inside = range.size == 1 ? at + " == 0u" : at + " < " + numbers_.size(range.size);
      all += (all.empty() ? "" : " && ") + inside;
    }
    if (all.empty() && !predicate.negated) continue;
    if (all.empty()) all = Code::always();
    if (predicate.negated) all = "!(" + all + ")";
    text += (text.empty() ? "" : " && ") + all;
  }
  return text.empty() ? Code::always() : "(" + text + ")";
}

}  // namespace vkfuse::lowering
