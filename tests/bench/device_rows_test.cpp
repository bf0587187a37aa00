// The benchmark's cases, planned for a device of each architecture: every kernel keeps within what the device and its
// row of source/device_model have.
#include <gtest/gtest.h>

#include "api/tensor_node.hpp"
#include "golden/row_targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "rows.hpp"
#include "schedule/schedule.hpp"

namespace vkfuse::bench {
namespace {

using schedule::Schedule;

ir::Graph graph_of(const Row& row) {
  auto graph = api::to_graph(row.build(row.dtype, Shape(row.full.begin(), row.full.end())).outputs, {}, row.name);
  EXPECT_TRUE(graph.ok()) << row.name;
  auto prepared = passes::run_pipeline(*graph);
  EXPECT_TRUE(prepared.ok()) << row.name;
  return *std::move(prepared);
}

/// 32-bit registers that a thread of a kernel has.
double registers_of_thread(const Target& target, const Schedule& kernel) {
  const DeviceModel& row = device_model(target);
  if (row.registers.of_hardware_thread == 0 || kernel.subgroup == 0) return row.units.registers_per_thread;
  return row.registers.of_hardware_thread / kernel.subgroup;
}

void expect_within_limits(const Target& target, const Schedule& kernel) {
  const Caps& caps = target.caps;
  EXPECT_LE(kernel.workgroup, static_cast<int>(caps.workgroup.max_invocations));
  EXPECT_LE(kernel.shared_bytes, caps.workgroup.shared_memory_bytes);
  for (const schedule::AccessPlan& load : kernel.loads) EXPECT_LE(load.vector_bytes, 16);
  for (const schedule::AccessPlan& store : kernel.stores) EXPECT_LE(store.vector_bytes, 16);
  if (kernel.subgroup == 0) return;
  EXPECT_GE(kernel.subgroup, static_cast<int>(caps.subgroup.size_min));
  EXPECT_LE(kernel.subgroup, static_cast<int>(caps.subgroup.size_max));
  EXPECT_EQ(kernel.workgroup % kernel.subgroup, 0);
}

void expect_within_row(const Target& target, const Schedule& kernel) {
  const ComputeUnits& units = device_model(target).units;
  const bool known = target.caps.registers.per_thread != kUnknownRegistersPerThread;
  if (known) EXPECT_LE(kernel.cost.registers, registers_of_thread(target, kernel));
  // A compute unit has room for a workgroup: else none of them runs.
  EXPECT_LE(kernel.workgroup, units.threads.value);
  EXPECT_LE(static_cast<double>(kernel.shared_bytes) + units.workgroup_shared_memory, units.shared_memory.value);
  if (known) EXPECT_LE(static_cast<double>(kernel.cost.registers) * kernel.workgroup, units.registers.value);
}

class DeviceRowCases : public testing::TestWithParam<test::RowDevice> {};

TEST_P(DeviceRowCases, KernelsKeepWithinTheRow) {
  const Target target = test::target_of(GetParam());
  int kernels = 0;
  for (const Row& row : rows()) {
    const auto plan = plan::make_plan(graph_of(row), target);
    ASSERT_TRUE(plan.ok()) << row.name << ": " << plan.error().text();
    const auto steps = plan::schedule_all(*plan, schedule::representative_symbols(plan->graph));
    ASSERT_TRUE(steps.ok()) << row.name;
    for (const plan::ScheduledKernel& step : *steps) {
      SCOPED_TRACE(fmt::format("{} {} on {}, {} threads, {} registers", row.name, name_of(row.dtype), target.name,
                               step.schedule.workgroup, step.schedule.cost.registers));
      expect_within_limits(target, step.schedule);
      if (target.type != DeviceType::cpu) expect_within_row(target, step.schedule);
      ++kernels;
    }
  }
  EXPECT_GT(kernels, static_cast<int>(rows().size()) / 2);
}

INSTANTIATE_TEST_SUITE_P(Rows, DeviceRowCases, testing::ValuesIn(test::kRowDevices), [](const auto& device) {
  std::string name = device.param.row;
  std::replace(name.begin(), name.end(), ' ', '_');
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace vkfuse::bench
