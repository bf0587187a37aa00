// Reductions and scans: values against loops, bounds against sums added up in other orders.
#include "reference/reduction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/numerics.hpp"
#include "unit/reference/evaluated.hpp"

namespace vkfuse::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Dense drawn(Sizes sizes, std::uint64_t seed) {
  Dense dense = counted(std::move(sizes));
  Random random(seed);
  for (double& element : dense.elements) element = static_cast<double>(random.below(17)) / 4 - 2;
  return dense;
}

struct Reduction {
  const char* op;
  double start;
  double (*join)(double, double);
};
const Reduction kReductions[] = {{"reduce_sum", 0, [](double a, double b) { return a + b; }},
                                 {"reduce_prod", 1, [](double a, double b) { return a * b; }},
                                 {"reduce_max", -HUGE_VAL, [](double a, double b) { return std::max(a, b); }},
                                 {"reduce_min", HUGE_VAL, [](double a, double b) { return std::min(a, b); }}};

TEST(ReferenceReductions, OverEverySetOfAxes) {
  const Dense x = drawn({3, 4, 5}, 1);
  for (const Reduction& one : kReductions) {
    for (unsigned set = 1; set < 8; ++set) {
      Dense wanted;
      std::vector<int> axes;
      for (int axis = 0; axis < 3; ++axis) {
        if ((set >> axis & 1) != 0) {
          axes.push_back(axis);
        } else {
          wanted.sizes.push_back(x.sizes[static_cast<std::size_t>(axis)]);
        }
      }
      each(wanted.sizes, [&](const At&) { wanted.elements.push_back(one.start); });
      each(x.sizes, [&](const At& at) {
        At left;
        for (std::size_t axis = 0; axis < 3; ++axis) {
          if ((set >> axis & 1) == 0) left.push_back(at[axis]);
        }
        wanted.at(left) = one.join(wanted.at(left), x.at(at));
      });
      const auto y = evaluated(
          {"input \"x\" : f32[3, 4, 5]",
           fmt::format("{} axes=[{}] %0 : f32[{}]", one.op, fmt::join(axes, ", "), fmt::join(wanted.sizes, ", "))},
          Inputs().add("x", floats(x)));
      expect_each(
          y, wanted.sizes, [&](const At& at) { return wanted.at(at); }, one.op);
    }
  }
}

TEST(ReferenceReductions, MeanAnyAll) {
  const Dense x = drawn({3, 8}, 2);
  const auto y =
      evaluated({"input \"x\" : f32[3, 8]", "reduce_mean axes=[1] %0 : f32[3]"}, Inputs().add("x", floats(x)));
  expect_each(y, {3}, [&](const At& at) {
    double sum = 0;
    for (std::int64_t i = 0; i < 8; ++i) sum += x.at({at[0], i});
    return sum / 8;
  });
  const std::vector<std::uint8_t> bits = {0, 0, 0, 1, 0, 1, 1, 1, 1};
  const Inputs inputs = Inputs().add("b", bits);
  EXPECT_EQ(evaluated({"input \"b\" : bool[3, 3]", "reduce_any axes=[1] %0 : bool[3]"}, inputs).column.integer,
            (std::vector<std::int64_t>{0, 1, 1}));
  EXPECT_EQ(evaluated({"input \"b\" : bool[3, 3]", "reduce_all axes=[1] %0 : bool[3]"}, inputs).column.integer,
            (std::vector<std::int64_t>{0, 0, 1}));
}

TEST(ReferenceReductions, TheMeanOfEqualElementsIsExact) {
  const auto mean = [](std::vector<float> x) {
    return evaluated({fmt::format("input \"x\" : f32[{}]", x.size()), "reduce_mean axes=[0] %0 : f32[]"},
                     Inputs().add("x", x))
        .column;
  };
  for (const float number : {1000.1F, -100000.1F, 0.0F, 1e-20F}) {
    const auto equal = mean(std::vector<float>(77, number));
    EXPECT_EQ(equal.value[0], static_cast<double>(number));
    EXPECT_EQ(equal.bound[0], 0) << number;
  }
  EXPECT_GT(mean({0, 0, 5}).bound[0], 0);
  EXPECT_GT(mean({1000.1F, 1000.1F, 1000.2F}).bound[0], 0);
  EXPECT_GT(mean({1e-30F, 1e-30F, 1e-30F}).bound[0], 0) << "what a sum loses there is too small to be kept";
}

TEST(ReferenceReductions, OneCertainBooleanDecidesForAllUndecidedOnes) {
  // floor(e^0) == 1 is undecided; the other elements are not.
  const auto with = [](const char* op, std::vector<float> x) {
    return evaluated({"input \"x\" : f32[2]", "exp %0 : f32[2]", "floor %1 : f32[2]", "constant {1} : f32[]",
                      "ge %2 %3 : bool[2]", fmt::format("{} axes=[0] %4 : bool[]", op)},
                     Inputs().add("x", x));
  };
  EXPECT_EQ(with("reduce_any", {0, 1}).column.bound[0], 0);
  EXPECT_EQ(with("reduce_any", {0, 1}).column.integer[0], 1);
  EXPECT_EQ(with("reduce_all", {0, -1}).column.bound[0], 0);
  EXPECT_EQ(with("reduce_all", {0, -1}).column.integer[0], 0);
  EXPECT_TRUE(std::isinf(with("reduce_any", {0, -1}).column.bound[0]));
  EXPECT_TRUE(std::isinf(with("reduce_all", {0, 1}).column.bound[0]));
}

TEST(ReferenceReductions, IntegersWrapToTheirWidth) {
  const std::vector<std::int8_t> x = {100, 100, 100, -7};
  const Inputs inputs = Inputs().add("x", x);
  const auto one = [&](const char* op) {
    return evaluated({"input \"x\" : i8[4]", fmt::format("{} axes=[0] %0 : i8[]", op)}, inputs).column.integer[0];
  };
  EXPECT_EQ(one("reduce_sum"), static_cast<std::int8_t>(293 & 0xff));
  EXPECT_EQ(one("reduce_prod"), static_cast<std::int8_t>(-7000000 & 0xff));
  EXPECT_EQ(one("reduce_max"), 100);
  EXPECT_EQ(one("reduce_min"), -7);
  const std::vector<std::uint64_t> large = {~0ULL, 3, 1ULL << 63};
  const Inputs wide = Inputs().add("x", large);
  EXPECT_EQ(evaluated({"input \"x\" : u64[3]", "reduce_max axes=[0] %0 : u64[]"}, wide).column.integer[0], -1);
  EXPECT_EQ(evaluated({"input \"x\" : u64[3]", "reduce_min axes=[0] %0 : u64[]"}, wide).column.integer[0], 3);
  EXPECT_EQ(evaluated({"input \"x\" : u64[3]", "argmax axes=[0] %0 : i32[]"}, wide).column.integer[0], 0);
  EXPECT_EQ(evaluated({"input \"x\" : u64[3]", "reduce_sum axes=[0] %0 : u64[]"}, wide).column.integer[0],
            std::numeric_limits<std::int64_t>::min() + 2);
}

TEST(ReferenceReductions, OfNothing) {
  const Inputs inputs = Inputs().add("x", std::vector<float>{}).size("n", 0);
  const auto one = [&](const char* op, const char* dtype, const char* result) {
    return evaluated({fmt::format("input \"x\" : {}[n, 2]", dtype), fmt::format("{} axes=[0] %0 : {}[2]", op, result)},
                     inputs);
  };
  EXPECT_EQ(one("reduce_sum", "f32", "f32").numbers(), (std::vector<double>{0, 0}));
  EXPECT_EQ(one("reduce_prod", "f16", "f16").numbers(), (std::vector<double>{1, 1}));
  EXPECT_TRUE(std::isnan(one("reduce_mean", "f32", "f32").numbers()[1]));
  EXPECT_EQ(one("reduce_max", "f32", "f32").numbers()[0], -HUGE_VAL);
  EXPECT_EQ(one("reduce_min", "f32", "f32").numbers()[0], HUGE_VAL);
  EXPECT_EQ(one("reduce_max", "i16", "i16").numbers()[0], -32768);
  EXPECT_EQ(one("reduce_min", "u8", "u8").numbers()[0], 255);
  EXPECT_EQ(one("reduce_any", "bool", "bool").numbers()[0], 0);
  EXPECT_EQ(one("reduce_all", "bool", "bool").numbers()[0], 1);
}

TEST(ReferenceReductions, NaNAndInfinity) {
  const std::vector<float> x = {1, kNaN, kInf, 2, kInf, -kInf, 3, -kInf, 4, kInf, 0, 5};
  const Inputs inputs = Inputs().add("x", x);
  const auto rows = [&](const char* op) {
    return evaluated({"input \"x\" : f32[4, 3]", fmt::format("{} axes=[1] %0 : f32[4]", op)}, inputs);
  };
  expect_each(
      rows("reduce_sum"), {4},
      [](const At& at) {
        return std::vector<double>{kNaN, kNaN, -kInf, kInf}[static_cast<std::size_t>(at[0])];
      },
      "sum");
  expect_each(
      rows("reduce_mean"), {4},
      [](const At& at) {
        return std::vector<double>{kNaN, kNaN, -kInf, kInf}[static_cast<std::size_t>(at[0])];
      },
      "mean");
  expect_each(
      rows("reduce_prod"), {4},
      [](const At& at) {
        return std::vector<double>{kNaN, -kInf, -kInf, kNaN}[static_cast<std::size_t>(at[0])];
      },
      "prod");
  expect_each(
      rows("reduce_max"), {4},
      [](const At& at) {
        return std::vector<double>{kNaN, kInf, 4, kInf}[static_cast<std::size_t>(at[0])];
      },
      "max");
  expect_each(
      rows("reduce_min"), {4},
      [](const At& at) {
        return std::vector<double>{kNaN, -kInf, -kInf, 0}[static_cast<std::size_t>(at[0])];
      },
      "min");
}

TEST(ReferenceReductions, OverflowThatTheOrderDecides) {
  const auto one = [](const char* op, std::vector<float> x) {
    return evaluated({fmt::format("input \"x\" : f32[{}]", x.size()), fmt::format("{} axes=[0] %0 : f32[]", op)},
                     Inputs().add("x", x))
        .column;
  };
  EXPECT_TRUE(std::isinf(one("reduce_sum", {3e38F, 3e38F, -3e38F}).bound[0]));
  EXPECT_EQ(one("reduce_sum", {3e38F, 3e38F, 3e38F}).value[0], kInf);  // too large in every order
  EXPECT_EQ(one("reduce_sum", {3e38F, 3e38F, 3e38F}).bound[0], 0);
  EXPECT_EQ(one("reduce_mean", {3e38F, 3e38F}).value[0], kInf);  // the sum is too large before it is divided
  EXPECT_TRUE(std::isinf(one("reduce_sum", {kInf, -3e38F, -3e38F}).bound[0]));
  EXPECT_TRUE(std::isinf(one("reduce_prod", {1e30F, 1e30F, 1e-30F}).bound[0]));
  EXPECT_EQ(one("reduce_prod", {1e30F, -1e30F}).value[0], -kInf);
  EXPECT_TRUE(std::isinf(one("reduce_prod", {1e-30F, 1e-30F, kInf}).bound[0]));
  EXPECT_TRUE(std::isinf(one("reduce_prod", {1e30F, 1e30F, 0}).bound[0]));
  EXPECT_EQ(one("reduce_prod", {1e30F, -4, 0}).bound[0], 0);
  // 1e-30 * 1e-30 may be flushed before 1e30 brings it back.
  const auto vanished = one("reduce_prod", {1e-30F, 1e-30F, 1e30F});
  EXPECT_GE(vanished.bound[0], 1e-30);
}

/// Through a deep model bounds grow beyond f32 though no value does: what is computed from a sum needs its value.
TEST(ReferenceReductions, KeepTheValueOfWhatOnlyBoundsLetOverflow) {
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_prod"}) {
    reference::Reducer exact(ops::row(op).reduction, DType::f32, 4), wide(ops::row(op).reduction, DType::f32, 4);
    for (const double value : {1.0, 2.0, -0.5, 1.0}) {
      exact.add({value, 0, 0});
      wide.add({value, 0, 3e38});
    }
    EXPECT_NE(exact.result().real, 0) << op;
    EXPECT_EQ(wide.result().real, exact.result().real) << op;
    EXPECT_TRUE(std::isinf(wide.result().bound)) << op;
  }
}

TEST(ReferenceReductions, TheFirstOfEqualPositions) {
  const std::vector<float> x = {1, 3, 3, 0, -0.0F, 0, 2, kNaN, kNaN, -kInf, -kInf, -kInf};
  const Inputs inputs = Inputs().add("x", x);
  const auto most = evaluated({"input \"x\" : f32[4, 3]", "argmax axes=[1] %0 : i32[4]"}, inputs);
  const auto least = evaluated({"input \"x\" : f32[4, 3]", "argmin axes=[1] %0 : i32[4]"}, inputs);
  EXPECT_EQ(most.column.integer, (std::vector<std::int64_t>{1, 0, 1, 0}));
  EXPECT_EQ(least.column.integer, (std::vector<std::int64_t>{0, 0, 1, 0}));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(most.column.bound[i], 0) << i;
    EXPECT_EQ(least.column.bound[i], 0) << i;
  }
  const auto outer = evaluated({"input \"x\" : f32[4, 3]", "argmax axes=[0] %0 : i32[3]"}, inputs);
  EXPECT_EQ(outer.column.integer, (std::vector<std::int64_t>{2, 2, 2}));
}

TEST(ReferenceReductions, PositionsThatErrorsDecideAreUndecided) {
  const auto most = [](std::vector<float> x) {
    return evaluated({"input \"x\" : f32[3]", "exp %0 : f32[3]", "argmax axes=[0] %1 : i32[]"}, Inputs().add("x", x))
        .column;
  };
  EXPECT_EQ(most({1, 2, 1.5F}).integer[0], 1);
  EXPECT_EQ(most({1, 2, 1.5F}).bound[0], 0);
  EXPECT_TRUE(std::isinf(most({1, 2, 2}).bound[0]));           // computed twice, perhaps not alike
  EXPECT_TRUE(std::isinf(most({2, 2.0000003F, 1}).bound[0]));  // closer than exp is exact
  EXPECT_TRUE(std::isinf(most({2.0000005F, 2, 1}).bound[0]));
}

// The sums of devices: sequential, pairwise, and in chains that are as long as schedules may make them.
float added_up(std::vector<float> x, std::size_t lanes) {
  std::vector<float> partial(lanes, 0.0F);
  for (std::size_t i = 0; i < x.size(); ++i) partial[i % lanes] += x[i];
  while (partial.size() > 1) {
    std::vector<float> half((partial.size() + 1) / 2, 0.0F);
    for (std::size_t i = 0; i < partial.size(); ++i) half[i / 2] += partial[i];
    partial = half;
  }
  return partial[0];
}

TEST(ReferenceBounds, SumsInOtherOrdersStayWithin) {
  Random random(11);
  double worst = 0;
  for (std::size_t n : {2, 3, 100, 1000, 5000, 70000}) {
    for (int round = 0; round < 6; ++round) {
      std::vector<float> x;
      for (std::size_t i = 0; i < n; ++i)
        x.push_back(static_cast<float>(random.between(round % 2 == 0 ? -1 : 0.5, 1)) * (i % 7 == 0 ? 1000.0F : 1.0F));
      const auto y =
          evaluated({fmt::format("input \"x\" : f32[{}]", n), "reduce_sum axes=[0] %0 : f32[]"}, Inputs().add("x", x))
              .column;
      double magnitude = 0;
      for (float each : x) magnitude += std::abs(static_cast<double>(each));
      EXPECT_NEAR(y.bound[0],
                  static_cast<double>(longest_sum_chain(static_cast<std::int64_t>(n))) * 0x1p-23 * magnitude,
                  1e-9 * magnitude);
      for (std::size_t lanes : {std::size_t{1}, std::size_t{2}, std::size_t{64}, std::size_t{1024}}) {
        const std::size_t chain = n / lanes + 12;
        if (n >= 1024 && chain > static_cast<std::size_t>(longest_sum_chain(static_cast<std::int64_t>(n)))) continue;
        const double error = std::abs(static_cast<double>(added_up(x, lanes)) - y.value[0]);
        EXPECT_LE(error, y.bound[0]) << n << " in " << lanes;
        worst = std::max(worst, error / y.bound[0]);
      }
    }
  }
  EXPECT_GT(worst, 0);
}

TEST(ReferenceBounds, SumsCarryTheBoundsOfTheirOperands) {
  const auto y = evaluated({"input \"x\" : f32[4]", "exp %0 : f32[4]", "reduce_sum axes=[0] %1 : f32[]"},
                           Inputs().add("x", std::vector<float>{10, 10, 10, 10}))
                     .column;
  const auto one =
      evaluated({"input \"x\" : f32[1]", "exp %0 : f32[1]"}, Inputs().add("x", std::vector<float>{10})).column;
  EXPECT_GE(y.bound[0], 4 * one.bound[0]);
  EXPECT_LE(y.bound[0], 4 * one.bound[0] + 4 * 0x1p-23 * 4 * 22027);
  const auto mean = evaluated({"input \"x\" : f32[4]", "exp %0 : f32[4]", "reduce_mean axes=[0] %1 : f32[]"},
                              Inputs().add("x", std::vector<float>{10, 10, 10, 10}))
                        .column;
  EXPECT_GE(mean.bound[0], y.bound[0] / 4);
  EXPECT_LE(mean.bound[0], y.bound[0] / 4 + 3 * 0x1p-23 * 22027);
  const auto most = evaluated({"input \"x\" : f32[2]", "exp %0 : f32[2]", "reduce_max axes=[0] %1 : f32[]"},
                              Inputs().add("x", std::vector<float>{10, 9}))
                        .column;
  EXPECT_NEAR(most.bound[0], one.bound[0], 1e-10);
}

TEST(ReferenceBounds, ProductsInOtherOrdersStayWithin) {
  Random random(12);
  for (std::size_t n : {2, 10, 100, 400}) {
    std::vector<float> x;
    for (std::size_t i = 0; i < n; ++i)
      x.push_back(static_cast<float>(random.between(0.8, 1.25)) * (random.chance(50) ? 1.0F : -1.0F));
    const auto y =
        evaluated({fmt::format("input \"x\" : f32[{}]", n), "reduce_prod axes=[0] %0 : f32[]"}, Inputs().add("x", x))
            .column;
    std::vector<float> sorted = x;
    std::sort(sorted.begin(), sorted.end());
    for (const auto& order : {x, sorted}) {
      float product = 1;
      for (float each : order) product *= each;
      EXPECT_LE(std::abs(static_cast<double>(product) - y.value[0]), y.bound[0]);
    }
    EXPECT_LE(y.bound[0], 2 * static_cast<double>(n) * 0x1p-23 * std::abs(y.value[0]));
  }
}

TEST(ReferenceBounds, HalfIsAddedUpInF32AndRoundedOnce) {
  const std::vector<std::uint16_t> x(2048, ops::f16_from(1.0));
  const auto y = evaluated({"input \"x\" : f16[2048]", "reduce_sum axes=[0] %0 : f16[]"}, Inputs().add("x", x)).column;
  EXPECT_EQ(y.value[0], 2048);
  EXPECT_GE(y.bound[0], 2048 * 0x1p-11);
  EXPECT_LE(y.bound[0], 2048 * 0x1p-11 + 2048 * 1056 * 0x1p-23 + 1e-6);
  const auto most =
      evaluated({"input \"x\" : f16[2048]", "reduce_max axes=[0] %0 : f16[]"}, Inputs().add("x", x)).column;
  EXPECT_EQ(most.bound[0], 0);  // one of the elements as it is
}

TEST(ReferenceBounds, DoublesAreAddedMoreExactlyThanDevicesAdd) {
  std::vector<double> x;
  for (int i = 0; i < 20000; ++i) x.push_back(i % 2 == 0 ? 1e16 : 0.25);
  for (int i = 0; i < 20000; i += 2) x.push_back(-1e16);
  const auto y = evaluated({fmt::format("input \"x\" : f64[{}]", x.size()), "reduce_sum axes=[0] %0 : f64[]"},
                           Inputs().add("x", x))
                     .column;
  EXPECT_EQ(y.value[0], 2500);
}

/// The product's bound is 1.4 times the distance of two doubles there: 700 with it added is rounded.
TEST(ReferenceBounds, OfDoublesAreNotRoundedAway) {
  const double root = 26.457513;
  const auto y = evaluated({"input \"x\" : f64[1]", "mul %0 %0 : f64[1]", "exp %1 : f64[1]"},
                           Inputs().add("x", std::vector<double>{root}))
                     .column;
  EXPECT_GE(y.bound[0], y.value[0] * root * root * 0x1p-52);
}

/// A device may compare a subnormal as zero: NVIDIA's took the first of 7e-40 and 0 for the smaller.
TEST(ReferenceBounds, AnExtremeOfSubnormalsMayBeAnyOfThem) {
  const auto bound_of = [](const std::string& op, const std::vector<float>& x) {
    return evaluated({"input \"x\" : f32[2]", op}, Inputs().add("x", x)).column.bound[0];
  };
  const std::string least = "reduce_min axes=[0] %0 : f32[]", first = "argmin axes=[0] %0 : i32[]";
  EXPECT_GE(bound_of(least, {7e-40F, 0}), 7e-40);
  EXPECT_LT(bound_of(least, {7e-40F, 0}), 0x1p-124);
  EXPECT_EQ(bound_of(least, {7e-40F, -1}), 0);
  EXPECT_EQ(bound_of(least, {1, 0}), 0);
  EXPECT_EQ(bound_of(first, {7e-40F, 0}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(bound_of(first, {7e-40F, -1}), 0);
  EXPECT_EQ(bound_of(first, {1, 0}), 0);
}

// Scans. ------------------------------------------------------------------------------------------

TEST(ReferenceScans, EveryDirectionOverEveryAxis) {
  const Dense x = drawn({3, 5, 4}, 3);
  const std::vector<std::string> names = {"cumsum", "cumprod", "cummax", "cummin"};
  for (std::size_t op = 0; op < names.size(); ++op) {
    for (int axis = 0; axis < 3; ++axis) {
      for (int flags = 0; flags < 4; ++flags) {
        const bool exclusive = (flags & 1) != 0;
        const bool reverse = (flags & 2) != 0;
        const auto y = evaluated(
            {"input \"x\" : f32[3, 5, 4]",
             fmt::format("{} axis={} exclusive={} reverse={} %0 : f32[3, 5, 4]", names[op], axis, exclusive, reverse)},
            Inputs().add("x", floats(x)));
        const auto a = static_cast<std::size_t>(axis);
        expect_each(
            y, x.sizes,
            [&](const At& at) {
              double result = kReductions[op].start;
              for (std::int64_t i = 0; i < x.sizes[a]; ++i) {
                const bool before = reverse ? i > at[a] : i < at[a];
                At from = at;
                from[a] = i;
                if (before || (i == at[a] && !exclusive)) result = kReductions[op].join(result, x.at(from));
              }
              return result;
            },
            y.column.bound.empty() ? "" : names[op]);
      }
    }
  }
}

TEST(ReferenceScans, IntegersNaNAndNothing) {
  const std::vector<std::uint8_t> bytes = {200, 100, 3};
  EXPECT_EQ(evaluated({"input \"x\" : u8[3]", "cumsum axis=0 exclusive=false reverse=false %0 : u8[3]"},
                      Inputs().add("x", bytes))
                .column.integer,
            (std::vector<std::int64_t>{200, 44, 47}));
  EXPECT_EQ(evaluated({"input \"x\" : u8[3]", "cummin axis=0 exclusive=true reverse=false %0 : u8[3]"},
                      Inputs().add("x", bytes))
                .column.integer,
            (std::vector<std::int64_t>{255, 200, 100}));
  const auto y = evaluated({"input \"x\" : f32[3]", "cummax axis=0 exclusive=false reverse=false %0 : f32[3]"},
                           Inputs().add("x", std::vector<float>{1, kNaN, 2}));
  EXPECT_EQ(y.column.value[0], 1);
  EXPECT_TRUE(std::isnan(y.column.value[1]) && std::isnan(y.column.value[2]));
  EXPECT_TRUE(evaluated({"input \"x\" : f32[0]", "cumsum axis=0 exclusive=false reverse=false %0 : f32[0]"},
                        Inputs().add("x", std::vector<float>{}))
                  .numbers()
                  .empty());
}

TEST(ReferenceScans, BoundsGrowWithWhatIsAdded) {
  const auto y = evaluated({"input \"x\" : f32[4]", "cumsum axis=0 exclusive=false reverse=false %0 : f32[4]"},
                           Inputs().add("x", std::vector<float>{8, -8, 8, 8}))
                     .column;
  EXPECT_EQ(y.value, (std::vector<double>{8, 0, 8, 16}));
  EXPECT_EQ(y.bound[0], 0);
  EXPECT_NEAR(y.bound[1], 4 * 0x1p-23 * 16, 1e-12);
  EXPECT_NEAR(y.bound[3], 4 * 0x1p-23 * 32, 1e-12);
}

}  // namespace
}  // namespace vkfuse::test
