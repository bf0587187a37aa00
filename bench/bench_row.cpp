#include "bench_row.hpp"

#include <algorithm>
#include <set>

#include "api/states.hpp"
#include "batch.hpp"
#include "graph_facts.hpp"
#include "spirv/compile.hpp"

namespace vkfuse::bench {

namespace {


/// Every way of running a row.
struct Programs {
  std::optional<Prepared> fused, copy, unfused, framework;

  [[nodiscard]] std::vector<Prepared*> all() {
    std::vector<Prepared*> present;
    for (std::optional<Prepared>* one : {&fused, &copy, &unfused, &framework}) {
      if (*one) present.push_back(&**one);
    }
    return present;
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

bool memory_is_short(const Error& error) { return error.code == ErrorCode::out_of_memory || error.code == ErrorCode::unsupported; }

/// The programs that are only there to be compared with; what has no room is left out, with the reason. False: wrong.
Result<bool> prepare_other(const Session& session, std::span<const ir::Graph> graphs, const runtime::ProgramOptions& options, const Loaded& loaded,
                           const char* what, std::optional<Prepared>& filed, RowResult& result) {
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
Result<bool> start_warm(const Session& session, const Case& one, const Loaded& loaded, Programs& programs, RowResult& result) {
  if (!session.context->store().off().empty()) return true;
  session.context->forget_kernels();
  VKF_TRY(again, prepare(session, {&one.graph, 1}, loaded.sets, {}));
  VKF_TRY(right, check(again, loaded, "fused, from the store", result));
  programs.fused->measured.warm = again.measured.cold;
  return right;
}

/// Compiles and checks every way of running the case. False: one is wrong.
Result<bool> prepare_all(const Session& session, const Case& one, const Loaded& loaded, Programs& programs, RowResult& result) {
  VKF_TRY(fused, prepare(session, {&one.graph, 1}, loaded.sets, {}));
  programs.fused = std::move(fused);
  VKF_TRY(fused_right, check(*programs.fused, loaded, "fused", result));
  if (!fused_right) return false;
  VKF_TRY(warm_right, start_warm(session, one, loaded, programs, result));
  if (!warm_right) return false;
  runtime::ProgramOptions one_per_op;
  one_per_op.fusion = false;
  VKF_TRY(unfused_right, prepare_other(session, {&one.graph, 1}, one_per_op, loaded, "unfused", programs.unfused, result));
  if (!unfused_right) return false;
  const std::size_t parts = one.framework.size();
  result.framework_is = parts == 0 ? Framework::unfused : parts == 1 ? Framework::fused : Framework::own;
  if (result.framework_is != Framework::own) return true;
  return prepare_other(session, one.framework, {}, loaded, "framework", programs.framework, result);
}

Result<bool> prepare_copy(const Session& session, const Case& copy_case, const Loaded& loaded, Programs& programs, RowResult& result) {
  result.copy_bytes = copy_case.bytes;
  VKF_TRY(copy, prepare(session, {&copy_case.graph, 1}, loaded.sets, {}));
  programs.copy = std::move(copy);
  const double ratio = result.max_ratio;
  const std::int64_t samples = result.samples;
  VKF_TRY(right, check(*programs.copy, loaded, "copy", result));
  result.max_ratio = ratio;  // the row's own
  result.samples = samples;
  return right;
}

void file(Programs& programs, RowResult& result) {
  result.fused = programs.fused->measured;
  if (programs.copy) result.copy = programs.copy->measured;
  if (programs.unfused) result.unfused = programs.unfused->measured;
  if (programs.framework) result.own_framework = programs.framework->measured;
  if (result.framework_is == Framework::fused) {
    result.framework_is = Framework::own;
    result.own_framework = result.fused;
  }
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

/// Times what is right. The longest run of any program where that is longer than a submission may be, and running less
/// may help: then nothing else was measured.
Result<std::optional<double>> time_all(const Session& session, Programs& programs, bool may_shrink, const Attempt& last, RowResult& result) {
  std::vector<const Bound*> bound;
  for (Prepared* one : programs.all()) bound.push_back(one->bound.get());
  VKF_TRY(run_us, careful_estimate(bound));
  const double longest = *std::max_element(run_us.begin(), run_us.end());
  // What launching costs does not become less.
  const bool helps = last.longest_us == 0 || longest < 0.7 * last.longest_us;
  if (longest > kMostSubmissionUs && may_shrink && helps) return std::optional(longest);
  VKF_TRY(measured, time_interleaved(bound, run_us, session.timing()));
  const std::vector<Prepared*> present = programs.all();
  for (std::size_t i = 0; i < present.size(); ++i) present[i]->measured.timing = std::move(measured.programs[i]);
  result.warm_seconds = measured.warm_seconds;
  result.steady = measured.steady;
  return std::optional<double>();
}

/// One size. The longest run if the row must be run smaller, else nothing: it is done.
Result<std::optional<double>> run_at(const Session& session, const Request& request, const Attempt& last, RowResult& result) {
  const std::optional<double> done;
  VKF_TRY(one, make_case(session, request, last.smaller));
  result.size = size_text(*request.row, one.sizes);
  result.name_of_case = case_text(*request.row, one.sizes);
  result.bytes = one.bytes;
  result.sets = one.sets;
  VKF_TRY(operations, arithmetic(one.graph));
  result.operations = operations;
  VKF_TRY(loaded, load(session, one));
  Programs programs;
  VKF_TRY(right, prepare_all(session, one, loaded, programs, result));
  if (!right) return done;
  result.outcome = Outcome::checked;
  if (session.check_only) {
    file(programs, result);
    return done;
  }
  VKF_TRY(copy_case, make_copy_case(session, one));
  VKF_TRY(copy_loaded, load(session, copy_case));
  VKF_TRY(copy_right, prepare_copy(session, copy_case, copy_loaded, programs, result));
  if (!copy_right) return done;
  const bool may_shrink = request.sizes.empty() && !request.row->traits.launch_bound;
  VKF_TRY(longest, time_all(session, programs, may_shrink, last, result));
  if (longest) return longest;
  file(programs, result);
  result.outcome = Outcome::measured;
  return done;
}

Result<void> run(const Session& session, const Request& request, RowResult& result) {
  for (Attempt attempt;;) {
    VKF_TRY(longest, run_at(session, request, attempt, result));
    if (!longest) return {};
    attempt.longest_us = *longest;
    for (double us = *longest; us > kMostSubmissionUs / 2; us /= 2) attempt.smaller *= 2;
    RowResult again;
    again.row = result.row;
    result = std::move(again);
  }
}

}  // namespace

double RowResult::gain_over(const Measured& other) const {
  const std::vector<double>& mine = fused.timing.alone.samples;
  const std::vector<double>& others = other.timing.alone.samples;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(mine.size(), others.size()); ++i) ratios.push_back(others[i] / mine[i]);
  return summarise(std::move(ratios)).median;
}

Result<Loaded> load(const Session& session, const Case& one) {
  Loaded loaded;
  VKF_TRY(data, make_data(one.graph, one.row->traits));
  VKF_TRY(sets, make_sets(*session.context, one.graph, data, one.sets));
  loaded.sets = std::move(sets);
  if (session.spoil == one.row->name) {
    // Only the host's copy changes: the device now computes from something else.
    const HostData::Window& first = data.inputs.front();
    std::byte* at = data.pools[first.pool].data() + first.offset;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(first.bytes, 256); i += 2) at[i + 1] ^= std::byte{0x30};
  }
  VKF_TRY(expected, expect(one.graph, data, {session.work(), one.row->traits.whole > 0}));
  loaded.expected = std::move(expected);
  return loaded;
}

Result<Prepared> prepare(const Session& session, std::span<const ir::Graph> graphs, const BufferSets& sets, const runtime::ProgramOptions& options) {
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
  std::set<const runtime::CompiledKernel*> distinct;
  for (const Part& part : bound->parts) {
    for (const auto& step : part.variant->compiled) {
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

RowResult bench_row(const Session& session, const Request& request) {
  RowResult result;
  result.row = request.row;
  result.name_of_case = case_text(*request.row, request.sizes.empty() ? request.row->full : request.sizes);
  const Clock::time_point start = Clock::now();
  const Result<void> ran = api::guarded([&] { return run(session, request, result); });
  result.seconds = seconds_since(start);
  if (ran.ok()) return result;
  result.outcome = memory_is_short(ran.error()) ? Outcome::skipped : Outcome::failed;
  result.detail = ran.error().message;
  return result;
}

}  // namespace vkfuse::bench
