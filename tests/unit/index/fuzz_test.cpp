// Random expressions, simplified and as plain numbers, compared at every point; and every fact of them.
//
// VKFUSE_SEED=N runs one case and nothing else; VKFUSE_FUZZ_CASES=N runs N of them.
#include "points.hpp"
#include "support/fuzzer.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

constexpr Number kLimit = 16;

Space random_space(Random& random) {
  const std::vector<Number> sizes{1, 2, 3, 4, 5, 6, 8, 12};
  return Space({random.pick(sizes), random.pick(sizes), random.pick(sizes)},
               {static_cast<Number>(1 + random.below(5))});
}

Twice random_leaf(Random& random, const Space& space) {
  switch (random.below(6)) {
    case 0: return Twice::constant(space, static_cast<Number>(random.below(31)) - 15);
    case 1: return Twice::data(space, 0);
    default: return Twice::axis(space, static_cast<int>(random.below(3)));
  }
}

/// `known` holds what was built before: digits of one number meet only if parts are used again.
Twice random_expression(Random& random, const Space& space, int depth, std::vector<Twice>& known) {
  if (depth == 0 || random.chance(10)) return random_leaf(random, space);
  if (!known.empty() && random.chance(20)) return random.pick(known);
  const auto part = [&] { return random_expression(random, space, depth - 1, known); };
  const std::vector<Number> divisors{1, 2, 2, 3, 4, 4, 5, 6, 8, 12, 24};
  const Number divisor = random.pick(divisors);
  Twice made = part();
  switch (random.below(8)) {
    case 0: made = made + part(); break;
    case 1: made = made - part(); break;
    case 2: made = made * (random.chance(30) ? -divisor : divisor); break;
    case 3: made = made + (static_cast<Number>(random.below(31)) - 15); break;
    case 4: made = made / divisor * divisor + made % divisor * (random.chance(80) ? 1 : 2); break;
    case 5: made = made % divisor; break;
    default: made = made / divisor; break;
  }
  known.push_back(made);
  return made;
}

Twice random_expression(Random& random, const Space& space) {
  std::vector<Twice> known;
  return random_expression(random, space, 2 + static_cast<int>(random.below(5)), known);
}

std::string check_congruence(const Twice& both) {
  const index::Congruence congruence = index::congruence_of(both.expr);
  const Number alignment = index::alignment_of(both.expr, kLimit);
  const index::Interval interval = index::interval_of(both.expr);
  for (const Number value : both.values) {
    const Number off = value - congruence.remainder;
    if (congruence.modulus == 0 ? off != 0 : off % congruence.modulus != 0) {
      return fmt::format("{} is {}, not {} modulo {}.", index::to_text(both.expr), value, congruence.remainder,
                         congruence.modulus);
    }
    if (value % alignment != 0)
      return fmt::format("{} is {}, no multiple of {}.", index::to_text(both.expr), value, alignment);
    if (value < interval.low || value > interval.high) {
      return fmt::format("{} is {}, outside of {} .. {}.", index::to_text(both.expr), value, interval.low,
                         interval.high);
    }
  }
  return {};
}

/// The values of two points that differ only in one axis, by `step`.
template <typename F>
void for_each_step(const Space& space, const Expr& expr, int axis, Number step, const F& f) {
  for (const Space::Point& point : space.points()) {
    Space::Point next = point;
    next.axes[axis] += step;
    if (next.axes[axis] >= space.axes()[static_cast<std::size_t>(axis)]) continue;
    f(point.axes.at(axis), index::evaluate(expr, point.axes, point.data), index::evaluate(expr, next.axes, next.data));
  }
}

std::string check_axis(const Space& space, const Expr& expr, int axis) {
  std::string fault;
  const auto stride = index::stride_of(expr, axis);
  const bool inside = index::depends_on(expr, axis);
  for_each_step(space, expr, axis, 1, [&](Number, Number here, Number next) {
    if (!inside && here != next) fault = fmt::format("{} depends on axis {}.", index::to_text(expr), axis);
    if (stride && next - here != *stride)
      fault = fmt::format("{} has no stride {} along axis {}.", index::to_text(expr), *stride, axis);
  });
  const Number size = space.axes()[static_cast<std::size_t>(axis)];
  for (const Number count : {1, 2, 3, 4, 8}) {
    const auto run = size % count == 0 ? index::run_along(expr, axis, size, count, kLimit) : std::nullopt;
    if (!run) continue;
    for (const Space::Point& point : space.points()) {
      if (point.axes.at(axis) % count == 0 && index::evaluate(expr, point.axes, point.data) % run->alignment != 0) {
        fault = fmt::format("Runs of {} of {} along axis {} are not aligned to {}.", count, index::to_text(expr), axis,
                            run->alignment);
      }
    }
    for_each_step(space, expr, axis, 1, [&](Number at, Number here, Number next) {
      if (at % count == count - 1 || next - here == run->stride) return;
      fault = fmt::format("Runs of {} of {} along axis {} have no stride {}.", count, index::to_text(expr), axis,
                          run->stride);
    });
  }
  return fault;
}

/// Splits until none is useful; at each point of the old axes the new ones give the same value.
std::string check_splits(const Space& space, const Twice& both) {
  Expr expr = both.expr;
  std::map<int, Expr> pieces;  // each axis of the space, in terms of axes that are left
  std::map<int, Number> sizes;
  for (int axis = 0; axis < 3; ++axis) {
    sizes[axis] = space.axes()[static_cast<std::size_t>(axis)];
    pieces[axis] = Expr::axis(axis, sizes[axis]);
  }
  std::map<int, std::pair<Number, int>> digits;  // each axis that is left: value of an old axis / first % size
  std::map<int, int> origin;
  for (int axis = 0; axis < 3; ++axis) digits[axis] = {1, axis};
  int fresh = 3;
  while (const auto split = index::useful_split(expr)) {
    const Number size = sizes.at(split->axis);
    if (split->factor <= 1 || split->factor >= size || size % split->factor != 0) {
      return fmt::format("{}: axis {} of size {} cannot be split by {}.", index::to_text(expr), split->axis, size,
                         split->factor);
    }
    const auto [unit, old] = digits.at(split->axis);
    sizes[fresh] = size / split->factor;
    sizes[fresh + 1] = split->factor;
    digits[fresh] = {unit * split->factor, old};
    digits[fresh + 1] = {unit, old};
    const Expr both_axes = Expr::axis(fresh, sizes[fresh]) * split->factor + Expr::axis(fresh + 1, sizes[fresh + 1]);
    fresh += 2;
    expr = index::substitute(expr, {{split->axis, both_axes}});
    if (index::depends_on(expr, split->axis))
      return fmt::format("{} still holds axis {}.", index::to_text(expr), split->axis);
  }
  for (std::size_t i = 0; i < both.values.size(); ++i) {
    const Space::Point& point = space.points()[i];
    std::map<int, Number> axes;
    for (const auto& [axis, digit] : digits) axes[axis] = point.axes.at(digit.second) / digit.first % sizes.at(axis);
    const Number got = index::evaluate(expr, axes, point.data);
    if (got != both.values[i]) {
      return fmt::format("Split, {} became {}, which is {}, not {}.", index::to_text(both.expr), index::to_text(expr),
                         got, both.values[i]);
    }
  }
  return {};
}

/// If it says that it covers, it does: every value of 0 .. count-1 once.
std::string check_covers(const Space& space, const Twice& both) {
  const std::vector<int> axes = index::axes_of(both.expr);
  if (!index::data_of(both.expr).empty()) return {};
  Number count = 1;
  for (const int axis : axes) count *= space.axes()[static_cast<std::size_t>(axis)];
  std::vector<int> seen(static_cast<std::size_t>(count), 0);
  bool covers = true;
  for (std::size_t i = 0; i < both.values.size(); ++i) {
    const auto is_free = [&](const auto& value) {
      return value.second != 0 && !index::depends_on(both.expr, value.first);
    };
    const auto& point = space.points()[i].axes;
    if (std::any_of(point.begin(), point.end(), is_free) || space.points()[i].data.at(0) != 0) continue;
    const Number value = both.values[i];
    covers = covers && value >= 0 && value < count && seen[static_cast<std::size_t>(value)]++ == 0;
  }
  if (index::covers(both.expr, count) && !covers)
    return fmt::format("{} does not cover {}.", index::to_text(both.expr), count);
  if (index::covers(both.expr, count + 1))
    return fmt::format("{} does not cover {}.", index::to_text(both.expr), count + 1);
  return {};
}

std::string check_expression(Random& random) {
  const Space space = random_space(random);
  const Twice both = random_expression(random, space);
  std::string fault = both.difference(space);
  if (fault.empty()) fault = check_congruence(both);
  for (int axis = 0; axis < 3 && fault.empty(); ++axis) fault = check_axis(space, both.expr, axis);
  if (fault.empty()) fault = check_splits(space, both);
  if (fault.empty()) fault = check_covers(space, both);
  return fault;
}

/// Substitution is evaluation in two steps.
std::string check_substitution(Random& random) {
  const Space space = random_space(random);
  // What replaces an axis must keep to its range: the rules have used it.
  std::map<int, Twice> values;
  for (int axis = 0; axis < 3; ++axis) {
    const Number size = space.axes()[static_cast<std::size_t>(axis)];
    if (random.chance(70)) values.emplace(axis, random_expression(random, space) % size);
  }
  const Twice before = random_expression(random, space);
  std::map<int, Expr> replacements;
  for (const auto& [axis, value] : values) replacements.emplace(axis, value.expr);
  Twice after{index::substitute(before.expr, replacements), {}};
  for (std::size_t i = 0; i < space.points().size(); ++i) {
    Space::Point point = space.points()[i];
    for (const auto& [axis, value] : values) point.axes[axis] = value.values[i];
    after.values.push_back(index::evaluate(before.expr, point.axes, point.data));
  }
  const std::string fault = after.difference(space);
  return fault.empty() ? "" : fmt::format("{} out of {}", fault, index::to_text(before.expr));
}

TEST(IndexFuzz, ExpressionsAndTheirFacts) {
  for (const std::uint64_t seed : seeds(2000)) {
    Random random(seed);
    ASSERT_EQ(check_expression(random), "") << replay(seed);
  }
}

TEST(IndexFuzz, SubstitutionIsEvaluationInTwoSteps) {
  for (const std::uint64_t seed : seeds(2000)) {
    Random random(seed);
    ASSERT_EQ(check_substitution(random), "") << replay(seed);
  }
}

/// What the bytes choose; the first, which of the two.
bool is_right(const std::string& bytes) {
  Random random{std::string_view(bytes)};
  const std::string wrong = random.below(2) == 0 ? check_expression(random) : check_substitution(random);
  if (!wrong.empty()) fault(wrong);
  return true;
}

}  // namespace
}  // namespace vkfuse::test

VKFUSE_FUZZER(Index, vkfuse::test::is_right, nullptr, 500)
