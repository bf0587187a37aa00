// Where a value stands that the walk from the base did not lead to: the position is solved for from a
// value that both need.
#include <algorithm>
#include <array>
#include <deque>
#include <set>

#include "segment/builder.hpp"
#include "segment/views.hpp"

namespace vkfuse::segment {

using index::AxisId;
using index::Expr;

namespace {

constexpr std::size_t kMostSteps = 256;  // of a search through operands

/// The axes from `first` on that the position names, each once.
std::vector<AxisId> axes_from(const Coordinates& position, AxisId first) {
  std::vector<AxisId> axes;
  for (const Expr& coordinate : position) {
    for (AxisId axis : index::axes_of(coordinate)) {
      if (axis >= first && std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
    }
  }
  return axes;
}

bool is_elementwise(const ir::Node& node) {
  return node.op->cls == ops::OpClass::elementwise || node.op->cls == ops::OpClass::convert;
}

/// Whether each element of an operand of as many has one place in the result.
bool moves_all_elements(const ir::Node& node) {
  return is_elementwise(node) || node.op->role == ops::Role::reshape || node.op->role == ops::Role::permute;
}

/// Where an element of the node is, given where it is in the operand.
Coordinates moved(const ir::Node& node, const Coordinates& position, const Sizes& from, const Sizes& to) {
  if (is_elementwise(node)) return position;
  if (node.op->role == ops::Role::reshape) return index::delinearize(index::linearize(position, from), to);
  Coordinates permuted;
  for (int axis : std::get<ir::AxesPayload>(node.payload).axes)
    permuted.push_back(position[static_cast<std::size_t>(axis)]);
  return permuted;
}

}  // namespace

Expr Builder::fresh_axis(std::int64_t size, std::vector<AxisId>& fresh) {
  fresh.push_back(next_fresh_++);
  return Expr::axis(fresh.back(), size);
}

Coordinates Builder::fresh_coordinates(const Sizes& sizes, std::vector<AxisId>& fresh) {
  Coordinates unknown;
  for (std::int64_t size : sizes) unknown.push_back(size == 1 ? Expr(0) : fresh_axis(size, fresh));
  return unknown;
}

Builder::OperandPositions Builder::operand_positions(ir::NodeId node_id, const Coordinates& coordinates,
                                                     bool through_reductions) {
  const ir::Node& node = graph_.node(node_id);
  OperandPositions all;
  switch (node.op->cls) {
    case ops::OpClass::elementwise:
    case ops::OpClass::convert:
      for (ir::NodeId operand : node.operands)
        all.emplace_back(operand, broadcast_coordinates(coordinates, sizes_of(operand)));
      return all;
    case ops::OpClass::view: return view_operands(node_id, coordinates);
    case ops::OpClass::gather: return gather_operands(node_id, coordinates);
    case ops::OpClass::reduce: return through_reductions ? reduced_operands(node_id, coordinates) : all;
    case ops::OpClass::contraction: return through_reductions ? contraction_operands(node_id, coordinates) : all;
    case ops::OpClass::scan:
    case ops::OpClass::sort:
      if (through_reductions && sizes_of(node.operands[0]) == sizes_of(node_id))
        all.emplace_back(node.operands[0], coordinates);
      return all;
    default: return all;
  }
}

Builder::OperandPositions Builder::view_operands(ir::NodeId node_id, const Coordinates& coordinates) {
  const ir::Node& node = graph_.node(node_id);
  const std::size_t count = node.op->role == ops::Role::pad ? 1 : node.operands.size();
  OperandPositions all;
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const Sizes& sizes = sizes_of(node.operands[k]);
    all.emplace_back(node.operands[k],
                     position_in_operand(node, coordinates,
                                         {.result = sizes_of(node_id), .sizes = sizes, .number = k, .begin = begin})
                         .coordinates);
    if (const auto* axis = std::get_if<ir::AxisPayload>(&node.payload))
      begin += sizes[static_cast<std::size_t>(axis->axis)];
  }
  return all;
}

/// Where along the axis is data; everything else is known.
Builder::OperandPositions Builder::gather_operands(ir::NodeId node_id, const Coordinates& coordinates) {
  const ir::Node& node = graph_.node(node_id);
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
  const Sizes& sizes = sizes_of(node.operands[0]);
  GatherPosition position = position_in_gather(node, coordinates, sizes, sizes_of(node.operands[1]));
  std::vector<AxisId> unused;
  if (sizes[axis] != 1) position.in_data[axis] = fresh_axis(sizes[axis], unused);
  return {{node.operands[0], std::move(position.in_data)}, {node.operands[1], std::move(position.in_indices)}};
}

Builder::OperandPositions Builder::reduced_operands(ir::NodeId node_id, const Coordinates& coordinates) {
  const ir::Node& node = graph_.node(node_id);
  const auto& axes = std::get<ir::AxesPayload>(node.payload).axes;
  const Sizes& sizes = sizes_of(node.operands[0]);
  Sizes reduced_sizes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end()) reduced_sizes.push_back(sizes[i]);
  }
  std::vector<AxisId> unused;
  const Coordinates along = fresh_coordinates(reduced_sizes, unused);
  return {{node.operands[0], position_in_reduced(axes, sizes.size(), coordinates, along)}};
}

Builder::OperandPositions Builder::contraction_operands(ir::NodeId node_id, const Coordinates& coordinates) {
  const ir::Node& node = graph_.node(node_id);
  const auto& dot = std::get<ir::DotPayload>(node.payload);
  OperandPositions all;
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
  return all;
}

std::optional<std::map<AxisId, Expr>> Builder::meet(ir::NodeId start, const Coordinates& coordinates,
                                                    const std::vector<AxisId>& fresh, bool through_reductions) {
  std::deque<std::pair<ir::NodeId, Coordinates>> open{{start, coordinates}};
  std::vector<std::pair<ir::NodeId, Coordinates>> seen;
  for (std::size_t step = 0; step < kMostSteps && !open.empty(); ++step) {
    const auto [node, position] = std::move(open.front());
    open.pop_front();
    if (std::find(seen.begin(), seen.end(), std::pair(node, position)) != seen.end()) continue;
    seen.emplace_back(node, position);
    if (is_literal(graph_, node)) continue;
    // Every axis above the first fresh one may be solved for; those of the caller must be.
    const std::vector<AxisId> unknown = axes_from(position, kFirstFresh);
    for (ValueId id : requests_.of(node)) {
      const auto solved = index::solve(position, requests_[id].coordinates, unknown);
      const auto found = [&](AxisId axis) { return solved->count(axis) != 0; };
      if (solved && std::all_of(fresh.begin(), fresh.end(), found)) return solved;
    }
    if (!is_member(node)) continue;
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
  if (!is_member(id)) return false;
  if (node.op->cls == ops::OpClass::contraction)
    return node.operands[0] == other.operands[0] || node.operands[1] == other.operands[1];
  if (node.op->cls != ops::OpClass::elementwise && node.op->cls != ops::OpClass::convert) return false;
  return std::any_of(node.operands.begin(), node.operands.end(),
                     [&](ir::NodeId operand) { return is_projection_beside(operand, base, depth + 1); });
}

/// The contractions that a value is made of element by element.
std::set<ir::NodeId> Builder::products_below(ir::NodeId id) const {
  std::set<ir::NodeId> products, seen;
  std::vector<ir::NodeId> open{id};
  while (!open.empty() && seen.size() < kMostSteps) {
    const ir::NodeId one = requests_.first_equal(open.back());
    open.pop_back();
    if (!is_member(one) || !seen.insert(one).second) continue;
    const ir::Node& node = graph_.node(one);
    if (node.op->cls == ops::OpClass::contraction)
      products.insert(one);
    else if (is_elementwise(node) || node.op->cls == ops::OpClass::view)
      open.insert(open.end(), node.operands.begin(), node.operands.end());
  }
  return products;
}

/// Whether a value is a contraction as the base's is, of what is made of the same products: the gradients of keys and
/// of values are sums of what the scores of attention become.
bool Builder::is_sum_beside_base(ir::NodeId id) {
  if (!base_.reduction || !is_member(id)) return false;
  const ir::Node& node = graph_.node(id);
  const ir::Node& other = graph_.node(*base_.reduction);
  if (node.op->cls != ops::OpClass::contraction || other.op != node.op || other.payload != node.payload) return false;
  // Of sizes that are known alone: at others such a kernel might not be possible.
  const auto is_symbol = [](const Dim& dim) { return dim.is_symbol(); };
  for (const std::size_t side : {0U, 1U}) {
    const Shape& shape = graph_.node(node.operands[side]).type.shape;
    if (std::ranges::any_of(shape, is_symbol) || sizes_of(node.operands[side]) != sizes_of(other.operands[side]))
      return false;
  }
  return std::ranges::any_of(std::array{0U, 1U}, [&](std::size_t side) {
    const std::set<ir::NodeId> own = products_below(node.operands[side]);
    const std::set<ir::NodeId> others = products_below(other.operands[side]);
    return std::ranges::any_of(own, [&](ir::NodeId product) { return others.count(product) != 0; });
  });
}

std::optional<Coordinates> Builder::forward_position(ir::NodeId id, int depth) {
  constexpr int kDeepest = 16;
  for (ValueId value : requests_.of(id)) {
    if (requests_[value].context == 0) return requests_[value].coordinates;
  }
  if (is_sum_beside_base(id)) return result_of_base();
  const ir::Node& node = graph_.node(id);
  if (depth > kDeepest || !is_member(id) || !moves_all_elements(node)) return std::nullopt;
  const Sizes& sizes = sizes_of(id);
  for (ir::NodeId operand : node.operands) {
    const Sizes& from = sizes_of(operand);
    if (is_elementwise(node) && from != sizes) continue;
    if (const auto position = forward_position(operand, depth + 1)) return moved(node, *position, from, sizes);
  }
  return std::nullopt;
}

/// Where the result of the contraction is that the base is of.
Coordinates Builder::result_of_base() {
  const Coordinates& all = axes_.base_coordinates;
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(sizes_of(*base_.reduction).size())};
}

std::optional<Coordinates> Builder::position_from_operands(ir::NodeId node) {
  std::vector<AxisId> fresh;
  const Coordinates unknown = fresh_coordinates(sizes_of(node), fresh);
  const auto solved = meet(node, unknown, fresh, true);
  if (!solved) return std::nullopt;
  const Sizes& sizes = sizes_of(node);
  Coordinates found;
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    found.push_back(index::substitute(unknown[i], *solved));
    // What both read may go on where the node ends: of rows, a slice of 3 x 4 elements beside one of 1 x 12.
    const index::Interval range = index::interval_of(found.back());
    if (range.low < 0 || range.high >= sizes[i]) return std::nullopt;
  }
  return found;
}

std::optional<Coordinates> Builder::position_beside_base(ir::NodeId node) {
  if (!base_.reduction || !is_projection_beside(node, *base_.reduction)) return std::nullopt;
  return result_of_base();
}

/// The base's own, where the node has as many elements.
std::optional<Coordinates> Builder::position_of_base(ir::NodeId node) {
  Sizes walked = base_.sizes;  // sizes_of knows no zeros
  for (std::int64_t& size : walked) size = std::max<std::int64_t>(size, 1);
  const Sizes& base_sizes = sizes_of(base_.node);
  if (count_of(node) != axes_.count() || walked != base_sizes) return std::nullopt;
  if (sizes_of(node) == base_sizes) return axes_.base_coordinates;
  return index::delinearize(index::linearize(axes_.base_coordinates, base_sizes), sizes_of(node));
}

std::optional<Builder::Found> Builder::find_position(ir::NodeId node,
                                                     const std::function<bool(const Expr&, std::int64_t)>& complete) {
  using Candidate = std::optional<Coordinates> (Builder::*)(ir::NodeId);
  static constexpr Candidate kCandidates[] = {&Builder::position_from_users, &Builder::position_from_operands,
                                              &Builder::position_beside_base, &Builder::position_of_base};
  const auto is_complete = [&](const Coordinates& coordinates) {
    return complete(index::linearize(coordinates, sizes_of(node)), count_of(node));
  };
  for (ValueId id : requests_.of(node)) {
    if (requests_[id].context == 0 && is_complete(requests_[id].coordinates))
      return Found{requests_[id].coordinates, true};
  }
  for (const Candidate candidate : kCandidates) {
    if (auto found = (this->*candidate)(node); found && is_complete(*found)) return Found{*std::move(found), false};
  }
  return std::nullopt;
}

}  // namespace vkfuse::segment
