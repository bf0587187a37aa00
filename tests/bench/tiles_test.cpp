// The model of cooperative matrices against what an H200 measured: bench/results/h200-sweep-tiles*.json, which it is
// fitted to.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/tensor_node.hpp"
#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "rows.hpp"

namespace vkfuse::bench {
namespace {

using nlohmann::json;

Target h200() {
  Target target = test::discrete_gpu_with_matrices();
  target.caps.memory.storage_8bit = target.caps.arithmetic.int8 = target.caps.arithmetic.int16 =
      target.caps.float_controls.round_to_even_f16 = target.caps.float_controls.keep_nan_f32 =
          target.caps.float_controls.keep_denorms_f16 = true;
  target.costs = CostModel{4200, 1.6, 30e3, 1.896e6};
  return target;
}

/// The tile of the program's product, as the sweep writes it; nothing where several workgroups share one: the sweep
/// does not say whether they did.
std::string chosen_tile(const Row& row, const json& sizes) {
  Shape shape;
  for (const json& size : sizes) shape.emplace_back(size.get<std::int64_t>());
  auto graph = api::to_graph(row.build(row.dtype, shape).outputs, {}, row.name);
  EXPECT_TRUE(graph.ok()) << row.name;
  auto prepared = passes::run_pipeline(*graph);
  EXPECT_TRUE(prepared.ok()) << row.name;
  partition::Options options;  // the sweeps are of convolutions as they are written
  options.without.insert(partition::PlannerPass::channels_last);
  const auto plan = plan::make_plan(*std::move(prepared), h200(), options);
  EXPECT_TRUE(plan.ok()) << row.name;
  const auto steps = plan::schedule_all(*plan, {});
  EXPECT_TRUE(steps.ok()) << row.name;
  for (const plan::ScheduledKernel& step : *steps) {
    const auto* params = step.schedule.get_if<schedule::MatmulParams>();
    if (params == nullptr || params->mma() == nullptr || step.schedule.splits != 1) continue;
    const schedule::TileShape& tile = params->shape;
    return fmt::format("{}x{}x{} {}x{} units", tile.m, tile.n, tile.k, tile.thread_m, tile.thread_n);
  }
  return {};
}

TEST(Tiles, TheModelChoosesNearlyTheFastestOfThoseThatWereMeasured) {
  double logarithms = 0;
  int count = 0;
  for (const char* file : {"h200-sweep-tiles.json", "h200-sweep-tiles-2.json"}) {
    const json report = json::parse(std::ifstream(std::string(VKFUSE_TEST_RESULTS) + "/" + file));
    for (const json& sweep : report["sweep"]) {
      // Of two of one name the slower one: the other is a tile that the workgroup multiplies as one, which this device
      // does not.
      std::map<std::string, double> measured;
      for (const json& point : sweep["all"]) {
        const std::string tile = point["schedule"];
        if (tile.ends_with("units")) measured[tile] = std::max(measured[tile], point["us"].get<double>());
      }
      if (measured.empty()) continue;
      const std::string name = sweep["name"];
      const auto row = std::find_if(rows().begin(), rows().end(), [&](const Row& one) { return one.name == name; });
      ASSERT_NE(row, rows().end()) << name;
      const std::string tile = chosen_tile(*row, json::parse(sweep["size"].get<std::string>()));
      if (tile.empty()) continue;
      ASSERT_EQ(measured.count(tile), 1U) << name << " " << sweep["size"] << ": " << tile;
      const auto faster = [](const auto& a, const auto& b) { return a.second < b.second; };
      const auto best = std::min_element(measured.begin(), measured.end(), faster);
      const double ratio = measured.at(tile) / best->second;
      EXPECT_LE(ratio, 1.25) << name << " " << sweep["size"] << ": " << tile << " " << measured.at(tile) << " us, "
                             << best->first << " " << best->second;
      logarithms += std::log(ratio);
      ++count;
    }
  }
  EXPECT_GE(count, 20);
  EXPECT_LE(std::exp(logarithms / count), 1.05);
  std::printf("%d products: the tile that is chosen takes %.3f times as long as the fastest, in the geometric mean\n",
              count, std::exp(logarithms / count));
}

}  // namespace
}  // namespace vkfuse::bench
