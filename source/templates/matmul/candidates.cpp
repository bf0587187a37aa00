// The matmul template: sums over k of products of an operand at (m, k) and one at (n, k). A workgroup owns a tile of m
// and n. Both operands are computed as they are read, from whatever they are made of, and staged in shared memory,
// where every element is read by many threads.
#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>

#include "base/numerics.hpp"
#include "device_model/device_model.hpp"
#include "schedule/limits.hpp"
#include "templates/matmul/candidates.hpp"
#include "templates/matmul/cost.hpp"
#include "templates/matmul/match.hpp"
#include "templates/matmul/tiles.hpp"

namespace vkfuse::schedule {

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
  const MatmulParams& tile = schedule.as<MatmulParams>();
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

/// Whether the tile, a subgroup's part of it and the rows of results are made of whole fragments; gives the tile the
/// subtile that fits.
bool fits_fragment(const Target& target, const TileShape& shape, MatmulParams& tile) {
  const auto um = static_cast<int>(tile.mma()->m);
  const auto un = static_cast<int>(tile.mma()->n);
  if (shape.thread_m % um != 0 || shape.thread_n % un != 0 || shape.k % static_cast<int>(tile.mma()->k) != 0 ||
      shape.k % 8 != 0)
    return false;
  if (!tile.epilogues.empty() &&
      (!std::has_single_bit(static_cast<unsigned>(tile.block)) || tile.block / 4 > shape.threads))
    return false;
  int& subtile = tile.cooperative()->subtile;
  for (subtile = shape.thread_n; subtile >= un; subtile -= un) {
    if (!tile.epilogues.empty() && (subtile % tile.block != 0 || um * subtile / 4 % shape.threads != 0)) continue;
    if (shape.thread_n % subtile == 0 && matmul_shared_bytes(tile) <= target.caps.workgroup.shared_memory_bytes)
      return true;
  }
  return false;
}

/// Workgroups that share a tile which they multiply as one: with more, parts cost what they gain
/// (bench/results/h200-parts-of-tiles.txt).
constexpr int kMostOfWorkgroupTile = 4;

/// What partial sums take in device memory, in vec4s.
std::int64_t partial_vec4s(const Loops& loops, const MatmulParams& tile) {
  return static_cast<std::int64_t>(tile.sums.size()) * count_along(loops, tile.batch) * count_along(loops, tile.m) *
         ceil_div(count_along(loops, tile.n), 4);
}

/// Whether split-K has steps for each of its workgroups: sums have at most 32 bits, and nothing else is reduced.
bool may_split(const ir::Graph& graph, const Loops& loops, const Target& target, const MatmulParams& tile, int splits) {
  const bool words = std::all_of(tile.sums.begin(), tile.sums.end(), [&](const MatmulParams::Sum& sum) {
    return size_of(graph.node(loops.values[sum.reduction].node).type.dtype) <= 4;
  });
  const std::int64_t steps = ceil_div(count_along(loops, tile.k), tile.shape.k);
  const bool fits =
      static_cast<std::uint64_t>(16 * splits * partial_vec4s(loops, tile)) <= target.caps.memory.storage_buffer_range;
  return words && fits && tile.row_reductions.empty() && tile.row_values.empty() && tile.epilogues.empty() &&
         !loops.empty && ceil_div(steps, splits) * (splits - 1) < steps;
}

/// Whether what threads add up from step to step of row reductions keeps the promise of numerics.hpp.
bool keeps_row_chains_short(const Loops& loops, const MatmulParams& tile) {
  const std::int64_t count = count_along(loops, tile.k);
  return std::all_of(tile.row_reductions.begin(), tile.row_reductions.end(), [&](const auto& reduction) {
    const int elements = tile.tile_operands[static_cast<std::size_t>(reduction.tile_operand)].elements;
    return ceil_div(count, tile.shape.k) + elements + tile.shape.k / elements <= longest_sum_chain(count) + 64;
  });
}

/// Whether workgroups may share a tile that each of them multiplies as one. All have as many steps, of a number that
/// compilers like, and factors lie along the sum: where they lie across it, as for the gradients of weights, subgroups
/// are as fast (bench/results/h200-parts-of-tiles.txt).
bool may_split_workgroup_tile(const Loops& loops, const MatmulParams& tile, int splits) {
  const bool along_k = std::all_of(tile.tile_operands.begin(), tile.tile_operands.end(),
                                   [](const TileOperand& tile_operand) { return tile_operand.along_k; });
  return along_k && count_along(loops, tile.k) % (std::int64_t{tile.shape.k} * splits * kStepsOfWorkgroupTiles) == 0;
}

/// False where no workgroup multiplies a tile of this shape as one.
bool take_workgroup_products(const Problem& problem, int splits, MatmulParams& tile) {
  const bool forced = problem.tuning.cooperative_matrix.value_or(false);
  auto products = workgroup_products(problem.graph, problem.loops, problem.target, tile, forced);
  if (!products || (splits > 1 && !may_split_workgroup_tile(problem.loops, tile, splits))) return false;
  if (splits > 1) products->beside.clear();  // results are computed where parts are joined
  tile.products = *std::move(products);
  if (splits == 1) tile.elements = 1;
  return true;
}

/// Whether the tile is made of what its cooperative matrices multiply, if it has any.
bool fits_matrices(const Problem& problem, const TileShape& shape, MatmulParams& tile) {
  if (tile.lane_fragments()) return fits_lane_fragments(problem.loops, tile);
  return tile.mma() == nullptr || fits_fragment(problem.target, shape, tile);
}

/// Gives the tile a shape, and chunks of operands that fit it; false where the device or the loops forbid that.
bool take_shape(const Problem& problem, const TileShape& shape, int splits, MatmulParams& tile) {
  tile.shape = shape;
  if (tile.workgroup_scope() && !take_workgroup_products(problem, splits, tile)) return false;
  // Every thread has something to bring.
  for (TileOperand& tile_operand : tile.tile_operands) {
    if (!tile.lane_fragments()) tile_operand.elements = elements_in_tile(tile_operand, shape);
  }
  const bool whole = std::all_of(tile.tile_operands.begin(), tile.tile_operands.end(),
                                 [&](const TileOperand& tile_operand) { return shape.k % tile_operand.elements == 0; });
  if (!keeps_row_chains_short(problem.loops, tile)) return false;
  if (!fits_matrices(problem, shape, tile)) return false;
  if (!tile.epilogues.empty() && shape.n % tile.block != 0) return false;
  if (!whole || shape.workgroup() > static_cast<int>(usable_invocations(problem.target.caps)) ||
      matmul_shared_bytes(tile) > problem.target.caps.workgroup.shared_memory_bytes)
    return false;
  if (splits > 1 && !may_split(problem.graph, problem.loops, problem.target, tile, splits)) return false;
  tile.tiles_m = ceil_div(count_along(problem.loops, tile.m), shape.m);
  tile.tiles_n = ceil_div(count_along(problem.loops, tile.n), shape.n);
  return true;
}

void choose_launch(const Problem& problem, const MatmulParams& tile, Schedule& schedule) {
  const Loops& loops = problem.loops;
  LaunchSizes& launch = schedule.launch;
  launch.elements = loops.empty ? 0 : loops.parallel_count();
  launch.workgroups = loops.empty ? 0 : tile.tiles_m * tile.tiles_n * count_along(loops, tile.batch);
  launch.chunks = launch.workgroups;
  launch.workgroups_x = std::min<std::int64_t>(launch.workgroups, problem.target.caps.workgroup.max_groups_per_axis);
  schedule.dispatches = schedule.splits > 1 ? 2 : 1;
  schedule.wide = loops.count() >= (std::int64_t{1} << 31);
  schedule.full_chunks = true;
  schedule.workgroup = tile.shape.workgroup();
  schedule.vector_axis = tile.n.back();
  schedule.chunk_size = tile.elements;
  schedule.shared_bytes = matmul_shared_bytes(tile);
  if (tile.mma() != nullptr)
    schedule.subgroup =
        tile.lane_fragments() ? static_cast<int>(problem.target.caps.subgroup.size) : tile.shape.threads;
  if (schedule.splits > 1) schedule.scratch_bytes = 16 * schedule.splits * partial_vec4s(loops, tile);
}

/// Of all loops that one thread goes through, about and rather too many.
std::int64_t iterations_of(const Loops& loops, const MatmulParams& tile, int splits) {
  const std::int64_t steps = ceil_div(count_along(loops, tile.k), tile.shape.k);
  return ceil_div(steps, splits) * iterations_of_step(tile, tile.shape);
}

std::optional<Schedule> with_shape(const Problem& problem, PlannedAccesses& planned, MatmulParams tile,
                                   const TileShape& shape, int splits = 1) {
  if (!take_shape(problem, shape, splits, tile)) return std::nullopt;
  Schedule schedule;
  schedule.splits = splits;
  choose_launch(problem, tile, schedule);
  const MatmulParams& params = schedule.params.emplace<MatmulParams>(std::move(tile));
  plan_all(problem.graph, problem.loops, problem.tuning, planned, schedule);
  if (const WorkgroupMatrixProducts* products = params.workgroup(); products != nullptr && splits == 1) {
    schedule.stores[0] = {AccessKind::vector, 16};
    for (ValueId id : products->beside) schedule.loads[id] = {AccessKind::vector, 16};
    schedule.reads_of_others = true;
  }
  const std::int64_t iterations = iterations_of(problem.loops, params, splits);
  if (!check_limits(problem.graph, problem.loops, problem.target, schedule, iterations).ok()) return std::nullopt;
  model_matmul(problem.graph, problem.loops, problem.target, schedule);
  if (params.mma() != nullptr && problem.target.type != DeviceType::cpu && !problem.tuning.tile &&
      schedule.cost.registers > device_model(problem.target).matrices.kernels.matmul_registers)
    return std::nullopt;
  return schedule;
}

/// The dtype that all operands are for hardware that multiplies many at once, if they are of one.
std::optional<DType> dtype_of_operands(const ir::Graph& graph, const Loops& loops, const MatmulParams& tile,
                                       bool unscaled) {
  std::optional<DType> all;
  for (const TileOperand& tile_operand : tile.tile_operands) {
    const auto dtype = sub32_dtype(graph, loops, tile_operand.value, unscaled);
    if (!dtype || (all && *all != *dtype)) return std::nullopt;
    all = dtype;
  }
  return all;
}

/// The elements of a chunk of the operand that has the fewest.
int fewest_elements(const MatmulParams& tile) {
  int fewest = tile.tile_operands.front().elements;
  for (const TileOperand& tile_operand : tile.tile_operands) fewest = std::min(fewest, tile_operand.elements);
  return fewest;
}

/// Whether sums are of the dtypes that products of operands are added up in. Sums of bytes are integers, and of so few
/// that none is lost.
bool has_exact_sums(const ir::Graph& graph, const Loops& loops, const MatmulParams& tile, bool bytes) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 15;  // 255 * 255 of them are within 31 bits
  return std::all_of(tile.sums.begin(), tile.sums.end(), [&](const MatmulParams::Sum& sum) {
    const DType type = graph.node(loops.values[sum.reduction].node).type.dtype;
    return is_float(type) ? !bytes || count_along(loops, tile.k) <= kMostBytes : bytes;
  });
}

/// What all operands are for hardware that multiplies many at once: their dtype and that of sums.
std::optional<MatrixKind> kind_of(const ir::Graph& graph, const Loops& loops, const MatmulParams& tile, bool unscaled) {
  const std::optional<DType> all = dtype_of_operands(graph, loops, tile, unscaled);
  const auto kind = std::find_if(std::begin(kMatrixKinds), std::end(kMatrixKinds),
                                 [&](const MatrixKind& one) { return all && one.operands == *all; });
  if (kind == std::end(kMatrixKinds)) return std::nullopt;
  const bool bytes = is_integer(*all);
  const bool words = std::all_of(tile.tile_operands.begin(), tile.tile_operands.end(),
                                 [](const TileOperand& tile_operand) { return tile_operand.elements % 4 == 0; });
  if (bytes && (!words || !tile.row_reductions.empty())) return std::nullopt;
  if (*all == DType::bf16 && fewest_elements(tile) < 2) return std::nullopt;
  if (!has_exact_sums(graph, loops, tile, bytes)) return std::nullopt;
  return *kind;
}

/// The largest product that the device offers for these operands.
std::optional<MatrixShape> fragment_for(const Problem& problem, const std::optional<MatrixKind>& kind) {
  if (!kind || !uses_cooperative_matrices(problem)) return std::nullopt;
  const Caps& caps = problem.target.caps;
  const auto halves = problem.tuning.f16_accumulation && kind->operands == DType::f16
                          ? matrix_of(caps, DType::f16, DType::f16)
                          : std::nullopt;
  return halves ? halves : matrix_of(caps, kind->operands, kind->sums);
}

/// Whether loops of other sizes have the contractions of a tile.
bool is_same_match(const MatmulParams& matched, const MatmulParams& tile) {
  const auto same = [](const TileOperand& a, const TileOperand& b) {
    return a.value == b.value && a.second == b.second;
  };
  return matched.batch == tile.batch && matched.m == tile.m && matched.n == tile.n && matched.k == tile.k &&
         matched.sums.size() == tile.sums.size() && matched.row_reductions.size() == tile.row_reductions.size() &&
         matched.row_values == tile.row_values && matched.epilogues == tile.epilogues && matched.block == tile.block &&
         std::equal(matched.tile_operands.begin(), matched.tile_operands.end(), tile.tile_operands.begin(),
                    tile.tile_operands.end(), same);
}

/// Whether chunks lie within the axes that they lie along.
bool fits_chunks(const Loops& loops, const MatmulParams& tile) {
  const auto fits = [&](const std::vector<int>& axes, bool flattened, int elements) {
    const std::int64_t size =
        flattened ? count_along(loops, axes) : loops.axes[static_cast<std::size_t>(axes.back())].size;
    return size % elements == 0;
  };
  return fits(tile.n, false, tile.elements) &&
         std::all_of(tile.tile_operands.begin(), tile.tile_operands.end(), [&](const TileOperand& tile_operand) {
           const std::vector<int>& own = tile_operand.second ? tile.n : tile.m;
           return fits(tile_operand.along_k ? tile.k : own, tile_operand.flattened, tile_operand.elements);
         });
}

int subtile_of(const MatmulParams& tile) { return tile.cooperative() != nullptr ? tile.cooperative()->subtile : 0; }

/// Whether chunks of operands and subtiles have become others.
bool has_other_chunks(const MatmulParams& resized, const MatmulParams& tile) {
  const auto same = [](const TileOperand& a, const TileOperand& b) { return a.elements == b.elements; };
  return subtile_of(resized) != subtile_of(tile) ||
         !std::equal(resized.tile_operands.begin(), resized.tile_operands.end(), tile.tile_operands.begin(),
                     tile.tile_operands.end(), same);
}

}  // namespace

std::optional<Schedule> matmul_at_other_sizes(const Problem& problem, const Schedule& requested) {
  const auto matched = match_matmul(problem.graph, problem.loops);
  const MatmulParams& tile = requested.as<MatmulParams>();
  if (!matched || !is_same_match(*matched, tile) || !fits_chunks(problem.loops, tile)) return std::nullopt;
  if ((tile.integer_dot() || tile.mma() != nullptr) &&
      !kind_of(problem.graph, problem.loops, tile, requested.transforms.sunk_scales))
    return std::nullopt;
  PlannedAccesses planned;
  auto schedule = with_shape(problem, planned, tile, tile.shape, requested.splits);
  if (!schedule || !serve(*schedule, requested) || has_other_chunks(schedule->as<MatmulParams>(), tile))
    return std::nullopt;
  return schedule;
}

namespace {

/// Looks for the best tile of loops that have been matched.
class TileSearch {
 public:
  TileSearch(const Problem& problem, MatmulParams tile, bool sunk_scales)
      : problem_(problem), tile_(std::move(tile)), kind_(kind_of(problem.graph, problem.loops, tile_, sunk_scales)) {}

  std::optional<Schedule> run() {
    if (const auto mma = fragment_for(problem_, kind_)) {
      try_lane_fragments();
      if (scope_ == MatrixScope::lanes && best_) return std::move(best_);
      if (scope_ == MatrixScope::lanes) scope_.reset();  // where lanes cannot, others do
      try_cooperative_matrices(*mma);
      if (problem_.tuning.tile || (best_ && problem_.tuning.cooperative_matrix.value_or(false)))
        return std::move(best_);
    }
    if (uses_integer_dot())
      tile_.products = IntegerDotProducts{};
    else
      tile_.products = SimtProducts{};
    try_threads();
    return std::move(best_);
  }

 private:
  [[nodiscard]] bool may_be_of(MatrixScope scope) const { return scope_.value_or(scope) == scope; }

  void try_cooperative_matrices(const MatrixShape& mma) {
    tile_.products = CooperativeMatrixProducts{mma};
    for (TileShape shape : kCooperativeMatrixShapes) {
      if (size_of(mma.a) == 1) shape.k *= 2;
      if (problem_.tuning.tile) shape = *problem_.tuning.tile;
      shape.threads = static_cast<int>(problem_.target.caps.subgroup.size);
      if (may_be_of(MatrixScope::subgroups)) try_shape(shape);
      if (!problem_.tuning.tile) continue;
      if (may_be_of(MatrixScope::workgroup)) try_workgroup_scope_of(mma, shape);
      return;
    }
    if (!may_be_of(MatrixScope::workgroup)) return;
    for (const WorkgroupTile& tile : problem_.target.caps.matrix2.tiles) try_workgroup_scope(mma, shape_of(tile));
  }

  /// Vectors of a chunk of weights, and subgroups that share a sum: what was fastest somewhere on an H200
  /// (bench/results/h200-few-rows.txt).
  void try_lane_fragments() {
    const Tuning& tuning = problem_.tuning;
    const bool is_wanted = tuning.matrix_scope == MatrixScope::lanes || problem_.target.type != DeviceType::cpu;
    if (kind_->operands != DType::f16 || tuning.tile || tuning.splits.value_or(1) > 1 ||
        !may_be_of(MatrixScope::lanes) || !is_wanted)
      return;
    for (const int vectors : {1, 2}) {
      const auto tile = with_lane_fragments(problem_.loops, problem_.target, tile_, vectors);
      if (!tile) return;
      for (const int subgroups : {4, 8, 16})
        consider(with_shape(problem_, planned_, *tile, shape_of_lane_fragments(*tile, subgroups)));
    }
  }

  /// Where a workgroup multiplies tiles of this size as one.
  void try_workgroup_scope_of(const MatrixShape& mma, const TileShape& shape) {
    const std::vector<WorkgroupTile>& tiles = problem_.target.caps.matrix2.tiles;
    const auto known = std::find(tiles.begin(), tiles.end(), WorkgroupTile{shape.m, shape.n, shape.k});
    if (known != tiles.end()) try_workgroup_scope(mma, shape_of(*known));
  }

  void try_workgroup_scope(const MatrixShape& mma, const TileShape& shape) {
    MatmulParams of_workgroup = tile_;
    of_workgroup.products = WorkgroupMatrixProducts{{mma}};
    for (int splits = 1; splits <= kMostOfWorkgroupTile; ++splits) {
      if (splits > 1 && problem_.tuning.splits.value_or(splits) != splits) continue;
      consider(with_shape(problem_, planned_, of_workgroup, shape, splits));
    }
  }

  [[nodiscard]] bool uses_integer_dot() const {
    return kind_ && kind_->operands == DType::i8 && problem_.target.has(FeatureTier::dot_product) &&
           problem_.tuning.integer_dot.value_or(problem_.target.caps.arithmetic.dot_product_i8_accelerated);
  }

  void try_threads() {
    if (problem_.tuning.tile) return try_shape(deep(*problem_.tuning.tile));
    if (problem_.target.type == DeviceType::cpu) {
      try_threads_of_cpu();
    } else {
      for (const TileShape& shape : kGpuShapes) try_shape(deep(shape));
    }
    for (const TileShape& shape : kLowRegisterShapes) {
      if (best_ && registers_over(problem_.target, best_->cost.registers) > 0) try_shape(deep(shape));
    }
  }

  void try_threads_of_cpu() {
    const auto along = [&](const std::vector<int>& axes) {
      return static_cast<double>(count_along(problem_.loops, axes));
    };
    const bool small =
        along(tile_.batch) * along(tile_.m) * along(tile_.n) * along(tile_.k) < kFewestMultipliesOfWideThreads;
    for (const TileShape& shape : kCpuShapes) {
      if (small && shape.thread_m * shape.thread_n <= 16) try_shape(deep(shape));
    }
    for (const TileShape& shape : kCpuShapes) {
      if (!best_ || !small) try_shape(deep(shape));
    }
  }

  [[nodiscard]] TileShape deep(TileShape shape) const {
    if (tile_.integer_dot()) shape.k *= 4;
    return shape;
  }

  /// Where tiles are fewer than what keeps a device busy, several workgroups share one (split-K).
  void try_shape(const TileShape& shape) {
    const Tuning& tuning = problem_.tuning;
    if (tuning.splits.value_or(1) > 1) {
      if (auto forced = split(shape, *tuning.splits)) return consider(std::move(forced));
    }
    const std::int64_t steps = ceil_div(count_along(problem_.loops, tile_.k), shape.k);
    // Where a driver does not go through as many, also on a CPU.
    const std::int64_t least =
        ceil_div(steps * iterations_of_step(tile_, shape), problem_.target.workarounds.leaves_loops_after);
    if (least > 1 && least <= kMostParts) return consider(split(shape, static_cast<int>(least)));
    auto whole = split(shape, 1);
    if (!whole) return;
    const std::int64_t tiles = whole->launch.workgroups;
    consider(std::move(whole));
    if (tuning.splits || problem_.target.type == DeviceType::cpu) return;
    for (const int splits : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128}) {
      if (static_cast<double>(tiles * (splits - 1)) >= 2 * device_model(problem_.target).units.count ||
          steps < kFewestSteps * splits)
        break;
      consider(split(shape, splits));
    }
  }

  std::optional<Schedule> split(const TileShape& shape, int splits) {
    return with_shape(problem_, planned_, tile_, shape, splits);
  }

  /// What spills is worse than any model says.
  void consider(std::optional<Schedule> one) {
    const auto worth = [&](const Schedule& schedule) {
      return std::pair(registers_over(problem_.target, schedule.cost.registers), schedule.cost.modelled_us);
    };
    if (one && (!best_ || worth(*one) < worth(*best_))) best_ = std::move(one);
  }

  const Problem& problem_;
  MatmulParams tile_;
  std::optional<MatrixKind> kind_;
  std::optional<MatrixScope> scope_ = problem_.tuning.matrix_scope;
  PlannedAccesses planned_;
  std::optional<Schedule> best_;
};

}  // namespace

std::optional<Schedule> best_matmul(const Problem& given) {
  const auto sunk = segment::with_sunk_scales(given.graph, given.loops);
  const Loops& scaled = sunk ? *sunk : given.loops;
  const auto exact = uses_cooperative_matrices(given) ? segment::with_sunk_literals(given.graph, scaled) : std::nullopt;
  const Problem problem = given.with(exact ? *exact : scaled);
  auto tile = match_matmul(problem.graph, problem.loops);
  if (!tile) return std::nullopt;
  choose_vectors(problem, *tile);
  auto schedule = TileSearch(problem, *std::move(tile), sunk.has_value()).run();
  if (schedule) schedule->transforms.sunk_scales = sunk.has_value();
  if (schedule) schedule->transforms.sunk_literals = exact.has_value();
  return schedule;
}

void describe_matmul(const Schedule& schedule, Description& description) {
  const auto& params = schedule.as<MatmulParams>();
  const TileShape& shape = params.shape;
  description.choices["splits"] = schedule.splits;
  description.choices["matmul"] = {shape.m, shape.n, shape.k, shape.thread_m, shape.thread_n, shape.threads};
  description.choices["cooperative_matrix"] = params.mma() != nullptr;
  if (params.lane_fragments()) description.choices["lane_fragments"] = true;
  if (schedule.splits > 1)
    description.more_launch.push_back(
        fmt::format("{} of them share a tile: {} dispatches", schedule.splits, schedule.dispatches));
}

}  // namespace vkfuse::schedule
