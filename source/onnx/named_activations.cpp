#include "onnx/named_activations.hpp"

#include <algorithm>
#include <cctype>

#include "onnx/compose.hpp"
#include "onnx/text.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::onnx {
namespace {

constexpr Activation kActivations[] = {
    {"Relu"},
    {"Tanh"},
    {"Sigmoid"},
    {"Affine", 1, 0, true, true},
    {"LeakyRelu", 0.01, 0, true},
    {"ThresholdedRelu", 1, 0, true},
    {"ScaledTanh", 1, 1, true, true},
    {"HardSigmoid", 0.2, 0.5, true, true},
    {"Elu", 1, 0, true},
    {"Softsign"},
    {"Softplus"},
    {"Clip", -3.4028234663852886e38, 3.4028234663852886e38, true, true},
};

}  // namespace

Tensor Activation::operator()(const Tensor& x) const {
  if (name == "Relu") return op("relu", x);
  if (name == "Tanh") return op("tanh", x);
  if (name == "Sigmoid") return op("sigmoid", x);
  if (name == "Affine") return x * alpha + beta;
  if (name == "LeakyRelu") return leaky_relu(x, alpha);
  if (name == "ThresholdedRelu") return select(op("gt", x, alpha), x, Tensor::scalar(x.dtype(), 0));
  if (name == "ScaledTanh") return op("tanh", x * beta) * alpha;
  if (name == "HardSigmoid") return hard_sigmoid(x, alpha, beta);
  if (name == "Elu") return elu(x, alpha);
  if (name == "Softsign") return x / (op("abs", x) + 1);
  if (name == "Clip") return op("min", op("max", x, alpha), beta);
  return softplus(x);
}

Result<Activation> find_activation(std::string_view name, std::string_view attribute) {
  const auto same = [&](const Activation& known) {
    return std::ranges::equal(known.name, name, [](char a, char b) { return std::tolower(a) == std::tolower(b); });
  };
  const auto* known = std::ranges::find_if(kActivations, same);
  if (known != std::end(kActivations)) return *known;
  return invalid("Attribute '{}' names {}, which is none of ONNX's.", attribute, in_quotes(name));
}

Result<Activation> activation_with(std::string_view name, std::string_view attribute, std::span<const double> numbers) {
  VKF_TRY(activation, find_activation(name, attribute));
  std::size_t next = 0;
  if (activation.takes_alpha && next < numbers.size()) activation.alpha = numbers[next++];
  if (activation.takes_beta && next < numbers.size()) activation.beta = numbers[next++];
  return activation;
}

}  // namespace vkfuse::onnx
