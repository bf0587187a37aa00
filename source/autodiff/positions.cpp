// Gradients of gathers and scatters. Positions are integers and have none.
#include <algorithm>

#include "autodiff/rules.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::autodiff {

namespace {

Tensor integer(DType dtype, std::int64_t value) { return Tensor::scalar_int(dtype, value); }

/// The last position of an axis, in a dtype of positions: that of a symbolic axis is found when the program runs.
Tensor last_of(const Dim& dim, DType dtype) {
  if (!dim.is_symbol()) return integer(dtype, dim.size() - 1);
  return integer(dtype, 1).broadcast_to({dim}).sum() - integer(dtype, 1);
}

/// What a gather reads where a position is out of range: the nearest element.
Tensor clamped(const Tensor& positions, const Dim& dim) {
  const DType dtype = positions.dtype();
  return min(max(positions, integer(dtype, 0)), last_of(dim, dtype));
}

Tensor inside(const Tensor& positions, const Dim& dim) {
  const Tensor below = le(positions, last_of(dim, positions.dtype()));
  if (positions.dtype() == DType::u32) return below;
  return logical_and(ge(positions, integer(positions.dtype(), 0)), below);
}

/// Positions over several axes that are symbols are no list of rows: each element of the axis has the sum over the
/// positions that are its own.
Tensor of_gather_by_sums(const Call& c) {
  const int axis = c.axis();
  const Tensor& positions = c.x(1);
  const Dim& size = c.x(0).shape()[static_cast<std::size_t>(axis)];
  const auto picked = static_cast<int>(positions.shape().size());
  Shape ramp(positions.shape().size() + 1, Dim(1));
  ramp.back() = size;
  const Tensor own = Tensor::iota(positions.dtype(), ramp, picked);
  Shape beside = positions.shape();  // [positions..., axis, 1 for each axis after it]
  beside.push_back(size);
  beside.resize(c.y.shape().size() + 1 - static_cast<std::size_t>(axis), Dim(1));
  const Tensor hit = eq(clamped(positions, size).unsqueeze(picked), own).reshape(beside);
  std::vector<int> over;
  for (int i = 0; i < picked; ++i) over.push_back(axis + i);
  return select(hit, c.g.unsqueeze(axis + picked), c.number(0)).sum(over);
}

/// The rows that were read more than once get the sum of what was made of them.
Tensor of_gather(const Call& c, std::size_t) {
  const auto is_symbol = [](const Dim& dim) { return dim.is_symbol(); };
  const Shape& of_positions = c.x(1).shape();
  if (of_positions.size() > 1 && std::any_of(of_positions.begin(), of_positions.end(), is_symbol))
    return of_gather_by_sums(c);
  const auto axis = static_cast<std::size_t>(c.axis());
  const Shape& whole = c.x(0).shape();
  const std::size_t picked = c.x(1).shape().size();
  // The positions' axes first, then what is left, as rows.
  std::vector<int> order;
  for (std::size_t i = 0; i < picked; ++i) order.push_back(static_cast<int>(axis + i));
  for (std::size_t i = 0; i < c.y.shape().size(); ++i) {
    if (i < axis || i >= axis + picked) order.push_back(static_cast<int>(i));
  }
  Shape rest = whole;
  rest.erase(rest.begin() + c.axis());
  Shape rows = rest, base = rest;
  rows.insert(rows.begin(), Dim(-1));
  base.insert(base.begin(), whole[axis]);
  const Tensor positions = clamped(c.x(1), whole[axis]).reshape({Dim(-1)});
  if (!positions.valid()) return positions;
  rows.front() = positions.shape()[0];
  const Tensor sums = zeros(c.g.dtype(), base).scatter(positions, c.g.permute(order).reshape(rows), "add");
  // The axis back to its place.
  std::vector<int> back;
  for (int i = 0; i < static_cast<int>(whole.size()); ++i) back.push_back(i < c.axis() ? i + 1 : i == c.axis() ? 0 : i);
  return sums.permute(back);
}

/// Whether positions are the sorted order of a whole axis: each position is there once.
bool is_sorted_order(const Tensor& positions, int axis) {
  const Tensor::Node& node = *positions.node();
  if (node.op->cls != ops::OpClass::sort) return false;
  return std::get<ir::SortPayload>(node.payload).axis == axis && node.operands[0].shape() == positions.shape();
}

/// Each element of the axis gets the sum of the cotangents whose positions are its own: one sum over the positions, or,
/// of a sorted order, the cotangent at its rank.
Tensor of_take_along(const Call& c, std::size_t) {
  const int axis = c.axis();
  const auto at = static_cast<std::size_t>(axis);
  const Tensor& positions = c.x(1);
  if (positions.shape() == c.x(0).shape() && is_sorted_order(positions, axis))
    return c.g.take_along(positions.argsort(axis), axis);
  const Dim& size = c.x(0).shape()[at];
  Shape ramp(positions.shape().size() + 1, Dim(1));
  ramp[at] = size;
  const Tensor own = Tensor::iota(positions.dtype(), ramp, axis);
  const Tensor hit = eq(clamped(positions, size).unsqueeze(axis), own);
  return select(hit, c.g.unsqueeze(axis), c.number(0)).sum({axis + 1});
}

/// scatter: base, positions, updates.
struct Scattered {
  const Call& c;
  const Tensor &base = c.x(0), &positions = c.x(1), &updates = c.x(2);
  const Dim& size = base.shape()[0];

  /// Rows at the positions; of positions out of range, the nearest.
  [[nodiscard]] Tensor at_positions(const Tensor& rows) const { return rows.gather(positions, 0); }
  /// A value for each position, as a column beside the updates.
  [[nodiscard]] Tensor beside_updates(const Tensor& values) const {
    Shape shape(updates.shape().size(), Dim(1));
    shape[0] = values.shape()[0];
    return values.reshape(std::move(shape));
  }
  [[nodiscard]] Tensor kept(const Tensor& condition, const Tensor& value) const {
    return select(beside_updates(condition), value, c.number(0));
  }
  [[nodiscard]] Tensor joined(const Tensor& to, const Tensor& rows, std::string_view mode) const {
    return to.scatter(positions, rows, mode);
  }
};

/// The last update of a row is what is there.
Tensor of_scatter_set(const Scattered& s, std::size_t operand) {
  if (operand == 0) return s.joined(s.c.g, zeros(s.c.g.dtype(), s.updates.shape()), "set");
  const Shape count{s.positions.shape()[0]};
  const Tensor number = Tensor::iota(DType::i32, count, 0);
  const Tensor last = integer(DType::i32, -1).broadcast_to({s.size}).scatter(s.positions, number, "set");
  const Tensor is_last = logical_and(eq(s.at_positions(last), number), inside(s.positions, s.size));
  return s.kept(is_last, s.at_positions(s.c.g));
}

/// A product without one of its factors is the product of the others, also where that one is 0: factors of 0 are
/// counted, and the others multiplied.
Tensor of_scatter_mul(const Scattered& s, std::size_t operand) {
  const Tensor none = s.c.number(0), one = s.c.number(1);
  const Tensor base_is_zero = eq(s.base, none), update_is_zero = eq(s.updates, none);
  const Tensor counts = s.joined(select(base_is_zero, one, none), select(update_is_zero, one, none), "add");
  const Tensor others = s.joined(select(base_is_zero, one, s.base), select(update_is_zero, one, s.updates), "mul");
  const auto without = [&](const Tensor& count, const Tensor& all, const Tensor& own, const Tensor& is_zero) {
    const Tensor zeros_left = select(is_zero, count - 1.0, count);
    return select(gt(zeros_left, none), none, all / select(is_zero, one, own));
  };
  if (operand == 0) return s.c.g * without(counts, others, s.base, base_is_zero);
  const Tensor left = without(s.at_positions(counts), s.at_positions(others), s.updates, update_is_zero);
  return s.kept(inside(s.positions, s.size), s.at_positions(s.c.g) * left);
}

/// Those that are the extreme of their row share its gradient.
Tensor of_scatter_extreme(const Scattered& s, std::size_t operand) {
  const Tensor none = s.c.number(0), one = s.c.number(1);
  const Tensor base_is_it = eq(s.base, s.c.y), update_is_it = eq(s.updates, s.at_positions(s.c.y));
  const Tensor counts = s.joined(select(base_is_it, one, none), select(update_is_it, one, none), "add");
  const Tensor share = s.c.g / counts;
  if (operand == 0) return select(base_is_it, share, none);
  return s.kept(inside(s.positions, s.size), select(update_is_it, s.at_positions(share), none));
}

Tensor of_scatter(const Call& c, std::size_t operand) {
  const Scattered s{c};
  switch (c.attributes<ir::ScatterPayload>().mode) {
    case ir::ScatterMode::set: return of_scatter_set(s, operand);
    case ir::ScatterMode::add: return operand == 0 ? c.g : s.kept(inside(s.positions, s.size), s.at_positions(c.g));
    case ir::ScatterMode::mul: return of_scatter_mul(s, operand);
    case ir::ScatterMode::max:
    case ir::ScatterMode::min: return of_scatter_extreme(s, operand);
  }
  return c.g;
}

/// The row of the base that each row of an update goes to; what is past the end is n or more.
Tensor rows_written(const Call& c) {
  const auto& update = c.attributes<ir::UpdatePayload>();
  const auto axis = static_cast<std::size_t>(update.axis);
  const Tensor& starts = c.x(1);
  const DType dtype = starts.dtype();
  const Dim &size = c.x(0).shape()[axis], &count = c.x(2).shape()[axis];
  const Tensor last = last_of(size, dtype);
  const Tensor most = update.circular ? last : last + integer(dtype, 1);
  Shape beside(c.x(0).shape().size(), Dim(1)), ramp = beside;
  std::copy(starts.shape().begin(), starts.shape().end(), beside.begin());
  if (update.has_position_of_each_row(starts.shape())) {
    const Tensor is_left_out = lt(starts, integer(dtype, 0));
    return select(is_left_out, last + integer(dtype, 1), starts).reshape(beside);
  }
  ramp[axis] = count;
  const Tensor start = min(max(starts, integer(dtype, 0)), most).reshape(beside);
  const Tensor rows = start + Tensor::iota(dtype, ramp, update.axis);
  return update.circular ? select(gt(rows, last), rows - last - integer(dtype, 1), rows) : rows;
}

/// update_rows: base, starts, rows. What was replaced has no part in the result.
Tensor of_update_rows(const Call& c, std::size_t operand) {
  const auto& update = c.attributes<ir::UpdatePayload>();
  if (operand == 0) return c.g.update_rows(c.x(1), zeros(c.g.dtype(), c.x(2).shape()), update.axis, update.circular);
  const Tensor at = rows_written(c);
  const Tensor read = c.g.take_along(at, update.axis);
  return select(le(at, last_of(c.x(0).shape()[static_cast<std::size_t>(update.axis)], at.dtype())), read, c.number(0));
}

// A row is a paragraph.
// clang-format off
constexpr GradientRow kPositions[] = {
    {.op = "gather", .rule = of_gather, .doc = "the sum of g over the positions of each element, by a scatter"},
    {.op = "take_along", .rule = of_take_along, .doc = "the same along the axis; of a sorted order g at the ranks"},
    {.op = "scatter", .rule = of_scatter,
     .doc = "add: g; g at the positions. set: g where nothing is written; g to the last update of a row. mul: g times "
            "the other factors. max, min: g in equal parts to those that are the extreme"},
    {.op = "update_rows", .rule = of_update_rows, .doc = "g with 0 under the rows; the rows of g that are written"},
};
// clang-format on

}  // namespace

std::span<const GradientRow> position_rows() { return kPositions; }

}  // namespace vkfuse::autodiff
