// What drivers compiled for minutes, or until memory was gone: long chains, nested functions, wide choices. Kernels are
// bounded, and results right.
#include <gtest/gtest.h>

#include <ctime>
#include <map>

#include "api/tensor_node.hpp"
#include "support/compare.hpp"
#include "support/slowness.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

/// Compiles and runs a graph, which is right; returns the seconds that it took this process, whatever else the machine
/// does: drivers compile in it.
double seconds_of(const ir::Graph& graph, const std::string& what, Numerics numerics = Numerics::standard) {
  const std::clock_t start = std::clock();
  Build how;
  how.numerics = numerics;
  const Executable program = compile_graph(graph, how);
  compare_with_reference(program, graph, data_for({graph, {}, 5, false}), what);
  const double taken = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%s: %.1f s, %d kernels\n", what.c_str(), taken, program.kernel_count());
  return taken;
}

/// Compiles and runs in seconds, and is right.
void expect_soon(const ir::Graph& graph, const std::string& what, Numerics numerics = Numerics::standard) {
  constexpr double kSeconds = 20;  // most take one, none three
  EXPECT_LT(seconds_of(graph, what, numerics), kSeconds * slowness()) << what;
}

// SwiftShader takes seconds for 200 ops. What is asked is that longer chains cost no more than their length.
TEST(CompileBounds, LongChains) {
  std::map<int, double> seconds;
  for (const int ops : {200, 800}) {
    Tensor x = Tensor::input("x", DType::f32, {64});
    for (int i = 0; i < ops / 4; ++i) x = tanh((x + 0.5) * 0.5) - 0.25;
    seconds[ops] = seconds_of(graph_of({x}), fmt::format("a chain of {} ops", ops));
  }
  EXPECT_LT(seconds[800], 10 * seconds[200] + 1) << "four times is its length, sixteen its square";
}

TEST(CompileBounds, NestedFunctions) {
  Tensor x = Tensor::input("x", DType::f32, {64});
  for (int i = 0; i < 24; ++i) x = sin(x);
  expect_soon(graph_of({x}), "24 nested sines");
}

// Every element of a scan is rounded, in a loop, where numerics are strict.
TEST(CompileBounds, ScansOfFewBits) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::i8}) {
    for (const Numerics numerics : {Numerics::standard, Numerics::strict}) {
      std::vector<Tensor> minima, sums;
      for (int i = 0; i < 6; ++i) {
        const Tensor x = Tensor::input(fmt::format("x{}", i), dtype, {1000});
        minima.push_back(x.cummin(0, true));
        sums.push_back((x + x).cumsum(0));
      }
      const std::string what = fmt::format("of {}{}", name_of(dtype), numerics == Numerics::strict ? ", strict" : "");
      expect_soon(must(api::to_graph(minima, {}, "minima")), "six running minima " + what, numerics);
      expect_soon(must(api::to_graph(sums, {}, "sums")), "six running sums " + what, numerics);
    }
  }
}

TEST(CompileBounds, SlicesInTheOppositeOrderAndTheirSum) {
  for (const int parts : {16, 28, 64}) {
    const Tensor x = Tensor::input("x", DType::f32, {5, 4 * parts});
    const Tensor square = x * x;
    std::vector<Tensor> slices;
    for (int i = parts; i-- > 0;) slices.push_back(square.slice(1, 4 * i, 4 * i + 4));
    const Tensor joined = concat(slices, 1);
    expect_soon(graph_of({joined, (joined + square).sum({1}, true)}),
                fmt::format("{} slices, stored and summed", parts));
    expect_soon(graph_of({joined.sum({1})}), fmt::format("the sum of {} slices", parts));
  }
}

// Choices are made for each element of a factor that a thread stages in a loop.
TEST(CompileBounds, AFactorOfSlicesInTheOppositeOrder) {
  for (const int parts : {4, 9, 16}) {
    const Tensor x = Tensor::input("x", DType::f32, {33, 3 * parts}),
                 w = Tensor::input("w", DType::f32, {3 * parts, 20});
    std::vector<Tensor> slices;
    for (int i = parts; i-- > 0;) slices.push_back((x * x).slice(1, 3 * i, 3 * i + 3));
    expect_soon(graph_of({matmul(concat(slices, 1), w)}), fmt::format("a factor of {} slices", parts));
  }
}

TEST(CompileBounds, ConcatenationsOfFewValuesVeryOften) {
  const Tensor x = Tensor::input("x", DType::f32, {3, 4}), z = Tensor::input("z", DType::f32, {3, 2});
  expect_soon(graph_of({concat(std::vector<Tensor>(1000, x), 1)}), "a value beside itself 1,000 times");
  expect_soon(graph_of({concat(std::vector<Tensor>(1000, x), 0).sum({1})}), "and its sums");
  std::vector<Tensor> both;
  for (int i = 0; i < 150; ++i) both.insert(both.end(), {x, z});
  expect_soon(graph_of({concat(both, 1)}), "two values in turn");
  Tensor doubled = Tensor::input("x", DType::f32, {2});
  for (int i = 0; i < 16; ++i) doubled = concat({doubled, doubled}, 0);
  expect_soon(graph_of({doubled}), "a value doubled 16 times");
  Tensor mirrored = Tensor::input("x", DType::f32, {2});
  for (int i = 0; i < 12; ++i) mirrored = concat({mirrored, mirrored.reverse({0})}, 0);
  expect_soon(graph_of({mirrored}), "a value and its reverse, 12 times");
}

}  // namespace
}  // namespace vkfuse::test
