// What a tile of a matrix kernel takes: shared memory, registers, and time.
#include "templates/matmul/cost.hpp"
#include "schedule/traffic.hpp"

#include <algorithm>

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

constexpr int kPadding = 16;  ///< bytes between rows of a tile in shared memory

/// Whether several sums lead to results of their own, each to others.
bool has_projections(const Loops& loops, const MatmulParams& tile) {
  if (tile.sums.size() < 2 || loops.stores.size() < tile.sums.size()) return false;
  return std::none_of(loops.stores.begin(), loops.stores.end(), [&](const segment::Store& store) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, store.value);
    const auto is_in = [&](const MatmulParams::Sum& sum) {
      return std::find(backward_slice.begin(), backward_slice.end(), sum.reduction) != backward_slice.end();
    };
    return std::count_if(tile.sums.begin(), tile.sums.end(), is_in) > 1;
  });
}

/// Partial results of a row fold: one for each chunk of a row that the threads read at a time.
std::int64_t row_reduction_slots(const MatmulParams& tile, const MatmulParams::RowReduction& reduction) {
  return std::int64_t{tile.shape.m} * tile.shape.k /
         tile.tile_operands[static_cast<std::size_t>(reduction.tile_operand)].elements;
}

/// Live 32-bit values of a thread while it multiplies: accumulators, a piece of each operand, what is in flight from
/// memory, and addresses.
int estimated_registers(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  constexpr int kOwn = 14, kOfBuffer = 7;
  const MatmulParams& tile = schedule.as<MatmulParams>();
  const TileShape& shape = tile.shape;
  const int per_register = tile.mma() && tile.mma()->c == DType::f16 ? 2 : 1;
  int registers = kOwn +
                  shape.thread_m * shape.thread_n / shape.threads / per_register * static_cast<int>(tile.sums.size()) +
                  5 * static_cast<int>(tile.row_reductions.size());
  if (tile.mma())
    registers += static_cast<int>(tile.mma()->k) * (shape.thread_m + static_cast<int>(tile.mma()->n)) *
                 size_of(tile.mma()->a) / 4 / shape.threads;
  if (tile.workgroup_scope()) return registers;  // operands are in flight as the device has it
  for (const TileOperand& tile_operand : tile.tile_operands) {
    if (!tile.mma()) registers += tile_operand.second ? shape.thread_n : shape.thread_m;
    const int extent = tile_operand.second ? shape.n : shape.m;
    const auto chunks =
        static_cast<int>(ceil_div(std::int64_t{extent} * shape.k / tile_operand.elements, shape.workgroup()));
    for (ValueId id : backward_slice_of(loops, tile_operand.value)) {
      if (loops.values[id].kind != Value::Kind::load) continue;
      const bool vector =
          schedule.loads[id].kind == AccessKind::vector || schedule.loads[id].kind == AccessKind::unaligned;
      registers +=
          kOfBuffer + (vector ? chunks * std::max(1, tile_operand.elements *
                                                         size_of(graph.node(loops.values[id].node).type.dtype) / 4)
                              : 0);
    }
  }
  return registers;
}

}  // namespace

std::int64_t matmul_shared_bytes(const MatmulParams& tile) {
  if (tile.workgroup_scope()) return 0;  // the device's own
  std::int64_t bytes = 0;
  for (const MatmulParams::RowReduction& reduction : tile.row_reductions)
    bytes += 4 * (reduction.parts * row_reduction_slots(tile, reduction) + tile.shape.m);
  bytes += std::int64_t{4} * static_cast<std::int64_t>(tile.row_values.size()) * tile.shape.m;
  // Of tails a four each, unless subgroups fold them among themselves.
  if (!tile.mma())
    bytes += std::int64_t{4} * static_cast<std::int64_t>(tile.epilogues.size()) * tile.shape.m * (tile.shape.n / 4);
  if (tile.mma()) {
    for (const TileOperand& tile_operand : tile.tile_operands) {
      const std::int64_t extent = tile_operand.second ? tile.shape.n : tile.shape.m;
      const bool along_k = tile_operand.along_k || size_of(tile.mma()->a) == 1;  // bytes are turned
      const std::int64_t rows = along_k ? extent : tile.shape.k;
      bytes += rows * ((along_k ? tile.shape.k : extent) * size_of(tile.mma()->a) + kBytesBetweenRows);
    }
    return bytes + std::int64_t{4} * static_cast<std::int64_t>(tile.sums.size()) * tile.shape.owners() * tile.mma()->m *
                       (tile.cooperative()->subtile + 4);
  }
  const int deep = tile.integer_dot() ? tile.shape.k / 4 : tile.shape.k;
  for (const TileOperand& tile_operand : tile.tile_operands)
    bytes += std::int64_t{4 * (tile_operand.second ? tile.shape.n : tile.shape.m) + kPadding} * deep;
  return bytes;
}

void model_matmul(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule) {
  const MatmulParams& tile = schedule.as<MatmulParams>();
  const TileShape& shape = tile.shape;
  const CostModel costs = costs_of(target);
  const DeviceModel& model = device_model(target);
  const MatrixKernels& kernels = model.matrices.kernels;
  const bool cpu = target.type == DeviceType::cpu;
  count_bytes(graph, loops, schedule);
  const auto batch = static_cast<double>(count_along(loops, tile.batch));
  const auto k = static_cast<double>(count_along(loops, tile.k));
  const double m = static_cast<double>(tile.tiles_m) * shape.m;  // with what stands out at the ends
  const double n = static_cast<double>(tile.tiles_n) * shape.n;
  const auto sums = static_cast<double>(tile.sums.size());
  double traffic = static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written);
  const double products = batch * m * n * k * sums;
  double compute = products / (tile.integer_dot() ? 4 : 1);  // products in the time of one
  double accesses = 0;
  for (const TileOperand& tile_operand : tile.tile_operands) {
    const double elements =
        batch * k *
        (tile_operand.second ? n * static_cast<double>(tile.tiles_m) : m * static_cast<double>(tile.tiles_n));
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, tile_operand.value);
    compute += elements * cost_of(graph, loops, backward_slice);
    for (ValueId id : backward_slice) {
      const Value& load = loops.values[id];
      if (load.kind != Value::Kind::load) continue;
      const int bytes = size_of(graph.node(load.node).type.dtype);
      const auto instructions_executed =
          elements / tile_operand.elements *
          static_cast<double>(instructions(schedule.loads[id], bytes, tile_operand.elements));
      schedule.cost.loads_executed += static_cast<std::int64_t>(instructions_executed);
      schedule.cost.transactions += static_cast<std::int64_t>(elements * bytes / 128);
      traffic += elements * bytes / model.caches.bandwidth;
    }
    accesses += elements / tile_operand.elements;  // into shared memory, and out of it
    const double read_again =
        batch * m * n * k / (tile_operand.second ? shape.thread_m : shape.thread_n) / (tile.integer_dot() ? 4 : 1);
    accesses += read_again / 4 / (cpu ? 1 : 4);
  }
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    const int bytes = size_of(graph.node(loops.stores[i].node).type.dtype);
    if (tile.block > 0 && (loops.stores[i].axes & loops.values[tile.epilogues.front()].over) == 0) {  // one of a block
      schedule.cost.stores_executed += static_cast<std::int64_t>(batch * m * n / tile.block);
      schedule.cost.transactions += static_cast<std::int64_t>(batch * m * n / tile.block * bytes / 128);
      continue;
    }
    const int elements = tile.workgroup_scope() ? 16 / bytes : tile.elements;  // of a chunk
    schedule.cost.stores_executed +=
        static_cast<std::int64_t>(batch * m * n / elements) * instructions(schedule.stores[i], bytes, elements);
    schedule.cost.transactions += static_cast<std::int64_t>(batch * m * n * bytes / 128);
  }
  const std::vector<ValueId> results = backward_slice_of_results(loops);
  for (ValueId id : results) {
    if (loops.values[id].kind != Value::Kind::load) continue;
    const int bytes = size_of(graph.node(loops.values[id].node).type.dtype);
    const double hidden =
        tile.workgroup_scope() ? kernels.visible_epilogue : 1;  // one by one, but near and beside products
    schedule.cost.loads_executed += static_cast<std::int64_t>(batch * m * n / tile.elements * hidden) *
                                    instructions(schedule.loads[id], bytes, tile.elements);
  }
  schedule.cost.registers = estimated_registers(graph, loops, schedule);
  // Parts of sums are written and read once, from near caches where these hold them.
  // Joining them costs what four launches do: at 1024 x 1024 x 1024 on an H200, parts took 22 us and whole sums 18.
  const auto partial_bytes = static_cast<double>(schedule.scratch_bytes);
  const double partial_traffic = 2 * partial_bytes / (partial_bytes < model.caches.bytes ? model.caches.bandwidth : 1);
  const int launches = schedule.splits > 1 ? 5 : 1;
  if (tile.mma() && !cpu) {
    // Folds of results wait for each other, and only long sums keep the units busy meanwhile.
    const double hidden = tile.epilogues.empty()
                              ? kernels.visible_epilogue
                              : std::max(kernels.visible_epilogue, 1 - k / kernels.sum_that_hides_reductions);
    const CooperativeMatrixCost cost = cooperative_matrix_cost(graph, loops, model, schedule, hidden);
    if (!tile.workgroup_scope()) schedule.cost.registers = cost.registers;
    const double cycles = cost.cycles * (has_projections(loops, tile) ? kernels.projections_slowdown : 1) /
                          (tile.workgroup_scope() ? kernels.workgroup_scope_gain : 1);
    const auto moved = static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written);
    schedule.cost.modelled_us =
        modelled_us(costs, launches, moved + partial_traffic, cycles * model.units.count * model.units.multiply_adds,
                    static_cast<std::int64_t>(partial_bytes / 8));
    return;
  }
  compute += batch * m * n * cost_of(graph, loops, results);
  // Threads that all compute the whole time; fewer tiles than compute units leave some without work, and few
  // registers per thread leave each waiting for its operands.
  const int over = schedule.cost.registers - model.pressure.matmul_registers;
  if (!cpu && over > 0) compute *= 1 + model.pressure.slowdown * over;
  compute *= cost_of_spilling(target, schedule.cost.registers);
  const auto workgroups =
      static_cast<double>(std::max<std::int64_t>(1, schedule.launch.workgroups * schedule.splits));  // 0 of no elements
  double share = cpu ? 1 : std::min(1.0, workgroups / model.units.count);
  if (has_projections(loops, tile)) share /= kernels.projections_slowdown;
  accesses += static_cast<double>(schedule.cost.loads_executed + schedule.cost.stores_executed) + partial_bytes / 8;
  schedule.cost.modelled_us = modelled_us(costs, launches, traffic + partial_traffic, compute / share,
                                          static_cast<std::int64_t>(accesses / share));
}

}  // namespace vkfuse::schedule
