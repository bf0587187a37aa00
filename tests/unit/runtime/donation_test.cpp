// Inputs whose buffers are given away: results and intermediate values take them, and nothing is read after it is
// written over.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>

#include "support/cases.hpp"
#include "support/compare.hpp"
#include "unit/runtime/watched_device.hpp"

namespace vkfuse::test {
namespace {

Buffer filled(const Device& device, std::span<const std::byte> bytes) {
  Buffer buffer = must(device.allocate(bytes.size()));
  must(buffer.write(bytes));
  return buffer;
}

TEST(Donations, AChainRunsInItsInput) {
  const WatchedDevice watched;
  CompileOptions options;
  options.fusion = false;
  const Executable program =
      must(compile_text(watched.device(), chain_text(10000, {"neg", "abs", "neg", "relu"}), options));
  const std::vector<float> data = ramp(10000);
  Bindings bindings;
  bindings.inputs["x"] = filled(watched.device(), std::as_bytes(std::span(data)));
  bindings.donated = {"x"};
  WatchedDevice::counts().clear();
  const Submission submission = must(program.submit(bindings));
  must(submission.wait());
  EXPECT_EQ(WatchedDevice::counts().allocations, 0);
  EXPECT_EQ(submission.outputs().at("y").state(), bindings.inputs.at("x").state());
  std::vector<float> result(10000, 1.0F);
  must(submission.outputs().at("y").read(std::as_writable_bytes(std::span(result))));
  for (const float value : result) ASSERT_EQ(value, 0.0F);
}

TEST(Donations, WhatIsReadAgainIsKept) {
  // x is read by the last kernel, at other places than the one it writes: the results get memory of their own.
  const std::string text = R"(graph "late" {
  %0 = input "x" : f32[100, 100]
  %1 = neg %0 : f32[100, 100]
  %2 = permute axes=[1, 0] %0 : f32[100, 100]
  %3 = add %1 %2 : f32[100, 100]
  output "y" = %3
})";
  const WatchedDevice watched;
  for (const bool fusion : {true, false}) {
    CompileOptions options;
    options.fusion = fusion;
    const Executable program = must(compile_text(watched.device(), text, options));
    const std::vector<float> data = ramp(10000);
    Bindings bindings;
    bindings.inputs["x"] = filled(watched.device(), std::as_bytes(std::span(data)));
    bindings.donated = {"x"};
    const Submission submission = must(program.submit(bindings));
    must(submission.wait());
    EXPECT_NE(submission.outputs().at("y").state(), bindings.inputs.at("x").state());
    std::vector<float> result(10000);
    must(submission.outputs().at("y").read(std::as_writable_bytes(std::span(result))));
    for (std::size_t i = 0; i < 10000; ++i) ASSERT_EQ(result[i], data[i % 100 * 100 + i / 100] - data[i]) << i;
  }
}

TEST(Donations, RunsThatAreGivenTheSameAwayShareAnArena) {
  // x is read last, so that what lies between needs an arena.
  const std::string text = R"(graph "late" {
  %0 = input "x" : f32[100, 100]
  %1 = neg %0 : f32[100, 100]
  %2 = permute axes=[1, 0] %1 : f32[100, 100]
  %3 = add %2 %0 : f32[100, 100]
  output "y" = %3
})";
  const WatchedDevice watched;
  CompileOptions options;
  options.fusion = false;
  const Executable program = must(compile_text(watched.device(), text, options));
  const std::vector<float> data = ramp(10000);
  std::vector<float> result(10000);
  for (const bool first : {true, false}) {
    Bindings bindings;
    bindings.inputs["x"] = filled(watched.device(), std::as_bytes(std::span(data)));
    bindings.donated = {"x"};
    WatchedDevice::counts().clear();
    const Submission submission = must(program.submit(bindings));
    must(submission.wait());
    if (first) {
      EXPECT_GT(WatchedDevice::counts().allocations, 0);
    } else {
      EXPECT_EQ(WatchedDevice::counts().allocations, 0);
    }
    must(submission.outputs().at("y").read(std::as_writable_bytes(std::span(result))));
    for (std::size_t i = 0; i < 100; ++i) {
      for (std::size_t j = 0; j < 100; ++j)
        ASSERT_EQ(result[i * 100 + j], data[i * 100 + j] - data[j * 100 + i]) << first << ' ' << i << ' ' << j;
    }
  }
}

TEST(Donations, ARunThatKeepsItsInputsIsNotOneThatWroteOverThem) {
  const WatchedDevice watched;
  CompileOptions options;
  options.fusion = false;
  const Executable program =
      must(compile_text(watched.device(), chain_text(10000, {"neg", "abs", "neg", "relu"}), options));
  const std::vector<float> data = ramp(10000);
  std::vector<float> kept(10000);
  Bindings bindings;
  bindings.inputs["x"] = filled(watched.device(), std::as_bytes(std::span(data)));
  bindings.outputs["y"] = must(watched.device().allocate(40000));
  for (int run = 0; run < 2; ++run) {  // the first one reads the clock, and is none that is submitted again
    bindings.donated = {"x"};
    must(must(program.submit(bindings)).wait());
  }
  must(bindings.inputs["x"].read(std::as_writable_bytes(std::span(kept))));
  EXPECT_NE(kept, data) << "nothing was written over the input: this test shows nothing";
  bindings.donated.clear();
  must(bindings.inputs["x"].write(std::as_bytes(std::span(data))));
  for (int run = 0; run < 3; ++run) must(must(program.submit(bindings)).wait());
  must(bindings.inputs["x"].read(std::as_writable_bytes(std::span(kept))));
  EXPECT_EQ(kept, data);
}

TEST(Donations, ResultsStayInBuffersOfTheirSize) {
  // As of a training step: a small result is there first, and could lie in the place of a larger one.
  const std::string text = R"(graph "step" {
  %0 = input "w" : f32[64]
  %1 = input "x" : f32[64]
  %2 = neg %0 : f32[64]
  %3 = reduce_sum axes=[0] %2 : f32[]
  %4 = abs %1 : f32[64]
  %5 = neg %4 : f32[64]
  output "loss" = %3
  output "x_after" = %4
  output "w_after" = %5
})";
  const WatchedDevice watched;
  CompileOptions options;
  options.fusion = false;
  const Executable program = must(compile_text(watched.device(), text, options));
  const std::vector<float> data = ramp(64);
  Bindings bindings;
  std::set<const void*> given, taken;
  for (const char* name : {"w", "x"}) {
    bindings.inputs[name] = filled(watched.device(), std::as_bytes(std::span(data)));
    given.insert(bindings.inputs[name].state().get());
    bindings.donated.insert(name);
  }
  const Submission submission = must(program.submit(bindings));
  must(submission.wait());
  for (const char* name : {"w_after", "x_after"}) taken.insert(submission.outputs().at(name).state().get());
  EXPECT_EQ(taken, given);
  EXPECT_EQ(submission.outputs().at("loss").size(), 4U);
}

/// A step of training with one parameter: w becomes w - x, and the loss is the sum of what is then w * x.
Executable small_step(const Device& device) {
  const Tensor w = Tensor::input("w", DType::f32, {64}), x = Tensor::input("x", DType::f32, {64});
  CompileOptions options;
  options.output_names = {"w_after", "loss"};
  options.fusion = false;  // so that w is written over where it was
  const Tensor after = w - x;
  return must(compile(device, {after, (after * x).sum({0})}, options));
}

/// Steps, each on what the one before left; the losses that they gave, of which all, or the last alone, are kept.
struct Steps {
  explicit Steps(const Device& on)
      : device(on), program(small_step(on)), w(filled(on, std::as_bytes(std::span(data)))) {}

  void step(bool keep) {
    Bindings bindings;
    bindings.inputs["w"] = w;
    const std::int64_t sizes[] = {64};
    bindings.inputs["x"] = must(device.upload(DType::f32, sizes, std::as_bytes(std::span(ones))));
    bindings.donated = {"w"};
    const Submission submission = must(program.submit(bindings));
    w = submission.outputs().at("w_after");
    if (!keep) losses.clear();
    losses.push_back(submission.outputs().at("loss"));
    before = submission;
  }
  [[nodiscard]] float loss(std::size_t i) const {
    float value = 0;
    must(losses[i].read(std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }

  const Device& device;
  std::vector<float> data = std::vector<float>(64, 100.0F), ones = std::vector<float>(64, 1.0F);
  Executable program;
  Buffer w;
  std::vector<Buffer> losses;
  std::optional<Submission> before;  ///< as whoever holds its results holds it
};

TEST(Donations, StepsOnTheSameMemoryAreRecordedNoMore) {
  for (const Memory memory : {Memory::as_it_is, Memory::apart}) {
    const WatchedDevice watched({}, memory);
    Steps steps(watched.device());
    for (int i = 0; i < 10; ++i) {
      WatchedDevice::counts().clear();
      steps.step(false);
      // The first reads the clock; then two take turns.
      if (i >= 5) {
        EXPECT_EQ(WatchedDevice::counts().dispatches, 0) << i;
      }
      EXPECT_EQ(steps.loss(0), 64.0F * (99.0F - static_cast<float>(i)));
    }
  }
}

TEST(Donations, ResultsThatAreKeptAreWrittenOverByNoLaterStep) {
  const WatchedDevice watched;
  Steps steps(watched.device());
  for (int i = 0; i < 10; ++i) steps.step(true);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(steps.loss(static_cast<std::size_t>(i)), 64.0F * (99.0F - static_cast<float>(i))) << i;
}

TEST(Donations, SmallerResultsFitAndLargerOnesDoNot) {
  const WatchedDevice watched;
  const Tensor x = Tensor::input("x", DType::f32, {1000});
  const Executable narrow = must(compile(watched.device(), {(x * 2.0F).sum({0}), (x * 3.0F).cast(DType::f16)}));
  const Executable wide = must(compile(watched.device(), {x.unsqueeze(0).broadcast_to({4, 1000}) + 1.0F}));
  const std::vector<float> data(1000, 1.0F);
  for (const Executable* program : {&narrow, &wide}) {
    Bindings bindings;
    bindings.inputs["x"] = filled(watched.device(), std::as_bytes(std::span(data)));
    bindings.donated = {"x"};
    const Submission submission = must(program->submit(bindings));
    must(submission.wait());
    if (program == &wide) {
      EXPECT_NE(submission.outputs().at("y").state(), bindings.inputs.at("x").state());
      continue;
    }
    float sum = 0;
    must(submission.outputs().at("y").read(std::as_writable_bytes(std::span(&sum, 1))));
    EXPECT_EQ(sum, 2000.0F);
  }
}

/// A result is not stored over what only another result of its kernel is computed from: a compiler may store the one
/// before it loads for the other.
TEST(Donations, WhatAnotherResultReadsIsNotWrittenOver) {
  const WatchedDevice watched;
  const Tensor x = Tensor::input("x", DType::f32, {1000}), other = Tensor::input("other", DType::f32, {1000});
  CompileOptions options;
  options.output_names = {"y", "z"};
  const Executable program =
      must(compile(watched.device(), {other + 1.0, (x * 2.0 + other).cast(DType::f16)}, options));
  ASSERT_EQ(program.kernel_count(), 1);
  const std::vector<float> data = ramp(1000);
  Bindings bindings;
  for (const char* name : {"x", "other"})
    bindings.inputs[name] = filled(watched.device(), std::as_bytes(std::span(data)));
  bindings.donated = {"x"};
  const Submission submission = must(program.submit(bindings));
  must(submission.wait());
  EXPECT_NE(submission.outputs().at("y").state(), bindings.inputs["x"].state());
}

/// Elements after the end of the last chunk are those at the end again, and a chunk runs along the axis of another
/// result: where a result replaces what it is computed from, they are computed once.
TEST(Donations, ElementsAreReplacedOnce) {
  const WatchedDevice watched;
  int in_place = 0;
  for (const DType dtype : {DType::f32, DType::f16}) {
    for (const std::int64_t wide : {1, 2, 3, 4, 5, 6, 7}) {
      for (const bool also_read : {true, false}) {
        const Tensor m = Tensor::input("m", dtype, {3, 5, wide}), q = Tensor::input("q", dtype, {3, 5, wide});
        CompileOptions options;
        options.output_names = {"after", "other"};
        const Tensor after = m * 0.5F, other = (also_read ? after : q).permute({2, 1, 0}) + 0.5F;
        const Executable program = must(compile(watched.device(), {after, other}, options));
        const std::vector<float> data = ramp(static_cast<std::size_t>(15 * wide));
        std::vector<std::byte> bytes;
        for (const float value : data) ir::encode(dtype, value, bytes);
        std::vector<std::vector<std::byte>> found;
        for (const bool donated : {false, true}) {
          Bindings bindings;
          for (const char* name : {"m", "q"}) {
            if (name == std::string_view("m") || !also_read) bindings.inputs[name] = filled(watched.device(), bytes);
          }
          bindings.outputs["other"] = must(watched.device().allocate(bytes.size()));
          if (donated) bindings.donated = {"m"};
          if (!donated) bindings.outputs["after"] = must(watched.device().allocate(bytes.size()));
          const Submission submission = must(program.submit(bindings));
          for (const char* name : {"after", "other"}) {
            found.emplace_back(bytes.size());
            must(submission.outputs().at(name).read(found.back()));
          }
          in_place += submission.outputs().at("after").state() == bindings.inputs["m"].state() ? 1 : 0;
        }
        EXPECT_EQ(found[0], found[2]) << wide << ' ' << also_read;
        EXPECT_EQ(found[1], found[3]) << wide << ' ' << also_read;
      }
    }
  }
  if (watched.device().description().type == "cpu") {
    EXPECT_GE(in_place, 14) << "this test shows little";
  }
}

/// A step with a moment: both results of the kernel are computed from the moment, which one of them replaces.
TEST(Donations, AMomentIsReplacedByTheNextOne) {
  const WatchedDevice watched;
  const std::int64_t size = 100003;  // the last elements are no whole vector
  const Tensor w = Tensor::input("w", DType::f32, {size}), m = Tensor::input("m", DType::f32, {size});
  const Tensor slope = Tensor::input("slope", DType::f32, {size});
  CompileOptions options;
  options.output_names = {"m_after", "w_after"};
  const Tensor after = m * 0.5F + slope;
  const Executable program = must(compile(watched.device(), {after, w - after * 0.25F}, options));
  ASSERT_EQ(program.kernel_count(), 1);
  const std::vector<float> data = ramp(static_cast<std::size_t>(size));
  std::vector<float> moment(data.size(), 0.0F), weight = data, found(data.size());
  Bindings bindings;
  bindings.inputs["w"] = filled(watched.device(), std::as_bytes(std::span(weight)));
  bindings.inputs["m"] = filled(watched.device(), std::as_bytes(std::span(moment)));
  bindings.inputs["slope"] = filled(watched.device(), std::as_bytes(std::span(data)));
  bindings.donated = {"w", "m"};
  for (int step = 0; step < 4; ++step) {
    WatchedDevice::counts().clear();
    const Submission submission = must(program.submit(bindings));
    must(submission.wait());
    EXPECT_EQ(submission.outputs().at("m_after").state(), bindings.inputs["m"].state());
    EXPECT_EQ(submission.outputs().at("w_after").state(), bindings.inputs["w"].state());
    if (step > 1) {
      EXPECT_EQ(WatchedDevice::counts().dispatches, 0) << "the first step reads the clock";
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      moment[i] = moment[i] * 0.5F + data[i];
      weight[i] -= moment[i] * 0.25F;
    }
    must(bindings.inputs["m"].read(std::as_writable_bytes(std::span(found))));
    EXPECT_EQ(found, moment) << step;
    must(bindings.inputs["w"].read(std::as_writable_bytes(std::span(found))));
    for (std::size_t i = 0; i < data.size(); ++i) ASSERT_NEAR(found[i], weight[i], 1e-4F * std::abs(weight[i])) << i;
  }
}

TEST(Donations, AreRefusedWhereTheyMeanNothing) {
  const WatchedDevice watched;
  const Tensor x = Tensor::input("x", DType::f32, {100});
  const Executable program = must(compile(watched.device(), {x + Tensor::input("z", DType::f32, {100})}));
  const std::vector<float> data = ramp(100);
  Bindings bindings;
  bindings.inputs["x"] = bindings.inputs["z"] = filled(watched.device(), std::as_bytes(std::span(data)));
  bindings.donated = {"x"};
  EXPECT_EQ(program.submit(bindings).error().message,
            "The input 'x' is donated, but its buffer is bound to something else, too.");
  // A part of it is another Buffer, and the same memory.
  const Buffer whole = must(watched.device().allocate(1024));
  bindings.inputs["x"] = must(whole.part(0, 512));
  for (const Buffer& other : {whole, must(whole.part(256, 512)), must(whole.part(0, 512))}) {
    bindings.inputs["z"] = other;
    EXPECT_EQ(program.submit(bindings).error().message,
              "The input 'x' is donated, but its buffer is bound to something else, too.");
  }
  bindings.inputs["z"] = must(whole.part(512, 512));
  must(must(program.submit(bindings)).wait());
  bindings.outputs["y"] = must(whole.part(256, 512));
  EXPECT_EQ(program.submit(bindings).error().message,
            "The input 'x' is donated, but its buffer is bound to something else, too.");
  bindings.outputs.clear();
  bindings.donated = {"w"};
  EXPECT_EQ(program.submit(bindings).error().message,
            "The input 'w' is donated, and the program 'graph' has none of that name.");
  bindings.donated.clear();
  EXPECT_EQ(program.submit(bindings).error().message, "No buffer was bound to the output 'y'.");
}

/// Runs with every input given away and no output bound. The number of results that lie in inputs.
int judge_donated(const ir::Graph& graph, const Data& data, bool fusion, const std::string& what) {
  const Executable program = compile_graph(graph, Numerics::standard, fusion);
  Bindings bindings;
  bindings.symbols.insert(data.symbols.begin(), data.symbols.end());
  for (const auto& [name, bytes] : data.inputs) {
    bindings.inputs[name] = must(device().allocate(std::max<std::size_t>(bytes.size(), 1)));
    must(bindings.inputs[name].write(bytes));
    bindings.donated.insert(name);
  }
  const Submission submission = must(program.submit(bindings));
  must(submission.wait());
  NamedBytes outputs;
  int reused = 0;
  for (const ir::Output& output : graph.outputs()) {
    std::vector<std::byte>& bytes = outputs[output.name];
    bytes.resize(bytes_of(graph, output.value, data.symbols));
    const Buffer& buffer = submission.outputs().at(output.name);
    must(buffer.read(bytes));
    reused += std::any_of(bindings.inputs.begin(), bindings.inputs.end(),
                          [&](const auto& input) { return input.second.state() == buffer.state(); })
                  ? 1
                  : 0;
  }
  EXPECT_EQ(check_outputs(graph, data, outputs).wrong, "") << what << "\n" << ir::print(graph);
  return reused;
}

TEST(Donations, RandomGraphsAreRightWithEveryInputGivenAway) {
  CaseOptions options;
  options.caps = target().caps;
  options.max_ops = 12;
  const char* wanted = std::getenv("VKFUSE_FUZZ_CASES");
  const std::uint64_t cases = wanted == nullptr ? 25 : std::strtoull(wanted, nullptr, 10);
  int reused = 0;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const Case one = random_case(seed, options);
    reused += judge_donated(one.graph, data_for(one), seed % 3 != 0, fmt::format("pointwise case {}", seed));
  }
  EXPECT_GT(reused, static_cast<int>(cases / 5));
}

}  // namespace
}  // namespace vkfuse::test
