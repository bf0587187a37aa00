// Steps of training: forward, backward and the optimiser in one program. Parameters and states are f32, and what is
// computed of them is of the row's dtype.
#include <fmt/format.h>

#include "row_groups.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/gradients.hpp"
#include "vkfuse/ops.hpp"
#include "vkfuse/optimizers.hpp"

namespace vkfuse::bench {

namespace {

/// Of the loss: gradients of f16 keep their small values.
constexpr double kScale = 1024;

/// Writes a step: parameters and states become inputs, and what they are after it outputs.
class Training {
 public:
  explicit Training(DType dtype) : dtype_(dtype) {}

  [[nodiscard]] Tensor input(const char* name, Shape shape) const {
    return Tensor::input(name, dtype_, std::move(shape));
  }
  /// An f32 input, in the dtype that is computed in.
  Tensor learnt(const char* name, Shape shape) {
    parameters_.push_back(Tensor::input(fmt::format("{} {}", name, parameters_.size()), DType::f32, std::move(shape)));
    return parameters_.back().cast(dtype_);
  }
  Tensor linear(const Tensor& x, std::int64_t features) {
    return matmul(x, learnt("weight", {x.shape().back(), features})) + learnt("bias", {features});
  }
  Tensor normed(const Tensor& x) {
    const Dim width = x.shape().back();
    return layer_norm(x, -1, {.scale = learnt("scale", {width}), .bias = learnt("bias", {width})});
  }

  /// A step of AdamW towards a smaller loss, a mean in f32.
  [[nodiscard]] Built adamw_step(const Tensor& loss) const {
    const AdamwPace pace{Tensor::scalar(DType::f32, 1e-3), Tensor::scalar(DType::f32, 10)};
    return step(loss, [&](std::size_t i, const Tensor& gradient) {
      const Tensor first = state("first", i), second = state("second", i);  // the latter is not negative
      return adamw(parameters_[i], gradient, {first, second}, pace);
    });
  }
  [[nodiscard]] Built sgd_step(const Tensor& loss) const {
    return step(loss, [&](std::size_t i, const Tensor& gradient) {
      return sgd(parameters_[i], gradient, {state("momentum", i)}, Tensor::scalar(DType::f32, 1e-2), {.momentum = 0.9});
    });
  }

 private:
  [[nodiscard]] Tensor state(const char* name, std::size_t i) const {
    return Tensor::input(fmt::format("{} {}", name, i), DType::f32, parameters_[i].shape());
  }
  template <typename Update>
  [[nodiscard]] Built step(const Tensor& loss, const Update& update) const {
    const std::vector<Tensor> slopes = gradients(std::vector{loss * kScale}, parameters_);
    std::vector<Tensor> outputs{loss};
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Updated made = update(i, slopes[i] * (1 / kScale));
      outputs.push_back(made.parameter);
      outputs.insert(outputs.end(), made.states.begin(), made.states.end());
    }
    return {std::move(outputs)};
  }

  DType dtype_;
  std::vector<Tensor> parameters_;
};

/// The mean square distance from another input.
Tensor distance_loss(const Training& training, const Tensor& y) {
  const Tensor off = (y - training.input("target", y.shape())).cast(DType::f32);
  std::vector<int> axes;
  for (std::size_t axis = 0; axis < y.shape().size(); ++axis) axes.push_back(static_cast<int>(axis));
  return (off * off).mean(axes);
}

/// Shape is [rows, width].
Built mlp_step(DType dtype, const Shape& shape) {
  Training training(dtype);
  const std::int64_t width = shape[1].size();
  const Tensor x = training.input("x", shape);
  return training.adamw_step(distance_loss(training, training.linear(gelu(training.linear(x, 4 * width)), width)));
}

/// One layer of GPT-2: shape is [batch, tokens, heads of 64].
Built transformer_step(DType dtype, const Shape& shape) {
  Training training(dtype);
  const std::int64_t heads = shape[2].size(), width = 64 * heads;
  const Tensor x = training.input("x", {shape[0], shape[1], width});
  const Tensor joined = training.linear(training.normed(x), 3 * width);
  const Tensor parts = joined.reshape({shape[0], shape[1], 3, heads, 64}).permute({2, 0, 3, 1, 4});
  const Tensor mixed = attention(parts.select(0, 0), parts.select(0, 1), parts.select(0, 2), {.causal = true});
  const Tensor flat = mixed.permute({0, 2, 1, 3}).reshape({shape[0], shape[1], width});
  const Tensor middle = x + training.linear(flat, width);
  const Tensor wide = gelu(training.linear(training.normed(middle), 4 * width));
  return training.adamw_step(distance_loss(training, middle + training.linear(wide, width)));
}

/// Normalised by the mean and variance of each channel of the batch, in f32.
Tensor batch_normed(Training& training, const Tensor& x) {
  const Dim channels = x.shape()[1];
  const Tensor rows = x.cast(DType::f32).permute({1, 0, 2, 3}).reshape({channels, -1});
  const Tensor back =
      normalize(rows, {1}, 1e-5).reshape({channels, x.shape()[0], x.shape()[2], x.shape()[3]}).permute({1, 0, 2, 3});
  const Shape each{channels, 1, 1};
  return (back * training.learnt("scale", each).cast(DType::f32) + training.learnt("bias", each).cast(DType::f32))
      .cast(x.dtype());
}

/// A bottleneck of ResNet with a step of 2 behind a pooling: shape is [batch, channels, height, width].
Built bottleneck_step(DType dtype, const Shape& shape) {
  Training training(dtype);
  const std::int64_t channels = shape[1].size();
  const auto layer = [&](const Tensor& x, std::int64_t features, std::int64_t taps, std::int64_t stride) {
    const Tensor w = training.learnt("weight", {features, x.shape()[1], taps, taps});
    const std::int64_t around = taps / 2;
    return batch_normed(training,
                        conv(x, w, {.strides = {stride, stride}, .low = {around, around}, .high = {around, around}}));
  };
  const Tensor x =
      max_pool(training.input("x", shape), {.sizes = {3, 3}, .strides = {2, 2}, .low = {1, 1}, .high = {1, 1}});
  const Tensor early = relu(layer(
      max_pool(relu(layer(x, channels, 3, 1)), {.sizes = {3, 3}, .low = {1, 1}, .high = {1, 1}}), channels, 1, 1));
  const Tensor y = relu(layer(relu(layer(early, channels, 3, 2)), 4 * channels, 1, 1) + layer(x, 4 * channels, 1, 2));
  return training.sgd_step(distance_loss(training, y));
}

/// The last product of a language model and its loss: shape is [rows, width], of 50,257 classes.
Built classifier_step(DType dtype, const Shape& shape) {
  Training training(dtype);
  const Tensor x = training.input("x", shape);
  const Tensor logits = matmul(x, training.learnt("weight", {shape[1], 50257}));
  const Tensor labels = Tensor::input("labels", DType::i32, {shape[0]});
  return training.sgd_step(cross_entropy(logits.cast(DType::f32), labels).mean({0}));
}

}  // namespace

std::vector<Row> training_rows() {
  std::vector<Row> all;
  const auto add = [&](std::string name, std::vector<std::int64_t> full, auto build, std::vector<std::size_t> divide,
                       std::vector<DType> dtypes = {DType::f16, DType::f32}) {
    for (const DType dtype : dtypes) {
      all.push_back({fmt::format("{} {}", name, vkfuse::name_of(dtype)),
                     "training",
                     dtype,
                     full,
                     build,
                     {.positive = "second", .divide = divide, .named = true, .small = "weight", .model = true}});
    }
  };
  add("mlp step", {8192, 1024}, mlp_step, {0, 1});
  add("transformer step", {8, 1024, 12}, transformer_step, {0, 2, 1});
  // In f16 the gradients of three norms in a row cancel to more than the roundings of one kernel per op tell.
  add("bottleneck step", {64, 64, 56, 56}, bottleneck_step, {0, 2, 3}, {DType::f32});
  add("classifier step", {8192, 768}, classifier_step, {0, 1});
  return all;
}

}  // namespace vkfuse::bench
