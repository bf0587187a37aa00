// The functions that recurrent operators, and operators fused with what follows them, know by name.
#pragma once

#include <span>
#include <string_view>

#include "base/error.hpp"
#include "vkfuse/tensor.hpp"

namespace vkfuse::onnx {

/// A function and its numbers, by ONNX's name of it.
struct Activation {
  std::string_view name;
  double alpha = 0, beta = 0;
  bool takes_alpha = false, takes_beta = false;

  [[nodiscard]] Tensor operator()(const Tensor& x) const;
};

/// With the numbers it has where a model states none; names go by letters of either case. `attribute` names it.
Result<Activation> find_activation(std::string_view name, std::string_view attribute);

/// The same, with as many of the numbers as it takes and are stated, in order.
Result<Activation> activation_with(std::string_view name, std::string_view attribute, std::span<const double> numbers);

}  // namespace vkfuse::onnx
