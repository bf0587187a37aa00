// Models and their weights from the caller's memory.
#include <gtest/gtest.h>

#include <string>

#include "onnx/host_tensor.hpp"
#include "support/device.hpp"
#include "unit/onnx/external_data_fixture.hpp"

namespace vkfuse::onnx {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

const std::string kInMemory("\0\0\0\0\0\0\x40\x40\0\0\x80\x40", 12);  // 0, 3, 4; the file has 0, 1, 2

class ModelInMemory : public ExternalData {
 protected:
  /// y = x + t, whose elements are [1] and [2] of weights.bin.
  static std::string model() {
    pb::ModelProto model = empty_model();
    add_input(model, "x", {2});
    *model.mutable_graph()->add_initializer() = tensor_at("weights.bin", "4", "8");
    add_node(model, "Add", {"x", "t"}, {"y"});
    add_output(model, "y");
    return model.SerializeAsString();
  }

  static std::vector<float> run(const Result<OnnxProgram>& program) {
    if (!program) {
      ADD_FAILURE() << program.error().text();
      return {};
    }
    const std::vector<float> x = {10, 20};
    const Result<vkfuse::Outputs> outputs = program->run({{"x", HostView(x)}});
    if (!outputs) {
      ADD_FAILURE() << outputs.error().text();
      return {};
    }
    const auto elements = outputs->at("y").as<float>();
    return {elements.begin(), elements.end()};
  }
};

TEST_F(ModelInMemory, RunsAsOneOfAFile) {
  const std::string bytes = model();
  folder_.write("model.onnx", bytes);
  EXPECT_EQ(run(compile_onnx(test::device(), folder_ / "model.onnx")), (std::vector<float>{11, 22}));
  OnnxOptions options;
  options.external_data.emplace("weights.bin", bytes_of(kInMemory));
  EXPECT_EQ(run(compile_onnx(test::device(), bytes_of(bytes), options)), (std::vector<float>{13, 24}));
  // What is given comes before what lies beside the model.
  EXPECT_EQ(run(compile_onnx(test::device(), folder_ / "model.onnx", options)), (std::vector<float>{13, 24}));
}

TEST_F(ModelInMemory, OutlivesTheBytesThatItIsReadFrom) {
  Result<OnnxProgram> program = [] {
    const std::string bytes = model(), weights = kInMemory;
    OnnxOptions options;
    options.external_data.emplace("weights.bin", bytes_of(weights));
    return compile_onnx(test::device(), bytes_of(bytes), options);
  }();
  EXPECT_EQ(run(program), (std::vector<float>{13, 24}));
}

TEST_F(ModelInMemory, OpensNoFile) {
  const std::string bytes = model();
  const Result<OnnxModel> none = load_onnx(bytes_of(bytes));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::unsupported) << none.error().text();
  OnnxOptions options;
  options.external_data.emplace("./weights.bin", bytes_of(kInMemory));  // another name
  options.external_data.emplace("../weights.bin", bytes_of(kInMemory));
  const Result<OnnxModel> other = load_onnx(bytes_of(bytes), options);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::not_found);
  EXPECT_NE(other.error().text().find("lies in 'weights.bin', whose bytes are not given."), std::string::npos)
      << other.error().text();
}

TEST_F(ModelInMemory, IsRefusedWhereBytesAreMissing) {
  const std::string bytes = model();
  OnnxOptions options;
  options.external_data.emplace("weights.bin", bytes_of(kInMemory).first(11));
  const Result<OnnxModel> loaded = load_onnx(bytes_of(bytes), options);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(loaded.error().text().find("bytes 4 to 12 of 'weights.bin', which has only 11."), std::string::npos)
      << loaded.error().text();
  for (const std::size_t length : {std::size_t{0}, bytes.size() / 2}) {
    const Result<OnnxModel> part = load_onnx(bytes_of(bytes).first(length), options);
    ASSERT_FALSE(part.ok()) << length;
    EXPECT_NE(part.error().text().find("the model in memory"), std::string::npos) << part.error().text();
  }
}

TEST_F(ModelInMemory, SaysTheTypesOfItsOutputs) {
  pb::ModelProto model = unary_model("NonZero");
  const Result<OnnxProgram> nameless = compile_onnx(test::device(), bytes_of(model.SerializeAsString()));
  ASSERT_TRUE(nameless.ok()) << nameless.error().text();
  EXPECT_FALSE(nameless->output_type("y").ok());  // on the host, and the file does not say
  EXPECT_EQ(nameless->output_type("z").error().code, ErrorCode::not_found);
  auto& type = *model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type();
  type.set_elem_type(pb::TensorProto::INT64);
  type.mutable_shape()->add_dim()->set_dim_value(2);
  type.mutable_shape()->add_dim()->set_dim_param("found");
  const Result<OnnxProgram> stated = compile_onnx(test::device(), bytes_of(model.SerializeAsString()));
  ASSERT_TRUE(stated.ok()) << stated.error().text();
  const Result<Port> y = stated->output_type("y");
  ASSERT_TRUE(y.ok()) << y.error().text();
  EXPECT_EQ(y->dtype, DType::i64);
  EXPECT_EQ(y->shape, (Shape{2, Dim::any("found")}));
  // Where one program serves all runs, it is what is computed.
  const Result<OnnxProgram> whole = compile_onnx(test::device(), bytes_of(unary_model("Exp").SerializeAsString()));
  ASSERT_TRUE(whole.ok()) << whole.error().text();
  EXPECT_EQ(whole->output_type("y")->shape, (Shape{2, 3}));
}

}  // namespace
}  // namespace vkfuse::onnx
