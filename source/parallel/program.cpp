// One rank's program: parts on its device, collectives between them.
#include <algorithm>
#include <limits>
#include <mutex>
#include <set>

#include "api/program.hpp"
#include "api/states.hpp"
#include "api/tensor_node.hpp"
#include "base/mutations.hpp"
#include "parallel/agreement.hpp"
#include "parallel/cut.hpp"
#include "parallel/exchange.hpp"
#include "parallel/local_inputs.hpp"
#include "parallel/program.hpp"
#include "parallel/run.hpp"
#include "parallel/sharding.hpp"
#include "parallel/staged_link.hpp"
#include "parallel/waiting.hpp"
#include "passes/passes.hpp"
#include "vkfuse/parallel.hpp"

namespace vkfuse {

using parallel::Run;
using parallel::Step;

namespace {

using State = ParallelProgram::State;

/// Each is a copy of the ops.
constexpr int kMostMicroBatches = 1024;

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
  for (const ir::NodeId id : state.collectives) {
    const ir::RankGroup& group = *ir::group_of(state.sharded.graph.node(id));
    VKF_CHECK_OK(parallel::members_of(group, state.transport->rank(), state.transport->size()));
  }
  return {};
}

Result<void> check_options(const ParallelOptions& options) {
  if (options.timeout.count() <= 0 || options.compile_timeout.count() <= 0) {
    return invalid("The timeouts of a program of several ranks are above 0 ms, but {} ms and {} ms are given.",
                   options.timeout.count(), options.compile_timeout.count());
  }
  if (options.micro_batches < 1 || options.micro_batches > kMostMicroBatches) {
    return invalid("A program is worked on in 1 to {} micro-batches, but {} are asked for.", kMostMicroBatches,
                   options.micro_batches);
  }
  if (options.micro_batches > 1 && options.mesh.sizes.empty())
    return invalid("{} micro-batches are asked for, but without a mesh no program is divided.", options.micro_batches);
  if (options.compile.memory_budget != 0) {
    return unsupported("A memory budget of {} bytes is given, but a program of several ranks is compiled in parts.",
                       options.compile.memory_budget);
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

std::string stages_text(const parallel::Crossing& crossing) {
  if (crossing.to < 0) return fmt::format("from stage {} to every stage", crossing.from);
  if (crossing.to == crossing.from) return fmt::format("on stage {}", crossing.from);
  return fmt::format("from stage {} to stage {}", crossing.from, crossing.to);
}

/// Ranks that count along other meshes have other parts, whatever they exchange.
std::vector<std::string> lines_of(const State& state) {
  std::vector<std::string> lines = parallel::collective_lines(state.sharded.graph);
  if (state.mesh.empty()) return lines;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines[i] += fmt::format(", over a mesh of [{}]", fmt::join(state.mesh, ", "));
    const auto crossing = state.sharded.crossings.find(state.collectives[i]);
    if (crossing != state.sharded.crossings.end()) lines[i] += fmt::format(", {}", stages_text(crossing->second));
  }
  return lines;
}

/// What a rank gathers from itself lies where it goes, if a part computes it: nothing copies it.
void place_operands(State& state) {
  std::set<std::string> computed;
  for (const ir::Graph& part : state.cut.parts) {
    for (const ir::Output& output : part.outputs()) computed.insert(output.name);
  }
  for (const std::vector<Step>& steps : state.cut.steps) {
    for (const Step& step : steps) {
      const bool is_gathered = step.role.sends && std::holds_alternative<ir::GatherRanksPayload>(step.node.payload);
      if (is_gathered && computed.contains(step.operand)) state.places.try_emplace(step.operand, &step);
    }
  }
}

/// What carries values between parts, for programs that have some.
Result<void> open_link(State& state) {
  if (state.collectives.empty()) return {};
  VKF_TRY(link, state.transport->link(state.device));
  state.link = link != nullptr ? std::move(link) : parallel::staged_link(state.device, *state.transport);
  VKF_TRY(computed, Timeline::create(state.device));
  VKF_TRY(exchanged, Timeline::create(state.device));
  state.computed = {std::move(computed), 0};
  state.exchanged = {std::move(exchanged), 0};
  for (const std::vector<Step>& steps : state.cut.steps) {
    for (const Step& step : steps) {
      if (step.role.sends) state.linked.insert(step.operand);
      if (step.role.receives) state.linked.insert(step.result);
    }
  }
  place_operands(state);
  return {};
}

Result<void> divide(State& state, int micro_batches) {
  // No rank waits for a value that nothing reads.
  VKF_TRY(live, passes::remove_dead(state.graph));
  state.graph = std::move(live);
  if (state.mesh.empty()) {
    state.sharded.graph = state.graph;
  } else {
    VKF_CHECK_OK(check_mesh(state));
    VKF_TRY(sharded, parallel::shard_graph(state.graph, {state.mesh, state.transport->rank(), micro_batches}));
    state.sharded = std::move(sharded);
  }
  const ir::Graph& graph = state.sharded.graph;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    if (parallel::is_collective(graph.node(id))) state.collectives.push_back(id);
  }
  VKF_CHECK_OK(check_groups(state));
  VKF_TRY(lowered, parallel::lower_collectives(state.sharded));
  // Ranks that are given a graph each have their own dependences.
  VKF_TRY(cut, parallel::cut_at_collectives(lowered, state.mesh.empty()));
  state.cut = std::move(cut);
  return {};
}

Result<void> prepare(State& state, const ParallelOptions& options) {
  VKF_CHECK_OK(divide(state, options.micro_batches));
  // Before anything is compiled: a mistake is known at once.
  VKF_CHECK_OK(parallel::agree(*state.transport, lines_of(state), parallel::deadline_after(options.compile_timeout)));
  VKF_CHECK_OK(open_link(state));
  VKF_CHECK_OK(compile_parts(state, options.compile));
  // Runs begin when the last rank has compiled, so that their timeout is of runs alone.
  return parallel::agree(*state.transport, {"compiled"}, parallel::deadline_after(options.compile_timeout));
}

Result<ParallelProgram> compile_rank(const Device& device, std::shared_ptr<Transport> transport,
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
    made = api::guarded([&] { return prepare(*state, options); });
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

/// A collective of the divided graph, and why it is there.
std::string collective_text(const State& state, ir::NodeId id) {
  const ir::Node& node = state.sharded.graph.node(id);
  const ir::Node& operand = state.sharded.graph.node(node.operands.front());
  const auto* input = std::get_if<ir::InputPayload>(&operand.payload);
  const std::string name = input != nullptr ? input->name : fmt::format("%{}", node.operands.front());
  const ir::RankGroup& group = *ir::group_of(node);
  const auto crossing = state.sharded.crossings.find(id);
  const bool sends = crossing == state.sharded.crossings.end() || crossing->second.from == state.sharded.stage;
  std::string text = fmt::format("  {} %{} = {} of {} : {}, between {} ranks that are {} apart", node.op->name, id,
                                 name, to_text(operand.type), to_text(node.type), group.ranks, group.stride);
  const Result<Sizes> sizes = resolve(operand.type.shape, {});
  if (sizes) {
    const Result<std::int64_t> bytes = byte_count(operand.type.dtype, *sizes);
    if (bytes) text += fmt::format(", {} bytes sent", sends ? parallel::bytes_sent(node, *bytes) : 0);
  }
  if (crossing != state.sharded.crossings.end()) text += fmt::format(", {}", stages_text(crossing->second));
  for (const parallel::Reason& reason : state.sharded.reasons) {
    if (reason.value == id) text += fmt::format("\n    why: {}", reason.text);
  }
  return text + "\n";
}

bool takes_part(const Step& step) { return step.role.sends || step.role.receives; }

/// What runs behind a part. A collective that takes two exchanges is named at the first.
std::string steps_text(const State& state, const std::vector<Step>& steps, std::set<ir::NodeId>& named) {
  std::string text;
  for (const Step& step : steps) {
    if (!takes_part(step)) continue;
    const bool is_first = named.insert(step.origin).second;
    text += is_first ? collective_text(state, step.origin)
                     : fmt::format("  %{}, its second exchange: each rank's part to all\n", step.origin);
  }
  return text;
}

/// What a rank of a pipeline is there for, and what it has the memory of.
std::string stage_text(const parallel::Sharded& sharded, const parallel::Cut& cut) {
  if (sharded.stage_axis < 0) return {};
  const std::string read = cut.inputs.empty() ? "no input" : fmt::format("{}", fmt::join(cut.inputs, ", "));
  return fmt::format(", stage {} of {} along axis {} of the mesh, reads {}", sharded.stage, sharded.stages,
                     sharded.stage_axis, read);
}

parallel::DividedProgram divided(const State& state) {
  return {state.graph, state.sharded, state.mesh, state.transport->rank(), &state.cut.inputs};
}

/// The program runs no more after an error, and other ranks do not wait for it.
template <typename T>
Result<T> settled(State& state, Result<T> result) {
  if (result) return result;
  state.failure = result.error();
  return told(*state.transport, std::move(result));
}

/// A run with the inputs that are given beside those that are placed.
Result<Run> run_with(State& state, const Inputs& inputs) {
  VKF_TRY(local, parallel::local_inputs(divided(state), inputs, state.placed));
  for (const auto& given : inputs) state.placed.erase(given.first);
  Run run(state, std::move(local.symbols));
  VKF_CHECK_OK(run.upload(std::move(local.values)));
  Result<void> done = api::guarded([&] { return run.run(); });
  if (done) return run;
  // Before the run is gone, which waits for what it has submitted: that may wait for a rank that is lost.
  if (state.link != nullptr) state.link->abandon();
  return std::move(done).error();
}

/// The work of one thread at a time, as long as no run has failed.
template <typename Work>
auto in_turn(State& state, Work&& work) -> decltype(work()) {
  return api::guarded([&]() -> decltype(work()) {
    const std::scoped_lock lock(state.transport->turn());
    if (state.failure) return Error(*state.failure).within("running a program after a run that has failed");
    return work();
  });
}

}  // namespace

Result<Outputs> ParallelProgram::run(const Inputs& inputs) const {
  return in_turn(*state_, [&]() -> Result<Outputs> {
    return settled(*state_, api::guarded([&]() -> Result<Outputs> {
      VKF_TRY(done, run_with(*state_, inputs));
      return done.download();
    }));
  });
}

Result<void> ParallelProgram::upload(const Inputs& inputs) const {
  return in_turn(*state_, [&]() -> Result<void> {
    VKF_TRY(local, parallel::local_inputs(divided(*state_), inputs, state_->placed, false));
    VKF_CHECK_OK(Run(*state_, {}).upload(std::move(local.values)));
    for (auto& [name, sizes] : local.sizes) state_->placed[name] = std::move(sizes);
    return {};
  });
}

Result<void> ParallelProgram::execute() const {
  return in_turn(*state_, [&]() -> Result<void> {
    return settled(*state_, api::guarded([&]() -> Result<void> {
      VKF_TRY(done, run_with(*state_, {}));
      static_cast<void>(done);
      return {};
    }));
  });
}

Result<Outputs> ParallelProgram::download() const {
  return in_turn(*state_, [&]() -> Result<Outputs> {
    if (!state_->last) return invalid("The program '{}' has no results yet: 0 runs have ended.", state_->graph.name);
    return Run(*state_, state_->last->symbols).download();
  });
}

Result<std::vector<KernelTime>> ParallelProgram::profile() const {
  return in_turn(*state_, [&]() -> Result<std::vector<KernelTime>> {
    if (!state_->last) return invalid("The program '{}' has no values yet: 0 runs have ended.", state_->graph.name);
    if (state_->placed_since)
      return invalid("Inputs of the program '{}' were placed after its last run: execute() it first.",
                     state_->graph.name);
    return Run(*state_, state_->last->symbols).profile();
  });
}

std::string ParallelProgram::explain() const {
  std::string text = fmt::format("rank {} of {}{}\n", state_->transport->rank(), state_->transport->size(),
                                 stage_text(state_->sharded, state_->cut));
  std::set<ir::NodeId> named;
  for (std::size_t part = 0; part < state_->programs.size(); ++part) {
    const bool is_of_others = state_->sharded.stage_axis >= 0 && !state_->programs[part];
    if (!is_of_others) text += part_text(*state_, part);
    if (part == state_->cut.steps.size()) break;
    text += steps_text(*state_, state_->cut.steps[part], named);
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
  std::set<ir::NodeId> own;
  for (const std::vector<Step>& steps : state_->cut.steps) {
    for (const Step& step : steps) {
      if (takes_part(step)) own.insert(step.origin);
    }
  }
  return static_cast<int>(own.size());
}

Result<ParallelProgram> parallel::compile_graph(const Device& device, std::shared_ptr<Transport> transport,
                                                Result<ir::Graph> graph, const ParallelOptions& options) {
  return api::guarded([&] { return compile_rank(device, std::move(transport), std::move(graph), options); });
}

Result<ParallelProgram> compile_parallel(const Device& device, std::shared_ptr<Transport> transport,
                                         std::span<const Tensor> outputs, const ParallelOptions& options) {
  return api::guarded([&] {
    return compile_rank(device, std::move(transport),
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
    return compile_rank(device, std::move(transport), ir::parse(text, {.allow_custom = options.compile.allow_custom}),
                        options);
  });
}

}  // namespace vkfuse
