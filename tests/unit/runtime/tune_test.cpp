// Schedules chosen by measurement.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "api/tensor_node.hpp"
#include "runtime/tune.hpp"
#include "support/compare.hpp"
#include "templates/planning.hpp"
#include "unit/runtime/watched_device.hpp"
#include "unit/store/fixture.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"
#include "vkfuse/stream.hpp"

namespace vkfuse::test {
namespace {

TEST(Tuning, WhatIsFasterByNoMoreThanNoiseIsNotAdopted) {
  const std::vector<double> standard = {100, 104, 98, 101, 130, 99, 102, 100, 97};
  const auto times = [&](double factor) {
    std::vector<double> all = standard;
    for (double& one : all) one *= factor;
    return all;
  };
  EXPECT_FALSE(runtime::beyond_noise(standard, standard));
  EXPECT_FALSE(runtime::beyond_noise(standard, times(0.98))) << "2 % are not worth a kernel";
  EXPECT_TRUE(runtime::beyond_noise(standard, times(0.9)));
  EXPECT_FALSE(runtime::beyond_noise(standard, times(1.5)));
  std::vector<double> scattered = times(0.9);
  for (std::size_t i = 0; i < 3; ++i) scattered[i] = 1.2 * standard[i];
  EXPECT_FALSE(runtime::beyond_noise(standard, scattered)) << "slower in a third of the pairs";
  EXPECT_FALSE(runtime::beyond_noise({}, {}));
}

TEST(Tuning, OtherResultsAreNoCandidate) {
  const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)); };
  const std::vector<float> right = {1, 2, 3, 0, -4};
  std::vector<float> near = right, off = right, missing = right;
  near[1] = std::nextafter(2.0F, 3.0F);
  off[1] = 2.01F;
  missing[4] = -1e-16F;
  EXPECT_TRUE(runtime::agree(DType::f32, bytes(right), bytes(right)));
  EXPECT_TRUE(runtime::agree(DType::f32, bytes(right), bytes(near))) << "another order of additions";
  EXPECT_FALSE(runtime::agree(DType::f32, bytes(right), bytes(off)));
  EXPECT_FALSE(runtime::agree(DType::f32, bytes(right), bytes(missing)));
  const std::vector<float> nan = {1, 2, 3, 0, std::nanf("")};
  EXPECT_FALSE(runtime::agree(DType::f32, bytes(right), bytes(nan)));
  EXPECT_TRUE(runtime::agree(DType::f32, bytes(nan), bytes(nan)));
  const std::vector<std::int32_t> a = {1, 2}, b = {1, 3};
  EXPECT_TRUE(runtime::agree(DType::i32, bytes(a), bytes(a)));
  EXPECT_FALSE(runtime::agree(DType::i32, bytes(a), bytes(b)));
}

/// Chains, rows and a product.
std::vector<Tensor> graph_of(const Dim& n) {
  const Tensor x = Tensor::input("x", DType::f32, {n, 64});
  const Tensor w = Tensor::input("w", DType::f32, {64, 48});
  return {softmax(relu(matmul(softmax(x), w)) + 1.0)};
}

/// What every driver compiles in no time.
std::vector<Tensor> rows_of(const Dim& n) {
  const Tensor x = Tensor::input("x", DType::f32, {n, 64});
  return {relu(x) * 2.0, relu(Tensor::input("w", DType::f32, {64, 48})) + 1.0};
}

Outputs run_checked(const Executable& program, std::int64_t n, bool rows = false) {
  const ir::Graph graph = must(api::to_graph(rows ? rows_of(Dim(n)) : graph_of(Dim(n)), {}, "graph"));
  const Data data = data_for({graph, {}, static_cast<std::uint64_t>(n), false});
  Inputs inputs;
  inputs.emplace("x", HostView(std::span<const std::byte>(data.inputs.at("x")), {n, 64}));
  inputs.emplace("w", HostView(std::span<const std::byte>(data.inputs.at("w")), {64, 48}));
  Outputs outputs = must(program.run(inputs));
  NamedBytes bytes;
  for (const auto& entry : outputs) bytes[entry.first] = entry.second.bytes;
  EXPECT_EQ(check_outputs(graph, data, bytes).wrong, "") << n;
  return outputs;
}

bool has_clock() { return device().state()->context->device()->caps().profiling.timestamp_period_ns > 0; }

TEST(Tuning, ATunedProgramIsRight) {
  if (!has_clock()) GTEST_SKIP() << "The queue of this device has no timestamps.";
  for (const bool symbolic : {false, true}) {
    const Executable program = must(compile(device(), graph_of(symbolic ? Dim::any("n") : Dim(96))));
    run_checked(program, 96);
    std::vector<TuneProgress> told;
    const TuneProgress end = must(program.tune(1000, symbolic ? Symbols{{"n", 96}} : Symbols{},
                                               [&](const TuneProgress& so_far) { told.push_back(so_far); }));
    fmt::print("{} of {} kernels, {} schedules, {} adopted, {:.0f} ms\n", end.segment, end.segments, end.candidates,
               end.adopted, end.spent_ms);
    EXPECT_GT(end.candidates, 0);
    EXPECT_EQ(static_cast<int>(told.size()), end.segment);
    run_checked(program, 96);
    if (symbolic) run_checked(program, 91);
    if (symbolic) run_checked(program, 1);
  }
}

TEST(Tuning, WhatIsAdoptedIsWhatRuns) {
  const Executable program = must(compile(device(), graph_of(Dim(96))));
  runtime::Program& inner = *program.state()->program;
  const auto before = must(inner.specialization({}));
  run_checked(program, 96);
  for (std::size_t step = 0; step < before->steps.size(); ++step) {
    for (const schedule::Tuning& tuning :
         schedule::tunings_near(before->steps[step].schedule, inner.plan().target.caps)) {
      const auto written = inner.write_planned_kernel(*before, step, tuning);
      if (!written || written->kernels.front().kernel->key == before->kernels[step].front().kernel->key) continue;
      inner.adopt(*before, {{step, tuning}});
      EXPECT_EQ(must(inner.specialization({}))->kernels[step].front().kernel->key,
                written->kernels.front().kernel->key);
      run_checked(program, 96);
      break;
    }
  }
  EXPECT_GT(inner.adoptions(), 0u);
}

/// Runs on random data, and has the results checked.
void run_checked(const Executable& program, const ir::Graph& graph) {
  const Data data = data_for({graph, {}, 11, false});
  Inputs inputs;
  for (const auto& [name, bytes] : data.inputs) inputs.emplace(name, HostView(std::span<const std::byte>(bytes)));
  NamedBytes results;
  for (const auto& entry : must(program.run(inputs))) results[entry.first] = entry.second.bytes;
  EXPECT_EQ(check_outputs(graph, data, results).wrong, "");
}

/// Has a program run with one in `every` of the tunings of its kernels that make another text. How many there were.
int run_with_other_tunings(const std::vector<Tensor>& outputs, schedule::Template kind, int every) {
  const ir::Graph graph = must(api::to_graph(outputs, {}, "graph"));
  const Executable program = must(compile(device(), outputs));
  runtime::Program& inner = *program.state()->program;
  const auto standard = must(inner.specialization({}));
  int tried = 0, others = 0;
  for (std::size_t step = 0; step < standard->steps.size(); ++step) {
    if (standard->steps[step].schedule.kind() != kind) continue;
    std::set<std::string> texts = {standard->kernels[step].front().kernel->key +
                                   std::to_string(standard->kernels[step].front().kernel->workgroup)};
    for (const schedule::Tuning& tuning :
         schedule::tunings_near(standard->steps[step].schedule, inner.plan().target.caps)) {
      const auto written = inner.write_planned_kernel(*standard, step, tuning);
      if (!written) continue;
      const lowering::Kernel& first = *written->kernels.front().kernel;
      if (!texts.insert(first.key + std::to_string(first.workgroup)).second || others++ % every != 0) continue;
      EXPECT_EQ(written->scheduled.schedule.kind(), kind) << schedule::to_text(tuning);
      inner.adopt(*standard, {{step, tuning}});
      SCOPED_TRACE(schedule::to_text(tuning));
      run_checked(program, graph);
      ++tried;
    }
  }
  return tried;
}

/// The store keeps a tuning as its text.
TEST(Tuning, TextsTellTuningsApart) {
  using schedule::Template;
  for (const Template kind :
       {Template::pointwise, Template::reduction, Template::matmul, Template::attention, Template::sort}) {
    for (const bool units : {false, true}) {
      schedule::Schedule standard;
      switch (kind) {
        case Template::reduction: standard.params = schedule::ReductionParams{.reduction_threads = 32}; break;
        case Template::matmul: {
          schedule::MatmulParams params;
          params.shape.threads = 32;
          if (units) params.products = schedule::CooperativeMatrixProducts{MatrixShape{16, 16, 16}};
          standard.params = params;
          break;
        }
        case Template::attention: {
          schedule::AttentionParams params;
          if (units) {
            params.mapping = schedule::CooperativeAttention{.mma = MatrixShape{16, 16, 16}};
            params.sums.resize(2);
            params.products.resize(2);
          }
          standard.params = params;
          break;
        }
        case Template::sort: standard.params = schedule::SortParams{.keys = 100000}; break;
        default: break;
      }
      Caps caps;
      caps.workgroup.max_invocations = caps.workgroup.max_x = 1024;
      const std::vector<schedule::Tuning> tunings = schedule::tunings_near(standard, caps);
      std::set<std::string> texts;
      for (const schedule::Tuning& tuning : tunings) texts.insert(schedule::to_text(tuning));
      EXPECT_EQ(texts.size(), tunings.size()) << schedule::name_of(kind);
      EXPECT_GT(tunings.size(), 10u) << schedule::name_of(kind);
    }
  }
}

TEST(Tuning, EveryTileOfAnAttentionIsRight) {
  // A GPU takes several kernels for scores that are few.
  const bool is_gpu = test::target(false).type != DeviceType::cpu;
  const auto input = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return Tensor::input(name, DType::f32, {1, is_gpu ? 64 : 2, is_gpu ? 6 * rows : rows, columns});
  };
  const std::vector<Tensor> outputs = {attention(input("q", 20, 16), input("k", 37, 16), input("v", 37, 24))};
  EXPECT_GE(run_with_other_tunings(outputs, schedule::Template::attention, 4), 4);
}

TEST(Tuning, EveryBlockOfASortIsRight) {
  // Of 5,000 keys a block has a part: runs are merged in halves of the scratch memory.
  const std::vector<Tensor> outputs = {Tensor::input("x", DType::f32, {3, 5000}).argsort(1)};
  EXPECT_GE(run_with_other_tunings(outputs, schedule::Template::sort, 3), 4);
}

TEST(Tuning, AttentionAndSortsAreMeasuredToo) {
  if (!has_clock()) GTEST_SKIP() << "The queue of this device has no timestamps.";
  const auto input = [](const char* name, std::int64_t rows) {
    return Tensor::input(name, DType::f32, {1, 4, rows, 16});
  };
  const std::vector<Tensor> graphs[] = {{attention(input("q", 64), input("k", 64), input("v", 64))},
                                        {Tensor::input("x", DType::f32, {4, 3000}).argsort(1)}};
  for (const std::vector<Tensor>& outputs : graphs) {
    const Executable program = must(compile(device(), outputs));
    TuneProgress end;
    for (int i = 0; i < 5 && end.candidates == 0; ++i)
      end = must(program.tune(1500));  // where a compiler takes long, it is done in the end
    fmt::print("{} of {} kernels, {} schedules, {} adopted, {:.0f} ms\n", end.segment, end.segments, end.candidates,
               end.adopted, end.spent_ms);
    EXPECT_GT(end.candidates, 0);
    run_checked(program, must(api::to_graph(outputs, {}, "graph")));
  }
}

/// A schedule that is bad on purpose: what is found beside it also shows that candidates are measured as they run.
TEST(Tuning, WhatIsFarFasterIsAdopted) {
  if (!has_clock()) GTEST_SKIP() << "The queue of this device has no timestamps.";
  if (device().state()->context->device()->info().type != DeviceType::cpu)
    GTEST_SKIP() << "what is this small takes as long however it is sorted on a GPU";
  const ir::Graph graph =
      must(api::to_graph(std::vector<Tensor>{Tensor::input("x", DType::f32, {4, 700}).argsort(1)}, {}, "graph"));
  // What is measured beside much other work may look like noise once, but not four times.
  for (int attempt = 1;; ++attempt) {
    const Device few = must(Device::open({.limits = {{"max_invocations", 64}}}));  // so that there are few candidates
    Build how;
    how.device = &few;
    how.tuning.block = 16;
    how.tuning.workgroup = 32;
    how.longest_submission_us = 10e6;  // else what is slow is not measured
    const Executable program = compile_graph(graph, how);
    const int before = program.kernel_count();
    EXPECT_GT(before, 4) << "halves of the scratch memory serve by turns";
    const TuneProgress end = must(program.tune(30000));
    fmt::print("{} of {} kernels, {} schedules, {} adopted, {:.0f} ms\n", end.segment, end.segments, end.candidates,
               end.adopted, end.spent_ms);
    if (end.adopted == 0 && attempt < 4) continue;
    EXPECT_EQ(end.adopted, 1);
    EXPECT_LT(program.kernel_count(), before);
    run_checked(program, graph);
    return;
  }
}

TEST(Tuning, TheBudgetEndsIt) {
  if (!has_clock()) GTEST_SKIP() << "The queue of this device has no timestamps.";
  const Executable program = must(compile(device(), graph_of(Dim(80))));
  const TuneProgress none = must(program.tune(0));
  EXPECT_EQ(none.candidates, 0);
  EXPECT_EQ(none.segment, 0);
  // A kernel whose search was cut off is searched again, not taken for the best.
  const store::test::ScratchFolder folder;
  DeviceOptions options;
  options.store = folder.options();
  const Device own = must(Device::open(options));
  const Executable cut = must(compile(own, rows_of(Dim(80))));
  for (const double budget : {0.01, 1.0, 3.0, 10.0, 30.0}) {
    const TuneProgress some = must(cut.tune(budget));
    const TuneProgress more = must(cut.tune(300000));
    if (some.candidates == 0 && some.segment > 0) {
      EXPECT_GT(more.candidates, 0) << budget;
    }
    if (more.candidates > 0) break;
  }
  EXPECT_FALSE(program.tune(-1).ok());
  EXPECT_FALSE(program.tune(1, {{"m", 3}}).ok());
}

TEST(Tuning, ResultsSurviveARestart) {
  if (!has_clock()) GTEST_SKIP() << "The queue of this device has no timestamps.";
  const store::test::ScratchFolder folder;
  DeviceOptions options;
  options.store = folder.options();
  int adopted = 0, segments = 0;
  {
    const Device first = must(Device::open(options));
    const Executable program = must(compile(first, rows_of(Dim(72))));
    const TuneProgress end = must(program.tune(300000));
    ASSERT_EQ(end.segment, end.segments) << "the budget was over";
    adopted = end.adopted;
    segments = end.segments;
  }
  const Device second = must(Device::open(options));
  const Executable program = must(compile(second, rows_of(Dim(72))));
  const TuneProgress end = must(program.tune(300000));
  EXPECT_EQ(end.segment, segments);
  EXPECT_EQ(end.adopted, adopted);
  EXPECT_EQ(end.candidates, 0) << "nothing is measured again";
  run_checked(program, 72, true);
}

TEST(Tuning, TheFirstRunDoesNotWaitForIt) {
  if (!has_clock()) GTEST_SKIP() << "The queue of this device has no timestamps.";
  std::atomic<int> told = 0;
  CompileOptions options;
  options.tune = Tune::background;
  options.tune_ms = 5000;
  options.on_tune = [&](const TuneProgress&) { ++told; };
  {
    const Executable program = must(compile(device(), rows_of(Dim(88)), options));
    EXPECT_EQ(told, 0);
    run_checked(program, 88, true);
    for (int i = 0; i < 500 && told == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_GT(told, 0);
    for (int i = 0; i < 5; ++i) run_checked(program, 88, true);
  }  // the search ends with the program
  const int then = told;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(told, then);
}

TEST(Tuning, SearchesInTheBackgroundTakeTurns) {
  if (!has_clock()) GTEST_SKIP() << "The queue of this device has no timestamps.";
  std::mutex mutex;
  std::vector<int> told;
  std::vector<Executable> programs;
  for (int i = 0; i < 3; ++i) {
    CompileOptions options;
    options.tune = Tune::background;
    options.tune_ms = 400;
    options.on_tune = [&, i](const TuneProgress&) {
      const std::lock_guard<std::mutex> lock(mutex);
      told.push_back(i);
    };
    programs.push_back(must(compile(device(), rows_of(Dim(104 + 8 * i)), options)));
    run_checked(programs.back(), 104 + 8 * i, true);
  }
  for (int wait = 0; wait < 1000; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::lock_guard<std::mutex> lock(mutex);
    if (std::set<int>(told.begin(), told.end()).size() == programs.size()) break;
  }
  programs.clear();  // their searches end
  EXPECT_EQ(std::set<int>(told.begin(), told.end()).size(), 3u);
  EXPECT_EQ(std::unique(told.begin(), told.end()) - told.begin(), 3)
      << "one after the other: " << fmt::format("{}", fmt::join(told, " "));
}

TEST(Tuning, ProgramsOfAStreamAreMeasuredWhileItRuns) {
  if (!has_clock()) GTEST_SKIP() << "The queue of this device has no timestamps.";
  std::atomic<int> told = 0;
  CompileOptions options;
  options.tune = Tune::background;
  options.tune_ms = 5000;
  options.on_tune = [&](const TuneProgress&) { ++told; };
  const Stream stream(device(), options);
  std::vector<float> expected(4096, 1.0F);
  Tensor x = must(stream.tensor(DType::f32, {4096}, expected));
  for (int i = 0; i < 1000 && told == 0; ++i) {
    x = x * 0.5 + 1.0;
    must(stream.eval({x}));
    for (float& one : expected) one = one * 0.5F + 1.0F;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GT(told, 0);
  for (int i = 0; i < 3; ++i) {
    x = x * 0.5 + 1.0;
    for (float& one : expected) one = one * 0.5F + 1.0F;
  }
  const HostTensor result = must(stream.read(x));
  EXPECT_EQ(std::memcmp(result.bytes.data(), expected.data(), result.bytes.size()), 0);
}

}  // namespace
}  // namespace vkfuse::test
