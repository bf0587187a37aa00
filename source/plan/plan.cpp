#include "plan/plan.hpp"

#include <algorithm>

namespace vkfuse::plan {

Result<Plan> make_plan(ir::Graph graph, const Target& target, const partition::Options& options) {
  VKF_TRY(parts, partition::partition(graph, target, options));
  Plan plan;
  plan.target = target;
  plan.boundaries = std::move(parts.boundaries);
  for (segment::Segment& segment : parts.segments) {
    plan.steps.push_back({std::move(segment)});
  }
  plan.graph = std::move(graph);
  return plan;
}

Result<std::vector<Scheduled>> schedule_all(const Plan& plan, const SymbolValues& symbols, const schedule::Tuning& tuning) {
  std::vector<Scheduled> all;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const auto make = [&]() -> Result<Scheduled> {
      VKF_TRY(loops, segment::build_loops(plan.graph, plan.steps[i].segment, symbols));
      VKF_TRY(schedule, schedule::best(plan.graph, loops, plan.target, tuning));
      return Scheduled{std::move(loops), std::move(schedule)};
    };
    auto made = make();
    if (!made) return std::move(made).error().within(fmt::format("scheduling segment {}", i));
    all.push_back(*std::move(made));
  }
  return all;
}

Result<Totals> totals(const Plan& plan, const SymbolValues& symbols) {
  VKF_TRY(steps, schedule_all(plan, symbols));
  VKF_TRY(memory, plan_memory(plan, symbols, steps));
  Totals sum;
  sum.arena_bytes = memory.arena_bytes;
  for (const Scheduled& step : steps) {
    const schedule::Schedule& schedule = step.schedule;
    sum.launches += schedule.items > 0 ? schedule.dispatches : 0;
    sum.bytes += schedule.bytes_read + schedule.bytes_written;
    sum.loads += schedule.loads_executed;
    sum.stores += schedule.stores_executed;
    sum.transactions += schedule.transactions;
    sum.modelled_us += schedule.modelled_us;
    const segment::Proof proof = segment::prove_in_bounds(step.loops);
    sum.proof.accesses += proof.accesses;
    sum.proof.proven += proof.proven;
  }
  return sum;
}

}  // namespace vkfuse::plan
