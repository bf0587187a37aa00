// Programs of several ranks through C.
#include "parallel/program.hpp"

#include <algorithm>
#include <mutex>

#include "c/handles.hpp"

namespace vkfuse::c {

namespace {

Result<ParallelOptions> to_parallel_options(const vkf_parallel_options* given) {
  VKF_TRY(known, options(given, "options of a program of several ranks"));
  ParallelOptions made;
  VKF_TRY(mesh, list(known.mesh, known.mesh_count, "axes of a mesh"));
  made.mesh.sizes.assign(mesh.begin(), mesh.end());
  if (known.timeout_ms != 0) made.timeout = std::chrono::milliseconds(known.timeout_ms);
  if (known.compile_timeout_ms != 0) made.compile_timeout = std::chrono::milliseconds(known.compile_timeout_ms);
  if (known.micro_batches != 0) made.micro_batches = known.micro_batches;
  VKF_TRY(compile, to_options(known.compile));
  made.compile = std::move(compile);
  return made;
}

/// What a compilation is asked for, where it can be.
Result<ParallelOptions> request_of(const vkf_device* device, const vkf_graph* graph,
                                   const vkf_parallel_options* options) {
  VKF_CHECK_OK(need(device, "device"));
  VKF_CHECK_OK(need(graph, "graph"));
  return to_parallel_options(options);
}

/// The others do not wait for a rank that asks for what cannot be.
Result<ParallelOptions> told(const vkf_transport& transport, Result<ParallelOptions> request) {
  if (request) return request;
  const std::scoped_lock lock(transport.transport->turn());
  transport.transport->fail(request.error().message);
  return request;
}

Result<std::span<vkf_host_output>> to_outputs(const vkf_parallel_program& program, vkf_host_output* outputs,
                                              std::size_t count) {
  VKF_TRY(given, list(outputs, count, "outputs"));
  for (const vkf_host_output& output : given) {
    VKF_CHECK_OK(need(output.name, "name of an output"));
    if (find(program.outputs, output.name) == nullptr) return invalid("The program has no output '{}'.", output.name);
    if (output.capacity > 0) VKF_CHECK_OK(need(output.data, "memory of an output"));
  }
  return std::span<vkf_host_output>(outputs, count);
}

/// Copies results where they are wanted, if there is room for all of them.
Result<void> copy_results(const Outputs& results, std::span<vkf_host_output> wanted) {
  for (vkf_host_output& output : wanted) {
    output.bytes = results.at(output.name).bytes.size();
    if (output.capacity < output.bytes)
      return invalid("The output '{}' takes {} bytes, and there is room for {}.", output.name, output.bytes,
                     output.capacity);
  }
  for (const vkf_host_output& output : wanted) {
    if (output.bytes > 0) std::memcpy(output.data, results.at(output.name).bytes.data(), output.bytes);
  }
  return {};
}

/// 0 for null.
template <typename Count>
std::size_t counted(const vkf_parallel_program* program, Count count) noexcept {
  std::size_t counted = 0;
  static_cast<void>(guarded([&]() -> Result<void> {
    if (program != nullptr) counted = static_cast<std::size_t>(count(program->program));
    return {};
  }));
  return counted;
}

}  // namespace

}  // namespace vkfuse::c

using namespace vkfuse;  // NOLINT: this file is the C side

vkf_status vkf_compile_parallel(const vkf_device* device, const vkf_transport* transport, const vkf_graph* graph,
                                const vkf_parallel_options* options, vkf_parallel_program** made) {
  return c::make(made, "program", [&]() -> Result<vkf_parallel_program> {
    VKF_CHECK_OK(c::need(transport, "transport"));
    VKF_TRY(requested, c::told(*transport, c::request_of(device, graph, options)));
    const Result<void> sound = ir::verify(graph->graph);
    Result<ir::Graph> given = sound ? Result<ir::Graph>(graph->graph) : Result<ir::Graph>(sound.error());
    VKF_TRY(program, parallel::compile_graph(device->device, transport->transport, std::move(given), requested));
    std::vector<Port> inputs = program.inputs();
    std::vector<Port> outputs = program.outputs();
    return vkf_parallel_program{std::move(program), std::move(inputs), std::move(outputs)};
  });
}

void vkf_parallel_program_free(vkf_parallel_program* program) { delete program; }

vkf_status vkf_parallel_program_run(const vkf_parallel_program* program, const vkf_host_input* inputs,
                                    size_t input_count, vkf_host_output* outputs, size_t output_count) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_TRY(given, c::to_inputs(inputs, input_count));
    VKF_TRY(wanted, c::to_outputs(*program, outputs, output_count));
    VKF_TRY(results, program->program.run(given));
    return c::copy_results(results, wanted);
  });
}

vkf_status vkf_parallel_program_upload(const vkf_parallel_program* program, const vkf_host_input* inputs,
                                       size_t input_count) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_TRY(given, c::to_inputs(inputs, input_count));
    return program->program.upload(given);
  });
}

vkf_status vkf_parallel_program_execute(const vkf_parallel_program* program) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    return program->program.execute();
  });
}

vkf_status vkf_parallel_program_download(const vkf_parallel_program* program, vkf_host_output* outputs,
                                         size_t output_count) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_TRY(wanted, c::to_outputs(*program, outputs, output_count));
    VKF_TRY(results, program->program.download());
    return c::copy_results(results, wanted);
  });
}

vkf_status vkf_parallel_program_profile(const vkf_parallel_program* program, vkf_profile_report* report) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_CHECK_OK(c::check_report(report));
    VKF_TRY(measured, program->program.profile());
    return c::report_times(measured, *report);
  });
}

vkf_status vkf_parallel_program_explain(const vkf_parallel_program* program, char** made) {
  if (made != nullptr) *made = nullptr;
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_CHECK_OK(c::need(made, "place for the text"));
    return c::hand_out(program->program.explain(), made);
  });
}

size_t vkf_parallel_program_input_count(const vkf_parallel_program* program) {
  return program == nullptr ? 0 : program->inputs.size();
}
size_t vkf_parallel_program_output_count(const vkf_parallel_program* program) {
  return program == nullptr ? 0 : program->outputs.size();
}
const char* vkf_parallel_program_input_name(const vkf_parallel_program* program, size_t index) {
  return c::name_at(program == nullptr ? nullptr : &program->inputs, index);
}
const char* vkf_parallel_program_output_name(const vkf_parallel_program* program, size_t index) {
  return c::name_at(program == nullptr ? nullptr : &program->outputs, index);
}

vkf_status vkf_parallel_program_type(const vkf_parallel_program* program, const char* name, vkf_type_report* report) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_TRY(port, c::port_named(program->inputs, program->outputs, name));
    return c::report_type(port->dtype, port->shape, report);
  });
}

size_t vkf_parallel_program_kernel_count(const vkf_parallel_program* program) {
  return c::counted(program, [](const ParallelProgram& one) { return one.kernel_count(); });
}

size_t vkf_parallel_program_collective_count(const vkf_parallel_program* program) {
  return c::counted(program, [](const ParallelProgram& one) { return one.collective_count(); });
}
