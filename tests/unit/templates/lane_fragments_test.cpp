// Which products have fragments that lanes make, on devices that are plain numbers.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "templates/matmul/tiles.hpp"
#include "templates/planning.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

struct Rows {
  std::int64_t rows = 4, columns = 4096, weights = 4096;
  DType dtype = DType::f16;
};

Tensor product_of(const Rows& of) {
  return matmul(Tensor::input("x", of.dtype, {of.rows, of.columns}),
                Tensor::input("w", of.dtype, {of.weights, of.columns}).transpose());
}

std::optional<schedule::MatmulParams> lanes_of(const ir::Graph& graph, const Target& target,
                                               const schedule::Tuning& tuning = {}) {
  const plan::Plan plan = must(plan::make_plan(graph, target));
  const segment::Loops loops = must(segment::build_loops(plan.graph, plan.steps[0].segment, {}));
  const schedule::Schedule chosen = must(schedule::best(plan.graph, loops, target, tuning));
  const auto* params = chosen.get_if<schedule::MatmulParams>();
  if (params == nullptr || !params->lane_fragments()) return std::nullopt;
  EXPECT_EQ(chosen.workgroup, 32 * schedule::subgroups_of_lane_fragments(params->shape));
  EXPECT_EQ(chosen.subgroup, 32);
  EXPECT_EQ(chosen.shared_bytes, 4 * schedule::subgroups_of_lane_fragments(params->shape) * 8 * 16);
  return *params;
}

TEST(LaneFragments, AreOfFewRows) {
  const Target target = discrete_gpu_with_measured_costs();
  for (const std::int64_t rows : {3, 4, 7, 8}) EXPECT_TRUE(lanes_of(graph_of({product_of({.rows = rows})}), target));
  EXPECT_FALSE(lanes_of(graph_of({product_of({.rows = 9})}), target)) << "a fragment has eight columns";
  EXPECT_TRUE(lanes_of(graph_of({product_of({.weights = 4100})}), target)) << "the last workgroup has rows twice";
  EXPECT_FALSE(lanes_of(graph_of({product_of({.columns = 4104})}), target))
      << "lanes of a row have 32 columns at least";
  EXPECT_FALSE(lanes_of(graph_of({product_of({.dtype = DType::f32})}), target));
}

TEST(LaneFragments, AreMadeWhereATestHasShownThat) {
  const ir::Graph graph = graph_of({product_of({})});
  Target without = discrete_gpu_with_measured_costs();
  without.caps.matrix.lane_fragments.reset();
  EXPECT_FALSE(lanes_of(graph, without));
  schedule::Tuning none;
  none.matrix_scope = schedule::MatrixScope::subgroups;
  EXPECT_FALSE(lanes_of(graph, discrete_gpu_with_measured_costs(), none));
  none = {};
  none.f16_accumulation = true;
  EXPECT_TRUE(lanes_of(graph, discrete_gpu_with_measured_costs(), none)) << "sums of f32 are faster here";
  none = {};
  none.matmul = none.cooperative_matrix = true;
  none.splits = 3;
  EXPECT_FALSE(lanes_of(graph, discrete_gpu_with_measured_costs(), none)) << "subgroups share sums, workgroups do not";
  Target few = discrete_gpu_with_measured_costs();
  few.caps.workgroup.max_invocations = few.caps.workgroup.max_x = 128;
  const auto small = lanes_of(graph, few);
  ASSERT_TRUE(small);
  EXPECT_EQ(schedule::subgroups_of_lane_fragments(small->shape), 4);
}

/// Weights are read once, in whole chunks of a lane: of four bits in 16 bytes, of f16 in 16 or 32.
TEST(LaneFragments, ChunksAreAsLongOfAllOperands) {
  const Target target = discrete_gpu_with_measured_costs();
  const auto halves = lanes_of(graph_of({product_of({})}), target);
  ASSERT_TRUE(halves);
  const Tensor numbers = unpack_int4(Tensor::input("w", DType::u8, {4096, 2048}), true);
  const Tensor scale = Tensor::input("scale", DType::f16, {4096, 32});
  const auto packed =
      lanes_of(graph_of({matmul(Tensor::input("x", DType::f16, {4, 4096}),
                                dequantize(numbers, {.scale = scale, .axis = 1, .group = 128}).transpose())}),
               target);
  ASSERT_TRUE(packed);
  for (const schedule::TileOperand& tile_operand : halves->tile_operands) {
    EXPECT_TRUE(tile_operand.elements == 8 || tile_operand.elements == 16);
    EXPECT_EQ(tile_operand.elements, halves->tile_operands.front().elements);
  }
  for (const schedule::TileOperand& tile_operand : packed->tile_operands) EXPECT_EQ(tile_operand.elements, 32);
}

/// A search for faster schedules tries what is staged.
TEST(LaneFragments, TheTunerTriesStagedTiles) {
  const Target target = discrete_gpu_with_measured_costs();
  const plan::Plan plan = must(plan::make_plan(graph_of({product_of({})}), target));
  const segment::Loops loops = must(segment::build_loops(plan.graph, plan.steps[0].segment, {}));
  const schedule::Schedule standard = must(schedule::best(plan.graph, loops, target));
  int staged = 0;
  for (const schedule::Tuning& tuning : schedule::tunings_near(standard, target.caps)) {
    const auto other = schedule::best(plan.graph, loops, target, tuning);
    const auto* params = other ? other->get_if<schedule::MatmulParams>() : nullptr;
    staged += params != nullptr && params->mma() != nullptr && !params->lane_fragments();
  }
  EXPECT_GT(staged, 4);
}

}  // namespace
}  // namespace vkfuse::test
