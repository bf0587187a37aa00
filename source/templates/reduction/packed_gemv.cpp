// Weights of four bits times a vector with cooperative matrices (T4): threads take a bitwise instruction (two additions
// long), a difference and a multiply-add for each weight; where two share a register it is half of the first two, and
// the products are the unit's.
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

constexpr int kColumnsOfChunk = 32;       // 16 bytes
constexpr std::int64_t kMostOffset = 64;  // sums with the powers of 2 stay exact in f16
constexpr int kMostTiles = 16;

/// Whether it asks for something that only kernels of threads have.
bool is_of_threads(const Tuning& tuning) {
  return tuning.reduction_threads || tuning.register_block_rows || tuning.splits || tuning.workgroup ||
         tuning.vector_bytes || tuning.unroll_factor || tuning.persistent || tuning.online;
}

/// Of a contraction: the weights of four bits, the scale of several, and the vector.
std::optional<PackedGemvTile> match(const ir::Graph& graph, const Loops& loops, const Schedule& rows) {
  if (loops.passes != 1 || loops.keys() != 0 || loops.inner() != 0 || rows.as<ReductionParams>().vector_rows ||
      !rows.full_chunks || rows.chunk_size != kColumnsOfChunk)
    return std::nullopt;
  PackedGemvTile tile;
  int reductions = 0;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value::Kind kind = loops.values[id].kind;
    if (kind == Value::Kind::scan || kind == Value::Kind::sort || kind == Value::Kind::nested ||
        kind == Value::Kind::epilogue)
      return std::nullopt;
    if (kind != Value::Kind::reduction) continue;
    tile.reduction = id;
    ++reductions;
  }
  if (reductions != 1 || !sums_own_products(graph, loops, loops.values[tile.reduction])) return std::nullopt;
  for (const segment::Store& store : loops.stores) {
    if ((store.axes & loops.columns()) != 0) return std::nullopt;
  }
  const int axis = rows.vector_axis;
  const segment::AxisSet inner = segment::AxisSet{1} << axis;
  const Value& product = loops.values[loops.values[tile.reduction].operands[0]];
  const auto op_of = [&](ValueId id) {
    return loops.values[id].kind == Value::Kind::compute ? ops::element_row(*graph.node(loops.values[id].node).op).name
                                                         : std::string_view();
  };
  const auto weights_of = [&](ValueId id) -> std::optional<SubByteField> {
    if (op_of(id) != "cast" || !is_float(graph.node(loops.values[id].node).type.dtype)) return std::nullopt;
    const auto bits = sub_byte_field_of(graph, loops, loops.values[id].operands[0]);
    if (!bits || bits->mask != 15 || bits->flip > 15 || std::abs(bits->offset) > kMostOffset || !bits->shift ||
        !loops.values[bits->load].predicates.empty())
      return std::nullopt;
    const AccessPlan& load = rows.loads[bits->load];
    if (load.kind != AccessKind::vector || load.repeat != 2 || load.vector_bytes != 16) return std::nullopt;
    for (int e = 0; e < kColumnsOfChunk; ++e) {
      const auto in_chunk = [&](const index::Expr& offset) -> std::optional<std::int64_t> {  // column e of every chunk
        const std::int64_t chunks = loops.axes[static_cast<std::size_t>(axis)].size / kColumnsOfChunk;
        const index::Expr at =
            index::substitute(offset, {{axis, index::Expr::axis(axis, chunks) * kColumnsOfChunk + index::Expr(e)}});
        return at.is_constant() ? std::optional(at.constant()) : std::nullopt;
      };
      if (number_at(graph, loops, *bits->shift, in_chunk) != e % 2 * 4) return std::nullopt;
    }
    return bits;
  };
  for (const int weight : {0, 1}) {
    const ValueId scaled = product.operands[static_cast<std::size_t>(weight)];
    tile.vector = product.operands[static_cast<std::size_t>(1 - weight)];
    if (graph.node(loops.values[tile.vector].node).type.dtype != DType::f16 ||
        (loops.values[tile.vector].axes & ~loops.columns()) != 0)
      continue;
    std::optional<SubByteField> bits = weights_of(scaled);
    if (!bits && op_of(scaled) == "mul") {
      for (const int side : {0, 1}) {
        const ValueId scale = loops.values[scaled].operands[static_cast<std::size_t>(1 - side)];
        bits = (loops.values[scale].axes & inner) == 0
                   ? weights_of(loops.values[scaled].operands[static_cast<std::size_t>(side)])
                   : std::nullopt;
        if (!bits) continue;
        tile.scale = scale;
        break;
      }
    }
    if (!bits) continue;
    tile.load = bits->load;
    tile.flip = bits->flip;
    tile.offset = bits->offset;
    return tile;
  }
  return std::nullopt;
}

std::int64_t shared_bytes(const PackedGemvTile& tile, std::int64_t columns) {
  const std::int64_t rows = tile.mma.m;
  const std::int64_t words = std::int64_t{tile.subgroups} * rows * (tile.k_slice + 1) * 16;
  const std::int64_t scales = tile.scale ? tile.subgroups * scales_of_subgroup(tile, columns) * rows * 4 : 0;
  return columns * 2 + words + scales + std::int64_t{tile.subgroups} * tile.rows() * 4;
}

}  // namespace

std::optional<Schedule> best_packed_gemv(const Problem& problem, const Schedule& rows) {
  const ir::Graph& graph = problem.graph;
  const Loops& counted = problem.loops;
  const Target& target = problem.target;
  const Tuning& tuning = problem.tuning;
  if (!target.has(FeatureTier::cooperative_matrix) || !target.caps.matrix.sub_byte || rows.launch.elements == 0 ||
      rows.wide || !tuning.cooperative_matrix.value_or(target.type != DeviceType::cpu) || is_of_threads(tuning))
    return std::nullopt;
  const Loops loops = rows.transforms.merged_reduction_axes > 1
                          ? merge_reduction_axes(counted, rows.transforms.merged_reduction_axes)
                          : counted;
  std::optional<PackedGemvTile> posed = match(graph, loops, rows);
  if (!posed) return std::nullopt;
  posed->mma = *target.caps.matrix.sub_byte;
  const std::int64_t columns = loops.reduction_count();
  const std::int64_t innermost = loops.axes[static_cast<std::size_t>(rows.vector_axis)].size;
  const int fragment = 4 * static_cast<int>(posed->mma.k);
  const int threads = static_cast<int>(target.caps.subgroup.size);
  const auto tiles = static_cast<double>(ceil_div(loops.parallel_count(), posed->mma.m));
  const CostModel costs = costs_of(target);
  const DeviceModel& model = device_model(target);
  std::optional<PackedGemvTile> best;
  double least = 0;
  for (int count = 1; count <= kMostTiles; ++count) {
    PackedGemvTile tile = *posed;
    tile.subgroups = model.packed_gemv.subgroups;
    tile.tiles = count;
    tile.k_slice = threads >= 8 ? 8 : 4;
    while (tile.k_slice > fragment / kColumnsOfChunk && columns % tile.k_slice_columns() != 0) tile.k_slice /= 2;
    const int workgroup = tile.subgroups * threads;
    if (columns % tile.k_slice_columns() != 0 || tile.k_slice_columns() % fragment != 0 ||
        threads % tile.k_slice != 0 || static_cast<int>(tile.mma.m) % (threads / tile.k_slice) != 0 ||
        columns / tile.k_slice_columns() < tile.subgroups || tile.rows() > workgroup ||
        workgroup > static_cast<int>(usable_invocations(target.caps))) {
      continue;
    }
    if (tile.mma.n > 4 * (static_cast<std::uint32_t>(tile.k_slice) + 1))
      continue;  // sums cross shared memory where words did
    tile.scale_columns = tile.k_slice_columns();
    while (tile.scale && tile.scale_columns > fragment && innermost % tile.scale_columns != 0) tile.scale_columns /= 2;
    if (tile.scale && (loops.values[*tile.scale].axes & loops.columns()) != 0 && innermost % tile.scale_columns != 0)
      continue;
    if (shared_bytes(tile, columns) > target.caps.workgroup.shared_memory_bytes) continue;
    const double slots = model.units.count * std::max(1, model.packed_gemv.threads / workgroup);
    const double tile_bytes = static_cast<double>(rows.cost.bytes_read) / tiles;
    double us = costs.launch_us;
    for (double left = std::ceil(tiles / count); left > 0; left -= slots) {
      us += model.packed_gemv.first_us +
            count * std::max(
                        std::min(left, slots) * tile_bytes / (model.packed_gemv.copy_share * costs.copy_gb_per_s * 1e3),
                        tile_bytes / (tile.subgroups * model.packed_gemv.bytes_per_us_and_subgroup));
    }
    if (best && us >= least) continue;
    best = tile;
    least = us;
  }
  if (!best || (!tuning.cooperative_matrix.value_or(false) && least >= rows.cost.modelled_us)) return std::nullopt;
  Schedule schedule = rows;
  schedule.as<ReductionParams>().packed = best;
  schedule.as<ReductionParams>().parallel_threads = best->rows();
  schedule.as<ReductionParams>().reduction_threads = 1;
  schedule.workgroup = best->subgroups * threads;
  schedule.launch.workgroups = ceil_div(loops.parallel_count(), best->rows());
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, target.caps.workgroup.max_groups_per_axis);
  schedule.as<ReductionParams>().iterations =
      ceil_div(schedule.launch.reduction_chunks, std::int64_t{best->subgroups} * best->k_slice);
  schedule.splits = schedule.dispatches = schedule.unroll_factor = 1;
  schedule.as<ReductionParams>().persistent = false;
  schedule.as<ReductionParams>().block = 0;
  schedule.subgroup = threads;
  schedule.scratch_bytes = 0;
  schedule.shared_bytes = shared_bytes(*best, columns);
  schedule.cost.modelled_us = least;
  return schedule;
}

}  // namespace vkfuse::schedule
