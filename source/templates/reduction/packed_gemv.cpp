// Weights of four or eight bits times a vector with cooperative matrices: threads take a bitwise instruction (two
// additions long), a difference and a multiply-add for each weight; where two share a register it is half of the first
// two, and the products are cooperative matrices'.
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

constexpr int kBytesOfChunk = 16;  // of a row
constexpr int kMostTiles = 16;
constexpr int kFewestSubgroups = 4;
constexpr int kLaneSteps = 2;
// Eight tiles of bytes took a thread 74 registers in place of 59 on an H200, and 82 us in place of 64.
constexpr int kMostLaneTilesOfBytes = 4;
constexpr std::int64_t kSlicesOfSubgroup = 4;

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

/// What is reduced: statistics of the vector, as a norm's, in passes before the one of the products.
struct Reduced {
  std::vector<ValueId> statistics, contractions;
};

/// Of a kernel in which sums of products are all that is stored, of rows that are read in whole chunks; nothing where
/// the loops are something else.
std::optional<Reduced> reduced_of(const ir::Graph& graph, const Loops& loops, const Schedule& rows) {
  if (loops.keys() != 0 || loops.inner() != 0 || rows.as<ReductionParams>().vector_rows || !rows.full_chunks)
    return std::nullopt;
  const bool stores_elements = std::any_of(loops.stores.begin(), loops.stores.end(), [&](const segment::Store& store) {
    return (store.axes & loops.columns()) != 0;
  });
  if (stores_elements) return std::nullopt;
  Reduced reduced;
  for (const ValueId id : only_reductions(loops)) {
    const Value& value = loops.values[id];
    if (value.level < loops.passes && value.axes == 0) {
      reduced.statistics.push_back(id);
    } else if (value.level == loops.passes && sums_own_products(graph, loops, value)) {
      reduced.contractions.push_back(id);
    } else {
      return std::nullopt;
    }
  }
  return reduced.contractions.empty() ? std::nullopt : std::optional(std::move(reduced));
}

std::string_view op_of(const ir::Graph& graph, const Value& value) {
  return value.kind == Value::Kind::compute ? ops::element_row(*graph.node(value.node).op).name : std::string_view();
}

/// Whether every byte of a chunk holds two neighbours, the first one in its lower half.
bool shifts_alternate(const ir::Graph& graph, const Loops& loops, const Schedule& rows, ValueId shift) {
  const int axis = rows.vector_axis;
  const std::int64_t chunks = loops.axes[static_cast<std::size_t>(axis)].size / rows.chunk_size;
  for (int e = 0; e < rows.chunk_size; ++e) {
    const auto in_chunk = [&](const index::Expr& offset) -> std::optional<std::int64_t> {  // element e of every chunk
      const index::Expr at =
          index::substitute(offset, {{axis, index::Expr::axis(axis, chunks) * rows.chunk_size + index::Expr(e)}});
      return at.is_constant() ? std::optional(at.constant()) : std::nullopt;
    };
    if (number_at(graph, loops, shift, in_chunk) != e % 2 * 4) return false;
  }
  return true;
}

/// Rows of the result, from one to the one before another.
struct Rows {
  std::int64_t begin = 0, end = 0;
};

/// The rows at which a predicate holds, where these follow each other along the only axis of rows.
std::optional<Rows> rows_of(const segment::Predicate& predicate, int axis) {
  if (predicate.negated || predicate.ranges.size() != 1 || index::stride_of(predicate.ranges[0].value, axis) != 1)
    return std::nullopt;
  const index::Expr first = index::substitute(predicate.ranges[0].value, {{axis, index::Expr(0)}});
  if (!first.is_constant()) return std::nullopt;
  return Rows{-first.constant(), predicate.ranges[0].size - first.constant()};
}

/// The only axis of rows; nothing where there are several.
std::optional<int> only_row_axis(const Loops& loops) {
  std::optional<int> only;
  for (std::size_t axis = 0; axis < loops.axes.size(); ++axis) {
    if (loops.axes[axis].role != segment::Role::parallel || loops.axes[axis].size == 1) continue;
    if (only) return std::nullopt;
    only = static_cast<int>(axis);
  }
  return only;
}

/// Whether numbers and the powers of 2 that they are bits of stay exact in f16.
bool is_exact(const ops::PackedCode& code) {
  const std::int64_t most = code.bits == 4 ? 64 : 512;
  return code.flip < 1u << code.bits && std::abs(code.offset) <= most;
}

/// What the products of some loops are made of.
class PackedOperands {
 public:
  PackedOperands(const ir::Graph& graph, const Loops& loops, const Schedule& rows, const MatrixShape& mma)
      : graph_(graph),
        loops_(loops),
        rows_(rows),
        tile_rows_(mma.m),
        row_axis_(only_row_axis(loops)),
        results_(backward_slice_of_results(loops)) {}

  /// The matrices that a value is, one below the other; none where it is something else.
  [[nodiscard]] std::vector<PackedMatrix> matrices_of(ValueId id) const {
    std::vector<PackedMatrix> found;
    const bool are_all = add_matrices(id, {0, loops_.parallel_count()}, found);
    const bool are_alike = std::all_of(found.begin(), found.end(), [&](const PackedMatrix& one) {
      return one.code == found[0].code && one.scale.has_value() == found[0].scale.has_value();
    });
    return are_all && are_alike ? found : std::vector<PackedMatrix>();
  }

 private:
  bool add_matrices(ValueId id, const Rows& rows, std::vector<PackedMatrix>& found) const {
    const Value& value = loops_.values[id];
    if (value.kind != Value::Kind::choose) {
      const auto matrix = matrix_of(id, rows);
      if (matrix) found.push_back(*matrix);
      return matrix.has_value();
    }
    if (!row_axis_ || value.predicates.size() != 1) return false;
    const auto chosen = rows_of(value.predicates[0], *row_axis_);
    if (!chosen || chosen->begin > rows.begin || chosen->end <= rows.begin || chosen->end >= rows.end ||
        chosen->end % tile_rows_ != 0)
      return false;
    return add_matrices(value.operands[0], {rows.begin, chosen->end}, found) &&
           add_matrices(value.operands[1], {chosen->end, rows.end}, found);
  }

  /// Weights, and what they are multiplied with along several elements.
  [[nodiscard]] std::optional<PackedMatrix> matrix_of(ValueId id, const Rows& rows) const {
    if (const auto weights = weights_of(id, rows)) return weights;
    const Value& product = loops_.values[id];
    if (op_of(graph_, product) != "mul") return std::nullopt;
    const segment::AxisSet innermost = segment::AxisSet{1} << rows_.vector_axis;
    for (const std::size_t side : {0u, 1u}) {
      const ValueId scale = product.operands[1 - side];
      if ((loops_.values[scale].axes & innermost) != 0 || loops_.values[scale].level != 0) continue;
      auto weights = weights_of(product.operands[side], rows);
      if (!weights || !is_known_at(scale, rows)) continue;
      weights->scale = scale;
      return weights;
    }
    return std::nullopt;
  }

  /// Where `id` is weights of four or eight bits as floats.
  [[nodiscard]] std::optional<PackedMatrix> weights_of(ValueId id, const Rows& rows) const {
    const auto number = packed_number_of(graph_, loops_, id);
    if (!number || rows_.chunk_size != number->code.per_chunk() || !is_exact(number->code) ||
        !loops_.values[number->load].data.empty() || !holds(number->load, rows))
      return std::nullopt;
    const AccessPlan& load = rows_.loads[number->load];
    if (load.kind != AccessKind::vector || load.repeat != 8 / number->code.bits || load.vector_bytes != kBytesOfChunk ||
        (number->shift && !shifts_alternate(graph_, loops_, rows_, *number->shift)))
      return std::nullopt;
    return PackedMatrix{number->load, std::nullopt, number->code, rows.end};
  }

  /// Whether the predicates of a load hold at all of these rows, so that nothing asks for them: results, which are
  /// found of any row, do not read it.
  [[nodiscard]] bool holds(ValueId load, const Rows& rows) const {
    const Value& value = loops_.values[load];
    if (!value.predicates.empty() && std::binary_search(results_.begin(), results_.end(), load)) return false;
    return std::all_of(value.predicates.begin(), value.predicates.end(), [&](const segment::Predicate& predicate) {
      const auto own = row_axis_ ? rows_of(predicate, *row_axis_) : std::nullopt;
      return own && own->begin <= rows.begin && rows.end <= own->end;
    });
  }

  /// Whether what a value is computed from is there at all of these rows.
  [[nodiscard]] bool is_known_at(ValueId id, const Rows& rows) const {
    const std::vector<ValueId> slice = backward_slice_of(loops_, id);
    return std::all_of(slice.begin(), slice.end(), [&](ValueId one) {
      const Value& value = loops_.values[one];
      return value.kind == Value::Kind::load ? holds(one, rows) : value.kind != Value::Kind::choose || rows.begin == 0;
    });
  }

  const ir::Graph& graph_;
  const Loops& loops_;
  const Schedule& rows_;
  std::int64_t tile_rows_;
  std::optional<int> row_axis_;
  std::vector<ValueId> results_;  ///< what they are computed from beside sums, ascending
};

/// Of the sum of products with a vector: the weights of few bits.
std::optional<PackedWeights> weights_beside(const Loops& loops, const PackedOperands& operands, ValueId reduction,
                                            ValueId vector) {
  const Value& product = loops.values[loops.values[reduction].operands[0]];
  for (const std::size_t side : {0u, 1u}) {
    if (product.operands[1 - side] != vector) continue;
    auto matrices = operands.matrices_of(product.operands[side]);
    if (!matrices.empty()) return PackedWeights{reduction, std::move(matrices)};
  }
  return std::nullopt;
}

/// Of each contraction its weights, all of which are multiplied with the vector; nothing where one has others.
std::vector<PackedWeights> sums_with(const Loops& loops, const PackedOperands& operands,
                                     const std::vector<ValueId>& contractions, ValueId vector) {
  std::vector<PackedWeights> sums;
  for (const ValueId contraction : contractions) {
    auto weights = weights_beside(loops, operands, contraction, vector);
    if (!weights || (!sums.empty() && !sums[0].first().code.is_like(weights->first().code))) return {};
    sums.push_back(*std::move(weights));
  }
  return sums;
}

std::optional<PackedGemvTile> match(const ir::Graph& graph, const Loops& loops, const Schedule& rows,
                                    const MatrixShape& mma) {
  const auto reduced = reduced_of(graph, loops, rows);
  if (!reduced) return std::nullopt;
  const PackedOperands operands(graph, loops, rows, mma);
  const Value& product = loops.values[loops.values[reduced->contractions[0]].operands[0]];
  for (const ValueId vector : product.operands) {
    if (graph.node(loops.values[vector].node).type.dtype != DType::f16 ||
        (loops.values[vector].axes & ~loops.columns()) != 0)
      continue;
    PackedGemvTile tile;
    tile.mma = mma;
    tile.vector = vector;
    tile.statistics = static_cast<int>(reduced->statistics.size());
    tile.sums = sums_with(loops, operands, reduced->contractions, vector);
    if (!tile.sums.empty()) return tile;
  }
  return std::nullopt;
}

/// Words of weights, their scales, and which elements of the vector are of a column's group.
std::int64_t staged_bytes(const PackedGemvTile& tile) {
  if (tile.lane_fragments()) return 0;
  const std::int64_t words = std::int64_t{tile.subgroups} * tile.mma.m * (tile.k_slice + 1) * 16;
  const std::int64_t scales = tile.has_scales() ? std::int64_t{tile.scale_slots()} * 4 : 0;
  return words + scales + (tile.groups() > 1 ? std::int64_t{tile.mma.k} * tile.mma.n * 2 : 0);
}

std::int64_t shared_bytes(const PackedGemvTile& tile, std::int64_t row_elements) {
  const std::int64_t rows = tile.rows() * static_cast<std::int64_t>(tile.sums.size());
  const std::int64_t nan_rows = tile.code().hides_nan() ? rows : 0;
  constexpr int kOfStatistic = 16;  // at most so many bytes of each subgroup
  return (tile.keeps_vector ? row_elements * 2 : 0) + staged_bytes(tile) + (tile.subgroups * rows + nan_rows) * 4 +
         std::int64_t{tile.subgroups} * tile.statistics * kOfStatistic;
}

/// Whether a device, a tuning and the schedule of threads leave room for such a kernel.
bool may_use_cooperative_matrices(const Target& target, const Tuning& tuning, const Schedule& rows) {
  return target.has(FeatureTier::cooperative_matrix) && target.caps.matrix.sub_byte && rows.launch.elements != 0 &&
         !rows.wide && tuning.cooperative_matrix.value_or(target.type != DeviceType::cpu) && !is_of_threads(tuning);
}

/// Whether the K-slices of a tile cover a row, and its subgroups and their threads each have a part of the work.
bool divides_work(const PackedGemvTile& tile, const Target& target, std::int64_t row_elements) {
  const int threads = static_cast<int>(target.caps.subgroup.size);
  const int workgroup = tile.subgroups * threads;
  if (row_elements % tile.k_slice_columns() != 0 || tile.k_slice_columns() % tile.fragment_columns() != 0 ||
      threads % tile.k_slice != 0 || static_cast<int>(tile.mma.m) % (threads / tile.k_slice) != 0)
    return false;
  return row_elements / tile.k_slice_columns() >= tile.subgroups && tile.rows() <= workgroup &&
         workgroup <= static_cast<int>(usable_invocations(target.caps)) &&
         tile.mma.n <= 4 * (static_cast<std::uint32_t>(tile.k_slice) + 1);  // sums are staged where words were
}

bool scales_differ_along_rows(const PackedGemvTile& tile, const Loops& loops) {
  const auto differs = [&](const PackedMatrix& one) {
    return one.scale && (loops.values[*one.scale].axes & loops.columns()) != 0;
  };
  return std::any_of(tile.sums.begin(), tile.sums.end(), [&](const PackedWeights& one) {
    return std::any_of(one.matrices.begin(), one.matrices.end(), differs);
  });
}

/// Takes as many elements for each scale as those of a K-slice may share; false where scales do not fit columns of
/// sums.
bool take_scale_columns(PackedGemvTile& tile, const Loops& loops, int axis) {
  const std::int64_t innermost = loops.axes[static_cast<std::size_t>(axis)].size;
  tile.scale_columns = tile.k_slice_columns();
  while (tile.has_scales() && tile.scale_columns > tile.code().per_chunk() && innermost % tile.scale_columns != 0)
    tile.scale_columns /= 2;
  if (scales_differ_along_rows(tile, loops) && innermost % tile.scale_columns != 0) return false;
  // Zeros in place of another group's elements are no numbers times infinity.
  const bool may_be_infinite = tile.code().format && ops::row_of(*tile.code().format).infinity >= 0;
  return tile.groups() == 1 || (!may_be_infinite && tile.groups() <= static_cast<int>(tile.mma.n));
}

/// Takes K-slices that divide a row, and as many elements for each scale as these may share; false where the tile
/// cannot be of these loops.
bool take_k_slices(PackedGemvTile& tile, const Loops& loops, const Target& target, int axis) {
  const std::int64_t row_elements = loops.reduction_count();
  const int chunk = tile.code().per_chunk();
  tile.k_slice = target.caps.subgroup.size >= 8 ? 8 : 4;
  while (tile.k_slice > tile.fragment_columns() / chunk && row_elements % tile.k_slice_columns() != 0)
    tile.k_slice /= 2;
  return take_scale_columns(tile, loops, axis) && tile.mma.k / 8 % static_cast<std::uint32_t>(tile.groups()) == 0;
}

/// Leaves as many subgroups as have K-slices and room in shared memory; false where there is none for one.
bool take_subgroups(PackedGemvTile& tile, const Target& target, std::int64_t row_elements) {
  // A subgroup has several K-slices, one in flight while another is multiplied.
  while (tile.subgroups > kFewestSubgroups &&
         row_elements < kSlicesOfSubgroup * tile.subgroups * tile.k_slice_columns())
    tile.subgroups /= 2;
  // Beside a long vector there is room for the words of fewer subgroups. Those that share statistics are a power of 2.
  const auto fits = [&] { return shared_bytes(tile, row_elements) <= target.caps.workgroup.shared_memory_bytes; };
  while (tile.subgroups > 1 && !fits()) tile.subgroups -= tile.statistics > 0 ? tile.subgroups / 2 : 1;
  return fits();
}

/// What is matched as so many tiles of a workgroup; nothing where these do not divide the work.
std::optional<PackedGemvTile> tile_of(const PackedGemvTile& matched, int count, const Loops& loops,
                                      const Target& target, int axis) {
  PackedGemvTile tile = matched;
  tile.subgroups = static_cast<int>(device_model(target).packed_gemv.subgroups.value);
  tile.tiles = count;
  const std::int64_t row_elements = loops.reduction_count();
  const bool fits = take_k_slices(tile, loops, target, axis) && take_subgroups(tile, target, row_elements);
  return fits && divides_work(tile, target, row_elements) ? std::optional(tile) : std::nullopt;
}

/// Whether lanes may load the vector as it lies in memory, 16 bytes at a time.
bool may_load_vector(const PackedGemvTile& tile, const Loops& loops, const Schedule& rows) {
  const Value& vector = loops.values[tile.vector];
  const AccessPlan& load = rows.loads[tile.vector];
  return vector.kind == Value::Kind::load && vector.data.empty() && vector.predicates.empty() &&
         load.kind == AccessKind::vector && load.vector_bytes == kBytesOfChunk && load.step == 1 && load.repeat == 1;
}

/// Of lanes: as many subgroups as have K-slices, and so many that each has as many as others, if such a number is near.
int subgroups_of_lanes(const PackedGemvTile& tile, std::int64_t k_slices, int most) {
  while (most > kFewestSubgroups && k_slices < std::int64_t{tile.lane_steps} * most) most /= 2;
  if (tile.statistics > 0) return most;  // which share them as a power of 2
  for (int count = most; count > most / 2; --count) {
    if (k_slices % (std::int64_t{tile.lane_steps} * count) == 0) return count;
  }
  return most;
}

/// What is matched as so many tiles of a workgroup whose lanes make the fragments; nothing where they cannot.
std::optional<PackedGemvTile> lane_tile_of(const PackedGemvTile& matched, int count, const Problem& problem,
                                           const Loops& loops, const Schedule& rows) {
  const Target& target = problem.target;
  // 16 x 8 x 16 and 32 lanes, each with elements of two rows (lane_fragments_of).
  const std::optional<MatrixShape>& fragments = target.caps.matrix.lane_fragments;
  if (!fragments || fragments->m != matched.mma.m || fragments->n != matched.mma.n || fragments->k != matched.mma.k)
    return std::nullopt;
  PackedGemvTile tile = matched;
  tile.tiles = count;
  tile.lane_steps = kLaneSteps;
  tile.k_slice = kLanesOfRow;
  const std::int64_t row_elements = loops.reduction_count(), k_slices = row_elements / tile.k_slice_columns();
  if (row_elements % tile.k_slice_columns() != 0 || !take_scale_columns(tile, loops, rows.vector_axis) ||
      (tile.code().bits == 8 && count > kMostLaneTilesOfBytes))
    return std::nullopt;
  const int threads = static_cast<int>(target.caps.subgroup.size);
  const int most = static_cast<int>(usable_invocations(target.caps)) / threads;
  tile.subgroups = subgroups_of_lanes(tile, k_slices,
                                      std::min(most, static_cast<int>(device_model(target).lane_gemv.subgroups.value)));
  // A tile alone reads the vector once, wherever it is.
  tile.keeps_vector = count > 1 || !may_load_vector(tile, loops, rows);
  const bool fits = tile.rows() <= tile.subgroups * threads && k_slices >= tile.subgroups &&
                    shared_bytes(tile, row_elements) <= target.caps.workgroup.shared_memory_bytes;
  return fits ? std::optional(tile) : std::nullopt;
}

/// Whether threads are likely to be faster, whatever is modelled. Of whole numbers whose scales are for fewer elements
/// than a fragment has, they took 45 us of 8192 x 28672 on an H200, and fragments 63 of 28672 x 8192; codes of floats
/// take threads more than twice as long as fragments.
bool is_for_threads(const PackedGemvTile& tile) { return tile.groups() > 1 && !tile.code().format; }

/// About one for each compute unit, more where the matrix is long and much has to be in flight.
double fewest_workgroups(const Target& target, double bytes) {
  constexpr double kOfShort = 0.95, kOfLong = 1.6;
  const DeviceModel& model = device_model(target);
  return (bytes > model.caches.bytes ? kOfLong : kOfShort) * model.units.count;
}

/// What each workgroup waits for beside its weights: what elements of the vector have in common.
double statistics_us(const PackedGemvTile& tile, const Target& target) {
  const DeviceModel& model = device_model(target);
  const double cycle_us = model.units.count * model.units.multiply_adds / (costs_of(target).gflops * 1e3);
  return tile.statistics > 0 ? 2 * model.latencies.memory * cycle_us : 0;
}

/// Waves of workgroups whose lanes wait for nothing but memory.
double lanes_us_of(const PackedGemvTile& tile, const Target& target, double tiles, double bytes) {
  constexpr int kRegisters = 64;       // of a thread, about
  constexpr double kWorkgroups = 1.6;  // of each compute unit: fewer do not keep memory busy
  const CostModel costs = costs_of(target);
  const DeviceModel& model = device_model(target);
  const LaneGemv& fit = model.lane_gemv;
  const int workgroup = tile.subgroups * static_cast<int>(target.caps.subgroup.size);
  const double slots =
      model.units.count * std::max(1, static_cast<int>(model.units.registers) / kRegisters / workgroup);
  const double waves = std::ceil(std::ceil(tiles / tile.tiles) / slots);
  const double idle =
      std::max(1.0, kWorkgroups * model.units.count * tile.tiles / std::max(tiles, kWorkgroups * model.units.count));
  const double share = tile.code().bits == 4 ? fit.copy_share_of_fours : fit.copy_share_of_eights;
  return costs.launch_us + statistics_us(tile, target) + fit.start_us +
         waves * (fit.wave_us + (tile.keeps_vector ? fit.vector_us.value : 0)) +
         idle * bytes / (share * costs.copy_gb_per_s * 1e3);
}

/// Waves of workgroups, each as long as memory takes to bring their bytes, or a subgroup to wait for its own.
double modelled_us_of(const PackedGemvTile& tile, const Target& target, double tiles, double bytes) {
  if (tile.lane_fragments()) return lanes_us_of(tile, target, tiles, bytes);
  const CostModel costs = costs_of(target);
  const DeviceModel& model = device_model(target);
  const int workgroup = tile.subgroups * static_cast<int>(target.caps.subgroup.size);
  const double slots = model.units.count * std::max(1, static_cast<int>(model.packed_gemv.threads.value) / workgroup);
  const double tile_bytes = bytes / tiles;
  double us = costs.launch_us + statistics_us(tile, target);
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
  schedule.subgroup = static_cast<int>(target.caps.subgroup.size);
  schedule.workgroup = tile.subgroups * schedule.subgroup;
  params.parallel_threads = tile.rows();
  params.reduction_threads = tile.statistics > 0 ? schedule.workgroup : 1;  // that share the vector
  params.iterations = ceil_div(schedule.launch.reduction_chunks, std::int64_t{tile.subgroups} * tile.k_slice);
  params.persistent = false;
  params.block = 0;
  schedule.launch.workgroups = ceil_div(loops.parallel_count(), tile.rows());
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, target.caps.workgroup.max_groups_per_axis);
  schedule.splits = schedule.dispatches = schedule.unroll_factor = 1;
  schedule.scratch_bytes = 0;
  schedule.shared_bytes = shared_bytes(tile, loops.reduction_count());
  return schedule;
}

/// Of tiles of some rows and bytes the one that is modelled fastest; of as fast ones that which gives the busiest
/// compute unit the fewest tiles, where lanes make the fragments, and then that with the fewest workgroups, as long as
/// these keep the device busy. 1792 tiles of an H200 take 39.5 us eight at a time, 16 of them by some units, and 35.9
/// seven at a time, 14 (bench/results/h200-matvec-rows.txt).
class FastestTile {
 public:
  FastestTile(const Target& target, double tiles, double bytes) : target_(target), tiles_(tiles), bytes_(bytes) {}

  void take(const std::optional<PackedGemvTile>& one) {
    if (!one) return;
    const double own = modelled_us_of(*one, target_, tiles_, bytes_);
    const double workgroups = std::ceil(tiles_ / one->tiles);
    const bool busy = workgroups >= fewest_workgroups(target_, bytes_);
    const double of_busiest =
        one->lane_fragments() ? std::ceil(workgroups / device_model(target_).units.count) * one->tiles : 0;
    if (tile && (own > us || (own == us && (!busy || of_busiest > of_busiest_)))) return;
    tile = one;
    us = own;
    of_busiest_ = of_busiest;
  }

  std::optional<PackedGemvTile> tile;
  double us = 0;

 private:
  const Target& target_;
  double tiles_, bytes_;
  double of_busiest_ = 0;  ///< tiles
};

}  // namespace

std::optional<Schedule> best_packed_gemv(const Problem& problem, const Schedule& rows) {
  const Target& target = problem.target;
  if (!may_use_cooperative_matrices(target, problem.tuning, rows)) return std::nullopt;
  const Loops loops = rows.transforms.merged_reduction_axes > 1
                          ? merge_reduction_axes(problem.loops, rows.transforms.merged_reduction_axes)
                          : problem.loops;
  const auto matched = match(problem.graph, loops, rows, *target.caps.matrix.sub_byte);
  if (!matched) return std::nullopt;
  const bool forced = problem.tuning.cooperative_matrix.value_or(false);
  FastestTile fastest(target, static_cast<double>(ceil_div(loops.parallel_count(), matched->mma.m)),
                      static_cast<double>(rows.cost.bytes_read));
  for (int count = 1; count <= kMostTiles; ++count) fastest.take(lane_tile_of(*matched, count, problem, loops, rows));
  if (!fastest.tile) {
    for (int count = 1; count <= kMostTiles; ++count) {
      const auto tile = tile_of(*matched, count, loops, target, rows.vector_axis);
      if (tile && (forced || !is_for_threads(*tile))) fastest.take(tile);
    }
  }
  if (!fastest.tile || (!forced && fastest.us >= rows.cost.modelled_us)) return std::nullopt;
  Schedule schedule = schedule_of(*fastest.tile, loops, target, rows);
  schedule.cost.modelled_us = fastest.us;
  return schedule;
}

}  // namespace vkfuse::schedule
