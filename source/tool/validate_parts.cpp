#include "tool/validate_parts.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "onnx/load.hpp"
#include "onnx/program_watcher.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::tool {

namespace fs = std::filesystem;

namespace {

using FilesByOutput = std::map<std::string, HostTensor>;

/// A value that a part has stored.
struct PartOutput {
  std::string name;  ///< among the outputs of parts
  HostTensor got;
  Compared outcome;
  bool has_reference = true;
};

/// Compares what each part stores with the reference, and with one kernel per op, which both read what the device has
/// read.
class PartComparison {
 public:
  /// All must outlive it. `has_files`: compare_with_file follows.
  PartComparison(const Device& device, bool has_files, Validation& validation)
      : device_(device), has_files_(has_files), validation_(validation) {}

  /// The next part, which has run.
  Result<void> compare(const onnx::PartRun& part);
  [[nodiscard]] std::vector<PartOutput>& outputs() { return outputs_; }

 private:
  const Device& device_;
  bool has_files_;
  Validation& validation_;
  int part_ = 0;
  std::vector<PartOutput> outputs_;
};

Result<void> PartComparison::compare(const onnx::PartRun& part) {
  ++part_;
  const ValidateOptions& options = validation_.options;
  RunInputs inputs;
  for (const auto& entry : part.inputs) inputs.tensors.emplace(entry.first, entry.second);
  VKF_TRY(symbols, symbols_of(part.graph, inputs.tensors));
  inputs.symbols = symbols;
  const Inputs given = views(inputs);
  OneKernelPerOp unfused(device_, part.graph, given, options);
  Outputs stored = part.outputs;
  if (options.spoil) options.spoil(part_, stored);
  std::vector<Result<Referenced>> references =
      referenced(part.graph, inputs, part.graph.outputs(), false, validation_.limit);
  for (std::size_t i = 0; i < references.size(); ++i) {
    const ir::Output& output = part.graph.outputs()[i];
    HostTensor& got = stored.at(output.name);
    Result<Referenced>& one = references[i];
    if (!one && !reference::has_timed_out(one.error()))
      return make_error(ErrorCode::internal, "{}", one.error().message);  // what has run is not skipped
    Compared outcome = one ? compare_output({*one, options.fusion ? &unfused : nullptr, has_files_}, output, got,
                                            validation_.result.beside_unfused)
                           : unreferenced_output(output, got);
    if (!one) validation_.result.not_referenced = one.error().message;
    outcome.result.part = part_;
    outputs_.push_back({output.name, std::move(got), std::move(outcome), one.ok()});
  }
  return {};
}

/// What parts have stored, under the names of the model's outputs where it is one, and then with its file. Returns
/// these names.
std::set<std::string> add_part_outputs(std::vector<PartOutput>& stored, const onnx::Watcher& watcher,
                                       const FilesByOutput& files, ComparedOutputs& compared) {
  std::set<std::string> named;
  for (PartOutput& one : stored) {
    bool is_output = false;
    for (const auto& [name, name_in_part] : watcher.results) {
      if (name_in_part != one.name) continue;
      is_output = true;
      named.insert(name);
      Compared outcome = one.outcome;
      outcome.result.name = name;
      if (const auto file = files.find(name); file != files.end())
        compare_with_file(one.got, file->second, one.has_reference, outcome);
      compared.add(std::move(outcome));
    }
    if (!is_output) compared.add(std::move(one.outcome));
  }
  return named;
}

/// Outputs that the host has made: no reference says anything of them.
void add_host_outputs(const Outputs& outputs, const std::set<std::string>& named, const FilesByOutput& files,
                      ComparedOutputs& compared) {
  for (const auto& [name, file] : files) {
    if (named.contains(name)) continue;
    const HostTensor& got = outputs.at(name);
    Compared outcome;
    outcome.result.name = name;
    outcome.result.dtype = got.dtype;
    outcome.result.sizes = got.sizes;
    compare_with_file(got, file, false, outcome);
    compared.add(std::move(outcome));
  }
}

/// Runs a program in parts. What each part stores is compared with the reference, and the model's outputs with their
/// files, where there are any. Returns what is wrong.
Result<std::string> run_parts(const Device& device, const onnx::OnnxProgram& program, const Inputs& inputs,
                              const FilesByOutput& files, Validation& validation) {
  CaseResult& result = validation.result;
  PartComparison parts(device, !files.empty(), validation);
  onnx::Watcher watcher;
  watcher.part = [&](const onnx::PartRun& part) { return parts.compare(part); };
  VKF_TRY(outputs, onnx::run_program(program, inputs, watcher));
  if (!result.not_referenced.empty() && files.empty()) return unsupported("{}", result.not_referenced);
  result.kernels = watcher.kernels;
  result.host_steps = watcher.host_steps;
  ComparedOutputs compared(result);
  const std::set<std::string> named = add_part_outputs(parts.outputs(), watcher, files, compared);
  add_host_outputs(outputs, named, files, compared);
  return compared.wrong();
}

/// The data of a program's inputs, which go by name or else by position.
std::map<std::string, HostTensor> tensors_for(const std::vector<Port>& ports, std::vector<onnx::TensorData> inputs,
                                              const std::optional<DType>& floats) {
  std::map<std::string, HostTensor> tensors;
  for (std::size_t i = 0; i < inputs.size() && i < ports.size(); ++i) {
    const std::string name = inputs[i].name.empty() ? ports[i].name : inputs[i].name;
    const auto port = std::find_if(ports.begin(), ports.end(), [&](const Port& one) { return one.name == name; });
    if (port != ports.end()) tensors[name] = host_tensor(std::move(inputs[i]), port->dtype, floats);
  }
  return tensors;
}

}  // namespace

CaseResult validate_model_in_parts(const Device& device, const fs::path& path, const ValidateOptions& options) {
  Validation validation(options, path.filename().string());
  auto program = load_in_parts(device, path, options.model, compile_options(options));
  if (!program) return stopped(validation, program.error());
  auto graph = graph_of(program->inputs());
  if (!graph) return stopped(validation, graph.error());
  auto inputs = inputs_for(*graph, options.inputs, options.model.known, options.seed);
  if (!inputs) return stopped(validation, inputs.error());
  auto wrong = run_parts(device, *program, views(*inputs), {}, validation);
  validation.result.notes = program->notes();
  if (!wrong) return stopped(validation, wrong.error());
  if (!wrong->empty()) return failed(validation, *std::move(wrong));
  return right(validation);
}

Result<std::string> run_data_set_in_parts(const Device& device, const fs::path& model, DataSet data_set,
                                          Validation& validation) {
  const ModelOptions& how = validation.options.model;
  VKF_TRY(program,
          load_in_parts(device, model, with_values(how, data_set.inputs), compile_options(validation.options)));
  const std::map<std::string, HostTensor> tensors =
      tensors_for(program.inputs(), std::move(data_set.inputs), how.floats);
  Inputs given;
  for (const auto& entry : tensors) given.emplace(entry.first, HostView(entry.second.bytes, entry.second.sizes));
  const std::vector<std::string> names = program.output_names();
  FilesByOutput files;
  const std::vector<std::optional<HostTensor>> expected = comparable(data_set.outputs, how.floats);
  for (std::size_t i = 0; i < expected.size() && i < names.size(); ++i) {
    if (expected[i]) files.emplace(names[i], *expected[i]);
  }
  auto wrong = run_parts(device, program, given, files, validation);
  validation.result.notes = program.notes();
  return wrong;
}

}  // namespace vkfuse::tool
