// Any graph that is accepted, on devices that are not here: a sentence, or a plan and the text of each of its kernels.
#include "fuzz/forced.hpp"
#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "runtime/shape_buckets.hpp"
#include "support/cases.hpp"
#include "support/device.hpp"
#include "support/fuzzer.hpp"

namespace vkfuse::test {
namespace {

/// The first two bytes choose a device and a schedule.
std::vector<std::string> texts() {
  std::vector<std::string> all;
  CaseOptions options;
  options.every_class = true;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    options.caps = seed % 2 == 0 ? discrete_gpu().caps : minimum_device().caps;
    all.push_back(fmt::format("{:02d}{}", seed, ir::print(random_case(seed, options).graph)));
  }
  return all;
}

/// A graph that takes seconds to plan for its size shows nothing more than a smaller one.
constexpr std::size_t kMostNodes = 60;

Result<void> write_all(const ir::Graph& graph, const Target& target, const schedule::Tuning& tuning) {
  VKF_TRY(prepared, passes::run_pipeline(graph));
  VKF_TRY(plan, plan::make_plan(std::move(prepared), target, {}));
  VKF_TRY(steps, plan::schedule_all(plan, schedule::representative_symbols(plan.graph), tuning));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    VKF_TRY(texts, runtime::write_kernels(plan, i, steps[i], {}));
    static_cast<void>(texts);
  }
  return {};
}

bool has_kernels(const std::string& bytes) {
  if (bytes.size() < 2) return false;
  const auto graph = ir::parse(bytes.substr(2));
  if (!graph || graph->size() > kMostNodes) return false;
  static const std::vector<Target> targets = {discrete_gpu(),
                                              discrete_gpu(64),
                                              discrete_gpu_with_matrices(),
                                              discrete_gpu_with_whole_tiles(),
                                              discrete_gpu_with_dots(),
                                              cpu_driver(),
                                              minimum_device()};
  Random random(std::string_view(bytes).substr(1, 1));
  const Result<void> done =
      write_all(*graph, targets[static_cast<unsigned char>(bytes[0]) % targets.size()], draw_schedule(random).tuning);
  if (done) return true;
  const Error& error = done.error();
  if (error.code == ErrorCode::internal || !error.message.ends_with("."))
    fault(fmt::format("No sentence: {}", error.text()));
  return false;
}

}  // namespace
}  // namespace vkfuse::test

VKFUSE_FUZZER(Kernels, vkfuse::test::has_kernels, vkfuse::test::texts, 1500)
