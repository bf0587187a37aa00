#include "reference/dot.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/numerics.hpp"
#include "reference/reduction.hpp"
#include "reference/reference.hpp"

namespace vkfuse::reference {

namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();

/// One product, in a register of the dtype's lane.
Element product(DType dtype, const Element& a, const Element& b) {
  if (!is_float(dtype)) {
    const auto bits = static_cast<std::uint64_t>(a.integer) * static_cast<std::uint64_t>(b.integer);
    return {0, ops::wrap(dtype, static_cast<std::int64_t>(bits)), a.bound + b.bound};
  }
  const double value = a.real * b.real;
  if (a.bound == kNoBound || b.bound == kNoBound) return {value, 0, kNoBound};
  if (!std::isfinite(value)) {
    // An infinity times what may be zero, or of either sign.
    const bool sure = (a.bound == 0 || std::abs(a.real) > a.bound) && (b.bound == 0 || std::abs(b.real) > b.bound);
    return {value, 0, sure || std::isnan(a.real) || std::isnan(b.real) ? 0 : kNoBound};
  }
  const DType in = dtype == DType::f64 ? DType::f64 : DType::f32;
  double bound = std::abs(a.real) * b.bound + std::abs(b.real) * a.bound + a.bound * b.bound;
  if (value != 0 || bound != 0) bound += unit(in) * std::abs(value) + (in == DType::f64 ? 0x1p-1022 : 0x1p-126);
  return {value, 0, bound};
}

/// Of any elements, one after the other.
Element careful_sum(const ir::Node& node, std::span<const Element> a, std::span<const Element> b) {
  Reducer folder(node.op->reduction, node.type.dtype, longest_dot_chain(static_cast<std::int64_t>(a.size())));
  for (std::size_t k = 0; k < a.size(); ++k) folder.add(product(node.type.dtype, a[k], b[k]));
  return folder.result();
}

struct LineState {
  bool plain = true;
  bool decided = true;
  double largest = 0;
};

LineState state_of(std::span<const Element> line) {
  LineState state;
  for (const Element& x : line) {
    state.plain = state.plain && is_plain(x.real);
    state.largest = std::max(state.largest, std::abs(x.real));
    state.decided = state.decided && x.bound != kNoBound;
  }
  return state;
}

double error_of(const Element& x) { return x.bound == kNoBound ? 0 : x.bound; }

/// Whether a value is an input or a constant, or a view of one.
bool is_stored(const ir::Graph& graph, ir::NodeId id) {
  while (graph.node(id).op->cls == ops::OpClass::view) id = graph.node(id).operands[0];
  return graph.node(id).op->cls == ops::OpClass::constant || graph.node(id).op->cls == ops::OpClass::input;
}

}  // namespace

Digits::Digits(const Sizes& of, std::span<const int> axes) {
  const std::vector<std::int64_t> dense = dense_strides(of);
  for (const int axis : axes) {
    sizes.push_back(of[static_cast<std::size_t>(axis)]);
    strides.push_back(dense[static_cast<std::size_t>(axis)]);
  }
}

std::int64_t Digits::count() const {
  std::int64_t all = 1;
  for (const std::int64_t size : sizes) all *= size;
  return all;
}

std::int64_t Digits::offset(std::int64_t number) const {
  std::int64_t at = 0;
  for (std::size_t i = sizes.size(); i-- > 0; number /= sizes[i]) at += number % sizes[i] * strides[i];
  return at;
}

std::vector<std::int64_t> Digits::offsets() const {
  std::vector<std::int64_t> all;
  affine_run(sizes, {strides, 0}, 0, count(), all);
  return all;
}

DotShape::DotShape(const ir::DotPayload& dot, const Sizes& a, const Sizes& b)
    : batch_a(a, dot.batch_a),
      batch_b(b, dot.batch_b),
      free_a(a, ir::free_axes(dot.batch_a, dot.contract_a, a.size())),
      free_b(b, ir::free_axes(dot.batch_b, dot.contract_b, b.size())),
      along_a(a, dot.contract_a),
      along_b(b, dot.contract_b) {}

DotBounds::DotBounds(DType dtype, std::int64_t length) : dtype_(dtype) {
  terms_ = static_cast<double>(length);
  const double growth = length > 1 ? static_cast<double>(longest_dot_chain(length)) * unit(DType::f32) : 0;
  growth_ = 1 + growth;
  rounding_ = (1 + unit(DType::f32)) * growth_ - 1;
  tiny_ = 0x1p-126 * terms_ * (length > 1 ? growth_ + 1 : 1);
}

std::optional<Element> DotBounds::result(double sum, double bound, double product) const {
  // The magnitudes of all products come to at most bound / rounding_, and rounding_ is a unit at least.
  if (!(bound * 0x1p25 < largest_of(DType::f32))) {
    if (!(product * terms_ * 4 < largest_of(DType::f32))) return std::nullopt;
    return finish_float(dtype_, sum, kNoBound);
  }
  if (bound > 0) bound += tiny_;
  settle(DType::f32, sum, bound);
  return finish_float(dtype_, sum, bound);
}

bool coefficients_of_first(const ir::Graph& graph, const ir::Node& dot) { return is_stored(graph, dot.operands[1]); }

bool is_dense_dot(const ir::Node& node) {
  return node.op->cls == ops::OpClass::contraction && node.type.dtype != DType::f64;
}

Element dot_of_lines(const ir::Node& node, bool coefficients_first, std::span<const Element> a,
                     std::span<const Element> b) {
  const DType dtype = node.type.dtype;
  const LineState left = state_of(a), right = state_of(b);
  if (!is_float(dtype) || dtype == DType::f64 || !left.plain || !right.plain) return careful_sum(node, a, b);
  const DotBounds bounds(dtype, static_cast<std::int64_t>(a.size()));
  const std::span<const Element> mine = coefficients_first ? a : b, other = coefficients_first ? b : a;
  double sum = 0, first = 0, second = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double magnitude = std::abs(mine[k].real), error = error_of(mine[k]);
    sum += a[k].real * b[k].real;
    first += bounds.mine(magnitude, error) * std::abs(other[k].real);
    second += bounds.both(magnitude, error) * error_of(other[k]);
  }
  std::optional<Element> result = bounds.result(sum, first + second, left.largest * right.largest);
  if (!result) return careful_sum(node, a, b);
  if (!left.decided || !right.decided) result->bound = kNoBound;
  return *result;
}

}  // namespace vkfuse::reference
