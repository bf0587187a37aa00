// Whether a result is allowed.
#pragma once

#include <string>

#include "numeric/run.hpp"
#include "reference/reference.hpp"

namespace vkfuse::numeric {

/// What the real function gives, and how far the device may be from it in the register type.
struct Expected {
  long double value = 0;
  double bound = 0;
};

/// Collects the mistakes of one job and the worst error in units of the last place of f32 (or f64).
class Comparer {
 public:
  explicit Comparer(const Job& job) : job_(job) {}

  void expect_float(std::size_t i, Expected want);
  void expect_integer(std::size_t i, std::int64_t want);
  /// A result of zero has the sign of this one.
  void expect_sign_of_zero(std::size_t i, long double want);

  /// Fails the test once with a count and the first mistakes.
  void report() const;

 private:
  void mistake(std::size_t i, const std::string& want);

  const Job& job_;
  double worst_units_ = 0;
  double worst_at_ = 0;
  reference::Histogram ratios_;  ///< error over bound, of what has an error that is no flushed subnormal
  std::size_t mistakes_ = 0;
  std::string first_;
};

}  // namespace vkfuse::numeric
