#include <nlohmann/json.hpp>
#include <numeric>

#include "base/wrapped.hpp"
#include "plan/plan.hpp"
#include "templates/planning.hpp"

namespace vkfuse::plan {

namespace {

std::string ops_of(const Plan& plan, const segment::Segment& segment) {
  std::string all;
  for (ir::NodeId id : segment.members) all += (all.empty() ? "" : ", ") + op_text(plan.graph.node(id));
  return all;
}

/// "%3 mul", or the input's name.
std::string label(const Plan& plan, ir::NodeId id) {
  const ir::Node& node = plan.graph.node(id);
  if (const auto* input = std::get_if<ir::InputPayload>(&node.payload))
    return fmt::format("%{} \"{}\"", id, input->name);
  return fmt::format("%{} {}", id, op_text(node));
}

/// Wraps a list of names at 80 columns under a label.
std::string wrapped(std::string_view head, const std::string& text) { return vkfuse::wrapped(head, text, head.size()); }

nlohmann::ordered_json access_json(const Plan& plan, ir::NodeId id, std::string_view kind, int bytes) {
  return {{"value", fmt::format("%{}", id)},
          {"type", vkfuse::to_text(plan.graph.node(id).type)},
          {"kind", kind},
          {"vector_bytes", bytes}};
}

/// One line per load: the value, how it is reached, and how wide.
struct Read {
  ir::NodeId value = 0;
  schedule::AccessPlan plan;
};
std::vector<Read> reads_of(const ScheduledKernel& step) {
  std::vector<Read> reads;
  for (std::size_t i = 0; i < step.loops.values.size(); ++i) {
    const segment::Value& value = step.loops.values[i];
    if (value.kind == segment::Value::Kind::load) reads.push_back({value.node, step.schedule.loads[i]});
  }
  std::stable_sort(reads.begin(), reads.end(), [](const Read& a, const Read& b) { return a.value < b.value; });
  return reads;
}

/// How a value is stored, all parts of it.
const schedule::AccessPlan& store_of(const ScheduledKernel& step, ir::NodeId stored) {
  const auto& stores = step.loops.stores;
  const auto at =
      std::find_if(stores.begin(), stores.end(), [&](const segment::Store& store) { return store.node == stored; });
  check(at != stores.end(), "the loops store what the segment stores");
  return step.schedule.stores[static_cast<std::size_t>(at - stores.begin())];
}

/// "[128, 512] x 4096": rows and columns.
std::string space_of(const segment::Loops& loops) {
  std::string rows, columns, keys, inner;
  for (const segment::Axis& axis : loops.axes) {
    std::string& text = axis.role == segment::Role::inner       ? inner
                        : axis.role == segment::Role::key       ? keys
                        : axis.role == segment::Role::reduction ? columns
                                                                : rows;
    text += (text.empty() ? "" : ", ") + std::to_string(axis.size);
  }
  return "[" + rows + "]" + (columns.empty() ? "" : " x [" + columns + "]") +
         (keys.empty() ? "" : " of [" + keys + "] sorted") + (inner.empty() ? "" : " x [" + inner + "]");
}

/// What is where, and when it does move.
std::string alias_text(const Plan& plan, const ScheduledKernel& step) {
  const ir::NodeId value = step.loops.stores[0].node;
  return fmt::format("  alias:  {} : {} is the bytes of {} from {} on\n", label(plan, value),
                     vkfuse::to_text(plan.graph.node(value).type), label(plan, step.alias->of), step.alias->offset) +
         "          (a run that binds it to a buffer of its own copies it with one kernel)\n";
}

/// What work is taken to cost.
std::string costs_text(const Target& target) {
  return target.costs ? "costs measured on the device"
                      : fmt::format("defaults of the device type {}", name_of(target.type));
}

/// Why a rewrite was taken or not, in one sentence.
std::string verdict(const GraphRewrite& rewrite) {
  if (!rewrite.with) return rewrite.refusal;
  const auto percent = [](double part) {
    return part < 0.001 ? "less than 0.1 %" : fmt::format("{:.{}f} %", 100 * part, part < 0.0995 ? 1 : 0);
  };
  const double faster = 1 - rewrite.with->microseconds / std::max(rewrite.before.microseconds, 1e-9);
  if (faster == 0) return "It is modelled to take as long.";
  if (rewrite.spared_bytes > 0) {
    return fmt::format("It is modelled to take {} longer, and does without a value of {} bytes.", percent(-faster),
                       rewrite.spared_bytes);
  }
  if (faster < 0) return fmt::format("It is modelled to take {} longer.", percent(-faster));
  if (rewrite.with->bytes <= rewrite.before.bytes) return fmt::format("It is modelled {} faster.", percent(faster));
  return fmt::format("It moves more bytes and is modelled {} faster; {} is asked for then.", percent(faster),
                     percent(asked_speedup(rewrite.before, *rewrite.with)));
}

/// What was weighed, as the totals are printed.
std::string rewrite_block(const GraphRewrite& rewrite) {
  const std::string_view name = name_of(rewrite.planner_pass);
  std::string all = wrapped(fmt::format("  {}: ", name), std::string(rewrite_text(rewrite.planner_pass)));
  if (!rewrite.with) return all + wrapped("    not planned: ", verdict(rewrite));
  all += fmt::format("  {:<22}{:>16}{:>16}\n", "", "without", "with it");
  all += fmt::format("    {:<20}{:>16}{:>16}\n", "bytes moved", rewrite.before.bytes, rewrite.with->bytes);
  all += fmt::format("    {:<20}{:>16.1f}{:>16.1f}\n", "modelled us", rewrite.before.microseconds,
                     rewrite.with->microseconds);
  return all + wrapped(rewrite.taken ? "    taken: " : "    not taken: ", verdict(rewrite));
}

nlohmann::ordered_json rewrite_json(const GraphRewrite& rewrite) {
  nlohmann::ordered_json json{{"planner_pass", name_of(rewrite.planner_pass)},
                              {"rewrite", rewrite_text(rewrite.planner_pass)},
                              {"planned", rewrite.with.has_value()},
                              {"taken", rewrite.taken}};
  json["bytes_without"] = rewrite.before.bytes;
  if (rewrite.with) json["bytes_with"] = rewrite.with->bytes;
  json["modelled_us_without"] = rewrite.before.microseconds;
  if (rewrite.with) json["modelled_us_with"] = rewrite.with->microseconds;
  json["reason"] = verdict(rewrite);
  return json;
}

/// Of one dispatch, those that share a tile included.
std::int64_t workgroups_of(const schedule::Schedule& schedule) {
  return schedule.launch.workgroups * (schedule.kind() == schedule::Template::matmul ? schedule.splits : 1);
}

/// How a segment runs, and what that moves.
void add_schedule(const schedule::Schedule& schedule, nlohmann::ordered_json& json) {
  json["bytes_read"] = schedule.cost.bytes_read;
  if (schedule.cost.bytes_read_again > 0) json["bytes_read_again"] = schedule.cost.bytes_read_again;
  json["bytes_written"] = schedule.cost.bytes_written;
  json["loads"] = schedule.cost.loads_executed;
  json["stores"] = schedule.cost.stores_executed;
  json["transactions"] = schedule.cost.transactions;
  json["workgroup"] = schedule.workgroup;
  json["workgroups"] = workgroups_of(schedule);
  json["chunk_size"] = schedule.chunk_size;
  json["unroll_factor"] = schedule.unroll_factor;
  json["shared_bytes"] = schedule.shared_bytes;
  json["scratch_bytes"] = schedule.scratch_bytes;
  if (schedule.counter_bytes > 0) json["counter_bytes"] = schedule.counter_bytes;
  json.update(schedule::describe(schedule).choices);
  json["modelled_us"] = schedule.cost.modelled_us;
  json["modelled_registers"] = schedule.cost.registers;
}

nlohmann::ordered_json segment_json(const Plan& plan, const PlannedKernel& step, const ScheduledKernel& scheduled) {
  const schedule::Schedule& schedule = scheduled.schedule;
  nlohmann::ordered_json json;
  json["kind"] = scheduled.alias ? "alias" : schedule::name_of(schedule.kind());
  if (scheduled.alias) {
    json["value"] = fmt::format("%{}", scheduled.loops.stores[0].node);
    json["of"] = fmt::format("%{}", scheduled.alias->of);
    json["offset_bytes"] = scheduled.alias->offset;
    return json;
  }
  json["loops"] = space_of(scheduled.loops);
  json["dispatches"] = schedule.dispatches;
  json["ops"] = nlohmann::ordered_json::array();
  for (ir::NodeId id : step.segment.members) json["ops"].push_back(op_text(plan.graph.node(id)));
  add_schedule(schedule, json);
  json["reads"] = nlohmann::ordered_json::array();
  for (const Read& read : reads_of(scheduled)) {
    json["reads"].push_back(access_json(plan, read.value, name_of(read.plan.kind), read.plan.vector_bytes));
  }
  json["writes"] = nlohmann::ordered_json::array();
  for (ir::NodeId stored : step.segment.stores) {
    const schedule::AccessPlan& store = store_of(scheduled, stored);
    json["writes"].push_back(access_json(plan, stored, name_of(store.kind), store.vector_bytes));
  }
  return json;
}

using partition::Refusal;
using partition::RefusalKind;

std::string readers_text(std::int64_t readers) { return fmt::format("{} kernel{}", readers, readers == 1 ? "" : "s"); }

/// What is said of each kind of refusal.
struct RefusalRow {
  RefusalKind kind;
  std::string (*words)(const Refusal& refusal);
};
constexpr RefusalRow kRefusals[] = {
    {RefusalKind::stated, [](const Refusal& refusal) { return refusal.stated.message; }},
    {RefusalKind::fusion_off, [](const Refusal&) -> std::string { return "Fusion is switched off."; }},
    {RefusalKind::best_of_all,
     [](const Refusal&) -> std::string { return "Of all partitions of these few ops this one is modelled fastest."; }},
    {RefusalKind::not_fused,
     [](const Refusal&) -> std::string { return "It is read by a kernel that was not merged with its producer."; }},
    {RefusalKind::several_readers, [](const Refusal&) -> std::string { return "Several ops read it."; }},
    {RefusalKind::frozen,
     [](const Refusal&) -> std::string { return "They were looked at in another form of the graph."; }},
    {RefusalKind::kernel_between,
     [](const Refusal&) -> std::string { return "Another kernel must run between the two."; }},
    {RefusalKind::one_moves_more,
     [](const Refusal& refusal) {
       return fmt::format("One kernel would move {} bytes instead of {}.", refusal.counts[0], refusal.counts[1]);
     }},
    {RefusalKind::one_is_slower,
     [](const Refusal& refusal) {
       return fmt::format("One kernel is modelled at {:.1f} us and the {} at {:.1f} us.", refusal.microseconds[0],
                          refusal.counts[0] == 2 ? "two" : "three", refusal.microseconds[1]);
     }},
    {RefusalKind::never_computed_twice,
     [](const Refusal& refusal) {
       return fmt::format("It is a result of '{}', which no reader computes for itself.", refusal.op);
     }},
    {RefusalKind::again_moves_more,
     [](const Refusal& refusal) {
       return fmt::format("Computing it again in {} would move {} bytes instead of {}.",
                          readers_text(refusal.counts[0]), refusal.counts[1], refusal.counts[2]);
     }},
    {RefusalKind::again_is_slower,
     [](const Refusal& refusal) {
       return fmt::format("Computing it again in {} is modelled at {:.1f} us instead of {:.1f} us.",
                          readers_text(refusal.counts[0]), refusal.microseconds[0], refusal.microseconds[1]);
     }},
    {RefusalKind::stored_by_none,
     [](const Refusal& refusal) { return fmt::format("%{} is stored by no kernel.", refusal.nodes[0]); }},
    {RefusalKind::unread, [](const Refusal&) -> std::string { return "Nobody reads what it computes."; }},
    {RefusalKind::some_results_empty,
     [](const Refusal&) -> std::string { return "Some of its results have no elements, and others do."; }},
    {RefusalKind::some_results_may_empty,
     [](const Refusal&) -> std::string {
       return "Some of its results have no elements at sizes at which others have.";
     }},
    {RefusalKind::refused_by_compiler,
     [](const Refusal& refusal) {
       return fmt::format("The compiler refused a kernel of %{} and other ops.", refusal.nodes[0]);
     }},
    {RefusalKind::too_many_ops,
     [](const Refusal& refusal) {
       return fmt::format("One kernel would have {} ops, and {} are the most that drivers compile in seconds.",
                          refusal.counts[0], refusal.counts[1]);
     }},
    {RefusalKind::too_many_statements,
     [](const Refusal& refusal) {
       return fmt::format(
           "One kernel would be about {} statements for a driver's compiler, and {} are the most that compile in "
           "seconds.",
           refusal.counts[0], refusal.counts[1]);
     }},
};

}  // namespace

std::string text_of(const std::vector<Refusal>& reasons) {
  std::string text;
  for (const Refusal& reason : reasons) {
    const auto* row = std::find_if(std::begin(kRefusals), std::end(kRefusals),
                                   [&](const RefusalRow& one) { return one.kind == reason.kind; });
    check(row != std::end(kRefusals), "every kind of refusal has its words");
    text += (text.empty() ? "" : " ") + row->words(reason);
  }
  return text;
}

std::string_view rewrite_text(partition::PlannerPass planner_pass) {
  switch (planner_pass) {
    case partition::PlannerPass::channels_last: return "convolutions have their channels as the last axis";
    case partition::PlannerPass::merged_matmuls: return "products of one value with several others as one product";
    case partition::PlannerPass::recomputed_products: return "products are computed again where they are multiplied";
    case partition::PlannerPass::padded_rows: return "rows of products are padded to multiples of 16 bytes";
    case partition::PlannerPass::partial_statistics: return "norms and softmax combine partial statistics";
    default: return "";
  }
}

std::string op_text(const ir::Node& node) {
  if (const auto* custom = std::get_if<ir::CustomPayload>(&node.payload))
    return fmt::format("{} '{}'", node.op->name, custom->name);
  if (const auto* kernel = std::get_if<ir::KernelPayload>(&node.payload))
    return fmt::format("{} '{}'", node.op->name, kernel->name);
  return std::string(node.op->name);
}

std::optional<double> Measured::fused_us() const {
  if (steps_us.empty()) return std::nullopt;
  return std::accumulate(steps_us.begin(), steps_us.end(), 0.0);
}

namespace {

/// A table of what all kernels do, beside one kernel per op.
std::string totals_text(const Totals& fused, const Result<Totals>& unfused, const Measured& measured) {
  std::string all = fmt::format("\n  {:<22}{:>16}{:>16}\n", "", "fused", "one per op");
  const auto row = [&](std::string_view name, auto member) {
    all += fmt::format("  {:<22}{:>16}{:>16}\n", name, fused.*member,
                       unfused ? fmt::format("{}", (*unfused).*member) : "-");
  };
  row("kernels", &Totals::launches);
  row("bytes moved", &Totals::bytes);
  row("loads", &Totals::loads);
  row("stores", &Totals::stores);
  row("128-byte transactions", &Totals::transactions);
  row("arena bytes", &Totals::arena_bytes);
  all += fmt::format("  {:<22}{:>16.1f}{:>16}\n", "modelled us", fused.modelled_us,
                     unfused ? fmt::format("{:.1f}", unfused->modelled_us) : "-");
  if (measured.fused_us()) {
    all += fmt::format("  {:<22}{:>16.1f}{:>16}\n", "measured us", *measured.fused_us(),
                       measured.unfused_us ? fmt::format("{:.1f}", *measured.unfused_us) : "");
  }
  all += fmt::format("  {:<22}{:>11} of {:>4}  (in bounds; others are clamped)\n", "accesses proven",
                     fused.proof.proven, fused.proof.accesses);
  return unfused ? all : all + wrapped("  one per op: ", unfused.error().text());
}

std::string accesses_text(const Plan& plan, const segment::Segment& segment, const ScheduledKernel& scheduled) {
  std::string all;
  for (const Read& read : reads_of(scheduled)) {
    all += wrapped("  reads:  ", fmt::format("{} : {}, {}, {} bytes per load", label(plan, read.value),
                                             vkfuse::to_text(plan.graph.node(read.value).type), name_of(read.plan.kind),
                                             read.plan.vector_bytes));
  }
  for (ir::NodeId stored : segment.stores) {
    const schedule::AccessPlan& store = store_of(scheduled, stored);
    all += wrapped("  writes: ",
                   fmt::format("{} : {}, {}, {} bytes per store", label(plan, stored),
                               vkfuse::to_text(plan.graph.node(stored).type), name_of(store.kind), store.vector_bytes));
  }
  return all;
}

std::string launch_text(const schedule::Schedule& schedule) {
  const schedule::Description description = schedule::describe(schedule);
  std::string all =
      description.launch.empty()
          ? fmt::format("  launch: {} workgroups of {}, {} elements x {} per thread\n", workgroups_of(schedule),
                        schedule.workgroup, schedule.chunk_size, schedule.unroll_factor)
          : wrapped("  launch: ", description.launch);
  for (const std::string& line : description.more_launch) all += wrapped("          ", line);
  return all;
}

std::string segment_text(const Plan& plan, std::size_t step, const ScheduledKernel& scheduled,
                         const Measured& measured) {
  if (scheduled.alias) return fmt::format("\nsegment {}: no kernel\n", step) + alias_text(plan, scheduled);
  const segment::Segment& segment = plan.steps[step].segment;
  const schedule::Schedule& schedule = scheduled.schedule;
  std::string all =
      fmt::format("\nsegment {}: {} over {}\n", step, name_of(schedule.kind()), space_of(scheduled.loops));
  all += wrapped("  ops:    ", ops_of(plan, segment));
  if (step < measured.steps_us.size())
    all += fmt::format("  time:   {:.1f} us measured, {:.1f} us modelled\n", measured.steps_us[step],
                       schedule.cost.modelled_us);
  return all + accesses_text(plan, segment, scheduled) + launch_text(schedule);
}

/// Why a value has its bytes, and for how long: what it is, and the segments that write it and read it last. Values
/// whose bytes overlap are kept one after the other, or the later is written where the earlier is read for the last
/// time.
std::string memory_text(const Plan& plan, const Memory& memory) {
  if (memory.slots.empty() && memory.in_large.empty()) return {};
  std::string all = fmt::format("\nmemory: {} bytes for intermediate values, {} of them kept at a time\n",
                                memory.arena_bytes, memory.largest_live);
  const auto add = [&](const std::string& what, const std::string& place) {
    all += wrapped("  " + what + ": ", place);
  };
  for (const Slot& slot : memory.slots) {
    const std::string bytes = fmt::format("bytes {} to {}", slot.offset, slot.offset + slot.bytes - 1);
    if (slot.value == counters_id(plan, plan.steps.size())) {
      add("counts of workgroups", fmt::format("{}, 0 before each run and after it", bytes));
      continue;
    }
    if (slot.value >= plan.graph.size()) {
      add("partial results", fmt::format("{}, during segment {}", bytes, slot.value - plan.graph.size()));
      continue;
    }
    add(label(plan, slot.value),
        fmt::format("{}, written by segment {}, read until segment {}", bytes, slot.written, slot.read));
  }
  for (const auto& [value, buffer] : memory.in_large) {
    add(label(plan, value), fmt::format("a buffer of {} bytes beside the arena, as it is larger than the device "
                                        "allocates at once",
                                        memory.large[buffer].bytes));
  }
  return all;
}

/// A value that is computed again: bytes that are free between the last reader of one run and the next run.
struct ComputedAgain {
  std::size_t step = 0;               ///< that computes it again
  std::size_t before = 0, until = 0;  ///< the step that computed it before, and the last that read that
  std::vector<ir::NodeId> values = {};
  double microseconds = 0;
};

std::vector<ComputedAgain> computed_again(const Plan& plan, const ScheduledKernels& steps) {
  std::vector<ComputedAgain> all;
  if (!plan.budget) return all;
  const std::vector<std::size_t>& kernels = plan.budget->order.kernels;
  std::vector<std::optional<std::size_t>> ran(plan.budget->segments.size());
  for (std::size_t step = 0; step < kernels.size(); ++step) {
    if (const auto before = ran[kernels[step]]) {
      const std::vector<ir::NodeId>& stored = plan.steps[*before].segment.stores;
      std::size_t until = *before;
      for (std::size_t i = *before; i < step; ++i) {
        const std::vector<ir::NodeId>& reads = plan.steps[i].segment.reads;
        if (std::find_first_of(reads.begin(), reads.end(), stored.begin(), stored.end()) != reads.end()) until = i;
      }
      all.push_back({step, *before, until, plan.steps[step].segment.stores, steps[step].schedule.cost.modelled_us});
    }
    ran[kernels[step]] = step;
  }
  return all;
}

/// What is kept beside a step that has nothing to do with it: of the step with most such bytes, the largest first.
struct KeptMost {
  std::size_t step = 0;
  std::vector<Slot> slots = {};  ///< written before it and read after it
};

KeptMost kept_most(const Plan& plan, const Memory& memory, std::size_t steps) {
  std::vector<std::int64_t> live(steps, 0);
  for (const Slot& slot : memory.slots) {
    if (slot.value >= plan.graph.size()) continue;  // partial results of one step
    for (std::size_t step = slot.written + 1; step < slot.read && step < steps; ++step) live[step] += slot.bytes;
  }
  KeptMost kept{static_cast<std::size_t>(std::max_element(live.begin(), live.end()) - live.begin())};
  for (const Slot& slot : memory.slots) {
    if (slot.value < plan.graph.size() && slot.written < kept.step && slot.read > kept.step) kept.slots.push_back(slot);
  }
  std::stable_sort(kept.slots.begin(), kept.slots.end(),
                   [](const Slot& a, const Slot& b) { return a.bytes > b.bytes; });
  return kept;
}

/// What the budget has made of the plan, and why values are kept.
std::string budget_text(const Plan& plan, const ScheduledKernels& steps, const Memory& memory, const Totals& totals) {
  if (!plan.budget) return {};
  const ArenaBudget& budget = *plan.budget;
  std::string all = fmt::format("\nmemory budget: {} bytes for intermediate values\n", budget.bytes);
  if (!budget.graph) return all + "  The plan without a budget takes no more.\n";
  all += fmt::format("  {:<22}{:>16}{:>16}\n", "", "without", "with it");
  all += fmt::format("    {:<20}{:>16}{:>16}\n", "arena bytes", budget.arena_bytes_without, totals.arena_bytes);
  all += fmt::format("    {:<20}{:>16.1f}{:>16.1f}\n", "modelled us", budget.microseconds_without, totals.modelled_us);
  for (const ComputedAgain& one : computed_again(plan, steps)) {
    std::string values;
    for (const ir::NodeId id : one.values) values += (values.empty() ? "" : ", ") + label(plan, id);
    all += wrapped(fmt::format("  {} again: ", values),
                   fmt::format("segment {} computes what segment {} did, in {:.1f} us, so that it is not kept from "
                               "segment {} on.",
                               one.step, one.before, one.microseconds, one.until));
  }
  const KeptMost kept = kept_most(plan, memory, plan.steps.size());
  if (!kept.slots.empty()) all += fmt::format("  kept during segment {}, where most is:\n", kept.step);
  for (const Slot& slot : kept.slots) {
    all += wrapped(fmt::format("    {}: ", label(plan, slot.value)),
                   fmt::format("{} bytes, read until segment {}; to compute it again would take {:.1f} us and what "
                               "segment {} reads.",
                               slot.bytes, slot.read, steps[slot.written].schedule.cost.modelled_us, slot.written));
  }
  return all;
}

nlohmann::ordered_json budget_json(const Plan& plan, const ScheduledKernels& steps, const Memory& memory) {
  const ArenaBudget& budget = *plan.budget;
  nlohmann::ordered_json json{{"bytes", budget.bytes},
                              {"arena_bytes_without", budget.arena_bytes_without},
                              {"modelled_us_without", budget.microseconds_without}};
  json["again"] = nlohmann::ordered_json::array();
  for (const ComputedAgain& one : computed_again(plan, steps)) {
    nlohmann::ordered_json values = nlohmann::ordered_json::array();
    for (const ir::NodeId id : one.values) values.push_back(fmt::format("%{}", id));
    json["again"].push_back(
        {{"segment", one.step}, {"of", one.before}, {"values", values}, {"modelled_us", one.microseconds}});
  }
  json["kept"] = nlohmann::ordered_json::array();
  if (!budget.graph) return json;
  for (const Slot& slot : kept_most(plan, memory, plan.steps.size()).slots)
    json["kept"].push_back({{"value", fmt::format("%{}", slot.value)}, {"bytes", slot.bytes}});
  return json;
}

nlohmann::ordered_json memory_json(const Plan& plan, const Memory& memory) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Slot& slot : memory.slots) {
    nlohmann::ordered_json one{{"offset", slot.offset}, {"bytes", slot.bytes}};
    if (slot.value == counters_id(plan, plan.steps.size())) {
      one["counts_of_workgroups"] = true;
    } else if (slot.value >= plan.graph.size()) {
      one["scratch_of"] = slot.value - plan.graph.size();
    } else {
      one["value"] = fmt::format("%{}", slot.value);
      one["written_by"] = slot.written;
      one["read_until"] = slot.read;
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

Result<std::string> to_text(const Plan& plan, const Result<Plan>& unfused, const SymbolValues& symbols,
                            const Measured& measured) {
  VKF_TRY(schedules, schedule_all(plan, symbols));
  VKF_TRY(fused_totals, totals(plan, symbols));
  const Result<Totals> unfused_totals = unfused ? totals(*unfused, symbols) : Result<Totals>(unfused.error());
  std::string all = fmt::format("plan of graph \"{}\" for {}\n", plan.graph.name, plan.target.name);
  for (const auto& symbol : symbols) all += fmt::format("  with {} = {}\n", symbol.first, symbol.second);
  all += fmt::format("  modelled with {}\n", costs_text(plan.target));
  all += totals_text(fused_totals, unfused_totals, measured);
  if (!plan.rewrites.empty()) all += "\nrewrites of the graph\n";
  for (const GraphRewrite& rewrite : plan.rewrites) all += rewrite_block(rewrite);
  VKF_TRY(memory, plan_memory(plan, symbols, schedules));
  all += budget_text(plan, schedules, memory, fused_totals);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) all += segment_text(plan, i, schedules[i], measured);
  all += memory_text(plan, memory);
  if (!plan.fusion_boundaries.empty()) all += "\nboundaries\n";
  for (const partition::FusionBoundary& fusion_boundary : plan.fusion_boundaries) {
    all +=
        wrapped(fmt::format("  {} is stored: ", label(plan, fusion_boundary.value)), text_of(fusion_boundary.reasons));
  }
  return all;
}

namespace {

void add_totals(const Totals& fused, const Result<Totals>& unfused, nlohmann::ordered_json& json) {
  const auto both = [&](const std::string& name, auto member) {
    json[name + "_fused"] = fused.*member;
    if (unfused) json[name + "_unfused"] = (*unfused).*member;
  };
  both("bytes", &Totals::bytes);
  both("launches", &Totals::launches);
  both("loads", &Totals::loads);
  both("stores", &Totals::stores);
  both("transactions", &Totals::transactions);
  both("arena_bytes", &Totals::arena_bytes);
  both("modelled_us", &Totals::modelled_us);
  if (!unfused) json["unfused_error"] = unfused.error().text();
}

void add_figures(const KernelFigures& figures, nlohmann::ordered_json& segment) {
  if (figures.registers) segment["registers"] = *figures.registers;
  if (figures.spills) segment["spills"] = *figures.spills;
  if (figures.code_bytes) segment["code_bytes"] = *figures.code_bytes;
}

}  // namespace

Result<std::string> to_json(const Plan& plan, const Result<Plan>& unfused, const SymbolValues& symbols,
                            const std::vector<KernelFigures>& figures, const Measured& measured) {
  VKF_TRY(schedules, schedule_all(plan, symbols));
  VKF_TRY(fused_totals, totals(plan, symbols));
  const Result<Totals> unfused_totals = unfused ? totals(*unfused, symbols) : Result<Totals>(unfused.error());
  nlohmann::ordered_json json;
  json["graph"] = plan.graph.name;
  json["device"] = plan.target.name;
  json["symbols"] = nlohmann::ordered_json::object();
  for (const auto& symbol : symbols) json["symbols"][symbol.first] = symbol.second;
  json["kernels"] = fused_totals.launches;
  add_totals(fused_totals, unfused_totals, json);
  if (measured.fused_us()) json["measured_us_fused"] = *measured.fused_us();
  if (measured.unfused_us) json["measured_us_unfused"] = *measured.unfused_us;
  json["accesses"] = fused_totals.proof.accesses;
  json["accesses_proven"] = fused_totals.proof.proven;
  json["constants"] = costs_text(plan.target);
  json["rewrites"] = nlohmann::ordered_json::array();
  for (const GraphRewrite& rewrite : plan.rewrites) json["rewrites"].push_back(rewrite_json(rewrite));
  json["segments"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    nlohmann::ordered_json segment = segment_json(plan, plan.steps[i], schedules[i]);
    if (i < measured.steps_us.size() && !schedules[i].alias) segment["measured_us"] = measured.steps_us[i];
    if (i < figures.size()) add_figures(figures[i], segment);
    json["segments"].push_back(std::move(segment));
  }
  VKF_TRY(memory, plan_memory(plan, symbols, schedules));
  if (plan.budget) json["memory_budget"] = budget_json(plan, schedules, memory);
  json["memory"] = memory_json(plan, memory);
  json["fusion_boundaries"] = nlohmann::ordered_json::array();
  for (const partition::FusionBoundary& fusion_boundary : plan.fusion_boundaries) {
    json["fusion_boundaries"].push_back(
        {{"value", fmt::format("%{}", fusion_boundary.value)}, {"reason", text_of(fusion_boundary.reasons)}});
  }
  // Names come from users and files and may not be UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace vkfuse::plan
