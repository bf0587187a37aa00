// Tiles that a workgroup multiplies as one (T5): which products are made of them.
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

}  // namespace

bool has_workgroup_tiles(const ir::Graph& graph, const Loops& loops, const Target& target, const MatmulParams& tile,
                         bool forced) {
  const TileShape& shape = tile.shape;
  if (!tile.mma() || !is_float(tile.mma()->a) || tile.mma()->c != DType::f32 ||
      !target.has(FeatureTier::cooperative_matrix2) || !target.caps.matrix2.workgroup_tiles() ||
      target.type == DeviceType::cpu)
    return false;
  if (tile.sums.size() != 1 || tile.tile_operands.size() != 2 || loops.stores.size() != 1 ||
      !tile.row_reductions.empty() || !tile.row_values.empty() || !tile.epilogues.empty())
    return false;
  if (loops.empty || count_along(loops, tile.m) % shape.m != 0 || count_along(loops, tile.n) % shape.n != 0 ||
      count_along(loops, tile.k) % shape.k != 0)
    return false;
  const double products =
      static_cast<double>(count_along(loops, tile.batch)) * static_cast<double>(count_along(loops, tile.m)) *
      static_cast<double>(count_along(loops, tile.n)) * static_cast<double>(count_along(loops, tile.k));
  if (!forced && products < device_model(target).matrices.kernels.workgroup_scope_multiply_adds) return false;
  const auto dtype_of = [&](ir::NodeId node) { return graph.node(node).type.dtype; };
  for (const TileOperand& tile_operand : tile.tile_operands) {
    const Value& load = loops.values[sub32_value(graph, loops, tile_operand.value)];
    if (load.kind != Value::Kind::load || !load.predicates.empty() || !load.data.empty() ||
        dtype_of(load.node) != tile.mma()->a || load.buffer_elements >= kMostElements)
      return false;
    const std::vector<int>& own = tile_operand.second ? tile.n : tile.m;
    if (tile_operand.elements * size_of(tile.mma()->a) != 16 ||
        !row_stride(loops, load.offset, tile_operand.along_k ? own : tile.k, tile_operand.along_k ? tile.k : own,
                    tile_operand.elements))
      return false;
  }
  const segment::Store& store = loops.stores[0];
  const DType type = dtype_of(store.node);
  if ((type != tile.mma()->a && type != DType::f32) || store.buffer_elements >= kMostElements ||
      !row_stride(loops, store.offset, tile.m, tile.n, 16 / size_of(type)))
    return false;
  // What is read for every element would be read one by one.
  for (segment::ValueId id : backward_slice_of_results(loops)) {
    const Value& value = loops.values[id];
    if (value.kind == Value::Kind::load && runs_along(value, tile.m) && runs_along(value, tile.n)) return false;
  }
  return true;
}

}  // namespace vkfuse::schedule
