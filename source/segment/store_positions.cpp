// Where a value stands that the walk from the base did not lead to: the position is solved for from a
// value that both need.
#include <algorithm>
#include <deque>

#include "segment/builder.hpp"
#include "segment/views.hpp"

namespace vkfuse::segment {

using index::AxisId;
using index::Expr;

namespace {

constexpr std::size_t kMostSteps = 256;  // of a search through operands

}  // namespace

Expr Builder::fresh_axis(std::int64_t size, std::vector<AxisId>& fresh) {
  fresh.push_back(next_fresh_++);
  return Expr::axis(fresh.back(), size);
}

std::vector<std::pair<ir::NodeId, Builder::Coordinates>> Builder::operand_positions(ir::NodeId node_id,
                                                                                    const Coordinates& coordinates,
                                                                                    bool through_reductions) {
  const ir::Node& node = graph_.node(node_id);
  std::vector<std::pair<ir::NodeId, Coordinates>> all;
  switch (node.op->cls) {
    case ops::OpClass::elementwise:
    case ops::OpClass::convert:
      for (ir::NodeId operand : node.operands)
        all.emplace_back(operand, broadcast_coordinates(coordinates, sizes_of(operand)));
      break;
    case ops::OpClass::view: {
      std::int64_t begin = 0;
      for (std::size_t k = 0; k < node.operands.size(); ++k) {
        if (node.op->name == "pad" && k == 1) break;
        const Sizes& sizes = sizes_of(node.operands[k]);
        all.emplace_back(node.operands[k],
                         position_in_operand(node, coordinates, sizes_of(node_id), sizes, k, begin).coordinates);
        if (const auto* axis = std::get_if<ir::AxisPayload>(&node.payload))
          begin += sizes[static_cast<std::size_t>(axis->axis)];
      }
      break;
    }
    case ops::OpClass::gather: {
      // Where along the axis is data; everything else is known.
      const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
      const Sizes& sizes = sizes_of(node.operands[0]);
      const Sizes& index_sizes = sizes_of(node.operands[1]);
      const std::size_t inserted = node.op->name == "gather" ? index_sizes.size() : 1;
      std::vector<AxisId> unused;
      Coordinates position(coordinates.begin(), coordinates.begin() + static_cast<std::ptrdiff_t>(axis));
      position.push_back(fresh_axis(sizes[axis], unused));
      position.insert(position.end(), coordinates.begin() + static_cast<std::ptrdiff_t>(axis + inserted),
                      coordinates.end());
      for (std::size_t i = 0; i < position.size(); ++i) {
        if (sizes[i] == 1) position[i] = Expr(0);
      }
      all.emplace_back(node.operands[0], std::move(position));
      const auto begin = coordinates.begin() + static_cast<std::ptrdiff_t>(axis);
      const Coordinates own =
          node.op->name == "gather" ? Coordinates(begin, begin + static_cast<std::ptrdiff_t>(inserted)) : coordinates;
      all.emplace_back(node.operands[1], broadcast_coordinates(own, index_sizes));
      break;
    }
    case ops::OpClass::reduce: {
      if (!through_reductions) break;
      const auto& axes = std::get<ir::AxesPayload>(node.payload).axes;
      const Sizes& sizes = sizes_of(node.operands[0]);
      Coordinates position;
      std::size_t row = 0;
      std::vector<AxisId> unused;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end();
        position.push_back(!reduced ? coordinates[row++] : sizes[i] == 1 ? Expr(0) : fresh_axis(sizes[i], unused));
      }
      all.emplace_back(node.operands[0], std::move(position));
      break;
    }
    case ops::OpClass::contraction: {
      if (!through_reductions) break;
      const auto& dot = std::get<ir::DotPayload>(node.payload);
      for (const bool second : {false, true}) {
        const Sizes& sizes = sizes_of(node.operands[second ? 1 : 0]);
        std::vector<AxisId> unused;
        Coordinates along;
        for (int axis : second ? dot.contract_b : dot.contract_a) {
          const std::int64_t size = sizes[static_cast<std::size_t>(axis)];
          along.push_back(size == 1 ? Expr(0) : fresh_axis(size, unused));
        }
        all.emplace_back(node.operands[second ? 1 : 0],
                         position_in_matmul_operand(dot, second, sizes.size(), coordinates, along));
      }
      break;
    }
    case ops::OpClass::scan:
    case ops::OpClass::sort:
      if (through_reductions && sizes_of(node.operands[0]) == sizes_of(node_id))
        all.emplace_back(node.operands[0], coordinates);
      break;
    default: break;
  }
  return all;
}

std::optional<std::map<AxisId, Expr>> Builder::meet(ir::NodeId start, const Coordinates& coordinates, int,
                                                    const std::vector<AxisId>& fresh, bool through_reductions) {
  std::deque<std::pair<ir::NodeId, Coordinates>> open{{start, coordinates}};
  std::vector<std::pair<ir::NodeId, Coordinates>> seen;
  for (std::size_t step = 0; step < kMostSteps && !open.empty(); ++step) {
    const auto [node, position] = std::move(open.front());
    open.pop_front();
    if (std::find(seen.begin(), seen.end(), std::pair(node, position)) != seen.end()) continue;
    seen.emplace_back(node, position);
    if (is_literal(graph_, node)) continue;
    const auto known = by_node_.find(node);
    if (known != by_node_.end()) {
      // Every axis above the first fresh one may be solved for; those of the caller must be.
      std::vector<AxisId> unknown;
      for (const Expr& coordinate : position) {
        for (AxisId axis : index::axes_of(coordinate)) {
          if (axis >= kFirstFresh && std::find(unknown.begin(), unknown.end(), axis) == unknown.end())
            unknown.push_back(axis);
        }
      }
      for (ValueId id : known->second) {
        const auto solved = index::solve(position, element_requests_[id].coordinates, unknown);
        const auto found = [&](AxisId axis) { return solved->count(axis) != 0; };
        if (solved && std::all_of(fresh.begin(), fresh.end(), found)) return solved;
      }
    }
    if (!std::binary_search(segment_.members.begin(), segment_.members.end(), node)) continue;
    for (auto& next : operand_positions(node, position, through_reductions)) open.push_back(std::move(next));
  }
  return std::nullopt;
}

/// Whether a value is made, element by element, of a contraction of a factor that the contraction `base` has, too, as
/// the projections to queries, keys and values are of one value: of equal shapes, both run over the same positions.
bool Builder::is_projection_beside(ir::NodeId id, ir::NodeId base, int depth) {
  constexpr int kDeepest = 16;
  const ir::Node& node = graph_.node(id);
  const ir::Node& other = graph_.node(base);
  if (depth > kDeepest || other.op->cls != ops::OpClass::contraction || sizes_of(id) != sizes_of(base)) return false;
  if (!std::binary_search(segment_.members.begin(), segment_.members.end(), id)) return false;
  if (node.op->cls == ops::OpClass::contraction)
    return node.operands[0] == other.operands[0] || node.operands[1] == other.operands[1];
  if (node.op->cls != ops::OpClass::elementwise && node.op->cls != ops::OpClass::convert) return false;
  return std::any_of(node.operands.begin(), node.operands.end(),
                     [&](ir::NodeId operand) { return is_projection_beside(operand, base, depth + 1); });
}

std::optional<Builder::Found> Builder::find_position(ir::NodeId node,
                                                     const std::function<bool(const Expr&, std::int64_t)>& complete) {
  const Sizes& sizes = sizes_of(node);
  const std::int64_t count = count_of(node);
  const auto known = by_node_.find(node);
  if (known != by_node_.end()) {
    for (ValueId id : known->second) {
      if (element_requests_[id].context != 0) continue;
      if (complete(index::linearize(element_requests_[id].coordinates, sizes), count))
        return Found{element_requests_[id].coordinates, true};
    }
  }
  if (auto forward = forward_position(node); forward && complete(index::linearize(*forward, sizes), count))
    return Found{*std::move(forward), false};
  std::vector<AxisId> fresh;
  Coordinates unknown;
  for (std::int64_t size : sizes) unknown.push_back(size == 1 ? Expr(0) : fresh_axis(size, fresh));
  if (const auto solved = meet(node, unknown, 0, fresh, true)) {
    Coordinates found;
    for (const Expr& coordinate : unknown) found.push_back(index::substitute(coordinate, *solved));
    if (complete(index::linearize(found, sizes), count)) return Found{std::move(found), false};
  }
  if (base_.reduction && is_projection_beside(node, *base_.reduction)) {
    Coordinates beside(base_coordinates_.begin(),
                       base_coordinates_.begin() + static_cast<std::ptrdiff_t>(sizes.size()));
    if (complete(index::linearize(beside, sizes), count)) return Found{std::move(beside), false};
  }
  Sizes walked = base_.sizes;  // sizes_of knows no zeros
  for (std::int64_t& size : walked) size = std::max<std::int64_t>(size, 1);
  if (count != product_of_axes() || walked != sizes_of(base_.node)) return std::nullopt;
  Coordinates same = index::delinearize(index::linearize(base_coordinates_, sizes_of(base_.node)), sizes);
  if (sizes == sizes_of(base_.node)) same = base_coordinates_;
  if (!complete(index::linearize(same, sizes), count)) return std::nullopt;
  return Found{std::move(same), false};
}

std::optional<Builder::Coordinates> Builder::forward_position(ir::NodeId id, int depth) {
  constexpr int kDeepest = 16;
  const auto known = by_node_.find(id);
  if (known != by_node_.end()) {
    for (ValueId value : known->second) {
      if (element_requests_[value].context == 0) return element_requests_[value].coordinates;
    }
  }
  if (depth > kDeepest || !std::binary_search(segment_.members.begin(), segment_.members.end(), id))
    return std::nullopt;
  const ir::Node& node = graph_.node(id);
  const bool elementwise = node.op->cls == ops::OpClass::elementwise || node.op->cls == ops::OpClass::convert;
  if (!elementwise && node.op->name != "reshape" && node.op->name != "permute") return std::nullopt;
  const Sizes sizes = sizes_of(id);
  for (ir::NodeId operand : node.operands) {
    const Sizes from = sizes_of(operand);
    if (elementwise && from != sizes) continue;
    const auto place = forward_position(operand, depth + 1);
    if (!place) continue;
    if (elementwise) return place;
    if (node.op->name == "reshape") return index::delinearize(index::linearize(*place, from), sizes);
    Coordinates moved;
    for (int axis : std::get<ir::AxesPayload>(node.payload).axes)
      moved.push_back((*place)[static_cast<std::size_t>(axis)]);
    return moved;
  }
  return std::nullopt;
}

std::int64_t Builder::product_of_axes() const {
  std::int64_t count = 1;
  for (const BaseAxis& axis : axes_) count *= axis.size;
  return count;
}

}  // namespace vkfuse::segment
