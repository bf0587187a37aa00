#include "templates/attention/cost.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "device_model/device_model.hpp"
#include "schedule/access.hpp"
#include "schedule/operands.hpp"
#include "schedule/traffic.hpp"
#include "templates/attention/tiles.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

/// Of the blocks of k, those that some row's mask leaves: the mean over tiles of m, or over some of them.
double visited_share(const Loops& loops, const AttentionParams& tile) {
  if (tile.mask.empty()) return 1;
  const std::int64_t tiles = ceil_div(count_along(loops, tile.axes.m), tile.tile_m());
  const double all = static_cast<double>(ceil_div(count_along(loops, tile.axes.k), tile.tile_k()));
  constexpr std::int64_t kSamples = 64;
  const std::int64_t samples = std::min(tiles, kSamples);
  const double runs = static_cast<double>(count_along(loops, tile.axes.k) / keys_per_run(loops, tile));
  double visited = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    const Blocks blocks = blocks_of(loops, tile, i * tiles / samples);
    visited += std::min(all, runs * static_cast<double>(std::max<std::int64_t>(0, blocks.end - blocks.begin)));
  }
  return std::max(visited / all / static_cast<double>(samples), 1 / all);
}

/// Positions that a launch goes through, with what stands out, and of k those that a mask leaves.
struct Extents {
  double batch, m, n, k;
  double sums;  ///< n, of all sums
  double d;     ///< of all products
  double tiles_m;
  double visited;  ///< of the blocks of k
};

Extents extents_of(const Loops& loops, const AttentionParams& tile) {
  const double m = round_up(count_along(loops, tile.axes.m), tile.tile_m());
  const double visited = visited_share(loops, tile);
  const double n = tile.extent_n(loops);
  double d = 0;
  for (const ScoreProduct& product : tile.products) d += tile.extent_d(loops, product);
  return {.batch = static_cast<double>(count_along(loops, tile.axes.batch)),
          .m = m,
          .n = n,
          .k = round_up(count_along(loops, tile.axes.k), tile.tile_k()) * visited,
          .sums = n * static_cast<double>(tile.sums.size()),
          .d = d,
          .tiles_m = m / tile.tile_m(),
          .visited = visited};
}

/// Of some values, those that are not the same for all of a batch: a compiler computes those once.
std::vector<ValueId> without_common(const Loops& loops, const AttentionParams& tile, std::vector<ValueId> values) {
  segment::AxisSet common = 0;
  for (const int axis : tile.axes.batch) common |= segment::AxisSet{1} << axis;
  std::erase_if(values, [&](ValueId id) { return (loops.values[id].axes & ~common) == 0; });
  return values;
}

/// What scores are computed from, beside products: what several are computed from once.
std::vector<ValueId> slice_of_scores(const Loops& loops, const AttentionParams& tile) {
  std::set<ValueId> all;
  for (const ValueId score : tile.scores()) {
    const std::vector<ValueId> slice = backward_slice_of(loops, score, tile.contractions());
    all.insert(slice.begin(), slice.end());
  }
  return without_common(loops, tile, {all.begin(), all.end()});
}

/// Arithmetic of the operands' elements: a tile of m computes its queries once, and the keys and values of every block
/// that it visits.
double compute_of_operands(const ir::Graph& graph, const Loops& loops, const AttentionParams& tile, const Extents& of) {
  const auto each = [&](const AttentionOperand& operand) {
    return cost_of(graph, loops, without_common(loops, tile, backward_slice_of(loops, operand.value)));
  };
  const double visited = of.batch * of.k * of.tiles_m;
  double compute = 0;
  for (const WeightedSum& sum : tile.sums) compute += visited * of.n * each(sum.value);
  for (const ScoreProduct& product : tile.products)
    compute += tile.extent_d(loops, product) * (of.batch * of.m * each(product.query) + visited * each(product.key));
  return compute;
}

/// Of memory, loads that are executed and bytes that are moved: every tile of m walks along all of k.
struct Reads {
  double loads = 0;
  double traffic = 0;
};

Reads reads_of(const ir::Graph& graph, const Loops& loops, const Extents& extents, const Caches& caches,
               const Schedule& schedule) {
  const auto& tile = schedule.as<AttentionParams>();
  Reads reads{0, static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written) +
                     2 * static_cast<double>(schedule.scratch_bytes) / caches.bandwidth};
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& value = loops.values[i];
    if (value.kind != Value::Kind::load) continue;
    const int bytes = size_of(graph.node(value.node).type.dtype);
    const bool own =
        std::any_of(tile.axes.m.begin(), tile.axes.m.end(), [&](int axis) { return ((value.axes >> axis) & 1u) != 0; });
    const bool again = (value.axes & loops.columns()) != 0 && !own;
    // What data leaves out is not read at all; of what positions do, another tile reads it.
    const double least = has_data_bounds(tile.mask) ? 0 : 1;
    const double times = again ? std::max(least, extents.tiles_m * extents.visited) : 1;
    const auto elements = static_cast<double>(segment::elements_touched(loops, value));
    reads.traffic += elements * bytes * (times - 1) / (times < 1 ? 1.0 : double{caches.bandwidth});
    reads.loads += elements * times * bytes / std::max(4, schedule.loads[i].vector_bytes);
  }
  return reads;
}

/// Accesses of shared memory, four elements at a time: with threads, those of a thread's rows and keys for its products
/// of scores, of its rows and its share of n for those of weights.
double shared_accesses(const Loops& loops, const AttentionParams& tile, const Extents& of) {
  if (const CooperativeAttention* cooperative = tile.cooperative()) {
    const double passed = cooperative->elements == ElementAccess::functions ? 0 : 2;  // a weight is stored and loaded
    double reloaded = 0;  // once for every block, by the subgroup that has the rows
    for (std::size_t which = 0; which < tile.products.size(); ++which)
      reloaded += tile.is_reloaded(which) ? tile.extent_d(loops, tile.products[which]) : 0.0;
    const double weights = passed * static_cast<double>(tile.sums.size());
    return of.batch * of.m * of.k * ((of.d + of.sums) / cooperative->mma.m + reloaded / tile.tile_k() + weights) / 8 *
           4;
  }
  // Lanes add up what each has of a score, and pass it on so often.
  if (const SubgroupAttention* mapping = tile.by_subgroups())
    return of.batch * of.m * of.k * mapping->lanes * std::log2(static_cast<double>(mapping->lanes)) / 4;
  const SimtAttention& simt = *tile.simt();
  const double rows = simt.rows, keys = simt.keys, columns = of.n / simt.threads_k;
  return of.batch * of.m * of.k *
         (of.d * (rows + keys) / (4 * rows * keys) + of.n * (rows + columns) / (4 * rows * columns));
}

/// Of what threads compute of scores, the part that takes time beside matrices: some subgroups are at it while others
/// multiply (h200-attention-gradients.txt).
constexpr double kBesideMatrices = 0.5;

/// Of one row and position of k. Every lane that shares a position finds the score and its exponential, and its sums
/// are rescaled for each few of them.
double compute_of_score(const AttentionParams& tile, const Extents& of, const DeviceModel& model, double score) {
  const SubgroupAttention* mapping = tile.by_subgroups();
  if (mapping == nullptr) {
    const double own = (tile.values.has_softmax ? model.attention.exponential : 0.0) + score;
    return tile.cooperative() != nullptr ? own * kBesideMatrices : own;
  }
  const double exponential = model.units.multiply_adds / model.units.transcendentals;
  return (exponential + score) * mapping->lanes + (of.n + exponential * mapping->lanes) / mapping->keys;
}

/// Queries and sums of all rows, scores, what is known of rows, and what is in flight of keys and values.
int subgroup_registers(const AttentionParams& tile, const Extents& of, const DeviceModel& model) {
  constexpr int kOfAddresses = 32;
  const SubgroupAttention& mapping = *tile.by_subgroups();
  const int columns = static_cast<int>(of.n + of.d) / mapping.lanes;
  return std::max(kOfAddresses, static_cast<int>(model.registers.elsewhere)) +
         mapping.rows * (columns + mapping.keys + 3) + mapping.keys * columns / 2;
}

/// Of scores that are stored, the loads with their addresses.
int registers_of_stored_scores(const Loops& loops, const AttentionParams& tile) {
  constexpr int kOfLoad = 4;
  if (!tile.products.empty()) return 0;
  const std::vector<ValueId> slice = backward_slice_of(loops, tile.values.score);
  return kOfLoad * static_cast<int>(std::count_if(slice.begin(), slice.end(), [&](ValueId id) {
           return loops.values[id].kind == Value::Kind::load;
         }));
}

/// Sums, scores, what is known of rows, operands, and addresses: at least as many as the device is said to have
/// elsewhere.
int simt_registers(const Loops& loops, const AttentionParams& tile, const Extents& of, const DeviceModel& model) {
  const SimtAttention& simt = *tile.simt();
  const int columns = static_cast<int>(of.n) / simt.threads_k;
  const int scores = std::max(1, static_cast<int>(tile.products.size()));
  const int addresses = std::max(simt.low_register ? 12 : 16, static_cast<int>(model.registers.elsewhere));
  return addresses + (simt.low_register ? registers_of_stored_scores(loops, tile) : 0) +
         simt.rows * (columns + scores * simt.keys + 3) + simt.keys;
}

/// What a thread has in flight of an operand's next slice, `elements` of them in the workgroup's tile.
int words_in_flight(const ir::Graph& graph, const Loops& loops, const Schedule& schedule, const AttentionOperand& side,
                    int elements) {
  const std::int64_t chunks = ceil_div(elements / side.elements, schedule.workgroup);
  int words = 0;
  for (ValueId id : backward_slice_of(loops, side.value)) {
    const Value& value = loops.values[id];
    if (value.kind == Value::Kind::load)
      words += registers_of_chunk(schedule.loads[id], size_of(graph.node(value.node).type.dtype), side.elements);
  }
  return is_double_buffered(words, chunks) ? words * static_cast<int>(chunks) : 0;
}

/// Loads that each score is computed from, beside those of queries and keys.
double loads_of_score(const Loops& loops, const AttentionParams& tile) {
  const std::vector<ValueId> slice = slice_of_scores(loops, tile);
  return static_cast<double>(std::count_if(slice.begin(), slice.end(),
                                           [&](ValueId id) { return loops.values[id].kind == Value::Kind::load; }));
}

int estimated_registers(const ir::Graph& graph, const Loops& loops, const Extents& of, const DeviceModel& model,
                        const Schedule& schedule) {
  const auto& tile = schedule.as<AttentionParams>();
  if (const CooperativeAttention* cooperative = tile.cooperative()) {
    const int per_thread = schedule.workgroup / cooperative->subgroups;
    const int scores = cooperative->pipelined_scores ? 2 : std::max(1, static_cast<int>(tile.products.size()));
    double columns = tile.tile_k() * scores + of.sums;
    for (std::size_t which = 0; which < tile.products.size(); ++which)
      columns += tile.is_reloaded(which) ? 0.0 : tile.extent_d(loops, tile.products[which]) / 2.0;
    return 64 + static_cast<int>(columns) * static_cast<int>(cooperative->mma.m) / per_thread;
  }
  if (tile.by_subgroups() != nullptr) return subgroup_registers(tile, of, model);
  int registers = simt_registers(loops, tile, of, model);
  if (!tile.simt()->low_register) {  // whose scores are loaded in a loop
    const double scores = tile.simt()->rows * tile.simt()->keys;
    registers += static_cast<int>(model.registers.of_moved_load * scores * loads_of_score(loops, tile));
  }
  if (tile.simt()->slice == 0) return registers;
  for (const ScoreProduct& product : tile.products) {
    const int depth = tile.staged_d(loops, product);
    registers += words_in_flight(graph, loops, schedule, product.query, tile.tile_m() * depth) +
                 words_in_flight(graph, loops, schedule, product.key, tile.tile_k() * depth);
  }
  return registers;
}

/// Loads of queries beside those of their first block: a tile whose depth is staged in slices brings them for each.
double query_loads_again(const Loops& loops, const Extents& of, const Schedule& schedule) {
  const auto& tile = schedule.as<AttentionParams>();
  if (tile.simt() == nullptr) return 0;
  double loads = 0;
  for (const ScoreProduct& product : tile.products) {
    const double d = tile.extent_d(loops, product);
    if (tile.staged_d(loops, product) < d || (tile.simt()->slice != 0 && tile.products.size() > 1))
      loads += of.batch * of.m * d / product.query.elements * std::max(0.0, of.k / tile.tile_k() - 1);
  }
  return loads;
}

/// Up to so many registers a thread is not slower for them: many sums that wait for nothing but their operands take the
/// place of other threads.
double unhurried_registers(const DeviceModel& model, const SimtAttention& simt) {
  return model.pressure.attention_registers * std::sqrt(simt.rows * simt.keys / 16.0);
}

/// Of accesses of shared memory, those that a kernel waits for beside its arithmetic. Fragments are prefetched. Threads
/// wait for all where stores meet in the same banks; of slices, multiply-adds and accesses go on at the same time, but
/// not all of the time.
double accesses_waited_for(const Target& target, const AttentionParams& tile, double accesses, double compute) {
  if (target.type == DeviceType::cpu) return accesses;
  if (tile.cooperative() != nullptr) return accesses / 4;
  if (tile.simt() != nullptr && tile.simt()->slice == 0) return accesses;
  const CostModel costs = costs_of(target);
  const double compute_us = compute / (costs.gflops * 1e3);
  return (std::hypot(compute_us, accesses / costs.accesses_per_us) - compute_us) * costs.accesses_per_us;
}

/// Of a device, the part that a launch keeps busy: workgroups of few threads leave compute units idle, and lanes of
/// their subgroups.
double busy_share(const Target& target, const DeviceModel& model, const Schedule& schedule) {
  if (target.type == DeviceType::cpu) return 1;
  const auto workgroups =
      static_cast<double>(std::max<std::int64_t>(1, schedule.launch.workgroups));  // 0 of no elements
  const double threads = workgroups * schedule.workgroup;
  const auto subgroup = static_cast<int>(std::max(1U, target.caps.subgroup.size));
  const double lanes = static_cast<double>(ceil_div(schedule.workgroup, subgroup) * subgroup);
  return std::min({1.0, workgroups / model.units.count, threads / (model.units.count * model.attention.threads)}) *
         schedule.workgroup / lanes;
}

/// Microseconds until memory has answered, and a thread goes on.
double latency_us(const DeviceModel& model, const CostModel& costs) {
  const double cycle_us = model.units.count * model.units.multiply_adds / (costs.gflops * 1e3);
  return model.latencies.memory * cycle_us;
}

/// Where workgroups share a tile: parts are left and counted, then the last workgroup reads them, some at a time
/// (bench/results/h200-attention-parts.txt).
double joining_us(const Schedule& schedule, double latency) {
  constexpr double kToCount = 4, kPartsAtATime = 4;
  if (schedule.splits == 1) return 0;
  const SimtAttention* simt = schedule.as<AttentionParams>().simt();
  return (kToCount + schedule.splits / kPartsAtATime * (simt != nullptr ? simt->rows : 1)) * latency;
}

/// Workgroups that one compute unit has at a time.
double workgroups_at_a_time(const DeviceModel& model, const Schedule& schedule) {
  const double threads =
      std::min<double>(model.units.threads, model.units.registers / std::max(1, schedule.cost.registers));
  return std::max(1.0, std::floor(threads / schedule.workgroup));
}

/// What workgroups of few rows take where memory has room: in each block they wait for keys and values, or for the
/// slices of them that threads share, and for their turn among the workgroups of the compute unit.
double walked_us(const Problem& problem, const DeviceModel& model, const Extents& of, const Schedule& schedule,
                 double compute) {
  constexpr double kIssued = 1.5, kOfTiles = 1.3;      // instructions beside those that are counted, and with tiles
  constexpr double kOfBlock = 0.8, kOfPosition = 0.2;  // of the latency, in a block and for each of its positions
  constexpr double kUneven = 0.5;                      // rounds for which the last workgroups leave units idle
  const CostModel costs = costs_of(problem.target);
  const auto& tile = schedule.as<AttentionParams>();
  const double blocks = std::max(1.0, std::ceil(of.k / tile.tile_k() / schedule.splits));
  const auto workgroups = static_cast<double>(std::max<std::int64_t>(1, schedule.launch.workgroups));
  double turn = kIssued * compute / (costs.gflops * 1e3) * model.units.count / (workgroups * blocks);
  const double latency = latency_us(model, costs);
  double alone = latency;
  if (const SubgroupAttention* mapping = tile.by_subgroups()) {
    alone *= kOfBlock + kOfPosition * mapping->keys;
  } else {
    double slices = static_cast<double>(tile.tile_k()) / tile.staged_k();
    for (const ScoreProduct& product : tile.products)
      slices += static_cast<double>(tile.extent_d(problem.loops, product)) / tile.staged_d(problem.loops, product);
    alone = slices * latency + turn * std::max(1.0, model.units.multiply_adds / schedule.workgroup);
    turn *= kOfTiles;
  }
  const double at_a_time = workgroups_at_a_time(model, schedule), slots = model.units.count * at_a_time;
  const auto of_round = [&](double together) { return blocks * std::hypot(alone, together * turn) + 2 * latency; };
  if (workgroups <= slots) return of_round(std::ceil(workgroups / model.units.count));
  return (workgroups / slots + kUneven) * of_round(at_a_time);
}

/// The least that a launch of few rows takes, however much it keeps busy.
double least_us(const Problem& problem, const DeviceModel& model, const Extents& of, const Schedule& schedule,
                double compute) {
  const auto& tile = schedule.as<AttentionParams>();
  if (problem.target.type == DeviceType::cpu || tile.cooperative() != nullptr ||
      count_along(problem.loops, tile.axes.m) > kFewRows)
    return 0;
  const CostModel costs = costs_of(problem.target);
  return schedule.dispatches * costs.launch_us + walked_us(problem, model, of, schedule, compute) +
         joining_us(schedule, latency_us(model, costs));
}

}  // namespace

void model_attention(const Problem& problem, Schedule& schedule) {
  const ir::Graph& graph = problem.graph;
  const Loops& loops = problem.loops;
  const Target& target = problem.target;
  const auto& tile = schedule.as<AttentionParams>();
  const DeviceModel& model = device_model(target);
  const bool cpu = target.type == DeviceType::cpu;
  count_bytes(graph, loops, schedule);
  const Extents of = extents_of(loops, tile);
  const double score = cost_of(graph, loops, slice_of_scores(loops, tile));
  const double compute =
      of.batch * of.m * of.k *
          ((of.d + of.sums) / (tile.cooperative() != nullptr ? model.attention.cooperative_matrix_speedup : 1.0) +
           compute_of_score(tile, of, model, score)) +
      compute_of_operands(graph, loops, tile, of) +
      of.batch * of.m * of.n * cost_of(graph, loops, backward_slice_of_results(loops));
  Reads reads = reads_of(graph, loops, of, model.caches, schedule);
  if (!cpu && !tile.axes.n.empty())
    reads.traffic +=
        bytes_of_strided_results(graph, loops, schedule, tile.axes.n.back()) / model.caches.sector_bandwidth;
  ScheduleCost& cost = schedule.cost;
  cost.loads_executed = static_cast<std::int64_t>(reads.loads);
  cost.stores_executed = static_cast<std::int64_t>(of.batch * of.m * of.sums / tile.elements);
  cost.transactions = static_cast<std::int64_t>(reads.traffic / 128);
  const double share = busy_share(target, model, schedule);
  cost.registers = estimated_registers(graph, loops, of, model, schedule);
  const double crowding =
      cpu || tile.simt() == nullptr
          ? 1
          : 1 + model.pressure.slowdown * std::max(0.0, cost.registers - unhurried_registers(model, *tile.simt()));
  const double spilling = tile.cooperative() != nullptr ? 1 : cost_of_spilling(target, cost.registers);
  const double slowed = compute * crowding * spilling;
  const double accesses = reads.loads + query_loads_again(loops, of, schedule) +
                          static_cast<double>(cost.stores_executed) +
                          accesses_waited_for(target, tile, shared_accesses(loops, tile, of), slowed);
  cost.modelled_us = std::max(
      modelled_us(costs_of(target), 1, reads.traffic, slowed / share, static_cast<std::int64_t>(accesses / share)),
      least_us(problem, model, of, schedule, compute));
}

}  // namespace vkfuse::schedule
