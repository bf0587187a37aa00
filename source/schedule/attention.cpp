// The attention template: a workgroup owns some rows of m and walks along k in blocks. What has been added up so far is
// rescaled whenever a larger score turns up, so neither scores nor weights are ever stored.
#include <algorithm>
#include <set>

#include "device_model/device_model.hpp"
#include "schedule/matmul_operands.hpp"

namespace vkfuse::schedule {

using segment::AxisSet;
using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

constexpr std::int64_t kMostElements = 256;  // of d and of n: a thread has its share of n in registers

struct ThreadGrid {
  int m, k;
};
constexpr ThreadGrid kThreads[] = {{8, 8}, {8, 4}, {4, 8}, {4, 4}, {2, 4}, {2, 2}, {1, 2}};
/// Where a thread of those wants more registers than it has: more threads share the columns of a row.
constexpr ThreadGrid kLowRegisterThreads[] = {{8, 16}, {4, 16}, {2, 16}, {2, 32}};

bool is_op(const ir::Graph& graph, const Value& value, std::string_view name) {
  return value.kind == Value::Kind::compute && graph.node(value.node).op->name == name;
}

/// The folds: one maximum, the sum of exponentials below it, one contraction.
bool find_reductions(const ir::Graph& graph, const Loops& loops, AttentionTile& tile) {
  int most = 0, total = 0, sums = 0;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (value.kind == Value::Kind::scan || value.kind == Value::Kind::sort) return false;
    if (value.kind == Value::Kind::nested) {
      if (graph.node(value.node).op->cls != ops::OpClass::contraction) return false;
      tile.contract = id;
    }
    if (value.kind != Value::Kind::reduction) continue;
    if (value.online == Value::Online::softmax) {
      tile.total = id;
      ++total;
    } else if (sums_own_products(graph, loops, value)) {
      tile.sum = id;
      ++sums;
    } else if (graph.node(value.node).op->reduction.join == "max" &&
               graph.node(value.node).op->reduction.kind == ops::Reduction::Kind::plain) {
      tile.most = id;
      ++most;
    } else {
      return false;
    }
  }
  return most == 1 && total == 1 && sums == 1 && loops.values[tile.total].partner == tile.most;
}

bool contains(const std::vector<ValueId>& backward_slice, ValueId id) {
  return std::find(backward_slice.begin(), backward_slice.end(), id) != backward_slice.end();
}

/// Whether a value is the exponential times something that is not made of it: what has been added up of such weights is
/// rescaled with the exponential's own factor.
bool scales(const ir::Graph& graph, const Loops& loops, ValueId id, ValueId exponential) {
  if (id == exponential) return true;
  const Value& value = loops.values[id];
  if (value.kind != Value::Kind::compute) return false;
  const ir::Node& node = graph.node(value.node);
  const auto made_of_it = [&](std::size_t k) {
    return contains(backward_slice_of(loops, value.operands[k]), exponential);
  };
  const auto through = [&](std::size_t k) { return scales(graph, loops, value.operands[k], exponential); };
  const std::string_view op = node.op->name;
  if (op == "neg") return through(0);
  if (op == "cast") return is_float(node.type.dtype) && is_float(graph.node(node.operands[0]).type.dtype) && through(0);
  if (op == "mul") return made_of_it(0) ? !made_of_it(1) && through(0) : through(1);
  if (op == "div") return !made_of_it(1) && through(0);
  if (op != "select" || made_of_it(0)) return false;
  if (number_of(graph, loops.values[value.operands[2]]) == 0.0) return through(1);
  return number_of(graph, loops.values[value.operands[1]]) == 0.0 && through(2);
}

/// The exponential of the score less its maximum, which one operand of the products is computed from.
bool find_weight(const ir::Graph& graph, const Loops& loops, AttentionTile& tile) {
  tile.score = loops.values[tile.most].operands[0];
  const Value& product = loops.values[loops.values[tile.sum].operands[0]];
  std::optional<ValueId> weight;
  for (std::size_t side = 0; side < 2; ++side) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, product.operands[side]);
    for (ValueId id : backward_slice) {
      const Value& value = loops.values[id];
      if (!is_op(graph, value, "exp") || !is_op(graph, loops.values[value.operands[0]], "sub")) continue;
      const Value& apart = loops.values[value.operands[0]];
      if (apart.operands[0] != tile.score || apart.operands[1] != tile.most) continue;
      if (weight && *weight != product.operands[side]) return false;
      weight = product.operands[side];
      tile.exponential = id;
      tile.third.value = product.operands[1 - side];
    }
  }
  if (!weight || !scales(graph, loops, *weight, tile.exponential)) return false;
  tile.weight = *weight;
  // Only the exponential waits for the reductions.
  const ValueId stops[] = {tile.exponential};
  const auto waits = [&](ValueId id) {
    const Value& value = loops.values[id];
    return std::any_of(value.operands.begin(), value.operands.end(),
                       [&](ValueId operand) { return loops.values[operand].kind == Value::Kind::reduction; });
  };
  const auto contracts = [&](ValueId id) { return loops.values[id].kind == Value::Kind::nested; };
  for (ValueId root : {tile.weight, tile.third.value}) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, root, stops);
    if (std::any_of(backward_slice.begin(), backward_slice.end(), waits) ||
        std::any_of(backward_slice.begin(), backward_slice.end(), contracts))
      return false;
  }
  const std::vector<ValueId> third = backward_slice_of(loops, tile.third.value);
  return std::find(third.begin(), third.end(), tile.exponential) == third.end() && loops.values[tile.score].level == 0;
}

bool find_axes(const ir::Graph& graph, const Loops& loops, AttentionTile& tile) {
  const AxisSet columns = loops.columns();
  const AxisSet inner = loops.inner();
  const AxisSet all = (AxisSet{1} << loops.axes.size()) - 1;
  const AxisSet rows = all & ~columns & ~inner & ~loops.keys();
  const AxisSet weight = loops.values[tile.weight].axes & rows;
  const AxisSet third = loops.values[tile.third.value].axes & rows;
  const AxisSet n = third & ~weight;
  const AxisSet m = weight & ~third;
  if (loops.keys() != 0 || n == 0 || (loops.values[tile.third.value].axes & columns) == 0) return false;
  tile.batch = axes_in(loops, rows & ~m & ~n);
  tile.m = axes_in(loops, m);
  tile.n = axes_in(loops, n);
  tile.k = axes_in(loops, columns);
  tile.d = axes_in(loops, inner);
  if (count_along(loops, tile.n) > kMostElements || count_along(loops, tile.d) > kMostElements) return false;
  for (const segment::Store& store : loops.stores) {
    if ((store.axes & columns) != 0) return false;
  }
  if (!tile.contract) return inner == 0;
  const Value& product = loops.values[loops.values[*tile.contract].operands[0]];
  const auto reduced = [&](std::size_t side) { return (loops.values[product.operands[side]].axes & columns) != 0; };
  if (reduced(0) == reduced(1) || !has_vectors(graph.node(product.node).type.dtype) ||
      !is_float(graph.node(product.node).type.dtype))
    return false;
  tile.first.value = product.operands[reduced(0) ? 1 : 0];
  tile.second.value = product.operands[reduced(0) ? 0 : 1];
  const std::vector<ValueId> backward_slice = backward_slice_of(loops, tile.score);
  return std::find(backward_slice.begin(), backward_slice.end(), *tile.contract) != backward_slice.end() &&
         (loops.values[tile.first.value].axes & n) == 0 && (loops.values[tile.second.value].axes & (n | m)) == 0;
}

void choose_vectors(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, AttentionTile& tile) {
  const auto choose = [&](AttentionTile::Side& side, const std::vector<int>& depth, const std::vector<int>& across) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, side.value);
    const auto wide = [&](const std::vector<int>& axes) {
      return axes.empty() ? Along() : along(graph, loops, backward_slice, axes.back(), tuning);
    };
    const Along deep = wide(depth);
    const Along wise = wide(across);
    side.along_k = deep.bytes >= wise.bytes;
    side.elements = std::max(1, side.along_k ? deep.elements : wise.elements);
  };
  if (tile.contract) {
    choose(tile.first, tile.d, tile.m);
    choose(tile.second, tile.d, tile.k);
  }
  choose(tile.third, tile.k, tile.n);
  tile.elements = 4;
  while (loops.axes[static_cast<std::size_t>(tile.n.back())].size % tile.elements != 0) tile.elements /= 2;
}

int round_up(std::int64_t n, int to) { return static_cast<int>(ceil_div(n, to)) * to; }

/// Words of 16 bytes of an operand's tile of 16-bit elements.
std::int64_t words_of(const AttentionTile::Side& side, int across, int deep) {
  const int rows = side.along_k ? across : deep;
  return std::int64_t{rows} * ((side.along_k ? deep : across) * 2 + kBytesBetweenRows) / 16;
}

/// One array serves the first operand, then the others, then the results.
std::int64_t fragment_words(const Loops& loops, const AttentionTile& tile) {
  const int d = tile.contract ? tile.extent_d(loops) : 0;
  const auto um = static_cast<int>(tile.mma->m);
  const std::int64_t first = tile.contract ? words_of(tile.first, tile.tile_m(), d) : 0;
  const std::int64_t others = (tile.contract ? words_of(tile.second, tile.tile_k(), d) : 0) +
                              words_of(tile.third, tile.extent_n(loops), tile.tile_k());
  const std::int64_t results =
      std::int64_t{tile.subgroups} * um * (tile.subtile / 4 + 1 + static_cast<int>(tile.mma->n) / 2);
  return std::max({first, others, results});
}

std::int64_t shared_bytes(const Loops& loops, const AttentionTile& tile) {
  if (tile.mma) return 16 * fragment_words(loops, tile);
  const std::int64_t d = tile.contract ? count_along(loops, tile.d) : 0;
  const std::int64_t n = round_up(count_along(loops, tile.n), 4 * tile.threads_k);
  const std::int64_t first = d * (tile.threads_m + 1);
  const std::int64_t others = std::max(d * (tile.threads_k + 1), tile.tile_k() * (n / 4 + 1));
  const std::int64_t weights = std::int64_t{tile.tile_k()} * (tile.threads_m + 1);
  const std::int64_t known = tile.low_register ? 8 : 0;  // of a thread
  return 16 * (first + others + weights) + 4 * tile.threads_k * tile.tile_m() +
         4 * known * tile.threads_m * tile.threads_k;
}

void plan_all(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, Schedule& schedule) {
  const AttentionTile& tile = schedule.attention;
  PartAccesses accesses(graph, loops, tuning);
  const auto add = [&](const AttentionTile::Side& side, const std::vector<int>& depth, const std::vector<int>& across) {
    const std::vector<int>& axes = side.along_k ? depth : across;
    accesses.add(backward_slice_of(loops, side.value), axes.empty() ? -1 : axes.back(), side.elements);
  };
  std::vector<ValueId> stops;
  if (tile.contract) {
    add(tile.first, tile.d, tile.m);
    add(tile.second, tile.d, tile.k);
    stops.push_back(*tile.contract);
  }
  add(tile.third, tile.k, tile.n);
  accesses.add(backward_slice_of(loops, tile.score, stops), tile.k.back(), 1);
  const ValueId from[] = {tile.exponential};
  accesses.add(backward_slice_of(loops, tile.weight, from), tile.k.back(), 1);
  accesses.add_results(backward_slice_of_results(loops), tile.n.back(), tile.elements);
  accesses.write(schedule);
}

/// Of the blocks of k, those that some row's mask leaves: the mean over tiles of m, or over some of them.
double visited_share(const Loops& loops, const AttentionTile& tile) {
  if (tile.mask_upper_bounds.empty() && tile.mask_lower_bounds.empty()) return 1;
  const std::int64_t tiles = ceil_div(count_along(loops, tile.m), tile.tile_m());
  const double all = static_cast<double>(ceil_div(count_along(loops, tile.k), tile.tile_k()));
  constexpr std::int64_t kSamples = 64;
  const std::int64_t samples = std::min(tiles, kSamples);
  double visited = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    const Blocks blocks = blocks_of(loops, tile, i * tiles / samples);
    visited += static_cast<double>(std::max<std::int64_t>(0, blocks.end - blocks.begin));
  }
  return std::max(visited / all / static_cast<double>(samples), 1 / all);
}

void model(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule) {
  const AttentionTile& tile = schedule.attention;
  const CostModel costs = costs_of(target);
  const DeviceModel& model = device_model(target);
  const bool cpu = target.type == DeviceType::cpu;
  count_bytes(graph, loops, schedule);
  const auto batch = static_cast<double>(count_along(loops, tile.batch));
  const double m = round_up(count_along(loops, tile.m), tile.tile_m());
  const double visited = visited_share(loops, tile);
  const double k = round_up(count_along(loops, tile.k), tile.tile_k()) * visited;
  const double n = tile.extent_n(loops);
  const double d = tile.contract ? tile.extent_d(loops) : 0;
  const double tiles_m = m / tile.tile_m();
  std::vector<ValueId> stops;
  if (tile.contract) stops.push_back(*tile.contract);
  const double score = cost_of(graph, loops, backward_slice_of(loops, tile.score, stops));
  const double compute = batch * m * k *
                             ((d + n) / (tile.mma ? model.attention.cooperative_matrix_speedup : 1) +
                              model.attention.exponential + score) +
                         batch * m * n * cost_of(graph, loops, backward_slice_of_results(loops));
  double traffic = static_cast<double>(schedule.bytes_read + schedule.bytes_written);
  double loads = 0;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& value = loops.values[i];
    if (value.kind != Value::Kind::load) continue;
    const int bytes = size_of(graph.node(value.node).type.dtype);
    // Every tile of m walks along all of k.
    const bool own =
        std::any_of(tile.m.begin(), tile.m.end(), [&](int axis) { return ((value.axes >> axis) & 1u) != 0; });
    const double times = (value.axes & loops.columns()) != 0 && !own ? std::max(1.0, tiles_m * visited) : 1;
    const auto elements = static_cast<double>(segment::elements_touched(loops, value));
    traffic += elements * bytes * (times - 1) / model.caches.bandwidth;
    loads += elements * times * bytes / std::max(4, schedule.loads[i].vector_bytes);
  }
  schedule.loads_executed = static_cast<std::int64_t>(loads);
  schedule.stores_executed = static_cast<std::int64_t>(batch * m * n / tile.elements);
  schedule.transactions = static_cast<std::int64_t>(traffic / 128);
  // Of shared memory, four elements at a time: two for 4 x 4 products of scores, one and the share of n for those of
  // weights.
  const double vec4s = n / 4 / tile.threads_k;
  const double shared = tile.mma ? batch * m * k * (d + n) / tile.mma->m / 8 * 4
                                 : batch * m * k * (d / 8 + n * (1 + vec4s) / (16 * vec4s));
  // Threads wait for shared memory as for any other: on an H200 a kernel of 4,096 keys takes twice what storing the
  // scores does. Fragments are loaded ahead.
  const double accesses = loads + static_cast<double>(schedule.stores_executed) + shared / (tile.mma && !cpu ? 4 : 1);
  // Workgroups of few threads leave compute units idle.
  const auto workgroups = static_cast<double>(std::max<std::int64_t>(1, schedule.workgroups));  // 0 of no elements
  const double threads = workgroups * schedule.workgroup;
  const double share =
      cpu ? 1
          : std::min({1.0, workgroups / model.units.count, threads / (model.units.count * model.attention.threads)});
  const int per_thread = tile.mma ? schedule.workgroup / tile.subgroups : 1;
  schedule.registers = tile.mma ? 64 + (tile.tile_k() * (tile.pipelined_scores ? 2 : 1) + static_cast<int>(n + d / 2)) *
                                           static_cast<int>(tile.mma->m) / per_thread
                                : (tile.low_register ? 44 : 48) + static_cast<int>(n) / tile.threads_k * 4;
  const double crowding =
      cpu || tile.mma
          ? 1
          : 1 + model.pressure.slowdown * std::max(0, schedule.registers - model.pressure.attention_registers);
  const double spilling = tile.mma ? 1 : cost_of_spilling(target, schedule.registers);
  schedule.modelled_us = modelled_us(costs, 1, traffic, compute * crowding * spilling / share,
                                     static_cast<std::int64_t>(accesses / share));
}

/// The launch and the cost of a tile; nothing where the device's limits forbid it.
std::optional<Schedule> with_tile(const ir::Graph& graph, const Loops& loops, const Target& target,
                                  const Tuning& tuning, AttentionTile tile, int workgroup) {
  // A tile of rows that lies in several runs of positions sees what any of them sees.
  if (tile.m.size() > 1 && loops.axes[static_cast<std::size_t>(tile.m.back())].size % tile.tile_m() != 0) {
    tile.mask_upper_bounds.clear();
    tile.mask_lower_bounds.clear();
  }
  const auto limit = static_cast<int>(usable_invocations(target.caps));
  const auto fits = [](const AttentionTile::Side& side, int across, int deep) {
    return (side.along_k ? deep : across) % side.elements == 0;
  };
  const int d = tile.contract ? tile.extent_d(loops) : 0;
  if (tile.contract && (!fits(tile.first, tile.tile_m(), d) || !fits(tile.second, tile.tile_k(), d)))
    return std::nullopt;
  if (!fits(tile.third, tile.extent_n(loops), tile.tile_k()) || workgroup > limit ||
      shared_bytes(loops, tile) > target.caps.shared_memory_bytes)
    return std::nullopt;
  Schedule schedule;
  schedule.kind = Template::attention;
  schedule.elements = loops.empty ? 0 : loops.parallel_count();
  schedule.wide = loops.count() >= (std::int64_t{1} << 31);
  schedule.full_chunks = true;
  schedule.workgroup = workgroup;
  if (tile.mma) schedule.subgroup = workgroup / tile.subgroups;
  schedule.vector_axis = tile.n.back();
  schedule.chunk_size = tile.elements;
  schedule.workgroups =
      loops.empty ? 0 : ceil_div(count_along(loops, tile.m), tile.tile_m()) * count_along(loops, tile.batch);
  schedule.chunks = schedule.workgroups;
  schedule.workgroups_x = std::min<std::int64_t>(schedule.workgroups, target.caps.max_groups_per_axis);
  schedule.shared_bytes = shared_bytes(loops, tile);
  schedule.attention = std::move(tile);
  plan_all(graph, loops, tuning, schedule);
  if (!check_limits(graph, loops, target, schedule).ok()) return std::nullopt;
  model(graph, loops, target, schedule);
  return schedule;
}

std::optional<Schedule> with_threads(const ir::Graph& graph, const Loops& loops, const Target& target,
                                     const Tuning& tuning, AttentionTile tile, ThreadGrid threads) {
  tile.threads_m = threads.m;
  tile.threads_k = threads.k;
  return with_tile(graph, loops, target, tuning, std::move(tile), threads.m * threads.k);
}

/// Whether a weight is the exponential itself, or 0 in its place, or its negative: others might be too large for an f16
/// before they are divided by their total.
bool is_at_most_one(const ir::Graph& graph, const Loops& loops, ValueId id, ValueId exponential) {
  if (id == exponential) return true;
  const Value& value = loops.values[id];
  if (value.kind != Value::Kind::compute) return false;
  const std::string_view op = graph.node(value.node).op->name;
  const auto through = [&](std::size_t k) { return is_at_most_one(graph, loops, value.operands[k], exponential); };
  if (op == "neg" || op == "cast") return through(0);
  if (op != "select") return false;
  const auto is_zero = [&](std::size_t k) { return number_of(graph, loops.values[value.operands[k]]) == 0.0; };
  return (is_zero(2) && through(1)) || (is_zero(1) && through(2));
}

/// What all operands are as 16-bit numbers in vectors of 16 bytes, if they are. An f16 that was scaled (`unscaled`) may
/// be too large.
std::optional<DType> dtype_for_cooperative_matrix(const ir::Graph& graph, const Loops& loops, const AttentionTile& tile,
                                                  bool unscaled) {
  const auto dtype = sub32_dtype(graph, loops, tile.third.value, unscaled);
  const auto is_same = [&](ValueId id) { return sub32_dtype(graph, loops, id, false) == dtype; };
  const auto whole = [](const AttentionTile::Side& side) { return side.elements == 8; };
  if (!dtype || !is_float(*dtype) || !whole(tile.third) || !is_same(tile.weight) ||
      !is_at_most_one(graph, loops, tile.weight, tile.exponential))
    return std::nullopt;
  if (tile.contract &&
      (!whole(tile.first) || !whole(tile.second) || !is_same(tile.first.value) || !is_same(tile.second.value)))
    return std::nullopt;
  return dtype;
}

constexpr int kSubgroups[] = {8, 4, 2};
constexpr int kKeyFragments[] = {4, 2};

/// The form of a tile that units fill; nothing where limits forbid it.
std::optional<Schedule> with_cooperative_shape(const ir::Graph& graph, const Loops& loops, const Target& target,
                                               const Tuning& tuning, AttentionTile tile, const AttentionShape& form) {
  if (form.pipelined_scores && !tile.contract) return std::nullopt;
  tile.subgroups = form.subgroups;
  tile.key_fragments = form.key_fragments;
  tile.pipelined_scores = form.pipelined_scores;
  const int n = tile.extent_n(loops);
  const auto un = static_cast<int>(tile.mma->n);
  for (tile.subtile = un * std::max(1, std::min(n, 64) / un);
       tile.subtile > un && (n % tile.subtile != 0 || shared_bytes(loops, tile) > target.caps.shared_memory_bytes);
       tile.subtile -= un) {
  }
  auto one =
      with_tile(graph, loops, target, tuning, tile, form.subgroups * static_cast<int>(target.caps.subgroup_size));
  if (one && target.type != DeviceType::cpu &&
      one->registers > device_model(target).matrices.kernels.attention_registers)
    return std::nullopt;
  return one;
}

std::optional<Schedule> with_units(const ir::Graph& graph, const Loops& loops, const Target& target,
                                   const Tuning& tuning, const AttentionTile& tile) {
  std::optional<Schedule> best;
  for (const AttentionShape& form : cooperative_attention_shapes()) {
    auto one = with_cooperative_shape(graph, loops, target, tuning, tile, form);
    if (one && (!best || one->modelled_us < best->modelled_us)) best = std::move(one);
  }
  return best;
}

}  // namespace

std::vector<AttentionShape> cooperative_attention_shapes() {
  std::vector<AttentionShape> all;
  for (const int subgroups : kSubgroups) {
    for (const int keys : kKeyFragments) {
      for (const bool prefetched : {true, false}) all.push_back({0, 0, subgroups, keys, prefetched});
    }
  }
  return all;
}

int AttentionTile::extent_n(const Loops& loops) const {
  return round_up(count_along(loops, n), mma ? static_cast<int>(mma->n) : 4 * threads_k);
}

int AttentionTile::extent_d(const Loops& loops) const {
  return round_up(count_along(loops, d), mma ? static_cast<int>(mma->k) : 1);
}

std::optional<Schedule> attention_at_other_sizes(const ir::Graph& graph, const Loops& loops, const Target& target,
                                                 const Tuning& tuning, const Schedule& requested) {
  AttentionTile tile;
  if (!find_reductions(graph, loops, tile) || !find_weight(graph, loops, tile) || !find_axes(graph, loops, tile))
    return std::nullopt;
  const AttentionTile& model_tile = requested.attention;
  const auto same = [](const AttentionTile::Side& a, const AttentionTile::Side& b) { return a.value == b.value; };
  if (tile.batch != model_tile.batch || tile.m != model_tile.m || tile.n != model_tile.n || tile.k != model_tile.k ||
      tile.d != model_tile.d || tile.score != model_tile.score || tile.contract != model_tile.contract ||
      !same(tile.first, model_tile.first) || !same(tile.second, model_tile.second) ||
      !same(tile.third, model_tile.third)) {
    return std::nullopt;
  }
  const auto fits = [&](const AttentionTile::Side& side, const std::vector<int>& depth,
                        const std::vector<int>& across) {
    const std::vector<int>& axes = side.along_k ? depth : across;
    return side.elements == 1 ||
           (!axes.empty() && loops.axes[static_cast<std::size_t>(axes.back())].size % side.elements == 0);
  };
  if (tile.contract && (!fits(model_tile.first, tile.d, tile.m) || !fits(model_tile.second, tile.d, tile.k)))
    return std::nullopt;
  if (!fits(model_tile.third, tile.k, tile.n) ||
      loops.axes[static_cast<std::size_t>(tile.n.back())].size % model_tile.elements != 0)
    return std::nullopt;
  find_mask_bounds(graph, loops, tile);
  const auto equal = [](const std::vector<AttentionTile::MaskBound>& a,
                        const std::vector<AttentionTile::MaskBound>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& x, const auto& y) { return x.slope == y.slope && x.constant == y.constant; });
  };
  const bool reaches = !model_tile.mask_upper_bounds.empty() || !model_tile.mask_lower_bounds.empty();
  if (reaches && (!equal(tile.mask_upper_bounds, model_tile.mask_upper_bounds) ||
                  !equal(tile.mask_lower_bounds, model_tile.mask_lower_bounds)))
    return std::nullopt;
  auto schedule = with_tile(graph, loops, target, tuning, model_tile, requested.workgroup);
  if (!schedule || !serve(*schedule, requested) ||
      schedule->attention.mask_upper_bounds.size() != model_tile.mask_upper_bounds.size() ||
      schedule->shared_bytes != requested.shared_bytes)
    return std::nullopt;
  schedule->loads = requested.loads;
  schedule->stores = requested.stores;
  schedule->sunk_scales = requested.sunk_scales;
  schedule->online = requested.online;
  return schedule;
}

std::optional<Schedule> best_attention(const ir::Graph& graph, const Loops& loops, const Target& target,
                                       const Tuning& tuning, bool sunk_scales) {
  AttentionTile tile;
  if (!find_reductions(graph, loops, tile) || !find_weight(graph, loops, tile) || !find_axes(graph, loops, tile))
    return std::nullopt;
  choose_vectors(graph, loops, tuning, tile);
  find_mask_bounds(graph, loops, tile);
  std::optional<Schedule> best;
  const bool units = target.has(FeatureTier::cooperative_matrix2) &&
                     tuning.cooperative_matrix.value_or(target.type != DeviceType::cpu);
  const auto dtype = units ? dtype_for_cooperative_matrix(graph, loops, tile, sunk_scales) : std::nullopt;
  const auto unit = dtype ? matrix_of(target.caps, *dtype, DType::f32) : std::nullopt;
  if (unit && unit->n == unit->k) {
    tile.mma = unit;
    if (tuning.attention && tuning.attention->subgroups > 0) {
      if (auto requested = with_cooperative_shape(graph, loops, target, tuning, tile, *tuning.attention))
        return requested;
    }
    best = with_units(graph, loops, target, tuning, tile);
    if (best && tuning.cooperative_matrix.value_or(false)) return best;
    tile.mma.reset();
  }
  tile.low_register = has_few_registers(target);
  if (tuning.attention && tuning.attention->subgroups == 0) {
    if (auto requested = with_threads(graph, loops, target, tuning, tile,
                                      {tuning.attention->threads_m, tuning.attention->threads_k}))
      return requested;
  }
  const auto over = [&](const Schedule& schedule) {
    return schedule.attention.mma ? 0 : registers_over(target, schedule.registers);
  };
  const auto consider = [&](const ThreadGrid& threads) {
    auto one = with_threads(graph, loops, target, tuning, tile, threads);
    if (one && (!best || std::pair(over(*one), one->modelled_us) < std::pair(over(*best), best->modelled_us)))
      best = std::move(one);
  };
  for (const ThreadGrid& threads : kThreads) consider(threads);
  for (const ThreadGrid& threads : kLowRegisterThreads) {
    if (best && over(*best) > 0) consider(threads);
  }
  return best;
}

}  // namespace vkfuse::schedule
