#include "templates/reduction/registers.hpp"

#include <algorithm>

#include "device_model/device_model.hpp"
#include "schedule/budget.hpp"
#include "schedule/means.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;

namespace {

constexpr int kMostResidentWords = 40;  // per thread, of what is kept between passes

/// 32-bit words of registers that one reduction's partial result takes.
int accumulator_words(const ir::Graph& graph, const Loops& loops, segment::ValueId id) {
  const Value& reduction = loops.values[id];
  const ir::Node& node = graph.node(reduction.node);
  if (reduction.online == Value::Online::softmax) return 1;  // and the partner's own
  if (reduction.online == Value::Online::moments) return 4 - accumulator_words(graph, loops, reduction.partner);
  const int bytes = size_of(graph.node(node.operands[0]).type.dtype);
  if (sums_in_two_parts(graph, loops, id)) return 2 * std::max(1, bytes / 4);
  return std::max(1, bytes / 4) + (node.op->reduction.kind == ops::Reduction::Kind::arg ? 1 : 0);
}

int all_accumulator_words(const ir::Graph& graph, const Loops& loops) {
  int words = 0;
  for (segment::ValueId id = 0; id < loops.values.size(); ++id) {
    if (loops.values[id].kind == Value::Kind::reduction || loops.values[id].kind == Value::Kind::scan)
      words += accumulator_words(graph, loops, id);
  }
  return words;
}

/// Accumulators of one reduction in shared memory.
int shared_slots_of_reduction(const Schedule& schedule) {
  const ReductionParams& params = schedule.as<ReductionParams>();
  if (params.reduction_threads == 1) return 0;
  if (schedule.subgroup == 0) return schedule.workgroup * (params.vector_rows ? schedule.chunk_size : 1);
  return params.reduction_threads > schedule.subgroup ? schedule.workgroup / schedule.subgroup : 0;
}

}  // namespace

bool has_scans(const Loops& loops) {
  return std::any_of(loops.values.begin(), loops.values.end(),
                     [](const Value& value) { return value.kind == Value::Kind::scan; });
}

int passes_using(const Loops& loops, std::size_t value) {
  int used = 0;
  for (int pass = 0; pass < loops.passes; ++pass) used += segment::needed_in_pass(loops, pass)[value] ? 1 : 0;
  return used;
}

ResidentLoads resident_loads(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  ResidentLoads resident;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& value = loops.values[i];
    if (value.kind != Value::Kind::load || !loops.per_element(value) || passes_using(loops, i) < 2) continue;
    resident.repeats = true;
    if (schedule.loads[i].kind != AccessKind::vector && schedule.loads[i].kind != AccessKind::unaligned)
      continue;  // read again where it is needed
    resident.words +=
        registers_of_chunk(schedule.loads[i], size_of(graph.node(value.node).type.dtype), schedule.chunk_size);
  }
  return resident;
}

int words_of_iteration(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule) {
  int words = resident_loads(graph, loops, schedule).words;
  if (!has_few_registers(target) || words == 0) return words;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& value = loops.values[i];
    if (value.kind != Value::Kind::load || !loops.per_element(value) || passes_using(loops, i) > 1) continue;
    words +=
        schedule.loads[i].kind == AccessKind::vector
            ? registers_of_chunk(schedule.loads[i], size_of(graph.node(value.node).type.dtype), schedule.chunk_size)
            : 1;
  }
  return words + 1;
}

int estimated_reduction_registers(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  const ReductionParams& params = schedule.as<ReductionParams>();
  return 24 + all_accumulator_words(graph, loops) * (params.vector_rows ? schedule.chunk_size : 1) +
         static_cast<int>(params.persistent ? params.iterations * resident_loads(graph, loops, schedule).words : 8);
}

int requested_reduction_registers(const ir::Graph& graph, const Loops& loops, const Target& target,
                                  const Schedule& schedule) {
  const ReductionParams& params = schedule.as<ReductionParams>();
  const bool known = target.caps.registers.per_thread != kUnknownRegistersPerThread;
  const auto beside = params.persistent ? params.iterations * (words_of_iteration(graph, loops, target, schedule) -
                                                               resident_loads(graph, loops, schedule).words)
                                        : 0;
  return estimated_reduction_registers(graph, loops, schedule) + static_cast<int>(beside) +
         (known && params.vector_rows ? schedule.chunk_size : 0);
}

int registers_in_flight(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule,
                        int chunks) {
  constexpr int kEstimated = 8;  // words of loads
  constexpr int kOfFields = 16;  // by which bits of a word are told apart, and a vec4 of them
  int words = 0, fields = 0;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& value = loops.values[i];
    if (value.kind != Value::Kind::load || !loops.per_element(value)) continue;
    const AccessPlan& plan = schedule.loads[i];
    const bool vector = plan.kind == AccessKind::vector || plan.kind == AccessKind::unaligned;
    const int bytes = size_of(graph.node(value.node).type.dtype);
    words += vector ? registers_of_chunk(plan, bytes, schedule.chunk_size) : 1;
    if (plan.repeat > 1) fields = kOfFields;
  }
  return requested_reduction_registers(graph, loops, target, schedule) + std::max(0, words * chunks - kEstimated) +
         fields;
}

int most_resident_words(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule) {
  if (target.caps.registers.per_thread == kUnknownRegistersPerThread) return kMostResidentWords;
  Schedule empty = schedule;
  empty.as<ReductionParams>().iterations = 0;
  empty.as<ReductionParams>().persistent = true;
  return std::min(kMostResidentWords,
                  thread_register_limit(target) - requested_reduction_registers(graph, loops, target, empty));
}

int ReductionParams::scan_slots(int subgroup) const {
  const int workgroup = parallel_threads * reduction_threads;
  if (reduction_threads == 1) return 0;
  if (subgroup == 0) return 2 * workgroup;
  return reduction_threads > subgroup ? 2 * (workgroup / subgroup) : 0;
}

void choose_reduction_memory(const ir::Graph& graph, const Loops& loops, Schedule& schedule) {
  schedule.shared_bytes = 0;
  schedule.scratch_bytes = 0;
  for (segment::ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    const bool scan = value.kind == Value::Kind::scan;
    if (value.kind != Value::Kind::reduction && !scan) continue;
    const int words = accumulator_words(graph, loops, id);
    if (scan)
      schedule.shared_bytes += std::int64_t{schedule.as<ReductionParams>().scan_slots(schedule.subgroup)} * words * 4;
    if (segment::reduces_first(loops, value))
      schedule.shared_bytes += std::int64_t{shared_slots_of_reduction(schedule)} * words * 4;
    if (schedule.splits > 1) schedule.scratch_bytes += loops.parallel_count() * schedule.splits * words * 4;
  }
}

}  // namespace vkfuse::schedule
