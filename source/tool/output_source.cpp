#include "tool/output_source.hpp"

#include <algorithm>

#include "api/program.hpp"
#include "api/states.hpp"
#include "os/files.hpp"
#include "tool/output_names.hpp"

namespace vkfuse::tool {

namespace fs = std::filesystem;

namespace {

/// STEM.npy or STEM.pb.
Result<fs::path> find_output(const fs::path& folder, const std::string& stem, const std::string& name) {
  std::error_code ignored;
  for (const char* extension : {".npy", ".pb"}) {
    const fs::path path = folder / os::to_path(stem + extension);
    if (fs::exists(path, ignored)) return path;
  }
  return unsupported("The folder '{}' has neither {}.npy nor {}.pb for the output '{}'.", folder.string(), stem, stem,
                     name);
}

/// Of the dtype and the sizes that the graph says.
Result<HostTensor> read_output(const fs::path& path, const ir::Graph& graph, const ir::Output& output,
                               const SymbolValues& symbols) {
  const TensorType& type = graph.node(output.value).type;
  VKF_TRY(tensor, read_tensor(path));
  if (type.dtype == DType::bf16 && size_of(tensor.dtype) == 2) tensor.dtype = type.dtype;  // NumPy has no bfloat16
  VKF_TRY(sizes, resolve(type.shape, symbols));
  if (tensor.dtype == type.dtype && tensor.sizes == sizes) return tensor;
  return invalid("The output '{}' is {}[{}], but '{}' holds {}[{}].", output.name, name_of(type.dtype),
                 fmt::join(sizes, ", "), path.string(), name_of(tensor.dtype), fmt::join(tensor.sizes, ", "));
}

Result<Outputs> computed_outputs(const Device& device, const GraphRun& run, Validation& validation) {
  VKF_TRY(program, api::compile_graph(device, run.graph, compile_options(validation.options)));
  VKF_TRY(specialization, program.state()->program->specialization(run.inputs.symbols));
  validation.result.kernels = program.kernel_count();
  validation.result.copies =
      static_cast<int>(std::count_if(specialization->steps.begin(), specialization->steps.end(),
                                     [](const plan::ScheduledKernel& step) { return step.alias.has_value(); }));
  return program.run(run.given);
}

Result<Outputs> read_outputs(const fs::path& folder, const GraphRun& run) {
  std::set<std::string> names;
  for (const ir::Output& output : run.graph.outputs()) names.insert(output.name);
  const std::map<std::string, std::string> stems = file_stems(names);
  Outputs outputs;
  for (const ir::Output& output : run.graph.outputs()) {
    VKF_TRY(path, find_output(folder, stems.at(output.name), output.name));
    VKF_TRY(tensor, read_output(path, run.graph, output, run.inputs.symbols));
    outputs.emplace(output.name, std::move(tensor));
  }
  return outputs;
}

}  // namespace

Result<Outputs> outputs_of(const OutputSource& source, const GraphRun& run, Validation& validation) {
  validation.result.given = source.device == nullptr;
  VKF_TRY(outputs, source.device != nullptr ? computed_outputs(*source.device, run, validation)
                                            : read_outputs(source.folder, run));
  if (validation.options.spoil) validation.options.spoil(0, outputs);
  return outputs;
}

bool is_wrong_output(const OutputSource& source, const Error& error) {
  return source.device == nullptr && error.code == ErrorCode::invalid_argument;
}

std::optional<OneKernelPerOp> unfused_of(const OutputSource& source, const GraphRun& run,
                                         const ValidateOptions& options) {
  if (source.device == nullptr || !options.fusion) return std::nullopt;
  return OneKernelPerOp(*source.device, run.graph, run.given, options);
}

}  // namespace vkfuse::tool
