// Axes are merged wherever no access tells them apart, and nowhere else; offsets are those of broadcasting.
#include "segment/segment.hpp"

#include <gtest/gtest.h>

#include "segment/loops.hpp"
#include "support/device.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

using index::Expr;

segment::Segment whole(const ir::Graph& graph) {
  std::vector<bool> escapes(graph.size(), false);
  for (const ir::Output& output : graph.outputs()) escapes[output.value] = true;
  std::vector<ir::NodeId> members;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    if (!segment::is_resident(graph, id) && !segment::is_literal(graph, id)) members.push_back(id);
  }
  return segment::build_segment(graph, members, escapes);
}

segment::Loops loops_of(const ir::Graph& graph, const SymbolValues& symbols = {}) {
  return must(segment::build_loops(graph, whole(graph), symbols));
}

segment::Loops loops_of(const std::string& body, const SymbolValues& symbols = {}) {
  return loops_of(must(ir::parse("graph \"g\" {\n" + body + "}")), symbols);
}

/// The loops of x + other, where the two have these shapes.
segment::Loops loops_of_sum(const Shape& x, const Shape& other, const SymbolValues& symbols = {}) {
  ir::Graph graph;
  const ir::NodeId a = must(graph.add_input("a", {DType::f32, x}));
  const ir::NodeId b = must(graph.add_input("b", {DType::f32, other}));
  must(graph.add_output("y", must(graph.add(ops::row("add"), {a, b}))));
  return loops_of(graph, symbols);
}

/// "8 x 4 | 1000": rows, then columns.
std::string space(const segment::Loops& loops) {
  std::string rows;
  std::string columns;
  for (const segment::Axis& axis : loops.axes) {
    std::string& text = axis.role == segment::Role::reduction ? columns : rows;
    text += (text.empty() ? "" : " x ") + std::to_string(axis.size);
  }
  return rows + (columns.empty() ? "" : " | " + columns);
}

/// The offset of the load of an input.
Expr offset_of(const segment::Loops& loops, ir::NodeId node) {
  for (const segment::Value& value : loops.values) {
    if (value.kind == segment::Value::Kind::load && value.node == node) return value.offset;
  }
  throw std::runtime_error(fmt::format("%{} is not loaded", node));
}

/// What divides every weight of a softmax divides their sum with something, through a conversion too, as weights are at
/// most 1. Other numbers may be too large for the narrower type without their scale, and keep it.
TEST(Loops, ScalesSinkThroughAConversionOfWeightsOfASoftmaxAlone) {
  const auto sinks = [](const std::string& numerator) {
    const std::string body = R"(  %0 = input "x" : f32[64, 96]
  %1 = input "w" : f16[96, 32]
  %2 = reduce_max axes=[1] %0 : f32[64]
  %3 = reshape %2 : f32[64, 1]
  %4 = sub %0 %3 : f32[64, 96]
  %5 = exp %4 : f32[64, 96]
  %6 = reduce_sum axes=[1] %5 : f32[64]
  %7 = reshape %6 : f32[64, 1]
  %8 = div )" + numerator + R"( %7 : f32[64, 96]
  %9 = cast %8 : f16[64, 96]
  %10 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %9 %1 : f16[64, 32]
  output "y" = %10
)";
    const ir::Graph graph = must(ir::parse("graph \"g\" {\n" + body + "}"));
    return segment::with_sunk_scales(graph, loops_of(graph)).has_value();
  };
  EXPECT_TRUE(sinks("%5"));
  EXPECT_FALSE(sinks("%0"));
  EXPECT_FALSE(sinks("%4"));
}

/// Literals leave a contraction of numbers that were widened on both sides, and no other: of those nothing would be
/// exact without them either.
TEST(Loops, LiteralsSinkOutOfProductsOfWidenedNumbers) {
  const auto sinks = [](const std::string& first, const std::string& second) {
    const std::string body = R"(  %0 = input "x" : f16[64, 96]
  %1 = input "w" : f16[96, 32]
  %2 = input "wide" : f32[64, 96]
  %3 = input "row" : f32[64, 1]
  %4 = cast %0 : f32[64, 96]
  %5 = cast %1 : f32[96, 32]
  %6 = constant {0.3} : f32[]
  %7 = mul %4 %6 : f32[64, 96]
  %8 = mul %6 %5 : f32[96, 32]
  %9 = mul %4 %3 : f32[64, 96]
  %10 = mul %2 %6 : f32[64, 96]
  %11 = mul %7 %6 : f32[64, 96]
  %12 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] )" +
                             first + " " + second + " : f32[64, 32]\n  output \"y\" = %12\n";
    const ir::Graph graph = must(ir::parse("graph \"g\" {\n" + body + "}"));
    return segment::with_sunk_literals(graph, loops_of(graph)).has_value();
  };
  EXPECT_TRUE(sinks("%7", "%5"));
  EXPECT_TRUE(sinks("%4", "%8"));
  EXPECT_TRUE(sinks("%11", "%8"));
  EXPECT_FALSE(sinks("%4", "%5"));
  EXPECT_FALSE(sinks("%9", "%5"));
  EXPECT_FALSE(sinks("%10", "%5"));
}

TEST(Loops, EqualShapesAreOneAxis) {
  const segment::Loops loops = loops_of_sum({Dim(3), Dim(4), Dim(5)}, {Dim(3), Dim(4), Dim(5)});
  EXPECT_EQ(space(loops), "60");
  EXPECT_EQ(offset_of(loops, 0), Expr::axis(0, 60));
}

TEST(Loops, OnesDisappear) {
  EXPECT_EQ(space(loops_of_sum({Dim(1), Dim(4), Dim(1)}, {Dim(4), Dim(1)})), "4");
  EXPECT_EQ(space(loops_of_sum({Dim(1), Dim(1)}, {})), "");
}

TEST(Loops, ARowSplitsTheLastAxisOff) {
  const segment::Loops loops = loops_of_sum({Dim(2), Dim(3), Dim(8)}, {Dim(8)});
  EXPECT_EQ(space(loops), "6 x 8");
  EXPECT_EQ(offset_of(loops, 0), Expr::axis(0, 6) * 8 + Expr::axis(1, 8));
  EXPECT_EQ(offset_of(loops, 1), Expr::axis(1, 8));
}

TEST(Loops, AMiddleAxisMakesThree) {
  const segment::Loops loops = loops_of_sum({Dim(2), Dim(3), Dim(8)}, {Dim(3), Dim(1)});
  EXPECT_EQ(space(loops), "2 x 3 x 8");
  EXPECT_EQ(offset_of(loops, 1), Expr::axis(1, 3));
}

TEST(Loops, SymbolsMergeLikeNumbers) {
  EXPECT_EQ(space(loops_of_sum({Dim::any("n"), Dim::any("m"), Dim(8)}, {Dim(8)}, {{"n", 5}, {"m", 7}})), "35 x 8");
}

TEST(Loops, IotaKeepsItsOwnAxis) {
  const segment::Loops loops = loops_of(
      " %0 = input \"x\" : u32[2, 3, 4]\n %1 = iota axis=0 : u32[3, 4]\n %2 = add %0 %1 : u32[2, 3, 4]\n"
      " output \"y\" = %2\n");
  EXPECT_EQ(space(loops), "2 x 3 x 4");
  for (const segment::Value& value : loops.values) {
    if (value.kind == segment::Value::Kind::position) {
      EXPECT_EQ(value.offset, Expr::axis(1, 3));
    }
  }
}

TEST(Loops, ReshapesOfWholeTensorsLeaveOneAxis) {
  EXPECT_EQ(space(loops_of(" %0 = input \"x\" : f32[6, 10]\n %1 = reshape %0 : f32[4, 15]\n %2 = neg %1 : f32[4, 15]\n "
                           "output \"y\" = %2\n")),
            "60");
}

TEST(Loops, APermutedReadKeepsTheStoreInOrder) {
  const segment::Loops loops = loops_of(
      " %0 = input \"x\" : f32[6, 10]\n %1 = permute axes=[1, 0] %0 : f32[10, 6]\n %2 = neg %1 : f32[10, 6]\n"
      " output \"y\" = %2\n");
  EXPECT_EQ(space(loops), "10 x 6");
  EXPECT_EQ(offset_of(loops, 0), Expr::axis(1, 6) * 10 + Expr::axis(0, 10));
  EXPECT_EQ(loops.stores[0].offset, Expr::axis(0, 10) * 6 + Expr::axis(1, 6));
}

TEST(Loops, FoldsRunOverColumns) {
  const segment::Loops last =
      loops_of(" %0 = input \"x\" : f32[6, 10, 4]\n %1 = reduce_sum axes=[2] %0 : f32[6, 10]\n output \"y\" = %1\n");
  EXPECT_EQ(space(last), "60 | 4");
  EXPECT_EQ(last.passes, 1);
  EXPECT_EQ(space(loops_of(
                " %0 = input \"x\" : f32[6, 10, 4]\n %1 = reduce_sum axes=[1] %0 : f32[6, 4]\n output \"y\" = %1\n")),
            "6 x 4 | 10");
  EXPECT_EQ(space(loops_of(
                " %0 = input \"x\" : f32[6, 10, 4]\n %1 = reduce_sum axes=[0, 2] %0 : f32[10]\n output \"y\" = %1\n")),
            "10 | 6 x 4");
  EXPECT_EQ(space(loops_of(
                " %0 = input \"x\" : f32[6, 10, 4]\n %1 = reduce_sum axes=[0, 1, 2] %0 : f32[]\n output \"y\" = %1\n")),
            " | 240");
}

TEST(Loops, AChainOfFoldsIsOnePassEach) {
  const segment::Loops loops = loops_of(
      " %0 = input \"x\" : f32[6, 10]\n %1 = reduce_max axes=[1] %0 : f32[6]\n %2 = reshape %1 : f32[6, 1]\n %3 = sub "
      "%0 %2 : f32[6, 10]\n"
      " %4 = exp %3 : f32[6, 10]\n %5 = reduce_sum axes=[1] %4 : f32[6]\n %6 = reshape %5 : f32[6, 1]\n %7 = div %4 %6 "
      ": f32[6, 10]\n"
      " output \"y\" = %7\n");
  EXPECT_EQ(space(loops), "6 | 10");
  EXPECT_EQ(loops.passes, 3);
  const segment::Proof proof = segment::prove_in_bounds(loops);
  EXPECT_EQ(proof.proven, proof.accesses);
}

TEST(Loops, FoldsOfOtherAxesDoNotShareALoopNest) {
  const ir::Graph graph =
      must(ir::parse("graph \"g\" {\n %0 = input \"x\" : f32[6, 10]\n %1 = reduce_sum axes=[0] %0 : f32[10]\n"
                     " %2 = reduce_sum axes=[1] %0 : f32[6]\n output \"a\" = %1\n output \"b\" = %2\n}"));
  const auto loops = segment::build_loops(graph, whole(graph), {});
  ASSERT_FALSE(loops.ok());
  EXPECT_EQ(loops.error().code, ErrorCode::unsupported);
}

// By brute force: at every point of the iteration space the loops address what broadcasting means, and every
// element of the result is stored once.
TEST(Loops, AddressesAreThoseOfBroadcasting) {
  Random random(4);
  for (int round = 0; round < 400; ++round) {
    const std::size_t rank = 1 + random.below(4);
    Sizes sizes;
    for (std::size_t i = 0; i < rank; ++i) sizes.push_back(1 + static_cast<std::int64_t>(random.below(4)));
    ir::Graph graph;
    std::vector<Sizes> shapes;
    ir::NodeId sum = 0;
    for (int k = 0; k < 3; ++k) {
      Shape shape;
      shapes.emplace_back();
      for (std::size_t i = 0; i < rank; ++i) {
        shapes.back().push_back(k == 0 || random.chance(50) ? sizes[i] : 1);
        shape.push_back(Dim(shapes.back().back()));
      }
      const ir::NodeId input = must(graph.add_input("x" + std::to_string(k), {DType::f32, shape}));
      sum = k == 0 ? input : must(graph.add(ops::row("add"), {sum, input}));
    }
    must(graph.add_output("y", sum));
    const segment::Loops loops = loops_of(graph);
    const std::int64_t count = must(element_count(sizes));
    ASSERT_EQ(loops.count(), count) << ir::print(graph);
    std::vector<bool> stored(static_cast<std::size_t>(count), false);
    for (std::int64_t flat = 0; flat < count; ++flat) {
      std::map<index::AxisId, std::int64_t> point;
      std::int64_t rest = flat;
      for (std::size_t i = loops.axes.size(); i-- > 0; rest /= loops.axes[i].size)
        point[static_cast<int>(i)] = rest % loops.axes[i].size;
      const std::int64_t element = index::evaluate(loops.stores[0].offset, point);
      ASSERT_FALSE(stored.at(static_cast<std::size_t>(element)));
      stored[static_cast<std::size_t>(element)] = true;
      for (const segment::Value& value : loops.values) {
        if (value.kind != segment::Value::Kind::load) continue;
        const Sizes& own =
            shapes[static_cast<std::size_t>(std::get<ir::InputPayload>(graph.node(value.node).payload).name[1] - '0')];
        std::int64_t want = 0;
        std::int64_t stride = 1;
        std::int64_t left = element;
        for (std::size_t i = rank; i-- > 0; left /= sizes[i]) {
          if (own[i] != 1) want += left % sizes[i] * stride;
          stride *= own[i];
        }
        ASSERT_EQ(index::evaluate(value.offset, point), want) << ir::print(graph);
      }
    }
  }
}

std::ptrdiff_t count_of(const segment::Loops& loops, segment::Value::Kind kind) {
  return std::count_if(loops.values.begin(), loops.values.end(),
                       [&](const segment::Value& value) { return value.kind == kind; });
}

TEST(Loops, MembersThatComputeTheSameAreOneValue) {
  const segment::Loops loops = loops_of(R"(
    %0 = input "x" : f32[8, 16]
    %1 = exp %0 : f32[8, 16]
    %2 = exp %0 : f32[8, 16]
    %3 = neg %1 : f32[8, 16]
    %4 = neg %2 : f32[8, 16]
    %5 = mul %3 %4 : f32[8, 16]
    output "y" = %5
    output "z" = %4
  )");
  EXPECT_EQ(count_of(loops, segment::Value::Kind::compute), 3);
  ASSERT_EQ(loops.stores.size(), 2U);
  EXPECT_EQ(loops.stores[0].node, 4U);
  const segment::Value& product = loops.values[loops.stores[1].value];
  EXPECT_EQ(product.operands[0], product.operands[1]);
  EXPECT_EQ(product.operands[0], loops.stores[0].value);
}

/// As the gradients of attention's keys and values are.
TEST(Loops, SumsOfWhatIsMadeOfOneProductRunSideBySide) {
  const segment::Loops loops = loops_of(R"(
    %0 = input "q" : f32[2, 8, 4]
    %1 = input "k" : f32[2, 16, 4]
    %2 = dot batch_a=[0] batch_b=[0] contract_a=[2] contract_b=[2] %0 %1 : f32[2, 8, 16]
    %3 = dot batch_a=[0] batch_b=[0] contract_a=[2] contract_b=[2] %0 %1 : f32[2, 8, 16]
    %4 = input "a" : f32[2, 8, 6]
    %5 = input "b" : f32[2, 8, 6]
    %6 = exp %2 : f32[2, 8, 16]
    %7 = neg %3 : f32[2, 8, 16]
    %8 = dot batch_a=[0] batch_b=[0] contract_a=[1] contract_b=[1] %6 %4 : f32[2, 16, 6]
    %9 = dot batch_a=[0] batch_b=[0] contract_a=[1] contract_b=[1] %7 %5 : f32[2, 16, 6]
    %10 = permute axes=[1, 0, 2] %8 : f32[16, 2, 6]
    output "y" = %10
    output "z" = %9
  )");
  EXPECT_EQ(count_of(loops, segment::Value::Kind::reduction), 2);
  EXPECT_EQ(count_of(loops, segment::Value::Kind::nested), 1) << "the two products are equal";
  EXPECT_EQ(loops.stores.size(), 2U);
}

}  // namespace
}  // namespace vkfuse::test
