#include "plan/memory_budget.hpp"

#include <algorithm>
#include <limits>

#include "plan/recomputation.hpp"
#include "plan/run_order.hpp"
#include "templates/planning.hpp"

namespace vkfuse::plan {

namespace {

/// Whether a kernel with this node runs once whatever it costs: what the user wrote may do anything, sorts take long,
/// and an update writes over what it reads.
bool runs_once(const ir::Node& node) {
  const ops::OpClass cls = node.op->cls;
  return cls == ops::OpClass::opaque || cls == ops::OpClass::sort || cls == ops::OpClass::update ||
         cls == ops::OpClass::collective || std::holds_alternative<ir::CustomPayload>(node.payload) ||
         std::holds_alternative<ir::KernelPayload>(node.payload);
}

Result<StepCosts> costs_of(const Plan& plan, const std::vector<ScheduledKernel>& steps, const SymbolValues& sizes) {
  const std::int64_t alignment = std::max<std::int64_t>(256, plan.target.caps.memory.offset_alignment);
  StepCosts costs;
  std::vector<std::optional<std::size_t>> value_of(plan.graph.size());
  std::vector<bool> is_output(plan.graph.size(), false);
  for (const ir::Output& output : plan.graph.outputs()) is_output[output.value] = true;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const segment::Segment& segment = plan.steps[i].segment;
    StepCosts::Step& step = costs.steps.emplace_back();
    step.scratch_bytes = steps[i].schedule.scratch_bytes;
    step.microseconds = steps[i].alias ? 0 : steps[i].schedule.cost.modelled_us;
    step.once = std::any_of(segment.members.begin(), segment.members.end(),
                            [&](ir::NodeId id) { return runs_once(plan.graph.node(id)); });
    for (const ir::NodeId id : segment.reads) {
      if (value_of[id]) step.reads.push_back(*value_of[id]);
    }
    for (const ir::NodeId id : segment.stores) {
      const TensorType& type = plan.graph.node(id).type;
      VKF_TRY(shape, resolve(type.shape, sizes));
      VKF_TRY(bytes, byte_count(type.dtype, shape));
      const std::int64_t padded = (bytes + alignment - 1) / alignment * alignment;
      value_of[id] = costs.values.size();
      step.stores.push_back(costs.values.size());
      costs.values.push_back({i, is_output[id] ? 0 : padded, is_output[id]});
    }
  }
  return costs;
}

/// A plan at the sizes that stand for symbols.
struct SizedPlan {
  Plan plan;
  std::vector<ScheduledKernel> steps;
  std::int64_t arena_bytes = 0;
  double microseconds = 0;
};

Result<SizedPlan> sized(Plan plan, const SymbolValues& sizes) {
  SizedPlan made{std::move(plan), {}};
  VKF_TRY(steps, schedule_all(made.plan, sizes));
  VKF_TRY(memory, plan_memory(made.plan, sizes, steps));
  made.arena_bytes = memory.arena_bytes;
  for (const ScheduledKernel& step : steps) made.microseconds += step.alias ? 0 : step.schedule.cost.modelled_us;
  made.steps = std::move(steps);
  return made;
}

/// Makes plans of the kernels of one, until one fits.
class Fitting {
 public:
  Fitting(const SizedPlan& without, const StepCosts& costs, std::int64_t budget, const SymbolValues& sizes)
      : without_(without), budget_(budget), sizes_(sizes), costs_(costs) {
    starts_ = {freeing_order(costs), {}};
    for (std::size_t step = 0; step < costs.steps.size(); ++step) starts_[1].push_back(step);
  }

  Result<Plan> run() && {
    constexpr int kMostTurns = 4;
    // Slots of an arena do not always fit together: less has to be alive than the budget has.
    std::int64_t target = budget_;
    for (int turn = 0; turn < kMostTurns && target > 0; ++turn) {
      const auto sequence = fastest_within(target, turn == 0 ? 0 : budget_ / 64);
      if (!sequence) break;
      VKF_TRY(arena, take(*sequence));
      if (arena <= budget_) return std::move(*best_);
      if (turn > 0) target -= std::max(arena - budget_, budget_ / 64);
    }
    // What does not depend on the budget comes last: a budget of the bytes that the error names can be met.
    VKF_CHECK_OK(take(smallest(starts_[0])));
    if (least_ <= budget_) return std::move(*best_);
    return make_error(
        ErrorCode::out_of_memory,
        "The intermediate values of the graph '{}' take {} bytes in the smallest plan that was found, and "
        "the memory budget is {} bytes.",
        without_.plan.graph.name, least_, budget_);
  }

 private:
  /// The search for any budget ends in what has the least excess: others go on from the bytes that it has come to.
  [[nodiscard]] StepSequence smallest(const StepSequence& start) const {
    constexpr int kMostTurns = 3;
    constexpr double kPart = 0.94;
    StepSequence least = recompute_within(costs_, start, 0).smallest;
    for (int turn = 0; turn < kMostTurns; ++turn) {
      const std::vector<std::int64_t> live = live_bytes(costs_, least);
      const std::int64_t bytes = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
      auto found =
          recompute_within(costs_, start, static_cast<std::int64_t>(kPart * static_cast<double>(bytes))).within;
      if (!found) break;
      least = *std::move(found);
    }
    return least;
  }

  [[nodiscard]] std::optional<StepSequence> fastest_within(std::int64_t target, std::int64_t left_free) const {
    std::optional<StepSequence> fastest;
    for (const StepSequence& start : starts_) {
      auto found = recompute_within(costs_, start, target, left_free).within;
      if (found && (!fastest || modelled_us(costs_, *found) < modelled_us(costs_, *fastest)))
        fastest = std::move(found);
    }
    return fastest;
  }

  /// Whether a kernel that stores less than the one that it is of can be scheduled.
  [[nodiscard]] bool is_possible(const Plan& plan, std::size_t step) const {
    const segment::Segment& segment = plan.steps[step].segment;
    const std::size_t kernel = plan.budget->order.kernels[step];
    if (segment.stores.size() == without_.plan.steps[kernel].segment.stores.size()) return true;
    const auto loops = segment::build_loops(plan.graph, segment, sizes_);
    return loops && schedule::best(plan.graph, *loops, plan.target);
  }

  /// The arena of a plan with this sequence. The smallest plan is kept.
  Result<std::int64_t> take(const StepSequence& sequence) {
    StepOrder order{sequence};
    VKF_TRY(plan, plan_in_order(without_.plan, order));
    for (std::size_t step = 0; step < plan.steps.size(); ++step) {
      if (!is_possible(plan, step)) order.whole.insert(step);
    }
    if (!order.whole.empty()) {
      VKF_TRY(other, plan_in_order(without_.plan, order));
      plan = std::move(other);
    }
    VKF_TRY(made, sized(std::move(plan), sizes_));
    if (!best_ || made.arena_bytes < least_) {
      least_ = made.arena_bytes;
      best_ = std::move(made.plan);
      best_->budget->bytes = budget_;
      best_->budget->arena_bytes_without = without_.arena_bytes;
      best_->budget->microseconds_without = without_.microseconds;
    }
    return made.arena_bytes;
  }

  const SizedPlan& without_;
  const std::int64_t budget_;
  const SymbolValues& sizes_;
  const StepCosts& costs_;
  std::vector<StepSequence> starts_;
  std::optional<Plan> best_;
  std::int64_t least_ = 0;
};

}  // namespace

Result<Plan> plan_in_order(const Plan& plan, const StepOrder& order) {
  ArenaBudget budget{std::numeric_limits<std::int64_t>::max()};
  budget.order = order;
  budget.graph = plan.graph;
  for (const PlannedKernel& step : plan.steps) budget.segments.push_back(step.segment);
  VKF_TRY(ordered, run_in_order(plan.graph, budget.segments, order));
  Plan made;
  made.target = plan.target;
  made.graph = std::move(ordered.graph);
  for (segment::Segment& segment : ordered.segments) made.steps.push_back({std::move(segment)});
  const auto place = [&](ir::NodeId id) { return ordered.places[id].value_or(0); };
  for (const partition::FusionBoundary& before : plan.fusion_boundaries) {
    partition::FusionBoundary& after = made.fusion_boundaries.emplace_back();
    after.value = place(before.value);
    for (const partition::Refusal& reason : before.reasons) after.reasons.push_back(renumbered(reason, place));
  }
  made.rewrites = plan.rewrites;
  made.budget = std::move(budget);
  return made;
}

Result<Plan> within_budget(Plan plan, std::int64_t budget, const SymbolValues& sizes) {
  VKF_TRY(without, sized(std::move(plan), sizes));
  if (without.arena_bytes <= budget) {
    without.plan.budget = ArenaBudget{budget, without.arena_bytes, without.microseconds};
    return std::move(without.plan);
  }
  VKF_TRY(costs, costs_of(without.plan, without.steps, sizes));
  return Fitting(without, costs, budget, sizes).run();
}

}  // namespace vkfuse::plan
