// The matmul template: sums over k of products of an operand at (m, k) and one at (n, k), as a matrix product has
// them. A workgroup owns a tile of m and n. Both operands are computed as they are read, from whatever they are
// made of, and cross shared memory, where every element is read by many threads.
#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>

#include "base/numerics.hpp"
#include "device_model/device_model.hpp"
#include "schedule/matmul_model.hpp"
#include "schedule/means.hpp"

namespace vkfuse::schedule {

using segment::AxisSet;
using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

/// From large to small: workgroup m, n, k, thread m, n.
constexpr TileShape kGpuShapes[] = {{64, 128, 16, 8, 4}, {128, 64, 16, 8, 4}, {32, 128, 16, 8, 4}, {32, 64, 16, 8, 4},
                                    {64, 64, 16, 4, 4},  {32, 64, 32, 4, 4},  {64, 32, 32, 4, 4},  {32, 32, 32, 4, 4},
                                    {16, 128, 32, 4, 4}, {128, 16, 32, 4, 4}, {16, 64, 32, 4, 4}};
/// Where all of those want more registers than a thread has.
constexpr TileShape kLowRegisterShapes[] = {{64, 32, 16, 4, 4}, {32, 64, 16, 4, 4}, {32, 32, 16, 4, 4},
                                            {16, 32, 16, 4, 4}, {32, 32, 8, 4, 4},  {16, 16, 8, 4, 4}};
constexpr TileShape kCpuShapes[] = {
    {64, 64, 32, 8, 8}, {32, 64, 32, 8, 8}, {32, 32, 32, 4, 4}, {16, 32, 32, 4, 4}, {32, 16, 32, 4, 4}};

/// The same for cooperative matrices of at most 16 x 16 x 16, of which subgroups own parts: what NVIDIA's compiler
/// keeps in registers with 32 threads, and what was fastest somewhere (bench/results/h200-sweep-tiles.json).
constexpr TileShape kCooperativeMatrixShapes[] = {
    {128, 128, 32, 64, 64}, {128, 128, 64, 64, 64}, {128, 128, 64, 32, 128}, {128, 128, 64, 64, 32},
    {128, 128, 32, 64, 32}, {128, 256, 32, 64, 64}, {128, 256, 32, 64, 128}, {256, 128, 32, 128, 64},
    {256, 128, 32, 64, 64}, {256, 64, 32, 64, 64},  {128, 64, 32, 64, 32},   {128, 64, 64, 64, 32},
    {128, 64, 32, 32, 32},  {128, 64, 64, 32, 32},  {64, 256, 32, 32, 64},   {64, 128, 32, 32, 64},
    {64, 128, 64, 32, 64},  {64, 128, 32, 32, 32},  {64, 128, 64, 32, 32},   {64, 64, 32, 32, 32},
    {64, 64, 64, 32, 32},   {32, 128, 64, 16, 64},  {32, 64, 64, 16, 32},    {64, 32, 64, 32, 16},
    {32, 32, 64, 16, 16},   {16, 64, 64, 16, 16},   {64, 16, 64, 16, 16},    {32, 32, 32, 16, 16},
    {16, 16, 32, 16, 16}};
/// Of a sum too long for one loop.
constexpr std::int64_t kMostParts = 64;
/// Steps along the sum that a part of it has at least: fewer do not pay for its first loads.
constexpr std::int64_t kFewestSteps = 8;
/// Below so many products on a CPU, threads have 4 x 4 of them: 8 x 8 take its driver's compiler a tenth of a second
/// longer, which is what they gain in four hundred runs of what is this small.
constexpr double kFewestMultipliesOfWideThreads = 1 << 20;
constexpr std::int64_t kFarApart = 16;  ///< elements: neighbours in memory that share no sector

/// Whether a thread can fold such values one by one.
bool reduces_plainly(const ir::Graph& graph, const Value& reduction) {
  const ops::Reduction& how = graph.node(reduction.node).op->reduction;
  return (how.kind == ops::Reduction::Kind::plain || how.kind == ops::Reduction::Kind::mean) &&
         reduction.online == Value::Online::no && has_vectors(graph.node(reduction.node).type.dtype);
}

/// Hoisted values of rows are of m alone, and each thread computes it for some rows.
bool match_row_values(const ir::Graph& graph, const Loops& loops, AxisSet others, MatmulTile& tile) {
  std::vector<bool> asked(loops.values.size(), false);
  for (const Value& value : loops.values) {
    for (ValueId operand : value.operands) asked[operand] = asked[operand] || !value.hoisted;
  }
  for (const segment::Store& store : loops.stores) asked[store.value] = true;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (!value.hoisted) {
      if (value.kind == Value::Kind::nested) return false;
      continue;
    }
    if ((value.axes & others) != 0 || !has_vectors(graph.node(value.node).type.dtype)) return false;
    if (value.kind == Value::Kind::nested && (!reduces_plainly(graph, value) || value.over != loops.inner()))
      return false;
    if (asked[id]) tile.row_values.push_back(id);
  }
  return true;
}

/// Tails fold the innermost axes of n.
bool match_epilogues(const ir::Graph& graph, const Loops& loops, MatmulTile& tile) {
  AxisSet over = 0;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (value.kind != Value::Kind::epilogue) continue;
    if (!reduces_plainly(graph, value) || (over != 0 && over != value.over)) return false;
    over = value.over;
    tile.epilogues.push_back(id);
  }
  if (tile.epilogues.empty()) return true;
  std::vector<int> inner;
  for (auto axis = tile.n.rbegin(); axis != tile.n.rend() && ((over >> *axis) & 1u) != 0; ++axis)
    inner.insert(inner.begin(), *axis);
  if (inner != axes_in(loops, over)) return false;
  constexpr std::int64_t kLargestBlock = 256;
  const std::int64_t block = count_along(loops, inner);
  if (block % 4 != 0 || block > kLargestBlock || loops.axes[static_cast<std::size_t>(inner.back())].size % 4 != 0)
    return false;
  tile.block = static_cast<int>(block);
  tile.kept = loops.values[tile.epilogues.front()].operands[0];
  const Value* last = &loops.values[tile.kept];
  while (last->kind == Value::Kind::compute && ops::element_row(*graph.node(last->node).op).name == "cast") {
    tile.kept = last->operands[0];
    last = &loops.values[tile.kept];
  }
  return has_vectors(graph.node(loops.values[tile.kept].node).type.dtype);
}

/// The sets of axes, the operands and the sums; nothing where the loops are no such thing.
std::optional<MatmulTile> match(const ir::Graph& graph, const Loops& loops) {
  const AxisSet columns = loops.columns();
  const AxisSet rows = ((AxisSet{1} << loops.axes.size()) - 1) & ~columns & ~loops.inner();
  if (loops.keys() != 0 || loops.passes != 1) return std::nullopt;
  MatmulTile tile;
  AxisSet m = 0;
  AxisSet n = 0;
  std::vector<ValueId> others;
  const auto tile_operand = [&](ValueId value, bool second) {
    for (std::size_t i = 0; i < tile.tile_operands.size(); ++i) {
      if (tile.tile_operands[i].value == value && tile.tile_operands[i].second == second) return static_cast<int>(i);
    }
    tile.tile_operands.push_back({value, second, false, 1});
    return static_cast<int>(tile.tile_operands.size()) - 1;
  };
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& reduction = loops.values[id];
    if (reduction.kind == Value::Kind::scan) return std::nullopt;
    if (reduction.kind != Value::Kind::reduction) continue;
    if (!sums_own_products(graph, loops, reduction)) {
      others.push_back(id);
      continue;
    }
    std::vector<ValueId> tile_operands = loops.values[reduction.operands[0]].operands;
    const auto own = [&](int i) { return loops.values[tile_operands[static_cast<std::size_t>(i)]].axes & rows; };
    if (m == 0) {
      m = own(0) & ~own(1);
      n = own(1) & ~own(0);
      if (m == 0 || n == 0) {  // a sum of squares, say
        m = n = 0;
        others.push_back(id);
        continue;
      }
      // Threads beside each other store elements beside each other: n has the innermost axis of what is stored.
      const std::vector<int> order =
          loops.stores.empty() ? std::vector<int>() : memory_order(loops, loops.stores.front().offset);
      int last = order.empty() ? static_cast<int>(std::bit_width(rows)) - 1 : order.front();
      for (const Value& epilogue : loops.values) {
        if (epilogue.kind == Value::Kind::epilogue)
          last = static_cast<int>(std::bit_width(epilogue.over)) - 1;  // those of one row are beside each other
      }
      if (((m >> last) & 1u) != 0) std::swap(m, n);
    }
    if ((own(0) & n) != 0) std::swap(tile_operands[0], tile_operands[1]);
    if ((own(0) & n) != 0 || (own(1) & m) != 0) return std::nullopt;
    const auto reduced = [&](int i) {
      return (loops.values[tile_operands[static_cast<std::size_t>(i)]].axes & columns) != 0;
    };
    if (!reduced(0) || !reduced(1)) return std::nullopt;
    const int first = tile_operand(tile_operands[0], false);
    tile.sums.push_back({id, first, tile_operand(tile_operands[1], true)});
  }
  if (tile.sums.empty()) return std::nullopt;
  for (ValueId id : others) {
    const Value& reduction = loops.values[id];
    const AxisSet own = loops.values[reduction.operands[0]].axes;
    if (!reduces_plainly(graph, reduction) || (own & n) != 0 || (own & columns) == 0) return std::nullopt;
    const auto first = std::find_if(tile.tile_operands.begin(), tile.tile_operands.end(),
                                    [](const TileOperand& one) { return !one.second; });
    tile.row_reductions.push_back(
        {id, static_cast<int>(first - tile.tile_operands.begin()), sums_in_two_parts(graph, loops, id) ? 2 : 1});
  }
  for (const segment::Store& store : loops.stores) {
    if ((store.axes & columns) != 0) return std::nullopt;
  }
  tile.m = axes_in(loops, m);
  tile.n = axes_in(loops, n);
  tile.k = axes_in(loops, columns);
  tile.batch = axes_in(loops, rows & ~m & ~n);
  if (!match_row_values(graph, loops, n | columns, tile) || !match_epilogues(graph, loops, tile)) return std::nullopt;
  return tile;
}

void choose_vectors(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, MatmulTile& tile) {
  for (TileOperand& tile_operand : tile.tile_operands) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, tile_operand.value);
    const std::vector<int>& own = tile_operand.second ? tile.n : tile.m;
    // What is read in one piece across axes, as the weights of a convolution are, is as good as along one of them.
    struct Choice {
      Along run;
      bool flattened = false;
      std::int64_t size = 1;
    };
    const auto choice = [&](const std::vector<int>& axes) {
      Choice innermost{along(graph, loops, backward_slice, axes.back(), tuning, true), false,
                       loops.axes[static_cast<std::size_t>(axes.back())].size};
      if (axes.size() < 2) return innermost;
      const Loops merged = segment::with_axes_merged(loops, axes, axes.back());
      Choice all{along(graph, merged, backward_slice, axes.back(), tuning, true), true,
                 merged.axes[static_cast<std::size_t>(axes.back())].size};
      return all.run.bytes >= innermost.run.bytes && all.run.elements > innermost.run.elements ? all : innermost;
    };
    const Choice k = choice(tile.k);
    const Choice other = choice(own);
    // Of two that are as good, the longer run: neighbouring threads read neighbours.
    const auto worth = [&](const Choice& one) { return std::tuple(one.run.bytes, one.run.elements, one.size); };
    tile_operand.along_k = worth(k) >= worth(other);
    const Choice& chosen = tile_operand.along_k ? k : other;
    tile_operand.elements = std::max(1, chosen.run.elements);
    tile_operand.flattened = chosen.flattened;
    if (tile_operand.elements > 1) continue;
    // No two lie side by side, as where a convolution skips positions: neighbours that are near each other share at
    // least what it takes to find them.
    const auto nearest = [&](int axis) {
      std::int64_t stride = kFarApart;
      for (ValueId id : backward_slice) {
        const Value& load = loops.values[id];
        const auto own_stride = load.kind == Value::Kind::load ? index::stride_of(load.offset, axis) : std::nullopt;
        if (own_stride && *own_stride != 0) stride = std::min(stride, std::abs(*own_stride));
      }
      return stride;
    };
    const auto is_load = [&](ValueId id) { return loops.values[id].kind == Value::Kind::load; };
    const auto neighbours = [&](int axis) {
      constexpr int kMost = 8;
      const auto is_read_in_words = [&](ValueId id) {
        return !is_load(id) || unaligned_access(graph, loops, loops.values[id], axis, kMost);
      };
      int count = nearest(axis) < kFarApart ? 4 : 1;
      if (std::any_of(backward_slice.begin(), backward_slice.end(), is_load) &&
          std::all_of(backward_slice.begin(), backward_slice.end(), is_read_in_words))
        count = kMost;
      while (loops.axes[static_cast<std::size_t>(axis)].size % count != 0) count /= 2;
      return count;
    };
    const int along_k = neighbours(tile.k.back());
    const int along_own = neighbours(own.back());
    if (along_k == along_own && along_k == 1) continue;
    tile_operand.along_k = std::pair(along_k, -nearest(tile.k.back())) > std::pair(along_own, -nearest(own.back()));
    tile_operand.elements = std::max(along_k, along_own);
    tile_operand.flattened = false;
  }
  // A thread meets the same rows again and again where it reads along them.
  const auto read_along_k = [&](TileOperand& tile_operand) {
    if (tile_operand.along_k) return;
    tile_operand.along_k = true;
    tile_operand.flattened = false;
    tile_operand.elements =
        std::max(1, along(graph, loops, backward_slice_of(loops, tile_operand.value), tile.k.back(), tuning).elements);
  };
  for (const MatmulTile::RowReduction& reduction : tile.row_reductions)
    read_along_k(tile.tile_operands[static_cast<std::size_t>(reduction.tile_operand)]);
  for (TileOperand& tile_operand : tile.tile_operands) {
    if (!tile_operand.second && !tile.row_values.empty()) read_along_k(tile_operand);
  }
  const std::int64_t size = loops.axes[static_cast<std::size_t>(tile.n.back())].size;
  tile.elements = 4;
  while (size % tile.elements != 0) tile.elements /= 2;
}

/// What is computed of rows before all else, from the loads on.
std::vector<ValueId> values_of_rows(const Loops& loops) {
  std::set<ValueId> all;
  std::vector<ValueId> open;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    if (loops.values[id].hoisted) open.push_back(id);
  }
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!all.insert(id).second) continue;
    open.insert(open.end(), loops.values[id].operands.begin(), loops.values[id].operands.end());
    open.insert(open.end(), loops.values[id].data.begin(), loops.values[id].data.end());
  }
  return {all.begin(), all.end()};
}

/// Accesses of tiles, by what they depend on: how many elements a chunk of each operand, and of the results, has.
using PlannedAccesses = std::map<std::vector<int>, std::pair<std::vector<AccessPlan>, std::vector<AccessPlan>>>;

void plan_all(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, PlannedAccesses& planned,
              Schedule& schedule) {
  const MatmulTile& tile = schedule.matmul;
  std::vector<int> chunks{tile.elements};
  for (const TileOperand& tile_operand : tile.tile_operands) chunks.push_back(tile_operand.elements);
  const auto known = planned.find(chunks);
  if (known != planned.end()) {
    std::tie(schedule.loads, schedule.stores) = known->second;
    return;
  }
  PartAccesses accesses(graph, loops, tuning);
  for (const TileOperand& tile_operand : tile.tile_operands) {
    accesses.add_tile_operand(backward_slice_of_operand(loops, tile, tile_operand),
                              tile_operand.along_k  ? tile.k
                              : tile_operand.second ? tile.n
                                                    : tile.m,
                              tile_operand);
  }
  for (ValueId id : values_of_rows(loops)) {
    const ValueId one[] = {id};
    accesses.add(one, -1, 1);
  }
  accesses.add_results(backward_slice_of_results(loops), tile.n.back(), tile.elements);
  accesses.write(schedule);
  planned.emplace(std::move(chunks), std::pair(schedule.loads, schedule.stores));
}

/// Whether the tile, a subgroup's part of it and the rows of results are made of whole products of the unit; gives the
/// tile the strip that fits.
bool fits_fragment(const Target& target, const TileShape& shape, MatmulTile& tile) {
  const auto um = static_cast<int>(tile.mma->m);
  const auto un = static_cast<int>(tile.mma->n);
  if (shape.thread_m % um != 0 || shape.thread_n % un != 0 || shape.k % static_cast<int>(tile.mma->k) != 0 ||
      shape.k % 8 != 0)
    return false;
  if (!tile.epilogues.empty() &&
      (!std::has_single_bit(static_cast<unsigned>(tile.block)) || tile.block / 4 > shape.threads))
    return false;
  for (tile.subtile = shape.thread_n; tile.subtile >= un; tile.subtile -= un) {
    if (!tile.epilogues.empty() && (tile.subtile % tile.block != 0 || um * tile.subtile / 4 % shape.threads != 0))
      continue;
    if (shape.thread_n % tile.subtile == 0 && matmul_shared_bytes(tile) <= target.caps.shared_memory_bytes) return true;
  }
  return false;
}

/// What parts of the sums take in device memory, in fours.
std::int64_t partial_vec4s(const Loops& loops, const MatmulTile& tile) {
  return static_cast<std::int64_t>(tile.sums.size()) * count_along(loops, tile.batch) * count_along(loops, tile.m) *
         ceil_div(count_along(loops, tile.n), 4);
}

/// Whether sums can be left in parts, of which each has steps of its own: they are words, and nothing else is reduced.
bool splits(const ir::Graph& graph, const Loops& loops, const Target& target, const MatmulTile& tile, int parts) {
  const bool words = std::all_of(tile.sums.begin(), tile.sums.end(), [&](const MatmulTile::Sum& sum) {
    return size_of(graph.node(loops.values[sum.reduction].node).type.dtype) <= 4;
  });
  const std::int64_t steps = ceil_div(count_along(loops, tile.k), tile.shape.k);
  const bool fits =
      static_cast<std::uint64_t>(16 * parts * partial_vec4s(loops, tile)) <= target.caps.storage_buffer_range;
  return words && fits && tile.row_reductions.empty() && tile.row_values.empty() && tile.epilogues.empty() &&
         !loops.empty && ceil_div(steps, parts) * (parts - 1) < steps;
}

std::optional<Schedule> with_shape(const ir::Graph& graph, const Loops& loops, const Target& target,
                                   const Tuning& tuning, PlannedAccesses& planned, MatmulTile tile,
                                   const TileShape& shape, int parts = 1) {
  tile.shape = shape;
  if (tile.workgroup_scope) {
    if (parts > 1 || !has_workgroup_tiles(graph, loops, target, tile, tuning.cooperative_matrix.value_or(false)))
      return std::nullopt;
    tile.elements = 1;
  }
  // Every thread has something to bring.
  for (TileOperand& tile_operand : tile.tile_operands) tile_operand.elements = elements_in_tile(tile_operand, shape);
  const bool whole = std::all_of(tile.tile_operands.begin(), tile.tile_operands.end(),
                                 [&](const TileOperand& tile_operand) { return shape.k % tile_operand.elements == 0; });
  const auto limit = static_cast<int>(usable_invocations(target.caps));
  // What threads add up from step to step keeps the promise of numerics.hpp.
  for (const MatmulTile::RowReduction& reduction : tile.row_reductions) {
    const int elements = tile.tile_operands[static_cast<std::size_t>(reduction.tile_operand)].elements;
    const std::int64_t count = count_along(loops, tile.k);
    if (ceil_div(count, shape.k) + elements + shape.k / elements > longest_sum_chain(count) + 64) return std::nullopt;
  }
  if (tile.mma && !fits_fragment(target, shape, tile)) return std::nullopt;
  if (!tile.epilogues.empty() && shape.n % tile.block != 0) return std::nullopt;
  if (!whole || shape.workgroup() > limit || matmul_shared_bytes(tile) > target.caps.shared_memory_bytes)
    return std::nullopt;
  if (parts > 1 && !splits(graph, loops, target, tile, parts)) return std::nullopt;
  tile.tiles_m = ceil_div(count_along(loops, tile.m), shape.m);
  tile.tiles_n = ceil_div(count_along(loops, tile.n), shape.n);
  Schedule schedule;
  schedule.parts = parts;
  schedule.dispatches = parts > 1 ? 2 : 1;
  schedule.kind = Template::matmul;
  schedule.elements = loops.empty ? 0 : loops.parallel_count();
  schedule.wide = loops.count() >= (std::int64_t{1} << 31);
  schedule.full_chunks = true;
  schedule.workgroup = shape.workgroup();
  schedule.vector_axis = tile.n.back();
  schedule.chunk_size = tile.elements;
  schedule.workgroups = loops.empty ? 0 : tile.tiles_m * tile.tiles_n * count_along(loops, tile.batch);
  schedule.chunks = schedule.workgroups;
  schedule.workgroups_x = std::min<std::int64_t>(schedule.workgroups, target.caps.max_groups_per_axis);
  schedule.shared_bytes = matmul_shared_bytes(tile);
  if (tile.mma) schedule.subgroup = shape.threads;
  if (parts > 1) schedule.scratch_bytes = 16 * parts * partial_vec4s(loops, tile);
  schedule.matmul = std::move(tile);
  plan_all(graph, loops, tuning, planned, schedule);
  if (schedule.matmul.workgroup_scope) schedule.stores[0] = {AccessKind::vector, 16};
  if (!check_limits(graph, loops, target, schedule).ok()) return std::nullopt;
  model_matmul(graph, loops, target, schedule);
  if (schedule.matmul.mma && schedule.registers > device_model(target).matrices.kernels.matmul_registers &&
      !tuning.tile && target.type != DeviceType::cpu)
    return std::nullopt;
  return schedule;
}

/// What all operands are for hardware that multiplies many at once: their dtype and that of sums. Sums of bytes are
/// whole numbers, and of so few that none is lost.
std::optional<MatrixKind> kind_of(const ir::Graph& graph, const Loops& loops, const MatmulTile& tile, bool unscaled) {
  std::optional<DType> all;
  for (const TileOperand& tile_operand : tile.tile_operands) {
    const auto dtype = sub32_dtype(graph, loops, tile_operand.value, unscaled);
    if (!dtype || (all && *all != *dtype)) return std::nullopt;
    all = dtype;
  }
  const auto kind = std::find_if(std::begin(kMatrixKinds), std::end(kMatrixKinds),
                                 [&](const MatrixKind& one) { return all && one.operands == *all; });
  if (kind == std::end(kMatrixKinds)) return std::nullopt;
  const bool bytes = is_integer(*all);
  const bool words = std::all_of(tile.tile_operands.begin(), tile.tile_operands.end(),
                                 [](const TileOperand& tile_operand) { return tile_operand.elements % 4 == 0; });
  if (bytes && (!words || !tile.row_reductions.empty())) return std::nullopt;
  if (*all == DType::bf16 && std::any_of(tile.tile_operands.begin(), tile.tile_operands.end(),
                                         [](const TileOperand& tile_operand) { return tile_operand.elements < 2; }))
    return std::nullopt;
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 15;  // 255 * 255 of them are within 31 bits
  for (const MatmulTile::Sum& sum : tile.sums) {
    const DType type = graph.node(loops.values[sum.reduction].node).type.dtype;
    if (is_float(type) ? bytes && count_along(loops, tile.k) > kMostBytes : !bytes) return std::nullopt;
  }
  return *kind;
}

/// The largest product that the device offers for these operands.
std::optional<MatrixShape> fragment_for(const Target& target, const Tuning& tuning,
                                        const std::optional<MatrixKind>& kind) {
  if (!kind || !target.has(FeatureTier::cooperative_matrix) ||
      !tuning.cooperative_matrix.value_or(target.type != DeviceType::cpu))
    return std::nullopt;
  const auto halves = tuning.f16_accumulation && kind->operands == DType::f16
                          ? matrix_of(target.caps, DType::f16, DType::f16)
                          : std::nullopt;
  return halves ? halves : matrix_of(target.caps, kind->operands, kind->sums);
}

}  // namespace

std::optional<Schedule> matmul_at_other_sizes(const ir::Graph& graph, const Loops& loops, const Target& target,
                                              const Tuning& tuning, const Schedule& requested) {
  const auto posed = match(graph, loops);
  const MatmulTile& tile = requested.matmul;
  const auto same = [](const TileOperand& a, const TileOperand& b) {
    return a.value == b.value && a.second == b.second;
  };
  if (!posed || posed->batch != tile.batch || posed->m != tile.m || posed->n != tile.n || posed->k != tile.k ||
      posed->sums.size() != tile.sums.size() || posed->row_reductions.size() != tile.row_reductions.size() ||
      posed->row_values != tile.row_values || posed->epilogues != tile.epilogues || posed->block != tile.block ||
      !std::equal(posed->tile_operands.begin(), posed->tile_operands.end(), tile.tile_operands.begin(),
                  tile.tile_operands.end(), same)) {
    return std::nullopt;
  }
  // Chunks lie within the axes that they lie along.
  const auto fits = [&](const std::vector<int>& axes, bool flattened, int elements) {
    return (flattened ? count_along(loops, axes) : loops.axes[static_cast<std::size_t>(axes.back())].size) % elements ==
           0;
  };
  for (const TileOperand& tile_operand : tile.tile_operands) {
    if (!fits(tile_operand.along_k  ? tile.k
              : tile_operand.second ? tile.n
                                    : tile.m,
              tile_operand.flattened, tile_operand.elements))
      return std::nullopt;
  }
  if (!fits(tile.n, false, tile.elements)) return std::nullopt;
  if ((tile.integer_dot || tile.mma) && !kind_of(graph, loops, tile, requested.sunk_scales)) return std::nullopt;
  PlannedAccesses planned;
  auto schedule = with_shape(graph, loops, target, tuning, planned, tile, tile.shape, requested.parts);
  if (!schedule || !serve(*schedule, requested)) return std::nullopt;
  const bool narrower =
      std::any_of(tile.tile_operands.begin(), tile.tile_operands.end(), [&](const TileOperand& tile_operand) {
        return schedule->matmul.tile_operands[static_cast<std::size_t>(&tile_operand - tile.tile_operands.data())]
                   .elements != tile_operand.elements;
      });
  if (narrower || schedule->matmul.subtile != tile.subtile) return std::nullopt;
  schedule->loads = requested.loads;
  schedule->stores = requested.stores;
  schedule->sunk_scales = requested.sunk_scales;
  schedule->online = requested.online;
  return schedule;
}

std::vector<ValueId> backward_slice_of_operand(const Loops& loops, const MatmulTile& tile,
                                               const TileOperand& tile_operand) {
  std::set<ValueId> all;
  const auto add = [&](ValueId value) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, value);
    all.insert(backward_slice.begin(), backward_slice.end());
  };
  add(tile_operand.value);
  for (const MatmulTile::RowReduction& reduction : tile.row_reductions) {
    if (&tile.tile_operands[static_cast<std::size_t>(reduction.tile_operand)] == &tile_operand)
      add(loops.values[reduction.reduction].operands[0]);
  }
  return {all.begin(), all.end()};
}

std::optional<Schedule> best_matmul(const ir::Graph& graph, const Loops& loops, const Target& target,
                                    const Tuning& tuning, bool sunk_scales) {
  auto tile = match(graph, loops);
  if (!tile) return std::nullopt;
  choose_vectors(graph, loops, tuning, *tile);
  PlannedAccesses planned;
  std::optional<Schedule> best;
  const auto consider = [&](std::optional<Schedule> one) {
    // What spills is worse than any model says.
    const auto worth = [&](const Schedule& schedule) {
      return std::pair(registers_over(target, schedule.registers), schedule.modelled_us);
    };
    if (one && (!best || worth(*one) < worth(*best))) best = std::move(one);
  };
  // Where tiles are fewer than what keeps a device busy, several workgroups share one.
  const auto consider_shape = [&](const TileShape& shape) {
    auto forced = tuning.parts.value_or(1) > 1
                      ? with_shape(graph, loops, target, tuning, planned, *tile, shape, *tuning.parts)
                      : std::nullopt;
    if (forced) return consider(std::move(forced));
    const std::int64_t steps = ceil_div(count_along(loops, tile->k), shape.k);
    // Where a driver does not go through as many, also on a CPU.
    const std::int64_t least =
        ceil_div(steps * iterations_of_step(*tile, shape), target.workarounds.leaves_loops_after);
    if (least > 1 && least <= kMostParts)
      return consider(with_shape(graph, loops, target, tuning, planned, *tile, shape, static_cast<int>(least)));
    auto whole = with_shape(graph, loops, target, tuning, planned, *tile, shape);
    if (!whole) return;
    const std::int64_t tiles = whole->workgroups;
    consider(std::move(whole));
    if (tuning.parts || target.type == DeviceType::cpu) return;
    for (const int parts : {2, 3, 4, 6, 8, 12, 16}) {
      if (static_cast<double>(tiles * (parts - 1)) >= 2 * device_model(target).units.count ||
          steps < kFewestSteps * parts)
        break;
      consider(with_shape(graph, loops, target, tuning, planned, *tile, shape, parts));
    }
  };
  const auto kind = kind_of(graph, loops, *tile, sunk_scales);
  tile->mma = fragment_for(target, tuning, kind);
  if (tile->mma) {
    const auto consider_workgroup_scope = [&](const TileShape& shape) {
      if (shape.threads != kWorkgroupTile.threads || shape.m != kWorkgroupTile.m || shape.n != kWorkgroupTile.n ||
          shape.k != kWorkgroupTile.k)
        return;  // of ten shapes that were tried on an H200, the fastest
      MatmulTile of_workgroup = *tile;
      of_workgroup.workgroup_scope = true;
      consider(with_shape(graph, loops, target, tuning, planned, std::move(of_workgroup), shape));
    };
    for (TileShape shape : kCooperativeMatrixShapes) {
      if (size_of(tile->mma->a) == 1) shape.k *= 2;
      if (tuning.tile) shape = *tuning.tile;
      shape.threads = static_cast<int>(target.caps.subgroup_size);
      consider_shape(shape);
      if (tuning.tile) {
        consider_workgroup_scope(shape);
        return best;
      }
    }
    if (target.caps.subgroup_size == 32) consider_workgroup_scope(kWorkgroupTile);
    if (best && tuning.cooperative_matrix.value_or(false)) return best;
    tile->mma.reset();
  }
  tile->integer_dot = kind && kind->operands == DType::i8 && target.has(FeatureTier::dot_product) &&
                      tuning.integer_dot.value_or(target.caps.dot_product_i8_accelerated);
  const auto deep = [&](TileShape shape) {
    if (tile->integer_dot) shape.k *= 4;
    return shape;
  };
  if (tuning.tile) {
    consider_shape(deep(*tuning.tile));
    return best;
  }
  if (target.type == DeviceType::cpu) {
    const auto along = [&](const std::vector<int>& axes) { return static_cast<double>(count_along(loops, axes)); };
    const bool small =
        along(tile->batch) * along(tile->m) * along(tile->n) * along(tile->k) < kFewestMultipliesOfWideThreads;
    for (const TileShape& shape : kCpuShapes) {
      if (small && shape.thread_m * shape.thread_n <= 16) consider_shape(deep(shape));
    }
    for (const TileShape& shape : kCpuShapes) {
      if (!best || !small) consider_shape(deep(shape));
    }
  } else {
    for (const TileShape& shape : kGpuShapes) consider_shape(deep(shape));
  }
  for (const TileShape& shape : kLowRegisterShapes) {
    if (best && registers_over(target, best->registers) > 0) consider_shape(deep(shape));
  }
  return best;
}

}  // namespace vkfuse::schedule
