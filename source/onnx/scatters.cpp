// Writing at positions that are data, by way of one primitive: rows joined onto the rows of a matrix.
#include <algorithm>

#include "api/composites.hpp"
#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/positions.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// ONNX's name of a reduction as Tensor::scatter's mode.
Result<std::string_view> scatter_mode(const NodeContext& node) {
  VKF_TRY(reduction, node.attributes().text("reduction", "none"));
  if (reduction == "none") return std::string_view("set");
  if (reduction == "add" || reduction == "mul") return reduction;
  if ((reduction == "max" || reduction == "min") && node.opset() >= 18) return reduction;
  return invalid("Attribute 'reduction' is {}, which is not a reduction of opset {}.", in_quotes(reduction),
                 node.opset());
}

Result<void> check_dtypes(const NodeContext& node) {
  if (!is_integer(node.dtype(1))) {
    return invalid("The indices (operand 1) are {}; they must be integers.", name_of(node.dtype(1)));
  }
  if (node.dtype(2) == node.dtype(0)) return {};
  return invalid("The updates are {}, the input {}; they must be equal.", name_of(node.dtype(2)),
                 name_of(node.dtype(0)));
}

}  // namespace

Result<Outputs> import_scatter_elements(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 1));
  VKF_CHECK_OK(check_dtypes(node));
  VKF_TRY(axis, axis_attribute(node, 0));
  VKF_TRY(mode, scatter_mode(node));
  const Tensor& x = node.tensor(0);
  const Shape& updates = node.tensor(2).shape();
  VKF_TRY(sizes, static_sizes(x.shape()));
  VKF_TRY(requested, static_sizes(updates));
  bool fits = updates == node.tensor(1).shape() && requested.size() == sizes.size();
  for (std::size_t i = 0; fits && i < sizes.size(); ++i) fits = static_cast<int>(i) == axis || requested[i] <= sizes[i];
  if (!fits) {
    return invalid("The indices are {} and the updates {}; they must be equal, and outside axis {} fit the input {}.",
                   to_text(node.tensor(1).shape()), to_text(updates), axis, to_text(x.shape()));
  }
  VKF_CHECK_OK(vkfuse::element_count(sizes));
  VKF_TRY(index, positions(node.value(1), sizes[static_cast<std::size_t>(axis)]));
  return Outputs{api::scatter_at(x, index, node.tensor(2), axis, mode)};
}

Result<Outputs> import_scatter_nd(const NodeContext& node) {
  VKF_CHECK_OK(check_dtypes(node));
  VKF_CHECK_OK(check_rank(node, 1, 1));
  VKF_TRY(mode, scatter_mode(node));
  const Tensor& x = node.tensor(0);
  const Shape& indexed = node.tensor(1).shape();
  VKF_TRY(flat, flat_positions(node.value(1), x.shape(), 0));
  Shape requested(indexed.begin(), indexed.end() - 1);
  requested.insert(requested.end(), x.shape().begin() + static_cast<int>(flat.axes), x.shape().end());
  if (node.tensor(2).shape() != requested) {
    return invalid("The updates are {}; the input {} at the indices {} asks for {}.", to_text(node.tensor(2).shape()),
                   to_text(x.shape()), to_text(indexed), to_text(requested));
  }
  Shape rows{flat.count};
  rows.insert(rows.end(), x.shape().begin() + static_cast<int>(flat.axes), x.shape().end());
  const Tensor updates = node.tensor(2).reshape(rows);
  return Outputs{flat.rows_of(x).scatter(flat.positions, updates, mode).reshape(x.shape())};
}

}  // namespace vkfuse::onnx
