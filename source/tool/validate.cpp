#include "tool/validate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "api/program.hpp"
#include "api/tensor_node.hpp"
#include "onnx/program_watcher.hpp"
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

CompileOptions compile_options(const ValidateOptions& options) {
  CompileOptions made;
  made.fusion = options.fusion;
  made.numerics = options.numerics;
  return made;
}

/// The same graph with one kernel per op: compiled and run where something is to be compared with it.
class OneKernelPerOp {
 public:
  OneKernelPerOp(const Device& device, const ir::Graph& graph, const Inputs& inputs, const ValidateOptions& options) : device_(device), graph_(graph), inputs_(inputs), options_(options) {
    options_.fusion = false;
  }
  Result<const HostTensor*> output(const std::string& name) {
    if (!outputs_) {
      VKF_TRY(program, api::compile_graph(device_, graph_, compile_options(options_)));
      VKF_TRY(outputs, program.run(inputs_));
      outputs_ = std::move(outputs);
    }
    return &outputs_->at(name);
  }

 private:
  const Device& device_;
  const ir::Graph& graph_;
  const Inputs& inputs_;
  ValidateOptions options_;
  std::optional<Outputs> outputs_;
};

double element_of(const HostTensor& tensor, std::int64_t index) {
  return ir::decode(tensor.dtype, tensor.bytes.data() + static_cast<std::size_t>(index * size_of(tensor.dtype)));
}

/// Elements whose bound has grown past all numbers on the way through a deep model: they are held to the tolerance of a file.
/// Counts them; one sentence about the first that is wrong.
std::string compare_unbounded(const HostTensor& got, const reference::Column& column, const std::vector<std::int64_t>& indices, std::int64_t& unbounded) {
  if (!is_float(got.dtype)) return {};
  const reference::Tolerance tolerance = reference::tolerance_for(got.dtype, column.value);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (!std::isinf(column.bound[i])) continue;
    ++unbounded;
    const double value = element_of(got, indices[i]);
    if (reference::agrees(value, column.value[i], tolerance, 0)) continue;
    return fmt::format("Element {} is {}, but {} by the reference, without a bound.", indices[i], value, column.value[i]);
  }
  return {};
}

std::vector<std::int64_t> position_of(std::int64_t element, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> position(sizes.size());
  for (std::size_t axis = sizes.size(); axis-- > 0; element /= sizes[axis]) position[axis] = element % sizes[axis];
  return position;
}

TileMap map_of_wrong(const HostTensor& got, const reference::Column& column, const std::vector<std::int64_t>& indices) {
  const std::int64_t across = got.sizes.empty() ? 1 : got.sizes.back();
  std::int64_t down = 1;
  for (std::size_t axis = 0; axis + 1 < got.sizes.size(); ++axis) down *= got.sizes[axis];
  TileMap map;
  map.rows = std::min(down, TileMap::kMost);
  map.columns = std::min(across, TileMap::kMost);
  map.compared.assign(static_cast<std::size_t>(map.rows * map.columns), 0);
  map.wrong = map.compared;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    reference::Column one;
    if (!column.value.empty()) one.value.push_back(column.value[i]);
    if (!column.integer.empty()) one.integer.push_back(column.integer[i]);
    one.bound.push_back(column.bound[i]);
    const std::int64_t row = indices[i] / across * map.rows / down;
    const std::int64_t at = row * map.columns + indices[i] % across * map.columns / across;
    ++map.compared[static_cast<std::size_t>(at)];
    map.wrong[static_cast<std::size_t>(at)] += reference::compare(got.dtype, got.bytes, one, std::span(&indices[i], 1)).wrong;
  }
  return map;
}

}  // namespace

std::string compare_with_unfused(const HostTensor& got, const HostTensor& unfused, const reference::Column& column, const std::vector<std::int64_t>& indices) {
  constexpr double kTimes = 4;
  constexpr int kEnough = 64;  // of fewer elements the largest error is chance
  double largest = 0, error = 0, of_unfused = 0;
  std::int64_t worst = 0;
  int elements = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const double want = column.value[i], value = element_of(got, indices[i]), other = element_of(unfused, indices[i]);
    if (!std::isinf(column.bound[i]) || !std::isfinite(want) || !std::isfinite(value) || !std::isfinite(other)) continue;
    ++elements;
    largest = std::max(largest, std::abs(want));
    of_unfused = std::max(of_unfused, std::abs(other - want));
    if (std::abs(value - want) <= error) continue;
    error = std::abs(value - want);
    worst = indices[i];
  }
  const double step = got.dtype == DType::f64 ? 0x1p-52 : got.dtype == DType::f32 ? 0x1p-23 : got.dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
  const double most = kTimes * std::max(of_unfused, step * largest);
  if (elements < kEnough || error <= most) return {};
  return fmt::format("Element {} is {}, which is off by {:.3g}; one kernel per op is off by {:.3g} at most, and {} times that are allowed where there is no bound.", worst, element_of(got, worst), error, of_unfused, kTimes);
}

namespace {

/// One sentence about what is wrong with an output, or nothing.
std::string compare_with_reference(const ir::Graph& graph, const ir::Output& output, const HostTensor& got, const RunInputs& inputs,
                                   CaseResult& result, OneKernelPerOp* unfused) {
  std::int64_t count = 1;
  for (std::int64_t size : got.sizes) count *= size;
  const std::vector<std::int64_t> indices = sample_indices(count);
  auto column = reference::evaluate_at(graph, output.value, indices, feeds_of(inputs));
  if (!column) return column.error().message;
  OutputResult& one = result.outputs.emplace_back(OutputResult{output.name, got.dtype, got.sizes, {}, 0, {}, {}});
  one.found = reference::compare(got.dtype, got.bytes, *column, indices);
  const reference::Comparison& found = one.found;
  if (found.worst >= 0) one.worst = position_of(indices[static_cast<std::size_t>(found.worst)], got.sizes);
  if (found.wrong > 0) one.tiles = map_of_wrong(got, *column, indices);
  result.max_ratio = std::max(result.max_ratio, found.max_ratio);
  std::string wrong = compare_unbounded(got, *column, indices, one.unbounded);
  result.unbounded += one.unbounded;
  if (unfused != nullptr && one.unbounded > 0 && wrong.empty()) {
    const Result<const HostTensor*> other = unfused->output(output.name);
    if (other) wrong = compare_with_unfused(got, **other, *column, indices);
    result.beside_unfused = other ? " and with one kernel per op" : fmt::format("; one kernel per op cannot be run beside them: {}", other.error().message);
  }
  if (found.wrong > 0) return fmt::format("Output '{}': {} of {} elements are wrong. {}", output.name, found.wrong, found.elements, found.first_wrong);
  if (!wrong.empty()) return fmt::format("Output '{}': {}", output.name, wrong);
  if (!found.ok() && !is_float(got.dtype)) return fmt::format("Output '{}': {} of {} elements are undecided.", output.name, found.undecided, found.elements);
  return {};
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

/// Sizes that only the program would know are those of the data.
onnx::OnnxOptions sizes_of(const std::vector<onnx::TensorData>& inputs) {
  onnx::OnnxOptions options;
  for (const onnx::TensorData& tensor : inputs) {
    if (!tensor.name.empty()) options.input_sizes.emplace(tensor.name, tensor.sizes);
  }
  return options;
}

Result<onnx::OnnxModel> load_sized(const fs::path& model, const std::vector<onnx::TensorData>& inputs) {
  auto plain = onnx::load_onnx(model);
  if (plain || !may_load_in_parts(model, plain.error())) return plain;
  return onnx::load_onnx(model, sizes_of(inputs));
}

/// The same where the import needs values, because they decide shapes: scalars and vectors are given as constants.
Result<onnx::OnnxModel> load_informed(const fs::path& model, const std::vector<onnx::TensorData>& inputs, Result<onnx::OnnxModel> otherwise) {
  onnx::OnnxOptions options = sizes_of(inputs);
  for (const onnx::TensorData& tensor : inputs) {
    if (!tensor.name.empty() && tensor.sizes.size() <= 1) options.known_inputs.emplace(tensor.name, tensor);
  }
  if (options.known_inputs.empty()) return otherwise;
  auto informed = onnx::load_onnx(model, options);
  return informed ? std::move(informed) : std::move(otherwise);
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

/// A column that says what the elements are, exactly.
reference::Column exact_column(const HostTensor& tensor) {
  reference::Column column;
  for (std::size_t at = 0; at < tensor.bytes.size(); at += static_cast<std::size_t>(size_of(tensor.dtype))) {
    column.value.push_back(is_float(tensor.dtype) ? ir::decode(tensor.dtype, tensor.bytes.data() + at) : 0);
    column.integer.push_back(is_float(tensor.dtype) ? 0 : ir::decode_int(tensor.dtype, tensor.bytes.data() + at));
    column.bound.push_back(0);
  }
  return column;
}

/// Runs a program in parts and compares what each part stores with the reference, which reads what the device has read.
/// Leaves in `columns` what the last part's results should be, by the names of the model's outputs.
Result<Outputs> run_parts(const onnx::OnnxProgram& program, const Inputs& inputs, CaseResult& result, std::map<std::string, reference::Column>& columns,
                          std::string& wrong) {
  onnx::Watcher watcher;
  std::map<std::string, reference::Column> by_place;
  std::vector<std::pair<std::string, std::string>> results;
  watcher.part = [&](const onnx::PartRun& part) -> Result<void> {
    RunInputs given;
    for (const auto& entry : part.inputs) given.tensors.emplace(entry.first, entry.second);
    VKF_TRY(symbols, symbols_of(part.graph, given.tensors));
    given.symbols = symbols;
    for (const ir::Output& output : part.graph.outputs()) {
      if (wrong.empty()) wrong = compare_with_reference(part.graph, output, part.outputs.at(output.name), given, result, nullptr);
      if (!part.is_last) continue;
      VKF_TRY(column, reference::evaluate(part.graph, output.value, feeds_of(given)));
      by_place.insert_or_assign(output.name, std::move(column));
    }
    results = part.results;
    return {};
  };
  VKF_TRY(outputs, onnx::run_program(program, inputs, watcher));
  result.kernels = watcher.kernels;
  result.host_steps = watcher.host_steps;
  for (const auto& [name, tensor] : outputs) columns.insert_or_assign(name, exact_column(tensor));
  for (const auto& [name, place] : results) {
    if (const auto found = by_place.find(place); found != by_place.end()) columns.insert_or_assign(name, found->second);
  }
  return outputs;
}

std::string kernels_text(const CaseResult& result) {
  std::string text = fmt::format("{} kernel{}", result.kernels, result.kernels == 1 ? "" : "s");
  if (result.host_steps > 0) text += fmt::format(", {} step{} of the host", result.host_steps, result.host_steps == 1 ? "" : "s");
  return text;
}

/// A data set of a model that runs on the host too.
Result<std::string> run_data_set_in_parts(const Device& device, const fs::path& model, std::vector<onnx::TensorData> inputs,
                                          const std::vector<onnx::TensorData>& expected, const ValidateOptions& options, CaseResult& result) {
  VKF_TRY(program, onnx::compile_onnx(device, model, sizes_of(inputs), compile_options(options)));
  const std::vector<Port> ports = program.inputs();
  std::map<std::string, HostTensor> tensors;
  for (std::size_t i = 0; i < inputs.size() && i < ports.size(); ++i) {
    const std::string name = inputs[i].name.empty() ? ports[i].name : inputs[i].name;
    const auto port = std::find_if(ports.begin(), ports.end(), [&](const Port& one) { return one.name == name; });
    if (port != ports.end()) tensors[name] = host_tensor(std::move(inputs[i]), port->dtype);
  }
  Inputs given;
  for (const auto& entry : tensors) given.emplace(entry.first, HostView(entry.second.bytes, entry.second.sizes));
  std::map<std::string, reference::Column> columns;
  std::string wrong;
  VKF_TRY(outputs, run_parts(program, given, result, columns, wrong));
  const std::vector<std::string> names = program.output_names();
  for (std::size_t i = 0; wrong.empty() && i < expected.size() && i < names.size(); ++i) {
    const HostTensor& got = outputs.at(names[i]);
    wrong = compare_with_file(got, host_tensor(expected[i], got.dtype), columns.at(names[i]));
    if (!wrong.empty()) wrong = fmt::format("Output '{}': {}", names[i], wrong);
  }
  return wrong;
}

/// Runs one data set; an empty sentence means that everything agrees.
Result<std::string> run_data_set(const Device& device, const fs::path& folder, const fs::path& data, const ValidateOptions& options,
                                 CaseResult& result) {
  const fs::path path = folder / "model.onnx";
  auto read = read_tensors(data, "input_");
  auto loaded = load_sized(path, read ? *read : std::vector<onnx::TensorData>());
  if (!loaded && !read) return std::move(loaded).error();  // what the model itself lacks says more
  VKF_TRY(inputs, std::move(read));
  auto files = read_tensors(data, "output_");
  if (!files && !loaded) return std::move(loaded).error();
  VKF_TRY(expected, std::move(files));
  if (!loaded && options.host && loaded.error().code == ErrorCode::unsupported) {
    auto in_parts = run_data_set_in_parts(device, path, inputs, expected, options, result);
    if (in_parts || in_parts.error().code != ErrorCode::unsupported) return in_parts;
  }
  if (!loaded && loaded.error().code == ErrorCode::unsupported) loaded = load_informed(path, inputs, std::move(loaded));
  if (!loaded) return std::move(loaded).error();
  onnx::OnnxModel model = *std::move(loaded);
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
  OneKernelPerOp unfused(device, graph, given, options);
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const ir::Output& output = graph.outputs()[i];
    if (i >= expected.size()) {
      std::string wrong = compare_with_reference(graph, output, outputs.at(output.name), run_inputs, result, options.fusion ? &unfused : nullptr);
      if (!wrong.empty()) return wrong;
      continue;
    }
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

namespace {

/// The sentence of a model that is right.
std::string figures_of(const CaseResult& result) {
  std::string text = fmt::format("largest error / bound {:.3f}, {}", result.max_ratio, kernels_text(result));
  if (result.unbounded > 0) text += fmt::format("; {} elements without a bound agree with the reference{}", result.unbounded, result.beside_unfused);
  return text;
}

/// A model that runs on the host too, on random inputs.
CaseResult validate_in_parts(const Device& device, const fs::path& path, const ValidateOptions& options) {
  CaseResult result;
  result.name = path.filename().string();
  auto program = load_in_parts(device, path, {}, compile_options(options));
  if (!program) return stopped(std::move(result), program.error());
  auto graph = graph_of(program->inputs());
  if (!graph) return stopped(std::move(result), graph.error());
  auto inputs = random_inputs(*graph, options.seed);
  if (!inputs) return stopped(std::move(result), inputs.error());
  std::map<std::string, reference::Column> columns;
  std::string wrong;
  auto outputs = run_parts(*program, views(*inputs), result, columns, wrong);
  if (!outputs) return stopped(std::move(result), outputs.error());
  if (!wrong.empty()) return failed(std::move(result), std::move(wrong));
  result.detail = figures_of(result);
  return result;
}

}  // namespace

CaseResult validate_model(const Device& device, const fs::path& path, const ValidateOptions& options) {
  CaseResult result;
  result.name = path.filename().string();
  auto graph = load_model(path);
  if (!graph && options.host && may_load_in_parts(path, graph.error())) return validate_in_parts(device, path, options);
  if (!graph) return stopped(std::move(result), graph.error());
  auto inputs = random_inputs(*graph, options.seed);
  if (!inputs) return stopped(std::move(result), inputs.error());
  auto program = api::compile_graph(device, *graph, compile_options(options));
  if (!program) return stopped(std::move(result), program.error());
  result.kernels = program->kernel_count();
  const Inputs given = views(*inputs);
  auto outputs = program->run(given);
  if (!outputs) return stopped(std::move(result), outputs.error());
  OneKernelPerOp unfused(device, *graph, given, options);
  std::string first_wrong;
  std::optional<Error> unknown;  // of what the reference cannot follow; other outputs may yet be wrong
  for (const ir::Output& output : graph->outputs()) {
    if (has_own_code(*graph, output.value)) {
      const auto column = reference::evaluate_at(*graph, output.value, {}, feeds_of(*inputs));
      if (!column) unknown = column.error();
      continue;
    }
    const std::string wrong = compare_with_reference(*graph, output, outputs->at(output.name), *inputs, result, options.fusion ? &unfused : nullptr);
    if (first_wrong.empty()) first_wrong = wrong;
  }
  if (!first_wrong.empty()) return failed(std::move(result), std::move(first_wrong));
  if (unknown) return stopped(std::move(result), *unknown);
  result.detail = figures_of(result);
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
  result.detail = kernels_text(result);
  if (!result.outputs.empty() && result.host_steps == 0) {
    result.detail += fmt::format("; {} output{} without a file: largest error / bound {:.3f}", result.outputs.size(), result.outputs.size() == 1 ? "" : "s", result.max_ratio);
  }
  return result;
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
