#include "reference/output_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "reference/flushed.hpp"
#include "reference/tolerance.hpp"

namespace vkfuse::reference {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTimes = 4;          // what fusion may add to the errors of one kernel per op
constexpr std::int64_t kEnough = 16;  // of fewer elements the largest error is chance

std::int64_t element_of(const Expected& expected, std::size_t row) {
  return expected.elements.empty() ? static_cast<std::int64_t>(row) : expected.elements[row];
}

double number_at(DType dtype, std::span<const std::byte> bytes, std::int64_t element) {
  return ir::decode(dtype, bytes.data() + static_cast<std::size_t>(element * size_of(dtype)));
}

std::int64_t integer_at(DType dtype, std::span<const std::byte> bytes, std::int64_t element) {
  return ir::decode_int(dtype, bytes.data() + static_cast<std::size_t>(element * size_of(dtype)));
}

double last_bit(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-52;
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    default: return 0x1p-23;
  }
}

/// What the reference's bounds are worth.
enum class Bound {
  tight,  ///< no wider than what one kernel per op is always granted
  loose,
  none,  ///< wider than the largest element, or infinite
};

class Bounds {
 public:
  Bounds(DType dtype, const Column& column) : column_(column), tolerance_(tolerance_for(dtype, column.value)) {
    for (const double value : column.value) {
      if (std::isfinite(value)) largest_ = std::max(largest_, std::abs(value));
    }
    last_bit_ = last_bit(dtype) * largest_;
  }
  [[nodiscard]] double tolerance(std::size_t row) const {
    const double want = std::abs(column_.value[row]);
    return std::isfinite(want) ? tolerance_.relative * want + tolerance_.absolute : 0;
  }
  [[nodiscard]] Bound of(std::size_t row) const {
    const double bound = column_.bound[row];
    if (bound <= kTimes * last_bit_) return Bound::tight;
    return bound <= largest_ ? Bound::loose : Bound::none;
  }
  /// Of the largest element.
  [[nodiscard]] double last_bit_of_largest() const { return last_bit_; }

 private:
  const Column& column_;
  Tolerance tolerance_;
  double largest_ = 0, last_bit_ = 0;
};

std::vector<double> numbers_of(DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> numbers;
  const auto count = static_cast<std::int64_t>(bytes.size() / static_cast<std::size_t>(size_of(dtype)));
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(number_at(dtype, bytes, i));
  return numbers;
}

double allowed_by(const Tolerance& tolerance, double want) {
  return tolerance.relative * std::abs(want) + tolerance.absolute;
}

/// Whether a file alone decides about an element, of which the reference says `value` within `bound`.
bool file_decides(double want, double value, double bound, const Tolerance& tolerance) {
  if (!std::isfinite(want)) return true;
  return !(bound <= allowed_by(tolerance, want)) && !agrees(value, want, tolerance, 0);
}

/// By row.
std::vector<bool> decided_by_file(DType dtype, const Expected& expected) {
  std::vector<bool> decided(expected.column.bound.size(), false);
  if (expected.file.empty()) return decided;
  const std::vector<double> file = numbers_of(dtype, expected.file);
  const Tolerance tolerance = tolerance_for(dtype, file);
  for (std::size_t row = 0; row < decided.size(); ++row) {
    decided[row] = file_decides(file[static_cast<std::size_t>(element_of(expected, row))], expected.column.value[row],
                                expected.column.bound[row], tolerance);
  }
  return decided;
}

/// The largest errors of one kernel per op: in bounds where these say something, else in numbers.
struct Unfused {
  std::int64_t loose = 0, none = 0;  ///< how many elements they are of
  double in_bounds = 0, in_numbers = 0;
  double last_bit = 0;  ///< of the largest element
  double crowd = 0;     ///< a magnitude that a quarter of is reached by kEnough elements: larger ones are too few

  /// Whether too few elements are as large as one to tell how far it may be off.
  [[nodiscard]] bool is_alone(double value) const { return std::abs(value) > crowd; }
  /// How far an element with this bound may be off by them; nothing where they do not say.
  [[nodiscard]] std::optional<double> allowed(Bound kind, double bound) const {
    if (kind == Bound::tight || (kind == Bound::loose ? loose : none) < kEnough) return std::nullopt;
    return kTimes * std::max(kind == Bound::loose ? in_bounds * bound : in_numbers, last_bit);
  }
};

Unfused errors_of_unfused(DType dtype, const Expected& expected, const Bounds& bounds,
                          const std::vector<bool>& left_out) {
  Unfused found;
  found.last_bit = bounds.last_bit_of_largest();
  std::vector<double> magnitudes;
  for (std::size_t row = 0; row < expected.column.bound.size(); ++row) {
    const Bound kind = bounds.of(row);
    const double want = expected.column.value[row];
    const double value = number_at(dtype, *expected.unfused, element_of(expected, row));
    if (left_out[row] || kind == Bound::tight || !std::isfinite(want) || !std::isfinite(value)) continue;
    const double error = std::abs(value - want);
    magnitudes.push_back(std::abs(want));
    if (kind == Bound::loose) {
      ++found.loose;
      found.in_bounds = std::max(found.in_bounds, error / expected.column.bound[row]);
    } else {
      ++found.none;
      found.in_numbers = std::max(found.in_numbers, error);
    }
  }
  constexpr double kAlike = 4;
  if (static_cast<std::int64_t>(magnitudes.size()) >= kEnough) {
    std::nth_element(magnitudes.begin(), magnitudes.begin() + (kEnough - 1), magnitudes.end(), std::greater<>());
    found.crowd = kAlike * magnitudes[static_cast<std::size_t>(kEnough - 1)];
  }
  return found;
}

/// How far elements without a bound may be from their file because the graph rounds. The measure is one kernel per op;
/// where it has not run, as with outputs of another program, the reference itself.
double rounding_slack(DType dtype, std::span<const std::byte> got, const Expected& expected) {
  if (!expected.rounds || expected.file.empty()) return 0;
  std::int64_t count = 0;
  double from_reference = 0, from_file = 0;  // the largest errors of one kernel per op
  double errors = 0, size = 0, squares_from_reference = 0, squares_from_file = 0;
  for (std::size_t row = 0; row < expected.column.bound.size(); ++row) {
    const std::int64_t element = element_of(expected, row);
    const double want = expected.column.value[row], file = number_at(dtype, expected.file, element);
    const double value = number_at(dtype, got, element);
    const double unfused = expected.unfused ? number_at(dtype, *expected.unfused, element) : want;
    if (!std::isinf(expected.column.bound[row]) || !std::isfinite(want) || !std::isfinite(file) ||
        !std::isfinite(value) || !std::isfinite(unfused))
      continue;
    ++count;
    from_reference = std::max(from_reference, std::abs(unfused - want));
    from_file = std::max(from_file, std::abs(unfused - file));
    errors += (value - file) * (value - file);
    size += file * file;
    squares_from_reference += (unfused - want) * (unfused - want);
    squares_from_file += (unfused - file) * (unfused - file);
  }
  if (!expected.unfused) {
    from_reference = from_file;
    squares_from_reference = squares_from_file;
  }
  // A quantised sentence encoder whose weights are moved by 1e-7 is off by a seventh in ONNX Runtime; garbage is off by
  // the whole.
  constexpr double kPart = 0.25;
  const double most =
      std::min(kPart * kPart * size, kTimes * kTimes * std::min(squares_from_reference, squares_from_file));
  if (count < kEnough || errors > most) return 0;
  return kTimes * std::min(from_reference, from_file);
}

/// How far an element may be off, and what says so; infinite: nothing does.
struct Allowed {
  enum class By { bound, tolerance, unfused } by = By::bound;
  double error = kInfinity;
  bool beside_unfused = false;  ///< one kernel per op had a say
};

/// The smallest of what the bound and one kernel per op allow, or the tolerance where there is no bound. `unfused` may
/// be null.
Allowed allowed_error(std::size_t row, const Expected& expected, const Bounds& bounds, const Unfused* unfused) {
  const Bound kind = bounds.of(row);
  const double bound = expected.column.bound[row];
  const bool is_alone = unfused != nullptr && unfused->is_alone(expected.column.value[row]);
  Allowed allowed{Allowed::By::bound, bound};
  const bool is_unknown = std::isinf(bound) || (is_alone && kind == Bound::none);
  if (is_unknown && !expected.has_file) allowed = {Allowed::By::tolerance, bounds.tolerance(row)};
  if (unfused == nullptr || is_alone) return allowed;
  const std::optional<double> by_unfused = unfused->allowed(kind, bound);
  allowed.beside_unfused = by_unfused.has_value();
  if (by_unfused && *by_unfused < allowed.error) allowed = {Allowed::By::unfused, *by_unfused, true};
  return allowed;
}

std::string sentence(std::int64_t element, double got, double want, double error, const Allowed& allowed) {
  switch (allowed.by) {
    case Allowed::By::bound:
      return fmt::format("Element {} is {}, but {} +- {} is right.", element, got, want, allowed.error);
    case Allowed::By::tolerance:
      return fmt::format("Element {} is {}, but {} by the reference, without a bound.", element, got, want);
    case Allowed::By::unfused: break;
  }
  return fmt::format(
      "Element {} is {}, which is off by {:.3g}; {:.3g} is allowed, {} times what one kernel per op, or the last bit "
      "of the largest element, is off by.",
      element, got, error, allowed.error, kTimes);
}

void compare_floats(DType dtype, std::span<const std::byte> got, const Expected& expected,
                    OutputComparison& comparison) {
  const Column& column = expected.column;
  const Bounds bounds(dtype, column);
  comparison.rounding_slack = rounding_slack(dtype, got, expected);
  std::optional<Unfused> unfused;
  const std::vector<bool> by_file = decided_by_file(dtype, expected);
  if (expected.unfused) unfused = errors_of_unfused(dtype, expected, bounds, by_file);
  for (std::size_t row = 0; row < column.bound.size(); ++row) {
    if (by_file[row]) {
      ++comparison.by_file_alone;
      continue;
    }
    ++comparison.referenced;
    comparison.unbounded += bounds.of(row) == Bound::none ? 1 : 0;
    comparison.loose += bounds.of(row) == Bound::loose ? 1 : 0;
    comparison.undecided += std::isinf(column.bound[row]) ? 1 : 0;
    const Allowed allowed = allowed_error(row, expected, bounds, unfused ? &*unfused : nullptr);
    comparison.beside_unfused = comparison.beside_unfused || allowed.beside_unfused;
    if (std::isinf(allowed.error)) continue;
    const std::int64_t element = element_of(expected, row);
    const double value = number_at(dtype, got, element);
    if (std::isinf(column.bound[row]) && std::isinf(column.value[row]) && !std::isnan(value))
      continue;  // it may overflow
    const double error = float_error(dtype, value, column.value[row], allowed.error);
    if (comparison.by_reference.add(static_cast<std::int64_t>(row), error, allowed.error)) continue;
    comparison.wrong[row] = true;
    if (comparison.by_reference.first_wrong.empty())
      comparison.by_reference.first_wrong = sentence(element, value, column.value[row], error, allowed);
  }
}

/// Rows of which a rounding decides, and which are not as the reference has them.
std::vector<std::size_t> decided_otherwise(DType dtype, std::span<const std::byte> got, const Expected& expected) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < expected.column.bound.size(); ++row) {
    if (std::isinf(expected.column.bound[row]) &&
        integer_at(dtype, got, element_of(expected, row)) != expected.column.integer[row])
      rows.push_back(row);
  }
  return rows;
}

void compare_integers(DType dtype, std::span<const std::byte> got, const Expected& expected,
                      OutputComparison& comparison) {
  Deviation& found = comparison.by_reference;
  const auto differ = [&](std::size_t row, std::string_view why) {
    comparison.wrong[row] = true;
    const std::int64_t element = element_of(expected, row);
    if (found.first_wrong.empty())
      found.first_wrong = fmt::format("Element {} is {}, but {} {}.", element, integer_at(dtype, got, element),
                                      expected.column.integer[row], why);
  };
  for (std::size_t row = 0; row < expected.column.bound.size(); ++row) {
    ++comparison.referenced;
    if (std::isinf(expected.column.bound[row])) {
      ++comparison.undecided;
      continue;
    }
    const std::int64_t value = integer_at(dtype, got, element_of(expected, row)), want = expected.column.integer[row];
    const double error =
        value == want ? 0 : std::max(1.0, std::abs(static_cast<double>(value) - static_cast<double>(want)));
    if (!found.add(static_cast<std::int64_t>(row), error, 0)) differ(row, "is right");
  }
  if (expected.has_file) return;
  const std::vector<std::size_t> others = decided_otherwise(dtype, got, expected);
  std::size_t most = expected.column.bound.size() / 100;
  if (expected.unfused && others.size() > most) {
    comparison.beside_unfused = true;
    most =
        std::max(most, static_cast<std::size_t>(kTimes) * decided_otherwise(dtype, *expected.unfused, expected).size());
  }
  if (others.size() <= most) return;
  found.wrong += static_cast<std::int64_t>(others.size());
  if (found.worst < 0) found.worst = static_cast<std::int64_t>(others[0]);
  for (const std::size_t row : others)
    differ(row, fmt::format("by the reference; a rounding decides, but of {} such elements {} may differ",
                            comparison.undecided, most));
}

}  // namespace

bool Deviation::add(std::int64_t row, double error, double allowed) {
  ++compared;
  const bool right = error <= allowed;
  if (!right) ++wrong;
  if (error == 0) return right;
  const double ratio = allowed > 0 ? error / allowed : kInfinity;
  if (right && ratio > 0) ratios.add(std::min(ratio, 1.0));
  max_error = std::max(max_error, error);
  if (ratio <= max_ratio && worst >= 0) return right;
  max_ratio = std::max(max_ratio, ratio);
  worst = row;
  return right;
}

std::int64_t OutputComparison::wrong_elements() const { return std::count(wrong.begin(), wrong.end(), true); }

bool rounds_computed_numbers(const ir::Graph& graph, ir::NodeId value) {
  std::vector<bool> reached(value + 1, false);
  reached[value] = true;
  for (ir::NodeId id = value + 1; id-- > 0;) {
    if (!reached[id]) continue;
    const ir::Node& node = graph.node(id);
    for (const ir::NodeId operand : node.operands) {
      reached[operand] = true;
      const ir::Node& from = graph.node(operand);
      const bool is_computed =
          from.op->cls != ops::OpClass::input && from.op->cls != ops::OpClass::constant && is_float(from.type.dtype);
      const bool to_whole = node.op->cls == ops::OpClass::elementwise &&
                            node.op->propagation == ops::ErrorPropagation::jump && is_float(node.type.dtype);
      const bool to_integer = node.op->cls == ops::OpClass::convert && is_integer(node.type.dtype);
      if (is_computed && (to_whole || to_integer)) return true;
    }
  }
  return false;
}

bool asks_for_unfused(DType dtype, std::span<const std::byte> got, const Expected& expected) {
  const Column& column = expected.column;
  if (!is_float(dtype))
    return !expected.has_file && decided_otherwise(dtype, got, expected).size() > column.bound.size() / 100;
  const Bounds bounds(dtype, column);
  const std::vector<bool> by_file = decided_by_file(dtype, expected);
  std::int64_t loose = 0, none = 0;
  for (std::size_t row = 0; row < column.bound.size(); ++row) {
    if (by_file[row] && !expected.rounds) continue;
    const Bound kind = bounds.of(row);
    loose += kind == Bound::loose ? 1 : 0;
    none += kind == Bound::none ? 1 : 0;
  }
  return loose >= kEnough || none >= kEnough;
}

OutputComparison compare_with_bounds(DType dtype, std::span<const std::byte> got, const Expected& expected) {
  OutputComparison comparison;
  comparison.elements = static_cast<std::int64_t>(expected.column.bound.size());
  comparison.wrong.assign(expected.column.bound.size(), false);
  if (is_float(dtype)) {
    compare_floats(dtype, got, expected, comparison);
  } else {
    compare_integers(dtype, got, expected, comparison);
  }
  return comparison;
}

namespace {

/// Rows of a judgement become elements.
void rows_to_elements(std::int64_t count, std::span<const std::int64_t> elements, OutputComparison& comparison) {
  comparison.elements = count;
  std::vector<bool> wrong(static_cast<std::size_t>(count), false);
  for (std::size_t row = 0; row < comparison.wrong.size(); ++row) {
    if (comparison.wrong[row]) wrong[elements.empty() ? row : static_cast<std::size_t>(elements[row])] = true;
  }
  comparison.wrong = std::move(wrong);
  std::int64_t& worst = comparison.by_reference.worst;
  if (worst >= 0 && !elements.empty()) worst = elements[static_cast<std::size_t>(worst)];
}

/// What is known of an element besides its file.
struct ByReference {
  bool known = false;
  double value = 0;
  std::int64_t integer = 0;
  double bound = 0;
};

/// Floats of a file.
struct FloatsOfFile {
  std::vector<double> values;
  Tolerance tolerance;
  double rounding_slack = 0;  ///< of elements without a bound
};

/// A sentence if a float is not what its file says.
std::string float_by_file(std::int64_t element, double value, const FloatsOfFile& file, const ByReference& by,
                          Deviation& found) {
  const Tolerance& tolerance = file.tolerance;
  const double want = file.values[static_cast<std::size_t>(element)];
  const double base = allowed_by(tolerance, want);
  const double granted = std::isfinite(want) ? base + std::min(by.bound, 16 * base) : 0;
  const double allowed = std::isfinite(want) && std::isinf(by.bound) ? std::max(granted, file.rounding_slack) : granted;
  const bool same = value == want || (std::isnan(value) && std::isnan(want)) || is_of_flushed(value, want, by.bound);
  const double error = same ? 0 : std::abs(value - want);
  if (!found.add(element, std::isnan(error) ? kInfinity : error, allowed))
    return fmt::format("Element {} is {}, but the file says {}.", element, value, want);
  if (!by.known || std::isinf(by.bound) || agrees(by.value, want, tolerance, by.bound) ||
      file_decides(want, by.value, by.bound, tolerance))
    return {};
  ++found.wrong;
  return fmt::format("Element {} is {} by the reference, but the file says {}.", element, by.value, want);
}

std::string integer_by_file(std::int64_t element, std::int64_t value, std::int64_t want, const ByReference& by,
                            Deviation& found) {
  const bool undecided = std::isinf(by.bound);
  const double error =
      value == want ? 0 : std::max(1.0, std::abs(static_cast<double>(value) - static_cast<double>(want)));
  if (!found.add(element, error, undecided ? 1 : 0))
    return fmt::format("Element {} is {}, but the file says {}.", element, value, want);  // a rounding straddles
  if (!by.known || undecided || by.integer == want) return {};
  ++found.wrong;
  return fmt::format("Element {} is {} by the reference, but the file says {}.", element, by.integer, want);
}

}  // namespace

void compare_with_file(DType dtype, std::span<const std::byte> got, std::span<const std::byte> file,
                       const ReferencedElements& referenced, OutputComparison& comparison) {
  const auto& [column, elements] = referenced;
  const auto count = static_cast<std::int64_t>(got.size() / static_cast<std::size_t>(size_of(dtype)));
  rows_to_elements(count, elements, comparison);
  FloatsOfFile floats{numbers_of(dtype, file), {}, comparison.rounding_slack};
  floats.tolerance = tolerance_for(dtype, floats.values);
  Deviation& found = comparison.by_file.emplace();
  std::size_t row = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    while (!elements.empty() && row < elements.size() && elements[row] < i) ++row;
    if (elements.empty()) row = static_cast<std::size_t>(i);
    ByReference by;
    if (column != nullptr && row < column->bound.size() && (elements.empty() || elements[row] == i))
      by = {true, column->value[row], column->integer[row], column->bound[row]};
    const std::string why = is_float(dtype)
                                ? float_by_file(i, number_at(dtype, got, i), floats, by, found)
                                : integer_by_file(i, integer_at(dtype, got, i), integer_at(dtype, file, i), by, found);
    if (why.empty()) continue;
    comparison.wrong[static_cast<std::size_t>(i)] = true;
    if (found.worst < 0) found.worst = i;
    if (found.first_wrong.empty()) found.first_wrong = why;
  }
}

TileMap map_of_wrong(std::span<const std::int64_t> sizes, std::span<const std::int64_t> elements,
                     const std::vector<bool>& wrong) {
  const std::int64_t across = sizes.empty() ? 1 : sizes.back();
  std::int64_t down = 1;
  for (std::size_t axis = 0; axis + 1 < sizes.size(); ++axis) down *= sizes[axis];
  TileMap map;
  map.rows = std::min(down, TileMap::kMost);
  map.columns = std::min(across, TileMap::kMost);
  map.compared.assign(static_cast<std::size_t>(map.rows * map.columns), 0);
  map.wrong = map.compared;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const std::int64_t element = elements.empty() ? static_cast<std::int64_t>(i) : elements[i];
    const std::int64_t row = element / across * map.rows / down;
    const auto at = static_cast<std::size_t>(row * map.columns + element % across * map.columns / across);
    ++map.compared[at];
    map.wrong[at] += wrong[i] ? 1 : 0;
  }
  return map;
}

std::string to_text(const TileMap& map) {
  std::string text;
  for (std::int64_t row = 0; row < map.rows; ++row) {
    for (std::int64_t column = 0; column < map.columns; ++column) {
      const auto at = static_cast<std::size_t>(row * map.columns + column);
      const std::int64_t all = map.compared[at], wrong = map.wrong[at];
      text += all == 0       ? ' '
              : wrong == 0   ? '.'
              : wrong == all ? '#'
                             : static_cast<char>('0' + std::min<std::int64_t>(9, (10 * wrong + all - 1) / all));
    }
    text += '\n';
  }
  return text;
}

std::vector<std::int64_t> position_of(std::int64_t element, std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> position(sizes.size());
  for (std::size_t axis = sizes.size(); axis-- > 0; element /= sizes[axis]) position[axis] = element % sizes[axis];
  return position;
}

}  // namespace vkfuse::reference
