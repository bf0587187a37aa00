#include "bench_row.hpp"

#include <algorithm>
#include <set>

#include "api/states.hpp"
#include "batch.hpp"
#include "graph_analysis.hpp"
#include "interrupt.hpp"
#include "peaks.hpp"
#include "spirv/compile.hpp"

namespace vkfuse::bench {

namespace {

/// Every way of running a row.
struct Programs {
  std::optional<Prepared> fused, copy, unfused, framework, beside;

  [[nodiscard]] std::vector<Prepared*> all() {
    std::vector<Prepared*> present;
    for (std::optional<Prepared>* one : {&fused, &copy, &unfused, &framework, &beside}) {
      if (*one) present.push_back(&**one);
    }
    return present;
  }
  /// What of them is device memory.
  void release() {
    for (Prepared* one : all()) one->bound.reset();
  }
};

/// Checks one prepared program and files what was found. False: the row is wrong.
Result<bool> check(Prepared& prepared, const Loaded& loaded, const char* what, RowResult& result) {
  VKF_TRY(verdict, verify(*prepared.bound, loaded.expected, loaded.sets));
  prepared.measured.cold.first_run_ms = verdict.run_ms;
  result.max_ratio = std::max(result.max_ratio, verdict.max_ratio);
  result.samples = std::max(result.samples, verdict.samples);
  if (verdict.wrong.empty()) return true;
  result.outcome = Outcome::wrong;
  result.detail = fmt::format("{}: {}", what, verdict.wrong);
  return false;
}

bool memory_is_short(const Error& error) {
  return error.code == ErrorCode::out_of_memory || error.code == ErrorCode::unsupported;
}

/// The programs that are only there to be compared with; what has no room is left out, with the reason. False: wrong.
Result<bool> prepare_other(const Session& session, std::span<const ir::Graph> graphs,
                           const runtime::ProgramOptions& options, const Loaded& loaded, const char* what,
                           std::optional<Prepared>& filed, RowResult& result) {
  auto prepared = prepare(session, graphs, loaded.sets, options);
  if (!prepared) {
    if (!memory_is_short(prepared.error())) return std::move(prepared).error();
    result.detail += fmt::format("{}{}: {}", result.detail.empty() ? "" : " ", what, prepared.error().message);
    return true;
  }
  filed = std::move(*prepared);
  return check(*filed, loaded, what, result);
}

/// The fused program once more, from what the store has of it, as a new process would. False: it is wrong.
Result<bool> start_warm(const Session& session, const Case& one, const Loaded& loaded, Programs& programs,
                        RowResult& result) {
  if (!session.context->opened().store().off().empty()) return true;
  session.context->kernels().forget();
  VKF_TRY(again, prepare(session, {&one.graph, 1}, loaded.sets, {}));
  VKF_TRY(right, check(again, loaded, "fused, from the store", result));
  programs.fused->measured.warm = again.measured.cold;
  return right;
}

/// Compiles and checks every way of running the case. False: one is wrong.
Result<bool> prepare_all(const Session& session, const Case& one, const Loaded& loaded, Programs& programs,
                         RowResult& result) {
  VKF_TRY(fused, prepare(session, {&one.graph, 1}, loaded.sets, {}));
  programs.fused = std::move(fused);
  VKF_TRY(fused_right, check(*programs.fused, loaded, "fused", result));
  if (!fused_right) return false;
  VKF_TRY(warm_right, start_warm(session, one, loaded, programs, result));
  if (!warm_right) return false;
  runtime::ProgramOptions one_per_op;
  one_per_op.fusion = false;
  VKF_TRY(unfused_right,
          prepare_other(session, {&one.graph, 1}, one_per_op, loaded, "unfused", programs.unfused, result));
  if (!unfused_right) return false;
  const std::size_t parts = one.framework.size();
  result.framework_is = parts == 0 ? Framework::unfused : parts == 1 ? Framework::fused : Framework::own;
  if (result.framework_is != Framework::own) return true;
  return prepare_other(session, one.framework, {}, loaded, "framework", programs.framework, result);
}

/// A graph that is not the row's but timed beside it. False: it is wrong.
Result<bool> prepare_aside(const Session& session, const Case& one, const Loaded& loaded, const char* what,
                           std::optional<Prepared>& filed, RowResult& result) {
  VKF_TRY(prepared, prepare(session, {&one.graph, 1}, loaded.sets, {}));
  filed = std::move(prepared);
  const double ratio = result.max_ratio;
  const std::int64_t samples = result.samples;
  VKF_TRY(right, check(*filed, loaded, what, result));
  result.max_ratio = ratio;  // the row's own
  result.samples = samples;
  return right;
}

/// How much of a row is run, and how long its longest run then takes.
struct Attempt {
  std::int64_t smaller = 1;
  double longest_us = 0;
};

/// Estimates of every program; of two where one is too long, the shorter: a busy machine is no reason to run less.
Result<std::vector<double>> careful_estimate(const std::vector<const Bound*>& bound) {
  VKF_TRY(run_us, estimate(bound));
  if (*std::max_element(run_us.begin(), run_us.end()) <= kMostSubmissionUs) return run_us;
  VKF_TRY(again, estimate(bound));
  for (std::size_t i = 0; i < run_us.size(); ++i) run_us[i] = std::min(run_us[i], again[i]);
  return run_us;
}

/// A graph with what its outputs must be, for visits after the first.
struct Known {
  Case one;
  Expected expected;
};

/// A program with fresh buffers. False: what it computes is no longer what it was.
Result<bool> bind_again(const Known& known, const BufferSets& sets, Prepared& prepared, RowResult& result) {
  VKF_TRY(bound, bind_programs(prepared.programs, sets));
  prepared.bound = std::move(bound);
  VKF_TRY(verdict, verify(*prepared.bound, known.expected, sets));
  if (verdict.wrong.empty()) return true;
  result.outcome = Outcome::wrong;
  result.detail = fmt::format("when it was run again: {}", verdict.wrong);
  return false;
}

}  // namespace

struct RowRun::State {
  const Session& session;
  Request request;
  RowResult result;
  Programs programs;
  Known own, copy, beside;
  std::vector<double> run_us;

  Result<void> first();
  Result<void> again();

 private:
  /// One size. The longest run if the row must be run smaller, else nothing: it is done.
  Result<std::optional<double>> run_at(const Attempt& last);
  /// Sets of the copy, and of what the row is timed beside. False: one is wrong.
  struct Aside {
    Loaded copy, beside;
  };
  Result<bool> prepare_all_aside(Aside& aside);
  Result<bool> prepare_copy(Loaded& loaded);
  Result<bool> prepare_beside(Loaded& loaded);
  Result<void> time_all();
  void file();
};

Result<void> RowRun::State::time_all() {
  std::vector<const Bound*> bound;
  for (Prepared* prepared : programs.all()) bound.push_back(prepared->bound.get());
  TimingOptions options = session.timing().of_a_visit();
  options.replay_samples = request.row->traits.model ? options.samples : 0;
  VKF_TRY(measured, time_interleaved(bound, run_us, options));
  if (interrupted()) return {};
  // Neighbouring runs stay neighbours: as many of every program.
  std::size_t rounds = ~std::size_t{0};
  for (const Timing& timing : measured.programs) rounds = std::min(rounds, timing.alone.samples.size());
  const std::vector<Prepared*> present = programs.all();
  for (std::size_t i = 0; i < present.size(); ++i) {
    Timing& timing = present[i]->measured.timing;
    add_samples(timing.alone, measured.programs[i].alone, rounds);
    add_samples(timing.stream, measured.programs[i].stream);
    add_samples(timing.wall, measured.programs[i].wall);
    add_samples(timing.replay, measured.programs[i].replay);
  }
  result.warm_seconds += measured.warm_seconds;
  result.steady = measured.steady && (result.visits == 0 || result.steady);
  ++result.visits;
  result.outcome = Outcome::measured;
  file();
  return {};
}

Result<bool> RowRun::State::prepare_beside(Loaded& loaded) {
  VKF_TRY(made, make_beside_case(session, own.one));
  if (!made) return true;
  beside.one = *std::move(made);
  VKF_TRY(operations, arithmetic(beside.one.graph));
  result.operations_beside = operations;
  result.name_of_beside = beside.one.name;
  VKF_TRY(now, load(session, beside.one));
  loaded = std::move(now);
  return prepare_aside(session, beside.one, loaded, "beside", programs.beside, result);
}

Result<bool> RowRun::State::prepare_copy(Loaded& loaded) {
  VKF_TRY(copied, make_copy_case(session, own.one));
  copy.one = std::move(copied);
  result.copy_bytes = copy.one.bytes;
  VKF_TRY(now, load(session, copy.one));
  loaded = std::move(now);
  return prepare_aside(session, copy.one, loaded, "copy", programs.copy, result);
}

Result<bool> RowRun::State::prepare_all_aside(Aside& aside) {
  VKF_TRY(copy_right, prepare_copy(aside.copy));
  if (!copy_right) return false;
  auto beside_right = prepare_beside(aside.beside);
  if (beside_right || !memory_is_short(beside_right.error())) return beside_right;
  // What does not fit the device, or cannot be checked, is left out.
  result.detail += fmt::format("{}beside: {}", result.detail.empty() ? "" : " ", beside_right.error().message);
  programs.beside.reset();
  beside = Known();
  return true;
}

Result<std::optional<double>> RowRun::State::run_at(const Attempt& last) {
  const std::optional<double> done;
  VKF_TRY(made, make_case(session, request, last.smaller));
  own.one = std::move(made);
  const Case& one = own.one;
  result.size = size_text(*request.row, one.sizes);
  result.name_of_case = one.name;
  result.bytes = one.bytes;
  result.sets = one.sets;
  VKF_TRY(operations, arithmetic(one.graph));
  result.operations = operations;
  result.instructions = instructions_of(*request.row, one.graph);
  VKF_TRY(loaded, load(session, one));
  VKF_TRY(right, prepare_all(session, one, loaded, programs, result));
  if (!right) return done;
  result.outcome = Outcome::checked;
  if (session.check_only) {
    file();
    return done;
  }
  Aside aside;
  VKF_TRY(aside_right, prepare_all_aside(aside));
  if (!aside_right) return done;
  std::vector<const Bound*> bound;
  for (Prepared* prepared : programs.all()) bound.push_back(prepared->bound.get());
  VKF_TRY(estimates, careful_estimate(bound));
  run_us = std::move(estimates);
  const double longest = *std::max_element(run_us.begin(), run_us.end());
  const bool may_shrink = request.sizes.empty() && !request.row->traits.launch_bound;
  // What launching costs does not become less.
  const bool helps = last.longest_us == 0 || longest < 0.7 * last.longest_us;
  if (longest > kMostSubmissionUs && may_shrink && helps) return std::optional(longest);
  VKF_CHECK_OK(time_all());
  own.expected = std::move(loaded.expected);
  copy.expected = std::move(aside.copy.expected);
  beside.expected = std::move(aside.beside.expected);
  return done;
}

Result<void> RowRun::State::first() {
  for (Attempt attempt;;) {
    VKF_TRY(longest, run_at(attempt));
    if (!longest) return {};
    attempt.longest_us = *longest;
    for (double us = *longest; us > kMostSubmissionUs / 2; us /= 2) attempt.smaller *= 2;
    RowResult smaller;
    smaller.row = result.row;
    result = std::move(smaller);
    programs = Programs();
    beside = Known();
  }
}

Result<void> RowRun::State::again() {
  const std::pair<const Known*, std::vector<std::optional<Prepared>*>> all[] = {
      {&own, {&programs.fused, &programs.unfused, &programs.framework}},
      {&copy, {&programs.copy}},
      {&beside, {&programs.beside}}};
  std::deque<BufferSets> sets;  // bound programs point into them
  for (const auto& [known, of_graph] : all) {
    if (known->one.row == nullptr) continue;
    VKF_TRY(data, make_data(known->one.graph, known->one.row->traits));
    VKF_TRY(made, make_sets(*session.context, known->one.graph, data, known->one.sets));
    sets.push_back(std::move(made));
    for (std::optional<Prepared>* prepared : of_graph) {
      if (!*prepared) continue;
      VKF_TRY(right, bind_again(*known, sets.back(), **prepared, result));
      if (!right) return {};
    }
  }
  return time_all();
}

void RowRun::State::file() {
  result.fused = programs.fused->measured;
  if (programs.copy) result.copy = programs.copy->measured;
  if (programs.unfused) result.unfused = programs.unfused->measured;
  if (programs.framework) result.own_framework = programs.framework->measured;
  if (programs.beside) result.beside = programs.beside->measured;
  if (own.one.framework.size() == 1) {
    result.framework_is = Framework::own;
    result.own_framework = result.fused;
  }
}

void RowRun::put_beside_peaks() {
  RowResult& result = state_->result;
  result.peak.reset();
  for (const Instruction instruction : result.instructions) {
    const auto known = state_->session.peaks.find(instruction);
    if (known != state_->session.peaks.end() && (!result.peak || known->second > result.peak->gops))
      result.peak = Peak{instruction, known->second};
  }
}

RowRun::RowRun(const Session& session, const Request& request)
    : state_(new State{.session = session, .request = request}) {
  state_->result.row = request.row;
  state_->result.name_of_case = case_text(*request.row, request.sizes.empty() ? request.row->full : request.sizes);
}
RowRun::~RowRun() = default;
RowRun::RowRun(RowRun&&) noexcept = default;
RowRun& RowRun::operator=(RowRun&&) noexcept = default;

const RowResult& RowRun::result() const { return state_->result; }

bool RowRun::wants_more() const {
  const TimingOptions timing = state_->session.timing();
  const RowResult& result = state_->result;
  return result.outcome == Outcome::measured && result.visits < timing.visits && result.seconds < timing.row_seconds;
}

void RowRun::visit() {
  RowResult& result = state_->result;
  const Clock::time_point start = Clock::now();
  const Result<void> ran = api::guarded([&] { return result.visits == 0 ? state_->first() : state_->again(); });
  state_->programs.release();
  result.seconds += seconds_since(start);
  put_beside_peaks();
  if (ran.ok()) return;
  result.outcome = memory_is_short(ran.error()) ? Outcome::skipped : Outcome::failed;
  result.detail = ran.error().message;
}

std::optional<double> RowResult::peak_percent() const {
  if (!peak) return std::nullopt;
  return 100 * operations / fused.us() * 1e-3 / peak->gops;
}

std::optional<double> RowResult::beside_percent() const {
  if (!beside) return std::nullopt;
  return 100 * (operations / fused.us()) / (operations_beside / beside->us());
}

std::optional<Limit> RowResult::limit() const {
  if (row->traits.launch_bound) return Limit::launch;
  if (!peak) return std::nullopt;
  return operations / peak->gops > static_cast<double>(bytes) / copy_gb_s() ? Limit::arithmetic : Limit::memory;
}

double RowResult::gain_over(const Measured& other) const {
  const std::vector<double>& mine = fused.timing.alone.samples;
  const std::vector<double>& others = other.timing.alone.samples;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(mine.size(), others.size()); ++i) ratios.push_back(others[i] / mine[i]);
  return summarise(std::move(ratios)).median;
}

Result<Loaded> load(const Session& session, const Case& one) {
  Loaded loaded;
  const Traits& traits = one.row->traits;
  VKF_TRY(data, make_data(one.graph, traits));
  VKF_TRY(sets, make_sets(*session.context, one.graph, data, one.sets));
  loaded.sets = std::move(sets);
  if (session.spoil == one.row->name) {
    // Only the host's copy changes: the device now computes from something else.
    const HostData::Window& first = data.inputs.front();
    std::byte* at = data.pools[first.pool].data() + first.offset;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(first.bytes, 256); i += 2) at[i + 1] ^= std::byte{0x30};
  }
  VKF_TRY(expected, expect(one.graph, data, {session.work(), traits.whole > 0, traits.model && !one.aside}));
  loaded.expected = std::move(expected);
  if ((traits.wide_bounds || traits.model) && !one.aside) {
    runtime::ProgramOptions one_per_op;
    one_per_op.fusion = false;
    VKF_TRY(unfused, prepare(session, {&one.graph, 1}, loaded.sets, one_per_op));
    VKF_CHECK_OK(keep_unfused(*unfused.bound, loaded.sets, loaded.expected));
  }
  return loaded;
}

Result<Prepared> prepare(const Session& session, std::span<const ir::Graph> graphs, const BufferSets& sets,
                         const runtime::ProgramOptions& options) {
  const std::uint64_t calls = spirv::compiler_calls();
  const Clock::time_point start = Clock::now();
  std::vector<std::shared_ptr<runtime::Program>> programs;
  for (const ir::Graph& graph : graphs) {
    VKF_TRY(program, runtime::Program::create(session.context, graph, options));
    programs.push_back(std::move(program));
  }
  Prepared prepared;
  prepared.measured.cold.create_ms = 1e3 * seconds_since(start);
  prepared.measured.cold.compiler_calls = spirv::compiler_calls() - calls;
  VKF_TRY(bound, bind_programs(programs, sets));
  prepared.programs = std::move(programs);
  std::set<const runtime::CompiledKernel*> distinct;
  for (const Part& part : bound->parts) {
    for (const auto& step : part.specialization->compiled) {
      for (const auto& kernel : step) {
        if (!distinct.insert(kernel.get()).second) continue;
        prepared.measured.cold.compile_ms += kernel->compile_ms;
        prepared.measured.cold.pipeline_ms += kernel->pipeline_ms;
      }
    }
  }
  VKF_TRY(moved, bound->moved_bytes());
  prepared.measured.moved_bytes = moved;
  prepared.measured.kernels = bound->kernels();
  prepared.measured.arena_bytes = bound->arena_bytes();
  prepared.bound = std::move(bound);
  return prepared;
}

}  // namespace vkfuse::bench
