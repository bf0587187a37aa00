// Evaluation by demand: samples agree with the whole, rows are folded once, depth is no limit.
#include <cmath>

#include "api/tensor_node.hpp"
#include "unit/reference/evaluated.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

ir::Graph graph_to(const Tensor& tensor) { return must(api::to_graph(std::vector<Tensor>{tensor}, {}, "g")); }

std::vector<float> random_floats(std::size_t count, std::uint64_t seed, double low = -2, double high = 2) {
  Random random(seed);
  std::vector<float> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(static_cast<float>(random.between(low, high)));
  return all;
}

TEST(ReferenceDemand, SamplesAgreeWithTheWhole) {
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 24});
  const Tensor i = Tensor::input("i", DType::i32, {Dim::any("n")});
  const std::vector<Tensor> results = {
      softmax(x),
      normalize(x, {-1}, 1e-5).transpose(),
      x.cumsum(0) + x.cummax(1, true, true),
      x.argsort(1, true, 5),
      x.scatter(i, x * 2.0, "add").slice(1, 20, 3, -4),
      concat({x.reshape({Dim::any("n"), 4, 6}).permute({1, 0, 2}).sum({0}), x.slice(1, 0, 6)}, 1),
      x.unfold(1, 5, 3, 2).max({2}) - x.mean({1}, true),
      x.take_along(i.unsqueeze(1), 1) * x.gather(i, 0),
      x.pad({0, 3}, {0, -2}, 7).prod({0})};
  const std::vector<float> data = random_floats(7 * 24, 3);
  const Inputs inputs = Inputs().add("x", data).add("i", std::vector<std::int32_t>{3, -1, 3, 6, 0, 30, 2}).size("n", 7);
  for (std::size_t k = 0; k < results.size(); ++k) {
    ASSERT_TRUE(results[k].valid()) << k << ": " << results[k].error().text();
    const ir::Graph graph = graph_to(results[k]);
    const ir::NodeId value = graph.outputs()[0].value;
    const reference::InputBindings input_bindings = inputs.input_bindings();
    const auto all = must(reference::evaluate(graph, value, input_bindings));
    ASSERT_FALSE(all.bound.empty());
    std::vector<std::int64_t> indices;  // backwards, some twice
    for (auto at = static_cast<std::int64_t>(all.bound.size()) - 1; at >= 0; at -= 3)
      indices.insert(indices.end(), 1 + static_cast<std::size_t>(at % 2), at);
    const auto some = must(reference::evaluate_at(graph, value, indices, input_bindings));
    ASSERT_EQ(some.bound.size(), indices.size());
    for (std::size_t s = 0; s < indices.size(); ++s) {
      const auto at = static_cast<std::size_t>(indices[s]);
      EXPECT_EQ(some.value[s], all.value[at]) << k;
      EXPECT_EQ(some.integer[s], all.integer[at]) << k;
      EXPECT_EQ(some.bound[s], all.bound[at]) << k;
    }
  }
}

TEST(ReferenceDemand, SoftmaxOfLongRows) {
  const std::vector<float> x = random_floats(64 * 4096, 1, -20, 20);
  const auto y = evaluated(graph_to(softmax(Tensor::input("x", DType::f32, {64, 4096}))), Inputs().add("x", x)).column;
  for (std::size_t row = 0; row < 64; ++row) {
    double largest = -HUGE_VAL;
    double sum = 0;
    for (std::size_t i = 0; i < 4096; ++i) largest = std::max(largest, static_cast<double>(x[row * 4096 + i]));
    for (std::size_t i = 0; i < 4096; ++i) sum += std::exp(static_cast<double>(x[row * 4096 + i]) - largest);
    for (std::size_t i = 0; i < 4096; ++i) {
      const double want = std::exp(static_cast<double>(x[row * 4096 + i]) - largest) / sum;
      ASSERT_NEAR(y.value[row * 4096 + i], want, 1e-12);
      ASSERT_LE(y.bound[row * 4096 + i], 2e-4 * want + 1e-30);  // longest_sum_chain(4096) * 2^-23 is 1.3e-4
    }
  }
}

TEST(ReferenceDemand, RowsThatReadEachOtherAreComputedOnce) {
  // Each layer reads the one below three times: without keeping, 3^60 evaluations.
  Tensor value = Tensor::input("x", DType::f32, {4, 8});
  for (int layer = 0; layer < 60; ++layer) value = softmax(value + value.mean({1}, true));
  const auto y = evaluated(graph_to(value), Inputs().add("x", random_floats(32, 2))).column;
  for (std::size_t i = 0; i < 32; ++i) EXPECT_NEAR(y.value[i], 0.125, 1e-9);
}

TEST(ReferenceDemand, DepthIsNoLimit) {
  Tensor value = Tensor::input("x", DType::f64, {2, 3});
  for (int layer = 0; layer < 20000; ++layer) value = value.cummax(1);
  const auto y = evaluated(graph_to(value), Inputs().add("x", std::vector<double>{1, 3, 2, 5, 4, 6})).column;
  EXPECT_EQ(y.value, (std::vector<double>{1, 3, 3, 5, 5, 6}));
}

TEST(ReferenceDemand, SamplesOfAHugeFoldReadOnlyTheirOwn) {
  // 2^20 x 2^20: only three rows are looked at, and no list is as long as a row.
  const std::int64_t large = std::int64_t{1} << 20;
  const Tensor x = Tensor::iota(DType::i64, {large, large}, 0);
  const Tensor sum = x.sum({1});
  const ir::Graph graph = graph_to(sum);
  const std::vector<std::int64_t> rows = {5, large - 1, 5};
  const auto y = must(reference::evaluate_at(graph, graph.outputs()[0].value, rows, {}));
  EXPECT_EQ(y.integer, (std::vector<std::int64_t>{5 * large, (large - 1) * large, 5 * large}));
}

TEST(ReferenceDemand, WhatIsNestedTooDeepIsAnErrorAndNoCrash) {
  // Too large to be kept, so that every element asks for the next below it.
  const std::int64_t large = std::int64_t{1} << 22;
  Tensor value = Tensor::input("x", DType::i8, {large, 1});
  for (int layer = 0; layer < 3000; ++layer) value = value.cummax(1);
  const ir::Graph graph = graph_to(value);
  const std::vector<std::byte> bytes(static_cast<std::size_t>(large));
  reference::InputBindings input_bindings;
  input_bindings.inputs["x"] = bytes;
  const std::vector<std::int64_t> one = {large / 2};
  const auto result = reference::evaluate_at(graph, graph.outputs()[0].value, one, input_bindings);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(
      result.error().message,
      "The reference does not follow values through more than 250 ops nested in each other that reduce or gather.");
}

// Compositions against loops over rows. -----------------------------------------------------------

void expect_rows(const Tensor& result, const Inputs& inputs, std::size_t columns,
                 const std::function<double(std::size_t row, std::size_t column)>& wanted, double tolerance,
                 const char* what) {
  ASSERT_TRUE(result.valid()) << what << ": " << result.error().text();
  const auto y = evaluated(graph_to(result), inputs);
  for (std::size_t i = 0; i < y.column.bound.size(); ++i) {
    const double want = wanted(i / columns, i % columns);
    EXPECT_NEAR(y.number(i), want, 1e-7 * std::abs(want) + 1e-12) << what << " " << i;
    EXPECT_LE(y.column.bound[i], tolerance) << what << " " << i;
  }
}

TEST(ReferenceCompositions, AreWhatTheirNamesSay) {
  constexpr std::size_t kRows = 5;
  constexpr std::size_t kColumns = 16;
  const std::vector<float> data = random_floats(kRows * kColumns, 9);
  const std::vector<std::int64_t> labels = {3, 0, 15, 7, 7};
  const Inputs inputs = Inputs().add("x", data).add("l", labels);
  const Tensor x = Tensor::input("x", DType::f32, {Dim(std::int64_t{kRows}), Dim(std::int64_t{kColumns})});
  const auto at = [&](std::size_t row, std::size_t column) {
    return static_cast<double>(data[row * kColumns + column]);
  };
  const auto over_row = [&](std::size_t row, const std::function<double(double)>& of) {
    double sum = 0;
    for (std::size_t i = 0; i < kColumns; ++i) sum += of(at(row, i));
    return sum;
  };
  const auto log_sum_exp = [&](std::size_t row) {
    return std::log(over_row(row, [](double v) { return std::exp(v); }));
  };
  const auto mean = [&](std::size_t row) { return over_row(row, [](double v) { return v; }) / kColumns; };
  const auto variance = [&](std::size_t row) {
    return over_row(row, [&](double v) { return (v - mean(row)) * (v - mean(row)); }) / kColumns;
  };

  expect_rows(
      softmax(x), inputs, kColumns, [&](auto r, auto c) { return std::exp(at(r, c) - log_sum_exp(r)); }, 1e-5,
      "softmax");
  expect_rows(
      softmax(x.transpose(), 0).transpose(), inputs, kColumns,
      [&](auto r, auto c) { return std::exp(at(r, c) - log_sum_exp(r)); }, 1e-5, "softmax of columns");
  expect_rows(
      log_softmax(x), inputs, kColumns, [&](auto r, auto c) { return at(r, c) - log_sum_exp(r); }, 1e-4, "log_softmax");
  expect_rows(
      normalize(x, {1}, 0.01), inputs, kColumns,
      [&](auto r, auto c) { return (at(r, c) - mean(r)) / std::sqrt(variance(r) + 0.01); }, 1e-3, "normalize");
  expect_rows(
      rms_normalize(x, {-1}, 0.01), inputs, kColumns,
      [&](auto r, auto c) {
        return at(r, c) / std::sqrt(over_row(r, [](double v) { return v * v; }) / kColumns + 0.01);
      },
      1e-3, "rms_normalize");
  expect_rows(
      cross_entropy(x, Tensor::input("l", DType::i64, {Dim(std::int64_t{kRows})})), inputs, 1,
      [&](auto r, auto) { return log_sum_exp(r) - at(r, static_cast<std::size_t>(labels[r])); }, 1e-4, "cross_entropy");
  expect_rows(
      silu(x), inputs, kColumns, [&](auto r, auto c) { return at(r, c) / (1 + std::exp(-at(r, c))); }, 1e-5, "silu");

  const auto ranked = [&](std::size_t row, bool largest) {
    std::vector<std::pair<double, std::size_t>> all;
    for (std::size_t i = 0; i < kColumns; ++i) all.emplace_back(largest ? -at(row, i) : at(row, i), i);
    std::sort(all.begin(), all.end());
    return all;
  };
  for (const bool largest : {true, false}) {
    const TopK best = top_k(x, 3, 1, largest);
    expect_rows(
        best.positions, inputs, 3, [&](auto r, auto c) { return static_cast<double>(ranked(r, largest)[c].second); }, 0,
        "top_k positions");
    expect_rows(
        best.values, inputs, 3, [&](auto r, auto c) { return at(r, ranked(r, largest)[c].second); }, 0, "top_k values");
  }
}

TEST(ReferenceCompositions, DropoutKeepsWhatTheWordsSay) {
  const Tensor x = Tensor::input("x", DType::f32, {40, 100});
  const std::vector<float> data = random_floats(4000, 4, 1, 2);
  const auto y = evaluated(graph_to(dropout(x, 0.25, 77)), Inputs().add("x", data)).column;
  int kept = 0;
  for (std::size_t i = 0; i < 4000; ++i) {
    const bool keeps = static_cast<double>(ops::philox(77, i) >> 8) * 0x1p-24 < 0.25;
    EXPECT_EQ(y.value[i], keeps ? 4.0 * static_cast<double>(data[i]) : 0.0) << i;
    EXPECT_TRUE(std::isfinite(y.bound[i])) << i;
    kept += keeps ? 1 : 0;
  }
  EXPECT_NEAR(kept, 1000, 100);
}

}  // namespace
}  // namespace vkfuse::test
