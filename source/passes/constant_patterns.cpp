#include "passes/constant_patterns.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace vkfuse::passes {

namespace {

using index::Expr;

/// Numbers beyond are no positions, and sums of these stay far from overflow.
constexpr std::int64_t kFarthest = std::int64_t{1} << 40;

/// The elements of a constant of more than one, in row-major order.
struct Elements {
  DType dtype = DType::f32;
  Sizes sizes;
  std::int64_t count = 1;
  std::size_t bytes = 1;  ///< of an element
  const std::byte* data = nullptr;

  [[nodiscard]] const std::byte* at(std::int64_t i) const { return data + static_cast<std::size_t>(i) * bytes; }
  [[nodiscard]] std::int64_t number(std::int64_t i) const { return ir::decode_int(dtype, at(i)); }
  [[nodiscard]] bool equal(std::int64_t i, std::int64_t k) const { return std::memcmp(at(i), at(k), bytes) == 0; }
};

std::optional<Elements> elements_of(const ir::Node& node) {
  const auto* constant = std::get_if<ir::ConstantPayload>(&node.payload);
  if (constant == nullptr) return std::nullopt;
  Elements all{.dtype = node.type.dtype, .bytes = static_cast<std::size_t>(size_of(node.type.dtype))};
  for (const Dim& dim : node.type.shape) {
    all.sizes.push_back(dim.size());
    all.count *= dim.size();  // as many as there are bytes for
  }
  all.data = constant->bytes->data();
  return all.count > 1 ? std::optional(std::move(all)) : std::nullopt;
}

bool is_near(std::int64_t number) { return number >= -kFarthest && number <= kFarthest; }

/// A sum of stairs, one along each axis: so many positions have a number, then so many the next one.
struct Stairs {
  std::int64_t first = 0;
  Sizes widths, heights;

  [[nodiscard]] std::int64_t at(const Sizes& coordinates) const {
    std::int64_t number = first;
    for (std::size_t i = 0; i < widths.size(); ++i) number += heights[i] * (coordinates[i] / widths[i]);
    return number;
  }
  [[nodiscard]] Expr as_expr(const Sizes& sizes) const {
    Expr sum(first);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      sum = sum + index::floor_div(Expr::axis(static_cast<int>(i), sizes[i]), widths[i]) * heights[i];
    return sum;
  }
};

/// The stairs that the elements from the first one along each axis are the beginning of.
std::optional<Stairs> stairs_from(const Elements& all) {
  Stairs stairs{.first = all.number(0)};
  if (!is_near(stairs.first)) return std::nullopt;
  std::int64_t stride = all.count;
  for (const std::int64_t size : all.sizes) {
    stride /= size;
    std::int64_t width = 1;
    while (width < size && all.number(width * stride) == stairs.first) ++width;
    const std::int64_t next = width < size ? all.number(width * stride) : stairs.first;
    if (!is_near(next)) return std::nullopt;
    stairs.widths.push_back(width);
    stairs.heights.push_back(next - stairs.first);
  }
  return stairs;
}

void advance(Sizes& coordinates, const Sizes& sizes) {
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    if (++coordinates[axis] < sizes[axis]) return;
    coordinates[axis] = 0;
  }
}

bool are_all(const Elements& all, const Stairs& stairs) {
  Sizes at(all.sizes.size(), 0);
  for (std::int64_t i = 0; i < all.count; ++i) {
    if (!is_near(all.number(i)) || all.number(i) != stairs.at(at)) return false;
    advance(at, all.sizes);
  }
  return true;
}

/// Narrower ones are data more often than positions: bytes of weights and their zero points.
bool may_count(DType dtype) { return dtype == DType::boolean || dtype == DType::i32 || dtype == DType::i64; }

}  // namespace

std::optional<Expr> ramp_of(const ir::Node& constant) {
  const auto all = elements_of(constant);
  if (!all || !may_count(all->dtype)) return std::nullopt;
  const auto stairs = stairs_from(*all);
  if (!stairs) return std::nullopt;
  const Expr ramp = stairs->as_expr(all->sizes);
  if (all->dtype == DType::boolean && !ramp.is_constant()) return std::nullopt;
  return are_all(*all, *stairs) ? std::optional(ramp) : std::nullopt;
}

namespace {

/// The axes along which there is more than one position.
std::vector<int> long_axes_of(const Elements& all) {
  std::vector<int> axes;
  for (std::size_t i = 0; i < all.sizes.size(); ++i) {
    if (all.sizes[i] > 1) axes.push_back(static_cast<int>(i));
  }
  return axes;
}

/// Whether all elements are those that lie a period before.
bool repeats(const Elements& all, std::int64_t period) {
  for (std::int64_t i = period; i < all.count; ++i) {
    if (!all.equal(i, i - period)) return false;
  }
  return true;
}

}  // namespace

bool is_matrix_of_zeros(const ir::Node& constant) {
  const auto all = elements_of(constant);
  // A vector of zeros is a bias that was never trained: its layer is to be like the others.
  if (!all || !is_float(all->dtype) || long_axes_of(*all).size() < 2) return false;
  const double first = ir::decode(all->dtype, all->at(0));
  return first == 0 && !std::signbit(first) && repeats(*all, 1);
}

namespace {

/// Of each row, from which column to before which one it has the inner value.
struct Run {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] bool empty() const { return begin == end; }
};

/// The runs of one value, if no row has more than one.
std::optional<std::vector<Run>> runs_of(const Elements& all, std::int64_t rows, std::int64_t columns,
                                        std::int64_t value) {
  std::vector<Run> runs;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto is_inside = [&](std::int64_t column) { return all.equal(row * columns + column, value); };
    Run run;
    while (run.begin < columns && !is_inside(run.begin)) ++run.begin;
    run.end = run.begin;
    while (run.end < columns && is_inside(run.end)) ++run.end;
    for (std::int64_t column = run.end; column < columns; ++column) {
      if (is_inside(column)) return std::nullopt;
    }
    runs.push_back(run);
  }
  return runs;
}

/// The line through these points of rows, of which every two neighbours tell its slope; one point: a constant.
std::optional<Line> line_through(const std::vector<std::pair<std::int64_t, std::int64_t>>& points) {
  if (points.empty()) return std::nullopt;
  const auto& [row, column] = points.front();
  if (points.size() == 1) return Line{0, column};
  const std::int64_t apart = points[1].first - row;
  if ((points[1].second - column) % apart != 0) return std::nullopt;
  const std::int64_t slope = (points[1].second - column) / apart;
  return Line{slope, column - slope * row};
}

/// Lines at which the runs begin and end, where edges cut them off.
Band band_through(const std::vector<Run>& runs, std::int64_t columns) {
  std::vector<std::pair<std::int64_t, std::int64_t>> begins, ends;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    if (runs[row].empty()) continue;
    if (runs[row].begin > 0) begins.emplace_back(row, runs[row].begin);
    if (runs[row].end < columns) ends.emplace_back(row, runs[row].end);
  }
  return {.begin = line_through(begins), .end = line_through(ends)};
}

bool has_runs(const Band& band, const std::vector<Run>& runs, std::int64_t columns) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto at = [&](const Line& line) {
      return std::clamp<std::int64_t>(line.slope * static_cast<std::int64_t>(i) + line.constant, 0, columns);
    };
    const std::int64_t begin = band.begin ? at(*band.begin) : 0;
    const std::int64_t end = band.end ? at(*band.end) : columns;
    if (runs[i].empty() ? begin < end : begin != runs[i].begin || end != runs[i].end) return false;
  }
  return true;
}

/// One run alone of many rows does not tell how steep its edge is: as steep as the diagonal, mostly.
std::optional<Band> steeper(Band band, const std::vector<Run>& runs, std::int64_t columns) {
  if (has_runs(band, runs, columns)) return band;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    if (runs[row].empty()) continue;
    const auto at = static_cast<std::int64_t>(row);
    for (std::optional<Line>* line : {&band.begin, &band.end}) {
      if (*line && (*line)->slope == 0) *line = Line{1, (*line)->constant - at};
    }
    break;
  }
  return has_runs(band, runs, columns) ? std::optional(band) : std::nullopt;
}

/// A matrix, of which a constant may have several copies.
struct Matrix {
  int row = 0, column = 0;  ///< axes; the same one where there is one row
  std::int64_t rows = 1, columns = 1;
};

/// Of a few elements anything is a band, and a vector of numbers is none that masks queries and keys.
std::optional<Matrix> matrix_in(const Elements& all) {
  constexpr std::int64_t kFewest = 16;
  const std::vector<int> axes = long_axes_of(all);
  if (all.count < kFewest || (axes.size() < 2 && all.dtype != DType::boolean)) return std::nullopt;
  Matrix matrix{.row = axes.back(), .column = axes.back()};
  matrix.columns = all.sizes[static_cast<std::size_t>(matrix.column)];
  if (axes.size() < 2) return matrix;
  matrix.row = axes[axes.size() - 2];
  matrix.rows = all.sizes[static_cast<std::size_t>(matrix.row)];
  return matrix;
}

/// The first element that is another one than the first, if there are no more than these two. Weights show a third
/// value among the first few.
std::optional<std::int64_t> other_of_two(const Elements& all) {
  std::int64_t other = 1;
  while (other < all.count && all.equal(other, 0)) ++other;
  if (other == all.count) return std::nullopt;
  for (std::int64_t i = other; i < all.count; ++i) {
    if (!all.equal(i, 0) && !all.equal(i, other)) return std::nullopt;
  }
  return other;
}

/// Where the elements are those of one position.
std::optional<Band> band_with(const Elements& all, const Matrix& matrix, std::int64_t inside) {
  const auto runs = runs_of(all, matrix.rows, matrix.columns, inside);
  if (!runs) return std::nullopt;
  auto band = steeper(band_through(*runs, matrix.columns), *runs, matrix.columns);
  if (!band) return std::nullopt;
  band->row = matrix.row;
  band->column = matrix.column;
  return band;
}

}  // namespace

std::optional<Band> band_of(const ir::Node& constant) {
  const auto all = elements_of(constant);
  const auto matrix = all ? matrix_in(*all) : std::nullopt;
  const auto other = matrix ? other_of_two(*all) : std::nullopt;
  if (!other || !repeats(*all, matrix->rows * matrix->columns)) return std::nullopt;
  for (const auto& [inside, outside] : {std::pair(*other, std::int64_t{0}), std::pair(std::int64_t{0}, *other)}) {
    auto band = band_with(*all, *matrix, inside);
    if (!band) continue;
    band->inside = static_cast<std::size_t>(inside);
    band->outside = static_cast<std::size_t>(outside);
    return band;
  }
  return std::nullopt;
}

}  // namespace vkfuse::passes
