// Which floats are made from bits of loaded bytes, and where their bits are.
#include "lowering/sub_byte_fields.hpp"

#include <gtest/gtest.h>

#include "support/device.hpp"

namespace vkfuse::lowering {
namespace {

using test::must;

constexpr index::AxisId kChunk = 100, kElement = 101;

/// 64 bytes, each of which is `fields` numbers of 8 / fields bits, as floats, summed: one kernel, whose chunks have 8
/// of them.
struct Unpacked {
  ir::Graph graph;
  segment::Loops loops;
  schedule::Schedule schedule;
  std::map<index::AxisId, index::Expr> axes;

  Unpacked(int fields, int mask) : graph(must(ir::parse(text(fields, mask)))) {
    std::vector<bool> escapes(graph.size(), false);
    for (const ir::Output& output : graph.outputs()) escapes[output.value] = true;
    std::vector<ir::NodeId> members;
    for (ir::NodeId id = 0; id < graph.size(); ++id) {
      if (!segment::is_resident(graph, id) && !segment::is_literal(graph, id)) members.push_back(id);
    }
    loops = must(segment::build_loops(graph, segment::build_segment(graph, members, escapes), {}));
    schedule.chunk_size = 8;
    schedule.loads.resize(loops.values.size());
    for (segment::ValueId id = 0; id < loops.values.size(); ++id) {
      if (loops.values[id].kind != segment::Value::Kind::load) continue;
      schedule.loads[id] = {.kind = schedule::AccessKind::vector, .vector_bytes = 4, .repeat = fields};
    }
    // Axes are the bytes and, of more than one, the fields of a byte.
    EXPECT_EQ(loops.axes.size(), fields == 1 ? 1U : 2U);
    const index::Expr element = index::Expr::axis(kElement, 8);
    axes[0] = index::Expr::axis(kChunk, 8 * fields) * (8 / fields) + index::floor_div(element, fields);
    axes[1] = index::floor_mod(element, fields);
  }
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  static std::string text(int fields, int mask) {
    if (fields == 1) {
      return "graph \"unpacked\" {\n  %0 = input \"x\" : u8[64]\n  %1 = cast %0 : f32[64]\n"
             "  %2 = reduce_sum axes=[0] %1 : f32[]\n  output \"y\" = %2\n}";
    }
    const std::string n = std::to_string(fields), all = std::to_string(64 * fields);
    return "graph \"unpacked\" {\n  %0 = input \"x\" : u8[64]\n  %1 = reshape %0 : u8[64, 1]\n  %2 = iota axis=0 : "
           "u8[" +
           n + "]\n  %3 = constant {" + std::to_string(8 / fields) + "} : u8[]\n  %4 = mul %2 %3 : u8[" + n +
           "]\n  %5 = shift_right %1 %4 : u8[64, " + n + "]\n  %6 = constant {" + std::to_string(mask) +
           "} : u8[]\n  %7 = bit_and %5 %6 : u8[64, " + n + "]\n  %8 = reshape %7 : u8[" + all + "]\n" +
           "  %9 = cast %8 : f32[" + all + "]\n  %10 = reduce_sum axes=[0] %9 : f32[]\n  output \"y\" = %10\n}";
  }
  [[nodiscard]] UnpackedFields fields() const {
    return find_sub_byte_fields({graph, loops, schedule, schedule.chunk_size, axes, kElement});
  }
};

TEST(SubByteFields, NibblesLieOneAfterTheOther) {
  const Unpacked unpacked(2, 15);
  const UnpackedFields fields = unpacked.fields();
  ASSERT_EQ(fields.size(), 1U);
  const std::vector<SubByteElement>& elements = fields.begin()->second.elements;
  ASSERT_EQ(elements.size(), 8U);
  for (int e = 0; e < 8; ++e) {
    const SubByteElement& one = elements[static_cast<std::size_t>(e)];
    EXPECT_EQ(one.word, 0) << e;
    EXPECT_EQ(one.mask, 15U) << e;
    EXPECT_EQ(one.place + one.down, 4 * e) << e;
    // All bits are below the leading one of an f32, of which those are the fraction.
    EXPECT_LE(one.place + 4, kFractionBits) << e;
  }
  EXPECT_EQ(elements[4].down, 0) << "bits 16 to 19 need no shift";
  EXPECT_EQ(elements[5].down, 20) << "bits 20 to 23 would reach the exponent";
}

TEST(SubByteFields, AChunkOfHalfBytesHasAWordAndOneOfPairsOfBitsHalfOfIt) {
  const Unpacked unpacked(4, 3);
  const UnpackedFields fields = unpacked.fields();
  ASSERT_EQ(fields.size(), 1U);
  EXPECT_EQ(fields.begin()->second.elements.back().place + fields.begin()->second.elements.back().down, 14);
}

TEST(SubByteFields, WholeBytesAreNone) { EXPECT_TRUE(Unpacked(1, 255).fields().empty()); }

TEST(SubByteFields, BitsThatAShiftLosesAreNotTaken) {
  const Unpacked unpacked(2, 255);
  const UnpackedFields fields = unpacked.fields();
  ASSERT_EQ(fields.size(), 1U);
  EXPECT_EQ(fields.begin()->second.elements[0].mask, 0xffU);
  EXPECT_EQ(fields.begin()->second.elements[1].mask, 0x0fU);
}

TEST(SubByteFields, ALoadElementByElementHasNone) {
  Unpacked unpacked(2, 15);
  for (schedule::AccessPlan& load : unpacked.schedule.loads) load.kind = schedule::AccessKind::element;
  EXPECT_TRUE(unpacked.fields().empty());
}

TEST(SubByteFields, AShiftThatIsNotTheSameForAllChunksHasNone) {
  Unpacked unpacked(2, 15);
  unpacked.axes[1] = index::floor_mod(index::Expr::axis(kChunk, 16), 2);
  EXPECT_TRUE(unpacked.fields().empty());
}

}  // namespace
}  // namespace vkfuse::lowering
