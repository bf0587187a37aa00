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

DType dtype_of(const ir::Graph& graph, ir::NodeId node) { return graph.node(node).type.dtype; }

bool offers_workgroup_scope(const Target& target, const MatmulParams& tile) {
  return tile.mma() != nullptr && is_float(tile.mma()->a) && tile.mma()->c == DType::f32 &&
         target.has(FeatureTier::cooperative_matrix2) && target.caps.matrix2.workgroup_tiles() &&
         target.type != DeviceType::cpu;
}

/// One sum, one result, and nothing reduced beside it.
bool is_single_contraction(const Loops& loops, const MatmulParams& tile) {
  return tile.sums.size() == 1 && tile.tile_operands.size() == 2 && loops.stores.size() == 1 &&
         tile.row_reductions.empty() && tile.row_values.empty() && tile.epilogues.empty();
}

bool has_full_tiles(const Loops& loops, const MatmulParams& tile) {
  const TileShape& shape = tile.shape;
  return !loops.empty && count_along(loops, tile.m) % shape.m == 0 && count_along(loops, tile.n) % shape.n == 0 &&
         count_along(loops, tile.k) % shape.k == 0;
}

double multiply_adds_of(const Loops& loops, const MatmulParams& tile) {
  return static_cast<double>(count_along(loops, tile.batch)) * static_cast<double>(count_along(loops, tile.m)) *
         static_cast<double>(count_along(loops, tile.n)) * static_cast<double>(count_along(loops, tile.k));
}

/// Whether an operand's elements are as they lie in memory, in rows of one stride.
bool reads_rows(const ir::Graph& graph, const Loops& loops, const MatmulParams& tile, const TileOperand& tile_operand) {
  const DType component = tile.mma()->a;
  const Value& load = loops.values[sub32_value(graph, loops, tile_operand.value)];
  if (load.kind != Value::Kind::load || !load.predicates.empty() || !load.data.empty() ||
      dtype_of(graph, load.node) != component || load.buffer_elements >= kMostElements)
    return false;
  const std::vector<int>& own = tile_operand.second ? tile.n : tile.m;
  return tile_operand.elements * size_of(component) == 16 &&
         row_stride(loops, load.offset, tile_operand.along_k ? own : tile.k, tile_operand.along_k ? tile.k : own,
                    tile_operand.elements);
}

/// Whether the result is stored in rows of one stride, as the device converts it.
bool stores_rows(const ir::Graph& graph, const Loops& loops, const MatmulParams& tile) {
  const segment::Store& store = loops.stores[0];
  const DType type = dtype_of(graph, store.node);
  return (type == tile.mma()->a || type == DType::f32) && store.buffer_elements < kMostElements &&
         row_stride(loops, store.offset, tile.m, tile.n, 16 / size_of(type));
}

}  // namespace

bool has_workgroup_tiles(const ir::Graph& graph, const Loops& loops, const Target& target, const MatmulParams& tile,
                         bool forced) {
  if (!offers_workgroup_scope(target, tile) || !is_single_contraction(loops, tile) || !has_full_tiles(loops, tile))
    return false;
  if (!forced && multiply_adds_of(loops, tile) < device_model(target).matrices.kernels.workgroup_scope_multiply_adds)
    return false;
  const auto reads = [&](const TileOperand& one) { return reads_rows(graph, loops, tile, one); };
  if (!std::all_of(tile.tile_operands.begin(), tile.tile_operands.end(), reads) || !stores_rows(graph, loops, tile))
    return false;
  // What is read for every element would be read one by one.
  const std::vector<segment::ValueId> results = backward_slice_of_results(loops);
  return std::none_of(results.begin(), results.end(), [&](segment::ValueId id) {
    const Value& value = loops.values[id];
    return value.kind == Value::Kind::load && runs_along(value, tile.m) && runs_along(value, tile.n);
  });
}

}  // namespace vkfuse::schedule
