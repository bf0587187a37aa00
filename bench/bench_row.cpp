#include "bench_row.hpp"

#include <chrono>
#include <set>

#include "api/states.hpp"
#include "verify.hpp"

namespace vkfuse::bench {

namespace {

/// Checks one prepared program and files what was found. False: the row is wrong.
Result<bool> check(const Prepared& prepared, const Loaded& loaded, const char* what, RowResult& result) {
  VKF_TRY(verdict, verify(*prepared.bound, loaded.expected, loaded.sets));
  result.max_ratio = std::max(result.max_ratio, verdict.max_ratio);
  result.samples = std::max(result.samples, verdict.samples);
  if (verdict.wrong.empty()) return true;
  result.outcome = Outcome::wrong;
  result.detail = fmt::format("{}: {}", what, verdict.wrong);
  return false;
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

bool memory_is_short(const Error& error) { return error.code == ErrorCode::out_of_memory || error.code == ErrorCode::unsupported; }

/// Times the programs beside a copy, and files it. They are right.
Result<void> measure(const Session& session, const Case& one, const Prepared& fused, const Prepared* unfused, RowResult& result) {
  VKF_TRY(copy_case, make_copy_case(session, one));
  result.copy_bytes = copy_case.bytes;
  VKF_TRY(copy_loaded, load(session, copy_case));
  VKF_TRY(copy, prepare(session, copy_case, copy_loaded.sets, {}));
  VKF_TRY(verdict, verify(*copy.bound, copy_loaded.expected, copy_loaded.sets));
  if (!verdict.wrong.empty()) {
    result.outcome = Outcome::wrong;
    result.detail = "copy: " + verdict.wrong;
    return {};
  }
  std::vector<const Bound*> programs = {fused.bound.get(), copy.bound.get()};
  if (unfused != nullptr) programs.push_back(unfused->bound.get());
  VKF_TRY(times, time_interleaved(programs, session.timing()));
  result.fused.times = times[0];
  result.copy = copy.measured;
  result.copy.times = times[1];
  if (unfused != nullptr) result.unfused->times = times[2];
  result.outcome = Outcome::measured;
  return {};
}

Result<void> run(const Session& session, const Row& row, RowResult& result) {
  VKF_TRY(one, make_case(session, row));
  result.size = size_text(row, one.sizes);
  result.bytes = one.bytes;
  result.sets = one.sets;
  VKF_TRY(loaded, load(session, one));
  VKF_TRY(fused, prepare(session, one, loaded.sets, {}));
  VKF_TRY(fused_right, check(fused, loaded, "fused", result));
  if (!fused_right) return {};
  result.fused = fused.measured;

  runtime::ProgramOptions one_per_op;
  one_per_op.fusion = false;
  auto unfused = prepare(session, one, loaded.sets, one_per_op);
  if (!unfused && !memory_is_short(unfused.error())) return std::move(unfused).error();
  if (!unfused) result.detail = "unfused: " + unfused.error().message;
  if (unfused) {
    VKF_TRY(right, check(*unfused, loaded, "unfused", result));
    if (!right) return {};
    result.unfused = unfused->measured;
  }
  if (!session.check_only) return measure(session, one, fused, unfused ? &*unfused : nullptr, result);
  result.outcome = Outcome::checked;
  return {};
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

Result<Prepared> prepare(const Session& session, const Case& one, const BufferSets& sets, const runtime::ProgramOptions& options) {
  const Clock::time_point start = Clock::now();
  VKF_TRY(program, runtime::Program::create(session.context, one.graph, options));
  Prepared prepared;
  prepared.measured.create_ms = 1e3 * seconds_since(start);
  VKF_TRY(bound, bind(std::move(program), sets));
  std::set<const runtime::CompiledKernel*> distinct;
  for (const auto& step : bound->variant->compiled) {
    for (const auto& kernel : step) {
      if (!distinct.insert(kernel.get()).second) continue;
      prepared.measured.compile_ms += kernel->compile_ms;
      prepared.measured.pipeline_ms += kernel->pipeline_ms;
    }
  }
  prepared.measured.kernels = bound->kernels();
  prepared.measured.arena_bytes = bound->variant->memory.arena_bytes;
  prepared.bound = std::move(bound);
  return prepared;
}

RowResult bench_row(const Session& session, const Row& row) {
  RowResult result;
  result.row = &row;
  const Clock::time_point start = Clock::now();
  const Result<void> ran = api::guarded([&] { return run(session, row, result); });
  result.seconds = seconds_since(start);
  if (ran.ok()) return result;
  result.outcome = memory_is_short(ran.error()) ? Outcome::skipped : Outcome::failed;
  result.detail = ran.error().message;
  return result;
}

}  // namespace vkfuse::bench
