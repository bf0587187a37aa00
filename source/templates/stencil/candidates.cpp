#include "templates/stencil/candidates.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "device_model/device_model.hpp"
#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "schedule/operands.hpp"
#include "templates/stencil/cost.hpp"
#include "templates/stencil/match.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

constexpr std::int64_t kMostKept = 128;        ///< elements of a row, and weights, of a thread
constexpr std::int64_t kMostWrittenOut = 512;  ///< taps, where every turn of a loop is text
constexpr int kRegistersOfBlock = 160;         ///< where nobody says how many a thread has

std::int64_t most_unrolled(const Target& target) {
  const auto most = static_cast<std::int64_t>(device_model(target).stencil.unrolled_taps);
  return target.caps.registers.arrays ? most : std::min(most, kMostWrittenOut);
}

/// The chunk axis, and the window along it as the last one; false where results have no innermost axis.
bool choose_chunk_axis(const Loops& loops, StencilParams& params) {
  const std::vector<int> order = memory_order(loops, loops.stores.front().offset);
  if (order.empty()) return false;
  params.chunk_axis = order.front();
  const int window = window_along(params, params.chunk_axis);
  params.along_window = window >= 0;
  if (params.along_window)
    std::rotate(params.windows.begin() + window, params.windows.begin() + window + 1, params.windows.end());
  return true;
}

/// The axes along which a block has several chunks, the innermost window first.
std::vector<int> axes_of_rows(const StencilParams& params) {
  std::vector<int> axes;
  for (auto window = params.windows.rbegin(); window != params.windows.rend(); ++window) {
    if (window->position != params.chunk_axis) axes.push_back(window->position);
  }
  return axes;
}

/// What of all values before the reductions varies within a chunk.
bool varies(const Loops& loops, const StencilParams& params, StencilRole role) {
  for (std::size_t i = 0; i < params.roles.size(); ++i) {
    if (params.roles[i] == role && ((loops.values[i].axes >> params.chunk_axis) & 1u) != 0) return true;
  }
  return false;
}

/// How a load of the windows reaches a row along which elements lie side by side.
AccessPlan plan_row(const Problem& problem, const StencilBlocks& blocks, const StencilParams& params, ValueId id) {
  const Value& load = blocks.loops().values[id];
  const int bytes = size_of(problem.graph.node(load.node).type.dtype);
  const auto last = static_cast<int>(params.windows.size()) - 1;
  if (index::stride_of(load.offset, kWindowAxis + last) == 1) {
    for (int vector = problem.tuning.vector_bytes.value_or(16); vector >= 4; vector /= 2) {
      if (blocks.row_vectors(load, vector / bytes)) return {AccessKind::vector, vector};
    }
    if (bytes == 2) return {AccessKind::unaligned, 4};
  }
  return {AccessKind::element, 4};
}

void plan_loads(const Problem& problem, const StencilBlocks& blocks, Schedule& schedule) {
  const auto& params = schedule.as<StencilParams>();
  plan_accesses(problem.graph, blocks.loops(), problem.tuning, schedule);
  for (ValueId id = 0; id < params.roles.size(); ++id) {
    if (problem.loops.values[id].kind != Value::Kind::load) continue;
    const StencilRole role = params.roles[id];
    if (role == StencilRole::window && params.along_window) {
      schedule.loads[id] = plan_row(problem, blocks, params, id);
    } else if (role == StencilRole::fixed || (role == StencilRole::weight && params.keeps_weights)) {
      if (schedule.loads[id].kind == AccessKind::vector) schedule.loads[id] = {AccessKind::element, 4};
    }
  }
  share_word_types(problem.graph, blocks.loops(), schedule);
}

int estimate_registers(const Problem& problem, const StencilBlocks& blocks, const Schedule& schedule) {
  const auto& params = schedule.as<StencilParams>();
  const StencilCounts counts = counts_of(blocks, params);
  const std::int64_t run = params.along_window ? 1 : schedule.chunk_size;
  std::int64_t words = 24;
  for (std::size_t i = 0; i < params.roles.size(); ++i) {
    const Value& value = problem.loops.values[i];
    if (value.kind == Value::Kind::reduction) words += counts.volume;
    if (value.kind != Value::Kind::load) continue;
    if (params.roles[i] == StencilRole::window) words += counts.row * run * 3 / 2;
    if (params.roles[i] == StencilRole::weight) words += params.keeps_weights ? counts.taps : run;
    if (params.roles[i] == StencilRole::result)
      words += schedule.loads[i].kind == AccessKind::vector ? schedule.chunk_size : 1;
  }
  const double moved = device_model(problem.target).registers.of_moved_load *
                       static_cast<double>(unrolled_window_loads(problem, blocks, schedule));
  return static_cast<int>(std::min<std::int64_t>(words + static_cast<std::int64_t>(moved), 4096));
}

/// Threads of a workgroup: few enough to give all units some.
int choose_workgroup(const Problem& problem, const Schedule& schedule) {
  const Target& target = problem.target;
  const int limit = static_cast<int>(usable_invocations(target.caps));
  int workgroup = std::min(problem.tuning.workgroup.value_or(128), limit);
  if (problem.tuning.workgroup) return workgroup;
  while (workgroup > 32 && overfills_registers(target, schedule.cost.registers, workgroup)) workgroup /= 2;
  const double units = device_model(target).units.count;
  while (workgroup > 32 && static_cast<double>(ceil_div(schedule.launch.chunks, workgroup)) < units) workgroup /= 2;
  return workgroup;
}

void place_blocks(const Target& target, Schedule& schedule) {
  schedule.launch.workgroups = ceil_div(schedule.launch.chunks, schedule.workgroup);
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, target.caps.workgroup.max_groups_per_axis);
}

/// Whether what is read of chunks of the windows one by one is more than a driver compiles: each has a condition for
/// its position.
bool has_too_many_conditions(const Problem& problem, const StencilBlocks& blocks, const Schedule& schedule) {
  const auto& params = schedule.as<StencilParams>();
  if (params.along_window) return false;
  const auto most = static_cast<std::int64_t>(device_model(problem.target).stencil.predicated_loads);
  for (std::size_t i = 0; i < params.roles.size(); ++i) {
    const bool is_read = params.roles[i] == StencilRole::window && problem.loops.values[i].kind == Value::Kind::load;
    if (is_read && schedule.loads[i].kind == AccessKind::element)
      return unrolled_window_loads(problem, blocks, schedule) > most;
  }
  return false;
}

/// Whether what a block computes of the elements of its windows is more than a CPU's driver compiles: SwiftShader takes
/// a third of a second for a sigmoid of 34 elements, in multiply-adds 510, and does not end with two, 1020.
bool computes_too_much(const Problem& problem, const Schedule& schedule, const StencilCounts& counts) {
  constexpr double kMostComputed = 1000;
  const auto& params = schedule.as<StencilParams>();
  if (problem.target.type != DeviceType::cpu || counts.volume == 1) return false;
  std::vector<ValueId> computed;
  for (ValueId id = 0; id < params.roles.size(); ++id) {
    if (params.roles[id] == StencilRole::window) computed.push_back(id);
  }
  const std::int64_t elements = counts.rows * counts.row * (params.along_window ? 1 : schedule.chunk_size);
  return static_cast<double>(elements) * cost_of(problem.graph, problem.loops, computed) > kMostComputed;
}

bool fits(const Problem& problem, const StencilBlocks& blocks, const Schedule& schedule) {
  const auto& params = schedule.as<StencilParams>();
  if (has_too_many_conditions(problem, blocks, schedule)) return false;
  const StencilCounts counts = counts_of(blocks, params);
  if (computes_too_much(problem, schedule, counts)) return false;
  if (params.has_row && counts.row * (params.along_window ? 1 : schedule.chunk_size) > kMostKept) return false;
  if (counts.unrolled > most_unrolled(problem.target) && counts.volume > 1) return false;
  if (problem.tuning.stencil || (counts.volume == schedule.chunk_size && counts.volume <= 4)) return true;
  return problem.target.caps.registers.per_thread == kUnknownRegistersPerThread
             ? schedule.cost.registers <= kRegistersOfBlock
             : registers_over(problem.target, schedule.cost.registers) == 0;
}

/// The block's extents; false where axes are shorter, or where there are no such axes.
bool extend_block(const Loops& loops, const StencilShape& shape, StencilParams& params) {
  params.extents.assign(loops.axes.size(), 1);
  const auto extend = [&](int axis, int extent) {
    if (extent > size_of_axis(loops, axis)) return false;
    params.extents[static_cast<std::size_t>(axis)] = extent;
    return true;
  };
  if (!extend(params.chunk_axis, shape.elements)) return false;
  const std::vector<int> rows = axes_of_rows(params);
  const int extents[] = {shape.rows, shape.planes};
  for (std::size_t i = 0; i < std::size(extents); ++i) {
    if (extents[i] == 1) continue;
    if (i >= rows.size() || !extend(rows[i], extents[i])) return false;
  }
  return true;
}

/// What of the window, and which weights, lie in registers.
void choose_registers(const Loops& loops, const StencilBlocks& blocks, StencilParams& params) {
  const std::size_t last = params.windows.size() - 1;
  const std::int64_t chunk = blocks.extent(params.chunk_axis);
  params.has_row = params.along_window || (blocks.extent(params.windows[last].position) > 1 &&
                                           blocks.window_extent(last) * chunk <= kMostKept);
  std::int64_t taps = 1;
  for (std::size_t w = 0; w <= last; ++w) taps *= blocks.taps(w);
  // Only unrolled loops tell registers apart.
  const bool unrolled = counts_of(blocks, params).unrolled == block_volume(params) * taps;
  params.keeps_weights = unrolled && taps <= kMostKept && !varies(loops, params, StencilRole::weight);
}

/// The schedule with blocks of that shape, and workgroups of so many threads unless they are to be chosen; nothing
/// where it is none.
std::optional<Schedule> with_blocks_of(const StencilShape& shape, const StencilParams& matched, const Problem& problem,
                                       std::optional<int> workgroup = std::nullopt) {
  Schedule schedule;
  StencilParams& params = schedule.params.emplace<StencilParams>(matched);
  if (!extend_block(problem.loops, shape, params)) return std::nullopt;
  const StencilBlocks blocks(problem.loops, params);
  choose_registers(problem.loops, blocks, params);
  schedule.chunk_size = shape.elements;
  schedule.full_chunks = true;
  schedule.reads_of_others = true;  // and a result may be computed twice
  schedule.vector_axis = shape.elements > 1 ? blocks.local_axis(params.chunk_axis) : params.chunk_axis;
  schedule.launch.elements = problem.loops.parallel_count();
  schedule.wide = problem.loops.count() >= (std::int64_t{1} << 31);
  plan_loads(problem, blocks, schedule);
  schedule.cost.registers = estimate_registers(problem, blocks, schedule);
  schedule.launch.chunks = blocks.count();
  schedule.workgroup = workgroup ? *workgroup : choose_workgroup(problem, schedule);
  place_blocks(problem.target, schedule);
  if (!fits(problem, blocks, schedule)) return std::nullopt;
  const StencilCounts counts = counts_of(blocks, params);
  if (!check_limits(problem.graph, problem.loops, problem.target, schedule, 4 * counts.taps * counts.volume).ok())
    return std::nullopt;
  model_stencil(problem, blocks, schedule);
  return schedule;
}

/// Whether windows of neighbouring results have elements in common and no weights, as those of most pools.
bool pools(const Loops& loops, const StencilParams& params) {
  if (std::ranges::find(params.roles, StencilRole::weight) != params.roles.end()) return false;
  return std::ranges::any_of(params.windows, [&](const WindowAxis& window) {
    return window.step <= window.dilation * (size_of_axis(loops, window.tap) - 1);
  });
}

/// Better of two. Pools that are modelled alike are faster on a GPU with the fewest registers, as more threads wait for
/// memory at a time (bench/results/h200-pools.txt); with weights, which blocks share, they are not.
bool is_better(const Schedule& one, const Schedule& best, double fastest_us, bool counts_registers) {
  constexpr double kAlike = 1.02;
  const bool are_alike = std::max(one.cost.modelled_us, best.cost.modelled_us) <= kAlike * fastest_us;
  if (counts_registers && are_alike && one.cost.registers != best.cost.registers)
    return one.cost.registers < best.cost.registers;
  return one.cost.modelled_us < best.cost.modelled_us;
}

}  // namespace

std::optional<Schedule> best_stencil(const Problem& problem) {
  auto matched = match_stencil(problem.graph, problem.loops);
  if (!matched || !choose_chunk_axis(problem.loops, *matched)) return std::nullopt;
  if (problem.tuning.stencil) {
    auto asked = with_blocks_of(*problem.tuning.stencil, *matched, problem);
    if (asked) return asked;
  }
  std::vector<Schedule> all;
  for (int elements : {16, 8, 4, 2, 1}) {
    for (int rows : {1, 2, 4, 7, 8, 14}) {
      if (rows > device_model(problem.target).stencil.rows) continue;
      for (int planes : {1, 2, 4}) {
        if (auto one = with_blocks_of({elements, rows, planes}, *matched, problem)) all.push_back(*std::move(one));
      }
    }
  }
  if (all.empty()) return std::nullopt;
  double fastest_us = all.front().cost.modelled_us;
  for (const Schedule& one : all) fastest_us = std::min(fastest_us, one.cost.modelled_us);
  const bool counts_registers = problem.target.type != DeviceType::cpu && pools(problem.loops, *matched);
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (is_better(all[i], all[best], fastest_us, counts_registers)) best = i;
  }
  return std::move(all[best]);
}

std::optional<Schedule> stencil_at_other_sizes(const Problem& problem, const Schedule& requested) {
  const auto& params = requested.as<StencilParams>();
  auto matched = match_stencil(problem.graph, problem.loops);
  if (!matched || !choose_chunk_axis(problem.loops, *matched) || matched->chunk_axis != params.chunk_axis ||
      matched->windows != params.windows || matched->serial != params.serial || matched->roles != params.roles)
    return std::nullopt;
  StencilShape shape{requested.chunk_size, 1, 1};
  const std::vector<int> rows = axes_of_rows(params);
  if (!rows.empty()) shape.rows = static_cast<int>(params.extents[static_cast<std::size_t>(rows[0])]);
  if (rows.size() > 1) shape.planes = static_cast<int>(params.extents[static_cast<std::size_t>(rows[1])]);
  auto schedule = with_blocks_of(shape, *matched, problem, requested.workgroup);
  if (!schedule || !serve(*schedule, requested)) return std::nullopt;
  const auto& own = schedule->as<StencilParams>();
  if (own.has_row != params.has_row || own.keeps_weights != params.keeps_weights || schedule->wide != requested.wide)
    return std::nullopt;
  return schedule;
}

void describe_stencil(const Schedule& schedule, Description& description) {
  const auto& params = schedule.as<StencilParams>();
  description.choices["block"] = params.extents;
  description.choices["row_in_registers"] = params.has_row;
  description.choices["weights_in_registers"] = params.keeps_weights;
  description.launch = fmt::format("{} workgroups of {}, blocks of [{}] results per thread", schedule.launch.workgroups,
                                   schedule.workgroup, fmt::join(params.extents, ", "));
}

}  // namespace vkfuse::schedule
