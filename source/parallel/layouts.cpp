#include "parallel/layouts.hpp"

#include <algorithm>

namespace vkfuse::parallel {

int axis_over(const Layout& layout, int mesh_axis) {
  const auto found = std::find(layout.begin(), layout.end(), mesh_axis);
  return found == layout.end() ? -1 : static_cast<int>(found - layout.begin());
}

Shape local_shape(const Shape& shape, const Layout& layout, const std::vector<int>& mesh) {
  Shape local = shape;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (layout[i] >= 0) local[i] = Dim(shape[i].size() / mesh[static_cast<std::size_t>(layout[i])]);
  }
  return local;
}

bool divides(const Shape& shape, const Layout& layout, const std::vector<int>& mesh) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (layout[i] < 0) continue;
    if (shape[i].is_symbol() || shape[i].size() % mesh[static_cast<std::size_t>(layout[i])] != 0) return false;
  }
  return true;
}

std::vector<Reshard> steps_between(const Layout& from, const Layout& to, std::size_t mesh_axes) {
  std::vector<Reshard> steps;
  Layout now = from;
  const auto free = [&](int axis) { return now[static_cast<std::size_t>(axis)] == -1; };
  /// The first step of a kind that is possible now.
  const auto step_of = [&](Reshard::Kind kind) -> bool {
    for (int m = 0; m < static_cast<int>(mesh_axes); ++m) {
      const int has = axis_over(now, m), wanted = axis_over(to, m);
      if (has == wanted) continue;
      const bool fits = kind == Reshard::Kind::all_gather ? has >= 0
                        : kind == Reshard::Kind::slice    ? has < 0 && free(wanted)
                                                          : has >= 0 && wanted >= 0 && free(wanted);
      if (!fits) continue;
      const bool gathers = kind == Reshard::Kind::all_gather;
      steps.push_back({kind, m, has, gathers ? -1 : wanted});
      if (has >= 0) now[static_cast<std::size_t>(has)] = -1;
      if (!gathers) now[static_cast<std::size_t>(wanted)] = m;
      return true;
    }
    return false;
  };
  // Every round brings one axis of the mesh to where it belongs, or frees the axis that another one waits for.
  while (now != to) {
    if (step_of(Reshard::Kind::slice) || step_of(Reshard::Kind::all_to_all)) continue;
    step_of(Reshard::Kind::all_gather);
  }
  return steps;
}

double cost_between(const Layout& from, const Layout& to, double bytes, const std::vector<int>& mesh) {
  double local = bytes, sent = 0;
  for (const int axis : from) {
    if (axis >= 0) local /= mesh[static_cast<std::size_t>(axis)];
  }
  for (const Reshard& step : steps_between(from, to, mesh.size())) {
    const double ranks = mesh[static_cast<std::size_t>(step.mesh_axis)];
    switch (step.kind) {
      case Reshard::Kind::slice: local /= ranks; break;
      case Reshard::Kind::all_to_all: sent += local * (ranks - 1) / ranks; break;
      case Reshard::Kind::all_gather:
        sent += local * (ranks - 1);
        local *= ranks;
        break;
    }
  }
  return sent;
}

double cost_of_sum(double local_bytes, int ranks) { return 2 * local_bytes * (ranks - 1) / ranks; }

Layout merged(const Layout& first, const Layout& second) {
  Layout both = first;
  for (std::size_t i = 0; i < both.size(); ++i) {
    if (both[i] < 0 && second[i] >= 0 && axis_over(both, second[i]) < 0) both[i] = second[i];
  }
  return both;
}

namespace {

/// Axes of one shape whose elements are those of some axes of the other.
struct AxisRange {
  std::size_t begin = 0, end = 0;
};

bool has_symbols(const Shape& shape, AxisRange range) {
  return std::any_of(shape.begin() + static_cast<std::ptrdiff_t>(range.begin),
                     shape.begin() + static_cast<std::ptrdiff_t>(range.end),
                     [](const Dim& dim) { return dim.is_symbol() || dim == Dim(0); });
}

/// Goes along both shapes of a reshape.
class ReshapeWalk {
 public:
  ReshapeWalk(const Shape& from, const Shape& to, const Layout& layout, const std::vector<int>& mesh)
      : from_(from), to_(to), layout_(layout), mesh_(mesh), made_{whole_layout(from.size()), whole_layout(to.size())} {}

  ReshapeLayouts run() {
    AxisRange a{0, from_.size()}, b{0, to_.size()};
    while (a.begin < a.end && b.begin < b.end && from_[a.begin] == to_[b.begin]) keep(a.begin++, b.begin++);
    while (a.begin < a.end && b.begin < b.end && from_[a.end - 1] == to_[b.end - 1]) keep(--a.end, --b.end);
    middle(a, b);
    return std::move(made_);
  }

 private:
  void keep(std::size_t x, std::size_t y) { made_.operand[x] = made_.result[y] = layout_[x]; }

  /// The first axis of a range that has more than one element, or the end.
  static std::size_t outermost(const Shape& shape, AxisRange range) {
    while (range.begin < range.end && shape[range.begin] == Dim(1)) ++range.begin;
    return range.begin;
  }

  /// Two ranges of axes that hold the same elements.
  void group(AxisRange a, AxisRange b) {
    const std::size_t x = outermost(from_, a), y = outermost(to_, b);
    if (x == a.end || y == b.end || layout_[x] < 0) return;
    const int ranks = mesh_[static_cast<std::size_t>(layout_[x])];
    if (!to_[y].is_symbol() && to_[y].size() % ranks == 0) keep(x, y);
  }

  /// Without symbols: each group ends where both ranges have counted the same number of elements.
  void middle(AxisRange a, AxisRange b) {
    if (has_symbols(from_, a) || has_symbols(to_, b)) return;
    AxisRange x{a.begin, a.begin}, y{b.begin, b.begin};
    std::int64_t in_x = 1, in_y = 1;
    while (x.end < a.end || y.end < b.end) {
      if (x.end < a.end && (in_x <= in_y || y.end == b.end)) {
        in_x *= from_[x.end++].size();
      } else {
        in_y *= to_[y.end++].size();
      }
      if (in_x != in_y || in_x == 1) continue;
      group(x, y);
      x.begin = x.end;
      y.begin = y.end;
      in_x = in_y = 1;
    }
  }

  const Shape& from_;
  const Shape& to_;
  const Layout& layout_;
  const std::vector<int>& mesh_;
  ReshapeLayouts made_;
};

}  // namespace

ReshapeLayouts through_reshape(const Shape& from, const Shape& to, const Layout& layout, const std::vector<int>& mesh) {
  return ReshapeWalk(from, to, layout, mesh).run();
}

}  // namespace vkfuse::parallel
