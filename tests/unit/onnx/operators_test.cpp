// Operators that ONNX 1.12's node tests lack, and arguments they do not try.
#include <gtest/gtest.h>

#include <cmath>

#include "api/tensor_node.hpp"
#include "reference/reference.hpp"
#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

using pb::ModelProto;
using pb::TensorProto;

/// y = op(x) over a vector, evaluated by the reference.
reference::Column evaluate(ModelProto model, const std::vector<float>& x) {
  auto* shape = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->clear_dim();
  shape->add_dim()->set_dim_value(static_cast<std::int64_t>(x.size()));
  const Result<OnnxModel> imported = import(model);
  EXPECT_TRUE(imported.ok()) << imported.error().text();
  if (!imported) return {};
  const Result<ir::Graph> graph = api::to_graph(imported->outputs, imported->output_names, "test");
  EXPECT_TRUE(graph.ok()) << graph.error().text();
  if (!graph) return {};
  reference::InputBindings input_bindings;
  input_bindings.inputs.emplace("x", std::as_bytes(std::span<const float>(x)));
  Result<reference::Column> column = reference::evaluate(*graph, graph->outputs()[0].value, input_bindings);
  EXPECT_TRUE(column.ok()) << column.error().text();
  return column.ok() ? *std::move(column) : reference::Column{};
}

struct Formula {
  const char* op;
  std::int64_t opset;
  double (*value)(double);
};

double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

class Activation : public testing::TestWithParam<Formula> {};

/// Far from zero too, where a careless formula gives inf - inf or 0 * inf.
TEST_P(Activation, FollowsItsFormulaEverywhere) {
  const std::vector<float> x = {-1000, -90, -10, -1, -0.25F, 0, 0.25F, 1, 10, 90, 1000};
  const reference::Column y = evaluate(unary_model(GetParam().op, GetParam().opset), x);
  ASSERT_EQ(y.value.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = GetParam().value(static_cast<double>(x[i]));
    EXPECT_NEAR(y.value[i], want, 1e-6 * std::abs(want) + 1e-6) << GetParam().op << " of " << x[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Onnx, Activation,
                         testing::Values(Formula{"Gelu", 20,
                                                 [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
                                         Formula{"Mish", 18, [](double x) { return x * std::tanh(softplus(x)); }},
                                         Formula{"Swish", 24, [](double x) { return x / (1 + std::exp(-x)); }},
                                         Formula{"Softplus", 17, softplus},
                                         Formula{"Elu", 17, [](double x) { return x < 0 ? std::expm1(x) : x; }},
                                         Formula{"Celu", 17, [](double x) { return x < 0 ? std::expm1(x) : x; }},
                                         Formula{"Softsign", 17, [](double x) { return x / (1 + std::abs(x)); }}),
                         [](const auto& parameter) { return std::string(parameter.param.op); });

TEST(OnnxOperators, GeluByTanh) {
  ModelProto model = unary_model("Gelu", 20);
  add_attribute(*model.mutable_graph()->mutable_node(0), "approximate", pb::AttributeProto::STRING).set_s("tanh");
  const reference::Column y = evaluate(model, {1, -2});
  EXPECT_NEAR(y.value.at(0), 0.841192, 1e-6);
  EXPECT_NEAR(y.value.at(1), -0.0454023, 1e-6);
}

TEST(OnnxOperators, QuantisationSaturates) {
  ModelProto model = unary_model("QuantizeLinear");
  pb::NodeProto& node = *model.mutable_graph()->mutable_node(0);
  node.add_input("scale");
  node.add_input("zero");
  add_initialiser(model, "scale", {}).add_float_data(2);
  add_initialiser(model, "zero", {}, TensorProto::INT8).add_int32_data(-3);
  const reference::Column y = evaluate(model, {0, 10, -10, 1e30F, -1e30F, INFINITY});
  EXPECT_EQ(y.integer, (std::vector<std::int64_t>{-3, 2, -8, 127, -128, 127}));
}

TEST(OnnxOperators, QuantisationPerChannelAlignsWithItsAxis) {
  ModelProto model = empty_model();
  add_input(model, "x", {2, 2}, TensorProto::INT8);
  TensorProto& scale = add_initialiser(model, "scale", {2});
  scale.add_float_data(1);
  scale.add_float_data(10);
  add_int(add_node(model, "DequantizeLinear", {"x", "scale"}, {"y"}), "axis", 0);
  add_output(model, "y");
  const Result<OnnxModel> imported = import(model);
  ASSERT_TRUE(imported.ok()) << imported.error().text();
  const Result<ir::Graph> graph = api::to_graph(imported->outputs, imported->output_names, "test");
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  const std::int8_t x[] = {1, 2, 3, 4};
  reference::InputBindings input_bindings;
  input_bindings.inputs.emplace("x", std::as_bytes(std::span<const std::int8_t>(x)));
  const Result<reference::Column> y = reference::evaluate(*graph, graph->outputs()[0].value, input_bindings);
  ASSERT_TRUE(y.ok()) << y.error().text();
  EXPECT_EQ(y->value, (std::vector<double>{1, 2, 30, 40}));
}

TEST(OnnxOperators, OldOpsetsBroadcastFromAnAxis) {
  // [2] along axis 0 of [2, 3], which NumPy's rule would refuse.
  OneNode node = OneNode("Add", 6).input({2, 3}, {0, 1, 2, 3, 4, 5}).input({2}, {10, 20});
  EXPECT_EQ(node.integer("broadcast", 1).integer("axis", 0).value(), (List{10, 11, 12, 23, 24, 25}));
  OneNode slope = OneNode("PRelu", 6).input({1, 2, 2}, {-1, 2, -3, -4}).input({2}, {10, 100});
  EXPECT_EQ(slope.value(), (List{-10, 2, -300, -400}));
}

}  // namespace
}  // namespace vkfuse::onnx
