// Which means are summed up in two parts.
#include "schedule/means.hpp"

#include <gtest/gtest.h>

#include "support/compare.hpp"
#include "support/device.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

/// Of the only reduction of a graph that is one kernel.
bool sums_in_two_parts(const Tensor& result) {
  const ir::Graph graph = graph_of({result});
  std::vector<bool> escapes(graph.size(), false);
  for (const ir::Output& output : graph.outputs()) escapes[output.value] = true;
  std::vector<ir::NodeId> members;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    if (!segment::is_resident(graph, id) && !segment::is_literal(graph, id)) members.push_back(id);
  }
  const segment::Loops loops =
      must(segment::build_loops(graph, segment::build_segment(graph, members, escapes), {{"n", 64}}));
  for (segment::ValueId id = 0; id < loops.values.size(); ++id) {
    if (loops.values[id].kind == segment::Value::Kind::reduction) return schedule::sums_in_two_parts(graph, loops, id);
  }
  ADD_FAILURE() << "There is no reduction.";
  return false;
}

TEST(Means, OfFewHalvesHaveOnePart) {
  const auto pool = [](DType dtype) {
    return Tensor::input("x", dtype, {1, 4, 16, 16})
        .pad({0, 0, 1, 1}, {0, 0, 1, 1}, 0.0)
        .unfold(2, 3, 2)
        .unfold(3, 3, 2)
        .mean({4, 5});
  };
  EXPECT_FALSE(sums_in_two_parts(pool(DType::f16)));
  EXPECT_FALSE(sums_in_two_parts(pool(DType::bf16)));
  EXPECT_TRUE(sums_in_two_parts(pool(DType::f32)));
  const auto rows = [](const Dim& length) { return Tensor::input("x", DType::f16, {8, length}); };
  EXPECT_FALSE(sums_in_two_parts(rows(4096).mean({1})));
  EXPECT_TRUE(sums_in_two_parts(rows(4097).mean({1}))) << "a multiple that an f32 may not hold";
  EXPECT_TRUE(sums_in_two_parts(rows(Dim::any("n")).mean({1}))) << "it may be any length";
  const Tensor x = rows(64);
  EXPECT_TRUE(sums_in_two_parts(x - x.mean({1}, true))) << "its rounding is seen";
  EXPECT_TRUE(sums_in_two_parts((x * 3.0).mean({1}))) << "products have more bits in a kernel";
  EXPECT_TRUE(sums_in_two_parts(rows(64).mean({1}) * 2.0)) << "more than 16 bits of it are read";
}

}  // namespace
}  // namespace vkfuse::test
