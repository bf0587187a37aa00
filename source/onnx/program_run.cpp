// Runs of a model's program, part by part.
#include <algorithm>
#include <chrono>

#include "api/tensor_node.hpp"
#include "base/host_memory.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/onnx_program.hpp"
#include "onnx/operands.hpp"
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

/// A buffer for what a program stores; nothing where it is to have a new one.
using BufferFor = std::function<Result<std::optional<Buffer>>(const Port& port, const Sizes& sizes)>;

class Run {
 public:
  Run(const State& state, Watcher& watcher) : state_(state), watcher_(watcher) {}

  Result<void> give(const Port& port, const Inputs& inputs);
  Result<void> give(const Port& port, const RunInputs& inputs);
  [[nodiscard]] const std::map<std::string, Held, std::less<>>& held() const { return held_; }
  Result<void> run_kernels(const ProgramPart& part, const BufferFor& buffer_for = {});
  Result<std::vector<StepResults>> run_host(const ProgramPart& part);
  Result<HostTensor> on_host(const std::string& name);
  Result<Buffer> on_device(const std::string& name);
  /// The elements of an input, if they are few enough to decide anything.
  Result<void> give_elements(const std::string& name, GivenInputs& given);
  /// Copies what a name stands for to where it is wanted.
  Result<void> copy_to(const std::string& name, const ResultPlace& place);

 private:
  /// The input's sizes, as they are given or stated; they and the bytes must agree with its type.
  Result<void> hold(const Port& port, Held held, std::uint64_t bytes);
  Result<vkfuse::Outputs> all_on_host(const std::vector<Port>& ports);
  Result<void> bind_inputs(const Executable& program, Bindings& bindings);
  Result<void> bind_outputs(const Executable& program, const BufferFor& buffer_for, Bindings& bindings);
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
  const HostView& view = found->second;
  return hold(port, {port.dtype, view.sizes, {}, view.bytes, {}}, view.bytes.size());
}

Result<void> Run::give(const Port& port, const RunInputs& inputs) {
  const auto found = inputs.find(port.name);
  if (found == inputs.end()) return invalid("Input {} is not given.", in_quotes(port.name));
  if (const auto* view = std::get_if<HostView>(&found->second))
    return hold(port, {port.dtype, view->sizes, {}, view->bytes, {}}, view->bytes.size());
  const auto& tensor = std::get<DeviceTensor>(found->second);
  Held held{port.dtype, tensor.sizes, {}, {}, tensor.buffer};
  const std::uint64_t bytes = held.bytes();
  if (tensor.buffer.size() < bytes)
    return invalid("Input {} is [{}] in a buffer of {} bytes.", in_quotes(port.name), fmt::join(tensor.sizes, ", "),
                   tensor.buffer.size());
  return hold(port, std::move(held), bytes);
}

Result<void> Run::hold(const Port& port, Held held, std::uint64_t bytes) {
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
  const Result<std::int64_t> wanted = byte_count(port.dtype, held.sizes);
  if (!agrees || !wanted || *wanted != static_cast<std::int64_t>(bytes)) {
    return invalid("Input {} is [{}] in {} bytes; the model takes {}{}.", in_quotes(port.name),
                   fmt::join(held.sizes, ", "), bytes, name_of(port.dtype), to_text(port.shape));
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
    std::vector<std::byte> bytes = zero_bytes(held.bytes());
    if (!bytes.empty()) VKF_CHECK_OK(held.device->read(bytes));
    held.host = std::move(bytes);
  }
  return HostTensor{held.dtype, held.sizes, *held.host};
}

Result<void> Run::give_elements(const std::string& name, GivenInputs& given) {
  const Held& held = held_.at(name);
  if (held.bytes() > kMaxComputedElements * static_cast<std::uint64_t>(size_of(held.dtype))) return {};
  VKF_TRY(tensor, on_host(name));
  given.add(name, tensor.dtype, tensor.sizes, tensor.bytes);
  return {};
}

Result<void> Run::copy_to(const std::string& name, const ResultPlace& place) {
  const Held& held = held_.at(name);
  if (const auto* memory = std::get_if<std::span<std::byte>>(&place); memory != nullptr && !memory->empty()) {
    if (memory->size() != held.bytes())
      return invalid("Output {} takes {} bytes, and memory of {} is given for it.", in_quotes(name), held.bytes(),
                     memory->size());
    if (held.device && !held.host) return held.device->read(*memory);
    VKF_TRY(tensor, on_host(name));
    std::ranges::copy(tensor.bytes, memory->begin());
  } else if (const auto* buffer = std::get_if<Buffer>(&place); buffer != nullptr && held.bytes() > 0) {
    VKF_TRY(tensor, on_host(name));
    return buffer->write(tensor.bytes);
  }
  return {};
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

Result<void> Run::bind_outputs(const Executable& program, const BufferFor& buffer_for, Bindings& bindings) {
  for (const Port& port : program.outputs()) {
    VKF_TRY(sizes, resolve(port.shape, bindings.symbols));
    Held held{port.dtype, std::move(sizes), {}, {}, {}};
    if (buffer_for) {
      VKF_TRY(buffer, buffer_for(port, held.sizes));
      held.device = std::move(buffer);
    }
    if (!held.device) {
      VKF_TRY(buffer, state_.device.allocate(std::max<std::uint64_t>(held.bytes(), 16)));
      held.device = std::move(buffer);
    }
    bindings.outputs.emplace(port.name, *held.device);
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

Result<void> Run::run_kernels(const ProgramPart& part, const BufferFor& buffer_for) {
  if (!part.program) return {};
  const Executable& program = *part.program;
  Bindings bindings;
  VKF_CHECK_OK(bind_inputs(program, bindings));
  VKF_CHECK_OK(bind_outputs(program, buffer_for, bindings));
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

Inputs inputs_of(const Executable& program, const std::map<std::string, Held, std::less<>>& held) {
  Inputs inputs;
  for (const Port& port : program.inputs()) {
    const Held& input = held.at(port.name);
    inputs.emplace(port.name, HostView(*input.given, input.sizes));
  }
  return inputs;
}

Result<vkfuse::Outputs> run_one_program(const ProgramPart& part, const std::map<std::string, Held, std::less<>>& held) {
  VKF_TRY(stored, part.program->run(inputs_of(*part.program, held)));
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

/// The same into `memory`. Several results may be one of the program: the first that is wanted gets it, and the others
/// copies.
Result<void> run_one_program(const ProgramPart& part, const std::map<std::string, Held, std::less<>>& held,
                             const OutputMemory& memory) {
  std::map<std::string, std::vector<std::span<std::byte>>, std::less<>> places;
  const auto memory_of = [&](std::string_view stored, DType dtype,
                             std::span<const std::int64_t> sizes) -> Result<std::span<std::byte>> {
    std::vector<std::span<std::byte>>& wanted = places[std::string(stored)];
    for (const auto& [name, place] : part.import.part().results) {
      if (place != stored) continue;
      VKF_TRY(given, memory(name, dtype, sizes));
      if (given.empty()) continue;
      if (!wanted.empty() && wanted.front().size() != given.size())
        return invalid("Output {} takes {} bytes, and memory of {} is given for it.", in_quotes(name),
                       wanted.front().size(), given.size());
      wanted.push_back(given);
    }
    return wanted.empty() ? std::span<std::byte>() : wanted.front();
  };
  VKF_CHECK_OK(part.program->run(inputs_of(*part.program, held), memory_of));
  for (const auto& [stored, wanted] : places) {
    for (std::size_t i = 1; i < wanted.size(); ++i) std::ranges::copy(wanted.front(), wanted[i].begin());
  }
  return {};
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

/// The first part of a run with what is held, compiled.
Result<Part> first_part_of(State& state, Run& run) {
  const std::scoped_lock lock(state.mutex);
  const auto has_symbols = [](const Port& port) { return std::ranges::any_of(port.shape, &Dim::is_symbol); };
  if (state.whole && std::ranges::none_of(state.inputs, has_symbols)) return state.whole;
  GivenInputs given = state.runs_decide ? GivenInputs() : state.given;
  for (const Port& port : state.inputs) given.set_sizes(port.name, run.held().at(port.name).sizes);
  if (state.whole && state.weights.agrees_with(given.sizes())) return state.whole;
  const auto add_elements = [&](const auto& is_asked_for) -> Result<void> {
    for (const Port& port : state.inputs) {
      if (!state.runs_decide || !is_asked_for(port.name)) continue;
      VKF_CHECK_OK(run.give_elements(port.name, given));
    }
    return {};
  };
  VKF_CHECK_OK(add_elements([&](const std::string& name) { return state.deciding.contains(name); }));
  if (Part kept = find_kept(state.by_sizes, key_of(state, given))) return kept;
  VKF_CHECK_OK(add_elements([](const std::string&) { return true; }));
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

}  // namespace

namespace {

/// The last part of a run, from the first one; what it tells of results is where they are held.
Result<Part> run_parts(State& state, Run& run, Part part) {
  for (;;) {
    VKF_CHECK_OK(run.run_kernels(*part));
    if (part->import.is_finished()) return part;
    VKF_TRY(results, run.run_host(*part));
    VKF_TRY(next, part_after(state, *part, results));
    part = next;
  }
}

/// One program, whose results go to buffers of the caller where that has some; results that are one of the program
/// twice, or wanted on the host, are copied afterwards.
Result<void> run_one_placed(Run& run, const ProgramPart& part, const ResultPlaces& places) {
  std::vector<std::pair<std::string, ResultPlace>> copied;
  const auto buffer_for = [&](const Port& port, const Sizes& sizes) -> Result<std::optional<Buffer>> {
    std::optional<Buffer> bound;
    for (const auto& [name, stored] : part.import.part().results) {
      if (stored != port.name) continue;
      VKF_TRY(place, places(name, port.dtype, sizes));
      if (const auto* buffer = std::get_if<Buffer>(&place); buffer != nullptr && !bound) {
        bound = *buffer;
      } else {
        copied.emplace_back(stored, std::move(place));
      }
    }
    return bound;
  };
  VKF_CHECK_OK(run.run_kernels(part, buffer_for));
  for (const auto& [stored, place] : copied) VKF_CHECK_OK(run.copy_to(stored, place));
  return {};
}

/// A run with these inputs: what `run_one` makes of it where one program serves, else part by part.
template <typename Given, typename RunOne>
Result<void> run_to(State& state, const Given& inputs, const ResultPlaces& places, const RunOne& run_one) {
  Watcher nobody;
  Run run(state, nobody);
  for (const Port& port : state.inputs) VKF_CHECK_OK(run.give(port, inputs));
  VKF_TRY(first, first_part_of(state, run));
  if (is_one_program(*first)) return run_one(run, *first);
  VKF_TRY(last, run_parts(state, run, first));
  for (const auto& [name, stored] : last->import.part().results) {
    const Held& held = run.held().at(stored);
    VKF_TRY(place, places(name, held.dtype, held.sizes));
    VKF_CHECK_OK(run.copy_to(stored, place));
  }
  return {};
}

}  // namespace

Result<vkfuse::Outputs> run_program(const OnnxProgram& program, const Inputs& inputs, Watcher& watcher) {
  State& state = *program.state();
  Run run(state, watcher);
  for (const Port& port : state.inputs) VKF_CHECK_OK(run.give(port, inputs));
  VKF_TRY(first, first_part_of(state, run));
  if (!watcher.part && !watcher.times && is_one_program(*first)) {
    watcher.kernels += first->program->kernel_count();
    watcher.results = first->import.part().results;
    return run_one_program(*first, run.held());
  }
  VKF_TRY(last, run_parts(state, run, first));
  vkfuse::Outputs outputs;
  watcher.results = last->import.part().results;
  for (const auto& [name, place] : watcher.results) {
    VKF_TRY(tensor, run.on_host(place));
    outputs.emplace(name, std::move(tensor));
  }
  return outputs;
}

Result<vkfuse::Outputs> OnnxProgram::run(const Inputs& inputs) const {
  return guarded("a run", [&]() -> Result<vkfuse::Outputs> {
    Watcher nobody;
    return run_program(*this, inputs, nobody);
  });
}

Result<void> OnnxProgram::run(const Inputs& inputs, const OutputMemory& memory) const {
  const ResultPlaces places = [&](std::string_view name, DType dtype,
                                  std::span<const std::int64_t> sizes) -> Result<ResultPlace> {
    VKF_TRY(given, memory(name, dtype, sizes));
    return ResultPlace(given);
  };
  return guarded("a run", [&] {
    return run_to(*state_, inputs, places,
                  [&](Run& run, const ProgramPart& part) { return run_one_program(part, run.held(), memory); });
  });
}

Result<void> OnnxProgram::run_placed(const RunInputs& inputs, const ResultPlaces& places) const {
  return guarded("a run", [&] {
    return run_to(*state_, inputs, places,
                  [&](Run& run, const ProgramPart& part) { return run_one_placed(run, part, places); });
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

}  // namespace vkfuse::onnx
