// Reductions of contractions, through views, and what is computed from them: the epilogue reductions of the matmul
// template.
#include <gtest/gtest.h>

#include <numeric>

#include "support/compare.hpp"
#include "support/fuzz.hpp"
#include "support/random.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

/// Costs at which the planner makes as few kernels as it can, and at which it moves as few bytes.
constexpr CostModel kFewKernels = {1000, 3e4, 1e4, 1e6};
constexpr CostModel kFewBytes = {0.001, 1, 1e6, 1e9};

/// Draws `view? reduce(elementwise?(view?(contraction)))` with an epilogue that reads operands of the reduced shape.
class ReducedContraction {
 public:
  explicit ReducedContraction(std::uint64_t seed) : random_(seed_of(seed, "reduced contraction")) {}

  RandomGraph draw() {
    Tensor product = contraction();
    if (random_.chance(60)) product = permuted(product);
    const Tensor sums = product;
    if (random_.chance(50)) product = elementwise(product);
    std::vector<Tensor> results;
    Tensor reduced = epilogue(reduction(product));
    // A second reduction of the same rows, as a variance beside a mean.
    if (random_.chance(30)) results.push_back(reduction(product * product));
    if (random_.chance(25)) results.push_back(product);
    // The contraction itself beside what is reduced of it, as a norm's gradient has it.
    if (random_.chance(25)) results.push_back(elementwise(sums));
    results.insert(results.begin(), reduced);
    RandomGraph made;
    made.graph = graph_of(results);
    return made;
  }

 private:
  Tensor input(const Shape& shape) { return Tensor::input(fmt::format("x{}", inputs_++), dtype_, shape); }

  /// [free axes of a, free axes of b], contracted over one or two axes.
  Tensor contraction() {
    const std::vector<std::int64_t> rows = {1, 2, 3, 4, 5, 8, 16}, columns = {4, 8, 16, 32, 64},
                                    deep = {3, 4, 8, 16, 36};
    dtype_ = random_.chance(30) ? DType::f16 : DType::f32;
    Shape a, b;
    for (std::size_t i = 1 + random_.below(3); i > 0; --i) a.emplace_back(random_.pick(rows));
    const std::int64_t k = random_.pick(deep);
    a.emplace_back(k);
    b.emplace_back(k);
    b.emplace_back(random_.pick(columns));
    return matmul(input(a), input(b));
  }

  Tensor permuted(const Tensor& x) {
    std::vector<int> axes(x.shape().size());
    std::iota(axes.begin(), axes.end(), 0);
    for (std::size_t i = axes.size(); i > 1; --i) std::swap(axes[i - 1], axes[random_.below(i)]);
    return x.permute(axes);
  }

  /// An operand that broadcasts to the shape.
  Tensor beside(const Shape& shape) {
    Shape part = shape;
    for (Dim& dim : part) {
      if (random_.chance(40)) dim = Dim(1);
    }
    return input(part);
  }

  Tensor elementwise(const Tensor& x) {
    const std::size_t kind = random_.below(4);
    if (kind == 0) return x + beside(x.shape());
    if (kind == 1) return Tensor::apply("tanh", {x});
    if (kind == 2) return Tensor::apply("relu", {x * beside(x.shape())});
    return x * x;
  }

  Tensor reduction(const Tensor& x) {
    if (axes_.empty()) {
      const auto rank = static_cast<int>(x.shape().size());
      for (int axis = 0; axis < rank; ++axis) {
        if (random_.chance(55)) axes_.push_back(axis);
      }
      if (axes_.empty()) axes_.push_back(static_cast<int>(random_.below(static_cast<std::size_t>(rank))));
    }
    const std::size_t kind = random_.below(4);
    return kind == 0 ? x.sum(axes_) : kind == 1 ? x.mean(axes_) : kind == 2 ? x.max(axes_) : x.min(axes_);
  }

  Tensor epilogue(Tensor x) {
    const Shape reduced = x.shape();
    if (random_.chance(50)) {
      Shape other = reduced;
      for (std::size_t i = 1 + random_.below(2); i > 0; --i)
        other.insert(other.begin() + static_cast<std::ptrdiff_t>(random_.below(other.size() + 1)), Dim(1));
      x = x.reshape(other);
      if (random_.chance(50)) x = x.reshape(reduced);
    }
    for (std::size_t i = random_.below(3); i > 0; --i) x = elementwise(x);
    if (random_.chance(60)) x = x * 0.125 + input(x.shape());
    if (random_.chance(30)) x = permuted(x);
    return x;
  }

  Random random_;
  DType dtype_ = DType::f32;
  int inputs_ = 0;
  std::vector<int> axes_;
};

TEST(EpilogueReductions, RandomReductionsOfContractions) {
  RandomSuite suite{
      "EpilogueReductions.RandomReductionsOfContractions", 40, schedule::Template::matmul, false, false, {}, {}};
  suite.draw = [](std::uint64_t seed) { return ReducedContraction(seed).draw(); };
  suite.build = [](std::uint64_t seed) {
    Build how = random_build(seed, false);
    how.fusion = true;
    if (seed % 4 != 0) how.costs = seed % 2 == 0 ? kFewKernels : kFewBytes;
    if (seed % 3 != 0) how.tuning.matmul = true;
    return how;
  };
  run_random(suite);
}

/// What is made of a reduction of the product and of one of an input is known when both are, and not before the
/// product. As the gradient of a sum of two norms, of which one is a product's.
TEST(EpilogueReductions, BesideReductionsOfOtherRows) {
  const Tensor product = matmul(Tensor::input("a", DType::f32, {64, 16}), Tensor::input("b", DType::f32, {16, 32}));
  const Tensor other = Tensor::input("h", DType::f32, {64, 32}), g = Tensor::input("g", DType::f32, {64, 32});
  const Tensor scale = (other * other).mean({1}).unsqueeze(1) + 1.0;
  const Tensor centred = product - product.mean({1}).unsqueeze(1);
  const Tensor slope = (centred * g).sum({1}).unsqueeze(1) * scale * scale;
  const ir::Graph graph = graph_of({centred + other / scale, slope * centred + other * scale});
  for (const CostModel& costs : {kFewKernels, kFewBytes}) {
    Build how;
    how.costs = costs;
    compare_with_reference(compile_graph(graph, how), graph, data_for({graph, {}, 3, false}), "two reductions");
  }
}

}  // namespace
}  // namespace vkfuse::test
