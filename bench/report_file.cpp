// Reports as files.
#include <algorithm>
#include <string_view>

#include "base/files.hpp"
#include "os/files.hpp"
#include "report.hpp"

namespace vkfuse::bench {

namespace {

using nlohmann::json;

constexpr const char* kFromEnvironment[] = {"device", "driver", "suite"};
constexpr const char* kFromRow[] = {"case",
                                    "name",
                                    "group",
                                    "dtype",
                                    "size",
                                    "outcome",
                                    "detail",
                                    "bytes",
                                    "operations",
                                    "max_error_over_bound",
                                    "samples_checked",
                                    "fused_us",
                                    "fused_p10",
                                    "fused_p90",
                                    "fused_n",
                                    "fused_stream_us",
                                    "fused_stream_p10",
                                    "fused_stream_p90",
                                    "fused_wall_us",
                                    "fused_replay_us",
                                    "fused_replay_p10",
                                    "fused_replay_p90",
                                    "framework_us",
                                    "framework_p10",
                                    "framework_p90",
                                    "framework_stream_us",
                                    "framework_wall_us",
                                    "unfused_us",
                                    "unfused_p10",
                                    "unfused_p90",
                                    "unfused_stream_us",
                                    "unfused_wall_us",
                                    "copy_us",
                                    "copy_p10",
                                    "copy_p90",
                                    "copy_stream_us",
                                    "copy_wall_us",
                                    "fused_gb_s",
                                    "copy_gb_s",
                                    "copy_percent",
                                    "peak_percent",
                                    "peak_of",
                                    "beside",
                                    "beside_us",
                                    "beside_percent",
                                    "limit",
                                    "gain_over_framework",
                                    "gain_over_unfused",
                                    "own_copy_percent_fused",
                                    "own_copy_percent_framework",
                                    "own_copy_percent_unfused",
                                    "kernels_fused",
                                    "kernels_framework",
                                    "kernels_unfused",
                                    "compile_ms_fused",
                                    "pipeline_ms_fused",
                                    "create_ms_fused",
                                    "first_run_ms_fused",
                                    "first_run_ms_unfused",
                                    "compiler_calls_fused",
                                    "compile_ms_fused_warm",
                                    "pipeline_ms_fused_warm",
                                    "create_ms_fused_warm",
                                    "first_run_ms_fused_warm",
                                    "compiler_calls_fused_warm",
                                    "warm_seconds",
                                    "steady"};

/// Quoted where a comma, a quote or a line's end is in it.
std::string cell(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + '"';
}

constexpr std::string_view kTexts[] = {"case",   "name", "group", "dtype",  "size",   "outcome",     "detail", "device",
                                       "driver", "uuid", "suite", "vkfuse", "kernel", "instruction", "beside"};
/// What of a report has rows.
constexpr const char* kLists[] = {"rows", "peaks"};
constexpr std::size_t kMostSamples = 1'000'000;

/// Whether what is read as text is text, and what is read as a time or a count of samples is one.
bool has_types(const json& object) {
  if (!object.is_object()) return false;
  return std::all_of(object.items().begin(), object.items().end(), [](const auto& item) {
    const std::string& key = item.key();
    const json& value = item.value();
    if (std::find(std::begin(kTexts), std::end(kTexts), key) != std::end(kTexts)) return value.is_string();
    if (key.ends_with("_us") || key.ends_with("_p10") || key.ends_with("_p90"))
      return value.is_number() || value.is_null();
    if (key.ends_with("_percent") || key == "gops") return value.is_number() || value.is_null();
    if (key.ends_with("_n")) return value.is_number_unsigned() && value.get<std::uint64_t>() <= kMostSamples;
    return true;
  });
}

bool are_samples(const json& samples) {
  return samples.is_object() && std::all_of(samples.begin(), samples.end(), [](const json& times) {
           return times.is_array() && !times.empty() && times.size() <= kMostSamples &&
                  std::all_of(times.begin(), times.end(), [](const json& us) { return us.is_number(); });
         });
}

bool is_device_report(const json& one) {
  if (!one.is_object() || !one.contains("environment") || !has_types(one["environment"]) ||
      !one["environment"].contains("device"))
    return false;
  return std::all_of(std::begin(kLists), std::end(kLists), [&](const char* key) {
    const json rows = one.value(key, json::array());
    return rows.is_array() && std::all_of(rows.begin(), rows.end(), [](const json& row) {
             return has_types(row) && (!row.contains("samples") || are_samples(row["samples"]));
           });
  });
}

}  // namespace

std::vector<const json*> devices_of(const json& report) {
  if (!report.contains("devices")) return {&report};
  std::vector<const json*> all;
  for (const json& one : report["devices"]) all.push_back(&one);
  return all;
}

std::string to_csv(const json& report) {
  std::string text;
  const auto end_line = [&] { text.back() = '\n'; };
  for (const char* key : kFromEnvironment) text += std::string(key) + ',';
  for (const char* key : kFromRow) text += std::string(key) + ',';
  end_line();
  for (const json* device : devices_of(report)) {
    if (!device->contains("rows")) continue;
    for (const json& row : (*device)["rows"]) {
      for (const char* key : kFromEnvironment) text += cell((*device)["environment"], key) + ',';
      for (const char* key : kFromRow) text += cell(row, key) + ',';
      end_line();
    }
  }
  return text;
}

Result<json> read_report(const std::string& path) {
  VKF_TRY(text, read_whole_file(os::to_path(path), kMostText));
  json report = json::parse(text, nullptr, false);
  if (report.is_discarded()) return invalid("The file '{}' is no JSON.", path);
  if (!report.is_object()) return invalid("The file '{}' is no report of vkfuse-bench: it holds no object.", path);
  if (report.contains("devices") && (!report["devices"].is_array() || report["devices"].empty()))
    return invalid("The file '{}' is no report of vkfuse-bench: its devices are no list, or an empty one.", path);
  for (const json* one : devices_of(report)) {
    if (!is_device_report(*one))
      return invalid(
          "The file '{}' is no report of vkfuse-bench: it lacks an environment with a device, its rows are no list, or "
          "a text, a time or a count in them is something else.",
          path);
  }
  return report;
}

Result<void> write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return {};
  return write_whole_file(os::to_path(path), text);
}

}  // namespace vkfuse::bench
