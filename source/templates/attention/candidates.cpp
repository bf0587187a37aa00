// The attention template: a workgroup owns some rows of m and walks along k in blocks. What has been added up so far is
// rescaled whenever a larger score turns up, so neither scores nor weights are ever stored.
#include <algorithm>
#include <set>

#include "device_model/device_model.hpp"
#include "schedule/limits.hpp"
#include "schedule/operands.hpp"
#include "templates/attention/base_dependence.hpp"
#include "templates/attention/candidates.hpp"
#include "templates/attention/cost.hpp"
#include "templates/attention/match.hpp"
#include "templates/attention/tiles.hpp"

namespace vkfuse::schedule {

using segment::AxisSet;
using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

/// Threads along m and along k, and what one of them has; of how its operands are staged, what fits the device unless
/// it is said.
struct ThreadGrid {
  int m, k;
  int rows = 4, keys = 4;
  std::optional<bool> slices = std::nullopt;
};
constexpr ThreadGrid kThreads[] = {{8, 8}, {8, 4}, {4, 8}, {4, 4}, {2, 4}, {2, 2}, {1, 2}};
/// Of few rows, as those of one token: many threads share them.
constexpr ThreadGrid kGridsOfFewRows[] = {{1, 32}, {1, 16}, {1, 8}, {2, 32}, {2, 16}, {2, 8}};
/// And where subgroups walk along k by themselves.
constexpr int kSubgroupsOfFewRows[] = {8, 4, 2};
constexpr int kKeysOfFewRows[] = {4, 2, 1};
/// On a GPU whose threads have registers for them: a read of shared memory serves 16 multiply-adds, and of those of
/// 4 x 4 it serves 8.
constexpr ThreadGrid kWideThreads[] = {{8, 16, 8, 8}, {16, 8, 8, 8}, {8, 8, 8, 8},  {4, 16, 8, 8}, {16, 16, 8, 4},
                                       {8, 32, 8, 4}, {8, 16, 8, 4}, {16, 8, 8, 4}, {8, 8, 8, 4}};
/// Where a thread of 4 x 4 wants more registers than it has: more threads share the columns of a row.
constexpr ThreadGrid kLowRegisterThreads[] = {{8, 16}, {4, 16}, {2, 16}, {2, 32}};
/// Of long sums, positions that are staged at a time on a GPU. Their elements are turned on the way to shared memory,
/// and those of more would meet in the same banks.
constexpr int kSlice = 16;
/// Fewer threads hardly meet, and would bring queries again for every few keys.
constexpr int kFewestThreadsOfSlices = 32;
/// Rows times keys of a thread that every device has registers for.
constexpr int kOfSmallTile = 16;
/// What estimates of large tiles leave of the registers that a thread can have.
constexpr int kRegistersToSpare = 16;

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
  for (ScoreProduct& product : tile.products) {
    choose(product.query, product.d, tile.axes.m);
    choose(product.key, product.d, tile.axes.k);
  }
  for (WeightedSum& sum : tile.sums) choose(sum.value, tile.axes.k, tile.axes.n);
  tile.elements = 4;
  while (loops.axes[static_cast<std::size_t>(tile.axes.n.back())].size % tile.elements != 0) tile.elements /= 2;
}

/// Words of 16 bytes of an operand's tile of 16-bit elements.
std::int64_t words_of(const AttentionOperand& side, int across, int deep) {
  const int rows = side.along_k ? across : deep;
  return std::int64_t{rows} * ((side.along_k ? deep : across) * 2 + kBytesBetweenRows) / 16;
}

/// One array serves the first operands that stay in registers, one after the other, then the others behind those that
/// are loaded for every block, then the results. What subgroups pass elements through lies behind all of these.
std::int64_t fragment_words(const Loops& loops, const AttentionParams& tile) {
  const CooperativeAttention& mapping = *tile.cooperative();
  std::int64_t reloaded = 0, first = 0, others = 0;
  for (std::size_t which = 0; which < tile.sums.size(); ++which) {
    if (!mapping.keys_are_values[which])
      others += words_of(tile.sums[which].value, tile.extent_n(loops), tile.tile_k());
  }
  for (std::size_t which = 0; which < tile.products.size(); ++which) {
    const ScoreProduct& product = tile.products[which];
    const int d = tile.extent_d(loops, product);
    const std::int64_t words = words_of(product.query, tile.tile_m(), d);
    if (tile.is_reloaded(which))
      reloaded += words;
    else
      first = std::max(first, words);
    others += words_of(product.key, tile.tile_k(), d);
  }
  const int of_row = static_cast<int>(tile.sums.size()) * (mapping.subtile / 4 + 1) +
                     (tile.values.has_softmax ? static_cast<int>(mapping.mma.n) / 2 : 0);
  const std::int64_t results = std::int64_t{mapping.subgroups} * static_cast<int>(mapping.mma.m) * of_row;
  return std::max({first, reloaded + others, results}) + std::int64_t{mapping.subgroups} * mapping.scratch_words();
}

/// What subgroups leave of their sums, each row's behind its largest score and its total; a vector of each thread where
/// they agree on whether to go on.
std::int64_t subgroup_words(const Loops& loops, const AttentionParams& tile) {
  const SubgroupAttention& mapping = *tile.by_subgroups();
  return std::max<std::int64_t>(
      std::int64_t{mapping.subgroups} * mapping.rows * (count_along(loops, tile.axes.n) / 4 + 1), mapping.threads());
}

std::int64_t shared_bytes(const Loops& loops, const AttentionParams& tile) {
  if (tile.cooperative()) return 16 * fragment_words(loops, tile);
  if (tile.by_subgroups()) return 16 * subgroup_words(loops, tile);
  std::int64_t first = 0, others = std::int64_t{tile.staged_k()} * (tile.extent_n(loops) / 4 + 1);
  for (const ScoreProduct& product : tile.products) {
    const std::int64_t d = tile.staged_d(loops, product);
    const std::int64_t words = d * (tile.tile_m() / 4 + 1);
    first = tile.simt()->slice == 0 ? first + words : std::max(first, words);
    others = std::max(others, d * (tile.tile_k() / 4 + 1));
  }
  const bool knows_rows = tile.values.has_softmax;
  const std::int64_t known = tile.simt()->low_register && knows_rows ? 8 : 0;  // of a thread
  const std::int64_t largest = tile.simt()->shuffles || !knows_rows ? 0 : tile.simt()->threads_k * tile.tile_m();
  return 16 * (first + others + weight_words(tile)) +
         4 * (largest + known * tile.simt()->threads_m * tile.simt()->threads_k);
}

void plan_all(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, Schedule& schedule) {
  const AttentionParams& tile = schedule.as<AttentionParams>();
  PartAccesses accesses(graph, loops, tuning);
  const auto add = [&](const AttentionOperand& side, const std::vector<int>& depth, const std::vector<int>& across) {
    const std::vector<int>& axes = side.along_k ? depth : across;
    accesses.add(backward_slice_of(loops, side.value), axes.empty() ? -1 : axes.back(), side.elements);
  };
  for (const ScoreProduct& product : tile.products) {
    add(product.query, product.d, tile.axes.m);
    add(product.key, product.d, tile.axes.k);
  }
  for (const WeightedSum& sum : tile.sums) add(sum.value, tile.axes.k, tile.axes.n);
  for (const ValueId score : tile.scores())
    accesses.add(backward_slice_of(loops, score, tile.contractions()), tile.axes.k.back(), 1);
  if (tile.values.has_softmax) {
    const ValueId from[] = {tile.values.exponential};
    accesses.add(backward_slice_of(loops, tile.sums[0].weight, from), tile.axes.k.back(), 1);
  }
  accesses.add_results(backward_slice_of_results(loops), tile.axes.n.back(), tile.elements);
  accesses.write(schedule);
}

/// Of all loops that one thread goes through, about and rather too many.
std::int64_t iterations_of(const Loops& loops, const Schedule& schedule) {
  const auto& tile = schedule.as<AttentionParams>();
  const std::int64_t steps = ceil_div(count_along(loops, tile.axes.k), tile.tile_k()) / schedule.splits + 1;
  std::int64_t depth = 0;
  for (const ScoreProduct& product : tile.products) depth += tile.extent_d(loops, product);
  const std::int64_t width = static_cast<std::int64_t>(tile.sums.size()) * tile.extent_n(loops);
  const std::int64_t fills = ceil_div(tile.tile_k() * (depth + width), std::max(1, schedule.workgroup));
  return steps * (2 * (depth + tile.tile_k()) + width + fills + 64) + schedule.splits * (width + 2);
}

/// Whether several workgroups may share the blocks of a tile: each has neighbours, and none is visited twice.
bool may_split(const Loops& loops, const AttentionParams& tile) {
  const bool keeps_rows = tile.cooperative() == nullptr;
  return keeps_rows && tile.values.has_softmax && !tile.mask.negligible_below && !tile.mask.in_runs && !loops.empty;
}

/// Vectors of 16 bytes that a workgroup leaves: by subgroups each row's largest score, total and sums, else what each
/// thread has of these.
std::int64_t partial_words(const Loops& loops, const AttentionParams& tile) {
  if (const SubgroupAttention* mapping = tile.by_subgroups())
    return mapping->rows * (count_along(loops, tile.axes.n) / 4 + 1);
  const SimtAttention& simt = *tile.simt();
  return std::int64_t{simt.threads_m} * simt.threads_k * simt.rows * (tile.extent_n(loops) / 4 / simt.threads_k + 1);
}

/// So many workgroups for each tile, and what they leave for the last of them.
void split_tiles(const Problem& problem, int splits, Schedule& schedule) {
  if (splits == 1) return;
  const std::int64_t tiles = schedule.launch.workgroups;
  schedule.splits = splits;
  schedule.launch.workgroups = schedule.launch.chunks = tiles * splits;
  schedule.scratch_bytes =
      16 * schedule.launch.workgroups * partial_words(problem.loops, schedule.as<AttentionParams>());
  choose_who_joins(problem.loops, problem.target, tiles, schedule);
}

/// Whether what is staged at a time is full chunks of every operand, and the device has memory and threads for it.
bool fits_device(const Problem& problem, const AttentionParams& tile, int workgroup) {
  const auto fits = [](const AttentionOperand& side, int across, int deep) {
    return (side.along_k ? deep : across) % side.elements == 0;
  };
  for (const ScoreProduct& product : tile.products) {
    const int d = tile.staged_d(problem.loops, product);
    if (!fits(product.query, tile.tile_m(), d) || !fits(product.key, tile.tile_k(), d)) return false;
  }
  const bool fits_values = std::all_of(tile.sums.begin(), tile.sums.end(), [&](const WeightedSum& sum) {
    return fits(sum.value, tile.extent_n(problem.loops), tile.staged_k());
  });
  return fits_values && workgroup <= static_cast<int>(usable_invocations(problem.target.caps)) &&
         shared_bytes(problem.loops, tile) <= problem.target.caps.workgroup.shared_memory_bytes;
}

/// The threads of the subgroups that the tile's kernel counts on; 0 if on none.
int subgroup_of(const Target& target, const AttentionParams& tile, int workgroup) {
  if (tile.cooperative()) return workgroup / tile.cooperative()->subgroups;
  if (tile.by_subgroups()) return workgroup / tile.by_subgroups()->subgroups;
  return tile.simt()->shuffles ? static_cast<int>(target.caps.subgroup.size) : 0;
}

/// The launch of a tile, and how it reaches memory; nothing where the device's limits forbid it.
std::optional<Schedule> planned_tile(const Problem& problem, AttentionParams tile, int workgroup) {
  if (!fits_device(problem, tile, workgroup)) return std::nullopt;
  Schedule schedule;
  schedule.launch.elements = problem.loops.empty ? 0 : problem.loops.parallel_count();
  schedule.wide = problem.loops.count() >= (std::int64_t{1} << 31);
  schedule.full_chunks = true;
  schedule.workgroup = workgroup;
  schedule.subgroup = subgroup_of(problem.target, tile, workgroup);
  schedule.vector_axis = tile.axes.n.back();
  schedule.chunk_size = tile.elements;
  schedule.launch.workgroups = problem.loops.empty ? 0
                                                   : ceil_div(count_along(problem.loops, tile.axes.m), tile.tile_m()) *
                                                         count_along(problem.loops, tile.axes.batch);
  schedule.launch.chunks = schedule.launch.workgroups;
  schedule.shared_bytes = shared_bytes(problem.loops, tile);
  schedule.params = std::move(tile);
  plan_all(problem.graph, problem.loops, problem.tuning, schedule);
  return schedule;
}

/// The same where so many workgroups share it, and what that costs.
std::optional<Schedule> shared_by(const Problem& problem, Schedule schedule, int splits) {
  split_tiles(problem, splits, schedule);
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, problem.target.caps.workgroup.max_groups_per_axis);
  if (!check_limits(problem.graph, problem.loops, problem.target, schedule, iterations_of(problem.loops, schedule))
           .ok())
    return std::nullopt;
  model_attention(problem, schedule);
  return schedule;
}

/// How many workgroups may share a tile: where there are few tiles, so that a device is busy, and where there are many,
/// so that the last of them do not leave it idle for long.
std::vector<int> splits_to_try(const Problem& problem, const Schedule& planned) {
  constexpr double kMostOfUnit = 64;
  const auto& tile = planned.as<AttentionParams>();
  if (!may_split(problem.loops, tile)) return {1};
  if (problem.tuning.splits) return {*problem.tuning.splits};
  if (problem.target.type == DeviceType::cpu) return {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  std::vector<int> all{1};
  if (count_along(problem.loops, tile.axes.m) > kFewRows) return all;
  const std::int64_t blocks = ceil_div(count_along(problem.loops, tile.axes.k), tile.tile_k());
  const double most = kMostOfUnit * device_model(problem.target).units.count;
  for (const int splits : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
    if (static_cast<double>(planned.launch.workgroups * splits) > most || blocks < splits) break;
    all.push_back(splits);
  }
  return all;
}

/// The launch and the cost of a tile; nothing where the device's limits forbid it. Of what may be shared by several
/// workgroups, the fastest by the model; on a CPU, which one workgroup keeps busy, the one of the fewest workgroups
/// whose loops are no longer than the driver goes through.
std::optional<Schedule> with_tile(const Problem& problem, AttentionParams tile, int workgroup) {
  const auto planned = planned_tile(problem, std::move(tile), workgroup);
  if (!planned) return std::nullopt;
  std::optional<Schedule> best;
  for (const int splits : splits_to_try(problem, *planned)) {
    auto one = shared_by(problem, *planned, splits);
    if (one && (!best || one->cost.modelled_us < best->cost.modelled_us)) best = std::move(one);
    if (best && problem.target.type == DeviceType::cpu) break;
  }
  return best;
}

/// Whether the threads of a row are neighbours in one subgroup, all subgroups being full.
bool shares_rows_in_subgroups(const Target& target, const ThreadGrid& threads) {
  const auto lanes = static_cast<int>(target.caps.subgroup.size);
  return may_shuffle(target) && threads.k <= lanes && threads.m * threads.k % lanes == 0;
}

std::optional<Schedule> with_threads(const Problem& problem, AttentionParams tile, const ThreadGrid& threads) {
  const bool low_register = has_few_registers(problem.target);
  const bool wide = threads.rows * threads.keys > kOfSmallTile;
  if (low_register && wide) return std::nullopt;
  const bool has_banks = problem.target.type != DeviceType::cpu && !low_register;
  const bool slices = threads.slices.value_or(has_banks && threads.m * threads.k >= kFewestThreadsOfSlices);
  tile.mapping = SimtAttention{.threads_m = threads.m,
                               .threads_k = threads.k,
                               .rows = threads.rows,
                               .keys = threads.keys,
                               .slice = slices ? kSlice : 0,
                               .shuffles = !low_register && shares_rows_in_subgroups(problem.target, threads),
                               .low_register = low_register};
  auto schedule = with_tile(problem, std::move(tile), threads.m * threads.k);
  const double most = device_model(problem.target).units.registers_per_thread - kRegistersToSpare;
  if (schedule && wide && schedule->cost.registers > most) return std::nullopt;
  return schedule;
}

/// How a tile's operands lie across the lanes of a subgroup, if they do in whole chunks of at least four elements.
std::optional<AttentionParams> in_whole_chunks(const Problem& problem, const AttentionParams& matched) {
  constexpr int kVector = 4;
  const Loops& loops = problem.loops;
  if (matched.products.size() != 1 || matched.products[0].d.empty() || !matched.values.has_softmax ||
      matched.elements != kVector || !may_shuffle(problem.target))
    return std::nullopt;
  AttentionParams tile = matched;
  const auto chunk = [&](ValueId value, const std::vector<int>& axes) {
    return along(problem.graph, loops, backward_slice_of(loops, value), RunAxis{axes.back()}, problem.tuning).elements;
  };
  ScoreProduct& product = tile.products[0];
  product.key.along_k = product.query.along_k = true;
  AttentionOperand& value = tile.sums[0].value;
  value.along_k = false;
  product.key.elements = product.query.elements = chunk(product.key.value, product.d);
  value.elements = chunk(value.value, tile.axes.n);
  const auto is_whole = [](int elements) { return elements >= kVector && elements % kVector == 0; };
  if (!is_whole(product.key.elements) || !is_whole(value.elements) ||
      count_along(loops, product.d) % product.key.elements != 0 ||
      count_along(loops, tile.axes.n) % value.elements != 0)
    return std::nullopt;
  return tile;
}

/// So many subgroups, of which a position of k has some lanes: as many as have chunks of it, or as many as are asked
/// for.
std::optional<Schedule> with_subgroups(const Problem& problem, AttentionParams tile, const AttentionShape& shape) {
  const auto all = static_cast<int>(problem.target.caps.subgroup.size);
  const ScoreProduct& product = tile.products[0];
  const std::int64_t chunks_d = count_along(problem.loops, product.d) / product.key.elements;
  const std::int64_t chunks_n = count_along(problem.loops, tile.axes.n) / tile.sums[0].value.elements;
  int lanes = shape.lanes > 0 ? shape.lanes : all;
  while (lanes > 1 && (lanes > all || chunks_d % lanes != 0 || chunks_n % lanes != 0)) lanes /= 2;
  if (all % lanes != 0) return std::nullopt;
  int rows = 1;
  while (rows < kFewRows && rows < count_along(problem.loops, tile.axes.m)) rows *= 2;
  tile.mapping = SubgroupAttention{
      .subgroups = shape.subgroups, .lanes = lanes, .sharing = all / lanes, .rows = rows, .keys = shape.keys};
  auto schedule = with_tile(problem, std::move(tile), shape.subgroups * all);
  const double most = device_model(problem.target).units.registers_per_thread - kRegistersToSpare;
  if (schedule && (schedule->cost.registers > most ||
                   overfills_registers(problem.target, schedule->cost.registers, schedule->workgroup)))
    return std::nullopt;
  return schedule;
}

/// Whether a weight is the exponential itself, or 0 in its place, or its negative: others might be too large for an f16
/// before they are divided by their total.
bool is_at_most_one(const ir::Graph& graph, const Loops& loops, ValueId id, ValueId exponential) {
  if (id == exponential) return true;
  const Value& value = loops.values[id];
  if (value.kind != Value::Kind::compute) return false;
  const ops::Role op = graph.node(value.node).op->role;
  const auto through = [&](std::size_t k) { return is_at_most_one(graph, loops, value.operands[k], exponential); };
  if (op == ops::Role::neg || op == ops::Role::cast) return through(0);
  if (op != ops::Role::select) return false;
  const auto is_zero = [&](std::size_t k) { return number_of(graph, loops.values[value.operands[k]]) == 0.0; };
  return (is_zero(2) && through(1)) || (is_zero(1) && through(2));
}

/// What all operands are as 16-bit numbers in vectors of 16 bytes, if they are. An f16 that was scaled (`unscaled`) may
/// be too large.
std::optional<DType> dtype_for_cooperative_matrix(const ir::Graph& graph, const Loops& loops,
                                                  const AttentionParams& tile, bool unscaled) {
  const auto dtype = sub32_dtype(graph, loops, tile.sums[0].value.value, unscaled);
  const auto is_same = [&](ValueId id) { return sub32_dtype(graph, loops, id, false) == dtype; };
  const auto whole = [](const AttentionOperand& side) { return side.elements == 8; };
  const bool sums_fit = std::all_of(tile.sums.begin(), tile.sums.end(), [&](const WeightedSum& sum) {
    return whole(sum.value) && sub32_dtype(graph, loops, sum.value.value, unscaled) == dtype && is_same(sum.weight);
  });
  if (!dtype || !is_float(*dtype) || !sums_fit ||
      (tile.values.has_softmax && !is_at_most_one(graph, loops, tile.sums[0].weight, tile.values.exponential)))
    return std::nullopt;
  const bool fits = std::all_of(tile.products.begin(), tile.products.end(), [&](const ScoreProduct& product) {
    return whole(product.query) && whole(product.key) && is_same(product.query.value) && is_same(product.key.value);
  });
  return fits ? dtype : std::nullopt;
}

constexpr int kSubgroups[] = {8, 4, 2};
constexpr int kKeyFragments[] = {4, 2};
/// Sums of several results leave registers for fewer keys.
constexpr int kKeyFragmentsOfSeveralSums[] = {4, 2, 1};

/// The bits of a bf16 pass as those of an f16 where weights are at most 1: as others, NaN among them, they may be none.
ElementAccess element_access(const Problem& problem, const MatrixShape& mma, bool at_most_one) {
  const ElementAccess first = problem.tuning.elements.value_or(ElementAccess::functions);
  if (first == ElementAccess::functions && problem.target.has(FeatureTier::cooperative_matrix2)) return first;
  const auto& shapes = problem.target.caps.matrix.shapes;
  const bool has_narrow_sums = std::any_of(shapes.begin(), shapes.end(), [&](const MatrixShape& shape) {
    return shape.m == mma.m && shape.n == mma.n && shape.c == DType::f16 && shape.result == DType::f16;
  });
  const bool may_pass = has_narrow_sums && (at_most_one || mma.a != DType::bf16);
  return may_pass && first != ElementAccess::shared_memory_rounded ? ElementAccess::shared_memory
                                                                   : ElementAccess::shared_memory_rounded;
}

/// Whether results do not ask what sums are relative to, and the subgroup can agree on whether to rescale.
bool may_rescale_lazily(const Problem& problem, const AttentionParams& tile) {
  const bool reduces_by_itself = tile.cooperative()->elements == ElementAccess::functions;
  return tile.values.has_softmax && problem.target.caps.subgroup.vote &&
         problem.tuning.lazy_rescaling.value_or(!reduces_by_itself) &&
         results_do_not_depend_on_base(problem.graph, problem.loops, tile);
}

/// Whether scores of such a tile can be pipelined, and so many operands reloaded, where that is asked for.
bool has_form(const AttentionParams& tile, const AttentionShape& form) {
  const int most_reloaded = tile.values.has_softmax ? 0 : static_cast<int>(tile.products.size());
  const bool is_single = tile.products.size() == 1 && tile.sums.size() == 1;
  return (is_single || !form.pipelined_scores) && form.reloaded >= 0 && form.reloaded <= most_reloaded;
}

/// A tile of this shape that cooperative matrices fill; nothing where limits forbid it.
std::optional<Schedule> with_cooperative_shape(const Problem& problem, AttentionParams tile, const MatrixShape& mma,
                                               const AttentionShape& form) {
  if (!has_form(tile, form)) return std::nullopt;
  auto& mapping = tile.mapping.emplace<CooperativeAttention>();
  mapping = {.mma = mma,
             .subgroups = form.subgroups,
             .key_fragments = form.key_fragments,
             .pipelined_scores = form.pipelined_scores,
             .elements = element_access(problem, mma, tile.values.has_softmax),
             .keys_are_values = std::vector<std::optional<std::size_t>>(tile.sums.size()),
             .reloaded = form.reloaded};
  mapping.lazy_rescaling = may_rescale_lazily(problem, tile);
  // Keys of pipelined scores are those of the next block.
  const int n = tile.extent_n(problem.loops);
  if (!form.pipelined_scores && n % static_cast<int>(mma.k) == 0) {
    for (std::size_t which = 0; which < tile.sums.size(); ++which)
      mapping.keys_are_values[which] = keys_that_are_values(problem.loops, tile, tile.sums[which].value);
  }
  const auto un = static_cast<int>(mma.n);
  const int most = std::min(n, 64) / static_cast<int>(tile.sums.size());
  for (mapping.subtile = un * std::max(1, most / un);
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
  for (const AttentionShape& form : cooperative_attention_shapes(tile)) {
    auto one = with_cooperative_shape(problem, tile, mma, form);
    if (one && (!best || one->cost.modelled_us < best->cost.modelled_us)) best = std::move(one);
  }
  return best;
}

}  // namespace

std::vector<AttentionShape> cooperative_attention_shapes(const AttentionParams& tile) {
  std::vector<AttentionShape> all;
  const bool several = tile.sums.size() > 1;
  const int most_reloaded = several ? static_cast<int>(tile.products.size()) : 0;
  for (const int subgroups : kSubgroups) {
    for (const int keys : several ? std::span<const int>(kKeyFragmentsOfSeveralSums) : kKeyFragments) {
      for (const bool prefetched : {true, false})
        all.push_back({.subgroups = subgroups, .key_fragments = keys, .pipelined_scores = prefetched});
      for (int reloaded = 1; reloaded <= most_reloaded; ++reloaded)
        all.push_back({.subgroups = subgroups, .key_fragments = keys, .reloaded = reloaded});
    }
  }
  return all;
}

namespace {

/// Whether loops of other sizes have the axes and values of a tile.
bool is_same_match(const AttentionParams& matched, const AttentionParams& tile) {
  const auto same = [](const AttentionOperand& a, const AttentionOperand& b) { return a.value == b.value; };
  const auto same_product = [&](const ScoreProduct& a, const ScoreProduct& b) {
    return a.sum == b.sum && a.d == b.d && same(a.query, b.query) && same(a.key, b.key);
  };
  const auto same_sum = [&](const WeightedSum& a, const WeightedSum& b) {
    return a.sum == b.sum && a.weight == b.weight && same(a.value, b.value);
  };
  return matched.axes.batch == tile.axes.batch && matched.axes.m == tile.axes.m && matched.axes.n == tile.axes.n &&
         matched.axes.k == tile.axes.k && matched.values.score == tile.values.score &&
         std::equal(matched.products.begin(), matched.products.end(), tile.products.begin(), tile.products.end(),
                    same_product) &&
         std::equal(matched.sums.begin(), matched.sums.end(), tile.sums.begin(), tile.sums.end(), same_sum);
}

/// Whether chunks lie within the axes that they lie along.
bool fits_chunks(const Loops& loops, const AttentionParams& tile) {
  const auto fits = [&](const AttentionOperand& side, const std::vector<int>& depth, const std::vector<int>& across) {
    const std::vector<int>& axes = side.along_k ? depth : across;
    return side.elements == 1 ||
           (!axes.empty() && loops.axes[static_cast<std::size_t>(axes.back())].size % side.elements == 0);
  };
  const auto fits_product = [&](const ScoreProduct& product) {
    return fits(product.query, product.d, tile.axes.m) && fits(product.key, product.d, tile.axes.k);
  };
  const auto fits_values = [&](const WeightedSum& sum) { return fits(sum.value, tile.axes.k, tile.axes.n); };
  return std::all_of(tile.products.begin(), tile.products.end(), fits_product) &&
         std::all_of(tile.sums.begin(), tile.sums.end(), fits_values) &&
         loops.axes[static_cast<std::size_t>(tile.axes.n.back())].size % tile.elements == 0;
}

}  // namespace

std::optional<Schedule> attention_at_other_sizes(const Problem& problem, const Schedule& requested) {
  auto matched = match_attention(problem.graph, problem.loops);
  const AttentionParams& tile = requested.as<AttentionParams>();
  if (!matched || !is_same_match(*matched, tile) || !fits_chunks(problem.loops, tile)) return std::nullopt;
  find_mask_bounds(problem.graph, problem.loops, *matched);
  if (!tile.mask.empty() && !(matched->mask == tile.mask)) return std::nullopt;
  if (requested.splits > 1 && !may_split(problem.loops, tile)) return std::nullopt;
  const auto planned = planned_tile(problem, tile, requested.workgroup);
  auto schedule = planned ? shared_by(problem, *planned, requested.splits) : std::nullopt;
  if (!schedule || !serve(*schedule, requested) || schedule->shared_bytes != requested.shared_bytes)
    return std::nullopt;
  return schedule;
}

namespace {

/// Looks for the best tile of loops that have been matched.
class AttentionSearch {
 public:
  AttentionSearch(const Problem& problem, AttentionParams tile, bool sunk_scales)
      : problem_(problem), tile_(std::move(tile)), sunk_scales_(sunk_scales) {}

  std::optional<Schedule> run() {
    const auto chunks = in_whole_chunks(problem_, tile_);
    const auto mma = fragment_for();
    if (problem_.tuning.attention) {
      if (auto requested = with_shape(*problem_.tuning.attention, mma, chunks)) return requested;
    }
    if (mma) best_ = with_cooperative_matrices(problem_, tile_, *mma);
    // Threads and subgroups by themselves have one sum.
    if (tile_.sums.size() > 1) return std::move(best_);
    if (best_ && problem_.tuning.cooperative_matrix.value_or(false)) return std::move(best_);
    consider_without_matrices(chunks);
    return std::move(best_);
  }

 private:
  /// The tile that a tuning names, where the device and the operands allow it.
  [[nodiscard]] std::optional<Schedule> with_shape(const AttentionShape& shape, const std::optional<MatrixShape>& mma,
                                                   const std::optional<AttentionParams>& chunks) const {
    if (shape.lanes > 0) return chunks && shape.subgroups > 0 ? with_subgroups(problem_, *chunks, shape) : std::nullopt;
    if (shape.subgroups > 0) return mma ? with_cooperative_shape(problem_, tile_, *mma, shape) : std::nullopt;
    if (tile_.sums.size() > 1 || shape.threads_m < 1 || shape.threads_k < 1) return std::nullopt;
    return with_threads(problem_, tile_, {shape.threads_m, shape.threads_k, shape.rows, shape.keys, shape.slices});
  }

  /// Of few rows on a GPU, subgroups by themselves are the faster form wherever they are possible
  /// (bench/results/h200-attention-parts.txt).
  void consider_without_matrices(const std::optional<AttentionParams>& chunks) {
    const bool cpu = problem_.target.type == DeviceType::cpu;
    const bool few = chunks && count_along(problem_.loops, tile_.axes.m) <= kFewRows;
    if (few && consider_subgroups(*chunks) && !cpu) return;
    consider_threads();
  }

  void consider_threads() {
    for (const ThreadGrid& threads : kThreads) consider(threads);
    if (has_data_bounds(tile_.mask) && count_along(problem_.loops, tile_.axes.m) <= kFewRows) {
      for (const ThreadGrid& threads : kGridsOfFewRows) consider(threads);
    }
    if (problem_.target.type != DeviceType::cpu) {
      for (const ThreadGrid& threads : kWideThreads) consider(threads);
    }
    for (const ThreadGrid& threads : kLowRegisterThreads) {
      if (best_ && registers_over_limit(*best_) > 0) consider(threads);
    }
  }

  /// The product that the device offers for these operands, of which scores can become an operand.
  [[nodiscard]] std::optional<MatrixShape> fragment_for() const {
    if (!uses_cooperative_matrices(problem_)) return std::nullopt;
    const auto dtype = dtype_for_cooperative_matrix(problem_.graph, problem_.loops, tile_, sunk_scales_);
    const auto mma = dtype ? matrix_of(problem_.target.caps, *dtype, DType::f32) : std::nullopt;
    return mma && mma->n == mma->k ? mma : std::nullopt;
  }

  [[nodiscard]] int registers_over_limit(const Schedule& schedule) const {
    return schedule.as<AttentionParams>().cooperative() ? 0 : registers_over(problem_.target, schedule.cost.registers);
  }

  void consider(const ThreadGrid& threads) { take(with_threads(problem_, tile_, threads)); }
  /// Whether one is possible.
  bool consider_subgroups(const AttentionParams& tile) {
    bool possible = false;
    for (const int subgroups : kSubgroupsOfFewRows) {
      for (const int keys : kKeysOfFewRows) {
        auto one = with_subgroups(problem_, tile, {.keys = keys, .subgroups = subgroups});
        possible = possible || one.has_value();
        take(std::move(one));
      }
    }
    return possible;
  }

  /// What spills is worse than any model says.
  void take(std::optional<Schedule> one) {
    const auto worth = [&](const Schedule& schedule) {
      return std::pair(registers_over_limit(schedule), schedule.cost.modelled_us);
    };
    if (one && (!best_ || worth(*one) < worth(*best_))) best_ = std::move(one);
  }

  const Problem& problem_;
  AttentionParams tile_;
  bool sunk_scales_;
  std::optional<Schedule> best_;
};

/// Of loops that are as the template has them.
std::optional<Schedule> best_of_tiles(const Problem& problem, bool sunk_scales) {
  auto tile = match_attention(problem.graph, problem.loops);
  if (!tile) return std::nullopt;
  choose_vectors(problem.graph, problem.loops, problem.tuning, *tile);
  find_mask_bounds(problem.graph, problem.loops, *tile);
  return AttentionSearch(problem, *std::move(tile), sunk_scales).run();
}

}  // namespace

std::optional<Schedule> best_attention(const Problem& given) {
  const auto sunk = segment::with_sunk_scales(given.graph, given.loops);
  const Loops& scaled = sunk ? *sunk : given.loops;
  const auto best = [&](const Loops& loops, bool literals) -> std::optional<Schedule> {
    const auto paired = segment::with_online_reductions(given.graph, loops);
    auto schedule = best_of_tiles(given.with(paired ? *paired : loops), sunk.has_value());
    if (schedule)
      schedule->transforms = {.sunk_scales = sunk.has_value(), .sunk_literals = literals, .online = paired.has_value()};
    return schedule;
  };
  // A scale is multiplied with each score then, and not with each query: that pays for matrix units alone.
  if (uses_cooperative_matrices(given)) {
    const auto exact = segment::with_sunk_literals(given.graph, scaled);
    auto schedule = exact ? best(*exact, true) : std::nullopt;
    if (schedule && schedule->as<AttentionParams>().cooperative() != nullptr) return schedule;
  }
  return best(scaled, false);
}

void describe_attention(const Schedule& schedule, Description& description) {
  const auto& params = schedule.as<AttentionParams>();
  auto& choices = description.choices["attention"];
  choices = {params.tile_m(), params.tile_k(), params.cooperative() != nullptr ? 1 : 0};
  if (params.cooperative() != nullptr && params.cooperative()->reloaded > 0)
    choices.push_back(params.cooperative()->reloaded);
  if (const SimtAttention* simt = params.simt()) {
    choices.push_back(simt->rows);
    choices.push_back(simt->keys);
    choices.push_back(simt->slice);
  } else if (const SubgroupAttention* mapping = params.by_subgroups()) {
    choices.push_back(mapping->lanes);
    choices.push_back(mapping->keys);
  }
  if (schedule.splits == 1) return;
  description.choices["splits"] = schedule.splits;
  description.more_launch.push_back(
      fmt::format("{} of them share a tile: {}", schedule.splits,
                  schedule.dispatches == 1 ? "the last one joins what all have found" : "2 dispatches"));
}

}  // namespace vkfuse::schedule
