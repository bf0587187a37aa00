// Optimisers, written with the primitives: what a parameter and its states are after a step, of their gradient. States
// are inputs and outputs of the program like the parameters, which begin as zeros; where they are donated
// (Bindings::donated), a step updates them in place. docs/gradients.md has a program.
//
// Everything is computed in the parameter's dtype, which is best f32: a network that computes in 16 bits casts its
// parameters, and gradients() through the cast are f32 again. Rates are scalars of the parameter's dtype, operands of
// the program, so a schedule is a number that differs from run to run.
//
// Wrong operands make invalid tensors, as everywhere.
#pragma once

#include <span>
#include <vector>

#include "vkfuse/tensor.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// A parameter after a step, and its states, in the order in which the optimiser takes them.
struct Updated {
  Tensor parameter;
  std::vector<Tensor> states;
};

struct SgdOptions {
  double momentum = 0;      ///< 0: there is no state
  bool nesterov = false;    ///< the step looks ahead by the momentum
  double weight_decay = 0;  ///< so much of the parameter is added to its gradient
};
/// p - rate * g; with momentum the state v = momentum * v + g is subtracted in place of g.
Updated sgd(const Tensor& parameter, const Tensor& gradient, const std::vector<Tensor>& states, const Tensor& rate,
            const SgdOptions& options = {});

struct AdamwOptions {
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  ///< 0: Adam
};
/// When a step is made: scalars of the parameter's dtype.
struct AdamwPace {
  Tensor rate;
  Tensor step;  ///< counted from 1: by it the means are corrected
};
/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019): two states, means of g and of g^2.
Updated adamw(const Tensor& parameter, const Tensor& gradient, const std::vector<Tensor>& states, const AdamwPace& pace,
              const AdamwOptions& options = {});

struct LionOptions {
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0;
};
/// The sign of a mean of g (Chen et al., 2023): one state.
Updated lion(const Tensor& parameter, const Tensor& gradient, const std::vector<Tensor>& states, const Tensor& rate,
             const LionOptions& options = {});

/// decay * mean + (1 - decay) * value: a running mean of parameters.
Tensor moving_average(const Tensor& mean, const Tensor& value, double decay);

/// Gradients, and a norm or a condition of all of them.
struct ClippedGradients {
  std::vector<Tensor> gradients;
  Tensor norm;  ///< f32[], or f64[] of f64: the square root of the sum of all squares, before they are clipped
};
/// All gradients scaled by min(1, most / norm): their norm is `most` at most. Where the norm is NaN, all of them are.
ClippedGradients clip_by_global_norm(std::span<const Tensor> gradients, double most);

// Loss scaling, for gradients of f16, which would otherwise be 0 where they are small: the loss is multiplied by the
// scale before gradients() is called, and the gradients divided by it. A step whose gradients overflow is skipped, and
// the scale halved; after `interval` good ones in a row it is doubled.

/// bool[]: whether all elements of all gradients are finite.
Tensor all_finite(std::span<const Tensor> gradients);
/// `updated` where `condition`, a scalar of bool, holds; else what was there.
Updated keep_unless(const Tensor& condition, const Updated& updated, const Tensor& parameter,
                    const std::vector<Tensor>& states);

struct LossScale {
  Tensor scale;  ///< f32[]; 65536 is a beginning
  Tensor good;   ///< i32[]: steps in a row that were finite, from 0
};
struct LossScaleOptions {
  double growth = 2, backoff = 0.5;
  int interval = 2000;
  double largest = 16777216;  ///< the scale stays at or below it
};
/// The scale of the next step.
LossScale next_loss_scale(const LossScale& now, const Tensor& all_are_finite, const LossScaleOptions& options = {});

}  // namespace VKFUSE_PUBLIC
