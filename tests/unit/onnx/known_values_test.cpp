// What is computed on the host while a graph is being imported, and what is left to the device.
#include "onnx/known_values.hpp"

#include "onnx/host_tensor.hpp"
#include "unit/onnx/one_node.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::onnx {
namespace {

using pb::ModelProto;
using pb::TensorProto;

bool is_constant(const Tensor& tensor) { return tensor.node()->op->name == "constant"; }

Tensor numbers(std::int64_t count) { return Tensor::iota(DType::i64, {count}, 0); }

TEST(OnnxKnownValues, FoldsWhatNoInputReaches) {
  const Value value = folded(numbers(3) * numbers(3));
  ASSERT_TRUE(value.known);
  EXPECT_TRUE(is_constant(value.tensor));
  EXPECT_EQ(element_int(*value.known, 2), 4);
  EXPECT_FALSE(folded(numbers(3) + Tensor::input("x", DType::i64, {3})).known);
}

TEST(OnnxKnownValues, DividesAsTheDeviceDoes) {
  const Tensor a = constant_value(int64_data({4}, {7, -7, INT64_MIN, 5})).tensor;
  const Tensor b = constant_value(int64_data({4}, {2, 2, -1, 0})).tensor;
  const Value quotient = folded(a / b);
  ASSERT_TRUE(quotient.known);
  EXPECT_EQ(element_int(*quotient.known, 1), -3);
  EXPECT_EQ(element_int(*quotient.known, 2), INT64_MIN);
  EXPECT_EQ(element_int(*quotient.known, 3), 0);
}

TEST(OnnxKnownValues, LeavesMuchToTheDevice) {
  EXPECT_TRUE(folded(numbers(1024)).known);
  EXPECT_FALSE(folded(numbers(1025)).known);
  // Few floats are scales; more are data. 16-bit floats round as the kernel says.
  EXPECT_TRUE(folded(numbers(16).cast(DType::f32)).known);
  EXPECT_FALSE(folded(numbers(17).cast(DType::f32)).known);
  EXPECT_FALSE(folded(numbers(1).cast(DType::f16)).known);
  // Small, but the sum of much.
  EXPECT_TRUE(folded(numbers(1 << 16).sum()).known);
  EXPECT_FALSE(folded(numbers((1 << 16) + 1).sum()).known);
}

TEST(OnnxKnownValues, LeavesWhatARoundingDecides) {
  const Tensor two = exp(log(Tensor::scalar(DType::f32, 2)));
  EXPECT_TRUE(folded(two).known);
  EXPECT_FALSE(folded(floor(two)).known);
}

TEST(OnnxKnownValues, LeavesSymbolsAlone) { EXPECT_FALSE(folded(Tensor::iota(DType::i64, {Dim::any("n")}, 0)).known); }

/// What exporters write for x.reshape(x.shape[0], -1): the first size, picked and put into a list.
TEST(OnnxKnownValues, ShapeArithmeticOfExporters) {
  ModelProto model = empty_model();
  add_input(model, "x", {4, 3, 2});
  add_node(model, "Shape", {"x"}, {"shape"});
  add_initialiser(model, "zero", {}, TensorProto::INT64).add_int64_data(0);
  add_int64s(model, "axes", {0});
  add_int64s(model, "rest", {-1});
  add_node(model, "Gather", {"shape", "zero"}, {"first"});
  add_node(model, "Unsqueeze", {"first", "axes"}, {"list"});
  add_int(add_node(model, "Concat", {"list", "rest"}, {"target"}), "axis", 0);
  add_node(model, "Reshape", {"x", "target"}, {"y"});
  add_output(model, "y");
  const Result<OnnxModel> imported = import(model);
  ASSERT_TRUE(imported.ok()) << imported.error().text();
  EXPECT_EQ(imported->outputs[0].shape(), (Shape{4, 6}));
}

/// Half of each size by way of floats, and a choice: Cast, Mul, Floor, Equal, Where, ReduceProd.
TEST(OnnxKnownValues, ShapeArithmeticThroughFloatsAndChoices) {
  ModelProto model = empty_model();
  add_input(model, "x", {5, 4});
  add_node(model, "Shape", {"x"}, {"shape"});
  add_int(add_node(model, "Cast", {"shape"}, {"real"}), "to", TensorProto::FLOAT);
  add_initialiser(model, "half", {}).add_float_data(0.5F);
  add_node(model, "Mul", {"real", "half"}, {"halves"});
  add_node(model, "Floor", {"halves"}, {"whole"});
  add_int(add_node(model, "Cast", {"whole"}, {"sizes"}), "to", TensorProto::INT64);
  add_int64s(model, "twos", {2, 9});
  add_int64s(model, "sevens", {7, 7});
  add_node(model, "Equal", {"sizes", "twos"}, {"same"});
  add_node(model, "Where", {"same", "sizes", "sevens"}, {"chosen"});
  add_node(model, "ConstantOfShape", {"chosen"}, {"y"});
  add_int(add_node(model, "ReduceProd", {"chosen"}, {"count"}), "keepdims", 0);
  add_output(model, "y");
  add_output(model, "count");
  const Result<OnnxModel> imported = import(model);
  ASSERT_TRUE(imported.ok()) << imported.error().text();
  EXPECT_EQ(imported->outputs[0].shape(), (Shape{2, 7}));
  EXPECT_TRUE(is_constant(imported->outputs[1]));
}

/// CastLike reads the dtype of an input, not its elements.
TEST(OnnxKnownValues, DtypesOfInputsAreKnown) {
  ModelProto model = empty_model();
  add_input(model, "x", {2}, TensorProto::INT64);
  add_initialiser(model, "three", {1}).add_float_data(3);
  add_node(model, "CastLike", {"three", "x"}, {"size"});
  add_node(model, "ConstantOfShape", {"size"}, {"y"});
  add_output(model, "y");
  const Result<OnnxModel> imported = import(model);
  ASSERT_TRUE(imported.ok()) << imported.error().text();
  EXPECT_EQ(imported->outputs[0].shape(), (Shape{3}));
}

}  // namespace
}  // namespace vkfuse::onnx
