// The matrix template: sums over k of products of a factor at (m, k) and one at (n, k), as a matrix product has
// them. A workgroup owns a tile of m and n. Both factors are computed as they are read, from whatever they are
// made of, and cross shared memory, where every element is read by many lanes.
#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>

#include "base/numerics.hpp"
#include "schedule/matrix_model.hpp"
#include "schedule/means.hpp"

namespace vkfuse::schedule {

using segment::AxisSet;
using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

/// From large to small: workgroup m, n, k, lane m, n.
constexpr TileShape kGpuShapes[] = {{64, 128, 16, 8, 4}, {128, 64, 16, 8, 4}, {32, 128, 16, 8, 4}, {32, 64, 16, 8, 4},
                                    {64, 64, 16, 4, 4},  {32, 64, 32, 4, 4},  {64, 32, 32, 4, 4},  {32, 32, 32, 4, 4},
                                    {16, 128, 32, 4, 4}, {128, 16, 32, 4, 4}, {16, 64, 32, 4, 4}};
/// Where all of those want more registers than a lane has.
constexpr TileShape kLeanShapes[] = {{64, 32, 16, 4, 4}, {32, 64, 16, 4, 4}, {32, 32, 16, 4, 4},
                                     {16, 32, 16, 4, 4}, {32, 32, 8, 4, 4},  {16, 16, 8, 4, 4}};
constexpr TileShape kCpuShapes[] = {
    {64, 64, 32, 8, 8}, {32, 64, 32, 8, 8}, {32, 32, 32, 4, 4}, {16, 32, 32, 4, 4}, {32, 16, 32, 4, 4}};

/// The same for matrix units of at most 16 x 16 x 16, of which subgroups own parts: what NVIDIA's compiler keeps in
/// registers with 32 lanes, and what was fastest somewhere (bench/results/h200-sweep-tiles.json).
constexpr TileShape kUnitShapes[] = {
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
/// What a lane has at most, of 255: beyond it the sums spill.
constexpr int kMostUnitRegisters = 232;

/// Steps along the sum that a part of it has at least: fewer do not pay for its first loads.
constexpr std::int64_t kFewestSteps = 8;
/// Below so many products on a CPU, lanes have 4 x 4 of them: 8 x 8 take its driver's compiler a tenth of a second
/// longer, which is what they gain in four hundred runs of what is this small.
constexpr double kFewestProductsOfWideLanes = 1 << 20;
constexpr std::int64_t kFarApart = 16;  ///< elements: neighbours in memory that share no sector

/// Whether a lane can fold such values one by one.
bool folds_plainly(const ir::Graph& graph, const Value& fold) {
  const ops::Fold& how = graph.node(fold.node).op->fold;
  return (how.kind == ops::Fold::Kind::plain || how.kind == ops::Fold::Kind::mean) &&
         fold.online == Value::Online::no && has_vectors(graph.node(fold.node).type.dtype);
}

/// What is known of rows beforehand is of m alone, and each lane computes it for some rows.
bool pose_row_values(const ir::Graph& graph, const Loops& loops, AxisSet others, MatrixTile& tile) {
  std::vector<bool> asked(loops.values.size(), false);
  for (const Value& value : loops.values) {
    for (ValueId operand : value.operands) asked[operand] = asked[operand] || !value.beforehand;
  }
  for (const segment::Store& store : loops.stores) asked[store.value] = true;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (!value.beforehand) {
      if (value.kind == Value::Kind::contract) return false;
      continue;
    }
    if ((value.axes & others) != 0 || !has_vectors(graph.node(value.node).type.dtype)) return false;
    if (value.kind == Value::Kind::contract && (!folds_plainly(graph, value) || value.over != loops.inner()))
      return false;
    if (asked[id]) tile.row_values.push_back(id);
  }
  return true;
}

/// Tails fold the innermost axes of n.
bool pose_tails(const ir::Graph& graph, const Loops& loops, MatrixTile& tile) {
  AxisSet over = 0;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (value.kind != Value::Kind::tail) continue;
    if (!folds_plainly(graph, value) || (over != 0 && over != value.over)) return false;
    over = value.over;
    tile.tails.push_back(id);
  }
  if (tile.tails.empty()) return true;
  std::vector<int> inner;
  for (auto axis = tile.n.rbegin(); axis != tile.n.rend() && ((over >> *axis) & 1u) != 0; ++axis)
    inner.insert(inner.begin(), *axis);
  if (inner != axes_in(loops, over)) return false;
  constexpr std::int64_t kLargestBlock = 256;
  const std::int64_t block = count_along(loops, inner);
  if (block % 4 != 0 || block > kLargestBlock || loops.axes[static_cast<std::size_t>(inner.back())].size % 4 != 0)
    return false;
  tile.block = static_cast<int>(block);
  tile.kept = loops.values[tile.tails.front()].operands[0];
  const Value* last = &loops.values[tile.kept];
  while (last->kind == Value::Kind::compute && ops::element_row(*graph.node(last->node).op).name == "cast") {
    tile.kept = last->operands[0];
    last = &loops.values[tile.kept];
  }
  return has_vectors(graph.node(loops.values[tile.kept].node).type.dtype);
}

/// The sets of axes, the factors and the sums; nothing where the loops are no such thing.
std::optional<MatrixTile> pose(const ir::Graph& graph, const Loops& loops) {
  const AxisSet columns = loops.columns();
  const AxisSet rows = ((AxisSet{1} << loops.axes.size()) - 1) & ~columns & ~loops.inner();
  if (loops.keys() != 0 || loops.passes != 1) return std::nullopt;
  MatrixTile tile;
  AxisSet m = 0;
  AxisSet n = 0;
  std::vector<ValueId> others;
  const auto factor = [&](ValueId value, bool second) {
    for (std::size_t i = 0; i < tile.factors.size(); ++i) {
      if (tile.factors[i].value == value && tile.factors[i].second == second) return static_cast<int>(i);
    }
    tile.factors.push_back({value, second, false, 1});
    return static_cast<int>(tile.factors.size()) - 1;
  };
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& fold = loops.values[id];
    if (fold.kind == Value::Kind::scan) return std::nullopt;
    if (fold.kind != Value::Kind::fold) continue;
    if (!sums_own_products(graph, loops, fold)) {
      others.push_back(id);
      continue;
    }
    std::vector<ValueId> factors = loops.values[fold.operands[0]].operands;
    const auto own = [&](int i) { return loops.values[factors[static_cast<std::size_t>(i)]].axes & rows; };
    if (m == 0) {
      m = own(0) & ~own(1);
      n = own(1) & ~own(0);
      if (m == 0 || n == 0) {  // a sum of squares, say
        m = n = 0;
        others.push_back(id);
        continue;
      }
      // Lanes beside each other store elements beside each other: n has the innermost axis of what is stored.
      const std::vector<int> order =
          loops.stores.empty() ? std::vector<int>() : memory_order(loops, loops.stores.front().offset);
      int last = order.empty() ? static_cast<int>(std::bit_width(rows)) - 1 : order.front();
      for (const Value& tail : loops.values) {
        if (tail.kind == Value::Kind::tail)
          last = static_cast<int>(std::bit_width(tail.over)) - 1;  // those of one row are beside each other
      }
      if (((m >> last) & 1u) != 0) std::swap(m, n);
    }
    if ((own(0) & n) != 0) std::swap(factors[0], factors[1]);
    if ((own(0) & n) != 0 || (own(1) & m) != 0) return std::nullopt;
    const auto folded = [&](int i) { return (loops.values[factors[static_cast<std::size_t>(i)]].axes & columns) != 0; };
    if (!folded(0) || !folded(1)) return std::nullopt;
    const int first = factor(factors[0], false);
    tile.sums.push_back({id, first, factor(factors[1], true)});
  }
  if (tile.sums.empty()) return std::nullopt;
  for (ValueId id : others) {
    const Value& fold = loops.values[id];
    const AxisSet own = loops.values[fold.operands[0]].axes;
    if (!folds_plainly(graph, fold) || (own & n) != 0 || (own & columns) == 0) return std::nullopt;
    const auto first =
        std::find_if(tile.factors.begin(), tile.factors.end(), [](const Factor& one) { return !one.second; });
    tile.row_folds.push_back(
        {id, static_cast<int>(first - tile.factors.begin()), sums_in_two_parts(graph, loops, id) ? 2 : 1});
  }
  for (const segment::Store& store : loops.stores) {
    if ((store.axes & columns) != 0) return std::nullopt;
  }
  tile.m = axes_in(loops, m);
  tile.n = axes_in(loops, n);
  tile.k = axes_in(loops, columns);
  tile.batch = axes_in(loops, rows & ~m & ~n);
  if (!pose_row_values(graph, loops, n | columns, tile) || !pose_tails(graph, loops, tile)) return std::nullopt;
  return tile;
}

void choose_vectors(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, MatrixTile& tile) {
  for (Factor& factor : tile.factors) {
    const std::vector<ValueId> cone = cone_of(loops, factor.value);
    const std::vector<int>& own = factor.second ? tile.n : tile.m;
    // What is read in one piece across axes, as the weights of a convolution are, is as good as along one of them.
    struct Choice {
      Along run;
      bool crosses = false;
      std::int64_t size = 1;
    };
    const auto choice = [&](const std::vector<int>& axes) {
      Choice innermost{along(graph, loops, cone, axes.back(), tuning, true), false,
                       loops.axes[static_cast<std::size_t>(axes.back())].size};
      if (axes.size() < 2) return innermost;
      const Loops merged = segment::with_axes_merged(loops, axes, axes.back());
      Choice all{along(graph, merged, cone, axes.back(), tuning, true), true,
                 merged.axes[static_cast<std::size_t>(axes.back())].size};
      return all.run.bytes >= innermost.run.bytes && all.run.elements > innermost.run.elements ? all : innermost;
    };
    const Choice k = choice(tile.k);
    const Choice other = choice(own);
    // Of two that are as good, the longer run: neighbouring lanes read neighbours.
    const auto worth = [&](const Choice& one) { return std::tuple(one.run.bytes, one.run.elements, one.size); };
    factor.along_k = worth(k) >= worth(other);
    const Choice& chosen = factor.along_k ? k : other;
    factor.elements = std::max(1, chosen.run.elements);
    factor.crosses = chosen.crosses;
    if (factor.elements > 1) continue;
    // No two lie side by side, as where a convolution skips positions: neighbours that are near each other share at
    // least what it takes to find them.
    const auto nearest = [&](int axis) {
      std::int64_t stride = kFarApart;
      for (ValueId id : cone) {
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
        return !is_load(id) || shifted_access(graph, loops, loops.values[id], axis, kMost);
      };
      int count = nearest(axis) < kFarApart ? 4 : 1;
      if (std::any_of(cone.begin(), cone.end(), is_load) && std::all_of(cone.begin(), cone.end(), is_read_in_words))
        count = kMost;
      while (loops.axes[static_cast<std::size_t>(axis)].size % count != 0) count /= 2;
      return count;
    };
    const int along_k = neighbours(tile.k.back());
    const int along_own = neighbours(own.back());
    if (along_k == along_own && along_k == 1) continue;
    factor.along_k = std::pair(along_k, -nearest(tile.k.back())) > std::pair(along_own, -nearest(own.back()));
    factor.elements = std::max(along_k, along_own);
    factor.crosses = false;
  }
  // A lane meets the same rows again and again where it reads along them.
  const auto read_along_k = [&](Factor& factor) {
    if (factor.along_k) return;
    factor.along_k = true;
    factor.crosses = false;
    factor.elements = std::max(1, along(graph, loops, cone_of(loops, factor.value), tile.k.back(), tuning).elements);
  };
  for (const MatrixTile::RowFold& fold : tile.row_folds)
    read_along_k(tile.factors[static_cast<std::size_t>(fold.factor)]);
  for (Factor& factor : tile.factors) {
    if (!factor.second && !tile.row_values.empty()) read_along_k(factor);
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
    if (loops.values[id].beforehand) open.push_back(id);
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

/// Accesses of tiles, by what they depend on: how many elements an item of each factor, and of the results, has.
using PlannedAccesses = std::map<std::vector<int>, std::pair<std::vector<AccessPlan>, std::vector<AccessPlan>>>;

void plan_all(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, PlannedAccesses& planned,
              Schedule& schedule) {
  const MatrixTile& tile = schedule.matrix;
  std::vector<int> items{tile.elements};
  for (const Factor& factor : tile.factors) items.push_back(factor.elements);
  const auto known = planned.find(items);
  if (known != planned.end()) {
    std::tie(schedule.loads, schedule.stores) = known->second;
    return;
  }
  PartAccesses accesses(graph, loops, tuning);
  for (const Factor& factor : tile.factors) {
    accesses.add_factor(cone_of_factor(loops, tile, factor),
                        factor.along_k  ? tile.k
                        : factor.second ? tile.n
                                        : tile.m,
                        factor);
  }
  for (ValueId id : values_of_rows(loops)) {
    const ValueId one[] = {id};
    accesses.add(one, -1, 1);
  }
  accesses.add_results(cone_of_results(loops), tile.n.back(), tile.elements);
  accesses.write(schedule);
  planned.emplace(std::move(items), std::pair(schedule.loads, schedule.stores));
}

/// Whether the tile, a subgroup's part of it and the rows of results are made of whole products of the unit; gives the
/// tile the strip that fits.
bool fits_unit(const Target& target, const TileShape& shape, MatrixTile& tile) {
  const auto um = static_cast<int>(tile.unit->m);
  const auto un = static_cast<int>(tile.unit->n);
  if (shape.lane_m % um != 0 || shape.lane_n % un != 0 || shape.k % static_cast<int>(tile.unit->k) != 0 ||
      shape.k % 8 != 0)
    return false;
  if (!tile.tails.empty() && (!std::has_single_bit(static_cast<unsigned>(tile.block)) || tile.block / 4 > shape.lanes))
    return false;
  for (tile.strip = shape.lane_n; tile.strip >= un; tile.strip -= un) {
    if (!tile.tails.empty() && (tile.strip % tile.block != 0 || um * tile.strip / 4 % shape.lanes != 0)) continue;
    if (shape.lane_n % tile.strip == 0 && matrix_shared_bytes(tile) <= target.caps.shared_memory_bytes) return true;
  }
  return false;
}

/// What parts of the sums take in device memory, in fours.
std::int64_t partial_fours(const Loops& loops, const MatrixTile& tile) {
  return static_cast<std::int64_t>(tile.sums.size()) * count_along(loops, tile.batch) * count_along(loops, tile.m) *
         ceil_div(count_along(loops, tile.n), 4);
}

/// Whether sums can be left in parts, of which each has steps of its own: they are words, and nothing else is folded.
bool splits(const ir::Graph& graph, const Loops& loops, const Target& target, const MatrixTile& tile, int parts) {
  const bool words = std::all_of(tile.sums.begin(), tile.sums.end(), [&](const MatrixTile::Sum& sum) {
    return size_of(graph.node(loops.values[sum.fold].node).type.dtype) <= 4;
  });
  const std::int64_t steps = ceil_div(count_along(loops, tile.k), tile.shape.k);
  const bool fits =
      static_cast<std::uint64_t>(16 * parts * partial_fours(loops, tile)) <= target.caps.storage_buffer_range;
  return words && fits && tile.row_folds.empty() && tile.row_values.empty() && tile.tails.empty() && !loops.empty &&
         ceil_div(steps, parts) * (parts - 1) < steps;
}

std::optional<Schedule> with_shape(const ir::Graph& graph, const Loops& loops, const Target& target,
                                   const Tuning& tuning, PlannedAccesses& planned, MatrixTile tile,
                                   const TileShape& shape, int parts = 1) {
  tile.shape = shape;
  if (tile.whole) {
    if (parts > 1 || !has_whole_tiles(graph, loops, target, tile, tuning.matrix_units.value_or(false)))
      return std::nullopt;
    tile.elements = 1;
  }
  // Every lane has something to bring.
  for (Factor& factor : tile.factors) factor.elements = elements_in_tile(factor, shape);
  const bool whole = std::all_of(tile.factors.begin(), tile.factors.end(),
                                 [&](const Factor& factor) { return shape.k % factor.elements == 0; });
  const auto limit = static_cast<int>(usable_invocations(target.caps));
  // What lanes add up from step to step keeps the promise of numerics.hpp.
  for (const MatrixTile::RowFold& fold : tile.row_folds) {
    const int elements = tile.factors[static_cast<std::size_t>(fold.factor)].elements;
    const std::int64_t count = count_along(loops, tile.k);
    if (ceil_div(count, shape.k) + elements + shape.k / elements > longest_sum_chain(count) + 64) return std::nullopt;
  }
  if (tile.unit && !fits_unit(target, shape, tile)) return std::nullopt;
  if (!tile.tails.empty() && shape.n % tile.block != 0) return std::nullopt;
  if (!whole || shape.workgroup() > limit || matrix_shared_bytes(tile) > target.caps.shared_memory_bytes)
    return std::nullopt;
  if (parts > 1 && !splits(graph, loops, target, tile, parts)) return std::nullopt;
  tile.tiles_m = ceil_div(count_along(loops, tile.m), shape.m);
  tile.tiles_n = ceil_div(count_along(loops, tile.n), shape.n);
  Schedule schedule;
  schedule.parts = parts;
  schedule.dispatches = parts > 1 ? 2 : 1;
  schedule.kind = Template::matrix;
  schedule.elements = loops.empty ? 0 : loops.row_count();
  schedule.wide = loops.count() >= (std::int64_t{1} << 31);
  schedule.exact = true;
  schedule.workgroup = shape.workgroup();
  schedule.vector_axis = tile.n.back();
  schedule.elements_per_item = tile.elements;
  schedule.workgroups = loops.empty ? 0 : tile.tiles_m * tile.tiles_n * count_along(loops, tile.batch);
  schedule.items = schedule.workgroups;
  schedule.workgroups_x = std::min<std::int64_t>(schedule.workgroups, target.caps.max_groups_per_axis);
  schedule.shared_bytes = matrix_shared_bytes(tile);
  if (tile.unit) schedule.subgroup = shape.lanes;
  if (parts > 1) schedule.scratch_bytes = 16 * parts * partial_fours(loops, tile);
  schedule.matrix = std::move(tile);
  plan_all(graph, loops, tuning, planned, schedule);
  if (schedule.matrix.whole) schedule.stores[0] = {AccessKind::vector, 16};
  if (!check_limits(graph, loops, target, schedule).ok()) return std::nullopt;
  model_matrix(graph, loops, target, schedule);
  if (schedule.matrix.unit && schedule.registers > kMostUnitRegisters && !tuning.tile && target.type != DeviceType::cpu)
    return std::nullopt;
  return schedule;
}

/// What all factors are for hardware that multiplies many at once: their dtype and that of sums. Sums of bytes are
/// whole numbers, and of so few that none is lost.
std::optional<MatrixKind> kind_of(const ir::Graph& graph, const Loops& loops, const MatrixTile& tile, bool unscaled) {
  std::optional<DType> all;
  for (const Factor& factor : tile.factors) {
    const auto dtype = narrow_dtype(graph, loops, factor.value, unscaled);
    if (!dtype || (all && *all != *dtype)) return std::nullopt;
    all = dtype;
  }
  const auto kind = std::find_if(std::begin(kMatrixKinds), std::end(kMatrixKinds),
                                 [&](const MatrixKind& one) { return all && one.factors == *all; });
  if (kind == std::end(kMatrixKinds)) return std::nullopt;
  const bool bytes = is_integer(*all);
  const bool words = std::all_of(tile.factors.begin(), tile.factors.end(),
                                 [](const Factor& factor) { return factor.elements % 4 == 0; });
  if (bytes && (!words || !tile.row_folds.empty())) return std::nullopt;
  if (*all == DType::bf16 &&
      std::any_of(tile.factors.begin(), tile.factors.end(), [](const Factor& factor) { return factor.elements < 2; }))
    return std::nullopt;
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 15;  // 255 * 255 of them are within 31 bits
  for (const MatrixTile::Sum& sum : tile.sums) {
    const DType type = graph.node(loops.values[sum.fold].node).type.dtype;
    if (is_float(type) ? bytes && count_along(loops, tile.k) > kMostBytes : !bytes) return std::nullopt;
  }
  return *kind;
}

/// The largest product that the device offers for these factors.
std::optional<MatrixShape> unit_for(const Target& target, const Tuning& tuning, const std::optional<MatrixKind>& kind) {
  if (!kind || !target.has(Rung::t4) || !tuning.matrix_units.value_or(target.type != DeviceType::cpu))
    return std::nullopt;
  const auto halves =
      tuning.half_sums && kind->factors == DType::f16 ? matrix_of(target.caps, DType::f16, DType::f16) : std::nullopt;
  return halves ? halves : matrix_of(target.caps, kind->factors, kind->sums);
}

}  // namespace

std::optional<Schedule> matrix_like(const ir::Graph& graph, const Loops& loops, const Target& target,
                                    const Tuning& tuning, const Schedule& wanted) {
  const auto posed = pose(graph, loops);
  const MatrixTile& tile = wanted.matrix;
  const auto same = [](const Factor& a, const Factor& b) { return a.value == b.value && a.second == b.second; };
  if (!posed || posed->batch != tile.batch || posed->m != tile.m || posed->n != tile.n || posed->k != tile.k ||
      posed->sums.size() != tile.sums.size() || posed->row_folds.size() != tile.row_folds.size() ||
      posed->row_values != tile.row_values || posed->tails != tile.tails || posed->block != tile.block ||
      !std::equal(posed->factors.begin(), posed->factors.end(), tile.factors.begin(), tile.factors.end(), same)) {
    return std::nullopt;
  }
  // Items lie within the axes that they lie along.
  const auto fits = [&](const std::vector<int>& axes, bool crosses, int elements) {
    return (crosses ? count_along(loops, axes) : loops.axes[static_cast<std::size_t>(axes.back())].size) % elements ==
           0;
  };
  for (const Factor& factor : tile.factors) {
    if (!fits(factor.along_k ? tile.k : factor.second ? tile.n : tile.m, factor.crosses, factor.elements))
      return std::nullopt;
  }
  if (!fits(tile.n, false, tile.elements)) return std::nullopt;
  if ((tile.dots || tile.unit) && !kind_of(graph, loops, tile, wanted.factors_after_sums)) return std::nullopt;
  PlannedAccesses planned;
  auto schedule = with_shape(graph, loops, target, tuning, planned, tile, tile.shape, wanted.parts);
  if (!schedule || !serve(*schedule, wanted)) return std::nullopt;
  const bool narrower = std::any_of(tile.factors.begin(), tile.factors.end(), [&](const Factor& factor) {
    return schedule->matrix.factors[static_cast<std::size_t>(&factor - tile.factors.data())].elements !=
           factor.elements;
  });
  if (narrower || schedule->matrix.strip != tile.strip) return std::nullopt;
  schedule->loads = wanted.loads;
  schedule->stores = wanted.stores;
  schedule->factors_after_sums = wanted.factors_after_sums;
  schedule->online = wanted.online;
  return schedule;
}

std::vector<ValueId> cone_of_factor(const Loops& loops, const MatrixTile& tile, const Factor& factor) {
  std::set<ValueId> all;
  const auto add = [&](ValueId value) {
    const std::vector<ValueId> cone = cone_of(loops, value);
    all.insert(cone.begin(), cone.end());
  };
  add(factor.value);
  for (const MatrixTile::RowFold& fold : tile.row_folds) {
    if (&tile.factors[static_cast<std::size_t>(fold.factor)] == &factor) add(loops.values[fold.fold].operands[0]);
  }
  return {all.begin(), all.end()};
}

std::optional<Schedule> best_matrix(const ir::Graph& graph, const Loops& loops, const Target& target,
                                    const Tuning& tuning, bool factors_after_sums) {
  auto tile = pose(graph, loops);
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
    const std::int64_t least = ceil_div(steps * iterations_of_step(*tile, shape), target.quirks.leaves_loops_after);
    if (least > 1 && least <= kMostParts)
      return consider(with_shape(graph, loops, target, tuning, planned, *tile, shape, static_cast<int>(least)));
    auto whole = with_shape(graph, loops, target, tuning, planned, *tile, shape);
    if (!whole) return;
    const std::int64_t tiles = whole->workgroups;
    consider(std::move(whole));
    if (tuning.parts || target.type == DeviceType::cpu) return;
    for (const int parts : {2, 3, 4, 6, 8, 12, 16}) {
      if (static_cast<double>(tiles * (parts - 1)) >= 2 * kProcessors || steps < kFewestSteps * parts) break;
      consider(with_shape(graph, loops, target, tuning, planned, *tile, shape, parts));
    }
  };
  const auto kind = kind_of(graph, loops, *tile, factors_after_sums);
  tile->unit = unit_for(target, tuning, kind);
  if (tile->unit) {
    const auto consider_whole = [&](const TileShape& shape) {
      if (shape.lanes != kWholeTile.lanes || shape.m != kWholeTile.m || shape.n != kWholeTile.n ||
          shape.k != kWholeTile.k)
        return;  // of ten shapes that were tried on an H200, the fastest
      MatrixTile whole = *tile;
      whole.whole = true;
      consider(with_shape(graph, loops, target, tuning, planned, std::move(whole), shape));
    };
    for (TileShape shape : kUnitShapes) {
      if (size_of(tile->unit->a) == 1) shape.k *= 2;
      if (tuning.tile) shape = *tuning.tile;
      shape.lanes = static_cast<int>(target.caps.subgroup_size);
      consider_shape(shape);
      if (tuning.tile) {
        consider_whole(shape);
        return best;
      }
    }
    if (target.caps.subgroup_size == 32) consider_whole(kWholeTile);
    if (best && tuning.matrix_units.value_or(false)) return best;
    tile->unit.reset();
  }
  tile->dots = kind && kind->factors == DType::i8 && target.has(Rung::t3) &&
               tuning.dots.value_or(target.caps.dot_product_i8_accelerated);
  const auto deep = [&](TileShape shape) {
    if (tile->dots) shape.k *= 4;
    return shape;
  };
  if (tuning.tile) {
    consider_shape(deep(*tuning.tile));
    return best;
  }
  if (target.type == DeviceType::cpu) {
    const auto along = [&](const std::vector<int>& axes) { return static_cast<double>(count_along(loops, axes)); };
    const bool small =
        along(tile->batch) * along(tile->m) * along(tile->n) * along(tile->k) < kFewestProductsOfWideLanes;
    for (const TileShape& shape : kCpuShapes) {
      if (small && shape.lane_m * shape.lane_n <= 16) consider_shape(deep(shape));
    }
    for (const TileShape& shape : kCpuShapes) {
      if (!best || !small) consider_shape(deep(shape));
    }
  } else {
    for (const TileShape& shape : kGpuShapes) consider_shape(deep(shape));
  }
  for (const TileShape& shape : kLeanShapes) {
    if (best && registers_over(target, best->registers) > 0) consider_shape(deep(shape));
  }
  return best;
}

}  // namespace vkfuse::schedule
