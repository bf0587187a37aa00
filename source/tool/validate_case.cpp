#include "tool/validate_case.hpp"

#include "tool/test_data.hpp"
#include "tool/validate_parts.hpp"

namespace vkfuse::tool {

namespace fs = std::filesystem;

namespace {

DType input_dtype(const ir::Graph& graph, const std::string& name) {
  for (ir::NodeId id : graph.inputs()) {
    if (std::get<ir::InputPayload>(graph.node(id).payload).name == name) return graph.node(id).type.dtype;
  }
  return DType::f32;
}

/// The data of a data set, or what the command gives in place of it.
Result<RunInputs> inputs_of(const ir::Graph& graph, std::vector<onnx::TensorData> data,
                            const ValidateOptions& options) {
  RunInputs inputs;
  for (onnx::TensorData& tensor : data) {
    const std::string name = tensor.name;
    inputs.tensors[name] = host_tensor(std::move(tensor), input_dtype(graph, name), options.model.floats);
  }
  for (const auto& [name, one] : options.inputs) {
    if (one.tensor) inputs.tensors.insert_or_assign(name, *one.tensor);
  }
  VKF_TRY(symbols, symbols_of(graph, inputs.tensors));
  inputs.symbols = symbols;
  return inputs;
}

/// Views of what the graph reads: the data may hold more.
Result<Inputs> views_of_read(const ir::Graph& graph, const RunInputs& inputs) {
  Inputs given;
  for (ir::NodeId id : graph.inputs()) {
    const std::string& name = std::get<ir::InputPayload>(graph.node(id).payload).name;
    const auto found = inputs.tensors.find(name);
    if (found == inputs.tensors.end()) return invalid("The test data has no input '{}'.", name);
    given.emplace(name, HostView(found->second.bytes, found->second.sizes));
  }
  return given;
}

/// Compares every output with the reference, with one kernel per op unless that is null, and with its file, which
/// `files` has by the output's position.
Result<std::string> compare_with_files(const GraphRun& run, const Outputs& outputs,
                                       const std::vector<std::optional<HostTensor>>& files, OneKernelPerOp* unfused,
                                       Validation& validation) {
  CaseResult& result = validation.result;
  ComparedOutputs compared(result);
  std::vector<Result<Referenced>> references =
      referenced(run.graph, run.inputs, run.graph.outputs(), !files.empty(), validation.limit);
  for (std::size_t i = 0; i < run.graph.outputs().size(); ++i) {
    const ir::Output& output = run.graph.outputs()[i];
    const HostTensor& got = outputs.at(output.name);
    const HostTensor* file = i < files.size() && files[i] ? &*files[i] : nullptr;
    Result<Referenced>& one = references[i];
    if (!one && !(file != nullptr && reference::has_timed_out(one.error()))) {
      if (compared.wrong().empty()) return std::move(one).error();
      break;  // what is wrong before counts
    }
    Compared outcome =
        one ? compare_output({*one, unfused, file != nullptr, file, &run.graph}, output, got, result.beside_unfused)
            : unreferenced_output(output, got);
    if (!one) result.not_referenced = one.error().message;
    if (file != nullptr) compare_with_file(got, *file, one.ok(), outcome);
    compared.add(std::move(outcome));
  }
  return compared.wrong();
}

/// A data set of a model that is one graph.
Result<std::string> run_data_set_on_graph(const OutputSource& source, const Model& model, DataSet data_set,
                                          Validation& validation) {
  const ValidateOptions& options = validation.options;
  validation.describe(model);
  std::vector<std::optional<HostTensor>> files = comparable(data_set.outputs, options.model.floats);
  drop_random(model.graph, files);
  VKF_TRY(inputs, inputs_of(model.graph, std::move(data_set.inputs), options));
  VKF_TRY(given, views_of_read(model.graph, inputs));
  const GraphRun run{model.graph, inputs, given};
  auto made = outputs_of(source, run, validation);
  if (!made && is_wrong_output(source, made.error())) return made.error().message;
  VKF_TRY(outputs, std::move(made));
  std::optional<OneKernelPerOp> unfused = unfused_of(source, run, options);
  return compare_with_files(run, outputs, files, unfused ? &*unfused : nullptr, validation);
}

/// Runs the data set in a folder `data` of a case. Returns what is wrong; nothing if all agrees.
Result<std::string> run_data_set(const OutputSource& source, const fs::path& folder, const fs::path& data,
                                 Validation& validation) {
  const fs::path path = folder / "model.onnx";
  auto inputs = read_tensors(data, "input_");
  if (inputs) VKF_CHECK_OK(name_inputs(path, *inputs));
  const ModelOptions how = with_values(validation.options.model, inputs ? *inputs : std::vector<onnx::TensorData>());
  auto model = load_model(path, how);
  auto outputs = read_tensors(data, "output_");
  if (!model && (!inputs || !outputs)) return std::move(model).error();  // what the model itself lacks says more
  if (!inputs) return std::move(inputs).error();
  if (!outputs) return std::move(outputs).error();
  DataSet data_set{*std::move(inputs), *std::move(outputs)};
  if (model) {
    model->graph.name = folder.filename().string();
    return run_data_set_on_graph(source, *model, std::move(data_set), validation);
  }
  if (source.device == nullptr || !may_load_in_parts(path, how, model.error())) return std::move(model).error();
  return run_data_set_in_parts(*source.device, path, std::move(data_set), validation);
}

/// Outputs of a data set lie in a folder of its name, unless it is the only one.
OutputSource of_set(OutputSource source, const fs::path& set, std::size_t sets) {
  std::error_code ignored;
  if (source.device == nullptr && (sets > 1 || fs::exists(source.folder / set.filename(), ignored)))
    source.folder /= set.filename();
  return source;
}

}  // namespace

CaseResult validate_data_sets(const OutputSource& source, const fs::path& folder, const ValidateOptions& options) {
  // A folder may be named with a slash at its end.
  Validation validation(options, (folder.has_filename() ? folder : folder.parent_path()).filename().string());
  CaseResult& result = validation.result;
  const std::vector<fs::path> sets = numbered_paths(folder, "test_data_set_");
  std::string first_wrong;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::size_t before = result.outputs.size();
    auto wrong = run_data_set(of_set(source, sets[i], sets.size()), folder, sets[i], validation);
    if (!wrong && first_wrong.empty()) return stopped(validation, wrong.error());
    if (!wrong) break;  // what is wrong before counts
    for (std::size_t k = before; k < result.outputs.size(); ++k) result.outputs[k].data_set = static_cast<int>(i);
    if (first_wrong.empty()) first_wrong = *std::move(wrong);
  }
  if (!first_wrong.empty()) return failed(validation, std::move(first_wrong));
  if (sets.empty()) return stopped(validation, unsupported("The folder has no test_data_set_*."));
  return right(validation);
}

}  // namespace vkfuse::tool
