#include "plan/plan.hpp"

#include <algorithm>

namespace vkfuse::plan {

Result<Plan> make_plan(ir::Graph graph, const Target& target, const partition::Options& options) {
  VKF_TRY(parts, partition::partition(graph, target, options));
  Plan plan;
  plan.target = target;
  plan.boundaries = std::move(parts.boundaries);
  for (segment::Segment& segment : parts.segments) {
    segment::Loops loops = segment::build_loops(graph, segment);
    plan.steps.push_back({std::move(segment), std::move(loops)});
  }
  plan.graph = std::move(graph);
  return plan;
}

Result<std::vector<schedule::Schedule>> schedule_all(const Plan& plan, const SymbolValues& symbols, const schedule::Tuning& tuning) {
  std::vector<schedule::Schedule> all;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    auto schedule = schedule::best(plan.graph, step.segment, step.loops, symbols, plan.target, tuning);
    if (!schedule) return std::move(schedule).error().within(fmt::format("scheduling segment {}", i));
    all.push_back(*std::move(schedule));
  }
  return all;
}

Result<Totals> totals(const Plan& plan, const SymbolValues& symbols) {
  VKF_TRY(schedules, schedule_all(plan, symbols));
  VKF_TRY(memory, plan_memory(plan, symbols));
  Totals sum;
  sum.arena_bytes = memory.arena_bytes;
  for (const schedule::Schedule& schedule : schedules) {
    sum.launches += schedule.items > 0 ? 1 : 0;
    sum.bytes += schedule.bytes_read + schedule.bytes_written;
    sum.loads += schedule.loads;
    sum.stores += schedule.stores;
    sum.transactions += schedule.transactions;
    sum.modelled_us += schedule.modelled_us;
  }
  return sum;
}

}  // namespace vkfuse::plan
