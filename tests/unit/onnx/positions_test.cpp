// Gathers and scatters: how known positions become views, and what the node tests do not try.
#include "onnx/positions.hpp"

#include "onnx/known_values.hpp"
#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

using Positions = std::vector<std::int64_t>;

const auto kBool = pb::TensorProto::BOOL;
const auto kFloat = pb::TensorProto::FLOAT;
const auto kInt64 = pb::TensorProto::INT64;

/// Whether an op of this name is anywhere behind the tensor.
bool uses(const Tensor& tensor, std::string_view op) {
  if (tensor.node()->op->name == op) return true;
  const auto& operands = tensor.node()->operands;
  return std::ranges::any_of(operands, [&](const Tensor& operand) { return uses(operand, op); });
}

List evaluated(const Tensor& tensor, const std::vector<float>& x) {
  const Result<ir::Graph> graph = api::to_graph({&tensor, 1}, {}, "test");
  EXPECT_TRUE(graph.ok()) << graph.error().text();
  reference::InputBindings input_bindings;
  input_bindings.inputs.emplace("x", std::as_bytes(std::span<const float>(x)));
  const Result<reference::Column> column = reference::evaluate(*graph, graph->outputs()[0].value, input_bindings);
  EXPECT_TRUE(column.ok()) << column.error().text();
  return column.ok() ? column->value : List{};
}

struct Wanted {
  const char* name;
  Positions positions;
  bool is_view;
};

class Take : public testing::TestWithParam<Wanted> {};

TEST_P(Take, ReadsThesePositions) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 6});
  std::vector<float> values(12);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Tensor taken = take(x, 1, GetParam().positions);
  ASSERT_TRUE(taken.valid()) << taken.error().text();
  EXPECT_EQ(taken.shape(), (Shape{2, static_cast<std::int64_t>(GetParam().positions.size())}));
  EXPECT_EQ(uses(taken, "gather"), !GetParam().is_view);
  List want;
  for (const double row : {0.0, 6.0}) {
    for (const std::int64_t position : GetParam().positions) want.push_back(row + static_cast<double>(position));
  }
  EXPECT_EQ(evaluated(taken, values), want);
}

INSTANTIATE_TEST_SUITE_P(Onnx, Take,
                         testing::Values(Wanted{"nothing", {}, true}, Wanted{"one", {4}, true},
                                         Wanted{"run", {1, 2, 3}, true}, Wanted{"steps", {0, 2, 4}, true},
                                         Wanted{"backwards", {5, 4, 3, 2, 1, 0}, true},
                                         Wanted{"backwards_in_steps", {4, 2, 0}, true},
                                         Wanted{"repeated", {3, 3, 3}, true},
                                         Wanted{"each_twice", {0, 0, 1, 1, 2, 2}, true},
                                         Wanted{"each_twice_in_runs", {5, 5, 0, 0, 1, 1}, true},
                                         Wanted{"edges", {0, 0, 1, 2, 3, 4, 5, 5, 5}, true},
                                         Wanted{"reflected", {2, 1, 0, 1, 2, 3, 4, 5, 4, 3}, true},
                                         Wanted{"scattered", {0, 5, 1, 4, 2, 3, 3, 1, 0, 4, 1}, false}),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(OnnxGathers, NegativeIndicesCountFromTheEnd) {
  const List x{1, 2, 3, 4};
  EXPECT_EQ(OneNode("Gather").input({4}, x).known({}, {-1}).output().sizes, Sizes{});
  EXPECT_EQ(OneNode("Gather").input({4}, x).known({}, {-1}).value(), (List{4}));
  EXPECT_EQ(OneNode("Gather").input({4}, x).input({2, 1}, {-4, 2}, kInt64).value(), (List{1, 3}));
  EXPECT_EQ(OneNode("GatherElements").input({4}, x).input({2}, {-1, 0}, kInt64).value(), (List{4, 1}));
  EXPECT_EQ(OneNode("GatherND").input({2, 2}, x).input({2, 2}, {-1, -2, 0, -1}, kInt64).value(), (List{3, 2}));
}

TEST(OnnxGathers, ElementsOfAPart) {
  // Fewer rows of indices than of data.
  OneNode node = OneNode("GatherElements").input({2, 3}, {1, 2, 3, 4, 5, 6}).input({1, 2}, {2, 0}, kInt64);
  EXPECT_EQ(node.integer("axis", 1).value(), (List{3, 1}));
}

TEST(OnnxGathers, TuplesOfRows) {
  OneNode node = OneNode("GatherND").input({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}).known({2, 1}, {1, 0});
  EXPECT_EQ(node.value(), (List{5, 6, 7, 8, 1, 2, 3, 4}));
  OneNode batched = OneNode("GatherND").input({2, 3}, {1, 2, 3, 4, 5, 6}).input({2, 2, 1}, {0, 2, 1, 1}, kInt64);
  EXPECT_EQ(batched.integer("batch_dims", 1).value(), (List{1, 3, 5, 5}));
}

TEST(OnnxGathers, RefusesBadPositions) {
  const List x{1, 2, 3, 4};
  expect_invalid(OneNode("Gather").input({4}, x).known({1}, {4}).error(), "The index 4 lies outside an axis of 4");
  expect_invalid(OneNode("Gather").input({4}, x).known({1}, {1}, kFloat).error(), "The indices (operand 1) are f32");
  expect_invalid(OneNode("Gather").input({}, {1}).known({1}, {0}).error(), "has rank 0");
  expect_invalid(OneNode("GatherElements").input({4}, x).known({1, 1}, {0}).error(), "The indices have rank 2");
  expect_invalid(OneNode("GatherElements").input({2, 2}, x).input({1, 3}, {0, 0, 0}, kInt64).error(),
                 "must not exceed");
  expect_invalid(OneNode("GatherND").input({4}, x).known({1, 2}, {0, 0}).error(),
                 "The last dimension of the indices is 2");
  expect_invalid(OneNode("GatherND").input({4}, x).known({1, 1}, {-5}).error(), "The index -5 lies outside axis 0");
  expect_invalid(OneNode("GatherND").input({4}, x).known({1, 1}, {0}).integer("batch_dims", 2).error(),
                 "'batch_dims' is 2");
  expect_invalid(OneNode("GatherND").input({4}, x).known({1, 1}, {0}).integer("batch_dims", 1).error(),
                 "must be equal");
  expect_unsupported(OneNode("Compress").input({4}, x).input({1}, {1}, kBool).error(),
                     "The shape that operator 'Compress' computes depends on data");
  expect_invalid(OneNode("Compress").input({1}, {1}).known({2}, {1, 1}, kBool).error(), "The condition has 2 elements");
  expect_invalid(OneNode("OneHot").input({1}, {1}).known({}, {3}).known({1}, {0}).error(), "the off and the on value");
  expect_invalid(OneNode("OneHot").input({1}, {1}).known({}, {-3}).known({2}, {0, 1}).error(), "(operand 1) is -3");
  expect_invalid(OneNode("ReverseSequence").input({2, 2}, x).known({3}, {1, 1, 1}).error(), "the batch has 2");
  expect_invalid(OneNode("ReverseSequence").input({2, 2}, x).known({2}, {1, 1}).integer("time_axis", 1).error(),
                 "both 1");
}

OneNode scatter(const std::string& op, std::int64_t opset, const std::string& reduction, const Sizes& indices) {
  OneNode node(op, opset);
  node.input({4}, {1, 2, 3, 4}).input(indices, {-1, 1, -1}, kInt64).input({3}, {5, 6, 7});
  return reduction.empty() ? node : node.text("reduction", reduction);
}

TEST(OnnxScatters, JoinUpdatesOfOneElementInTheirOrder) {
  EXPECT_EQ(scatter("ScatterElements", 18, "none", {3}).value(), (List{1, 6, 3, 7}));
  EXPECT_EQ(scatter("ScatterElements", 18, "mul", {3}).value(), (List{1, 12, 3, 140}));
  EXPECT_EQ(scatter("ScatterND", 18, "max", {3, 1}).value(), (List{1, 6, 3, 7}));
  EXPECT_EQ(scatter("ScatterND", 18, "min", {3, 1}).value(), (List{1, 2, 3, 4}));
  EXPECT_EQ(scatter("ScatterND", 16, "add", {3, 1}).value(), (List{1, 8, 3, 16}));
}

TEST(OnnxScatters, ElementsAlongTheOuterAxis) {
  OneNode node("ScatterElements");
  node.input({3, 2}, {0, 0, 0, 0, 0, 0}).input({2, 1}, {2, 0}, kInt64).input({2, 1}, {8, 9});
  EXPECT_EQ(node.value(), (List{9, 0, 0, 0, 8, 0}));
}

TEST(OnnxScatters, RefuseBadOperands) {
  expect_invalid(scatter("ScatterElements", 16, "max", {3}).error(), "'max', which is not a reduction of opset 16.");
  expect_invalid(scatter("ScatterND", 18, "none", {3}).error(), "The last dimension of the indices is 3");
  OneNode wide = OneNode("ScatterND").input({2}, {1, 2}).known({1, 1}, {0}).input({2}, {1, 2});
  expect_invalid(wide.error(), "The updates are [2]; the input [2] at the indices [1, 1] asks for [1].");
  OneNode two = OneNode("ScatterElements").input({1, 2}, {1, 2}).known({2, 1}, {0, 0}).input({2, 1}, {1, 2});
  expect_invalid(two.integer("axis", 1).error(), "outside axis 1 fit the input [1, 2]");
  OneNode mixed = OneNode("ScatterElements").input({2}, {1, 2}).known({1}, {0}).input({1}, {1}, kInt64);
  expect_invalid(mixed.error(), "The updates are i64, the input f32");
  OneNode real = OneNode("ScatterElements").input({2}, {1, 2}).known({1}, {0}, kFloat).input({1}, {1});
  expect_invalid(real.error(), "The indices (operand 1) are f32");
}

}  // namespace
}  // namespace vkfuse::onnx
