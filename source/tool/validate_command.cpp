// vkfuse validate: every case on one device, or on every one.
#include <cstdio>
#include <filesystem>

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

/// Outputs of another program: one report without a device.
Result<int> compare_outputs(const ValidateCommand& command, const ValidateOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(command.outputs, ignored))
    return make_error(ErrorCode::not_found, "There is no folder '{}'.", command.outputs);
  if (command.paths.size() != 1)
    return invalid("--outputs takes one model or case folder, but {} were given.", command.paths.size());
  const std::filesystem::path path = command.paths[0];
  if (!std::filesystem::exists(path, ignored))
    return make_error(ErrorCode::not_found, "There is no file or folder '{}'.", path.string());
  std::vector<DeviceReport> reports(1);
  reports[0].device.name = "outputs of " + command.outputs;
  const CaseResult& result = reports[0].report.cases.emplace_back(validate_outputs(path, command.outputs, options));
  std::fputs(to_text(result).c_str(), stdout);
  if (!command.json.empty()) VKF_CHECK_OK(write_file(command.json, to_json(reports)));
  if (!command.report.empty()) VKF_CHECK_OK(write_file(command.report, to_html(reports, options)));
  return result.verdict == Verdict::failed ? 1 : result.verdict == Verdict::passed ? 0 : 2;
}

}  // namespace

Result<int> validate_models(const Common& common, const ValidateCommand& command) {
  ValidateOptions options;
  options.fusion = command.fusion == "on";
  options.numerics = common.strict             ? Numerics::strict
                     : common.f16_accumulation ? Numerics::f16_accumulation
                                               : Numerics::standard;
  options.seed = command.seed;
  if (command.time_limit_s > 0) options.time_limit_s = command.time_limit_s;
  options.without = common.without;
  options.planner = common.planner;
  VKF_TRY(given, read_inputs(command.inputs));
  VKF_TRY(how, model_options(common, given));
  options.model = std::move(how);
  options.inputs = std::move(given);
  if (!command.outputs.empty()) return compare_outputs(command, options);
  VKF_TRY(device_requested, device_options(common));
  device_requested.self_check = true;
  VKF_TRY(found, requested_devices(common, device_requested, !command.report.empty()));
  std::vector<DeviceReport> reports;
  ValidateReport all;
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
    for (const std::string& path : command.paths) {
      if (!command.inputs.empty() && std::filesystem::is_directory(path))
        return invalid("'{}' is a folder, whose cases have inputs of their own: --input is for models.", path);
      auto report = validate_path(*device, path, options, [&](const CaseResult& result) {
        std::fputs(to_text(result).c_str(), stdout);
        std::fflush(stdout);
        for (const std::string& note : result.notes)
          std::fprintf(stderr, "vkfuse: note: %s: %s\n", result.name.c_str(), note.c_str());
      });
      if (!report) {
        usage = std::move(report).error();
        continue;
      }
      one.report.cases.insert(one.report.cases.end(), report->cases.begin(), report->cases.end());
    }
    all.cases.insert(all.cases.end(), one.report.cases.begin(), one.report.cases.end());
  }
  if (!command.json.empty()) VKF_CHECK_OK(write_file(command.json, to_json(reports)));
  if (!command.report.empty()) VKF_CHECK_OK(write_file(command.report, to_html(reports, options)));
  std::printf("%d passed, %d failed, %d skipped", all.count(Verdict::passed), all.count(Verdict::failed),
              all.count(Verdict::skipped));
  if (const int idle = all.count(Verdict::idle); idle > 0) std::printf(", %d idle: computed on import", idle);
  std::printf("\n");
  if (all.count(Verdict::failed) > 0) return 1;
  if (usage) return *std::move(usage);
  return all.count(Verdict::passed) > 0 ? 0 : 2;
}

}  // namespace vkfuse::tool
