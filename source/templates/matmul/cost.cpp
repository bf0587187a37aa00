// What a tile of a matrix kernel takes: shared memory, registers, and time.
#include "templates/matmul/cost.hpp"
#include "schedule/traffic.hpp"
#include "templates/matmul/tiles.hpp"

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

/// Partial results of a row reduction: one for each chunk of a row that the threads read at a time.
std::int64_t row_reduction_slots(const MatmulParams& tile, const MatmulParams::RowReduction& reduction) {
  return std::int64_t{tile.shape.m} * tile.shape.k /
         tile.tile_operands[static_cast<std::size_t>(reduction.tile_operand)].elements;
}

/// The same where lanes make fragments: chunks in flight, what is made of them, sums, and addresses.
int registers_of_lanes(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  constexpr int kOwn = 16;
  const MatmulParams& tile = schedule.as<MatmulParams>();
  int registers = kOwn + tile.shape.m * tile.shape.n / 32 * static_cast<int>(tile.sums.size());
  for (const TileOperand& tile_operand : tile.tile_operands) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, tile_operand.value);
    const bool is_read = backward_slice.size() == 1;  // and nothing is made of it
    if (!tile_operand.second || !is_read)
      registers += tile_operand.elements / 2;  // of weights, of half of the rows at a time
    for (ValueId id : backward_slice) {
      if (!tile_operand.second || loops.values[id].kind != Value::Kind::load) continue;
      const AccessPlan& load = schedule.loads[id];
      const bool vector = load.kind == AccessKind::vector || load.kind == AccessKind::unaligned;
      const int bytes = size_of(graph.node(loops.values[id].node).type.dtype);
      registers +=
          kLaneStepsAhead * kRowsOfLane * (vector ? registers_of_chunk(load, bytes, tile_operand.elements) : 1);
    }
  }
  return registers;
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
  if (tile.lane_fragments()) return registers_of_lanes(graph, loops, schedule);
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
  if (tile.lane_fragments())
    return std::int64_t{4} * static_cast<std::int64_t>(tile.sums.size()) * subgroups_of_lane_fragments(tile.shape) *
           tile.shape.m * tile.shape.n;
  std::int64_t bytes = 0;
  for (const MatmulParams::RowReduction& reduction : tile.row_reductions)
    bytes += 4 * (reduction.parts * row_reduction_slots(tile, reduction) + tile.shape.m);
  bytes += std::int64_t{4} * static_cast<std::int64_t>(tile.row_values.size()) * tile.shape.m;
  // Of epilogue reductions a vec4 each, unless subgroups reduce them among themselves.
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

namespace {

/// Adds up what a launch executes and moves.
class MatmulModel {
 public:
  MatmulModel(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule)
      : graph_(graph),
        loops_(loops),
        target_(target),
        model_(device_model(target)),
        schedule_(schedule),
        cost_(schedule.cost),
        tile_(schedule.as<MatmulParams>()),
        cpu_(target.type == DeviceType::cpu),
        batch_(static_cast<double>(count_along(loops, tile_.batch))),
        k_(static_cast<double>(cpu_ ? count_along(loops, tile_.k)
                                    : ceil_div(count_along(loops, tile_.k), tile_.shape.k) * tile_.shape.k)),
        m_(static_cast<double>(tile_.tiles_m) * tile_.shape.m),
        n_(static_cast<double>(tile_.tiles_n) * tile_.shape.n) {}

  void run() {
    count_bytes(graph_, loops_, schedule_);
    traffic_ = static_cast<double>(cost_.bytes_read + cost_.bytes_written);
    compute_ = batch_ * m_ * n_ * k_ * static_cast<double>(tile_.sums.size()) / products_at_once();
    for (const TileOperand& tile_operand : tile_.tile_operands) add_operand(tile_operand);
    add_stores();
    const std::vector<ValueId> results = backward_slice_of_results(loops_);
    add_loads_of_results(results);
    cost_.registers = estimated_registers(graph_, loops_, schedule_);
    cost_.modelled_us = tile_.lane_fragments() ? lane_fragments_us(graph_, loops_, target_, schedule_)
                        : tile_.mma() && !cpu_ ? cooperative_us()
                                               : simt_us(results);
  }

 private:
  /// Products in the time of one.
  [[nodiscard]] int products_at_once() const { return tile_.integer_dot() ? 4 : 1; }

  void add_operand(const TileOperand& tile_operand) {
    const double elements =
        batch_ * k_ *
        (tile_operand.second ? n_ * static_cast<double>(tile_.tiles_m) : m_ * static_cast<double>(tile_.tiles_n));
    const std::vector<ValueId> backward_slice = backward_slice_of(loops_, tile_operand.value);
    compute_ += elements * cost_of_operand(graph_, loops_, schedule_, tile_operand.value);
    const std::vector<ValueId> kept = kept_along_sum(graph_, loops_, schedule_, tile_operand);
    for (ValueId id : backward_slice) {
      const Value& load = loops_.values[id];
      if (load.kind != Value::Kind::load || std::find(kept.begin(), kept.end(), id) != kept.end()) continue;
      const int bytes = size_of(graph_.node(load.node).type.dtype);
      const auto executed = elements / tile_operand.elements *
                            static_cast<double>(instructions(schedule_.loads[id], bytes, tile_operand.elements));
      cost_.loads_executed += static_cast<std::int64_t>(executed);
      cost_.transactions += static_cast<std::int64_t>(elements * bytes / 128);
      traffic_ += elements * bytes / model_.caches.bandwidth;
    }
    accesses_ += elements / tile_operand.elements;  // into shared memory, and out of it
    const int shared_by = tile_operand.second ? tile_.shape.thread_m : tile_.shape.thread_n;
    const double read_again = batch_ * m_ * n_ * k_ / shared_by / products_at_once();
    accesses_ += read_again / 4 / (cpu_ ? 1 : 4);
  }

  void add_stores() {
    for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
      const int bytes = size_of(graph_.node(loops_.stores[i].node).type.dtype);
      // One element of a block.
      if (tile_.block > 0 && (loops_.stores[i].axes & loops_.values[tile_.epilogues.front()].over) == 0) {
        cost_.stores_executed += static_cast<std::int64_t>(batch_ * m_ * n_ / tile_.block);
        cost_.transactions += static_cast<std::int64_t>(batch_ * m_ * n_ / tile_.block * bytes / 128);
        continue;
      }
      const int elements = tile_.workgroup_scope() ? 16 / bytes : tile_.elements;  // of a chunk
      cost_.stores_executed +=
          static_cast<std::int64_t>(batch_ * m_ * n_ / elements) * instructions(schedule_.stores[i], bytes, elements);
      cost_.transactions += static_cast<std::int64_t>(batch_ * m_ * n_ * bytes / 128);
    }
  }

  void add_loads_of_results(const std::vector<ValueId>& results) {
    // At workgroup scope one by one, but near and beside products.
    const double hidden = tile_.workgroup_scope() ? model_.matrices.kernels.visible_epilogue : 1.0;
    for (ValueId id : results) {
      if (loops_.values[id].kind != Value::Kind::load) continue;
      const int bytes = size_of(graph_.node(loops_.values[id].node).type.dtype);
      const int elements = is_brought(id) ? 16 / bytes : tile_.elements;  // of a chunk
      cost_.loads_executed += static_cast<std::int64_t>(batch_ * m_ * n_ / elements * hidden) *
                              instructions(schedule_.loads[id], bytes, elements);
    }
  }

  /// Whether the device brings what results are computed from as a tile.
  [[nodiscard]] bool is_brought(ValueId id) const {
    const WorkgroupMatrixProducts* products = tile_.workgroup();
    return products != nullptr &&
           std::find(products->beside.begin(), products->beside.end(), id) != products->beside.end();
  }
  [[nodiscard]] double partial_bytes() const { return static_cast<double>(schedule_.scratch_bytes); }
  /// Partial sums are written and read once, from near caches where these hold them.
  [[nodiscard]] double partial_traffic() const {
    return 2 * partial_bytes() / (partial_bytes() < model_.caches.bytes ? model_.caches.bandwidth : 1.0);
  }
  /// Results whose columns are apart in memory. A CPU computes elements one by one, wherever they are.
  [[nodiscard]] double strided_traffic() const {
    if (cpu_ || tile_.n.empty()) return 0;
    return bytes_of_strided_results(graph_, loops_, schedule_, tile_.n.back()) / model_.caches.sector_bandwidth;
  }
  /// Joining partial sums costs what four launches do: at 1024 x 1024 x 1024 on an H200, split-K took 22 us and unsplit
  /// sums 18.
  [[nodiscard]] int launches() const { return schedule_.splits > 1 ? 5 : 1; }
  [[nodiscard]] double slowdown_of_projections() const {
    return has_projections(loops_, tile_) ? model_.matrices.kernels.projections_slowdown : 1.0;
  }
  [[nodiscard]] bool has_edges() const {
    return count_along(loops_, tile_.m) % tile_.shape.m != 0 || count_along(loops_, tile_.n) % tile_.shape.n != 0;
  }
  /// A function of elements is written out for all that a thread has, and the workgroups of a compute unit come to it
  /// at the same time.
  [[nodiscard]] double visible_at_workgroup_scope() const {
    const WorkgroupTiles& fit = model_.matrices.workgroup_tiles;
    return fit.epilogue * std::min(1.0, fit.short_sum / k_);
  }

  double cooperative_us() {
    const double cycles = tile_.workgroup_scope() ? workgroup_tile_cycles_of() : cooperative_matrix_cycles();
    const auto moved = static_cast<double>(cost_.bytes_read + cost_.bytes_written) + strided_traffic();
    return modelled_us(costs_of(target_), launches(), moved + partial_traffic(),
                       cycles * model_.units.count * model_.units.multiply_adds,
                       static_cast<std::int64_t>(partial_bytes() / 8));
  }

  double workgroup_tile_cycles_of() {
    const double visible =
        schedule_.splits == 1 ? visible_at_workgroup_scope() : double{model_.matrices.kernels.visible_epilogue};
    return workgroup_tile_cycles(graph_, loops_, model_, schedule_, visible);
  }

  double cooperative_matrix_cycles() {
    const MatrixKernels& kernels = model_.matrices.kernels;
    // Epilogue reductions wait for each other, and only long sums keep the compute units busy meanwhile.
    const double visible = tile_.epilogues.empty()
                               ? double{kernels.visible_epilogue}
                               : std::max<double>(kernels.visible_epilogue, 1 - k_ / kernels.sum_that_hides_reductions);
    const CooperativeMatrixCost cost = cooperative_matrix_cost(graph_, loops_, model_, schedule_, visible);
    cost_.registers = cost.registers;
    return cost.cycles * slowdown_of_projections() * (has_edges() ? double{kernels.edges} : 1.0);
  }

  /// Threads that all compute the whole time; fewer tiles than compute units leave some without work, and few registers
  /// per thread leave each waiting for its operands.
  double simt_us(const std::vector<ValueId>& results) {
    compute_ += batch_ * m_ * n_ * cost_of(graph_, loops_, results);
    const double over = cost_.registers - model_.pressure.matmul_registers;
    if (!cpu_ && over > 0) compute_ *= 1 + model_.pressure.slowdown * over;
    compute_ *= cost_of_spilling(target_, cost_.registers);
    const auto workgroups = static_cast<double>(
        std::max<std::int64_t>(1, schedule_.launch.workgroups * schedule_.splits));  // 0 of no elements
    const double share = (cpu_ ? 1 : std::min(1.0, workgroups / model_.units.count)) / slowdown_of_projections();
    accesses_ += static_cast<double>(cost_.loads_executed + cost_.stores_executed) + partial_bytes() / 8;
    return modelled_us(costs_of(target_), launches(), traffic_ + strided_traffic() + partial_traffic(),
                       compute_ / share, static_cast<std::int64_t>(accesses_ / share));
  }

  const ir::Graph& graph_;
  const Loops& loops_;
  const Target& target_;
  const DeviceModel& model_;
  Schedule& schedule_;
  ScheduleCost& cost_;
  const MatmulParams& tile_;
  bool cpu_;
  double batch_, k_;
  double m_, n_;         ///< with what stands out at the ends
  double traffic_ = 0;   ///< bytes
  double compute_ = 0;   ///< fused multiply-adds
  double accesses_ = 0;  ///< of shared memory, four elements at a time
};

}  // namespace

void model_matmul(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule) {
  MatmulModel(graph, loops, target, schedule).run();
}

}  // namespace vkfuse::schedule
