// The arena: values that are alive together never overlap, and it is not larger than it must be.
#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "support/cases.hpp"
#include "support/device.hpp"

namespace vkfuse::test {
namespace {

struct Span {
  std::size_t first = 0;
  std::size_t last = 0;
};

Span lifetime(const plan::Plan& plan, ir::NodeId value) {
  Span span;
  for (std::size_t step = 0; step < plan.steps.size(); ++step) {
    const segment::Segment& segment = plan.steps[step].segment;
    if (std::find(segment.stores.begin(), segment.stores.end(), value) != segment.stores.end()) span.first = step;
    if (std::find(segment.reads.begin(), segment.reads.end(), value) != segment.reads.end()) span.last = step;
  }
  return span;
}

TEST(Memory, ValuesThatLiveTogetherLieApart) {
  CaseOptions options;
  options.caps.arithmetic.int64 = options.caps.arithmetic.float64 = true;
  options.caps.memory.storage_buffers = 30;
  options.max_ops = 30;
  Target target;
  target.caps = options.caps;
  std::int64_t packed = 0;
  std::int64_t laid_out = 0;
  int in_place = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Case one = random_case(seed, options);
    const plan::Plan plan = must(plan::make_plan(one.graph, target, {false}));
    const std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(plan, one.symbols));
    const plan::Memory memory = must(plan::plan_memory(plan, one.symbols, steps));
    // Each element is read for the last time by the invocation that puts the other one there.
    const auto replaces = [&](const plan::Slot& later, const plan::Slot& earlier) {
      const std::size_t step = lifetime(plan, later.value).first;
      const bool replaced =
          lifetime(plan, earlier.value).last == step && later.offset == earlier.offset &&
          plan::reads_own_place(plan, steps, step, earlier.value, later.value) &&
          size_of(plan.graph.node(later.value).type.dtype) == size_of(plan.graph.node(earlier.value).type.dtype);
      in_place += replaced ? 1 : 0;
      return replaced;
    };
    for (std::size_t a = 0; a < memory.slots.size(); ++a) {
      const plan::Slot& slot = memory.slots[a];
      EXPECT_EQ(slot.offset % 256, 0);
      EXPECT_GE(slot.bytes, static_cast<std::int64_t>(bytes_of(plan.graph, slot.value, one.symbols)));
      EXPECT_EQ(slot.written, lifetime(plan, slot.value).first);
      EXPECT_EQ(slot.read, lifetime(plan, slot.value).last);
      EXPECT_LE(slot.offset + slot.bytes, memory.arena_bytes);
      laid_out += slot.bytes;
      for (std::size_t b = 0; b < a; ++b) {
        const plan::Slot& other = memory.slots[b];
        const Span x = lifetime(plan, slot.value);
        const Span y = lifetime(plan, other.value);
        const bool together = x.first <= y.last && y.first <= x.last;
        const bool overlap = slot.offset < other.offset + other.bytes && other.offset < slot.offset + slot.bytes;
        EXPECT_FALSE(together && overlap && !replaces(slot, other) && !replaces(other, slot))
            << "%" << slot.value << " and %" << other.value << " of seed " << seed;
      }
    }
    packed += memory.arena_bytes;
    // Every intermediate has a slot: read by a step, computed by another, not an output.
    for (const plan::PlannedKernel& step : plan.steps) {
      for (ir::NodeId value : step.segment.reads) {
        const auto& outputs = plan.graph.outputs();
        const bool output =
            std::any_of(outputs.begin(), outputs.end(), [&](const ir::Output& o) { return o.value == value; });
        const bool slotted = std::any_of(memory.slots.begin(), memory.slots.end(),
                                         [&](const plan::Slot& s) { return s.value == value; });
        EXPECT_EQ(slotted, !output && !segment::is_resident(plan.graph, value)) << "%" << value << " of seed " << seed;
      }
    }
  }
  EXPECT_LT(packed, laid_out);  // slots are used again
  EXPECT_GT(in_place, 0);
}

std::int64_t arena_of(const ir::Graph& graph) {
  const plan::Plan plan = must(plan::make_plan(graph, Target{}, {false}));
  return must(plan::plan_memory(plan, {}, must(plan::schedule_all(plan, {})))).arena_bytes;
}

TEST(Memory, AChainRunsInOneSlotUnlessItMovesElements) {
  ir::Graph graph, turned;
  ir::NodeId value = must(graph.add_input("x", {DType::f32, {Dim(1024)}}));
  for (int i = 0; i < 10; ++i) value = must(graph.add(ops::row("neg"), {value}));
  must(graph.add_output("y", value));
  EXPECT_EQ(arena_of(graph), 4096);
  value = must(turned.add_input("x", {DType::f32, {Dim(1024)}}));
  for (int i = 0; i < 5; ++i)
    value = must(
        turned.add(ops::row("neg"), {must(turned.add_structured(ops::row("reverse"), {value}, ir::AxesPayload{{0}}))}));
  must(turned.add_output("y", value));
  EXPECT_EQ(arena_of(turned), 2 * 4096);
}

/// The second reader of the first value does not wait for the first reader, and would have to if it wrote over what
/// that reads.
TEST(Memory, InPlaceCostsNoBarrier) {
  ir::Graph graph;
  const ir::NodeId x = must(graph.add_input("x", {DType::f32, {Dim(1024)}}));
  const ir::NodeId first = must(graph.add(ops::row("neg"), {x}));
  const ir::NodeId one = must(graph.add(ops::row("exp"), {first})), other = must(graph.add(ops::row("abs"), {first}));
  must(graph.add_output("y", must(graph.add(ops::row("neg"), {one}))));
  must(graph.add_output("z", must(graph.add(ops::row("neg"), {other}))));
  const plan::Plan plan = must(plan::make_plan(graph, Target{}, {false}));
  const plan::Memory memory = must(plan::plan_memory(plan, {}, must(plan::schedule_all(plan, {}))));
  const auto offset_of = [&](ir::NodeId value) {
    return std::find_if(memory.slots.begin(), memory.slots.end(),
                        [&](const plan::Slot& slot) { return slot.value == value; })
        ->offset;
  };
  EXPECT_NE(offset_of(first), offset_of(one));
  EXPECT_NE(offset_of(first), offset_of(other));
}

TEST(Memory, PartialResultsLiveAsLongAsTheirStep) {
  // A row that several workgroups share leaves partial results for the next dispatch of its own step alone.
  ir::Graph graph;
  const ir::NodeId x = must(graph.add_input("x", {DType::f32, {Dim(1 << 22)}}));
  const ir::NodeId sum = must(graph.add_structured(ops::row("reduce_sum"), {x}, ir::AxesPayload{{0}}));
  const ir::NodeId scaled = must(graph.add(ops::row("mul"), {x, sum}));
  must(graph.add_output("y", must(graph.add_structured(ops::row("reduce_max"), {scaled}, ir::AxesPayload{{0}}))));
  const plan::Plan plan = must(plan::make_plan(graph, Target{}, {false}));
  const std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(plan, {}, {.splits = 4}));
  const plan::Memory memory = must(plan::plan_memory(plan, {}, steps));
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const std::int64_t bytes = steps[step].schedule.scratch_bytes;
    const auto slot = std::find_if(memory.slots.begin(), memory.slots.end(),
                                   [&](const plan::Slot& s) { return s.value == plan::scratch_id(plan, step); });
    EXPECT_EQ(slot != memory.slots.end(), bytes > 0) << "step " << step;
    if (bytes > 0) {
      EXPECT_GE(slot->bytes, bytes);
      EXPECT_LE(slot->offset + slot->bytes, memory.arena_bytes);
    }
  }
  EXPECT_GT(steps.front().schedule.scratch_bytes, 0);
  EXPECT_GT(steps.back().schedule.scratch_bytes, 0);
}

}  // namespace
}  // namespace vkfuse::test
