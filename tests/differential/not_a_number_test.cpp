// NaN in comparisons, selects, minima and maxima, however they are written. Compilers of drivers make a minimum of a
// select that looks like one, which gives the operand that is a number (an H200, driver 580), unless an execution mode
// says that NaN is kept.
#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kElements = 400;

/// What elements are compared with: a tensor, or a constant.
struct Other {
  const char* name;
  Tensor (*build)(DType dtype);
};
const Other kOthers[] = {{"tensor", [](DType dtype) { return Tensor::input("y", dtype, {kElements}); }},
                         {"zero", [](DType dtype) { return Tensor::scalar(dtype, 0); }},
                         {"one", [](DType dtype) { return Tensor::scalar(dtype, 1); }},
                         {"infinity", [](DType dtype) { return Tensor::scalar(dtype, INFINITY); }},
                         {"minus_infinity", [](DType dtype) { return Tensor::scalar(dtype, -INFINITY); }}};

void check(const std::vector<Tensor>& outputs, const std::string& what) {
  const ir::Graph graph = graph_of(outputs);
  for (const bool fusion : {true, false}) {
    const Executable program = compile_graph(graph, {.fusion = fusion});
    compare_with_reference(program, graph, data_for({graph, {}, 5, true}), what + (fusion ? "" : ", unfused"));
  }
}

class NotANumber : public testing::TestWithParam<Other> {};

TEST_P(NotANumber, DecidesSelectsAsItsComparisonSays) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor loaded = Tensor::input("x", dtype, {kElements}), other = GetParam().build(dtype);
    for (const Tensor& x : {loaded, -loaded}) {
      for (const auto& compare : {lt, le, gt, ge}) {
        const Tensor one = compare(x, other), turned = compare(other, x);
        check({select(one, x, other), select(one, other, x), select(turned, x, other), select(turned, other, x)},
              fmt::format("{} and {}", name_of(dtype), GetParam().name));
      }
      check({select(eq(x, other), x, other), select(eq(x, other), other, x), select(ne(x, other), x, other),
             select(ne(loaded, loaded), other, x), select(is_nan(x), other, x)},
            fmt::format("equal ones of {} and {}", name_of(dtype), GetParam().name));
    }
  }
}

TEST_P(NotANumber, IsTheLeastAndTheLargest) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Tensor x = Tensor::input("x", dtype, {kElements}), other = GetParam().build(dtype);
    check({max(x, other), max(other, x), min(x, other), min(other, x)},
          fmt::format("{} and {}", name_of(dtype), GetParam().name));
    check({clamp(x, other, Tensor::scalar(dtype, 2)), clamp(x, Tensor::scalar(dtype, -2), other), relu(x),
           relu(max(x, other) * 2.0)},
          fmt::format("clamped {} and {}", name_of(dtype), GetParam().name));
  }
}

INSTANTIATE_TEST_SUITE_P(Differential, NotANumber, testing::ValuesIn(kOthers),
                         [](const auto& other) { return std::string(other.param.name); });

}  // namespace
}  // namespace vkfuse::test
