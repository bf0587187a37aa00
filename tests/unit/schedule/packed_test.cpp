// Which weights of four bits matrix units multiply with a vector, on devices that are plain numbers.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "plan/plan.hpp"
#include "support/device.hpp"
#include "support/judge.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

ir::Graph weights_times_vector(std::int64_t rows, std::int64_t columns, std::int64_t group, DType vector = DType::f16) {
  const Tensor numbers = unpack_int4(Tensor::input("w", DType::u8, {rows, columns / 2}), true);
  const Tensor scale = Tensor::input("scale", vector, {rows, columns / group});
  return graph_of({matmul(dequantize(numbers, {.scale = scale, .axis = 1, .group = group}), Tensor::input("x", vector, {columns}))});
}

std::optional<schedule::PackedTile> packed_of(const ir::Graph& graph, const Target& target, const schedule::Tuning& tuning = {}) {
  const plan::Plan plan = must(plan::make_plan(graph, target));
  EXPECT_EQ(plan.steps.size(), 1U);
  const segment::Loops loops = must(segment::build_loops(plan.graph, plan.steps[0].segment, {}));
  const schedule::Schedule chosen = must(schedule::best(plan.graph, loops, target, tuning));
  if (chosen.packed) {
    EXPECT_LE(chosen.shared_bytes, target.caps.shared_memory_bytes);
    EXPECT_GE(chosen.workgroups * chosen.packed->rows(), loops.row_count());
  }
  return chosen.packed;
}

TEST(Packed, AllWorkgroupsRunAtATime) {
  const auto large = packed_of(weights_times_vector(28672, 8192, 128), discrete_gpu_with_measured_costs());
  ASSERT_TRUE(large);
  EXPECT_EQ(large->tiles, 7);  // 256 workgroups of eight subgroups, of which an H200 runs 264
  EXPECT_EQ(large->scale_columns, 128);
  const auto small = packed_of(weights_times_vector(4096, 4096, 128), discrete_gpu_with_measured_costs());
  ASSERT_TRUE(small);
  EXPECT_EQ(small->tiles, 1);
}

TEST(Packed, LanesDoTheRest) {
  const ir::Graph graph = weights_times_vector(28672, 8192, 128);
  schedule::Tuning none;
  none.matrix_units = false;
  EXPECT_FALSE(packed_of(graph, discrete_gpu_with_measured_costs(), none));
  Target without = discrete_gpu_with_measured_costs();
  without.caps.matrix_fields.reset();
  EXPECT_FALSE(packed_of(graph, without)) << "what no test has shown";
  Target small = discrete_gpu_with_measured_costs();
  small.caps.shared_memory_bytes = 16384;
  EXPECT_FALSE(packed_of(graph, small)) << "the vector alone is as large as shared memory";
  Target few = discrete_gpu_with_measured_costs();
  few.caps.max_invocations = few.caps.max_workgroup_x = 128;
  EXPECT_FALSE(packed_of(graph, few)) << "eight subgroups of 32 are 256";
  EXPECT_FALSE(packed_of(weights_times_vector(28672, 8192, 128, DType::f32), discrete_gpu_with_measured_costs())) << "a vector of f32";
  EXPECT_FALSE(packed_of(weights_times_vector(28672, 8192, 32), discrete_gpu_with_measured_costs())) << "a fragment has 64 columns";
  EXPECT_FALSE(packed_of(weights_times_vector(64, 8192, 128), discrete_gpu_with_measured_costs())) << "few rows are sooner done by lanes";
}

}  // namespace
}  // namespace vkfuse::test
