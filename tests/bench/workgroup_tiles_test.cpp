// The model of tiles that a workgroup multiplies as one against what an H200 measured, which it is fitted to:
// bench/results/h200-workgroup-tiles.txt.
#include <fmt/format.h>
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

struct Measured {
  std::int64_t m = 0, n = 0, k = 0;
  WorkgroupTile tile;
  double us = 0;
};

/// The lines of the first table, up to the next empty one.
std::vector<Measured> measured() {
  std::ifstream file(std::string(VKFUSE_TEST_RESULTS) + "/h200-workgroup-tiles.txt");
  std::vector<Measured> all;
  bool begun = false;
  for (std::string line; std::getline(file, line) && !(begun && line.empty());) {
    Measured one{.tile = {.k = 64}};
    if (begun && std::sscanf(line.c_str(), "%ld %ld %ld: %d %d %lf", &one.m, &one.n, &one.k, &one.tile.m, &one.tile.n,
                             &one.us) == 6)
      all.push_back(one);
    begun = begun || line.starts_with("m n k");
  }
  return all;
}

Target h200(std::vector<WorkgroupTile> tiles) {
  Target target = test::discrete_gpu_with_whole_tiles();
  target.costs = CostModel{.copy_gb_per_s = 4112, .launch_us = 1.9, .gflops = 30300, .accesses_per_us = 1.89e6};
  target.caps.matrix2.tiles = std::move(tiles);
  return target;
}

/// The product by itself.
schedule::Schedule scheduled(const Measured& one, const Target& target, const schedule::Tuning& tuning = {}) {
  const Tensor product =
      matmul(Tensor::input("a", DType::f16, {one.m, one.k}), Tensor::input("b", DType::f16, {one.k, one.n}));
  ir::Graph graph = must(passes::run_pipeline(must(api::to_graph(std::span(&product, 1), {}, "product"))));
  const plan::Plan plan = must(plan::make_plan(std::move(graph), target));
  return must(plan::schedule_all(plan, {}, tuning)).front().schedule;
}

TEST(WorkgroupTiles, AreModelledAsTheyWereMeasured) {
  const std::vector<Measured> all = measured();
  ASSERT_GE(all.size(), 40U);
  std::vector<double> errors;
  for (const Measured& one : all) {
    schedule::Tuning tuning;
    tuning.matmul = tuning.cooperative_matrix = true;
    tuning.matrix_scope = schedule::MatrixScope::workgroup;
    tuning.tile = schedule::shape_of(one.tile);
    tuning.splits = 1;
    Target target = h200({one.tile});
    auto model = std::make_shared<DeviceModel>(*target.model);
    model->matrices.workgroup_tiles.last_wave.value = 1;  // as it was measured
    target.model = std::move(model);
    const schedule::Schedule made = scheduled(one, target, tuning);
    const auto* params = made.get_if<schedule::MatmulParams>();
    ASSERT_NE(params, nullptr);
    ASSERT_TRUE(params->workgroup_scope()) << one.tile.m << " x " << one.tile.n;
    const double ratio = made.cost.modelled_us / one.us;
    const bool is_taken =
        std::find(std::begin(kWorkgroupTiles), std::end(kWorkgroupTiles), one.tile) != std::end(kWorkgroupTiles);
    EXPECT_LE(std::abs(std::log(ratio)), std::log(is_taken ? 1.2 : 1.25))
        << fmt::format("{} {} {}: tiles of {} x {}: {:.1f} us modelled, {} measured", one.m, one.n, one.k, one.tile.m,
                       one.tile.n, made.cost.modelled_us, one.us);
    errors.push_back(std::abs(std::log(ratio)));
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], std::log(1.05));
  std::printf("%zu products: the model is off by %.3f in the median and %.3f at most\n", errors.size(),
              std::exp(errors[errors.size() / 2]), std::exp(errors.back()));
}

/// Of the tiles that the library has, it takes the fastest where they differ: 96 rows where 128 leave a wave half
/// empty.
TEST(WorkgroupTiles, TheFastestIsTaken) {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<Measured>> products;
  for (const Measured& one : measured()) {
    if (std::find(std::begin(kWorkgroupTiles), std::end(kWorkgroupTiles), one.tile) != std::end(kWorkgroupTiles))
      products[{one.m, one.n, one.k}].push_back(one);
  }
  int with_96_rows = 0, compared = 0;
  for (const auto& [sizes, tiles] : products) {
    if (tiles.size() < 2) continue;
    ++compared;
    std::vector<WorkgroupTile> offered;
    for (const Measured& one : tiles) offered.push_back(one.tile);
    const schedule::Schedule made = scheduled(tiles[0], h200(offered));
    ASSERT_TRUE(made.as<schedule::MatmulParams>().workgroup_scope()) << tiles[0].m << " x " << tiles[0].n;
    const schedule::TileShape shape = made.as<schedule::MatmulParams>().shape;
    const auto taken = std::find_if(tiles.begin(), tiles.end(), [&](const Measured& one) {
      return one.tile.m == shape.m && one.tile.n == shape.n;
    });
    ASSERT_NE(taken, tiles.end()) << shape.m << " x " << shape.n;
    const auto faster = [](const Measured& a, const Measured& b) { return a.us < b.us; };
    EXPECT_LE(taken->us, 1.03 * std::min_element(tiles.begin(), tiles.end(), faster)->us) << tiles[0].m;
    with_96_rows += shape.m == 96 ? 1 : 0;
  }
  EXPECT_GE(compared, 5);
  EXPECT_GE(with_96_rows, 3);
}

}  // namespace
}  // namespace vkfuse::bench
