// Forward and backward in one program on the device, against the reference; and how few kernels that takes.
#include "vkfuse/gradients.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "api/tensor_node.hpp"
#include "support/compare.hpp"
#include "support/gradient_cases.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::test {
namespace {

/// y and its gradients with respect to all operands, given a cotangent.
ir::Graph both_ways(GradientDraw& d, const Tensor& y) {
  const Tensor g = d.floats({}, 0.5, 1.5).broadcast_to(y.shape());
  d.wrt.pop_back();
  std::vector<Tensor> results = gradients(std::span(&y, 1), d.wrt, std::span(&g, 1));
  results.insert(results.begin(), y);
  return must(api::to_graph(results, {}, "gradients"));
}

struct Sample {
  const char* name;
  DType dtype;
  bool symbolic;
  int least;  ///< families that are compared
};

/// What the reference decides: in 16 bits, no chain of layers, and once is enough.
bool suits(const GradientFamily& family, DType dtype) {
  return dtype == DType::f32 || (family.name != "network" && !family.name.starts_with("second order"));
}

class GradientFamilies : public testing::TestWithParam<Sample> {};

TEST_P(GradientFamilies, AreThoseOfTheReference) {
  const Sample& sample = GetParam();
  int checked = 0;
  for (const GradientFamily& family : gradient_families()) {
    if (!suits(family, sample.dtype)) continue;
    GradientDraw d(seed_of(7, family.name), sample.dtype, sample.symbolic);
    const Tensor y = family.make(d);
    if (sample.symbolic && (!y.valid() || d.data.symbols.empty())) continue;
    ASSERT_TRUE(y.valid()) << family.name << ": " << y.error().text();
    const ir::Graph graph = both_ways(d, y);
    compare_with_reference(compile_graph(graph, Build{}), graph, d.data, family.name);
    if (HasFailure()) return;
    ++checked;
  }
  EXPECT_GE(checked, sample.least);
}

INSTANTIATE_TEST_SUITE_P(All, GradientFamilies,
                         testing::Values(Sample{"numbers", DType::f32, false, 120},
                                         Sample{"symbols", DType::f32, true, 40},
                                         Sample{"halves", DType::f16, false, 90}),
                         [](const auto& one) { return one.param.name; });

/// How many kernels the gradients of y take, without y itself.
int kernels_of(const Tensor& y, const std::vector<Tensor>& wrt) {
  const Tensor g = Tensor::input("g", y.dtype(), y.shape());
  const Executable program = must(compile(device(), gradients(std::span(&y, 1), wrt, std::span(&g, 1))));
  // Workgroups of a GPU share rows, whose parts another dispatch joins.
  if (target(false).type == DeviceType::cpu) return program.kernel_count();
  return static_cast<int>(program.state()->program->plan().steps.size());
}

Tensor f32(const char* name, Shape shape) { return Tensor::input(name, DType::f32, std::move(shape)); }

/// At an exponent of 0 it is 0, also where the inverse of the base is beyond f16, in which strict numerics rounds.
TEST(GradientKernels, OfPowersAreNumbersNearABaseOfZero) {
  const Tensor base = Tensor::input("a", DType::f16, {4}), exponent = Tensor::input("b", DType::f16, {4});
  const ir::Graph graph = graph_of(gradients({pow(base, exponent)}, {base}));
  for (const Numerics numerics : {Numerics::standard, Numerics::strict}) {
    Build how;
    how.numerics = numerics;
    Data data = data_for({graph, {}, 77, false});
    const std::uint16_t bases[] = {0x0001, 0x00a8, 0x80a8, 0x0000}, exponents[] = {0, 0, 0, 0};
    std::memcpy(data.inputs.at("a").data(), bases, sizeof bases);
    std::memcpy(data.inputs.at("b").data(), exponents, sizeof exponents);
    const GuardedRun got = run_guarded(compile_graph(graph, how), graph, data);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(ir::decode(DType::f16, got.outputs.at("y").data() + 2 * i), 0) << bases[i];
  }
}

TEST(GradientKernels, AreFew) {
  const Tensor x = f32("x", {256, 1024}), scale = f32("scale", {1024}), bias = f32("bias", {1024});
  const auto expect_kernels = [](int most, const Tensor& y, const std::vector<Tensor>& wrt) {
    EXPECT_TRUE(are_kernels_at_most(static_cast<std::size_t>(kernels_of(y, wrt)), static_cast<std::size_t>(most)));
  };
  // What stands around it, dropout's mask among it, and softmax and norms with respect to their rows.
  expect_kernels(1, tanh(silu(x) * x) + x, {x});
  expect_kernels(1, dropout(x, 0.9, 3) * x, {x});
  expect_kernels(1, softmax(x), {x});
  expect_kernels(1, log_softmax(x), {x});
  expect_kernels(1, cross_entropy(x, Tensor::input("labels", DType::i32, {256})), {x});
  expect_kernels(1, layer_norm(x, -1, {.scale = scale, .bias = bias}), {x});
  expect_kernels(1, rms_norm(x, -1, {.scale = scale}), {x});
  // Sums over rows for the scale and the bias.
  expect_kernels(3, layer_norm(x, -1, {.scale = scale, .bias = bias}), {x, scale, bias});
  const Tensor w = f32("w", {1024, 512}), b = f32("b", {512});
  expect_kernels(3, linear(x, w, b), {x, w, b});
  expect_kernels(1, x.cumsum(1), {x});
  // Convolutions with padding: one product each. With steps, elements of the image come from the product in phases,
  // which a result that is read by no kernel is put together from.
  const Tensor image = f32("image", {4, 16, 32, 32}), kernel = f32("kernel", {32, 16, 3, 3});
  expect_kernels(2, conv(image, kernel, {.low = {1, 1}, .high = {1, 1}}), {image, kernel});
  const Tensor strided = conv(image, kernel, {.strides = {2, 2}, .low = {1, 1}, .high = {1, 1}});
  expect_kernels(3, strided, {image, kernel});
  expect_kernels(1, strided, {kernel});
  // Windows that do not overlap, and windows that do, where the largest is found first.
  expect_kernels(1, max_pool(image, {.sizes = {2, 2}, .strides = {2, 2}}), {image});
  expect_kernels(2, max_pool(image, {.sizes = {3, 3}, .strides = {2, 2}, .low = {1, 1}, .high = {1, 1}}), {image});
}

}  // namespace
}  // namespace vkfuse::test
