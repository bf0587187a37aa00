// The model of few rows times weights whose fragments lanes make against what an H200 measured, which it is fitted to:
// bench/results/h200-few-rows.txt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <tuple>

#include "api/tensor_node.hpp"
#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/device.hpp"
#include "templates/matmul/tiles.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {
namespace {

using test::must;

struct Product {
  std::string kind;
  std::int64_t vectors = 0, rows = 0, columns = 0;
  auto operator<=>(const Product&) const = default;
  [[nodiscard]] std::string text() const {
    return fmt::format("{} {} x {} times {} rows", vectors, kind, columns, rows);
  }
};
/// Vectors of a chunk, subgroups.
using Form = std::pair<int, int>;

std::map<Product, std::map<Form, double>> measured() {
  std::ifstream file(std::string(VKFUSE_TEST_RESULTS) + "/h200-few-rows.txt");
  std::map<Product, std::map<Form, double>> all;
  bool begun = false;
  for (std::string line; std::getline(file, line);) {
    char kind[8] = {};
    Product product;
    int fragments = 0, vectors = 0, subgroups = 0;
    double us = 0;
    if (begun &&
        std::sscanf(line.c_str(), "%7s %ld %ld %ld: %d %d %d %lf", kind, &product.vectors, &product.rows,
                    &product.columns, &fragments, &vectors, &subgroups, &us) == 8 &&
        fragments == 1) {
      product.kind = kind;
      all[product][{vectors, subgroups}] = us;
    }
    begun = begun || line.starts_with("kind vectors rows columns: fragments");
  }
  return all;
}

Tensor weights_of(const Product& product) {
  const auto input = [&](DType dtype, const Shape& shape) { return Tensor::input("weights", dtype, shape); };
  const auto scale = [&](std::int64_t each) { return Tensor::input("scale", DType::f16, {product.rows, each, 1}); };
  if (product.kind == "f16") return input(DType::f16, {product.rows, product.columns});
  if (product.kind == "int8")
    return input(DType::i8, {product.rows, product.columns}).cast(DType::f16) * scale(1).reshape({product.rows, 1});
  const Tensor numbers = unpack_int4(input(DType::u8, {product.rows, product.columns / 2}), false).cast(DType::f16) - 8;
  return (numbers.reshape({product.rows, product.columns / 128, 128}) * scale(product.columns / 128))
      .reshape({product.rows, product.columns});
}

/// The product by itself.
schedule::Schedule scheduled(const Product& product, const Target& target) {
  const Tensor result =
      matmul(Tensor::input("x", DType::f16, {product.vectors, product.columns}), weights_of(product).permute({1, 0}));
  ir::Graph graph = must(passes::run_pipeline(must(api::to_graph(std::span(&result, 1), {}, "product"))));
  const plan::Plan plan = must(plan::make_plan(std::move(graph), target));
  EXPECT_EQ(plan.steps.size(), 1U) << product.text();
  return must(plan::schedule_all(plan, {}, {})).front().schedule;
}

Target h200() {
  Target target = test::discrete_gpu_with_measured_costs();
  target.costs = CostModel{.copy_gb_per_s = 4112, .launch_us = 1.9, .gflops = 30300, .accesses_per_us = 1.89e6};
  return target;
}

/// Between two timestamps a kernel takes so much longer than in a program.
constexpr double kStampedUs = 4.2 - 1.9;

TEST(LaneFragments, TheFormThatIsChosenIsAsFastAsTheBestMeasured) {
  const auto all = measured();
  ASSERT_GE(all.size(), 15U);
  for (const auto& [product, forms] : all) {
    const schedule::Schedule made = scheduled(product, h200());
    const auto* params = made.get_if<schedule::MatmulParams>();
    ASSERT_TRUE(params != nullptr && params->lane_fragments()) << product.text();
    const int in_vector = product.kind == "f16" || product.kind == "int8" ? 8 : 32;
    const Form chosen{params->tile_operands.back().elements / in_vector,
                      schedule::subgroups_of_lane_fragments(params->shape)};
    const double best = std::ranges::min_element(forms, {}, [](const auto& form) { return form.second; })->second;
    const auto known = forms.find(chosen);
    ASSERT_NE(known, forms.end()) << product.text() << ": " << chosen.first << ", " << chosen.second;
    EXPECT_LE(known->second, 1.06 * best) << product.text() << ": " << chosen.first << ", " << chosen.second;
    const double modelled = made.cost.modelled_us + kStampedUs;
    EXPECT_LE(std::abs(std::log(modelled / known->second)), std::log(1.3))
        << product.text() << fmt::format(": {:.1f} us modelled, {:.1f} measured", modelled, known->second);
    std::printf("%s: %.1f us modelled, %.1f measured, %.1f the best\n", product.text().c_str(), modelled, known->second,
                best);
  }
}

}  // namespace
}  // namespace vkfuse::bench
