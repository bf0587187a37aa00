// What reaches the queue: one submission a run, several where one would take too long, and nothing recorded twice.
#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.hpp"
#include "unit/runtime/watched_device.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

class ReplayOfRuns : public OfMemory {};
INSTANTIATE_TEST_SUITE_P(Memories, ReplayOfRuns, testing::Values(Memory::as_it_is, Memory::apart),
                         [](const auto& param) { return param.param == Memory::apart ? "apart" : "as_it_is"; });

TEST_P(ReplayOfRuns, IsOneSubmissionWithNothingRecorded) {
  const WatchedDevice watched({}, GetParam());
  CompileOptions options;
  options.fusion = false;
  const Executable program = must(compile_text(watched.device(), chain_text(500, {"neg", "exp", "abs"}), options));
  const std::vector<float> data = ramp(500);
  CallCounts& counts = WatchedDevice::counts();
  counts.clear();  // of self-tests
  must(program.run({{"x", HostView(data)}}));
  EXPECT_EQ(counts.submits, 1);
  EXPECT_EQ(counts.dispatches, 3);
  const int staged = (watched.stages_inputs() ? 1 : 0) + (watched.stages_outputs() ? 1 : 0);
  EXPECT_EQ(counts.barriers, 3 + staged) << "two between three kernels that wait for each other, one for the host or "
                                            "the copy of results, one behind each copy";
  counts.clear();
  for (int i = 0; i < 5; ++i) must(program.run({{"x", HostView(data)}}));
  EXPECT_EQ(counts.submits, 5);
  EXPECT_EQ(counts.dispatches, 0);
  EXPECT_EQ(counts.barriers, 0);
  EXPECT_EQ(counts.allocations, 0);
}

/// The caller's buffers: what was recorded on them is submitted again once it has ended, and on no others.
TEST(Replay, OfASubmissionOnTheSameBuffersRecordsNothing) {
  const WatchedDevice watched;
  CompileOptions options;
  options.fusion = false;
  const Executable program = must(compile_text(watched.device(), chain_text(500, {"neg", "exp", "abs"}), options));
  const auto buffer = [&](float first) {
    const Buffer made = must(watched.device().allocate(2000));
    std::vector<float> data(500);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = first + static_cast<float>(i) * 0.001F;
    must(made.write(std::as_bytes(std::span(data))));
    return made;
  };
  const auto expect = [&](const Buffer& y, float first) {
    std::vector<float> got(500);
    must(y.read(std::as_writable_bytes(std::span(got))));
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], std::exp(-first - static_cast<float>(i) * 0.001F), 1e-4F) << first;
  };
  CallCounts& counts = WatchedDevice::counts();
  const auto dispatches = [&](const Bindings& bindings) {
    counts.clear();
    must(must(program.submit(bindings)).wait());
    EXPECT_EQ(counts.submits, 1);
    return counts.dispatches.load();
  };
  Bindings one, other;
  one.inputs["x"] = buffer(0), one.outputs["y"] = buffer(7);
  other.inputs["x"] = buffer(1), other.outputs["y"] = one.outputs["y"];
  EXPECT_EQ(dispatches(one), 3) << "with the clock, as nobody knows how long it takes";
  EXPECT_EQ(dispatches(one), 3);
  EXPECT_EQ(dispatches(one), 0);
  expect(one.outputs["y"], 0);
  EXPECT_EQ(dispatches(other), 3);
  expect(other.outputs["y"], 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(dispatches(one), 0) << "of two that alternate both are kept";
    EXPECT_EQ(counts.allocations, 0);
    expect(one.outputs["y"], 0);
    EXPECT_EQ(dispatches(other), 0);
    expect(other.outputs["y"], 1);
  }
  // One that is in flight, or that somebody holds, is not recorded over.
  {
    const Submission held = must(program.submit(one));
    must(held.wait());
    EXPECT_EQ(dispatches(one), 3);
  }
  // A buffer in the memory of one that is gone is that one again; in other memory it is another run.
  std::vector<Buffer> held;
  for (int i = 0; i < 8; ++i) {
    const auto first = static_cast<float>(i);
    if (i >= 4) held.push_back(one.inputs["x"]);
    one.inputs["x"] = Buffer();
    one.inputs["x"] = buffer(first);
    EXPECT_EQ(dispatches(one), i < 4 ? 0 : 3);
    expect(one.outputs["y"], first);
  }
  // What replaces kernels makes new commands.
  schedule::Tuning tuning;
  tuning.workgroup = 32;
  program.state()->program->adopt({}, {{0, tuning}});
  EXPECT_EQ(dispatches(one), 3);
  expect(one.outputs["y"], 7);
}

/// A graph for each template, of some dozens of workgroups.
struct Kind {
  const char* name;
  ir::Graph (*build)();
  friend std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }
};

Tensor input(Shape shape) { return Tensor::input("x", DType::f32, std::move(shape)); }

const Kind kKinds[] = {
    {"pointwise", [] { return graph_of({exp(input({70000})) + 1.0F}); }},
    {"rows",
     [] {
       const Tensor x = input({300, 700});
       return graph_of({x - x.mean({1}, true)});
     }},
    {"long_rows",
     [] {
       return graph_of({input({3, 400000}).sum({1})});
     }},
    {"rows_whose_workgroups_count",
     [] {
       return graph_of({input({2, 400000}).sum({1})});
     }},
    {"sort",
     [] {
       return graph_of({input({5, 3000}).argsort(1).cast(DType::f32)});
     }},
    {"matrix",
     [] {
       return graph_of({matmul(input({150, 70}), Tensor::input("w", DType::f32, {70, 90}))});
     }},
    {"transpose",
     [] {
       return graph_of({input({300, 500}).transpose() * 2.0F});
     }},
    {"scan",
     [] {
       return graph_of({input({200, 900}).cumsum(1)});
     }},
    {"attention",
     [] {
       const auto part = [](const char* name) { return Tensor::input(name, DType::f32, {2, 4, 70, 16}); };
       return graph_of({attention(part("q"), part("k"), part("v"), {})});
     }},
};

class Submissions : public testing::TestWithParam<Kind> {};

TEST_P(Submissions, AreCutWhereOneWouldTakeTooLong) {
  const WatchedDevice watched;
  const ir::Graph graph = GetParam().build();
  const Data data = data_for({graph, {}, 5, false});
  CallCounts& counts = WatchedDevice::counts();
  for (const double share : {0.4, 0.03}) {
    Build how;
    how.device = &watched.device();
    const double modelled = specialization_of(compile_graph(graph, how))->modelled_us();
    how.longest_submission_us = modelled * share;
    const Executable program = compile_graph(graph, how);
    const auto specialization = specialization_of(program);
    const std::vector<runtime::Part> parts = program.state()->program->parts(*specialization);
    EXPECT_GT(parts.size(), 1u) << share;
    // Every workgroup is in one part.
    std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> groups;
    for (const runtime::Part& part : parts) {
      double us = 0;
      for (const runtime::Unit& unit : part) {
        const runtime::Launch& kernel = specialization->kernels[unit.step][unit.dispatch];
        const double all = static_cast<double>(kernel.groups_x) * kernel.groups_y;
        const double own = static_cast<double>(unit.groups_x) * unit.groups_y;
        groups[{unit.step, unit.dispatch}] += std::uint64_t{unit.groups_x} * unit.groups_y;
        us += specialization->steps[unit.step].schedule.cost.modelled_us /
              static_cast<double>(specialization->kernels[unit.step].size()) * own / all;
      }
      EXPECT_TRUE(us <= *how.longest_submission_us || (part.size() == 1 && part[0].groups_x * part[0].groups_y == 1))
          << us << " of " << *how.longest_submission_us;
    }
    for (const auto& [at, count] : groups) {
      const runtime::Launch& kernel = specialization->kernels[at.first][at.second];
      EXPECT_EQ(count, std::uint64_t{kernel.groups_x} * kernel.groups_y);
    }
    counts.clear();
    compare_with_reference(program, graph, data, fmt::format("{} in pieces of {}", GetParam().name, share));
    // Of two runs, the second of which may be cut otherwise because the first has been measured.
    EXPECT_GT(counts.submits, static_cast<int>(parts.size()));
    EXPECT_TRUE(share > 0.1 || counts.dispatches > specialization->dispatches());
  }
}

INSTANTIATE_TEST_SUITE_P(Runtime, Submissions, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(SubmissionPace, IsNotThatOfAFirstRunInWhichADriverMayHaveCompiled) {
  const double limit = 250e3;
  EXPECT_FALSE(runtime::tells_pace(600e3, true, 100, limit))
      << "a few times over the limit, where the model expects little";
  EXPECT_TRUE(runtime::tells_pace(600e3, false, 100, limit)) << "the next run";
  EXPECT_TRUE(runtime::tells_pace(200e3, true, 100, limit)) << "below the limit nothing is cut";
  EXPECT_TRUE(runtime::tells_pace(3.4e6, true, 55e3, limit)) << "no driver may do that twice";
  EXPECT_FALSE(runtime::tells_pace(2.2e6, true, 200, limit))
      << "a small graph on a machine that does other things meanwhile";
  EXPECT_TRUE(runtime::tells_pace(2.2e6, false, 200, limit)) << "the next run";
  EXPECT_TRUE(runtime::tells_pace(600e3, true, 400e3, limit)) << "the model expects it";
}

TEST(SubmissionPace, FollowsWhatRunsTake) {
  const WatchedDevice watched;
  const ir::Graph graph = must(ir::parse(chain_text(100000, {"exp", "neg", "exp"})));
  Build how;
  how.device = &watched.device();
  how.fusion = false;
  const Executable program = compile_graph(graph, how);
  const auto specialization = specialization_of(program);
  const std::vector<float> data(100000, 0.0F);
  const auto submits = [&] {
    WatchedDevice::counts().clear();
    const Outputs outputs = must(program.run({{"x", HostView(data)}}));
    for (const float value : outputs.at("y").as<float>()) EXPECT_NEAR(value, std::exp(-1.0F), 1e-6);
    return WatchedDevice::counts().submits.load();
  };
  EXPECT_EQ(submits(), 1);
  EXPECT_EQ(submits(), 1);
  EXPECT_GT(specialization->pace.shortest_us, 0) << "the runs were timed";
  for (int i = 0; i < 20 && specialization->pace.waited_ns == 0; ++i) submits();  // where one ends before the wait
  EXPECT_GT(specialization->pace.waited_ns, 0) << "and the next is expected to end as these did";
  specialization->pace.shortest_us = 3e6;  // as if it had taken three seconds
  EXPECT_GE(submits(), 12) << "none longer than 250 ms";
  EXPECT_LT(specialization->pace.shortest_us, 3e6) << "it took less";
  EXPECT_EQ(submits(), 1);

  // On the caller's buffers: the first run is timed by the device.
  const Executable again = compile_graph(graph, how);
  Bindings bindings;
  bindings.inputs["x"] = must(watched.device().allocate(400000));
  bindings.outputs["y"] = must(watched.device().allocate(400000));
  must(bindings.inputs["x"].write(std::as_bytes(std::span(data))));
  must(must(again.submit(bindings)).wait());
  const double measured = specialization_of(again)->pace.shortest_us;
  EXPECT_GT(measured, 0);
  EXPECT_LT(measured, 1e7);
  specialization_of(again)->pace.shortest_us = 3e6;
  WatchedDevice::counts().clear();
  must(must(again.submit(bindings)).wait());
  EXPECT_GE(WatchedDevice::counts().submits, 12);
  std::vector<float> result(100000);
  must(bindings.outputs["y"].read(std::as_writable_bytes(std::span(result))));
  for (const float value : result) ASSERT_NEAR(value, std::exp(-1.0F), 1e-6);
}

}  // namespace
}  // namespace vkfuse::test
