#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/output_comparison.hpp"

namespace vkfuse::reference {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Error over bound of one float, or infinity when it is wrong.
double float_ratio(DType dtype, double got, double want, double bound, double& error) {
  error = float_error(dtype, got, want, bound);
  if (error == 0) return 0;
  return error <= bound ? error / bound : kInfinity;
}

}  // namespace

double float_error(DType dtype, double got, double want, double allowed) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  const double overflow = dtype == DType::f16 ? 65504.0 : dtype == DType::bf16 ? 0x1.fep127 : 3.4028234663852886e38;
  if (std::isinf(got) && std::signbit(got) == std::signbit(want) && std::abs(want) + allowed >= overflow &&
      dtype != DType::f64)
    return 0;
  const double error = std::abs(got - want);
  return std::isnan(error) ? kInfinity : error;
}

void Histogram::add(double ratio) {
  const double half_octaves = std::max(0.0, std::floor(-2 * std::log2(ratio)));
  ++counts_[std::min(counts_.size() - 1, static_cast<std::size_t>(half_octaves))];
}

void Histogram::add(const Histogram& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::int64_t Histogram::count() const { return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}); }

double Histogram::quantile(double q) const {
  const auto above = static_cast<double>(count()) * (1 - q);
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen > 0 && static_cast<double>(seen) > above) return std::exp2(-static_cast<double>(i) / 2);
  }
  return 0;
}

Comparison compare(DType dtype, std::span<const std::byte> got, const Column& want,
                   std::span<const std::int64_t> offsets) {
  Comparison result;
  const auto width = static_cast<std::size_t>(size_of(dtype));
  result.elements = static_cast<std::int64_t>(want.bound.size());
  for (std::size_t i = 0; i < want.bound.size(); ++i) {
    if (want.bound[i] == kInfinity) {
      ++result.undecided;
      continue;
    }
    const std::size_t offset = offsets.empty() ? i : static_cast<std::size_t>(offsets[i]);
    const std::byte* at = got.data() + offset * width;
    double ratio = 0;
    double error = 0;
    if (is_float(dtype)) {
      ratio = float_ratio(dtype, ir::decode(dtype, at), want.value[i], want.bound[i], error);
    } else if (ir::decode_int(dtype, at) != want.integer[i]) {
      ratio = kInfinity;
    }
    if (ratio == kInfinity) {
      ++result.wrong;
      if (result.first_wrong.empty()) {
        result.first_wrong = is_float(dtype) ? fmt::format("Element {} is {}, but {} +- {} is right.", offset,
                                                           ir::decode(dtype, at), want.value[i], want.bound[i])
                                             : fmt::format("Element {} is {}, but {} is right.", offset,
                                                           ir::decode_int(dtype, at), want.integer[i]);
        result.worst = static_cast<std::int64_t>(i);
      }
      continue;
    }
    result.max_error = std::max(result.max_error, error);
    if (ratio > 0) result.ratios.add(ratio);
    if (ratio > result.max_ratio) {
      result.max_ratio = ratio;
      if (result.first_wrong.empty()) result.worst = static_cast<std::int64_t>(i);
    }
  }
  return result;
}

}  // namespace vkfuse::reference
