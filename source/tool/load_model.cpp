// Models from files, for every command the same way: what run takes, plan, the code commands and validate take too.
#include <algorithm>

#include "api/tensor_node.hpp"
#include "onnx/load.hpp"
#include "tool/model.hpp"

namespace vkfuse::tool {

namespace fs = std::filesystem;

namespace {

Result<onnx::OnnxOptions> onnx_options(const ModelOptions& options) {
  onnx::OnnxOptions how;
  how.dims = options.dims;
  how.floats = options.floats;
  how.input_values = options.values;
  for (const std::string& name : options.known) {
    auto value = how.input_values.extract(name);
    if (value.empty())
      return invalid("'--known {}' has no value: an --input, or the data of a test case, must give one.", name);
    how.known_inputs.insert(std::move(value));
  }
  return how;
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<Model> load_onnx_model(const fs::path& path, const ModelOptions& options) {
  VKF_TRY(how, onnx_options(options));
  auto loaded = options.host ? onnx::load_before_host(path, how) : onnx::load_onnx(path, how);
  if (!loaded) return std::move(loaded).error().within("reading " + path.string());
  VKF_TRY(graph, api::to_graph(loaded->outputs, loaded->output_names,
                               loaded->name.empty() ? path.stem().string() : loaded->name));
  Model model{std::move(graph), {}, std::move(loaded->constant_inputs), std::move(loaded->notes)};
  std::vector<std::string> read;
  for (const ir::NodeId id : model.graph.inputs())
    read.push_back(std::get<ir::InputPayload>(model.graph.node(id).payload).name);
  std::copy_if(loaded->input_names.begin(), loaded->input_names.end(), std::back_inserter(model.unread),
               [&](const std::string& name) { return !holds(read, name); });
  return model;
}

Result<Model> load_text(const fs::path& path, const ModelOptions& options) {
  if (options.floats || !options.dims.empty() || !options.known.empty())
    return unsupported("'{}' is a .vkf file: --dtype, --dim and --known are for ONNX models.", path.string());
  VKF_TRY(text, read_text(path));
  auto graph = ir::parse(text, {.allow_custom = options.allow_custom});
  if (!graph) return std::move(graph).error().within("reading " + path.string());
  return Model{*std::move(graph), {}, {}, {}};
}

}  // namespace

Result<Model> load_model(const fs::path& path, const ModelOptions& options) {
  if (path.extension() == ".onnx") return load_onnx_model(path, options);
  if (path.extension() == ".vkf") return load_text(path, options);
  return invalid("'{}' is neither a .vkf nor an .onnx file.", path.string());
}

bool may_load_in_parts(const fs::path& path, const ModelOptions& options, const Error& error) {
  // What is invalid of symbols may be sound of sizes.
  return options.host && path.extension() == ".onnx" &&
         (error.code == ErrorCode::unsupported || error.code == ErrorCode::invalid_argument);
}

Result<onnx::OnnxProgram> load_in_parts(const Device& device, const fs::path& path, const ModelOptions& options,
                                        const CompileOptions& how) {
  VKF_TRY(onnx, onnx_options(options));
  auto program = onnx::compile_given(device, path, onnx, how);
  if (!program) return std::move(program).error().within("reading " + path.string());
  return program;
}

Result<ir::Graph> graph_of(const std::vector<Port>& inputs) {
  ir::Graph graph;
  for (const Port& port : inputs) VKF_CHECK_OK(graph.add_input(port.name, {port.dtype, port.shape}));
  return graph;
}

}  // namespace vkfuse::tool
