// Attention with masks as exporters write them: what kernels leave out is what the graph hides, also where that turns
// out to count.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "support/compare.hpp"
#include "support/masks.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kQueries = 45, kKeys = 77;
constexpr double kSmall = -1e4;  // of a mask whose numbers leave bits for scores

/// Far below scores, and so far above the least number that the reference knows no sum to overflow.
double large_number(DType dtype) { return dtype == DType::f16 ? -3e4 : -1e38; }

/// Inputs of which the first keys of every sequence are padding, so that rows that see no others see nothing; and a
/// sequence without keys.
Data data_of(const ir::Graph& graph, std::uint64_t seed) {
  Data data = data_for({graph, {}, seed, false});
  if (const auto padding = data.inputs.find("padding"); padding != data.inputs.end()) {
    for (std::size_t i = 0; i < padding->second.size(); ++i)
      if (i % static_cast<std::size_t>(kKeys) < 3) padding->second[i] = std::byte{0};
  }
  if (const auto lengths = data.inputs.find("lengths"); lengths != data.inputs.end()) {
    lengths->second.clear();
    for (const std::int64_t length : {50, 0}) ir::encode_int(DType::i64, length, lengths->second);
  }
  return data;
}

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
  // Rows that are hidden altogether, and numbers of which 1 is taken, are known of f32 alone.
  const bool rounds = spelling_.hides_rows || std::string_view(spelling_.name) == "one_less_triangle";
  const DType dtype = rounds ? DType::f32 : kTypes[GetParam() % std::size(kTypes)];
  const ir::Graph graph = masked(spelling_, dtype, rounds ? kSmall : large_number(dtype));
  compare(graph, data_of(graph, 31));
}

/// Every score of some rows is so low that those of masked positions are near it, or above.
TEST_P(Masks, RowsOfLowScoresSeeWhatIsMasked) {
  const ir::Graph graph = masked(spelling_, DType::f32, kSmall, true);
  Data data = data_of(graph, 32);
  std::vector<std::byte> shift;
  for (std::int64_t i = 0; i < 4 * kQueries * kKeys; ++i) {
    const std::int64_t query = i / kKeys % kQueries, key = i % kKeys;
    const bool low = query % 7 == 3 && spelling_.sees(query, key);
    ir::encode(DType::f32, low ? kSmall - 1 : 0, shift);
  }
  data.inputs["shift"] = std::move(shift);
  compare(graph, data);
}

/// Every key of every row: -infinity leaves no number, the least number the mean of all values.
TEST(MasksOfEverything, CountAsTheGraphSays) {
  for (const double number : {-std::numeric_limits<double>::infinity(), least_number(DType::f32)}) {
    const MaskSpelling nothing{"nothing",
                               [](const Tensor& s, double hidden) {
                                 const Tensor q = Tensor::iota(DType::i64, {kQueries, 1}, 0);
                                 const Tensor k = Tensor::iota(DType::i64, {1, kKeys}, 1);
                                 const Tensor sees = gt(k, q + Tensor::scalar_int(DType::i64, kKeys));
                                 return select(sees, s, Tensor::scalar(s.dtype(), hidden));
                               },
                               [](std::int64_t, std::int64_t) { return false; }};
    const ir::Graph graph = masked(nothing, DType::f32, number);
    const Executable program = compile_graph(graph, {.tuning = {.matmul = true}});
    compare_with_reference(program, graph, data_of(graph, 34), "nothing");
  }
}

/// Keys that both of two masks hide are at -infinity: rows that see nothing see those that one of them hides. Of
/// numbers near the largest of f32 the reference decides nothing; the ops one by one do.
TEST(MasksWhoseSumOverflows, LeaveWhatOneOfThemHides) {
  const auto overflowing = [](const Tensor& s, double hidden) {
    const Tensor q = Tensor::iota(DType::i32, {kQueries, 1}, 0), k = Tensor::iota(DType::i32, {1, kKeys}, 1);
    const Tensor zero = Tensor::scalar(s.dtype(), 0), number = Tensor::scalar(s.dtype(), hidden);
    return s + (select(lt(k, q), zero, number) + select(ge(k, Tensor::scalar_int(DType::i32, 40)), zero, number));
  };
  const ir::Graph graph = masked({"overflowing", overflowing, nullptr}, DType::f32, least_number(DType::f32));
  const Data data = data_of(graph, 35);
  const auto values = [&](bool fusion) {
    const Executable program = compile_graph(graph, {.fusion = fusion, .tuning = {.matmul = fusion}});
    const std::vector<std::byte> bytes = run_guarded(program, graph, data).outputs.at("y");
    std::vector<float> all(bytes.size() / sizeof(float));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  };
  const std::vector<float> fused = values(true), unfused = values(false);
  ASSERT_EQ(fused.size(), unfused.size());
  for (std::size_t i = 0; i < fused.size(); ++i) ASSERT_NEAR(fused[i], unfused[i], 1e-5) << "element " << i;
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
