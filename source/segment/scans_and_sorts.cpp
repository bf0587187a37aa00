// Scans and sorts: whose results depend on the order of a row's elements.
#include <algorithm>
#include <set>

#include "base/mutations.hpp"
#include "segment/builder.hpp"

namespace vkfuse::segment {

using index::AxisId;
using index::Expr;

/// Element i of the result depends on the elements before it, so the reduction axes are walked in the order of the
/// scanned axis, or in the opposite one; positions stay what they are.
Result<void> Builder::process_scan(ValueId id) {
  const ir::NodeId node_id = requests_[id].node;
  const ir::NodeId operand = graph_.node(node_id).operands[0];
  const auto& scan = std::get<ir::ScanPayload>(graph_.node(node_id).payload);
  const std::int64_t size = sizes_of(operand)[static_cast<std::size_t>(scan.axis)];
  const Coordinates coordinates = requests_[id].coordinates;
  if (size == 1) {
    if (scan.exclusive) {
      requests_[id].value.kind = Value::Kind::literal;  // the identity
    } else {
      requests_[id].alias = request_element(operand, coordinates, requests_[id].context);
    }
    return {};
  }
  Coordinates rows = coordinates;
  rows.erase(rows.begin() + scan.axis);
  VKF_CHECK_OK(fix_reduction_axes(node_id, rows, size));
  if (requested_split_) return {};
  const Expr along = coordinates[static_cast<std::size_t>(scan.axis)];
  VKF_CHECK_OK(fix_direction(node_id, along, size));
  if (is_left_to_whole_rows(id)) return {};
  requests_[id].value.kind = Value::Kind::scan;
  requests_[id].value.offset = along;
  const ValueId made = request_element(operand, coordinates, requests_[id].context);
  requests_[id].value.operands = {made};
  return {};
}

Result<void> Builder::fix_direction(ir::NodeId node, const Expr& along, std::int64_t size) {
  const auto& scan = std::get<ir::ScanPayload>(graph_.node(node).payload);
  const Expr forward = axes_.reduction_position();
  const bool mirrored = along == Expr(size - 1) - forward;
  if (!mirrored && !(along == forward)) {
    return unsupported("%{} runs along an axis that the other members of the kernel read in another order.", node);
  }
  const bool backwards = VKF_PLANT(scan_direction, scan.reverse, !scan.reverse) != mirrored;
  if (backwards_.value_or(backwards) != backwards) {
    return unsupported("%{} runs over its axis in the opposite direction of another scan of the kernel.", node);
  }
  backwards_ = backwards;
  return {};
}

/// The elements of a row are sorted whoever asks for how much of the order, so they have an axis of their own,
/// which no result depends on.
Result<void> Builder::process_sort(ValueId id) {
  const ir::NodeId node_id = requests_[id].node;
  const ir::NodeId operand = graph_.node(node_id).operands[0];
  const int axis = std::get<ir::SortPayload>(graph_.node(node_id).payload).axis;
  const std::int64_t size = sizes_of(operand)[static_cast<std::size_t>(axis)];
  Coordinates rows = requests_[id].coordinates;
  const Expr along = rows[static_cast<std::size_t>(axis)];
  if (size == 1) {
    requests_[id].value.kind = Value::Kind::position;  // 0
    return {};
  }
  if (index::depends_on_data(along))
    return unsupported("%{} sorts rows of which data chooses elements: they have to be stored first.", node_id);
  if (!axes_.own.empty())
    return unsupported("%{} sorts rows of which another member of the kernel needs the order too, or that of others.",
                       node_id);
  if (axes_.is_reduction_known)
    return unsupported("%{} sorts rows, and another member of the kernel reduces or scans them.", node_id);
  rows.erase(rows.begin() + axis);
  std::set<AxisId> used;
  for (const Expr& row : rows) {
    if (index::depends_on_data(row)) return unsupported("%{} sorts rows that are chosen by data.", node_id);
    if (request_split(row)) return {};
    for (AxisId own : index::axes_of(row)) used.insert(own);
  }
  axes_.fix_reduction([&](const WalkAxis& own) { return used.count(own.id) == 0; });
  axes_.own_role = Role::key;
  axes_.own.push_back({static_cast<AxisId>(axes_.base.size()), size, -1, 0});
  requests_[id].value.kind = Value::Kind::sort;
  requests_[id].value.offset = along;
  rows.insert(rows.begin() + axis, Expr::axis(axes_.own.back().id, size));
  const ValueId made = request_element(operand, std::move(rows), 0);
  requests_[id].value.operands = {made};
  return {};
}

}  // namespace vkfuse::segment
