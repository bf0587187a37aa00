// By how much outputs may be off, and where they are wrong.
#include "reference/output_comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vkfuse::reference {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();

/// So many elements of 1 with the same bound.
Column ones(std::size_t count, double bound) {
  return {std::vector<double>(count, 1), std::vector<std::int64_t>(count, 0), std::vector<double>(count, bound)};
}

/// 1 but for one element.
std::vector<std::byte> floats(std::size_t count, std::size_t at, double value) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) ir::encode(DType::f32, i == at ? value : 1, bytes);
  return bytes;
}

OutputComparison outcome(std::span<const std::byte> got, const Column& column,
                         std::optional<std::span<const std::byte>> unfused = {}) {
  return compare_with_bounds(DType::f32, got, {column, {}, unfused, false});
}

TEST(Judge, HoldsElementsToTheBoundWhereItSaysMuch) {
  const Column column = ones(100, 0x1p-21);
  const auto unfused = floats(100, 50, 1);
  EXPECT_FALSE(asks_for_unfused(DType::f32, floats(column.value.size(), 0, 1), {column, {}, {}, false}));
  const OutputComparison right = outcome(floats(100, 7, 1 + 0x1p-22), column, unfused);
  EXPECT_TRUE(right.right());
  EXPECT_EQ(right.by_reference.max_ratio, 0.5);
  EXPECT_EQ(right.by_reference.worst, 7);
  EXPECT_FALSE(right.beside_unfused);
  const OutputComparison wrong = outcome(floats(100, 7, 1 + 0x1p-19), column, unfused);
  EXPECT_EQ(wrong.by_reference.wrong, 1);
  EXPECT_EQ(wrong.by_reference.max_ratio, 4);
  EXPECT_EQ(wrong.by_reference.max_error, 0x1p-19);
  EXPECT_TRUE(wrong.wrong[7]);
}

// Both of bounds that are infinite and of those that are larger than the output itself.
TEST(Judge, HoldsElementsWithoutABoundToFourTimesWhatOneKernelPerOpIsOffBy) {
  for (const double bound : {kNoBound, 1.5}) {
    const Column column = ones(100, bound);
    EXPECT_TRUE(asks_for_unfused(DType::f32, floats(column.value.size(), 0, 1), {column, {}, {}, false}));
    const auto unfused = floats(100, 50, 1.00001);
    const OutputComparison right = outcome(floats(100, 7, 1.00003), column, unfused);
    EXPECT_TRUE(right.right()) << right.by_reference.first_wrong;
    EXPECT_TRUE(right.beside_unfused);
    EXPECT_EQ(right.unbounded, 100);
    EXPECT_NEAR(right.by_reference.max_ratio, 0.75, 0.01);
    const OutputComparison wrong =
        outcome(floats(100, 7, 1.00005), column, unfused);  // the tolerance of a file would take it
    EXPECT_EQ(wrong.by_reference.wrong, 1);
    EXPECT_NE(wrong.by_reference.first_wrong.find("Element 7 is 1.0000"), std::string::npos)
        << wrong.by_reference.first_wrong;
    EXPECT_NEAR(wrong.by_reference.max_ratio, 1.25, 0.01);
  }
}

TEST(Judge, HoldsLooseBoundsToFourTimesTheirPartThatOneKernelPerOpNeeds) {
  Column column = ones(100, 0.01);
  column.bound[7] = 0.5;  // ill-conditioned: it may be off by more
  const auto unfused = floats(100, 50, 1.00001);
  EXPECT_TRUE(outcome(floats(100, 7, 1.0019), column, unfused).right());
  EXPECT_FALSE(outcome(floats(100, 7, 1.0021), column, unfused).right());
  EXPECT_TRUE(outcome(floats(100, 8, 1.000039), column, unfused).right());
  EXPECT_FALSE(outcome(floats(100, 8, 1.000042), column, unfused).right());
}

TEST(Judge, BelievesNoErrorOfFewElements) {
  const Column column = ones(15, kNoBound);
  EXPECT_FALSE(asks_for_unfused(DType::f32, floats(column.value.size(), 0, 1), {column, {}, {}, false}));
  EXPECT_TRUE(outcome(floats(15, 7, 1.0005), column, floats(15, 0, 1)).right());
  EXPECT_FALSE(outcome(floats(15, 7, 1.002), column, floats(15, 0, 1)).right()) << "the tolerance of a file";
}

/// Of a softmax, one element may be nearly 1 and all others nearly 0: what one kernel per op is off by there is the
/// error of one element.
TEST(Judge, BelievesNoErrorOfFewLargeElements) {
  Column column = ones(100, kNoBound);
  for (std::size_t i = 0; i < 100; ++i) column.value[i] = i < 15 ? 1 : 1e-3;
  const auto with = [&](std::size_t at, double error) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < 100; ++i) ir::encode(DType::f32, column.value[i] + (i == at ? error : 0), bytes);
    return bytes;
  };
  const std::vector<std::byte> unfused = with(99, 1e-6);
  EXPECT_TRUE(outcome(with(7, 1e-5), column, unfused).right()) << "15 elements are too few";
  EXPECT_FALSE(outcome(with(7, 2e-3), column, unfused).right()) << "the tolerance of a file";
  EXPECT_FALSE(outcome(with(50, 1e-5), column, unfused).right()) << "85 are not";
  column.value[20] = 0.3;
  EXPECT_FALSE(outcome(with(7, 1e-5), column, with(99, 1e-6)).right())
      << "16 are not, if all have a quarter of its magnitude";
}

TEST(Judge, NeedsNoUnfusedRun) {
  EXPECT_TRUE(outcome(floats(100, 7, 1.0005), ones(100, kNoBound)).right());
  EXPECT_FALSE(outcome(floats(100, 7, 1.002), ones(100, kNoBound)).right());
  EXPECT_FALSE(outcome(floats(100, 7, NAN), ones(100, kNoBound)).right());
  EXPECT_TRUE(std::isinf(outcome(floats(100, 7, NAN), ones(100, kNoBound)).by_reference.max_error));
}

// Of whole numbers behind a rounding: how many, not by how much.
TEST(Judge, CountsWhatARoundingDecidesOtherwise) {
  const Column column{std::vector<double>(200, 0), std::vector<std::int64_t>(200, 3),
                      std::vector<double>(200, kNoBound)};
  const auto with = [](std::size_t others) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < 200; ++i) ir::encode_int(DType::i32, i < others ? 4 : 3, bytes);
    return bytes;
  };
  const auto judged_by = [&](const std::vector<std::byte>& got, std::optional<std::span<const std::byte>> unfused) {
    return compare_with_bounds(DType::i32, got, {column, {}, unfused, false});
  };
  const std::vector<std::byte> none = with(0), one = with(1), two = with(2), four = with(4), five = with(5);
  const OutputComparison same = judged_by(none, {});
  EXPECT_TRUE(same.right());
  EXPECT_EQ(same.undecided, 200);
  EXPECT_EQ(same.by_reference.compared, 0) << "there is no ratio";
  EXPECT_TRUE(judged_by(two, {}).right()) << "one in a hundred";
  EXPECT_FALSE(judged_by(five, {}).right());
  EXPECT_TRUE(asks_for_unfused(DType::i32, five, {column, {}, {}, false}));
  EXPECT_FALSE(asks_for_unfused(DType::i32, two, {column, {}, {}, false}));
  EXPECT_TRUE(judged_by(four, one).right());
  const OutputComparison wrong = judged_by(five, one);
  EXPECT_EQ(wrong.by_reference.wrong, 5);
  EXPECT_EQ(wrong.by_reference.first_wrong,
            "Element 0 is 4, but 3 by the reference; a rounding decides, but of 200 such elements 4 may differ.");
  EXPECT_TRUE(compare_with_bounds(DType::i32, five, {column, {}, {}, true}).right()) << "the file decides";
}

TEST(Judge, ComparesWithAFileAndTheFileWithTheReference) {
  const Column column = ones(20, 0x1p-20);
  const auto got = floats(20, 3, 1);
  const auto by = [&](const std::vector<std::byte>& file, const Column* reference) {
    OutputComparison comparison = compare_with_bounds(DType::f32, got, {column, {}, {}, true});
    compare_with_file(DType::f32, got, file, reference, comparison);
    return comparison;
  };
  const OutputComparison near = by(floats(20, 3, 1.0005), &column);
  EXPECT_TRUE(near.right()) << near.by_file->first_wrong;
  EXPECT_NEAR(near.by_file->max_ratio, 0.494, 0.01);
  EXPECT_EQ(near.by_file->worst, 3);
  const OutputComparison far = by(floats(20, 3, 1.5), &column);
  EXPECT_EQ(far.by_file->wrong, 1);
  EXPECT_EQ(far.by_file->first_wrong, "Element 3 is 1, but the file says 1.5.");
  EXPECT_EQ(far.by_file->max_error, 0.5);
  EXPECT_TRUE(far.wrong[3]);
  EXPECT_EQ(far.by_reference.wrong, 0);
  // What the host has made: nothing is known but the file.
  OutputComparison alone;
  compare_with_file(DType::f32, got, floats(20, 3, 1.5), nullptr, alone);
  EXPECT_EQ(alone.by_file->wrong, 1);
  EXPECT_EQ(alone.by_reference.compared, 0);
  // Right by the file, which is wrong itself.
  const Column other = ones(20, 0x1p-20);
  Column shifted = other;
  shifted.value[4] = 2;
  OutputComparison comparison;
  compare_with_file(DType::f32, got, got, &shifted, comparison);
  EXPECT_EQ(comparison.by_file->first_wrong, "Element 4 is 2 by the reference, but the file says 1.");
}

/// A file and a judgement of `got` by it and by a column.
OutputComparison judged_with_file(const std::vector<std::byte>& got, const std::vector<std::byte>& file,
                                  const Column& column, std::optional<std::span<const std::byte>> unfused = {}) {
  OutputComparison comparison = compare_with_bounds(DType::f32, got, {column, {}, unfused, true, file});
  compare_with_file(DType::f32, got, file, &column, comparison);
  return comparison;
}

TEST(Judge, HoldsWhatIsNotFiniteToTheFile) {
  Column column = ones(40, 0x1p-20);
  for (const double limit : {static_cast<double>(NAN), static_cast<double>(INFINITY), -static_cast<double>(INFINITY)}) {
    // The reference is finite in double, or undecided.
    for (const double bound : {0x1p-20, kNoBound}) {
      column.bound[5] = bound;
      const OutputComparison right =
          judged_with_file(floats(40, 5, limit), floats(40, 5, limit), column, floats(40, 5, limit));
      EXPECT_TRUE(right.right()) << limit << ": " << right.by_reference.first_wrong << right.by_file->first_wrong;
      EXPECT_EQ(right.by_file_alone, 1);
      EXPECT_EQ(right.referenced, 39);
      EXPECT_FALSE(judged_with_file(floats(40, 0, 1), floats(40, 5, limit), column).right())
          << limit << " by the file, finite in the output";
      EXPECT_FALSE(judged_with_file(floats(40, 5, limit), floats(40, 0, 1), column).right())
          << "finite by the file, " << limit << " in the output";
      EXPECT_FALSE(judged_with_file(floats(40, 6, limit), floats(40, 5, limit), column).right()) << "another element";
    }
    if (std::isinf(limit)) {
      EXPECT_FALSE(judged_with_file(floats(40, 5, -limit), floats(40, 5, limit), ones(40, kNoBound)).right())
          << "the other infinity";
    }
  }
}

TEST(Judge, LeavesWhatIsIllConditionedToTheFile) {
  Column column = ones(40, 0x1p-20);
  column.value[5] = 1.5;  // in double no addend was absorbed
  column.bound[5] = 10;
  const OutputComparison right = judged_with_file(floats(40, 5, 1.0005), floats(40, 5, 1), column, floats(40, 5, 1));
  EXPECT_TRUE(right.right()) << right.by_reference.first_wrong << right.by_file->first_wrong;
  EXPECT_EQ(right.by_file_alone, 1);
  const OutputComparison wrong = judged_with_file(floats(40, 5, 1.5), floats(40, 5, 1), column, floats(40, 5, 1));
  EXPECT_FALSE(wrong.right()) << "what the reference says is wrong by the file";
  EXPECT_TRUE(wrong.wrong[5]);
  column.bound[5] = 0x1p-20;  // well-conditioned: then one of them is wrong
  const OutputComparison apart = judged_with_file(floats(40, 0, 1), floats(40, 0, 1), column);
  EXPECT_FALSE(apart.right());
  EXPECT_NE(apart.by_file->first_wrong.find("Element 5 is 1.5 by the reference, but the file says 1."),
            std::string::npos)
      << apart.by_file->first_wrong;
  // Where the reference is with the file, one kernel per op still counts, which is stricter than the tolerance.
  const Column wide = ones(40, 1.5);
  EXPECT_TRUE(judged_with_file(floats(40, 5, 1.00003), floats(40, 0, 1), wide, floats(40, 7, 1.00001)).right());
  EXPECT_FALSE(judged_with_file(floats(40, 5, 1.0005), floats(40, 0, 1), wide, floats(40, 7, 1.00001)).right());
}

TEST(Judge, TakesInfinityForWhatAFlushedDenormalBecomes) {
  const auto is_right = [](double got, double want, double bound) {
    Column column = ones(1, bound);
    column.value[0] = want;
    return judged_with_file(floats(1, 0, got), floats(1, 0, want), column).right();
  };
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(is_right(-infinity, -95, kNoBound)) << "a logarithm";
  EXPECT_TRUE(is_right(infinity, 2e38, kNoBound)) << "a reciprocal";
  EXPECT_TRUE(is_right(-infinity, -2e38, kNoBound));
  EXPECT_TRUE(is_right(infinity, 1e20, kNoBound)) << "a reciprocal square root";
  EXPECT_FALSE(is_right(infinity, -2e38, kNoBound));
  EXPECT_FALSE(is_right(infinity, 1e30, kNoBound)) << "neither";
  EXPECT_FALSE(is_right(infinity, 2e38, 1e30)) << "the reference has a bound";
}

TEST(Judge, LetsRoundingsOfAGraphMoveWhatTheyDecide) {
  const std::size_t count = 200;
  const auto noisy = [&](int seed, double size) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < count; ++i)
      ir::encode(DType::f32, 1 + size * std::sin(static_cast<double>(i * 7 + 100) * (1 + 0.37 * seed)), bytes);
    return bytes;
  };
  Column column = ones(count, kNoBound);
  const auto judged_by = [&](const std::vector<std::byte>& got, std::optional<std::span<const std::byte>> unfused,
                             bool rounds) {
    const auto file = noisy(3, 0.03);
    OutputComparison comparison = compare_with_bounds(DType::f32, got, {column, {}, unfused, true, file, rounds});
    compare_with_file(DType::f32, got, file, &column, comparison);
    return comparison.right();
  };
  EXPECT_TRUE(judged_by(noisy(1, 0.03), noisy(2, 0.03), true));
  EXPECT_FALSE(judged_by(noisy(1, 0.03), noisy(2, 0.03), false)) << "nothing is rounded";
  EXPECT_FALSE(judged_by(noisy(1, 0.03), noisy(0, 1e-6), true))
      << "one kernel per op is with the reference: nothing is chaotic";
  EXPECT_FALSE(judged_by(noisy(1, 0.03), noisy(3, 0.03), true)) << "one kernel per op is with the file";
  EXPECT_FALSE(judged_by(noisy(1, 0.6), noisy(2, 0.6), true)) << "both are far off";
  EXPECT_FALSE(judged_by(noisy(1, 0.2), noisy(2, 0.03), true)) << "one kernel per op is much closer";
  EXPECT_FALSE(judged_by(floats(count, 5, 1.5), noisy(2, 0.03), true)) << "one element is far off";
  // Outputs of another program: the reference is as far from the file.
  EXPECT_TRUE(judged_by(noisy(1, 0.03), {}, true));
  EXPECT_FALSE(judged_by(noisy(1, 0.03), {}, false)) << "nothing is rounded";
  EXPECT_FALSE(judged_by(noisy(1, 0.3), {}, true)) << "the reference is much closer";
  EXPECT_FALSE(judged_by(floats(count, 5, 1.5), {}, true)) << "one element is far off";

  const auto graph_of = [](const char* statement) {
    return *ir::parse(fmt::format(
        "graph \"g\" {{\n%0 = input \"x\" : f32[4]\n%1 = exp %0 : f32[4]\n%2 = {}\noutput \"y\" = %2\n}}", statement));
  };
  EXPECT_TRUE(rounds_computed_numbers(graph_of("round %1 : f32[4]"), 2));
  EXPECT_TRUE(rounds_computed_numbers(graph_of("cast %1 : u8[4]"), 2));
  EXPECT_FALSE(rounds_computed_numbers(graph_of("round %0 : f32[4]"), 2)) << "what is stored is not moved";
  EXPECT_FALSE(rounds_computed_numbers(graph_of("sin %1 : f32[4]"), 2));
}

TEST(Judge, ComparesAFileWithSomeElementsOfTheReference) {
  const std::vector<std::int64_t> elements = {0, 7, 19};
  Column column = ones(3, 0x1p-20);
  const auto by = [&](const std::vector<std::byte>& got, const std::vector<std::byte>& file) {
    OutputComparison comparison = compare_with_bounds(DType::f32, got, {column, elements, {}, true, file});
    compare_with_file(DType::f32, got, file, {&column, elements}, comparison);
    return comparison;
  };
  EXPECT_TRUE(by(floats(20, 0, 1), floats(20, 0, 1)).right());
  EXPECT_EQ(by(floats(20, 0, 1), floats(20, 0, 1)).referenced, 3);
  const OutputComparison seen = by(floats(20, 7, 1.25), floats(20, 7, 1.25));
  EXPECT_EQ(seen.by_reference.wrong, 1);
  EXPECT_EQ(seen.by_reference.worst, 7);
  EXPECT_TRUE(seen.wrong[7]);
  EXPECT_FALSE(seen.wrong[1]);
  EXPECT_EQ(seen.by_file->first_wrong, "Element 7 is 1 by the reference, but the file says 1.25.");
  const OutputComparison file_only = by(floats(20, 8, 1.25), floats(20, 0, 1));
  EXPECT_EQ(file_only.by_reference.wrong, 0);
  EXPECT_EQ(file_only.by_file->wrong, 1);
  EXPECT_TRUE(file_only.wrong[8]);
}

TEST(Judge, TakesTheLogarithmOfAComputedDenormalForThatOfZero) {
  const auto is_right = [](double got, double want, double bound) {
    Column reference = ones(20, 0x1p-20);
    reference.value[3] = want;
    reference.bound[3] = bound;
    OutputComparison comparison;
    compare_with_file(DType::f32, floats(20, 3, got), floats(20, 3, want), &reference, comparison);
    return comparison.right();
  };
  EXPECT_TRUE(is_right(-INFINITY, -90.7, kNoBound));
  EXPECT_TRUE(is_right(-INFINITY, -140.25, kNoBound)) << "to base 2";
  EXPECT_FALSE(is_right(-INFINITY, -90.7, 1e-4)) << "of one that is given it is exact";
  EXPECT_FALSE(is_right(-INFINITY, -80.0, kNoBound)) << "of no denormal";
  EXPECT_FALSE(is_right(INFINITY, -90.7, kNoBound));
  EXPECT_FALSE(is_right(-87.9, -90.7, kNoBound)) << "in between";
}

TEST(Judge, MapsWhatIsWrong) {
  const std::vector<std::int64_t> sizes{2, 50, 64};
  std::vector<bool> wrong(6400, false);
  for (std::int64_t row = 96; row < 100; ++row) {
    for (std::int64_t column = 0; column < 2; ++column) wrong[static_cast<std::size_t>(row * 64 + column)] = true;
  }
  wrong[63] = true;
  const TileMap map = map_of_wrong(sizes, {}, wrong);
  EXPECT_EQ(map.rows, 32);
  EXPECT_EQ(map.columns, 32);
  const std::string text = to_text(map);
  EXPECT_EQ(text.size(), 33U * 32U);
  EXPECT_EQ(text.substr(0, 33), fmt::format("{:.<31}2\n", ""));  // one of eight
  EXPECT_EQ(text.substr(text.size() - 33), fmt::format("{:.<32}\n", "#"));
  EXPECT_EQ(position_of(96 * 64 + 1, sizes), (std::vector<std::int64_t>{1, 46, 1}));
  EXPECT_EQ(to_text(map_of_wrong(std::vector<std::int64_t>{}, {}, {true})), "#\n");
}

}  // namespace
}  // namespace vkfuse::reference
