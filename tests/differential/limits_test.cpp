// Limits that a user lowers: whatever the number, results are right or one sentence says why there are none.
// VKFUSE_LIMITS=all tries every graph at every number (scripts/deep.sh sweep), and a limit's name those of that limit;
// otherwise each number meets a few graphs.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <set>

#include "support/compare.hpp"
#include "support/slowness.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/custom.hpp"

namespace vkfuse::test {
namespace {

struct Subject {
  const char* name;
  ir::Graph graph;
  SymbolValues symbols;
  Data data;
  std::set<NamedBytes> right;  ///< outputs that the reference has agreed with
};

Tensor input(const char* name, Shape shape, DType dtype = DType::f32) {
  return Tensor::input(name, dtype, std::move(shape));
}

Tensor swish(const Tensor& x) {
  return custom({.name = "swish",
                 .glsl = "x0 / (1.0 + exp(-x0))",
                 .dtype = DType::f32,
                 .reference = [](std::span<const double> v) { return v[0] / (1 + std::exp(-v[0])); }},
                {x});
}

/// Small graphs that have every template and kind of access between them.
std::vector<Subject> subjects() {
  std::vector<Subject> all;
  const auto add = [&](const char* name, std::initializer_list<Tensor> outputs, const SymbolValues& symbols = {}) {
    Subject subject{name, graph_of(outputs), symbols, {}, {}};
    subject.data = data_for({subject.graph, symbols, 11, false});
    all.push_back(std::move(subject));
  };
  const Tensor rows = input("x", {5, 300}), square = input("x", {24, 24});
  add("elementwise", {exp(input("x", {1003})) * 0.5 + 1.0});
  add("transpose", {input("x", {72, 40}).transpose() + input("y", {40, 72})});
  add("sum of rows", {rows.sum({1})});
  add("sum of all", {input("x", {70, 90}).sum()});
  add("largest of columns", {input("x", {130, 33}).max({0})});
  add("position of the largest", {rows.argmax(1)});
  add("softmax", {softmax(input("x", {6, 200}))});
  add("norm", {normalize(input("x", {4, 257}), {1}, 1e-5)});
  add("cumsum", {input("x", {3, 150}).cumsum(1)});
  add("cumsum down", {input("x", {150, 3}).cumsum(0, true, true)});
  add("sort", {input("x", {3, 70}).argsort(1)});
  add("sort of a long row", {input("x", {9001}).argsort(0, true)});
  add("matmul", {matmul(input("x", {33, 40}), input("w", {40, 36})) + input("b", {36})});
  add("matmul of halves", {matmul(input("x", {2, 16, 24}, DType::f16), input("w", {2, 24, 8}, DType::f16))});
  add("matrix and vector", {matmul(input("x", {1, 128}), input("w", {128, 70}))});
  add("int8",
      {matmul(input("x", {16, 64}, DType::i8).cast(DType::i32), input("w", {64, 24}, DType::i8).cast(DType::i32))});
  add("attention", {attention(input("q", {1, 2, 24, 16}), input("k", {1, 2, 24, 16}), input("v", {1, 2, 24, 16}))});
  add("convolution", {conv(input("x", {1, 3, 10, 10}), input("w", {4, 3, 3, 3}), {.low = {1, 1}, .high = {1, 1}})});
  add("concat", {concat({square, square * 2.0, input("y", {7, 24}), input("z", {9, 24})}, 0)});
  add("gather", {input("x", {24, 40}).gather(Tensor::input("index24", DType::i32, {50}), 0)});
  add("scatter",
      {input("x", {24, 10}).scatter(Tensor::input("index24", DType::i32, {31}), input("u", {31, 10}), "add")});
  add("halves", {input("x", {7, 65}, DType::f16) + input("y", {65}, DType::f16)});
  add("custom", {swish(input("x", {500})).sum()});
  add("windows", {input("x", {40, 21}).unfold(1, 3, 2).max({-1})});
  const Dim n = Dim::any("n");
  add("softmax of symbolic rows", {softmax(Tensor::input("x", DType::f32, {n, n}))}, {{"n", 45}});
  return all;
}

/// Whether a text is one sentence, with where it came up in lines of their own: no compiler's words.
bool is_sentence(const std::string& text) {
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
    if (!std::string_view(text).substr(at + 1).starts_with("  while ")) return false;
  }
  return text.substr(0, text.find('\n')).ends_with(".");
}

/// And about what the user can change: no defect of ours.
bool is_sentence(const Error& error) {
  return error.code != ErrorCode::internal && error.code != ErrorCode::device_lost &&
         error.code != ErrorCode::device_error && is_sentence(error.text());
}

/// What one graph may take, compiled and run twice.
constexpr double kMostSeconds = 10;
constexpr std::int64_t kMostKilobytes = 2 << 20;

class Sweep {
 public:
  void at(const std::string& limit, std::uint64_t value, std::span<Subject*> graphs) {
    DeviceOptions options = has_least_limits() ? least_of(device()) : DeviceOptions{};
    options.limits[limit] = value;
    options.disable.emplace_back("calibration");
    const Result<Device> opened = Device::open(options);
    const std::string what = fmt::format("--limit {}={}", limit, value);
    if (!opened) {
      EXPECT_TRUE(is_sentence(opened.error())) << what << ": " << opened.error().text();
      return;
    }
    for (Subject* subject : graphs) {
      const std::string name = what + ", " + subject->name;
      const auto begin = std::chrono::steady_clock::now();
      run(*opened, *subject, name);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      EXPECT_LT(took.count(), kMostSeconds * slowness()) << name;
      slowest = std::max(slowest, took.count());
    }
  }

  int right = 0, refused = 0;
  double slowest = 0;  ///< seconds of one graph

 private:
  void run(const Device& on, Subject& subject, const std::string& what) {
    const auto program = compile_text(on, ir::print(subject.graph));
    const bool is_custom = std::string_view(subject.name) == "custom";  // its reference is no part of the text
    if (!program && !is_custom) {
      ++refused;
      EXPECT_TRUE(is_sentence(program.error())) << what << ": " << program.error().text();
      return;
    }
    try {
      const GuardedRun got = run_guarded(is_custom ? compile_graph(subject.graph, {.device = &on}) : *program,
                                         subject.graph, subject.data);
      EXPECT_EQ(got.broken, "") << what;
      ++right;
      if (subject.right.contains(got.outputs)) return;
      const std::string wrong = check_outputs(subject.graph, subject.data, got.outputs).wrong;
      EXPECT_EQ(wrong, "") << what;
      if (wrong.empty()) subject.right.insert(got.outputs);
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      ++refused;
      EXPECT_TRUE(is_sentence(text) && text.find("internal") == std::string::npos) << what << ": " << text;
    }
  }
};

std::vector<std::uint64_t> values(bool all) {
  if (!all) return {0, 1, 3, 5, 15, 24, 70};
  std::vector<std::uint64_t> made;
  for (std::uint64_t value = 0; value <= 70; ++value) made.push_back(value);
  for (const std::uint64_t value :
       {96,  100,  127,  128,  129,  192,  255,  256,  257,   384,   500,   511,   512,    513,
        768, 1000, 1023, 1024, 2047, 2048, 4096, 5000, 16384, 32767, 32768, 65536, 1 << 20})
    made.push_back(value);
  return made;
}

/// "all", the limit whose numbers are all tried, or nothing.
std::string_view requested() {
  const char* wanted = std::getenv("VKFUSE_LIMITS");
  return wanted != nullptr ? wanted : "";
}
bool tries_everything() { return !requested().empty(); }
bool is_requested(std::string_view limit) {
  return !tries_everything() || requested() == "all" || requested() == limit;
}

/// Everything is 64 tests, which processes can share (GTEST_TOTAL_SHARDS, GTEST_SHARD_INDEX); a few are one.
std::size_t parts() { return tries_everything() ? 64 : 1; }

class LimitsSweep : public testing::TestWithParam<std::size_t> {};

TEST_P(LimitsSweep, AtEveryNumberResultsAreRightOrASentenceSaysWhyThereAreNone) {
  const bool all = tries_everything();
  constexpr std::size_t kFew = 1;
  static std::vector<Subject> graphs = subjects();  // what the reference has agreed with holds for the next parts
  ASSERT_GE(graphs.size(), 22u);
  Sweep sweep;
  std::size_t next = 0, setting = 0;
  for (const auto& [limit, most] : device().description().limits) {
    for (const std::uint64_t value : values(all)) {
      if (value > most || !is_requested(limit) || setting++ % parts() != GetParam()) continue;
      std::vector<Subject*> chosen;
      for (std::size_t i = 0; i < (all ? graphs.size() : kFew); ++i) chosen.push_back(&graphs[next++ % graphs.size()]);
      sweep.at(limit, value, chosen);
    }
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf("%d right, %d refused; %.1f s at most, %ld MB\n", sweep.right, sweep.refused, sweep.slowest,
              used.ru_maxrss >> 10);
  EXPECT_LT(used.ru_maxrss, kMostKilobytes);
  const bool of_one_limit = all && requested() != "all";  // a part may have a number at which all is refused
  if (!of_one_limit) {
    EXPECT_GT(sweep.right, all ? 100 : 30) << "limits that refuse everything show nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, LimitsSweep, testing::Range<std::size_t>(0, parts()));

/// The numbers that gave wrong sums, a division by zero and a compiler's words.
TEST(Limits, WhatWasWrongOnceIsRight) {
  std::vector<Subject> graphs = subjects();
  std::vector<Subject*> some;
  for (Subject& subject : graphs) {
    if (std::set<std::string_view>{"sum of rows", "softmax", "cumsum", "matmul", "concat"}.contains(subject.name))
      some.push_back(&subject);
  }
  ASSERT_EQ(some.size(), 5u);
  Sweep sweep;
  for (const std::uint64_t value : {5, 24, 40, 48}) sweep.at("max_invocations", value, some);
  EXPECT_EQ(sweep.right, 20) << "any number of invocations is enough for these";
  sweep.at("subgroup_size", 3, some);
  sweep.at("storage_range", 15, some);
  for (const std::uint64_t value : {1, 4, 5}) sweep.at("shared_memory_bytes", value, some);
}

TEST(Limits, OneInvocationSorts) {
  std::vector<Subject> graphs = subjects();
  Sweep sweep;
  for (Subject& subject : graphs) {
    Subject* one = &subject;
    if (std::string_view(subject.name).starts_with("sort")) sweep.at("max_invocations", 1, {&one, 1});
  }
  EXPECT_EQ(sweep.right, 2);
}

}  // namespace
}  // namespace vkfuse::test
