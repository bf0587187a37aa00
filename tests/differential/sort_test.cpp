// Sorts and the best few: values and positions, in every order, along every axis, with what stands around them in
// the same kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/compare.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

/// Dispatches of a row of this many keys: blocks are sorted, then merged two by two, then stored.
int dispatches_of(std::int64_t length, std::int64_t block) {
  int count = 1;
  for (std::int64_t run = block; run < length; run *= 2) count += count == 1 ? 2 : 1;
  return count;
}

/// One kernel; of rows of `length` keys, if that is said, in no more dispatches than blocks of its size take.
void expect_one_kernel(const ir::Graph& graph, const Data& data, const Build& how, const std::string& what,
                       int dispatches = 1, std::int64_t length = 0) {
  const Executable fused = compile_graph(graph, how);
  const schedule::Schedule& first = specialization_of(fused)->steps[0].schedule;
  if (length != 0 && first.kind() == schedule::Template::sort) {
    dispatches = dispatches_of(length, first.as<schedule::SortParams>().block_keys);
    if (!has_least_limits()) {
      EXPECT_GE(first.as<schedule::SortParams>().block_keys, std::min<std::int64_t>(length, 2048)) << what;
    }  // or merging is all it does
  }
  EXPECT_TRUE(are_kernels(fused.state()->program->plan().steps.size(), 1)) << what << "\n" << ir::print(graph);
  EXPECT_TRUE(are_kernels_at_most(fused.kernel_count(), dispatches)) << what;
  const NamedBytes once = compare_with_reference(fused, graph, data, what);
  EXPECT_TRUE(run_guarded(fused, graph, data).outputs == once) << what << ": another run has other bits";
}

/// Few numbers, so that most elements have equals; zeros of both signs, infinities and NaN where asked for.
Data with_equals(const ir::Graph& graph, DType dtype, bool special) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> planted = {inf, -inf, std::nan(""), -std::nan(""), 0.0, -0.0};
  Data data = data_for({graph, {}, 71, false});
  std::vector<std::byte>& bytes = data.inputs.at("x");
  const std::size_t count = bytes.size() / static_cast<std::size_t>(size_of(dtype));
  bytes.clear();
  Random random(72);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = std::round(random.between(is_float(dtype) || is_signed_integer(dtype) ? -8 : 0, 8));
    ir::encode(dtype, special && random.chance(20) ? random.pick(planted) : value, bytes);
  }
  return data;
}

// --- every dtype -----------------------------------------------------------------------------------------

class Sorts : public testing::TestWithParam<DType> {};

TEST_P(Sorts, OfValuesAndPositionsAreOneKernel) {
  if (GetParam() == DType::f64 && !target().caps.arithmetic.float64) GTEST_SKIP() << "the device has no 64-bit floats";
  const Tensor x = Tensor::input("x", GetParam(), {5, 33, 18});
  for (int axis = 0; axis < 3; ++axis) {
    for (const bool descending : {false, true}) {
      const Tensor positions = x.argsort(axis, descending);
      const ir::Graph graph = graph_of({x.take_along(positions, axis), positions});
      const std::string what =
          fmt::format("{} along axis {}{}", name_of(GetParam()), axis, descending ? ", largest first" : "");
      expect_one_kernel(graph, data_for({graph, {}, 73, false}), Build{}, what);
      expect_one_kernel(graph, with_equals(graph, GetParam(), false), Build{}, what + ", many equal");
      if (is_float(GetParam()))
        expect_one_kernel(graph, with_equals(graph, GetParam(), true), Build{},
                          what + ", with NaN and zeros of both signs");
    }
  }
}

TEST_P(Sorts, OfTheBestFewAreOneKernel) {
  if (GetParam() == DType::f64 && !target().caps.arithmetic.float64) GTEST_SKIP() << "the device has no 64-bit floats";
  const Tensor x = Tensor::input("x", GetParam(), {7, 100});
  for (const std::int64_t count : {1, 5, 100}) {
    const TopK best = top_k(x, count, 1, count != 5);
    const ir::Graph graph = graph_of({best.values, best.positions});
    expect_one_kernel(graph, with_equals(graph, GetParam(), is_float(GetParam())), Build{},
                      fmt::format("the best {} of {}", count, name_of(GetParam())));
  }
}

std::vector<DType> numbers() {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (static_cast<DType>(i) != DType::boolean) all.push_back(static_cast<DType>(i));
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Differential, Sorts, testing::ValuesIn(numbers()),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

// --- every length ----------------------------------------------------------------------------------------

class SortLengths : public testing::TestWithParam<std::int64_t> {};

TEST_P(SortLengths, WithOpsBeforeAndAfterAreOneKernel) {
  const std::int64_t length = GetParam();
  for (const DType dtype : {DType::f32, DType::i32}) {
    for (const int axis : {0, 1}) {
      const Tensor x = Tensor::input("x", dtype, axis == 1 ? Shape{2, length} : Shape{length, 2});
      const Tensor keys = -abs(x);
      const Tensor positions = keys.argsort(axis);
      const ir::Graph graph = graph_of(
          {sign(keys.take_along(positions, axis)) - x.take_along(positions, axis), positions.cast(DType::f32)});
      const std::string what = fmt::format("{} along axis {}", length, axis);
      expect_one_kernel(graph, data_for({graph, {}, 74, false}), Build{}, what, 1, length);
      // Of computed floats that are equal the reference does not say which is first.
      if (dtype == DType::i32)
        expect_one_kernel(graph, with_equals(graph, dtype, false), Build{}, what + " with equals", 1, length);
    }
  }
}

TEST_P(SortLengths, TheBestFewPassOnCandidates) {
  const std::int64_t length = GetParam();
  const Tensor x = Tensor::input("x", DType::i16, {2, length});
  const std::int64_t few = std::min<std::int64_t>(8, length);
  const TopK best = top_k(-x, few, 1);
  const ir::Graph graph = graph_of({-best.values, best.positions});
  // Each block passes on its best 8, and 8 of every block fit one block again.
  expect_one_kernel(graph, with_equals(graph, DType::i16, false), Build{}, fmt::format("the best of {}", length),
                    length <= 4096 ? 1 : 2);
}

INSTANTIATE_TEST_SUITE_P(Differential, SortLengths, testing::Values(1, 2, 7, 64, 1000, 4096, 4098, 65537),
                         [](const auto& length) { return std::to_string(length.param); });

// --- blocks and devices ------------------------------------------------------------------------------------

TEST(SortBlocks, OfEverySizeGiveTheSameOrder) {
  const Tensor x = Tensor::input("x", DType::i32, {3, 1000});
  const Tensor positions = x.argsort(1);
  const ir::Graph graph = graph_of({x.take_along(positions, 1), positions});
  const Data data = with_equals(graph, DType::i32, false);
  NamedBytes first;
  for (const int block : {2, 16, 64, 256, 1024}) {
    for (const int workgroup : {32, 64, 128}) {
      Build how;
      how.tuning.block = block;
      how.tuning.workgroup = workgroup;
      NamedBytes outputs = compare_with_reference(compile_graph(graph, how), graph, data,
                                                  fmt::format("blocks of {} keys, workgroups of {}", block, workgroup));
      if (first.empty()) first = outputs;
      EXPECT_TRUE(outputs == first) << block << " keys";
    }
  }
}

TEST(SortChains, FeedWhatFollows) {
  const Tensor x = Tensor::input("x", DType::f32, {6, 200});
  const auto run = [](const ir::Graph& graph, std::size_t kernels, const char* what) {
    const Executable fused = compile_graph(graph, Build{});
    EXPECT_TRUE(are_kernels_at_most(fused.state()->program->plan().steps.size(), kernels)) << what << "\n"
                                                                                           << ir::print(graph);
    compare_with_reference(fused, graph, data_for({graph, {}, 75, false}), what);
  };
  run(graph_of({top_k(x, 1).values.squeeze(1), top_k(x, 1).positions}), 1, "the best alone");
  run(graph_of({x.take_along(x.argsort(1, true).slice(1, 2, 7), 1) * 2.0}), 1, "ranks 2 to 6");
  run(graph_of({softmax(top_k(x, 4).values)}), 2, "probabilities of the best four");
  run(graph_of({top_k(softmax(x), 4).values}), 2, "the best four probabilities");
}

}  // namespace
}  // namespace vkfuse::test
