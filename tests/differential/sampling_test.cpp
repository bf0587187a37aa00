// Tokens drawn from logits, against loops in double precision over the same uniform numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/device.hpp"
#include "support/random.hpp"
#include "vkfuse/executable.hpp"
#include "vkfuse/generation.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kSequences = 6, kTokens = 300;

struct Sampled {
  const char* name;
  SampleOptions options;
  friend void PrintTo(const Sampled& sampled, std::ostream* out) { *out << sampled.name; }
};

/// Rows of unlike spread, in steps of an eighth, so that some are equal.
std::vector<float> logits_of(std::uint64_t seed) {
  Random random(seed);
  std::vector<float> logits;
  for (std::int64_t row = 0; row < kSequences; ++row) {
    for (std::int64_t i = 0; i < kTokens; ++i)
      logits.push_back(static_cast<float>(std::round(8 * random.between(-2, 2) * static_cast<double>(row + 1)) / 8));
  }
  return logits;
}

/// The tokens of a row that are left, in the order in which noise is given to them; nothing where rounding decides.
std::optional<std::vector<std::size_t>> left_of(const std::vector<double>& row, const SampleOptions& options) {
  std::vector<std::size_t> order(row.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (options.top_k > 0 || options.top_p < 1)
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
  if (options.top_k > 0) order.resize(static_cast<std::size_t>(options.top_k));
  double sum = 0, before = 0;
  for (const std::size_t token : order) sum += std::exp(row[token]);
  if (options.top_p < 1) {
    std::size_t count = 0;
    for (; count < order.size() && before / sum < options.top_p; ++count) {
      before += std::exp(row[order[count]]);
      if (std::abs(before / sum - options.top_p) < 1e-5) return std::nullopt;
    }
    order.resize(count);
  }
  const double least = *std::max_element(row.begin(), row.end()) + std::log(options.min_p);
  std::vector<std::size_t> left;
  for (const std::size_t token : order) {
    if (std::abs(row[token] - least) < 1e-5) return std::nullopt;
    left.push_back(row[token] >= least ? token : row.size());
  }
  return left;
}

/// Runs a program of a seed and logits.
Outputs drawn(const Executable& program, const std::vector<float>& logits, std::int32_t seed) {
  return must(program.run({{"logits", HostView(logits)}, {"seed", HostView(std::vector<std::int32_t>{seed})}}));
}

class Samples : public testing::TestWithParam<Sampled> {};

TEST_P(Samples, AreThoseOfLoops) {
  const SampleOptions& options = GetParam().options;
  const Tensor logits = Tensor::input("logits", DType::f32, {kSequences, kTokens}),
               seed = Tensor::input("seed", DType::i32, {1});
  const std::int64_t width = options.top_k > 0 ? options.top_k : kTokens;
  const Executable program =
      must(compile(device(), {sample(logits, seed, options), random_uniform({kSequences, width}, seed)}));
  int decided = 0;
  for (std::int32_t draw = 0; draw < 40; ++draw) {
    const std::vector<float> given = logits_of(static_cast<std::uint64_t>(draw));
    const Outputs outputs = drawn(program, given, draw * 7919 - 5);
    const auto tokens = outputs.at("y").as<std::int32_t>();
    const auto noise = outputs.at("y1").as<float>();
    for (std::int64_t r = 0; r < kSequences; ++r) {
      std::vector<double> row;
      for (std::int64_t i = 0; i < kTokens; ++i)
        row.push_back(static_cast<double>(given[static_cast<std::size_t>(r * kTokens + i)]) / options.temperature);
      const auto left = left_of(row, options);
      if (!left) continue;
      double best = -INFINITY, second = -INFINITY;
      std::size_t token = 0;
      for (std::size_t i = 0; i < left->size(); ++i) {
        if ((*left)[i] == row.size()) continue;
        const double uniform = std::max(static_cast<double>(noise[static_cast<std::size_t>(r * width) + i]), 0x1p-25);
        const double value = row[(*left)[i]] - std::log(-std::log(uniform));
        second = std::max(second, std::min(value, best));
        if (value > best) token = (*left)[i];
        best = std::max(best, value);
      }
      if (best - second < 1e-4) continue;
      ++decided;
      ASSERT_EQ(tokens[static_cast<std::size_t>(r)], static_cast<std::int32_t>(token))
          << "draw " << draw << ", row " << r;
    }
    const Outputs again = drawn(program, given, draw * 7919 - 5);
    EXPECT_TRUE(std::ranges::equal(again.at("y").as<std::int32_t>(), tokens)) << "another run draws otherwise";
  }
  EXPECT_GE(decided, 200);
}

INSTANTIATE_TEST_SUITE_P(
    Differential, Samples,
    testing::Values(Sampled{"all", {}}, Sampled{"cold", {.temperature = 0.25}},
                    Sampled{"top_k", {.temperature = 1.5, .top_k = 20}}, Sampled{"top_1", {.top_k = 1}},
                    Sampled{"top_p", {.top_p = 0.8}}, Sampled{"min_p", {.min_p = 0.05}},
                    Sampled{"all_three", {.temperature = 2, .top_k = 50, .top_p = 0.9, .min_p = 0.02}}),
    [](const auto& one) { return std::string(one.param.name); });

/// 20,000 draws of five tokens: as often as their probabilities say, within five deviations.
TEST(SampleFrequencies, AreTheProbabilities) {
  constexpr std::int64_t kDraws = 20000;
  const Tensor logits = Tensor::input("logits", DType::f32, {1, 5}), seed = Tensor::input("seed", DType::i32, {1});
  const Executable program = must(compile(device(), {sample(logits.broadcast_to({kDraws, 5}), seed)}));
  const std::vector<float> given{0, 1, 2, -1, 0.5F};
  const Outputs outputs = drawn(program, given, 3);
  std::vector<double> counts(5, 0);
  for (const std::int32_t token : outputs.at("y").as<std::int32_t>()) counts.at(static_cast<std::size_t>(token)) += 1;
  double sum = 0;
  for (const float one : given) sum += std::exp(static_cast<double>(one));
  for (std::size_t i = 0; i < 5; ++i) {
    const double p = std::exp(static_cast<double>(given[i])) / sum;
    EXPECT_NEAR(counts[i] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << "token " << i;
  }
}

TEST(SampleErrors, NameTheValue) {
  const Tensor logits = Tensor::input("logits", DType::f32, {1, 9}), seed = Tensor::input("seed", DType::i32, {1});
  const auto refusal = [&](const SampleOptions& options) {
    const Tensor y = sample(logits, seed, options);
    return y.valid() ? std::string() : y.error().message;
  };
  EXPECT_EQ(refusal({.temperature = 0}), "'sample' divides by a temperature above 0, but it is 0.");
  EXPECT_EQ(refusal({.top_k = 10}), "'sample' of 9 tokens keeps 1 to 9, or with 0 all, but top_k is 10.");
  EXPECT_EQ(refusal({.top_p = 0}), "'sample' keeps a probability above 0 and up to 1, but top_p is 0.");
  EXPECT_EQ(refusal({.min_p = 1.5}),
            "'sample' takes a least probability of 0 to 1 times the largest, but min_p is 1.5.");
  EXPECT_EQ(sample(seed, seed).error().message,
            "'sample' takes logits of [batch, tokens], floats, but it was given i32[1].");
}

}  // namespace
}  // namespace vkfuse::test
