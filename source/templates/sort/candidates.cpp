// The sort template: a workgroup sorts rows, or a block of one, in shared memory. Rows that do not fit go
// through several dispatches: where few of the first elements are requested, each block passes on so many
// candidates; else sorted blocks are merged pairwise.
#include <algorithm>
#include <bit>

#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "schedule/traffic.hpp"
#include "templates/sort/candidates.hpp"

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

void choose_block(const Problem& problem, Schedule& schedule) {
  SortParams& params = schedule.as<SortParams>();
  const bool cpu = problem.target.type == DeviceType::cpu;
  const std::int64_t most =
      problem.target.caps.workgroup.shared_memory_bytes / pair_bytes(problem.graph, problem.loops);
  const std::int64_t block =
      problem.tuning.block ? power_of_two_at_most(std::clamp<std::int64_t>(*problem.tuning.block, 2, most)) : most;
  params.block_keys = static_cast<int>(params.keys <= block ? params.keys : power_of_two_at_most(block));
  // Short rows share a workgroup.
  std::int64_t together = std::max<std::int64_t>(1, power_of_two_at_most((cpu ? 256 : 1024) / params.block_keys));
  if (params.rows_neighbour) together = std::max<std::int64_t>(together, 8);
  if (params.block_keys < params.keys) together = 1;
  together = std::min({together, power_of_two_at_least(schedule.launch.parallel_chunks),
                       power_of_two_at_most(std::max<std::int64_t>(1, most / params.block_keys))});
  params.parallel_threads = static_cast<int>(together);
  const auto limit = static_cast<std::int64_t>(usable_invocations(problem.target.caps));
  const std::int64_t pairs = power_of_two_at_least(params.block_keys) / 2 * together;
  const std::int64_t requested =
      problem.tuning.workgroup.value_or(static_cast<int>(std::clamp<std::int64_t>(pairs / 2, 32, cpu ? 64 : 512)));
  schedule.workgroup = static_cast<int>(std::min(requested, limit));
  // Where a driver does not go through as many iterations, few threads sort fewer rows at a time, then smaller blocks.
  while (iterations_of_block(params.block_keys, together, schedule.workgroup) >
             problem.target.workarounds.leaves_loops_after &&
         params.block_keys > 2) {
    if (together > 1) {
      together /= 2;
    } else {
      params.block_keys = static_cast<int>(power_of_two_at_most((params.block_keys + 1) / 2));
    }
  }
  params.parallel_threads = static_cast<int>(together);
  schedule.shared_bytes = params.block_keys * together * pair_bytes(problem.graph, problem.loops);
}

/// Each block keeps as many candidates as are requested, until they fit one block.
void select_passes(Schedule& schedule) {
  SortParams& params = schedule.as<SortParams>();
  std::int64_t keys = params.keys;
  for (int sort_pass = 0; sort_pass < kMostSortPasses; ++sort_pass) {
    const std::int64_t blocks = ceil_div(keys, params.block_keys);
    params.passes.push_back({SortPass::Kind::block, sort_pass == 0, blocks == 1, keys, 0, blocks});
    if (blocks == 1) return;
    keys = (blocks - 1) * params.requested + std::min(params.requested, keys - (blocks - 1) * params.block_keys);
    if (sort_pass == 0) params.slots = keys;
  }
}

/// Sorted blocks are merged, two runs into one, until there is one.
void merge_passes(Schedule& schedule) {
  SortParams& params = schedule.as<SortParams>();
  const std::int64_t blocks = ceil_div(params.keys, params.block_keys);
  params.slots = params.keys;
  params.passes.push_back({SortPass::Kind::block, true, false, params.keys, 0, blocks});
  for (std::int64_t run = params.block_keys; run < params.keys; run *= 2) {
    params.passes.push_back({SortPass::Kind::merge, false, false, params.keys, run, blocks});
  }
  params.passes.push_back(
      {SortPass::Kind::store, false, true, params.keys, 0,
       ceil_div(schedule.launch.parallel_chunks * schedule.launch.reduction_chunks, schedule.workgroup)});
}

void choose_sort_passes(Schedule& schedule) {
  SortParams& params = schedule.as<SortParams>();
  if (params.keys <= params.block_keys || params.requested * 2 <= params.block_keys) {
    select_passes(schedule);
  } else {
    merge_passes(schedule);
  }
  schedule.dispatches = static_cast<int>(params.passes.size());
}

Result<void> choose_scratch(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule) {
  SortParams& params = schedule.as<SortParams>();
  if (params.passes.size() == 1) return {};
  // Of nothing the other dimensions are counted, and nothing is launched: one pair is enough.
  const std::int64_t pairs = loops.empty ? 1 : schedule.launch.parallel_chunks * params.slots;
  const auto bytes = checked_mul(pairs, pair_bytes(graph, loops));
  if (!bytes || static_cast<std::uint64_t>(*bytes) > target.caps.memory.storage_buffer_range) {
    return make_error(ErrorCode::out_of_memory,
                      "Sorting {} rows of {} elements takes {} bytes from one dispatch to the next, and one storage "
                      "buffer of this device holds {}.",
                      schedule.launch.parallel_chunks, params.keys, bytes.value_or(-1),
                      target.caps.memory.storage_buffer_range);
  }
  const std::int64_t alignment = std::max<std::int64_t>(256, target.caps.memory.offset_alignment);
  // One half is read while the other one is written; two dispatches need only one.
  schedule.scratch_bytes = ceil_div(*bytes, alignment) * alignment * (params.passes.size() > 2 ? 2 : 1);
  return {};
}

/// Buffers that the dispatch with the most of them binds.
Result<void> check_buffers(const Loops& loops, const Target& target, const Schedule& schedule) {
  std::size_t most = 0;
  for (const SortPass& sort_pass : schedule.as<SortParams>().passes) {
    const std::size_t loaded = sort_pass.computes_keys || sort_pass.stores ? buffers_read(loops).size() : 0;
    const std::size_t scratch = (sort_pass.computes_keys ? 0u : 1u) + (sort_pass.stores ? 0u : 1u);
    most = std::max(most, loaded + scratch + (sort_pass.stores ? loops.stores.size() : 0));
  }
  if (most <= target.caps.memory.storage_buffers) return {};
  return unsupported("The segment needs {} storage buffers, and the device allows {} per shader.", most,
                     target.caps.memory.storage_buffers);
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
  SortParams& params = schedule.as<SortParams>();
  count_bytes(graph, loops, schedule);
  const auto keys = static_cast<double>(schedule.launch.parallel_chunks * params.keys);
  double traffic = static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written);
  double compares = 0;
  for (const SortPass& sort_pass : params.passes) {
    const double incoming = static_cast<double>(schedule.launch.parallel_chunks * sort_pass.keys);
    const double steps = std::bit_width(static_cast<unsigned>(params.block_keys));
    if (!sort_pass.computes_keys) traffic += incoming * static_cast<double>(pair_bytes(graph, loops));
    if (!sort_pass.stores)
      traffic +=
          static_cast<double>(schedule.launch.parallel_chunks * sort_pass.groups *
                              std::min<std::int64_t>(params.requested, params.block_keys) * pair_bytes(graph, loops));
    compares += incoming * (sort_pass.kind == SortPass::Kind::block   ? steps * steps / 4
                            : sort_pass.kind == SortPass::Kind::merge ? 2 * steps
                                                                      : 0);
  }
  schedule.cost.loads_executed = static_cast<std::int64_t>(keys);
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    schedule.cost.stores_executed +=
        schedule.launch.parallel_chunks * schedule.launch.reduction_chunks *
        instructions(schedule.stores[i], size_of(graph.node(loops.stores[i].node).type.dtype), schedule.chunk_size);
  }
  schedule.cost.transactions = static_cast<std::int64_t>(traffic / 128);
  schedule.cost.registers = 32;
  const CostModel costs = costs_of(target);
  schedule.cost.modelled_us =
      modelled_us(costs, schedule.dispatches, traffic, compute_cost(graph, loops) + 8 * compares,
                  schedule.cost.loads_executed + schedule.cost.stores_executed);
}

/// Rows and keys, chunks of results, of so many elements where that is possible, and how all of them are accessed.
void choose_sort_chunks(const Problem& problem, int most, Schedule& schedule) {
  auto& params = schedule.as<SortParams>();
  const AxisCounts counts = count_axes(problem.loops);
  schedule.launch.parallel_chunks = problem.loops.parallel_count();
  params.keys = problem.loops.key_count();
  params.requested = first_unneeded(problem.loops);
  params.rows_neighbour = rows_are_inner(problem.loops);
  schedule.vector_axis = counts.columns > 0 ? counts.rows + counts.columns - 1 : -1;
  schedule.chunk_size = std::min(most, chunk_elements(problem.graph, problem.loops, schedule.vector_axis));
  schedule.launch.reduction_chunks = problem.loops.reduction_count() / schedule.chunk_size;
  schedule.full_chunks = true;
  schedule.launch.elements =
      problem.loops.empty ? 0 : schedule.launch.parallel_chunks * problem.loops.reduction_count();
  schedule.wide = schedule.launch.parallel_chunks * std::max(params.keys, problem.loops.reduction_count()) >=
                  (std::int64_t{1} << 31);
  schedule.launch.chunks = problem.loops.empty ? 0 : schedule.launch.parallel_chunks * schedule.launch.reduction_chunks;
  plan_accesses(problem.graph, problem.loops, problem.tuning, schedule);
  // Elements come one by one: keys as positions say, and the others by data.
  for (std::size_t i = 0; i < problem.loops.values.size(); ++i) {
    if (schedule.loads[i].kind != AccessKind::vector) continue;
    schedule.loads[i] = {AccessKind::element,
                         std::max(4, size_of(problem.graph.node(problem.loops.values[i].node).type.dtype))};
  }
}

}  // namespace

namespace {

/// With the blocks of another schedule, if there is one.
Result<Schedule> sort_schedule(const Problem& problem, const Schedule* alike = nullptr) {
  Schedule schedule;
  auto& params = schedule.params.emplace<SortParams>();
  choose_sort_chunks(problem, alike == nullptr ? 16 : alike->chunk_size, schedule);
  if (alike == nullptr) {
    choose_block(problem, schedule);
  } else {
    params.block_keys = alike->as<SortParams>().block_keys;
    params.parallel_threads = alike->as<SortParams>().parallel_threads;
    schedule.workgroup = alike->workgroup;
    schedule.shared_bytes = alike->shared_bytes;
  }
  if (params.block_keys < std::min<std::int64_t>(params.keys, 2)) {
    return unsupported(
        "Sorting takes {} bytes of shared memory at least, and a workgroup of this device has {} "
        "(shared_memory_bytes).",
        2 * pair_bytes(problem.graph, problem.loops), problem.target.caps.workgroup.shared_memory_bytes);
  }
  choose_sort_passes(schedule);
  VKF_CHECK_OK(choose_scratch(problem.graph, problem.loops, problem.target, schedule));
  VKF_CHECK_OK(check_buffers(problem.loops, problem.target, schedule));
  schedule.launch.workgroups =
      ceil_div(schedule.launch.parallel_chunks, params.parallel_threads) * params.passes[0].groups;
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, problem.target.caps.workgroup.max_groups_per_axis);
  Schedule without_scratch = schedule;  // whose buffers are counted above
  without_scratch.scratch_bytes = 0;
  VKF_CHECK_OK(check_limits(problem.graph, problem.loops, problem.target, without_scratch));
  model(problem.graph, problem.loops, problem.target, schedule);
  return schedule;
}

}  // namespace

std::optional<Schedule> sort_at_other_sizes(const Problem& problem, const Schedule& requested) {
  const Result<Schedule> made = sort_schedule(problem, &requested);
  if (!made || !serve(*made, requested)) return std::nullopt;
  const auto &own = made->as<SortParams>(), &params = requested.as<SortParams>();
  const bool is_alike = made->chunk_size == requested.chunk_size && made->wide == requested.wide &&
                        own.rows_neighbour == params.rows_neighbour &&
                        std::ranges::equal(own.passes, params.passes, [](const SortPass& a, const SortPass& b) {
                          return a.kind == b.kind && a.computes_keys == b.computes_keys && a.stores == b.stores;
                        });
  return is_alike ? std::optional(*made) : std::nullopt;
}

Result<Schedule> best_sort(const Problem& problem) {
  Result<Schedule> made = sort_schedule(problem);
  if (made || !problem.tuning.block) return made;
  // The blocks that are asked for may need scratch memory, for which there is no buffer left.
  schedule::Tuning tuning = problem.tuning;
  tuning.block.reset();
  return sort_schedule({problem.graph, problem.loops, problem.target, tuning});
}

}  // namespace vkfuse::schedule
