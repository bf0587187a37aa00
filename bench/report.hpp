// What was measured, as a table of 80 columns and as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "bench_row.hpp"
#include "sweep.hpp"

namespace vkfuse::bench {

/// Device, driver, limits, rungs. Runs the rungs' self-tests.
Result<nlohmann::json> environment(const Session& session);

std::string table_head();
/// One line; the word for a wrong row appears in no other.
std::string table_line(const RowResult& result);
nlohmann::json to_json(const RowResult& result);

std::string sweep_head();
std::string table_line(const SweepResult& result);
nlohmann::json to_json(const SweepResult& result);

}  // namespace vkfuse::bench
