#include "segment/walk_axes.hpp"

#include <algorithm>

namespace vkfuse::segment {

using index::AxisId;
using index::Expr;

WalkAxes::WalkAxes(const Base& value, std::span<const SplitRequest> splits) {
  std::vector<Sizes> pieces;
  for (std::int64_t size : value.sizes) pieces.push_back({std::max<std::int64_t>(size, 1)});
  for (const SplitRequest& split : splits) {
    Sizes& own_pieces = pieces[static_cast<std::size_t>(split.dim)];
    const auto at = own_pieces.begin() + split.piece;
    *at /= split.factor;
    own_pieces.insert(at + 1, split.factor);
  }
  for (std::size_t dim = 0; dim < pieces.size(); ++dim) {
    Coordinates digits;
    for (std::size_t piece = 0; piece < pieces[dim].size(); ++piece) {
      const std::int64_t size = pieces[dim][piece];
      if (size == 1) {
        digits.emplace_back(0);
        continue;
      }
      const auto id = static_cast<AxisId>(base.size());
      base.push_back({id, size, static_cast<int>(dim), static_cast<int>(piece)});
      digits.push_back(Expr::axis(id, size));
    }
    base_coordinates.push_back(index::linearize(digits, pieces[dim]));
  }
}

bool WalkAxes::uses_reduction(const Expr& position) const {
  const std::vector<AxisId> used = index::axes_of(position);
  return std::any_of(used.begin(), used.end(), [&](AxisId axis) { return is_reduction(axis); });
}

std::int64_t WalkAxes::count() const {
  std::int64_t positions = 1;
  for (const WalkAxis& axis : base) positions *= axis.size;
  return positions;
}

std::int64_t WalkAxes::reduction_count() const {
  std::int64_t positions = 1;
  for (const WalkAxis& axis : base) positions *= is_reduction(axis.id) ? axis.size : 1;
  return positions;
}

std::size_t WalkAxes::reduction_rank() const {
  return static_cast<std::size_t>(
      std::count_if(base.begin(), base.end(), [&](const WalkAxis& axis) { return is_reduction(axis.id); }));
}

Expr WalkAxes::reduction_position() const {
  Coordinates coordinates;
  Sizes sizes;
  for (const WalkAxis& axis : base) {
    if (!is_reduction(axis.id)) continue;
    coordinates.push_back(Expr::axis(axis.id, axis.size));
    sizes.push_back(axis.size);
  }
  return index::linearize(coordinates, sizes);
}

std::optional<SplitRequest> WalkAxes::split_for(const Expr& position) const {
  const auto split = index::useful_split(position);
  if (!split) return std::nullopt;
  const auto axis =
      std::find_if(base.begin(), base.end(), [&](const WalkAxis& candidate) { return candidate.id == split->axis; });
  if (axis == base.end()) return std::nullopt;
  return SplitRequest{axis->dim, axis->piece, split->factor};
}

Coordinates WalkAxes::add_inner(const Sizes& sizes, bool first) {
  own_role = Role::inner;
  Coordinates along(sizes.size(), Expr(0));
  const int group = own_groups++;
  std::vector<WalkAxis> made;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    made.push_back({static_cast<AxisId>(base.size() + own.size() + made.size()), sizes[i], -1, 0, group});
    along[i] = Expr::axis(made.back().id, sizes[i]);
  }
  own.insert(first ? own.begin() : own.end(), made.begin(), made.end());
  return along;
}

}  // namespace vkfuse::segment
