#include "plan/plan.hpp"

#include <algorithm>
#include <map>

#include "base/mutations.hpp"
#include "ir/large_products.hpp"
#include "ir/structured.hpp"
#include "partition/cost_cache.hpp"
#include "passes/passes.hpp"
#include "plan/memory_budget.hpp"
#include "templates/planning.hpp"

namespace vkfuse::plan {

namespace {

/// A plan with what its kernels move and take together.
struct CostedPlan {
  Plan plan;
  std::int64_t bytes = 0;
  double microseconds = 0;
};

Result<CostedPlan> make_plan_as_is(ir::Graph graph, const Target& target, const partition::Options& options,
                                   partition::CostCache& cost_cache, const partition::WarmStart* warm_start = nullptr) {
  auto parts = partition::partition(graph, target, options, cost_cache, warm_start);
  if (!parts && parts.error().code == ErrorCode::out_of_memory && options.fusion) {
    // A value is over a limit of the device, and what reads it cannot be cut into pieces: ops by themselves may be.
    partition::Options apart = options;
    apart.fusion = false;
    if (auto single = partition::partition(graph, target, apart, cost_cache)) parts = std::move(single);
  }
  if (!parts) return std::move(parts).error();
  CostedPlan made{{}, parts->bytes, parts->microseconds};
  made.plan.target = target;
  made.plan.fusion_boundaries = std::move(parts->partition.fusion_boundaries);
  for (segment::Segment& segment : parts->partition.segments) made.plan.steps.push_back({std::move(segment)});
  made.plan.graph = std::move(graph);
  return made;
}

/// The most bytes that kernels pass on of what large products lead to.
std::int64_t largest_product(const CostedPlan& made, const SymbolValues& sizes) {
  std::vector<bool> counts = ir::large_products(made.plan.graph);
  for (const ir::Output& output : made.plan.graph.outputs()) counts[output.value] = false;
  std::int64_t most = 0;
  for (const PlannedKernel& step : made.plan.steps) {
    for (const ir::NodeId id : step.segment.stores) {
      const TensorType& type = made.plan.graph.node(id).type;
      const auto shape = resolve(type.shape, sizes);
      const auto bytes = shape ? byte_count(type.dtype, *shape) : Result<std::int64_t>(0);
      if (counts[id] && bytes) most = std::max(most, *bytes);
    }
  }
  return most;
}

/// Makes the plans of a graph and of its rewrites, and takes the best.
class PlanChoice {
 public:
  PlanChoice(const Target& target, const partition::Options& options) : target_(target), options_(options) {}

  /// Of the graph as it is; of one whose products are larger than the device holds, with these computed where they are
  /// multiplied.
  Result<void> plan_first(ir::Graph graph) {
    auto made = make_plan_as_is(graph, target_, options_, cost_cache_);
    const bool may_rewrite = options_.fusion && options_.policy == partition::Policy::bytes &&
                             options_.has(partition::PlannerPass::recomputed_products);
    if (!made && made.error().code == ErrorCode::out_of_memory && may_rewrite) {
      const auto rewritten = passes::recompute_products(graph);
      partition::Options without_large = options_;
      without_large.largest_product = static_cast<std::int64_t>(
          std::min(target_.caps.memory.storage_buffer_range, target_.caps.memory.max_allocation));
      // One that leads to one product alone is there once.
      auto other = make_plan_as_is(rewritten && *rewritten ? (*rewritten)->graph : std::move(graph), target_,
                                   without_large, cost_cache_);
      if (other) {
        made = std::move(other);
        options_.largest_product = without_large.largest_product;
      }
    }
    if (!made) return std::move(made).error();
    made_ = *std::move(made);
    return {};
  }

  using Rewrite = Result<std::optional<passes::Rewritten>> (*)(const ir::Graph&);
  /// Which of two forms is faster is decided at the sizes that stand for symbols, as everything else is. What cannot be
  /// rewritten is planned as it is.
  void consider(partition::PlannerPass planner_pass, Rewrite rewrite) {
    if (!options_.has(planner_pass)) return;
    auto rewritten = passes::limit_concats_of(rewrite(made_.plan.graph), target_.caps.memory.storage_buffers);
    if (rewritten && !*rewritten) return;
    GraphRewrite& weighed = rewrites_.emplace_back();
    weighed.planner_pass = planner_pass;
    weighed.before = {made_.bytes, made_.microseconds};
    auto other = rewritten ? plan_of(**rewritten, options_) : std::move(rewritten).error();
    if (!other) {
      weighed.refusal = other.error().message;
      return;
    }
    weighed.with = {other->bytes, other->microseconds};
    weighed.taken = other->microseconds < made_.microseconds * (1 - asked_speedup(weighed.before, *weighed.with));
    if (!weighed.taken && planner_pass == partition::PlannerPass::recomputed_products)
      weigh_memory(**rewritten, weighed, other);
    if (weighed.taken) made_ = *std::move(other);
  }

  Plan finish() && {
    made_.plan.rewrites = std::move(rewrites_);
    return std::move(made_.plan);
  }

 private:
  Result<CostedPlan> plan_of(const passes::Rewritten& one, const partition::Options& options) {
    partition::Partition parts;
    for (const PlannedKernel& step : made_.plan.steps) parts.segments.push_back(step.segment);
    parts.fusion_boundaries = made_.plan.fusion_boundaries;
    const partition::WarmStart warm_start{made_.plan.graph, parts, one.places};
    return make_plan_as_is(one.graph, target_, options, cost_cache_, &warm_start);
  }

  /// Whether the plan is to pass on no large product, though that is not the fastest.
  void weigh_memory(const passes::Rewritten& rewritten, GraphRewrite& weighed, Result<CostedPlan>& other) {
    const std::int64_t large = largest_product(made_, options_.sizes);
    if (large <= kLargeProduct) return;
    partition::Options without_large = options_;
    without_large.largest_product = kLargeProduct;
    auto small = plan_of(rewritten, without_large);
    if (!small || largest_product(*small, options_.sizes) > kLargeProduct ||
        small->microseconds > made_.microseconds * kTimeForMemory)
      return;
    weighed.with = {small->bytes, small->microseconds};
    weighed.taken = true;
    weighed.spared_bytes = large;
    options_.largest_product = kLargeProduct;
    other = std::move(small);
  }

  const Target& target_;
  partition::Options options_;
  partition::CostCache cost_cache_;
  CostedPlan made_;
  std::vector<GraphRewrite> rewrites_;
};

}  // namespace

double asked_speedup(const Cost& before, const Cost& with) {
  const auto more = static_cast<double>(with.bytes - before.bytes);
  return std::clamp(10 * more / std::max(static_cast<double>(before.bytes), 1.0), 0.0, 0.13);
}

Result<Plan> make_plan(ir::Graph graph, const Target& target, const partition::Options& options) {
  VKF_TRY(narrow, passes::limit_concats(graph, target.caps.memory.storage_buffers));
  if (narrow) graph = std::move(narrow->graph);
  // Forms of a graph are compared at the same sizes: their own representative ones may differ, as their largest tensors
  // do.
  partition::Options sized = options;
  SymbolValues sizes = schedule::representative_symbols(graph);
  sized.sizes.merge(sizes);
  PlanChoice choice(target, sized);
  VKF_CHECK_OK(choice.plan_first(std::move(graph)));
  if (options.fusion && options.policy == partition::Policy::bytes) {
    choice.consider(partition::PlannerPass::recomputed_products, passes::recompute_products);
    choice.consider(partition::PlannerPass::channels_last, passes::put_channels_last);
    choice.consider(partition::PlannerPass::merged_matmuls, passes::merge_matmuls);
    choice.consider(partition::PlannerPass::partial_statistics, passes::split_rows);
    choice.consider(partition::PlannerPass::padded_rows, passes::pad_rows);
  }
  Plan plan = std::move(choice).finish();
  if (options.memory_budget == 0) return plan;
  return within_budget(std::move(plan), options.memory_budget, sized.sizes);
}

namespace {

/// Outputs that views of inputs, constants and other outputs make are read where those are.
class Aliases {
 public:
  explicit Aliases(const Plan& plan)
      : plan_(plan), is_output_(plan.graph.size(), false), is_read_(plan.graph.size(), false) {
    for (const ir::Output& output : plan.graph.outputs()) is_output_[output.value] = true;
    for (const PlannedKernel& step : plan.steps) {
      for (ir::NodeId value : step.segment.reads) is_read_[value] = true;
    }
  }

  /// Steps come in running order.
  std::optional<Alias> of(const segment::Loops& loops) {
    const auto window = segment::window_of(loops);
    if (!window) return std::nullopt;
    const ir::NodeId value = loops.stores[0].node;
    const auto in_one_buffer = [&](ir::NodeId node, std::int64_t elements) {
      return static_cast<std::uint64_t>(elements) <=
             plan_.target.caps.memory.max_allocation /
                 static_cast<std::uint64_t>(size_of(plan_.graph.node(node).type.dtype));
    };
    const bool at_hand = std::all_of(loops.values.begin(), loops.values.end(), [&](const segment::Value& one) {
      return one.kind != segment::Value::Kind::load || in_one_buffer(one.node, one.buffer_elements);
    });
    if (!at_hand) return std::nullopt;
    if (!is_output_[value] || !(segment::is_resident(plan_.graph, window->of) || is_output_[window->of]))
      return std::nullopt;
    Alias alias{window->of, VKF_PLANT(alias_offset, window->first, 0) * size_of(plan_.graph.node(value).type.dtype)};
    const auto behind = known_.find(window->of);
    if (behind != known_.end()) alias = {behind->second.of, alias.offset + behind->second.offset};
    // A kernel that reads it binds it: only where a device lets buffers begin.
    const std::int64_t alignment = std::max<std::int64_t>(256, plan_.target.caps.memory.offset_alignment);
    if (is_read_[value] && alias.offset % alignment != 0) return std::nullopt;
    known_[value] = alias;
    return alias;
  }

 private:
  const Plan& plan_;
  std::vector<bool> is_output_;
  std::vector<bool> is_read_;
  std::map<ir::NodeId, Alias> known_;
};

/// The loops as pieces, each with the schedule that is best for it.
Result<ScheduledKernel> schedule_dispatch_parts(const Plan& plan, const segment::Loops& loops,
                                                std::vector<schedule::DispatchPart> pieces,
                                                const schedule::Tuning& tuning) {
  ScheduledKernel all;
  for (schedule::DispatchPart& piece : pieces) {
    VKF_TRY(own, schedule::best(plan.graph, piece.loops, plan.target, tuning));
    segment::Loops run = schedule::scheduled_loops(plan.graph, piece.loops, own);
    schedule::Schedule& sum = all.schedule;
    if (all.pieces.empty()) {
      all.loops = schedule::scheduled_loops(plan.graph, loops, own);
      sum = own;
    } else {
      sum.scratch_bytes = std::max(sum.scratch_bytes, own.scratch_bytes);  // one piece after the other
      sum.counter_bytes = std::max(sum.counter_bytes, own.counter_bytes);
      sum.dispatches += own.dispatches;
      using schedule::LaunchSizes, schedule::ScheduleCost;
      for (const auto count :
           {&LaunchSizes::elements, &LaunchSizes::chunks, &LaunchSizes::parallel_chunks, &LaunchSizes::workgroups})
        sum.launch.*count += own.launch.*count;
      for (const auto count :
           {&ScheduleCost::bytes_read, &ScheduleCost::bytes_written, &ScheduleCost::bytes_read_again,
            &ScheduleCost::loads_executed, &ScheduleCost::stores_executed, &ScheduleCost::transactions})
        sum.cost.*count += own.cost.*count;
      sum.cost.modelled_us += own.cost.modelled_us;
    }
    all.pieces.push_back({std::move(run), std::move(own), std::move(piece.windows)});
  }
  return all;
}

/// Makes the steps of a plan at given sizes.
class StepScheduler {
 public:
  /// All must outlive it.
  StepScheduler(const Plan& plan, const SymbolValues& symbols, const schedule::Tuning& tuning, const Choose& choose)
      : plan_(plan), symbols_(symbols), tuning_(tuning), choose_(choose), aliases_(plan) {}

  /// Comes before all steps: which kernel would be refused for it, and with which sentence, is chance.
  [[nodiscard]] Result<void> check_picks() const {
    for (const PlannedKernel& step : plan_.steps) {
      for (const ir::NodeId id : step.segment.members) VKF_CHECK_OK(ir::check_picks(plan_.graph, id, symbols_));
    }
    return {};
  }

  /// Steps come in running order; some may be left out.
  Result<ScheduledKernel> make(std::size_t step) {
    auto made = scheduled(step);
    if (!made) return std::move(made).error().within(fmt::format("scheduling segment {}", step));
    made->alias = aliases_.of(made->loops);
    return made;
  }

 private:
  [[nodiscard]] Result<ScheduledKernel> scheduled(std::size_t step) const {
    VKF_TRY(loops, segment::build_loops(plan_.graph, plan_.steps[step].segment, symbols_));
    VKF_TRY(pieces, schedule::split_dispatch(plan_.graph, loops, symbols_, plan_.target));
    if (!pieces.empty()) return schedule_dispatch_parts(plan_, loops, std::move(pieces), tuning_);
    if (auto chosen = choose_ ? choose_(step, loops) : std::nullopt) return *std::move(chosen);
    VKF_TRY(schedule, schedule::best(plan_.graph, loops, plan_.target, tuning_));
    segment::Loops run = schedule::scheduled_loops(plan_.graph, loops, schedule);
    return ScheduledKernel{std::move(run), std::move(schedule), std::nullopt, {}};
  }

  const Plan& plan_;
  const SymbolValues& symbols_;
  const schedule::Tuning& tuning_;
  const Choose& choose_;
  Aliases aliases_;
};

}  // namespace

Result<std::vector<ScheduledKernel>> schedule_all(const Plan& plan, const SymbolValues& symbols,
                                                  const schedule::Tuning& tuning, const Choose& choose) {
  StepScheduler scheduler(plan, symbols, tuning, choose);
  VKF_CHECK_OK(scheduler.check_picks());
  std::vector<ScheduledKernel> all;
  all.reserve(plan.steps.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    VKF_TRY(step, scheduler.make(i));
    all.push_back(std::move(step));
  }
  return all;
}

Result<ScheduledKernels> schedule_steps(const Plan& plan, const SymbolValues& symbols, const schedule::Tuning& tuning,
                                        const Choose& choose, const DuplicateSteps& repeated) {
  StepScheduler scheduler(plan, symbols, tuning, choose);
  VKF_CHECK_OK(scheduler.check_picks());
  ScheduledKernels all(repeated.duplicates);
  all.reserve(plan.steps.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const std::optional<StructuralDuplicate>& original = (*repeated.duplicates)[i];
    // What a view stands for differs from duplicate to duplicate.
    if (original && !segment::window_of(all[original->of].loops) && repeated.reuse(i)) {
      all.add_duplicate();
      continue;
    }
    VKF_TRY(step, scheduler.make(i));
    all.add(std::move(step));
  }
  return all;
}

ScheduledKernels::ScheduledKernels(std::vector<ScheduledKernel> all) : own_(std::move(all)) {
  for (std::uint32_t i = 0; i < own_.size(); ++i) at_.push_back(i);
}

void ScheduledKernels::add(ScheduledKernel step) {
  at_.push_back(static_cast<std::uint32_t>(own_.size()));
  own_.push_back(std::move(step));
}

void ScheduledKernels::add_duplicate() { at_.push_back(at_[(*duplicates_)[at_.size()]->of]); }

ir::NodeId StructuralDuplicate::here(ir::NodeId there) const {
  const auto found = std::lower_bound(values.begin(), values.end(), there,
                                      [](const auto& pair, ir::NodeId id) { return pair.first < id; });
  if (found == values.end() || found->first != there)
    throw InternalError(fmt::format("the value %{} is none of a repeated step", there));
  return found->second;
}

bool ScheduledKernels::is_duplicate(std::size_t step) const {
  return duplicates_ != nullptr && (*duplicates_)[step] && at_[step] == at_[(*duplicates_)[step]->of];
}

ir::NodeId ScheduledKernels::in_loops(std::size_t step, ir::NodeId value) const {
  if (!is_duplicate(step)) return value;
  for (const auto& [there, here] : (*duplicates_)[step]->values) {
    if (here == value) return there;
  }
  return value;
}

Result<Totals> totals(const Plan& plan, const SymbolValues& symbols) {
  VKF_TRY(steps, schedule_all(plan, symbols));
  VKF_TRY(memory, plan_memory(plan, symbols, steps));
  Totals sum;
  sum.arena_bytes = memory.arena_bytes;
  for (const ScheduledKernel& step : steps) {
    if (step.alias) continue;
    const schedule::Schedule& schedule = step.schedule;
    sum.launches += schedule.launch.chunks > 0 ? schedule.dispatches : 0;
    sum.bytes += schedule.cost.bytes_read + schedule.cost.bytes_read_again + schedule.cost.bytes_written;
    sum.loads += schedule.cost.loads_executed;
    sum.stores += schedule.cost.stores_executed;
    sum.transactions += schedule.cost.transactions;
    sum.modelled_us += schedule.cost.modelled_us;
    const segment::Proof proof = segment::prove_in_bounds(step.loops);
    sum.proof.accesses += proof.accesses;
    sum.proof.proven += proof.proven;
  }
  return sum;
}

}  // namespace vkfuse::plan
