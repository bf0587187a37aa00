// Reductions over small windows in blocks of every shape: convolutions of single channels, pools and stems, in both
// orders of axes, with what is around them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "golden/targets.hpp"
#include "support/compare.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

using schedule::StencilShape;

bool has_stencil(const Executable& program) {
  const auto specialization = specialization_of(program);
  return std::any_of(specialization->steps.begin(), specialization->steps.end(), [](const plan::ScheduledKernel& step) {
    return step.schedule.kind() == schedule::Template::stencil;
  });
}

/// Whether every shape of blocks is compiled for every window: what scripts/deep.sh has time for.
bool tries_all() { return std::getenv("VKFUSE_TEST_ALL_BLOCKS") != nullptr; }

/// In blocks of one shape, the next in turn, as each is a kernel to compile, and as they are by default.
void expect_blocks(const ir::Graph& graph, const std::string& what) {
  constexpr StencilShape kShapes[] = {{8, 2, 1}, {4, 3, 2}, {1, 1, 1}, {2, 2, 1}};
  static std::size_t turn = 0;
  const Data data = data_for({graph, {}, 91, false});
  int stencils = 0;
  const std::size_t first = turn++;
  for (std::size_t i = 0; i < std::size(kShapes); ++i) {
    const StencilShape& shape = kShapes[(first + i) % std::size(kShapes)];
    const std::string text =
        fmt::format("{} in blocks of {} x {} x {}", what, shape.planes, shape.rows, shape.elements);
    Build build;
    build.numerics = shape.rows == 1 ? Numerics::strict : Numerics::standard;
    build.tuning.stencil = shape;
    const Executable program = compile_graph(graph, build);
    stencils += has_stencil(program) ? 1 : 0;
    compare_with_reference(program, graph, data, text);
    if (stencils > 0 && !tries_all()) break;
  }
  EXPECT_GT(stencils, tries_all() ? 1 : 0) << what << " is no stencil\n" << ir::print(graph);
  compare_with_reference(compile_graph(graph, Build{}), graph, data, what);
}

struct Window {
  const char* name;
  std::int64_t size, stride, dilation, low, high;
  std::int64_t height, width;
  friend std::ostream& operator<<(std::ostream& out, const Window& window) { return out << window.name; }
};

class Stencils : public testing::TestWithParam<Window> {
 protected:
  static ConvOptions options(std::int64_t groups) {
    const Window& window = GetParam();
    return {.strides = {window.stride, window.stride},
            .low = {window.low, window.low},
            .high = {window.high, window.high},
            .dilations = {window.dilation, window.dilation},
            .groups = groups};
  }
  static Tensor image(DType dtype, std::int64_t channels) {
    return Tensor::input("x", dtype, {2, channels, GetParam().height, GetParam().width});
  }
  static Tensor weights(DType dtype, std::int64_t out, std::int64_t in) {
    return Tensor::input("w", dtype, {out, in, GetParam().size, GetParam().size});
  }
};

TEST_P(Stencils, ConvolutionsOfSingleChannels) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor y = conv(image(dtype, 5), weights(dtype, 5, 1), options(5));
    const Tensor bias = Tensor::input("bias", dtype, {5, 1, 1});
    const std::string what = fmt::format("{} of {}", GetParam().name, name_of(dtype));
    if (dtype == DType::f16)
      expect_blocks(graph_of({y * 0.5 + Tensor::input("residual", dtype, y.shape())}), what + " with a residual");
    else
      expect_blocks(graph_of({relu(y + bias)}), what);
  }
}

TEST_P(Stencils, ChannelsThatBecomeSeveral) {
  expect_blocks(graph_of({conv(image(DType::f16, 3), weights(DType::f16, 6, 1), options(3))}), GetParam().name);
}

TEST_P(Stencils, Stems) {
  expect_blocks(graph_of({relu(conv(image(DType::f16, 3), weights(DType::f16, 4, 3), options(1)))}), GetParam().name);
}

TEST_P(Stencils, ChannelsLast) {
  const Window& window = GetParam();
  for (const DType dtype : {DType::f16, DType::f32}) {
    const Tensor x = Tensor::input("x", dtype, {2, window.height, window.width, 24}).permute({0, 3, 1, 2});
    const Tensor y = conv(x, weights(dtype, 24, 1), options(24)).permute({0, 2, 3, 1});
    expect_blocks(graph_of({y + Tensor::input("bias", dtype, {24})}),
                  fmt::format("{} of {}, channels last", window.name, name_of(dtype)));
  }
}

/// Weights of a tap lie side by side as well, so that they are loaded as vectors; as they are, and computed of.
TEST_P(Stencils, ChannelsLastOfImagesAndWeights) {
  const Window& window = GetParam();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const Tensor x = Tensor::input("x", dtype, {2, window.height, window.width, 24}).permute({0, 3, 1, 2});
    Tensor w = Tensor::input("w", dtype, {window.size, window.size, 1, 24});
    if (dtype == DType::bf16) w = w * Tensor::input("scale", dtype, {24}) + 0.25;
    const Tensor y = conv(x, w.permute({3, 2, 0, 1}), options(24)).permute({0, 2, 3, 1});
    expect_blocks(graph_of({relu(y)}), fmt::format("{} of {}, all channels last", window.name, name_of(dtype)));
  }
}

TEST_P(Stencils, PoolsOfChannelsLast) {
  const Window& window = GetParam();
  for (const DType dtype : {DType::f16, DType::f32, DType::i8}) {
    const auto windows = [&](double around) {
      return Tensor::input("x", dtype, {2, window.height, window.width, 16})
          .pad({0, window.low, window.low, 0}, {0, window.high, window.high, 0}, around)
          .unfold(1, window.size, window.stride, window.dilation)
          .unfold(2, window.size, window.stride, window.dilation);
    };
    const std::string what = fmt::format("{} of {}, channels last", window.name, name_of(dtype));
    expect_blocks(graph_of({windows(dtype == DType::i8 ? -128 : -60000).max({4, 5})}), what + ", the largest");
    expect_blocks(graph_of({windows(0).max({4, 5})}), what + ", the largest beside zeros");
    if (dtype != DType::i8) expect_blocks(graph_of({windows(0).mean({4, 5})}), what + ", the mean");
  }
}

TEST_P(Stencils, AfterWhatIsComputedOfEveryElement) {
  const DType dtype = DType::f16;
  const Tensor x =
      relu(image(dtype, 4) * Tensor::input("scale", dtype, {4, 1, 1}) + Tensor::input("shift", dtype, {4, 1, 1}));
  expect_blocks(graph_of({conv(x, weights(dtype, 4, 1), options(4))}), GetParam().name);
}

TEST_P(Stencils, Pools) {
  const Window& window = GetParam();
  const auto windows = [&](const Tensor& x, double around) {
    return x.pad({0, 0, window.low, window.low}, {0, 0, window.high, window.high}, around)
        .unfold(2, window.size, window.stride, window.dilation)
        .unfold(3, window.size, window.stride, window.dilation);
  };
  for (const DType dtype : {DType::f16, DType::f32}) {
    const Tensor x = image(dtype, 3);
    const std::string what = fmt::format("{} of {}", window.name, name_of(dtype));
    expect_blocks(graph_of({windows(x, -std::numeric_limits<double>::infinity()).max({4, 5})}), what + ", the largest");
    expect_blocks(graph_of({windows(x, 0).mean({4, 5})}), what + ", the mean");
    expect_blocks(graph_of({windows(x, 0).sum({4, 5}) * 0.125}), what + ", the sum");
  }
  expect_blocks(graph_of({windows(image(DType::i8, 3), 0).max({4, 5})}), std::string(window.name) + " of bytes");
}

INSTANTIATE_TEST_SUITE_P(
    Differential, Stencils,
    testing::Values(Window{"three", 3, 1, 1, 1, 1, 16, 24}, Window{"three_by_two", 3, 2, 1, 1, 1, 17, 21},
                    Window{"five_odd", 5, 1, 1, 2, 2, 9, 13}, Window{"dilated", 3, 1, 2, 2, 2, 12, 16},
                    Window{"dilated_by_two", 3, 2, 3, 1, 1, 15, 18}, Window{"padded_after", 3, 2, 1, 0, 1, 16, 20},
                    Window{"dilated_and_padded_after", 3, 1, 2, 0, 2, 12, 18},
                    Window{"padded_before", 4, 1, 2, 6, 0, 11, 16}, Window{"unpadded", 4, 1, 1, 0, 0, 14, 14},
                    Window{"side_by_side", 2, 2, 1, 0, 0, 14, 16}),
    [](const auto& window) { return std::string(window.param.name); });

/// 14 rows of 16 lines with three taps, for four elements: more turns than a driver unrolls.
TEST(Stencil, OfManyTurnsIsWrittenLineByLine) {
  const Tensor x = Tensor::input("x", DType::f16, {2, 3, 14, 20});
  const Tensor w = Tensor::input("w", DType::f16, {3, 1, 3, 3});
  const ir::Graph graph = graph_of({conv(x, w, {.low = {1, 1}, .high = {1, 1}, .groups = 3})});
  Build build;
  build.tuning.stencil = StencilShape{4, 14, 1};
  build.planned_as = kH200;  // whose driver it is
  const Executable program = compile_graph(graph, build);
  ASSERT_TRUE(has_stencil(program));
  const std::string text = must(program.explain(Stage::glsl));
  EXPECT_NE(text.find("const uint line = 15u;"), std::string::npos) << text;
  EXPECT_EQ(text.find("[[unroll]] for (uint line "), std::string::npos) << text;
  compare_with_reference(program, graph, data_for({graph, {}, 91, false}), "lines that are written out");
}

TEST(Stencil, AlongOneAxis) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    // As a state-space model has it: four taps of the past.
    const Tensor x = Tensor::input("x", dtype, {2, 6, 50});
    const Tensor causal = conv(x, Tensor::input("w", dtype, {6, 1, 4}), {.low = {3}, .groups = 6});
    expect_blocks(graph_of({silu(causal)}), "a causal convolution");
    const Tensor wide = conv(x, Tensor::input("w", dtype, {6, 1, 31}), {.low = {15}, .high = {15}, .groups = 6});
    expect_blocks(graph_of({wide}), "31 taps");
    const Tensor last = Tensor::input("x", dtype, {2, 40, 16}).permute({0, 2, 1});
    expect_blocks(
        graph_of({conv(last, Tensor::input("w", dtype, {16, 1, 4}), {.low = {3}, .groups = 16}).permute({0, 2, 1})}),
        "a causal convolution, channels last");
  }
}

TEST(Stencil, AlongThreeAxes) {
  const DType dtype = DType::f16;
  const Tensor x = Tensor::input("x", dtype, {1, 3, 7, 9, 12});
  expect_blocks(graph_of({conv(x, Tensor::input("w", dtype, {3, 1, 3, 3, 3}),
                               {.low = {1, 1, 1}, .high = {1, 1, 1}, .groups = 3})}),
                "a convolution in space");
}

}  // namespace
}  // namespace vkfuse::test
