// Programs and runs through C.
#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>

#include "c/handles.hpp"

namespace vkfuse::c {

Result<CompileOptions> to_options(const vkf_compile_options* given) {
  VKF_TRY(known, options(given, "compile options"));
  const int numerics = static_cast<int>(known.numerics);
  if (numerics < VKF_NUMERICS_STANDARD || numerics > VKF_NUMERICS_F16_ACCUMULATION)
    return invalid("{} is not a kind of numerics: 0 is standard, 1 is strict, 2 has sums in f16.", numerics);
  CompileOptions made;
  made.numerics = numerics == VKF_NUMERICS_STRICT             ? Numerics::strict
                  : numerics == VKF_NUMERICS_F16_ACCUMULATION ? Numerics::f16_accumulation
                                                              : Numerics::standard;
  made.fusion = known.no_fusion == 0;
  VKF_TRY(without, list(known.without, known.without_count, "names to do without"));
  for (const char* name : without) {
    VKF_CHECK_OK(need(name, "name to do without"));
    made.without.emplace_back(name);
  }
  if (known.planner != nullptr) made.planner = known.planner;
  if (known.plan != nullptr) made.plan = known.plan;
  if (known.memory_budget > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return invalid("{} bytes are no memory budget.", known.memory_budget);
  made.memory_budget = static_cast<std::int64_t>(known.memory_budget);
  const int tune = static_cast<int>(known.tune);
  if (tune < VKF_TUNE_OFF || tune > VKF_TUNE_BACKGROUND)
    return invalid("{} is not a way to tune: 0 is off, 1 is on, 2 is in the background.", tune);
  made.tune = static_cast<Tune>(tune);
  if (!(known.tune_ms >= 0)) return invalid("{} ms are no budget.", known.tune_ms);
  if (known.tune_ms > 0) made.tune_ms = known.tune_ms;
  return made;
}

const Port* find(const std::vector<Port>& ports, std::string_view name) {
  const auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.name == name; });
  return found == ports.end() ? nullptr : &*found;
}

Result<const Port*> port_named(const std::vector<Port>& inputs, const std::vector<Port>& outputs, const char* name) {
  VKF_CHECK_OK(need(name, "name of the input or output"));
  const Port* port = find(inputs, name);
  if (port == nullptr) port = find(outputs, name);
  if (port == nullptr) return make_error(ErrorCode::not_found, "The program has no input and no output '{}'.", name);
  return port;
}

const char* name_at(const std::vector<Port>* ports, std::size_t index) {
  return ports != nullptr && index < ports->size() ? (*ports)[index].name.c_str() : nullptr;
}

Result<Inputs> to_inputs(const vkf_host_input* inputs, std::size_t count) {
  VKF_TRY(given, list(inputs, count, "inputs"));
  Inputs made;
  for (const vkf_host_input& input : given) {
    VKF_CHECK_OK(need(input.name, "name of an input"));
    VKF_TRY(bytes, list(static_cast<const std::byte*>(input.data), input.bytes, "bytes of an input"));
    VKF_TRY(sizes, list(input.sizes, input.sizes == nullptr ? 0 : input.rank, "sizes of an input"));
    if (!made.emplace(input.name, HostView(bytes, {sizes.begin(), sizes.end()})).second)
      return invalid("The input '{}' is given twice.", input.name);
  }
  return made;
}

namespace {

Result<std::map<std::string, Buffer, std::less<>>> to_buffers(const vkf_binding* bindings, std::size_t count,
                                                              const std::vector<Port>& ports, const char* kind) {
  VKF_TRY(given, list(bindings, count, "bindings"));
  std::map<std::string, Buffer, std::less<>> made;
  for (const vkf_binding& binding : given) {
    VKF_CHECK_OK(need(binding.name, "name of a binding"));
    VKF_CHECK_OK(need(binding.buffer, "buffer of a binding"));
    if (find(ports, binding.name) == nullptr) return invalid("The program has no {} '{}'.", kind, binding.name);
    if (!made.emplace(binding.name, binding.buffer->buffer).second)
      return invalid("The {} '{}' is bound twice.", kind, binding.name);
  }
  return made;
}

}  // namespace

Result<Bindings> to_bindings(const vkf_program& program, const vkf_bindings* given) {
  VKF_CHECK_OK(need(given, "structure of bindings"));
  VKF_TRY(known, options(given, "bindings"));
  Bindings bindings;
  VKF_TRY(inputs, to_buffers(known.inputs, known.input_count, program.inputs, "input"));
  VKF_TRY(outputs, to_buffers(known.outputs, known.output_count, program.outputs, "output"));
  VKF_TRY(symbols, to_symbols(known.symbols, known.symbol_count));
  VKF_TRY(donated, list(known.donated, known.donated_count, "donated inputs"));
  bindings.inputs = std::move(inputs);
  bindings.outputs = std::move(outputs);
  bindings.symbols = std::move(symbols);
  for (const char* name : donated) {
    VKF_CHECK_OK(need(name, "name of a donated input"));
    bindings.donated.insert(name);
  }
  return bindings;
}

namespace {

/// Runs, and copies each result to where it is wanted: first to the output that names it first, from there to others.
Result<void> run_into(const Executable& executable, const Inputs& given, std::span<vkf_host_output> wanted) {
  const auto memory_of = [&](std::string_view name, DType dtype,
                             std::span<const std::int64_t> sizes) -> Result<std::span<std::byte>> {
    std::span<std::byte> memory;
    for (vkf_host_output& output : wanted) {
      if (output.name != name) continue;
      VKF_TRY(bytes, byte_count(dtype, sizes));
      output.bytes = static_cast<std::size_t>(bytes);
      if (output.capacity < output.bytes)
        return invalid("The output '{}' takes {} bytes, and there is room for {}.", name, output.bytes,
                       output.capacity);
      VKF_CHECK_OK(bytes == 0 ? Result<void>() : need(output.data, "memory of an output"));
      if (memory.empty()) memory = {static_cast<std::byte*>(output.data), output.bytes};
    }
    return memory;
  };
  VKF_CHECK_OK(executable.run(given, memory_of));
  for (std::size_t i = 1; i < wanted.size(); ++i) {
    const auto first = std::ranges::find(wanted, std::string_view(wanted[i].name), &vkf_host_output::name);
    if (first - wanted.begin() < static_cast<std::ptrdiff_t>(i) && first->bytes > 0)
      std::memmove(wanted[i].data, first->data, first->bytes);
  }
  return {};
}

vkf_status explain(const vkf_program* program, vkf_stage stage, std::optional<std::size_t> segment,
                   char** made) noexcept {
  if (made != nullptr) *made = nullptr;
  return guarded([&]() -> Result<void> {
    VKF_CHECK_OK(need(program, "program"));
    VKF_CHECK_OK(need(made, "place for the text"));
    const int number = static_cast<int>(stage);
    if (number < VKF_STAGE_GRAPH || number > VKF_STAGE_HTML)
      return invalid("{} is not a stage: they are numbered from 0 to {}.", number, static_cast<int>(VKF_STAGE_HTML));
    const bool code = number >= VKF_STAGE_GLSL && number <= VKF_STAGE_HLSL;
    if (segment && !code)
      return invalid("Stage {} has no text of one segment: those of {} to {} have.", number,
                     static_cast<int>(VKF_STAGE_GLSL), static_cast<int>(VKF_STAGE_HLSL));
    if (segment && *segment > INT_MAX) return invalid("There is no segment {}.", *segment);
    VKF_TRY(text, program->executable.explain(static_cast<Stage>(number),
                                              segment ? std::optional<int>(static_cast<int>(*segment)) : std::nullopt));
    return hand_out(text, made);
  });
}

}  // namespace

}  // namespace vkfuse::c

using namespace vkfuse;  // NOLINT: this file is the C side

vkf_status vkf_compile(const vkf_device* device, const vkf_graph* graph, const vkf_compile_options* options,
                       vkf_program** made) {
  return c::make(made, "program", [&]() -> Result<vkf_program> {
    VKF_CHECK_OK(c::need(device, "device"));
    VKF_CHECK_OK(c::need(graph, "graph"));
    VKF_TRY(requested, c::to_options(options));
    VKF_CHECK_OK(ir::verify(graph->graph));
    VKF_TRY(executable, api::compile_graph(device->device, graph->graph, requested));
    std::vector<Port> inputs = executable.inputs();
    std::vector<Port> outputs = executable.outputs();
    return vkf_program{std::move(executable), std::move(inputs), std::move(outputs)};
  });
}

void vkf_program_free(vkf_program* program) { delete program; }

vkf_status vkf_supports(const vkf_device* device, const vkf_graph* graph, const vkf_compile_options* options) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(device, "device"));
    VKF_CHECK_OK(c::need(graph, "graph"));
    VKF_TRY(requested, c::to_options(options));
    VKF_CHECK_OK(ir::verify(graph->graph));
    return api::supports_graph(device->device, graph->graph, requested);
  });
}

vkf_status vkf_supports_op(const vkf_device* device, const vkf_op* op, const vkf_type* operands, size_t operand_count) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(device, "device"));
    VKF_TRY(types, c::list(operands, operand_count, "operands"));
    vkf_graph made;
    ir::Graph& graph = made.graph;
    std::vector<vkf_value> values;
    for (const vkf_type& one : types) {
      VKF_TRY(type, c::to_type(&one));
      VKF_TRY(id, graph.add_input("operand " + std::to_string(values.size()), std::move(type)));
      values.push_back(id);
    }
    VKF_TRY(result, c::apply(made, op, values.data(), values.size()));
    VKF_CHECK_OK(graph.add_output("result", result));
    return api::supports_graph(device->device, graph);
  });
}

size_t vkf_program_input_count(const vkf_program* program) { return program == nullptr ? 0 : program->inputs.size(); }
size_t vkf_program_output_count(const vkf_program* program) { return program == nullptr ? 0 : program->outputs.size(); }
const char* vkf_program_input_name(const vkf_program* program, size_t index) {
  return c::name_at(program == nullptr ? nullptr : &program->inputs, index);
}
const char* vkf_program_output_name(const vkf_program* program, size_t index) {
  return c::name_at(program == nullptr ? nullptr : &program->outputs, index);
}

size_t vkf_program_kernel_count(const vkf_program* program) {
  size_t count = 0;
  static_cast<void>(c::guarded([&]() -> Result<void> {
    if (program != nullptr) count = static_cast<size_t>(program->executable.kernel_count());
    return {};
  }));
  return count;
}

vkf_status vkf_program_explain(const vkf_program* program, vkf_stage stage, char** made) {
  return c::explain(program, stage, {}, made);
}

vkf_status vkf_program_save_plan(const vkf_program* program, char** made) {
  if (made != nullptr) *made = nullptr;
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_CHECK_OK(c::need(made, "place for the text"));
    VKF_TRY(text, program->executable.save_plan());
    return c::hand_out(text, made);
  });
}

vkf_status vkf_program_explain_segment(const vkf_program* program, vkf_stage stage, size_t segment, char** made) {
  return c::explain(program, stage, segment, made);
}

vkf_status vkf_program_type(const vkf_program* program, const char* name, vkf_type_report* report) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_TRY(port, c::port_named(program->inputs, program->outputs, name));
    return c::report_type(port->dtype, port->shape, report);
  });
}

vkf_status vkf_program_sizes(const vkf_program* program, const char* name, const vkf_symbol* symbols,
                             size_t symbol_count, vkf_sizes_report* report) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_CHECK_OK(c::need(report, "place for the sizes"));
    VKF_CHECK_OK(c::list(report->sizes, report->capacity, "sizes"));
    VKF_TRY(port, c::port_named(program->inputs, program->outputs, name));
    VKF_TRY(values, c::to_symbols(symbols, symbol_count));
    VKF_TRY(resolved, resolve(port->shape, values));
    VKF_TRY(total, byte_count(port->dtype, resolved));
    report->bytes = static_cast<uint64_t>(total);
    report->rank = resolved.size();
    std::copy_n(resolved.begin(), std::min(report->capacity, resolved.size()), report->sizes);
    return {};
  });
}

vkf_status vkf_program_tune(const vkf_program* program, double budget_ms, const vkf_tune_options* options,
                            vkf_tune_progress* end) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_TRY(known, c::options(options, "tuning options"));
    if (end != nullptr && end->size < offsetof(vkf_tune_progress, candidates))
      return invalid("The progress says that it has {} bytes; set `size` to sizeof.", end->size);
    VKF_TRY(values, c::to_symbols(known.symbols, known.symbol_count));
    const auto plain = [](const TuneProgress& p) {
      return vkf_tune_progress{
          sizeof(vkf_tune_progress), p.segment, p.segments, p.candidates, p.adopted, p.spent_ms, p.budget_ms};
    };
    std::function<void(const TuneProgress&)> tell;
    if (known.progress != nullptr) {
      tell = [&](const TuneProgress& so_far) {
        const vkf_tune_progress now = plain(so_far);
        known.progress(known.progress_user, &now);
      };
    }
    VKF_TRY(done, program->executable.tune(budget_ms, Symbols(values.begin(), values.end()), tell));
    const vkf_tune_progress last = plain(done);
    if (end != nullptr)
      std::memcpy(&end->segment, &last.segment,
                  std::min(end->size, sizeof last) - offsetof(vkf_tune_progress, segment));
    return {};
  });
}

vkf_status vkf_program_memory(const vkf_program* program, const vkf_symbol* symbols, size_t symbol_count,
                              vkf_memory* memory) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_CHECK_OK(c::need(memory, "place for the memory"));
    if (memory->size < sizeof memory->size)
      return invalid("The memory says that it has {} bytes; set `size` to sizeof.", memory->size);
    VKF_TRY(values, c::to_symbols(symbols, symbol_count));
    VKF_TRY(use, program->executable.memory(values));
    const vkf_memory known = {memory->size, use.arena, use.constants, use.inputs, use.outputs, use.staging};
    std::memcpy(memory, &known,
                std::min(memory->size, sizeof known));  // what an older caller does not have is left out
    return {};
  });
}

vkf_status vkf_run(const vkf_program* program, const vkf_host_input* inputs, size_t input_count,
                   vkf_host_output* outputs, size_t output_count) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_TRY(given, c::to_inputs(inputs, input_count));
    VKF_TRY(requested, c::list(outputs, output_count, "outputs"));
    for (const vkf_host_output& output : requested) {
      VKF_CHECK_OK(c::need(output.name, "name of an output"));
      if (c::find(program->outputs, output.name) == nullptr)
        return invalid("The program has no output '{}'.", output.name);
    }
    return c::run_into(program->executable, given, std::span(outputs, output_count));
  });
}

vkf_status vkf_buffer_create(const vkf_device* device, uint64_t bytes, vkf_buffer** made) {
  return c::make(made, "buffer", [&]() -> Result<vkf_buffer> {
    VKF_CHECK_OK(c::need(device, "device"));
    VKF_TRY(buffer, device->device.allocate(bytes));
    return vkf_buffer{std::move(buffer)};
  });
}

vkf_status vkf_buffer_create_for(const vkf_device* device, const vkf_type* type, vkf_buffer** made) {
  return c::make(made, "buffer", [&]() -> Result<vkf_buffer> {
    VKF_CHECK_OK(c::need(device, "device"));
    VKF_TRY(sized, c::to_sized_type(type));
    VKF_TRY(buffer, device->device.allocate(sized.dtype, sized.sizes));
    return vkf_buffer{std::move(buffer)};
  });
}

void vkf_buffer_free(vkf_buffer* buffer) { delete buffer; }

uint64_t vkf_buffer_size(const vkf_buffer* buffer) { return buffer == nullptr ? 0 : buffer->buffer.size(); }

vkf_status vkf_buffer_write(vkf_buffer* buffer, uint64_t offset, const void* data, size_t bytes) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(buffer, "buffer"));
    VKF_TRY(given, c::list(static_cast<const std::byte*>(data), bytes, "bytes"));
    return buffer->buffer.write(given, offset);
  });
}

vkf_status vkf_buffer_read(const vkf_buffer* buffer, uint64_t offset, void* data, size_t bytes) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(buffer, "buffer"));
    VKF_TRY(place, c::list(static_cast<const std::byte*>(data), bytes, "bytes"));
    return buffer->buffer.read({static_cast<std::byte*>(data), place.size()}, offset);
  });
}

vkf_status vkf_submit(const vkf_program* program, const vkf_bindings* bindings, vkf_submission** made) {
  return c::make(made, "submission", [&]() -> Result<vkf_submission> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_TRY(bound, c::to_bindings(*program, bindings));
    VKF_TRY(submission, program->executable.submit(bound));
    return vkf_submission{std::move(submission)};
  });
}

vkf_status vkf_submission_output(const vkf_submission* submission, const char* name, vkf_buffer** made) {
  return c::make(made, "buffer", [&]() -> Result<vkf_buffer> {
    VKF_CHECK_OK(c::need(submission, "submission"));
    VKF_CHECK_OK(c::need(name, "name of an output"));
    const auto found = submission->submission.outputs().find(name);
    if (found == submission->submission.outputs().end()) return invalid("The run has no output '{}'.", name);
    return vkf_buffer{found->second};
  });
}

vkf_status vkf_submission_wait(const vkf_submission* submission) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(submission, "submission"));
    return submission->submission.wait();
  });
}

vkf_status vkf_submission_done(const vkf_submission* submission, int* done) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(submission, "submission"));
    VKF_CHECK_OK(c::need(done, "place for the answer"));
    *done = submission->submission.done() ? 1 : 0;
    return {};
  });
}

void vkf_submission_free(vkf_submission* submission) { delete submission; }
