// vkfuse-bench: how fast fused kernels are on a device, beside one kernel per op and a plain copy.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <regex>

#include "report.hpp"

namespace {

using namespace vkfuse;
using namespace vkfuse::bench;

struct Arguments {
  std::string suite = "quick";
  std::string filter;
  bool list = false;
  bool sweep = false;
  bool check = false;
  std::string device;
  std::vector<std::string> disable;
  std::vector<std::string> limits;
  std::string json;
};

Result<std::vector<const Row*>> chosen_rows(const Arguments& arguments) {
  std::vector<const Row*> chosen;
  try {
    const std::regex filter(arguments.filter);
    for (const Row& row : rows()) {
      const bool wanted = std::regex_search(row.name.begin(), row.name.end(), filter) || row.group == arguments.filter;
      if (wanted && (row.traits.sweep || !arguments.sweep)) chosen.push_back(&row);
    }
  } catch (const std::regex_error& error) {
    return invalid("'--filter {}' is no regular expression: {}.", arguments.filter, error.what());
  }
  if (chosen.empty()) return make_error(ErrorCode::not_found, "No row matches '--filter {}'; --list shows them.", arguments.filter);
  return chosen;
}

Result<DeviceOptions> device_options(const Arguments& arguments) {
  DeviceOptions options;
  options.name = arguments.device;
  options.disable = arguments.disable;
  for (const std::string& limit : arguments.limits) {
    const std::size_t equals = std::min(limit.find('='), limit.size() - 1);
    std::uint64_t value = 0;
    const char* end = limit.data() + limit.size();
    const auto parsed = std::from_chars(limit.data() + equals + 1, end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end) return invalid("'--limit {}' is not NAME=NUMBER.", limit);
    options.limits[limit.substr(0, equals)] = value;
  }
  return options;
}

/// Which row is being measured, on stderr while somebody watches it.
class Progress {
 public:
  void show(std::size_t done, std::size_t all, std::string_view name) {
    if (shown_) fmt::print(stderr, "\r[{}/{}] {:<40}", done + 1, all, name);
  }
  /// Before a line of the report, so that the two do not mix on one terminal.
  void clear() {
    if (shown_) fmt::print(stderr, "\r{:<60}\r", "");
  }

 private:
  bool shown_ = isatty(STDERR_FILENO) != 0;
};

Result<void> write_json(const std::string& path, const nlohmann::json& report) {
  if (path.empty()) return {};
  std::ofstream file(path, std::ios::trunc);
  file << report.dump(1) << '\n';
  file.close();
  if (!file) return make_error(ErrorCode::io, "The file '{}' could not be written.", path);
  return {};
}

/// Everything on one device, with "good" for the exit status.
class Run {
 public:
  Run(const Arguments& arguments, const std::vector<const Row*>& chosen, bool& good) : arguments_(arguments), chosen_(chosen), good_(good) {}

  Result<nlohmann::json> on(const DeviceOptions& options) {
    Session session;
    VKF_TRY(context, runtime::Context::open(options));
    session.context = std::move(context);
    session.quick = arguments_.suite == "quick";
    session.check_only = arguments_.check;
    const char* spoil = std::getenv("VKFUSE_BENCH_SPOIL");
    session.spoil = spoil != nullptr ? spoil : "";
    VKF_TRY(about, environment(session));
    report_ = {{"environment", about}};
    fmt::print("{}, {}, suite {}\n", about["device"].get<std::string>(), about["driver"].get<std::string>(), arguments_.suite);
    fmt::print("{}\n", arguments_.sweep ? sweep_head() : table_head(arguments_.check));
    if (arguments_.sweep) {
      VKF_CHECK_OK(measure_all("sweep", [&](const Row& row) { return sweep_row(session, row); }));
    } else {
      VKF_CHECK_OK(measure_all("rows", [&](const Row& row) { return bench_row(session, row); }));
    }
    return std::move(report_);
  }

 private:
  template <typename Measure>
  Result<void> measure_all(const char* key, Measure&& measure) {
    Progress progress;
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      progress.show(i, chosen_.size(), chosen_[i]->name);
      const auto result = measure(*chosen_[i]);
      progress.clear();
      fmt::print("{}\n", table_line(result));
      std::fflush(stdout);
      report_[key].push_back(to_json(result));
      good_ = good_ && result.outcome != Outcome::wrong && result.outcome != Outcome::failed;
      // After every row: a run that is cut off leaves what it has.
      VKF_CHECK_OK(write_json(arguments_.json, report_));
    }
    return {};
  }

  const Arguments& arguments_;
  const std::vector<const Row*>& chosen_;
  bool& good_;
  nlohmann::json report_;
};

/// The exit status: 0, or 1 if a row is wrong or failed.
Result<int> run_all(const Arguments& arguments) {
  VKF_TRY(chosen, chosen_rows(arguments));
  if (arguments.list) {
    for (const Row* row : chosen) fmt::print("{:<20} {:<8} {:<5} {}\n", row->name, row->group, vkfuse::name_of(row->dtype), size_text(*row, row->full));
    return 0;
  }
  VKF_TRY(options, device_options(arguments));
  bool good = true;
  nlohmann::json report;
  if (arguments.device == "all") {
    VKF_TRY(devices, Device::list());
    for (const DeviceDescription& device : devices) {
      options.name = std::to_string(device.index);
      VKF_TRY(one, Run(arguments, chosen, good).on(options));
      report["devices"].push_back(one);
    }
  } else {
    VKF_TRY(one, Run(arguments, chosen, good).on(options));
    report = one;
  }
  VKF_CHECK_OK(write_json(arguments.json, report));
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"vkfuse-bench: fused kernels beside one kernel per op and a plain copy, checked and timed"};
  app.set_version_flag("--version", VKFUSE_VERSION);
  Arguments arguments;
  app.add_option("--suite", arguments.suite, "quick or full")->check(CLI::IsMember({"quick", "full"}));
  app.add_option("--filter", arguments.filter, "Only rows whose name has a match of this regular expression");
  app.add_flag("--list", arguments.list, "List the rows with their sizes on a data-centre GPU");
  auto* check = app.add_flag("--check", arguments.check, "Compare every row with the reference; time nothing");
  app.add_flag("--sweep", arguments.sweep, "Compare the default schedule with every other")->excludes(check);
  app.add_option("-d,--device", arguments.device, "An index, a UUID, a part of the name, or all");
  app.add_option("--disable", arguments.disable, "Do without a rung (T1, T2) or a feature (int64)")->delimiter(',');
  app.add_option("--limit", arguments.limits, "Lower a limit: NAME=VALUE");
  app.add_option("--json", arguments.json, "Write the results as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "vkfuse-bench: %s. Try 'vkfuse-bench --help'.\n", error.what());
    return 2;
  }
  const Result<int> status = run_all(arguments);
  if (status.ok()) return *status;
  std::fprintf(stderr, "vkfuse-bench: %s\n", status.error().text().c_str());
  return 2;
}
