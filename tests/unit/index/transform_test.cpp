// Coordinates and positions, splits, covering and solving, on chosen cases and against enumeration.
#include <algorithm>
#include <numeric>

#include "points.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

using Sizes = std::vector<Number>;

Number product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), Number{1}, std::multiplies<>());
}

std::vector<Expr> axes_of_sizes(const Sizes& sizes) {
  std::vector<Expr> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) axes.push_back(Expr::axis(static_cast<int>(i), sizes[i]));
  return axes;
}

Sizes random_sizes(Random& random, std::size_t rank, std::size_t largest) {
  Sizes sizes;
  for (std::size_t i = 0; i < rank; ++i) sizes.push_back(static_cast<Number>(1 + random.below(largest)));
  return sizes;
}

// [6, 4] read as [3, 8]: half of axis 0 goes into the second dimension.
TEST(IndexTransform, AReshapeSplitsAnAxis) {
  const Expr i = Expr::axis(0, 6);
  const Expr j = Expr::axis(1, 4);
  const Expr position = index::linearize(std::vector<Expr>{i, j}, Sizes{6, 4});
  const std::vector<Expr> coordinates = index::delinearize(position, Sizes{3, 8});
  EXPECT_EQ(index::to_text(coordinates[0]), "(a0/2)");
  EXPECT_EQ(index::to_text(coordinates[1]), "a1 + 4*(a0%2)");
  for (const Expr& coordinate : coordinates) {
    const auto split = index::useful_split(coordinate);
    ASSERT_TRUE(split);
    EXPECT_EQ(split->axis, 0);
    EXPECT_EQ(split->factor, 2);
    EXPECT_FALSE(has_division(index::substitute(coordinate, {{0, Expr::axis(2, 3) * 2 + Expr::axis(3, 2)}})));
  }
  EXPECT_EQ(index::linearize(coordinates, Sizes{3, 8}), position);
}

TEST(IndexTransform, PositionsAndCoordinatesAreInverse) {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    const Sizes sizes = random_sizes(random, 1 + random.below(4), 6);
    const Space space({product(sizes) + 3});
    const Twice position = Twice::axis(space, 0);
    const std::vector<Expr> coordinates = index::delinearize(position.expr, sizes);
    EXPECT_EQ(index::linearize(coordinates, sizes), position.expr);
    Twice rest = position;
    for (std::size_t i = sizes.size(); i-- > 1;) {
      for (Number& value : rest.values) value = value % sizes[i];
      EXPECT_EQ((Twice{coordinates[i], rest.values}).difference(space), "");
      rest = position;
      Number inner = 1;
      for (std::size_t j = i; j < sizes.size(); ++j) inner *= sizes[j];
      for (Number& value : rest.values) value /= inner;
    }
    EXPECT_EQ((Twice{coordinates[0], rest.values}).difference(space), "");
    // The other way round: coordinates that are axes come back as they are.
    const std::vector<Expr> axes = axes_of_sizes(sizes);
    EXPECT_EQ(index::delinearize(index::linearize(axes, sizes), sizes), axes);
  }
  EXPECT_TRUE(index::delinearize(Expr(0), Sizes{}).empty());
  EXPECT_TRUE(index::linearize(std::vector<Expr>{}, Sizes{}).is_constant(0));
}

// A tensor that is reshaped and back is read where it was: no trace of the other shape is left.
TEST(IndexTransform, ThereAndBackIsNothing) {
  Random random(6);
  for (int round = 0; round < 1000; ++round) {
    const std::vector<Expr> axes = axes_of_sizes(random_sizes(random, 1 + random.below(4), 9));
    Expr position;
    Number weight = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      position = position + axes[i] * weight;
      weight *= index::interval_of(axes[i]).high + 1;
    }
    const Sizes other = random_sizes(random, 2 + random.below(3), 9);
    EXPECT_EQ(index::linearize(index::delinearize(position, other), other), position);
  }
  // The same for a transposed axis, whose digits are no axes.
  const Expr x = Expr::axis(0, 35);
  const Expr position = index::floor_mod(x, 5) * 7 + index::floor_div(x, 5);
  for (const Sizes& other : {Sizes{7, 5}, Sizes{5, 7}, Sizes{3, 12}, Sizes{2, 3, 6}, Sizes{35, 1}, Sizes{1, 35}}) {
    EXPECT_EQ(index::linearize(index::delinearize(position, other), other), position);
  }
}

TEST(IndexTransform, EmptyArraysHaveCoordinates) {
  const Number huge = Number{1} << 40;
  const Sizes sizes{huge, 0, huge, huge};
  EXPECT_TRUE(index::linearize(std::vector<Expr>(4), sizes).is_constant(0));
  EXPECT_EQ(index::delinearize(Expr(0), sizes), std::vector<Expr>(4));
}

TEST(IndexTransform, SubstitutionIsSimultaneous) {
  const Expr a = Expr::axis(0, 8);
  const Expr b = Expr::axis(1, 8);
  EXPECT_EQ(index::substitute(a * 2 + b, {{0, b}, {1, a}}), a + b * 2);
  EXPECT_EQ(index::substitute(index::floor_div(a + b, 3), {{0, b}, {1, Expr(1)}}), index::floor_div(b + 1, 3));
  EXPECT_EQ(index::substitute(a + b, {{64, Expr(5)}}), a + b);  // shares its bit with axis 0
  EXPECT_EQ(index::substitute(a + b, {}), a + b);
}

TEST(IndexTransform, OnlyUsefulSplits) {
  const Expr x = Expr::axis(0, 12);
  const Expr y = Expr::axis(1, 5);
  const auto split = [](const Expr& expr) -> std::optional<std::pair<int, Number>> {
    const auto found = index::useful_split(expr);
    if (!found) return std::nullopt;
    return std::pair(found->axis, found->factor);
  };
  using Answer = std::optional<std::pair<int, Number>>;
  EXPECT_EQ(split(x * 3 + y), Answer());
  EXPECT_EQ(split(index::floor_div(x, 4)), Answer({0, 4}));
  EXPECT_EQ(split(index::floor_mod(x * 2 + y, 8)), Answer({0, 4}));
  EXPECT_EQ(split(index::floor_mod(Expr(11) - x, 4)), Answer({0, 4}));  // a flip
  EXPECT_EQ(split(index::floor_div(x, 5)), Answer());                   // 12 is no multiple of 5
  EXPECT_EQ(split(index::floor_div(x * 3, 4)), Answer());               // 3 does not divide 4
  EXPECT_EQ(split(index::floor_mod(y, 4)), Answer());
  EXPECT_EQ(split(index::floor_mod(index::floor_div(x, 2), 3)), Answer({0, 2}));
  EXPECT_EQ(split(index::floor_div(Expr::data(0, 12), 4)), Answer());
}

TEST(IndexTransform, CoversExactlyTheMixedRadixNumbers) {
  Random random(4);
  int yes = 0;
  for (int round = 0; round < 3000; ++round) {
    const Space space({static_cast<Number>(1 + random.below(4)), static_cast<Number>(1 + random.below(4)),
                       static_cast<Number>(1 + random.below(3))});
    const std::vector<Number> weights{-6, -4, -2, -1, 1, 1, 2, 2, 3, 4, 6, 8};
    Twice sum = Twice::constant(space, random.chance(70) ? 0 : static_cast<Number>(random.below(4)));
    for (int axis = 0; axis < 3; ++axis) sum = sum + Twice::axis(space, axis) * random.pick(weights);
    const auto count = static_cast<Number>(space.points().size());
    std::vector<Number> sorted = sum.values;
    std::ranges::sort(sorted);
    std::vector<Number> all(space.points().size());
    std::iota(all.begin(), all.end(), Number{0});
    // An axis of weight 0 would be missing; no weight here is.
    EXPECT_EQ(index::covers(sum.expr, count), sorted == all) << index::to_text(sum.expr) << " and " << count;
    EXPECT_FALSE(index::covers(sum.expr, count + 1));
    yes += sorted == all ? 1 : 0;
  }
  EXPECT_GT(yes, 100);  // the test has seen both answers
}

TEST(IndexTransform, CoversThroughDivisions) {
  const Expr x = Expr::axis(0, 12);
  EXPECT_TRUE(index::covers(index::floor_mod(x, 4) * 3 + index::floor_div(x, 4), 12));  // a transposed [3, 4]
  EXPECT_FALSE(index::covers(index::floor_mod(x, 4) * 3, 12));
  EXPECT_FALSE(index::covers(index::floor_div(x, 4), 3));  // each value four times
  EXPECT_TRUE(index::covers(Expr(11) - x, 12));
  EXPECT_TRUE(index::covers(0, 1));
  EXPECT_FALSE(index::covers(0, 0));
  EXPECT_FALSE(index::covers(1, 1));
  EXPECT_FALSE(index::covers(Expr::data(0, 12), 12));
}

/// A map of random shape over `axes`: each component is +-1 * axis + constant, or a constant.
std::vector<Expr> random_map(Random& random, const std::vector<Expr>& axes) {
  std::vector<Expr> map;
  for (const Expr& axis : axes) {
    map.push_back(axis * (random.chance(50) ? 1 : -1) + (static_cast<Number>(random.below(7)) - 3));
    if (random.chance(20)) map.emplace_back(static_cast<Number>(random.below(3)));
  }
  for (std::size_t i = map.size(); i > 1; --i) std::swap(map[i - 1], map[random.below(i)]);
  return map;
}

TEST(IndexTransform, SolvedMapsHitTheirTargets) {
  Random random(5);
  for (int round = 0; round < 500; ++round) {
    const std::vector<Expr> axes = axes_of_sizes(random_sizes(random, 1 + random.below(4), 9));
    const std::vector<Expr> map = random_map(random, axes);
    std::vector<int> unknowns;
    std::map<int, Expr> hidden;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const int id = static_cast<int>(i);
      if (random.chance(20)) continue;  // an axis that both sides share
      unknowns.push_back(id);
      hidden.emplace(
          id, index::floor_div(Expr::axis(10, 50) * static_cast<Number>(1 + random.below(4)), 3) + Expr::axis(11, 7));
    }
    std::vector<Expr> target;
    for (const Expr& component : map) target.push_back(index::substitute(component, hidden));
    const auto solved = index::solve(map, target, unknowns);
    ASSERT_TRUE(solved);
    for (const auto& [id, value] : *solved) EXPECT_EQ(value, hidden.at(id));
    for (const int id : unknowns)
      EXPECT_EQ(solved->contains(id), index::depends_on(axes[static_cast<std::size_t>(id)], id));
    // One component off by one: nothing solves a constant or a shared axis, and anything else has another value.
    const std::size_t spoilt = random.below(target.size());
    target[spoilt] = target[spoilt] + 1;
    const bool has_unknown = std::ranges::any_of(unknowns, [&](int id) { return index::depends_on(map[spoilt], id); });
    EXPECT_EQ(index::solve(map, target, unknowns).has_value(), has_unknown);
  }
}

TEST(IndexTransform, WhatCannotBeSolvedIsNot) {
  const Expr u = Expr::axis(0, 8);
  const Expr v = Expr::axis(1, 8);
  const Expr x = Expr::axis(2, 8);
  const auto solve = [](std::vector<Expr> map, std::vector<Expr> target, std::vector<int> unknowns) {
    return index::solve(map, target, unknowns);
  };
  EXPECT_FALSE(solve({u * 2}, {x * 2}, {0}));
  EXPECT_FALSE(solve({index::floor_div(u, 2)}, {x}, {0}));
  EXPECT_FALSE(solve({u + v}, {x}, {0, 1}));
  EXPECT_FALSE(solve({u + v}, {u + v}, {0, 1}));  // equal as it is, but neither is found
  EXPECT_FALSE(solve({u, u}, {x, x + 1}, {0}));
  EXPECT_FALSE(solve({v}, {x}, {0}));
  EXPECT_FALSE(solve({u, index::floor_div(u, 2)}, {x, x}, {0}));
  EXPECT_TRUE(solve({u, index::floor_div(u, 2)}, {x, index::floor_div(x, 2)}, {0}));
  EXPECT_TRUE(solve({u + v, v}, {x + 1, Expr(1)}, {0, 1}) == std::nullopt);  // two unknowns in one component
  // The target may use the ids of the unknowns for axes of its own.
  const auto swapped = solve({u, v}, {v, u}, {0, 1});
  ASSERT_TRUE(swapped);
  EXPECT_EQ(swapped->at(0), v);
  EXPECT_EQ(swapped->at(1), u);
}

}  // namespace
}  // namespace vkfuse::test
