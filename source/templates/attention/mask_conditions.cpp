#include "templates/attention/mask_conditions.hpp"

#include <algorithm>
#include <cmath>

#include "index/exact_numbers.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::schedule {

using index::Expr;
using segment::Value;
using segment::ValueId;

namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 30;  // positions and their sums stay within 32 bits
constexpr std::size_t kMostCases = 16;
constexpr std::size_t kMostLines = 4;  // of a bound

double rounded(DType dtype, double number) {
  if (std::isnan(number)) return number;
  const ir::Bytes bytes = ir::encode_scalar(dtype, number);
  return ir::decode(dtype, bytes->data());
}

void add_line(MaskBound& bound, const MaskLine& line, bool upper) {
  for (MaskLine& known : bound) {
    if (known.slope != line.slope) continue;
    known.constant = upper ? std::max(known.constant, line.constant) : std::min(known.constant, line.constant);
    return;
  }
  bound.push_back(line);
}

/// Bounds of which each holds where one of the two sets does.
std::vector<MaskBound> either_of(const std::vector<MaskBound>& a, const std::vector<MaskBound>& b, bool upper) {
  std::vector<MaskBound> all;
  for (const MaskBound& one : a) {
    for (const MaskBound& other : b) {
      MaskBound joined = one;
      for (const MaskLine& line : other) add_line(joined, line, upper);
      if (joined.size() <= kMostLines && std::find(all.begin(), all.end(), joined) == all.end())
        all.push_back(std::move(joined));
    }
  }
  return all;
}

void add_bounds(std::vector<MaskBound>& all, const std::vector<MaskBound>& more) {
  for (const MaskBound& bound : more) {
    if (std::find(all.begin(), all.end(), bound) == all.end()) all.push_back(bound);
  }
}

}  // namespace

Necessary both(Necessary a, const Necessary& b) {
  a.never = a.never || b.never;
  add_bounds(a.bounds.upper, b.bounds.upper);
  add_bounds(a.bounds.lower, b.bounds.lower);
  return a;
}

Necessary either(const Necessary& a, const Necessary& b) {
  if (a.never) return b;
  if (b.never) return a;
  Necessary joined;
  joined.bounds.upper = either_of(a.bounds.upper, b.bounds.upper, true);
  joined.bounds.lower = either_of(a.bounds.lower, b.bounds.lower, false);
  return joined;
}

ops::Role MaskConditions::role_of(ValueId id) const {
  return value(id).kind == Value::Kind::compute ? node(id).op->role : ops::Role::none;
}

// --- positions ---

std::optional<Expr> MaskConditions::position_of(ValueId id) {
  if (!spends()) return std::nullopt;
  const auto expr = sum_of_positions(id);
  if (!expr) return std::nullopt;
  const index::Interval interval = index::interval_of(*expr);
  const bool near = interval.low > -kFar && interval.high < kFar;
  return near && index::has_all_of(node(id).type.dtype, interval) ? expr : std::nullopt;
}

std::optional<Expr> MaskConditions::sum_of_positions(ValueId id) {
  const Value& own = value(id);
  if (const auto number = number_of(graph_, own)) {
    if (!(std::abs(*number) < static_cast<double>(kFar)) || *number != std::trunc(*number)) return std::nullopt;
    return Expr(static_cast<std::int64_t>(*number));
  }
  if (own.kind == Value::Kind::position)
    return node(id).op->role == ops::Role::iota ? std::optional(own.offset) : std::nullopt;
  if (own.kind != Value::Kind::compute) return std::nullopt;
  const auto operand = [&](std::size_t k) { return position_of(own.operands[k]); };
  switch (node(id).op->role) {
    case ops::Role::cast: return operand(0);
    case ops::Role::neg:
      if (const auto a = operand(0)) return Expr(0) - *a;
      return std::nullopt;
    case ops::Role::add:
    case ops::Role::sub:
    case ops::Role::mul:
    case ops::Role::div: break;
    default: return std::nullopt;
  }
  const auto a = operand(0);
  const auto b = a ? operand(1) : std::nullopt;
  if (!a || !b) return std::nullopt;
  if (node(id).op->role == ops::Role::add) return *a + *b;
  if (node(id).op->role == ops::Role::sub) return *a - *b;
  if (node(id).op->role == ops::Role::div) {
    const bool counts = !is_float(node(id).type.dtype) && b->is_constant() && b->constant() > 0;
    return counts && index::interval_of(*a).low >= 0 ? std::optional(index::floor_div(*a, b->constant()))
                                                     : std::nullopt;
  }
  if (a->is_constant()) return *b * a->constant();
  return b->is_constant() ? std::optional(*a * b->constant()) : std::nullopt;
}

namespace {

/// k * along_k + m * along_m + rest.
struct Plane {
  std::int64_t along_k = 0, along_m = 0, rest = 0;
};

/// A plane that `times` the expression, a positive number, is nowhere below. Other axes, and what is not linear in the
/// two, are as low as they get.
class Floor {
 public:
  Floor(int m, int k) : m_(m), k_(k) {}

  Plane of(const Expr& expr) {
    for (const Expr::Term& term : expr.terms()) {
      if (term.atom->kind == index::Atom::Kind::div && is_of_rows(term.atom->operand)) times_ = term.atom->divisor;
    }
    add(expr, times_);
    return plane_;
  }

 private:
  [[nodiscard]] bool is_of_rows(const Expr& expr) const {
    return index::depends_on(expr, k_) || index::depends_on(expr, m_);
  }

  void add(const Expr& expr, std::int64_t factor) {
    plane_.rest += expr.constant() * factor;
    for (const Expr::Term& term : expr.terms()) {
      const index::Atom& atom = *term.atom;
      const std::int64_t coefficient = term.coefficient * factor;
      if (atom.kind == index::Atom::Kind::axis && (atom.id == k_ || atom.id == m_)) {
        (atom.id == k_ ? plane_.along_k : plane_.along_m) += coefficient;
      } else if (atom.kind == index::Atom::Kind::div && atom.divisor == times_ && coefficient % times_ == 0 &&
                 is_of_rows(atom.operand)) {
        // The quotient times its divisor is the number less a remainder.
        const std::int64_t each = coefficient / times_;
        if (each > 0) plane_.rest -= each * (times_ - 1);
        add(atom.operand, each);
      } else {
        plane_.rest += coefficient * (coefficient > 0 ? atom.low : atom.high);
      }
    }
  }

  const int m_, k_;
  std::int64_t times_ = 1;
  Plane plane_;
};

std::int64_t floor_of(std::int64_t a, std::int64_t divisor) { return a / divisor - (a % divisor < 0 ? 1 : 0); }

}  // namespace

/// Where the expression is not above 0.
Necessary MaskConditions::not_above_zero(const Expr& expr) const {
  Necessary necessary;
  const index::Interval interval = index::interval_of(expr);
  if (interval.low <= -kFar || interval.high >= kFar) return necessary;
  necessary.never = interval.low > 0;
  if (interval.high <= 0) return necessary;
  const Plane plane = Floor(m_, k_).of(expr);
  const std::int64_t steps = std::abs(plane.along_k);
  if (steps == 0 || plane.along_m % steps != 0) return necessary;
  if (plane.along_k > 0) {
    necessary.bounds.upper.push_back({{-plane.along_m / steps, floor_of(-plane.rest, steps)}});
  } else {
    necessary.bounds.lower.push_back({{plane.along_m / steps, -floor_of(-plane.rest, steps)}});
  }
  return necessary;
}

Necessary MaskConditions::where_zero(const Expr& expr, bool truth) const {
  const Necessary below = not_above_zero(truth ? expr : expr + 1);
  const Necessary above = not_above_zero(truth ? Expr(0) - expr : Expr(1) - expr);
  return truth ? both(below, above) : either(below, above);
}

// --- conditions ---

namespace {

bool compares(ops::Role role, double a, double b) {
  switch (role) {
    case ops::Role::lt: return a < b;
    case ops::Role::le: return a <= b;
    case ops::Role::gt: return a > b;
    case ops::Role::ge: return a >= b;
    case ops::Role::eq: return a == b;
    default: return a != b;
  }
}

bool is_comparison(ops::Role role) {
  return role == ops::Role::lt || role == ops::Role::le || role == ops::Role::gt || role == ops::Role::ge ||
         role == ops::Role::eq || role == ops::Role::ne;
}

}  // namespace

Necessary MaskConditions::where_compared(ValueId id, bool truth) {
  const ops::Role role = role_of(id);
  const ValueId first = value(id).operands[0], second = value(id).operands[1];
  const auto a = position_of(first);
  const auto b = a ? position_of(second) : std::nullopt;
  if (a && b) {
    const Expr apart = *a - *b;
    switch (role) {
      case ops::Role::eq: return where_zero(apart, truth);
      case ops::Role::ne: return where_zero(apart, !truth);
      case ops::Role::le: return not_above_zero(truth ? apart : Expr(1) - apart);
      case ops::Role::lt: return not_above_zero(truth ? apart + 1 : Expr(0) - apart);
      case ops::Role::ge: return not_above_zero(truth ? Expr(0) - apart : apart + 1);
      default: return not_above_zero(truth ? Expr(1) - apart : apart);
    }
  }
  const std::vector<Case> firsts = cases(first), seconds = cases(second);
  Necessary all{.never = true};
  for (const Case& one : firsts) {
    for (const Case& other : seconds) {
      const bool unknown = std::isnan(one.number) || std::isnan(other.number);
      if (unknown || compares(role, one.number, other.number) == truth) all = either(all, both(one.where, other.where));
    }
  }
  return all;
}

Necessary MaskConditions::where_chosen(const Value& choice, bool first) {
  const auto within = [&](const segment::Predicate& predicate, bool truth) {
    Necessary all{.never = !truth};
    for (const segment::Predicate::Range& range : predicate.ranges) {
      const Expr before = Expr(0) - range.value, behind = range.value - (range.size - 1);
      all = truth ? both(both(all, not_above_zero(before)), not_above_zero(behind))
                  : either(either(all, not_above_zero(range.value + 1)), not_above_zero(Expr(1) - behind));
    }
    return all;
  };
  Necessary all{.never = !first};
  for (const segment::Predicate& predicate : choice.predicates) {
    const Necessary one = within(predicate, first != predicate.negated);
    all = first ? both(all, one) : either(all, one);
  }
  return all;
}

Necessary MaskConditions::where(ValueId id, bool truth) {
  if (!spends()) return {};
  const Value& own = value(id);
  if (const auto number = number_of(graph_, own)) return {.never = (*number != 0) != truth};
  const auto operand = [&](std::size_t k, bool is) { return where(own.operands[k], is); };
  if (own.kind == Value::Kind::choose) {
    return either(both(where_chosen(own, true), operand(0, truth)), both(where_chosen(own, false), operand(1, truth)));
  }
  const ops::Role role = role_of(id);
  if (is_comparison(role)) return where_compared(id, truth);
  switch (role) {
    case ops::Role::logical_not: return operand(0, !truth);
    case ops::Role::logical_and:
    case ops::Role::logical_or: {
      const bool all = (role == ops::Role::logical_and) == truth;
      return all ? both(operand(0, truth), operand(1, truth)) : either(operand(0, truth), operand(1, truth));
    }
    case ops::Role::select:
      return either(both(operand(0, true), operand(1, truth)), both(operand(0, false), operand(2, truth)));
    case ops::Role::cast: {
      if (node(own.operands[0]).type.dtype == DType::boolean) return operand(0, truth);
      Necessary joined{.never = true};
      for (const Case& one : cases(own.operands[0])) {
        if (std::isnan(one.number) || (one.number != 0) == truth) joined = either(joined, one.where);
      }
      return joined;
    }
    default: return {};
  }
}

// --- numbers ---

namespace {

const double kAny = std::nan("");

std::vector<Case> any_number() { return {{kAny, {}}}; }

/// Nothing where the op is another one.
std::optional<double> computed(ops::Role role, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) a = b = kAny;
  switch (role) {
    case ops::Role::add: return a + b;
    case ops::Role::sub: return a - b;
    case ops::Role::mul: return a * b;
    case ops::Role::max: return std::isnan(a) ? kAny : std::max(a, b);
    case ops::Role::min: return std::isnan(a) ? kAny : std::min(a, b);
    default: return std::nullopt;
  }
}

}  // namespace

std::vector<Case> MaskConditions::cases(ValueId id) {
  if (!spends()) return any_number();
  std::vector<Case> all = cases_of_op(id);
  std::erase_if(all, [](const Case& one) { return one.where.never; });
  return all.size() <= kMostCases ? all : any_number();
}

std::vector<Case> MaskConditions::cases_of_choice(ValueId id) {
  const Value& own = value(id);
  const bool chooses = own.kind == Value::Kind::choose;
  std::vector<Case> all;
  for (const bool first : {true, false}) {
    const Necessary here = chooses ? where_chosen(own, first) : where(own.operands[0], first);
    if (here.never) continue;
    for (const Case& one : cases(own.operands[(chooses ? 0U : 1U) + (first ? 0U : 1U)]))
      all.push_back({one.number, both(here, one.where)});
  }
  return all;
}

std::vector<Case> MaskConditions::cases_of_op(ValueId id) {
  const Value& own = value(id);
  const DType dtype = node(id).type.dtype;
  if (const auto number = number_of(graph_, own)) return {{*number, {}}};
  const bool chooses = own.kind == Value::Kind::choose;
  if (!chooses && own.kind != Value::Kind::compute) return any_number();
  if (dtype == DType::boolean) return {{1, where(id, true)}, {0, where(id, false)}};
  const ops::Role role = role_of(id);
  if (chooses || role == ops::Role::select) return cases_of_choice(id);
  std::vector<Case> all;
  if (role == ops::Role::cast || role == ops::Role::neg || role == ops::Role::copy) {
    for (const Case& one : cases(own.operands[0]))
      all.push_back({rounded(dtype, role == ops::Role::neg ? -one.number : one.number), one.where});
    return all;
  }
  if (own.operands.size() != 2 || !computed(role, 0, 0)) return any_number();
  const std::vector<Case> firsts = cases(own.operands[0]), seconds = cases(own.operands[1]);
  if (firsts.size() * seconds.size() > kMostCases) return any_number();
  for (const Case& one : firsts) {
    for (const Case& other : seconds)
      all.push_back({rounded(dtype, *computed(role, one.number, other.number)), both(one.where, other.where)});
  }
  return all;
}

}  // namespace vkfuse::schedule
