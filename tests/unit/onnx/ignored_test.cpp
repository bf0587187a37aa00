// What a file says wrongly and ONNX Runtime ignores: the model is imported, and a note says so.
#include <gtest/gtest.h>

#include "api/tensor_node.hpp"
#include "unit/onnx/models.hpp"

namespace vkfuse::onnx {
namespace {

using pb::ModelProto;
using pb::TensorProto;

OnnxModel imported(const ModelProto& model, const OnnxOptions& options = {}) {
  Result<OnnxModel> result = import(model, options);
  EXPECT_TRUE(result.ok()) << result.error().text();
  return result.ok() ? *std::move(result) : OnnxModel{};
}

std::string op_of(const Tensor& tensor) { return std::string(tensor.node()->op->name); }

using Notes = std::vector<std::string>;

TEST(OnnxIgnored, ShapesOfOutputs) {
  const auto with_output = [](std::initializer_list<std::int64_t> sizes) {
    ModelProto model = unary_model("Abs");
    auto* type = model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type();
    type->set_elem_type(TensorProto::FLOAT);
    for (const std::int64_t size : sizes) type->mutable_shape()->add_dim()->set_dim_value(size);
    return model;
  };
  EXPECT_EQ(imported(with_output({6})).notes,
            Notes{"Output 'y' is stated to have the shape [6], which is ignored: the graph computes [2, 3]."});
  EXPECT_EQ(imported(with_output({2, 4})).notes,
            Notes{"Output 'y' is stated to have the shape [2, 4], which is ignored: the graph computes [2, 3]."});
  EXPECT_EQ(imported(with_output({2, 4})).outputs[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(imported(with_output({2, 3})).notes, Notes{});
  EXPECT_EQ(imported(with_output({2, -1})).notes, Notes{});
}

TEST(OnnxIgnored, OpsetsThatAreNotKnown) {
  ModelProto model = unary_model("Abs");
  model.mutable_opset_import(0)->set_version(kNewestOpset + 1);
  EXPECT_EQ(imported(model).notes,
            Notes{"The model is of opset 29; opsets up to 28 are known, and it is read as one of "
                  "opset 28."});
  model.mutable_opset_import(0)->set_version(kNewestOpset);
  EXPECT_EQ(imported(model).notes, Notes{});
}

TEST(OnnxIgnored, TheOrderOfNodes) {
  ModelProto model = empty_model();
  add_input(model, "x", {2});
  add_node(model, "Abs", {"b"}, {"y"});
  add_node(model, "Neg", {"a"}, {"b"});
  add_node(model, "Exp", {"x"}, {"a"});
  add_output(model, "y");
  const OnnxModel result = imported(model);
  EXPECT_EQ(
      result.notes,
      Notes{"The nodes of the graph are not in the order in which they compute: their order in the file is ignored."});
  ASSERT_EQ(result.outputs.size(), 1U);
  EXPECT_EQ(op_of(result.outputs[0]), "abs");
  EXPECT_EQ(op_of(result.outputs[0].node()->operands[0]), "neg");
  // A cycle has no order.
  model.mutable_graph()->mutable_node(2)->set_input(0, "y");
  EXPECT_NE(import(model).error().message.find("the nodes are not sorted, or form a cycle"), std::string::npos);
}

/// y = if c: 2 x + k, where nodes of the branch are not sorted, it reads what comes after it in the graph, and its own
/// t is not that of the graph.
TEST(OnnxIgnored, TheOrderOfNodesInBranchesAndFunctions) {
  ModelProto model = empty_model();
  add_input(model, "x", {2});
  add_initialiser(model, "c", {}, TensorProto::BOOL).add_int32_data(1);
  pb::NodeProto& node = add_node(model, "If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    pb::GraphProto& branch = *add_attribute(node, name, pb::AttributeProto::GRAPH).mutable_g();
    fill_node(*branch.add_node(), "Add", {"t", "k"}, {"r"});
    fill_node(*branch.add_node(), "Add", {"x", "x"}, {"t"});
    branch.add_output()->set_name("r");
  }
  add_node(model, "F", {"x"}, {"k"}).set_domain("local");
  pb::FunctionProto& function = *model.add_functions();
  function.set_name("F");
  function.set_domain("local");
  function.add_opset_import()->set_version(17);
  function.add_input("a");
  function.add_output("b");
  fill_node(*function.add_node(), "Neg", {"m"}, {"b"});
  fill_node(*function.add_node(), "Exp", {"a"}, {"m"});
  add_output(model, "y");
  const OnnxModel result = imported(model);
  EXPECT_EQ(result.notes.size(), 3U) << fmt::format("{}", fmt::join(result.notes, "\n"));
  ASSERT_EQ(result.outputs.size(), 1U);
  EXPECT_EQ(op_of(result.outputs[0].node()->operands[0]), "add");
  EXPECT_EQ(op_of(result.outputs[0].node()->operands[1]), "neg");
}

/// Names of a branch that are also those of later nodes around it do not make the nodes unsorted.
TEST(OnnxIgnored, NothingWhereABranchHasANameOfItsOwn) {
  ModelProto model = empty_model();
  add_input(model, "x", {2});
  add_initialiser(model, "c", {}, TensorProto::BOOL).add_int32_data(1);
  pb::NodeProto& node = add_node(model, "If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    pb::GraphProto& branch = *add_attribute(node, name, pb::AttributeProto::GRAPH).mutable_g();
    fill_node(*branch.add_node(), "Neg", {"x"}, {"t"});
    fill_node(*branch.add_node(), "Exp", {"t"}, {"r"});
    branch.add_output()->set_name("r");
  }
  add_node(model, "Abs", {"y"}, {"t"});
  add_output(model, "t");
  EXPECT_EQ(imported(model).notes, Notes{});
}

TEST(OnnxIgnored, NegativeSizes) {
  ModelProto model = empty_model();
  add_input(model, "x", {-1, 3});
  add_node(model, "Relu", {"x"}, {"y"});
  auto* output = add_output(model, "y").mutable_type()->mutable_tensor_type();
  output->set_elem_type(TensorProto::FLOAT);
  for (const std::int64_t size : {-1, 3}) output->mutable_shape()->add_dim()->set_dim_value(size);
  const OnnxModel result = imported(model);
  EXPECT_EQ(result.notes, Notes{"Input 'x' states a size of -1 in dimension 0, which is taken as not known."});
  EXPECT_EQ(result.outputs[0].shape(), (Shape{Dim::any("x.0"), 3}));
  EXPECT_EQ(imported(model, {.dims = {{"x.0", 5}}}).outputs[0].shape(), (Shape{5, 3}));
  EXPECT_EQ(imported(model, {.input_sizes = {{"x", {7, 3}}}}).outputs[0].shape(), (Shape{7, 3}));
}

/// y = relu(x) of [n, n], and z = x + b of [n]: one name, two sizes.
ModelProto twice_named() {
  ModelProto model = empty_model();
  for (const char* name : {"x", "b"}) {
    auto* shape = add_input(model, name, {}).mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->add_dim()->set_dim_param("n");
    if (name[0] == 'x') shape->add_dim()->set_dim_param("n");
  }
  add_node(model, "Relu", {"x"}, {"y"});
  add_node(model, "Neg", {"b"}, {"z"});
  add_output(model, "y");
  add_output(model, "z");
  return model;
}

TensorData zeros(const std::string& name, const Sizes& sizes) {
  std::size_t bytes = sizeof(float);
  for (const std::int64_t size : sizes) bytes *= static_cast<std::size_t>(size);
  return {name, DType::f32, sizes, std::vector<std::byte>(bytes)};
}

TEST(OnnxIgnored, OneNameOfTwoSizes) {
  const ModelProto model = twice_named();
  EXPECT_EQ(imported(model).outputs[0].shape(), (Shape{Dim::any("n"), Dim::any("n")}));
  const OnnxModel square = imported(model, {.input_values = {{"x", zeros("x", {3, 3})}, {"b", zeros("b", {3})}}});
  EXPECT_EQ(square.notes, Notes{});
  EXPECT_EQ(square.outputs[0].shape(), (Shape{Dim::any("n"), Dim::any("n")}));
  const OnnxModel other = imported(model, {.input_values = {{"x", zeros("x", {3, 4})}, {"b", zeros("b", {5})}}});
  EXPECT_EQ(other.outputs[0].shape(), (Shape{3, 4}));
  EXPECT_EQ(other.outputs[1].shape(), (Shape{5}));
  EXPECT_EQ(other.notes, (Notes{"Dimension 1 of input 'x' is 4, though it shares the name 'n' with a dimension of 3; "
                                "the name is ignored there.",
                                "Dimension 0 of input 'b' is 5, though it shares the name 'n' with a dimension of 3; "
                                "the name is ignored there."}));
  EXPECT_EQ(imported(model, {.input_sizes = {{"x", {3, 4}}}}).outputs[1].shape(), (Shape{3}));
  // What the caller states counts.
  EXPECT_NE(import(model, {.dims = {{"n", 3}}, .input_sizes = {{"x", {3, 4}}}})
                .error()
                .message.find("a size stated for a symbol does not allow"),
            std::string::npos);
}

TEST(OnnxIgnored, ValuesForNoInput) {
  const OnnxModel result = imported(unary_model("Abs"), {.input_values = {{"z", zeros("z", {2})}}});
  EXPECT_EQ(result.notes, Notes{"A value is given for 'z', which is not an input of the graph."});
}

}  // namespace
}  // namespace vkfuse::onnx
