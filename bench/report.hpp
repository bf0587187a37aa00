// What was measured, as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "bench_row.hpp"
#include "sweep.hpp"

namespace vkfuse::bench {

/// Device, driver, limits, rungs. Runs the rungs' self-tests.
Result<nlohmann::json> environment(const Session& session);

/// `error` is the largest error of a sample over its bound.
std::string table_head(bool check_only);
/// One line; the word for a wrong row appears in no other.
std::string table_line(const RowResult& result);
nlohmann::json to_json(const RowResult& result);

std::string sweep_head();
std::string table_line(const SweepResult& result);
nlohmann::json to_json(const SweepResult& result);

}  // namespace vkfuse::bench
