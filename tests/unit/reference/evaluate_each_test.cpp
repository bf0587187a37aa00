// Several values together: each element once, dense sums of products as those of single elements, within a memory,
// until a deadline.
#include <cmath>
#include <limits>

#include "api/tensor_node.hpp"
#include "unit/reference/evaluated.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

constexpr double kUndecided = std::numeric_limits<double>::infinity();

std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(static_cast<float>(random.between(-2, 2)));
  return all;
}

ir::Graph graph_to_all(const std::vector<Tensor>& tensors) { return must(api::to_graph(tensors, {}, "g")); }

Tensor stored(std::size_t count, std::uint64_t seed, const Shape& shape) {
  const std::vector<float> elements = numbers(count, seed);
  return Tensor::constant(DType::f32, shape, std::as_bytes(std::span(elements)));
}

/// All elements of every output.
std::vector<reference::Request> all_outputs(const ir::Graph& graph) {
  std::vector<reference::Request> requests;
  for (const ir::Output& output : graph.outputs()) requests.push_back({output.value, std::nullopt});
  return requests;
}

void expect_same(const reference::Column& got, const reference::Column& want, const std::string& what) {
  ASSERT_EQ(got.bound.size(), want.bound.size()) << what;
  for (std::size_t i = 0; i < want.bound.size(); ++i) {
    EXPECT_TRUE(got.value[i] == want.value[i] || (std::isnan(got.value[i]) && std::isnan(want.value[i])))
        << what << " " << i << ": " << got.value[i] << " " << want.value[i];
    EXPECT_EQ(got.integer[i], want.integer[i]) << what << " " << i;
    EXPECT_EQ(got.bound[i], want.bound[i]) << what << " " << i;
  }
}

/// Attention over windows, twice, each with a norm before and a multilayer perceptron after it.
Tensor windowed(Tensor x, std::int64_t rows, std::int64_t width) {
  const auto weight = [&](int layer, std::int64_t from, std::int64_t to) {
    return stored(static_cast<std::size_t>(from * to), static_cast<std::uint64_t>(layer), {from, to});
  };
  for (int layer = 0; layer < 2; ++layer) {
    const Tensor y =
        normalize(x, {-1}, 1e-5).reshape({rows / 8, 2, 4, width}).permute({1, 0, 2, 3}).reshape({rows / 4, 4, width});
    const Tensor q = matmul(y, weight(4 * layer + 1, width, width)), k = matmul(y, weight(4 * layer + 2, width, width));
    const Tensor mixed = matmul(softmax(matmul(q, k.swap_dims(1, 2)) * 0.1), y);
    x = x + mixed.reshape({2, rows / 8, 4, width}).permute({1, 0, 2, 3}).reshape({rows, width});
    x = x + matmul(silu(matmul(x, weight(4 * layer + 3, width, 2 * width))), weight(4 * layer + 4, 2 * width, width));
  }
  return x;
}

TEST(EvaluateEach, ComputesEachElementOfAValueOnce) {
  const Tensor x = Tensor::input("x", DType::f32, {32, 24});
  const Tensor y = windowed(x, 32, 24);
  const ir::Graph graph = graph_to_all({y, y.argsort(1), y.sum({0}), y.cumsum(1) + y.take_along(y.argmax(1, true), 1)});
  const Inputs inputs = Inputs().add("x", numbers(32 * 24, 5));
  std::vector<std::int64_t> computed;
  const auto columns =
      must(reference::evaluate_each(graph, all_outputs(graph), inputs.input_bindings(), {.computed = &computed}));
  ASSERT_EQ(columns.size(), 4U);
  std::int64_t products = 0;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    const bool is_leaf = node.op->cls == ops::OpClass::input || node.op->cls == ops::OpClass::constant;
    const std::int64_t count =
        is_leaf || node.op->name == "reshape" ? 0 : must(element_count(must(resolve(node.type.shape, {}))));
    EXPECT_EQ(computed[id], count) << id << " " << node.op->name;
    products += node.op->cls == ops::OpClass::contraction ? 1 : 0;
  }
  EXPECT_GE(products, 12);
}

TEST(EvaluateEach, ComputesWhatFewElementsNeed) {
  const Tensor x = Tensor::input("x", DType::f32, {512, 64});
  const Tensor y = matmul(exp(x), stored(64 * 2048, 1, {64, 2048})) * 3.0;
  const ir::Graph graph = graph_to_all({y});
  const Inputs inputs = Inputs().add("x", numbers(512 * 64, 2));
  std::vector<std::int64_t> computed;
  const std::vector<reference::Request> few = {
      {graph.outputs()[0].value, std::vector<std::int64_t>{3, 2048 * 100, 2048 * 511 + 7, 3}}};
  const auto some = must(reference::evaluate_each(graph, few, inputs.input_bindings(), {.computed = &computed}));
  std::int64_t all = 0;
  for (const std::int64_t count : computed) all += count;
  EXPECT_LT(all, 2000) << "three rows and four sums";
  const auto whole = must(reference::evaluate(graph, graph.outputs()[0].value, inputs.input_bindings()));
  for (std::size_t i = 0; i < few[0].indices->size(); ++i) {
    EXPECT_EQ(some[0].value[i], whole.value[static_cast<std::size_t>((*few[0].indices)[i])]);
    EXPECT_EQ(some[0].bound[i], whole.bound[static_cast<std::size_t>((*few[0].indices)[i])]);
  }
}

/// What takes more than the memory gives the same.
TEST(EvaluateEach, KeepsToItsMemory) {
  const Tensor x = Tensor::input("x", DType::f32, {32, 24});
  const Tensor y = windowed(x, 32, 24);
  const Tensor image = Tensor::input("i", DType::f32, {1, 3, 12, 12});
  const Tensor convolved = conv(image, stored(5 * 3 * 9, 9, {5, 3, 3, 3}), {.low = {1, 1}, .high = {1, 1}});
  ASSERT_TRUE(convolved.valid()) << convolved.error().text();
  const ir::Graph graph = graph_to_all({y, relu(convolved).sum({1})});
  const Inputs inputs = Inputs().add("x", numbers(32 * 24, 5)).add("i", numbers(3 * 144, 6));
  const auto want = must(reference::evaluate_each(graph, all_outputs(graph), inputs.input_bindings()));
  for (const std::int64_t bytes : {0, 1000, 30000, 60000, 120000, 400000}) {
    const auto got =
        must(reference::evaluate_each(graph, all_outputs(graph), inputs.input_bindings(), {.memory_bytes = bytes}));
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_same(got[i], want[i], fmt::format("{} bytes, output {}", bytes, i));
  }
}

TEST(EvaluateEach, ComputesLongChainsWhereTheyAreReadWithinTheStack) {
  Tensor x = Tensor::input("x", DType::f32, {1000});
  for (int i = 0; i < 20000; ++i) x = x + 1.0;
  const ir::Graph graph = graph_to_all({x.sum({0})});
  const Inputs inputs = Inputs().add("x", std::vector<float>(1000, 0));
  for (const std::int64_t bytes : {0, 20000, 40000}) {
    const auto y =
        must(reference::evaluate_each(graph, all_outputs(graph), inputs.input_bindings(), {.memory_bytes = bytes}));
    EXPECT_EQ(y[0].value, std::vector<double>{2e7}) << bytes;
  }
}

TEST(EvaluateEach, EndsAtItsDeadline) {
  const Tensor y = windowed(Tensor::input("x", DType::f32, {32, 24}), 32, 24);
  const ir::Graph graph = graph_to_all({y});
  const Inputs inputs = Inputs().add("x", numbers(32 * 24, 5));
  const auto late = reference::evaluate_each(graph, all_outputs(graph), inputs.input_bindings(),
                                             {.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1)});
  ASSERT_FALSE(late.ok());
  EXPECT_TRUE(reference::has_timed_out(late.error())) << late.error().message;
  const std::vector<reference::Request> one = {{graph.outputs()[0].value, std::vector<std::int64_t>{1}}};
  EXPECT_FALSE(reference::evaluate_each(graph, one, inputs.input_bindings(),
                                        {.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1)})
                   .ok());
  EXPECT_TRUE(reference::evaluate_each(graph, one, inputs.input_bindings(),
                                       {.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1)})
                  .ok());
  EXPECT_LT(must(reference::modelled_seconds(graph, one, inputs.input_bindings())), 0.1);
  const ir::Graph large = graph_to_all({windowed(Tensor::input("x", DType::f32, {32000, 240}), 32000, 240)});
  EXPECT_GT(must(reference::modelled_seconds(large, all_outputs(large), {})), 1);
}

// Dense sums of products. -------------------------------------------------------------------------

/// f32 products and their sum as the standard of bounds says, one after the other.
void expect_dot(const reference::Column& y, std::size_t at, std::span<const double> a, std::span<const double> ea,
                std::span<const double> b, std::span<const double> eb, const std::string& what) {
  double sum = 0, spread = 0, magnitude = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double value = a[k] * b[k];
    double bound = std::abs(a[k]) * eb[k] + std::abs(b[k]) * ea[k] + ea[k] * eb[k];
    if (value != 0 || bound != 0) bound += 0x1p-23 * std::abs(value) + 0x1p-126;
    sum += value;
    spread += bound;
    magnitude += std::abs(value) + bound;
  }
  const double want = a.size() > 1 ? spread + static_cast<double>(a.size()) * 0x1p-23 * magnitude : spread;
  EXPECT_NEAR(y.value[at], sum, 1e-13 * magnitude) << what << " " << at;
  EXPECT_NEAR(y.bound[at], want, 1e-12 * want + 1e-30) << what << " " << at;
}

TEST(DenseDot, HasTheBoundsOfItsProducts) {
  for (const auto& [rows, length, columns] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t>{131, 300, 9}, {1, 7, 200}, {5, 1, 6}, {3, 1030, 2}}) {
    const Tensor a = exp(Tensor::input("a", DType::f32, {rows, length})),
                 given = Tensor::input("b", DType::f32, {length, columns}), b = sin(given);
    const ir::Graph graph =
        graph_to_all({a, b, matmul(a, b), matmul(a, given), matmul(given.transpose(), a.transpose())});
    const std::vector<float> weights = numbers(static_cast<std::size_t>(length * columns), 8);
    const Inputs inputs = Inputs().add("a", numbers(static_cast<std::size_t>(rows * length), 7)).add("b", weights);
    const auto columns_of = must(reference::evaluate_each(graph, all_outputs(graph), inputs.input_bindings()));
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    for (std::int64_t m = 0; m < rows; m += 13) {
      for (std::int64_t n = 0; n < columns; ++n) {
        std::vector<double> left, left_error, right, right_error, plain, none(at(length), 0);
        for (std::int64_t k = 0; k < length; ++k) {
          left.push_back(columns_of[0].value[at(m * length + k)]);
          left_error.push_back(columns_of[0].bound[at(m * length + k)]);
          right.push_back(columns_of[1].value[at(k * columns + n)]);
          right_error.push_back(columns_of[1].bound[at(k * columns + n)]);
          plain.push_back(static_cast<double>(weights[at(k * columns + n)]));
        }
        expect_dot(columns_of[2], at(m * columns + n), left, left_error, right, right_error, "both computed");
        expect_dot(columns_of[3], at(m * columns + n), left, left_error, plain, none, "times stored");
        expect_dot(columns_of[4], at(n * rows + m), plain, none, left, left_error, "stored times");
      }
    }
  }
}

TEST(DenseDot, IsThatOfSingleElements) {
  const Tensor a = Tensor::input("a", DType::f32, {2, 13, 40}), b = Tensor::input("b", DType::f32, {2, 40, 11});
  const Tensor i = Tensor::input("i", DType::i8, {9, 30}), u = Tensor::input("u", DType::i64, {30, 5});
  // NaN, infinities, what may overflow, denormals and what a rounding decides, in some lines.
  const Tensor steps = floor(a * 3.0);
  const std::vector<Tensor> results = {
      matmul(exp(a), b),
      matmul(a, exp(b)),
      matmul(exp(a).cast(DType::f16), b.cast(DType::f16)),
      matmul(a.cast(DType::f64), b.cast(DType::f64)),
      matmul(steps, b),
      matmul(a, floor(b * 5.0)),
      matmul(i, i.transpose()),
      matmul(u.transpose(), u),
      matmul(steps.cast(DType::i32), floor(b).cast(DType::i32)),
      conv(b.reshape({2, 1, 40, 11}), a.reshape({2 * 13, 40}).slice(0, 0, 8).slice(1, 0, 9).reshape({8, 1, 3, 3}),
           {.low = {1, 0}, .high = {0, 1}})};
  std::vector<float> left = numbers(2 * 13 * 40, 1), right = numbers(2 * 40 * 11, 2);
  left[3 * 40 + 5] = INFINITY;
  left[4 * 40 + 6] = NAN;
  left[5 * 40 + 7] = 3e38F;
  left[7 * 40 + 9] = 1e-42F;
  left[8 * 40 + 9] = 1.0F / 3;  // times 3 is about 1
  right[13 * 11 + 2] = -INFINITY;
  right[14 * 11 + 3] = -3e38F;
  std::vector<std::int8_t> bytes;
  std::vector<std::int64_t> longs;
  Random random(4);
  for (int k = 0; k < 270; ++k) bytes.push_back(static_cast<std::int8_t>(random.below(256)));
  for (int k = 0; k < 150; ++k) longs.push_back(static_cast<std::int64_t>(random.below(1000000007)) * 9223372037LL);
  const Inputs inputs = Inputs().add("a", left).add("b", right).add("i", bytes).add("u", longs);
  for (std::size_t k = 0; k < results.size(); ++k) {
    ASSERT_TRUE(results[k].valid()) << k << ": " << results[k].error().text();
    const ir::Graph graph = graph_to_all({results[k]});
    const ir::NodeId value = graph.outputs()[0].value;
    const auto dense = must(reference::evaluate(graph, value, inputs.input_bindings()));
    const auto alone =
        must(reference::evaluate_each(graph, all_outputs(graph), inputs.input_bindings(), {.memory_bytes = 0}));
    expect_same(dense, alone[0], fmt::format("result {}", k));
  }
  const auto whole = must(reference::evaluate(graph_to_all({results[4]}), graph_to_all({results[4]}).outputs()[0].value,
                                              inputs.input_bindings()));
  EXPECT_TRUE(std::isnan(whole.value[4 * 11]) && whole.bound[4 * 11] == 0);
  EXPECT_EQ(whole.bound[8 * 11 + 5], kUndecided);
  const auto integers = must(reference::evaluate(
      graph_to_all({results[8]}), graph_to_all({results[8]}).outputs()[0].value, inputs.input_bindings()));
  EXPECT_EQ(integers.bound[8 * 11 + 5], kUndecided) << "a sum of what a rounding decides is not decided";
  EXPECT_EQ(integers.bound[9 * 11 + 5], 0);
}

}  // namespace
}  // namespace vkfuse::test
