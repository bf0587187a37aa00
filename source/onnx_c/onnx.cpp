// ONNX models through C.
#include "vkfuse/onnx.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "c/handles.hpp"
#include "os/files.hpp"
#include "vkfuse/onnx.hpp"

struct vkf_onnx {
  vkfuse::onnx::OnnxProgram program;
  std::vector<vkfuse::Port> inputs;
  std::vector<std::string> output_names;
  std::vector<vkfuse::Result<vkfuse::Port>> outputs;  // of these names
};

struct vkf_onnx_results {
  vkfuse::Outputs outputs;
};

namespace vkfuse::onnx_c {

using Compiled = Result<onnx::OnnxProgram>;

namespace {

Result<onnx::TensorData> to_value(const vkf_onnx_value& given) {
  VKF_CHECK_OK(c::need(given.name, "name of a known input"));
  VKF_TRY(type, c::to_sized_type(&given.type));
  VKF_TRY(bytes, c::list(static_cast<const std::byte*>(given.data), given.bytes, "bytes of a known input"));
  VKF_TRY(expected, byte_count(type.dtype, type.sizes));
  if (static_cast<std::uint64_t>(expected) != bytes.size()) {
    return invalid("The known input '{}' has {} bytes, and its type takes {}.", given.name, bytes.size(), expected);
  }
  return onnx::TensorData{given.name, type.dtype, std::move(type.sizes), {bytes.begin(), bytes.end()}};
}

Result<void> take_files(const vkf_onnx_options& given, onnx::OnnxOptions& options) {
  VKF_TRY(files, c::list(given.files, given.file_count, "files"));
  for (const vkf_onnx_file& file : files) {
    VKF_CHECK_OK(c::need(file.location, "location of a file"));
    VKF_TRY(bytes, c::list(static_cast<const std::byte*>(file.data), file.bytes, "bytes of a file"));
    if (!options.external_data.emplace(file.location, bytes).second)
      return invalid("The file '{}' is given twice.", file.location);
  }
  return {};
}

Result<onnx::OnnxOptions> to_options(const vkf_onnx_options& given) {
  onnx::OnnxOptions options;
  VKF_CHECK_OK(take_files(given, options));
  VKF_TRY(known, c::list(given.known, given.known_count, "known inputs"));
  for (const vkf_onnx_value& one : known) {
    VKF_TRY(value, to_value(one));
    if (!options.known_inputs.emplace(one.name, std::move(value)).second)
      return invalid("The known input '{}' is given twice.", one.name);
  }
  VKF_TRY(dims, c::to_symbols(given.dims, given.dim_count));
  options.dims.insert(dims.begin(), dims.end());
  VKF_TRY(floats, c::to_dtype(static_cast<int>(given.floats)));
  if (floats != DType::f32) options.floats = floats;
  return options;
}

/// Compiles what `call(options, compile options)` reads.
template <typename Call>
vkf_status compile(const vkf_device* device, const vkf_onnx_options* given, vkf_onnx** made, Call&& call) noexcept {
  return c::make(made, "model", [&]() -> Result<vkf_onnx> {
    VKF_CHECK_OK(c::need(device, "device"));
    VKF_TRY(known, c::options(given, "options of the import"));
    VKF_TRY(options, to_options(known));
    VKF_TRY(compile_options, c::to_options(known.compile));
    Compiled program = call(options, compile_options);
    if (!program) return std::move(program).error();
    vkf_onnx model{*program, program->inputs(), program->output_names(), {}};
    for (const std::string& name : model.output_names) model.outputs.push_back(program->output_type(name));
    return model;
  });
}

Result<Port> port_named(const vkf_onnx& model, const char* name) {
  VKF_CHECK_OK(c::need(name, "name of the input or output"));
  const auto input = std::ranges::find(model.inputs, name, &Port::name);
  if (input != model.inputs.end()) return *input;
  const auto output = std::ranges::find(model.output_names, name);
  if (output != model.output_names.end()) return model.outputs[output - model.output_names.begin()];
  return make_error(ErrorCode::not_found, "The model has no input and no output '{}'.", name);
}

}  // namespace

}  // namespace vkfuse::onnx_c

using namespace vkfuse;  // NOLINT: this file is the C side

vkf_status vkf_onnx_compile(const vkf_device* device, const char* path, const vkf_onnx_options* options,
                            vkf_onnx** made) {
  return onnx_c::compile(device, options, made, [&](const auto& import, const auto& how) -> onnx_c::Compiled {
    VKF_CHECK_OK(c::need(path, "path of the model"));
    return vkfuse::onnx::compile_onnx(device->device, os::to_path(path), import, how);
  });
}

vkf_status vkf_onnx_compile_memory(const vkf_device* device, const void* data, size_t bytes,
                                   const vkf_onnx_options* options, vkf_onnx** made) {
  return onnx_c::compile(device, options, made, [&](const auto& import, const auto& how) -> onnx_c::Compiled {
    VKF_TRY(model, c::list(static_cast<const std::byte*>(data), bytes, "bytes of the model"));
    return vkfuse::onnx::compile_onnx(device->device, model, import, how);
  });
}

void vkf_onnx_free(vkf_onnx* model) { delete model; }

size_t vkf_onnx_input_count(const vkf_onnx* model) { return model == nullptr ? 0 : model->inputs.size(); }
size_t vkf_onnx_output_count(const vkf_onnx* model) { return model == nullptr ? 0 : model->output_names.size(); }
const char* vkf_onnx_input_name(const vkf_onnx* model, size_t index) {
  return index < vkf_onnx_input_count(model) ? model->inputs[index].name.c_str() : nullptr;
}
const char* vkf_onnx_output_name(const vkf_onnx* model, size_t index) {
  return index < vkf_onnx_output_count(model) ? model->output_names[index].c_str() : nullptr;
}

vkf_status vkf_onnx_type(const vkf_onnx* model, const char* name, vkf_type_report* report) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(model, "model"));
    VKF_TRY(port, onnx_c::port_named(*model, name));
    return c::report_type(port.dtype, port.shape, report);  // names of symbols are the model's, too
  });
}

vkf_status vkf_onnx_narrow_type(const vkf_onnx* model, const char* name, const char** type) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(model, "model"));
    VKF_CHECK_OK(c::need(name, "name of the input or output"));
    VKF_CHECK_OK(c::need(type, "place for the type"));
    VKF_TRY(found, model->program.narrow_type(name));
    *type = found.empty() ? "" : found.data();  // of a literal
    return {};
  });
}

vkf_status vkf_onnx_notes(const vkf_onnx* model, char** made) {
  if (made != nullptr) *made = nullptr;
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(model, "model"));
    VKF_CHECK_OK(c::need(made, "place for the text"));
    std::string text;
    for (const std::string& note : model->program.notes()) text += note + "\n";
    return c::hand_out(text, made);
  });
}

vkf_status vkf_onnx_run(const vkf_onnx* model, const vkf_host_input* inputs, size_t input_count,
                        vkf_onnx_results** made) {
  return c::make(made, "results", [&]() -> Result<vkf_onnx_results> {
    VKF_CHECK_OK(c::need(model, "model"));
    VKF_TRY(given, c::to_inputs(inputs, input_count));
    VKF_TRY(outputs, model->program.run(given));
    return vkf_onnx_results{std::move(outputs)};
  });
}

vkf_status vkf_onnx_result(const vkf_onnx_results* results, const char* name, vkf_type_report* report,
                           const void** data, size_t* bytes) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(results, "handle of the results"));
    VKF_CHECK_OK(c::need(name, "name of an output"));
    const auto found = results->outputs.find(name);
    if (found == results->outputs.end()) return make_error(ErrorCode::not_found, "The run has no output '{}'.", name);
    const HostTensor& output = found->second;
    if (report != nullptr)
      VKF_CHECK_OK(c::report_type(output.dtype, Shape(output.sizes.begin(), output.sizes.end()), report));
    if (data != nullptr) *data = output.bytes.data();
    if (bytes != nullptr) *bytes = output.bytes.size();
    return {};
  });
}

void vkf_onnx_results_free(vkf_onnx_results* results) { delete results; }
