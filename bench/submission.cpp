#include "submission.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "report.hpp"

namespace vkfuse::bench {

namespace {

using nlohmann::json;

constexpr std::size_t kMostText = 300;

/// A key of a report, under the name that a submission has for it.
struct Kept {
  const char* from;
  const char* as;
  enum class Type : std::uint8_t { text, positive, number, object } type = Type::text;
  bool required = false;
};
using Type = Kept::Type;

constexpr Kept kOfDevice[] = {{"device", "name", Type::text, true},
                              {"type", "type", Type::text, true},
                              {"vendor_id", "vendor_id", Type::number},
                              {"device_id", "device_id", Type::number},
                              {"api", "api"},
                              {"memory_bytes", "memory_bytes", Type::positive}};
constexpr Kept kOfDriver[] = {{"driver", "text", Type::text, true},
                              {"driver_name", "name"},
                              {"driver_info", "info"},
                              {"driver_version", "version", Type::number}};
constexpr Kept kOfRun[] = {{"vkfuse", "vkfuse", Type::text, true},
                           {"suite", "suite", Type::text, true},
                           {"build", "build", Type::object},
                           {"shaderc", "shaderc", Type::object},
                           {"flags", "flags", Type::object},
                           {"host", "host", Type::object},
                           {"sensors_before", "sensors_before", Type::object},
                           {"sensors_after", "sensors_after", Type::object}};
constexpr Kept kOfRow[] = {{"case", "case", Type::text, true},
                           {"name", "name", Type::text, true},
                           {"group", "group", Type::text, true},
                           {"dtype", "dtype", Type::text, true},
                           {"outcome", "outcome", Type::text, true},
                           {"detail", "detail"},
                           {"limit", "limit"},
                           {"peak_of", "peak_of"},
                           {"instruction", "instruction"},
                           {"kernel", "kernel"},
                           {"bytes", "bytes", Type::positive},
                           {"operations", "operations", Type::number},
                           {"copy_gb_s", "copy_gb_s", Type::positive},
                           {"copy_percent", "copy_percent", Type::positive},
                           {"peak_percent", "peak_percent", Type::number},
                           {"gain_over_framework", "gain_over_framework", Type::positive},
                           {"gain_over_unfused", "gain_over_unfused", Type::positive},
                           {"max_error_over_bound", "max_error_over_bound", Type::number},
                           {"gops", "gops", Type::positive}};
/// The times of a row, or of a peak.
constexpr Kept kOfTimes[] = {{"us", "us", Type::positive, true},
                             {"p10", "p10", Type::positive},
                             {"p90", "p90", Type::positive},
                             {"n", "n", Type::positive}};

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

/// What is wrong with a value, or an empty string.
std::string fault_of(const json& value, Type type) {
  switch (type) {
    case Type::text:
      if (!value.is_string()) return "is no text";
      return value.get_ref<const std::string&>().size() <= kMostText ? "" : "is longer than 300 bytes";
    case Type::object: return value.is_object() ? "" : "is no object";
    case Type::number:
    case Type::positive: break;
  }
  if (!value.is_number()) return "is no number";
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < 0) return "is no number that can be measured";
  return type == Type::positive && number == 0 ? "is 0" : "";
}

/// Copies keys, as they are or refused. A key that is missing or null is null.
class Picker {
 public:
  explicit Picker(std::string path) : path_(std::move(path)) {}

  template <std::size_t Count>
  Result<void> pick(const json& from, const Kept (&keys)[Count], const std::string& prefix, json& to) const {
    for (const Kept& key : keys) {
      const std::string name = prefix + key.from;
      const auto found = from.find(name);
      if (found == from.end() || found->is_null()) {
        if (key.required) return refuse("it lacks '{}' of {}", name, where_);
        to[key.as] = nullptr;
        continue;
      }
      const std::string fault = fault_of(*found, key.type);
      if (!fault.empty()) return refuse("'{}' of {} {}: {}", name, where_, fault, shown(*found));
      to[key.as] = *found;
    }
    return {};
  }

  template <typename... Arguments>
  [[nodiscard]] Error refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    return invalid("The file '{}' cannot be submitted: {}.", path_,
                   fmt::format(text, std::forward<Arguments>(arguments)...));
  }

  /// What the sentences after this one are about.
  void at(std::string where) { where_ = std::move(where); }

 private:
  std::string path_;
  std::string where_ = "its environment";
};

/// A row or a peak, whose times begin with `times`.
Result<json> small_row(Picker& picker, const json& row, const std::string& times, std::size_t index) {
  json small = json::object();
  picker.at(fmt::format("row {}", index));
  VKF_CHECK_OK(picker.pick(row, kOfRow, "", small));
  if (small["outcome"] == "measured") VKF_CHECK_OK(picker.pick(row, kOfTimes, times, small));
  std::erase_if(small.get_ref<json::object_t&>(), [](const auto& item) { return item.second.is_null(); });
  return small;
}

/// Compilers' messages have many lines.
json first_line_of_detail(json row) {
  if (!row.is_object() || !row.contains("detail") || !row["detail"].is_string()) return row;
  std::string text = row["detail"];
  text.resize(std::min(text.find('\n'), text.size()));
  if (text.size() > kMostText) text = text.substr(0, kMostText - 3) + "...";
  row["detail"] = text;
  return row;
}

Result<json> small_rows(Picker& picker, const json& report, const char* key, const std::string& times) {
  json rows = json::array();
  std::vector<std::string> seen;
  for (const json& row : report.value(key, json::array())) {
    VKF_TRY(small, small_row(picker, first_line_of_detail(row), times, rows.size()));
    const std::string name = small["case"];
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return picker.refuse("the case '{}' is in it twice", name);
    seen.push_back(name);
    rows.push_back(std::move(small));
  }
  return rows;
}

Result<json> small_run(const json& report, const std::string& path) {
  Picker picker(path);
  const json& environment = report["environment"];
  json run = json::object();
  VKF_CHECK_OK(picker.pick(environment, kOfDevice, "", run["device"]));
  VKF_CHECK_OK(picker.pick(environment, kOfDriver, "", run["driver"]));
  VKF_CHECK_OK(picker.pick(environment, kOfRun, "", run));
  run["complete"] = report.value("complete", json(false));
  VKF_TRY(rows, small_rows(picker, report, "rows", "fused_"));
  VKF_TRY(peaks, small_rows(picker, report, "peaks", "peak_"));
  const auto counts = [](const json& row) {
    const std::string outcome = row["outcome"];
    return outcome == "measured" || outcome == "wrong";
  };
  if (std::none_of(rows.begin(), rows.end(), counts))
    return picker.refuse("it has no row that was timed (reports of --check, --sweep and --planners have none)");
  run["rows"] = std::move(rows);
  run["peaks"] = std::move(peaks);
  return run;
}

}  // namespace

Result<std::string> to_submission(const json& report, const std::string& path) {
  json submission = {{"format", kSubmissionFormat}, {"version", kSubmissionVersion}, {"runs", json::array()}};
  for (const json* device : devices_of(report)) {
    VKF_TRY(run, small_run(*device, path));
    // Of a report of several devices, one word for all.
    if (report.contains("devices")) run["complete"] = report.value("complete", json(false));
    submission["runs"].push_back(std::move(run));
  }
  std::string text = submission.dump(-1, ' ', true, json::error_handler_t::replace) + '\n';
  if (text.size() > kMostSubmissionBytes)
    return invalid("The file '{}' cannot be submitted: its submission would have {} bytes, and {} are the most.", path,
                   text.size(), kMostSubmissionBytes);
  return text;
}

std::string submission_name(const json& report) {
  const json& environment = (*devices_of(report).front())["environment"];
  std::string device = environment.value("device", "");
  device.resize(std::min(device.find(" ("), device.size()));
  std::string name = "submission";
  for (const char letter : '-' + device) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    if (plain) name += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    if (!plain && name.back() != '-') name += '-';
  }
  if (name.back() == '-') name.pop_back();
  const json sensors = environment.value("sensors_before", json::object());
  const std::string day = sensors.is_object() && sensors.contains("time") && sensors["time"].is_string()
                              ? sensors["time"].get<std::string>().substr(0, 10)
                              : "";
  const bool is_day = day.size() == 10 && day.find_first_not_of("0123456789-") == std::string::npos;
  return name.substr(0, 80) + (is_day ? '-' + day : "") + ".json";
}

}  // namespace vkfuse::bench
