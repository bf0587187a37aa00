#include "support/training_graphs.hpp"

#include "support/compare.hpp"
#include "support/random.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/gradients.hpp"

namespace vkfuse::test {

namespace {

/// Parameters by number.
class Parameters {
 public:
  Tensor make(Shape shape) {
    all_.push_back(Tensor::input("p" + std::to_string(all_.size()), DType::f32, std::move(shape)));
    return all_.back();
  }
  /// The loss, and the parameters after a step.
  [[nodiscard]] ir::Graph step(const Tensor& loss) const {
    const std::vector<Tensor> slopes = gradients(std::vector{loss}, all_);
    std::vector<Tensor> outputs{loss};
    for (std::size_t i = 0; i < all_.size(); ++i) outputs.push_back(all_[i] - slopes[i] * 0.01);
    return graph_of(outputs);
  }

 private:
  std::vector<Tensor> all_;
};

Tensor attention_layer(const Tensor& x, Parameters& parameters, const TrainingShape& shape) {
  const std::int64_t heads = 2;
  const Tensor h = rms_norm(x);
  const auto projection = [&] {
    return matmul(h, parameters.make({shape.width, shape.width}))
        .reshape({shape.batch, shape.positions, heads, shape.width / heads})
        .permute({0, 2, 1, 3});
  };
  const Tensor q = projection(), k = projection(), v = projection();
  const Tensor y = attention(q, k, v, {.causal = true}).permute({0, 2, 1, 3});
  return x +
         matmul(y.reshape({shape.batch, shape.positions, shape.width}), parameters.make({shape.width, shape.width}));
}

Tensor perceptron(const Tensor& x, Parameters& parameters, std::int64_t width, std::int64_t wide) {
  const Tensor h = gelu(linear(rms_norm(x), parameters.make({width, wide}), parameters.make({wide})));
  return x + linear(h, parameters.make({wide, width}), parameters.make({width}));
}

}  // namespace

ir::Graph training_graph(const TrainingShape& shape) {
  Parameters parameters;
  const Dim batch = shape.symbol.empty() ? Dim(shape.batch) : Dim::any(shape.symbol);
  Tensor x = Tensor::input("x", DType::f32, {batch, shape.positions, shape.width});
  for (int layer = 0; layer < shape.layers; ++layer) {
    if (shape.attention) x = attention_layer(x, parameters, shape);
    x = perceptron(x, parameters, shape.width, 4 * shape.width);
    if (shape.dropout) x = dropout(x, 0.75, static_cast<std::uint64_t>(layer) + 1);
  }
  const Tensor y = rms_norm(x) - Tensor::input("target", DType::f32, {batch, shape.positions, shape.width});
  return parameters.step((y * y).mean());
}

ir::Graph random_training_graph(std::uint64_t seed) {
  Random random(seed);
  Parameters parameters;
  const auto size = [&] { return static_cast<std::int64_t>(4 + random.below(29)); };
  const std::int64_t rows = size(), width = size();
  std::vector<Tensor> values{Tensor::input("x", DType::f32, {rows, width})};
  const std::size_t layers = 2 + random.below(7);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const Tensor& x = values.back();
    const Tensor& skipped = values[random.below(values.size())];
    switch (random.below(7)) {
      case 0: values.push_back(linear(x, parameters.make({width, width}), parameters.make({width}))); break;
      case 1: values.push_back(perceptron(x, parameters, width, size())); break;
      case 2: values.push_back(layer_norm(x) * parameters.make({width})); break;
      case 3: values.push_back(tanh(x) * sigmoid(skipped)); break;
      case 4: values.push_back(dropout(x, 0.5, seed + layer)); break;
      case 5: values.push_back(softmax(matmul(x, parameters.make({width, width}))) + skipped); break;
      default: values.push_back((x + skipped) * 0.5); break;
    }
  }
  const Tensor y = linear(values.back(), parameters.make({width, 3}));
  return parameters.step((y * y).mean());
}

Data training_data(const ir::Graph& graph, const SymbolValues& symbols) {
  Data data;
  data.symbols = symbols;
  for (const ir::NodeId id : graph.inputs()) {
    const std::string& name = std::get<ir::InputPayload>(graph.node(id).payload).name;
    Random random(seed_of(17, name));
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < bytes_of(graph, id, symbols) / sizeof(float); ++i)
      ir::encode(DType::f32, random.between(-0.3, 0.3), bytes);
    data.inputs[name] = std::move(bytes);
  }
  return data;
}

}  // namespace vkfuse::test
