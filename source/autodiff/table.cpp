// The families as one table, and what rules share.
#include <algorithm>
#include <map>

#include "autodiff/rules.hpp"

namespace vkfuse::autodiff {

namespace {

const std::map<std::string_view, const GradientRow*>& by_name() {
  static const std::map<std::string_view, const GradientRow*> rows = [] {
    std::map<std::string_view, const GradientRow*> made;
    for (const auto family : {elementwise_rows(), view_rows(), position_rows(), reduction_rows(), contraction_rows(),
                              other_rows(), collective_rows()}) {
      for (const GradientRow& row : family) {
        check(made.emplace(row.op, &row).second, "two gradients are of one op");
        check((row.kind == Kind::rule) == (row.rule != nullptr), "a gradient has a rule or the reason why it has none");
        check(ops::find(row.op) != nullptr, "a gradient is of an op that does not exist");
      }
    }
    return made;
  }();
  return rows;
}

}  // namespace

const GradientRow& row_of(const ops::OpRow& op) {
  const auto found = by_name().find(op.name);
  check(found != by_name().end(), "an op has neither a gradient nor the reason why it has none");
  return *found->second;
}

std::string rules_markdown() {
  std::string text = "| op | gradient |\n| --- | --- |\n";
  const auto add = [&](const ops::OpRow& op) {
    const GradientRow& row = row_of(op);
    if (row.kind == Kind::discrete) return;
    text += fmt::format("| {} | {}{} |\n", op.name, row.kind == Kind::refused ? "none: " : "", row.doc);
  };
  for (const ops::OpRow& op : ops::table()) add(op);
  for (const ops::OpRow& op : ops::custom_rows()) add(op);
  for (const ops::OpRow& op : ops::collective_rows()) add(op);
  return text;
}

Tensor zeros(DType dtype, const Shape& shape) { return Tensor::scalar(dtype, 0).broadcast_to(shape); }

Tensor summed_to(const Tensor& x, const Shape& shape) {
  if (!x.valid() || x.shape() == shape) return x;
  const std::size_t added = x.shape().size() - shape.size();
  std::vector<int> axes;
  for (std::size_t i = 0; i < x.shape().size(); ++i) {
    if (i < added || (shape[i - added] == Dim(1) && x.shape()[i] != Dim(1))) axes.push_back(static_cast<int>(i));
  }
  return (axes.empty() ? x : x.sum(axes)).reshape(shape);
}

Tensor with_axes(const Tensor& reduced, std::span<const int> axes, const Shape& shape) {
  Shape kept = shape;
  for (const int axis : axes) kept[static_cast<std::size_t>(axis)] = Dim(1);
  return reduced.reshape(std::move(kept));
}

std::vector<int> inverse_of(std::span<const int> order) {
  std::vector<int> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) inverse[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  return inverse;
}

}  // namespace vkfuse::autodiff
