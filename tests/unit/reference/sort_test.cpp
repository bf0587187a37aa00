// Sorted positions: the order of a stable sort, and where errors dispute it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "unit/reference/evaluated.hpp"

namespace vkfuse::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(ReferenceSort, StableInBothDirections) {
  Random random(5);
  for (const bool descending : {false, true}) {
    for (std::int64_t count : {1, 4, 9}) {
      Dense x = counted({3, 9, 2});
      for (double& element : x.elements) element = static_cast<double>(random.below(5)) - 2;
      const auto y =
          evaluated({"input \"x\" : f32[3, 9, 2]",
                     fmt::format("argsort axis=1 descending={} count={} %0 : i32[3, {}, 2]", descending, count, count)},
                    Inputs().add("x", floats(x)));
      expect_each(y, {3, count, 2}, [&](const At& at) {
        std::vector<std::int64_t> order(9);
        std::iota(order.begin(), order.end(), 0);
        // By value, then by position: written as a key, not as a stable sort.
        std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
          const double left = x.at({at[0], a, at[2]}) * (descending ? -1 : 1);
          const double right = x.at({at[0], b, at[2]}) * (descending ? -1 : 1);
          return std::pair(left, a) < std::pair(right, b);
        });
        return static_cast<double>(order[static_cast<std::size_t>(at[1])]);
      });
    }
  }
}

TEST(ReferenceSort, NaNIsLargestAndZerosAreEqual) {
  const Inputs inputs = Inputs().add("x", std::vector<float>{0, kNaN, -0.0F, kInf, -kInf, kNaN, 0});
  EXPECT_EQ(
      evaluated({"input \"x\" : f32[7]", "argsort axis=0 descending=false count=7 %0 : i32[7]"}, inputs).column.integer,
      (std::vector<std::int64_t>{4, 0, 2, 6, 3, 1, 5}));
  const auto down =
      evaluated({"input \"x\" : f32[7]", "argsort axis=0 descending=true count=7 %0 : i32[7]"}, inputs).column;
  EXPECT_EQ(down.integer, (std::vector<std::int64_t>{1, 5, 3, 0, 2, 6, 4}));
  for (double bound : down.bound) EXPECT_EQ(bound, 0);
}

TEST(ReferenceSort, IntegersBySign) {
  EXPECT_EQ(evaluated({"input \"x\" : i8[3]", "argsort axis=0 descending=false count=3 %0 : i32[3]"},
                      Inputs().add("x", std::vector<std::int8_t>{1, -1, 0}))
                .column.integer,
            (std::vector<std::int64_t>{1, 2, 0}));
  EXPECT_EQ(evaluated({"input \"x\" : u64[3]", "argsort axis=0 descending=true count=3 %0 : i32[3]"},
                      Inputs().add("x", std::vector<std::uint64_t>{1, ~0ULL, 7}))
                .column.integer,
            (std::vector<std::int64_t>{1, 2, 0}));
}

TEST(ReferenceSort, RanksWithinTheBoundAreUndecided) {
  // exp of 2 and of 2.0000003 are closer than its error; the others are far apart.
  const auto sorted = [](std::vector<float> x, bool descending) {
    return evaluated(
               {fmt::format("input \"x\" : f32[{}]", x.size()), fmt::format("exp %0 : f32[{}]", x.size()),
                fmt::format("argsort axis=0 descending={} count={} %1 : i32[{}]", descending, x.size(), x.size())},
               Inputs().add("x", x))
        .column;
  };
  for (const bool descending : {false, true}) {
    const auto y = sorted({2, 5, 2.0000003F, 1}, descending);
    std::vector<bool> undecided;
    for (double bound : y.bound) undecided.push_back(std::isinf(bound));
    EXPECT_EQ(undecided, descending ? (std::vector<bool>{false, true, true, false})
                                    : (std::vector<bool>{false, true, true, false}));
    EXPECT_EQ(y.integer[descending ? 0 : 3], 1);
    EXPECT_EQ(y.integer[descending ? 3 : 0], 3);
  }
  // Equal values that are computed may come out unlike; equal values that are read do not.
  EXPECT_TRUE(std::isinf(sorted({1, 1}, false).bound[0]));
  const auto read = evaluated({"input \"x\" : f32[2]", "argsort axis=0 descending=false count=2 %0 : i32[2]"},
                              Inputs().add("x", std::vector<float>{1, 1}))
                        .column;
  EXPECT_EQ(read.bound, (std::vector<double>{0, 0}));
}

TEST(ReferenceSort, AnUndecidedElementDisputesEveryRank) {
  const auto y = evaluated({"input \"x\" : f32[3]", "exp %0 : f32[3]", "floor %1 : f32[3]",
                            "argsort axis=0 descending=false count=3 %2 : i32[3]"},
                           Inputs().add("x", std::vector<float>{1, 0, 3}))
                     .column;
  for (double bound : y.bound) EXPECT_TRUE(std::isinf(bound));
}

TEST(ReferenceSort, AWideBoundReachesPastItsNeighbours) {
  // The error of exp(12) - exp(12) + 2 covers the values around it, and not the one far above.
  const auto y =
      evaluated(
          {"input \"x\" : f32[4]", "exp %0 : f32[4]", "sub %1 %1 : f32[4]", "input \"z\" : f32[4]",
           "add %2 %3 : f32[4]", "argsort axis=0 descending=false count=4 %4 : i32[4]"},
          Inputs().add("x", std::vector<float>{12, -50, -50, -50}).add("z", std::vector<float>{2, 2.0625F, 2.125F, 9}))
          .column;
  EXPECT_TRUE(std::isinf(y.bound[0]) && std::isinf(y.bound[1]) && std::isinf(y.bound[2]));
  EXPECT_EQ(y.bound[3], 0);
  EXPECT_EQ(y.integer[3], 3);
}

}  // namespace
}  // namespace vkfuse::test
