// The cost of reductions over windows against what an H200 measured, which it is fitted to:
// bench/results/h200-windows-of-channels.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "api/tensor_node.hpp"
#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/device.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::bench {
namespace {

using test::must;

/// A convolution of single channels in blocks of rows x columns x channels.
struct MeasuredBlock {
  std::int64_t images = 0, size = 0, taps = 0, step = 0, channels = 0;
  DType dtype = DType::f16;
  char layout = 'f';  ///< f: as users write it; l: channels last; w: of the image alone
  int rows = 0, columns = 0, chunk = 0;
  double us = 0;  ///< with its operands in the near cache and without, the mean

  [[nodiscard]] schedule::StencilShape block() const {
    return layout == 'f' ? schedule::StencilShape{columns, rows, 1} : schedule::StencilShape{chunk, columns, rows};
  }
  /// Taps of all results that are written one after the other. Those of few stay near; others are fetched for each
  /// launch, which launches in a row of the same kernel do not show.
  [[nodiscard]] std::int64_t unrolled() const {
    return std::int64_t{rows} * columns * chunk * taps * (rows > 1 || layout == 'f' ? taps : 1);
  }
};

/// The second table, up to the next empty line.
std::vector<MeasuredBlock> measured_blocks() {
  std::ifstream file(std::string(VKFUSE_TEST_RESULTS) + "/h200-windows-of-channels.txt");
  std::vector<MeasuredBlock> all;
  bool begun = false;
  for (std::string line; std::getline(file, line) && !(begun && line.empty());) {
    MeasuredBlock one;
    char dtype[8] = {};
    double after = 0, warm = 0;
    if (begun && std::sscanf(line.c_str(), "%ld %ld %ld %ld %ld %7s %c %d %d %d %lf %lf", &one.images, &one.size,
                             &one.taps, &one.step, &one.channels, dtype, &one.layout, &one.rows, &one.columns,
                             &one.chunk, &after, &warm) == 12) {
      one.dtype = std::string_view(dtype) == "f32" ? DType::f32 : DType::f16;
      one.us = (after + warm) / 2;
      all.push_back(one);
    }
    begun = begun || line.starts_with("images size taps");
  }
  return all;
}

double modelled_us_of(const MeasuredBlock& one) {
  const Shape last{one.images, one.size, one.size, one.channels}, first{one.images, one.channels, one.size, one.size};
  const auto image = Tensor::input("x", one.dtype, one.layout == 'f' ? first : last);
  const Tensor weights =
      one.layout == 'l' ? Tensor::input("w", one.dtype, {one.taps, one.taps, 1, one.channels}).permute({3, 2, 0, 1})
                        : Tensor::input("w", one.dtype, {one.channels, 1, one.taps, one.taps});
  const std::vector<std::int64_t> around(2, one.taps / 2);
  Tensor y = conv(one.layout == 'f' ? image : image.permute({0, 3, 1, 2}), weights,
                  {.strides = {one.step, one.step}, .low = around, .high = around, .groups = one.channels});
  if (one.layout != 'f') y = y.permute({0, 2, 3, 1});
  ir::Graph graph = must(passes::run_pipeline(must(api::to_graph(std::span(&y, 1), {}, "windows"))));
  partition::Options options;
  options.without = {partition::PlannerPass::channels_last};
  const plan::Plan plan = must(plan::make_plan(std::move(graph), test::discrete_gpu_with_measured_costs(), options));
  schedule::Tuning tuning;
  tuning.stencil = one.block();
  const schedule::Schedule made = must(plan::schedule_all(plan, {}, tuning)).front().schedule;
  return made.get_if<schedule::StencilParams>() == nullptr ? 0 : made.cost.modelled_us;
}

TEST(StencilBlocks, AreModelledAsTheyWereMeasured) {
  constexpr std::int64_t kNear = 900;
  const std::vector<MeasuredBlock> all = measured_blocks();
  ASSERT_GE(all.size(), 170U);
  std::vector<double> errors;
  for (const MeasuredBlock& one : all) {
    if (one.unrolled() > kNear) continue;
    const double modelled = modelled_us_of(one);
    ASSERT_GT(modelled, 0) << one.size << " " << one.layout << " " << one.rows << " x " << one.columns;
    errors.push_back(std::abs(std::log(modelled / one.us)));
    EXPECT_LE(errors.back(), std::log(2.0))
        << fmt::format("{} taps of {} x {} channels, {}, {} x {} x {}: {:.1f} us modelled, {:.1f} measured", one.taps,
                       one.size, one.channels, one.layout, one.rows, one.columns, one.chunk, modelled, one.us);
  }
  ASSERT_GE(errors.size(), 50U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], std::log(1.2));
  std::printf("%zu kernels: the model is off by %.3f in the median and %.3f at most\n", errors.size(),
              std::exp(errors[errors.size() / 2]), std::exp(errors.back()));
}

}  // namespace
}  // namespace vkfuse::bench
