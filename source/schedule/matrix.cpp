// The matrix template: sums over k of products of a factor at (m, k) and one at (n, k), as a matrix product has
// them. A workgroup owns a tile of m and n. Both factors are computed as they are read, from whatever they are
// made of, and cross shared memory, where every element is read by many lanes.
#include <algorithm>
#include <bit>
#include <set>

#include "schedule/access.hpp"

namespace vkfuse::schedule {

using segment::AxisSet;
using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

/// From large to small: workgroup m, n, k, lane m, n.
constexpr TileShape kGpuShapes[] = {{128, 128, 16, 8, 8}, {64, 128, 16, 4, 8}, {128, 64, 16, 8, 4}, {64, 64, 16, 4, 4}, {32, 64, 32, 4, 4},
                                    {64, 32, 32, 4, 4},   {32, 32, 32, 4, 4},  {16, 128, 32, 4, 4}, {128, 16, 32, 4, 4}, {16, 64, 32, 4, 4}};
constexpr TileShape kCpuShapes[] = {{64, 64, 32, 8, 8}, {32, 64, 32, 8, 8}, {32, 32, 32, 4, 4}, {16, 32, 32, 4, 4}, {32, 16, 32, 4, 4}};

/// What an H200 has; a device with less is as well served by as many tiles.
constexpr double kProcessors = 132;
/// Caches hand out what several tiles read some times faster than memory does.
constexpr double kCacheSpeed = 4;
constexpr int kPadding = 16;  ///< bytes between rows of a tile in shared memory

std::vector<int> axes_in(const Loops& loops, AxisSet set) {
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(loops.axes.size()); ++axis) {
    if (((set >> axis) & 1u) != 0) axes.push_back(axis);
  }
  return axes;
}

/// Whether the lane type of a fold's operands has vectors of four 32-bit registers.
bool has_vectors(DType dtype) {
  const ops::Lane lane = ops::lane_of(dtype);
  return lane == ops::Lane::f32 || lane == ops::Lane::i32 || lane == ops::Lane::u32;
}

/// Whether the fold adds up products that nobody else reads.
bool sums_products(const ir::Graph& graph, const Loops& loops, const Value& fold) {
  const ops::Fold& how = graph.node(fold.node).op->fold;
  const Value& product = loops.values[fold.operands[0]];
  if (how.kind != ops::Fold::Kind::plain || how.join != "add" || fold.online != Value::Online::no) return false;
  if (product.kind != Value::Kind::compute || !ops::element_row(*graph.node(product.node).op).is_product) return false;
  int readers = 0;
  for (const Value& value : loops.values) readers += static_cast<int>(std::count(value.operands.begin(), value.operands.end(), fold.operands[0]));
  for (const segment::Store& store : loops.stores) readers += store.value == fold.operands[0] ? 1 : 0;
  return readers == 1 && has_vectors(graph.node(product.node).type.dtype) && size_of(graph.node(product.node).type.dtype) <= 4;
}

/// The sets of axes, the factors and the sums; nothing where the loops are no such thing.
std::optional<MatrixTile> pose(const ir::Graph& graph, const Loops& loops) {
  const AxisSet columns = loops.columns();
  const AxisSet rows = ((AxisSet{1} << loops.axes.size()) - 1) & ~columns;
  if (loops.keys() != 0 || loops.passes != 1) return std::nullopt;
  MatrixTile tile;
  AxisSet m = 0;
  AxisSet n = 0;
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
    if (!sums_products(graph, loops, fold)) return std::nullopt;
    std::vector<ValueId> factors = loops.values[fold.operands[0]].operands;
    const auto own = [&](int i) { return loops.values[factors[static_cast<std::size_t>(i)]].axes & rows; };
    if (m == 0) {
      m = own(0) & ~own(1);
      n = own(1) & ~own(0);
      if (m == 0 || n == 0) return std::nullopt;
      // Lanes beside each other store elements beside each other: n has the innermost axis of what is stored.
      const std::vector<int> order = loops.stores.empty() ? std::vector<int>() : memory_order(loops, loops.stores.front().offset);
      const int last = order.empty() ? static_cast<int>(std::bit_width(rows)) - 1 : order.front();
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
  for (const segment::Store& store : loops.stores) {
    if ((store.axes & columns) != 0) return std::nullopt;
  }
  tile.m = axes_in(loops, m);
  tile.n = axes_in(loops, n);
  tile.k = axes_in(loops, columns);
  tile.batch = axes_in(loops, rows & ~m & ~n);
  return tile;
}

/// What lies side by side along an axis, of the loads of a cone: bytes, and the widest item.
struct Along {
  double bytes = 0;
  int elements = 1;
};

Along along(const ir::Graph& graph, const Loops& loops, std::span<const ValueId> cone, int axis, const Tuning& tuning) {
  Along result;
  int smallest = 16;
  std::int64_t alignment = 16;
  const std::int64_t size = loops.axes[static_cast<std::size_t>(axis)].size;
  for (ValueId id : cone) {
    const Value& load = loops.values[id];
    if (load.kind != Value::Kind::load || index::stride_of(load.offset, axis) != 1) continue;
    const int bytes = size_of(graph.node(load.node).type.dtype);
    result.bytes += static_cast<double>(segment::elements_touched(loops, load)) * bytes;
    smallest = std::min(smallest, bytes);
    for (int count = 16; count >= 1; count /= 2) {
      const auto run = size % count == 0 ? index::run_along(load.offset, axis, size, count, 16) : std::nullopt;
      if (!run || (count > 1 && (run->stride != 1 || run->alignment < count))) continue;
      alignment = std::min<std::int64_t>(alignment, count);
      break;
    }
  }
  if (result.bytes == 0) return result;
  result.elements = static_cast<int>(std::min<std::int64_t>(std::min(tuning.vector_bytes.value_or(16) / smallest, 8), alignment));
  return result;
}

void choose_vectors(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, MatrixTile& tile) {
  for (Factor& factor : tile.factors) {
    const std::vector<ValueId> cone = cone_of(loops, factor.value);
    const Along k = along(graph, loops, cone, tile.k.back(), tuning);
    const Along other = along(graph, loops, cone, factor.second ? tile.n.back() : tile.m.back(), tuning);
    factor.along_k = k.bytes >= other.bytes;
    factor.elements = std::max(1, factor.along_k ? k.elements : other.elements);
  }
  const std::int64_t size = loops.axes[static_cast<std::size_t>(tile.n.back())].size;
  tile.elements = 4;
  while (size % tile.elements != 0) tile.elements /= 2;
}

/// The accesses of the values that are computed for items along one axis.
void plan_part(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, std::span<const ValueId> values, int axis, int elements,
               const Schedule& schedule, std::vector<AccessPlan>& loads, std::vector<bool>& planned, std::vector<AccessPlan>* stores) {
  Schedule part = schedule;
  part.vector_axis = axis;
  part.elements_per_item = elements;
  part.exact = true;
  plan_accesses(graph, loops, tuning, part);
  for (ValueId id : values) {
    if (loops.values[id].kind != Value::Kind::load) continue;
    AccessPlan plan = part.loads[id];
    // Two parts that read one value each have it element by element.
    if (planned[id]) plan = {AccessKind::element, std::max(4, size_of(graph.node(loops.values[id].node).type.dtype))};
    loads[id] = plan;
    planned[id] = true;
  }
  if (stores != nullptr) *stores = part.stores;
}

void plan_all(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, Schedule& schedule) {
  const MatrixTile& tile = schedule.matrix;
  std::vector<AccessPlan> loads(loops.values.size());
  std::vector<bool> planned(loops.values.size(), false);
  for (const Factor& factor : tile.factors) {
    const int axis = factor.along_k ? tile.k.back() : factor.second ? tile.n.back() : tile.m.back();
    plan_part(graph, loops, tuning, cone_of(loops, factor.value), axis, factor.elements, schedule, loads, planned, nullptr);
  }
  std::set<ValueId> last;
  for (const segment::Store& store : loops.stores) {
    for (ValueId id : cone_of(loops, store.value)) last.insert(id);
  }
  const std::vector<ValueId> results(last.begin(), last.end());
  std::vector<AccessPlan> stores;
  plan_part(graph, loops, tuning, results, tile.n.back(), tile.elements, schedule, loads, planned, &stores);
  schedule.loads = std::move(loads);
  schedule.stores = std::move(stores);
  share_word_types(graph, loops, schedule);
}

double cost_of(const ir::Graph& graph, const Loops& loops, std::span<const ValueId> values) {
  double cost = 0;
  for (ValueId id : values) {
    if (loops.values[id].kind == Value::Kind::compute) cost += static_cast<double>(graph.node(loops.values[id].node).op->cost);
  }
  return cost;
}

std::int64_t shared_bytes(const MatrixTile& tile) {
  std::int64_t bytes = 0;
  for (const Factor& factor : tile.factors) bytes += std::int64_t{4 * (factor.second ? tile.shape.n : tile.shape.m) + kPadding} * tile.shape.k;
  return bytes;
}

void model(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule) {
  const MatrixTile& tile = schedule.matrix;
  const TileShape& shape = tile.shape;
  const CostModel costs = default_costs(target.type);
  const bool cpu = target.type == DeviceType::cpu;
  count_bytes(graph, loops, schedule);
  const auto batch = static_cast<double>(count_along(loops, tile.batch));
  const auto k = static_cast<double>(count_along(loops, tile.k));
  const double m = static_cast<double>(tile.tiles_m) * shape.m;  // with what stands out at the ends
  const double n = static_cast<double>(tile.tiles_n) * shape.n;
  const auto sums = static_cast<double>(tile.sums.size());
  double traffic = static_cast<double>(schedule.bytes_read + schedule.bytes_written);
  double compute = batch * m * n * k * sums;
  double accesses = 0;
  for (const Factor& factor : tile.factors) {
    const double elements = batch * k * (factor.second ? n * static_cast<double>(tile.tiles_m) : m * static_cast<double>(tile.tiles_n));
    const std::vector<ValueId> cone = cone_of(loops, factor.value);
    compute += elements * cost_of(graph, loops, cone);
    for (ValueId id : cone) {
      const Value& load = loops.values[id];
      if (load.kind != Value::Kind::load) continue;
      const int bytes = size_of(graph.node(load.node).type.dtype);
      const auto instructions_executed = elements / factor.elements * static_cast<double>(instructions(schedule.loads[id], bytes, factor.elements));
      schedule.loads_executed += static_cast<std::int64_t>(instructions_executed);
      schedule.transactions += static_cast<std::int64_t>(elements * bytes / 128);
      traffic += elements * bytes / kCacheSpeed;
    }
    accesses += elements / factor.elements;                                                                            // into shared memory
    accesses += batch * m * n * k / 4 / (factor.second ? shape.lane_m : shape.lane_n) / (cpu ? 1 : 4);  // and out of it
  }
  std::set<ValueId> results;
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    for (ValueId id : cone_of(loops, loops.stores[i].value)) results.insert(id);
    const int bytes = size_of(graph.node(loops.stores[i].node).type.dtype);
    schedule.stores_executed += static_cast<std::int64_t>(batch * m * n / tile.elements) * instructions(schedule.stores[i], bytes, tile.elements);
    schedule.transactions += static_cast<std::int64_t>(batch * m * n * bytes / 128);
  }
  for (ValueId id : results) {
    if (loops.values[id].kind != Value::Kind::load) continue;
    const int bytes = size_of(graph.node(loops.values[id].node).type.dtype);
    schedule.loads_executed += static_cast<std::int64_t>(batch * m * n / tile.elements) * instructions(schedule.loads[id], bytes, tile.elements);
  }
  compute += batch * m * n * cost_of(graph, loops, std::vector<ValueId>(results.begin(), results.end()));
  // Lanes that all compute the whole time; fewer tiles than processors leave some without work, and few
  // registers per lane leave each waiting for its operands.
  const double share = cpu ? 1 : std::min(1.0, static_cast<double>(schedule.workgroups) / kProcessors);
  schedule.registers = 32 + shape.lane_m * shape.lane_n * static_cast<int>(tile.sums.size()) + shape.lane_m + shape.lane_n;
  accesses += static_cast<double>(schedule.loads_executed + schedule.stores_executed);
  schedule.modelled_us = modelled_us(costs, 1, traffic, compute / share, static_cast<std::int64_t>(accesses / share));
}

std::optional<Schedule> with_shape(const ir::Graph& graph, const Loops& loops, const Target& target, const Tuning& tuning, MatrixTile tile,
                                   const TileShape& shape) {
  tile.shape = shape;
  const bool whole = std::all_of(tile.factors.begin(), tile.factors.end(), [&](const Factor& factor) { return shape.k % factor.elements == 0; });
  const auto limit = static_cast<int>(std::min(target.caps.max_invocations, target.caps.max_workgroup_x));
  if (!whole || shape.workgroup() > limit || shared_bytes(tile) > target.caps.shared_memory_bytes) return std::nullopt;
  tile.tiles_m = ceil_div(count_along(loops, tile.m), shape.m);
  tile.tiles_n = ceil_div(count_along(loops, tile.n), shape.n);
  Schedule schedule;
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
  schedule.shared_bytes = shared_bytes(tile);
  schedule.matrix = std::move(tile);
  plan_all(graph, loops, tuning, schedule);
  if (!check_limits(graph, loops, target, schedule).ok()) return std::nullopt;
  model(graph, loops, target, schedule);
  return schedule;
}

}  // namespace

std::int64_t count_along(const Loops& loops, std::span<const int> axes) {
  std::int64_t count = 1;
  for (int axis : axes) count *= loops.axes[static_cast<std::size_t>(axis)].size;
  return count;
}

std::vector<ValueId> cone_of(const Loops& loops, ValueId value) {
  std::set<ValueId> all;
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (loops.values[id].kind == Value::Kind::fold || !all.insert(id).second) continue;
    open.insert(open.end(), loops.values[id].operands.begin(), loops.values[id].operands.end());
    open.insert(open.end(), loops.values[id].data.begin(), loops.values[id].data.end());
  }
  return {all.begin(), all.end()};
}

std::optional<Schedule> best_matrix(const ir::Graph& graph, const Loops& loops, const Target& target, const Tuning& tuning) {
  auto tile = pose(graph, loops);
  if (!tile) return std::nullopt;
  choose_vectors(graph, loops, tuning, *tile);
  if (tuning.tile) return with_shape(graph, loops, target, tuning, *tile, *tuning.tile);
  std::optional<Schedule> best;
  for (const TileShape& shape : target.type == DeviceType::cpu ? std::span<const TileShape>(kCpuShapes) : std::span<const TileShape>(kGpuShapes)) {
    auto one = with_shape(graph, loops, target, tuning, *tile, shape);
    if (one && (!best || one->modelled_us < best->modelled_us)) best = std::move(one);
  }
  return best;
}

}  // namespace vkfuse::schedule
