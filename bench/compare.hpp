// Is one report slower than another, beyond the noise of both?
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "vkfuse/result.hpp"

namespace vkfuse::bench {

struct CompareOptions {
  double threshold = 5;        ///< percent; a row is slower only if the whole interval is beyond it
  std::string what = "fused";  ///< or "framework", "unfused", "copy"
  /// Times are divided by the copy's of the same run: takes out what slows the whole machine.
  bool relative = false;
  int resamples = 2000;
};

enum class Finding : std::uint8_t { same, slower, faster, broken };

struct Change {
  std::string name;      ///< the case, after the device where there are several
  double before_us = 0;  ///< medians
  double after_us = 0;
  double ratio = 1;  ///< after / before
  double low = 1;    ///< 95 % bootstrap interval of the ratio of medians
  double high = 1;
  Finding finding = Finding::same;
};

struct Comparison {
  std::vector<Change> changes;  ///< of what both measured; and what only the first one did (broken) if it is wrong or
                                ///< failed in the second
  std::vector<std::string> only_one;  ///< cases that only one report measured
  double mean_ratio = 1;              ///< geometric

  [[nodiscard]] bool regressed() const;
};

/// The devices of both in their order. Not found: they have no measured case in common.
Result<Comparison> compare(const nlohmann::json& before, const nlohmann::json& after, const CompareOptions& options);

/// A table, and a line that sums it up.
std::string to_text(const Comparison& comparison, const CompareOptions& options);

}  // namespace vkfuse::bench
