// A run as a small file that people send: what a scoreboard shows of it, and no samples.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "vkfuse/result.hpp"

namespace vkfuse::bench {

inline constexpr std::string_view kSubmissionFormat = "vkfuse-bench submission";
inline constexpr int kSubmissionVersion = 1;
/// No submission is larger.
inline constexpr std::size_t kMostSubmissionBytes = 200'000;

/// The text of the submission of a report (read_report). Refused with a sentence that names `path`: a report of checks,
/// sweeps or planners, which has no times; one whose times, sizes or names are none; one that makes too large a file.
Result<std::string> to_submission(const nlohmann::json& report, const std::string& path);

/// "submission-nvidia-h200-2026-11-25.json": by the first device and the day of the run.
std::string submission_name(const nlohmann::json& report);

}  // namespace vkfuse::bench
