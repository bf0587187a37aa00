#include "parallel/rules.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace vkfuse::parallel {

namespace {

using ops::OpClass;
using ops::Role;

/// An op, what it reads, and the mesh.
struct Site {
  const ir::Node& node;
  std::span<const Operand> operands;
  const std::vector<int>& mesh;

  [[nodiscard]] const Shape& shape(std::size_t operand) const { return operands[operand].type.shape; }
  [[nodiscard]] const Shape& result() const { return node.type.shape; }
  [[nodiscard]] std::size_t rank() const { return node.type.shape.size(); }
};

/// The axis of the result that each axis of each operand becomes, element by element, or -1 where it must be whole.
/// Axes of several operands that become one axis of the result are divided alike.
using AxisMap = std::vector<std::vector<int>>;

AxisMap unmapped(const Site& site) {
  AxisMap map;
  for (const Operand& operand : site.operands) map.emplace_back(operand.type.shape.size(), -1);
  return map;
}

/// Aligned at the innermost axis, as broadcasting does; what is stretched is whole.
void map_broadcast(const Site& site, std::size_t operand, AxisMap& map) {
  const Shape& shape = site.shape(operand);
  const std::size_t added = site.rank() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == site.result()[added + i]) map[operand][i] = static_cast<int>(added + i);
  }
}

/// Every axis but some is the same axis of the result.
template <typename IsKept>
void map_kept(const Site& site, std::size_t operand, AxisMap& map, IsKept is_kept) {
  for (std::size_t i = 0; i < site.shape(operand).size(); ++i) {
    if (is_kept(i)) map[operand][i] = static_cast<int>(i);
  }
}

void map_slice(const Site& site, std::size_t operand, const Shape& part, AxisMap& map) {
  const auto& slice = std::get<ir::SlicePayload>(site.node.payload);
  const Shape& whole = site.shape(0);
  map_kept(site, operand, map,
           [&](std::size_t i) { return slice.starts[i] == 0 && slice.steps[i] == 1 && whole[i] == part[i]; });
}

bool contains(const std::vector<int>& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<int>(axis)) != axes.end();
}

void map_view(const Site& site, AxisMap& map) {
  const ir::Payload& payload = site.node.payload;
  switch (site.node.op->role) {
    case Role::broadcast: return map_broadcast(site, 0, map);
    case Role::permute: {
      const auto& axes = std::get<ir::AxesPayload>(payload).axes;
      for (std::size_t i = 0; i < axes.size(); ++i) map[0][static_cast<std::size_t>(axes[i])] = static_cast<int>(i);
      return;
    }
    case Role::slice: return map_slice(site, 0, site.result(), map);
    case Role::slice_assign: map_slice(site, 0, site.shape(1), map); return map_slice(site, 1, site.shape(1), map);
    case Role::reverse:
      return map_kept(site, 0, map,
                      [&](std::size_t i) { return !contains(std::get<ir::AxesPayload>(payload).axes, i); });
    case Role::unfold:
      return map_kept(site, 0, map,
                      [&](std::size_t i) { return !contains(std::get<ir::WindowPayload>(payload).axes, i); });
    case Role::pad: {
      const auto& pad = std::get<ir::PadPayload>(payload);
      return map_kept(site, 0, map, [&](std::size_t i) { return pad.low[i] == 0 && pad.high[i] == 0; });
    }
    case Role::concat: {
      const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(payload).axis);
      for (std::size_t k = 0; k < site.operands.size(); ++k)
        map_kept(site, k, map, [&](std::size_t i) { return i != axis; });
      return;
    }
    default: return;  // all whole
  }
}

/// Axes of the data and of the positions, in the order in which the result has them.
void map_gather(const Site& site, AxisMap& map) {
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(site.node.payload).axis);
  if (site.node.op->role == Role::take_along) {
    for (std::size_t k = 0; k < 2; ++k)
      map_kept(site, k, map, [&](std::size_t i) { return i != axis && site.shape(k)[i] == site.result()[i]; });
    return;
  }
  const std::size_t added = site.shape(1).size();
  for (std::size_t i = 0; i < site.shape(0).size(); ++i) {
    if (i != axis) map[0][i] = static_cast<int>(i < axis ? i : i + added - 1);
  }
  for (std::size_t i = 0; i < added; ++i) map[1][i] = static_cast<int>(axis + i);
}

/// Rows are whole; what a row consists of may be divided.
void map_scatter(const Site& site, AxisMap& map) {
  for (const std::size_t k : {0, 2}) map_kept(site, k, map, [](std::size_t i) { return i > 0; });
}

/// The axis along which rows are is whole; the others are those of the base, for starts and rows, too.
void map_update(const Site& site, AxisMap& map) {
  const auto axis = static_cast<std::size_t>(std::get<ir::UpdatePayload>(site.node.payload).axis);
  for (std::size_t k = 0; k < site.operands.size(); ++k)
    map_kept(site, k, map, [&](std::size_t i) { return i != axis; });
}

AxisMap map_of(const Site& site) {
  AxisMap map = unmapped(site);
  switch (site.node.op->cls) {
    case OpClass::elementwise:
    case OpClass::convert:
      for (std::size_t k = 0; k < site.operands.size(); ++k) map_broadcast(site, k, map);
      break;
    case OpClass::view: map_view(site, map); break;
    case OpClass::gather: map_gather(site, map); break;
    case OpClass::scatter: map_scatter(site, map); break;
    case OpClass::update: map_update(site, map); break;
    case OpClass::scan: {
      const auto axis = static_cast<std::size_t>(std::get<ir::ScanPayload>(site.node.payload).axis);
      map_kept(site, 0, map, [&](std::size_t i) { return i != axis; });
      break;
    }
    case OpClass::sort: {
      const auto axis = static_cast<std::size_t>(std::get<ir::SortPayload>(site.node.payload).axis);
      map_kept(site, 0, map, [&](std::size_t i) { return i != axis; });
      break;
    }
    default: break;  // all whole
  }
  return map;
}

/// The layout of the result that an operand suggests.
Layout projected(const Site& site, const std::vector<int>& map, const Layout& layout) {
  Layout result = whole_layout(site.rank());
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (map[i] >= 0) result[static_cast<std::size_t>(map[i])] = layout[i];
  }
  return divides(site.result(), result, site.mesh) ? result : whole_layout(site.rank());
}

Placement placed(const Site& site, const AxisMap& map, const Layout& result) {
  Placement placement{{}, result, {}};
  for (std::size_t k = 0; k < site.operands.size(); ++k) {
    Layout layout = whole_layout(map[k].size());
    for (std::size_t i = 0; i < layout.size(); ++i) {
      if (map[k][i] >= 0) layout[i] = result[static_cast<std::size_t>(map[k][i])];
    }
    placement.operands.push_back(std::move(layout));
  }
  return placement;
}

/// Bytes that a rank sends for a placement. Ties go to what is divided more: the result counts a little.
double cost_of(const Site& site, const Placement& placement) {
  double cost = 0;
  for (std::size_t k = 0; k < site.operands.size(); ++k)
    cost += cost_between(site.operands[k].layout, placement.operands[k], site.operands[k].bytes, site.mesh);
  double result = size_of(site.node.type.dtype);
  for (const Dim& dim : local_shape(site.result(), placement.result, site.mesh))
    result *= dim.is_symbol() ? 1024 : static_cast<double>(dim.size());
  for (const int axis : placement.pending) cost += cost_of_sum(result, site.mesh[static_cast<std::size_t>(axis)]);
  return cost + 1e-6 * result;
}

Placement cheapest(const Site& site, std::vector<Placement> placements) {
  return *std::min_element(placements.begin(), placements.end(),
                           [&](const Placement& a, const Placement& b) { return cost_of(site, a) < cost_of(site, b); });
}

/// What each operand suggests, and all of them together, the largest first.
Placement by_axes(const Site& site, const AxisMap& map) {
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < site.operands.size(); ++k) order.push_back(k);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return site.operands[a].bytes > site.operands[b].bytes; });
  Layout together = whole_layout(site.rank());
  std::vector<Placement> placements = {placed(site, map, together)};
  for (const std::size_t k : order) {
    const Layout one = projected(site, map[k], site.operands[k].layout);
    together = merged(together, one);
    placements.push_back(placed(site, map, one));
  }
  placements.push_back(placed(site, map, together));
  return cheapest(site, std::move(placements));
}

/// Parts of sums, means and extremes are joined afterwards; other reductions need the axes whole.
Placement of_reduction(const Site& site) {
  const auto& axes = std::get<ir::AxesPayload>(site.node.payload).axes;
  const ops::Reduction& reduction = site.node.op->reduction;
  const bool joins_floats = reduction.kind == ops::Reduction::Kind::mean && reduction.join == "add";
  const bool joins = joins_floats || (reduction.kind == ops::Reduction::Kind::plain &&
                                      (reduction.join == "add" || reduction.join == "max" || reduction.join == "min"));
  Placement placement{{site.operands[0].layout}, {}, {}};
  for (std::size_t i = 0; i < site.shape(0).size(); ++i) {
    int& over = placement.operands[0][i];
    if (!contains(axes, i)) {
      placement.result.push_back(over);
    } else if (over >= 0) {
      if (joins) placement.pending.push_back(over);
      if (!joins) over = -1;
    }
  }
  return placement;
}

Placement of_reshape(const Site& site) {
  ReshapeLayouts made = through_reshape(site.shape(0), site.result(), site.operands[0].layout, site.mesh);
  return {{std::move(made.operand)}, std::move(made.result), {}};
}

// Contractions. ---------------------------------------------------------------------------------------------------

/// One axis of a contraction: of the operands that have it, and of the result; -1 where it is none of theirs.
struct DotAxis {
  int a = -1, b = -1, result = -1;
};

std::vector<DotAxis> axes_of_dot(const Site& site) {
  const auto& dot = std::get<ir::DotPayload>(site.node.payload);
  std::vector<DotAxis> axes;
  int result = 0;
  for (std::size_t i = 0; i < dot.batch_a.size(); ++i) axes.push_back({dot.batch_a[i], dot.batch_b[i], result++});
  for (const int axis : ir::free_axes(dot.batch_a, dot.contract_a, site.shape(0).size()))
    axes.push_back({axis, -1, result++});
  for (const int axis : ir::free_axes(dot.batch_b, dot.contract_b, site.shape(1).size()))
    axes.push_back({-1, axis, result++});
  for (std::size_t i = 0; i < dot.contract_a.size(); ++i) axes.push_back({dot.contract_a[i], dot.contract_b[i], -1});
  return axes;
}

/// Divides one axis of a contraction over an axis of the mesh, where it is free.
bool divide(const Site& site, const DotAxis& axis, int over, Placement& placement) {
  const auto taken = [](const Layout& layout, int at) { return at >= 0 && layout[static_cast<std::size_t>(at)] >= 0; };
  if (taken(placement.operands[0], axis.a) || taken(placement.operands[1], axis.b)) return false;
  const Dim& dim =
      axis.a >= 0 ? site.shape(0)[static_cast<std::size_t>(axis.a)] : site.shape(1)[static_cast<std::size_t>(axis.b)];
  if (dim.is_symbol() || dim.size() % site.mesh[static_cast<std::size_t>(over)] != 0) return false;
  if (axis.a >= 0) placement.operands[0][static_cast<std::size_t>(axis.a)] = over;
  if (axis.b >= 0) placement.operands[1][static_cast<std::size_t>(axis.b)] = over;
  if (axis.result >= 0) placement.result[static_cast<std::size_t>(axis.result)] = over;
  if (axis.result < 0) placement.pending.push_back(over);
  return true;
}

/// For each axis of the mesh, one axis of the contraction that an operand has divided over it, or none: all ways.
Placement of_dot(const Site& site) {
  const std::vector<DotAxis> axes = axes_of_dot(site);
  std::vector<Placement> ways = {
      {{whole_layout(site.shape(0).size()), whole_layout(site.shape(1).size())}, whole_layout(site.rank()), {}}};
  for (int over = 0; over < static_cast<int>(site.mesh.size()); ++over) {
    const std::size_t before = ways.size();
    for (const DotAxis& axis : axes) {
      const bool suggested = (axis.a >= 0 && axis_over(site.operands[0].layout, over) == axis.a) ||
                             (axis.b >= 0 && axis_over(site.operands[1].layout, over) == axis.b);
      if (!suggested) continue;
      for (std::size_t w = 0; w < before; ++w) {
        Placement way = ways[w];
        if (divide(site, axis, over, way)) ways.push_back(std::move(way));
      }
    }
  }
  return cheapest(site, std::move(ways));
}

}  // namespace

Placement cheapest_placement(const ir::Node& node, std::span<const Operand> operands, const std::vector<int>& mesh) {
  const Site site{node, operands, mesh};
  if (node.op->cls == OpClass::reduce) return of_reduction(site);
  if (node.op->role == Role::reshape) return of_reshape(site);
  if (node.op->role == Role::dot) return of_dot(site);
  return by_axes(site, map_of(site));
}

}  // namespace vkfuse::parallel
