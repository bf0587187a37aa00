// What a validation found, as a page and as JSON.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tool/validate.hpp"
#include "vkfuse/vkfuse.h"

namespace vkfuse::tool {

namespace {

constexpr const char* kStyle = R"(
  body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222; background: #fff }
  h1 { font-size: 1.5em } h2 { font-size: 1.2em; margin-top: 2em } h3 { font-size: 1em }
  table { border-collapse: collapse; margin: .8em 0 } th, td { border-bottom: 1px solid #ddd; padding: .25em .8em .25em 0; text-align: left; vertical-align: top }
  td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
  .passed { color: #17692f } .failed { color: #b00020; font-weight: 600 } .skipped { color: #666 }
  .tiles { border-spacing: 1px; border-collapse: separate } .tiles td { width: 10px; height: 10px; padding: 0; border: 0; background: #cfe8d5 }
  @media (prefers-color-scheme: dark) {
    body { color: #ddd; background: #16181c } th, td { border-color: #333 } .passed { color: #6fcf8a } .failed { color: #ff8a8a } .skipped { color: #999 }
    .tiles td { background: #244a2f }
  }
)";

const char* word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "passed";
    case Verdict::failed: return "failed";
    case Verdict::skipped: return "skipped";
  }
  return "";
}

std::string escaped(std::string_view text) {
  std::string made;
  for (const char c : text) {
    switch (c) {
      case '&': made += "&amp;"; break;
      case '<': made += "&lt;"; break;
      case '>': made += "&gt;"; break;
      case '"': made += "&quot;"; break;
      default: made += c;
    }
  }
  return made;
}

std::string title_of(const DeviceReport& one) { return fmt::format("{}: {}", one.device.index, one.device.name); }

/// Nothing where a number would say nothing: an output of whole numbers is right or wrong.
std::string ratio_text(double ratio) { return ratio == 0 ? "0" : fmt::format("{:.2g}", ratio); }

/// The cases of a device by name; the second of a name, from another folder, has a number.
std::map<std::string, const CaseResult*> by_name(const DeviceReport& one, std::vector<std::string>& order) {
  std::map<std::string, const CaseResult*> found;
  std::map<std::string, int> seen;
  for (const CaseResult& result : one.report.cases) {
    const int before = seen[result.name]++;
    const std::string name = before == 0 ? result.name : fmt::format("{} ({})", result.name, before + 1);
    found.emplace(name, &result);
    if (std::find(order.begin(), order.end(), name) == order.end()) order.push_back(name);
  }
  return found;
}

std::string summary(const std::vector<DeviceReport>& devices) {
  std::string html = "<table><tr><th>case</th>";
  std::vector<std::string> names;
  std::vector<std::map<std::string, const CaseResult*>> results;
  for (const DeviceReport& one : devices) {
    html += fmt::format("<th>{}</th>", escaped(title_of(one)));
    results.push_back(by_name(one, names));
  }
  html += "</tr>\n";
  for (const std::string& name : names) {
    html += fmt::format("<tr><td>{}</td>", escaped(name));
    for (const auto& cases : results) {
      const auto at = cases.find(name);
      if (at == cases.end()) {
        html += "<td></td>";
        continue;
      }
      const CaseResult* const found = at->second;
      const char* const word = word_of(found->verdict);
      const bool judged = found->verdict == Verdict::passed && !found->outputs.empty();
      html += fmt::format("<td class=\"{}\">{}{}</td>", word, word, judged ? fmt::format(", error / bound {}", ratio_text(found->max_ratio)) : std::string());
    }
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string picture(const TileMap& tiles) {
  std::string html = "<table class=\"tiles\">";
  for (std::int64_t row = 0; row < tiles.rows; ++row) {
    html += "<tr>";
    for (std::int64_t column = 0; column < tiles.columns; ++column) {
      const auto at = static_cast<std::size_t>(row * tiles.columns + column);
      const std::string title = fmt::format("{} of {} wrong", tiles.wrong[at], tiles.compared[at]);
      // From faint to full, so that one wrong element of a tile is seen.
      const double part = tiles.compared[at] == 0 ? 0 : static_cast<double>(tiles.wrong[at]) / static_cast<double>(tiles.compared[at]);
      html += part == 0 ? fmt::format("<td title=\"{}\"></td>", title) : fmt::format("<td title=\"{}\" style=\"background:rgba(214,0,40,{:.2f})\"></td>", title, 0.35 + 0.65 * part);
    }
    html += "</tr>";
  }
  return html + "</table>\n";
}

std::string rows_of(const CaseResult& result) {
  const char* const word = word_of(result.verdict);
  const std::string head = fmt::format("<td>{}</td><td class=\"{}\">{}</td>", escaped(result.name), word, word);
  const std::string tail = fmt::format("<td class=\"n\">{}</td><td class=\"n\">{:.2f}</td>", result.kernels, result.seconds);
  if (result.outputs.empty()) return fmt::format("<tr>{}<td colspan=\"8\">{}</td>{}</tr>\n", head, escaped(result.detail), tail);
  std::string html;
  bool first = true;
  for (const OutputResult& output : result.outputs) {
    std::int64_t count = 1;
    for (const std::int64_t size : output.sizes) count *= size;
    const std::string compared = output.found.elements == count ? fmt::format("{}", count) : fmt::format("{} of {}", output.found.elements, count);
    const std::string where = output.worst.empty() ? "" : fmt::format("[{}]", fmt::join(output.worst, ", "));
    const std::string largest = output.found.wrong > 0 ? fmt::format("<span class=\"failed\">{} wrong</span>", output.found.wrong) : ratio_text(output.found.max_ratio);
    html += fmt::format("<tr>{}<td>{}</td><td>{}[{}]</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>{}</tr>\n",
                        first ? head : "<td></td><td></td>", escaped(output.name), name_of(output.dtype), fmt::join(output.sizes, ", "), compared, largest, where,
                        ratio_text(output.found.ratios.quantile(0.5)), ratio_text(output.found.ratios.quantile(0.99)), output.found.undecided, first ? tail : "<td></td><td></td>");
    first = false;
  }
  return html;
}

std::string section(const DeviceReport& one) {
  std::string html = fmt::format("<h2>{}</h2>\n<p>{} device, {}, Vulkan {}, uuid {}</p>\n", escaped(title_of(one)), escaped(one.device.type), escaped(one.device.driver),
                                 escaped(one.device.api), escaped(one.device.uuid));
  if (!one.refused.empty()) return html + fmt::format("<p class=\"failed\">It was not opened: {}</p>\n", escaped(one.refused));
  if (!one.device.rungs.empty()) html += "<table><tr><th>rung</th><th>in use</th></tr>\n";
  for (const auto& [rung, sentence] : one.device.rungs) html += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(rung), escaped(sentence));
  html += one.device.rungs.empty() ? "" : "</table>\n";
  html += "<table><tr><th>case</th><th></th><th>output</th><th>type</th><th class=\"n\">compared</th><th class=\"n\">largest error / bound</th><th>at</th>"
          "<th class=\"n\">median</th><th class=\"n\">99 %</th><th class=\"n\">undecided</th><th class=\"n\">kernels</th><th class=\"n\">s</th></tr>\n";
  for (const CaseResult& result : one.report.cases) html += rows_of(result);
  html += "</table>\n";
  for (const CaseResult& result : one.report.cases) {
    if (result.verdict != Verdict::failed) continue;
    html += fmt::format("<h3 class=\"failed\">{}</h3>\n<p>{}</p>\n", escaped(result.name), escaped(result.detail));
    for (const OutputResult& output : result.outputs) {
      if (output.found.wrong > 0) html += fmt::format("<p>Where '{}' is wrong, its last axis from left to right:</p>\n{}", escaped(output.name), picture(output.tiles));
    }
  }
  return html;
}

nlohmann::ordered_json to_json(const OutputResult& output) {
  return {{"name", output.name}, {"dtype", name_of(output.dtype)}, {"shape", output.sizes}, {"compared", output.found.elements}, {"wrong", output.found.wrong},
          {"undecided", output.found.undecided}, {"unbounded", output.unbounded}, {"max_error_over_bound", output.found.max_ratio},
          {"p50", output.found.ratios.quantile(0.5)}, {"p99", output.found.ratios.quantile(0.99)}, {"worst", output.worst}};
}

}  // namespace

std::string to_html(const std::vector<DeviceReport>& devices, const ValidateOptions& options) {
  std::string html = fmt::format("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>vkfuse validate</title><style>{}</style></head><body>\n<h1>vkfuse validate</h1>\n", kStyle);
  html += fmt::format("<p>vkfuse {}, fusion {}, {} numerics, random inputs of seed {}. Each element is compared with a reference in double precision, which carries a bound on the "
                      "rounding errors of a right device: an error / bound over 1 is wrong. Elements are undecided where a rounding error decides between results that differ.</p>\n",
                      vkf_version(), options.fusion ? "on" : "off", options.numerics == Numerics::strict ? "strict" : options.numerics == Numerics::half_sums ? "half-sums" : "standard", options.seed);
  html += summary(devices);
  for (const DeviceReport& one : devices) html += section(one);
  return html + "</body></html>\n";
}

std::string to_json(const std::vector<DeviceReport>& devices) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const DeviceReport& one : devices) {
    for (const CaseResult& result : one.report.cases) {
      nlohmann::ordered_json outputs = nlohmann::ordered_json::array();
      for (const OutputResult& output : result.outputs) outputs.push_back(to_json(output));
      json.push_back({{"device", one.device.name}, {"uuid", one.device.uuid}, {"name", result.name}, {"verdict", word_of(result.verdict)}, {"detail", result.detail},
                      {"max_error_over_bound", result.max_ratio}, {"kernels", result.kernels}, {"host_steps", result.host_steps}, {"seconds", result.seconds}, {"outputs", std::move(outputs)}});
    }
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace vkfuse::tool
