#include "page.hpp"

#include "report.hpp"

namespace vkfuse::bench {

/// The text of bench/page.html, in a file that the build makes.
std::string_view page_template();

namespace {

using nlohmann::json;

constexpr std::string_view kMark = "/*REPORT*/null";

/// What the page does not draw is most of a report.
json drawn(const json& device) {
  json copy = device;
  if (!copy.contains("rows")) copy["rows"] = json::array();
  if (copy.contains("peaks")) {
    for (json& peak : copy["peaks"]) peak.erase("samples");
  }
  for (json& row : copy["rows"]) {
    row.erase("samples");
    // Reports of before there were cases.
    if (!row.contains("case")) row["case"] = row.value("name", "") + ' ' + row.value("size", "");
  }
  return copy;
}

}  // namespace

std::string to_page(const std::vector<json>& reports) {
  json all = json::array();
  for (const json& report : reports) {
    for (const json* device : devices_of(report)) all.push_back(drawn(*device));
  }
  std::string data = all.dump(-1, ' ', true, json::error_handler_t::replace);
  // Inside a script element the only text that could end it.
  for (std::size_t at = 0; (at = data.find("</", at)) != std::string::npos;) data.replace(at, 2, "<\\/");
  std::string page(page_template());
  page.replace(page.find(kMark), kMark.size(), data);
  return page;
}

}  // namespace vkfuse::bench
