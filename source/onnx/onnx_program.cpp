#include "onnx/onnx_program.hpp"

#include <algorithm>
#include <chrono>

#include "api/program.hpp"
#include "api/tensor_node.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/load.hpp"
#include "onnx/model_source.hpp"
#include "onnx/operands.hpp"
#include "onnx/proto_file.hpp"
#include "onnx/text.hpp"
#include "onnx/value_types.hpp"

namespace vkfuse::onnx {
namespace {

/// Of how many sizes the programs are kept.
constexpr std::size_t kMostSizes = 16;

using State = OnnxProgram::State;
using Part = std::shared_ptr<ProgramPart>;
using Kept = std::vector<std::pair<std::vector<std::int64_t>, Part>>;

Part find_kept(Kept& kept, const std::vector<std::int64_t>& sizes) {
  const auto found = std::ranges::find(kept, sizes, &Kept::value_type::first);
  if (found == kept.end()) return nullptr;
  std::rotate(found, found + 1, kept.end());
  return kept.back().second;
}

void keep(Kept& kept, std::vector<std::int64_t> sizes, Part part) {
  if (kept.size() == kMostSizes) kept.erase(kept.begin());
  kept.emplace_back(std::move(sizes), std::move(part));
}

Result<void> make_graph(const State& state, ProgramPart& part) {
  std::vector<Tensor> outputs;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : part.import.part().outputs) {
    names.push_back(name);
    outputs.push_back(tensor);
  }
  if (outputs.empty()) return {};
  VKF_TRY(graph, api::to_graph(outputs, names, state.weights.model().name));
  part.graph = std::move(graph);
  return {};
}

Result<void> compile_part(const State& state, ProgramPart& part) {
  const std::vector<PlacedStep>& steps = part.import.part().steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].step.recurrence || part.rounds.contains(i)) continue;
    VKF_TRY(rounds, steps[i].step.recurrence->compile(state.device, state.compile_options));
    part.rounds.emplace(i, std::move(rounds));
  }
  if (!part.graph || part.program) return {};
  VKF_TRY(program, api::compile_graph(state.device, *part.graph, state.compile_options));
  part.program = std::move(program);
  return {};
}

/// What a name stands for during a run: elements on the host, on the device, or on both.
struct Held {
  DType dtype = DType::f32;
  Sizes sizes;
  std::optional<std::vector<std::byte>> host;
  std::optional<std::span<const std::byte>> given;  ///< of an input
  std::optional<Buffer> device;

  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t count = static_cast<std::uint64_t>(size_of(dtype));
    for (const std::int64_t size : sizes) count *= static_cast<std::uint64_t>(size);
    return count;
  }
};

class Run {
 public:
  Run(const State& state, Watcher& watcher) : state_(state), watcher_(watcher) {}

  Result<void> give(const Port& port, const Inputs& inputs);
  [[nodiscard]] const std::map<std::string, Held, std::less<>>& held() const { return held_; }
  Result<void> run_kernels(const ProgramPart& part);
  Result<std::vector<StepResults>> run_host(const ProgramPart& part);
  Result<HostTensor> on_host(const std::string& name);

 private:
  Result<Buffer> on_device(const std::string& name);
  Result<vkfuse::Outputs> all_on_host(const std::vector<Port>& ports);
  Result<void> bind_inputs(const Executable& program, Bindings& bindings);
  /// To new buffers.
  Result<void> bind_outputs(const Executable& program, Bindings& bindings);
  /// The operands of a step, with their elements.
  Result<std::vector<std::optional<Value>>> operands_on_host(const PlacedStep& placed, std::uint64_t& bytes_read);
  Result<HostResults> run_step(const ProgramPart& part, std::size_t number, KernelTime& time);

  const State& state_;
  Watcher& watcher_;
  std::map<std::string, Held, std::less<>> held_;
};

Result<void> Run::give(const Port& port, const Inputs& inputs) {
  const auto found = inputs.find(port.name);
  if (found == inputs.end()) return invalid("Input {} is not given.", in_quotes(port.name));
  Held held{port.dtype, found->second.sizes, {}, found->second.bytes, {}};
  if (held.sizes.empty() && !port.shape.empty()) {
    for (const Dim& dim : port.shape) {
      if (dim.is_symbol())
        return invalid("Input {} is {}{}: its sizes must be given with its elements.", in_quotes(port.name),
                       name_of(port.dtype), to_text(port.shape));
      held.sizes.push_back(dim.size());
    }
  }
  bool agrees = held.sizes.size() == port.shape.size();
  for (std::size_t i = 0; agrees && i < port.shape.size(); ++i)
    agrees = port.shape[i].is_symbol() || port.shape[i].size() == held.sizes[i];
  const Result<std::int64_t> bytes = byte_count(port.dtype, held.sizes);
  if (!agrees || !bytes || *bytes != static_cast<std::int64_t>(found->second.bytes.size())) {
    return invalid("Input {} is [{}] in {} bytes; the model takes {}{}.", in_quotes(port.name),
                   fmt::join(held.sizes, ", "), found->second.bytes.size(), name_of(port.dtype), to_text(port.shape));
  }
  held_.insert_or_assign(port.name, std::move(held));
  return {};
}

Result<Buffer> Run::on_device(const std::string& name) {
  Held& held = held_.at(name);
  if (held.device) return *held.device;
  VKF_TRY(buffer, state_.device.allocate(std::max<std::uint64_t>(held.bytes(), 16)));
  const std::span<const std::byte> bytes = held.given ? *held.given : std::span<const std::byte>(*held.host);
  if (!bytes.empty()) VKF_CHECK_OK(buffer.write(bytes));
  held.device = buffer;
  return buffer;
}

Result<HostTensor> Run::on_host(const std::string& name) {
  Held& held = held_.at(name);
  if (held.given) return HostTensor{held.dtype, held.sizes, {held.given->begin(), held.given->end()}};
  if (!held.host) {
    std::vector<std::byte> bytes(held.bytes());
    if (!bytes.empty()) VKF_CHECK_OK(held.device->read(bytes));
    held.host = std::move(bytes);
  }
  return HostTensor{held.dtype, held.sizes, *held.host};
}

Result<void> Run::bind_inputs(const Executable& program, Bindings& bindings) {
  for (const Port& port : program.inputs()) {
    VKF_TRY(buffer, on_device(port.name));
    bindings.inputs.emplace(port.name, buffer);
    const Sizes& sizes = held_.at(port.name).sizes;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (port.shape[i].is_symbol() &&
          bindings.symbols.emplace(port.shape[i].name(), sizes[i]).first->second != sizes[i]) {
        return invalid("Input {} is [{}], but {} is {} of another input.", in_quotes(port.name), fmt::join(sizes, ", "),
                       port.shape[i].name(), bindings.symbols.at(port.shape[i].name()));
      }
    }
  }
  return {};
}

Result<void> Run::bind_outputs(const Executable& program, Bindings& bindings) {
  for (const Port& port : program.outputs()) {
    VKF_TRY(sizes, resolve(port.shape, bindings.symbols));
    Held held{port.dtype, std::move(sizes), {}, {}, {}};
    VKF_TRY(buffer, state_.device.allocate(std::max<std::uint64_t>(held.bytes(), 16)));
    bindings.outputs.emplace(port.name, buffer);
    held.device = buffer;
    held_.insert_or_assign(port.name, std::move(held));
  }
  return {};
}

Result<vkfuse::Outputs> Run::all_on_host(const std::vector<Port>& ports) {
  vkfuse::Outputs all;
  for (const Port& port : ports) {
    VKF_TRY(tensor, on_host(port.name));
    all.emplace(port.name, std::move(tensor));
  }
  return all;
}

Result<void> Run::run_kernels(const ProgramPart& part) {
  if (!part.program) return {};
  const Executable& program = *part.program;
  Bindings bindings;
  VKF_CHECK_OK(bind_inputs(program, bindings));
  VKF_CHECK_OK(bind_outputs(program, bindings));
  VKF_TRY(submission, program.submit(bindings));
  VKF_CHECK_OK(submission.wait());
  watcher_.kernels += program.kernel_count();
  if (watcher_.times) {
    VKF_TRY(times, program.profile(bindings));
    watcher_.measured.insert(watcher_.measured.end(), times.begin(), times.end());
  }
  if (!watcher_.part) return {};
  VKF_TRY(read, all_on_host(program.inputs()));
  VKF_TRY(stored, all_on_host(program.outputs()));
  return watcher_.part({*part.graph, read, stored});
}

Result<std::vector<std::optional<Value>>> Run::operands_on_host(const PlacedStep& placed, std::uint64_t& bytes_read) {
  std::vector<std::optional<Value>> operands = placed.step.operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i] || operands[i]->known) continue;
    VKF_TRY(tensor, on_host(placed.operands[i]));
    bytes_read += tensor.bytes.size();
    operands[i]->known = std::make_shared<const TensorData>(
        TensorData{{}, tensor.dtype, std::move(tensor.sizes), std::move(tensor.bytes)});
  }
  return operands;
}

Result<HostResults> Run::run_step(const ProgramPart& part, std::size_t number, KernelTime& time) {
  const PlacedStep& placed = part.import.part().steps[number];
  const HostStep& step = placed.step;
  VKF_TRY(operands, operands_on_host(placed, time.bytes));
  std::vector<const Value*> values;
  for (const std::optional<Value>& operand : operands) values.push_back(operand ? &*operand : nullptr);
  auto results =
      step.recurrence
          ? step.recurrence->run(part.rounds.at(number), operands)
          : step.row->host(NodeContext(*step.row, step.opset, step.node->output_size(), step.attributes, values));
  if (!results)
    return std::move(results).error().within(fmt::format("running {} ({}) on the host", step.label, step.row->name));
  for (const TensorData& result : *results) time.bytes += result.bytes.size();
  return results;
}

Result<std::vector<StepResults>> Run::run_host(const ProgramPart& part) {
  std::vector<StepResults> all;
  const std::vector<PlacedStep>& steps = part.import.part().steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    KernelTime time{fmt::format("host {}", steps[i].step.row->name), 0, 0};
    VKF_TRY(results, run_step(part, i, time));
    all.emplace_back();
    if (steps[i].step.reads) all.back().values = results;
    for (std::size_t k = 0; k < results.size(); ++k) {
      TensorData& result = results[k];
      all.back().types.emplace_back(result.dtype, result.sizes);
      Held held{result.dtype, result.sizes, std::move(result.bytes), {}, {}};
      held_.insert_or_assign(part.import.result_name(static_cast<int>(i), static_cast<int>(k)), std::move(held));
    }
    time.microseconds = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    ++watcher_.host_steps;
    if (watcher_.times) watcher_.measured.push_back(time);
  }
  return all;
}

/// Whether one program computes all results from what is given. Its own runs serve then, which keep their buffers.
bool is_one_program(const ProgramPart& part) {
  if (!part.import.is_finished() || !part.program) return false;
  const std::vector<Port> stored = part.program->outputs();
  return std::ranges::all_of(part.import.part().results, [&](const auto& result) {
    return std::ranges::find(stored, result.second, &Port::name) != stored.end();
  });
}

Result<vkfuse::Outputs> run_one_program(const ProgramPart& part, const std::map<std::string, Held, std::less<>>& held) {
  Inputs inputs;
  for (const Port& port : part.program->inputs()) {
    const Held& input = held.at(port.name);
    inputs.emplace(port.name, HostView(*input.given, input.sizes));
  }
  VKF_TRY(stored, part.program->run(inputs));
  vkfuse::Outputs outputs;
  const auto& results = part.import.part().results;
  for (auto result = results.begin(); result != results.end(); ++result) {
    HostTensor& tensor = stored.at(result->second);
    const bool is_last =
        std::none_of(result + 1, results.end(), [&](const auto& later) { return later.second == result->second; });
    outputs.emplace(result->first, is_last ? std::move(tensor) : tensor);
  }
  return outputs;
}

/// What tells parts that follow apart.
std::vector<std::int64_t> key_of(const std::vector<StepResults>& results) {
  std::vector<std::int64_t> key;
  for (const StepResults& step : results) {
    for (const auto& [dtype, sizes] : step.types) key.insert(key.end(), sizes.begin(), sizes.end());
    for (const TensorData& value : step.values) {
      for (const std::byte byte : value.bytes) key.push_back(static_cast<std::int64_t>(byte));
    }
  }
  return key;
}

/// What tells first parts apart: the sizes of all inputs, and the elements of those that have decided something.
std::vector<std::int64_t> key_of(const State& state, const GivenInputs& given) {
  std::vector<std::int64_t> key;
  for (const auto& [name, sizes] : given.sizes()) key.insert(key.end(), sizes.begin(), sizes.end());
  for (const std::string& name : state.deciding) {
    const TensorData* value = given.few(name);
    for (std::size_t i = 0; value != nullptr && i < value->bytes.size(); ++i)
      key.push_back(static_cast<std::int64_t>(value->bytes[i]));
  }
  return key;
}

void take_notes(State& state, const ProgramPart& part) {
  for (const std::string& note : part.import.model().notes) {
    if (std::ranges::find(state.notes, note) == state.notes.end()) state.notes.push_back(note);
  }
}

/// The first part of a run with what is held, compiled.
Result<Part> first_part_of(State& state, const std::map<std::string, Held, std::less<>>& held) {
  const std::scoped_lock lock(state.mutex);
  const auto has_symbols = [](const Port& port) { return std::ranges::any_of(port.shape, &Dim::is_symbol); };
  if (state.whole && std::ranges::none_of(state.inputs, has_symbols)) return state.whole;
  GivenInputs given = state.runs_decide ? GivenInputs() : state.given;
  for (const Port& port : state.inputs) {
    const Held& input = held.at(port.name);
    if (state.runs_decide) {
      given.add(port.name, port.dtype, input.sizes, *input.given);
    } else {
      given.set_sizes(port.name, input.sizes);
    }
  }
  if (state.whole && state.weights.agrees_with(given.sizes())) return state.whole;
  if (Part kept = find_kept(state.by_sizes, key_of(state, given))) return kept;
  VKF_TRY(part, first_part(state, given));
  VKF_CHECK_OK(compile_part(state, *part));
  take_notes(state, *part);
  const std::vector<std::string>& constants = part->import.model().constant_inputs;
  state.deciding.insert(constants.begin(), constants.end());
  keep(state.by_sizes, key_of(state, given), part);
  return part;
}

Result<Part> part_after(State& state, ProgramPart& part, const std::vector<StepResults>& results) {
  const std::scoped_lock lock(state.mutex);
  std::vector<std::int64_t> key = key_of(results);
  if (Part kept = find_kept(part.next, key)) return kept;
  VKF_TRY(next, next_part(state, part, results));
  VKF_CHECK_OK(compile_part(state, *next));
  take_notes(state, *next);
  keep(part.next, std::move(key), next);
  return next;
}

/// Whatever is thrown inside comes out as an error.
template <typename Body>
auto guarded(const char* doing, Body body) -> decltype(body()) try {
  return body();
} catch (const std::bad_alloc&) {
  return make_error(ErrorCode::out_of_memory, "There is not enough host memory for {}.", doing);
} catch (const std::exception& failure) {
  return make_error(ErrorCode::internal, "There is a defect in {}: {}.", doing, failure.what());
}

}  // namespace

Result<Part> first_part(const OnnxProgram::State& state, const GivenInputs& given, std::vector<std::string>* deciding) {
  VKF_TRY(import, begin_sized(state.weights, given, deciding));
  auto part = std::make_shared<ProgramPart>(std::move(import));
  VKF_CHECK_OK(make_graph(state, *part));
  return part;
}

Result<Part> next_part(const OnnxProgram::State& state, const ProgramPart& before,
                       const std::vector<StepResults>& results) {
  auto part = std::make_shared<ProgramPart>(before.import);
  VKF_CHECK_OK(part->import.resume(results));
  VKF_CHECK_OK(make_graph(state, *part));
  return part;
}

Result<vkfuse::Outputs> run_program(const OnnxProgram& program, const Inputs& inputs, Watcher& watcher) {
  State& state = *program.state();
  Run run(state, watcher);
  for (const Port& port : state.inputs) VKF_CHECK_OK(run.give(port, inputs));
  VKF_TRY(part, first_part_of(state, run.held()));
  if (!watcher.part && !watcher.times && is_one_program(*part)) {
    watcher.kernels += part->program->kernel_count();
    watcher.results = part->import.part().results;
    return run_one_program(*part, run.held());
  }
  for (;;) {
    VKF_CHECK_OK(run.run_kernels(*part));
    if (part->import.is_finished()) break;
    VKF_TRY(results, run.run_host(*part));
    VKF_TRY(next, part_after(state, *part, results));
    part = next;
  }
  vkfuse::Outputs outputs;
  watcher.results = part->import.part().results;
  for (const auto& [name, place] : watcher.results) {
    VKF_TRY(tensor, run.on_host(place));
    outputs.emplace(name, std::move(tensor));
  }
  return outputs;
}

namespace {

Result<Port> output_type_of(const State& state, std::string_view name) {
  const auto& outputs = state.model->graph().output();
  const auto stated =
      std::ranges::find(outputs, name, [](const auto& info) -> std::string_view { return info.name(); });
  if (stated == outputs.end()) return make_error(ErrorCode::not_found, "The model has no output {}.", in_quotes(name));
  if (state.whole && state.whole->import.is_finished()) {
    const OnnxModel& model = state.whole->import.model();
    const auto at = std::ranges::find(model.output_names, name) - model.output_names.begin();
    const Tensor& output = model.outputs[static_cast<std::size_t>(at)];
    return Port{std::string(name), output.dtype(), output.shape()};
  }
  VKF_TRY(type, input_type(*stated, state.weights.sized(), "Output"));
  if (state.weights.sized().floats && type.dtype == DType::f32) type.dtype = *state.weights.sized().floats;
  return Port{std::string(name), type.dtype, std::move(type.shape)};
}

}  // namespace

Result<vkfuse::Outputs> OnnxProgram::run(const Inputs& inputs) const {
  return guarded("a run", [&]() -> Result<vkfuse::Outputs> {
    Watcher nobody;
    return run_program(*this, inputs, nobody);
  });
}

Result<std::vector<KernelTime>> OnnxProgram::profile(const Inputs& inputs) const {
  return guarded("a run", [&]() -> Result<std::vector<KernelTime>> {
    Watcher watcher;
    watcher.times = true;
    VKF_TRY(outputs, run_program(*this, inputs, watcher));
    static_cast<void>(outputs);
    return watcher.measured;
  });
}

std::vector<Port> OnnxProgram::inputs() const { return state_->inputs; }
std::vector<std::string> OnnxProgram::output_names() const { return state_->output_names; }

std::vector<std::string> OnnxProgram::notes() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->notes;
}

Result<Port> OnnxProgram::output_type(std::string_view name) const {
  return guarded("a model", [&] { return output_type_of(*state_, name); });
}

Result<std::string> OnnxProgram::explain(Stage stage, const std::map<std::string, Sizes, std::less<>>& sizes) const {
  return guarded("a plan", [&] { return explain_program(*this, stage, sizes); });
}

namespace {

Result<OnnxProgram> compile_source(const Device& device, const ModelSource& source, const OnnxOptions& options,
                                   const CompileOptions& compile_options, bool runs_decide) {
  return guarded("the import of a model", [&]() -> Result<OnnxProgram> {
    VKF_TRY(read, source.read());
    Result<OnnxProgram> made =
        compile_model(device, {std::make_unique<const pb::ModelProto>(std::move(read)), source.files(options)}, options,
                      compile_options, runs_decide);
    if (made) return made;
    return std::move(made).error().within(fmt::format("importing {}", source.name()));
  });
}

}  // namespace

Result<OnnxProgram> compile_onnx(const Device& device, const std::filesystem::path& path, const OnnxOptions& options,
                                 const CompileOptions& compile_options) {
  return compile_source(device, path, options, compile_options, true);
}

Result<OnnxProgram> compile_onnx(const Device& device, std::span<const std::byte> model, const OnnxOptions& options,
                                 const CompileOptions& compile_options) {
  return compile_source(device, model, options, compile_options, true);
}

Result<OnnxProgram> compile_given(const Device& device, const std::filesystem::path& path, const OnnxOptions& options,
                                  const CompileOptions& compile_options) {
  return compile_source(device, path, options, compile_options, false);
}

Result<OnnxProgram> compile_model(const Device& device, ParsedModel model, const OnnxOptions& options,
                                  const CompileOptions& compile_options, bool runs_decide) {
  VKF_TRY(weights, ModelImport::load(*model.proto, model.files, options, HostUse::allowed));
  // Sizes that the options state decide the symbols of every run.
  VKF_CHECK_OK(weights.take_input_sizes());
  auto state = std::make_shared<State>(device, std::move(model.proto), std::move(weights),
                                       GivenInputs(options.input_values), compile_options);
  state->notes = state->weights.model().notes;
  state->runs_decide = runs_decide;
  VKF_TRY(inputs, state->weights.stated_inputs());
  state->inputs = std::move(inputs);
  for (const pb::ValueInfoProto& output : state->model->graph().output()) state->output_names.push_back(output.name());
  const bool has_symbols = std::ranges::any_of(
      state->inputs, [](const Port& port) { return std::ranges::any_of(port.shape, &Dim::is_symbol); });
  std::vector<std::string> deciding;
  Result<Part> whole = first_part(*state, {}, &deciding);
  if (!whole) {
    // A run tells sizes and elements, and more may be sound and supported then; or what is given already does.
    const bool may_be_mended =
        whole.error().code == ErrorCode::unsupported || whole.error().code == ErrorCode::invalid_argument;
    if (!may_be_mended || (!has_symbols && deciding.empty())) return std::move(whole).error();
    const auto is_given = [&](const Port& port) { return state->given.sizes().contains(port.name); };
    if (std::ranges::all_of(state->inputs, is_given) || (!runs_decide && !has_symbols)) {
      VKF_TRY(part, first_part(*state, state->given));
      take_notes(*state, *part);
    }
    return OnnxProgram(std::move(state));
  }
  take_notes(*state, **whole);
  if (!has_symbols || (*whole)->import.is_finished()) {
    VKF_CHECK_OK(compile_part(*state, **whole));
    state->whole = *std::move(whole);
  }
  return OnnxProgram(std::move(state));
}

}  // namespace vkfuse::onnx
