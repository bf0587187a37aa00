// Windows, masks and scatters beside their neighbours: pooling is a view and a reduction, dropout is arithmetic on
// positions, and updates that meet in one row are joined without atomics.
#include <gtest/gtest.h>

#include <limits>

#include "support/compare.hpp"

namespace vkfuse::test {
namespace {

void expect_kernels(const ir::Graph& graph, std::size_t kernels, const std::string& what) {
  const Executable fused = compile_graph(graph, Build{});
  EXPECT_TRUE(are_kernels(fused.state()->program->plan().steps.size(), kernels)) << what << "\n" << ir::print(graph);
  EXPECT_TRUE(are_kernels(fused.kernel_count(), kernels)) << what;
  const Data data = data_for({graph, {}, 81, false});
  const NamedBytes once = compare_with_reference(fused, graph, data, what);
  EXPECT_TRUE(run_guarded(fused, graph, data).outputs == once) << what << ": another run has other bits";
  compare_with_reference(compile_graph(graph, {.fusion = false}), graph, data, what + ", unfused");
}

// --- pooling ---------------------------------------------------------------------------------------------

struct Pool {
  const char* name;
  std::int64_t size, stride, dilation, padding;
  friend std::ostream& operator<<(std::ostream& out, const Pool& pool) { return out << pool.name; }
};

class Pools : public testing::TestWithParam<Pool> {
 protected:
  /// Windows of the last two axes as two more axes.
  static Tensor windows(const Tensor& x, double around) {
    const Pool& pool = GetParam();
    const std::int64_t pad = pool.padding;
    return x.pad({0, 0, pad, pad}, {0, 0, pad, pad}, around)
        .unfold(2, pool.size, pool.stride, pool.dilation)
        .unfold(3, pool.size, pool.stride, pool.dilation);
  }
  static Tensor averages(const Tensor& x) { return windows(x, 0).mean({4, 5}); }
  /// Padding is not counted: the mask of ones is a view of a literal and costs no memory.
  static Tensor averages_of_inside(const Tensor& x) {
    const Tensor ones = Tensor::scalar(x.dtype(), 1).broadcast_to(x.shape());
    return windows(x, 0).sum({4, 5}) / windows(ones, 0).sum({4, 5});
  }
  static Tensor largest(const Tensor& x) { return windows(x, -std::numeric_limits<double>::infinity()).max({4, 5}); }
};

TEST_P(Pools, AreOneKernelWithTheirNeighbours) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor x = Tensor::input("x", dtype, {2, 3, 17, 20});
    const Tensor scale = Tensor::input("scale", dtype, {3, 1, 1});
    const std::string what = fmt::format("{} of {}", GetParam().name, name_of(dtype));
    expect_kernels(graph_of({largest(relu(x * scale)) * 0.5}), 1, what + ", the largest");
    expect_kernels(graph_of({silu(averages(x * scale))}), 1, what + ", the mean with padding");
    expect_kernels(graph_of({averages_of_inside(abs(x)) + scale}), 1, what + ", the mean without padding");
  }
}

INSTANTIATE_TEST_SUITE_P(Differential, Pools,
                         testing::Values(Pool{"side_by_side", 2, 2, 1, 0}, Pool{"overlapping_and_padded", 3, 2, 1, 1},
                                         Pool{"dilated", 3, 1, 2, 2}, Pool{"dilated_strided_and_padded", 2, 3, 3, 1}),
                         [](const auto& pool) { return std::string(pool.param.name); });

// --- dropout ---------------------------------------------------------------------------------------------

TEST(Dropout, StandsInTheKernelOfItsNeighbours) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor x = Tensor::input("x", dtype, {37, 130});
    const Tensor residual = Tensor::input("residual", dtype, {37, 130});
    expect_kernels(graph_of({dropout(silu(x), 0.75, 0x123456789abcdef) + residual}), 1, "dropout between two ops");
    expect_kernels(graph_of({dropout(softmax(x), 0.5, 7)}), 1, "dropout of probabilities");
    expect_kernels(graph_of({rms_normalize(dropout(x, 0.9, 11) + residual, {1}, 1e-3)}), 1, "dropout, residual, norm");
  }
}

TEST(Dropout, KeepsAsManyAsItSays) {
  const Tensor x = Tensor::input("x", DType::f32, {40000});
  const Executable program = must(compile(device(), {dropout(x, 0.75, 3), dropout(x, 0.75, 3), dropout(x, 0.75, 4)}));
  const std::vector<float> ones(40000, 1.0F);
  const Outputs outputs = must(program.run({{"x", ones}}));
  const auto kept = outputs.at("y").as<float>();
  const auto again = outputs.at("y1").as<float>();
  const auto other = outputs.at("y2").as<float>();
  std::int64_t count = 0;
  std::int64_t both = 0;
  for (std::size_t i = 0; i < ones.size(); ++i) {
    ASSERT_TRUE(kept[i] == 0 || std::abs(kept[i] - 1 / 0.75F) < 1e-6F) << kept[i];
    ASSERT_EQ(kept[i], again[i]) << "the same seed";
    count += kept[i] != 0 ? 1 : 0;
    both += kept[i] != 0 && other[i] != 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(count) / 40000, 0.75, 0.01);          // four and a half standard deviations
  EXPECT_NEAR(static_cast<double>(both) / 40000, 0.75 * 0.75, 0.0112);  // another seed is independent
}

// --- scatters --------------------------------------------------------------------------------------------

TEST(Scatters, WithManyUpdatesOfOneRowAreTwoKernels) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i8, DType::i64}) {
    for (const char* mode : {"set", "add", "max"}) {
      const Tensor x = Tensor::input("x", dtype, {3, 20});
      const Tensor updates = Tensor::input("updates", dtype, {40, 20});
      const Tensor rows = Tensor::input("index3", DType::i64, {40});  // some 13 updates of each row
      const ir::Graph graph = graph_of({-abs(x).scatter(rows, abs(updates), mode)});
      const Executable fused = compile_graph(graph, Build{});
      EXPECT_TRUE(are_kernels_at_most(fused.kernel_count(), 2)) << mode << "\n" << ir::print(graph);
      const Data data = data_for({graph, {}, 82, false});
      const NamedBytes once = compare_with_reference(fused, graph, data, fmt::format("{} of {}", mode, name_of(dtype)));
      EXPECT_TRUE(run_guarded(fused, graph, data).outputs == once) << mode << ": another run has other bits";
    }
  }
}

TEST(Scatters, OfPositionsOutOfRangeAreDropped) {
  const Tensor x = Tensor::input("x", DType::f32, {24, 5});
  const Tensor rows = Tensor::input("rows", DType::i32, {50});  // from far below 0 to far above 24
  const Tensor updates = Tensor::input("updates", DType::f32, {50, 5});
  for (const char* mode : {"set", "add"}) {
    const ir::Graph graph = graph_of({x.scatter(rows, updates, mode) + 1.0});
    compare_with_reference(compile_graph(graph, Build{}), graph, data_for({graph, {}, 83, false}), mode);
  }
}

}  // namespace
}  // namespace vkfuse::test
