// Sums of products: what the handles count from the end and line up before the graph builder checks it.
#include <algorithm>

#include "api/tensor_node.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse {

namespace {

std::string type_text(const Tensor& x) { return to_text(TensorType{x.dtype(), x.shape()}); }

std::vector<int> counted(std::vector<int> axes, const Tensor& x) {
  for (int& axis : axes) axis = api::counted_axis(axis, x.shape().size());
  return axes;
}

/// One dimension in front of the matrices, and which operands have it at what axis of theirs; one that is 1 where
/// the other's is not counts as absent.
struct BatchAxis {
  std::optional<int> in_a, in_b;
};

/// An operand of matmul without the dimensions that the other's stretch.
struct Side {
  const Tensor& given;
  int leading;  ///< dimensions in front of the matrix
  Shape kept = {};
  int keep(int axis) {
    kept.push_back(given.shape()[static_cast<std::size_t>(axis)]);
    return static_cast<int>(kept.size()) - 1;
  }
};

/// Pairs the dimensions in front of both matrices, aligned at the innermost.
Result<std::vector<BatchAxis>> paired(Side& a, Side& b) {
  std::vector<BatchAxis> pairs;
  for (int from_end = std::max(a.leading, b.leading); from_end > 0; --from_end) {
    const int at_a = a.leading - from_end;
    const int at_b = b.leading - from_end;
    const auto size = [](const Side& side, int at) {
      return at < 0 ? Dim(1) : side.given.shape()[static_cast<std::size_t>(at)];
    };
    const Dim one = size(a, at_a);
    const Dim other = size(b, at_b);
    BatchAxis pair;
    if (one == other || other == Dim(1)) pair.in_a = at_a < 0 ? std::nullopt : std::optional(a.keep(at_a));
    if (one == other || one == Dim(1)) pair.in_b = at_b < 0 ? std::nullopt : std::optional(b.keep(at_b));
    if (!pair.in_a && !pair.in_b) {
      return invalid("'matmul' of {} and {} meets dimensions of {} and {}, which do not broadcast.", type_text(a.given),
                     type_text(b.given), one.text(), other.text());
    }
    pairs.push_back(pair);
  }
  return pairs;
}

/// What dot_general makes of the pairs, in the order that matmul's result has: where each axis of the result is.
std::vector<int> result_order(const std::vector<BatchAxis>& pairs, bool has_rows, bool has_columns) {
  const auto both = [](const BatchAxis& pair) { return pair.in_a && pair.in_b; };
  int next_both = 0;
  int next_a = static_cast<int>(std::count_if(pairs.begin(), pairs.end(), both));
  int next_b =
      next_a +
      static_cast<int>(std::count_if(pairs.begin(), pairs.end(), [](const BatchAxis& pair) { return !pair.in_b; })) +
      (has_rows ? 1 : 0);
  std::vector<int> order;
  for (const BatchAxis& pair : pairs) order.push_back(both(pair) ? next_both++ : pair.in_a ? next_a++ : next_b++);
  if (has_rows) order.push_back(next_a);
  if (has_columns) order.push_back(next_b);
  return order;
}

}  // namespace

Tensor dot_general(const Tensor& a, const Tensor& b, const DotAxes& axes) {
  ir::DotPayload payload{counted(axes.batch_a, a), counted(axes.batch_b, b), counted(axes.contract_a, a),
                         counted(axes.contract_b, b)};
  return api::build_tensor(ops::row("dot"), {a, b}, {}, std::move(payload));
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (!a.valid()) return a;
  if (!b.valid()) return b;
  if (a.shape().empty() || b.shape().empty()) {
    return Tensor::failed(
        invalid("'matmul' takes tensors of one axis or more, but they are {} and {}.", type_text(a), type_text(b)));
  }
  const bool has_rows = a.shape().size() > 1;
  const bool has_columns = b.shape().size() > 1;
  Side left{a, std::max(static_cast<int>(a.shape().size()) - 2, 0)};
  Side right{b, std::max(static_cast<int>(b.shape().size()) - 2, 0)};
  auto pairs = paired(left, right);
  if (!pairs) return Tensor::failed(std::move(pairs).error());
  DotAxes axes;
  for (const BatchAxis& pair : *pairs) {
    if (!pair.in_a || !pair.in_b) continue;
    axes.batch_a.push_back(*pair.in_a);
    axes.batch_b.push_back(*pair.in_b);
  }
  for (int axis = left.leading; axis < static_cast<int>(a.shape().size()); ++axis) axes.contract_a = {left.keep(axis)};
  for (int axis = right.leading; axis < static_cast<int>(b.shape().size()); ++axis) right.keep(axis);
  axes.contract_b = {static_cast<int>(right.kept.size()) - (has_columns ? 2 : 1)};
  const Dim& one = a.shape().back();
  const Dim& other = b.shape()[b.shape().size() - (has_columns ? 2 : 1)];
  if (one != other) {
    return Tensor::failed(invalid("'matmul' of {} and {} adds up over {} and over {} elements, which must be as many.",
                                  type_text(a), type_text(b), one.text(), other.text()));
  }
  return dot_general(a.reshape(left.kept), b.reshape(right.kept), axes)
      .permute(result_order(*pairs, has_rows, has_columns));
}

}  // namespace vkfuse
