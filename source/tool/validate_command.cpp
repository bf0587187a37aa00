// vkfuse validate: every case on one device, or on every one.
#include <cstdio>
#include <filesystem>

#include "os/files.hpp"
#include "tool/commands.hpp"
#include "tool/validate.hpp"

namespace vkfuse::tool {

namespace {

/// The one that --device names, or all; with what self-tests say of each where that is written down.
Result<std::vector<DeviceDescription>> requested_devices(const Common& common, const DeviceOptions& options,
                                                         bool self_test) {
  if (common.device == "all") return Device::list(self_test);
  VKF_TRY(device, Device::open(options));
  const DeviceDescription wanted = device.description();
  if (!self_test) return std::vector{wanted};
  VKF_TRY(all, Device::list(true));
  std::erase_if(all, [&](const DeviceDescription& one) { return one.index != wanted.index; });
  return all;
}

/// The files of --json and --report.
Result<void> write_reports(const ValidateCommand& command, const ValidateOptions& options,
                           const std::vector<DeviceReport>& reports) {
  if (!command.json.empty()) VKF_CHECK_OK(write_file(os::to_path(command.json), to_json(reports)));
  if (!command.report.empty()) VKF_CHECK_OK(write_file(os::to_path(command.report), to_html(reports, options)));
  return {};
}

/// Outputs of another program: one report without a device.
Result<int> compare_outputs(const ValidateCommand& command, const ValidateOptions& options) {
  std::error_code ignored;
  const std::filesystem::path outputs = os::to_path(command.outputs);
  if (!std::filesystem::is_directory(outputs, ignored))
    return make_error(ErrorCode::not_found, "There is no folder '{}'.", command.outputs);
  if (command.paths.size() != 1)
    return invalid("--outputs takes one model or case folder, but {} were given.", command.paths.size());
  const std::filesystem::path path = os::to_path(command.paths[0]);
  if (!std::filesystem::exists(path, ignored))
    return make_error(ErrorCode::not_found, "There is no file or folder '{}'.", path.string());
  std::vector<DeviceReport> reports(1);
  reports[0].device.name = "outputs of " + command.outputs;
  const CaseResult& result = reports[0].report.cases.emplace_back(validate_outputs(path, outputs, options));
  std::fputs(to_text(result).c_str(), stdout);
  VKF_CHECK_OK(write_reports(command, options, reports));
  return result.verdict == Verdict::failed ? 1 : result.verdict == Verdict::passed ? 0 : 2;
}

Result<ValidateOptions> validate_options(const Common& common, const ValidateCommand& command) {
  ValidateOptions options;
  options.fusion = command.fusion == "on";
  options.numerics = common.strict             ? Numerics::strict
                     : common.f16_accumulation ? Numerics::f16_accumulation
                                               : Numerics::standard;
  options.seed = command.seed;
  if (command.time_limit_s > 0) options.time_limit_s = command.time_limit_s;
  options.without = common.without;
  options.planner = common.planner;
  VKF_TRY(budget, memory_budget_of(common));
  options.memory_budget = budget;
  VKF_TRY(given, read_inputs(command.inputs));
  VKF_TRY(how, model_options(common, given));
  options.model = std::move(how);
  options.inputs = std::move(given);
  return options;
}

void print_case(const CaseResult& result) {
  std::fputs(to_text(result).c_str(), stdout);
  std::fflush(stdout);
  for (const std::string& note : result.notes)
    std::fprintf(stderr, "vkfuse: note: %s: %s\n", result.name.c_str(), note.c_str());
}

/// Validates every path on a device. `usage` takes why a path could not be; an error is one of the command line.
Result<void> validate_paths(const Device& device, const ValidateCommand& command, const ValidateOptions& options,
                            ValidateReport& into, std::optional<Error>& usage) {
  for (const std::string& text : command.paths) {
    const std::filesystem::path path = os::to_path(text);
    if (!command.inputs.empty() && std::filesystem::is_directory(path))
      return invalid("'{}' is a folder, whose cases have inputs of their own: --input is for models.", text);
    auto report = validate_path(device, path, options, print_case);
    if (!report) {
      usage = std::move(report).error();
      continue;
    }
    into.cases.insert(into.cases.end(), report->cases.begin(), report->cases.end());
  }
  return {};
}

/// How many cases of all devices have this verdict.
int count_of(const std::vector<DeviceReport>& reports, Verdict verdict) {
  int count = 0;
  for (const DeviceReport& one : reports) count += one.report.count(verdict);
  return count;
}

void print_counts(const std::vector<DeviceReport>& reports) {
  std::printf("%d passed, %d failed, %d skipped", count_of(reports, Verdict::passed),
              count_of(reports, Verdict::failed), count_of(reports, Verdict::skipped));
  if (const int idle = count_of(reports, Verdict::idle); idle > 0) std::printf(", %d idle: computed on import", idle);
  std::printf("\n");
}

}  // namespace

Result<int> validate_models(const Common& common, const ValidateCommand& command) {
  VKF_TRY(options, validate_options(common, command));
  if (!command.outputs.empty()) return compare_outputs(command, options);
  VKF_TRY(device_requested, device_options(common));
  device_requested.self_check = true;
  VKF_TRY(found, requested_devices(common, device_requested, !command.report.empty()));
  std::vector<DeviceReport> reports;
  std::optional<Error> usage;
  for (DeviceDescription& description : found) {
    if (common.device == "all")
      std::printf("%d: %s, %s\n", description.index, description.name.c_str(), description.driver.c_str());
    device_requested.name = description.uuid;
    const Result<Device> device = Device::open(device_requested);
    DeviceReport& one = reports.emplace_back(DeviceReport{std::move(description), {}, {}});
    if (!device) {
      one.refused = device.error().text();
      usage = device.error();
      std::printf("not opened: %s\n", one.refused.c_str());
      continue;
    }
    VKF_CHECK_OK(validate_paths(*device, command, options, one.report, usage));
  }
  VKF_CHECK_OK(write_reports(command, options, reports));
  print_counts(reports);
  if (count_of(reports, Verdict::failed) > 0) return 1;
  if (usage) return *std::move(usage);
  return count_of(reports, Verdict::passed) > 0 ? 0 : 2;
}

}  // namespace vkfuse::tool
