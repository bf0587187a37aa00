// Means of equal elements, on sums that are known exactly.
#include <gtest/gtest.h>

#include <cmath>

#include "numeric/compare.hpp"
#include "numeric/operands.hpp"

namespace vkfuse::numeric {
namespace {

/// Sums of `count` equal elements in two parts, x0 + x1, and the element, x2.
std::vector<std::vector<Value>> sums_of_equal_elements(std::uint32_t count) {
  const std::vector<std::vector<Value>> given = operands_for({DType::f32}, -1000, 1000);
  std::vector<std::vector<Value>> sums(3);
  for (const Value& value : given[0]) {
    // What rounding loses is no subnormal, and no sum is infinite; of all counts as many, as one kernel has them.
    if (!(std::abs(value.real) >= 0x1p-75 && std::abs(value.real) < 0x1p100)) continue;
    const double whole = value.real * count;  // exact: 24 bits each
    const auto high = static_cast<float>(whole);
    sums[0].push_back({high, 0});
    sums[1].push_back({whole - high, 0});
    sums[2].push_back(value);
  }
  return sums;
}

/// A device may divide within 2.5 ulp: neither the mean nor what the sum has beyond it is off for that. Software
/// drivers divide exactly, so the mean is corrected from a quotient that is two units off, too; that a correction is
/// divided inexactly shows on a GPU alone.
TEST(MeanTest, OfEqualElementsIsThemAndLeavesNothing) {
  std::vector<Job> jobs;
  for (const std::uint32_t count : {2U, 3U, 7U, 49U, 203U, 1000U, 4098U, 65537U, 300007U}) {
    const auto add = [&](const char* name, const std::string& expression) {
      jobs.push_back({fmt::format("{} of {}", name, count),
                      {DType::f32, DType::f32, DType::f32},
                      DType::f32,
                      expression,
                      sums_of_equal_elements(count),
                      {}});
    };
    add("mean", fmt::format("f32_mean(x0, x1, {}u)", count));
    add("rest", fmt::format("(f32_mean_parts(x0, x1, {}u), x1)", count));
    add("left", fmt::format("f32_left_of_sum(x0, x1, x2, {}u)", count));
    const std::string nearly =
        fmt::format("f32_correct_mean(uintBitsToFloat(floatBitsToUint(x2) + 2u), x0, x1, {}u)", count);
    add("mean from nearly it", fmt::format("({}, x0)", nearly));
    add("rest from nearly it", fmt::format("({}, x1)", nearly));
  }
  run(jobs, false);
  for (const Job& job : jobs) {
    Comparer compare(job);
    ASSERT_GT(job.results.size(), 1000U);
    for (std::size_t i = 0; i < job.results.size(); ++i)
      compare.expect_float(i, {job.name.starts_with("mean") ? job.operands[2][i].real : 0, 0});
    compare.report();
  }
}

}  // namespace
}  // namespace vkfuse::numeric
