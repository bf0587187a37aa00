// What people write with the primitives, written with the primitives: no op of the graph knows these names.
#include "api/tensor_node.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

namespace {

std::string type_text(const Tensor& x) { return to_text(TensorType{x.dtype(), x.shape()}); }

/// Whether an axis is 0: there is no largest element, and nothing to divide.
bool is_empty_along(const Tensor& x, int axis) {
  if (!x.valid()) return false;
  const int at = api::counted_axis(axis, x.shape().size());
  return at >= 0 && at < static_cast<int>(x.shape().size()) && x.shape()[static_cast<std::size_t>(at)] == Dim(0);
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  if (is_empty_along(x, axis) && is_float(x.dtype())) return x;
  const Tensor raised = exp(x - api::largest_along(x, axis));  // the largest exponent is 0: no overflow
  // By the rules of its ops, a backward pass would read the exponentials, too.
  const GradientRule rule = [axis](const GradientCall& call) {
    const Tensor weighted = call.cotangent * call.result;
    return std::vector{call.result * (call.cotangent - weighted.sum({axis}, true))};
  };
  return api::with_own_gradient(raised / raised.sum({axis}, true), {{x}, rule});
}

Tensor log_softmax(const Tensor& x, int axis) {
  if (is_empty_along(x, axis) && is_float(x.dtype())) return x;
  const Tensor below = x - api::largest_along(x, axis);
  return below - log(exp(below).sum({axis}, true));
}

Tensor normalize(const Tensor& x, std::vector<int> axes, double epsilon) {
  const Tensor centered = x - x.mean(axes, true);
  const Tensor variance = (centered * centered).mean(std::move(axes), true);
  return centered * rsqrt(variance + epsilon);
}

Tensor rms_normalize(const Tensor& x, std::vector<int> axes, double epsilon) {
  return x * rsqrt((x * x).mean(std::move(axes), true) + epsilon);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels) {
  if (!logits.valid()) return logits;
  if (!labels.valid()) return labels;
  if (logits.shape().size() != 2 || labels.shape() != Shape{logits.shape()[0]}) {
    return Tensor::failed(
        invalid("'cross_entropy' takes logits of [rows, classes] and labels of [rows], but they are {} and {}.",
                type_text(logits), type_text(labels)));
  }
  const Tensor largest = api::largest_along(logits, 1);
  const Tensor log_sum = log(exp(logits - largest).sum({1}));
  const Tensor chosen = logits.take_along(labels.unsqueeze(1), 1);
  return log_sum - (chosen - largest).squeeze(1);
}

Tensor silu(const Tensor& x) { return x * sigmoid(x); }

TopK top_k(const Tensor& x, std::int64_t count, int axis, bool largest) {
  if (x.valid() && count < 1) {
    const Tensor none = Tensor::failed(
        invalid("'top_k' takes the best {} elements of {}, but it takes at least 1.", count, type_text(x)));
    return {none, none};
  }
  const Tensor positions = x.argsort(axis, largest, count);
  return {x.take_along(positions, axis), positions};
}

namespace {

Tensor dropped(const Tensor& x, double keep, const Seed& seed) {
  if (!x.valid()) return x;
  if (!(keep > 0 && keep <= 1))
    return Tensor::failed(
        invalid("'dropout' keeps elements with a probability above 0 and up to 1, but it is {}.", keep));
  if (!is_float(x.dtype()))
    return Tensor::failed(unsupported("'dropout' is not defined on {}; it takes floats.", name_of(x.dtype())));
  if (keep == 1) return x;
  const Tensor kept = lt(random_uniform(x.shape(), seed), Tensor::scalar(DType::f32, keep));
  return select(kept, x * (1 / keep), Tensor::scalar(x.dtype(), 0));
}

}  // namespace

Tensor dropout(const Tensor& x, double keep, std::uint64_t seed) { return dropped(x, keep, seed); }
Tensor dropout(const Tensor& x, double keep, const Tensor& seed) { return dropped(x, keep, seed); }

}  // namespace vkfuse
