// Sound models, and the graphs they become.
#include "onnx/graph_import.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <variant>

#include "api/tensor_node.hpp"
#include "unit/onnx/models.hpp"

namespace vkfuse::onnx {
namespace {

using pb::ModelProto;
using pb::TensorProto;

/// The op of the node behind a tensor.
std::string op_of(const Tensor& tensor) { return std::string(tensor.node()->op->name); }
const Tensor& operand(const Tensor& tensor, std::size_t i) { return tensor.node()->operands.at(i); }

OnnxModel imported(const ModelProto& model, const OnnxOptions& options = {}) {
  Result<OnnxModel> result = import(model, options);
  EXPECT_TRUE(result.ok()) << result.error().text();
  return result.ok() ? *std::move(result) : OnnxModel{};
}

TEST(OnnxImport, NamesInputsAndOutputs) {
  ModelProto model = empty_model(13);
  add_input(model, "a", {2, 3});
  add_input(model, "b", {3});
  add_node(model, "Add", {"a", "b"}, {"s"});
  add_node(model, "Relu", {"s"}, {"r"});
  add_output(model, "r");
  add_output(model, "s");
  const OnnxModel result = imported(model);
  EXPECT_EQ(result.name, "test");
  EXPECT_EQ(result.opset, 13);
  EXPECT_EQ(result.input_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(result.output_names, (std::vector<std::string>{"r", "s"}));
  ASSERT_EQ(result.outputs.size(), 2U);
  EXPECT_EQ(op_of(result.outputs[0]), "relu");
  EXPECT_EQ(operand(result.outputs[0], 0).node(), result.outputs[1].node());
  EXPECT_EQ(operand(result.outputs[1], 1).node(), result.inputs[1].node());
  EXPECT_EQ(result.outputs[0].shape(), (Shape{2, 3}));
}

TEST(OnnxImport, KeepsSymbolicDimensions) {
  ModelProto model = empty_model();
  auto* shape = add_input(model, "x", {}).mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->add_dim()->set_dim_param("batch");
  shape->add_dim();
  shape->add_dim()->set_dim_value(4);
  add_node(model, "Exp", {"x"}, {"y"});
  add_output(model, "y");
  EXPECT_EQ(imported(model).outputs[0].shape(), (Shape{Dim::any("batch"), Dim::any("x.1"), 4}));
  const OnnxModel sized = imported(model, {.dims = {{"batch", 7}, {"x.1", 5}}});
  EXPECT_EQ(sized.outputs[0].shape(), (Shape{7, 5, 4}));
}

TEST(OnnxImport, DoesNotListInitialisersAsInputs) {
  ModelProto model = empty_model();
  add_input(model, "x", {2});
  add_input(model, "w", {2});
  TensorProto& weights = add_initialiser(model, "w", {2});
  weights.add_float_data(1);
  weights.add_float_data(2);
  add_node(model, "Mul", {"x", "w"}, {"y"});
  add_output(model, "y");
  const OnnxModel result = imported(model);
  EXPECT_EQ(result.input_names, std::vector<std::string>{"x"});
  EXPECT_EQ(op_of(operand(result.outputs[0], 1)), "constant");
}

TEST(OnnxImport, TakesKnownInputsAsConstants) {
  ModelProto model = empty_model();
  add_input(model, "x", {3, 1});
  add_input(model, "s", {2}, TensorProto::INT64);
  add_node(model, "Expand", {"x", "s"}, {"y"});
  add_output(model, "y");
  TensorData sizes{"s", DType::i64, {2}, {}};
  sizes.bytes.resize(16);
  sizes.bytes[0] = std::byte{3};
  sizes.bytes[8] = std::byte{5};
  const OnnxModel result = imported(model, {.known_inputs = {{"s", sizes}}});
  EXPECT_EQ(result.input_names, std::vector<std::string>{"x"});
  EXPECT_EQ(result.outputs[0].shape(), (Shape{3, 5}));
}

TEST(OnnxImport, FollowsShapesThroughArithmetic) {
  ModelProto model = empty_model();
  add_input(model, "x", {4, 6});
  add_node(model, "Shape", {"x"}, {"s"});
  add_int64s(model, "two", {2});
  add_node(model, "Div", {"s", "two"}, {"half"});
  add_node(model, "ConstantOfShape", {"half"}, {"zeros"});
  add_node(model, "Size", {"zeros"}, {"count"});
  add_output(model, "zeros");
  add_output(model, "count");
  const OnnxModel result = imported(model);
  EXPECT_EQ(result.outputs[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(result.outputs[0].dtype(), DType::f32);
  EXPECT_EQ(result.outputs[1].dtype(), DType::i64);
  EXPECT_EQ(op_of(result.outputs[1]), "constant");
}

TEST(OnnxImport, ChoosesTheRowOfTheOpset) {
  ModelProto old = unary_model("Clip", 6);
  add_float(*old.mutable_graph()->mutable_node(0), "min", 0);
  EXPECT_EQ(op_of(imported(old).outputs[0]), "max");
  old.mutable_opset_import(0)->set_version(11);
  EXPECT_EQ(import(old).error().code, ErrorCode::unsupported);
  EXPECT_EQ(op_of(imported(unary_model("Clip", 11)).outputs[0]), "input");
}

TEST(OnnxImport, TakesTheDefaultDomainByEitherName) {
  ModelProto model = unary_model("Abs");
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  EXPECT_EQ(op_of(imported(model).outputs[0]), "abs");
  model.mutable_graph()->mutable_node(0)->set_domain("ai.onnx");
  EXPECT_EQ(op_of(imported(model).outputs[0]), "abs");
}

TEST(OnnxImport, WidensPowersOnlyForExponentsThatMayNotFit) {
  ModelProto model = empty_model();
  add_input(model, "x", {1}, TensorProto::INT32);
  add_int64s(model, "known", {5});
  add_input(model, "any", {1}, TensorProto::INT64);
  add_node(model, "Pow", {"x", "known"}, {"narrow"});
  add_node(model, "Pow", {"x", "any"}, {"wide"});
  add_output(model, "narrow");
  add_output(model, "wide");
  const OnnxModel result = imported(model);
  EXPECT_EQ(op_of(result.outputs[0]), "pow");
  EXPECT_EQ(result.outputs[0].dtype(), DType::i32);
  EXPECT_EQ(op_of(result.outputs[1]), "cast");
  EXPECT_EQ(operand(result.outputs[1], 0).dtype(), DType::i64);
  EXPECT_EQ(result.outputs[1].dtype(), DType::i32);
}

/// y = F(x; slope) with F in the model's own domain: Clip(LeakyRelu(a), optional).
ModelProto function_model() {
  ModelProto model = empty_model();
  add_input(model, "x", {2});
  pb::NodeProto& node = add_node(model, "F", {"x"}, {"y"});
  node.set_domain("local");
  add_float(node, "slope", 3);
  add_output(model, "y");
  pb::FunctionProto& function = *model.add_functions();
  function.set_name("F");
  function.set_domain("local");
  function.add_opset_import()->set_version(16);
  function.add_input("a");
  function.add_input("optional");
  function.add_output("b");
  function.add_attribute("slope");
  pb::NodeProto& leaky = fill_node(*function.add_node(), "LeakyRelu", {"a"}, {"l"});
  pb::AttributeProto& slope = add_attribute(leaky, "alpha", pb::AttributeProto::FLOAT);
  slope.set_ref_attr_name("slope");
  fill_node(*function.add_node(), "Clip", {"l", "optional"}, {"b"});
  return model;
}

TEST(OnnxImport, InlinesFunctionsWithTheirAttributes) {
  const OnnxModel result = imported(function_model());
  // The operand that the caller left out makes Clip an identity.
  EXPECT_EQ(op_of(result.outputs[0]), "select");
  const Tensor& scaled = operand(result.outputs[0], 1);
  ASSERT_EQ(op_of(scaled), "mul");
  const auto& payload = std::get<ir::ConstantPayload>(operand(scaled, 1).node()->payload);
  float slope = 0;
  std::memcpy(&slope, payload.bytes->data(), sizeof(slope));
  EXPECT_EQ(slope, 3);
}

TEST(OnnxImport, GivesAnAttributeItsDefaultWhereTheCallerDoes) {
  ModelProto model = function_model();
  model.mutable_graph()->mutable_node(0)->clear_attribute();
  EXPECT_TRUE(import(model).ok());
}

TEST(OnnxImport, TakesChainsOfAnyLength) {
  ModelProto model = empty_model();
  add_input(model, "n0", {2});
  constexpr int kLength = 100000;
  for (int i = 0; i < kLength; ++i) {
    add_node(model, "Neg", {"n" + std::to_string(i)}, {"n" + std::to_string(i + 1)});
  }
  add_output(model, "n" + std::to_string(kLength));
  EXPECT_TRUE(import(model).ok());
}

}  // namespace
}  // namespace vkfuse::onnx
