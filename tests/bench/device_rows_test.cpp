// The benchmark's cases, planned for a device of each architecture: every kernel keeps within what the device and its
// row of source/device_model have.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "api/tensor_node.hpp"
#include "golden/row_targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "rows.hpp"
#include "schedule/schedule.hpp"
#include "templates/planning.hpp"

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

/// Rows that a suite measures. Those that are measured by name alone are of the same kinds at other sizes.
std::vector<Row> suite_rows() {
  std::vector<Row> chosen;
  std::copy_if(rows().begin(), rows().end(), std::back_inserter(chosen),
               [](const Row& row) { return !row.traits.named; });
  return chosen;
}

/// 32-bit registers that a thread of a kernel has, as estimates count them.
double registers_of_thread(const Target& target, const Schedule& kernel) {
  const DeviceModel& row = device_model(target);
  if (row.registers.of_hardware_thread == 0 || kernel.subgroup == 0)
    return row.units.registers_per_thread + row.registers.elsewhere;
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

/// What a kernel may be estimated to want beyond what a thread has, and why.
struct Exception {
  const char* device;
  const char* row;  ///< of the benchmark; empty: all
  int most;
};
constexpr Exception kExceptions[] = {
    // The smallest tile of f32, for which Mesa's compiler finds room on a Pi.
    {"V3D", "matmul", 60},
    // The same tile between a gate and a sum. What Mesa's compiler makes of it has not been tried.
    {"V3D", "mbconv", 63},
    // No attention tile of heads of 128 fits, and stored scores would take longer.
    {"Mali", "attention window", 108}};

int most_registers(const Target& target, const Row& row, const Schedule& kernel) {
  for (const Exception& one : kExceptions) {
    if (target.name.find(one.device) != std::string::npos && row.name.find(one.row) != std::string::npos)
      return one.most;
  }
  return static_cast<int>(registers_of_thread(target, kernel));
}

void expect_within_row(const Target& target, const Row& row, const Schedule& kernel) {
  const ComputeUnits& units = device_model(target).units;
  // A compute unit has room for a workgroup: else none of them runs.
  EXPECT_LE(kernel.workgroup, units.threads.value);
  EXPECT_LE(static_cast<double>(kernel.shared_bytes) + units.workgroup_shared_memory, units.shared_memory.value);
  if (target.caps.registers.per_thread == kUnknownRegistersPerThread) return;
  EXPECT_LE(kernel.cost.registers, most_registers(target, row, kernel));
  const double had = std::min<double>(kernel.cost.registers, registers_of_thread(target, kernel));  // others spill
  EXPECT_LE((had - device_model(target).registers.elsewhere) * kernel.workgroup, units.registers.value);
}

class DeviceRowCases : public testing::TestWithParam<test::RowDevice> {};

TEST_P(DeviceRowCases, KernelsKeepWithinTheRow) {
  const Target target = test::target_of(GetParam());
  int kernels = 0;
  for (const Row& row : suite_rows()) {
    const auto plan = plan::make_plan(graph_of(row), target);
    ASSERT_TRUE(plan.ok()) << row.name << ": " << plan.error().text();
    const auto steps = plan::schedule_all(*plan, schedule::representative_symbols(plan->graph));
    ASSERT_TRUE(steps.ok()) << row.name;
    for (const plan::ScheduledKernel& step : *steps) {
      SCOPED_TRACE(fmt::format("{} {} on {}, {} threads, {} registers", row.name, name_of(row.dtype), target.name,
                               step.schedule.workgroup, step.schedule.cost.registers));
      expect_within_limits(target, step.schedule);
      if (target.type != DeviceType::cpu) expect_within_row(target, row, step.schedule);
      ++kernels;
    }
  }
  EXPECT_GT(kernels, static_cast<int>(suite_rows().size()) / 2);
}

INSTANTIATE_TEST_SUITE_P(Rows, DeviceRowCases, testing::ValuesIn(test::kRowDevices), [](const auto& device) {
  std::string name = device.param.row;
  std::replace(name.begin(), name.end(), ' ', '_');
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(DeviceRowMatrices, ProductsOnXe2AreOfCooperativeMatrices) {
  Target target = test::target_of(test::row_device("Intel Xe2"));
  target.tiers[static_cast<std::size_t>(FeatureTier::cooperative_matrix)] = true;
  target.caps.matrix.shapes = {{8, 16, 16, DType::f16, DType::f16, DType::f32, DType::f32}};
  int kernels = 0;
  for (const Row& row : rows()) {
    // Products whose rows begin anywhere in a word are computed by threads there.
    if (row.group != "matmul" || !row.name.starts_with("matmul ") || row.dtype != DType::f16) continue;
    SCOPED_TRACE(row.name);
    const auto plan = plan::make_plan(graph_of(row), target);
    ASSERT_TRUE(plan.ok()) << plan.error().text();
    const auto steps = plan::schedule_all(*plan, schedule::representative_symbols(plan->graph));
    ASSERT_TRUE(steps.ok());
    const Schedule& kernel = steps->front().schedule;
    EXPECT_EQ(schedule::describe(kernel).choices["cooperative_matrix"], true);
    EXPECT_LE(kernel.cost.registers, 128 - 33) << "what Mesa's compiler spills nothing of";
    ++kernels;
  }
  EXPECT_GT(kernels, 0);
}

// --- which plans differ from those with the H200's numbers, and for which of them ------------------------

/// All that a plan's kernels depend on, but for what is modelled of them; empty where there is no plan.
std::string choices_of(const ir::Graph& graph, const Target& target) {
  const auto plan = plan::make_plan(graph, target);
  if (!plan.ok()) return "";
  const auto steps = plan::schedule_all(*plan, schedule::representative_symbols(plan->graph));
  if (!steps.ok()) return "";
  std::string text;
  for (std::size_t i = 0; i < steps->size(); ++i) {
    const Schedule& schedule = (*steps)[i].schedule;
    text += fmt::format("{} {} {} {} {} {} {} of {}\n", name_of(schedule.kind()), schedule.workgroup,
                        schedule.chunk_size, schedule.unroll_factor, schedule.splits, schedule.subgroup,
                        schedule::describe(schedule).choices.dump(), fmt::join(plan->steps[i].segment.members, " "));
  }
  return text;
}

/// The device with an H200's row, as every device had it, and the registers that were known of two vendors.
Target with_the_h200s_row(const test::RowDevice& device) {
  Target target = test::target_of(device);
  const std::uint32_t subgroup = device.subgroup;
  test::take_model(target, test::kH200);
  target.caps.subgroup.size = subgroup;
  constexpr std::uint32_t kArm = 0x13B5, kQualcomm = 0x5143;
  if (device.identity.vendor_id == kArm) target.caps.registers = {64, 1U << 16};
  if (device.identity.vendor_id == kQualcomm) target.caps.registers = {128, 1U << 15};
  return target;
}

/// The same, with one number of the device's own row.
Target with_own(const test::RowDevice& device, const Figure& figure) {
  Target target = with_the_h200s_row(device);
  auto model = std::make_shared<DeviceModel>(*target.model);
  figure.set(*model, figure.of(*model_of(device.identity)));
  target.model = model;
  if (figure.group == "registers") apply_model(*model, target.caps);
  return target;
}

/// Names of the numbers each of which alone changes the plan; else what does.
std::vector<std::string> reasons_of(const ir::Graph& graph, const test::RowDevice& device, const std::string& before) {
  std::vector<std::string> reasons;
  const auto own = model_of(device.identity);
  const auto h200 = model_of(test::kH200);
  for (const Figure& figure : figures()) {
    if (figure.group.starts_with("matrices") || figure.of(*own).value == figure.of(*h200).value) continue;
    if (choices_of(graph, with_own(device, figure)) != before)
      reasons.push_back(fmt::format("{}.{}", figure.group, figure.name));
  }
  if (reasons.empty()) reasons.emplace_back("several together");
  return reasons;
}

/// The section of docs/device-models.md on a device.
std::string changes_of(const test::RowDevice& device) {
  const Target own = test::target_of(device), before = with_the_h200s_row(device);
  std::map<std::string, std::vector<std::string>> by_reason;
  int changed = 0;
  for (const Row& row : suite_rows()) {
    const ir::Graph graph = graph_of(row);
    const std::string choices = choices_of(graph, before);
    if (choices_of(graph, own) == choices) continue;
    ++changed;
    for (const std::string& reason : reasons_of(graph, device, choices))
      by_reason[reason].push_back(fmt::format("{} {}", row.name, name_of(row.dtype)));
  }
  std::string text =
      fmt::format("### {} ({}): {} of {} plans\n\n", device.row, device.identity.name, changed, suite_rows().size());
  for (const auto& [reason, names] : by_reason) text += fmt::format("- `{}`: {}\n", reason, fmt::join(names, ", "));
  return text + (by_reason.empty() ? "" : "\n");
}

const char* const kPage = VKFUSE_TEST_RESULTS "/../../docs/device-models.md";
constexpr std::string_view kBegin =
    "<!-- Below: VKFUSE_UPDATE_DOCS=1 vkfuse-test-bench --gtest_filter=DeviceRowPlans.* -->\n\n";

std::string page() {
  std::ifstream file(kPage);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// All devices take minutes; one shows whether the page is out of date.
TEST(DeviceRowPlans, ThePageListsWhatChanged) {
  if (std::getenv("VKFUSE_UPDATE_DOCS") != nullptr) {
    std::string text = page();
    text.resize(text.find(kBegin) + kBegin.size());
    for (const test::RowDevice& device : test::kRowDevices) text += changes_of(device);
    text.resize(text.find_last_not_of('\n') + 2);
    std::ofstream(kPage) << text;
  }
  for (const char* row : {"NVIDIA Hopper", "NVIDIA Ampere GA100"}) {
    const std::string section = changes_of(test::row_device(row));
    EXPECT_NE(page().find(section), std::string::npos) << kPage << " lacks\n"
                                                       << section << "VKFUSE_UPDATE_DOCS=1 on this test rewrites it.";
  }
}

TEST(DeviceRowPlans, TheH200sAreAsTheyWere) {
  EXPECT_NE(changes_of(test::row_device("NVIDIA Hopper")).find("0 of"), std::string::npos);
}

}  // namespace
}  // namespace vkfuse::bench
