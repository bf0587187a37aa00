// Forward and backward in one program on the device, against the reference; and how few kernels that takes.
#include "vkfuse/gradients.hpp"

#include <gtest/gtest.h>

#include "api/tensor_node.hpp"
#include "support/compare.hpp"
#include "support/gradient_cases.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::test {
namespace {

/// y and its gradients with respect to all operands, given a cotangent.
ir::Graph both_ways(GradientDraw& d, const Tensor& y) {
  const Tensor g = d.floats({}, 0.5, 1.5).broadcast_to(y.shape());
  d.wrt.pop_back();
  std::vector<Tensor> results = gradients(std::span(&y, 1), d.wrt, std::span(&g, 1));
  results.insert(results.begin(), y);
  return must(api::to_graph(results, {}, "gradients"));
}

struct Sample {
  DType dtype;
  bool symbolic;
};

class GradientFamilies : public testing::TestWithParam<Sample> {};

TEST_P(GradientFamilies, AreThoseOfTheReference) {
  const auto [dtype, symbolic] = GetParam();
  int checked = 0;
  for (const GradientFamily& family : gradient_families()) {
    GradientDraw d(seed_of(7, family.name), dtype, symbolic);
    const Tensor y = family.make(d);
    if (symbolic && (!y.valid() || d.data.symbols.empty())) continue;
    ASSERT_TRUE(y.valid()) << family.name << ": " << y.error().text();
    const ir::Graph graph = both_ways(d, y);
    compare_with_reference(compile_graph(graph, Build{}), graph, d.data, family.name);
    if (HasFailure()) return;
    ++checked;
  }
  EXPECT_GE(checked, symbolic ? 40 : 100);
}

INSTANTIATE_TEST_SUITE_P(All, GradientFamilies, testing::Values(Sample{DType::f32, false}, Sample{DType::f32, true}),
                         [](const auto& one) { return one.param.symbolic ? "symbols" : "numbers"; });

}  // namespace
}  // namespace vkfuse::test
