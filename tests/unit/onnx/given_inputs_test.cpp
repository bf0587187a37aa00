// Values of inputs that decide shapes, conditions and counts, and those that are data.
#include <gtest/gtest.h>

#include "api/tensor_node.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/onnx_program.hpp"
#include "support/device.hpp"
#include "unit/onnx/models.hpp"

namespace vkfuse::onnx {
namespace {

using pb::ModelProto;
using pb::TensorProto;
using Names = std::vector<std::string>;

TensorData floats(const std::string& name, const Sizes& sizes, const std::vector<float>& values) {
  TensorData data{name, DType::f32, sizes, std::vector<std::byte>(values.size() * sizeof(float))};
  std::copy_n(reinterpret_cast<const std::byte*>(values.data()), data.bytes.size(), data.bytes.begin());
  return data;
}

TensorData longs(const std::string& name, const Sizes& sizes, const std::vector<std::int64_t>& values) {
  TensorData data = int64_data(sizes, values);
  data.name = name;
  return data;
}

OnnxOptions given(std::initializer_list<TensorData> values) {
  OnnxOptions options;
  for (const TensorData& value : values) options.input_values.emplace(value.name, value);
  return options;
}

void set_symbol(ModelProto& model, int input, int axis, const char* name) {
  model.mutable_graph()
      ->mutable_input(input)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(axis)
      ->set_dim_param(name);
}

/// y = exp(x).reshape(s)
ModelProto reshape_by_input() {
  ModelProto model = empty_model();
  add_input(model, "x", {3, 4});
  add_input(model, "s", {2}, TensorProto::INT64);
  add_node(model, "Exp", {"x"}, {"e"});
  add_node(model, "Reshape", {"e", "s"}, {"y"});
  add_output(model, "y");
  return model;
}

TEST(OnnxGiven, AShapeBecomesAConstantAndDataDoesNot) {
  const ModelProto model = reshape_by_input();
  const Result<OnnxModel> without = import(model);
  ASSERT_FALSE(without.ok());
  EXPECT_EQ(without.error().code, ErrorCode::unsupported);
  EXPECT_EQ(without.error().message,
            "The shape (operand 1) is only known when the program runs; it must be a constant, or be given as a known "
            "input. The value of input 's' decides it, and may be given.");
  const std::vector<float> x(12, 1);
  const Result<OnnxModel> with = import(model, given({floats("x", {3, 4}, x), longs("s", {2}, {2, 6})}));
  ASSERT_TRUE(with.ok()) << with.error().text();
  EXPECT_EQ(with->outputs[0].shape(), (Shape{2, 6}));
  EXPECT_EQ(with->input_names, Names{"x"});
  EXPECT_EQ(with->constant_inputs, Names{"s"});
  EXPECT_EQ(with->notes,
            Names{"The value of input 's' decides what is computed, so that it is a constant of the program."});
}

/// Symbols stay symbols where a value is enough, and nothing becomes a constant where symbols are.
TEST(OnnxGiven, NoMoreIsTakenThanIsNeeded) {
  ModelProto model = empty_model();
  add_input(model, "x", {0, 4});
  set_symbol(model, 0, 0, "rows");
  add_input(model, "axis", {1}, TensorProto::INT64);
  add_node(model, "ReduceSum", {"x", "axis"}, {"y"});
  add_output(model, "y");
  const std::vector<float> x(8, 1);
  const Result<OnnxModel> summed = import(model, given({floats("x", {2, 4}, x), longs("axis", {1}, {1})}));
  ASSERT_TRUE(summed.ok()) << summed.error().text();
  EXPECT_EQ(summed->outputs[0].shape(), (Shape{Dim::any("rows"), 1}));
  ModelProto plain = unary_model("Exp");
  set_symbol(plain, 0, 0, "rows");
  const Result<OnnxModel> same = import(plain, given({floats("x", {2, 3}, {1, 2, 3, 4, 5, 6})}));
  ASSERT_TRUE(same.ok()) << same.error().text();
  EXPECT_EQ(same->outputs[0].shape(), (Shape{Dim::any("rows"), 3}));
  EXPECT_EQ(same->constant_inputs, Names{});
}

/// y = if condition: x + x, else x * x
void add_choice(ModelProto& model, const std::string& condition) {
  pb::NodeProto& node = add_node(model, "If", {condition}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    pb::GraphProto& branch = *add_attribute(node, name, pb::AttributeProto::GRAPH).mutable_g();
    fill_node(*branch.add_node(), name[0] == 't' ? "Add" : "Mul", {"x", "x"}, {"r"});
    branch.add_output()->set_name("r");
  }
  add_output(model, "y");
}

TEST(OnnxGiven, AConditionIsComputedFromIntegers) {
  ModelProto model = empty_model();
  add_input(model, "x", {4});
  add_input(model, "rate", {}, TensorProto::INT64);
  add_initialiser(model, "k", {}, TensorProto::INT64).add_int64_data(16000);
  add_node(model, "Equal", {"rate", "k"}, {"c"});
  add_choice(model, "c");
  const TensorData x = floats("x", {4}, {1, 2, 3, 4});
  for (const auto& [rate, op] : {std::pair{16000, "add"}, std::pair{8000, "mul"}}) {
    const Result<OnnxModel> chosen = import(model, given({x, longs("rate", {}, {rate})}));
    ASSERT_TRUE(chosen.ok()) << chosen.error().text();
    EXPECT_EQ(chosen->outputs[0].node()->op->name, op);
    EXPECT_EQ(chosen->input_names, Names{"x"});
  }
  EXPECT_NE(import(model, given({x})).error().message.find("The value of input 'rate' decides it"), std::string::npos);
}

/// What floats compute is the device's, even where they are few: a host would have to run the model to know it.
TEST(OnnxGiven, AConditionOnDataDecidesInTheProgram) {
  ModelProto model = empty_model(18);
  add_input(model, "x", {4});
  add_initialiser(model, "k", {}).add_float_data(1);
  add_int(add_node(model, "ReduceMax", {"x"}, {"m"}), "keepdims", 0);
  add_node(model, "Greater", {"m", "k"}, {"c"});
  add_choice(model, "c");
  const TensorData x = floats("x", {4}, {1, 2, 3, 4});
  const Result<OnnxModel> selecting = import(model, given({x}));
  ASSERT_TRUE(selecting.ok()) << selecting.error().text();
  EXPECT_EQ(selecting->constant_inputs, Names{});
  // It is a constant where the caller says so.
  const Result<OnnxModel> known = import(model, {.known_inputs = {{"x", x}}});
  ASSERT_TRUE(known.ok()) << known.error().text();
  EXPECT_EQ(known->constant_inputs, Names{"x"});
}

TEST(OnnxGiven, FloatsThatAreParameters) {
  // A list of scales as it is, and one number through arithmetic.
  ModelProto model = empty_model(18);
  add_input(model, "x", {1, 1, 4});
  add_input(model, "s", {3});
  add_node(model, "Resize", {"x", "", "s"}, {"y"});
  add_output(model, "y");
  const Result<OnnxModel> resized = import(model, given({floats("s", {3}, {1, 1, 2})}));
  ASSERT_TRUE(resized.ok()) << resized.error().text();
  EXPECT_EQ(resized->outputs[0].shape(), (Shape{1, 1, 8}));
  ModelProto scaled = empty_model(18);
  add_input(scaled, "x", {1, 1, 4});
  add_input(scaled, "s", {});
  add_initialiser(scaled, "base", {3}).add_float_data(2);
  for (int i = 0; i < 2; ++i) scaled.mutable_graph()->mutable_initializer(0)->add_float_data(2);
  add_node(scaled, "Mul", {"base", "s"}, {"scales"});
  add_node(scaled, "Resize", {"x", "", "scales"}, {"y"});
  add_output(scaled, "y");
  const Result<OnnxModel> halved = import(scaled, given({floats("s", {}, {0.5F})}));
  ASSERT_TRUE(halved.ok()) << halved.error().text();
  EXPECT_EQ(halved->outputs[0].shape(), (Shape{1, 1, 4}));
}

/// The same of a program: elements that decide are those of each run, and each has a program.
TEST(OnnxGiven, AProgramIsCompiledForTheElementsOfARun) {
  const Result<OnnxProgram> program =
      compile_model(test::device(), {std::make_unique<const ModelProto>(reshape_by_input()), {}}, {}, {});
  ASSERT_TRUE(program.ok()) << program.error().text();
  const std::vector<float> x(12, 0);
  const std::vector<std::vector<std::int64_t>> shapes = {{2, 6}, {12, 1}, {2, 6}};
  for (const auto& shape : shapes) {
    const auto outputs = program->run({{"x", HostView(x)}, {"s", HostView(shape)}});
    ASSERT_TRUE(outputs.ok()) << outputs.error().text();
    EXPECT_EQ(outputs->at("y").sizes, shape);
    EXPECT_EQ(outputs->at("y").as<float>()[11], 1);
  }
  EXPECT_EQ(program->state()->by_sizes.size(), 2U);
  EXPECT_EQ(program->notes().size(), 1U);
  const std::vector<std::int64_t> bad = {5, 5};
  EXPECT_FALSE(program->run({{"x", HostView(x)}, {"s", HostView(bad)}}).ok());
}

TEST(OnnxGiven, AProgramTakesOneNameOfTwoSizes) {
  ModelProto model = unary_model("Exp");
  set_symbol(model, 0, 0, "n");
  set_symbol(model, 0, 1, "n");
  const Result<OnnxProgram> program =
      compile_model(test::device(), {std::make_unique<const ModelProto>(model), {}}, {}, {});
  ASSERT_TRUE(program.ok()) << program.error().text();
  const std::vector<float> x(12, 0);
  for (const auto& sizes : {Sizes{3, 4}, Sizes{2, 6}}) {
    const auto outputs = program->run({{"x", HostView(x, sizes)}});
    ASSERT_TRUE(outputs.ok()) << outputs.error().text();
    EXPECT_EQ(outputs->at("y").sizes, sizes);
  }
}

}  // namespace
}  // namespace vkfuse::onnx
