// What a tile of a matrix kernel takes.
#pragma once

#include "schedule/products.hpp"

namespace vkfuse::schedule {

/// Bytes of shared memory of a workgroup that owns the tile.
std::int64_t matrix_shared_bytes(const MatrixTile& tile);

/// Fills in what is executed, the registers of a lane and the modelled time of a schedule whose accesses are planned.
void model_matrix(const ir::Graph& graph, const segment::Loops& loops, const Target& target, Schedule& schedule);

}  // namespace vkfuse::schedule
