// What a product of cooperative matrices takes of a GPU: a workgroup's step along the sum is bound by what it executes,
// or by what it waits for while the others beside it on the compute unit execute theirs.
#include <algorithm>
#include <cmath>

#include "schedule/traffic.hpp"
#include "templates/matmul/cost.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

/// What one step along the sum takes of a compute unit and of a thread's registers.
struct Step {
  double executed = 0;                   ///< cycles that nobody else has
  double waited = 0;                     ///< cycles more until the next one begins
  double on_its_way = 0, of_others = 0;  ///< cycles from a load to its use in the next step: of its own, and for each
                                         ///< workgroup of the compute unit
  double registers = 0;
};

Step step_of(const ir::Graph& graph, const Loops& loops, const DeviceModel& model, const Schedule& schedule) {
  const ComputeUnits& unit = model.units;
  const MatrixStep& fit = model.matrices.step;
  const MatrixLoads& fit_loads = model.matrices.loads;
  const MatrixRegisters& fit_registers = model.matrices.registers;
  const MatmulParams& tile = schedule.as<MatmulParams>();
  const TileShape& shape = tile.shape;
  const int bytes = size_of(tile.mma()->a);
  Step step;
  double shared = 0, fragments = 0, lines = 0, far = 0, issued = 0, latencies = 0, loading = 0;
  for (const TileOperand& tile_operand : tile.tile_operands) {
    const int extent = tile_operand.second ? shape.n : shape.m;
    const auto elements = static_cast<double>(std::int64_t{extent} * shape.k);
    const auto units = static_cast<std::int64_t>(elements) / tile_operand.elements;
    const auto iterations = static_cast<int>(ceil_div(units, schedule.workgroup));
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, tile_operand.value);
    int words = 0, loads = 0, step_between = 1;
    bool single = false, unaligned = false, computed = false;
    for (ValueId id : backward_slice) {
      computed = computed || loops.values[id].kind == Value::Kind::compute;
      if (loops.values[id].kind != Value::Kind::load) continue;
      const AccessPlan& plan = schedule.loads[id];
      const int size = size_of(graph.node(loops.values[id].node).type.dtype);
      loads += static_cast<int>(instructions(plan, size, tile_operand.elements));
      step_between = std::max(step_between, plan.step);
      single = single || plan.kind == AccessKind::element;
      unaligned = unaligned || plan.kind == AccessKind::unaligned;
      if (plan.kind == AccessKind::vector || plan.kind == AccessKind::unaligned)
        words += registers_of_chunk(plan, size, tile_operand.elements);
    }
    const double subgroups = static_cast<double>(units) / shape.threads;
    const double chunk_bytes = tile_operand.elements * bytes * step_between;
    double of_element = single ? fit_loads.single_element : unaligned ? fit_loads.unaligned_element : 0;
    if (unaligned && tile_operand.flattened) of_element += fit_loads.flattened_element;
    if (computed)
      of_element += fit_loads.computed_element;  // beside its ops: moved words are taken apart and put together
    issued += subgroups * (fit_loads.chunk + fit_loads.load * loads + of_element * tile_operand.elements) /
              unit.subgroup_instructions;
    issued += elements * cost_of(graph, loops, backward_slice) / unit.multiply_adds;
    const double span =
        std::clamp(chunk_bytes * shape.threads / unit.cache_line_bytes, 1.0, static_cast<double>(shape.threads));
    lines += fit.near_words * subgroups * (single ? tile_operand.elements : loads) * span;
    // Of a line that is half used the other half comes, too.
    const double run =
        std::min<double>(unit.cache_line_bytes, (tile_operand.along_k ? shape.k : extent) * bytes * step_between);
    const double touched = subgroups * chunk_bytes * shape.threads / run;
    lines += fit.near_lines * touched;
    far += single || unaligned ? fit.far_unaligned * elements * bytes / unit.last_level_cache_bytes
                               : fit.far * touched * unit.cache_line_bytes / unit.last_level_cache_bytes;
    shared += fit.tile_stores * elements * bytes / unit.shared_memory_bytes;
    fragments += fit.fragments * shape.owners() * (tile_operand.second ? shape.thread_n : shape.thread_m) * shape.k *
                 bytes / unit.shared_memory_bytes;
    step.registers += fit_registers.buffer;
    if (!single && is_double_buffered(words, iterations)) {
      step.registers += fit_registers.prefetch * words * iterations;
      step.on_its_way = fit.prefetch;
      continue;
    }
    const int together = loads_in_flight(iterations);
    latencies +=
        static_cast<double>(ceil_div(iterations, together)) * (unaligned ? fit.latency_of_unaligned : fit.latency);
    loading = std::max(loading, static_cast<double>(together) * (single ? tile_operand.elements : words));
  }
  const double sums = static_cast<double>(tile.sums.size());
  const double products = sums * shape.m * shape.n * shape.k / unit.matrix_multiply_adds * bytes / 2;
  const int per_register = tile.mma()->c == DType::f16 ? 2 : 1;
  const double power = fit.overlap;
  step.executed = std::pow(std::pow(fit.products * products + fragments, power) + std::pow(shared + lines, power) +
                               std::pow(issued, power) + std::pow(far, power),
                           1 / power);
  if (step.on_its_way > 0) step.of_others = fit.prefetch_of_others * far;
  step.waited = fit.barriers + latencies + fit.chain * products * 4 / std::max(4, shape.owners());
  step.registers += fit_registers.own + fit_registers.loading * loading +
                    sums * shape.thread_m * shape.thread_n / shape.threads / per_register;
  step.registers +=
      fit_registers.fragment * tile.mma()->k * (shape.thread_m + tile.mma()->n) * bytes / 4 / shape.threads;
  return step;
}

}  // namespace

CooperativeMatrixCost cooperative_matrix_cost(const ir::Graph& graph, const Loops& loops, const DeviceModel& model,
                                              const Schedule& schedule, double hidden) {
  const ComputeUnits& unit = model.units;
  const MatrixResults& results_fit = model.matrices.results;
  const MatmulParams& tile = schedule.as<MatmulParams>();
  const TileShape& shape = tile.shape;
  const Step step = step_of(graph, loops, model, schedule);
  const double threads = schedule.workgroup;
  CooperativeMatrixCost cost;
  cost.registers = static_cast<int>(std::ceil(step.registers / 8)) * 8;
  const double registers =
      std::min(unit.registers_per_thread,
               tile.workgroup_scope() ? schedule.cost.registers
                                      : cost.registers);  // of workgroup-scope tiles the device knows more than we do
  const double fit = std::min({std::floor(unit.registers / (registers * threads)), std::floor(unit.threads / threads),
                               std::floor(static_cast<double>(unit.shared_memory) /
                                          static_cast<double>(schedule.shared_bytes + unit.workgroup_shared_memory))});
  const double resident = std::max(1.0, fit);
  const double steps = static_cast<double>(ceil_div(ceil_div(count_along(loops, tile.k), shape.k), schedule.splits));

  const std::vector<ValueId> results = backward_slice_of_results(loops);
  // What all rows or all columns share is near.
  segment::AxisSet of_m = 0, of_n = 0;
  for (int axis : tile.m) of_m |= segment::AxisSet{1} << axis;
  for (int axis : tile.n) of_n |= segment::AxisSet{1} << axis;
  const auto is_loaded = [&](ValueId id) {
    return loops.values[id].kind == Value::Kind::load && (loops.values[id].axes & of_m) != 0 &&
           (loops.values[id].axes & of_n) != 0;
  };
  const auto loads = static_cast<double>(std::count_if(results.begin(), results.end(), is_loaded));
  const double elements = static_cast<double>(shape.m) * shape.n;
  double stored = 0;
  for (const segment::Store& store : loops.stores) stored += size_of(graph.node(store.node).type.dtype);
  for (ValueId id : results) stored += is_loaded(id) ? size_of(graph.node(loops.values[id].node).type.dtype) : 0;
  const double instructions = results_fit.instructions * elements / shape.threads / unit.subgroup_instructions +
                              elements * cost_of(graph, loops, results) * hidden / unit.multiply_adds;
  // What results are computed from comes more slowly to subgroups that own much, for reasons that were not found: to 64
  // x 64 of a convolution of one point with a residual in 233 us, to 64 x 32 in 185 to 241, to 32 x 32 in 153.
  constexpr int kMany = 32;  // results of a thread
  const bool many = loads > 0 && shape.thread_m * shape.thread_n > kMany * shape.threads;
  const double moved =
      results_fit.bytes * (many ? results_fit.of_many_bytes : 1) * elements * stored / unit.memory_bytes;
  const double rounds = tile.cooperative()->subtile == 0 ? 1
                                                         : shape.thread_m / static_cast<double>(tile.mma()->m) *
                                                               shape.thread_n / tile.cooperative()->subtile;
  const double waited = rounds * (results_fit.round + (loads > 0 ? results_fit.round_of_loads : 0));

  const auto wave = [&](double groups) {  // on one compute unit at the same time
    const double step_cycles =
        std::max({groups * step.executed, step.waited + step.executed, step.on_its_way + groups * step.of_others});
    return steps * step_cycles + std::max(groups * (instructions + moved), waited + instructions) + results_fit.start;
  };
  const double all = static_cast<double>(schedule.launch.workgroups * schedule.splits);
  const double full = std::floor(all / (unit.count * resident));
  const double rest = all - full * unit.count * resident;
  cost.cycles = full * wave(resident) + (rest > 0 ? results_fit.last_wave * wave(std::ceil(rest / unit.count)) : 0);
  return cost;
}

}  // namespace vkfuse::schedule
