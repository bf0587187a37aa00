// What planning and lowering of matmuls must see alike.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Of an operand's chunks where tiles have this shape: every thread has something to bring.
int elements_in_tile(const TileOperand& tile_operand, const TileShape& shape);

/// Of a thread's loops in one step of a tile along its sum, rather too many: of what fills the tile, and of the
/// products.
std::int64_t iterations_of_step(const MatmulParams& tile, const TileShape& shape);

/// The values of all that is computed while an operand, one of the tile's own, is read: itself, and what its row
/// reductions reduce.
std::vector<segment::ValueId> backward_slice_of_operand(const segment::Loops& loops, const MatmulParams& tile,
                                                        const TileOperand& tile_operand);

/// Whether a workgroup can multiply the tile's shape as one: operands are as they lie in memory, all tiles are full,
/// there is one result, nothing is reduced beside the sum, and there are products enough unless it is `forced`.
bool has_workgroup_tiles(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                         const MatmulParams& tile, bool forced);

}  // namespace vkfuse::schedule
