// Writing whole networks as ONNX models, in the forms that exporters give them.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <variant>

#include "unit/onnx/models.hpp"

namespace vkfuse::onnx {

using Attribute = std::pair<std::string, std::variant<std::int64_t, float, std::string, Sizes>>;

/// Values go by name. Weights are initialisers with elements of a size that keeps activations near 1; of a model that
/// is only planned they are inputs, so that it may be as large as models are.
class Net {
 public:
  enum class Weights { stored, inputs };

  explicit Net(std::int64_t opset = 18, Weights weights = Weights::stored)
      : model_(empty_model(opset)), weights_(weights) {}

  // How large the network is: of sequences, and of images with their sides and channels as multiples of the smallest.
  std::int64_t batch = 2, length = 24, width = 32, heads = 4, image = 1, channels = 1;
  [[nodiscard]] std::int64_t size() const { return width / heads; }

  std::string image_input(std::int64_t side) { return input("x", {batch, 3, side * image, side * image}); }
  std::string input(const std::string& name, const Sizes& sizes,
                    pb::TensorProto::DataType type = pb::TensorProto::FLOAT) {
    add_input(model_, name, sizes, type);
    return name;
  }
  /// Numbers N(mean, deviation).
  std::string weight(const Sizes& sizes, double deviation, double mean = 0) {
    const std::string name = fresh("w");
    if (weights_ == Weights::inputs) return input(name, sizes);
    pb::TensorProto& tensor = add_initialiser(model_, name, sizes);
    std::normal_distribution<float> numbers(static_cast<float>(mean), static_cast<float>(deviation));
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    for (std::int64_t i = 0; i < count; ++i) tensor.add_float_data(numbers(random_));
    return name;
  }
  std::string numbers(const Sizes& sizes, const std::function<float(std::int64_t)>& at) {
    const std::string name = fresh("c");
    pb::TensorProto& tensor = add_initialiser(model_, name, sizes);
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    for (std::int64_t i = 0; i < count; ++i) tensor.add_float_data(at(i));
    return name;
  }
  std::string number(double value) {
    return numbers({}, [&](std::int64_t) { return static_cast<float>(value); });
  }
  std::string ints(const Sizes& values) {
    const std::string name = fresh("i");
    add_int64s(model_, name, values);
    return name;
  }

  std::vector<std::string> nodes(const std::string& op, const std::vector<std::string>& inputs, int outputs,
                                 const std::vector<Attribute>& attributes = {}) {
    std::vector<std::string> names;
    for (int i = 0; i < outputs; ++i) names.push_back(fresh("v"));
    pb::NodeProto& node = add_node(model_, op, inputs, names);
    for (const Attribute& attribute : attributes) set(node, attribute);
    return names;
  }
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes = {}) {
    return nodes(op, inputs, 1, attributes)[0];
  }
  void output(const std::string& name) { add_output(model_, name); }

  // What exporters write for layers.

  std::string linear(const std::string& x, std::int64_t from, std::int64_t to, bool bias = true) {
    const std::string y = node("MatMul", {x, weight({from, to}, 1 / std::sqrt(static_cast<double>(from)))});
    return bias ? node("Add", {y, weight({to}, 0.1)}) : y;
  }
  std::string gemm(const std::string& x, std::int64_t from, std::int64_t to) {
    return node("Gemm", {x, weight({to, from}, 1 / std::sqrt(static_cast<double>(from))), weight({to}, 0.1)},
                {{"transB", 1}});
  }
  std::string layer_norm(const std::string& x, std::int64_t size) {
    return node("LayerNormalization", {x, weight({size}, 0.1, 1), weight({size}, 0.1)},
                {{"epsilon", 1e-5F}, {"axis", -1}});
  }
  /// As written where the opset has no operator for it.
  std::string written_layer_norm(const std::string& x, std::int64_t size) {
    const std::string centred = node("Sub", {x, node("ReduceMean", {x, ints({-1})})});
    const std::string variance = node("ReduceMean", {node("Pow", {centred, number(2)}), ints({-1})});
    const std::string normal = node("Div", {centred, node("Sqrt", {node("Add", {variance, number(1e-5)})})});
    return node("Add", {node("Mul", {normal, weight({size}, 0.1, 1)}), weight({size}, 0.1)});
  }
  std::string rms_norm(const std::string& x, std::int64_t size) {
    const std::string square = node("ReduceMean", {node("Pow", {x, number(2)}), ints({-1})});
    const std::string scale = node("Reciprocal", {node("Sqrt", {node("Add", {square, number(1e-6)})})});
    return node("Mul", {node("Mul", {x, scale}), weight({size}, 0.1, 1)});
  }
  /// Without an operator of its own: normalised as instances of one channel.
  std::string group_norm(const std::string& x, const Sizes& sizes, std::int64_t groups) {
    const std::string flat = node("Reshape", {x, ints({0, groups, -1})});
    const std::string normal =
        node("InstanceNormalization", {flat, numbers({groups}, [](std::int64_t) { return 1.0F; }),
                                       numbers({groups}, [](std::int64_t) { return 0.0F; })});
    const std::string back = node("Reshape", {normal, ints(sizes)});
    return node("Add", {node("Mul", {back, weight({sizes[1], 1, 1}, 0.1, 1)}), weight({sizes[1], 1, 1}, 0.1)});
  }
  std::string gelu(const std::string& x) {
    const std::string half = node("Add", {node("Erf", {node("Div", {x, number(std::sqrt(2.0))})}), number(1)});
    return node("Mul", {x, node("Mul", {number(0.5), half})});
  }
  std::string tanh_gelu(const std::string& x) {
    const std::string cubed = node("Mul", {node("Pow", {x, number(3)}), number(0.044715)});
    const std::string inner = node("Mul", {node("Add", {x, cubed}), number(0.7978845608)});
    return node("Mul", {node("Mul", {x, number(0.5)}), node("Add", {node("Tanh", {inner}), number(1)})});
  }
  std::string silu(const std::string& x) { return node("Mul", {x, node("Sigmoid", {x})}); }
  std::string transpose(const std::string& x, const Sizes& order) { return node("Transpose", {x}, {{"perm", order}}); }
  std::string reshape(const std::string& x, const Sizes& sizes) { return node("Reshape", {x, ints(sizes)}); }

  struct Conv {
    std::int64_t from = 1, to = 1, kernel = 1, stride = 1, groups = 1;
    int rank = 2;
    bool bias = true;
  };
  std::string conv(const std::string& x, const Conv& how) {
    const auto rank = static_cast<std::size_t>(how.rank);
    Sizes sizes{how.to, how.from / how.groups};
    sizes.insert(sizes.end(), rank, how.kernel);
    double taps = static_cast<double>(how.from / how.groups);
    for (int i = 0; i < how.rank; ++i) taps *= static_cast<double>(how.kernel);
    std::vector<std::string> operands{x, weight(sizes, 1 / std::sqrt(taps))};
    if (how.bias) operands.push_back(weight({how.to}, 0.1));
    const std::int64_t pad = how.stride == how.kernel ? 0 : how.kernel / 2;
    return node("Conv", operands,
                {{"kernel_shape", Sizes(rank, how.kernel)},
                 {"strides", Sizes(rank, how.stride)},
                 {"pads", Sizes(2 * rank, pad)},
                 {"group", how.groups}});
  }
  std::string batch_norm(const std::string& x, std::int64_t count) {
    const std::string variance =
        numbers({count}, [](std::int64_t i) { return 0.5F + 0.1F * static_cast<float>(i % 7); });
    return node("BatchNormalization",
                {x, weight({count}, 0.1, 1), weight({count}, 0.1), weight({count}, 0.1), variance},
                {{"epsilon", 1e-5F}});
  }

  [[nodiscard]] const pb::ModelProto& model() const { return model_; }

 private:
  std::string fresh(const char* kind) { return kind + std::to_string(next_++); }

  static void set(pb::NodeProto& node, const Attribute& attribute) {
    const auto& [name, value] = attribute;
    if (const auto* number = std::get_if<std::int64_t>(&value)) add_int(node, name, *number);
    if (const auto* real = std::get_if<float>(&value)) add_float(node, name, *real);
    if (const auto* text = std::get_if<std::string>(&value))
      add_attribute(node, name, pb::AttributeProto::STRING).set_s(*text);
    if (const auto* list = std::get_if<Sizes>(&value)) {
      pb::AttributeProto& made = add_attribute(node, name, pb::AttributeProto::INTS);
      for (const std::int64_t one : *list) made.add_ints(one);
    }
  }

  pb::ModelProto model_;
  Weights weights_;
  std::mt19937 random_{1};
  int next_ = 0;
};

/// A kernel for each contraction, norm, pool and Split, and two more: what a model may take that fuses as it should. A
/// recurrent layer has a contraction for all steps' inputs and one for each step.
inline int most_kernels(const pb::ModelProto& model, int recurrent_products = 0) {
  static const std::vector<std::string> counted = {"Attention",
                                                   "AveragePool",
                                                   "Conv",
                                                   "ConvTranspose",
                                                   "Einsum",
                                                   "Gemm",
                                                   "GlobalAveragePool",
                                                   "GlobalMaxPool",
                                                   "GroupNormalization",
                                                   "InstanceNormalization",
                                                   "LayerNormalization",
                                                   "MatMul",
                                                   "MaxPool",
                                                   "RMSNormalization",
                                                   "ReduceMean",
                                                   "Split"};
  int count = 2 + recurrent_products;
  for (const pb::NodeProto& node : model.graph().node()) {
    count += static_cast<int>(std::count(counted.begin(), counted.end(), node.op_type()));
  }
  return count;
}

}  // namespace vkfuse::onnx
