#include "tool/command_line.hpp"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/program.hpp"
#include "api/tensor_node.hpp"
#include "base/command_main.hpp"
#include "base/files.hpp"
#include "os/files.hpp"
#include "tool/commands.hpp"

namespace {

using namespace vkfuse;
using namespace vkfuse::tool;

/// Options every command takes.
void add_common(CLI::App& command, Common& common) {
  command.add_option("-d,--device", common.device, "An index, a UUID or a part of the name");
  command.add_option("--disable", common.disable, "Do without a feature tier (T1, T2) or a feature (int64)")
      ->delimiter(',');
  command.add_option("--limit", common.limits, "Lower a limit: NAME=NUMBER, or NAME=16KiB");
  command
      .add_option("--without", common.without,
                  "Switch planner passes off: fusion, or others that docs/command-line.md lists")
      ->delimiter(',');
  command.add_option("--planner", common.planner,
                     "Who decides what is stored: bytes, store-all, recompute-all or greedy-io");
  command.add_option("--memory-budget", common.memory_budget,
                     "The most bytes that intermediate values may take: NUMBER, or 512MiB");
  command.add_option("--cache", common.cache, "The folder of compiled kernels, or off");
  command.add_option("--dim", common.dims, "The size of a symbolic dimension: NAME=NUMBER");
  command.add_option("--dtype", common.dtype, "Convert the floats of an f32 model")
      ->check(CLI::IsMember({"f16", "bf16"}));
  command.add_flag("--no-host", common.no_host, "Refuse models with operators that run on the host, between kernels");
  command.add_option("--known", common.known, "Make inputs constants, with the values that are given")->delimiter(',');
  command.add_flag("--allow-custom", common.allow_custom,
                   "Run code that a .vkf file brings along (custom, custom_kernel)");
  CLI::Option* strict = command.add_flag("--strict", common.strict, "Round every op to its dtype");
  command
      .add_flag("--f16-accumulation,--half-sums", common.f16_accumulation,
                "Accumulate products of f16 in f16 where cooperative matrices do")
      ->excludes(strict);
}

/// Of an option: numbers above 0, or 0 as well. Those that CLI11 brings along take NaN for one.
CLI::Validator finite_number(bool or_zero) {
  return {[or_zero](const std::string& text) -> std::string {
            double number = 0;
            const bool is_number = CLI::detail::lexical_cast(text, number) && std::isfinite(number);
            if (is_number && (or_zero ? number >= 0 : number > 0)) return {};
            return fmt::format("'{}' is not a finite number {}", text, or_zero ? "of at least 0" : "above 0");
          },
          "NUMBER"};
}

int finish(const Result<int>& status) {
  if (status.ok()) return *status;
  std::fprintf(stderr, "vkfuse: %s\n", status.error().text().c_str());
  return 2;
}

/// Files that a command is told to write, and the model that it reads, by option.
using NamedFiles = std::vector<std::pair<const char*, std::string>>;

/// Each is another file: the one written last would be all that is left.
Result<void> check_distinct(const NamedFiles& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = i + 1; j < files.size(); ++j) {
      if (!is_same_file(os::to_path(files[i].second), os::to_path(files[j].second))) continue;
      return invalid("The {} and {} name one file, '{}'.", files[i].first, files[j].first, files[j].second);
    }
  }
  return {};
}

template <typename Work>
int run_distinct(const NamedFiles& files, const Work& work) {
  const Result<void> distinct = check_distinct(files);
  return finish(distinct.ok() ? work() : Result<int>(distinct.error()));
}

constexpr const char* kInput = "NAME=FILE.npy, NAME=FILE.pb or NAME=random[:SEED]; others are random";

/// The command line, with what its options are parsed into: each `add_` makes a command, which sets `status` when it
/// is the one that is called.
struct CommandLine {
  CLI::App app{"vkfuse: tensor graphs as fused Vulkan compute kernels"};
  int status = 0;
  Common common;
  bool devices_json = false;
  RunCommand run;
  PlanCommand plan;
  CodeCommand code;
  std::string cache_action;
  ValidateCommand validate;

  void add_devices();
  void add_run();
  void add_plan();
  void add_code(const char* name, const char* what, Stage stage);
  void add_cache();
  void add_validate();
};

void CommandLine::add_devices() {
  CLI::App* command = app.add_subcommand("devices", "List Vulkan devices, their limits and feature tiers");
  add_common(*command, common);
  command->add_flag("--json", devices_json, "Print JSON");
  command->callback([this] { status = finish(list_devices(common, devices_json)); });
}

void CommandLine::add_run() {
  CLI::App* command = app.add_subcommand("run", "Run a model");
  add_common(*command, common);
  command->add_option("model", run.model, "A .onnx or .vkf file")->required();
  command->add_option("--input", run.inputs, kInput);
  command->add_option("--output-dir", run.output_dir, "Write every output there as NAME.npy");
  command->add_option("--top", run.top, "How many of the largest scores of a classifier are printed; 0 for none")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--repeat", run.repeat, "Number of runs")->check(CLI::PositiveNumber);
  command->add_flag(
      "--profile", run.profile,
      "Print the device time of every kernel, the bytes it moves, and at which rate, and of one replay of all");
  command->add_option("--trace", run.trace,
                      "Write the device times of a run to a file that Chrome's about:tracing and Perfetto read");
  command->add_option("--plan", run.plan, "Run as this file says, which plan --save wrote");
  command
      ->add_option("--tune", run.tune_ms,
                   "Measure other schedules for so many milliseconds before the run; the store keeps what is faster")
      ->check(finite_number(true));
  command->callback([this] {
    status = run_distinct({{"model", run.model}, {"file of --plan", run.plan}, {"file of --trace", run.trace}},
                          [this] { return run_model(common, run); });
  });
}

void CommandLine::add_plan() {
  CLI::App* command = app.add_subcommand("plan", "Show which ops share a kernel, what that moves, and why not more");
  add_common(*command, common);
  command->add_option("model", plan.model, "A .onnx or .vkf file")->required();
  command->add_option("--input", plan.inputs, kInput);
  command->add_option("--format", plan.format, "text, json or html")->check(CLI::IsMember({"text", "json", "html"}));
  command->add_option("-o,--output", plan.output, "Write to a file");
  command->add_option("--save", plan.save, "Write the plan to a file that run --plan reads");
  command->add_option("--plan", plan.plan, "Show the plan of a file instead of planning");
  command->add_flag("--profile", plan.profile,
                    "Run on random inputs, and show measured times beside the modelled ones");
  command->callback([this] {
    status = run_distinct({{"model", plan.model}, {"file of --output", plan.output}, {"file of --save", plan.save}},
                          [this] { return show_plan(common, plan); });
  });
}

void CommandLine::add_code(const char* name, const char* what, Stage stage) {
  CLI::App* command = app.add_subcommand(name, what);
  add_common(*command, common);
  command->add_option("model", code.model, "A .onnx or .vkf file")->required();
  command->add_option("--input", code.inputs, kInput);
  command->add_option("--segment", code.segment, "Only this segment");
  command->add_option("-o,--output", code.output, "Write a file per segment into this folder");
  command->callback([this, stage, name] {
    code.stage = stage;
    code.extension = name;
    status = finish(show_code(common, code));
  });
}

void CommandLine::add_cache() {
  CLI::App* command = app.add_subcommand("cache", "Show or clear the folder of compiled kernels");
  command->add_option("--cache", common.cache, "The folder of compiled kernels");
  command->add_option("action", cache_action, "path, size, entries or clear; without one, the first three")
      ->check(CLI::IsMember({"path", "size", "entries", "clear"}));
  command->callback([this] { status = finish(manage_cache(common, cache_action)); });
}

void CommandLine::add_validate() {
  CLI::App* command = app.add_subcommand("validate", "Check outputs against the reference or against ONNX test data");
  add_common(*command, common);
  command->add_option("path", validate.paths, "Models, case folders or folders of cases")->required();
  command->add_option("--input", validate.inputs, kInput);
  command->add_option("--json", validate.json, "Write the results as JSON");
  command->add_option("--report", validate.report, "Write the results as an HTML page");
  command->add_option("--fusion", validate.fusion, "on or off")->check(CLI::IsMember({"on", "off"}));
  command->add_option("--seed", validate.seed, "Of random inputs");
  command
      ->add_option("--time-limit", validate.time_limit_s,
                   "Seconds for a case: the reference samples outputs, and stops, to keep them")
      ->check(finite_number(false));
  command->add_option("--outputs", validate.outputs,
                      "Compare the outputs in this folder, NAME.npy or NAME.pb, and run no device");
  command->callback([this] {
    NamedFiles files = {{"file of --json", validate.json}, {"file of --report", validate.report}};
    for (const std::string& path : validate.paths) {
      if (check_distinct({files[0], files[1], {"model", path}}).ok()) continue;
      files.emplace_back("model", path);
      break;
    }
    status = run_distinct(files, [this] { return validate_models(common, validate); });
  });
}

int run_command(int argc, const char* const* argv) {
  CommandLine line;
  line.app.allow_windows_style_options(false);  // a path may begin with '/'
  line.app.require_subcommand(1);
  line.app.set_version_flag("--version", VKFUSE_VERSION);
  line.add_devices();
  line.add_run();
  line.add_plan();
  line.add_code("glsl", "Print the GLSL of every kernel", Stage::glsl);
  line.add_code("spirv", "Print the SPIR-V disassembly of every kernel", Stage::spirv);
  line.add_code("msl", "Print every kernel as Metal shading language", Stage::msl);
  line.add_code("hlsl", "Print every kernel as HLSL", Stage::hlsl);
  line.add_cache();
  line.add_validate();
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return line.app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "vkfuse: %s. Try 'vkfuse --help'.\n", error.what());
    return 2;
  }
  return line.status;
}

}  // namespace

int vkfuse::tool::command_line(int argc, const char* const* argv) {
  return command_main("vkfuse", [&] { return run_command(argc, argv); });
}
