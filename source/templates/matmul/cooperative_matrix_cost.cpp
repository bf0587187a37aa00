// What a product of cooperative matrices takes of a GPU: a workgroup's step along the sum is bound by what it executes,
// or by what it waits for while the others beside it on the compute unit execute theirs.
#include <algorithm>
#include <cmath>

#include "schedule/traffic.hpp"
#include "templates/matmul/cost.hpp"
#include "templates/matmul/tiles.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

/// What one step along the sum takes of a compute unit and of a thread's registers.
struct Step {
  double executed = 0;                  ///< cycles that nobody else has
  double waited = 0;                    ///< cycles more until the next one begins
  double in_flight = 0, of_others = 0;  ///< cycles from a load to its use in the next step: of its own, and for each
                                        ///< workgroup of the compute unit
  double registers = 0;
};

/// What a thread loads for one chunk of an operand.
struct ChunkLoads {
  int words = 0;       ///< registers of what is loaded as vectors
  int kept_words = 0;  ///< and of what is loaded before the first step
  int bytes = 0;       ///< of an element, of all loads that differ from element to element
  int loads = 0;
  int step = 1;  ///< between neighbours in memory
  bool single = false, unaligned = false, computed = false;
};

/// Adds up what a step executes and waits for.
class StepModel {
 public:
  StepModel(const ir::Graph& graph, const Loops& loops, const DeviceModel& model, const Schedule& schedule)
      : graph_(graph),
        loops_(loops),
        unit_(model.units),
        model_(model.matrices),
        schedule_(schedule),
        tile_(schedule.as<MatmulParams>()),
        bytes_(size_of(tile_.mma()->a)) {}

  Step run() {
    for (const TileOperand& tile_operand : tile_.tile_operands) add_operand(tile_operand);
    finish();
    return step_;
  }

 private:
  [[nodiscard]] ChunkLoads loads_of(const TileOperand& tile_operand, const std::vector<ValueId>& backward_slice) const {
    ChunkLoads chunk;
    const std::vector<ValueId> kept = kept_along_sum(graph_, loops_, schedule_, tile_operand);
    const segment::AxisSet of_own = set_of(tile_operand.second ? tile_.n : tile_.m), of_sum = set_of(tile_.k);
    for (ValueId id : backward_slice) {
      chunk.computed = chunk.computed || loops_.values[id].kind == Value::Kind::compute;
      if (loops_.values[id].kind != Value::Kind::load) continue;
      const AccessPlan& plan = schedule_.loads[id];
      const int size = size_of(graph_.node(loops_.values[id].node).type.dtype);
      if (std::find(kept.begin(), kept.end(), id) != kept.end()) {
        chunk.kept_words += registers_of_chunk(plan, size, tile_operand.elements);
        continue;
      }
      chunk.loads += static_cast<int>(instructions(plan, size, tile_operand.elements));
      if ((loops_.values[id].axes & of_own) != 0 && (loops_.values[id].axes & of_sum) != 0) chunk.bytes += size;
      chunk.step = std::max(chunk.step, plan.step);
      chunk.single = chunk.single || plan.kind == AccessKind::element;
      chunk.unaligned = chunk.unaligned || plan.kind == AccessKind::unaligned;
      if (plan.kind == AccessKind::vector || plan.kind == AccessKind::unaligned)
        chunk.words += registers_of_chunk(plan, size, tile_operand.elements);
    }
    return chunk;
  }

  /// Instructions of an element, beside its ops: elements that are moved as words are taken apart and put together.
  [[nodiscard]] double instructions_of_element(const ChunkLoads& chunk, bool flattened) const {
    const MatrixLoads& fit = model_.loads;
    double of_element = chunk.single ? fit.single_element : chunk.unaligned ? fit.unaligned_element : 0.0;
    if (chunk.unaligned && flattened) of_element += fit.flattened_element;
    if (chunk.computed) of_element += fit.computed_element;
    return of_element;
  }

  void add_operand(const TileOperand& tile_operand) {
    const int extent = tile_operand.second ? tile_.shape.n : tile_.shape.m;
    const auto elements = static_cast<double>(std::int64_t{extent} * tile_.shape.k);
    const auto chunks = static_cast<std::int64_t>(elements) / tile_operand.elements;
    const double subgroups = static_cast<double>(chunks) / tile_.shape.threads;
    const std::vector<ValueId> backward_slice = backward_slice_of(loops_, tile_operand.value);
    const ChunkLoads chunk = loads_of(tile_operand, backward_slice);
    const double of_element = instructions_of_element(chunk, tile_operand.flattened);
    issued_ += subgroups * (model_.loads.chunk + model_.loads.load * chunk.loads + of_element * tile_operand.elements) /
               unit_.subgroup_instructions;
    issued_ += elements * cost_of_operand(graph_, loops_, schedule_, tile_operand.value) / unit_.multiply_adds;
    add_memory(tile_operand, chunk, extent, subgroups);
    shared_ += model_.step.tile_stores * elements * bytes_ / unit_.shared_memory_bytes;
    fragments_ += model_.step.fragments * tile_.shape.owners() *
                  (tile_operand.second ? tile_.shape.thread_n : tile_.shape.thread_m) * tile_.shape.k * bytes_ /
                  unit_.shared_memory_bytes;
    step_.registers += model_.registers.buffer + chunk.kept_words;
    add_latency(tile_operand, chunk, static_cast<int>(ceil_div(chunks, schedule_.workgroup)));
  }

  /// Cache lines that are touched, and what comes from the cache that all compute units share.
  void add_memory(const TileOperand& tile_operand, const ChunkLoads& chunk, int extent, double subgroups) {
    const MatrixStep& fit = model_.step;
    const int threads = tile_.shape.threads;
    const auto elements = static_cast<double>(std::int64_t{extent} * tile_.shape.k);
    const double chunk_bytes = tile_operand.elements * bytes_ * chunk.step;
    const double span = std::clamp(chunk_bytes * threads / unit_.cache_line_bytes, 1.0, static_cast<double>(threads));
    lines_ += fit.near_words * subgroups * (chunk.single ? tile_operand.elements : chunk.loads) * span;
    // Of a line that is half used the other half comes, too.
    const double run =
        std::min<double>(unit_.cache_line_bytes, (tile_operand.along_k ? tile_.shape.k : extent) * bytes_ * chunk.step);
    const double touched = subgroups * chunk_bytes * threads / run;
    lines_ += fit.near_lines * touched;
    const double tiles = std::max(1.0, static_cast<double>(chunk.bytes) / bytes_);  // as large as the operand's
    far_ += tiles *
            (chunk.single || chunk.unaligned ? fit.far_unaligned * elements * bytes_
                                             : fit.far * touched * unit_.cache_line_bytes) /
            unit_.last_level_cache_bytes;
  }

  void add_latency(const TileOperand& tile_operand, const ChunkLoads& chunk, int iterations) {
    if (!chunk.single && is_double_buffered(chunk.words, iterations)) {
      step_.registers += model_.registers.prefetch * chunk.words * iterations;
      step_.in_flight = model_.step.prefetch;
      return;
    }
    const int together = loads_in_flight(iterations);
    latencies_ += static_cast<double>(ceil_div(iterations, together)) *
                  (chunk.unaligned ? model_.step.latency_of_unaligned : model_.step.latency);
    loading_ = std::max(loading_, static_cast<double>(together) * (chunk.single ? tile_operand.elements : chunk.words));
  }

  void finish() {
    const MatrixStep& fit = model_.step;
    const TileShape& shape = tile_.shape;
    const double sums = static_cast<double>(tile_.sums.size());
    const double products = sums * shape.m * shape.n * shape.k / unit_.matrix_multiply_adds * bytes_ / 2;
    const int per_register = tile_.mma()->c == DType::f16 ? 2 : 1;
    const double power = fit.overlap;
    step_.executed = std::pow(std::pow(fit.products * products + fragments_, power) +
                                  std::pow(shared_ + lines_, power) + std::pow(issued_, power) + std::pow(far_, power),
                              1 / power);
    if (step_.in_flight > 0) step_.of_others = fit.prefetch_of_others * far_;
    step_.waited = fit.barriers + latencies_ + fit.chain * products * 4 / std::max(4, shape.owners());
    step_.registers += model_.registers.own + model_.registers.loading * loading_ +
                       sums * shape.thread_m * shape.thread_n / shape.threads / per_register;
    step_.registers +=
        model_.registers.fragment * tile_.mma()->k * (shape.thread_m + tile_.mma()->n) * bytes_ / 4 / shape.threads;
  }

  const ir::Graph& graph_;
  const Loops& loops_;
  const ComputeUnits& unit_;
  const CooperativeMatrices& model_;
  const Schedule& schedule_;
  const MatmulParams& tile_;
  int bytes_;  ///< of an operand's element
  Step step_;
  double shared_ = 0, fragments_ = 0, lines_ = 0, far_ = 0, issued_ = 0;  ///< cycles of what a step executes
  double latencies_ = 0;                                                  ///< cycles
  double loading_ = 0;  ///< registers of what is loaded and not in flight from step to step
};

/// Workgroups that a compute unit has at the same time.
double resident_workgroups(const ComputeUnits& unit, const Schedule& schedule, int own_registers) {
  const double threads = schedule.workgroup;
  const double registers = std::min<double>(unit.registers_per_thread, own_registers);
  const double fit =
      std::min({std::floor(unit.registers / (registers * threads)), std::floor(unit.threads / threads),
                std::floor(static_cast<double>(unit.shared_memory) /
                           (static_cast<double>(schedule.shared_bytes) + unit.workgroup_shared_memory))});
  return std::max(1.0, fit);
}

/// What a workgroup's results take of a compute unit, in cycles.
struct ResultsTime {
  double instructions = 0, moved = 0, waited = 0;
};

ResultsTime time_of_results(const ir::Graph& graph, const Loops& loops, const DeviceModel& model,
                            const MatmulParams& tile, double hidden) {
  const ComputeUnits& unit = model.units;
  const MatrixResults& fit = model.matrices.results;
  const TileShape& shape = tile.shape;
  const std::vector<ValueId> results = backward_slice_of_results(loops);
  const std::vector<ValueId> loads = loads_of_results(loops, tile, results);
  const double elements = static_cast<double>(shape.m) * shape.n;
  ResultsTime time;
  time.instructions = fit.instructions * elements / shape.threads / unit.subgroup_instructions +
                      elements * cost_of(graph, loops, results) * hidden / unit.multiply_adds;
  // What results are computed from comes more slowly to subgroups that own much, for reasons that were not found: to 64
  // x 64 of a convolution of one point with a residual in 233 us, to 64 x 32 in 185 to 241, to 32 x 32 in 153.
  constexpr int kMany = 32;  // results of a thread
  const bool many = !loads.empty() && shape.thread_m * shape.thread_n > kMany * shape.threads;
  time.moved = fit.bytes * (many ? fit.of_many_bytes : 1.0) * elements * bytes_of_result(graph, loops, loads) /
               unit.memory_bytes;
  const double subtiles = tile.cooperative()->subtile == 0 ? 1
                                                           : shape.thread_m / static_cast<double>(tile.mma()->m) *
                                                                 shape.thread_n / tile.cooperative()->subtile;
  time.waited = subtiles * (fit.round + (loads.empty() ? 0.0 : fit.round_of_loads));
  return time;
}

}  // namespace

std::vector<ValueId> loads_of_results(const Loops& loops, const MatmulParams& tile, std::vector<ValueId> results) {
  const segment::AxisSet of_m = set_of(tile.m), of_n = set_of(tile.n);
  std::erase_if(results, [&](ValueId id) {
    const Value& value = loops.values[id];
    return value.kind != Value::Kind::load || (value.axes & of_m) == 0 || (value.axes & of_n) == 0;
  });
  return results;
}

double bytes_of_result(const ir::Graph& graph, const Loops& loops, std::span<const ValueId> loads) {
  double bytes = 0;
  for (const segment::Store& store : loops.stores) bytes += size_of(graph.node(store.node).type.dtype);
  for (ValueId id : loads) bytes += size_of(graph.node(loops.values[id].node).type.dtype);
  return bytes;
}

CooperativeMatrixCost cooperative_matrix_cost(const ir::Graph& graph, const Loops& loops, const DeviceModel& model,
                                              const Schedule& schedule, double hidden) {
  const ComputeUnits& unit = model.units;
  const MatrixResults& fit = model.matrices.results;
  const MatmulParams& tile = schedule.as<MatmulParams>();
  const Step step = StepModel(graph, loops, model, schedule).run();
  CooperativeMatrixCost cost;
  cost.registers = static_cast<int>(std::ceil(step.registers / 8)) * 8;
  const double resident = resident_workgroups(unit, schedule, cost.registers);
  const auto steps = static_cast<double>(ceil_div(ceil_div(count_along(loops, tile.k), tile.shape.k), schedule.splits));
  const ResultsTime results = time_of_results(graph, loops, model, tile, hidden);
  const auto wave = [&](double groups) {  // on one compute unit at the same time
    const double step_cycles =
        std::max({groups * step.executed, step.waited + step.executed, step.in_flight + groups * step.of_others});
    return steps * step_cycles +
           std::max(groups * (results.instructions + results.moved), results.waited + results.instructions) + fit.start;
  };
  const double all = static_cast<double>(schedule.launch.workgroups * schedule.splits);
  const double full = std::floor(all / (unit.count * resident));
  const double rest = all - full * unit.count * resident;
  cost.cycles = full * wave(resident) + (rest > 0 ? fit.last_wave * wave(std::ceil(rest / unit.count)) : 0);
  return cost;
}

}  // namespace vkfuse::schedule
