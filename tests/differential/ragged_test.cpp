// Reductions over the columns that data chooses, as sums over the rows of a ragged tensor: a loop goes from one loaded
// bound to the other. And scatters whose updates are sorted by rows, which are such sums.
#include <gtest/gtest.h>

#include <limits>

#include "support/compare.hpp"

namespace vkfuse::test {
namespace {

constexpr const char* kVisited = "uint visited_begin";

/// Compares with the reference, twice with equal bits; whether loops go from bound to bound.
bool visits_part(const ir::Graph& graph, const Build& how, const std::string& what, std::uint64_t seed = 91) {
  const Executable program = compile_graph(graph, how);
  const Data data = data_for({graph, {}, seed, false});
  const NamedBytes once = compare_with_reference(program, graph, data, what);
  EXPECT_TRUE(run_guarded(program, graph, data).outputs == once) << what << ": another run has other bits";
  return must(program.explain(Stage::glsl)).find(kVisited) != std::string::npos;
}

/// Positions from some 20 below 0 to 20 above the last column.
Tensor around(std::int64_t columns, const Shape& rows) {
  return Tensor::input("index" + std::to_string(columns + 40), DType::i32, rows) - 20;
}

struct Layout {
  const char* name;
  Shape shape;
  int axis;  ///< that is reduced
  friend void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }
};

class RaggedReductions : public testing::TestWithParam<Layout> {
 protected:
  RaggedReductions() {
    for (std::size_t i = 0; i < GetParam().shape.size(); ++i) {
      if (static_cast<int>(i) != GetParam().axis) rows_.push_back(GetParam().shape[i]);
    }
    bounds_ = GetParam().shape;
    bounds_[axis()] = Dim(1);
  }
  [[nodiscard]] std::size_t axis() const { return static_cast<std::size_t>(GetParam().axis); }
  [[nodiscard]] std::int64_t columns() const { return GetParam().shape[axis()].size(); }
  [[nodiscard]] Tensor x(DType dtype) const { return Tensor::input("x", dtype, GetParam().shape); }
  [[nodiscard]] Tensor column() const {
    Shape shape(GetParam().shape.size(), Dim(1));
    shape[axis()] = Dim(columns());
    return Tensor::iota(DType::i32, shape, GetParam().axis);
  }
  [[nodiscard]] Tensor bound(const Tensor& of_rows) const { return of_rows.reshape(bounds_); }
  [[nodiscard]] static Tensor number(DType dtype, double value) { return Tensor::scalar(dtype, value); }

  Shape rows_, bounds_;
};

TEST_P(RaggedReductions, VisitWhatLiesBetweenTwoBounds) {
  const Tensor begin = bound(around(columns(), rows_));
  const Tensor end = begin + bound(Tensor::input("index97", DType::i32, rows_)) - 30;  // before it, too
  const Tensor inside = logical_and(ge(column(), begin), lt(column(), end));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f32, DType::f16, DType::i32, DType::i8}) {
    const std::string what = fmt::format("{} of {}", GetParam().name, name_of(dtype));
    const int axis = GetParam().axis;
    const Tensor all = x(dtype);
    const auto reduced = [&](double otherwise) { return select(inside, all, number(dtype, otherwise)); };
    EXPECT_TRUE(visits_part(graph_of({reduced(0).sum({axis})}), {}, what + ", sum"));
    EXPECT_TRUE(visits_part(graph_of({reduced(-kInfinity).max({axis})}), {}, what + ", max"));
    EXPECT_TRUE(visits_part(graph_of({reduced(kInfinity).min({axis})}), {}, what + ", min"));
    EXPECT_TRUE(visits_part(graph_of({reduced(0).sum({axis}), reduced(-kInfinity).max({axis})}), {}, what + ", both"));
    // What is no identity is part of the result; and one reduction of all columns visits them for all.
    EXPECT_FALSE(visits_part(graph_of({reduced(1).sum({axis})}), {}, what + ", of ones elsewhere"));
    // Where a kernel has few buffers, the two are in two kernels.
    const bool visits = visits_part(graph_of({reduced(0).sum({axis}), all.max({axis})}), {}, what + ", beside all");
    EXPECT_TRUE(!visits || has_least_limits()) << what;
  }
}

TEST_P(RaggedReductions, TakeEveryComparison) {
  const Tensor limit = bound(around(columns(), rows_));
  const Tensor furthest = bound(Tensor::input("anywhere", DType::i32, rows_));  // of all 32-bit numbers
  const auto sum_where = [&](const Tensor& condition) {
    return graph_of({select(condition, x(DType::f32), number(DType::f32, 0)).sum({GetParam().axis})});
  };
  const std::pair<const char*, Tensor (*)(const Tensor&, const Tensor&)> comparisons[] = {
      {"lt", lt}, {"le", le}, {"gt", gt}, {"ge", ge}, {"eq", eq}};
  for (const auto& [name, compare] : comparisons) {
    for (const Tensor& to : {limit, furthest}) {
      EXPECT_TRUE(visits_part(sum_where(compare(column(), to)), {}, name));
      EXPECT_TRUE(visits_part(sum_where(compare(to, column())), {}, fmt::format("{}, turned", name)));
    }
  }
  EXPECT_FALSE(visits_part(sum_where(ne(column(), limit)), {}, "ne"));
  EXPECT_FALSE(visits_part(sum_where(logical_or(ge(column(), limit), lt(column(), furthest))), {}, "or"));
}

TEST_P(RaggedReductions, RunInEverySchedule) {
  const Tensor begin = bound(around(columns(), rows_));
  const Tensor end = begin + bound(Tensor::input("index97", DType::i32, rows_)) - 30;
  const Tensor inside = logical_and(ge(column(), begin), lt(column(), end));
  const ir::Graph graph = graph_of({select(inside, x(DType::f16), number(DType::f16, 0)).sum({GetParam().axis})});
  std::vector<std::pair<std::string, Build>> builds(6);
  builds[0] = {"as planned", {}};
  builds[1] = {"without subgroups", {.device = &device_without_subgroups()}};
  builds[2] = {"on low limits", {.device = &device_with_low_limits()}};
  builds[3].first = "three workgroups a row";
  builds[3].second.tuning.splits = 3;
  builds[4].first = "four chunks in flight";
  builds[4].second.tuning.unroll_factor = 4;
  builds[5].first = "eight threads a row";
  builds[5].second.tuning.reduction_threads = 8;
  for (const auto& [name, how] : builds) visits_part(graph, how, name);
}

INSTANTIATE_TEST_SUITE_P(Differential, RaggedReductions,
                         testing::Values(Layout{"rows", {37, 300}, 1}, Layout{"rows_of_odd_size", {5, 1001}, 1},
                                         Layout{"columns", {300, 48}, 0}, Layout{"between", {7, 300, 24}, 1},
                                         Layout{"one_row", {5000}, 0}),
                         [](const auto& one) { return std::string(one.param.name); });

// --- scatters --------------------------------------------------------------------------------------------

struct Updates {
  const char* name;
  std::int64_t rows, count;
  Shape row;
  friend void PrintTo(const Updates& updates, std::ostream* out) { *out << updates.name; }
};

class SortedScatters : public testing::TestWithParam<Updates> {
 protected:
  [[nodiscard]] static Tensor values(const char* name, DType dtype, std::int64_t count) {
    Shape shape{Dim(count)};
    shape.insert(shape.end(), GetParam().row.begin(), GetParam().row.end());
    return Tensor::input(name, dtype, shape);
  }
};

TEST_P(SortedScatters, JoinUpdatesInTheirOrder) {
  const Updates& of = GetParam();
  const Tensor rows = around(of.rows, {Dim(of.count)});
  const auto join = [&](DType dtype, const char* mode) {
    const Tensor y = values("x", dtype, of.rows).scatter(rows, values("updates", dtype, of.count), mode);
    const std::string what = fmt::format("{} of {}, {}", mode, name_of(dtype), of.name);
    const bool visits = visits_part(graph_of({y}), {.sorts_scatters = true}, what);
    EXPECT_EQ(visits, std::string_view(mode) != "set" && of.count > 1) << what;
  };
  for (const char* mode : {"set", "add", "mul", "max", "min"}) join(DType::f32, mode);
  for (const DType dtype : {DType::f16, DType::i8, DType::i64}) join(dtype, dtype == DType::f16 ? "add" : "max");
  const Tensor sum = values("x", DType::f32, of.rows).scatter(rows, values("updates", DType::f32, of.count), "add");
  visits_part(graph_of({relu(sum)}), {.fusion = false, .sorts_scatters = true}, of.name);
}

TEST_P(SortedScatters, TakePositionsOfEveryType) {
  const Updates& of = GetParam();
  for (const DType dtype : {DType::i32, DType::u32, DType::i64}) {
    const Tensor anywhere = Tensor::input("anywhere", dtype, {Dim(of.count)});
    for (const char* mode : {"set", "add"}) {
      const Tensor y =
          values("x", DType::f32, of.rows).scatter(anywhere, values("updates", DType::f32, of.count), mode);
      visits_part(graph_of({y}), {.sorts_scatters = true}, fmt::format("{} at {}, {}", mode, name_of(dtype), of.name));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Differential, SortedScatters,
                         testing::Values(Updates{"many_of_each_row", 7, 600, {20}},
                                         Updates{"few_of_many_rows", 500, 33, {17}},
                                         Updates{"single_elements", 300, 400, {}}, Updates{"one_row", 1, 300, {8}},
                                         Updates{"one_update", 40, 1, {8}}, Updates{"of_planes", 30, 64, {3, 5}}),
                         [](const auto& one) { return std::string(one.param.name); });

/// As many as the library sorts by itself, most of them of one row: a sum of many elements.
TEST(SortedScatters, AreChosenWhereComparingTakesLonger) {
  const Tensor table = Tensor::scalar(DType::f32, 0).broadcast_to({5000, 32});
  const Tensor token = Tensor::input("index5000", DType::i32, {4000});
  const auto number = [](double value) { return Tensor::scalar(DType::i32, value); };
  const Tensor most = select(lt(Tensor::input("index10", DType::i32, {4000}), number(7)), number(3), token);
  const Tensor updates = Tensor::input("updates", DType::f32, {4000, 32});
  EXPECT_TRUE(visits_part(graph_of({table.scatter(most, updates, "add")}), {}, "an embedding's gradient"));
}

}  // namespace
}  // namespace vkfuse::test
