// vkfuse-bench: how fast fused kernels are on a device, beside one kernel per op and a plain copy.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <regex>

#include "base/command_main.hpp"
#include "base/files.hpp"
#include "base/limit_text.hpp"
#include "compare.hpp"
#include "generation/suite.hpp"
#include "os/files.hpp"
#include "os/system.hpp"
#include "page.hpp"
#include "peaks.hpp"
#include "report.hpp"
#include "session.hpp"
#include "submission.hpp"
#include "suite.hpp"

namespace {

using namespace vkfuse;
using namespace vkfuse::bench;

struct Arguments {
  std::string suite = "quick";
  std::string filter;
  std::vector<std::string> cases;
  bool list = false;
  std::string device;
  std::vector<std::string> disable;
  std::vector<std::string> limits;
  std::string resume;
  SuiteOptions run;

  CompareOptions compare;
  std::vector<std::string> compared;
  std::vector<std::string> reported;
  std::string page;
  std::string submitted;   ///< a report to make a submission of; empty: a run is made for it
  std::string submission;  ///< its file; empty: named after the device and the day
};

/// A row is chosen by its name, its group or its case at full size.
bool matches(const Row& row, const std::regex& filter, const std::string& text) {
  return std::regex_search(row.name, filter) || row.group == text ||
         std::regex_search(case_text(row, row.full), filter);
}

/// Instruction peaks that '--filter' matches.
std::vector<Instruction> named_peaks(const Arguments& arguments) {
  std::vector<Instruction> named;
  if (!arguments.cases.empty()) return named;
  const std::regex filter(arguments.filter);
  for (const Instruction instruction : kInstructions) {
    if (arguments.filter == kPeakGroup || std::regex_search(peak_name(instruction), filter))
      named.push_back(instruction);
  }
  return named;
}

Result<std::vector<Request>> chosen_rows(const Arguments& arguments) {
  std::vector<Request> chosen;
  for (const std::string& text : arguments.cases) {
    VKF_TRY(request, parse_case(text));
    chosen.push_back(request);
  }
  if (!chosen.empty()) return chosen;
  // A case as it was printed, at the size that ran.
  if (const auto pasted = parse_case(arguments.filter); pasted.ok()) return std::vector<Request>{*pasted};
  try {
    const std::regex filter(arguments.filter);
    const bool named = !arguments.filter.empty() || arguments.suite != "quick" || arguments.run.sweep || arguments.list;
    for (const Row& row : rows()) {
      if (arguments.run.sweep && !row.traits.sweep) continue;
      const bool asked_for = !arguments.filter.empty() || arguments.list;
      if (row.traits.named ? !asked_for : !named && !row.traits.quick) continue;
      if (matches(row, filter, arguments.filter)) chosen.push_back({&row, {}});
    }
  } catch (const std::regex_error& error) {
    return invalid("'--filter {}' is no regular expression: {}.", arguments.filter, error.what());
  }
  if (chosen.empty() && (arguments.run.sweep || arguments.run.planners || named_peaks(arguments).empty()))
    return make_error(ErrorCode::not_found, "No row matches '--filter {}'; --list shows them.", arguments.filter);
  return chosen;
}

/// All of a suite; of rows that were asked for by name, those that they are compared with.
std::vector<Instruction> chosen_peaks(const Arguments& arguments, const std::vector<Request>& rows) {
  if (arguments.filter.empty() && arguments.cases.empty()) return {std::begin(kInstructions), std::end(kInstructions)};
  std::vector<Instruction> chosen = named_peaks(arguments);
  for (const Instruction instruction : instructions_of(rows)) {
    if (std::find(chosen.begin(), chosen.end(), instruction) == chosen.end()) chosen.push_back(instruction);
  }
  return chosen;
}

Result<DeviceOptions> device_options(const Arguments& arguments) {
  DeviceOptions options;
  if (arguments.device != "all") options.name = arguments.device;
  options.disable = arguments.disable;
  for (const std::string& text : arguments.limits) {
    VKF_TRY(limit, parse_limit(text));
    options.limits[limit.first] = limit.second;
  }
  return options;
}

Result<int> measure(Arguments& arguments) {
  const std::pair<const char*, std::string> files[] = {
      {"--json", arguments.run.json}, {"--csv", arguments.run.csv}, {"--html", arguments.run.html}};
  for (std::size_t i = 0; i < std::size(files); ++i) {
    for (std::size_t j = i + 1; j < std::size(files); ++j) {
      if (is_same_file(os::to_path(files[i].second), os::to_path(files[j].second)))
        return invalid("The files of {} and {} are one, '{}'.", files[i].first, files[j].first, files[j].second);
    }
  }
  VKF_TRY(chosen, chosen_rows(arguments));
  const std::vector<Instruction> peaks = chosen_peaks(arguments, chosen);
  if (arguments.list) {
    for (const Instruction instruction : peaks)
      fmt::print("{:<24} {:<8} {:<6}\n", peak_name(instruction), kPeakGroup, "quick");
    for (const Request& request : chosen) {
      fmt::print("{:<24} {:<8} {:<6} {}\n", request.row->name, request.row->group,
                 request.row->traits.quick   ? "quick"
                 : request.row->traits.named ? "named"
                                             : "",
                 case_text(*request.row, request.sizes.empty() ? request.row->full : request.sizes));
    }
    return 0;
  }
  SuiteOptions& run = arguments.run;
  run.quick = arguments.suite == "quick";
  run.requests = std::move(chosen);
  run.peaks = peaks;
  run.all_devices = arguments.device == "all";
  VKF_TRY(options, device_options(arguments));
  run.device = std::move(options);
  if (!arguments.resume.empty()) {
    VKF_TRY(before, read_report(arguments.resume));
    run.before = std::move(before);
    if (run.json.empty()) run.json = arguments.resume;
  }
  run.flags = {{"suite", arguments.suite},   {"filter", arguments.filter},   {"cases", arguments.cases},
               {"device", arguments.device}, {"disable", arguments.disable}, {"limits", arguments.limits}};
  return run_suite(run);
}

Result<int> compare_files(const Arguments& arguments) {
  VKF_TRY(before, read_report(arguments.compared[0]));
  VKF_TRY(after, read_report(arguments.compared[1]));
  VKF_TRY(comparison, compare(before, after, arguments.compare));
  fmt::print("{}", to_text(comparison, arguments.compare));
  return comparison.regressed() ? 1 : 0;
}

Result<int> write_page(const Arguments& arguments) {
  std::vector<nlohmann::json> reports;
  for (const std::string& path : arguments.reported) {
    VKF_TRY(report, read_report(path));
    reports.push_back(std::move(report));
  }
  VKF_CHECK_OK(write_file(arguments.page, to_page(reports)));
  return 0;
}

/// The report to submit: that of a file, or of a run of the suite that writes one.
Result<nlohmann::json> report_to_submit(Arguments& arguments, int& status) {
  if (!arguments.submitted.empty()) return read_report(arguments.submitted);
  VKF_TRY(scratch, ScratchFolder::create());
  if (arguments.run.json.empty()) arguments.run.json = scratch->path() + "/result.json";
  arguments.submitted = arguments.run.json;
  VKF_TRY(measured, measure(arguments));
  status = measured;
  return read_report(arguments.run.json);
}

Result<int> submit(Arguments& arguments) {
  int status = 0;
  VKF_TRY(report, report_to_submit(arguments, status));
  VKF_TRY(text, to_submission(report, arguments.submitted));
  const std::string path = arguments.submission.empty() ? submission_name(report) : arguments.submission;
  if (is_same_file(os::to_path(path), os::to_path(arguments.submitted)))
    return invalid("The submission and the report are one file, '{}'.", path);
  VKF_CHECK_OK(write_file(path, text));
  fmt::print("{}: {} bytes, to be sent with an issue of the project\n", path, text.size());
  return status;
}

void add_measuring(CLI::App& app, Arguments& arguments) {
  app.add_option("--suite", arguments.suite,
                 "quick or full; or generation, of language models, or parallel, over the ranks of an MPI job: "
                 "each has its own --help")
      ->check(CLI::IsMember({"quick", "full"}));
  app.add_option("--filter", arguments.filter, "Only rows whose name or case has a match of this regular expression");
  app.add_option("--case", arguments.cases, "Exactly this case, as softmax:f32:16384x4096; may be given again");
  app.add_flag("--list", arguments.list, "List the rows with their sizes on a data-centre GPU");
  auto* check = app.add_flag("--check", arguments.run.check, "Compare every row with the reference; time nothing");
  app.add_flag("--sweep", arguments.run.sweep, "Compare the default schedule with every other")->excludes(check);
  app.add_flag("--planners", arguments.run.planners,
               "Plan, check and time every row by each planner; exit status 1 if another one does better by the model");
  app.add_option("-d,--device", arguments.device, "An index, a UUID, a part of the name, or all");
  app.add_option("--disable", arguments.disable, "Do without a feature tier (T1, T2) or a feature (int64)")
      ->delimiter(',');
  app.add_option("--limit", arguments.limits, "Lower a limit: NAME=NUMBER, or NAME=16KiB");
  app.add_flag("--wide", arguments.run.wide,
               "All columns of the table, as in a file: a terminal gets those that it has room for");
  app.add_option("--json", arguments.run.json, "Write the results as JSON");
  app.add_option("--csv", arguments.run.csv, "Write the results as CSV");
  app.add_option("--html", arguments.run.html, "Write the results as a page");
  app.add_option("--resume", arguments.resume, "Go on with this JSON file: what it has is not measured again");
}

CLI::App* add_compare(CLI::App& app, Arguments& arguments) {
  CLI::App* sub = app.add_subcommand("compare", "Say which rows of B are slower than in A; exit status 1 if one is");
  sub->add_option("files", arguments.compared, "Two JSON files")->required()->expected(2);
  sub->add_option("--threshold", arguments.compare.threshold, "Percent that do not count")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--of", arguments.compare.what, "Which times")
      ->check(CLI::IsMember({"fused", "framework", "unfused", "copy"}));
  sub->add_flag("--relative", arguments.compare.relative, "Compare times divided by the copy's of the same run");
  return sub;
}

CLI::App* add_report(CLI::App& app, Arguments& arguments) {
  CLI::App* sub = app.add_subcommand("report", "Draw JSON files side by side as one page");
  sub->add_option("files", arguments.reported, "JSON files")->required();
  sub->add_option("-o,--output", arguments.page, "The page")->required();
  return sub;
}

CLI::App* add_submit(CLI::App& app, Arguments& arguments) {
  CLI::App* sub = app.add_subcommand(
      "submit", "Write a small file of a run, to be sent: of FILE, or of a run of the suite that is made for it");
  sub->add_option("file", arguments.submitted, "A JSON file of --json");
  sub->add_option("-o,--output", arguments.submission, "The submission; without it, named after the device");
  sub->fallthrough();
  return sub;
}

bool asks_for_suite(std::string_view name, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--suite=" + std::string(name) || (word == "--suite" && i + 1 < argc && argv[i + 1] == name))
      return true;
  }
  return false;
}

std::vector<std::string> words_without_suite(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--suite") ++i;
    if (!word.starts_with("--suite")) words.push_back(word);
  }
  return words;
}

/// `--suite parallel` is another program, which is linked with MPI, in the same folder.
int run_parallel(int argc, char** argv) {
  const std::string own = argv[0];
  const std::string program = own.substr(0, own.find_last_of('/') + 1) + "vkfuse-bench-parallel";
  os::become(program, words_without_suite(argc, argv));
  std::fprintf(stderr, "vkfuse-bench: '--suite parallel' runs '%s', which is built where MPI is: %s.\n",
               program.c_str(), os::last_failure().c_str());
  return 2;
}

int run_generation(int argc, char** argv) {
  const std::vector<std::string> words = words_without_suite(argc, argv);
  std::vector<const char*> arguments = {argv[0]};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return run_generation_command(static_cast<int>(arguments.size()), arguments.data());
}

int run_command(int argc, char** argv) {
  if (asks_for_suite("parallel", argc, argv)) return run_parallel(argc, argv);
  if (asks_for_suite("generation", argc, argv)) return run_generation(argc, argv);
  CLI::App app{"vkfuse-bench: fused kernels beside one kernel per op and a plain copy, checked and timed"};
  app.allow_windows_style_options(false);  // a path may begin with '/'
  app.set_version_flag("--version", VKFUSE_VERSION);
  Arguments arguments;
  add_measuring(app, arguments);
  const CLI::App* comparing = add_compare(app, arguments);
  const CLI::App* reporting = add_report(app, arguments);
  const CLI::App* submitting = add_submit(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "vkfuse-bench: %s. Try 'vkfuse-bench --help'.\n", error.what());
    return 2;
  }
  const Result<int> status = comparing->parsed()    ? compare_files(arguments)
                             : reporting->parsed()  ? write_page(arguments)
                             : submitting->parsed() ? submit(arguments)
                                                    : measure(arguments);
  if (status.ok()) return *status;
  std::fprintf(stderr, "vkfuse-bench: %s\n", status.error().text().c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  return command_main("vkfuse-bench", [&] { return run_command(argc, argv); });
}
