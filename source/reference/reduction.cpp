#include "reference/reduction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/reference.hpp"

namespace vkfuse::reference {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
/// Where order or flushing decides: the value in double, without a bound.
Element undecided(double value) { return {value, 0, kInfinity}; }

/// Partial results of 16-bit floats are f32.
DType register_of(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }
double smallest_of(DType dtype) { return dtype == DType::f64 ? 0x1p-1022 : 0x1p-126; }

bool less(std::int64_t a, std::int64_t b, DType dtype) {
  const bool is_unsigned = !is_signed_integer(dtype);
  return is_unsigned ? static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b) : a < b;
}

bool is_subnormal(double x, DType dtype) { return x != 0 && std::abs(x) < smallest_of(dtype); }

double apart(double a, double b) { return a == b ? 0 : std::abs(a - b); }

}  // namespace

Reducer::Reducer(ops::Reduction reduction, DType dtype, std::int64_t chain)
    : reduction_(reduction), join_(ops::row(reduction.join)), dtype_(dtype), chain_(chain) {
  const double side = reduction.join == "min" ? -1 : 1;
  if (reduction.kind == ops::Reduction::Kind::arg) {
    state_ = partial::Position{.side = side, .highest_exact = -kInfinity, .highest_inexact = -kInfinity};
  } else if (!is_float(dtype)) {
    state_ = partial::Whole{.value = ops::saturate(dtype, reduction.identity)};
  } else if (reduction.join == "add") {
    state_ = partial::Sum{};
  } else if (reduction.join == "mul") {
    state_ = partial::Product{};
  } else {
    state_ = partial::Extreme{side, -kInfinity, -kInfinity, -kInfinity};
  }
}

void Reducer::add(const Element& x) {
  ++count_;
  if (x.bound == kInfinity) {
    // The result says nothing for sure; its value is still what these values give.
    undecided_ = true;
    maybe_nan_ = maybe_nan_ || (is_float(dtype_) && std::isnan(x.real));
    const bool absorbed = is_absorbed();
    std::visit([&](auto& state) { take(state, {x.real, x.integer, 0}); }, state_);
    if (auto* whole = std::get_if<partial::Whole>(&state_)) whole->absorbed = absorbed;
  } else if (is_float(dtype_) && std::isnan(x.real)) {
    has_nan_ = true;
    if (auto* position = std::get_if<partial::Position>(&state_); position != nullptr && position->first_nan < 0)
      position->first_nan = count_ - 1;
  } else {
    std::visit([&](auto& state) { take(state, x); }, state_);
  }
}

Element Reducer::result() const {
  const bool is_position = std::holds_alternative<partial::Position>(state_);
  if (has_nan_ && !is_position) return {kNaN, 0, 0};
  Element result = std::visit([&](const auto& state) { return finish(state); }, state_);
  if (!undecided_ || is_absorbed()) return result;
  if (maybe_nan_ && !is_position) result.real = kNaN;
  result.bound = kInfinity;
  return result;
}

bool Reducer::is_absorbed() const {
  const auto* whole = std::get_if<partial::Whole>(&state_);
  return whole != nullptr && whole->absorbed;
}

// Sums. -------------------------------------------------------------------------------------------

void Reducer::take(partial::Sum& state, const Element& x) const {
  if (count_ == 1) state.first = x.real + 0.0;  // of either zero the positive one
  state.equal = state.equal && x.bound == 0 && x.real == state.first;
  if (std::isinf(x.real)) {
    (x.real > 0 ? state.to_infinity : state.to_minus_infinity) = true;
    return;
  }
  // Neumaier's summation: the error must stay far below that of the device, also for f64.
  const double sum = state.sum + x.real;
  state.carry += std::abs(state.sum) >= std::abs(x.real) ? (state.sum - sum) + x.real : (x.real - sum) + state.sum;
  state.sum = sum;
  state.magnitude += std::abs(x.real) + x.bound;
  state.spread += x.bound;
  state.positive = state.positive || x.real + x.bound > 0;
  state.negative = state.negative || x.real - x.bound < 0;
}

/// Devices give the mean of equal elements exactly, so that a norm of them is its bias; but for what is too small to be
/// corrected.
bool Reducer::has_exact_mean(const partial::Sum& state) const {
  return state.equal && count_ > 0 &&
         (state.first == 0 || std::abs(state.first) >= smallest_of(dtype_) / (unit(dtype_) * unit(dtype_)));
}

/// The sum or mean without the errors of a device: an infinity, where there is one.
double Reducer::in_double(const partial::Sum& state) const {
  if (state.has_infinity()) return state.to_infinity ? kInfinity : -kInfinity;
  return (state.sum + state.carry) / (is_mean() ? static_cast<double>(count_) : 1);
}

/// A sum becomes a mean, whose division rounds.
void Reducer::divide_by_count(double& value, double& bound) const {
  const DType in = register_of(dtype_);
  value /= static_cast<double>(count_);
  bound = bound / static_cast<double>(count_) +
          (std::isfinite(value) ? 3 * unit(in) * std::abs(value) + smallest_of(in) : 0);
}

Element Reducer::finish(const partial::Sum& state) const {
  const DType in = register_of(dtype_);
  if (state.to_infinity && state.to_minus_infinity) return {kNaN, 0, 0};
  const double growth = static_cast<double>(chain_) * unit(in);
  const bool partial_may_overflow = state.magnitude * (1 + growth) > largest_of(in);
  if (partial_may_overflow && state.has_both_signs())
    return undecided(in_double(state));  // the order decides whether infinities arise, and cancel
  if (state.has_infinity()) return {in_double(state), 0, 0};

  if (partial_may_overflow && in == DType::f64)
    return undecided(in_double(state));  // the sum here has overflowed too, or nearly

  if (is_mean() && !partial_may_overflow && has_exact_mean(state)) return {state.first, 0, 0};
  double value = state.sum + state.carry;
  const bool rounds = count_ > 1 && state.magnitude > 0;
  double bound = state.spread;
  if (rounds) bound += growth * state.magnitude + static_cast<double>(count_) * smallest_of(in);
  settle(in, value, bound);
  if (is_mean()) divide_by_count(value, bound);
  return finish_float(dtype_, value, bound);
}

// Products. ---------------------------------------------------------------------------------------

void Reducer::take(partial::Product& state, const Element& x) const {
  state.product *= x.real;
  if (std::isinf(x.real)) {
    state.infinite = true;
    return;
  }
  const double size = std::abs(x.real);
  const bool is_zero = x.real == 0 && x.bound == 0;
  state.zero = state.zero || is_zero;
  state.magnitude *= size;
  state.widest *= size + x.bound;
  state.greatest *= std::max(size + x.bound, 1.0);
  if (!is_zero) state.least *= std::clamp(size - x.bound, 0.0, 1.0);
}

Element Reducer::finish(const partial::Product& state) const {
  const DType in = register_of(dtype_);
  const double growth = static_cast<double>(count_) * unit(in);
  const bool may_vanish = state.least * (1 - growth) < smallest_of(in);
  const bool may_overflow = !(state.greatest * (1 + growth) <= largest_of(in));
  if (state.infinite) {
    if (state.zero) return {kNaN, 0, 0};
    return may_vanish ? undecided(state.product)
                      : Element{state.product, 0, 0};  // infinity times what was flushed to zero
  }
  if (may_overflow && (may_vanish || state.zero)) return undecided(state.product);
  // Some partial product may be infinite, and then the whole is: surely so only if the whole is too large.
  if (may_overflow && state.least < 1) return undecided(state.product);
  double value = state.product;
  double bound = 0;
  if (std::isfinite(value)) {
    bound = state.widest - state.magnitude;
    if (count_ > 1 && !state.zero) {
      bound += (growth + static_cast<double>(count_) * 0x1p-52) * state.widest;  // and what `widest` itself has lost
      // A partial product that is flushed to zero takes at most this with it.
      if (may_vanish) bound += static_cast<double>(count_) * smallest_of(in) * state.greatest;
    }
  }
  if (std::isnan(bound)) return undecided(state.product);
  settle(in, value, bound);
  return finish_float(dtype_, value, bound);
}

// Extremes and their positions. -------------------------------------------------------------------

void Reducer::take(partial::Extreme& state, const Element& x) const {
  const double value = state.side * x.real;
  state.value = std::max(state.value, value);
  state.low = std::max(state.low, value - x.bound);
  state.high = std::max(state.high, value + x.bound);
  state.subnormal = state.subnormal || is_subnormal(value, dtype_);
}

Element Reducer::finish(const partial::Extreme& state) const {
  double bound = std::max(apart(state.high, state.value), apart(state.low, state.value));
  if (state.subnormal && std::abs(state.value) < smallest_of(dtype_)) bound += 2 * smallest_of(dtype_);
  if (bound == 0) return {state.side * state.value, 0, 0};  // one of the elements as it was
  return finish_float(dtype_, state.side * state.value,
                      bound + 0x1p-53 * std::abs(state.value));  // high and low were rounded
}

void Reducer::take(partial::Position& state, const Element& x) const {
  if (!is_float(dtype_)) {
    const bool wins = state.side > 0 ? less(state.integer, x.integer, dtype_) : less(x.integer, state.integer, dtype_);
    if (state.at >= 0 && !wins) return;
    state.integer = x.integer;
    state.at = count_ - 1;
    return;
  }
  const auto contends = [&](double value, double bound) {
    double& highest = bound == 0 ? state.highest_exact : state.highest_inexact;
    highest = std::max(highest, value + bound);
  };
  const double value = state.side * x.real;
  state.subnormal = state.subnormal || is_subnormal(value, dtype_);
  if (state.at >= 0 && !(value > state.value)) {
    contends(value, x.bound);
    return;
  }
  if (state.at >= 0) contends(state.value, state.bound);
  state.value = value;
  state.bound = x.bound;
  state.at = count_ - 1;
}

Element Reducer::finish(const partial::Position& state) const {
  if (state.first_nan >= 0) return {0, state.first_nan, 0};
  const std::int64_t at = std::max<std::int64_t>(state.at, 0);
  if (!is_float(dtype_)) return {0, at, 0};
  if (state.subnormal && count_ > 1 && std::abs(state.value) < smallest_of(dtype_)) return {0, at, kInfinity};
  // Equal values without error are no tie to a device either: the first of them is kept.
  const double lowest = state.value - state.bound;
  const bool above_exact = state.highest_exact < lowest || (state.bound == 0 && state.highest_exact == state.value);
  const bool above_inexact = state.highest_inexact < lowest || state.highest_inexact == -kInfinity;
  return {0, at, count_ <= 1 || (above_exact && above_inexact) ? 0 : kInfinity};
}

// Integers and booleans. --------------------------------------------------------------------------

void Reducer::take(partial::Whole& state, const Element& x) const {
  const std::int64_t pair[] = {state.value, x.integer};
  state.value = ops::wrap(dtype_, join_.integer(pair, dtype_));
  if (dtype_ == DType::boolean) state.absorbed = state.absorbed || x.integer == (reduction_.join == "or" ? 1 : 0);
}

Element Reducer::finish(const partial::Whole& state) const { return {0, state.value, 0}; }

}  // namespace vkfuse::reference
