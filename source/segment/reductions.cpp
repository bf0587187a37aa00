// Reductions and contractions: which of the base's axes they run over, or which axes beside those.
#include <algorithm>
#include <set>

#include "segment/builder.hpp"
#include "segment/views.hpp"

namespace vkfuse::segment {

using index::AxisId;
using index::Expr;

namespace {

/// Beside the base's axes: the scores of attention and what their gradient is multiplied with.
constexpr int kMostContractionsInside = 2;

}  // namespace

bool Builder::is_contraction(ir::NodeId node) const { return graph_.node(node).op->cls == ops::OpClass::contraction; }

bool Builder::request_split(const Expr& expr) {
  const auto split = axes_.split_for(expr);
  if (split) requested_split_ = split;
  return split.has_value();
}

/// Reduction axes are those that the first reduction's position does not depend on; every other reduction must agree.
Result<void> Builder::fix_reduction_axes(ir::NodeId node, std::span<const Expr> rows, std::int64_t count) {
  if (axes_.has_keys())
    return unsupported("%{} reduces or scans rows, and another member of the kernel sorts them.", node);
  std::set<AxisId> used;
  for (const Expr& row : rows) {
    if (request_split(row)) return {};
    add_axes_of(row, used);
  }
  if (!axes_.is_reduction_known) axes_.fix_reduction([&](const WalkAxis& axis) { return used.count(axis.id) == 0; });
  const std::int64_t positions = axes_.reduction_count();
  if (positions != count)
    return unsupported("%{} runs over {} elements at a time, and the other members of the kernel over {}.", node, count,
                       positions);
  if (std::any_of(used.begin(), used.end(), [&](AxisId axis) { return axes_.is_reduction(axis); }))
    return unsupported("%{} runs along other axes than the other members of the kernel.", node);
  return {};
}

Result<void> Builder::process_reduction(ValueId id) {
  const ir::NodeId node_id = requests_[id].node;
  const ir::Node& node = graph_.node(node_id);
  const Sizes& sizes = sizes_of(node.operands[0]);
  const auto& axes = std::get<ir::AxesPayload>(node.payload).axes;
  const Coordinates rows = requests_[id].coordinates;
  if (is_empty(node.operands[0]) && count_of(node_id) > 0) {
    requests_[id].value.kind = Value::Kind::literal;  // the identity
    return {};
  }
  Sizes reduced_sizes;
  for (int axis : axes) reduced_sizes.push_back(sizes[static_cast<std::size_t>(axis)]);
  const std::int64_t count = saturating_product(reduced_sizes);
  const ReducedOperand operand{
      node.operands[0], [&](const Coordinates& along) { return position_in_reduced(axes, sizes.size(), rows, along); }};
  if (count == 1) {
    reduce_one_element(id, operand, reduced_sizes);
    return {};
  }
  return runs_apart(node_id, rows, count) ? reduce_apart(id, operand, reduced_sizes)
                                          : reduce_along(id, operand, reduced_sizes);
}

void Builder::reduce_one_element(ValueId id, const ReducedOperand& operand, const Sizes& reduced_sizes) {
  if (graph_.node(requests_[id].node).op->reduction.kind == ops::Reduction::Kind::arg) {
    requests_[id].value.kind = Value::Kind::position;
    return;
  }
  requests_[id].alias =
      request_element(operand.node, operand.at(Coordinates(reduced_sizes.size(), Expr(0))), requests_[id].context);
}

/// Over axes beside the base's.
Result<void> Builder::reduce_apart(ValueId id, const ReducedOperand& operand, const Sizes& reduced_sizes) {
  VKF_TRY(inner, add_inner_axes(requests_[id].node, reduced_sizes));
  requests_[id].value.kind = Value::Kind::nested;
  requests_[id].value.over = AxisSet{1} << inner.group;
  const ValueId made = request_element(operand.node, operand.at(inner.coordinates), requests_[id].context);
  requests_[id].value.operands = {made};
  return {};
}

/// Over the base's reduction axes.
Result<void> Builder::reduce_along(ValueId id, const ReducedOperand& operand, const Sizes& reduced_sizes) {
  const Coordinates rows = requests_[id].coordinates;
  VKF_CHECK_OK(fix_reduction_axes(requests_[id].node, rows, saturating_product(reduced_sizes)));
  if (requested_split_ || is_left_to_whole_rows(id)) return {};
  const Coordinates along = reduction_coordinates(reduced_sizes, std::span(&operand, 1));
  requests_[id].value.kind = Value::Kind::reduction;
  requests_[id].value.offset = index::linearize(along, reduced_sizes);  // the position that an arg reduction reports
  const ValueId made = request_element(operand.node, operand.at(along), requests_[id].context);
  requests_[id].value.operands = {made};
  return {};
}

/// The positions along what is reduced, in the order in which the elements of some operand are needed anyway, else
/// row-major.
Coordinates Builder::reduction_coordinates(const Sizes& reduced_sizes, std::span<const ReducedOperand> operands) {
  for (const ReducedOperand& operand : operands) {
    std::vector<AxisId> fresh;
    const Coordinates unknown = fresh_coordinates(reduced_sizes, fresh);
    const auto solved = meet(operand.node, operand.at(unknown), fresh, false);
    if (!solved) continue;
    Coordinates found;
    for (const Expr& coordinate : unknown) found.push_back(index::substitute(coordinate, *solved));
    const Expr flat = index::linearize(found, reduced_sizes);
    const std::vector<AxisId> used = index::axes_of(flat);
    const bool inside = std::all_of(used.begin(), used.end(), [&](AxisId axis) { return axes_.is_reduction(axis); });
    // An arg's position counts row-major: it must be able to say which element it was.
    if (inside && used.size() == axes_.reduction_rank() && index::covers(flat, saturating_product(reduced_sizes)))
      return found;
  }
  return index::delinearize(axes_.reduction_position(), reduced_sizes);
}

Result<Builder::Inner> Builder::add_inner_axes(ir::NodeId node, const Sizes& sizes) {
  if (axes_.has_keys())
    return unsupported("%{} reduces values beside rows that another member of the kernel sorts.", node);
  const bool contracts = is_contraction(node);
  if (contracts && contractions_inside_ == kMostContractionsInside)
    return unsupported("%{} contracts for every element of a row, and so do {} other members of the kernel.", node,
                       kMostContractionsInside);
  contractions_inside_ += contracts ? 1 : 0;
  // Reductions over as many positions run side by side.
  const auto known =
      std::find_if(inner_.begin(), inner_.end(), [&](const auto& one) { return !contracts && one.first == sizes; });
  if (known != inner_.end()) return known->second;
  const int group = axes_.own_groups;
  // Those of a contraction come first: they may become reduction axes.
  const Inner inner{group, axes_.add_inner(sizes, contracts)};
  if (!contracts) inner_.emplace_back(sizes, inner);
  return inner;
}

bool Builder::is_after_contraction(ir::NodeId node) const {
  std::vector<ir::NodeId> open{node};
  std::set<ir::NodeId> seen;
  while (!open.empty()) {
    const ir::NodeId one = open.back();
    open.pop_back();
    if (!is_member(one) || !seen.insert(one).second) continue;
    if (is_contraction(one)) return true;
    open.insert(open.end(), graph_.node(one).operands.begin(), graph_.node(one).operands.end());
  }
  return false;
}

bool Builder::runs_apart(ir::NodeId node, std::span<const Expr> rows, std::int64_t count) const {
  const auto contracts = [&](ir::NodeId id) { return is_contraction(id); };
  if (!axes_.is_reduction_known || std::none_of(segment_.members.begin(), segment_.members.end(), contracts))
    return false;
  if (std::any_of(rows.begin(), rows.end(), [&](const Expr& row) { return varies_along_reduction(row); })) return false;
  // Of sizes that are known alone: at others the kernel might not be possible.
  const Shape& shape = graph_.node(graph_.node(node).operands[0]).type.shape;
  if (is_after_contraction(node) ||
      std::any_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is_symbol(); }))
    return false;
  if (!base_.reduction || !is_contraction(*base_.reduction)) return true;
  return axes_.reduction_count() != count;
}

/// A product per position of the contracted axes, and its reduction over them.
Result<void> Builder::process_contraction(ValueId id) {
  const ir::NodeId node_id = requests_[id].node;
  const ir::Node& node = graph_.node(node_id);
  const auto& dot = std::get<ir::DotPayload>(node.payload);
  const Coordinates rows = requests_[id].coordinates;
  const int context = requests_[id].context;
  const Sizes& sizes = sizes_of(node.operands[0]);
  const auto real = resolve(graph_.node(node.operands[0]).type.shape, symbols_);
  const auto has_none = [&](int axis) { return (*real)[static_cast<std::size_t>(axis)] == 0; };
  if (std::any_of(dot.contract_a.begin(), dot.contract_a.end(), has_none) && count_of(node_id) > 0) {
    requests_[id].value.kind = Value::Kind::literal;  // the identity
    return {};
  }
  Sizes contracted;
  for (int axis : dot.contract_a) contracted.push_back(sizes[static_cast<std::size_t>(axis)]);
  const auto operand = [&](bool second) -> ReducedOperand {
    const ir::NodeId read = node.operands[second ? 1 : 0];
    return {read, [this, &dot, &rows, second, read](const Coordinates& along) {
              return position_in_matmul_operand(dot, second, sizes_of(read).size(), rows, along);
            }};
  };
  const ReducedOperand operands[] = {operand(false), operand(true)};
  Coordinates along(contracted.size(), Expr(0));
  ValueId product = id;
  if (saturating_product(contracted) > 1) {
    VKF_TRY(found, contraction_coordinates(id, contracted, operands));
    if (!found) return {};
    along = *std::move(found);
    product = requests_.add_unlisted(node_id, context);
    requests_[id].value.operands = {product};
  }
  requests_[product].value.kind = Value::Kind::compute;
  const ValueId a = request_element(operands[0].node, operands[0].at(along), context);
  const ValueId b = request_element(operands[1].node, operands[1].at(along), context);
  requests_[product].value.operands = {a, b};
  return {};
}

/// Over the base's reduction axes; over axes beside the base's where the result is needed at each position along those.
/// Nothing where a split is requested first, or the value is that of whole rows.
Result<std::optional<Coordinates>> Builder::contraction_coordinates(ValueId id, const Sizes& contracted,
                                                                    std::span<const ReducedOperand> operands) {
  const ir::NodeId node = requests_[id].node;
  const Coordinates rows = requests_[id].coordinates;
  const bool is_nested = axes_.is_reduction_known && std::any_of(rows.begin(), rows.end(), [&](const Expr& row) {
                           return varies_along_reduction(row);
                         });
  if (!is_nested) {
    VKF_CHECK_OK(fix_reduction_axes(node, rows, saturating_product(contracted)));
    if (requested_split_ || is_left_to_whole_rows(id)) return std::optional<Coordinates>();
    requests_[id].value.kind = Value::Kind::reduction;
    return std::optional(reduction_coordinates(contracted, operands));
  }
  for (const Expr& row : rows) {
    if (request_split(row)) return std::optional<Coordinates>();
  }
  VKF_TRY(inner, add_inner_axes(node, contracted));
  requests_[id].value.kind = Value::Kind::nested;
  requests_[id].value.over = AxisSet{1} << inner.group;
  return std::optional(std::move(inner.coordinates));
}

}  // namespace vkfuse::segment
