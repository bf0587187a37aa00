// What is named as positions: constants that count or compare them, comparisons in any type, gathers of a run.
#include <gtest/gtest.h>

#include <functional>

#include "passes/constant_patterns.hpp"
#include "passes/passes.hpp"
#include "support/cases.hpp"
#include "support/device.hpp"

namespace vkfuse::test {
namespace {

std::string after(const std::string& body) {
  const ir::Graph made = must(passes::name_positions(must(ir::parse("graph \"g\" {\n" + body + "}\n"))));
  must(ir::verify(made));
  const std::string text = ir::print(made);
  return text.substr(text.find('\n') + 1, text.rfind('}') - text.find('\n') - 1);
}

/// A node that is a constant of these elements.
ir::Node constant(DType dtype, const Sizes& sizes, const std::function<double(std::int64_t)>& element) {
  ir::Graph graph;
  Shape shape;
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) {
    shape.emplace_back(size);
    count *= size;
  }
  auto bytes = std::make_shared<std::vector<std::byte>>();
  for (std::int64_t i = 0; i < count; ++i) ir::encode(dtype, element(i), *bytes);
  return graph.node(must(graph.add_constant({dtype, shape}, bytes)));
}

std::string band_text(const std::optional<passes::Band>& band) {
  if (!band) return "none";
  const auto line = [](const std::optional<passes::Line>& one) {
    return one ? std::to_string(one->slope) + " row " + std::to_string(one->constant) : std::string("edge");
  };
  return line(band->begin) + " to " + line(band->end);
}

/// Rows of 7 and columns of 9.
std::string band_where(const std::function<bool(std::int64_t, std::int64_t)>& inside, DType dtype = DType::f32) {
  return band_text(
      passes::band_of(constant(dtype, {1, 7, 9}, [&](std::int64_t i) { return inside(i / 9, i % 9) ? 0.0 : -1.0; })));
}

TEST(Positions, BandsAreFoundInConstants) {
  EXPECT_EQ(band_where([](auto row, auto column) { return column > row; }), "1 row 1 to edge");
  EXPECT_EQ(band_where([](auto row, auto column) { return column <= row; }), "1 row 1 to edge");  // the other value
  EXPECT_EQ(band_where([](auto row, auto column) { return column <= row && column > row - 3; }), "1 row -2 to 1 row 1");
  EXPECT_EQ(band_where([](auto, auto column) { return column >= 4; }), "0 row 4 to edge");
  EXPECT_EQ(band_where([](auto row, auto column) { return column <= 2 * row + 1; }, DType::f16), "2 row 2 to edge");
  EXPECT_EQ(band_where([](auto row, auto column) { return column < 8 - row; }), "-1 row 8 to edge");
}

TEST(Positions, NearlyABandIsNone) {
  EXPECT_EQ(band_where([](auto row, auto column) { return column <= row || (row == 2 && column == 7); }), "none");
  EXPECT_EQ(band_where([](auto row, auto column) { return column <= row && (row != 5 || column != 2); }), "none");
  EXPECT_EQ(band_where([](auto row, auto column) { return column <= (row == 6 ? 7 : row); }), "none");
  EXPECT_EQ(band_where([](auto row, auto column) { return (row + column) % 2 == 0; }), "none");
  const auto third = [](std::int64_t i) { return i == 62 ? 2.0 : i % 9 <= i / 9 ? 0.0 : -1.0; };
  EXPECT_FALSE(passes::band_of(constant(DType::f32, {7, 9}, third)));
  // The second of two matrices is another one.
  const auto two = [](std::int64_t i) { return i % 9 <= i / 9 % 7 + i / 63 ? 0.0 : -1.0; };
  EXPECT_FALSE(passes::band_of(constant(DType::f32, {2, 7, 9}, two)));
}

TEST(Positions, CountersAreFoundInConstants) {
  const auto ramp = [](const Sizes& sizes, const std::function<double(std::int64_t)>& element) {
    const auto found = passes::ramp_of(constant(DType::i64, sizes, element));
    return found ? index::to_text(*found) : "none";
  };
  EXPECT_EQ(ramp({6}, [](auto i) { return 3 + 2 * i; }), "2*a0 + 3");
  EXPECT_EQ(ramp({2, 1, 5}, [](auto i) { return i; }), "5*a0 + a2");
  EXPECT_EQ(ramp({6}, [](auto) { return 4; }), "4");
  EXPECT_EQ(ramp({6}, [](auto i) { return i == 5 ? 4 : i; }), "none");
  EXPECT_EQ(ramp({2, 5}, [](auto i) { return i % 5 * (1 + i / 5); }), "none");
}

TEST(Positions, AStoredTriangleIsAComparison) {
  EXPECT_EQ(after("  %0 = input \"x\" : f32[4, 4]\n"
                  "  %1 = constant {0, -9, -9, -9, 0, 0, -9, -9, 0, 0, 0, -9, 0, 0, 0, 0} : f32[4, 4]\n"
                  "  %2 = add %0 %1 : f32[4, 4]\n  output \"y\" = %2\n"),
            "  %0 = input \"x\" : f32[4, 4]\n  %1 = iota axis=1 : i32[1, 4]\n  %2 = iota axis=0 : i32[4, 1]\n"
            "  %3 = sub %1 %2 : i32[4, 4]\n  %4 = constant {1} : i32[]\n  %5 = ge %3 %4 : bool[4, 4]\n"
            "  %6 = constant {-9} : f32[]\n  %7 = constant {0} : f32[]\n  %8 = select %5 %6 %7 : f32[4, 4]\n"
            "  %9 = add %0 %8 : f32[4, 4]\n  output \"y\" = %9\n");
}

/// Truths are the comparison itself, not a choice between two of them: as a constant, and as written out.
TEST(Positions, AStoredTriangleOfTruthsIsAComparison) {
  const auto triangle = [](bool above) {  // large enough to be looked at
    std::string elements;
    for (int i = 0; i < 64; ++i) elements += (i % 8 > i / 8) == above ? "1, " : "0, ";
    elements.resize(elements.size() - 2);
    return after("  %0 = constant {" + elements +
                 "} : bool[8, 8]\n  %1 = input \"x\" : bool[8, 8]\n  %2 = and %0 %1 : bool[8, 8]\n"
                 "  output \"y\" = %2\n");
  };
  const std::string apart =
      "  %0 = iota axis=1 : i32[1, 8]\n  %1 = iota axis=0 : i32[8, 1]\n"
      "  %2 = sub %0 %1 : i32[8, 8]\n  %3 = constant {1} : i32[]\n";
  EXPECT_EQ(triangle(true).find(apart + "  %4 = ge %2 %3 : bool[8, 8]\n"), 0U) << triangle(true);
  EXPECT_EQ(triangle(false).find(apart + "  %4 = lt %2 %3 : bool[8, 8]\n"), 0U) << triangle(false);
  const auto chosen = [](const std::string& dtype, int a, int b) {
    return after("  %0 = input \"x\" : " + dtype + "[3]\n  %1 = constant {1} : " + dtype +
                 "[]\n  %2 = lt %0 %1 : bool[3]\n  %3 = constant {" + std::to_string(a) + "} : bool[]\n" +
                 "  %4 = constant {" + std::to_string(b) +
                 "} : bool[]\n  %5 = select %2 %3 %4 : bool[3]\n  output \"y\" = %5\n");
  };
  EXPECT_NE(chosen("i32", 1, 0).find("output \"y\" = %2"), std::string::npos);
  EXPECT_NE(chosen("i32", 0, 1).find("= ge %0 %1 : bool[3]"), std::string::npos);
  EXPECT_NE(chosen("f32", 0, 1).find("= not %2 : bool[3]"), std::string::npos);  // NaN is neither
  EXPECT_NE(chosen("f32", 1, 1).find("constant {1} : bool[]"), std::string::npos);
}

TEST(Positions, ComparisonsAreOfI32AndKnownOnesGo) {
  const std::string i32 =
      "  %0 = iota axis=1 : i32[1, 5]\n  %1 = iota axis=0 : i32[4, 1]\n  %2 = sub %0 %1 : i32[4, 5]\n"
      "  %3 = constant {2} : i32[]\n  %4 = le %2 %3 : bool[4, 5]\n  output \"y\" = %4\n";
  for (const std::string dtype : {"i64", "f32", "u8"}) {
    EXPECT_EQ(after("  %0 = iota axis=1 : " + dtype + "[1, 5]\n  %1 = iota axis=0 : " + dtype +
                    "[4, 1]\n  %2 = constant {2} : " + dtype + "[]\n  %3 = add %1 %2 : " + dtype +
                    "[4, 1]\n  %4 = le %0 %3 : bool[4, 5]\n  %5 = constant {0, 0, 0, 0} : i64[4, 1]\n"
                    "  %6 = constant {0, 0, 0, 0, 0} : i64[1, 5]\n  %7 = eq %5 %6 : bool[4, 5]\n"
                    "  %8 = and %7 %4 : bool[4, 5]\n  output \"y\" = %8\n"),
              i32);
  }
}

/// One literal stands for a matrix of zeros, but not for one of -0: a quotient by it has another sign.
TEST(Positions, ZerosHaveTheirSign) {
  const auto zeros = [](double zero) { return constant(DType::f32, {3, 4}, [=](std::int64_t) { return zero; }); };
  EXPECT_TRUE(passes::is_matrix_of_zeros(zeros(0.0)));
  EXPECT_FALSE(passes::is_matrix_of_zeros(zeros(-0.0)));
  EXPECT_FALSE(passes::is_matrix_of_zeros(constant(DType::f32, {12}, [](std::int64_t) { return 0.0; })));
}

/// Numbers near the ends of 64 bits are no positions, nor are their sums and products.
TEST(Positions, LargeNumbersStayAsTheyAre) {
  const auto ramp = [](double first, double step) {
    return passes::ramp_of(constant(DType::i64, {8}, [=](auto i) { return first + step * static_cast<double>(i); }));
  };
  EXPECT_FALSE(ramp(-0x1p63, 0));
  EXPECT_FALSE(ramp(0, 0x1p41));
  EXPECT_FALSE(ramp(0, 0x1p40));
  const std::string text =
      "  %0 = iota axis=0 : i64[9]\n  %1 = constant {1099511627776} : i64[]\n  %2 = add %0 %1 : i64[9]\n"
      "  %3 = mul %2 %1 : i64[9]\n  %4 = ge %3 %1 : bool[9]\n  output \"y\" = %4\n";
  EXPECT_EQ(after(text), text);
}

/// 200 + 100 is 44 of u8.
TEST(Positions, NumbersThatWrapStayAsTheyAre) {
  const std::string text =
      "  %0 = iota axis=0 : u8[201]\n  %1 = constant {100} : u8[]\n  %2 = add %0 %1 : u8[201]\n"
      "  %3 = ge %2 %1 : bool[201]\n  output \"y\" = %3\n";
  EXPECT_EQ(after(text), text);
}

TEST(Positions, AGatherOfARunIsAView) {
  EXPECT_EQ(after("  %0 = input \"x\" : f32[12, 3]\n  %1 = constant {4, 5, 6, 7, 8, 9} : i32[2, 3]\n"
                  "  %2 = gather axis=0 %0 %1 : f32[2, 3, 3]\n  output \"y\" = %2\n"),
            "  %0 = input \"x\" : f32[12, 3]\n  %1 = slice starts=[4, 0] steps=[1, 1] %0 : f32[6, 3]\n"
            "  %2 = reshape %1 : f32[2, 3, 3]\n  output \"y\" = %2\n");
  // Out of range, which is the nearest row; backwards.
  for (const std::string positions : {"{10, 11, 12}", "{5, 4, 3}"}) {
    const std::string made = after("  %0 = input \"x\" : f32[12, 3]\n  %1 = constant " + positions +
                                   " : i32[3]\n  %2 = gather axis=0 %0 %1 : f32[3, 3]\n  output \"y\" = %2\n");
    EXPECT_NE(made.find("gather"), std::string::npos);
  }
}

}  // namespace
}  // namespace vkfuse::test
