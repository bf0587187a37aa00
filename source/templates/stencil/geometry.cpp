#include "templates/stencil/geometry.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace vkfuse::schedule {

using index::Expr;
using segment::Loops;
using segment::Value;

BlockAxis block_axis(std::int64_t size, std::int64_t extent) {
  if (size % extent == 0) return {size / extent, size / extent, extent, 1};
  const std::int64_t step = std::gcd(extent, size - extent);
  return {ceil_div(size, extent), (size - extent) / step + 1, step, extent / step};
}

int window_along(const StencilParams& params, int axis) {
  for (std::size_t w = 0; w < params.windows.size(); ++w) {
    if (params.windows[w].position == axis) return static_cast<int>(w);
  }
  return -1;
}

std::int64_t block_volume(const StencilParams& params) {
  return std::accumulate(params.extents.begin(), params.extents.end(), std::int64_t{1}, std::multiplies<>());
}

/// An expression of positions and taps as one of window axes.
Expr StencilBlocks::of_windows(const Loops& loops, const Expr& expr) const {
  std::map<index::AxisId, Expr> none;
  Expr along;
  for (std::size_t w = 0; w < params_.windows.size(); ++w) {
    const WindowAxis& window = params_.windows[w];
    const std::int64_t stride = index::stride_of(expr, window.tap).value_or(0) / window.dilation;
    if (stride == 0) continue;
    none.emplace(window.tap, Expr(0));
    none.emplace(window.position, Expr(0));
    const std::int64_t positions = size_of_axis(loops, window.position);
    const std::int64_t size = window.step * (positions - 1) + window.dilation * (taps_[w] - 1) + 1;
    along = along + Expr::axis(kWindowAxis + static_cast<int>(w), size) * stride;
  }
  return index::substitute(expr, none) + along;
}

StencilBlocks::StencilBlocks(const Loops& loops, const StencilParams& params)
    : params_(params), loop_axes_(loops.axes.size()), loops_(loops) {
  for (const WindowAxis& window : params.windows) taps_.push_back(size_of_axis(loops, window.tap));
  std::map<index::AxisId, Expr> axes;
  for (std::size_t i = 0; i < loop_axes_; ++i) {
    const int axis = static_cast<int>(i);
    axes_.push_back(block_axis(loops.axes[i].size, extent(axis)));
    if (extent(axis) == 1) continue;
    loops_.axes[i].size = axes_.back().starts;
    axes.emplace(axis, start(axis) + Expr::axis(local_axis(axis), extent(axis)));
    loops_.axes.push_back({extent(axis), segment::Role::parallel});
  }
  const auto with_locals = [&](segment::AxisSet set) {
    for (const auto& entry : axes) {
      if (((set >> entry.first) & 1u) != 0) set |= segment::AxisSet{1} << local_axis(entry.first);
    }
    return set;
  };
  for (std::size_t i = 0; i < loops_.values.size(); ++i) {
    Value& value = loops_.values[i];
    const bool of_window = params.roles[i] == StencilRole::window;
    const auto changed = [&](const Expr& expr) {
      return index::substitute(of_window ? of_windows(loops, expr) : expr, axes);
    };
    value.offset = changed(value.offset);
    for (segment::Predicate& predicate : value.predicates) {
      for (segment::Predicate::Range& range : predicate.ranges) range.value = changed(range.value);
    }
    value.axes = with_locals(value.axes);
  }
  for (segment::Store& store : loops_.stores) {
    store.offset = index::substitute(store.offset, axes);
    store.axes = with_locals(store.axes);
  }
}

std::int64_t StencilBlocks::count() const {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < loop_axes_; ++i) {
    if (loops_.axes[i].role == segment::Role::parallel) count *= axes_[i].blocks;
  }
  return count;
}

Expr StencilBlocks::start(int axis) const {
  const BlockAxis& block = axes_[static_cast<std::size_t>(axis)];
  return Expr::axis(axis, block.starts) * block.step;
}

int StencilBlocks::local_axis(int axis) const {
  if (extent(axis) == 1) return -1;
  const auto before = std::count_if(params_.extents.begin(), params_.extents.begin() + axis,
                                    [](std::int64_t extent) { return extent > 1; });
  return static_cast<int>(loop_axes_) + static_cast<int>(before);
}

std::int64_t StencilBlocks::taps(std::size_t window) const { return taps_[window]; }

std::int64_t StencilBlocks::window_extent(std::size_t window) const {
  const WindowAxis& one = params_.windows[window];
  return one.step * (extent(one.position) - 1) + one.dilation * (taps_[window] - 1) + 1;
}

std::vector<int> StencilBlocks::axes_in_memory() const {
  std::vector<int> axes;
  for (std::size_t i = 0; i < loop_axes_; ++i) {
    if (loops_.axes[i].role == segment::Role::parallel) axes.push_back(static_cast<int>(i));
  }
  // Of a block that is cut, an axis counts steps.
  const auto stride = [&](int axis) {
    return std::abs(index::stride_of(loops_.stores.front().offset, axis).value_or(0)) /
           axes_[static_cast<std::size_t>(axis)].step;
  };
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return stride(a) > stride(b); });
  return axes;
}

Expr StencilBlocks::row_start(const Expr& offset) const {
  const WindowAxis& row = params_.windows.back();
  const auto last = static_cast<int>(params_.windows.size()) - 1;
  return index::substitute(offset, {{kWindowAxis + last, start(row.position) * row.step}});
}

std::optional<RowVectors> StencilBlocks::row_vectors(const Value& load, int elements) const {
  const index::Congruence congruence = index::congruence_of(row_start(load.offset));
  if (congruence.modulus % elements != 0) return std::nullopt;
  return RowVectors{elements, static_cast<int>((congruence.remainder % elements + elements) % elements)};
}

}  // namespace vkfuse::schedule
