// One rank's program: parts on its device, collectives between them.
#include <algorithm>
#include <limits>
#include <mutex>

#include "api/program.hpp"
#include "api/states.hpp"
#include "api/tensor_node.hpp"
#include "base/mutations.hpp"
#include "parallel/agreement.hpp"
#include "parallel/cut.hpp"
#include "parallel/exchange.hpp"
#include "parallel/local_inputs.hpp"
#include "parallel/sharding.hpp"
#include "passes/passes.hpp"
#include "vkfuse/parallel.hpp"

namespace vkfuse {

using parallel::Step;

struct ParallelProgram::State {
  State(Device on, std::shared_ptr<Transport> over) : device(std::move(on)), transport(std::move(over)) {}

  Device device;
  std::shared_ptr<Transport> transport;
  std::chrono::milliseconds timeout{};
  std::vector<int> mesh;
  std::uint64_t number = 0;   ///< of this program among those of the transport, on every rank
  ir::Graph graph;            ///< as it was given
  parallel::Sharded sharded;  ///< its graph is that of this rank
  parallel::Cut cut;
  std::vector<std::optional<Executable>> programs;     ///< of parts; none where a part computes nothing
  std::optional<Error> failure;                        ///< of an earlier run: ranks are no longer in step
  std::map<std::string, Buffer, std::less<>> buffers;  ///< of values, kept between runs
};

namespace {

using State = ParallelProgram::State;
using Clock = std::chrono::steady_clock;

/// Buffers are bound whole 16 bytes at a time.
std::uint64_t padded(std::int64_t bytes) { return std::max<std::uint64_t>(static_cast<std::uint64_t>(bytes), 16); }

/// A timeout is as long as somebody likes, and the clock's range is not.
Clock::time_point after(std::chrono::milliseconds timeout) {
  return Clock::now() + std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
}

/// A run of this rank: values by name, on the device.
class Run {
 public:
  explicit Run(State& state) : state_(state) {}

  Result<Outputs> run(const Inputs& inputs) {
    VKF_CHECK_OK(upload(inputs));
    VKF_CHECK_OK(begin());
    for (std::size_t part = 0; part < state_.programs.size(); ++part) {
      VKF_CHECK_OK(run_part(part));
      if (part == state_.cut.steps.size()) break;
      for (const Step& step : state_.cut.steps[part]) VKF_CHECK_OK(run_step(step));
    }
    return download();
  }

 private:
  Result<void> upload(const Inputs& inputs);
  /// Ranks that are in step know that they are.
  Result<void> begin();
  /// Of the exchanges of one collective.
  [[nodiscard]] Clock::time_point deadline() const {
    return after(VKF_PLANT(late_deadline, state_.timeout, state_.timeout + std::chrono::seconds(7)));
  }
  /// What a rank that fails in this collective was at.
  [[nodiscard]] std::string at(const Step& step, std::size_t collective) const {
    return fmt::format("'{}' %{}, collective {} of the program, with a timeout of {} ms", step.node.op->name, step.id,
                       collective, state_.timeout.count());
  }
  Result<void> run_part(std::size_t part);
  Result<void> run_step(const Step& step);
  Result<Outputs> download();
  Result<Sizes> sizes_of(const Shape& shape) const;
  /// Of a value of this name, kept since an earlier run if that was of this size.
  Result<Buffer> buffer_for(const std::string& name, std::int64_t bytes);
  Result<parallel::SharedBytes> read(const std::string& name, std::int64_t bytes) const;

  State& state_;
  SymbolValues symbols_;
  std::size_t collective_ = 0;
};

Result<Sizes> Run::sizes_of(const Shape& shape) const { return resolve(shape, symbols_); }

Result<Buffer> Run::buffer_for(const std::string& name, std::int64_t bytes) {
  const auto kept = state_.buffers.find(name);
  if (kept != state_.buffers.end() && kept->second.size() == padded(bytes)) return kept->second;
  VKF_TRY(buffer, state_.device.allocate(padded(bytes)));
  state_.buffers.insert_or_assign(name, buffer);
  return buffer;
}

Result<parallel::SharedBytes> Run::read(const std::string& name, std::int64_t bytes) const {
  auto made = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
  if (bytes > 0) VKF_CHECK_OK(state_.buffers.at(name).read(*made));
  return made;
}

Result<void> Run::upload(const Inputs& inputs) {
  VKF_TRY(local, parallel::local_inputs(state_.graph, state_.sharded, state_.mesh, state_.transport->rank(), inputs));
  symbols_ = std::move(local.symbols);
  for (const auto& [name, bytes] : local.values) {
    VKF_TRY(buffer, buffer_for(name, static_cast<std::int64_t>(bytes.size())));
    if (!bytes.empty()) VKF_CHECK_OK(buffer.write(bytes));
  }
  return {};
}

Result<void> Run::begin() {
  const auto first = std::ranges::find_if(state_.cut.steps, [](const auto& steps) { return !steps.empty(); });
  if (first == state_.cut.steps.end()) return {};
  auto agreed = parallel::agree_about_run(*state_.transport, {state_.number, symbols_}, deadline());
  if (agreed) return {};
  return std::move(agreed).error().within(fmt::format("beginning a run, before {}", at(first->front(), 0)));
}

Result<void> Run::run_part(std::size_t part) {
  if (!state_.programs[part]) return {};
  const Executable& program = *state_.programs[part];
  Bindings bindings;
  const auto note_symbols = [&](const Shape& shape) {
    for (const Dim& dim : shape) {
      if (dim.is_symbol())
        bindings.symbols.insert_or_assign(std::string(dim.name()), symbols_.at(std::string(dim.name())));
    }
  };
  for (const Port& port : program.inputs()) {
    bindings.inputs.emplace(port.name, state_.buffers.at(port.name));
    note_symbols(port.shape);
  }
  for (const Port& port : program.outputs()) {
    VKF_TRY(sizes, sizes_of(port.shape));
    VKF_TRY(bytes, byte_count(port.dtype, sizes));
    VKF_TRY(buffer, buffer_for(port.name, bytes));
    bindings.outputs.emplace(port.name, buffer);
    note_symbols(port.shape);
  }
  VKF_TRY(submission, program.submit(bindings));
  return submission.wait();
}

Result<void> Run::run_step(const Step& step) {
  VKF_TRY(sizes, sizes_of(step.operand_type.shape));
  VKF_TRY(bytes, byte_count(step.operand_type.dtype, sizes));
  VKF_TRY(operand, read(step.operand, bytes));
  const std::uint64_t number = state_.transport->take_numbers(parallel::kExchanges);
  auto result = parallel::run_collective(
      *state_.transport, {step.node, step.operand_type.dtype, std::move(sizes), operand, number, deadline()});
  const std::size_t collective = collective_++;
  if (!result) return std::move(result).error().within(fmt::format("running {}", at(step, collective)));
  VKF_TRY(buffer, buffer_for(step.result, static_cast<std::int64_t>((*result)->size())));
  if (!(*result)->empty()) VKF_CHECK_OK(buffer.write(**result));
  return {};
}

Result<Outputs> Run::download() {
  Outputs outputs;
  for (const parallel::Cut::Result& output : state_.cut.outputs) {
    VKF_TRY(sizes, sizes_of(output.type.shape));
    VKF_TRY(count, byte_count(output.type.dtype, sizes));
    VKF_TRY(bytes, read(output.value, count));
    outputs[output.name] = {output.type.dtype, std::move(sizes), std::move(*bytes)};
  }
  return outputs;
}

/// The others do not wait for a rank that has failed.
template <typename T>
Result<T> told(Transport& transport, Result<T> result) {
  if (!result) transport.fail(result.error().message);
  return result;
}

Result<void> compile_parts(State& state, const CompileOptions& options) {
  for (const ir::Graph& part : state.cut.parts) {
    if (part.outputs().empty()) {
      state.programs.emplace_back();
      continue;
    }
    VKF_TRY(program, api::compile_graph(state.device, part, options));
    state.programs.emplace_back(std::move(program));
  }
  return {};
}

Result<void> check_groups(const State& state) {
  for (const std::vector<Step>& steps : state.cut.steps) {
    for (const Step& step : steps) {
      VKF_TRY(members,
              parallel::members_of(*ir::group_of(step.node), state.transport->rank(), state.transport->size()));
      static_cast<void>(members);
    }
  }
  return {};
}

Result<void> check_options(const ParallelOptions& options) {
  if (options.timeout.count() <= 0 || options.compile_timeout.count() <= 0) {
    return invalid("The timeouts of a program of several ranks are above 0 ms, but {} ms and {} ms are given.",
                   options.timeout.count(), options.compile_timeout.count());
  }
  if (options.compile.plan.empty()) return {};
  return unsupported("A saved plan of {} bytes is given, but a program of several ranks is compiled in parts.",
                     options.compile.plan.size());
}

Result<void> check_mesh(const State& state) {
  std::int64_t ranks = 1;
  for (const int size : state.mesh) {
    if (size < 1)
      return invalid("A mesh has one rank or more along each axis, but [{}] is given.", fmt::join(state.mesh, ", "));
    ranks = checked_mul(ranks, size).value_or(std::numeric_limits<std::int64_t>::max());
  }
  if (ranks == state.transport->size()) return {};
  return invalid("A mesh of [{}] has {} ranks, but the job has {}.", fmt::join(state.mesh, ", "), ranks,
                 state.transport->size());
}

/// Ranks that count along other meshes have other parts, whatever they exchange.
std::vector<std::string> lines_of(const State& state) {
  std::vector<std::string> lines = parallel::collective_lines(state.cut);
  if (state.mesh.empty()) return lines;
  for (std::string& line : lines) line += fmt::format(", over a mesh of [{}]", fmt::join(state.mesh, ", "));
  return lines;
}

Result<void> prepare(State& state, const ParallelOptions& options) {
  // No rank waits for a value that nothing reads.
  VKF_TRY(live, passes::remove_dead(state.graph));
  state.graph = std::move(live);
  if (state.mesh.empty()) {
    state.sharded.graph = state.graph;
  } else {
    VKF_CHECK_OK(check_mesh(state));
    VKF_TRY(sharded, parallel::shard_graph(state.graph, state.mesh, state.transport->rank()));
    state.sharded = std::move(sharded);
  }
  VKF_TRY(cut, parallel::cut_at_collectives(state.sharded.graph));
  state.cut = std::move(cut);
  VKF_CHECK_OK(check_groups(state));
  // Before anything is compiled: a mistake is known at once.
  VKF_CHECK_OK(parallel::agree(*state.transport, lines_of(state), after(options.compile_timeout)));
  VKF_CHECK_OK(compile_parts(state, options.compile));
  // Runs begin when the last rank has compiled, so that their timeout is of runs alone.
  return parallel::agree(*state.transport, {"compiled"}, after(options.compile_timeout));
}

Result<ParallelProgram> compile_graph(const Device& device, std::shared_ptr<Transport> transport,
                                      Result<ir::Graph> graph, const ParallelOptions& options) {
  if (transport == nullptr) return invalid("A program of several ranks needs a transport, but none is given.");
  const std::scoped_lock lock(transport->turn());
  auto state = std::make_shared<State>(device, transport);
  state->number = transport->take_numbers(1);
  state->timeout = options.timeout;
  state->mesh = options.mesh.sizes;
  Result<void> made = check_options(options);
  if (made && !graph) made = std::move(graph).error();
  if (made) {
    state->graph = *std::move(graph);
    made = prepare(*state, options);
  }
  made = told(*transport, std::move(made));
  if (!made)
    return std::move(made).error().within(fmt::format("compiling rank {}'s part of a program", transport->rank()));
  return ParallelProgram(std::move(state));
}

std::string part_text(const State& state, std::size_t part) {
  const auto& program = state.programs[part];
  if (!program) return fmt::format("part {}: no kernel\n", part);
  const int kernels = program->kernel_count();
  return fmt::format("part {}: {} kernel{}, {} ops\n", part, kernels, kernels == 1 ? "" : "s",
                     state.cut.parts[part].size() - state.cut.parts[part].inputs().size());
}

std::string step_text(const State& state, const Step& step) {
  const ir::RankGroup& group = *ir::group_of(step.node);
  std::string text =
      fmt::format("  {} {} = {} of {} : {}, between {} ranks that are {} apart", step.node.op->name, step.result,
                  step.operand, to_text(step.operand_type), to_text(step.node.type), group.ranks, group.stride);
  const Result<Sizes> sizes = resolve(step.operand_type.shape, {});
  if (sizes) {
    const Result<std::int64_t> bytes = byte_count(step.operand_type.dtype, *sizes);
    if (bytes) text += fmt::format(", {} bytes sent", parallel::bytes_sent(step.node, *bytes));
  }
  for (const parallel::Reason& reason : state.sharded.reasons) {
    if (reason.value == step.id) text += fmt::format("\n    why: {}", reason.text);
  }
  return text + "\n";
}

}  // namespace

Result<Outputs> ParallelProgram::run(const Inputs& inputs) const {
  return api::guarded([&]() -> Result<Outputs> {
    const std::scoped_lock lock(state_->transport->turn());
    if (state_->failure) return Error(*state_->failure).within("running a program after a run that has failed");
    Result<Outputs> outputs = told(*state_->transport, api::guarded([&] { return Run(*state_).run(inputs); }));
    if (!outputs) state_->failure = outputs.error();
    return outputs;
  });
}

std::string ParallelProgram::explain() const {
  std::string text = fmt::format("rank {} of {}\n", state_->transport->rank(), state_->transport->size());
  for (std::size_t part = 0; part < state_->programs.size(); ++part) {
    text += part_text(*state_, part);
    if (part == state_->cut.steps.size()) break;
    for (const Step& step : state_->cut.steps[part]) text += step_text(*state_, step);
  }
  return text;
}

std::vector<Port> ParallelProgram::inputs() const {
  std::vector<Port> all;
  for (const ir::NodeId id : state_->graph.inputs()) {
    const ir::Node& node = state_->graph.node(id);
    all.push_back({std::get<ir::InputPayload>(node.payload).name, node.type.dtype, node.type.shape});
  }
  return all;
}

std::vector<Port> ParallelProgram::outputs() const {
  std::vector<Port> all;
  for (const parallel::Cut::Result& output : state_->cut.outputs)
    all.push_back({output.name, output.type.dtype, output.type.shape});
  return all;
}

int ParallelProgram::kernel_count() const {
  int kernels = 0;
  for (const auto& program : state_->programs) kernels += program ? program->kernel_count() : 0;
  return kernels;
}

int ParallelProgram::collective_count() const {
  std::size_t count = 0;
  for (const std::vector<Step>& steps : state_->cut.steps) count += steps.size();
  return static_cast<int>(count);
}

Result<ParallelProgram> compile_parallel(const Device& device, std::shared_ptr<Transport> transport,
                                         std::span<const Tensor> outputs, const ParallelOptions& options) {
  return api::guarded([&] {
    return compile_graph(device, std::move(transport),
                         api::to_graph(outputs, options.compile.output_names, options.compile.name), options);
  });
}

Result<ParallelProgram> compile_parallel(const Device& device, std::shared_ptr<Transport> transport,
                                         std::initializer_list<Tensor> outputs, const ParallelOptions& options) {
  return compile_parallel(device, std::move(transport), std::span<const Tensor>(outputs.begin(), outputs.size()),
                          options);
}

Result<ParallelProgram> compile_parallel_text(const Device& device, std::shared_ptr<Transport> transport,
                                              std::string_view text, const ParallelOptions& options) {
  return api::guarded([&] {
    return compile_graph(device, std::move(transport), ir::parse(text, {.allow_custom = options.compile.allow_custom}),
                         options);
  });
}

}  // namespace vkfuse
