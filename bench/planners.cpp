#include "planners.hpp"

#include <algorithm>

#include "api/states.hpp"
#include "verify.hpp"

namespace vkfuse::bench {

namespace {

/// What tells the kernels of a program from those of another one.
std::string identity(const Prepared& prepared) {
  std::string all;
  for (const auto& step : prepared.bound->parts.front().specialization->kernels) {
    for (const runtime::Launch& launch : step)
      all +=
          fmt::format("{} {}x{}\n{}\n", launch.kernel->workgroup, launch.groups_x, launch.groups_y, launch.kernel->key);
  }
  return all;
}

Result<void> run(const Session& session, const Request& request, PlannersResult& result) {
  VKF_TRY(one, make_case(session, request));
  result.name_of_case = case_text(*request.row, one.sizes);
  VKF_TRY(loaded, load(session, one));
  std::vector<Prepared> programs;
  std::map<std::string, std::size_t> known;  // which of `points` has these kernels
  std::vector<std::size_t> timed;
  for (const partition::Policy policy : partition::kPolicies) {
    runtime::ProgramOptions options;
    options.planning.policy = policy;
    VKF_TRY(prepared, prepare(session, {&one.graph, 1}, loaded.sets, options));
    PlannerPoint point;
    point.policy = policy;
    point.kernels = prepared.measured.kernels;
    point.bytes = prepared.measured.moved_bytes;
    point.modelled_us = prepared.bound->parts.front().specialization->modelled_us();
    const auto [same, is_new] = known.emplace(identity(prepared), result.points.size());
    if (!is_new) point.same_as = result.points[same->second].policy;
    result.points.push_back(point);
    if (!is_new) continue;
    VKF_TRY(verdict, verify(*prepared.bound, loaded.expected, loaded.sets));
    if (!verdict.wrong.empty()) {
      result.outcome = Outcome::wrong;
      result.detail = fmt::format("{}: {}", name_of(policy), verdict.wrong);
      return {};
    }
    timed.push_back(result.points.size() - 1);
    programs.push_back(std::move(prepared));
  }
  result.outcome = Outcome::checked;
  if (session.check_only) return {};
  // Others may take far longer than `bytes` does: those are left out, and the rest is measured.
  std::vector<const Bound*> bound;
  std::vector<double> run_us;
  std::vector<std::size_t> measured;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const Bound* const alone[] = {programs[i].bound.get()};
    VKF_TRY(estimated, estimate(alone));
    if (estimated.front() > kMostSubmissionUs) continue;
    bound.push_back(alone[0]);
    run_us.push_back(estimated.front());
    measured.push_back(timed[i]);
  }
  result.outcome = Outcome::measured;
  if (bound.empty()) return {};
  TimingOptions timing = session.timing();
  timing.stream_samples = 0;
  VKF_TRY(times, time_interleaved(bound, run_us, timing));
  for (std::size_t i = 0; i < measured.size(); ++i) result.points[measured[i]].times = times.programs[i].alone;
  for (PlannerPoint& point : result.points) {
    if (!point.same_as) continue;
    point.times = std::find_if(result.points.begin(), result.points.end(), [&](const PlannerPoint& other) {
                    return other.policy == *point.same_as;
                  })->times;
  }
  return {};
}

}  // namespace

const PlannerPoint* PlannersResult::better_by_model() const {
  constexpr double kRounding = 1.001, kPercent = 1.01, kForFewerBytes = 1.15;
  const auto better = std::find_if(points.begin(), points.end(), [&](const PlannerPoint& other) {
    const PlannerPoint& own = points.front();
    return (other.bytes < own.bytes && other.modelled_us <= kRounding * own.modelled_us) ||
           (other.bytes <= own.bytes && other.modelled_us * kPercent < own.modelled_us) ||
           other.modelled_us * kForFewerBytes < own.modelled_us;
  });
  return better == points.end() ? nullptr : &*better;
}

const PlannerPoint* PlannersResult::faster_measured() const {
  const PlannerPoint* best = nullptr;
  for (const PlannerPoint& point : points) {
    const bool surely =
        point.times.n() > 0 && points.front().times.n() > 0 && point.times.p90 < points.front().times.p10;
    if (surely && (best == nullptr || point.times.median < best->times.median)) best = &point;
  }
  return best;
}

PlannersResult planners_row(const Session& session, const Request& request) {
  PlannersResult result;
  result.row = request.row;
  result.name_of_case = case_text(*request.row, request.sizes.empty() ? request.row->full : request.sizes);
  const Result<void> ran = api::guarded([&] { return run(session, request, result); });
  if (ran.ok()) return result;
  result.outcome = ran.error().code == ErrorCode::out_of_memory || ran.error().code == ErrorCode::unsupported
                       ? Outcome::skipped
                       : Outcome::failed;
  result.detail = ran.error().message;
  return result;
}

}  // namespace vkfuse::bench
