#include "passes/known_positions.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "index/exact_numbers.hpp"
#include "ir/position_arithmetic.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

using index::Expr;
using ir::kFarthestPosition;
using ir::Node;
using ir::NodeId;
using Axes = std::map<index::AxisId, Expr>;

namespace {

std::int64_t largest_of(const Dim& dim) { return dim.is_symbol() ? dim.facts().max : dim.size(); }

/// Axis i of the shape as axis to[i].
Expr renamed(const Expr& expr, const Shape& shape, const std::vector<int>& to) {
  Axes axes;
  for (const index::AxisId axis : index::axes_of(expr)) {
    const auto i = static_cast<std::size_t>(axis);
    axes[axis] = Expr::axis(to[i], largest_of(shape[i]));
  }
  return index::substitute(expr, axes);
}

std::optional<Expr> known_literal(const Node& node) {
  const auto& bytes = *std::get<ir::ConstantPayload>(node.payload).bytes;
  if (bytes.size() != static_cast<std::size_t>(size_of(node.type.dtype))) return std::nullopt;
  if (is_float(node.type.dtype)) return ir::whole_number(ir::decode(node.type.dtype, bytes.data()));
  return Expr(ir::decode_int(node.type.dtype, bytes.data()));
}

std::optional<Expr> known_iota(const Node& node) {
  const auto* iota = std::get_if<ir::IotaPayload>(&node.payload);
  if (iota == nullptr) return std::nullopt;
  const auto axis = static_cast<std::size_t>(iota->axis);
  const bool near = largest_of(node.type.shape[axis]) <= kFarthestPosition;
  return near ? std::optional(axis_of(node.type.shape, axis)) : std::nullopt;
}

Expr permuted(const Expr& expr, const Node& node, const Shape& from) {
  const auto& order = std::get<ir::AxesPayload>(node.payload).axes;
  std::vector<int> to(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) to[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  return renamed(expr, from, to);
}

Expr sliced(const Expr& expr, const Node& node) {
  const auto& slice = std::get<ir::SlicePayload>(node.payload);
  Axes axes;
  for (std::size_t i = 0; i < node.type.shape.size(); ++i)
    axes[static_cast<int>(i)] = axis_of(node.type.shape, i) * slice.steps[i] + Expr(slice.starts[i]);
  return index::substitute(expr, axes);
}

std::optional<Expr> reversed(const Expr& expr, const Node& node) {
  const Shape& shape = node.type.shape;
  if (!is_static(shape)) return std::nullopt;
  Axes axes;
  for (const int axis : std::get<ir::AxesPayload>(node.payload).axes) {
    const auto i = static_cast<std::size_t>(axis);
    axes[axis] = Expr(shape[i].size() - 1) - axis_of(shape, i);
  }
  return index::substitute(expr, axes);
}

std::optional<Expr> reshaped(const Expr& expr, const Shape& from, const Shape& shape) {
  if (keeps_long_axes(from, shape)) {
    const std::vector<int> old_axes = long_axes(from), axes = long_axes(shape);
    std::vector<int> to(from.size(), 0);
    for (std::size_t i = 0; i < axes.size(); ++i) to[static_cast<std::size_t>(old_axes[i])] = axes[i];
    return renamed(expr, from, to);
  }
  if (!is_static(from) || !is_static(shape)) return std::nullopt;
  Sizes sizes, old_sizes;
  std::vector<Expr> at;
  for (const Dim& dim : from) old_sizes.push_back(dim.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    sizes.push_back(shape[i].size());
    at.push_back(axis_of(shape, i));
  }
  const std::vector<Expr> old_at = index::delinearize(index::linearize(at, sizes), old_sizes);
  Axes replaced;
  for (std::size_t i = 0; i < old_at.size(); ++i) replaced[static_cast<int>(i)] = old_at[i];
  return index::substitute(expr, replaced);
}

}  // namespace

Expr axis_of(const Shape& shape, std::size_t axis) {
  return Expr::axis(static_cast<int>(axis), largest_of(shape[axis]));
}

bool is_static(const Shape& shape) {
  return std::none_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is_symbol(); });
}

std::optional<Expr> KnownPositions::of(NodeId id) {
  learn();
  return known_[id];
}

std::optional<Expr> KnownPositions::aligned(NodeId operand, std::size_t rank) {
  learn();
  return aligned_known(operand, rank);
}

std::optional<bool> KnownPositions::truth(NodeId id) {
  const auto known = of(id);
  if (!known || !known->is_constant() || graph_.node(id).type.dtype != DType::boolean) return std::nullopt;
  return known->constant() != 0;
}

void KnownPositions::learn() {
  while (known_.size() < graph_.size()) {
    const Node& node = graph_.node(static_cast<NodeId>(known_.size()));
    const Known expr = known(node);
    const bool exact = expr && index::has_all_of(node.type.dtype, index::interval_of(*expr));
    known_.push_back(exact ? expr : std::nullopt);
  }
}

KnownPositions::Known KnownPositions::aligned_known(NodeId operand, std::size_t rank) const {
  const Known& expr = known_[operand];
  if (!expr || expr->is_constant()) return expr;
  const Shape& shape = graph_.node(operand).type.shape;
  std::vector<int> to(shape.size());
  std::iota(to.begin(), to.end(), static_cast<int>(rank - shape.size()));
  return renamed(*expr, shape, to);
}

KnownPositions::Known KnownPositions::known(const Node& node) const {
  switch (node.op->cls) {
    case ops::OpClass::constant: return known_literal(node);
    case ops::OpClass::generate: return known_iota(node);
    case ops::OpClass::view: return known_view(node);
    case ops::OpClass::scan: return known_count(node);
    case ops::OpClass::elementwise:
    case ops::OpClass::convert: return known_arithmetic(node);
    default: return std::nullopt;
  }
}

KnownPositions::Known KnownPositions::known_view(const Node& node) const {
  if (node.operands.size() != 1) return std::nullopt;
  const Known& expr = known_[node.operands[0]];
  if (!expr || expr->is_constant()) return expr;
  const Shape& from = graph_.node(node.operands[0]).type.shape;
  switch (node.op->role) {
    case ops::Role::broadcast: return aligned_known(node.operands[0], node.type.shape.size());
    case ops::Role::reshape: return reshaped(*expr, from, node.type.shape);
    case ops::Role::permute: return permuted(*expr, node, from);
    case ops::Role::slice: return sliced(*expr, node);
    case ops::Role::reverse: return reversed(*expr, node);
    default: return std::nullopt;
  }
}

/// What a running sum of equal numbers counts.
KnownPositions::Known KnownPositions::known_count(const Node& node) const {
  const Known& each = known_[node.operands[0]];
  if (node.op->role != ops::Role::cumsum || !each || !each->is_constant()) return std::nullopt;
  const auto& scan = std::get<ir::ScanPayload>(node.payload);
  const auto axis = static_cast<std::size_t>(scan.axis);
  const Dim& dim = node.type.shape[axis];
  if (largest_of(dim) > kFarthestPosition || (scan.reverse && dim.is_symbol())) return std::nullopt;
  if (std::abs(each->constant()) > kFarthestPosition) return std::nullopt;
  const Expr position = axis_of(node.type.shape, axis);
  const Expr before = scan.reverse ? Expr(dim.size() - 1) - position : position;
  return (before + Expr(scan.exclusive ? 0 : 1)) * each->constant();
}

KnownPositions::Known KnownPositions::known_arithmetic(const Node& node) const {
  const ir::PositionArithmetic arithmetic = ir::position_arithmetic_of(node.op->role);
  if (arithmetic == nullptr) return std::nullopt;
  std::vector<Expr> operands;
  for (const NodeId operand : node.operands) {
    const Known expr = aligned_known(operand, node.type.shape.size());
    if (!expr) return std::nullopt;
    operands.push_back(*expr);
  }
  return arithmetic(node.type.dtype, operands);
}

}  // namespace vkfuse::passes
