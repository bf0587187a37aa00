// Axes are merged wherever no access tells them apart, and nowhere else.
#include "segment/segment.hpp"

#include <gtest/gtest.h>

#include "support/device.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

segment::Segment whole(const ir::Graph& graph) {
  std::vector<bool> escapes(graph.size(), false);
  for (const ir::Output& output : graph.outputs()) escapes[output.value] = true;
  std::vector<ir::NodeId> members;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    if (!segment::is_resident(graph, id) && !segment::is_literal(graph, id)) members.push_back(id);
  }
  return segment::build_segment(graph, members, escapes);
}

/// The loops of x + other, where the two have these shapes.
segment::Loops loops_of_sum(const Shape& x, const Shape& other) {
  ir::Graph graph;
  const ir::NodeId a = must(graph.add_input("a", {DType::f32, x}));
  const ir::NodeId b = must(graph.add_input("b", {DType::f32, other}));
  must(graph.add_output("y", must(graph.add(ops::row("add"), {a, b}))));
  return segment::build_loops(graph, whole(graph));
}

TEST(Loops, EqualShapesAreOneAxis) {
  const segment::Loops loops = loops_of_sum({Dim(3), Dim(4), Dim(5)}, {Dim(3), Dim(4), Dim(5)});
  EXPECT_EQ(loops.axes, (std::vector<Shape>{{Dim(3), Dim(4), Dim(5)}}));
  EXPECT_EQ(loops.reads[0].uses, std::vector<bool>{true});
}

TEST(Loops, OnesDisappear) {
  EXPECT_EQ(loops_of_sum({Dim(1), Dim(4), Dim(1)}, {Dim(4), Dim(1)}).axes, (std::vector<Shape>{{Dim(4)}}));
  EXPECT_TRUE(loops_of_sum({Dim(1), Dim(1)}, {}).axes.empty());
}

TEST(Loops, ARowSplitsTheLastAxisOff) {
  const segment::Loops loops = loops_of_sum({Dim(2), Dim(3), Dim(8)}, {Dim(8)});
  EXPECT_EQ(loops.axes, (std::vector<Shape>{{Dim(2), Dim(3)}, {Dim(8)}}));
  EXPECT_EQ(loops.reads[0].uses, (std::vector<bool>{true, true}));
  EXPECT_EQ(loops.reads[1].uses, (std::vector<bool>{false, true}));
}

TEST(Loops, AMiddleAxisMakesThree) {
  const segment::Loops loops = loops_of_sum({Dim(2), Dim(3), Dim(8)}, {Dim(3), Dim(1)});
  EXPECT_EQ(loops.axes.size(), 3U);
  EXPECT_EQ(loops.reads[1].uses, (std::vector<bool>{false, true, false}));
}

TEST(Loops, SymbolsMergeLikeNumbers) {
  const segment::Loops loops = loops_of_sum({Dim::any("n"), Dim::any("m"), Dim(8)}, {Dim(8)});
  EXPECT_EQ(loops.axes, (std::vector<Shape>{{Dim::any("n"), Dim::any("m")}, {Dim(8)}}));
}

TEST(Loops, IotaKeepsItsOwnAxis) {
  ir::Graph graph;
  const ir::NodeId x = must(graph.add_input("x", {DType::u32, {Dim(2), Dim(3), Dim(4)}}));
  const ir::NodeId at = must(graph.add_iota({DType::u32, {Dim(3), Dim(4)}}, 0));
  must(graph.add_output("y", must(graph.add(ops::row("add"), {x, at}))));
  const segment::Loops loops = segment::build_loops(graph, whole(graph));
  EXPECT_EQ(loops.axes.size(), 3U);
  EXPECT_EQ(loops.positions.at(0).uses, (std::vector<bool>{false, true, false}));
}

/// The row-major index over the axes an access uses, at a point of the merged space.
std::int64_t address(const segment::Access& access, const Sizes& axes, const Sizes& point) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) at = access.uses[i] ? at * axes[i] + point[i] : at;
  return at;
}

// By brute force: at every point of the iteration space the merged loops address what broadcasting means.
TEST(Loops, AddressesAreThoseOfBroadcasting) {
  Random random(4);
  for (int round = 0; round < 400; ++round) {
    const std::size_t rank = 1 + random.below(4);
    Sizes space;
    for (std::size_t i = 0; i < rank; ++i) space.push_back(1 + static_cast<std::int64_t>(random.below(4)));
    ir::Graph graph;
    std::vector<Sizes> shapes;
    ir::NodeId sum = 0;
    for (int k = 0; k < 3; ++k) {
      Shape shape;
      Sizes sizes;
      for (std::size_t i = 0; i < rank; ++i) {
        sizes.push_back(k == 0 || random.chance(50) ? space[i] : 1);
        shape.push_back(Dim(sizes.back()));
      }
      shapes.push_back(sizes);
      const ir::NodeId input = must(graph.add_input("x" + std::to_string(k), {DType::f32, shape}));
      sum = k == 0 ? input : must(graph.add(ops::row("add"), {sum, input}));
    }
    must(graph.add_output("y", sum));
    const segment::Loops loops = segment::build_loops(graph, whole(graph));
    Sizes axes;
    for (const Shape& axis : loops.axes) axes.push_back(must(element_count(must(resolve(axis, {})))));
    const std::int64_t count = must(element_count(space));
    for (std::int64_t flat = 0; flat < count; ++flat) {
      Sizes point(axes.size());
      std::int64_t rest = flat;
      for (std::size_t i = axes.size(); i-- > 0; rest /= axes[i]) point[i] = rest % axes[i];
      for (const segment::Access& read : loops.reads) {
        const std::string& name = std::get<ir::InputPayload>(graph.node(read.value).payload).name;
        const Sizes& sizes = shapes[static_cast<std::size_t>(name[1] - '0')];
        std::int64_t want = 0;
        std::int64_t stride = 1;
        std::int64_t left = flat;
        for (std::size_t i = rank; i-- > 0; left /= space[i]) {
          if (sizes[i] != 1) want += left % space[i] * stride;
          stride *= sizes[i];
        }
        ASSERT_EQ(address(read, axes, point), want) << ir::print(graph);
      }
    }
  }
}

}  // namespace
}  // namespace vkfuse::test
