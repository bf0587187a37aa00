// Models of one node, and what the reference computes for them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/tensor_node.hpp"
#include "onnx/tensor_proto.hpp"
#include "reference/reference.hpp"
#include "unit/onnx/models.hpp"

namespace vkfuse::onnx {

/// One output: integers and booleans come as doubles too.
struct Computed {
  DType dtype = DType::f32;
  Sizes sizes;
  std::vector<double> values;
  std::vector<std::int64_t> integers;
};

/// A model of one node whose operands are given with their elements.
///
///     EXPECT_EQ(OneNode("Tile").input({2}, {1, 2}).known({1}, {2}).value(), (List{1, 2, 1, 2}));
class OneNode {
 public:
  using List = std::vector<double>;
  using Type = pb::TensorProto::DataType;

  explicit OneNode(const std::string& op, std::int64_t opset = 17) : model_(empty_model(opset)) {
    model_.mutable_graph()->add_node()->set_op_type(op);
  }

  /// An operand that only the program knows.
  OneNode& input(const Sizes& sizes, const List& values, Type type = pb::TensorProto::FLOAT) {
    const std::string name = next_name();
    add_input(model_, name, sizes, type);
    input_bindings_.emplace_back(name, bytes_of(values, type));
    return *this;
  }
  /// An initialiser.
  OneNode& known(const Sizes& sizes, const List& values, Type type = pb::TensorProto::INT64) {
    const std::vector<std::byte> bytes = bytes_of(values, type);
    add_initialiser(model_, next_name(), sizes, type).set_raw_data(bytes.data(), bytes.size());
    return *this;
  }
  /// The same for integers that a double does not hold.
  OneNode& known_integers(const Sizes& sizes, const std::vector<std::int64_t>& values) {
    pb::TensorProto& tensor = add_initialiser(model_, next_name(), sizes, pb::TensorProto::INT64);
    for (const std::int64_t value : values) tensor.add_int64_data(value);
    return *this;
  }
  /// An initialiser of narrow elements, several in a byte.
  OneNode& packed(const Sizes& sizes, const std::vector<int>& bytes, Type type) {
    add_initialiser(model_, next_name(), sizes, type).set_raw_data(std::string(bytes.begin(), bytes.end()));
    return *this;
  }
  /// An operator of another domain than ONNX's own, version 1.
  OneNode& domain(const std::string& name) {
    node().set_domain(name);
    pb::OperatorSetIdProto& imported = *model_.add_opset_import();
    imported.set_domain(name);
    imported.set_version(1);
    return *this;
  }
  /// A size of input `operand` that only a run tells.
  OneNode& symbol(int operand, int axis, const std::string& name) {
    for (pb::ValueInfoProto& info : *model_.mutable_graph()->mutable_input()) {
      if (info.name() == "x" + std::to_string(operand))
        info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(axis)->set_dim_param(name);
    }
    return *this;
  }
  OneNode& absent() {
    node().add_input("");
    return *this;
  }
  OneNode& integer(const std::string& name, std::int64_t value) {
    add_int(node(), name, value);
    return *this;
  }
  OneNode& real(const std::string& name, float value) {
    add_float(node(), name, value);
    return *this;
  }
  OneNode& text(const std::string& name, const std::string& value) {
    add_attribute(node(), name, pb::AttributeProto::STRING).set_s(value);
    return *this;
  }
  OneNode& integers(const std::string& name, const Sizes& values) {
    pb::AttributeProto& attribute = add_attribute(node(), name, pb::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
    return *this;
  }
  OneNode& reals(const std::string& name, const std::vector<float>& values) {
    pb::AttributeProto& attribute = add_attribute(node(), name, pb::AttributeProto::FLOATS);
    for (const float value : values) attribute.add_floats(value);
    return *this;
  }

  OneNode& texts(const std::string& name, const std::vector<std::string>& values) {
    auto& all = *node().mutable_attribute();
    for (int i = all.size(); i-- > 0;) {
      if (all.Get(i).name() == name) all.DeleteSubrange(i, 1);  // stated again
    }
    pb::AttributeProto& attribute = add_attribute(node(), name, pb::AttributeProto::STRINGS);
    for (const std::string& value : values) attribute.add_strings(value);
    return *this;
  }

  /// What the node computes; fails the test where it does not import.
  std::vector<Computed> outputs(int count) {
    const Result<OnnxModel> model = imported(count);
    EXPECT_TRUE(model.ok()) << model.error().text();
    return model ? evaluated(*model) : std::vector<Computed>(static_cast<std::size_t>(count));
  }
  Computed output() { return outputs(1)[0]; }
  List value() { return output().values; }

  /// The model and the bytes of its inputs, for who runs it on a device.
  Result<OnnxModel> model(int count = 1) { return imported(count); }
  [[nodiscard]] const std::vector<std::pair<std::string, std::vector<std::byte>>>& input_bytes() const {
    return input_bindings_;
  }

  /// Why it does not import.
  Error error(int count = 1) {
    const Result<OnnxModel> model = imported(count);
    EXPECT_FALSE(model.ok());
    return model ? Error{} : model.error();
  }

 private:
  pb::NodeProto& node() { return *model_.mutable_graph()->mutable_node(0); }

  std::string next_name() {
    const std::string name = "x" + std::to_string(node().input_size());
    node().add_input(name);
    return name;
  }

  static std::vector<std::byte> bytes_of(const List& values, Type type) {
    const Result<ElementType> element = element_type_from(type, "A test's operand");
    EXPECT_TRUE(element.ok());
    const DType dtype = element->dtype;
    std::vector<std::byte> bytes;
    for (const double value : values) {
      if (is_float(dtype)) {
        ir::encode(dtype, value, bytes);
      } else {
        ir::encode_int(dtype, static_cast<std::int64_t>(value), bytes);
      }
    }
    return bytes;
  }

  Result<OnnxModel> imported(int count) {
    node().clear_output();
    model_.mutable_graph()->clear_output();
    for (int i = 0; i < count; ++i) {
      node().add_output("y" + std::to_string(i));
      add_output(model_, "y" + std::to_string(i));
    }
    return import(model_);
  }

  std::vector<Computed> evaluated(const OnnxModel& model) {
    std::vector<Computed> results(model.outputs.size());
    const Result<ir::Graph> graph = api::to_graph(model.outputs, model.output_names, "test");
    EXPECT_TRUE(graph.ok()) << graph.error().text();
    if (!graph) return results;
    reference::InputBindings input_bindings;
    for (const auto& [name, bytes] : input_bindings_) input_bindings.inputs.emplace(name, bytes);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Result<reference::Column> column = reference::evaluate(*graph, graph->outputs()[i].value, input_bindings);
      EXPECT_TRUE(column.ok()) << column.error().text();
      results[i].dtype = model.outputs[i].dtype();
      for (const Dim& dim : model.outputs[i].shape()) results[i].sizes.push_back(dim.size());
      if (column && is_float(results[i].dtype)) results[i].values = column->value;
      if (column && !is_float(results[i].dtype)) {
        results[i].integers = column->integer;
        results[i].values.assign(column->integer.begin(), column->integer.end());
      }
    }
    return results;
  }

  pb::ModelProto model_;
  std::vector<std::pair<std::string, std::vector<std::byte>>> input_bindings_;
};

using List = OneNode::List;

inline void expect_near(const List& got, const List& want, double tolerance = 1e-5) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i]) continue;  // of infinities there is no difference
    EXPECT_NEAR(got[i], want[i], tolerance) << "element " << i;
  }
}

/// One full sentence of this code that holds these words.
inline void expect_refused(const Error& error, ErrorCode code, const std::string& words) {
  EXPECT_EQ(name_of(error.code), std::string(name_of(code))) << error.text();
  EXPECT_NE(error.message.find(words), std::string::npos) << error.text();
  EXPECT_TRUE(error.message.ends_with('.')) << error.text();
}
inline void expect_invalid(const Error& error, const std::string& words) {
  expect_refused(error, ErrorCode::invalid_argument, words);
}
inline void expect_unsupported(const Error& error, const std::string& words) {
  expect_refused(error, ErrorCode::unsupported, words);
}

}  // namespace vkfuse::onnx
