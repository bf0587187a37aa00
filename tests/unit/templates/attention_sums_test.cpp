// Attention of several sums: the gradients of keys and of values are one kernel where cooperative matrices multiply.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "templates/attention/params.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/gradients.hpp"

namespace vkfuse::test {
namespace {

/// The results of attention with heads of that many columns, and its gradients.
ir::Graph attention_and_gradients(std::int64_t columns, std::int64_t columns_of_values, bool causal) {
  const auto input = [](const char* name, std::int64_t size) {
    return Tensor::input(name, DType::f16, {2, 8, 2048, size});
  };
  const std::vector<Tensor> wrt = {input("q", columns), input("k", columns), input("v", columns_of_values)};
  const Tensor y = attention(wrt[0], wrt[1], wrt[2], {.causal = causal});
  const Tensor cotangent = input("cotangent", columns_of_values);
  std::vector<Tensor> all = gradients(std::span(&y, 1), wrt, std::span(&cotangent, 1));
  all.push_back(y);
  return graph_of(all);
}

/// The attentions of a plan that have several sums.
std::vector<schedule::AttentionParams> with_several_sums(const ir::Graph& graph, const Target& target,
                                                         const partition::Options& options = {}) {
  const plan::Plan made = must(plan::make_plan(graph, target, options));
  std::vector<schedule::AttentionParams> all;
  for (const plan::ScheduledKernel& step : must(plan::schedule_all(made, {}))) {
    const auto* params = step.schedule.get_if<schedule::AttentionParams>();
    if (params != nullptr && params->sums.size() > 1) all.push_back(*params);
  }
  return all;
}

TEST(AttentionOfSeveralSums, GradientsOfKeysAndOfValuesAreOneKernel) {
  for (const bool causal : {false, true}) {
    const ir::Graph graph = attention_and_gradients(64, 64, causal);
    for (const Target& target : {discrete_gpu_with_matrices(), discrete_gpu_with_matrix_products()}) {
      const auto found = with_several_sums(graph, target);
      ASSERT_EQ(found.size(), 1U);
      EXPECT_EQ(found[0].sums.size(), 2U);
      EXPECT_EQ(found[0].products.size(), 2U) << "each once for both";
      EXPECT_EQ(found[0].mask.empty(), !causal);
      // The cotangent and the queries are keys of the products, too.
      const schedule::CooperativeAttention& mapping = *found[0].cooperative();
      EXPECT_EQ(mapping.keys_are_values[0], 1U) << "weights of the values' gradients come first";
      EXPECT_EQ(mapping.keys_are_values[1], 0U);
      EXPECT_EQ(mapping.reloaded, 0) << "both operands are in registers";
    }
  }
}

TEST(AttentionOfSeveralSums, QueriesAreLoadedAgainWhereRegistersAreFew) {
  const Target target = discrete_gpu_with_matrices();
  const auto found = with_several_sums(attention_and_gradients(128, 128, false), target);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_GT(found[0].cooperative()->reloaded, 0);
}

TEST(AttentionOfSeveralSums, IsNotPlannedElsewhere) {
  // Threads have one sum.
  EXPECT_TRUE(with_several_sums(attention_and_gradients(64, 64, true), discrete_gpu()).empty());
  // Sums of other columns are no neighbours.
  EXPECT_TRUE(with_several_sums(attention_and_gradients(64, 48, true), discrete_gpu_with_matrices()).empty());
  // It is a fusion of siblings, which parts of kernels that move may also become.
  const partition::Options apart{.without = {partition::PlannerPass::siblings, partition::PlannerPass::moves}};
  EXPECT_TRUE(with_several_sums(attention_and_gradients(64, 64, true), discrete_gpu_with_matrices(), apart).empty());
}

/// A weight is passed on under its name, so it is not a product as it is, and no other sum has it.
TEST(AttentionOfSeveralSums, HaveDifferentWeights) {
  const auto operand = [](const char* name, std::int64_t rows) {
    return Tensor::input(name, DType::f16, {4, rows, 64});
  };
  const Tensor h = matmul(operand("x", 512), operand("w", 512).permute({0, 2, 1}));
  const Tensor a = operand("a", 512), b = operand("b", 512);
  for (const auto& weights : {std::pair(h, relu(h)), std::pair(relu(h), relu(h))}) {
    const ir::Graph graph = graph_of({matmul(weights.first, a), matmul(weights.second, b)});
    EXPECT_TRUE(with_several_sums(graph, discrete_gpu_with_matrices()).empty());
  }
}

}  // namespace
}  // namespace vkfuse::test
