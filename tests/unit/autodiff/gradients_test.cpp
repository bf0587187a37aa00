// Gradients against central differences in f64 by the reference, at kinks and poles, and what is refused.
#include "vkfuse/gradients.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "api/tensor_node.hpp"
#include "autodiff/rules.hpp"
#include "passes/passes.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "support/folder.hpp"
#include "support/gradient_cases.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/custom.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

reference::InputBindings bindings_of(const Data& data) {
  reference::InputBindings bindings;
  for (const auto& [name, bytes] : data.inputs) bindings.inputs[name] = bytes;
  bindings.symbols = data.symbols;
  return bindings;
}

std::vector<std::vector<double>> values_of(const ir::Graph& graph, const Data& data) {
  std::vector<reference::Request> requests;
  for (const ir::Output& output : graph.outputs()) requests.push_back({output.value, {}});
  std::vector<std::vector<double>> values;
  for (reference::Column& column : must(reference::evaluate_each(graph, requests, bindings_of(data))))
    values.push_back(std::move(column.value));
  return values;
}

std::vector<std::vector<double>> values_of(const std::vector<Tensor>& tensors, const Data& data) {
  return values_of(must(api::to_graph(tensors, {}, "values")), data);
}

constexpr std::size_t kElements = 10;  // of an operand, whose differences are taken

/// Of sum(cotangent * y), for some elements of each operand.
void compare_with_differences(const std::string& name, GradientDraw& d, const Tensor& y) {
  ASSERT_TRUE(y.valid()) << name << ": " << y.error().text();
  Data data = d.data;
  const ir::Graph forward = must(api::to_graph(std::span(&y, 1), {}, "forward"));
  const std::size_t count = values_of(forward, data)[0].size();
  std::vector<double> cotangent;
  for (std::size_t i = 0; i < count; ++i) {
    cotangent.push_back(d.random.between(-1, 1));
    ir::encode(DType::f64, cotangent.back(), data.inputs["g"]);
  }
  data.inputs["g"];
  const Tensor g = Tensor::input("g", DType::f64, y.shape());
  const std::vector<Tensor> taken = gradients(std::span(&y, 1), d.wrt, std::span(&g, 1));
  for (const Tensor& one : taken) ASSERT_TRUE(one.valid()) << name << ": " << one.error().text();
  const auto got = values_of(taken, data);
  const auto total_at = [&](const std::string& input, std::size_t element, double value) {
    Data moved = data;
    std::vector<std::byte> bytes;
    ir::encode(DType::f64, value, bytes);
    std::copy(bytes.begin(), bytes.end(), moved.inputs.at(input).begin() + static_cast<std::ptrdiff_t>(8 * element));
    const std::vector<double> elements = values_of(forward, moved)[0];
    double total = 0;
    for (std::size_t i = 0; i < count; ++i) total += cotangent[i] * elements[i];
    return total;
  };
  for (std::size_t operand = 0; operand < d.wrt.size(); ++operand) {
    const std::string& input = std::get<ir::InputPayload>(d.wrt[operand].node()->payload).name;
    const std::size_t elements = data.inputs.at(input).size() / 8;
    ASSERT_EQ(got[operand].size(), elements) << name;
    for (std::size_t i = 0; i < std::min(elements, kElements); ++i) {
      const std::size_t at = elements <= kElements ? i : d.random.below(elements);
      const double x = ir::decode(DType::f64, data.inputs.at(input).data() + 8 * at), step = 1e-6;
      const double slope = (total_at(input, at, x + step) - total_at(input, at, x - step)) / (2 * step);
      EXPECT_NEAR(got[operand][at], slope, 2e-6 * (1 + std::abs(slope)))
          << name << ", operand " << operand << " of " << to_text(d.wrt[operand].shape()) << ", element " << at;
    }
  }
}

TEST(Gradients, AreThoseOfCentralDifferences) {
  std::set<std::string_view> seen{"cast"};  // whose differences are rounded away: AreOfInputsAndOf...
  for (const GradientFamily& family : gradient_families()) {
    for (std::uint64_t seed = 1; seed <= 25; ++seed) {
      GradientDraw d(seed_of(seed, family.name), DType::f64);
      const Tensor y = family.make(d);
      compare_with_differences(fmt::format("{}, seed {}", family.name, seed), d, y);
      if (HasFailure()) return;
      const ir::Graph graph = must(api::to_graph(std::span(&y, 1), {}, "forward"));
      for (const ir::Node& node : graph.nodes()) seen.insert(node.op->name);
    }
  }
  for (const ops::OpRow& row : ops::table()) {
    if (autodiff::row_of(row).kind == autodiff::Kind::rule) {
      EXPECT_TRUE(seen.contains(row.name)) << row.name;
    }
  }
}

TEST(Gradients, AreThoseOfCentralDifferencesWithSymbols) {
  int checked = 0;
  for (const GradientFamily& family : gradient_families()) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      GradientDraw d(seed_of(seed, family.name), DType::f64, true);
      const Tensor y = family.make(d);
      if (!y.valid() || d.data.symbols.empty()) continue;  // it takes numbers, or drew no others
      compare_with_differences(fmt::format("{} with symbols, seed {}", family.name, seed), d, y);
      if (HasFailure()) return;
      ++checked;
    }
  }
  EXPECT_GE(checked, 600);
}

TEST(Gradients, EveryOpHasARuleOrTheReasonWhyNot) {
  const auto expect = [](const ops::OpRow& op) {
    const autodiff::GradientRow& row = autodiff::row_of(op);
    EXPECT_EQ(row.doc.empty(), row.kind == autodiff::Kind::discrete) << op.name;
    // What is no float has no gradient, and nothing else may lose one silently.
    const bool gives_floats = op.signature != ops::Signature::compare && op.signature != ops::Signature::position &&
                              (op.types & ops::kFloats) != 0 && op.arity != 0;
    EXPECT_EQ(row.kind == autodiff::Kind::discrete, !gives_floats) << op.name;
  };
  for (const ops::OpRow& op : ops::table()) expect(op);
  EXPECT_EQ(autodiff::row_of(ops::row("custom")).kind, autodiff::Kind::refused);
  EXPECT_EQ(autodiff::row_of(ops::row("custom_kernel")).kind, autodiff::Kind::refused);
}

TEST(GradientDocument, HasTheTable) {
  const std::filesystem::path path = tests_folder() / "../docs/gradients.md";
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string page = text.str(), table = autodiff::rules_markdown();
  const std::string before = page.substr(0, page.find("| op | gradient |"));
  if (std::getenv("VKFUSE_UPDATE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << before + table;
  EXPECT_EQ(page, before + table) << "VKFUSE_UPDATE_DOCS=1 writes it.";
}

// --- kinks, zeros and poles ---

Tensor of(const std::vector<double>& elements) {
  std::vector<std::byte> bytes;
  for (const double element : elements) ir::encode(DType::f64, element, bytes);
  return Tensor::constant(DType::f64, {static_cast<std::int64_t>(elements.size())}, bytes);
}

std::vector<double> gradient(const Tensor& y, const Tensor& x) {
  const std::vector<Tensor> taken = gradients({y}, {x});
  if (!taken[0].valid()) throw std::runtime_error(taken[0].error().text());
  return values_of(taken, {})[0];
}

void expect_gradient(const Tensor& y, const Tensor& x, const std::vector<double>& wanted) {
  const std::vector<double> got = gradient(y, x);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i];
    } else if (std::isinf(wanted[i])) {
      EXPECT_EQ(got[i], wanted[i]) << "element " << i;
    } else {
      EXPECT_NEAR(got[i], wanted[i], 1e-12) << "element " << i;
    }
  }
}

TEST(Gradients, AreAsStatedAtKinks) {
  const Tensor x = of({-1, 0, 0, 2});
  expect_gradient(abs(x), x, {-1, 0, 0, 1});
  expect_gradient(relu(x), x, {0, 0, 0, 1});
  const Tensor zero = of({0, 0, 1, 2});
  expect_gradient(max(x, zero), x, {0, 0.5, 0, 0.5});
  expect_gradient(max(x, zero), zero, {1, 0.5, 1, 0.5});
  expect_gradient(min(x, zero), x, {1, 0.5, 1, 0.5});
  const Tensor low = of({0, 0, 0, 0}), high = of({1, 1, 0, 2});
  expect_gradient(clamp(x, low, high), x, {0, 1, 1, 1});
  expect_gradient(clamp(x, low, high), low, {1, 0, 0, 0});
  expect_gradient(clamp(of({3, 3, 3, 3}), low, high), high, {1, 1, 1, 1});
  expect_gradient(clamp(of({-3, 0, 1, 3}), of({2, 2, 2, 2}), of({1, 1, 1, 1})), x, {0, 0, 0, 0});
  expect_gradient(floor(x) * 3.0 + sign(x) + round(x), x, {0, 0, 0, 0});
  expect_gradient(x.max(), x, {0, 0, 0, 1});
  expect_gradient(zero.min(), zero, {1, 0, 0, 0});  // the first of equal ones
  expect_gradient(x.cummax(0), x, {1, 2, 0, 1});
}

/// Of sum(c cumprod(x)), by loops: the sum over l of d^2 / dx_k dx_l.
std::vector<double> second_order_of_products(const std::vector<double>& x, const std::vector<double>& c, bool exclusive,
                                             bool reverse) {
  const auto n = static_cast<int>(x.size());
  const auto at = [&](int i) { return static_cast<std::size_t>(reverse ? n - 1 - i : i); };
  std::vector<double> sums(x.size());
  for (int k = 0; k < n; ++k) {
    for (int l = 0; l < n; ++l) {
      for (int j = std::max(k, l) + (exclusive ? 1 : 0); j < n && k != l; ++j) {
        double others = c[at(j)];
        for (int i = 0; i < j + (exclusive ? 0 : 1); ++i) others *= i == k || i == l ? 1 : x[at(i)];
        sums[at(k)] += others;
      }
    }
  }
  return sums;
}

TEST(Gradients, OfSecondOrderAreExactWhereFactorsAreZero) {
  for (const std::vector<double>& x : {std::vector<double>{2, 0, 3, 0, 5}, {0, 4, 0, 0}, {2, 3, 5}, {0, 7, 2}}) {
    const std::vector<double> weights{3, -1, 2, 5, 4};
    const std::vector<double> c(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(x.size()));
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        const Tensor factors = of(x);
        const Tensor first = gradients({factors.cumprod(0, exclusive, reverse)}, {factors}, {of(c)})[0];
        expect_gradient(first, factors, second_order_of_products(x, c, exclusive, reverse));
      }
    }
    const Tensor factors = of(x);
    std::vector<double> last(x.size());
    last.back() = 1;
    expect_gradient(gradients({factors.prod()}, {factors})[0], factors,
                    second_order_of_products(x, last, false, false));
  }
}

TEST(Gradients, OfRunningProductsCountACotangentOfTheElementsOnce) {
  // x^2 + x^2 y^2, whose cotangents are 2 x and 2 x y.
  for (const auto& [x, y] : {std::pair(3.0, 5.0), std::pair(3.0, 0.0), std::pair(0.0, 5.0)}) {
    const Tensor factors = of({x, y});
    const Tensor products = factors.cumprod(0);
    const Tensor first = gradients({products * products}, {factors})[0];
    expect_gradient(products * products, factors, {2 * x + 2 * x * y * y, 2 * x * x * y});
    expect_gradient(first, factors, {2 + 2 * y * y + 4 * x * y, 4 * x * y + 2 * x * x});
    expect_gradient(gradients({first}, {factors})[0], factors, {8 * y + 4 * x, 4 * y + 8 * x});
  }
}

TEST(Gradients, AreExactWhereFactorsAreZero) {
  const Tensor one = of({2, 0, 3}), two = of({0, 5, 0, 2});
  expect_gradient(one.prod(), one, {0, 6, 0});
  expect_gradient(two.prod(), two, {0, 0, 0, 0});
  const Tensor deep = of({2, 0, 3, 0, 5});
  // y = 2, 0, 0, 0, 0: by the second 1 + 2 (1 + 3 (1 ...)), and nothing after it.
  expect_gradient(deep.cumprod(0), deep, {1, 2 + 6, 0, 0, 0});
  expect_gradient(deep.cumprod(0, true), deep, {1, 2 + 6, 0, 0, 0});
  const Tensor base = of({2, 0, 3}), updates = of({0, 4, 5, 0});
  const Tensor positions = Tensor::iota(DType::i32, {4}, 0) / Tensor::scalar_int(DType::i32, 2);
  // Rows: 2 * 0 * 4, 0 * 5 * 0, 3.
  expect_gradient(base.scatter(positions, updates, "mul"), base, {0, 0, 1});
  expect_gradient(base.scatter(positions, updates, "mul"), updates, {8, 0, 0, 0});
}

TEST(Gradients, FollowTheLimitAtPoles) {
  constexpr double inf = INFINITY;
  const Tensor x = of({0, 4});
  expect_gradient(sqrt(x), x, {inf, 0.25});
  expect_gradient(log(x), x, {inf, 0.25});
  const Tensor squares = pow(x, Tensor::scalar(DType::f64, 2));
  expect_gradient(squares, x, {0, 8});
  expect_gradient(pow(x, Tensor::scalar(DType::f64, 1)), x, {1, 1});
  expect_gradient(pow(x, Tensor::scalar(DType::f64, 0)), x, {0, 0});
  const Tensor exponent = of({0, 0.5});
  expect_gradient(pow(of({0, 4}), exponent), exponent, {0, 2 * std::log(4.0)});
  expect_gradient(atan2(of({0, 0}), x), x, {0, 0});
  // What is not chosen does no harm: its gradient is 0 times something finite.
  const Tensor safe = select(gt(x, Tensor::scalar(DType::f64, 0)), x, Tensor::scalar(DType::f64, 1));
  expect_gradient(log(safe), x, {0, 0.25});
}

TEST(Gradients, OfActivationsAreFiniteAndSmooth) {
  const Tensor x = of({-1, 0, 2, 2000});
  const double below = std::exp(-1.0);
  expect_gradient(elu(x, 3), x, {3 * below, 1, 1, 1});
  const auto sigmoid_of = [](double at) { return 1 / (1 + std::exp(-at)); };
  const std::vector<double> slopes{sigmoid_of(-1), 0.5, sigmoid_of(2), 1};
  expect_gradient(softplus(x), x, slopes);
  std::vector<double> bends;
  for (const double slope : slopes) bends.push_back(slope * (1 - slope));
  expect_gradient(gradients({softplus(x)}, {x})[0], x, bends);
}

TEST(Gradients, OfPowersBendAtAnExponentOfZero) {
  const Tensor base = of({2, 0.5, 3}), exponent = of({0, 0, 1});
  // Of b a^(b - 1) by b.
  expect_gradient(gradients({pow(base, exponent)}, {base})[0], exponent, {0.5, 2, 1 + std::log(3.0)});
  expect_gradient(gradients({pow(base, exponent)}, {base})[0], base, {0, 0, 0});
  const Tensor zero = of({0, 0});
  expect_gradient(pow(zero, of({0, 1})), zero, {0, 1});
}

// --- what they are taken of ---

TEST(Gradients, StopAndGoAsTold) {
  const Tensor x = of({1, 2, 3});
  expect_gradient(x * stop_gradient(x), x, {1, 2, 3});
  expect_gradient(stop_gradient(x * x), x, {0, 0, 0});
  expect_gradient(straight_through(round(x * 1.4), x) * x, x, {2, 5, 7});  // 1 + 1, 3 + 2, 4 + 3
  expect_gradient(
      with_gradient(x * x, {x},
                    [](const GradientCall& call) { return std::vector{call.cotangent * call.operands[0] * 10.0}; }),
      x, {10, 20, 30});
  CustomOp cube{.name = "cube", .glsl = "x0 * x0 * x0", .dtype = DType::f64};
  cube.gradient = [](const GradientCall& call) {
    return std::vector{call.cotangent * call.operands[0] * call.operands[0] * 3.0};
  };
  expect_gradient(custom(cube, {x}), x, {3, 12, 27});
}

TEST(Gradients, AreOfInputsAndOfWhatIsOnTheWay) {
  const Tensor x = of({1, 2}), y = x * 3.0, other = of({7, 8});
  const Tensor z = y * y + x;
  const std::vector<Tensor> taken = gradients({z}, {x, y, other, z});
  const auto values = values_of(taken, {});
  EXPECT_EQ(values[0], (std::vector<double>{19, 37}));
  EXPECT_EQ(values[1], (std::vector<double>{6, 12}));
  EXPECT_EQ(values[2], (std::vector<double>{0, 0}));
  EXPECT_EQ(values[3], (std::vector<double>{1, 1}));
  const std::vector<Tensor> both = gradients({z, y}, {x}, {of({1, 1}), of({10, 10})});
  EXPECT_EQ(values_of(both, {})[0], (std::vector<double>{49, 67}));
  expect_gradient(x.cast(DType::f16).cast(DType::f64) * x, x, {2, 4});
  // Integers on the way let nothing through.
  expect_gradient(x * x.cast(DType::i32).cast(DType::f64), x, {1, 2});
}

/// A chain of a hundred thousand ops: nothing recurses.
/// Nodes of an op in the graph of some tensors whose first operand has this shape.
std::int64_t nodes_of(const std::string& op, const std::vector<Tensor>& tensors, const Shape& shape) {
  const ir::Graph graph = must(passes::canonicalize(must(api::to_graph(tensors, {}, "nodes"))));  // equal ones are one
  std::int64_t count = 0;
  for (ir::NodeId id = 0; id < graph.size(); ++id)
    count += graph.node(id).op->name == op && graph.node(graph.node(id).operands[0]).type.shape == shape ? 1 : 0;
  return count;
}

// A row's exponentials and what they are divided by would be a second tensor that the forward pass keeps.
TEST(Gradients, OfSoftmaxAskForItsResultAlone) {
  const Shape shape{8, 32};
  const Tensor x = Tensor::input("x", DType::f32, shape), g = Tensor::input("g", DType::f32, shape);
  const Tensor y = softmax(x);
  const std::vector<Tensor> slope = gradients({y}, {x}, {g});
  EXPECT_EQ(nodes_of("exp", {y, slope[0]}, shape), 1);
  EXPECT_EQ(nodes_of("div", {y, slope[0]}, shape), 1);
}

TEST(Gradients, OfAttentionReduceNothingOverScores) {
  const Shape shape{2, 4, 16, 8}, scores{2, 4, 16, 16};
  const Tensor q = Tensor::input("q", DType::f32, shape), k = Tensor::input("k", DType::f32, shape),
               v = Tensor::input("v", DType::f32, shape), sink = Tensor::input("sink", DType::f32, {4}),
               g = Tensor::input("g", DType::f32, shape);
  for (const bool has_sink : {false, true}) {
    AttentionOptions options;
    options.causal = true;
    if (has_sink) options.sink = sink;
    const Tensor y = attention(q, k, v, options);
    std::vector<Tensor> all = gradients({y}, {q, k, v, sink}, {g});
    all.push_back(y);
    // The softmax's own.
    EXPECT_EQ(nodes_of("reduce_sum", all, scores), 1);
    EXPECT_EQ(nodes_of("reduce_max", all, scores), 1);
  }
}

int count_of(const ir::Graph& graph, std::string_view op) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                        [&](const ir::Node& node) { return node.op->name == op; }));
}

/// The elements that each element of a graph's only product is a sum over.
std::int64_t summed_in_product(const ir::Graph& graph) {
  std::int64_t all = 0;
  for (const ir::Node& node : graph.nodes()) {
    const auto* dot = std::get_if<ir::DotPayload>(&node.payload);
    if (dot == nullptr) continue;
    EXPECT_EQ(all, 0) << "there is another one";
    all = 1;
    for (const int axis : dot->contract_a)
      all *= graph.node(node.operands[0]).type.shape[static_cast<std::size_t>(axis)].size();
  }
  return all;
}

/// Of a convolution with respect to its image: each element is the sum over the taps that reach it, of 3 x 3 with a
/// step of 2 two along each axis (one of them a zero for every other element), and over the channels.
TEST(Gradients, OfStridedConvolutionsMultiplyNoZerosBetweenWindows) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 4, 17, 16}), w = Tensor::input("w", DType::f32, {6, 4, 3, 3});
  const auto gradient = [&](std::int64_t stride) {
    const Tensor y = conv(x, w, {.strides = {stride, stride}, .low = {1, 1}, .high = {1, 1}});
    return graph_of({gradients({y}, {x}, {Tensor::input("g", DType::f32, y.shape())})[0]});
  };
  EXPECT_EQ(summed_in_product(gradient(1)), 6 * 3 * 3);
  EXPECT_EQ(summed_in_product(gradient(2)), 6 * 2 * 2);
}

/// Of the largest in a window: a sum of a few terms for each element, and no sum over windows in memory.
TEST(Gradients, OfPoolingAreSumsOfAFewTerms) {
  const Tensor x = Tensor::input("x", DType::f16, {2, 4, 17, 16});
  const Tensor y = max_pool(x, {.sizes = {3, 3}, .strides = {2, 2}, .low = {1, 1}, .high = {1, 1}});
  const ir::Graph graph = graph_of({gradients({y}, {x}, {Tensor::input("g", DType::f16, y.shape())})[0]});
  EXPECT_EQ(count_of(graph, "reduce_sum"), 0);
  EXPECT_EQ(count_of(graph, "add"), 2) << "two rows of windows along each axis";
}

TEST(Gradients, OfDeepGraphsTakeNoStack) {
  const Tensor x = Tensor::input("x", DType::f32, {4});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + x;
  const std::vector<Tensor> taken = gradients({y}, {x});
  EXPECT_TRUE(taken[0].valid());
}

TEST(Gradients, RefuseWithOneSentence) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 3}), n = Tensor::input("n", DType::i32, {3});
  const auto error = [](const std::vector<Tensor>& taken) {
    return taken[0].valid() ? std::string("nothing") : taken[0].error().message;
  };
  EXPECT_EQ(error(gradients({x}, {n})), "'gradients' takes floats, but 'wrt' 0 is i32[3].");
  EXPECT_EQ(error(gradients({n}, {x})), "'gradients' takes floats, but output 0 is i32[3].");
  EXPECT_EQ(error(gradients({x, x}, {x}, {x})),
            "'gradients' takes a cotangent for each of 2 outputs, but 1 are given.");
  EXPECT_EQ(error(gradients({x.sum()}, {x}, {x})),
            "The cotangent 0 is f32[2, 3], but the output that it is of is f32[].");
  EXPECT_EQ(
      error(gradients({x.cast(DType::f16).bitcast(DType::bf16)}, {x})),
      "'bitcast' of f16[2, 3] has no gradient: its result is the bits of its operand, which is no function with a "
      "derivative.");
  const CustomOp op{.name = "twice", .glsl = "x0 + x0", .dtype = DType::f32};
  EXPECT_EQ(error(gradients({custom(op, {x})}, {x})),
            "'custom' of f32[2, 3] has no gradient: none was given with it as CustomOp::gradient.");
  // Where nothing depends on it, it is not asked for.
  EXPECT_TRUE(gradients({custom(op, {x}) + x}, {Tensor::input("z", DType::f32, {})})[0].valid());
  CustomOp wrong = op;
  wrong.gradient = [](const GradientCall& call) { return std::vector{call.cotangent, call.cotangent}; };
  EXPECT_EQ(error(gradients({custom(wrong, {x})}, {x})),
            "The gradient that was given for 'custom' returns 2 tensors for 1 operands.");
  wrong.gradient = [](const GradientCall& call) { return std::vector{call.cotangent.sum()}; };
  EXPECT_EQ(error(gradients({custom(wrong, {x})}, {x})),
            "The gradient that was given for 'custom' returns f32[] for its operand 0, which is f32[2, 3].");
  EXPECT_EQ(straight_through(x, x.sum()).error().message,
            "'straight_through' takes two tensors of one type, but they are f32[2, 3] and f32[].");
  EXPECT_EQ(error(gradients({x + n}, {x})), (x + n).error().message);
}

}  // namespace
}  // namespace vkfuse::test
