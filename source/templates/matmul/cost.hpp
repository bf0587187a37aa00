// What a tile of a matrix kernel takes.
#pragma once

#include <span>
#include <vector>

#include "device_model/device_model.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::schedule {

/// Bytes of shared memory of a workgroup that owns the tile.
std::int64_t matmul_shared_bytes(const MatmulParams& tile);

/// What a product of cooperative matrices takes of a GPU (cooperative_matrix_cost.cpp).
struct CooperativeMatrixCost {
  double cycles = 0;  ///< of all compute units
  int registers = 0;  ///< of a thread, as NVIDIA's compiler gives them out
};
/// `hidden` is what is left of the arithmetic of results while others multiply.
CooperativeMatrixCost cooperative_matrix_cost(const ir::Graph& graph, const segment::Loops& loops,
                                              const DeviceModel& model, const Schedule& schedule, double hidden);

/// The same of tiles that workgroups multiply as one, in cycles of all compute units (workgroup_tile_cost.cpp);
/// `visible` is what is seen of the arithmetic of results.
double workgroup_tile_cycles(const ir::Graph& graph, const segment::Loops& loops, const DeviceModel& model,
                             const Schedule& schedule, double visible);

/// The time of a product whose fragments lanes make, of a schedule whose bytes are counted (lane_fragments.cpp).
double lane_fragments_us(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                         const Schedule& schedule);

/// Of the backward slice of results, loads of each result's own elements: what all rows or all columns share is near.
std::vector<segment::ValueId> loads_of_results(const segment::Loops& loops, const MatmulParams& tile,
                                               std::vector<segment::ValueId> results);
/// Bytes that a result moves: what is stored, and those loads.
double bytes_of_result(const ir::Graph& graph, const segment::Loops& loops, std::span<const segment::ValueId> loads);

/// Fills in what is executed, the registers of a thread and the modelled time of a schedule whose accesses are planned.
void model_matmul(const ir::Graph& graph, const segment::Loops& loops, const Target& target, Schedule& schedule);

}  // namespace vkfuse::schedule
