#include "segment/views.hpp"

#include <algorithm>

#include "base/mutations.hpp"

namespace vkfuse::segment {

namespace {

using index::Expr;
using PositionSpan = std::span<const Expr>;

/// Dimensions of both shapes are taken together up to where their products meet, so that what a reshape
/// leaves alone stays alone.
std::vector<Expr> reshaped(PositionSpan coordinates, const Sizes& from, const Sizes& to) {
  std::vector<Expr> result;
  std::size_t i = 0;
  std::size_t k = 0;
  while (i < from.size() || k < to.size()) {
    const std::size_t first_i = i;
    const std::size_t first_k = k;
    std::int64_t a = i < from.size() ? from[i++] : 1;
    std::int64_t b = k < to.size() ? to[k++] : 1;
    while (a != b && (a < b ? i < from.size() : k < to.size())) {
      if (a < b) {
        a *= from[i++];
      } else {
        b *= to[k++];
      }
    }
    const std::span<const std::int64_t> own(from.data() + first_i, i - first_i);
    const std::span<const std::int64_t> requested(to.data() + first_k, k - first_k);
    const Expr flat = index::linearize(coordinates.subspan(first_i, i - first_i), own);
    for (Expr& coordinate : index::delinearize(flat, requested)) result.push_back(std::move(coordinate));
  }
  return result;
}

OperandPosition sliced(const ir::SlicePayload& slice, PositionSpan coordinates) {
  OperandPosition place;
  for (std::size_t i = 0; i < coordinates.size(); ++i)
    place.coordinates.push_back(coordinates[i] * VKF_PLANT(slice_step, slice.steps[i], slice.steps[i] > 0 ? 1 : -1) +
                                Expr(slice.starts[i]));
  return place;
}

/// The other way round: which element of the update covers an element of the base, if any.
OperandPosition covered(const ir::SlicePayload& slice, PositionSpan coordinates, const Sizes& update) {
  OperandPosition place;
  Predicate predicate;
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    const std::int64_t step = slice.steps[i];
    const Expr offset = step > 0 ? coordinates[i] - Expr(slice.starts[i]) : Expr(slice.starts[i]) - coordinates[i];
    const std::int64_t stride = step > 0 ? step : -step;
    if (VKF_PLANT(assignment_without_steps, stride > 1, false))
      predicate.ranges.push_back({index::floor_mod(offset, stride), 1});
    place.coordinates.push_back(stride > 1 ? index::floor_div(offset, stride) : offset);
    predicate.ranges.push_back({place.coordinates.back(), update[i]});
  }
  place.predicate = std::move(predicate);
  return place;
}

OperandPosition padded(const ir::PadPayload& pad, PositionSpan coordinates, const Sizes& operand) {
  OperandPosition place;
  Predicate predicate;
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    place.coordinates.push_back(coordinates[i] - Expr(VKF_PLANT(pad_before, pad.low[i], pad.high[i])));
    if (pad.low[i] != 0 || pad.high[i] != 0) predicate.ranges.push_back({place.coordinates.back(), operand[i]});
  }
  place.predicate = std::move(predicate);
  return place;
}

OperandPosition windowed(const ir::WindowPayload& window, PositionSpan coordinates) {
  const std::size_t rank = coordinates.size() - window.axes.size();
  OperandPosition place;
  place.coordinates.assign(coordinates.begin(), coordinates.begin() + static_cast<std::ptrdiff_t>(rank));
  for (std::size_t i = 0; i < window.axes.size(); ++i) {
    Expr& coordinate = place.coordinates[static_cast<std::size_t>(window.axes[i])];
    coordinate = coordinate * VKF_PLANT(window_stride, window.strides[i], 1) +
                 coordinates[rank + i] * VKF_PLANT(window_dilation, window.dilations[i], 1);
  }
  return place;
}

}  // namespace

std::vector<Expr> broadcast_coordinates(PositionSpan coordinates, const Sizes& operand) {
  std::vector<Expr> result;
  const std::size_t skip = coordinates.size() - operand.size();
  for (std::size_t i = 0; i < operand.size(); ++i) result.push_back(operand[i] == 1 ? Expr(0) : coordinates[skip + i]);
  return result;
}

OperandPosition position_in_operand(const ir::Node& view, PositionSpan coordinates, const ViewOperand& operand) {
  const Sizes& operand_sizes = operand.sizes;
  if (const auto* axes = std::get_if<ir::AxesPayload>(&view.payload)) {
    OperandPosition place;
    if (view.op->role == ops::Role::permute) {
      place.coordinates.resize(coordinates.size());
      for (std::size_t i = 0; i < axes->axes.size(); ++i)
        place.coordinates[VKF_PLANT(permute_inverse, static_cast<std::size_t>(axes->axes[i]), i)] =
            coordinates[VKF_PLANT(permute_inverse, i, static_cast<std::size_t>(axes->axes[i]))];
      return place;
    }
    place.coordinates.assign(coordinates.begin(), coordinates.end());
    for (int axis : axes->axes) {
      const auto i = static_cast<std::size_t>(axis);
      place.coordinates[i] = Expr(operand_sizes[i] - VKF_PLANT(reverse_by_one, 1, 2)) - place.coordinates[i];
    }
    return place;
  }
  if (const auto* slice = std::get_if<ir::SlicePayload>(&view.payload)) {
    if (view.op->role == ops::Role::slice) return sliced(*slice, coordinates);
    if (operand.number == 1) return covered(*slice, coordinates, operand_sizes);
    return {{coordinates.begin(), coordinates.end()}, std::nullopt};
  }
  if (const auto* pad = std::get_if<ir::PadPayload>(&view.payload)) return padded(*pad, coordinates, operand_sizes);
  if (const auto* window = std::get_if<ir::WindowPayload>(&view.payload)) return windowed(*window, coordinates);
  if (const auto* axis = std::get_if<ir::AxisPayload>(&view.payload)) {  // concat
    const std::int64_t begin = operand.begin;
    OperandPosition place{{coordinates.begin(), coordinates.end()}, Predicate{}};
    const auto i = static_cast<std::size_t>(axis->axis);
    place.coordinates[i] = place.coordinates[i] - Expr(VKF_PLANT(concat_begin, begin, begin == 0 ? 0 : begin - 1));
    place.predicate->ranges.push_back({place.coordinates[i], operand_sizes[i]});
    return place;
  }
  if (view.op->role == ops::Role::broadcast) return {broadcast_coordinates(coordinates, operand_sizes), std::nullopt};
  return {reshaped(coordinates, operand.result, operand_sizes), std::nullopt};
}

GatherPosition position_in_gather(const ir::Node& gather, PositionSpan coordinates, const Sizes& data_sizes,
                                  const Sizes& index_sizes) {
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(gather.payload).axis);
  if (gather.op->role != ops::Role::gather) {  // an index for each element
    GatherPosition place{broadcast_coordinates(coordinates, index_sizes),
                         broadcast_coordinates(coordinates, data_sizes)};
    place.in_data[axis] = Expr(0);
    return place;
  }
  const PositionSpan inserted = coordinates.subspan(axis, index_sizes.size());
  const PositionSpan after = coordinates.subspan(axis + inserted.size());
  GatherPosition place{broadcast_coordinates(inserted, index_sizes), {coordinates.begin(), inserted.begin()}};
  place.in_data.emplace_back(0);
  place.in_data.insert(place.in_data.end(), after.begin(), after.end());
  for (std::size_t i = 0; i < place.in_data.size(); ++i) {
    if (data_sizes[i] == 1) place.in_data[i] = Expr(0);
  }
  return place;
}

std::vector<Expr> position_in_reduced(std::span<const int> axes, std::size_t rank, PositionSpan rows,
                                      PositionSpan along) {
  std::vector<Expr> all;
  std::size_t row = 0;
  std::size_t reduced = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    const bool is_reduced = std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end();
    all.push_back(is_reduced ? along[reduced++] : rows[row++]);
  }
  return all;
}

std::vector<Expr> position_in_matmul_operand(const ir::DotPayload& dot, bool second, std::size_t rank,
                                             PositionSpan coordinates, PositionSpan along) {
  const std::vector<int>& batch = second ? dot.batch_b : dot.batch_a;
  const std::vector<int>& contract = second ? dot.contract_b : dot.contract_a;
  std::vector<Expr> place(rank, Expr(0));
  for (std::size_t i = 0; i < batch.size(); ++i) place[static_cast<std::size_t>(batch[i])] = coordinates[i];
  for (std::size_t i = 0; i < contract.size(); ++i) place[static_cast<std::size_t>(contract[i])] = along[i];
  const std::vector<int> own = ir::free_axes(batch, contract, rank);
  const std::size_t first = second ? coordinates.size() - own.size() : batch.size();
  for (std::size_t i = 0; i < own.size(); ++i) place[static_cast<std::size_t>(own[i])] = coordinates[first + i];
  return place;
}

}  // namespace vkfuse::segment
