// If, Loop and Scan whose conditions and counts are known while the model is imported.
#include <cmath>

#include "api/tensor_node.hpp"
#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

using pb::GraphProto;
using pb::ModelProto;
using pb::TensorProto;

GraphProto& graph_of(pb::NodeProto& node, const std::string& name) {
  return *add_attribute(node, name, pb::AttributeProto::GRAPH).mutable_g();
}

void add_number(ModelProto& model, const std::string& name, std::int64_t value,
                TensorProto::DataType type = TensorProto::INT64) {
  TensorProto& tensor = add_initialiser(model, name, {}, type);
  if (type == TensorProto::INT64)
    tensor.add_int64_data(value);
  else if (type == TensorProto::BOOL)
    tensor.add_int32_data(static_cast<std::int32_t>(value));
  else
    tensor.add_float_data(static_cast<float>(value));
}

/// What the reference computes for the outputs.
std::vector<List> values_of(const ModelProto& model, const std::map<std::string, std::vector<float>>& inputs) {
  const Result<OnnxModel> imported = import(model);
  EXPECT_TRUE(imported.ok()) << imported.error().text();
  if (!imported) return {};
  const Result<ir::Graph> graph = api::to_graph(imported->outputs, imported->output_names, "test");
  EXPECT_TRUE(graph.ok()) << graph.error().text();
  reference::InputBindings input_bindings;
  for (const auto& [name, values] : inputs) input_bindings.inputs.emplace(name, std::as_bytes(std::span(values)));
  std::vector<List> all;
  for (const ir::Output& output : graph->outputs()) {
    const auto column = reference::evaluate(*graph, output.value, input_bindings);
    EXPECT_TRUE(column.ok()) << column.error().text();
    if (is_float(graph->node(output.value).type.dtype))
      all.push_back(column->value);
    else
      all.emplace_back(column->integer.begin(), column->integer.end());
  }
  return all;
}

/// y = x doubled or negated; the branches read x from outside.
ModelProto branching(const std::string& condition) {
  ModelProto model = empty_model(17);
  add_input(model, "x", {2});
  pb::NodeProto& node = add_node(model, "If", {condition}, {"y"});
  GraphProto& yes = graph_of(node, "then_branch");
  fill_node(*yes.add_node(), "Add", {"x", "x"}, {"inner"});
  yes.add_output()->set_name("inner");
  GraphProto& no = graph_of(node, "else_branch");
  fill_node(*no.add_node(), "Neg", {"x"}, {"inner"});
  no.add_output()->set_name("inner");
  add_output(model, "y");
  return model;
}

TEST(OnnxControlFlow, TakesTheBranchThatIsKnown) {
  for (const int condition : {1, 0}) {
    ModelProto model = branching("c");
    add_number(model, "c", condition, TensorProto::BOOL);
    EXPECT_EQ(values_of(model, {{"x", {3, 4}}})[0], condition == 1 ? (List{6, 8}) : (List{-3, -4}));
  }
}

TEST(OnnxControlFlow, TakesTheBranchThatShapesDecide) {
  // Exporters squeeze an axis only if it has one element.
  ModelProto model = branching("is_one");
  ModelProto sorted = empty_model(17);
  *sorted.mutable_graph()->mutable_input() = model.graph().input();
  add_int64s(sorted, "one", {1});
  add_node(sorted, "Shape", {"x"}, {"shape"});
  add_node(sorted, "Equal", {"shape", "one"}, {"is_one"});
  *sorted.mutable_graph()->add_node() = model.graph().node(0);
  add_output(sorted, "y");
  EXPECT_EQ(values_of(sorted, {{"x", {3, 4}}})[0], (List{-3, -4}));
}

TEST(OnnxControlFlow, RefusesConditionsOfTheRun) {
  ModelProto model = branching("c");
  add_input(model, "c", {}, TensorProto::BOOL);
  const auto refused = import(model);
  ASSERT_FALSE(refused.ok());
  expect_unsupported(refused.error(), "The condition of operator 'If' is only known when the program runs");
  EXPECT_FALSE(refused.error().context.empty());
}

/// s = s * 2 + i, from x; the state of each iteration is collected. Stops where `go` is false.
ModelProto looping(const std::string& count, const std::string& condition) {
  ModelProto model = empty_model(17);
  add_input(model, "x", {2});
  pb::NodeProto& node = add_node(model, "Loop", {count, condition, "x"}, {"last", "all"});
  GraphProto& body = graph_of(node, "body");
  for (const char* name : {"i", "go", "s"}) body.add_input()->set_name(name);
  TensorProto& three = *body.add_initializer();
  three.set_name("three");
  three.set_data_type(TensorProto::INT64);
  three.add_int64_data(3);
  fill_node(*body.add_node(), "Less", {"i", "three"}, {"goes_on"});
  add_int(fill_node(*body.add_node(), "Cast", {"i"}, {"f"}), "to", TensorProto::FLOAT);
  fill_node(*body.add_node(), "Add", {"s", "s"}, {"twice"});
  fill_node(*body.add_node(), "Add", {"twice", "f"}, {"next"});
  fill_node(*body.add_node(), "Identity", {"next"}, {"copy"});
  for (const char* name : {"goes_on", "next", "copy"}) body.add_output()->set_name(name);
  add_output(model, "last");
  add_output(model, "all");
  return model;
}

TEST(OnnxControlFlow, UnrollsLoops) {
  ModelProto model = looping("count", "");
  add_number(model, "count", 2);
  const auto values = values_of(model, {{"x", {1, 10}}});
  EXPECT_EQ(values[0], (List{5, 41}));
  EXPECT_EQ(values[1], (List{2, 20, 5, 41}));
}

TEST(OnnxControlFlow, StopsWhereTheConditionSays) {
  // Without a count: i = 0, 1, 2, and after i = 3 it is false.
  ModelProto model = looping("", "go");
  add_number(model, "go", 1, TensorProto::BOOL);
  EXPECT_EQ(values_of(model, {{"x", {0, 0}}})[1], (List{0, 0, 1, 1, 4, 4, 11, 11}));
}

TEST(OnnxControlFlow, LeavesLoopsThatNeverRun) {
  ModelProto model = looping("", "go");
  add_number(model, "go", 0, TensorProto::BOOL);
  auto& type = *model.mutable_graph()
                    ->mutable_node(0)
                    ->mutable_attribute(0)
                    ->mutable_g()
                    ->mutable_output(2)
                    ->mutable_type()
                    ->mutable_tensor_type();
  type.set_elem_type(TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_value(2);
  const auto values = values_of(model, {{"x", {7, 8}}});
  EXPECT_EQ(values[0], (List{7, 8}));
  EXPECT_TRUE(values[1].empty());
}

TEST(OnnxControlFlow, BoundsLoops) {
  ModelProto model = looping("count", "");
  add_number(model, "count", INT64_MAX);
  EXPECT_EQ(values_of(model, {{"x", {1, 1}}}).size(), 2U);  // the condition ends it after four
  auto& body = *model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g();
  body.mutable_output(0)->set_name("go");
  const auto refused = import(model);
  ASSERT_FALSE(refused.ok());
  expect_unsupported(refused.error(), "Operator 'Loop' has more than 1024 iterations.");
  ModelProto counted = looping("count", "");
  add_input(counted, "count", {}, TensorProto::INT64);
  const auto unknown = import(counted);
  ASSERT_FALSE(unknown.ok());
  expect_unsupported(unknown.error(), "The trip count of operator 'Loop' is only known when the program runs");
}

TEST(OnnxControlFlow, RefusesConditionsThatDependOnData) {
  ModelProto model = looping("count", "");
  add_number(model, "count", 5);
  auto& body = *model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g();
  fill_node(*body.add_node(), "ReduceMax", {"next"}, {"largest"});
  add_int(body.mutable_node()->rbegin()[0], "keepdims", 0);
  fill_node(*body.add_node(), "Less", {"largest", "largest"}, {"small"});
  body.mutable_output(0)->set_name("small");
  const auto refused = import(model);
  ASSERT_FALSE(refused.ok());
  expect_unsupported(refused.error(),
                     "The condition of operator 'Loop' after 1 iterations is only known when the program runs");
}

/// Running sums of rows, forwards or backwards.
TEST(OnnxControlFlow, UnrollsScans) {
  for (const std::int64_t reversed : {0, 1}) {
    ModelProto model = empty_model(17);
    add_input(model, "x", {2, 3});
    add_input(model, "start", {2});
    pb::NodeProto& node = add_node(model, "Scan", {"start", "x"}, {"last", "sums"});
    add_int(node, "num_scan_inputs", 1);
    for (const auto& [name, value] : {std::pair{"scan_input_axes", std::int64_t{1}},
                                      {"scan_output_axes", std::int64_t{-1}},
                                      {"scan_input_directions", reversed},
                                      {"scan_output_directions", reversed}}) {
      add_attribute(node, name, pb::AttributeProto::INTS).add_ints(value);
    }
    GraphProto& body = graph_of(node, "body");
    for (const char* name : {"sum", "column"}) body.add_input()->set_name(name);
    fill_node(*body.add_node(), "Add", {"sum", "column"}, {"next"});
    fill_node(*body.add_node(), "Identity", {"next"}, {"copy"});
    for (const char* name : {"next", "copy"}) body.add_output()->set_name(name);
    add_output(model, "last");
    add_output(model, "sums");
    const auto values = values_of(model, {{"x", {1, 2, 3, 10, 20, 30}}, {"start", {0, 100}}});
    EXPECT_EQ(values[0], (List{6, 160}));
    EXPECT_EQ(values[1], reversed == 0 ? (List{1, 3, 6, 110, 130, 160}) : (List{6, 5, 3, 160, 150, 130}));
  }
}

TEST(OnnxControlFlow, BoundsWhatLoopsInLoopsMake) {
  ModelProto model = looping("count", "");
  add_number(model, "count", 1000);
  auto& body = *model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g();
  body.mutable_output(0)->set_name("go");
  GraphProto inner = body;
  for (auto& node : *inner.mutable_node()) {
    for (auto& name : *node.mutable_output()) name += "_inner";
    for (auto& name : *node.mutable_input()) name += "_inner";
  }
  for (auto& input : *inner.mutable_input()) input.set_name(input.name() + "_inner");
  for (auto& output : *inner.mutable_output()) output.set_name(output.name() + "_inner");
  inner.mutable_initializer(0)->set_name("three_inner");
  pb::NodeProto& nested = fill_node(*body.add_node(), "Loop", {"count", "", "next"}, {"deep", "deep_all"});
  *add_attribute(nested, "body", pb::AttributeProto::GRAPH).mutable_g() = inner;
  const auto refused = import(model);
  ASSERT_FALSE(refused.ok());
  expect_unsupported(refused.error(), "and others in it make more than 65536 nodes");
}

/// x doubled or negated, by whether its largest element is above 1.
ModelProto branching_on_data() {
  ModelProto model = branching("c");
  auto& nodes = *model.mutable_graph()->mutable_node();
  add_number(model, "one", 1, TensorProto::FLOAT);
  add_int(add_node(model, "ReduceMax", {"x"}, {"most"}), "keepdims", 0);
  add_node(model, "Greater", {"most", "one"}, {"c"});
  nodes.SwapElements(0, 2);
  nodes.SwapElements(0, 1);
  return model;
}

TEST(OnnxControlFlow, AConditionThatIsDataSelects) {
  EXPECT_EQ(values_of(branching_on_data(), {{"x", {1, 3}}})[0], (List{2, 6}));
  EXPECT_EQ(values_of(branching_on_data(), {{"x", {1, 0.5}}})[0], (List{-1, -0.5}));
}

TEST(OnnxControlFlow, BranchesOfAConditionThatIsDataAgreeInShape) {
  ModelProto model = branching_on_data();
  GraphProto& no = *model.mutable_graph()->mutable_node(2)->mutable_attribute(1)->mutable_g();
  add_int(fill_node(*no.mutable_node(0), "ReduceSum", {}, {}), "keepdims", 1);
  expect_unsupported(import(model).error(), "output 0 is f32[2] of one branch and f32[1] of the other");
}

TEST(OnnxControlFlow, OptionalsHaveAnElementOrNone) {
  EXPECT_EQ(OneNode("OptionalHasElement", 18).input({1}, {1}).value(), (List{1}));
  EXPECT_EQ(OneNode("OptionalHasElement", 18).absent().value(), (List{0}));
  EXPECT_EQ(OneNode("OptionalGetElement", 18).input({2}, {1, 2}).value(), (List{1, 2}));
  ModelProto model = empty_model(18);
  add_input(model, "x", {2});
  add_attribute(add_node(model, "Optional", {}, {"none"}), "type", pb::AttributeProto::TYPE_PROTO);
  add_node(model, "OptionalHasElement", {"none"}, {"has"});
  add_node(model, "Optional", {"x"}, {"some"});
  add_node(model, "OptionalGetElement", {"some"}, {"y"});
  add_output(model, "has");
  add_output(model, "y");
  const std::vector<List> values = values_of(model, {{"x", {3, 4}}});
  EXPECT_EQ(values, (std::vector<List>{{0}, {3, 4}}));
  add_output(model, "none");
  expect_unsupported(import(model).error(), "Output 'none' is an optional without an element");
}

/// Scores of two keys, doubled by one graph; the weights it leaves are squared by another.
TEST(OnnxControlFlow, GraphsChangeScoresAndWeights) {
  ModelProto model = empty_model(26);
  pb::OperatorSetIdProto& preview = *model.add_opset_import();
  preview.set_domain("ai.onnx.preview");
  preview.set_version(1);
  for (const char* name : {"q", "k", "v"}) add_input(model, name, {1, 1, name[0] == 'q' ? 1 : 2, 1});
  pb::NodeProto& node = add_node(model, "FlexAttention", {"q", "k", "v"}, {"y"});
  node.set_domain("ai.onnx.preview");
  GraphProto& scores = graph_of(node, "score_mod");
  scores.add_input()->set_name("s");
  fill_node(*scores.add_node(), "Add", {"s", "s"}, {"twice"});
  scores.add_output()->set_name("twice");
  GraphProto& weights = graph_of(node, "prob_mod");
  weights.add_input()->set_name("p");
  fill_node(*weights.add_node(), "Mul", {"p", "p"}, {"square"});
  weights.add_output()->set_name("square");
  add_output(model, "y");
  const double first = 1 / (1 + std::exp(-1.0)), second = 1 - first;  // of scores 1 and 0
  expect_near(values_of(model, {{"q", {0.5F}}, {"k", {1, 0}}, {"v", {10, 100}}})[0],
              {first * first * 10 + second * second * 100}, 1e-4);
}

}  // namespace
}  // namespace vkfuse::onnx
