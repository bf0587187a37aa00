// Optimisers, as their papers write them.
#include "vkfuse/optimizers.hpp"

#include <cmath>

#include "api/composites.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

namespace {

Updated refused(Error error, std::size_t states) {
  const Tensor none = Tensor::failed(std::move(error));
  return {none, std::vector<Tensor>(states, none)};
}

/// What an optimiser is called with.
struct Step {
  std::string_view optimiser;
  const Tensor &parameter, &gradient;
  const std::vector<Tensor>& states;
  std::vector<const Tensor*> scalars;  ///< rates and counts
  std::size_t state_count = 0;
};

/// All are floats of one dtype, and all but the scalars of one shape.
Result<void> check_step(const Step& step) {
  std::vector<const Tensor*> alike{&step.parameter, &step.gradient};
  for (const Tensor& state : step.states) alike.push_back(&state);
  std::vector<const Tensor*> all = alike;
  all.insert(all.end(), step.scalars.begin(), step.scalars.end());
  for (const Tensor* one : all) {
    if (!one->valid()) return Error(one->error());
  }
  if (!is_float(step.parameter.dtype()))
    return invalid("'{}' takes floats, but the parameter is {}.", step.optimiser, api::text_of_type(step.parameter));
  if (step.states.size() != step.state_count) {
    return invalid("'{}' with these options has {} states for each parameter, but {} are given.", step.optimiser,
                   step.state_count, step.states.size());
  }
  for (const Tensor* one : alike) {
    if (one->dtype() == step.parameter.dtype() && one->shape() == step.parameter.shape()) continue;
    return invalid("'{}' takes a gradient and states of the parameter's type {}, but one is {}.", step.optimiser,
                   api::text_of_type(step.parameter), api::text_of_type(*one));
  }
  for (const Tensor* one : step.scalars) {
    if (one->dtype() == step.parameter.dtype() && one->shape().empty()) continue;
    return invalid("'{}' takes rates and counts that are scalars of {}, but one is {}.", step.optimiser,
                   name_of(step.parameter.dtype()), api::text_of_type(*one));
  }
  return {};
}

Tensor mean_of(const Tensor& mean, const Tensor& value, double decay) { return mean * decay + value * (1 - decay); }

}  // namespace

Updated sgd(const Tensor& parameter, const Tensor& gradient, const std::vector<Tensor>& states, const Tensor& rate,
            const SgdOptions& options) {
  const std::size_t count = options.momentum == 0 ? 0 : 1;
  if (auto right = check_step({"sgd", parameter, gradient, states, {&rate}, count}); !right)
    return refused(std::move(right).error(), count);
  const Tensor g = options.weight_decay == 0 ? gradient : gradient + parameter * options.weight_decay;
  if (count == 0) return {parameter - rate * g, {}};
  const Tensor velocity = states[0] * options.momentum + g;
  const Tensor direction = options.nesterov ? g + velocity * options.momentum : velocity;
  return {parameter - rate * direction, {velocity}};
}

Updated adamw(const Tensor& parameter, const Tensor& gradient, const std::vector<Tensor>& states, const AdamwPace& pace,
              const AdamwOptions& options) {
  const Tensor &rate = pace.rate, &step = pace.step;
  if (auto right = check_step({"adamw", parameter, gradient, states, {&rate, &step}, 2}); !right)
    return refused(std::move(right).error(), 2);
  const Tensor mean = mean_of(states[0], gradient, options.beta1);
  const Tensor square = mean_of(states[1], gradient * gradient, options.beta2);
  // 1 - beta^step, without cancellation.
  const auto correction = [&](double beta) { return -expm1(step * std::log(beta)); };
  const Tensor deviation = sqrt(square / correction(options.beta2)) + options.epsilon;
  const Tensor direction = mean / correction(options.beta1) / deviation;
  const Tensor kept = options.weight_decay == 0 ? parameter : parameter - rate * options.weight_decay * parameter;
  return {kept - rate * direction, {mean, square}};
}

Updated lion(const Tensor& parameter, const Tensor& gradient, const std::vector<Tensor>& states, const Tensor& rate,
             const LionOptions& options) {
  if (auto right = check_step({"lion", parameter, gradient, states, {&rate}, 1}); !right)
    return refused(std::move(right).error(), 1);
  const Tensor direction = sign(mean_of(states[0], gradient, options.beta1));
  const Tensor decayed = options.weight_decay == 0 ? direction : direction + parameter * options.weight_decay;
  return {parameter - rate * decayed, {mean_of(states[0], gradient, options.beta2)}};
}

Tensor moving_average(const Tensor& mean, const Tensor& value, double decay) { return mean_of(mean, value, decay); }

ClippedGradients clip_by_global_norm(std::span<const Tensor> gradients, double most) {
  const auto all_failed = [&](Error error) {
    const Tensor none = Tensor::failed(std::move(error));
    return ClippedGradients{std::vector<Tensor>(gradients.size(), none), none};
  };
  if (!(most > 0)) return all_failed(invalid("'clip_by_global_norm' takes a norm above 0, but it is {}.", most));
  bool is_wide = false;
  for (const Tensor& gradient : gradients) {
    if (!gradient.valid()) return all_failed(gradient.error());
    if (!is_float(gradient.dtype()))
      return all_failed(invalid("'clip_by_global_norm' takes floats, but one is {}.", api::text_of_type(gradient)));
    is_wide = is_wide || gradient.dtype() == DType::f64;
  }
  const DType dtype = is_wide ? DType::f64 : DType::f32;
  Tensor sum = Tensor::scalar(dtype, 0);
  for (const Tensor& gradient : gradients) {
    const Tensor wide = gradient.cast(dtype);
    sum = sum + (wide * wide).sum();
  }
  ClippedGradients made{{}, sqrt(sum)};
  const Tensor one = Tensor::scalar(dtype, 1);
  const Tensor factor = min(one, most / made.norm);
  for (const Tensor& gradient : gradients)
    made.gradients.push_back((gradient.cast(dtype) * factor).cast(gradient.dtype()));
  return made;
}

Tensor all_finite(std::span<const Tensor> gradients) {
  Tensor all = Tensor::scalar(DType::boolean, 1);
  for (const Tensor& gradient : gradients) all = logical_and(all, is_finite(gradient).all());
  return all;
}

Updated keep_unless(const Tensor& condition, const Updated& updated, const Tensor& parameter,
                    const std::vector<Tensor>& states) {
  if (states.size() != updated.states.size()) {
    return refused(invalid("'keep_unless' takes as many states as there are, but {} and {} are given.",
                           updated.states.size(), states.size()),
                   updated.states.size());
  }
  Updated made{select(condition, updated.parameter, parameter), {}};
  for (std::size_t i = 0; i < states.size(); ++i)
    made.states.push_back(select(condition, updated.states[i], states[i]));
  return made;
}

LossScale next_loss_scale(const LossScale& now, const Tensor& all_are_finite, const LossScaleOptions& options) {
  const auto count = [](int value) { return Tensor::scalar_int(DType::i32, value); };
  const Tensor good = now.good + count(1);
  const Tensor grows = ge(good, count(options.interval));
  const Tensor larger = min(now.scale * options.growth, Tensor::scalar(DType::f32, options.largest));
  return {select(all_are_finite, select(grows, larger, now.scale), now.scale * options.backoff),
          select(all_are_finite, select(grows, count(0), good), count(0))};
}

}  // namespace vkfuse
