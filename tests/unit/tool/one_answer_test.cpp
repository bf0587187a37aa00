// run, plan, validate and the library take the same models, for the same reasons.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/device.hpp"
#include "tool/commands.hpp"
#include "tool/validate.hpp"
#include "unit/onnx/net.hpp"

namespace vkfuse::tool {
namespace {

namespace pb = onnx::pb;

/// What a command gave: an exit status, or an error, and what it printed.
struct Said {
  int status = 0;
  Error error;
  std::string out, err;
};

template <typename Command>
Said said(Command&& command) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Result<int> status = command();
  Said all{status ? *status : 2, status ? Error{} : status.error(), testing::internal::GetCapturedStdout(),
           testing::internal::GetCapturedStderr()};
  // Lines of a case are wrapped.
  for (std::size_t at = 0; (at = all.out.find("\n  ", at)) != std::string::npos;) all.out.replace(at, 3, " ");
  return all;
}

class OneAnswer : public testing::Test {
 protected:
  void SetUp() override { common_.cache = "off"; }

  /// A folder in the ONNX layout; inputs are given to run and plan as files, and to validate as they are.
  void set_model(const pb::ModelProto& model) {
    std::filesystem::create_directories(folder_ / "case/test_data_set_0");
    folder_.write("case/model.onnx", model.SerializeAsString());
    inputs_.clear();
    count_ = 0;
  }
  void give(const pb::TensorProto& tensor) {
    const std::string file =
        folder_.write(fmt::format("case/test_data_set_0/input_{}.pb", count_++), tensor.SerializeAsString()).string();
    inputs_.push_back(tensor.name() + "=" + file);
  }
  void expect(const pb::TensorProto& tensor) {
    folder_.write("case/test_data_set_0/output_0.pb", tensor.SerializeAsString());
  }

  Said run() {
    RunCommand command;
    command.model = (folder_ / "case/model.onnx").string();
    command.inputs = inputs_;
    return said([&] { return run_model(common_, command); });
  }
  Said plan() {
    PlanCommand command;
    command.model = (folder_ / "case/model.onnx").string();
    command.inputs = inputs_;
    return said([&] { return show_plan(common_, command); });
  }
  Said validate() {
    ValidateCommand command;
    command.paths = {(folder_ / "case").string()};
    return said([&] { return validate_models(common_, command); });
  }
  Said validate_model_alone() {
    ValidateCommand command;
    command.paths = {(folder_ / "case/model.onnx").string()};
    command.inputs = inputs_;
    return said([&] { return validate_models(common_, command); });
  }
  /// All of them refuse it, and say this.
  void expect_refused(const std::string& sentence) {
    for (const Said& one : {run(), plan()}) {
      EXPECT_EQ(one.status, 2) << one.out;
      EXPECT_EQ(one.error.message, sentence);
    }
    for (const Said& one : {validate(), validate_model_alone()}) {
      EXPECT_EQ(one.status, 2) << one.out;
      EXPECT_NE(one.out.find(sentence), std::string::npos) << one.out;
      EXPECT_NE(one.out.find("0 passed, 0 failed, 1 skipped"), std::string::npos) << one.out;
    }
  }
  void expect_taken() {
    for (const Said& one : {run(), plan(), validate(), validate_model_alone()})
      EXPECT_EQ(one.status, 0) << one.error.text() << one.out;
    EXPECT_NE(validate().out.find("1 passed, 0 failed, 0 skipped"), std::string::npos);
  }

  onnx::ScratchFolder folder_;
  Common common_;
  std::vector<std::string> inputs_;
  int count_ = 0;
};

pb::TensorProto floats(const std::string& name, const Sizes& sizes, const std::vector<float>& values) {
  pb::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(pb::TensorProto::FLOAT);
  for (const std::int64_t size : sizes) tensor.add_dims(size);
  for (const float value : values) tensor.add_float_data(value);
  return tensor;
}

pb::TensorProto longs(const std::string& name, const Sizes& sizes, const std::vector<std::int64_t>& values) {
  pb::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(pb::TensorProto::INT64);
  for (const std::int64_t size : sizes) tensor.add_dims(size);
  for (const std::int64_t value : values) tensor.add_int64_data(value);
  return tensor;
}

/// y = (x + x).reshape(s)
pb::ModelProto reshape_by_input() {
  pb::ModelProto model = onnx::empty_model();
  onnx::add_input(model, "x", {2, 3});
  onnx::add_input(model, "s", {2}, pb::TensorProto::INT64);
  onnx::add_node(model, "Add", {"x", "x"}, {"t"});
  onnx::add_node(model, "Reshape", {"t", "s"}, {"y"});
  onnx::add_output(model, "y");
  return model;
}

TEST_F(OneAnswer, WhereAValueDecidesAShape) {
  set_model(reshape_by_input());
  give(floats("x", {2, 3}, {1, 2, 3, 4, 5, 6}));
  give(longs("s", {2}, {6, 1}));
  expect(floats("y", {6, 1}, {2, 4, 6, 8, 10, 12}));
  expect_taken();
  const Said ran = run();
  EXPECT_NE(ran.out.find("y : f32[6, 1] = {2, 4, 6, 8, 10, 12}"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find(": 1 kernel"), std::string::npos) << ran.out;
  EXPECT_NE(ran.err.find("vkfuse: note: The value of input 's' decides what is computed"), std::string::npos)
      << ran.err;
  EXPECT_NE(validate().out.find("1 kernel"), std::string::npos) << "the data has become a constant, too";
  inputs_.pop_back();
  const Said without = run();
  EXPECT_EQ(without.status, 2);
  EXPECT_NE(without.error.message.find("The value of input 's' decides it, and may be given."), std::string::npos)
      << without.error.message;
}

TEST_F(OneAnswer, WhereAConditionIsComputedFromData) {
  pb::ModelProto model = onnx::empty_model(18);
  onnx::add_input(model, "x", {3});
  onnx::add_initialiser(model, "k", {}).add_float_data(1);
  onnx::add_int(onnx::add_node(model, "ReduceSum", {"x"}, {"m"}), "keepdims", 0);
  onnx::add_node(model, "Greater", {"m", "k"}, {"c"});
  pb::NodeProto& node = onnx::add_node(model, "If", {"c"}, {"y"});
  for (const auto& [name, op] : {std::pair("then_branch", "Neg"), std::pair("else_branch", "ReduceSum")}) {
    pb::GraphProto& branch = *onnx::add_attribute(node, name, pb::AttributeProto::GRAPH).mutable_g();
    onnx::fill_node(*branch.add_node(), op, {"x"}, {"r"});
    branch.add_output()->set_name("r");
  }
  onnx::add_output(model, "y");
  set_model(model);
  give(floats("x", {3}, {1, 2, 3}));
  expect(floats("y", {3}, {-1, -2, -3}));
  expect_taken();  // the host reads it
  common_.no_host = true;
  expect_refused(
      "The condition of operator 'If' is only known when the program runs, and output 0 is f32[3] of one branch and "
      "f32[1] of the other; they must be equal.");
  // Asked for, the value becomes a constant; what is then computed on import is no pass.
  common_.known = {"x"};
  EXPECT_EQ(run().status, 0) << run().error.text();
  const Said checked = validate();
  EXPECT_EQ(checked.status, 2);
  EXPECT_EQ(checked.out.find("idle "), 0U) << checked.out;
  EXPECT_NE(checked.out.find("0 passed, 0 failed, 0 skipped, 1 idle: computed on import"), std::string::npos)
      << checked.out;
  common_.known = {"z"};
  EXPECT_EQ(run().error.message, "'--known z' has no value: an --input, or the data of a test case, must give one.");
}

/// An unsound file is refused, and nothing was found wrong with the device.
TEST_F(OneAnswer, WhereTheFileIsUnsound) {
  pb::ModelProto model = onnx::unary_model("Abs");
  model.mutable_graph()->mutable_node(0)->set_input(0, "q");
  set_model(model);
  give(floats("x", {2, 3}, {1, 2, 3, 4, 5, 6}));
  expect(floats("y", {2, 3}, {1, 2, 3, 4, 5, 6}));
  expect_refused("Operator 'Abs' reads 'q', which is not an input, an initialiser or the output of a node.");
}

TEST_F(OneAnswer, WhereAnOperatorIsNotOffered) {
  set_model(onnx::unary_model("Foo"));
  give(floats("x", {2, 3}, {1, 2, 3, 4, 5, 6}));
  expect(floats("y", {2, 3}, {1, 2, 3, 4, 5, 6}));
  expect_refused("Operator 'Foo' (domain 'ai.onnx', opset 17), the node that computes 'y', is not supported.");
}

TEST_F(OneAnswer, WhereOneNameHasTwoSizes) {
  pb::ModelProto model = onnx::unary_model("Neg");
  for (int axis = 0; axis < 2; ++axis) {
    model.mutable_graph()
        ->mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(axis)
        ->set_dim_param("n");
  }
  set_model(model);
  give(floats("x", {2, 3}, {1, 2, 3, 4, 5, 6}));
  expect(floats("y", {2, 3}, {-1, -2, -3, -4, -5, -6}));
  expect_taken();
  EXPECT_NE(run().err.find("vkfuse: note: Dimension 1 of input 'x' is 3, though it shares the name 'n'"),
            std::string::npos);
}

TEST_F(OneAnswer, WhereAnInputIsGivenThatNoOutputNeeds) {
  pb::ModelProto model = onnx::unary_model("Neg");
  onnx::add_input(model, "unused", {2});
  set_model(model);
  give(floats("x", {2, 3}, {1, 2, 3, 4, 5, 6}));
  give(floats("unused", {2}, {1, 2}));
  expect(floats("y", {2, 3}, {-1, -2, -3, -4, -5, -6}));
  expect_taken();
  EXPECT_NE(run().err.find("vkfuse: note: Input 'unused' is given, which no output needs."), std::string::npos)
      << run().err;
  inputs_.back() = "misspelt" + inputs_.back().substr(6);
  EXPECT_EQ(run().error.message, "The graph 'test' has no input 'misspelt'.");
}

/// What the host computes between kernels, with a shape that a value decides.
TEST_F(OneAnswer, WhereTheHostIsNeededToo) {
  pb::ModelProto model = onnx::empty_model();
  onnx::add_input(model, "x", {2, 3});
  onnx::add_input(model, "s", {1}, pb::TensorProto::INT64);
  onnx::add_node(model, "Neg", {"x"}, {"n"});
  onnx::add_node(model, "Reshape", {"n", "s"}, {"t"});
  onnx::add_node(model, "NonZero", {"t"}, {"y"});
  onnx::add_output(model, "y");
  set_model(model);
  give(floats("x", {2, 3}, {1, 0, 3, 0, 5, 6}));
  give(longs("s", {1}, {6}));
  expect(longs("y", {1, 4}, {0, 2, 4, 5}));
  expect_taken();
  common_.no_host = true;
  expect_refused(
      "The shape that operator 'NonZero' computes depends on data, so that it runs on the host between kernels, which "
      "is not allowed here.");
}

class CaseOptions : public OneAnswer {
 protected:
  void SetUp() override {
    OneAnswer::SetUp();
    pb::ModelProto model = onnx::empty_model();
    onnx::add_input(model, "x", {1, 3})
        .mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_param("rows");
    onnx::add_node(model, "Exp", {"x"}, {"e"});
    onnx::add_node(model, "Neg", {"e"}, {"y"});
    onnx::add_output(model, "y");
    set_model(model);
    give(floats("x", {2, 3}, {0, 0, 0, 0, 0, 0}));
    expect(floats("y", {2, 3}, {-1, -1, -1, -1, -1, -1}));
  }
};

TEST_F(CaseOptions, AreThoseOfTheCommandLine) {
  EXPECT_NE(validate().out.find("1 kernel"), std::string::npos);
  common_.without = {"fusion"};
  EXPECT_NE(validate().out.find("2 kernels"), std::string::npos) << validate().out;
  common_.without = {"magic"};
  EXPECT_NE(validate().out.find("'magic' is no planner pass to do without"), std::string::npos) << validate().out;
  common_.without = {};
  common_.planner = "magic";
  EXPECT_NE(validate().out.find("There is no planner 'magic'"), std::string::npos) << validate().out;
  common_.planner = "store-all";
  EXPECT_EQ(validate().status, 0) << validate().out;
  common_.dims = {"rows=2"};
  EXPECT_EQ(validate().status, 0) << validate().out;
  common_.dims = {"rows=3"};
  EXPECT_EQ(validate().status, 2) << "the data has two rows: " << validate().out;
}

TEST_F(CaseOptions, ConvertFloatsAndCompareWithTheReferenceAlone) {
  common_.dtype = "f16";
  const Said checked = validate();
  EXPECT_EQ(checked.status, 0) << checked.out;
  EXPECT_NE(checked.out.find("1 output without a file"), std::string::npos) << checked.out;
  EXPECT_EQ(run().status, 0) << run().error.text();
}

TEST_F(CaseOptions, HaveInputsOfTheirOwn) {
  ValidateCommand command;
  command.paths = {(folder_ / "case").string()};
  command.inputs = inputs_;
  const Said refused = said([&] { return validate_models(common_, command); });
  EXPECT_NE(refused.error.message.find("is a folder, whose cases have inputs of their own"), std::string::npos)
      << refused.error.message;
}

}  // namespace
}  // namespace vkfuse::tool
