// Which loads become tiles, on which device, and how large those are.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "plan/plan.hpp"
#include "support/device.hpp"
#include "templates/transpose/geometry.hpp"

namespace vkfuse::test {
namespace {

plan::ScheduledKernel scheduled(const std::string& text, const Target& target, const schedule::Tuning& tuning = {}) {
  const plan::Plan plan = must(plan::make_plan(must(ir::parse(text)), target));
  std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(plan, {}, tuning));
  if (steps.size() != 1) throw std::runtime_error(fmt::format("{} kernels", steps.size()));
  return std::move(steps.front());
}

/// -permute(x), where the result's sizes are given in the order of x.
std::string negated(const std::string& dtype, const Sizes& sizes, const std::vector<int>& axes) {
  Sizes result;
  for (int axis : axes) result.push_back(sizes[static_cast<std::size_t>(axis)]);
  return fmt::format(R"(graph "negated" {{
  %0 = input "x" : {0}[{1}]
  %1 = permute axes=[{2}] %0 : {0}[{3}]
  %2 = neg %1 : {0}[{3}]
  output "y" = %2
}})",
                     dtype, fmt::join(sizes, ", "), fmt::join(axes, ", "), fmt::join(result, ", "));
}

const schedule::AccessPlan& load_of(const plan::ScheduledKernel& step) {
  for (std::size_t i = 0; i < step.loops.values.size(); ++i) {
    if (step.loops.values[i].kind == segment::Value::Kind::load) return step.schedule.loads[i];
  }
  throw std::runtime_error("nothing is loaded");
}

double waste(const plan::ScheduledKernel& step) {
  const schedule::Box box = schedule::box_of(step.loops, step.schedule.as<schedule::TransposeParams>());
  return static_cast<double>(box.tiles()) * static_cast<double>(box.volume()) / static_cast<double>(step.loops.count());
}

schedule::Tuning tiled(bool wanted) {
  schedule::Tuning tuning;
  tuning.tiled = wanted;
  return tuning;
}

TEST(Tiled, TransposesAreTiledOnAGpu) {
  struct Want {
    const char* dtype;
    Sizes extents;
    int packed;
  };
  for (const Want& want :
       {Want{"f32", {32, 64}, 1}, Want{"f16", {64, 64}, 2}, Want{"i8", {64, 128}, 4}, Want{"i64", {32, 32}, 1}}) {
    SCOPED_TRACE(want.dtype);
    const plan::ScheduledKernel step = scheduled(negated(want.dtype, {8192, 4096}, {1, 0}), discrete_gpu());
    EXPECT_EQ(step.schedule.kind(), schedule::Template::transpose);
    EXPECT_EQ(step.schedule.as<schedule::TransposeParams>().extents, want.extents);
    EXPECT_EQ(load_of(step).kind, schedule::AccessKind::transposed);
    EXPECT_EQ(load_of(step).vector_bytes, 16);
    EXPECT_EQ(step.schedule.stores[0].vector_bytes, 16);
    EXPECT_EQ(step.schedule.as<schedule::TransposeParams>().loads.at(0).packed, want.packed);
    EXPECT_EQ(waste(step), 1);
    EXPECT_EQ(step.schedule.cost.bytes_read, step.schedule.cost.bytes_written);
    EXPECT_EQ(step.schedule.cost.loads_executed, step.schedule.cost.bytes_read / 16);
    EXPECT_EQ(step.schedule.cost.stores_executed, step.schedule.cost.bytes_written / 16);
    // 8 KiB, and a word for each row that keeps the banks apart.
    EXPECT_GT(step.schedule.shared_bytes, 8192);
    EXPECT_LT(step.schedule.shared_bytes, 8192 + 600);
  }
}

TEST(Tiled, CpuDriversComputeElementByElement) {
  for (const char* dtype : {"f32", "f16", "i8", "i64"}) {
    for (const Sizes& sizes : {Sizes{4096, 4096}, Sizes{100, 36}, Sizes{17, 4097}}) {
      const std::string text = negated(dtype, sizes, {1, 0});
      const plan::ScheduledKernel step = scheduled(text, cpu_driver());
      EXPECT_EQ(step.schedule.kind(), schedule::Template::pointwise) << text;
      EXPECT_EQ(scheduled(text, cpu_driver(), tiled(true)).schedule.kind(), schedule::Template::transpose) << text;
    }
  }
}

TEST(Tiled, TuningForcesAndForbids) {
  const std::string transposed = negated("f32", {1000, 1000}, {1, 0});
  EXPECT_EQ(scheduled(transposed, discrete_gpu(), tiled(false)).schedule.kind(), schedule::Template::pointwise);
  EXPECT_EQ(scheduled(transposed, discrete_gpu(), tiled(true)).schedule.kind(), schedule::Template::transpose);
  // There is nothing to transpose.
  EXPECT_EQ(scheduled(negated("f32", {1000, 1000}, {0, 1}), discrete_gpu(), tiled(true)).schedule.kind(),
            schedule::Template::pointwise);
  EXPECT_EQ(scheduled(negated("f32", {1000, 1}, {1, 0}), discrete_gpu(), tiled(true)).schedule.kind(),
            schedule::Template::pointwise);
}

TEST(Tiled, InnerAxesThatStayAreVectorsWithoutATile) {
  for (const schedule::Tuning& tuning : {schedule::Tuning{}, tiled(true)}) {
    for (const int inner : {8, 16, 24, 64, 128}) {
      const plan::ScheduledKernel step =
          scheduled(negated("f16", {8, 256, 32, inner}, {0, 2, 1, 3}), discrete_gpu(), tuning);
      EXPECT_EQ(step.schedule.kind(), schedule::Template::pointwise) << inner;
      EXPECT_EQ(load_of(step).kind, schedule::AccessKind::vector) << inner;
      EXPECT_EQ(load_of(step).vector_bytes, 16) << inner;
      EXPECT_EQ(step.schedule.stores[0].vector_bytes, 16) << inner;
    }
  }
}

TEST(Tiled, ShortInnerAxesMoveWholeVectorsEvenSo) {
  for (const int inner : {2, 3, 4, 5, 6, 7, 12}) {
    const plan::ScheduledKernel step = scheduled(negated("f16", {8, 256, 32, inner}, {0, 2, 1, 3}), discrete_gpu());
    ASSERT_EQ(step.schedule.kind(), schedule::Template::transpose) << inner;
    EXPECT_EQ(load_of(step).vector_bytes, 16) << inner;
    EXPECT_EQ(step.schedule.stores[0].vector_bytes, 16) << inner;
    EXPECT_LE(waste(step), 1.05) << inner;
  }
}

TEST(Tiled, FewChannelsAreWhollyInATile) {
  for (const int channels : {3, 4, 7}) {
    const plan::ScheduledKernel last = scheduled(negated("f32", {8, channels, 96, 128}, {0, 2, 3, 1}), discrete_gpu());
    const plan::ScheduledKernel first = scheduled(negated("f32", {8, 96, 128, channels}, {0, 3, 1, 2}), discrete_gpu());
    for (const plan::ScheduledKernel& step : {last, first}) {
      ASSERT_EQ(step.schedule.kind(), schedule::Template::transpose) << channels;
      EXPECT_EQ(load_of(step).vector_bytes, 16) << channels;
      EXPECT_EQ(step.schedule.stores[0].vector_bytes, 16) << channels;
      EXPECT_EQ(waste(step), 1) << channels;
      EXPECT_GE(schedule::box_of(step.loops, step.schedule.as<schedule::TransposeParams>()).volume(), 1024) << channels;
    }
  }
}

TEST(Tiled, LanesWithoutAPositionCostTime) {
  // Both axes are just longer than whole tiles of them; the same elements fit without waste.
  const plan::ScheduledKernel cut = scheduled(negated("f32", {1032, 1032}, {1, 0}), discrete_gpu(), tiled(true));
  const plan::ScheduledKernel whole = scheduled(negated("f32", {1024, 1040}, {1, 0}), discrete_gpu(), tiled(true));
  const double launch = schedule::default_costs(DeviceType::discrete).launch_us;
  EXPECT_GT(waste(cut), 1.0);
  const double per_element = (cut.schedule.cost.modelled_us - launch) / static_cast<double>(cut.loops.count());
  const double per_element_whole =
      (whole.schedule.cost.modelled_us - launch) / static_cast<double>(whole.loops.count());
  EXPECT_NEAR(per_element / per_element_whole, waste(cut) / waste(whole), 0.01);
}

TEST(Tiled, SharedMemoryIsDividedBetweenLoads) {
  std::string text =
      "graph \"sum\" {\n  %0 = input \"x0\" : f32[2048, 2048]\n  %1 = permute axes=[1, 0] %0 : f32[2048, 2048]\n";
  int value = 2;
  std::string sum = "%1";
  for (int i = 1; i < 6; ++i) {
    text += fmt::format("  %{} = input \"x{}\" : f32[2048, 2048]\n", value, i);
    text += fmt::format("  %{} = permute axes=[1, 0] %{} : f32[2048, 2048]\n", value + 1, value);
    text += fmt::format("  %{} = add {} %{} : f32[2048, 2048]\n", value + 2, sum, value + 1);
    sum = fmt::format("%{}", value + 2);
    value += 3;
  }
  text += fmt::format("  output \"y\" = {}\n}}", sum);
  for (const Target& target : {discrete_gpu(), discrete_gpu(64, 128)}) {
    const plan::ScheduledKernel step = scheduled(text, target);
    EXPECT_EQ(step.schedule.kind(), schedule::Template::transpose);
    EXPECT_EQ(step.schedule.as<schedule::TransposeParams>().loads.size(), 6U);
    EXPECT_LE(step.schedule.shared_bytes, 16384);
    EXPECT_LE(step.schedule.workgroup, static_cast<int>(target.caps.workgroup.max_invocations));
  }
}

TEST(Tiled, TheSmallestDeviceIsEnough) {
  for (const char* dtype : {"f32", "f16", "i8", "i64"}) {
    const plan::ScheduledKernel step = scheduled(negated(dtype, {1000, 1000}, {1, 0}), minimum_device());
    EXPECT_EQ(step.schedule.kind(), schedule::Template::transpose);
    EXPECT_LE(step.schedule.shared_bytes, 16384);
    EXPECT_LE(step.schedule.workgroup, 128);
  }
}

TEST(Tiled, RowsOfSharedMemoryBeginInDifferentBanks) {
  const schedule::TileArray flat{schedule::array_of({{3072}, {3072}, {1}, 1, 3072}, {})};
  EXPECT_EQ(flat.pitch, 0);
  EXPECT_EQ(index::evaluate(flat.entry(index::Expr(0), index::Expr(3071)), {}), flat.entries - 1);
  const schedule::TileArray rows{schedule::array_of({{64, 64}, {32, 64}, {2, 1}, 32, 64}, {0, {0}, 4, 2})};
  EXPECT_EQ(rows.pitch, 33);
  EXPECT_EQ(rows.entries, 32 * 33);
  EXPECT_EQ(index::evaluate(rows.entry(index::Expr(31), index::Expr(63)), {}), 31 * 33 + 31);
}

TEST(Tiled, MergedAxesReadWhatTheyDidApart) {
  const plan::ScheduledKernel step =
      scheduled(negated("f32", {4, 6, 10, 3}, {0, 2, 1, 3}), discrete_gpu(), tiled(true));
  const segment::Loops merged = schedule::merge_inner(step.loops, 2);
  ASSERT_EQ(merged.axes.size() + 1, step.loops.axes.size());
  const auto last = static_cast<int>(merged.axes.size()) - 1;
  const std::int64_t inner = step.loops.axes.back().size;
  for (std::size_t i = 0; i < merged.values.size(); ++i) {
    if (merged.values[i].kind != segment::Value::Kind::load) continue;
    for (std::int64_t at = 0; at < merged.axes.back().size; ++at) {
      std::map<index::AxisId, std::int64_t> together;
      for (int axis = 0; axis < last; ++axis) together[axis] = 1;
      std::map<index::AxisId, std::int64_t> apart = together;
      together[last] = at;
      apart[last] = at / inner;
      apart[last + 1] = at % inner;
      EXPECT_EQ(index::evaluate(merged.values[i].offset, together), index::evaluate(step.loops.values[i].offset, apart))
          << at;
    }
  }
}

}  // namespace
}  // namespace vkfuse::test
