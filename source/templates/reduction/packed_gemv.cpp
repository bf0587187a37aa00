// Weights of four bits times a vector with cooperative matrices: threads take a bitwise instruction (two additions
// long), a difference and a multiply-add for each weight; where two share a register it is half of the first two, and
// the products are cooperative matrices'.
#include <algorithm>
#include <cmath>

#include "device_model/device_model.hpp"
#include "schedule/operands.hpp"
#include "schedule/sub_byte.hpp"
#include "templates/reduction/packed_gemv.hpp"

namespace vkfuse::schedule {

namespace {

using segment::Loops;
using segment::Value;
using segment::ValueId;

constexpr int kElementsOfChunk = 32;      // of a row, in 16 bytes
constexpr std::int64_t kMostOffset = 64;  // sums with the powers of 2 stay exact in f16
constexpr int kMostTiles = 16;

/// Whether it asks for something that only kernels of threads have.
bool is_of_threads(const Tuning& tuning) {
  return tuning.reduction_threads || tuning.register_block_rows || tuning.splits || tuning.workgroup ||
         tuning.vector_bytes || tuning.unroll_factor || tuning.persistent || tuning.online;
}

/// The reductions of the loops; none where there is anything else that runs across elements.
std::vector<ValueId> only_reductions(const Loops& loops) {
  std::vector<ValueId> found;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value::Kind kind = loops.values[id].kind;
    if (kind == Value::Kind::scan || kind == Value::Kind::sort || kind == Value::Kind::nested ||
        kind == Value::Kind::epilogue)
      return {};
    if (kind == Value::Kind::reduction) found.push_back(id);
  }
  return found;
}

/// The contractions whose sums are all that is stored, of rows that are read in whole chunks; none where the loops are
/// something else.
std::vector<ValueId> only_contractions(const ir::Graph& graph, const Loops& loops, const Schedule& rows) {
  if (loops.passes != 1 || loops.keys() != 0 || loops.inner() != 0 || rows.as<ReductionParams>().vector_rows ||
      !rows.full_chunks || rows.chunk_size != kElementsOfChunk)
    return {};
  const std::vector<ValueId> reductions = only_reductions(loops);
  const bool are_sums = std::all_of(reductions.begin(), reductions.end(),
                                    [&](ValueId id) { return sums_own_products(graph, loops, loops.values[id]); });
  const bool stores_elements = std::any_of(loops.stores.begin(), loops.stores.end(), [&](const segment::Store& store) {
    return (store.axes & loops.columns()) != 0;
  });
  return are_sums && !stores_elements ? reductions : std::vector<ValueId>();
}

std::string_view op_of(const ir::Graph& graph, const Value& value) {
  return value.kind == Value::Kind::compute ? ops::element_row(*graph.node(value.node).op).name : std::string_view();
}

/// Whether every byte of a chunk holds two neighbours, the first one in its lower half.
bool shifts_alternate(const ir::Graph& graph, const Loops& loops, int axis, ValueId shift) {
  const std::int64_t chunks = loops.axes[static_cast<std::size_t>(axis)].size / kElementsOfChunk;
  for (int e = 0; e < kElementsOfChunk; ++e) {
    const auto in_chunk = [&](const index::Expr& offset) -> std::optional<std::int64_t> {  // element e of every chunk
      const index::Expr at =
          index::substitute(offset, {{axis, index::Expr::axis(axis, chunks) * kElementsOfChunk + index::Expr(e)}});
      return at.is_constant() ? std::optional(at.constant()) : std::nullopt;
    };
    if (number_at(graph, loops, shift, in_chunk) != e % 2 * 4) return false;
  }
  return true;
}

/// Where `id` is weights of four bits as floats.
std::optional<SubByteField> weights_of(const ir::Graph& graph, const Loops& loops, const Schedule& rows, ValueId id) {
  const auto bits = sub_byte_number_of(graph, loops, id);
  if (!bits || bits->mask != 15 || bits->flip > 15 || std::abs(bits->offset) > kMostOffset || !bits->shift ||
      !loops.values[bits->load].predicates.empty() || !loops.values[bits->load].data.empty())
    return std::nullopt;
  const AccessPlan& load = rows.loads[bits->load];
  if (load.kind != AccessKind::vector || load.repeat != 2 || load.vector_bytes != 16) return std::nullopt;
  return shifts_alternate(graph, loops, rows.vector_axis, *bits->shift) ? bits : std::nullopt;
}

/// Weights, and what they are multiplied with along several elements.
struct ScaledWeights {
  SubByteField bits;
  std::optional<ValueId> scale;
};

std::optional<ScaledWeights> scaled_weights_of(const ir::Graph& graph, const Loops& loops, const Schedule& rows,
                                               ValueId id) {
  if (const auto bits = weights_of(graph, loops, rows, id)) return ScaledWeights{*bits, std::nullopt};
  const Value& product = loops.values[id];
  if (op_of(graph, product) != "mul") return std::nullopt;
  const segment::AxisSet innermost = segment::AxisSet{1} << rows.vector_axis;
  for (const std::size_t side : {0u, 1u}) {
    const ValueId scale = product.operands[1 - side];
    if ((loops.values[scale].axes & innermost) != 0) continue;
    if (const auto bits = weights_of(graph, loops, rows, product.operands[side])) return ScaledWeights{*bits, scale};
  }
  return std::nullopt;
}

/// Of the sum of products with a vector: the weights of four bits, and the scale of several.
std::optional<PackedWeights> weights_beside(const ir::Graph& graph, const Loops& loops, const Schedule& rows,
                                            ValueId reduction, ValueId vector) {
  const Value& product = loops.values[loops.values[reduction].operands[0]];
  for (const std::size_t side : {0u, 1u}) {
    if (product.operands[1 - side] != vector) continue;
    const auto weights = scaled_weights_of(graph, loops, rows, product.operands[side]);
    if (!weights) continue;
    return PackedWeights{reduction, weights->bits.load, weights->scale, weights->bits.flip, weights->bits.offset};
  }
  return std::nullopt;
}

/// Of each contraction its weights, all of which are multiplied with the vector; nothing where one has others.
std::vector<PackedWeights> sums_with(const ir::Graph& graph, const Loops& loops, const Schedule& rows,
                                     const std::vector<ValueId>& contractions, ValueId vector) {
  std::vector<PackedWeights> sums;
  for (const ValueId contraction : contractions) {
    const auto weights = weights_beside(graph, loops, rows, contraction, vector);
    if (!weights || (!sums.empty() && sums[0].flip != weights->flip)) return {};
    sums.push_back(*weights);
  }
  return sums;
}

std::optional<PackedGemvTile> match(const ir::Graph& graph, const Loops& loops, const Schedule& rows) {
  const std::vector<ValueId> contractions = only_contractions(graph, loops, rows);
  if (contractions.empty()) return std::nullopt;
  const Value& product = loops.values[loops.values[contractions[0]].operands[0]];
  for (const ValueId vector : product.operands) {
    if (graph.node(loops.values[vector].node).type.dtype != DType::f16 ||
        (loops.values[vector].axes & ~loops.columns()) != 0)
      continue;
    PackedGemvTile tile;
    tile.vector = vector;
    tile.sums = sums_with(graph, loops, rows, contractions, vector);
    if (!tile.sums.empty()) return tile;
  }
  return std::nullopt;
}

std::int64_t shared_bytes(const PackedGemvTile& tile, std::int64_t row_elements) {
  const std::int64_t rows = tile.mma.m;
  const std::int64_t words = std::int64_t{tile.subgroups} * rows * (tile.k_slice + 1) * 16;
  const std::int64_t scales =
      tile.has_scales() ? tile.subgroups * scales_of_subgroup(tile, row_elements) * rows * 4 : 0;
  const std::int64_t parts = std::int64_t{tile.subgroups} * tile.rows() * static_cast<std::int64_t>(tile.sums.size());
  return row_elements * 2 + words + scales + parts * 4;
}

/// Whether a device, a tuning and the schedule of threads leave room for such a kernel.
bool may_use_cooperative_matrices(const Target& target, const Tuning& tuning, const Schedule& rows) {
  return target.has(FeatureTier::cooperative_matrix) && target.caps.matrix.sub_byte && rows.launch.elements != 0 &&
         !rows.wide && tuning.cooperative_matrix.value_or(target.type != DeviceType::cpu) && !is_of_threads(tuning);
}

/// Elements of a row in one fragment of packed weights, each register of which is unpacked into four.
int elements_of_fragment(const PackedGemvTile& tile) { return 4 * static_cast<int>(tile.mma.k); }

/// Whether the K-slices of a tile cover a row, and its subgroups and their threads each have a part of the work.
bool divides_work(const PackedGemvTile& tile, const Target& target, std::int64_t row_elements) {
  const int threads = static_cast<int>(target.caps.subgroup.size);
  const int workgroup = tile.subgroups * threads;
  if (row_elements % tile.k_slice_columns() != 0 || tile.k_slice_columns() % elements_of_fragment(tile) != 0 ||
      threads % tile.k_slice != 0 || static_cast<int>(tile.mma.m) % (threads / tile.k_slice) != 0)
    return false;
  return row_elements / tile.k_slice_columns() >= tile.subgroups && tile.rows() <= workgroup &&
         workgroup <= static_cast<int>(usable_invocations(target.caps)) &&
         tile.mma.n <= 4 * (static_cast<std::uint32_t>(tile.k_slice) + 1);  // sums are staged where words were
}

/// What is matched as so many tiles of a workgroup; nothing where these do not divide the work.
std::optional<PackedGemvTile> tile_of(const PackedGemvTile& matched, int count, const Loops& loops,
                                      const Target& target, int axis) {
  const std::int64_t row_elements = loops.reduction_count();
  const std::int64_t innermost = loops.axes[static_cast<std::size_t>(axis)].size;
  const int fragment = elements_of_fragment(matched);
  PackedGemvTile tile = matched;
  tile.subgroups = static_cast<int>(device_model(target).packed_gemv.subgroups.value);
  tile.tiles = count;
  tile.k_slice = target.caps.subgroup.size >= 8 ? 8 : 4;
  while (tile.k_slice > fragment / kElementsOfChunk && row_elements % tile.k_slice_columns() != 0) tile.k_slice /= 2;
  tile.scale_columns = tile.k_slice_columns();
  while (tile.has_scales() && tile.scale_columns > fragment && innermost % tile.scale_columns != 0)
    tile.scale_columns /= 2;
  const bool differ_along_rows = std::any_of(tile.sums.begin(), tile.sums.end(), [&](const PackedWeights& one) {
    return one.scale && (loops.values[*one.scale].axes & loops.columns()) != 0;
  });
  if (differ_along_rows && innermost % tile.scale_columns != 0) return std::nullopt;
  // Beside a long vector there is room for the words of fewer subgroups.
  const auto fits = [&] { return shared_bytes(tile, row_elements) <= target.caps.workgroup.shared_memory_bytes; };
  while (tile.subgroups > 1 && !fits()) tile.subgroups /= 2;
  return fits() && divides_work(tile, target, row_elements) ? std::optional(tile) : std::nullopt;
}

/// Waves of workgroups, each as long as memory takes to bring their bytes, or a subgroup to wait for its own.
double modelled_us_of(const PackedGemvTile& tile, const Target& target, double tiles, double bytes) {
  const CostModel costs = costs_of(target);
  const DeviceModel& model = device_model(target);
  const int workgroup = tile.subgroups * static_cast<int>(target.caps.subgroup.size);
  const double slots = model.units.count * std::max(1, static_cast<int>(model.packed_gemv.threads.value) / workgroup);
  const double tile_bytes = bytes / tiles;
  double us = costs.launch_us;
  for (double left = std::ceil(tiles / tile.tiles); left > 0; left -= slots) {
    us += model.packed_gemv.first_us +
          tile.tiles *
              std::max(std::min(left, slots) * tile_bytes / (model.packed_gemv.copy_share * costs.copy_gb_per_s * 1e3),
                       tile_bytes / (tile.subgroups * model.packed_gemv.bytes_per_us_and_subgroup));
  }
  return us;
}

/// The schedule of threads with this tile instead.
Schedule schedule_of(const PackedGemvTile& tile, const Loops& loops, const Target& target, const Schedule& rows) {
  Schedule schedule = rows;
  auto& params = schedule.as<ReductionParams>();
  params.packed = tile;
  params.parallel_threads = tile.rows();
  params.reduction_threads = 1;
  params.iterations = ceil_div(schedule.launch.reduction_chunks, std::int64_t{tile.subgroups} * tile.k_slice);
  params.persistent = false;
  params.block = 0;
  schedule.subgroup = static_cast<int>(target.caps.subgroup.size);
  schedule.workgroup = tile.subgroups * schedule.subgroup;
  schedule.launch.workgroups = ceil_div(loops.parallel_count(), tile.rows());
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, target.caps.workgroup.max_groups_per_axis);
  schedule.splits = schedule.dispatches = schedule.unroll_factor = 1;
  schedule.scratch_bytes = 0;
  schedule.shared_bytes = shared_bytes(tile, loops.reduction_count());
  return schedule;
}

}  // namespace

std::optional<Schedule> best_packed_gemv(const Problem& problem, const Schedule& rows) {
  const Target& target = problem.target;
  if (!may_use_cooperative_matrices(target, problem.tuning, rows)) return std::nullopt;
  const Loops loops = rows.transforms.merged_reduction_axes > 1
                          ? merge_reduction_axes(problem.loops, rows.transforms.merged_reduction_axes)
                          : problem.loops;
  std::optional<PackedGemvTile> matched = match(problem.graph, loops, rows);
  if (!matched) return std::nullopt;
  matched->mma = *target.caps.matrix.sub_byte;
  const auto tiles = static_cast<double>(ceil_div(loops.parallel_count(), matched->mma.m));
  std::optional<PackedGemvTile> best;
  double least = 0;
  for (int count = 1; count <= kMostTiles; ++count) {
    const auto tile = tile_of(*matched, count, loops, target, rows.vector_axis);
    if (!tile) continue;
    const double us = modelled_us_of(*tile, target, tiles, static_cast<double>(rows.cost.bytes_read));
    if (best && us >= least) continue;
    best = tile;
    least = us;
  }
  if (!best || (!problem.tuning.cooperative_matrix.value_or(false) && least >= rows.cost.modelled_us))
    return std::nullopt;
  Schedule schedule = schedule_of(*best, loops, target, rows);
  schedule.cost.modelled_us = least;
  return schedule;
}

}  // namespace vkfuse::schedule
