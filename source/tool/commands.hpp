// The commands behind the command line. Each returns an exit status, or the error to print.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tool/model.hpp"
#include "vkfuse/executable.hpp"

namespace vkfuse::tool {

struct Common {
  std::string device;
  std::vector<std::string> disable;
  std::vector<std::string> limits;   ///< NAME=VALUE
  std::vector<std::string> without;  ///< planner passes
  std::string planner = "bytes";
  std::string memory_budget;  ///< bytes, or empty
  bool strict = false;
  bool f16_accumulation = false;
  std::string cache;               ///< a folder, "off", or empty
  std::vector<std::string> dims;   ///< NAME=NUMBER
  std::string dtype;               ///< "f16", "bf16" or empty
  bool no_host = false;            ///< operators that run on the host are errors
  std::vector<std::string> known;  ///< inputs whose values become constants
  bool allow_custom = false;       ///< .vkf files may hold code of their own
};

struct RunCommand {
  std::string model;
  std::vector<std::string> inputs;
  std::string output_dir;
  int top = 5;
  int repeat = 1;
  bool profile = false;
  std::string trace;  ///< a file
  std::string plan;   ///< a file
  double tune_ms = 0;
};

struct PlanCommand {
  std::string model;
  std::vector<std::string> inputs;
  std::string format = "text";
  std::string output;
  std::string plan;  ///< a file that is read
  std::string save;  ///< a file that is written
  bool profile = false;
};

struct CodeCommand {
  std::string model;
  std::vector<std::string> inputs;
  std::optional<int> segment;
  std::string output;
  std::string extension;
  Stage stage = Stage::glsl;
};

struct ValidateCommand {
  std::vector<std::string> paths;
  std::vector<std::string> inputs;  ///< of models; a case has its own
  std::string json;
  std::string report;  ///< a file
  std::string fusion = "on";
  std::uint64_t seed = 0;
  double time_limit_s = 0;  ///< of a case; 0: none
  std::string outputs;      ///< a folder of what another program has computed; empty: a device computes
};

/// The kernel store: `action` is "path", "size", "entries", "clear", or empty for the first three.
Result<int> manage_cache(const Common& common, const std::string& action);
Result<int> list_devices(const Common& common, bool json);
Result<int> run_model(const Common& common, const RunCommand& command);
Result<int> show_plan(const Common& common, const PlanCommand& command);
Result<int> show_code(const Common& common, const CodeCommand& command);
Result<int> validate_models(const Common& common, const ValidateCommand& command);

/// A table of device times, bytes and rates.
void print_times(const std::vector<KernelTime>& times);
/// The same run as the JSON that Chrome's about:tracing and Perfetto read: one event per kernel, in microseconds.
std::string to_trace(const std::vector<KernelTime>& times, const std::string& program, const std::string& device);

/// What follows NAME= of --input: a tensor from a file, or a seed.
struct GivenInput {
  std::optional<HostTensor> tensor;
  std::uint64_t seed = 0;
};
using NamedInputs = std::map<std::string, GivenInput, std::less<>>;
/// NAME=FILE.npy, NAME=FILE.pb or NAME=random[:SEED].
Result<NamedInputs> read_inputs(const std::vector<std::string>& arguments);
/// What --dim, --dtype, --known and --no-host say, and the values of inputs.
Result<ModelOptions> model_options(const Common& common, const NamedInputs& given);
/// The tensors of a run: those given, in the graph's dtype where the model was converted, and random ones. A name that
/// neither the graph nor `elsewhere` has is an error.
Result<RunInputs> inputs_for(const ir::Graph& graph, const NamedInputs& given,
                             const std::vector<std::string>& elsewhere, std::uint64_t seed = 0);
/// A line on stderr for each.
void print_notes(const std::vector<std::string>& notes);

/// What --device, --disable, --limit and --cache say.
Result<DeviceOptions> device_options(const Common& common);
Result<CompileOptions> compile_options(const Common& common);
/// Bytes; 0: any number.
Result<std::int64_t> memory_budget_of(const Common& common);

}  // namespace vkfuse::tool
