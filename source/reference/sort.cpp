#include "reference/sort.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace vkfuse::reference {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool comes_first(DType dtype, const Element& a, const Element& b, bool descending) {
  const Element& small = descending ? b : a;
  const Element& large = descending ? a : b;
  if (!is_float(dtype)) {
    return is_signed_integer(dtype)
               ? small.integer < large.integer
               : static_cast<std::uint64_t>(small.integer) < static_cast<std::uint64_t>(large.integer);
  }
  if (std::isnan(large.real)) return !std::isnan(small.real);
  return small.real < large.real;
}

/// What an element may be, in the direction of the order: NaN, which is decided, is beyond infinity.
struct Range {
  double low = 0;
  double high = 0;
  bool exact = true;
  bool is_nan = false;
};

/// Whether `a` surely stands before `b`, which the order of the values puts after it. Equal values without
/// error stand in the order of their positions on every device.
bool surely_before(const Range& a, const Range& b) {
  if (a.is_nan || b.is_nan) return true;
  return a.high < b.low || (a.exact && b.exact && a.high == b.low);
}

/// Marks the ranks whose element may stand elsewhere. `ranges` ascend by value.
std::vector<bool> disputed_ranks(const std::vector<Range>& ranges) {
  const std::size_t count = ranges.size();
  std::vector<bool> disputed(count, false);
  // The farthest reach of all before, and after, apart for those without error: they tie differently.
  const auto sweep = [&](bool upwards) {
    Range exact{-kInfinity, -kInfinity};
    Range inexact{-kInfinity, -kInfinity, false};
    if (!upwards) exact.low = exact.high = inexact.low = inexact.high = kInfinity;
    bool any_exact = false, any_inexact = false;
    for (std::size_t step = 0; step < count; ++step) {
      const std::size_t i = upwards ? step : count - 1 - step;
      const Range& own = ranges[i];
      if (own.is_nan) continue;
      for (const auto& [other, present] : {std::pair{exact, any_exact}, std::pair{inexact, any_inexact}}) {
        if (present && !(upwards ? surely_before(other, own) : surely_before(own, other))) disputed[i] = true;
      }
      Range& reach = own.exact ? exact : inexact;
      (own.exact ? any_exact : any_inexact) = true;
      reach.high = upwards ? std::max(reach.high, own.high) : reach.high;
      reach.low = upwards ? reach.low : std::min(reach.low, own.low);
    }
  };
  sweep(true);
  sweep(false);
  return disputed;
}

}  // namespace

std::vector<Element> sorted_positions(DType dtype, std::span<const Element> line, bool descending) {
  std::vector<std::size_t> order(line.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return comes_first(dtype, line[a], line[b], descending); });

  const bool all_decided = std::all_of(line.begin(), line.end(), [](const Element& x) { return x.bound != kInfinity; });
  std::vector<Range> ranges(line.size());
  for (std::size_t rank = 0; rank < line.size(); ++rank) {
    const Element& x = line[order[rank]];
    const double value = descending ? -x.real : x.real;
    if (is_float(dtype)) ranges[rank] = {value - x.bound, value + x.bound, x.bound == 0, std::isnan(x.real)};
  }
  std::vector<bool> disputed(line.size(), !all_decided);
  if (all_decided && is_float(dtype)) disputed = disputed_ranks(ranges);

  std::vector<Element> positions;
  for (std::size_t rank = 0; rank < line.size(); ++rank) {
    positions.push_back({0, static_cast<std::int64_t>(order[rank]), disputed[rank] ? kInfinity : 0});
  }
  return positions;
}

}  // namespace vkfuse::reference
