// Attention with masks as exporters write them: what kernels leave out is what the graph hides, also where that turns
// out to count.
#include <gtest/gtest.h>

#include "support/compare.hpp"
#include "support/masks.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kQueries = 45, kKeys = 77;
constexpr double kSmall = -1e4;  // of a mask whose numbers leave bits for scores

/// Far below scores, and so far above the least number that the reference knows no sum to overflow.
double large_number(DType dtype) { return dtype == DType::f16 ? -3e4 : -1e38; }

/// One layer, whose scores are shifted by an input [queries, keys].
ir::Graph masked(const MaskSpelling& spelling, DType dtype, double number, bool shifted = false) {
  const auto input = [&](const char* name, std::int64_t positions) {
    return Tensor::input(name, dtype, {2, 2, positions, 16});
  };
  Tensor scores = attention_scores(input("q", kQueries), input("k", kKeys), {});
  if (shifted) scores = scores + Tensor::input("shift", dtype, {2, 2, kQueries, kKeys});
  return graph_of({attention_output(softmax(spelling.masked(scores, number)), input("v", kKeys))});
}

std::string name_of_spelling(const testing::TestParamInfo<std::size_t>& info) {
  return mask_spellings()[info.param].name;
}

class Masks : public testing::TestWithParam<std::size_t> {
 protected:
  const MaskSpelling& spelling_ = mask_spellings()[GetParam()];

  void compare(const ir::Graph& graph, const Data& data, Numerics numerics = Numerics::standard) const {
    const Executable program = compile_graph(graph, {.numerics = numerics, .tuning = {.matmul = true}});
    compare_with_reference(program, graph, data, spelling_.name);
  }
};

/// In one dtype each: kernels take seconds to compile.
TEST_P(Masks, LeaveOutWhatTheGraphHides) {
  constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
  // Rows that padding hides altogether, and numbers of which 1 is taken, are known of f32 alone.
  const std::string_view name = spelling_.name;
  const bool rounds = name.find("padding") != std::string_view::npos || name == "one_less_triangle";
  const DType dtype = rounds ? DType::f32 : kTypes[GetParam() % std::size(kTypes)];
  const ir::Graph graph = masked(spelling_, dtype, rounds ? kSmall : large_number(dtype));
  compare(graph, data_for({graph, {}, 31, false}));
}

/// Every score of some rows is so low that those of masked positions are near it, or above.
TEST_P(Masks, RowsOfLowScoresSeeWhatIsMasked) {
  const ir::Graph graph = masked(spelling_, DType::f32, kSmall, true);
  Data data = data_for({graph, {}, 32, false});
  std::vector<std::byte> shift;
  for (std::int64_t i = 0; i < 4 * kQueries * kKeys; ++i) {
    const std::int64_t query = i / kKeys % kQueries, key = i % kKeys;
    const bool low = query % 7 == 3 && spelling_.sees(query, key);
    ir::encode(DType::f32, low ? kSmall - 1 : 0, shift);
  }
  data.inputs["shift"] = std::move(shift);
  compare(graph, data);
}

/// Nothing is left out of masks of finite numbers, nor of sums, where every op is to round.
TEST(MasksOfStrictNumerics, VisitEverything) {
  const MaskSpelling& spelling = mask_spellings().front();
  const ir::Graph graph = masked(spelling, DType::f32, kSmall);
  const Executable program = compile_graph(graph, {.numerics = Numerics::strict, .tuning = {.matmul = true}});
  EXPECT_EQ(must(program.explain(Stage::glsl)).find("// Blocks in which the mask"), std::string::npos);
  compare_with_reference(program, graph, data_for({graph, {}, 33, false}), "strict");
}

INSTANTIATE_TEST_SUITE_P(Spellings, Masks, testing::Range<std::size_t>(0, mask_spellings().size()), name_of_spelling);

}  // namespace
}  // namespace vkfuse::test
