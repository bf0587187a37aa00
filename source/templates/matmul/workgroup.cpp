// Tiles that a workgroup multiplies as one (workgroup-scope cooperative matrices): which contractions are made of them.
#include <algorithm>

#include "device_model/device_model.hpp"
#include "schedule/operands.hpp"
#include "templates/matmul/tiles.hpp"

namespace vkfuse::schedule {

namespace {

using segment::Loops;
using segment::Value;

bool runs_along(const Value& value, std::span<const int> axes) {
  return std::any_of(axes.begin(), axes.end(), [&](int axis) { return ((value.axes >> axis) & 1u) != 0; });
}

constexpr std::int64_t kMostElements = std::int64_t{1} << 31;  // positions are 32-bit
constexpr std::int64_t kVectorElements = 8;                    // of 16 bits, in what a device loads a row from

DType dtype_of(const ir::Graph& graph, ir::NodeId node) { return graph.node(node).type.dtype; }

bool offers_workgroup_scope(const Target& target, const MatmulParams& tile) {
  return tile.mma() != nullptr && is_float(tile.mma()->a) && tile.mma()->c == DType::f32 &&
         target.has(FeatureTier::cooperative_matrix2) && !target.caps.matrix2.tiles.empty();
}

/// One sum, one result, and nothing reduced beside it.
bool is_single_contraction(const Loops& loops, const MatmulParams& tile) {
  return tile.sums.size() == 1 && tile.tile_operands.size() == 2 && loops.stores.size() == 1 &&
         tile.row_reductions.empty() && tile.row_values.empty() && tile.epilogues.empty();
}

/// The last tile along m or n may begin within the one before it: where vectors lie along it, it begins at one.
bool has_whole_tile(const Loops& loops, const MatmulParams& tile) {
  const auto reaches = [&](const std::vector<int>& axes, int extent, bool has_vectors) {
    const std::int64_t all = count_along(loops, axes);
    return all >= extent && (!has_vectors || all % extent == 0 || all % kVectorElements == 0);
  };
  const auto along_own = [&](bool second) {
    return std::any_of(tile.tile_operands.begin(), tile.tile_operands.end(),
                       [&](const TileOperand& one) { return one.second == second && !one.along_k; });
  };
  return !loops.empty && reaches(tile.m, tile.shape.m, along_own(false)) && reaches(tile.n, tile.shape.n, true);
}

double multiply_adds_of(const Loops& loops, const MatmulParams& tile) {
  return static_cast<double>(count_along(loops, tile.batch)) * static_cast<double>(count_along(loops, tile.m)) *
         static_cast<double>(count_along(loops, tile.n)) * static_cast<double>(count_along(loops, tile.k));
}

using Axes = std::span<const int>;

/// The axes along which positions of a tile differ: all of them, or the innermost where a tile has no others'
/// positions.
std::vector<Axes> axes_of_tile(const Loops& loops, const std::vector<int>& axes, int extent) {
  std::vector<Axes> all{axes};
  if (axes.size() > 1 && size_of_axis(loops, axes.back()) % extent == 0) all.push_back(Axes(axes).last(1));
  return all;
}

/// Whether an operand's elements are as they lie in memory.
bool reads_rows(const ir::Graph& graph, const Loops& loops, const MatmulParams& tile, const TileOperand& tile_operand) {
  const DType component = tile.mma()->a;
  const Value& load = loops.values[sub32_value(graph, loops, tile_operand.value)];
  return load.kind == Value::Kind::load && load.predicates.empty() && load.data.empty() &&
         dtype_of(graph, load.node) == component && load.buffer_elements < kMostElements &&
         tile_operand.elements * size_of(component) == 16 &&
         rows_of_operand(loops, tile, tile_operand, load.offset, component);
}

bool is_of_tiles(DType dtype, const MatmulParams& tile) { return dtype == tile.mma()->a || dtype == DType::f32; }

/// Whether the result is stored in rows of one stride, as the device converts it.
bool stores_rows(const ir::Graph& graph, const Loops& loops, const MatmulParams& tile) {
  const segment::Store& store = loops.stores[0];
  const DType type = dtype_of(graph, store.node);
  return is_of_tiles(type, tile) && store.buffer_elements < kMostElements &&
         stride_of_results(loops, tile, store.offset, type);
}

/// Whether what results are computed from can be brought as a tile.
bool is_brought(const ir::Graph& graph, const Loops& loops, const MatmulParams& tile, const Value& load) {
  const DType type = dtype_of(graph, load.node);
  return load.predicates.empty() && load.data.empty() && is_of_tiles(type, tile) &&
         load.buffer_elements < kMostElements && stride_of_results(loops, tile, load.offset, type);
}

}  // namespace

std::optional<TileRows> rows_of_operand(const Loops& loops, const MatmulParams& tile, const TileOperand& tile_operand,
                                        const index::Expr& offset, DType component) {
  const std::vector<int>& own = tile_operand.second ? tile.n : tile.m;
  for (const Axes k : axes_of_tile(loops, tile.k, tile.shape.k)) {
    for (const Axes side : axes_of_tile(loops, own, tile_operand.second ? tile.shape.n : tile.shape.m)) {
      const auto stride = row_stride(loops, offset, tile_operand.along_k ? side : k, tile_operand.along_k ? k : side,
                                     16 / size_of(component));
      if (stride) return TileRows{*stride, k.size() < tile.k.size()};
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> stride_of_results(const Loops& loops, const MatmulParams& tile, const index::Expr& offset,
                                              DType component) {
  for (const Axes m : axes_of_tile(loops, tile.m, tile.shape.m)) {
    for (const Axes n : axes_of_tile(loops, tile.n, tile.shape.n)) {
      if (const auto stride = row_stride(loops, offset, m, n, 16 / size_of(component))) return stride;
    }
  }
  return std::nullopt;
}

std::optional<WorkgroupMatrixProducts> workgroup_products(const ir::Graph& graph, const Loops& loops,
                                                          const Target& target, const MatmulParams& tile, bool forced) {
  if (!offers_workgroup_scope(target, tile) || !is_single_contraction(loops, tile) || !has_whole_tile(loops, tile))
    return std::nullopt;
  if (!forced && multiply_adds_of(loops, tile) < device_model(target).matrices.workgroup_tiles.multiply_adds)
    return std::nullopt;
  const auto reads = [&](const TileOperand& one) { return reads_rows(graph, loops, tile, one); };
  if (!std::all_of(tile.tile_operands.begin(), tile.tile_operands.end(), reads) || !stores_rows(graph, loops, tile))
    return std::nullopt;
  WorkgroupMatrixProducts products{*tile.cooperative(), {}};
  // What else is read for every element would be read one by one. Of two such tiles the registers were not tried.
  for (segment::ValueId id : backward_slice_of_results(loops)) {
    const Value& value = loops.values[id];
    if (value.kind != Value::Kind::load || !runs_along(value, tile.m) || !runs_along(value, tile.n)) continue;
    if (!products.beside.empty() || !is_brought(graph, loops, tile, value)) return std::nullopt;
    products.beside.push_back(id);
  }
  return products;
}

}  // namespace vkfuse::schedule
