#include "numeric/compare.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace vkfuse::numeric {
namespace {

double unit(DType dtype) { return dtype == DType::f64 ? 0x1p-52 : 0x1p-23; }

/// An infinity stands for everything beyond the largest finite number.
bool lies_between(double got, long double low, long double high, double largest) {
  if (std::isinf(got)) return got > 0 ? high > largest : low < -largest;
  return got >= low && got <= high;
}

constexpr std::int64_t kEnough = 100;  // errors to say something of a bound
constexpr double kLoosest = 100;       // bound/error of the median operand that has an error

bool allowed(DType dtype, double got, Expected want) {
  if (std::isnan(want.bound) || std::isinf(want.bound)) return true;  // undecided
  if (std::isnan(want.value)) return std::isnan(got);
  if (std::isinf(want.value)) return got == want.value;
  const long double low = want.value - want.bound;
  const long double high = want.value + want.bound;
  if (dtype == DType::f64) return lies_between(got, low, high, std::numeric_limits<double>::max());
  if (dtype == DType::f32) return lies_between(got, low, high, std::numeric_limits<float>::max());
  const auto rounded = [dtype](long double side) { return ops::round_to(dtype, static_cast<double>(side)); };
  return got >= rounded(low) && got <= rounded(high);  // rounding is monotone
}

}  // namespace

void Comparer::expect_float(std::size_t i, Expected want) {
  const double got = job_.results[i].real;
  if (!allowed(job_.result_dtype, got, want)) mistake(i, fmt::format("{} +- {}", want.value, want.bound));
  const double flush = job_.result_dtype == DType::f64 ? 0x1p-1021 : 0x1p-125;  // as the bounds allow
  const auto excess = static_cast<double>(std::abs(got - want.value) - flush);
  if (!std::isfinite(got) || !std::isfinite(excess) || std::isinf(want.bound) || excess <= 0) return;
  if (want.bound > 0) ratios_.add(std::min(1.0, static_cast<double>(std::abs(got - want.value)) / want.bound));
  // In the units that bounds are stated in, unit * |value|, which are half to one times an ulp.
  const double units = excess / (unit(job_.result_dtype) * std::abs(static_cast<double>(want.value)));
  if (units <= worst_units_) return;
  worst_units_ = units;
  worst_at_ = job_.operands[0][i].real;
}

void Comparer::expect_integer(std::size_t i, std::int64_t want) {
  if (job_.results[i].integer != want) mistake(i, fmt::format("{}", want));
}

void Comparer::expect_sign_of_zero(std::size_t i, long double want) {
  const double got = job_.results[i].real;
  if (got == 0 && std::signbit(got) != std::signbit(want)) mistake(i, fmt::format("a zero of the sign of {}", want));
}

void Comparer::mistake(std::size_t i, const std::string& want) {
  if (++mistakes_ > 5) return;
  first_ += "  " + job_.name + "(";
  for (std::size_t k = 0; k < job_.operands.size(); ++k) {
    const Value& x = job_.operands[k][i];
    first_ += k == 0 ? "" : ", ";
    first_ +=
        is_float(job_.operand_dtypes[k]) ? fmt::format("{} = {:a}", x.real, x.real) : fmt::format("{}", x.integer);
  }
  const Value& got = job_.results[i];
  first_ += is_float(job_.result_dtype) ? fmt::format(") = {}", got.real) : fmt::format(") = {}", got.integer);
  first_ += ", want " + want + "\n";
}

void Comparer::report() const {
  if (std::getenv("VKFUSE_SWEEP_ELEMENTS") != nullptr && is_float(job_.result_dtype)) {
    fmt::print("{:24} worst {:8.3f} units at {:a}; error/bound p50 {:.3g}, p99 {:.3g} of {}\n", job_.name, worst_units_,
               worst_at_, ratios_.quantile(0.5), ratios_.quantile(0.99), ratios_.count());
  }
  // A bound that nothing comes near shows nothing.
  if (ratios_.count() >= kEnough) {
    EXPECT_LE(1 / ratios_.quantile(0.5), kLoosest) << job_.name << ": the median of bound/error";
  }
  EXPECT_EQ(mistakes_, 0u) << job_.name << ": " << mistakes_ << " of " << job_.results.size()
                           << " results are wrong; worst " << worst_units_ << " units at " << worst_at_ << "\n"
                           << first_ << job_.expression;
}

}  // namespace vkfuse::numeric
