// What a tile of a matrix kernel takes.
#pragma once

#include "schedule/products.hpp"

namespace vkfuse::schedule {

/// Bytes of shared memory of a workgroup that owns the tile.
std::int64_t matrix_shared_bytes(const MatrixTile& tile);

/// Registers of a lane that multiplies with matrix units, as NVIDIA's compiler gives them out (unit_model.cpp).
int unit_registers(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule);
/// Cycles that all processors of a GPU take for it, at the schedule's registers. `hidden` is what is left of the arithmetic of results while others multiply.
double unit_cycles(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule, double hidden);
inline constexpr double kProcessorLanes = 128;  ///< of a processor: fused multiply-adds in a cycle

/// Fills in what is executed, the registers of a lane and the modelled time of a schedule whose accesses are planned.
void model_matrix(const ir::Graph& graph, const segment::Loops& loops, const Target& target, Schedule& schedule);

}  // namespace vkfuse::schedule
