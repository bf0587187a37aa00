// Facts are true at every point, and as sharp as linear forms allow.
#include <numeric>

#include "points.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

using index::Interval;

constexpr Number kLowest = std::numeric_limits<Number>::min();
constexpr Number kHighest = std::numeric_limits<Number>::max();

/// Three axes with random coefficients of either sign.
struct Linear {
  Space space;
  Twice sum;
};
Linear random_linear(Random& random) {
  const auto size = [&] { return static_cast<Number>(1 + random.below(6)); };
  Linear linear{Space({size(), size(), size()}), {}};
  linear.sum = Twice::constant(linear.space, static_cast<Number>(random.below(65)) - 32);
  for (int axis = 0; axis < 3; ++axis) {
    linear.sum = linear.sum + Twice::axis(linear.space, axis) * (static_cast<Number>(random.below(33)) - 16);
  }
  return linear;
}

TEST(IndexFacts, LinearFormsHaveTightIntervals) {
  Random random(1);
  for (int round = 0; round < 500; ++round) {
    const Linear linear = random_linear(random);
    const auto [low, high] = std::ranges::minmax(linear.sum.values);
    EXPECT_EQ(index::interval_of(linear.sum.expr), (Interval{low, high})) << index::to_text(linear.sum.expr);
    for (const Number divisor : {1, 2, 3, 7, 40}) {
      const Interval quotient = index::interval_of(index::floor_div(linear.sum.expr, divisor));
      EXPECT_LE(quotient.low, naive_quotient(low, divisor));
      EXPECT_GE(quotient.high, naive_quotient(high, divisor));
    }
  }
}

TEST(IndexFacts, IntervalsOfQuotientsAndRemainders) {
  const Expr x = Expr::axis(0, 50);
  EXPECT_EQ(index::interval_of(index::floor_div(x - 3, 4)), (Interval{-1, 11}));
  EXPECT_EQ(index::interval_of(index::floor_mod(x - 3, 4)), (Interval{0, 3}));
  EXPECT_EQ(index::interval_of(index::floor_div(x * -1, 4) * -2), (Interval{0, 26}));
  EXPECT_EQ(index::interval_of(Expr::data(0, 7) * 2 + 1), (Interval{1, 13}));
}

TEST(IndexFacts, IntervalsSaturate) {
  const Number huge = Number{1} << 61;
  const Expr x = Expr::axis(0, 9);
  EXPECT_EQ(index::interval_of(x * huge), (Interval{0, kHighest}));
  EXPECT_EQ(index::interval_of(x * -huge + 5), (Interval{kLowest + 5, 5}));
  EXPECT_EQ(index::interval_of(x * -huge - 5), (Interval{kLowest, -5}));
  // A saturated end is no end: the quotient's is not sharper.
  EXPECT_EQ(index::interval_of(index::floor_div(x * huge + Expr::axis(1, 9), huge + 1)).high, kHighest);
  EXPECT_EQ(index::interval_of(index::floor_div(x * -huge + Expr::axis(1, 9), huge + 1)).low, kLowest);
}

TEST(IndexFacts, LinearFormsHaveTheLargestModulus) {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    const Linear linear = random_linear(random);
    Number modulus = 0;
    Number common = 0;
    for (const Number value : linear.sum.values) {
      modulus = std::gcd(modulus, value - linear.sum.values[0]);
      common = std::gcd(common, value);
    }
    const index::Congruence congruence = index::congruence_of(linear.sum.expr);
    EXPECT_EQ(congruence.modulus, modulus) << index::to_text(linear.sum.expr);
    const Number first = linear.sum.values[0];
    EXPECT_EQ(congruence.remainder, modulus == 0 ? first : first - naive_quotient(first, modulus) * modulus);
    for (const Number limit : {1, 2, 8, 12}) {
      Number power = 1;
      while (power * 2 <= limit && common % (power * 2) == 0) power *= 2;
      EXPECT_EQ(index::alignment_of(linear.sum.expr, limit), power)
          << index::to_text(linear.sum.expr) << " up to " << limit;
    }
  }
}

// Common factors leave quotients and remainders, so that alignment is seen through them.
TEST(IndexFacts, AlignmentIsSeenThroughDivisions) {
  const Expr x = Expr::axis(0, 50);
  EXPECT_EQ(index::alignment_of(index::floor_mod(x * 8 + 4, 24), 16), 4);
  EXPECT_EQ(index::alignment_of(index::floor_mod(x * 8, 24) + index::floor_div(x, 3) * 16, 16), 8);
  EXPECT_EQ(index::alignment_of(index::floor_div(x * 16 + 3, 2) - 1, 16), 8);
  EXPECT_EQ(index::alignment_of(Expr(0), 16), 16);
  EXPECT_EQ(index::alignment_of(Expr(-12), 16), 4);
}

TEST(IndexFacts, WhatOccurs) {
  const Expr a = Expr::axis(4, 9);
  const Expr b = Expr::axis(68, 9);  // shares its bit with axis 4
  const Expr d = Expr::data(2, 9);
  const Expr expr = index::floor_mod(a + index::floor_div(d, 2), 5) + Expr::axis(1, 3);
  EXPECT_EQ(index::axes_of(expr), (std::vector<int>{1, 4}));
  EXPECT_EQ(index::data_of(expr), std::vector<int>{2});
  EXPECT_TRUE(index::depends_on(expr, 4));
  EXPECT_TRUE(index::depends_on(expr, 1));
  EXPECT_FALSE(index::depends_on(expr, 2));
  EXPECT_FALSE(index::depends_on(expr, 68));
  EXPECT_TRUE(index::depends_on(index::floor_div(b, 2), 68));
  EXPECT_TRUE(index::depends_on_data(expr));
  EXPECT_FALSE(index::depends_on_data(index::floor_div(a + b, 2)));
  EXPECT_EQ(index::axes_of(7), std::vector<int>{});
}

TEST(IndexFacts, Strides) {
  const Expr a = Expr::axis(0, 9);
  const Expr b = Expr::axis(1, 9);
  const Expr expr = a * 3 - b + index::floor_div(b, 2);
  EXPECT_EQ(index::stride_of(expr, 0), 3);
  EXPECT_EQ(index::stride_of(expr, 1), std::nullopt);
  EXPECT_EQ(index::stride_of(expr, 2), 0);
}

TEST(IndexFacts, Runs) {
  const auto run = [](const Expr& expr, int axis, Number size,
                      Number count) -> std::optional<std::pair<Number, Number>> {
    const auto found = index::run_along(expr, axis, size, count, 16);
    if (!found) return std::nullopt;
    return std::pair(found->stride, found->alignment);
  };
  using Answer = std::optional<std::pair<Number, Number>>;
  const Expr x = Expr::axis(0, 24);
  const Expr y = Expr::axis(1, 10);
  EXPECT_EQ(run(x + y * 24, 0, 24, 4), Answer({1, 4}));
  EXPECT_EQ(run(x + y * 6, 0, 24, 4), Answer({1, 2}));
  EXPECT_EQ(run(x + Expr::axis(64, 10) * 6, 0, 24, 4), Answer({1, 2}));  // shares its bit with axis 0
  EXPECT_EQ(run(x * 3, 0, 24, 8), Answer({3, 8}));
  EXPECT_EQ(run(y * 8, 0, 24, 4), Answer({0, 8}));
  EXPECT_EQ(run(x * -1 + 23, 0, 24, 4), Answer({-1, 1}));
  EXPECT_EQ(run(index::floor_div(x, 4) * 8 + index::floor_mod(x, 4), 0, 24, 4), Answer({1, 8}));
  EXPECT_EQ(run(index::floor_div(x, 4) * 8, 0, 24, 4), Answer({0, 8}));
  EXPECT_EQ(run(index::floor_div(x, 4) * 8, 0, 24, 2), Answer({0, 8}));
  EXPECT_EQ(run(index::floor_div(x, 4) * 8, 0, 24, 8), Answer());
  EXPECT_EQ(run(index::floor_mod(x, 6) + index::floor_div(x, 6) * 7, 0, 24, 4), Answer());
  EXPECT_EQ(run(index::floor_mod(x, 6) + index::floor_div(x, 6) * 8, 0, 24, 2), Answer({1, 2}));
  EXPECT_EQ(run(x * 2 + 4, 0, 24, 1), Answer({2, 2}));
  EXPECT_EQ(run(index::floor_div(x, 4) * 8, 0, 24, 1), Answer({0, 8}));
}

}  // namespace
}  // namespace vkfuse::test
