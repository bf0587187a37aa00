// What a validation found, as text, as a page and as JSON.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/wrapped.hpp"
#include "tool/validate.hpp"
#include "vkfuse/vkfuse.h"

namespace vkfuse::tool {

namespace {

constexpr const char* kStyle = R"(
  body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222;
  background: #fff }
  h1 { font-size: 1.5em } h2 { font-size: 1.2em; margin-top: 2em } h3 { font-size: 1em }
  table { border-collapse: collapse; margin: .8em 0 } th, td { border-bottom: 1px solid #ddd;
  padding: .25em .8em .25em 0; text-align: left; vertical-align: top }
  td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
  td.at { white-space: nowrap }
  .passed { color: #17692f } .failed { color: #b00020; font-weight: 600 } .skipped { color: #666 }
  .tiles { border-spacing: 1px; border-collapse: separate } .tiles td { width: 10px; height: 10px; padding: 0;
  border: 0; background: #cfe8d5 }
  @media (prefers-color-scheme: dark) {
    body { color: #ddd; background: #16181c } th, td { border-color: #333 } .passed { color: #6fcf8a }
    .failed { color: #ff8a8a } .skipped { color: #999 }
    .tiles td { background: #244a2f }
  }
)";

const char* word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "passed";
    case Verdict::failed: return "failed";
    case Verdict::skipped: return "skipped";
    case Verdict::idle: return "idle";
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

/// A dash where nothing is known.
std::string ratio_text(double ratio, bool known = true) {
  return !known ? "-" : ratio == 0 ? "0" : ratio < 100 ? fmt::format("{:.2g}", ratio) : fmt::format("{:.0f}", ratio);
}
std::string ratio_text(const reference::Deviation& found) { return ratio_text(found.max_ratio, found.compared > 0); }

std::string position_text(const std::vector<std::int64_t>& position) {
  return position.empty() ? "" : fmt::format("[{}]", fmt::join(position, ", "));
}

/// "y", and of which part or data set it is.
std::string label_of(const OutputResult& output) {
  std::string text = output.name;
  if (output.part > 0) text += fmt::format(" (part {})", output.part);
  if (output.data_set > 0) text += fmt::format(" (data set {})", output.data_set);
  return text;
}

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
      std::string figures;
      const OutputResult *by_reference = found->worst_by_reference(), *by_file = found->worst_by_file();
      if (by_reference != nullptr)
        figures += fmt::format(", error / bound {}", ratio_text(by_reference->found.by_reference));
      if (by_file != nullptr)
        figures += fmt::format(", of its files' tolerance {}", ratio_text(*by_file->found.by_file));
      html += fmt::format("<td class=\"{}\">{}{}</td>", word, word, found->verdict == Verdict::skipped ? "" : figures);
    }
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string picture(const reference::TileMap& tiles) {
  std::string html = "<table class=\"tiles\">";
  for (std::int64_t row = 0; row < tiles.rows; ++row) {
    html += "<tr>";
    for (std::int64_t column = 0; column < tiles.columns; ++column) {
      const auto at = static_cast<std::size_t>(row * tiles.columns + column);
      const std::string title = fmt::format("{} of {} wrong", tiles.wrong[at], tiles.compared[at]);
      // From faint to full, so that one wrong element of a tile is seen.
      const double part =
          tiles.compared[at] == 0 ? 0 : static_cast<double>(tiles.wrong[at]) / static_cast<double>(tiles.compared[at]);
      html += part == 0 ? fmt::format("<td title=\"{}\"></td>", title)
                        : fmt::format("<td title=\"{}\" style=\"background:rgba(214,0,40,{:.2f})\"></td>", title,
                                      0.35 + 0.65 * part);
    }
    html += "</tr>";
  }
  return html + "</table>\n";
}

std::string rows_of(const CaseResult& result) {
  const char* const word = word_of(result.verdict);
  const std::string head = fmt::format("<td>{}</td><td class=\"{}\">{}</td>", escaped(result.name), word, word);
  const std::string tail =
      fmt::format("<td class=\"n\">{}</td><td class=\"n\">{:.2f}</td>", result.kernels, result.seconds);
  if (result.outputs.empty())
    return fmt::format("<tr>{}<td colspan=\"10\">{}</td>{}</tr>\n", head, escaped(result.detail), tail);
  std::string html;
  bool first = true;
  const auto number = [](const std::string& text) { return fmt::format("<td class=\"n\">{}</td>", text); };
  const auto largest = [&](const reference::Deviation& found) {
    const std::string wrong =
        found.wrong > 0 ? fmt::format("<span class=\"failed\">{} wrong</span>, ", found.wrong) : "";
    return number(wrong + ratio_text(found));
  };
  for (const OutputResult& output : result.outputs) {
    const reference::OutputComparison& outcome = output.found;
    const reference::Deviation& found = outcome.by_reference;
    std::int64_t count = 1;
    for (const std::int64_t size : output.sizes) count *= size;
    html += fmt::format("<tr>{}<td>{}</td><td>{}[{}]</td>", first ? head : "<td></td><td></td>",
                        escaped(label_of(output)), name_of(output.dtype), fmt::join(output.sizes, ", "));
    html +=
        number(outcome.elements == count ? fmt::format("{}", count) : fmt::format("{} of {}", outcome.elements, count));
    html += fmt::format("{}<td class=\"at\">{}</td>", largest(found), position_text(output.worst));
    for (const double part : {0.5, 0.99}) html += number(ratio_text(found.ratios.quantile(part), found.compared > 0));
    html += number(fmt::format("{}", std::max(outcome.undecided, outcome.unbounded)));
    html += fmt::format("{}<td class=\"at\">{}</td>", outcome.by_file ? largest(*outcome.by_file) : "<td></td>",
                        position_text(output.file_worst));
    html += (first ? tail : "<td></td><td></td>") + std::string("</tr>\n");
    first = false;
  }
  return html;
}

std::string section(const DeviceReport& one) {
  std::string html = fmt::format("<h2>{}</h2>\n<p>{} device, {}, Vulkan {}, uuid {}</p>\n", escaped(title_of(one)),
                                 escaped(one.device.type), escaped(one.device.driver), escaped(one.device.api),
                                 escaped(one.device.uuid));
  if (!one.refused.empty())
    return html + fmt::format("<p class=\"failed\">It was not opened: {}</p>\n", escaped(one.refused));
  if (!one.device.feature_tiers.empty()) html += "<table><tr><th>feature tier</th><th>in use</th></tr>\n";
  for (const auto& [tier, sentence] : one.device.feature_tiers)
    html += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(tier), escaped(sentence));
  html += one.device.feature_tiers.empty() ? "" : "</table>\n";
  html +=
      "<table><tr><th>case</th><th></th><th>output</th><th>type</th><th class=\"n\">compared</th><th "
      "class=\"n\">largest error / bound</th><th>at</th>"
      "<th class=\"n\">median</th><th class=\"n\">99 %</th><th class=\"n\">no bound</th><th class=\"n\">error / "
      "tolerance of a file</th><th>at</th><th class=\"n\">kernels</th><th class=\"n\">s</th></tr>\n";
  for (const CaseResult& result : one.report.cases) html += rows_of(result);
  html += "</table>\n";
  for (const CaseResult& result : one.report.cases) {
    if (result.verdict != Verdict::failed) continue;
    html += fmt::format("<h3 class=\"failed\">{}</h3>\n<p>{}</p>\n", escaped(result.name), escaped(result.detail));
    for (const OutputResult& output : result.outputs) {
      if (!output.found.right())
        html += fmt::format("<p>Where '{}' is wrong, its last axis from left to right:</p>\n{}",
                            escaped(label_of(output)), picture(output.tiles));
    }
  }
  return html;
}

/// Null where nothing is known, and of what is infinite: an element that is wrong though nothing may be off.
nlohmann::ordered_json number(double value, bool known = true) {
  return known && std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json to_json(const reference::TileMap& tiles) {
  if (tiles.rows == 0) return nullptr;
  return {{"rows", tiles.rows}, {"columns", tiles.columns}, {"compared", tiles.compared}, {"wrong", tiles.wrong}};
}

nlohmann::ordered_json to_json(const OutputResult& output) {
  const reference::OutputComparison& outcome = output.found;
  const reference::Deviation& found = outcome.by_reference;
  const bool known = found.compared > 0;
  nlohmann::ordered_json json = {{"name", output.name},
                                 {"part", nullptr},
                                 {"data_set", nullptr},
                                 {"dtype", name_of(output.dtype)},
                                 {"shape", output.sizes},
                                 {"compared", outcome.elements},
                                 {"referenced", outcome.referenced},
                                 {"by_file_alone", outcome.by_file_alone},
                                 {"wrong", outcome.wrong_elements()},
                                 {"undecided", outcome.undecided},
                                 {"unbounded", outcome.unbounded},
                                 {"loose", outcome.loose},
                                 {"beside_unfused", outcome.beside_unfused},
                                 {"max_error", number(found.max_error, known)},
                                 {"max_error_over_bound", number(found.max_ratio, known)},
                                 {"p50", number(found.ratios.quantile(0.5), known)},
                                 {"p99", number(found.ratios.quantile(0.99), known)},
                                 {"worst", output.worst},
                                 {"file", nullptr},
                                 {"tiles", to_json(output.tiles)}};
  if (output.part > 0) json["part"] = output.part;
  if (output.data_set >= 0) json["data_set"] = output.data_set;
  if (outcome.by_file) {
    const reference::Deviation& file = *outcome.by_file;
    const bool compared = file.compared > 0;
    json["file"] = {{"wrong", file.wrong},
                    {"max_error", number(file.max_error, compared)},
                    {"max_error_over_tolerance", number(file.max_ratio, compared)},
                    {"worst", output.file_worst}};
  }
  return json;
}

}  // namespace

std::string to_text(const CaseResult& result) {
  constexpr const char* kWords[] = {"passed ", "FAILED ", "skipped", "idle   "};
  std::string text =
      wrapped("", fmt::format("{} {}: {}", kWords[static_cast<int>(result.verdict)], result.name, result.detail), 2);
  for (const OutputResult& output : result.outputs) {
    if (output.found.right()) continue;
    const auto figures = [&](const char* what, const reference::Deviation& found,
                             const std::vector<std::int64_t>& position) {
      return found.wrong == 0 ? ""
                              : fmt::format(", {} {} at {}", what,
                                            std::isfinite(found.max_ratio) ? fmt::format("{:.3g}", found.max_ratio)
                                                                           : "without limit",
                                            position_text(position));
    };
    std::string line = fmt::format("'{}' {}[{}]: {} of {} elements are wrong", label_of(output), name_of(output.dtype),
                                   fmt::join(output.sizes, ", "), output.found.wrong_elements(), output.found.elements);
    line += figures("largest error / bound", output.found.by_reference, output.worst);
    if (output.found.by_file)
      line += figures("largest error / tolerance of its file", *output.found.by_file, output.file_worst);
    text += wrapped("  ", line + "; the last axis across, all others down:", 2);
    const std::string map = reference::to_text(output.tiles);
    for (std::size_t at = 0; at < map.size(); at = map.find('\n', at) + 1)
      text += "    " + map.substr(at, map.find('\n', at) - at + 1);
  }
  return text;
}

std::string to_html(const std::vector<DeviceReport>& devices, const ValidateOptions& options) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>vkfuse "
      "validate</title><style>{}</style></head><body>\n<h1>vkfuse validate</h1>\n",
      kStyle);
  html += fmt::format(
      "<p>vkfuse {}, fusion {}, {} numerics, random inputs of seed {}. Each element is compared with a reference in "
      "double precision, which carries a bound on the "
      "rounding errors of a right device: an error / bound over 1 is wrong. Where that bound is wider than some last "
      "bits, four times the largest error of one kernel per op is "
      "the bound, too. Elements have no bound where it has grown beyond the output itself, or a rounding error decides "
      "between results that differ.</p>\n",
      vkf_version(), options.fusion ? "on" : "off",
      options.numerics == Numerics::strict             ? "strict"
      : options.numerics == Numerics::f16_accumulation ? "f16-accumulation"
                                                       : "standard",
      options.seed);
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
      const OutputResult *by_reference = result.worst_by_reference(), *by_file = result.worst_by_file();
      json.push_back(
          {{"device", one.device.name},
           {"uuid", one.device.uuid},
           {"name", result.name},
           {"verdict", word_of(result.verdict)},
           {"detail", result.detail},
           {"max_error_over_bound",
            by_reference == nullptr ? nlohmann::ordered_json() : number(by_reference->found.by_reference.max_ratio)},
           {"max_error_over_tolerance",
            by_file == nullptr ? nlohmann::ordered_json() : number(by_file->found.by_file->max_ratio)},
           {"kernels", result.kernels},
           {"copies", result.copies},
           {"host_steps", result.host_steps},
           {"seconds", result.seconds},
           {"notes", result.notes},
           {"outputs", std::move(outputs)}});
    }
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace vkfuse::tool
