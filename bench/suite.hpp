// The chosen rows on the chosen devices, and what is kept of them.
#pragma once

#include <nlohmann/json.hpp>

#include "peak_kernels.hpp"
#include "rows.hpp"
#include "vkfuse/device.hpp"

namespace vkfuse::bench {

struct SuiteOptions {
  bool quick = true;
  bool check = false;     ///< compare every row with the reference; time nothing
  bool sweep = false;     ///< the default schedule beside every other
  bool planners = false;  ///< the planner beside those that it can be compared with
  bool all_devices = false;
  bool wide = false;  ///< all columns of the table, whatever the terminal's width
  DeviceOptions device;
  std::vector<Request> requests;
  std::vector<Instruction> peaks;  ///< to be measured, too
  std::string json, csv, html;     ///< files to write; empty: none
  nlohmann::json before;           ///< a report to go on with: its rows are not measured again
  nlohmann::json flags;            ///< what was asked for, to be kept with the results
};

/// Prints a line per row. The exit status: 0, or 1 if a row is wrong or failed, or 130 after an interrupt.
Result<int> run_suite(const SuiteOptions& options);

}  // namespace vkfuse::bench
