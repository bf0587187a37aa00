#include "templates/attention/mask_conditions.hpp"

#include <algorithm>
#include <cmath>

#include "index/exact_numbers.hpp"
#include "ir/position_arithmetic.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::schedule {

using index::Expr;
using ir::kFarthestPosition;
using segment::Value;
using segment::ValueId;

namespace {

constexpr std::size_t kMostCases = 16;
constexpr std::size_t kMostLines = 4;  // of a bound

void add_line(MaskBound& bound, const MaskLine& line, bool upper) {
  for (MaskLine& known : bound) {
    if (known.slope != line.slope || known.data != line.data || !(known.rest == line.rest)) continue;
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

MaskConditions::MaskConditions(const ir::Graph& graph, const segment::Loops& loops, int m, const std::vector<int>& k,
                               segment::AxisSet batch)
    : graph_(graph),
      loops_(loops),
      m_(m),
      k_(k.size() == 1 ? k[0] : static_cast<int>(loops.axes.size())),
      keys_(count_along(loops, k)),
      batch_(batch) {
  if (k.size() == 1) return;
  std::vector<std::int64_t> sizes;
  for (const int axis : k) sizes.push_back(loops.axes[static_cast<std::size_t>(axis)].size);
  const std::vector<Expr> digits = index::delinearize(Expr::axis(k_, keys_), sizes);
  for (std::size_t i = 0; i < k.size(); ++i) key_axes_.emplace(k[i], digits[i]);
}

/// Keys of a cache in pages are numbered by two axes, and bounds are of one number.
Expr MaskConditions::of_one_key_axis(const Expr& expr) const {
  return key_axes_.empty() ? expr : index::substitute(expr, key_axes_);
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
  const bool near = interval.low > -kFarthestPosition && interval.high < kFarthestPosition;
  return near && index::has_all_of(node(id).type.dtype, interval) ? expr : std::nullopt;
}

std::optional<Expr> MaskConditions::sum_of_positions(ValueId id) {
  const Value& own = value(id);
  if (const auto number = number_of(graph_, own)) return ir::whole_number(*number);
  if (own.kind == Value::Kind::position)
    return node(id).op->role == ops::Role::iota ? std::optional(of_one_key_axis(own.offset)) : std::nullopt;
  const ir::PositionArithmetic arithmetic = ir::position_arithmetic_of(role_of(id));
  if (arithmetic == nullptr) return std::nullopt;
  std::vector<Expr> operands;
  for (const ValueId operand : own.operands) {
    const auto position = position_of(operand);
    if (!position) return std::nullopt;
    operands.push_back(*position);
  }
  return arithmetic(node(id).type.dtype, operands);
}

/// An i32 that is the same for all rows and keys of a batch, as data; nothing for other values.
std::optional<Expr> MaskConditions::data_of(ValueId id) const {
  const Value& own = value(id);
  const bool is_data = own.kind == Value::Kind::load || own.kind == Value::Kind::compute;
  if (!is_data || own.level != 0 || (own.axes & ~batch_) != 0 || node(id).type.dtype != DType::i32) return std::nullopt;
  return Expr::data(static_cast<index::DataId>(id), kFarthestBound);
}

namespace {

/// k * along_k + m * along_m + data * along_data + others + rest: others are of axes of the batch, and there where data
/// is.
struct Plane {
  std::int64_t along_k = 0, along_m = 0, along_data = 0, rest = 0;
  std::optional<ValueId> data = std::nullopt;
  Expr others = Expr(0);
};

/// A plane that `times` the expression, a positive number, is nowhere below. Other axes, and what is not linear in the
/// two, are as low as they get.
class Floor {
 public:
  Floor(int m, int k, segment::AxisSet batch) : m_(m), k_(k), batch_(batch) {}

  Plane of(const Expr& expr) {
    const std::vector<index::DataId> data = index::data_of(expr);
    if (data.size() == 1) plane_.data = static_cast<ValueId>(data.front());
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
        add_other({coefficient, term.atom});
      }
    }
  }

  /// What is neither of rows nor of keys: beside data it is kept, else as low as it gets.
  void add_other(const Expr::Term& term) {
    const index::Atom& atom = *term.atom;
    if (plane_.data && atom.kind == index::Atom::Kind::data) {
      plane_.along_data += term.coefficient;
    } else if (plane_.data && atom.kind == index::Atom::Kind::axis && ((batch_ >> atom.id) & 1u) != 0) {
      plane_.others = plane_.others + Expr(0, {term});
    } else {
      plane_.rest += term.coefficient * (term.coefficient > 0 ? atom.low : atom.high);
    }
  }

  const int m_, k_;
  const segment::AxisSet batch_;
  std::int64_t times_ = 1;
  Plane plane_;
};

std::int64_t floor_of(std::int64_t a, std::int64_t divisor) { return a / divisor - (a % divisor < 0 ? 1 : 0); }

}  // namespace

/// Whether everything beside the data is so small that data which is taken for kFarthestBound leaves every key, or
/// none.
bool MaskConditions::is_near(const index::Expr& others, const MaskLine& line) const {
  constexpr std::int64_t kNear = kFarthestBound / 8;
  const std::int64_t rows = m_ < 0 ? 1 : loops_.axes[static_cast<std::size_t>(m_)].size;
  const index::Interval interval = index::interval_of(others);
  return interval.low > -kNear && interval.high < kNear && std::abs(line.constant) < kNear && keys_ < kNear &&
         rows < kNear / std::max<std::int64_t>(1, std::abs(line.slope));
}

/// Where the expression is not above 0.
Necessary MaskConditions::not_above_zero(const Expr& expr) const {
  Necessary necessary;
  const index::Interval interval = index::interval_of(expr);
  if (interval.low <= -kFarthestPosition || interval.high >= kFarthestPosition) return necessary;
  // Data may be anything: the interval is that of positions.
  necessary.never = interval.low > 0 && !index::depends_on_data(expr);
  if (interval.high <= 0) return necessary;
  const Plane plane = Floor(m_, k_, batch_).of(expr);
  const std::int64_t steps = std::abs(plane.along_k);
  if (steps == 0 || plane.along_m % steps != 0) return necessary;
  const bool upper = plane.along_k > 0;
  MaskLine line{upper ? -plane.along_m / steps : plane.along_m / steps,
                upper ? floor_of(-plane.rest, steps) : -floor_of(-plane.rest, steps)};
  if (plane.data) {
    // The kernel adds up in 32 bits: what is added to data is near.
    if (steps != 1 || plane.along_data != -plane.along_k || !is_near(plane.others, line)) return necessary;
    line.data = plane.data;
    line.rest = upper ? Expr(0) - plane.others : plane.others;
  }
  (upper ? necessary.bounds.upper : necessary.bounds.lower).push_back({std::move(line)});
  return necessary;
}

/// Where a difference of positions is what a comparison of the two asks for.
Necessary MaskConditions::where_apart(const ops::Comparison& of, const Expr& apart) const {
  const std::int64_t gap = of.equal ? 0 : 1;
  const Necessary below = not_above_zero(apart + gap), above = not_above_zero(Expr(gap) - apart);
  if (of.less && of.greater) return either(below, above);
  if (!of.less && !of.greater) return both(below, above);
  return of.less ? below : above;
}

// --- conditions ---

Necessary MaskConditions::where_compared(ValueId id, const ops::Comparison& of) {
  const ValueId first = value(id).operands[0], second = value(id).operands[1];
  auto a = position_of(first), b = position_of(second);
  if (a && !b) b = data_of(second);
  if (b && !a) a = data_of(first);
  if (a && b) return where_apart(of, *a - *b);
  const std::vector<Case> firsts = cases(first), seconds = cases(second);
  Necessary all{.never = true};
  for (const Case& one : firsts) {
    for (const Case& other : seconds) {
      const bool unknown = std::isnan(one.number) || std::isnan(other.number);
      if (unknown || of.holds(one.number, other.number)) all = either(all, both(one.where, other.where));
    }
  }
  return all;
}

Necessary MaskConditions::where_chosen(const Value& choice, bool first) {
  const auto within = [&](const segment::Predicate& predicate, bool truth) {
    Necessary all{.never = !truth};
    for (const segment::Predicate::Range& range : predicate.ranges) {
      const Expr at = of_one_key_axis(range.value), before = Expr(0) - at, behind = at - (range.size - 1);
      all = truth ? both(both(all, not_above_zero(before)), not_above_zero(behind))
                  : either(either(all, not_above_zero(at + 1)), not_above_zero(Expr(1) - behind));
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

/// Where a value, as a boolean, is `truth`.
Necessary MaskConditions::where_converted(ValueId id, bool truth) {
  if (node(id).type.dtype == DType::boolean) return where(id, truth);
  Necessary all{.never = true};
  for (const Case& one : cases(id)) {
    if (std::isnan(one.number) || (one.number != 0) == truth) all = either(all, one.where);
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
  if (const auto* of = ops::comparison_of(role))
    return where_compared(id, truth ? *of : *ops::comparison_of(of->opposite));
  switch (role) {
    case ops::Role::logical_not: return operand(0, !truth);
    case ops::Role::logical_and:
    case ops::Role::logical_or: {
      const bool all = (role == ops::Role::logical_and) == truth;
      return all ? both(operand(0, truth), operand(1, truth)) : either(operand(0, truth), operand(1, truth));
    }
    case ops::Role::select:
      return either(both(operand(0, true), operand(1, truth)), both(operand(0, false), operand(2, truth)));
    case ops::Role::cast: return where_converted(own.operands[0], truth);
    default: return {};
  }
}

// --- numbers ---

namespace {

const double kAny = std::nan("");

std::vector<Case> any_number() { return {{kAny, {}}}; }

double as_stored(DType dtype, double number) {
  const ir::Bytes bytes = ir::encode_scalar(dtype, number);
  return ir::decode(dtype, bytes->data());
}

/// A result that a dtype may not have: integers wrap. Kernels keep sums of 16-bit floats in f32, so that one which is
/// beyond the largest of these is not infinite yet, and what it masks counts in a row that has nothing else.
double rounded(DType dtype, double number) {
  if (std::isnan(number)) return kAny;
  const double stored = as_stored(dtype, number);
  if (!is_float(dtype)) return stored == number ? stored : kAny;
  const bool overflows = std::isinf(stored) && !std::isinf(number);
  return overflows && size_of(dtype) == 2 ? as_stored(DType::f32, number) : stored;
}

/// What an op makes of one or two numbers.
using NumberFunction = double (*)(double a, double b);
struct NumberRow {
  ops::Role role;
  NumberFunction of;
};
constexpr NumberRow kNumberRows[] = {
    {ops::Role::cast, [](double a, double) { return a; }},
    {ops::Role::copy, [](double a, double) { return a; }},
    {ops::Role::neg, [](double a, double) { return -a; }},
    {ops::Role::add, [](double a, double b) { return a + b; }},
    {ops::Role::sub, [](double a, double b) { return a - b; }},
    {ops::Role::mul, [](double a, double b) { return a * b; }},
    {ops::Role::max, [](double a, double b) { return std::max(a, b); }},
    {ops::Role::min, [](double a, double b) { return std::min(a, b); }},
};

/// Null where the op is another one.
NumberFunction number_function_of(ops::Role role) {
  const auto* found = std::find_if(std::begin(kNumberRows), std::end(kNumberRows),
                                   [&](const NumberRow& row) { return row.role == role; });
  return found == std::end(kNumberRows) ? nullptr : found->of;
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
  if (const auto number = number_of(graph_, own)) return {{*number, {}}};
  const bool chooses = own.kind == Value::Kind::choose;
  if (!chooses && own.kind != Value::Kind::compute) return any_number();
  if (node(id).type.dtype == DType::boolean) return {{1, where(id, true)}, {0, where(id, false)}};
  if (chooses || role_of(id) == ops::Role::select) return cases_of_choice(id);
  return cases_of_numbers(id);
}

std::vector<Case> MaskConditions::cases_of_numbers(ValueId id) {
  const Value& own = value(id);
  const NumberFunction computed = number_function_of(role_of(id));
  if (computed == nullptr) return any_number();
  const std::vector<Case> firsts = cases(own.operands[0]);
  const std::vector<Case> seconds = own.operands.size() > 1 ? cases(own.operands[1]) : std::vector<Case>{{0, {}}};
  if (firsts.size() * seconds.size() > kMostCases) return any_number();
  std::vector<Case> all;
  for (const Case& one : firsts) {
    for (const Case& other : seconds) {
      const bool unknown = std::isnan(one.number) || std::isnan(other.number);
      const double number = unknown ? kAny : rounded(node(id).type.dtype, computed(one.number, other.number));
      all.push_back({number, both(one.where, other.where)});
    }
  }
  return all;
}

}  // namespace vkfuse::schedule
