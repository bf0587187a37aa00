// Which results of attention leave open what a row's sums are relative to: those may be rescaled seldom.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "templates/attention/params.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::test {
namespace {

/// The parts of a softmax of products, and the sum that its weights make.
struct Parts {
  Tensor most, total, sum;

  [[nodiscard]] Tensor attended() const { return sum / total; }
};

Parts some_parts() {
  const auto input = [](const char* name) { return Tensor::input(name, DType::f16, {4, 16, 512, 64}); };
  const Tensor scores = matmul(input("q") * 0.125, input("k").transpose()).cast(DType::f32);
  const Tensor most = scores.max({3}, true);
  const Tensor weights = exp(scores - most);
  return {most, weights.sum({3}, true), matmul(weights.cast(DType::f16), input("v")).cast(DType::f32)};
}

/// Whether these results are one kernel of cooperative matrices whose sums are rescaled where scores rise a lot.
bool rescales_lazily(const std::vector<Tensor>& results) {
  const plan::Plan made = must(plan::make_plan(graph_of(results), discrete_gpu_with_matrix_products()));
  const std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(made, {}));
  if (steps.size() != 1) throw std::runtime_error(std::to_string(steps.size()) + " kernels");
  const auto* params = steps.front().schedule.get_if<schedule::AttentionParams>();
  if (params == nullptr || params->cooperative() == nullptr) throw std::runtime_error("no matrices");
  return params->cooperative()->lazy_rescaling;
}

TEST(BaseDependence, QuotientsAndLogarithmsOfSumsHaveNone) {
  const Parts p = some_parts();
  EXPECT_TRUE(rescales_lazily({p.attended()}));
  EXPECT_TRUE(rescales_lazily({(-p.sum * 3) / (p.total + p.total)}));
  EXPECT_TRUE(rescales_lazily({p.attended(), p.most + log(p.total)}));
  EXPECT_TRUE(rescales_lazily({p.attended(), log(p.total * p.total) + p.most + p.most}));
  EXPECT_TRUE(rescales_lazily({p.attended(), select(is_finite(p.most), log(p.total) + p.most, p.most)}));
}

TEST(BaseDependence, WhatIsLeftOfTheBaseHasOne) {
  const Parts p = some_parts();
  EXPECT_FALSE(rescales_lazily({p.attended(), p.total}));
  EXPECT_FALSE(rescales_lazily({p.attended(), p.most}));
  EXPECT_FALSE(rescales_lazily({p.attended(), log(p.total)}));
  EXPECT_FALSE(rescales_lazily({p.sum / (p.total + 1)}));
  EXPECT_FALSE(rescales_lazily({p.sum * p.total}));
  EXPECT_FALSE(rescales_lazily({p.sum.cast(DType::f16) / p.total.cast(DType::f16)})) << "they may be too large";
  EXPECT_FALSE(rescales_lazily({p.attended() * p.most}));
  EXPECT_FALSE(rescales_lazily({p.attended(), p.most - log(p.total)}));
  EXPECT_FALSE(rescales_lazily({select(gt(p.most, Tensor::scalar(DType::f32, 0)), p.attended(), p.attended() * 2)}));
  EXPECT_FALSE(rescales_lazily({p.attended(), select(is_finite(p.most), p.total, p.most + log(p.total))}));
}

}  // namespace
}  // namespace vkfuse::test
