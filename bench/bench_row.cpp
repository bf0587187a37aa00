#include "bench_row.hpp"

#include <algorithm>
#include <set>

#include "api/states.hpp"
#include "batch.hpp"
#include "graph_facts.hpp"

namespace vkfuse::bench {

namespace {

constexpr std::int64_t kSmallest = 1 << 16;  // parts of a row that is run smaller because it is slow

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
  prepared.measured.first_run_ms = verdict.run_ms;
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

/// Compiles and checks every way of running the case. False: one is wrong.
Result<bool> prepare_all(const Session& session, const Case& one, const Loaded& loaded, Programs& programs, RowResult& result) {
  VKF_TRY(fused, prepare(session, {&one.graph, 1}, loaded.sets, {}));
  programs.fused = std::move(fused);
  VKF_TRY(fused_right, check(*programs.fused, loaded, "fused", result));
  if (!fused_right) return false;
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

/// Times what is right. The longest run of any program where that is longer than a submission may be: then nothing else
/// was measured.
Result<std::optional<double>> time_all(const Session& session, Programs& programs, bool may_shrink, RowResult& result) {
  std::vector<const Bound*> bound;
  for (Prepared* one : programs.all()) bound.push_back(one->bound.get());
  VKF_TRY(run_us, estimate(bound));
  const double longest = *std::max_element(run_us.begin(), run_us.end());
  if (longest > kMostSubmissionUs && may_shrink) return std::optional(longest);
  VKF_TRY(measured, time_interleaved(bound, run_us, session.timing()));
  const std::vector<Prepared*> present = programs.all();
  for (std::size_t i = 0; i < present.size(); ++i) present[i]->measured.timing = std::move(measured.programs[i]);
  result.warm_seconds = measured.warm_seconds;
  result.steady = measured.steady;
  return std::optional<double>();
}

/// One size. Returns by how much it must be smaller, or 1 when it is done.
Result<std::int64_t> run_at(const Session& session, const Request& request, std::int64_t smaller, RowResult& result) {
  VKF_TRY(one, make_case(session, request, smaller));
  result.size = size_text(*request.row, one.sizes);
  result.name_of_case = case_text(*request.row, one.sizes);
  result.bytes = one.bytes;
  result.sets = one.sets;
  VKF_TRY(operations, arithmetic(one.graph));
  result.operations = operations;
  VKF_TRY(loaded, load(session, one));
  Programs programs;
  VKF_TRY(right, prepare_all(session, one, loaded, programs, result));
  if (!right) return 1;
  result.outcome = Outcome::checked;
  if (session.check_only) {
    file(programs, result);
    return 1;
  }
  VKF_TRY(copy_case, make_copy_case(session, one));
  VKF_TRY(copy_loaded, load(session, copy_case));
  VKF_TRY(copy_right, prepare_copy(session, copy_case, copy_loaded, programs, result));
  if (!copy_right) return 1;
  const bool may_shrink = request.sizes.empty() && !request.row->traits.launch_bound && smaller < kSmallest;
  VKF_TRY(longest, time_all(session, programs, may_shrink, result));
  if (longest) {
    std::int64_t by = 2;
    while (*longest / static_cast<double>(by) > kMostSubmissionUs / 2) by *= 2;
    return by;
  }
  file(programs, result);
  result.outcome = Outcome::measured;
  return 1;
}

Result<void> run(const Session& session, const Request& request, RowResult& result) {
  for (std::int64_t smaller = 1;;) {
    VKF_TRY(by, run_at(session, request, smaller, result));
    if (by == 1) return {};
    smaller *= by;
    RowResult again;
    again.row = result.row;
    result = std::move(again);
  }
}

}  // namespace

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
  const Clock::time_point start = Clock::now();
  std::vector<std::shared_ptr<runtime::Program>> programs;
  for (const ir::Graph& graph : graphs) {
    VKF_TRY(program, runtime::Program::create(session.context, graph, options));
    programs.push_back(std::move(program));
  }
  Prepared prepared;
  prepared.measured.create_ms = 1e3 * seconds_since(start);
  VKF_TRY(bound, bind_programs(programs, sets));
  std::set<const runtime::CompiledKernel*> distinct;
  for (const Part& part : bound->parts) {
    for (const auto& step : part.variant->compiled) {
      for (const auto& kernel : step) {
        if (!distinct.insert(kernel.get()).second) continue;
        prepared.measured.compile_ms += kernel->compile_ms;
        prepared.measured.pipeline_ms += kernel->pipeline_ms;
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
