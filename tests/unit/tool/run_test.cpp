// vkfuse run, as a function: models and arrays from files, what is printed, what is written.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/device.hpp"
#include "tool/commands.hpp"
#include "tool/model.hpp"
#include "tool/validate.hpp"
#include "unit/onnx/net.hpp"

namespace vkfuse::tool {
namespace {

namespace pb = onnx::pb;

std::string printed(const Common& common, const RunCommand& command) {
  testing::internal::CaptureStdout();
  const Result<int> status = run_model(common, command);
  std::string text = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(status.ok()) << status.error().text();
  return text;
}

Error refused(const Common& common, const RunCommand& command) {
  const Result<int> status = run_model(common, command);
  EXPECT_FALSE(status.ok());
  return status ? Error{} : status.error();
}

class RunModel : public testing::Test {
 protected:
  void SetUp() override {
    // Scores of a linear layer over a batch that the model does not state: 2 x, 1 - x, x, 0.
    onnx::Net net;
    net.input("x", {1, 1});
    net.output(net.node("Identity",
                        {net.node("Add", {net.node("MatMul", {"x", net.numbers({1, 4},
                                                                               [](std::int64_t i) {
                                                                                 return i == 0   ? 2.0F
                                                                                        : i == 1 ? -1.0F
                                                                                        : i == 2 ? 1.0F
                                                                                                 : 0.0F;
                                                                               })}),
                                          net.numbers({4}, [](std::int64_t i) { return i == 1 ? 1.0F : 0.0F; })})}));
    pb::ModelProto model = net.model();
    model.mutable_graph()
        ->mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_param("batch");
    output_ = model.graph().output(0).name();
    command_.model = folder_.write("model.onnx", model.SerializeAsString()).string();
    common_.cache = "off";
  }

  onnx::ScratchFolder folder_;
  std::string output_;
  Common common_;
  RunCommand command_;
};

TEST_F(RunModel, TakesArraysAndWritesThem) {
  const HostTensor x{DType::f32, {2, 1}, {}};
  HostTensor filled = x;
  ir::encode(DType::f32, 3, filled.bytes);
  ir::encode(DType::f32, -1, filled.bytes);
  ASSERT_TRUE(write_npy(folder_ / "x.npy", filled).ok());
  pb::TensorProto proto;
  proto.set_data_type(pb::TensorProto::FLOAT);
  proto.add_dims(2);
  proto.add_dims(1);
  proto.add_float_data(3);
  proto.add_float_data(-1);
  folder_.write("x.pb", proto.SerializeAsString());
  for (const char* file : {"x.npy", "x.pb"}) {
    command_.inputs = {"x=" + (folder_ / file).string()};
    command_.output_dir = (folder_ / "out").string();
    command_.top = 2;
    const std::string text = printed(common_, command_);
    EXPECT_NE(text.find("f32[2, 4] = {6, -2, 3, 0, -2, 2, ...}"), std::string::npos) << text;
    EXPECT_NE(text.find("largest of " + output_ + "[0]:  0: 6  2: 3\n"), std::string::npos) << text;
    EXPECT_NE(text.find("largest of " + output_ + "[1]:  1: 2  3: 0\n"), std::string::npos) << text;
    const auto written = read_npy(folder_ / ("out/" + output_ + ".npy"));
    ASSERT_TRUE(written.ok()) << written.error().text();
    EXPECT_EQ(written->sizes, (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(ir::decode(DType::f32, written->bytes.data() + 4), -2);
  }
}

TEST_F(RunModel, PrintsTheTimeOfEveryKernel) {
  command_.profile = true;
  command_.trace = (folder_ / "trace.json").string();
  const std::string text = printed(common_, command_);
  EXPECT_NE(text.find("device us    share          bytes       GB/s\n"), std::string::npos) << text;
  EXPECT_NE(text.find("segment 0"), std::string::npos) << text;
  EXPECT_NE(text.find("100.0%"), std::string::npos) << text;
  const std::size_t replay = text.find("One replay of the program: ");
  ASSERT_NE(replay, std::string::npos) << text;
  EXPECT_GT(std::stod(text.substr(replay + 27)), 0) << text;
  EXPECT_NE(text.find("Shaders compiled: "), std::string::npos) << text;
  // 4 rows: x is 4 floats, the result 16, the weights 4 and the bias 4.
  const auto trace = nlohmann::json::parse(std::ifstream(command_.trace));
  double end = 0;
  std::uint64_t bytes = 0;
  int kernels = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++kernels;
    EXPECT_GE(event.at("ts").get<double>(), end) << trace;
    end = event.at("ts").get<double>() + event.at("dur").get<double>();
    bytes += event.at("args").at("bytes").get<std::uint64_t>();
  }
  EXPECT_EQ(kernels, 1);
  EXPECT_GT(end, 0);
  EXPECT_EQ(bytes, 4U * (4 + 16 + 4 + 4));
  command_.trace = (folder_ / "no such folder" / "trace.json").string();
  EXPECT_NE(refused(common_, command_).message.find("no such folder"), std::string::npos);
}

TEST_F(RunModel, DrawsTheSameNumbersFromASeed) {
  command_.inputs = {"x=random:7"};
  const std::string first = printed(common_, command_), again = printed(common_, command_);
  EXPECT_EQ(first, again);
  command_.inputs = {"x=random:8"};
  EXPECT_NE(printed(common_, command_), first);
  // Symbols take 4, or what is stated.
  EXPECT_NE(first.find("f32[4, 4]"), std::string::npos) << first;
  common_.dims = {"batch=3"};
  EXPECT_NE(printed(common_, command_).find("f32[3, 4]"), std::string::npos);
}

TEST_F(RunModel, ConvertsFloatsAndSaysTheError) {
  command_.inputs = {"x=random:7"};
  for (const char* dtype : {"f16", "bf16"}) {
    common_.dtype = dtype;
    const std::string text = printed(common_, command_);
    EXPECT_NE(text.find(std::string(" : ") + dtype + "[4, 4]"), std::string::npos) << text;
    const std::string before = output_ + " against f32: largest error ";
    const std::size_t at = text.find(before);
    ASSERT_NE(at, std::string::npos) << text;
    const double error = std::atof(text.c_str() + at + before.size());
    EXPECT_GT(error, 0) << text;  // numbers of eight digits do not fit
    EXPECT_LT(error, 0.1) << text;
  }
}

TEST_F(RunModel, SaysWhatIsWrongWithItsArguments) {
  command_.inputs = {"x"};
  EXPECT_EQ(refused(common_, command_).message,
            "'--input x' is not NAME=FILE.npy, NAME=FILE.pb or NAME=random[:SEED].");
  command_.inputs = {"x=random:seven"};
  EXPECT_EQ(refused(common_, command_).message, "'random:seven' names no seed.");
  command_.inputs = {"z=random"};
  EXPECT_EQ(refused(common_, command_).message, "The graph 'test' has no input 'z'.");
  command_.inputs = {};
  common_.dims = {"batch"};
  EXPECT_EQ(refused(common_, command_).message, "'--dim batch' is not NAME=NUMBER.");
}

/// What is read at import decides a size here: the sizes of the data are taken.
TEST(ValidateCase, TakesTheSizesOfTheData) {
  const onnx::ScratchFolder folder;
  pb::ModelProto model = onnx::empty_model();
  onnx::add_input(model, "x", {1, 6})
      .mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("batch");
  onnx::add_int64s(model, "first", {0});
  onnx::add_int64s(model, "rest", {3, 2});
  onnx::add_node(model, "Shape", {"x"}, {"shape"});
  onnx::add_node(model, "Gather", {"shape", "first"}, {"batch"});
  onnx::add_int(onnx::add_node(model, "Concat", {"batch", "rest"}, {"wanted"}), "axis", 0);
  onnx::add_node(model, "Reshape", {"x", "wanted"}, {"r"});
  onnx::add_node(model, "Abs", {"r"}, {"y"});
  onnx::add_output(model, "y");
  folder.write("model.onnx", model.SerializeAsString());
  std::filesystem::create_directory(folder / "test_data_set_0");
  pb::TensorProto tensor;
  tensor.set_data_type(pb::TensorProto::FLOAT);
  for (const std::int64_t size : {2, 6}) tensor.add_dims(size);
  for (int i = 0; i < 12; ++i) tensor.add_float_data(static_cast<float>(i));
  tensor.set_name("x");
  folder.write("test_data_set_0/input_0.pb", tensor.SerializeAsString());
  tensor.clear_dims();
  for (const std::int64_t size : {2, 3, 2}) tensor.add_dims(size);
  tensor.set_name("y");
  folder.write("test_data_set_0/output_0.pb", tensor.SerializeAsString());
  const CaseResult right = validate_case(test::device(), folder.path(), {});
  EXPECT_EQ(static_cast<int>(right.verdict), static_cast<int>(Verdict::passed)) << right.detail;
  tensor.set_float_data(7, 0);
  folder.write("test_data_set_0/output_0.pb", tensor.SerializeAsString());
  const CaseResult wrong = validate_case(test::device(), folder.path(), {});
  EXPECT_EQ(static_cast<int>(wrong.verdict), static_cast<int>(Verdict::failed)) << wrong.detail;
}

}  // namespace
}  // namespace vkfuse::tool
