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

/// Of the loads of an operand, vectors that are the same at every step along the sum and for all chunks that a thread
/// brings, as the scale of a norm is where rows are summed over: threads read them once, before the first step. None
/// where they would take too many registers, or tiles are not for subgroups' matrices of 16-bit numbers.
std::vector<segment::ValueId> kept_along_sum(const ir::Graph& graph, const segment::Loops& loops,
                                             const Schedule& schedule, const TileOperand& tile_operand);

/// NVIDIA's compiler (580) has eight steps of a workgroup's tile in flight. Where it knows that eight do not divide
/// them, a product takes 2.3 times as long, and 1.05 times where it does not know how many there are
/// (h200-product-forms.txt).
inline constexpr std::int64_t kStepsOfWorkgroupTiles = 8;

/// How a tile's part of an operand, or of the results, lies in memory.
struct TileRows {
  std::int64_t stride = 0;  ///< elements from one row to the next
  /// Of several summed axes each step has one position but for the innermost, so it asks where its part begins.
  bool found_by_step = false;
};

/// Of an operand whose first element at a position is at `offset`; nothing where rows have no single stride, or begin
/// where the device does not load them from.
std::optional<TileRows> rows_of_operand(const segment::Loops& loops, const MatmulParams& tile,
                                        const TileOperand& tile_operand, const index::Expr& offset, DType component);
/// Elements from one row of m to the next of what lies along m and n, as results do; nothing as above.
std::optional<std::int64_t> stride_of_results(const segment::Loops& loops, const MatmulParams& tile,
                                              const index::Expr& offset, DType component);

/// The products of a workgroup that multiplies the tile's shape as one: operands are as they lie in memory, the matrix
/// is no smaller than a tile, there is one result, nothing is reduced beside the sum, and there are products enough
/// unless it is `forced`. Nothing where that is not so.
std::optional<WorkgroupMatrixProducts> workgroup_products(const ir::Graph& graph, const segment::Loops& loops,
                                                          const Target& target, const MatmulParams& tile, bool forced);

/// Steps along the sum that a lane has in flight.
inline constexpr int kLaneStepsAhead = 2;
/// Rows of weights that a lane has in a fragment.
inline constexpr int kRowsOfLane = 2;

/// The tile with products whose fragments lanes make: of at most kMostLaneRows rows of f16, all operands read along the
/// sum in chunks, of so many vectors of weights, of which whole ones make up a step. Nothing where that is not so.
std::optional<MatmulParams> with_lane_fragments(const segment::Loops& loops, const Target& target,
                                                const MatmulParams& tile, int vectors);
/// Whether a tile of theirs has these loops: few rows, and whole steps along the sum.
bool fits_lane_fragments(const segment::Loops& loops, const MatmulParams& tile);
/// A workgroup of so many subgroups.
TileShape shape_of_lane_fragments(const MatmulParams& tile, int subgroups);
/// Subgroups that share the sum.
int subgroups_of_lane_fragments(const TileShape& shape);
/// Positions along the sum that the lanes of a row have together.
int columns_of_lanes(const MatmulParams& tile);

}  // namespace vkfuse::schedule
