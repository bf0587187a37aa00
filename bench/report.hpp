// What was measured, as a table, as JSON and as CSV.
#pragma once

#include <nlohmann/json.hpp>

#include "bench_row.hpp"
#include "peaks.hpp"
#include "planners.hpp"
#include "sweep.hpp"

namespace vkfuse::bench {

/// Device, driver, limits, feature tiers, host, clocks. Runs the feature tiers' self-tests.
Result<nlohmann::json> environment(const Session& session);

/// Of the column that says which case a line is of.
constexpr int kCaseWidth = 32;
/// No table is wider.
constexpr int kAllColumns = 1000;

/// Microseconds to the nanosecond, which is as fine as any device counts.
double rounded(double us);
/// "measured", "wrong": as reports have it.
const char* name_of(Outcome outcome);
/// The line of what has no figures.
std::string not_measured(const std::string& name, Outcome outcome, const std::string& detail);

/// As much as lines of `columns` characters have room for, 80 at least: what matters most comes first to its place.
/// `error` is the largest error of a sample over its bound.
std::string table_head(bool check_only, int columns = kAllColumns);
/// One line, two where there is not the room for a long case; the word for a wrong row appears in no other.
std::string table_line(const RowResult& result, int columns = kAllColumns);
nlohmann::json to_json(const RowResult& result);

/// The group of instruction peaks, and one's name in it: "peak fma f32".
inline constexpr std::string_view kPeakGroup = "peak";
std::string peak_name(Instruction instruction);
std::string table_line(const PeakResult& result);
nlohmann::json to_json(const PeakResult& result);

std::string sweep_head();
std::string table_line(const SweepResult& result);
nlohmann::json to_json(const SweepResult& result);

std::string planners_head();
/// Four lines: one per planner.
std::string table_line(const PlannersResult& result);
nlohmann::json to_json(const PlannersResult& result);

/// One line per row of every device of a report, and a head; fields as in the JSON, empty where a row has none.
std::string to_csv(const nlohmann::json& report);

/// A report is of one device, or of a list of them under "devices".
std::vector<const nlohmann::json*> devices_of(const nlohmann::json& report);

/// Reads a report and checks that it is one.
Result<nlohmann::json> read_report(const std::string& path);
/// Writes a file whole: what was there stays until the new one is complete.
Result<void> write_file(const std::string& path, const std::string& text);

}  // namespace vkfuse::bench
