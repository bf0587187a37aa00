// The report that people look at: one self-contained HTML page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace vkfuse::bench {

/// Of all devices of all reports, side by side. Needs no network; drawn by the script inside (bench/page.html).
std::string to_page(const std::vector<nlohmann::json>& reports);

}  // namespace vkfuse::bench
