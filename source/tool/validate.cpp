#include "tool/validate.hpp"

#include <algorithm>
#include <chrono>

#include "tool/output_source.hpp"
#include "tool/validate_case.hpp"
#include "tool/validate_parts.hpp"

namespace vkfuse::tool {

namespace fs = std::filesystem;

namespace {

/// Whether a value is computed, near or far, by code of the user's own: a file has no host function for it.
bool has_own_code(const ir::Graph& graph, ir::NodeId value) {
  std::vector<bool> reached(value + 1, false);
  reached[value] = true;
  for (ir::NodeId id = value + 1; id-- > 0;) {
    if (!reached[id]) continue;
    if (graph.node(id).op->signature == ops::Signature::stated) return true;
    for (ir::NodeId operand : graph.node(id).operands) reached[operand] = true;
  }
  return false;
}

/// Outputs that the reference follows, and why it does not follow the others.
struct FollowedOutputs {
  std::vector<ir::Output> outputs;
  std::optional<Error> refusal;
};

FollowedOutputs followed_outputs(const ir::Graph& graph, const RunInputs& inputs) {
  FollowedOutputs followed;
  for (const ir::Output& output : graph.outputs()) {
    if (!has_own_code(graph, output.value)) {
      followed.outputs.push_back(output);
      continue;
    }
    const auto column = reference::evaluate_at(graph, output.value, {}, input_bindings_of(inputs));
    if (!column) followed.refusal = column.error();
  }
  return followed;
}

CaseResult validate_graph(const OutputSource& source, const Model& model, Validation validation) {
  const ir::Graph& graph = model.graph;
  const ValidateOptions& options = validation.options;
  validation.describe(model);
  auto inputs = inputs_for(graph, options.inputs, without_graph(model), options.seed);
  if (!inputs) return stopped(validation, inputs.error());
  const Inputs given = views(*inputs);
  const GraphRun run{graph, *inputs, given};
  auto outputs = outputs_of(source, run, validation);
  if (!outputs && is_wrong_output(source, outputs.error())) return failed(validation, outputs.error().message);
  if (!outputs) return stopped(validation, outputs.error());
  std::optional<OneKernelPerOp> unfused = unfused_of(source, run, options);
  ComparedOutputs compared(validation.result);
  auto [known, unknown] = followed_outputs(graph, *inputs);  // where some are unknown, others may yet be wrong
  std::vector<Result<Referenced>> references = referenced(graph, *inputs, known, false, validation.limit);
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!references[i] && reference::has_timed_out(references[i].error())) {
      unknown = references[i].error();
      continue;
    }
    if (!references[i]) return failed(validation, references[i].error().message);
    compared.add(compare_output({*references[i], unfused ? &*unfused : nullptr}, known[i], outputs->at(known[i].name),
                                validation.result.beside_unfused));
  }
  if (!compared.wrong().empty()) return failed(validation, compared.wrong());
  if (unknown) return stopped(validation, *unknown);
  return right(validation);
}

}  // namespace

CaseResult validate_model(const Device& device, const fs::path& path, const ValidateOptions& options) {
  Validation validation(options, path.filename().string());
  auto model = load_model(path, options.model);
  if (!model && may_load_in_parts(path, options.model, model.error()))
    return validate_model_in_parts(device, path, options);
  if (!model) return stopped(validation, model.error());
  return validate_graph({&device, {}}, *model, std::move(validation));
}

CaseResult validate_case(const Device& device, const fs::path& folder, const ValidateOptions& options) {
  return validate_data_sets({&device, {}}, folder, options);
}

CaseResult validate_outputs(const fs::path& path, const fs::path& outputs, const ValidateOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return validate_data_sets({nullptr, outputs}, path, options);
  Validation validation(options, path.filename().string());
  auto model = load_model(path, options.model);
  if (!model) return stopped(validation, model.error());
  return validate_graph({nullptr, outputs}, *model, std::move(validation));
}

Result<ValidateReport> validate_path(const Device& device, const fs::path& path, const ValidateOptions& options,
                                     const std::function<void(const CaseResult&)>& each) {
  ValidateReport report;
  auto begun = std::chrono::steady_clock::now();
  const auto add = [&](CaseResult result) {
    const auto now = std::chrono::steady_clock::now();
    result.seconds = std::chrono::duration<double>(now - begun).count();
    begun = now;
    each(result);
    report.cases.push_back(std::move(result));
  };
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    add(validate_model(device, path, options));
    return report;
  }
  if (!fs::is_directory(path, ignored))
    return make_error(ErrorCode::not_found, "There is no file or folder '{}'.", path.string());
  if (fs::exists(path / "model.onnx", ignored)) {
    add(validate_case(device, path, options));
    return report;
  }
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
    if (fs::exists(entry.path() / "model.onnx", ignored)) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) add(validate_case(device, folder, options));
  if (folders.empty())
    return make_error(ErrorCode::not_found, "The folder '{}' holds no case with a model.onnx.", path.string());
  return report;
}

}  // namespace vkfuse::tool
