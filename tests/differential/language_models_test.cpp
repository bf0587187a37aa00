// Generation: a prompt in chunks and then token by token against caches that stay in place, in models of several
// families, compared with loops in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "support/device.hpp"
#include "support/language_model.hpp"
#include "vkfuse/executable.hpp"

namespace vkfuse::test {
namespace {

using Buffers = std::map<std::string, Buffer, std::less<>>;
constexpr std::int64_t kChunk = 8, kGenerated = 64;
/// Where the two best logits of the reference are nearer than this, either token is right: a hundred times what f32
/// rounding adds up to in such models.
constexpr double kBound = 1e-3;

Buffer filled(std::span<const std::byte> bytes) {
  Buffer buffer = must(device().allocate(bytes.size()));
  must(buffer.write(bytes));
  return buffer;
}
template <typename T>
Buffer filled(const std::vector<T>& data) {
  return filled(std::as_bytes(std::span(data)));
}

/// A model on the device: programs for a chunk and for a token, and caches that begin as NaN.
class Generator {
 public:
  explicit Generator(const LanguageModel& model) {
    for (const auto& [name, values] : model.weights()) inputs_.emplace(name, filled(values));
    const std::vector<float> nothing(static_cast<std::size_t>(model.cache_elements()), NAN);
    for (const std::string& name : model.caches()) {
      inputs_.emplace(name, filled(nothing));
      outputs_.emplace(name + "'", inputs_.at(name));
    }
    const std::vector<float> logits(static_cast<std::size_t>(model.family().tokens));
    outputs_.emplace("logits", filled(logits));
    inputs_.emplace("start", filled(std::vector<std::int32_t>(1)));
    inputs_.emplace("last", filled(std::vector<std::int32_t>(1)));
    if (model.family().page > 0) inputs_.emplace("table", filled(model.table()));
    token_ = filled(std::vector<std::int32_t>(1));
    chunk_ = filled(std::vector<std::int32_t>(kChunk));
    outputs_.emplace("token", token_);
    for (const std::int64_t count : {std::int64_t{1}, kChunk}) {
      const LanguageModel::Step step = model.step(count);
      CompileOptions options;
      options.output_names = step.names;
      programs_.emplace(count, must(compile(device(), step.outputs, options)));
    }
  }

  /// The token that comes after these, which come after `start` others.
  std::int32_t after(std::span<const std::int32_t> tokens, std::int32_t start) {
    std::int32_t next = 0;
    for (std::size_t done = 0; done < tokens.size(); done += kChunk) {
      std::vector<std::int32_t> part(
          tokens.begin() + static_cast<std::ptrdiff_t>(done),
          tokens.begin() + static_cast<std::ptrdiff_t>(std::min(done + kChunk, tokens.size())));
      const auto count = static_cast<std::int32_t>(part.size());
      part.resize(kChunk, 5);  // written after those that are there, and written over by what comes next
      must(chunk_.write(std::as_bytes(std::span(part))));
      next = run(kChunk, chunk_, start + static_cast<std::int32_t>(done), count - 1);
    }
    return next;
  }
  /// The token after the one that came out last, which has not left the device.
  std::int32_t next(std::int32_t start) { return run(1, token_, start, 0); }

 private:
  std::int32_t run(std::int64_t count, const Buffer& tokens, std::int32_t start, std::int32_t last) {
    must(inputs_.at("start").write(std::as_bytes(std::span(&start, 1))));
    must(inputs_.at("last").write(std::as_bytes(std::span(&last, 1))));
    Bindings bindings{.inputs = inputs_, .outputs = outputs_};
    bindings.inputs.emplace("tokens", tokens);
    const Submission submission = must(programs_.at(count).submit(bindings));
    must(submission.wait());
    std::int32_t token = -1;
    must(token_.read(std::as_writable_bytes(std::span(&token, 1))));
    return token;
  }

  Buffers inputs_, outputs_;
  Buffer token_, chunk_;
  std::map<std::int64_t, Executable> programs_;
};

std::vector<std::int32_t> prompt_of(const ModelFamily& family) {
  std::vector<std::int32_t> prompt;
  for (std::int64_t i = 0; i < 13; ++i) prompt.push_back(static_cast<std::int32_t>((i * 37 + 11) % family.tokens));
  return prompt;
}

std::vector<std::int32_t> generated(const LanguageModel& model) {
  Generator generator(model);
  const std::vector<std::int32_t> prompt = prompt_of(model.family());
  std::vector<std::int32_t> tokens{generator.after(prompt, 0)};
  while (static_cast<std::int64_t>(tokens.size()) < kGenerated)
    tokens.push_back(generator.next(static_cast<std::int32_t>(prompt.size() + tokens.size() - 1)));
  return tokens;
}

class LanguageModels : public testing::TestWithParam<ModelFamily> {};

TEST_P(LanguageModels, GenerateWhatTheReferenceDoes) {
  LanguageModel model(GetParam());
  const std::vector<std::int32_t> tokens = generated(model);
  std::vector<double> logits;
  for (const std::int32_t token : prompt_of(model.family())) logits = model.next_logits(token);
  int undecided = 0;
  std::set<std::int32_t> different;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    double second = -INFINITY;
    for (std::size_t k = 0; k < logits.size(); ++k) {
      if (static_cast<std::ptrdiff_t>(k) != best) second = std::max(second, logits[k]);
    }
    const double lead = logits[static_cast<std::size_t>(best)] - second;
    if (lead > kBound) {
      ASSERT_EQ(tokens[i], best) << "token " << i << ", which leads by " << lead;
    } else {
      ++undecided;
    }
    different.insert(tokens[i]);
    logits = model.next_logits(tokens[i]);
  }
  EXPECT_LE(undecided, 3);
  EXPECT_GE(different.size(), 8U) << "a model that says the same again and again compares little";
  EXPECT_EQ(generated(model), tokens) << "another run has other tokens";
}

INSTANTIATE_TEST_SUITE_P(Differential, LanguageModels, testing::ValuesIn(model_families()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace vkfuse::test
