// ONNX models built in memory.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/shape.hpp"
#include "onnx/graph_import.hpp"
#include "onnx/schema.hpp"
#include "os/files.hpp"

namespace vkfuse::onnx {

inline pb::ModelProto empty_model(std::int64_t opset = 17) {
  pb::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  model.mutable_graph()->set_name("test");
  return model;
}

inline pb::ValueInfoProto& add_input(pb::ModelProto& model, const std::string& name, const Sizes& sizes,
                                     pb::TensorProto::DataType type = pb::TensorProto::FLOAT) {
  pb::ValueInfoProto& info = *model.mutable_graph()->add_input();
  info.set_name(name);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(type);
  auto* shape = info.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const std::int64_t size : sizes) shape->add_dim()->set_dim_value(size);
  return info;
}

/// An output whose type is left to the graph.
inline pb::ValueInfoProto& add_output(pb::ModelProto& model, const std::string& name) {
  pb::ValueInfoProto& info = *model.mutable_graph()->add_output();
  info.set_name(name);
  return info;
}

inline pb::NodeProto& fill_node(pb::NodeProto& node, const std::string& op, const std::vector<std::string>& inputs,
                                const std::vector<std::string>& outputs) {
  node.set_op_type(op);
  for (const std::string& name : inputs) node.add_input(name);
  for (const std::string& name : outputs) node.add_output(name);
  return node;
}

inline pb::NodeProto& add_node(pb::ModelProto& model, const std::string& op, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs) {
  return fill_node(*model.mutable_graph()->add_node(), op, inputs, outputs);
}

inline pb::AttributeProto& add_attribute(pb::NodeProto& node, const std::string& name,
                                         pb::AttributeProto::AttributeType type) {
  pb::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

inline void add_int(pb::NodeProto& node, const std::string& name, std::int64_t value) {
  add_attribute(node, name, pb::AttributeProto::INT).set_i(value);
}

inline void add_float(pb::NodeProto& node, const std::string& name, float value) {
  add_attribute(node, name, pb::AttributeProto::FLOAT).set_f(value);
}

inline pb::TensorProto& add_initialiser(pb::ModelProto& model, const std::string& name, const Sizes& sizes,
                                        pb::TensorProto::DataType type = pb::TensorProto::FLOAT) {
  pb::TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const std::int64_t size : sizes) tensor.add_dims(size);
  return tensor;
}

inline pb::TensorProto& add_int64s(pb::ModelProto& model, const std::string& name, const Sizes& values) {
  pb::TensorProto& tensor =
      add_initialiser(model, name, {static_cast<std::int64_t>(values.size())}, pb::TensorProto::INT64);
  for (const std::int64_t value : values) tensor.add_int64_data(value);
  return tensor;
}

/// y = op(x) over f32[2, 3].
inline pb::ModelProto unary_model(const std::string& op, std::int64_t opset = 17) {
  pb::ModelProto model = empty_model(opset);
  add_input(model, "x", {2, 3});
  add_node(model, op, {"x"}, {"y"});
  add_output(model, "y");
  return model;
}

inline Result<OnnxModel> import(const pb::ModelProto& model, const OnnxOptions& options = {}) {
  return import_model(model, {}, options);
}

/// A folder that goes away with the test.
class ScratchFolder {
 public:
  ScratchFolder() { path_ = os::make_scratch_folder("vkfuse-onnx-").value(); }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace vkfuse::onnx
