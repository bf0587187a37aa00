// Which blocks of keys attention visits, however the mask is written, and that no kernel stores or reads the mask.
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "support/masks.hpp"
#include "templates/attention/tiles.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/gradients.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kQueries = 700, kKeys = 820;

/// Layers that share keys, values and the mask.
ir::Graph layers_of(const MaskSpelling& spelling, DType dtype, int layers) {
  const Tensor k = Tensor::input("k", dtype, {2, 4, kKeys, 64}), v = Tensor::input("v", dtype, {2, 4, kKeys, 64});
  Tensor x = Tensor::input("q", dtype, {2, 4, kQueries, 64});
  for (int layer = 0; layer < layers; ++layer)
    x = attention_output(softmax(spelling.masked(attention_scores(x, k, {}), least_number(dtype))), v);
  return must(passes::run_pipeline(graph_of({x})));
}

/// The blocks that some row of a tile sees, from the first to the last.
schedule::Blocks seen_by(const MaskSpelling& spelling, std::int64_t first_row, int rows, int tile_k) {
  schedule::Blocks seen{INT64_MAX, 0};
  for (std::int64_t query = first_row; query < std::min(first_row + rows, kQueries); ++query) {
    for (std::int64_t key = 0; key < kKeys; ++key) {
      if (!spelling.sees(query, key)) continue;
      seen.begin = std::min(seen.begin, key / tile_k);
      seen.end = std::max(seen.end, key / tile_k + 1);
    }
  }
  return seen;
}

class MaskBounds : public testing::TestWithParam<std::size_t> {
 protected:
  const MaskSpelling& spelling_ = mask_spellings()[GetParam()];

  void check(DType dtype, const Target& target) {
    SCOPED_TRACE(std::string(spelling_.name) + " of " + std::string(name_of(dtype)));
    // An input of a mask has one name.
    const std::string_view name = spelling_.name;
    const bool reads = name.find("padding") != std::string_view::npos || name == "with_lengths";
    const int expected = reads ? 1 : 2;
    const plan::Plan plan = must(plan::make_plan(layers_of(spelling_, dtype, expected), target));
    const std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(plan, {}));
    int layers = 0;
    for (const plan::ScheduledKernel& step : steps) {
      const auto* tile = step.schedule.get_if<schedule::AttentionParams>();
      if (tile == nullptr) continue;
      ++layers;
      if (spelling_.leaves_out) {
        check_blocks(step, *tile);
      } else {
        EXPECT_TRUE(tile->mask.empty());
      }
    }
    EXPECT_EQ(layers, expected);
    if (!spelling_.leaves_out) return;
    EXPECT_EQ(steps.size(), static_cast<std::size_t>(expected)) << "the mask has its own kernel";
    for (const plan::ScheduledKernel& step : steps) check_reads(plan, step);
  }

 private:
  void check_blocks(const plan::ScheduledKernel& step, const schedule::AttentionParams& tile) {
    const std::int64_t tiles = (kQueries + tile.tile_m() - 1) / tile.tile_m();
    for (std::int64_t i = 0; i < tiles; ++i) {
      const schedule::Blocks seen = seen_by(spelling_, i * tile.tile_m(), tile.tile_m(), tile.tile_k());
      const schedule::Blocks visited = schedule::blocks_of(step.loops, tile, i);
      if (seen.end == 0) {
        EXPECT_GE(visited.begin, visited.end) << "tile " << i << " sees nothing";
        continue;
      }
      // The line that bounds blocks of positions is up to 31 of 32 beyond them.
      const std::int64_t more =
          std::string_view(spelling_.name) == "blocks" ? (31 + tile.tile_k() - 1) / tile.tile_k() : 0;
      EXPECT_LE(visited.begin, seen.begin) << "tile " << i;
      EXPECT_GE(visited.begin, seen.begin - more) << "tile " << i;
      EXPECT_GE(visited.end, seen.end) << "tile " << i;
      EXPECT_LE(visited.end, seen.end + more) << "tile " << i;
    }
  }

  void check_reads(const plan::Plan& plan, const plan::ScheduledKernel& step) {
    for (const segment::Value& value : step.loops.values) {
      if (value.kind != segment::Value::Kind::load) continue;
      const Shape& shape = plan.graph.node(value.node).type.shape;
      const bool is_mask = shape.size() >= 2 && shape.back() == Dim(kKeys) && shape[shape.size() - 2] == Dim(kQueries);
      EXPECT_FALSE(is_mask) << "%" << value.node << " is a mask that is read";
    }
  }
};

TEST_P(MaskBounds, AreThoseOfWhatQueriesSee) {
  check(DType::f16, discrete_gpu_with_whole_tiles());
  check(DType::f32, discrete_gpu_with_whole_tiles());
  check(DType::bf16, discrete_gpu_with_whole_tiles());
}

constexpr std::int64_t kWindow = 200;

/// Each tile visits the blocks that its rows see of their own run, and where it crosses into the next run all blocks.
void check_tiles(const segment::Loops& loops, const schedule::AttentionParams& tile, std::int64_t queries) {
  const std::int64_t rows = schedule::count_along(loops, tile.axes.m);
  for (std::int64_t i = 0; i * tile.tile_m() < rows; ++i) {
    std::int64_t low = queries, high = 0;
    // Rows behind the last one count where there are several runs.
    const std::int64_t end = (i + 1) * tile.tile_m();
    for (std::int64_t row = i * tile.tile_m(); row < (tile.axes.m.size() > 1 ? end : std::min(end, rows)); ++row) {
      low = std::min(low, row % queries);
      high = std::max(high, row % queries);
    }
    // Of queries, keys behind them and in the window; of keys, queries before them.
    const std::int64_t first = tile.mask.in_runs ? low : std::max<std::int64_t>(low - kWindow, 0);
    const std::int64_t last = tile.mask.in_runs ? std::min(high + kWindow, queries - 1) : high;
    const schedule::Blocks visited = schedule::blocks_of(loops, tile, i);
    EXPECT_EQ(visited.begin, first / tile.tile_k()) << "tile " << i;
    EXPECT_EQ(visited.end, last / tile.tile_k() + 1) << "tile " << i;
  }
}

/// Heads that share keys, of a number of queries that no tile divides: tiles of results go over from one head to the
/// next, and gradients of keys add up runs of queries.
TEST(MaskBoundsOfGroups, HoldInEveryRunOfQueries) {
  for (const std::int64_t queries : {kQueries, std::int64_t{1024}}) {
    const std::vector<Tensor> wrt = {Tensor::input("q", DType::f16, {2, 4, queries, 64}),
                                     Tensor::input("k", DType::f16, {2, 2, queries, 64}),
                                     Tensor::input("v", DType::f16, {2, 2, queries, 64})};
    const Tensor y = attention(wrt[0], wrt[1], wrt[2], {.causal = true, .window_before = kWindow});
    const Tensor cotangent = Tensor::input("cotangent", DType::f16, {2, 4, queries, 64});
    std::vector<Tensor> all = gradients(std::span(&y, 1), wrt, std::span(&cotangent, 1));
    all.push_back(y);
    const plan::Plan plan =
        must(plan::make_plan(must(passes::run_pipeline(graph_of(all))), discrete_gpu_with_whole_tiles()));
    int forward = 0, in_runs = 0;
    for (const plan::ScheduledKernel& step : must(plan::schedule_all(plan, {}))) {
      const auto* tile = step.schedule.get_if<schedule::AttentionParams>();
      if (tile == nullptr) continue;
      EXPECT_TRUE(!tile->mask.upper.empty() && !tile->mask.lower.empty());
      EXPECT_EQ(tile->mask.in_runs, tile->axes.k.size() > 1);
      ++(tile->mask.in_runs ? in_runs : forward);
      const std::int64_t run = schedule::keys_per_run(step.loops, *tile);
      EXPECT_EQ(run, queries);
      check_tiles(step.loops, *tile, queries);
    }
    EXPECT_GE(forward, 1);
    EXPECT_GE(in_runs, 1);
  }
}

std::string name_of_spelling(const testing::TestParamInfo<std::size_t>& info) {
  return mask_spellings()[info.param].name;
}
INSTANTIATE_TEST_SUITE_P(Spellings, MaskBounds, testing::Range<std::size_t>(0, mask_spellings().size()),
                         name_of_spelling);

}  // namespace
}  // namespace vkfuse::test
