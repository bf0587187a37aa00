// What a tile of a matrix kernel takes.
#pragma once

#include "schedule/products.hpp"

namespace vkfuse::schedule {

/// Bytes of shared memory of a workgroup that owns the tile.
std::int64_t matrix_shared_bytes(const MatrixTile& tile);

/// What a product of matrix units takes of a GPU (unit_model.cpp).
struct UnitCost {
  double cycles = 0;  ///< of all processors
  int registers = 0;  ///< of a lane, as NVIDIA's compiler gives them out
};
/// `hidden` is what is left of the arithmetic of results while others multiply.
UnitCost unit_cost(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule, double hidden);
inline constexpr double kProcessorLanes = 128;  ///< of a processor: fused multiply-adds in a cycle

/// Fills in what is executed, the registers of a lane and the modelled time of a schedule whose accesses are planned.
void model_matrix(const ir::Graph& graph, const segment::Loops& loops, const Target& target, Schedule& schedule);

}  // namespace vkfuse::schedule
