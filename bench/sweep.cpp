#include "sweep.hpp"

#include <algorithm>
#include <set>

#include "api/states.hpp"
#include "templates/planning.hpp"
#include "verify.hpp"

namespace vkfuse::bench {

namespace {

using plan::ScheduledKernels;

SweepPoint point_of(const ScheduledKernels& steps) {
  const auto weight = [](const plan::ScheduledKernel& step) {
    const schedule::Schedule& schedule = step.schedule;
    return std::pair(schedule.kind() == schedule::Template::reduction,
                     schedule.cost.bytes_read + schedule.cost.bytes_written);
  };
  const plan::ScheduledKernel* most = &steps.front();
  for (const plan::ScheduledKernel& step : steps) most = weight(*most) < weight(step) ? &step : most;
  SweepPoint point{{}, most->schedule, {}};
  const schedule::Schedule& schedule = point.schedule;
  const int bytes = widest_access(schedule);
  const nlohmann::ordered_json choices = schedule::describe(schedule).choices;
  const auto number = [&](const char* name) { return choices.at(name).get<std::int64_t>(); };
  const auto is = [&](const char* name) { return choices.at(name).get<bool>(); };
  if (schedule.kind() == schedule::Template::matmul) {
    const auto tile = choices.at("matmul").get<std::vector<int>>();
    point.text = fmt::format("{}x{}x{} {}x{}{}", tile[0], tile[1], tile[2], tile[3], tile[4],
                             is("cooperative_matrix") ? " units" : "");
    return point;
  }
  if (schedule.kind() != schedule::Template::reduction) {
    const bool tiled = schedule.kind() == schedule::Template::transpose;
    point.text = fmt::format("{}{}x{}B x{}", tiled ? "tiled " : "", schedule.workgroup, bytes, schedule.unroll_factor);
    return point;
  }
  point.text =
      fmt::format("{}x{} {}B x{}{}{}", number("parallel_threads"), number("reduction_threads"), bytes,
                  schedule.unroll_factor, is("persistent") ? " persistent" : "", is("online") ? " online" : "");
  if (schedule.splits > 1) point.text += fmt::format(" /{}", schedule.splits);
  return point;
}

bool keeps_chains_short(const plan::ScheduledKernel& step) {
  return schedule::keeps_sum_chains_short(step.loops, step.schedule);
}

/// What tells the schedules of a program from those of another one.
std::string identity(const ScheduledKernels& steps) {
  std::string all;
  for (const plan::ScheduledKernel& step : steps) {
    const schedule::Schedule& schedule = step.schedule;
    all += fmt::format("{} {} {}; ", point_of(std::vector{step}).text, schedule.chunk_size, schedule.workgroup);
  }
  return all;
}

/// Prepares, checks and files one tuning. False: the row is wrong.
Result<bool> add_candidate(const Session& session, const Case& one, const Loaded& loaded,
                           const schedule::Tuning& tuning, std::vector<Prepared>& all, SweepResult& result) {
  runtime::ProgramOptions options;
  options.tuning = tuning;
  VKF_TRY(prepared, prepare(session, {&one.graph, 1}, loaded.sets, options));
  VKF_TRY(verdict, verify(*prepared.bound, loaded.expected, loaded.sets));
  if (!verdict.wrong.empty()) {
    result.outcome = Outcome::wrong;
    result.detail =
        fmt::format("{}: {}", point_of(prepared.bound->parts.front().specialization->steps).text, verdict.wrong);
    return false;
  }
  all.push_back(std::move(prepared));
  return true;
}

/// The default and every distinct other schedule, each checked. Empty: the row is wrong.
Result<std::vector<Prepared>> candidates(const Session& session, const Case& one, const Loaded& loaded,
                                         SweepResult& result) {
  std::vector<Prepared> all;
  VKF_TRY(right, add_candidate(session, one, loaded, {}, all, result));
  if (!right) return std::vector<Prepared>();
  const Bound& standard = *all.front().bound;
  std::set<std::string> known = {identity(standard.parts.front().specialization->steps)};
  const schedule::Schedule main = point_of(standard.parts.front().specialization->steps).schedule;
  for (const schedule::Tuning& tuning : schedule::tunings_near(main, session.context->device()->caps())) {
    // Asked before anything is compiled: most tunings say what another one does.
    const auto steps = plan::schedule_all(standard.parts.front().program->plan(), {}, tuning);
    if (!steps || !std::all_of(steps->begin(), steps->end(), keeps_chains_short)) {
      ++result.refused;
      continue;
    }
    if (!known.insert(identity(*steps)).second) continue;
    VKF_TRY(added, add_candidate(session, one, loaded, tuning, all, result));
    if (!added) return std::vector<Prepared>();
  }
  return all;
}

Result<void> run(const Session& session, const Request& request, SweepResult& result) {
  VKF_TRY(one, make_case(session, request));
  result.size = size_text(*request.row, one.sizes);
  VKF_TRY(loaded, load(session, one));
  VKF_TRY(all, candidates(session, one, loaded, result));
  if (all.empty()) return {};
  std::vector<const Bound*> programs;
  for (const Prepared& prepared : all) programs.push_back(prepared.bound.get());
  TimingOptions timing = session.timing();
  timing.stream_samples = 0;
  VKF_TRY(run_us, estimate(programs));
  VKF_TRY(measured, time_interleaved(programs, run_us, timing));
  std::size_t best = 0;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    result.all.push_back(point_of(programs[i]->parts.front().specialization->steps));
    result.all.back().times = measured.programs[i].alone;
    if (measured.programs[i].alone.median < measured.programs[best].alone.median) best = i;
  }
  timing.samples *= 2;
  const Bound* const finalists[] = {programs[0], programs[best]};
  const std::vector<double> final_us = {run_us[0], run_us[best]};
  VKF_TRY(final_times, time_interleaved(std::span(finalists).first(best == 0 ? 1 : 2), final_us, timing));
  result.standard = point_of(programs[0]->parts.front().specialization->steps);
  result.standard.times = final_times.programs.front().alone;
  result.best = point_of(programs[best]->parts.front().specialization->steps);
  result.best.times = final_times.programs.back().alone;
  result.ratio = result.standard.times.median / result.best.times.median;
  result.outcome = Outcome::measured;
  return {};
}

}  // namespace

int widest_access(const schedule::Schedule& schedule) {
  int bytes = 0;
  for (const auto* plans : {&schedule.loads, &schedule.stores}) {
    for (const schedule::AccessPlan& plan : *plans) bytes = std::max(bytes, plan.vector_bytes);
  }
  return bytes;
}

SweepResult sweep_row(const Session& session, const Request& request) {
  SweepResult result;
  result.row = request.row;
  const Result<void> ran = api::guarded([&] { return run(session, request, result); });
  if (!ran.ok()) result.detail = ran.error().message;
  return result;
}

}  // namespace vkfuse::bench
