// Optimisers: what vkfuse.optimizers, which knows of nested parameters, is made of.
#include <algorithm>

#include "bind.hpp"
#include "device.hpp"
#include "vkfuse/optimizers.hpp"

namespace vkfuse::python {

using namespace nb::literals;

namespace {

std::vector<Tensor> tensors_of(nb::handle object) {
  std::vector<Tensor> all;
  for (const nb::handle one : object) all.push_back(to_tensor(one, nullptr));
  return all;
}

nb::list objects_of(const std::vector<Tensor>& tensors) {
  nb::list all;
  for (const Tensor& one : tensors) all.append(value_object(one));
  return all;
}

/// The parameter after a step, and a list of its states.
nb::object object_of(const Updated& updated) {
  return nb::make_tuple(value_object(updated.parameter), objects_of(updated.states));
}

/// Runs `make`, which makes tensors of the operands: by the turn of a stream where one of them is a stream's.
template <typename Make>
nb::object in_turn(const std::vector<Tensor>& operands, const Make& make) {
  if (std::ranges::none_of(operands, is_of_stream)) return make();
  const StreamTurn turn;
  return make();
}

/// A parameter, its gradient and its states, as an optimiser takes them.
struct Stepped {
  Stepped(nb::handle p, nb::handle g, nb::handle before)
      : parameter(to_tensor(p, nullptr)), gradient(to_tensor(g, nullptr)), states(tensors_of(before)) {}

  /// A number in the parameter's dtype, or a tensor.
  [[nodiscard]] Tensor number(nb::handle object) const { return to_tensor(object, &parameter); }
  /// What `make` makes of them and of these numbers.
  template <typename Make>
  [[nodiscard]] nb::object by(const std::vector<Tensor>& numbers, const Make& make) const {
    std::vector<Tensor> all = numbers;
    all.insert(all.end(), {parameter, gradient});
    return in_turn(all, [&] { return object_of(make()); });
  }

  Tensor parameter, gradient;
  std::vector<Tensor> states;
};

void bind_steps(nb::module_& module) {
  module.def(
      "_sgd",
      [](nb::handle parameter, nb::handle gradient, nb::handle states, nb::handle rate, double momentum, bool nesterov,
         double weight_decay) {
        const Stepped s(parameter, gradient, states);
        const SgdOptions options{momentum, nesterov, weight_decay};
        const Tensor r = s.number(rate);
        return s.by({r}, [&] { return sgd(s.parameter, s.gradient, s.states, r, options); });
      },
      "What SGD of vkfuse.optimizers is made of.");
  module.def(
      "_adamw",
      [](nb::handle parameter, nb::handle gradient, nb::handle states, nb::handle rate, nb::handle step, double beta1,
         double beta2, double epsilon, double weight_decay) {
        const Stepped s(parameter, gradient, states);
        const AdamwPace pace{s.number(rate), s.number(step)};
        const AdamwOptions options{beta1, beta2, epsilon, weight_decay};
        return s.by({pace.rate, pace.step}, [&] { return adamw(s.parameter, s.gradient, s.states, pace, options); });
      },
      "What AdamW of vkfuse.optimizers is made of.");
  module.def(
      "_lion",
      [](nb::handle parameter, nb::handle gradient, nb::handle states, nb::handle rate, double beta1, double beta2,
         double weight_decay) {
        const Stepped s(parameter, gradient, states);
        const LionOptions options{beta1, beta2, weight_decay};
        const Tensor r = s.number(rate);
        return s.by({r}, [&] { return lion(s.parameter, s.gradient, s.states, r, options); });
      },
      "What Lion of vkfuse.optimizers is made of.");
}

}  // namespace

void bind_optimizers(nb::module_& module) {
  bind_steps(module);
  module.def(
      "_moving_average",
      [](nb::handle mean, nb::handle value, double decay) {
        const Tensor m = to_tensor(mean, nullptr), v = to_tensor(value, &m);
        return in_turn({m, v}, [&] { return value_object(moving_average(m, v, decay)); });
      },
      "What moving_average() of vkfuse.optimizers is made of.");
  module.def(
      "_clip_by_global_norm",
      [](nb::handle gradients, double most) {
        const std::vector<Tensor> all = tensors_of(gradients);
        return in_turn(all, [&]() -> nb::object {
          const ClippedGradients clipped = clip_by_global_norm(all, most);
          return nb::make_tuple(objects_of(clipped.gradients), value_object(clipped.norm));
        });
      },
      "What clip_by_global_norm() of vkfuse.optimizers is made of.");
  module.def(
      "_all_finite",
      [](nb::handle gradients) {
        const std::vector<Tensor> all = tensors_of(gradients);
        return in_turn(all, [&] { return value_object(all_finite(all)); });
      },
      "What all_finite() of vkfuse.optimizers is made of.");
  module.def(
      "_next_loss_scale",
      [](nb::handle scale, nb::handle good, nb::handle finite, double growth, double backoff, int interval,
         double largest) {
        const LossScale now{to_tensor(scale, nullptr), to_tensor(good, nullptr)};
        const Tensor all_are_finite = to_tensor(finite, nullptr);
        return in_turn({now.scale, now.good, all_are_finite}, [&]() -> nb::object {
          const LossScale next = next_loss_scale(now, all_are_finite, {growth, backoff, interval, largest});
          return nb::make_tuple(value_object(next.scale), value_object(next.good));
        });
      },
      "What LossScale of vkfuse.optimizers is made of.");
}

}  // namespace vkfuse::python
