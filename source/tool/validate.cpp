#include "tool/validate.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include "api/program.hpp"
#include "api/states.hpp"
#include "api/tensor_node.hpp"
#include "onnx/load.hpp"
#include "onnx/program_watcher.hpp"
#include "tool/validate_output.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::tool {

namespace fs = std::filesystem;

namespace {

CaseResult failed(CaseResult result, std::string why) {
  result.verdict = Verdict::failed;
  result.detail = std::move(why);
  return result;
}

/// What is refused is a skip; a defect, and a device that stops, is a failure.
CaseResult stopped(CaseResult result, const Error& error) {
  const bool is_failure = error.code == ErrorCode::internal || error.code == ErrorCode::device_error ||
                          error.code == ErrorCode::device_lost;
  result.verdict = is_failure ? Verdict::failed : Verdict::skipped;
  result.detail = error.message;
  return result;
}

std::vector<fs::path> sorted_matches(const fs::path& folder, std::string_view prefix) {
  std::vector<std::pair<long, fs::path>> found;
  std::error_code failed_to_list;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed_to_list)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix))
      found.emplace_back(std::strtol(name.c_str() + prefix.size(), nullptr, 10), entry.path());
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

/// Files carry the input's name; those without go by position.
Result<void> name_all(const fs::path& model, std::vector<onnx::TensorData>& inputs) {
  if (std::none_of(inputs.begin(), inputs.end(), [](const onnx::TensorData& tensor) { return tensor.name.empty(); }))
    return {};
  VKF_TRY(names, onnx::input_names_of(model));
  for (std::size_t i = 0; i < inputs.size() && i < names.size(); ++i) {
    if (inputs[i].name.empty()) inputs[i].name = names[i];
  }
  return {};
}

/// How a case is read: as the command says, with the data of its inputs.
ModelOptions informed(ModelOptions options, const std::vector<onnx::TensorData>& inputs) {
  for (const onnx::TensorData& tensor : inputs) {
    if (!tensor.name.empty()) options.values.insert_or_assign(tensor.name, tensor);
  }
  return options;
}

/// The test data stores bfloat16 as u16: the graph says which it is. A model whose floats are converted takes its data
/// so.
HostTensor host_tensor(onnx::TensorData data, DType wanted, const std::optional<DType>& floats = {}) {
  const DType dtype = wanted == DType::bf16 && data.dtype == DType::u16 ? wanted : data.dtype;
  HostTensor tensor{dtype, std::move(data.sizes), std::move(data.bytes)};
  return floats && tensor.dtype == DType::f32 && wanted == *floats ? converted(tensor, wanted) : tensor;
}

/// The files of outputs, without those of f32 where the model computes in another dtype: rounding would be judged, not
/// the device.
std::vector<std::optional<HostTensor>> comparable(const std::vector<onnx::TensorData>& files,
                                                  const std::optional<DType>& floats) {
  std::vector<std::optional<HostTensor>> all;
  for (const onnx::TensorData& file : files) {
    all.emplace_back();
    if (!floats || file.dtype != DType::f32) all.back() = host_tensor(file, file.dtype);
  }
  return all;
}

DType input_dtype(const ir::Graph& graph, const std::string& name) {
  for (ir::NodeId id : graph.inputs()) {
    if (std::get<ir::InputPayload>(graph.node(id).payload).name == name) return graph.node(id).type.dtype;
  }
  return DType::f32;
}

/// What has been judged, and what of it is wrong first.
class Comparing {
 public:
  explicit Comparing(CaseResult& result) : result_(result) {}
  void add(Compared outcome) {
    if (wrong_.empty()) wrong_ = outcome.wrong;
    result_.outputs.push_back(std::move(outcome.result));
  }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  CaseResult& result_;
  std::string wrong_;
};

/// A value that a part has stored.
struct Stored {
  std::string place;
  HostTensor got;
  Compared outcome;
  bool has_reference = true;
};

/// Runs a program in parts. What each part stores is compared with the reference, and with one kernel per op, which
/// both read what the device has read; the model's outputs with their files, where there are any. Returns what is
/// wrong.
Result<std::string> run_parts(const Device& device, const onnx::OnnxProgram& program, const Inputs& inputs,
                              const std::map<std::string, HostTensor>& files, const ValidateOptions& options,
                              const TimeLimit& limit, CaseResult& result) {
  onnx::Watcher watcher;
  std::vector<Stored> all;
  int number = 0;
  watcher.part = [&](const onnx::PartRun& part) -> Result<void> {
    ++number;
    RunInputs given;
    for (const auto& entry : part.inputs) given.tensors.emplace(entry.first, entry.second);
    VKF_TRY(symbols, symbols_of(part.graph, given.tensors));
    given.symbols = symbols;
    const Inputs read = views(given);
    OneKernelPerOp unfused(device, part.graph, read, options);
    Outputs stored = part.outputs;
    if (options.spoil) options.spoil(number, stored);
    std::vector<Result<Referenced>> references = referenced(part.graph, given, part.graph.outputs(), false, limit);
    for (std::size_t i = 0; i < references.size(); ++i) {
      const ir::Output& output = part.graph.outputs()[i];
      HostTensor& got = stored.at(output.name);
      Result<Referenced>& one = references[i];
      if (!one && !reference::has_timed_out(one.error()))
        return make_error(ErrorCode::internal, "{}", one.error().message);  // what has run is not skipped
      Compared outcome = one ? compare_output({*one, options.fusion ? &unfused : nullptr, !files.empty()}, output, got,
                                              result.beside_unfused)
                             : unreferenced_output(output, got);
      if (!one) result.not_referenced = one.error().message;
      outcome.result.part = number;
      all.push_back({output.name, std::move(got), std::move(outcome), one.ok()});
    }
    return {};
  };
  VKF_TRY(outputs, onnx::run_program(program, inputs, watcher));
  if (!result.not_referenced.empty() && files.empty()) return unsupported("{}", result.not_referenced);
  result.kernels = watcher.kernels;
  result.host_steps = watcher.host_steps;
  Comparing comparing(result);
  std::set<std::string> named;
  for (Stored& one : all) {
    bool is_output = false;
    for (const auto& [name, place] : watcher.results) {
      if (place != one.place) continue;
      is_output = true;
      named.insert(name);
      Compared outcome = one.outcome;
      outcome.result.name = name;
      if (const auto file = files.find(name); file != files.end())
        compare_with_file(one.got, file->second, one.has_reference, outcome);
      comparing.add(std::move(outcome));
    }
    if (!is_output) comparing.add(std::move(one.outcome));
  }
  for (const auto& [name, file] : files) {  // what the host has made
    if (named.contains(name)) continue;
    const HostTensor& got = outputs.at(name);
    Compared outcome;
    outcome.result.name = name;
    outcome.result.dtype = got.dtype;
    outcome.result.sizes = got.sizes;
    compare_with_file(got, file, false, outcome);
    comparing.add(std::move(outcome));
  }
  return comparing.wrong();
}

std::string kernels_text(const CaseResult& result) {
  std::string text = fmt::format("{} kernel{}", result.kernels, result.kernels == 1 ? "" : "s");
  if (result.copies > 0) text += fmt::format(" and {} {}", result.copies, result.copies == 1 ? "copy" : "copies");
  if (result.host_steps > 0)
    text += fmt::format(", {} step{} of the host", result.host_steps, result.host_steps == 1 ? "" : "s");
  return text;
}

/// A data set of a model that runs on the host too.
Result<std::string> run_data_set_in_parts(const Device& device, const fs::path& model,
                                          std::vector<onnx::TensorData> inputs,
                                          const std::vector<onnx::TensorData>& expected, const ValidateOptions& options,
                                          const TimeLimit& limit, CaseResult& result) {
  VKF_TRY(program, load_in_parts(device, model, informed(options.model, inputs), compile_options(options)));
  const std::vector<Port> ports = program.inputs();
  std::map<std::string, HostTensor> tensors;
  for (std::size_t i = 0; i < inputs.size() && i < ports.size(); ++i) {
    const std::string name = inputs[i].name.empty() ? ports[i].name : inputs[i].name;
    const auto port = std::find_if(ports.begin(), ports.end(), [&](const Port& one) { return one.name == name; });
    if (port != ports.end()) tensors[name] = host_tensor(std::move(inputs[i]), port->dtype, options.model.floats);
  }
  Inputs given;
  for (const auto& entry : tensors) given.emplace(entry.first, HostView(entry.second.bytes, entry.second.sizes));
  const std::vector<std::string> names = program.output_names();
  std::map<std::string, HostTensor> files;
  const std::vector<std::optional<HostTensor>> compared = comparable(expected, options.model.floats);
  for (std::size_t i = 0; i < compared.size() && i < names.size(); ++i) {
    if (compared[i]) files.emplace(names[i], *compared[i]);
  }
  auto wrong = run_parts(device, program, given, files, options, limit, result);
  result.notes = program.notes();
  return wrong;
}

/// Where outputs come from: a device, or a folder of what another program has computed.
struct Source {
  const Device* device = nullptr;
  fs::path folder;
};

/// NAME.npy or NAME.pb, of the dtype and the sizes that the graph says.
Result<HostTensor> read_output(const fs::path& folder, const ir::Graph& graph, const ir::Output& output,
                               const SymbolValues& symbols) {
  const TensorType& type = graph.node(output.value).type;
  std::error_code ignored;
  fs::path path = folder / (file_stem(output.name) + ".npy");
  if (!fs::exists(path, ignored)) path.replace_extension(".pb");
  if (!fs::exists(path, ignored))
    return unsupported("The folder '{}' has neither {}.npy nor {}.pb for the output '{}'.", folder.string(),
                       path.stem().string(), path.stem().string(), output.name);
  VKF_TRY(tensor, read_tensor(path));
  if (type.dtype == DType::bf16 && size_of(tensor.dtype) == 2) tensor.dtype = type.dtype;  // NumPy has no bfloat16
  VKF_TRY(sizes, resolve(type.shape, symbols));
  if (tensor.dtype == type.dtype && tensor.sizes == sizes) return tensor;
  return invalid("The output '{}' is {}[{}], but '{}' holds {}[{}].", output.name, name_of(type.dtype),
                 fmt::join(sizes, ", "), path.string(), name_of(tensor.dtype), fmt::join(tensor.sizes, ", "));
}

/// What a graph makes of its inputs.
Result<Outputs> outputs_of(const Source& source, const ir::Graph& graph, const Inputs& inputs,
                           const SymbolValues& symbols, const ValidateOptions& options, CaseResult& result) {
  Outputs outputs;
  if (source.device != nullptr) {
    VKF_TRY(program, api::compile_graph(*source.device, graph, compile_options(options)));
    VKF_TRY(specialization, program.state()->program->specialization(symbols));
    result.kernels = program.kernel_count();
    result.copies =
        static_cast<int>(std::count_if(specialization->steps.begin(), specialization->steps.end(),
                                       [](const plan::ScheduledKernel& step) { return step.alias.has_value(); }));
    VKF_TRY(made, program.run(inputs));
    outputs = std::move(made);
  } else {
    result.given = true;
    for (const ir::Output& output : graph.outputs()) {
      VKF_TRY(tensor, read_output(source.folder, graph, output, symbols));
      outputs.emplace(output.name, std::move(tensor));
    }
  }
  if (options.spoil) options.spoil(0, outputs);
  return outputs;
}

/// One kernel per op beside them, if a device is at hand and fusion is on.
std::optional<OneKernelPerOp> unfused_of(const Source& source, const ir::Graph& graph, const Inputs& inputs,
                                         const ValidateOptions& options) {
  if (source.device == nullptr || !options.fusion) return std::nullopt;
  return OneKernelPerOp(*source.device, graph, inputs, options);
}

/// Whether the graph reads no input, and the file states none but those that have become constants.
bool knows_all(const Model& model) {
  const auto is_constant = [&](const std::string& name) {
    return std::find(model.constants.begin(), model.constants.end(), name) != model.constants.end();
  };
  return model.graph.inputs().empty() && std::all_of(model.unread.begin(), model.unread.end(), is_constant);
}

/// Runs one data set; an empty sentence means that everything agrees.
Result<std::string> run_data_set(const Source& source, const fs::path& folder, const fs::path& data,
                                 const ValidateOptions& options, const TimeLimit& limit, CaseResult& result) {
  const fs::path path = folder / "model.onnx";
  auto read = read_tensors(data, "input_");
  if (read) VKF_CHECK_OK(name_all(path, *read));
  const ModelOptions how = informed(options.model, read ? *read : std::vector<onnx::TensorData>());
  auto loaded = load_model(path, how);
  if (!loaded && !read) return std::move(loaded).error();  // what the model itself lacks says more
  VKF_TRY(inputs, std::move(read));
  auto files = read_tensors(data, "output_");
  if (!files && !loaded) return std::move(loaded).error();
  VKF_TRY(expected, std::move(files));
  if (!loaded && source.device != nullptr && may_load_in_parts(path, how, loaded.error()))
    return run_data_set_in_parts(*source.device, path, std::move(inputs), expected, options, limit, result);
  if (!loaded) return std::move(loaded).error();
  result.notes = loaded->notes;
  result.is_known = knows_all(*loaded);
  ir::Graph graph = std::move(loaded->graph);
  graph.name = folder.filename().string();
  RunInputs run_inputs;
  for (onnx::TensorData& tensor : inputs) {
    const std::string name = tensor.name;
    run_inputs.tensors[name] = host_tensor(std::move(tensor), input_dtype(graph, name), options.model.floats);
  }
  for (const auto& [name, one] : options.inputs) {
    if (one.tensor) run_inputs.tensors.insert_or_assign(name, *one.tensor);
  }
  const std::vector<std::optional<HostTensor>> compared = comparable(expected, options.model.floats);
  VKF_TRY(symbols, symbols_of(graph, run_inputs.tensors));
  run_inputs.symbols = symbols;
  Inputs given;
  for (ir::NodeId id : graph.inputs()) {
    const std::string& name = std::get<ir::InputPayload>(graph.node(id).payload).name;
    const auto found = run_inputs.tensors.find(name);
    if (found == run_inputs.tensors.end()) return invalid("The test data has no input '{}'.", name);
    given.emplace(name, HostView(found->second.bytes, found->second.sizes));
  }
  auto made = outputs_of(source, graph, given, symbols, options, result);
  if (!made && source.device == nullptr && made.error().code == ErrorCode::invalid_argument)
    return made.error().message;
  VKF_TRY(outputs, std::move(made));
  std::optional<OneKernelPerOp> unfused = unfused_of(source, graph, given, options);
  Comparing comparing(result);
  std::vector<Result<Referenced>> references = referenced(graph, run_inputs, graph.outputs(), !expected.empty(), limit);
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const ir::Output& output = graph.outputs()[i];
    const HostTensor& got = outputs.at(output.name);
    const std::optional<HostTensor> file = i < compared.size() ? compared[i] : std::nullopt;
    Result<Referenced>& one = references[i];
    if (!one && !(file && reference::has_timed_out(one.error()))) {
      if (comparing.wrong().empty()) return std::move(one).error();
      break;  // what is wrong before counts
    }
    Compared outcome =
        one ? compare_output({*one, unfused ? &*unfused : nullptr, file.has_value(), file ? &*file : nullptr, &graph},
                             output, got, result.beside_unfused)
            : unreferenced_output(output, got);
    if (!one) result.not_referenced = one.error().message;
    if (file) compare_with_file(got, *file, one.ok(), outcome);
    comparing.add(std::move(outcome));
  }
  return comparing.wrong();
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

const OutputResult* CaseResult::worst_by_reference() const {
  const OutputResult* worst = nullptr;
  for (const OutputResult& output : outputs) {
    const reference::Deviation& found = output.found.by_reference;
    if (found.compared > 0 && (worst == nullptr || found.max_ratio > worst->found.by_reference.max_ratio))
      worst = &output;
  }
  return worst;
}

const OutputResult* CaseResult::worst_by_file() const {
  const OutputResult* worst = nullptr;
  for (const OutputResult& output : outputs) {
    const auto& found = output.found.by_file;
    if (found && found->compared > 0 && (worst == nullptr || found->max_ratio > worst->found.by_file->max_ratio))
      worst = &output;
  }
  return worst;
}

int ValidateReport::count(Verdict verdict) const {
  return static_cast<int>(
      std::count_if(cases.begin(), cases.end(), [&](const CaseResult& one) { return one.verdict == verdict; }));
}

namespace {

/// "0.12 of 'y' at [1, 2]"; the place of no error is nowhere.
std::string ratio_text(double ratio, const OutputResult& output, const std::vector<std::int64_t>& position) {
  std::string text = fmt::format("{:.3g}", ratio);
  if (ratio > 0) text += fmt::format(" of '{}' at [{}]", output.name, fmt::join(position, ", "));
  return text;
}

/// Whether a comparison says nothing about the device. An empty output is right wherever its shape is.
bool is_idle(const CaseResult& result) {
  const auto is_empty = [](const OutputResult& output) {
    return std::find(output.sizes.begin(), output.sizes.end(), 0) != output.sizes.end();
  };
  if (result.given || result.kernels > 0 || result.host_steps > 0) return false;
  const bool has_elements = !std::all_of(result.outputs.begin(), result.outputs.end(), is_empty);
  return has_elements && (result.is_known || result.copies == 0);
}

/// The sentence of what is right.
std::string figures_of(const CaseResult& result) {
  std::vector<std::string> parts;
  std::int64_t unbounded = 0, loose = 0, files = 0, referenced = 0, elements = 0, by_file_alone = 0;
  for (const OutputResult& output : result.outputs) {
    std::int64_t count = 1;
    for (const std::int64_t size : output.sizes) count *= size;
    const bool is_of_host = result.host_steps > 0 && output.part == 0;
    elements += is_of_host ? 0 : count;
    referenced += output.found.referenced + output.found.by_file_alone;
    by_file_alone += output.found.by_file_alone;
    unbounded += output.found.unbounded;
    loose += output.found.loose;
    files += output.found.by_file ? 1 : 0;
  }
  if (const OutputResult* one = result.worst_by_reference())
    parts.push_back("largest error / bound " + ratio_text(one->found.by_reference.max_ratio, *one, one->worst));
  if (const OutputResult* one = result.worst_by_file())
    parts.push_back("largest error / tolerance of files " +
                    ratio_text(one->found.by_file->max_ratio, *one, one->file_worst));
  parts.push_back(result.given ? "given outputs"
                               : kernels_text(result) + (is_idle(result) ? ": computed on import" : ""));
  std::string text = fmt::format("{}", fmt::join(parts, ", "));
  std::vector<std::string> held;
  if (unbounded > 0) held.push_back(fmt::format("{} elements without a bound", unbounded));
  if (loose > 0 && !result.beside_unfused.empty())
    held.push_back(
        fmt::format("{}{} with a wide {}", loose, held.empty() ? " elements" : "", held.empty() ? "bound" : "one"));
  if (!held.empty())
    text += fmt::format("; {} agree with the reference{}", fmt::join(held, " and "), result.beside_unfused);
  if (referenced < elements && result.not_referenced.empty())
    text += fmt::format("; {} of {} elements were compared with the reference", referenced, elements);
  if (by_file_alone > 0) text += fmt::format("; the file alone decides {} elements", by_file_alone);
  if (!result.not_referenced.empty())
    text += fmt::format("; {} of {} elements were compared with the reference: {}", referenced, elements,
                        result.not_referenced);
  const auto without = static_cast<std::int64_t>(result.outputs.size()) - files;
  if (!result.outputs.empty() && result.outputs[0].data_set >= 0 && without > 0 && result.host_steps == 0)
    text += fmt::format("; {} output{} without a file", without, without == 1 ? "" : "s");
  return text;
}

CaseResult right(CaseResult result) {
  result.verdict = is_idle(result) ? Verdict::idle : Verdict::passed;
  result.detail = figures_of(result);
  return result;
}

/// A model that runs on the host too, on random inputs.
CaseResult validate_in_parts(const Device& device, const fs::path& path, const ValidateOptions& options) {
  const TimeLimit limit(options);
  CaseResult result;
  result.name = path.filename().string();
  auto program = load_in_parts(device, path, options.model, compile_options(options));
  if (!program) return stopped(std::move(result), program.error());
  auto graph = graph_of(program->inputs());
  if (!graph) return stopped(std::move(result), graph.error());
  auto inputs = inputs_for(*graph, options.inputs, options.model.known, options.seed);
  if (!inputs) return stopped(std::move(result), inputs.error());
  auto wrong = run_parts(device, *program, views(*inputs), {}, options, limit, result);
  result.notes = program->notes();
  if (!wrong) return stopped(std::move(result), wrong.error());
  if (!wrong->empty()) return failed(std::move(result), *std::move(wrong));
  return right(std::move(result));
}

}  // namespace

namespace {

CaseResult validate_graph(const Source& source, const Model& model, const ValidateOptions& options,
                          const TimeLimit& limit, CaseResult result) {
  const ir::Graph& graph = model.graph;
  result.notes = model.notes;
  result.is_known = knows_all(model);
  auto inputs = inputs_for(graph, options.inputs, without_graph(model), options.seed);
  if (!inputs) return stopped(std::move(result), inputs.error());
  const Inputs given = views(*inputs);
  auto outputs = outputs_of(source, graph, given, inputs->symbols, options, result);
  if (!outputs && source.device == nullptr && outputs.error().code == ErrorCode::invalid_argument)
    return failed(std::move(result), outputs.error().message);  // another shape or dtype is wrong
  if (!outputs) return stopped(std::move(result), outputs.error());
  std::optional<OneKernelPerOp> unfused = unfused_of(source, graph, given, options);
  Comparing comparing(result);
  std::optional<Error> unknown;  // of what the reference cannot follow; other outputs may yet be wrong
  std::vector<ir::Output> known;
  for (const ir::Output& output : graph.outputs()) {
    if (!has_own_code(graph, output.value)) {
      known.push_back(output);
      continue;
    }
    const auto column = reference::evaluate_at(graph, output.value, {}, input_bindings_of(*inputs));
    if (!column) unknown = column.error();
  }
  std::vector<Result<Referenced>> references = referenced(graph, *inputs, known, false, limit);
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!references[i] && reference::has_timed_out(references[i].error())) {
      unknown = references[i].error();
      continue;
    }
    if (!references[i]) return failed(std::move(result), references[i].error().message);
    comparing.add(compare_output({*references[i], unfused ? &*unfused : nullptr}, known[i], outputs->at(known[i].name),
                                 result.beside_unfused));
  }
  if (!comparing.wrong().empty()) return failed(std::move(result), comparing.wrong());
  if (unknown) return stopped(std::move(result), *unknown);
  return right(std::move(result));
}

/// Outputs of a data set lie in a folder of its name, unless it is the only one.
Source of_set(Source source, const fs::path& set, std::size_t sets) {
  std::error_code ignored;
  if (source.device == nullptr && (sets > 1 || fs::exists(source.folder / set.filename(), ignored)))
    source.folder /= set.filename();
  return source;
}

CaseResult validate_folder(const Source& source, const fs::path& folder, const ValidateOptions& options) {
  CaseResult result;
  // A folder may be named with a slash at its end.
  result.name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  const std::vector<fs::path> sets = sorted_matches(folder, "test_data_set_");
  std::string first_wrong;
  const TimeLimit limit(options);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::size_t before = result.outputs.size();
    auto wrong = run_data_set(of_set(source, sets[i], sets.size()), folder, sets[i], options, limit, result);
    if (!wrong && first_wrong.empty()) return stopped(std::move(result), wrong.error());
    if (!wrong) break;  // what is wrong before counts
    for (std::size_t k = before; k < result.outputs.size(); ++k) result.outputs[k].data_set = static_cast<int>(i);
    if (first_wrong.empty()) first_wrong = *std::move(wrong);
  }
  if (!first_wrong.empty()) return failed(std::move(result), std::move(first_wrong));
  if (sets.empty()) {
    result.verdict = Verdict::skipped;
    result.detail = "The folder has no test_data_set_*.";
    return result;
  }
  return right(std::move(result));
}

}  // namespace

CaseResult validate_model(const Device& device, const fs::path& path, const ValidateOptions& options) {
  const TimeLimit limit(options);
  CaseResult result;
  result.name = path.filename().string();
  auto model = load_model(path, options.model);
  if (!model && may_load_in_parts(path, options.model, model.error())) return validate_in_parts(device, path, options);
  if (!model) return stopped(std::move(result), model.error());
  return validate_graph({&device, {}}, *model, options, limit, std::move(result));
}

CaseResult validate_case(const Device& device, const fs::path& folder, const ValidateOptions& options) {
  return validate_folder({&device, {}}, folder, options);
}

CaseResult validate_outputs(const fs::path& path, const fs::path& outputs, const ValidateOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return validate_folder({nullptr, outputs}, path, options);
  const TimeLimit limit(options);
  CaseResult result;
  result.name = path.filename().string();
  auto model = load_model(path, options.model);
  if (!model) return stopped(std::move(result), model.error());
  return validate_graph({nullptr, outputs}, *model, options, limit, std::move(result));
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
