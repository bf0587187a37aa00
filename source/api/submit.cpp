// Runs on the caller's device buffers.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "api/states.hpp"
#include "vkfuse/interop.hpp"

namespace vkfuse {

namespace {

/// Of a run: each takes a submission more.
constexpr std::size_t kMostEarly = 4;

/// What one submission is made of, until it is recorded.
class Recorder {
 public:
  Recorder(const Executable::State& executable, const Bindings& bindings)
      : program_(executable.program),
        spent_(executable.spent),
        graph_(program_->plan().graph),
        bindings_(bindings),
        state_(std::make_shared<Submission::State>()) {
    state_->program = program_;
  }

  /// Buffers for everything, then the commands, each part submitted as soon as it is recorded. What was recorded for a
  /// run on the same buffers that has ended is that run again.
  Result<std::shared_ptr<Submission::State>> submit() {
    VKF_TRY(points, points_of_bindings());
    VKF_CHECK_OK(bind());
    if (!program_->context()->self_checks() && replay()) {
      VKF_TRY(submitted, runtime::submit_all(*program_->context()->device(), state_->commands, points));
      for (std::size_t part = 0; part < submitted.size(); ++part) note_early(part, submitted[part]);
      state_->submission = std::move(submitted.back());
      return state_;
    }
    VKF_CHECK_OK(prepare());
    VKF_CHECK_OK(submit_parts(points));
    return state_;
  }

  /// The same as commands that are appended to a host's.
  Result<std::shared_ptr<Submission::State>> record(void* host_commands) {
    VKF_CHECK_OK(bind());
    VKF_CHECK_OK(prepare());
    // Where the host submits them, no copy of ours comes before.
    for (const std::shared_ptr<Buffer::State>& buffer : state_->buffers) VKF_CHECK_OK(buffer->wait_until_filled());
    VKF_CHECK_OK(record_part(nullptr, 0, true, host_commands));
    return state_;
  }

  /// Device times of the kernels on these buffers.
  Result<std::vector<runtime::StepTime>> profile() {
    VKF_CHECK_OK(bind());
    VKF_CHECK_OK(prepare());
    if (!memory().counters.empty()) {
      const std::shared_ptr<vulkan::Device>& device = program_->context()->device();
      VKF_CHECK_OK(record_clearing());
      VKF_TRY(cleared, device->submit(*state_->clearing));
      VKF_CHECK_OK(cleared.wait());
    }
    return runtime::profile_runs(*program_, *state_->specialization, ranges_);
  }

 private:
  bool replay() {
    auto run = spent_->take(*state_->specialization, state_->bound, bindings_.donated);
    if (!run) return false;
    state_->arena = std::move(run->arena);
    state_->commands = std::move(run->commands);
    state_->may_repeat = true;
    state_->spent = spent_;
    state_->donated = std::move(run->donated);
    state_->early = std::move(run->early);
    for (const auto& [name, result] : run->results) {
      auto buffer = std::static_pointer_cast<Buffer::State>(result);
      state_->buffers.push_back(buffer);
      state_->outputs[name] = state_->results[name] = Buffer(std::move(buffer));
    }
    if (state_->donated) name_results_in_inputs(*state_->donated);
    return true;
  }

  /// Of a run that inputs are given away to: which outputs are where those were.
  void name_results_in_inputs(const plan::Memory& memory) {
    for (const ir::Output& output : graph_.outputs()) {
      const auto in_input = memory.in_inputs.find(output.value);
      if (in_input != memory.in_inputs.end())
        state_->outputs[output.name] = bindings_.inputs.find(api::input_name(graph_, in_input->second))->second;
    }
  }

  Result<void> prepare() {
    VKF_TRY(donations, find_donations());
    const runtime::Specialization& specialization = *state_->specialization;
    if (!donations.inputs.empty()) {
      VKF_TRY(planned, specialization.donated.find(donations, [&] {
        return plan::plan_memory(program_->plan_of(specialization), bindings_.symbols, specialization.steps, donations);
      }));
      state_->donated = std::move(planned);
    }
    VKF_CHECK_OK(place(state_->donated ? *state_->donated : specialization.memory, donations));
    return has_shared_buffers() ? program_->check_sharing(specialization, ranges_) : Result<void>();
  }

  /// Whether two ports may lie in the same memory, but for outputs in inputs that were given away, as planned.
  [[nodiscard]] bool has_shared_buffers() const {
    std::unordered_set<std::uint64_t> seen;
    return !std::all_of(state_->buffers.begin(), state_->buffers.end(),
                        [&](const auto& buffer) { return seen.insert(buffer->buffer.number()).second; });
  }

  /// Of a run that has ended if there is one, else a new one; what idle ones hold is free. Counts are to be cleared.
  Result<void> take_arena(const plan::Memory& memory) {
    const runtime::Specialization& specialization = *state_->specialization;
    state_->spent = spent_;
    if (auto idle = spent_->take_arena(memory)) {
      state_->arena = *std::move(idle);
      return {};
    }
    Result<void> room = program_->check_memory(specialization, memory, /*ports=*/false);
    if (!room && spent_->forget()) room = program_->check_memory(specialization, memory, /*ports=*/false);
    VKF_CHECK_OK(room);
    VKF_TRY(arena, runtime::allocate_arena(program_->context()->device(), memory));
    state_->arena = std::move(arena);
    return {};
  }

  Result<void> bind_one(const char* kind, const std::string& name, ir::NodeId id, const Buffer& buffer) {
    if (buffer.state() == nullptr) return invalid("No buffer was bound to the {} '{}'.", kind, name);
    VKF_TRY(bytes, program_->bytes_of(id, bindings_.symbols));
    if (buffer.size() < static_cast<std::uint64_t>(bytes)) {
      return invalid("The {} '{}' takes {} bytes, but its buffer has {}.", kind, name, bytes, buffer.size());
    }
    const Buffer::State& state = *buffer.state();
    if (state.context != program_->context())
      return invalid("The buffer that is bound to the {} '{}' is of another device than the program.", kind, name);
    std::uint64_t padded = (static_cast<std::uint64_t>(bytes) + 15) / 16 * 16;
    if (const std::uint64_t each = state.buffer.piece_bytes(); each > 0) {
      VKF_TRY(requested, program_->piece_bytes(id, bindings_.symbols));
      if (requested == 0 ? padded > each : requested != each) {
        return invalid(
            "The buffer that is bound to the {} '{}' lies in pieces of {} bytes, and whole rows of {} take {} bytes "
            "each: allocate it for that type.",
            kind, name, each, to_text(graph_.node(id).type), requested == 0 ? padded : requested);
      }
      if (requested > 0) padded = state.buffer.size();  // each piece has padding of its own
    }
    ranges_[id] = {&state.buffer, state.offset, std::max<std::uint64_t>(padded, 16)};
    state_->buffers.push_back(buffer.state());
    return {};
  }

  static Buffer buffer_of(const std::map<std::string, Buffer, std::less<>>& buffers, const std::string& name) {
    const auto given = buffers.find(name);
    return given == buffers.end() ? Buffer() : given->second;
  }

  /// A name that the program does not have is a mistake: what was meant by it would be left out without a word.
  Result<void> check_names() const {
    std::unordered_set<std::string_view> inputs, outputs;
    for (const ir::NodeId id : program_->inputs()) inputs.insert(api::input_name(graph_, id));
    for (const ir::Output& output : graph_.outputs()) outputs.insert(output.name);
    for (const auto& one : bindings_.inputs) {
      if (inputs.count(one.first) == 0) return invalid("The program '{}' has no input '{}'.", graph_.name, one.first);
    }
    for (const auto& one : bindings_.outputs) {
      if (outputs.count(one.first) == 0) return invalid("The program '{}' has no output '{}'.", graph_.name, one.first);
    }
    return {};
  }

  Result<void> bind() {
    VKF_CHECK_OK(program_->check_symbols(bindings_.symbols));
    // One by one only where there are more than the program has: those that it has are all looked up below.
    if (bindings_.inputs.size() > program_->inputs().size() || bindings_.outputs.size() > graph_.outputs().size() ||
        !bindings_.donated.empty())
      VKF_CHECK_OK(check_names());
    for (ir::NodeId id : program_->inputs()) {
      const Buffer given = buffer_of(bindings_.inputs, api::input_name(graph_, id));
      VKF_CHECK_OK(bind_one("input", api::input_name(graph_, id), id, given));
      if (bindings_.donated.count(api::input_name(graph_, id)) != 0) given.state()->may_change();
      note_bound(given);
    }
    for (const ir::Output& output : graph_.outputs()) {
      const Buffer given = buffer_of(bindings_.outputs, output.name);
      const bool free = given.state() == nullptr && !bindings_.donated.empty();
      if (ranges_.count(output.value) == 0 && !free) VKF_CHECK_OK(bind_one("output", output.name, output.value, given));
      if (given.state() != nullptr) {
        given.state()->may_change();
        state_->outputs[output.name] = given;
      }
      note_bound(given);
    }
    state_->given_away = bindings_.donated;
    VKF_TRY(specialization, program_->specialization(bindings_.symbols));
    state_->specialization = std::move(specialization);
    return {};
  }

  void note_bound(const Buffer& given) {
    const Buffer::State* const buffer = given.state().get();
    state_->bound.push_back(buffer == nullptr
                                ? runtime::BoundMemory()
                                : runtime::BoundMemory{buffer->buffer.serial(), buffer->offset, buffer->bytes});
  }

  /// What inputs and outputs are bound to, by the memory that it lies in: a part of a buffer is a Buffer, too.
  using BoundRanges = std::unordered_map<std::uint64_t, std::vector<vulkan::BufferRange>>;
  [[nodiscard]] BoundRanges bound_ranges() const {
    BoundRanges ranges;
    for (const auto* bound : {&bindings_.inputs, &bindings_.outputs}) {
      for (const auto& one : *bound) {
        const Buffer::State* const buffer = one.second.state().get();
        if (buffer != nullptr) ranges[buffer->buffer.number()].push_back(range_of(*buffer));
      }
    }
    return ranges;
  }

  /// Kernels read and write whole 16 bytes.
  static vulkan::BufferRange range_of(const Buffer::State& buffer) {
    return {&buffer.buffer, buffer.offset, std::max<std::uint64_t>((buffer.bytes + 15) / 16 * 16, 16)};
  }

  /// Whether something beside the one input lies in its memory.
  static bool is_shared(const Buffer::State& buffer, const BoundRanges& bound) {
    const vulkan::BufferRange own = range_of(buffer);
    const auto overlaps = [&](const vulkan::BufferRange& other) { return runtime::overlap(own, other); };
    return std::ranges::count_if(bound.at(buffer.buffer.number()), overlaps) > 1;
  }

  Result<plan::Donations> find_donations() const {
    plan::Donations given;
    if (bindings_.donated.empty()) return given;
    std::unordered_map<std::string_view, ir::NodeId> ids;
    for (const ir::NodeId id : program_->inputs()) ids.emplace(api::input_name(graph_, id), id);
    const BoundRanges bound = bound_ranges();
    for (const std::string& name : bindings_.donated) {
      const auto id = ids.find(name);
      if (id == ids.end())
        return invalid("The input '{}' is donated, and the program '{}' has none of that name.", name, graph_.name);
      const Buffer& buffer = bindings_.inputs.find(name)->second;
      if (is_shared(*buffer.state(), bound))
        return invalid("The input '{}' is donated, but its buffer is bound to something else, too.", name);
      given.inputs[id->second] = static_cast<std::int64_t>(buffer.size());
    }
    for (const ir::Output& output : graph_.outputs()) {
      if (ranges_.count(output.value) == 0) given.outputs.push_back(output.value);
    }
    return given;
  }

  /// Constants, the arena, values in donated inputs, and outputs that have no buffer yet.
  Result<void> place(const plan::Memory& memory, const plan::Donations& donations) {
    const std::shared_ptr<runtime::Context>& context = program_->context();
    VKF_CHECK_OK(take_arena(memory));  // first: it makes room for constants too
    VKF_TRY(constants, program_->constant_ranges());
    ranges_.insert(constants.begin(), constants.end());
    runtime::add_arena(memory, state_->arena, ranges_);
    std::map<ir::NodeId, Buffer> made;
    for (const auto& [value, input] : memory.in_inputs) {
      VKF_TRY(bytes, program_->bytes_of(value, bindings_.symbols));
      const Buffer& buffer = bindings_.inputs.find(api::input_name(graph_, input))->second;
      made[value] = buffer;
      ranges_[value] = {&buffer.state()->buffer, buffer.state()->offset,
                        std::max<std::uint64_t>((static_cast<std::uint64_t>(bytes) + 15) / 16 * 16, 16)};
    }
    for (ir::NodeId value : donations.outputs) {
      if (made.count(value) != 0) continue;
      VKF_TRY(bytes, program_->bytes_of(value, bindings_.symbols));
      VKF_TRY(each, program_->piece_bytes(value, bindings_.symbols));
      VKF_TRY(buffer, context->make_buffer(static_cast<std::uint64_t>(bytes), each));
      made[value] =
          Buffer(std::make_shared<Buffer::State>(context, std::move(buffer), static_cast<std::uint64_t>(bytes)));
      VKF_CHECK_OK(bind_one("output", "", value, made[value]));
    }
    for (const ir::Output& output : graph_.outputs()) {
      const auto found = made.find(output.value);
      if (found == made.end()) continue;
      state_->outputs[output.name] = found->second;
      if (memory.in_inputs.count(output.value) == 0) state_->results[output.name] = found->second;
    }
    return {};
  }

  /// The smallest results in memory that the run allocated, in the order of the outputs. Each gets memory of the host.
  std::vector<ir::NodeId> small_results() {
    std::vector<std::pair<std::uint64_t, const ir::Output*>> small;
    for (const ir::Output& output : graph_.outputs()) {
      const auto result = state_->results.find(output.name);
      const bool is_small =
          result != state_->results.end() && result->second.size() <= runtime::ReadbackSlots::kSlotBytes;
      if (is_small) small.emplace_back(result->second.size(), &output);
    }
    std::stable_sort(small.begin(), small.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<ir::NodeId> chosen;
    for (const auto& one : small) {
      if (early_.size() == kMostEarly) break;
      const auto [early, is_new] =
          early_.try_emplace(one.second->value, runtime::EarlyResult{0, one.second->name, nullptr});
      if (!is_new) continue;
      early->second.slot = program_->context()->take_readback_slot();
      if (early->second.slot == nullptr) break;
      chosen.push_back(one.second->value);
    }
    return chosen;
  }

  /// A program that has run before fails no more while it is recorded; a run that waits for others may wait long.
  std::vector<runtime::EarlyPart> early_parts(const std::vector<runtime::Part>& run, bool may_begin_early) {
    const plan::Plan& plan = program_->plan_of(*state_->specialization);
    if (may_begin_early && !program_->context()->self_checks()) return runtime::cut_early(plan, run, small_results());
    std::vector<runtime::EarlyPart> parts;
    for (const runtime::Part& part : run) parts.push_back({part, {}});
    return parts;
  }

  /// Copies results that are complete to the host, at the end of a part.
  void record_early(vulkan::CommandBuffer& commands, std::size_t part, const std::vector<ir::NodeId>& complete) {
    using vulkan::Access;
    if (complete.empty()) return;
    commands.barrier(Access::compute, Access::transfer);
    for (const ir::NodeId value : complete) {
      runtime::EarlyResult& early = early_.at(value);
      early.part = part;
      const Buffer::State& result = *state_->results.at(early.output).state();
      if (result.bytes > 0)
        commands.copy({&result.buffer, result.offset, result.bytes}, early.slot->range(result.bytes));
      state_->early.push_back(early);
    }
    commands.barrier(Access::transfer, Access::host);
  }

  /// A part is submitted: its results are on the host when it has ended.
  void note_early(std::size_t part, const vulkan::Submission& submission) {
    for (const runtime::EarlyResult& one : state_->early) {
      if (one.part == part) state_->results.at(one.output).state()->early.set({one.slot, submission});
    }
  }

  Result<void> submit_parts(const vulkan::SubmissionPoints& points) {
    const runtime::Specialization& specialization = *state_->specialization;
    const double limit = program_->options().longest_submission_us;
    // Measured once, and as long as it is too long: then two timestamps are no matter.
    const double measured = specialization.pace.shortest_us;
    const std::shared_ptr<vulkan::Device>& device = program_->context()->device();
    if ((measured == 0 || measured > limit) && device->timestamp_bits() > 0) {
      VKF_TRY(clock, vulkan::TimestampPool::create(device, 2));
      state_->clock = std::move(clock);
    }
    const std::vector<runtime::Part> run = program_->parts(specialization);
    const bool is_whole = run.size() == 1;
    const std::vector<runtime::EarlyPart> parts = early_parts(run, measured > 0 && points.wait_for.empty());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool first = i == 0, last = i + 1 == parts.size();
      VKF_CHECK_OK(record_part(&parts[i], i, last));
      vulkan::SubmissionPoints of_part;
      if (first) of_part.wait_for = points.wait_for;
      if (last) of_part.signal = points.signal;
      std::vector<const vulkan::CommandBuffer*> together;
      if (first && (!memory().counters.empty() || program_->context()->self_checks())) {
        VKF_CHECK_OK(record_clearing());
        together.push_back(&*state_->clearing);
      }
      together.push_back(&state_->commands.back());
      VKF_TRY(submission, device->submit(together, of_part));
      note_early(i, submission);
      state_->submission = std::move(submission);  // waited for, whatever becomes of the next parts
    }
    state_->may_repeat = is_whole && !state_->clock;
    return {};
  }

  [[nodiscard]] const plan::Memory& memory() const {
    return state_->donated ? *state_->donated : state_->specialization->memory;
  }

  /// What an arena is to hold before a run that has not left it itself.
  void record_first(vulkan::CommandBuffer& commands) {
    const std::shared_ptr<runtime::Context>& context = program_->context();
    if (context->self_checks()) runtime::record_poison(commands, state_->arena, context->next_poison());
    runtime::record_cleared_counters(commands, memory(), state_->arena);
  }

  /// The same as commands that come before the run's own: kernels leave counts at 0, so that these need not clear them
  /// whenever they are submitted again.
  Result<void> record_clearing() {
    VKF_TRY(commands, vulkan::CommandBuffer::create(program_->context()->device()));
    VKF_CHECK_OK(commands.begin());
    record_first(commands);
    VKF_CHECK_OK(commands.end());
    state_->clearing = std::move(commands);
    return {};
  }

  /// The whole run if no part is given.
  Result<void> record_part(const runtime::EarlyPart* part, std::size_t index, bool last,
                           void* host_commands = nullptr) {
    using vulkan::Access;
    const bool first = index == 0;
    const std::shared_ptr<vulkan::Device>& device = program_->context()->device();
    VKF_TRY(commands, host_commands != nullptr ? vulkan::CommandBuffer::adopt(device, host_commands)
                                               : vulkan::CommandBuffer::create(device));
    VKF_CHECK_OK(commands.begin());
    // What an earlier submission or part wrote may be read here, and what it reads may be written.
    commands.barrier(Access::compute | Access::transfer, Access::compute);
    if (host_commands != nullptr) record_first(commands);
    if (first && state_->clock) {
      commands.reset_timestamps(*state_->clock);
      commands.write_timestamp(*state_->clock, 0);
    }
    VKF_CHECK_OK(part == nullptr ? program_->record(commands, *state_->specialization, ranges_)
                                 : program_->record_part(commands, *state_->specialization, ranges_, part->kernels));
    if (part != nullptr) record_early(commands, index, part->complete);
    if (last && state_->clock) commands.write_timestamp(*state_->clock, 1);
    // Kernels of a later submission of ours are behind its first barrier; a host's own may be behind none.
    const auto readers = Access::transfer | Access::host;
    if (last) commands.barrier(Access::compute, host_commands != nullptr ? readers | Access::compute : readers);
    VKF_CHECK_OK(commands.end());
    state_->commands.push_back(std::move(commands));
    return {};
  }

  Result<vulkan::SubmissionPoints> points_of_bindings() {
    vulkan::SubmissionPoints points;
    VKF_TRY(waits, values_of(bindings_.wait_for));
    VKF_TRY(signals, values_of(bindings_.signal));
    VKF_CHECK_OK(check_signals());
    points.wait_for = std::move(waits);
    points.signal = std::move(signals);
    return points;
  }

  /// A value that a timeline has reached, or that it is to have twice, nobody could wait for.
  [[nodiscard]] Result<void> check_signals() const {
    const std::vector<TimelinePoint>& points = bindings_.signal;
    for (auto point = points.begin(); point != points.end(); ++point) {
      VKF_TRY(reached, point->timeline.value());
      if (point->value <= reached)
        return invalid("A run is to signal {} on a timeline that has reached {}, and timelines only grow.",
                       point->value, reached);
      const auto is_same = [&](const TimelinePoint& other) {
        return other.timeline.state() == point->timeline.state();
      };
      if (std::find_if(points.begin(), point, is_same) != point)
        return invalid("A run is to signal one timeline twice, the second time {}.", point->value);
    }
    return {};
  }

  /// The timelines of the device that these points name, which the submission keeps.
  Result<std::vector<vulkan::TimelineValue>> values_of(const std::vector<TimelinePoint>& points) {
    const vulkan::Device& device = *program_->context()->device();
    std::vector<vulkan::TimelineValue> values;
    for (const TimelinePoint& point : points) {
      const std::shared_ptr<const Timeline::State>& state = point.timeline.state();
      if (state->timeline.device().get() != &device)
        return invalid("A run names a timeline of '{}', which is another device than the program's.",
                       state->timeline.device()->info().name);
      state_->timelines.push_back(state);
      values.push_back({state->timeline.handle(), point.value});
    }
    return values;
  }

  std::map<ir::NodeId, runtime::EarlyResult> early_;  ///< of small results, until they are recorded
  std::shared_ptr<runtime::Program> program_;
  std::shared_ptr<runtime::SpentRuns> spent_;
  const ir::Graph& graph_;
  const Bindings& bindings_;
  std::shared_ptr<Submission::State> state_;
  runtime::Ranges ranges_;
};

/// Bytes of results that a run keeps for the next: of training, a loss and what is counted.
constexpr std::uint64_t kMostKeptResults = 1 << 16;

}  // namespace

Submission::State::~State() {
  const bool done = commands.empty() || submission.wait().ok();
  if (!done) return;
  note_time();
  if (!spent) return;
  runtime::SpentRun run{std::move(arena), specialization, donated, {}, {}, {}, {}, {}, {}};
  std::uint64_t kept = 0;
  for (const auto& [name, result] : results) kept += result.size();
  if (may_repeat && submission.value() > 0 && kept <= kMostKeptResults) {
    run.buffers.assign(buffers.begin(), buffers.end());
    outputs.clear();  // so that results are kept by nobody but whoever asked for them
    buffers.clear();
    run.bound = std::move(bound);
    run.given_away = std::move(given_away);
    for (auto& [name, result] : results) run.results.emplace(name, result.state());
    run.early = std::move(early);
    run.commands = std::move(commands);
  }
  results.clear();
  if (!run.arena.empty() || !run.commands.empty()) spent->give_back(std::move(run));
}

void Submission::State::note_time() {
  std::call_once(read_clock, [&] {
    if (!clock) return;
    if (const auto times = clock->nanoseconds()) specialization->pace.note(times->back() * 1e-3);
  });
}

Result<void> Submission::wait() const {
  return api::guarded([&]() -> Result<void> {
    if (!state_->specialization) return state_->submission.wait();  // a copy between buffers
    VKF_CHECK_OK(state_->specialization->pace.wait_for(state_->submission));
    state_->note_time();
    return {};
  });
}

bool Submission::done() const {
  auto done = state_->submission.done();
  return !done || *done;
}

const std::map<std::string, Buffer, std::less<>>& Submission::outputs() const { return state_->outputs; }

Result<Submission> Executable::submit(const Bindings& bindings) const {
  return api::guarded([&]() -> Result<Submission> {
    VKF_TRY(state, Recorder(*state_, bindings).submit());
    state_->tune_later(state->specialization->symbols);
    return Submission(std::move(state));
  });
}

Result<Recording> Executable::record(void* command_buffer, const Bindings& bindings) const {
  return api::guarded([&]() -> Result<Recording> {
    if (command_buffer == nullptr) return invalid("The command buffer to append to is null.");
    if (!bindings.wait_for.empty() || !bindings.signal.empty())
      return invalid("A recording names timelines, and who submits the command buffer is who waits and signals.");
    VKF_TRY(state, Recorder(*state_, bindings).record(command_buffer));
    return Recording(std::move(state));
  });
}

Result<std::vector<KernelTime>> Executable::profile(const Bindings& bindings) const {
  return api::guarded([&]() -> Result<std::vector<KernelTime>> {
    VKF_TRY(steps, Recorder(*state_, bindings).profile());
    std::vector<KernelTime> times;
    for (const runtime::StepTime& step : steps) times.push_back({step.kernel, step.microseconds, step.bytes});
    return times;
  });
}

}  // namespace vkfuse
