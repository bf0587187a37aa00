// Every rewrite rule, by brute force over small numbers of either sign, and the form it ends in.
#include "points.hpp"

#include "base/error.hpp"

namespace vkfuse::test {
namespace {

#define EXPECT_RIGHT(space, both) EXPECT_EQ((both).difference(space), "")

std::vector<Number> range(Number first, Number last) {
  std::vector<Number> all;
  for (Number value = first; value <= last; ++value) all.push_back(value);
  return all;
}

TEST(IndexRules, LinearFormsOverEveryDivisor) {
  const Space space({5, 3});
  const Twice x = Twice::axis(space, 0);
  const Twice y = Twice::axis(space, 1);
  for (const Number a : range(-7, 7)) {
    for (const Number b : range(-7, 7)) {
      for (const Number k : range(-9, 9)) {
        const Twice sum = x * a + y * b + k;
        for (const Number d : range(1, 8)) {
          ASSERT_EQ((sum / d).difference(space), "") << fmt::format("({}*a0 + {}*a1 + {}) / {}", a, b, k, d);
          ASSERT_EQ((sum % d).difference(space), "") << fmt::format("({}*a0 + {}*a1 + {}) % {}", a, b, k, d);
        }
      }
    }
  }
}

TEST(IndexRules, MultiplesOfTheDivisorLeave) {
  const Expr x = Expr::axis(0, 50);
  const Expr y = Expr::axis(1, 50);
  for (const Number d : range(2, 6)) {
    for (const Number a : range(-3, 3)) {
      for (const Number k : range(-9, 9)) {
        const Expr sum = x * (a * d) + y + k * d + 1;
        EXPECT_EQ(floor_div(sum, d), x * a + floor_div(y + 1, d) + k);
        EXPECT_EQ(floor_mod(sum, d), floor_mod(y + 1, d));
        EXPECT_FALSE(has_division(floor_div(x * (a * d) + k, d)));
        EXPECT_EQ(floor_mod(x * (a * d) + k, d), Expr(naive_quotient(k, d) * -d + k));
      }
    }
  }
}

TEST(IndexRules, OnePeriodOfTheDivisorNeedsNoDivision) {
  for (const Number size : range(1, 6)) {
    for (const Number d : range(1, 8)) {
      for (const Number k : range(-17, 17)) {
        const Space space({size});
        const Twice x = Twice::axis(space, 0) + k;
        EXPECT_RIGHT(space, x / d);
        EXPECT_RIGHT(space, x % d);
        const bool one_period = naive_quotient(k, d) == naive_quotient(k + size - 1, d);
        EXPECT_EQ(has_division((x / d).expr), !one_period && d > 1) << index::to_text((x / d).expr);
        EXPECT_EQ(has_division((x % d).expr), !one_period && d > 1) << index::to_text((x % d).expr);
      }
    }
  }
}

TEST(IndexRules, ACommonFactorLeavesWithTheSmallRest) {
  // (g * A + r) / (g * d) with r = y + 2 * z + c in [0, g).
  const Space space({9, 2, 3});
  const Twice x = Twice::axis(space, 0);
  const Twice rest = Twice::axis(space, 1) + Twice::axis(space, 2) * 2;  // at most 5
  for (const Number g : range(6, 9)) {
    for (const Number d : range(2, 4)) {
      for (const Number a : range(-5, 5)) {
        for (const Number c : range(0, g - 6)) {
          for (const Number shift : range(-2, 2)) {
            const Twice sum = x * (a * g) + rest + (c + shift * g);
            const Twice whole = x * a + shift;
            EXPECT_RIGHT(space, sum / (g * d));
            EXPECT_EQ((sum / (g * d)).expr, (whole / d).expr);
            EXPECT_RIGHT(space, sum % (g * d));
            EXPECT_EQ((sum % (g * d)).expr, ((whole % d) * g + rest + c).expr);
          }
        }
      }
    }
  }
}

TEST(IndexRules, ACommonFactorStaysWithARestThatCarries) {
  const Space space({9, 5});
  const Twice sum = Twice::axis(space, 0) * 4 + Twice::axis(space, 1);
  EXPECT_RIGHT(space, sum / 8);
  EXPECT_EQ(index::to_text((sum / 8).expr), "((4*a0 + a1)/8)");
  EXPECT_EQ(index::to_text((sum % 8).expr), "((4*a0 + a1)%8)");
}

TEST(IndexRules, QuotientsOfQuotients) {
  const Space space({60, 3});
  const Twice y = Twice::axis(space, 1);
  for (const Number k : range(-7, 7)) {
    const Twice x = Twice::axis(space, 0) + k;
    for (const Number a : range(1, 6)) {
      for (const Number b : range(1, 6)) {
        EXPECT_EQ((x / a / b).expr, (x / (a * b)).expr);
        EXPECT_EQ(((x / a + k) / b).expr, ((x + k * a) / (a * b)).expr);
        EXPECT_EQ(((x / a + y * -2) / b).expr, ((x + y * (-2 * a)) / (a * b)).expr);
        EXPECT_RIGHT(space, x / a / b);
        EXPECT_RIGHT(space, (x / a + y * -2) / b);
        EXPECT_RIGHT(space, ((x / a) * -1 + y) / b);
        EXPECT_RIGHT(space, ((x / a) * 2 + y) / b);
      }
    }
  }
}

TEST(IndexRules, QuotientsAndRemaindersOfEachOther) {
  const Space space({70});
  for (const Number k : range(-30, 3)) {
    const Twice x = Twice::axis(space, 0) + k;
    for (const Number a : range(1, 5)) {
      for (const Number b : range(1, 5)) {
        EXPECT_EQ(((x % (a * b)) / a).expr, ((x / a) % b).expr);
        EXPECT_RIGHT(space, (x % (a * b)) / a);
        EXPECT_RIGHT(space, (x / a) % b);
        EXPECT_EQ(((x % (a * b)) % a).expr, (x % a).expr);
        EXPECT_RIGHT(space, (x % (a * b)) % a);
        EXPECT_RIGHT(space, (x % a) % b);
        EXPECT_RIGHT(space, (x % a) / b);
        for (const Number c : range(-3, 3)) EXPECT_RIGHT(space, (x + (x % (a * b)) * c) % a);
      }
    }
  }
  EXPECT_EQ(index::to_text(floor_mod(floor_div(Expr::axis(0, 70), 3), 4)), "((a0/3)%4)");
}

TEST(IndexRules, DigitsJoin) {
  const Space space({48, 6});
  const Twice y = Twice::axis(space, 1);
  for (const Number k : range(-5, 5)) {
    const Twice x = Twice::axis(space, 0) + k;
    for (const Number a : range(2, 4)) {
      for (const Number b : range(2, 4)) {
        for (const Number c : {-3, -1, 1, 2}) {
          const Number ab = a * b;
          const Twice low = (x % a) * c;
          EXPECT_EQ(((x / a) * (a * c) + low).expr, (x * c).expr);
          EXPECT_EQ((y * c + low + (x / a) * (a * c)).expr, (y * c + x * c).expr);
          EXPECT_EQ((((x / a) % b) * (a * c) + low).expr, ((x % ab) * c).expr);
          EXPECT_RIGHT(space, ((x / a) % b) * (a * c) + low);
          EXPECT_EQ(((x / ab) * (ab * c) + low + ((x / a) % b) * (a * c)).expr, (x * c).expr);
          EXPECT_EQ((((y + x / a) % b) * (a * c) + low).expr, ((y * a + x) % ab * c).expr);
          EXPECT_RIGHT(space, ((y + x / a) % b) * (a * c) + low);
          EXPECT_EQ((((y + x / a) / b) * (b * c) + ((y + x / a) % b) * c).expr, ((y + x / a) * c).expr);
          const Twice upper = ((y + x / a) / b) * (ab * c) + ((y + x / a) % b) * (a * c);
          EXPECT_EQ((upper + low).expr, (y * (a * c) + x * c).expr);
        }
      }
    }
  }
}

TEST(IndexRules, DigitsOfOtherNumbersDoNotJoin) {
  const Space space({48, 48});
  const Twice x = Twice::axis(space, 0);
  const Twice y = Twice::axis(space, 1);
  for (const Twice& sum :
       {(x / 4) * 4 + y % 4, ((x / 4) % 2) * 4 + y % 4, (x / 4) * 4 + x % 3, (x / 3) * 4 + x % 4, (x / 4) * 3 + x % 4,
        ((x / 3) % 2) * 4 + x % 4, (x / 4) * -4 + x % 4, x - (y / 4) * 4, x * 2 - (x / 4) * 4, x - y % 4,
        x * -1 - x % 4, ((x / 2) % 2) * 4 + x % 4, (((x / 4) * 3) % 4) * 4 + x % 4, x + (x / 4) * -5}) {
    EXPECT_RIGHT(space, sum);
    EXPECT_EQ(sum.expr.terms().size(), 2U) << index::to_text(sum.expr);
  }
}

TEST(IndexRules, WhatIsLeftOfANumber) {
  const Space space({30, 4});
  const Twice y = Twice::axis(space, 1);
  for (const Number k : range(-9, 9)) {
    const Twice x = Twice::axis(space, 0) * 3 + y * -1 + k;
    for (const Number a : range(2, 5)) {
      for (const Number c : {-2, 1, 3}) {
        EXPECT_RIGHT(space, x * c - (x / a) * (a * c));
        EXPECT_RIGHT(space, x * c - (x % a) * c);
      }
    }
  }
  const Expr x = Expr::axis(0, 30);
  EXPECT_EQ(index::to_text(x * 3 - floor_div(x, 4) * 12), "3*(a0%4)");
  EXPECT_EQ(index::to_text(floor_mod(x + 1, 4) - x), "-4*((a0 + 1)/4) + 1");
}

TEST(IndexForm, SumsAreSortedAndMerged) {
  const Expr a = Expr::axis(0, 5);
  const Expr b = Expr::axis(1, 5);
  const Expr d = Expr::data(0, 9);
  EXPECT_EQ(index::to_text(b + a * 4 + d * -2 + floor_div(a, 3) + floor_mod(b, 3) - 7),
            "4*a0 + a1 - 2*d0 + (a0/3) + (a1%3) - 7");
  EXPECT_EQ(b + a - b, a);
  EXPECT_EQ((a - a).as_axis(), std::nullopt);
  EXPECT_TRUE((a - a).is_constant(0));
  EXPECT_EQ(a.as_axis(), 0);
  EXPECT_EQ((a + 1).as_axis(), std::nullopt);
  EXPECT_EQ((a * 2).as_axis(), std::nullopt);
  EXPECT_EQ(d.as_axis(), std::nullopt);
  EXPECT_EQ(index::to_text(Expr()), "0");
  EXPECT_EQ(index::to_text(Expr(-3)), "-3");
  EXPECT_EQ(index::to_text(a * -1 + 2), "-a0 + 2");
  EXPECT_TRUE(Expr::axis(3, 1).is_constant(0));
  EXPECT_TRUE(Expr::data(3, 0).is_constant(0));
}

TEST(IndexForm, TheOrderIsTotalAndKnowsNoAddresses) {
  const auto all = [] {
    const Expr a = Expr::axis(0, 9);
    const Expr b = Expr::axis(1, 9);
    const Expr d = Expr::data(1, 9);
    return std::vector<Expr>{0,
                             1,
                             a,
                             b,
                             d,
                             a + 1,
                             a * 2,
                             a + b,
                             floor_div(a, 2),
                             floor_mod(a, 2),
                             floor_div(b, 2),
                             floor_div(a, 3),
                             floor_div(a + b, 3)};
  };
  const std::vector<Expr> first = all();
  const std::vector<Expr> second = all();
  for (std::size_t i = 0; i < first.size(); ++i) {
    for (std::size_t j = 0; j < first.size(); ++j) {
      EXPECT_EQ(first[i] == second[j], i == j);
      EXPECT_EQ(Expr::compare(first[i], second[j]), -Expr::compare(second[j], first[i]));
      for (const Expr& k : second) {
        EXPECT_TRUE(!(first[i] < second[j]) || !(second[j] < k) || first[i] < k);
      }
    }
  }
}

TEST(IndexForm, WhatDoesNotFit64BitsIsRefused) {
  constexpr Number huge = Number{1} << 62;
  const Expr x = Expr::axis(0, 1000);
  EXPECT_THROW(x * huge * 2, InternalError);
  EXPECT_THROW(x * huge + x * huge, InternalError);
  EXPECT_THROW(x + Expr(huge) + Expr(huge), InternalError);
  EXPECT_THROW(index::evaluate(x * huge, {{0, 2}}), InternalError);
  EXPECT_THROW(index::evaluate(x, {}), InternalError);
  EXPECT_THROW(floor_div(x, 0), InternalError);
  EXPECT_THROW(floor_mod(x, -2), InternalError);
  EXPECT_THROW(Expr::axis(0, 5) + Expr::axis(0, 6), InternalError);
}

TEST(IndexForm, LargeNumbersKeepTheirValues) {
  constexpr Number huge = Number{1} << 61;
  const Expr x = Expr::axis(0, 8);
  const Expr y = Expr::axis(1, 3);
  const auto at = [&](const Expr& expr, Number a, Number b) { return index::evaluate(expr, {{0, a}, {1, b}}); };
  for (const Number a : range(0, 1)) {
    for (const Number b : range(0, 2)) {
      const Number value = a * huge + b * 5 - 9;
      const Expr expr = x * huge + y * 5 - 9;  // its end is beyond 64 bits
      for (const Number d : {Number{2}, Number{3}, Number{1} << 40, huge, huge + huge / 2, 2 * huge, huge - 1}) {
        EXPECT_EQ(at(floor_div(expr, d), a, b), naive_quotient(value, d)) << d;
        EXPECT_EQ(at(floor_mod(expr, d), a, b), value - naive_quotient(value, d) * d) << d;
        EXPECT_EQ(at(floor_div(floor_div(expr, 7) + y, d), a, b), naive_quotient(naive_quotient(value, 7) + b, d)) << d;
        EXPECT_EQ(at(floor_mod(floor_mod(expr, d) + y, 6), a, b), (value - naive_quotient(value, d) * d + b) % 6) << d;
      }
    }
  }
}

// Rules that would multiply beyond 64 bits are left out; the sanitizers see one that is not.
TEST(IndexForm, DigitsWithLargeCoefficientsStayApart) {
  constexpr Number huge = Number{1} << 61;
  const Space space({4, 2});
  const Twice x = Twice::axis(space, 0);
  const Twice y = Twice::axis(space, 1);
  const Twice digit = (x + y * 3) % 4;
  const Twice quotient = (x + y * 3) / 4;
  for (const Number factor : {huge, -huge}) {
    EXPECT_RIGHT(space, digit * factor + quotient);
    EXPECT_RIGHT(space, quotient * factor + digit);
    EXPECT_RIGHT(space, quotient * factor - x - y * 3);
    EXPECT_RIGHT(space, digit * factor - x - y * 3);
    EXPECT_RIGHT(space, ((x + y * 3 + 1) % 3) * factor + x * -1);
  }
  EXPECT_RIGHT(space, digit + ((quotient + x * (huge - 1)) % huge) * 4);
  EXPECT_RIGHT(space, (x + y * 3) % huge + ((x + y * 3) / huge) * huge);
  EXPECT_RIGHT(space, (x * (huge - 1) + y) % huge + ((x * (huge - 1) + y) / huge) * huge);
  // The difference of these two operands does not fit.
  constexpr Number most = std::numeric_limits<Number>::max();
  const Expr large = y.expr * (most - 1);
  const Expr sum = index::floor_mod(x.expr - large, most) + index::floor_div(x.expr + large, most) * most;
  EXPECT_EQ(sum.terms().size(), 2U) << index::to_text(sum);
}

}  // namespace
}  // namespace vkfuse::test
