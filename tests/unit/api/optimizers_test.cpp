// Optimisers against loops in double, over several steps, and what they refuse.
#include "vkfuse/optimizers.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "api/tensor_node.hpp"
#include "reference/reference.hpp"
#include "support/device.hpp"

namespace vkfuse::test {
namespace {

using Numbers = std::vector<double>;

/// Elements of tensors that are made of constants.
std::vector<Numbers> values_of(const std::vector<Tensor>& tensors) {
  const ir::Graph graph = must(api::to_graph(tensors, {}, "values"));
  std::vector<Numbers> all;
  for (const ir::Output& output : graph.outputs()) {
    const reference::Column column = must(reference::evaluate(graph, output.value, {}));
    const bool is_real = is_float(graph.node(output.value).type.dtype);
    all.push_back(is_real ? column.value : Numbers(column.integer.begin(), column.integer.end()));
  }
  return all;
}

Tensor of(DType dtype, const Numbers& numbers) {
  std::vector<std::byte> bytes;
  for (const double number : numbers) ir::encode(dtype, number, bytes);
  return Tensor::constant(dtype, {static_cast<std::int64_t>(numbers.size())}, bytes);
}
Tensor of(const Numbers& numbers) { return of(DType::f64, numbers); }
Tensor one(double number) { return Tensor::scalar(DType::f64, number); }

struct State {
  Numbers p;
  std::vector<Numbers> states;
};
using TensorStep = std::function<Updated(const Tensor& p, const Tensor& g, const std::vector<Tensor>& s, double step)>;
/// Of one element.
using NumberStep = std::function<void(double& p, double g, std::vector<double>& s, double step)>;

/// Four steps, whose gradients differ; each goes on from the numbers of the one before.
void compare(std::size_t states, const TensorStep& tensors, const NumberStep& numbers) {
  const Numbers gradients[] = {{0.5, -2, 0}, {-1, -0.25, 3}, {0.125, 4, -1}, {1, 1, 1}};
  State got{{1, -2, 0.5}, std::vector<Numbers>(states, Numbers(3, 0.0))}, wanted = got;
  for (int step = 1; step <= 4; ++step) {
    const Numbers& g = gradients[step - 1];
    std::vector<Tensor> before;
    for (const Numbers& state : got.states) before.push_back(of(state));
    const Updated updated = tensors(of(got.p), of(g), before, step);
    std::vector<Tensor> all = updated.states;
    all.insert(all.begin(), updated.parameter);
    std::vector<Numbers> values = values_of(all);
    got.p = values[0];
    got.states.assign(values.begin() + 1, values.end());
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<double> own;
      for (const Numbers& state : wanted.states) own.push_back(state[i]);
      numbers(wanted.p[i], g[i], own, step);
      for (std::size_t k = 0; k < states; ++k) wanted.states[k][i] = own[k];
      EXPECT_NEAR(got.p[i], wanted.p[i], 1e-12) << "step " << step << ", element " << i;
      for (std::size_t k = 0; k < states; ++k) EXPECT_NEAR(got.states[k][i], wanted.states[k][i], 1e-12);
    }
  }
}

TEST(Optimizers, AreThoseOfTheirPapers) {
  compare(
      0, [](const auto& p, const auto& g, const auto& s, double) { return sgd(p, g, s, one(0.1)); },
      [](double& p, double g, auto&, double) { p -= 0.1 * g; });
  const SgdOptions plain{.momentum = 0.9, .weight_decay = 0.01};
  compare(
      1, [&](const auto& p, const auto& g, const auto& s, double) { return sgd(p, g, s, one(0.1), plain); },
      [](double& p, double g, auto& s, double) {
        s[0] = 0.9 * s[0] + g + 0.01 * p;
        p -= 0.1 * s[0];
      });
  const SgdOptions ahead{.momentum = 0.9, .nesterov = true};
  compare(
      1, [&](const auto& p, const auto& g, const auto& s, double) { return sgd(p, g, s, one(0.1), ahead); },
      [](double& p, double g, auto& s, double) {
        s[0] = 0.9 * s[0] + g;
        p -= 0.1 * (g + 0.9 * s[0]);
      });
  const AdamwOptions adam{.weight_decay = 0.1};
  compare(
      2,
      [&](const auto& p, const auto& g, const auto& s, double t) {
        return adamw(p, g, s, {one(0.01), one(t)}, adam);
      },
      [](double& p, double g, auto& s, double t) {
        p -= 0.01 * 0.1 * p;
        s[0] = 0.9 * s[0] + 0.1 * g;
        s[1] = 0.999 * s[1] + 0.001 * g * g;
        p -= 0.01 * (s[0] / (1 - std::pow(0.9, t))) / (std::sqrt(s[1] / (1 - std::pow(0.999, t))) + 1e-8);
      });
  const LionOptions signs{.weight_decay = 0.1};
  compare(
      1, [&](const auto& p, const auto& g, const auto& s, double) { return lion(p, g, s, one(0.01), signs); },
      [](double& p, double g, auto& s, double) {
        const double c = 0.9 * s[0] + 0.1 * g;
        p -= 0.01 * ((c > 0) - (c < 0) + 0.1 * p);
        s[0] = 0.99 * s[0] + 0.01 * g;
      });
}

TEST(Optimizers, ClipByTheNormOfAllGradients) {
  const std::vector<Tensor> gradients = {of({3, 0}), of({4})};
  const ClippedGradients clipped = clip_by_global_norm(gradients, 1), free = clip_by_global_norm(gradients, 6);
  EXPECT_EQ(values_of({clipped.norm})[0], Numbers{5});
  const auto values = values_of(clipped.gradients);
  EXPECT_NEAR(values[0][0], 0.6, 1e-15);
  EXPECT_NEAR(values[1][0], 0.8, 1e-15);
  EXPECT_EQ(values_of(free.gradients)[1], Numbers{4});
  const std::vector<Tensor> halves = {of(DType::f16, {300, 400})};  // whose squares overflow
  const ClippedGradients small = clip_by_global_norm(halves, 5);
  EXPECT_EQ(small.norm.dtype(), DType::f32);
  EXPECT_NEAR(values_of(small.gradients)[0][1], 4, 2e-3);
  EXPECT_NEAR(values_of({moving_average(of({1, 2}), of({3, 0}), 0.75)})[0][0], 1.5, 1e-15);
}

TEST(Optimizers, SkipStepsThatOverflow) {
  const auto scale_after = [](double scale, int good, const Tensor& finite, LossScaleOptions options = {}) {
    const LossScale next =
        next_loss_scale({Tensor::scalar(DType::f32, scale), Tensor::scalar_int(DType::i32, good)}, finite, options);
    const auto values = values_of({next.scale, next.good});
    return std::pair(values[0][0], values[1][0]);
  };
  const Tensor yes = all_finite(std::vector{of({1, 2}), of({0})});
  const Tensor no = all_finite(std::vector{of({1, 2}), of({INFINITY})});
  EXPECT_EQ(values_of({yes, no}), (std::vector<Numbers>{{1}, {0}}));
  EXPECT_EQ(values_of({all_finite(std::vector{of({NAN})})})[0], Numbers{0});
  EXPECT_EQ(scale_after(1024, 5, yes), std::pair(1024.0, 6.0));
  EXPECT_EQ(scale_after(1024, 1999, yes), std::pair(2048.0, 0.0));
  EXPECT_EQ(scale_after(1024, 1999, no), std::pair(512.0, 0.0));
  EXPECT_EQ(scale_after(1024, 0, yes, {.interval = 1, .largest = 1500}), std::pair(1500.0, 0.0));
  const Updated updated{of({1, 2}), {of({3, 4})}};
  const Updated kept = keep_unless(no, updated, of({5, 6}), {of({7, 8})});
  EXPECT_EQ(values_of({kept.parameter, kept.states[0]}), (std::vector<Numbers>{{5, 6}, {7, 8}}));
  const Updated taken = keep_unless(yes, updated, of({5, 6}), {of({7, 8})});
  EXPECT_EQ(values_of({taken.parameter, taken.states[0]}), (std::vector<Numbers>{{1, 2}, {3, 4}}));
}

TEST(Optimizers, RefuseWithOneSentence) {
  const Tensor p = Tensor::input("p", DType::f32, {4}), g = Tensor::input("g", DType::f16, {4});
  const Tensor rate = Tensor::scalar(DType::f32, 0.1), n = Tensor::input("n", DType::i32, {4});
  const auto error = [](const Updated& made) { return made.parameter.error().message; };
  EXPECT_EQ(error(sgd(p, g, {}, rate)),
            "'sgd' takes a gradient and states of the parameter's type f32[4], but one is f16[4].");
  EXPECT_EQ(error(sgd(p, p, {p}, rate)), "'sgd' with these options has 0 states for each parameter, but 1 are given.");
  EXPECT_EQ(error(lion(n, n, {n}, rate)), "'lion' takes floats, but the parameter is i32[4].");
  const Updated none = adamw(p, p, {p, p}, {rate, p});
  EXPECT_EQ(error(none), "'adamw' takes rates and counts that are scalars of f32, but one is f32[4].");
  ASSERT_EQ(none.states.size(), 2U);
  EXPECT_EQ(none.states[1].error().message, error(none));
  EXPECT_EQ(clip_by_global_norm(std::vector{p}, 0).norm.error().message,
            "'clip_by_global_norm' takes a norm above 0, but it is 0.");
  EXPECT_EQ(clip_by_global_norm(std::vector{n}, 1).gradients[0].error().message,
            "'clip_by_global_norm' takes floats, but one is i32[4].");
  EXPECT_EQ(error(keep_unless(Tensor::scalar(DType::boolean, 1), {p, {p}}, p, {})),
            "'keep_unless' takes as many states as there are, but 1 and 0 are given.");
}

}  // namespace
}  // namespace vkfuse::test
