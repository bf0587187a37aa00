// Steps of stochastic gradient descent (domain ai.onnx.preview.training). Operands are a rate, the count
// of steps taken, and then lists of equal length: parameters, gradients and what the method remembers.
#include <span>

#include "onnx/compose.hpp"
#include "onnx/operators.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// The operands behind rate and count as `lists` lists.
Result<std::vector<std::vector<Tensor>>> lists_of(const NodeContext& node, std::size_t lists) {
  const std::vector<Tensor> all = node.tensors();
  const std::size_t count = all.size() - 2;
  if (static_cast<int>(all.size()) != node.inputs() || count == 0 || count % lists != 0) {
    return invalid("Operator {} has {} operands behind the rate and the count of steps; it takes {} lists of them.",
                   in_quotes(node.row().name), count, lists);
  }
  std::vector<std::vector<Tensor>> result;
  const std::size_t length = count / lists;
  for (std::size_t i = 0; i < lists; ++i) {
    const auto first = all.begin() + static_cast<int>(2 + i * length);
    result.emplace_back(first, first + static_cast<int>(length));
  }
  return result;
}

Tensor regularised(const Tensor& gradient, const Tensor& parameter, double coefficient) {
  return coefficient == 0 ? gradient : parameter * coefficient + gradient;
}

/// The count of steps in the dtype of the rate.
Tensor steps(const NodeContext& node) { return node.tensor(1).cast(node.dtype()); }

Tensor after_the_first_step(const NodeContext& node, const Tensor& later, const Tensor& first) {
  return select(op("gt", node.tensor(1), 0), later, first);
}

Outputs joined(std::initializer_list<Outputs> lists) {
  Outputs all;
  for (const Outputs& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

Result<Outputs> import_adagrad(const NodeContext& node) {
  VKF_TRY(decay, node.attributes().real("decay_factor", 0));
  VKF_TRY(epsilon, node.attributes().real("epsilon", 1e-6));
  VKF_TRY(norm, node.attributes().real("norm_coefficient", 0));
  VKF_TRY(lists, lists_of(node, 3));
  const Tensor rate = node.tensor(0) / (1.0 + steps(node) * decay);
  Outputs parameters, squares;
  for (std::size_t i = 0; i < lists[0].size(); ++i) {
    const Tensor gradient = regularised(lists[1][i], lists[0][i], norm);
    const Tensor square = lists[2][i] + gradient * gradient;
    parameters.emplace_back(lists[0][i] - rate * gradient / (op("sqrt", square) + epsilon));
    squares.emplace_back(square);
  }
  return joined({parameters, squares});
}

Result<Outputs> import_adam(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 0.9));
  VKF_TRY(beta, node.attributes().real("beta", 0.999));
  VKF_TRY(epsilon, node.attributes().real("epsilon", 1e-6));
  VKF_TRY(norm, node.attributes().real("norm_coefficient", 0));
  VKF_TRY(norm_after, node.attributes().real("norm_coefficient_post", 0));
  VKF_TRY(lists, lists_of(node, 4));
  const DType dtype = node.dtype();
  // After the first step what the averages began with is put right.
  const auto missing = [&](double share) { return 1.0 - op("pow", Tensor::scalar(dtype, share), steps(node)); };
  const Tensor& rate = node.tensor(0);
  const Tensor adjusted = after_the_first_step(node, rate * op("sqrt", missing(beta)) / missing(alpha), rate);
  Outputs parameters, averages, squares;
  for (std::size_t i = 0; i < lists[0].size(); ++i) {
    const Tensor gradient = regularised(lists[1][i], lists[0][i], norm);
    const Tensor average = lists[2][i] * alpha + gradient * (1 - alpha);
    const Tensor square = lists[3][i] * beta + gradient * gradient * (1 - beta);
    const Tensor stepped = lists[0][i] - adjusted * (average / (op("sqrt", square) + epsilon));
    parameters.emplace_back(stepped * (1 - norm_after));
    averages.emplace_back(average);
    squares.emplace_back(square);
  }
  return joined({parameters, averages, squares});
}

Result<Outputs> import_momentum(const NodeContext& node) {
  for (const char* name : {"alpha", "beta", "mode", "norm_coefficient"}) {
    if (!node.attributes().has(name)) return invalid("Attribute '{}' is missing.", name);
  }
  VKF_TRY(alpha, node.attributes().real("alpha", 0));
  VKF_TRY(beta, node.attributes().real("beta", 0));
  VKF_TRY(norm, node.attributes().real("norm_coefficient", 0));
  VKF_TRY(mode, node.attributes().text("mode", ""));
  if (mode != "standard" && mode != "nesterov") {
    return invalid("Attribute 'mode' is {}; it must be 'standard' or 'nesterov'.", in_quotes(mode));
  }
  VKF_TRY(lists, lists_of(node, 3));
  const DType dtype = node.dtype();
  const Tensor share = after_the_first_step(node, Tensor::scalar(dtype, beta), Tensor::scalar(dtype, 1));
  Outputs parameters, momenta;
  for (std::size_t i = 0; i < lists[0].size(); ++i) {
    const Tensor gradient = regularised(lists[1][i], lists[0][i], norm);
    const Tensor momentum = lists[2][i] * alpha + share * gradient;
    const Tensor direction = mode == "nesterov" ? gradient + momentum * alpha : momentum;
    parameters.emplace_back(lists[0][i] - node.tensor(0) * direction);
    momenta.emplace_back(momentum);
  }
  return joined({parameters, momenta});
}

}  // namespace vkfuse::onnx
