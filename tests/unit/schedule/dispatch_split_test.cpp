// Pieces of segments whose tensors are over a limit: what each stores and binds, by its expressions and without a
// device.
#include "schedule/dispatch_split.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "api/tensor_node.hpp"
#include "golden/targets.hpp"
#include "plan/plan.hpp"
#include "support/device.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

struct Bytes {
  std::int64_t begin = 0, end = 0;  ///< in the value
};

/// What a piece stores of its only result.
Bytes stored_by(const schedule::DispatchPart& piece, std::int64_t element_bytes) {
  const segment::Store& store = piece.loops.stores.at(0);
  const index::Interval range = index::interval_of(store.offset);
  const std::int64_t window = piece.windows.at(store.node).offset;
  return {window + range.low * element_bytes, window + (range.high + 1) * element_bytes};
}

void expect_apart(const ir::Graph& graph, const Target& target, const std::string& what) {
  SCOPED_TRACE(what);
  const plan::Plan plan = must(plan::make_plan(graph, target));
  ASSERT_EQ(plan.steps.size(), 1u);
  const segment::Loops loops = must(segment::build_loops(plan.graph, plan.steps[0].segment, {}));
  const std::vector<schedule::DispatchPart> pieces = must(schedule::split_dispatch(plan.graph, loops, {}, target));
  ASSERT_GE(pieces.size(), 2u);
  const std::int64_t element_bytes = size_of(graph.node(graph.outputs()[0].value).type.dtype);
  std::vector<Bytes> all;
  for (const schedule::DispatchPart& piece : pieces) {
    all.push_back(stored_by(piece, element_bytes));
    for (const auto& [value, window] : piece.windows) {
      EXPECT_EQ(window.offset % target.caps.memory.offset_alignment, 0);
      EXPECT_LE(static_cast<std::uint64_t>(window.bytes), target.caps.memory.storage_buffer_range);
    }
  }
  std::sort(all.begin(), all.end(), [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; });
  EXPECT_EQ(all.front().begin, 0);
  EXPECT_EQ(all.back().end, loops.stores.at(0).buffer_elements * element_bytes);
  for (std::size_t i = 1; i < all.size(); ++i) {
    EXPECT_EQ(all[i].begin, all[i - 1].end) << "every element is one piece's";
    // Nothing stands between pieces, and two that write a word at once lose what one of them has written.
    EXPECT_EQ(all[i].begin % 4, 0) << "piece " << i << " begins in the middle of a word";
  }
}

TEST(Pieces, ShareNoWordThatTheyStore) {
  Target target = cpu_driver();
  int odd = 0;
  for (const std::int64_t alignment : {16, 256}) {
    target.caps.memory.offset_alignment = static_cast<std::uint32_t>(alignment);
    for (const std::int64_t range : {16384, 9000}) {
      target.caps.memory.storage_buffer_range = static_cast<std::uint64_t>(range);
      // Rows of which a binding holds few, of every width by the word.
      for (std::int64_t width = 250; width < 1300; width += 61) {
        for (const DType dtype : {DType::u8, DType::f16}) {
          const Tensor x = Tensor::input("x", DType::f32, {53, width});
          const ir::Graph graph = must(api::to_graph(std::vector<Tensor>{x.cast(dtype).reverse({1})}, {}, "rows"));
          const std::int64_t four = 4 * width * 4 + alignment;
          if (four > range) continue;  // four rows are the least that end with a word
          expect_apart(graph, target,
                       fmt::format("{} of {} in rows of {}, bindings of {} bytes at multiples of {}", name_of(dtype),
                                   53, width, range, alignment));
          odd += width % 4 != 0 ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(odd, 20);
}

}  // namespace
}  // namespace vkfuse::test
