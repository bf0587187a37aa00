// Losses over classes: the logarithm of a probability picked by a label.
#include <optional>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// Labels [n, d...] as [n, 1, d...].
struct Labels {
  Tensor classes;                ///< positions along the class axis
  std::optional<Tensor> counts;  ///< false where the label is ignored
  std::optional<Tensor> weight;  ///< what each label counts, 0 where it is ignored; nothing if all count 1
};

Result<void> check_shapes(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  Shape requested = node.tensor(0).shape();
  requested.erase(requested.begin() + 1);
  if (!is_integer(node.dtype(1)) || node.tensor(1).shape() != requested) {
    return invalid("The labels are {}{}; an input of {} asks for integers of {}.", name_of(node.dtype(1)),
                   to_text(node.tensor(1).shape()), to_text(node.tensor(0).shape()), to_text(requested));
  }
  if (!node.has(2)) return {};
  const Dim& classes = node.tensor(0).shape()[1];
  if (node.dtype(2) == node.dtype(0) && node.tensor(2).shape() == Shape{classes}) return {};
  return invalid("The weights are {}{}; the input asks for {}[{}].", name_of(node.dtype(2)),
                 to_text(node.tensor(2).shape()), name_of(node.dtype(0)), classes.text());
}

Result<Labels> labels_of(const NodeContext& node) {
  VKF_CHECK_OK(check_shapes(node));
  const Tensor labels = node.tensor(1).unsqueeze(1);
  // An ignored label need not be a class, -100 for example: class 0 stands in for it, with no weight.
  VKF_TRY(ignored, node.attributes().integer("ignore_index", 0));
  const bool is_possible = ignored >= INT32_MIN && ignored <= INT32_MAX;
  Labels result{labels.cast(DType::i32), {}, {}};
  if (node.attributes().has("ignore_index") && is_possible) {
    result.counts = op("ne", result.classes, static_cast<double>(ignored));
    result.classes = select(*result.counts, result.classes, Tensor::scalar(DType::i32, 0));
  }
  if (node.has(2)) result.weight = node.tensor(2).gather(result.classes, 0);
  if (result.counts) {
    const Tensor weight = result.weight.value_or(Tensor::scalar(node.dtype(), 1));
    result.weight = select(*result.counts, weight, Tensor::scalar(node.dtype(), 0));
  }
  return result;
}

/// The loss of log-probabilities [n, classes, d...], reduced as the attribute says.
Result<Tensor> likelihood_loss(const NodeContext& node, const Tensor& log_probabilities) {
  VKF_TRY(reduction, node.attributes().text("reduction", "mean"));
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    return invalid("Attribute 'reduction' is {}; it must be 'none', 'sum' or 'mean'.", in_quotes(reduction));
  }
  VKF_TRY(labels, labels_of(node));
  const Tensor picked = -log_probabilities.take_along(labels.classes, 1);
  Tensor loss = labels.weight ? picked * *labels.weight : picked;
  // Chosen, not only multiplied by 0: class 0 may have lost an infinity.
  if (labels.counts) loss = select(*labels.counts, loss, Tensor::scalar(node.dtype(), 0));
  if (reduction == "none") return loss.squeeze(1);
  if (reduction == "sum") return loss.sum();
  return labels.weight ? loss.sum() / labels.weight->sum() : loss.mean();
}

}  // namespace

Result<Outputs> import_negative_log_likelihood(const NodeContext& node) {
  VKF_TRY(loss, likelihood_loss(node, node.tensor(0)));
  return Outputs{std::move(loss)};
}

Result<Outputs> import_softmax_cross_entropy(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  const Tensor log_probabilities = log_softmax(node.tensor(0), 1);
  VKF_TRY(loss, likelihood_loss(node, log_probabilities));
  return Outputs{std::move(loss), log_probabilities};
}

}  // namespace vkfuse::onnx
