// Norms: a tensor centred and scaled by its own moments, or by moments that are given.
#include <algorithm>
#include <numeric>

#include "api/composites.hpp"
#include "api/tensor_node.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

using api::text_of_type;

namespace {

std::vector<int> axes_up_from(int first, std::size_t rank) {
  std::vector<int> axes;
  for (int axis = first; axis < static_cast<int>(rank); ++axis) axes.push_back(axis);
  return axes;
}

DType statistics_of(const Tensor& x, const NormOptions& options) {
  return options.statistics.value_or(x.dtype() == DType::f64 ? DType::f64 : DType::f32);
}

Result<void> check_norm(std::string_view name, const Tensor& x, std::size_t least_rank, const NormOptions& options) {
  for (const std::optional<Tensor>& operand : {std::optional(x), options.scale, options.bias}) {
    if (operand && !operand->valid()) return Error(operand->error());
  }
  if (!is_float(x.dtype()) || (options.statistics && !is_float(*options.statistics))) {
    return invalid("'{}' takes floats and has statistics of floats, but they are {} and {}.", name,
                   vkfuse::name_of(x.dtype()), vkfuse::name_of(statistics_of(x, options)));
  }
  if (x.shape().size() < least_rank)
    return invalid("'{}' takes a tensor of {} axes at least, but it is {}.", name, least_rank, text_of_type(x));
  return {};
}

/// The first normalised axis, counted from 0.
Result<int> first_axis(std::string_view name, const Tensor& x, int axis) {
  const int rank = static_cast<int>(x.shape().size());
  const int counted = api::counted_axis(axis, x.shape().size());
  if (counted >= 0 && counted < rank) return counted;
  return invalid("'{}' normalises from axis {} on, which {} does not have.", name, axis, text_of_type(x));
}

Tensor scaled(Tensor result, const NormOptions& options) {
  if (options.scale) result = result * *options.scale;
  return options.bias ? result + *options.bias : result;
}

/// [channels] against [batch, channels, any...].
Result<Tensor> by_channels(std::string_view name, const Tensor& x, const Tensor& numbers) {
  if (!numbers.valid()) return Error(numbers.error());
  if (numbers.shape() != Shape{x.shape()[1]}) {
    return invalid("'{}' of {} takes a number for each of {} channels, but it was given {}.", name, text_of_type(x),
                   x.shape()[1].text(), text_of_type(numbers));
  }
  if (x.shape().size() == 2) return numbers;
  Shape shape(x.shape().size() - 1, Dim(1));
  shape[0] = x.shape()[1];
  return numbers.reshape(std::move(shape));
}

Result<NormOptions> lined_up(std::string_view name, const Tensor& x, NormOptions options) {
  for (std::optional<Tensor>* numbers : {&options.scale, &options.bias}) {
    if (!*numbers) continue;
    VKF_TRY(reshaped, by_channels(name, x, **numbers));
    *numbers = reshaped;
  }
  return options;
}

Result<Tensor> grouped(const Tensor& x, std::int64_t groups, const NormOptions& options) {
  VKF_CHECK_OK(check_norm("group_norm", x, 2, options));
  const Shape& shape = x.shape();
  if (groups < 1 || shape[1].is_symbol() || shape[1].size() % groups != 0) {
    return invalid("'group_norm' has {} groups of {} channels, which they must divide.", groups, shape[1].text());
  }
  VKF_TRY(known, lined_up("group_norm", x, options));
  const Moments own = moments(x.cast(statistics_of(x, options)).reshape({shape[0], groups, Dim(-1)}), {2});
  const Tensor normalised = (own.deviation * rsqrt(own.variance + options.epsilon)).cast(x.dtype());
  return scaled(normalised.reshape(shape), known);
}

Result<Tensor> by_instance(const Tensor& x, const NormOptions& options) {
  VKF_CHECK_OK(check_norm("instance_norm", x, 3, options));
  VKF_TRY(known, lined_up("instance_norm", x, options));
  const Moments own = moments(x.cast(statistics_of(x, options)), axes_up_from(2, x.shape().size()));
  return scaled((own.deviation * rsqrt(own.variance + options.epsilon)).cast(x.dtype()), known);
}

Result<Tensor> by_batch(const Tensor& x, const Tensor& mean, const Tensor& variance, const NormOptions& options) {
  VKF_CHECK_OK(check_norm("batch_norm", x, 2, options));
  VKF_TRY(known, lined_up("batch_norm", x, options));
  VKF_TRY(means, by_channels("batch_norm", x, mean));
  VKF_TRY(variances, by_channels("batch_norm", x, variance));
  const DType dtype = statistics_of(x, options);
  return api::batch_normalised(x.cast(dtype) - means.cast(dtype), variances.cast(dtype), known).cast(x.dtype());
}

LayerNorm failed_norm(Error error) {
  const Tensor none = Tensor::failed(std::move(error));
  return {none, none, none};
}

}  // namespace

Moments moments(const Tensor& x, const std::vector<int>& axes) {
  const Tensor mean = axes.empty() ? x : x.mean(axes, true);
  const Tensor deviation = x - mean;
  const Tensor square = deviation * deviation;
  return {mean, deviation, axes.empty() ? square : square.mean(axes, true)};
}

Tensor api::batch_normalised(const Tensor& deviation, const Tensor& variance, const NormOptions& options) {
  // One number per channel first: the elements are multiplied once.
  Tensor factor = rsqrt(variance + options.epsilon);
  if (options.scale) factor = options.scale->cast(variance.dtype()) * factor;
  const Tensor result = deviation * factor;
  return options.bias ? result + options.bias->cast(variance.dtype()) : result;
}

LayerNorm layer_norm_and_statistics(const Tensor& x, int axis, const NormOptions& options) {
  if (auto sound = check_norm("layer_norm", x, 1, options); !sound) return failed_norm(std::move(sound).error());
  const Result<int> first = first_axis("layer_norm", x, axis);
  if (!first) return failed_norm(first.error());
  const Moments own = moments(x.cast(statistics_of(x, options)), axes_up_from(*first, x.shape().size()));
  const Tensor inverse = rsqrt(own.variance + options.epsilon);
  return {scaled((own.deviation * inverse).cast(x.dtype()), options), own.mean, inverse};
}

Tensor layer_norm(const Tensor& x, int axis, const NormOptions& options) {
  return layer_norm_and_statistics(x, axis, options).result;
}

Tensor rms_norm(const Tensor& x, int axis, const NormOptions& options) {
  if (auto sound = check_norm("rms_norm", x, 1, options); !sound) return Tensor::failed(std::move(sound).error());
  const Result<int> first = first_axis("rms_norm", x, axis);
  if (!first) return Tensor::failed(first.error());
  const Tensor wide = x.cast(statistics_of(x, options));
  const std::vector<int> axes = axes_up_from(*first, x.shape().size());
  return scaled(rms_normalize(wide, axes, options.epsilon).cast(x.dtype()), options);
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const NormOptions& options) {
  return api::or_failed(grouped(x, groups, options));
}
Tensor instance_norm(const Tensor& x, const NormOptions& options) { return api::or_failed(by_instance(x, options)); }
Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const NormOptions& options) {
  return api::or_failed(by_batch(x, mean, variance, options));
}

}  // namespace vkfuse
