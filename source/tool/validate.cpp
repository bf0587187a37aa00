#include "tool/validate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/program.hpp"
#include "api/tensor_node.hpp"
#include "reference/reference.hpp"
#include "reference/tolerance.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::tool {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kSamples = 1 << 16;  // elements of a large output that are compared

CaseResult failed(CaseResult result, std::string why) {
  result.verdict = Verdict::failed;
  result.detail = std::move(why);
  return result;
}

/// What cannot be run is a skip; everything else that goes wrong is a failure.
CaseResult stopped(CaseResult result, const Error& error) {
  result.verdict = error.code == ErrorCode::unsupported ? Verdict::skipped : Verdict::failed;
  result.detail = error.message;
  return result;
}

std::vector<std::int64_t> sample_indices(std::int64_t count) {
  std::vector<std::int64_t> indices;
  const auto all = static_cast<std::int64_t>(kSamples);
  if (count <= all) {
    for (std::int64_t i = 0; i < count; ++i) indices.push_back(i);
    return indices;
  }
  // Evenly spread, with both ends: tails are where vectors go wrong.
  for (std::int64_t i = 0; i < all; ++i) {
    indices.push_back(static_cast<std::int64_t>(static_cast<double>(i) / static_cast<double>(all - 1) * static_cast<double>(count - 1)));
  }
  return indices;
}

reference::Feeds feeds_of(const RunInputs& inputs) {
  reference::Feeds feeds;
  feeds.symbols = inputs.symbols;
  for (const auto& entry : inputs.tensors) feeds.inputs.emplace(entry.first, entry.second.bytes);
  return feeds;
}

std::vector<double> values_of(const HostTensor& tensor) {
  std::vector<double> values;
  for (std::size_t at = 0; at < tensor.bytes.size(); at += static_cast<std::size_t>(size_of(tensor.dtype))) {
    values.push_back(ir::decode(tensor.dtype, tensor.bytes.data() + at));
  }
  return values;
}

/// One sentence about the first element that is wrong, or nothing.
std::string compare_with_file(const HostTensor& got, const HostTensor& want, const reference::Column& column) {
  if (got.dtype != want.dtype || got.sizes != want.sizes) {
    return fmt::format("The output is {}[{}], but the file holds {}[{}].", name_of(got.dtype), fmt::join(got.sizes, ", "),
                       name_of(want.dtype), fmt::join(want.sizes, ", "));
  }
  const reference::Tolerance tolerance = reference::tolerance_for(want.dtype, values_of(want));
  const auto width = static_cast<std::size_t>(size_of(want.dtype));
  for (std::size_t i = 0; i * width < want.bytes.size(); ++i) {
    const std::byte* got_at = got.bytes.data() + i * width;
    const std::byte* want_at = want.bytes.data() + i * width;
    const bool undecided = std::isinf(column.bound[i]);
    if (is_float(want.dtype)) {
      const double wanted = ir::decode(want.dtype, want_at);
      const double value = ir::decode(want.dtype, got_at);
      if (!reference::agrees(value, wanted, tolerance, column.bound[i])) return fmt::format("Element {} is {}, but the file says {}.", i, value, wanted);
      if (!undecided && !reference::agrees(column.value[i], wanted, tolerance, column.bound[i])) {
        return fmt::format("Element {} is {} by the reference, but the file says {}.", i, column.value[i], wanted);
      }
    } else {
      const std::int64_t wanted = ir::decode_int(want.dtype, want_at);
      const std::int64_t value = ir::decode_int(want.dtype, got_at);
      const bool near = undecided && std::abs(value - wanted) <= 1;  // a rounding straddles
      if (value != wanted && !near) return fmt::format("Element {} is {}, but the file says {}.", i, value, wanted);
      if (!undecided && column.integer[i] != wanted) {
        return fmt::format("Element {} is {} by the reference, but the file says {}.", i, column.integer[i], wanted);
      }
    }
  }
  return {};
}

/// Elements whose bound has grown past all numbers on the way through a deep model: they are held to the tolerance of a file.
/// Counts them; one sentence about the first that is wrong.
std::string compare_unbounded(const HostTensor& got, const reference::Column& column, const std::vector<std::int64_t>& indices, std::int64_t& unbounded) {
  if (!is_float(got.dtype)) return {};
  const reference::Tolerance tolerance = reference::tolerance_for(got.dtype, column.value);
  const auto width = static_cast<std::size_t>(size_of(got.dtype));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (!std::isinf(column.bound[i])) continue;
    ++unbounded;
    const double value = ir::decode(got.dtype, got.bytes.data() + static_cast<std::size_t>(indices[i]) * width);
    if (reference::agrees(value, column.value[i], tolerance, 0)) continue;
    return fmt::format("Element {} is {}, but {} by the reference, without a bound.", indices[i], value, column.value[i]);
  }
  return {};
}

/// One sentence about what is wrong with an output, or nothing.
std::string compare_with_reference(const ir::Graph& graph, const ir::Output& output, const HostTensor& got, const RunInputs& inputs,
                                   CaseResult& result) {
  std::int64_t count = 1;
  for (std::int64_t size : got.sizes) count *= size;
  const std::vector<std::int64_t> indices = sample_indices(count);
  auto column = reference::evaluate_at(graph, output.value, indices, feeds_of(inputs));
  if (!column) return column.error().message;
  const reference::Comparison found = reference::compare(got.dtype, got.bytes, *column, indices);
  result.max_ratio = std::max(result.max_ratio, found.max_ratio);
  if (found.wrong > 0) return fmt::format("Output '{}': {} of {} elements are wrong. {}", output.name, found.wrong, found.elements, found.first_wrong);
  const std::string wrong = compare_unbounded(got, *column, indices, result.unbounded);
  if (!wrong.empty()) return fmt::format("Output '{}': {}", output.name, wrong);
  if (!found.ok() && !is_float(got.dtype)) return fmt::format("Output '{}': {} of {} elements are undecided.", output.name, found.undecided, found.elements);
  return {};
}

CompileOptions compile_options(const ValidateOptions& options) {
  CompileOptions made;
  made.fusion = options.fusion;
  made.numerics = options.numerics;
  return made;
}

std::vector<fs::path> sorted_matches(const fs::path& folder, std::string_view prefix) {
  std::vector<std::pair<long, fs::path>> found;
  std::error_code failed_to_list;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed_to_list)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix)) found.emplace_back(std::strtol(name.c_str() + prefix.size(), nullptr, 10), entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& entry : found) paths.push_back(std::move(entry.second));
  return paths;
}

Result<std::vector<onnx::TensorData>> read_tensors(const fs::path& folder, std::string_view prefix) {
  std::vector<onnx::TensorData> all;
  for (const fs::path& path : sorted_matches(folder, prefix)) {
    auto tensor = onnx::read_tensor_proto(path);
    if (!tensor) return std::move(tensor).error().within("reading " + path.string());
    all.push_back(*std::move(tensor));
  }
  return all;
}

/// A model with the test data's inputs: scalars and vectors are given as constants only where the
/// import needs their values, because they decide shapes.
Result<onnx::OnnxModel> load_case(const fs::path& model, const fs::path& data) {
  auto plain = onnx::load_onnx(model);
  if (plain || plain.error().code != ErrorCode::unsupported) return plain;
  auto inputs = read_tensors(data, "input_");
  if (!inputs) return plain;  // what the model itself lacks says more
  // Sizes that only the program would know are those of the data.
  onnx::OnnxOptions options;
  for (const onnx::TensorData& tensor : *inputs) {
    if (!tensor.name.empty()) options.input_sizes.emplace(tensor.name, tensor.sizes);
  }
  auto sized = onnx::load_onnx(model, options);
  if (sized || sized.error().code != ErrorCode::unsupported) return sized;
  for (const onnx::TensorData& tensor : *inputs) {
    if (!tensor.name.empty() && tensor.sizes.size() <= 1) options.known_inputs.emplace(tensor.name, tensor);
  }
  if (options.known_inputs.empty()) return plain;
  auto informed = onnx::load_onnx(model, options);
  return informed ? std::move(informed) : std::move(plain);
}

/// The test data stores bfloat16 as u16: the graph says which it is.
HostTensor host_tensor(onnx::TensorData data, DType wanted) {
  const DType dtype = wanted == DType::bf16 && data.dtype == DType::u16 ? wanted : data.dtype;
  return {dtype, std::move(data.sizes), std::move(data.bytes)};
}

DType input_dtype(const ir::Graph& graph, const std::string& name) {
  for (ir::NodeId id : graph.inputs()) {
    if (std::get<ir::InputPayload>(graph.node(id).payload).name == name) return graph.node(id).type.dtype;
  }
  return DType::f32;
}

/// Runs one data set; an empty sentence means that everything agrees.
Result<std::string> run_data_set(const Device& device, const fs::path& folder, const fs::path& data, const ValidateOptions& options,
                                 CaseResult& result) {
  VKF_TRY(model, load_case(folder / "model.onnx", data));
  VKF_TRY(inputs, read_tensors(data, "input_"));
  VKF_TRY(expected, read_tensors(data, "output_"));
  VKF_TRY(graph, api::to_graph(model.outputs, model.output_names, folder.filename().string()));
  RunInputs run_inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // Files carry the input's name; those without go by position.
    const std::string name = !inputs[i].name.empty() ? inputs[i].name : i < model.input_names.size() ? model.input_names[i] : "";
    run_inputs.tensors[name] = host_tensor(std::move(inputs[i]), input_dtype(graph, name));
  }
  VKF_TRY(symbols, symbols_of(graph, run_inputs.tensors));
  run_inputs.symbols = symbols;
  VKF_TRY(program, api::compile_graph(device, graph, compile_options(options)));
  result.kernels = program.kernel_count();
  Inputs given;
  for (ir::NodeId id : graph.inputs()) {
    const std::string& name = std::get<ir::InputPayload>(graph.node(id).payload).name;
    const auto found = run_inputs.tensors.find(name);
    if (found == run_inputs.tensors.end()) return invalid("The test data has no input '{}'.", name);
    given.emplace(name, HostView(found->second.bytes, found->second.sizes));
  }
  VKF_TRY(outputs, program.run(given));
  const reference::Feeds feeds = feeds_of(run_inputs);
  for (std::size_t i = 0; i < expected.size() && i < graph.outputs().size(); ++i) {
    const ir::Output& output = graph.outputs()[i];
    VKF_TRY(column, reference::evaluate(graph, output.value, feeds));
    const std::string wrong = compare_with_file(outputs.at(output.name), host_tensor(std::move(expected[i]), graph.node(output.value).type.dtype), column);
    if (!wrong.empty()) return fmt::format("Output '{}': {}", output.name, wrong);
  }
  return std::string();
}

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

}  // namespace

int ValidateReport::count(Verdict verdict) const {
  return static_cast<int>(std::count_if(cases.begin(), cases.end(), [&](const CaseResult& one) { return one.verdict == verdict; }));
}

CaseResult validate_model(const Device& device, const fs::path& path, const ValidateOptions& options) {
  CaseResult result;
  result.name = path.filename().string();
  auto graph = load_model(path);
  if (!graph) return stopped(std::move(result), graph.error());
  auto inputs = random_inputs(*graph, options.seed);
  if (!inputs) return stopped(std::move(result), inputs.error());
  auto program = api::compile_graph(device, *graph, compile_options(options));
  if (!program) return stopped(std::move(result), program.error());
  result.kernels = program->kernel_count();
  auto outputs = program->run(views(*inputs));
  if (!outputs) return stopped(std::move(result), outputs.error());
  std::optional<Error> unknown;  // of what the reference cannot follow; other outputs may yet be wrong
  for (const ir::Output& output : graph->outputs()) {
    if (has_own_code(*graph, output.value)) {
      const auto column = reference::evaluate_at(*graph, output.value, {}, feeds_of(*inputs));
      if (!column) unknown = column.error();
      continue;
    }
    std::string wrong = compare_with_reference(*graph, output, outputs->at(output.name), *inputs, result);
    if (!wrong.empty()) return failed(std::move(result), std::move(wrong));
  }
  if (unknown) return stopped(std::move(result), *unknown);
  result.detail = fmt::format("largest error / bound {:.3f}, {} kernel{}", result.max_ratio, result.kernels, result.kernels == 1 ? "" : "s");
  if (result.unbounded > 0) result.detail += fmt::format("; {} elements without a bound agree with the reference", result.unbounded);
  return result;
}

CaseResult validate_case(const Device& device, const fs::path& folder, const ValidateOptions& options) {
  CaseResult result;
  // A folder may be named with a slash at its end.
  result.name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  const std::vector<fs::path> sets = sorted_matches(folder, "test_data_set_");
  for (const fs::path& data : sets) {
    auto wrong = run_data_set(device, folder, data, options, result);
    if (!wrong) return stopped(std::move(result), wrong.error());
    if (!wrong->empty()) return failed(std::move(result), *std::move(wrong));
  }
  if (sets.empty()) {
    result.verdict = Verdict::skipped;
    result.detail = "The folder has no test_data_set_*.";
    return result;
  }
  result.detail = fmt::format("{} kernel{}", result.kernels, result.kernels == 1 ? "" : "s");
  return result;
}

Result<ValidateReport> validate_path(const Device& device, const fs::path& path, const ValidateOptions& options,
                                     const std::function<void(const CaseResult&)>& each) {
  ValidateReport report;
  const auto add = [&](CaseResult result) {
    each(result);
    report.cases.push_back(std::move(result));
  };
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    add(validate_model(device, path, options));
    return report;
  }
  if (!fs::is_directory(path, ignored)) return make_error(ErrorCode::not_found, "There is no file or folder '{}'.", path.string());
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
  if (folders.empty()) return make_error(ErrorCode::not_found, "The folder '{}' holds no case with a model.onnx.", path.string());
  return report;
}

}  // namespace vkfuse::tool
