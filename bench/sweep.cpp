#include "sweep.hpp"

#include <algorithm>

#include "api/states.hpp"
#include "verify.hpp"

namespace vkfuse::bench {

namespace {

/// Every tuning of the sweep, the default (nothing overridden) first.
std::vector<schedule::Tuning> tunings(const Session& session) {
  const Caps& caps = session.context->device()->caps();
  const int limit = static_cast<int>(std::min(caps.max_invocations, caps.max_workgroup_x));
  std::vector<schedule::Tuning> all = {{}};
  for (int workgroup = 64; workgroup <= std::min(limit, 1024); workgroup *= 2) {
    for (int vector_bytes : {4, 8, 16}) {
      for (int items : {1, 2, 4}) all.push_back({.workgroup = workgroup, .vector_bytes = vector_bytes, .items_in_flight = items});
    }
  }
  return all;
}

SweepPoint point_of(const Bound& bound) {
  const schedule::Schedule& schedule = bound.variant->steps.front().schedule;
  SweepPoint point{schedule.workgroup, 0, schedule.items_in_flight, {}};
  for (const schedule::AccessPlan& load : schedule.loads) point.vector_bytes = std::max(point.vector_bytes, load.vector_bytes);
  for (const schedule::AccessPlan& store : schedule.stores) point.vector_bytes = std::max(point.vector_bytes, store.vector_bytes);
  return point;
}

bool same_schedule(const Bound& a, const Bound& b) { return a.variant->compiled.front() == b.variant->compiled.front(); }

/// The default and every distinct other schedule, each checked. Empty: the row is wrong.
Result<std::vector<Prepared>> candidates(const Session& session, const Case& one, const Loaded& loaded, SweepResult& result) {
  std::vector<Prepared> all;
  for (const schedule::Tuning& tuning : tunings(session)) {
    runtime::ProgramOptions options;
    options.tuning = tuning;
    VKF_TRY(prepared, prepare(session, one, loaded.sets, options));
    // A tuning that says what the default does is the default; it would only be measured twice.
    if (std::any_of(all.begin(), all.end(), [&](const Prepared& other) { return same_schedule(*other.bound, *prepared.bound); })) continue;
    VKF_TRY(verdict, verify(*prepared.bound, loaded.expected, loaded.sets));
    if (!verdict.wrong.empty()) {
      const SweepPoint point = point_of(*prepared.bound);
      result.outcome = Outcome::wrong;
      result.detail = fmt::format("workgroup {}, {} bytes, {} in flight: {}", point.workgroup, point.vector_bytes, point.items_in_flight, verdict.wrong);
      return std::vector<Prepared>();
    }
    all.push_back(std::move(prepared));
  }
  return all;
}

Result<void> run(const Session& session, const Row& row, SweepResult& result) {
  VKF_TRY(one, make_case(session, row));
  result.size = size_text(row, one.sizes);
  VKF_TRY(loaded, load(session, one));
  VKF_TRY(all, candidates(session, one, loaded, result));
  if (all.empty()) return {};
  std::vector<const Bound*> programs;
  for (const Prepared& prepared : all) programs.push_back(prepared.bound.get());
  VKF_TRY(times, time_interleaved(programs, session.timing()));
  std::size_t best = 0;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    result.all.push_back(point_of(*programs[i]));
    result.all.back().times = times[i];
    if (times[i].median < times[best].median) best = i;
  }
  TimingOptions again = session.timing();
  again.samples *= 2;
  const Bound* const finalists[] = {programs[0], programs[best]};
  VKF_TRY(final_times, time_interleaved(std::span(finalists).first(best == 0 ? 1 : 2), again));
  result.standard = point_of(*programs[0]);
  result.standard.times = final_times.front();
  result.best = point_of(*programs[best]);
  result.best.times = final_times.back();
  result.ratio = result.standard.times.median / result.best.times.median;
  result.outcome = Outcome::measured;
  return {};
}

}  // namespace

SweepResult sweep_row(const Session& session, const Row& row) {
  SweepResult result;
  result.row = &row;
  const Result<void> ran = api::guarded([&] { return run(session, row, result); });
  if (!ran.ok()) result.detail = ran.error().message;
  return result;
}

}  // namespace vkfuse::bench
