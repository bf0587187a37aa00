// The table of gradients: a rule, or the reason why there is none, for each row of the op table.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "api/tensor_node.hpp"

namespace vkfuse::autodiff {

/// A node whose result has a cotangent: what a rule looks at.
struct Call {
  const Tensor& y;  ///< the result
  std::span<const Tensor> operands;
  const Tensor& g;  ///< the cotangent of y, of its dtype and shape
  /// Whether a tensor is a value of what gradients are taken of. Others were made by rules, and nothing else reads them
  /// but a rule: they may be made in another way instead.
  const std::function<bool(const Tensor&)>& is_forward;

  [[nodiscard]] const Tensor& x(std::size_t operand) const { return operands[operand]; }
  template <typename T>
  [[nodiscard]] const T& attributes() const {
    return std::get<T>(y.node()->payload);
  }
  /// The attributes of a row of NoPayload or of one axis.
  [[nodiscard]] int axis() const { return attributes<ir::AxisPayload>().axis; }
  /// A number in the dtype of y.
  [[nodiscard]] Tensor number(double value) const { return Tensor::scalar(y.dtype(), value); }
};

/// The cotangent of one operand, which is a float. It has the operand's shape, or one that broadcasting made of it: the
/// caller sums over what was stretched.
using Rule = Tensor (*)(const Call& call, std::size_t operand);

enum class Kind : std::uint8_t {
  rule,      ///< has a rule
  constant,  ///< the result is a float, and its derivative is 0 wherever there is one
  discrete,  ///< the result is no float, or there is no operand: a cotangent never arrives
  refused,   ///< there is none; `doc` goes on from "'name' has no gradient: "
};

struct GradientRow {
  std::string_view op;
  Kind kind = Kind::rule;
  Rule rule = nullptr;        ///< of Kind::rule
  std::string_view doc = {};  ///< the gradients of the operands, for docs/gradients.md
};

std::span<const GradientRow> elementwise_rows();
std::span<const GradientRow> view_rows();
std::span<const GradientRow> position_rows();
std::span<const GradientRow> reduction_rows();
std::span<const GradientRow> contraction_rows();
std::span<const GradientRow> other_rows();
std::span<const GradientRow> collective_rows();

/// Of every row of ops::table(), ops::custom_rows() and ops::collective_rows(); a broken invariant for others.
const GradientRow& row_of(const ops::OpRow& op);

/// The table of docs/gradients.md.
std::string rules_markdown();

// What rules share. ----------------------------------------------------------------------------------------------

/// 0 in every element.
Tensor zeros(DType dtype, const Shape& shape);
/// The sum over what broadcasting stretched: of the shape, which broadcasts to x's.
Tensor summed_to(const Tensor& x, const Shape& shape);
/// What a reduction over some axes of `shape` made, with those axes again, of 1.
Tensor with_axes(const Tensor& reduced, std::span<const int> axes, const Shape& shape);
/// The order of axes that undoes this one.
std::vector<int> inverse_of(std::span<const int> order);

}  // namespace vkfuse::autodiff
