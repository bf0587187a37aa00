// Every element of a sum of products: tiles of the result on all cores, packed operands, and a careful sum only where
// numbers ask for it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/dot.hpp"
#include "reference/reduction.hpp"

namespace vkfuse::reference {

namespace {

constexpr std::int64_t kPanel = 4;        // lines that are packed side by side
constexpr std::int64_t kTileLines = 128;  // of each operand in a tile
constexpr std::int64_t kTileSteps = 256;  // along the sum, that are packed at a time

/// Lines of an operand in panels of kPanel: of each step along the sum, the numbers of all lines of a panel.
struct Packed {
  std::vector<double> value, first, second;  ///< the element, and what it has to do with bounds
  std::vector<std::uint64_t> integer;
  std::vector<bool> has_second;  ///< by panel: some number of `second` is not zero
};

/// One operand of a tile.
struct Side {
  ir::NodeId id = 0;
  DType dtype = DType::f32;
  bool has_coefficients = false;      ///< of bounds, see DotBounds
  std::vector<std::int64_t> begins;   ///< where lines begin
  std::vector<std::int64_t> offsets;  ///< of each step along the sum
  Packed packed;
  std::vector<bool> plain, decided;  ///< by line
  std::vector<double> largest;       ///< magnitude of each line
  Block block;                       ///< of one line
  std::vector<std::int64_t> indices;

  [[nodiscard]] std::int64_t lines() const { return static_cast<std::int64_t>(begins.size()); }
  [[nodiscard]] std::int64_t panels() const { return (lines() + kPanel - 1) / kPanel; }
  void read(const Reader& reader, std::int64_t line, std::int64_t begin, std::int64_t end);
  void pack(const Reader& reader, const DotBounds& bounds, std::int64_t begin, std::int64_t end);
  void pack_floats(const DotBounds& bounds, std::int64_t line);
};

void Side::read(const Reader& reader, std::int64_t line, std::int64_t begin, std::int64_t end) {
  indices.clear();
  for (std::int64_t k = begin; k < end; ++k)
    indices.push_back(begins[static_cast<std::size_t>(line)] + offsets[static_cast<std::size_t>(k)]);
  reader.read(id, indices, block);
}

void Side::pack(const Reader& reader, const DotBounds& bounds, std::int64_t begin, std::int64_t end) {
  const auto size = static_cast<std::size_t>(panels() * kPanel * (end - begin));
  if (is_float(dtype)) {
    packed.value.assign(size, 0);
    packed.first.assign(size, 0);
    packed.second.assign(size, 0);
  } else {
    packed.integer.assign(size, 0);
  }
  packed.has_second.assign(static_cast<std::size_t>(panels()), false);
  for (std::int64_t line = 0; line < lines(); ++line) {
    read(reader, line, begin, end);
    if (is_float(dtype)) {
      pack_floats(bounds, line);
      continue;
    }
    std::size_t at = static_cast<std::size_t>(line / kPanel * kPanel * (end - begin) + line % kPanel);
    for (std::size_t k = 0; k < block.integer.size(); ++k, at += kPanel) {
      packed.integer[at] = static_cast<std::uint64_t>(block.integer[k]);
      if (block.bound[k] != 0) decided[static_cast<std::size_t>(line)] = false;
    }
  }
}

void Side::pack_floats(const DotBounds& bounds, std::int64_t line) {
  const auto steps = static_cast<std::int64_t>(block.real.size());
  std::size_t at = static_cast<std::size_t>(line / kPanel * kPanel * steps + line % kPanel);
  bool is_decided = true, is_all_plain = true, any_second = false;
  double& largest_of_line = largest[static_cast<std::size_t>(line)];
  for (std::size_t k = 0; k < block.real.size(); ++k, at += kPanel) {
    const double value = block.real[k];
    double error = block.bound[k];
    if (error == std::numeric_limits<double>::infinity()) {
      is_decided = false;
      error = 0;
    }
    if (!is_plain(value)) {
      is_all_plain = false;  // its sums are made again
      continue;
    }
    const double magnitude = std::abs(value);
    largest_of_line = std::max(largest_of_line, magnitude);
    packed.value[at] = value;
    packed.first[at] = has_coefficients ? bounds.mine(magnitude, error) : magnitude;
    packed.second[at] = has_coefficients ? bounds.both(magnitude, error) : error;
    any_second = any_second || packed.second[at] != 0;
  }
  if (!is_decided) decided[static_cast<std::size_t>(line)] = false;
  if (!is_all_plain) plain[static_cast<std::size_t>(line)] = false;
  if (any_second) packed.has_second[static_cast<std::size_t>(line / kPanel)] = true;
}

/// Adds the products of a panel of each operand to kPanel * kPanel sums, step by step: the order in which one sum alone
/// is computed.
void add_products(const double* a, const double* b, std::int64_t steps, double* sums) {
  typedef double Pair __attribute__((vector_size(16)));
  const auto load = [](const double* at) { return Pair{at[0], at[1]}; };
  Pair s00 = load(sums), s01 = load(sums + 2), s10 = load(sums + 4), s11 = load(sums + 6);
  Pair s20 = load(sums + 8), s21 = load(sums + 10), s30 = load(sums + 12), s31 = load(sums + 14);
  for (std::int64_t k = 0; k < steps; ++k, a += kPanel, b += kPanel) {
    const Pair b0 = load(b), b1 = load(b + 2);
    const Pair a0 = {a[0], a[0]}, a1 = {a[1], a[1]}, a2 = {a[2], a[2]}, a3 = {a[3], a[3]};
    s00 += a0 * b0;
    s01 += a0 * b1;
    s10 += a1 * b0;
    s11 += a1 * b1;
    s20 += a2 * b0;
    s21 += a2 * b1;
    s30 += a3 * b0;
    s31 += a3 * b1;
  }
  const Pair all[] = {s00, s01, s10, s11, s20, s21, s30, s31};
  for (const Pair& pair : all) {
    *sums++ = pair[0];
    *sums++ = pair[1];
  }
}

void add_products(const std::uint64_t* a, const std::uint64_t* b, std::int64_t steps, std::uint64_t* sums) {
  for (std::int64_t k = 0; k < steps; ++k, a += kPanel, b += kPanel) {
    for (std::int64_t i = 0; i < kPanel; ++i) {
      for (std::int64_t j = 0; j < kPanel; ++j) sums[i * kPanel + j] += a[i] * b[j];
    }
  }
}

/// Some rows and columns of the result of one batch.
class Tile {
 public:
  Tile(const ir::Node& node, const Reader& reader, const DotBounds& bounds, Side a, Side b)
      : node_(node), reader_(reader), bounds_(bounds), a_(std::move(a)), b_(std::move(b)) {
    for (Side* side : {&a_, &b_}) {
      side->plain.assign(side->begins.size(), true);
      side->decided.assign(side->begins.size(), true);
      side->largest.assign(side->begins.size(), 0);
    }
    const auto size = static_cast<std::size_t>(a_.panels() * b_.panels() * kPanel * kPanel);
    if (is_float(node.type.dtype)) {
      sums_.assign(size, 0);
      first_.assign(size, 0);
      second_.assign(size, 0);
    } else {
      integers_.assign(size, 0);
    }
  }

  void add_up() {
    const auto length = static_cast<std::int64_t>(a_.offsets.size());
    for (std::int64_t begin = 0; begin < length; begin += kTileSteps) {
      const std::int64_t end = std::min(length, begin + kTileSteps);
      a_.pack(reader_, bounds_, begin, end);
      b_.pack(reader_, bounds_, begin, end);
      for (std::int64_t j = 0; j < b_.panels(); ++j) {
        for (std::int64_t i = 0; i < a_.panels(); ++i) add_panels(i, j, end - begin);
      }
    }
  }

  /// Of these lines of the operands.
  Element result(std::int64_t row, std::int64_t column) {
    const auto at = static_cast<std::size_t>(((row / kPanel) * b_.panels() + column / kPanel) * kPanel * kPanel +
                                             row % kPanel * kPanel + column % kPanel);
    const auto r = static_cast<std::size_t>(row), c = static_cast<std::size_t>(column);
    const bool decided = a_.decided[r] && b_.decided[c];
    const double undecided = std::numeric_limits<double>::infinity();
    if (!is_float(node_.type.dtype))
      return {0, ops::wrap(node_.type.dtype, static_cast<std::int64_t>(integers_[at])), decided ? 0 : undecided};
    std::optional<Element> result;
    if (a_.plain[r] && b_.plain[c])
      result = bounds_.result(sums_[at], first_[at] + second_[at], a_.largest[r] * b_.largest[c]);
    if (!result) return careful(row, column);
    if (!decided) result->bound = undecided;
    return *result;
  }

 private:
  void add_panels(std::int64_t i, std::int64_t j, std::int64_t steps) {
    const std::int64_t a = i * kPanel * steps, b = j * kPanel * steps, to = (i * b_.panels() + j) * kPanel * kPanel;
    if (!is_float(node_.type.dtype))
      return add_products(&a_.packed.integer[at(a)], &b_.packed.integer[at(b)], steps, &integers_[at(to)]);
    add_products(&a_.packed.value[at(a)], &b_.packed.value[at(b)], steps, &sums_[at(to)]);
    add_products(&a_.packed.first[at(a)], &b_.packed.first[at(b)], steps, &first_[at(to)]);
    if (!a_.packed.has_second[at(i)] || !b_.packed.has_second[at(j)]) return;
    add_products(&a_.packed.second[at(a)], &b_.packed.second[at(b)], steps, &second_[at(to)]);
  }
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  /// Element by element, of one row at a time.
  Element careful(std::int64_t row, std::int64_t column) {
    if (row != careful_row_) line_of(a_, row, row_);
    careful_row_ = row;
    line_of(b_, column, column_);
    return dot_of_lines(node_, a_.has_coefficients, row_, column_);
  }
  void line_of(Side& side, std::int64_t number, std::vector<Element>& line) {
    side.read(reader_, number, 0, static_cast<std::int64_t>(side.offsets.size()));
    line.clear();
    for (std::size_t k = 0; k < side.block.bound.size(); ++k)
      line.push_back({side.block.real[k], 0, side.block.bound[k]});
  }

  const ir::Node& node_;
  const Reader& reader_;
  const DotBounds& bounds_;
  Side a_, b_;
  std::vector<double> sums_, first_, second_;
  std::vector<std::uint64_t> integers_;
  std::int64_t careful_row_ = -1;
  std::vector<Element> row_, column_;
};

/// Begins of lines [from, to) in a batch.
std::vector<std::int64_t> begins_of(const Digits& lines, std::int64_t batch, std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> begins;
  affine_run(lines.sizes, {lines.strides, batch}, from, to, begins);
  return begins;
}

/// The results of a dot, [batches, rows, columns], in tiles of kTileLines * kTileLines.
struct Tiling {
  std::int64_t batches = 1, rows = 1, columns = 1;

  explicit Tiling(const DotShape& shape)
      : batches(shape.batch_a.count()), rows(shape.free_a.count()), columns(shape.free_b.count()) {}
  [[nodiscard]] std::int64_t down() const { return (rows + kTileLines - 1) / kTileLines; }
  [[nodiscard]] std::int64_t across() const { return (columns + kTileLines - 1) / kTileLines; }
  [[nodiscard]] std::int64_t count() const { return batches * down() * across(); }
  /// Elements of the largest tile.
  [[nodiscard]] double largest() const {
    return static_cast<double>(std::min(rows, kTileLines)) * static_cast<double>(std::min(columns, kTileLines));
  }
};

/// Where a tile lies.
struct TileRange {
  std::int64_t batch = 0, row = 0, row_end = 0, column = 0, column_end = 0;

  TileRange(const Tiling& tiling, std::int64_t number)
      : batch(number / (tiling.down() * tiling.across())),
        row(number / tiling.across() % tiling.down() * kTileLines),
        row_end(std::min(tiling.rows, row + kTileLines)),
        column(number % tiling.across() * kTileLines),
        column_end(std::min(tiling.columns, column + kTileLines)) {}
};

void set_all(const Element& element, Dense& into) {
  for (std::int64_t i = 0; i < into.count; ++i) into.set(i, element);
}

}  // namespace

void dense_dot(ir::NodeId id, const Reader& reader, const Deadline& deadline, Dense& into) {
  const ir::Node& node = reader.graph().node(id);
  const ir::NodeId a = node.operands[0], b = node.operands[1];
  const DotShape shape(std::get<ir::DotPayload>(node.payload), reader.sizes(a), reader.sizes(b));
  const std::int64_t length = shape.length();
  if (length == 0) {
    reader.count(id, into.count);
    return set_all(Reducer(node.op->reduction, node.type.dtype, 0).result(), into);
  }
  const Tiling tiling(shape);
  const DotBounds bounds(node.type.dtype, length);
  const bool coefficients_first = coefficients_of_first(reader.graph(), node);
  const std::vector<std::int64_t> offsets_a = shape.along_a.offsets(), offsets_b = shape.along_b.offsets();
  const auto compute_tile = [&](const TileRange& range) {
    Side left{.id = a,
              .dtype = node.type.dtype,
              .has_coefficients = coefficients_first,
              .begins = begins_of(shape.free_a, shape.batch_a.offset(range.batch), range.row, range.row_end),
              .offsets = offsets_a};
    Side right{.id = b,
               .dtype = node.type.dtype,
               .has_coefficients = !coefficients_first,
               .begins = begins_of(shape.free_b, shape.batch_b.offset(range.batch), range.column, range.column_end),
               .offsets = offsets_b};
    reader.count(id, (range.row_end - range.row) * (range.column_end - range.column));
    Tile tile(node, reader, bounds, std::move(left), std::move(right));
    tile.add_up();
    for (std::int64_t m = range.row; m < range.row_end; ++m) {
      for (std::int64_t n = range.column; n < range.column_end; ++n)
        into.set((range.batch * tiling.rows + m) * tiling.columns + n, tile.result(m - range.row, n - range.column));
    }
  };
  parallel_for(tiling.count(), 1, tiling.largest() * static_cast<double>(length), deadline,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t number = begin; number < end; ++number) compute_tile({tiling, number});
               });
}

}  // namespace vkfuse::reference
