// Kernels of random graphs for devices that are not here: each must be written, and its text must compile to valid
// SPIR-V. What one device never schedules, another one does.
#include <gtest/gtest.h>

#include "fuzz/forced.hpp"
#include "golden/row_targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "runtime/shape_buckets.hpp"
#include "spirv/compile.hpp"
#include "support/cases.hpp"
#include "support/fuzz.hpp"

namespace vkfuse::test {
namespace {

struct Fabricated {
  const char* name;
  Target target;
  bool compiles = true;  ///< by every shaderc
};

/// Everything that a large GPU has, with the costs of one: an H200's.
Target large_gpu() {
  Target target = discrete_gpu();
  target.caps.arithmetic.int8 = target.caps.arithmetic.int16 = target.caps.float_controls.keep_nan_f32 =
      target.caps.float_controls.keep_nan_f64 = target.caps.float_controls.exp_of_nan = true;
  target.costs = CostModel{4250, 2, 30000, 1.9e6};
  return target;
}

/// Fewer than a template would have rows side by side.
Target with_few_invocations(Target target) {
  target.caps.workgroup.max_invocations = target.caps.workgroup.max_x = 4;
  return target;
}

const std::vector<Fabricated>& devices() {
  static const std::vector<Fabricated> all = {
      {"large GPU", large_gpu()},
      {"GPU with subgroups of 64", discrete_gpu(64)},
      {"GPU with matrix units", discrete_gpu_with_matrices(), false},
      {"GPU with products of matrices alone", discrete_gpu_with_matrix_products(), false},
      {"CPU", cpu_driver()},
      {"minimum", minimum_device()},
      {"CPU of few invocations", with_few_invocations(cpu_driver())},
      {"V3D", target_of(row_device("V3D 4"))},  // few registers, and loops over arrays are written out
  };
  return all;
}

/// The plan at these sizes; where a kernel of the one for any sizes is impossible, one that is made for these, as in a
/// run.
Result<std::pair<plan::Plan, std::vector<plan::ScheduledKernel>>> scheduled(const Case& one, const Target& target,
                                                                            const schedule::Tuning& tuning) {
  VKF_TRY(prepared, passes::run_pipeline(one.graph, {}));
  VKF_TRY(made, plan::make_plan(prepared, target, {}));
  auto steps = plan::schedule_all(made, one.symbols, tuning);
  if (!steps && !one.symbols.empty()) {
    partition::Options again;
    again.sizes = one.symbols;
    VKF_TRY(other, plan::make_plan(std::move(prepared), target, again));
    made = std::move(other);
    steps = plan::schedule_all(made, one.symbols, tuning);
  }
  if (!steps) return std::move(steps).error();
  return std::pair(std::move(made), *std::move(steps));
}

/// Of all kernels of a graph, how many there are.
Result<int> write_all(const Case& one, const Fabricated& on, const schedule::Tuning& tuning) {
  VKF_TRY(plan, scheduled(one, on.target, tuning));
  int kernels = 0;
  const std::uint32_t largest = std::min(on.target.caps.workgroup.max_invocations, on.target.caps.workgroup.max_x);
  for (std::size_t i = 0; i < plan.second.size(); ++i) {
    VKF_TRY(texts, runtime::write_kernels(plan.first, i, plan.second[i], {}));
    for (const lowering::Kernel& kernel : texts) {
      ++kernels;
      if (static_cast<std::uint32_t>(kernel.workgroup) > largest)
        return invalid("A kernel has workgroups of {} invocations, and the device has {}.", kernel.workgroup, largest);
      if (!on.compiles) continue;
      VKF_TRY(module, spirv::compile_glsl(kernel.glsl, "kernel"));
      static_cast<void>(module);
    }
  }
  return kernels;
}

/// What is wrong with it; empty if nothing is.
std::string fault_of(const Case& one, const Fabricated& on, const schedule::Tuning& tuning, int& kernels) try {
  const Result<int> made = write_all(one, on, tuning);
  if (!made) return made.error().text();
  kernels += *made;
  return {};
} catch (const std::exception& error) {  // an invariant
  return error.what();
}

TEST(RandomTexts, CompileForOtherDevices) {
  int kernels = 0, failures = 0;
  const std::vector<std::uint64_t> seeds = seeds_from(1, 400);
  for (const std::uint64_t seed : seeds) {
    Random random(seed_of(seed, "text"));
    const Fabricated& on = random.pick(devices());
    const Forced forced = draw_schedule(random);
    CaseOptions options;
    options.caps = on.target.caps;
    options.every_class = true;
    options.max_ops = 14;
    const Case one = random_case(seed, options);
    const std::string fault = fault_of(one, on, forced.tuning, kernels);
    if (fault.empty()) continue;
    int ignored = 0;
    const auto kind = [](const std::string& text) { return text.substr(0, text.find_first_of("0123456789'%", 1)); };
    const Case smallest = shrink(
        one, [&](const Case& smaller) { return kind(fault_of(smaller, on, forced.tuning, ignored)) == kind(fault); });
    std::string sizes;
    for (const auto& symbol : smallest.symbols) sizes += fmt::format(" {}={}", symbol.first, symbol.second);
    ADD_FAILURE() << "On a fabricated " << on.name << forced.name << sizes << ":\n"
                  << ir::print(smallest.graph) << fault_of(smallest, on, forced.tuning, ignored)
                  << fmt::format("\nREPLAY: VKFUSE_SEED={} vkfuse-test-unit --gtest_filter=RandomTexts.*\n", seed);
    if (++failures == 5) break;
  }
  std::printf("%zu graphs: %d kernels\n", seeds.size(), kernels);
  EXPECT_GE(kernels, static_cast<int>(seeds.size()) / 2);
}

}  // namespace
}  // namespace vkfuse::test
