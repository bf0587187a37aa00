// What people compose of f64: fused and unfused, standard and strict, against the reference. And what a kernel of many
// functions of f64, each of dozens of statements, takes to compile.
#include <gtest/gtest.h>

#include <ctime>

#include "support/compare.hpp"
#include "support/slowness.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

Tensor input64(const char* name, Shape shape) { return Tensor::input(name, DType::f64, std::move(shape)); }

Tensor some_attention(bool causal) {
  AttentionOptions options;
  options.causal = causal;
  return attention(input64("q", {1, 2, 17, 16}), input64("k", {1, 2, 33, 16}), input64("v", {1, 2, 33, 8}), options);
}

struct Composition {
  const char* name;
  Tensor (*build)();
};
const Composition kCompositions[] = {
    {"softmax",
     [] {
       return softmax(input64("x", {9, 100}));
     }},
    {"softmax of long rows",
     [] {
       return softmax(input64("x", {3, 20000}));
     }},
    {"softmax along the first axis",
     [] {
       return softmax(input64("x", {70, 33}), 0);
     }},
    {"log softmax",
     [] {
       return log_softmax(input64("x", {9, 100}));
     }},
    {"the logarithm of a sum of exponentials",
     [] {
       return log_sum_exp(input64("x", {9, 1000}));
     }},
    {"cross entropy",
     [] {
       return cross_entropy(input64("x", {9, 50}), Tensor::iota(DType::i32, {9}, 0));
     }},
    {"silu", [] { return silu(input64("x", {1000})); }},
    {"gelu", [] { return gelu(input64("x", {1000})); }},
    {"gelu by tanh", [] { return gelu(input64("x", {1000}), GeluForm::tanh); }},
    {"a layer norm",
     [] {
       return layer_norm(input64("x", {9, 300}), -1, {.scale = input64("w", {300})});
     }},
    {"a norm",
     [] {
       return normalize(input64("x", {9, 300}), {1}, 1e-9) * input64("w", {300});
     }},
    {"a root mean square norm",
     [] {
       return rms_normalize(input64("x", {9, 300}), {1}, 1e-9);
     }},
    {"dropout", [] { return dropout(exp(input64("x", {1000})), 0.75, 3); }},
    {"attention", [] { return some_attention(false); }},
    {"causal attention", [] { return some_attention(true); }},
    {"a matmul and its epilogue",
     [] {
       return gelu(matmul(input64("a", {33, 40}), input64("b", {40, 20})) + input64("c", {20}));
     }},
};

TEST(Double, CompositionsAreRight) {
  if (!target().caps.arithmetic.float64) GTEST_SKIP() << "the device has no 64-bit floats";
  for (const Composition& one : kCompositions) {
    const ir::Graph graph = graph_of({one.build()});
    const Data data = data_for({graph, {}, 5, false});
    for (const bool fusion : {true, false}) {
      Build how;
      how.fusion = fusion;
      compare_with_reference(compile_graph(graph, how), graph, data, one.name);
      how.numerics = Numerics::strict;
      compare_with_reference(compile_graph(graph, how), graph, data, std::string(one.name) + ", strict");
    }
  }
}

TEST(Double, SoftmaxIsOneKernel) {
  if (!target().caps.arithmetic.float64) GTEST_SKIP() << "the device has no 64-bit floats";
  EXPECT_EQ(compile_graph(graph_of({softmax(input64("x", {9, 100}))}), Build()).kernel_count(), 1);
}

TEST(Double, ManyFunctionsCompileSoon) {
  if (!target().caps.arithmetic.float64) GTEST_SKIP() << "the device has no 64-bit floats";
  constexpr double kSeconds = 20;  // of this process; see compile_bounds_test.cpp
  const Tensor x = input64("x", {64});
  const Tensor y = exp(x) + log(abs(x) + 1.0) + sin(x) + atan(x) + tanh(x) + erf(x) + pow(abs(x), x) + sinh(x) +
                   asinh(x) + sigmoid(x) + rem(x, exp2(x)) + acos(tanh(x));
  const ir::Graph graph = graph_of({y});
  const std::clock_t start = std::clock();
  const Executable program = compile_graph(graph, Build());
  compare_with_reference(program, graph, data_for({graph, {}, 5, false}), "many functions");
  const double taken = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("many functions of f64: %.1f s, %d kernels\n", taken, program.kernel_count());
  EXPECT_LT(taken, kSeconds * slowness());
}

}  // namespace
}  // namespace vkfuse::test
