// The sort template: a workgroup sorts rows, or a block of one, in shared memory. Rows that do not fit go
// through several dispatches: where few of the first elements are wanted, each block passes on so many
// candidates; else sorted blocks are merged pairwise.
#include <algorithm>
#include <bit>

#include "schedule/access.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;

namespace {

constexpr int kMostSortPasses = 64;

std::int64_t power_of_two_at_most(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}
std::int64_t power_of_two_at_least(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

const Value& sort_of(const Loops& loops) {
  return *std::find_if(loops.values.begin(), loops.values.end(),
                       [](const Value& value) { return value.kind == Value::Kind::sort; });
}

DType key_dtype(const ir::Graph& graph, const Loops& loops) {
  return graph.node(graph.node(sort_of(loops).node).operands[0]).type.dtype;
}

/// Bytes of a key and its position.
std::int64_t pair_bytes(const ir::Graph& graph, const Loops& loops) {
  return std::max(4, size_of(key_dtype(graph, loops))) + 4;
}

/// Whether neighbouring rows are neighbours in memory and the elements of a row are not.
bool rows_are_inner(const Loops& loops) {
  const int last_row = count_axes(loops).rows - 1;
  if (last_row < 0) return false;
  const auto runs_along = [&](const Value& value, int axis) { return index::stride_of(value.offset, axis) == 1; };
  bool rows = false;
  bool keys = false;
  for (const Value& value : loops.values) {
    if (value.kind != Value::Kind::load || (value.axes & loops.keys()) == 0) continue;
    rows = rows || runs_along(value, last_row);
    keys = keys || runs_along(value, static_cast<int>(loops.axes.size()) - 1);
  }
  return rows && !keys;
}

/// Of a thread that sorts blocks of so many keys of each row: it has its share of the pairs in every step.
std::int64_t iterations_of_block(std::int64_t keys, std::int64_t rows, std::int64_t threads) {
  const auto bits =
      static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(power_of_two_at_least(keys)))) - 1;
  return (bits * (bits + 1) / 2 + 2) * (ceil_div(power_of_two_at_least(keys) / 2 * rows, threads) + 1);
}

void choose_block(const ir::Graph& graph, const Loops& loops, const Target& target, const Tuning& tuning,
                  Schedule& schedule) {
  const bool cpu = target.type == DeviceType::cpu;
  const std::int64_t most = target.caps.shared_memory_bytes / pair_bytes(graph, loops);
  const std::int64_t block =
      tuning.block ? power_of_two_at_most(std::clamp<std::int64_t>(*tuning.block, 2, most)) : most;
  schedule.block_keys = static_cast<int>(schedule.keys <= block ? schedule.keys : power_of_two_at_most(block));
  // Short rows share a workgroup.
  std::int64_t together = std::max<std::int64_t>(1, power_of_two_at_most((cpu ? 256 : 1024) / schedule.block_keys));
  if (schedule.rows_neighbour) together = std::max<std::int64_t>(together, 8);
  if (schedule.block_keys < schedule.keys) together = 1;
  together = std::min({together, power_of_two_at_least(schedule.parallel_chunks),
                       power_of_two_at_most(std::max<std::int64_t>(1, most / schedule.block_keys))});
  schedule.parallel_threads = static_cast<int>(together);
  const auto limit = static_cast<std::int64_t>(usable_invocations(target.caps));
  const std::int64_t pairs = power_of_two_at_least(schedule.block_keys) / 2 * together;
  const std::int64_t requested =
      tuning.workgroup.value_or(static_cast<int>(std::clamp<std::int64_t>(pairs / 2, 32, cpu ? 64 : 512)));
  schedule.workgroup = static_cast<int>(std::min(requested, limit));
  // Where a driver does not go through as many iterations, few threads sort fewer rows at a time, then smaller blocks.
  while (iterations_of_block(schedule.block_keys, together, schedule.workgroup) >
             target.workarounds.leaves_loops_after &&
         schedule.block_keys > 2) {
    if (together > 1) {
      together /= 2;
    } else {
      schedule.block_keys = static_cast<int>(power_of_two_at_most((schedule.block_keys + 1) / 2));
    }
  }
  schedule.parallel_threads = static_cast<int>(together);
  schedule.shared_bytes = schedule.block_keys * together * pair_bytes(graph, loops);
}

/// Each block keeps as many candidates as are wanted, until they fit one block.
void select_passes(Schedule& schedule) {
  std::int64_t keys = schedule.keys;
  for (int sort_pass = 0; sort_pass < kMostSortPasses; ++sort_pass) {
    const std::int64_t blocks = ceil_div(keys, schedule.block_keys);
    schedule.sort_passes.push_back({SortPass::Kind::block, sort_pass == 0, blocks == 1, keys, 0, blocks});
    if (blocks == 1) return;
    keys = (blocks - 1) * schedule.requested + std::min(schedule.requested, keys - (blocks - 1) * schedule.block_keys);
    if (sort_pass == 0) schedule.slots = keys;
  }
}

/// Sorted blocks are merged, two runs into one, until there is one.
void merge_passes(Schedule& schedule) {
  const std::int64_t blocks = ceil_div(schedule.keys, schedule.block_keys);
  schedule.slots = schedule.keys;
  schedule.sort_passes.push_back({SortPass::Kind::block, true, false, schedule.keys, 0, blocks});
  for (std::int64_t run = schedule.block_keys; run < schedule.keys; run *= 2) {
    schedule.sort_passes.push_back({SortPass::Kind::merge, false, false, schedule.keys, run, blocks});
  }
  schedule.sort_passes.push_back({SortPass::Kind::store, false, true, schedule.keys, 0,
                                  ceil_div(schedule.parallel_chunks * schedule.reduction_chunks, schedule.workgroup)});
}

void choose_sort_passes(Schedule& schedule) {
  if (schedule.keys <= schedule.block_keys || schedule.requested * 2 <= schedule.block_keys) {
    select_passes(schedule);
  } else {
    merge_passes(schedule);
  }
  schedule.dispatches = static_cast<int>(schedule.sort_passes.size());
}

Result<void> choose_scratch(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule) {
  if (schedule.sort_passes.size() == 1) return {};
  // Of nothing the other dimensions are counted, and nothing is launched: one pair is enough.
  const std::int64_t pairs = loops.empty ? 1 : schedule.parallel_chunks * schedule.slots;
  const auto bytes = checked_mul(pairs, pair_bytes(graph, loops));
  if (!bytes || static_cast<std::uint64_t>(*bytes) > target.caps.storage_buffer_range) {
    return make_error(ErrorCode::out_of_memory,
                      "Sorting {} rows of {} elements takes {} bytes from one dispatch to the next, and one storage "
                      "buffer of this device holds {}.",
                      schedule.parallel_chunks, schedule.keys, bytes.value_or(-1), target.caps.storage_buffer_range);
  }
  const std::int64_t alignment = std::max<std::int64_t>(256, target.caps.offset_alignment);
  // One half is read while the other one is written; two dispatches need only one.
  schedule.scratch_bytes = ceil_div(*bytes, alignment) * alignment * (schedule.sort_passes.size() > 2 ? 2 : 1);
  return {};
}

/// Buffers that the dispatch with the most of them binds.
Result<void> check_buffers(const Loops& loops, const Target& target, const Schedule& schedule) {
  std::size_t most = 0;
  for (const SortPass& sort_pass : schedule.sort_passes) {
    const std::size_t loaded = sort_pass.computes_keys || sort_pass.stores ? buffers_read(loops).size() : 0;
    const std::size_t scratch = (sort_pass.computes_keys ? 0u : 1u) + (sort_pass.stores ? 0u : 1u);
    most = std::max(most, loaded + scratch + (sort_pass.stores ? loops.stores.size() : 0));
  }
  if (most <= target.caps.storage_buffers) return {};
  return unsupported("The segment needs {} storage buffers, and the device allows {} per shader.", most,
                     target.caps.storage_buffers);
}

/// The first element that is not needed: what is asked for may be the beginning of the order alone.
std::int64_t first_unneeded(const Loops& loops) {
  return std::min(loops.key_count(), index::interval_of(sort_of(loops).offset).high + 1);
}

int chunk_elements(const ir::Graph& graph, const Loops& loops, int axis) {
  if (axis < 0) return 1;
  int count = 16;
  for (const segment::Store& store : loops.stores) {
    if (index::stride_of(store.offset, axis) != 1) continue;
    count = std::min(count, 16 / size_of(graph.node(store.node).type.dtype));
  }
  const std::int64_t size = loops.axes[static_cast<std::size_t>(axis)].size;
  while (count > 1 && size % count != 0) count /= 2;
  return count == 16 ? 1 : count;
}

void model(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule) {
  count_bytes(graph, loops, schedule);
  const auto keys = static_cast<double>(schedule.parallel_chunks * schedule.keys);
  double traffic = static_cast<double>(schedule.bytes_read + schedule.bytes_written);
  double compares = 0;
  for (const SortPass& sort_pass : schedule.sort_passes) {
    const double incoming = static_cast<double>(schedule.parallel_chunks * sort_pass.keys);
    const double steps = std::bit_width(static_cast<unsigned>(schedule.block_keys));
    if (!sort_pass.computes_keys) traffic += incoming * static_cast<double>(pair_bytes(graph, loops));
    if (!sort_pass.stores)
      traffic += static_cast<double>(schedule.parallel_chunks * sort_pass.groups *
                                     std::min<std::int64_t>(schedule.requested, schedule.block_keys) *
                                     pair_bytes(graph, loops));
    compares += incoming * (sort_pass.kind == SortPass::Kind::block   ? steps * steps / 4
                            : sort_pass.kind == SortPass::Kind::merge ? 2 * steps
                                                                      : 0);
  }
  schedule.loads_executed = static_cast<std::int64_t>(keys);
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    schedule.stores_executed +=
        schedule.parallel_chunks * schedule.reduction_chunks *
        instructions(schedule.stores[i], size_of(graph.node(loops.stores[i].node).type.dtype), schedule.chunk_size);
  }
  schedule.transactions = static_cast<std::int64_t>(traffic / 128);
  schedule.registers = 32;
  const CostModel costs = costs_of(target);
  schedule.modelled_us = modelled_us(costs, schedule.dispatches, traffic, compute_cost(graph, loops) + 8 * compares,
                                     schedule.loads_executed + schedule.stores_executed);
}

}  // namespace

Result<Schedule> best_sort(const ir::Graph& graph, const Loops& loops, const Target& target, const Tuning& tuning) {
  Schedule schedule;
  schedule.kind = Template::sort;
  const AxisCounts counts = count_axes(loops);
  schedule.parallel_chunks = loops.parallel_count();
  schedule.keys = loops.key_count();
  schedule.requested = first_unneeded(loops);
  schedule.rows_neighbour = rows_are_inner(loops);
  schedule.vector_axis = counts.columns > 0 ? counts.rows + counts.columns - 1 : -1;
  schedule.chunk_size = chunk_elements(graph, loops, schedule.vector_axis);
  schedule.reduction_chunks = loops.reduction_count() / schedule.chunk_size;
  schedule.full_chunks = true;
  schedule.elements = loops.empty ? 0 : schedule.parallel_chunks * loops.reduction_count();
  schedule.wide =
      schedule.parallel_chunks * std::max(schedule.keys, loops.reduction_count()) >= (std::int64_t{1} << 31);
  schedule.chunks = loops.empty ? 0 : schedule.parallel_chunks * schedule.reduction_chunks;
  plan_accesses(graph, loops, tuning, schedule);
  // Elements come one by one: keys as positions say, and the others by data.
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    if (schedule.loads[i].kind != AccessKind::vector) continue;
    schedule.loads[i] = {AccessKind::element, std::max(4, size_of(graph.node(loops.values[i].node).type.dtype))};
  }
  choose_block(graph, loops, target, tuning, schedule);
  if (schedule.block_keys < std::min<std::int64_t>(schedule.keys, 2)) {
    return unsupported(
        "Sorting takes {} bytes of shared memory at least, and a workgroup of this device has {} "
        "(shared_memory_bytes).",
        2 * pair_bytes(graph, loops), target.caps.shared_memory_bytes);
  }
  choose_sort_passes(schedule);
  VKF_CHECK_OK(choose_scratch(graph, loops, target, schedule));
  VKF_CHECK_OK(check_buffers(loops, target, schedule));
  schedule.workgroups = ceil_div(schedule.parallel_chunks, schedule.parallel_threads) * schedule.sort_passes[0].groups;
  schedule.workgroups_x = std::min<std::int64_t>(schedule.workgroups, target.caps.max_groups_per_axis);
  Schedule without_scratch = schedule;  // whose buffers are counted above
  without_scratch.scratch_bytes = 0;
  VKF_CHECK_OK(check_limits(graph, loops, target, without_scratch));
  model(graph, loops, target, schedule);
  return schedule;
}

}  // namespace vkfuse::schedule
