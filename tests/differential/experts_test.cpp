// The pieces of mixtures of experts: the choice, blocks of any form, what is refused, and how many kernels they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/compare.hpp"
#include "support/random.hpp"
#include "vkfuse/experts.hpp"
#include "vkfuse/gradients.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

std::vector<float> floats(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> all(count);
  for (float& one : all) one = static_cast<float>(random.between(-1, 1));
  return all;
}

TEST(Experts, AreTheLargestWithTheirShares) {
  constexpr std::size_t kTokens = 21, kExperts = 6, kChosen = 3;
  const std::vector<float> logits = floats(kTokens * kExperts, 5);
  for (const bool renormalise : {true, false}) {
    const ExpertChoice choice = choose_experts(Tensor::input("logits", DType::f32, {21, 6}), kChosen, renormalise);
    const Executable program = must(compile(device(), {choice.experts, choice.shares}, {}));
    const Outputs outputs = must(program.run({{"logits", HostView(logits)}}));
    const auto experts = outputs.at("y").as<std::int32_t>();
    const auto shares = outputs.at("y1").as<float>();
    for (std::size_t t = 0; t < kTokens; ++t) {
      const auto logit = [&](std::size_t expert) { return double{logits[t * kExperts + expert]}; };
      std::vector<std::size_t> order(kExperts);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logit(a) > logit(b); });
      double sum = 0;
      for (std::size_t i = 0; i < (renormalise ? kChosen : kExperts); ++i) sum += std::exp(logit(order[i]));
      for (std::size_t i = 0; i < kChosen; ++i) {
        EXPECT_EQ(experts[t * kChosen + i], static_cast<std::int32_t>(order[i]));
        EXPECT_NEAR(shares[t * kChosen + i], std::exp(logit(order[i])) / sum, 1e-5);
      }
    }
  }
}

/// Rows of blocks joined without a network are the tokens times the sums of their shares, wherever each went.
TEST(Experts, RowsComeBackToTheirTokens) {
  struct {
    std::int64_t tokens, chosen, experts;
    std::optional<std::int64_t> rows;
  } const cases[] = {{50, 2, 8, {}}, {50, 2, 8, 7}, {3, 2, 8, {}}, {3, 2, 8, 4}, {300, 4, 3, {}}, {1, 1, 1, {}}};
  for (const auto& c : cases) {
    const ExpertBlocks blocks(Tensor::input("experts", DType::i32, {c.tokens, c.chosen}), c.experts, c.rows);
    const Tensor x = Tensor::input("x", DType::f32, {c.tokens, 5}),
                 shares = Tensor::input("shares", DType::f32, {c.tokens, c.chosen}),
                 scale = Tensor::input("scale", DType::f32, {c.experts});
    const Tensor own = blocks.rows_of(x) * blocks.weights_of(scale).reshape({blocks.blocks(), 1, 1});
    const Executable program = must(compile(device(), {blocks.joined(own, shares)}, {}));
    const auto tokens = static_cast<std::size_t>(c.tokens), chosen = static_cast<std::size_t>(c.chosen);
    const std::vector<float> rows = floats(tokens * 5, 1), parts = floats(tokens * chosen, 2),
                             scales = floats(static_cast<std::size_t>(c.experts), 3);
    for (const bool all_to_one : {false, true}) {
      Random random(7);
      std::vector<std::int32_t> experts(tokens * chosen);
      for (std::int32_t& one : experts)
        one = all_to_one ? static_cast<std::int32_t>(c.experts) - 1
                         : static_cast<std::int32_t>(random.below(static_cast<std::size_t>(c.experts)));
      const Outputs outputs = must(program.run({{"experts", HostView(experts)},
                                                {"x", HostView(rows)},
                                                {"shares", HostView(parts)},
                                                {"scale", HostView(scales)}}));
      const auto y = outputs.at("y").as<float>();
      for (std::size_t t = 0; t < tokens; ++t) {
        double share = 0;
        for (std::size_t i = 0; i < chosen; ++i)
          share += double{parts[t * chosen + i]} * double{scales[static_cast<std::size_t>(experts[t * chosen + i])]};
        for (std::size_t i = 0; i < 5; ++i) ASSERT_NEAR(y[t * 5 + i], share * double{rows[t * 5 + i]}, 1e-5);
      }
    }
  }
}

/// A token by itself: a router, a choice, its shares, and networks that read the matrices of the chosen where they lie.
TEST(Experts, OfOneTokenAreSixKernels) {
  const Tensor x = Tensor::input("x", DType::f16, {1, 64});
  const Tensor up = Tensor::input("up", DType::f16, {8, 64, 96}), gate = Tensor::input("gate", DType::f16, {8, 64, 96});
  const Tensor down = Tensor::input("down", DType::f16, {8, 96, 64});
  const ExpertChoice choice = choose_experts(matmul(x, Tensor::input("router", DType::f16, {64, 8})), 2);
  const Executable program = must(compile(device(), {mixture_of_experts(x, choice, up, down, {.gate = gate})}, {}));
  EXPECT_TRUE(are_kernels_at_most(static_cast<std::size_t>(program.kernel_count()), 6));
}

TEST(Experts, HaveGradients) {
  const Tensor x = Tensor::input("x", DType::f32, {9, 4}), up = Tensor::input("up", DType::f32, {3, 4, 5}),
               down = Tensor::input("down", DType::f32, {3, 5, 4}), shares = Tensor::input("s", DType::f32, {9, 2});
  const ExpertChoice choice{Tensor::input("e", DType::i32, {9, 2}), shares};
  const Tensor loss = mixture_of_experts(x, choice, up, down).sum();
  const std::vector<Tensor> all = gradients({loss}, {x, up, down, shares});
  const Executable program = must(compile(device(), {loss, all[0], all[1], all[2], all[3]}, {}));
  std::map<std::string, std::vector<float>> given = {
      {"x", floats(36, 1)}, {"up", floats(60, 2)}, {"down", floats(60, 3)}, {"s", floats(18, 4)}};
  const std::vector<std::int32_t> experts = {0, 1, 2, 2, 1, 0, 0, 2, 2, 1, 2, 0, 0, 0, 1, 2, 2, 0};
  const auto run = [&] {
    return must(program.run({{"x", HostView(given["x"])},
                             {"up", HostView(given["up"])},
                             {"down", HostView(given["down"])},
                             {"s", HostView(given["s"])},
                             {"e", HostView(experts)}}));
  };
  const Outputs at = run();
  const char* const names[] = {"x", "up", "down", "s"};
  for (std::size_t k = 0; k < 4; ++k) {
    std::vector<float>& values = given[names[k]];
    const std::string output = "y" + std::to_string(k + 1);
    for (std::size_t i = 0; i < values.size(); i += 5) {
      const float kept = values[i];
      double sides[2];
      for (const int side : {0, 1}) {
        values[i] = kept + (side == 0 ? -0.01F : 0.01F);
        sides[side] = double{run().at("y").as<float>()[0]};
      }
      values[i] = kept;
      EXPECT_NEAR(at.at(output).as<float>()[i], (sides[1] - sides[0]) / 0.02, 2e-3) << names[k] << " " << i;
    }
  }
}

TEST(ExpertsErrors, SayWhatWasGiven) {
  const auto refusal = [](const Tensor& y) { return y.valid() ? std::string() : y.error().message; };
  const Tensor logits = Tensor::input("l", DType::f32, {4, 3}), x = Tensor::input("x", DType::f32, {4, 8}),
               experts = Tensor::input("e", DType::i32, {4, 2});
  EXPECT_EQ(
      refusal(choose_experts(logits, 4).experts),
      "'choose_experts' takes logits of [tokens, experts], floats, whose experts are no symbol, and chooses 1 to all "
      "of these, but it is to choose 4 of f32[4, 3].");
  EXPECT_EQ(refusal(ExpertBlocks(experts.cast(DType::i64), 3).rows_of(x)),
            "'ExpertBlocks' takes choices of i32 [tokens, chosen], whose sizes are numbers, but they are i64[4, 2].");
  EXPECT_EQ(refusal(ExpertBlocks(experts, 3, 0).rows_of(x)),
            "'ExpertBlocks' has blocks of 1 to 1024 rows, but they are to have 0.");
  EXPECT_EQ(
      refusal(ExpertBlocks(experts, 0).rows_of(x)),
      "'ExpertBlocks' takes at least one expert and one choice, and at most 1073741824 experts times choices, but "
      "there are 0 experts and 8 choices.");
  EXPECT_EQ(refusal(ExpertBlocks(experts, 3).rows_of(experts.reshape({2, 4}))),
            "'ExpertBlocks' of 4 tokens takes rows of x [4, ...], but it was given i32[2, 4].");
  const Tensor up = Tensor::input("up", DType::f32, {3, 8, 5}), down = Tensor::input("d", DType::f32, {3, 6, 8});
  EXPECT_EQ(
      refusal(mixture_of_experts(x, {experts, x}, up, down)),
      "'mixture_of_experts' takes x [tokens, width], up and gate [experts, width, inner] and down [experts, inner, "
      "width out], whose experts are no symbol, but they are f32[4, 8], f32[3, 8, 5] and f32[3, 6, 8].");
}

}  // namespace
}  // namespace vkfuse::test
