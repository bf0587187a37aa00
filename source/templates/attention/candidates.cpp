// The attention template: a workgroup owns some rows of m and walks along k in blocks. What has been added up so far is
// rescaled whenever a larger score turns up, so neither scores nor weights are ever stored.
#include <algorithm>
#include <set>

#include "device_model/device_model.hpp"
#include "schedule/limits.hpp"
#include "schedule/operands.hpp"
#include "templates/attention/candidates.hpp"
#include "templates/attention/cost.hpp"
#include "templates/attention/tiles.hpp"

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
bool find_reductions(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  int most = 0, total = 0, sums = 0;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (value.kind == Value::Kind::scan || value.kind == Value::Kind::sort) return false;
    if (value.kind == Value::Kind::nested) {
      if (graph.node(value.node).op->cls != ops::OpClass::contraction) return false;
      tile.values.contract = id;
    }
    if (value.kind != Value::Kind::reduction) continue;
    if (value.online == Value::Online::softmax) {
      tile.values.total = id;
      ++total;
    } else if (sums_own_products(graph, loops, value)) {
      tile.values.sum = id;
      ++sums;
    } else if (graph.node(value.node).op->reduction.join == "max" &&
               graph.node(value.node).op->reduction.kind == ops::Reduction::Kind::plain) {
      tile.values.most = id;
      ++most;
    } else {
      return false;
    }
  }
  return most == 1 && total == 1 && sums == 1 && loops.values[tile.values.total].partner == tile.values.most;
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
bool find_weight(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  tile.values.score = loops.values[tile.values.most].operands[0];
  const Value& product = loops.values[loops.values[tile.values.sum].operands[0]];
  std::optional<ValueId> weight;
  for (std::size_t side = 0; side < 2; ++side) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, product.operands[side]);
    for (ValueId id : backward_slice) {
      const Value& value = loops.values[id];
      if (!is_op(graph, value, "exp") || !is_op(graph, loops.values[value.operands[0]], "sub")) continue;
      const Value& apart = loops.values[value.operands[0]];
      if (apart.operands[0] != tile.values.score || apart.operands[1] != tile.values.most) continue;
      if (weight && *weight != product.operands[side]) return false;
      weight = product.operands[side];
      tile.values.exponential = id;
      tile.value.value = product.operands[1 - side];
    }
  }
  if (!weight || !scales(graph, loops, *weight, tile.values.exponential)) return false;
  tile.values.weight = *weight;
  // Only the exponential waits for the reductions.
  const ValueId stops[] = {tile.values.exponential};
  const auto waits = [&](ValueId id) {
    const Value& value = loops.values[id];
    return std::any_of(value.operands.begin(), value.operands.end(),
                       [&](ValueId operand) { return loops.values[operand].kind == Value::Kind::reduction; });
  };
  const auto contracts = [&](ValueId id) { return loops.values[id].kind == Value::Kind::nested; };
  for (ValueId root : {tile.values.weight, tile.value.value}) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, root, stops);
    if (std::any_of(backward_slice.begin(), backward_slice.end(), waits) ||
        std::any_of(backward_slice.begin(), backward_slice.end(), contracts))
      return false;
  }
  const std::vector<ValueId> third = backward_slice_of(loops, tile.value.value);
  return std::find(third.begin(), third.end(), tile.values.exponential) == third.end() &&
         loops.values[tile.values.score].level == 0;
}

bool find_axes(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  const AxisSet columns = loops.columns();
  const AxisSet inner = loops.inner();
  const AxisSet all = (AxisSet{1} << loops.axes.size()) - 1;
  const AxisSet rows = all & ~columns & ~inner & ~loops.keys();
  const AxisSet weight = loops.values[tile.values.weight].axes & rows;
  const AxisSet third = loops.values[tile.value.value].axes & rows;
  const AxisSet n = third & ~weight;
  const AxisSet m = weight & ~third;
  if (loops.keys() != 0 || n == 0 || (loops.values[tile.value.value].axes & columns) == 0) return false;
  tile.axes.batch = axes_in(loops, rows & ~m & ~n);
  tile.axes.m = axes_in(loops, m);
  tile.axes.n = axes_in(loops, n);
  tile.axes.k = axes_in(loops, columns);
  tile.axes.d = axes_in(loops, inner);
  if (count_along(loops, tile.axes.n) > kMostElements || count_along(loops, tile.axes.d) > kMostElements) return false;
  for (const segment::Store& store : loops.stores) {
    if ((store.axes & columns) != 0) return false;
  }
  if (!tile.values.contract) return inner == 0;
  const Value& product = loops.values[loops.values[*tile.values.contract].operands[0]];
  const auto reduced = [&](std::size_t side) { return (loops.values[product.operands[side]].axes & columns) != 0; };
  if (reduced(0) == reduced(1) || !has_vectors(graph.node(product.node).type.dtype) ||
      !is_float(graph.node(product.node).type.dtype))
    return false;
  tile.query.value = product.operands[reduced(0) ? 1 : 0];
  tile.key.value = product.operands[reduced(0) ? 0 : 1];
  const std::vector<ValueId> backward_slice = backward_slice_of(loops, tile.values.score);
  return std::find(backward_slice.begin(), backward_slice.end(), *tile.values.contract) != backward_slice.end() &&
         (loops.values[tile.query.value].axes & n) == 0 && (loops.values[tile.key.value].axes & (n | m)) == 0;
}

void choose_vectors(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, AttentionParams& tile) {
  const auto choose = [&](AttentionOperand& side, const std::vector<int>& depth, const std::vector<int>& across) {
    const std::vector<ValueId> backward_slice = backward_slice_of(loops, side.value);
    const auto wide = [&](const std::vector<int>& axes) {
      return axes.empty() ? Along() : along(graph, loops, backward_slice, RunAxis{axes.back()}, tuning);
    };
    const Along deep = wide(depth);
    const Along wise = wide(across);
    side.along_k = deep.bytes >= wise.bytes;
    side.elements = std::max(1, side.along_k ? deep.elements : wise.elements);
  };
  if (tile.values.contract) {
    choose(tile.query, tile.axes.d, tile.axes.m);
    choose(tile.key, tile.axes.d, tile.axes.k);
  }
  choose(tile.value, tile.axes.k, tile.axes.n);
  tile.elements = 4;
  while (loops.axes[static_cast<std::size_t>(tile.axes.n.back())].size % tile.elements != 0) tile.elements /= 2;
}

/// Words of 16 bytes of an operand's tile of 16-bit elements.
std::int64_t words_of(const AttentionOperand& side, int across, int deep) {
  const int rows = side.along_k ? across : deep;
  return std::int64_t{rows} * ((side.along_k ? deep : across) * 2 + kBytesBetweenRows) / 16;
}

/// One array serves the first operand, then the others, then the results.
std::int64_t fragment_words(const Loops& loops, const AttentionParams& tile) {
  const int d = tile.values.contract ? tile.extent_d(loops) : 0;
  const auto um = static_cast<int>(tile.cooperative()->mma.m);
  const std::int64_t first = tile.values.contract ? words_of(tile.query, tile.tile_m(), d) : 0;
  const std::int64_t others = (tile.values.contract ? words_of(tile.key, tile.tile_k(), d) : 0) +
                              words_of(tile.value, tile.extent_n(loops), tile.tile_k());
  const std::int64_t results = std::int64_t{tile.cooperative()->subgroups} * um *
                               (tile.cooperative()->subtile / 4 + 1 + static_cast<int>(tile.cooperative()->mma.n) / 2);
  return std::max({first, others, results});
}

std::int64_t shared_bytes(const Loops& loops, const AttentionParams& tile) {
  if (tile.cooperative()) return 16 * fragment_words(loops, tile);
  const std::int64_t d = tile.values.contract ? count_along(loops, tile.axes.d) : 0;
  const std::int64_t n = round_up(count_along(loops, tile.axes.n), 4 * tile.simt()->threads_k);
  const std::int64_t first = d * (tile.simt()->threads_m + 1);
  const std::int64_t others = std::max(d * (tile.simt()->threads_k + 1), tile.tile_k() * (n / 4 + 1));
  const std::int64_t weights = std::int64_t{tile.tile_k()} * (tile.simt()->threads_m + 1);
  const std::int64_t known = tile.simt()->low_register ? 8 : 0;  // of a thread
  return 16 * (first + others + weights) + 4 * tile.simt()->threads_k * tile.tile_m() +
         4 * known * tile.simt()->threads_m * tile.simt()->threads_k;
}

void plan_all(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, Schedule& schedule) {
  const AttentionParams& tile = schedule.as<AttentionParams>();
  PartAccesses accesses(graph, loops, tuning);
  const auto add = [&](const AttentionOperand& side, const std::vector<int>& depth, const std::vector<int>& across) {
    const std::vector<int>& axes = side.along_k ? depth : across;
    accesses.add(backward_slice_of(loops, side.value), axes.empty() ? -1 : axes.back(), side.elements);
  };
  std::vector<ValueId> stops;
  if (tile.values.contract) {
    add(tile.query, tile.axes.d, tile.axes.m);
    add(tile.key, tile.axes.d, tile.axes.k);
    stops.push_back(*tile.values.contract);
  }
  add(tile.value, tile.axes.k, tile.axes.n);
  accesses.add(backward_slice_of(loops, tile.values.score, stops), tile.axes.k.back(), 1);
  const ValueId from[] = {tile.values.exponential};
  accesses.add(backward_slice_of(loops, tile.values.weight, from), tile.axes.k.back(), 1);
  accesses.add_results(backward_slice_of_results(loops), tile.axes.n.back(), tile.elements);
  accesses.write(schedule);
}

/// Of all loops that one thread goes through, about and rather too many.
std::int64_t iterations_of(const Loops& loops, const Schedule& schedule) {
  const auto& tile = schedule.as<AttentionParams>();
  const std::int64_t steps = ceil_div(count_along(loops, tile.axes.k), tile.tile_k());
  const std::int64_t depth = tile.values.contract ? tile.extent_d(loops) : 0;
  const std::int64_t fills = ceil_div(tile.tile_k() * (depth + tile.extent_n(loops)), std::max(1, schedule.workgroup));
  return steps * (2 * (depth + tile.tile_k()) + tile.extent_n(loops) + fills + 64);
}

/// The launch and the cost of a tile; nothing where the device's limits forbid it.
std::optional<Schedule> with_tile(const Problem& problem, AttentionParams tile, int workgroup) {
  // A tile of rows that lies in several runs of positions sees what any of them sees.
  if (tile.axes.m.size() > 1 &&
      problem.loops.axes[static_cast<std::size_t>(tile.axes.m.back())].size % tile.tile_m() != 0) {
    tile.mask.upper.clear();
    tile.mask.lower.clear();
  }
  const auto limit = static_cast<int>(usable_invocations(problem.target.caps));
  const auto fits = [](const AttentionOperand& side, int across, int deep) {
    return (side.along_k ? deep : across) % side.elements == 0;
  };
  const int d = tile.values.contract ? tile.extent_d(problem.loops) : 0;
  if (tile.values.contract && (!fits(tile.query, tile.tile_m(), d) || !fits(tile.key, tile.tile_k(), d)))
    return std::nullopt;
  if (!fits(tile.value, tile.extent_n(problem.loops), tile.tile_k()) || workgroup > limit ||
      shared_bytes(problem.loops, tile) > problem.target.caps.workgroup.shared_memory_bytes)
    return std::nullopt;
  Schedule schedule;
  schedule.launch.elements = problem.loops.empty ? 0 : problem.loops.parallel_count();
  schedule.wide = problem.loops.count() >= (std::int64_t{1} << 31);
  schedule.full_chunks = true;
  schedule.workgroup = workgroup;
  if (tile.cooperative()) schedule.subgroup = workgroup / tile.cooperative()->subgroups;
  schedule.vector_axis = tile.axes.n.back();
  schedule.chunk_size = tile.elements;
  schedule.launch.workgroups = problem.loops.empty ? 0
                                                   : ceil_div(count_along(problem.loops, tile.axes.m), tile.tile_m()) *
                                                         count_along(problem.loops, tile.axes.batch);
  schedule.launch.chunks = schedule.launch.workgroups;
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, problem.target.caps.workgroup.max_groups_per_axis);
  schedule.shared_bytes = shared_bytes(problem.loops, tile);
  schedule.params = std::move(tile);
  plan_all(problem.graph, problem.loops, problem.tuning, schedule);
  if (!check_limits(problem.graph, problem.loops, problem.target, schedule, iterations_of(problem.loops, schedule))
           .ok())
    return std::nullopt;
  model_attention(problem.graph, problem.loops, problem.target, schedule);
  return schedule;
}

std::optional<Schedule> with_threads(const Problem& problem, AttentionParams tile, ThreadGrid threads) {
  tile.mapping = SimtAttention{threads.m, threads.k, has_few_registers(problem.target)};
  return with_tile(problem, std::move(tile), threads.m * threads.k);
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
std::optional<DType> dtype_for_cooperative_matrix(const ir::Graph& graph, const Loops& loops,
                                                  const AttentionParams& tile, bool unscaled) {
  const auto dtype = sub32_dtype(graph, loops, tile.value.value, unscaled);
  const auto is_same = [&](ValueId id) { return sub32_dtype(graph, loops, id, false) == dtype; };
  const auto whole = [](const AttentionOperand& side) { return side.elements == 8; };
  if (!dtype || !is_float(*dtype) || !whole(tile.value) || !is_same(tile.values.weight) ||
      !is_at_most_one(graph, loops, tile.values.weight, tile.values.exponential))
    return std::nullopt;
  if (tile.values.contract &&
      (!whole(tile.query) || !whole(tile.key) || !is_same(tile.query.value) || !is_same(tile.key.value)))
    return std::nullopt;
  return dtype;
}

constexpr int kSubgroups[] = {8, 4, 2};
constexpr int kKeyFragments[] = {4, 2};

/// The form of a tile that cooperative matrices fill; nothing where limits forbid it.
std::optional<Schedule> with_cooperative_shape(const Problem& problem, AttentionParams tile, const MatrixShape& mma,
                                               const AttentionShape& form) {
  if (form.pipelined_scores && !tile.values.contract) return std::nullopt;
  auto& mapping = tile.mapping.emplace<CooperativeAttention>();
  mapping = {.mma = mma,
             .subgroups = form.subgroups,
             .key_fragments = form.key_fragments,
             .pipelined_scores = form.pipelined_scores};
  const int n = tile.extent_n(problem.loops);
  const auto un = static_cast<int>(mma.n);
  for (mapping.subtile = un * std::max(1, std::min(n, 64) / un);
       mapping.subtile > un && (n % mapping.subtile != 0 ||
                                shared_bytes(problem.loops, tile) > problem.target.caps.workgroup.shared_memory_bytes);
       mapping.subtile -= un) {
  }
  auto one = with_tile(problem, tile, form.subgroups * static_cast<int>(problem.target.caps.subgroup.size));
  if (one && problem.target.type != DeviceType::cpu &&
      one->cost.registers > device_model(problem.target).matrices.kernels.attention_registers)
    return std::nullopt;
  return one;
}

std::optional<Schedule> with_cooperative_matrices(const Problem& problem, const AttentionParams& tile,
                                                  const MatrixShape& mma) {
  std::optional<Schedule> best;
  for (const AttentionShape& form : cooperative_attention_shapes()) {
    auto one = with_cooperative_shape(problem, tile, mma, form);
    if (one && (!best || one->cost.modelled_us < best->cost.modelled_us)) best = std::move(one);
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

int AttentionParams::tile_m() const {
  return cooperative() != nullptr ? cooperative()->subgroups * static_cast<int>(cooperative()->mma.m)
                                  : 4 * simt()->threads_m;
}

int AttentionParams::tile_k() const {
  return cooperative() != nullptr ? cooperative()->key_fragments * static_cast<int>(cooperative()->mma.n)
                                  : 4 * simt()->threads_k;
}

int AttentionParams::extent_n(const Loops& loops) const {
  return round_up(count_along(loops, axes.n),
                  cooperative() ? static_cast<int>(cooperative()->mma.n) : 4 * simt()->threads_k);
}

int AttentionParams::extent_d(const Loops& loops) const {
  return round_up(count_along(loops, axes.d), cooperative() ? static_cast<int>(cooperative()->mma.k) : 1);
}

std::optional<Schedule> attention_at_other_sizes(const Problem& problem, const Schedule& requested) {
  AttentionParams tile;
  if (!find_reductions(problem.graph, problem.loops, tile) || !find_weight(problem.graph, problem.loops, tile) ||
      !find_axes(problem.graph, problem.loops, tile))
    return std::nullopt;
  const AttentionParams& model_tile = requested.as<AttentionParams>();
  const auto same = [](const AttentionOperand& a, const AttentionOperand& b) { return a.value == b.value; };
  if (tile.axes.batch != model_tile.axes.batch || tile.axes.m != model_tile.axes.m ||
      tile.axes.n != model_tile.axes.n || tile.axes.k != model_tile.axes.k || tile.axes.d != model_tile.axes.d ||
      tile.values.score != model_tile.values.score || tile.values.contract != model_tile.values.contract ||
      !same(tile.query, model_tile.query) || !same(tile.key, model_tile.key) || !same(tile.value, model_tile.value)) {
    return std::nullopt;
  }
  const auto fits = [&](const AttentionOperand& side, const std::vector<int>& depth, const std::vector<int>& across) {
    const std::vector<int>& axes = side.along_k ? depth : across;
    return side.elements == 1 ||
           (!axes.empty() && problem.loops.axes[static_cast<std::size_t>(axes.back())].size % side.elements == 0);
  };
  if (tile.values.contract &&
      (!fits(model_tile.query, tile.axes.d, tile.axes.m) || !fits(model_tile.key, tile.axes.d, tile.axes.k)))
    return std::nullopt;
  if (!fits(model_tile.value, tile.axes.k, tile.axes.n) ||
      problem.loops.axes[static_cast<std::size_t>(tile.axes.n.back())].size % model_tile.elements != 0)
    return std::nullopt;
  find_mask_bounds(problem.graph, problem.loops, tile);
  const auto equal = [](const std::vector<MaskBound>& a, const std::vector<MaskBound>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& x, const auto& y) { return x.slope == y.slope && x.constant == y.constant; });
  };
  const bool reaches = !model_tile.mask.upper.empty() || !model_tile.mask.lower.empty();
  if (reaches && (!equal(tile.mask.upper, model_tile.mask.upper) || !equal(tile.mask.lower, model_tile.mask.lower)))
    return std::nullopt;
  auto schedule = with_tile(problem, model_tile, requested.workgroup);
  if (!schedule || !serve(*schedule, requested) ||
      schedule->as<AttentionParams>().mask.upper.size() != model_tile.mask.upper.size() ||
      schedule->shared_bytes != requested.shared_bytes)
    return std::nullopt;
  schedule->loads = requested.loads;
  schedule->stores = requested.stores;
  schedule->transforms.sunk_scales = requested.transforms.sunk_scales;
  schedule->transforms.online = requested.transforms.online;
  return schedule;
}

namespace {

/// Of loops that are as the template has them.
std::optional<Schedule> best_of_tiles(const Problem& problem, bool sunk_scales) {
  AttentionParams tile;
  if (!find_reductions(problem.graph, problem.loops, tile) || !find_weight(problem.graph, problem.loops, tile) ||
      !find_axes(problem.graph, problem.loops, tile))
    return std::nullopt;
  choose_vectors(problem.graph, problem.loops, problem.tuning, tile);
  find_mask_bounds(problem.graph, problem.loops, tile);
  std::optional<Schedule> best;
  const bool units = problem.target.has(FeatureTier::cooperative_matrix2) &&
                     problem.tuning.cooperative_matrix.value_or(problem.target.type != DeviceType::cpu);
  const auto dtype =
      units ? dtype_for_cooperative_matrix(problem.graph, problem.loops, tile, sunk_scales) : std::nullopt;
  const auto unit = dtype ? matrix_of(problem.target.caps, *dtype, DType::f32) : std::nullopt;
  if (unit && unit->n == unit->k) {
    if (problem.tuning.attention && problem.tuning.attention->subgroups > 0) {
      if (auto requested = with_cooperative_shape(problem, tile, *unit, *problem.tuning.attention)) return requested;
    }
    best = with_cooperative_matrices(problem, tile, *unit);
    if (best && problem.tuning.cooperative_matrix.value_or(false)) return best;
  }
  if (problem.tuning.attention && problem.tuning.attention->subgroups == 0) {
    if (auto requested =
            with_threads(problem, tile, {problem.tuning.attention->threads_m, problem.tuning.attention->threads_k}))
      return requested;
  }
  const auto over = [&](const Schedule& schedule) {
    return schedule.as<AttentionParams>().cooperative() ? 0 : registers_over(problem.target, schedule.cost.registers);
  };
  const auto consider = [&](const ThreadGrid& threads) {
    auto one = with_threads(problem, tile, threads);
    if (one && (!best || std::pair(over(*one), one->cost.modelled_us) < std::pair(over(*best), best->cost.modelled_us)))
      best = std::move(one);
  };
  for (const ThreadGrid& threads : kThreads) consider(threads);
  for (const ThreadGrid& threads : kLowRegisterThreads) {
    if (best && over(*best) > 0) consider(threads);
  }
  return best;
}

}  // namespace

std::optional<Schedule> best_attention(const Problem& given) {
  const auto sunk = segment::with_sunk_scales(given.graph, given.loops);
  const Loops& loops = sunk ? *sunk : given.loops;
  const auto paired = segment::with_online_reductions(given.graph, loops);
  if (!paired) return std::nullopt;
  auto schedule = best_of_tiles(given.with(*paired), sunk.has_value());
  if (schedule) schedule->transforms = {.sunk_scales = sunk.has_value(), .online = true};
  return schedule;
}

void describe_attention(const Schedule& schedule, Description& description) {
  const auto& params = schedule.as<AttentionParams>();
  description.choices["attention"] = {params.tile_m(), params.tile_k(), params.cooperative() != nullptr ? 1 : 0};
}

}  // namespace vkfuse::schedule
