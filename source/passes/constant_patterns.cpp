#include "passes/constant_patterns.hpp"

#include <algorithm>
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

/// Elements from one position of each axis to the next.
Sizes strides_of(const Sizes& sizes) {
  Sizes strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

}  // namespace

std::optional<Expr> ramp_of(const ir::Node& constant) {
  const auto all = elements_of(constant);
  // Narrower ones are data more often than positions: bytes of weights and their zero points.
  if (!all || (all->dtype != DType::boolean && all->dtype != DType::i32 && all->dtype != DType::i64))
    return std::nullopt;
  const auto number = [&](std::int64_t i) { return ir::decode_int(all->dtype, all->at(i)); };
  const std::int64_t first = number(0);
  if (std::abs(first) > kFarthest) return std::nullopt;
  const Sizes strides = strides_of(all->sizes);
  Sizes steps(all->sizes.size(), 0), runs(all->sizes.size(), 1);
  Expr ramp(first);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // Blocks of positions have the same number.
    while (runs[i] < all->sizes[i] && number(runs[i] * strides[i]) == first) ++runs[i];
    if (runs[i] == all->sizes[i]) continue;
    const std::int64_t next = number(runs[i] * strides[i]);
    if (std::abs(next) > kFarthest) return std::nullopt;
    steps[i] = next - first;
    ramp = ramp + index::floor_div(Expr::axis(static_cast<int>(i), all->sizes[i]), runs[i]) * steps[i];
  }
  if (all->dtype == DType::boolean && !ramp.is_constant()) return std::nullopt;
  Sizes at(all->sizes.size(), 0);
  for (std::int64_t i = 0; i < all->count; ++i) {
    std::int64_t expected = first;
    for (std::size_t axis = 0; axis < at.size(); ++axis) expected += steps[axis] * (at[axis] / runs[axis]);
    if (number(i) != expected) return std::nullopt;
    for (std::size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < all->sizes[axis]) break;
      at[axis] = 0;
    }
  }
  return ramp;
}

std::optional<double> number_of_matrix(const ir::Node& constant) {
  const auto all = elements_of(constant);
  if (!all || !is_float(all->dtype)) return std::nullopt;
  // A vector of zeros is a bias that was never trained: its layer is to be like the others.
  if (std::count_if(all->sizes.begin(), all->sizes.end(), [](std::int64_t size) { return size > 1; }) < 2)
    return std::nullopt;
  for (std::int64_t i = 1; i < all->count; ++i) {
    if (!all->equal(i, 0)) return std::nullopt;
  }
  return ir::decode(all->dtype, all->at(0));
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

}  // namespace

std::optional<Band> band_of(const ir::Node& constant) {
  const auto all = elements_of(constant);
  if (!all) return std::nullopt;
  std::vector<int> axes;
  for (std::size_t i = 0; i < all->sizes.size(); ++i) {
    if (all->sizes[i] > 1) axes.push_back(static_cast<int>(i));
  }
  // Of a few elements anything is a band, and a vector of numbers is none that masks queries and keys.
  constexpr std::int64_t kFewest = 16;
  if (all->count < kFewest || (axes.size() < 2 && all->dtype != DType::boolean)) return std::nullopt;
  // Weights show a third value among the first few.
  std::int64_t other = 1;
  while (other < all->count && all->equal(other, 0)) ++other;
  if (other == all->count) return std::nullopt;
  for (std::int64_t i = other; i < all->count; ++i) {
    if (!all->equal(i, 0) && !all->equal(i, other)) return std::nullopt;
  }
  const int column = axes.back();
  const int row = axes.size() < 2 ? column : axes[axes.size() - 2];
  const std::int64_t columns = all->sizes[static_cast<std::size_t>(column)];
  const std::int64_t rows = row == column ? 1 : all->sizes[static_cast<std::size_t>(row)];
  for (std::int64_t i = rows * columns; i < all->count; ++i) {
    if (!all->equal(i, i - rows * columns)) return std::nullopt;
  }
  if (other >= rows * columns) return std::nullopt;
  for (const std::int64_t inside : {other, std::int64_t{0}}) {
    const auto runs = runs_of(*all, rows, columns, inside);
    if (!runs) continue;
    auto band = steeper(band_through(*runs, columns), *runs, columns);
    if (!band) continue;
    band->row = row;
    band->column = column;
    band->inside = static_cast<std::size_t>(inside);
    band->outside = static_cast<std::size_t>(inside == 0 ? other : 0);
    return band;
  }
  return std::nullopt;
}

}  // namespace vkfuse::passes
