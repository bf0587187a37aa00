// The tiles of the matmul template.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "base/target.hpp"
#include "schedule/tile_operand.hpp"

namespace vkfuse::schedule {

/// Every thread multiplies and adds elements of its own.
struct SimtProducts {};
/// Operands are i8, and four neighbours along k are a 32-bit word (dp4a).
struct IntegerDotProducts {};
/// A subgroup multiplies so much at once; operands are staged in shared memory as its dtype.
struct CooperativeMatrixProducts {
  MatrixShape mma;
  int subtile = 0;  ///< columns of a subgroup's results that are staged in shared memory at a time
};
/// The workgroup multiplies tiles as one, which the device itself brings from memory. The last tile along m or n ends
/// with the matrix and computes some results of the one before it once more.
struct WorkgroupMatrixProducts : CooperativeMatrixProducts {
  std::vector<segment::ValueId> beside;  ///< loads that differ along m and n, brought as tiles for the results
};
/// Lanes load their elements of fragments as they lie in memory, and nothing is staged: for few rows of m, where no
/// other workgroup reads the same weights (n). Products are turned: rows of A are positions of n, and columns of B are
/// rows of m. Subgroups share the steps along k.
struct LaneFragmentProducts : CooperativeMatrixProducts {};

/// Sums over k of products of an operand at (batch, m, k) and one at (batch, n, k). Each of the four is a
/// set of loop axes, counted as one, outermost first.
struct MatmulParams {
  TileShape shape;
  std::variant<SimtProducts, IntegerDotProducts, CooperativeMatrixProducts, WorkgroupMatrixProducts,
               LaneFragmentProducts>
      products;
  std::vector<int> batch, m, n, k;
  std::vector<TileOperand> tile_operands;
  struct Sum {
    segment::ValueId reduction = 0;
    int first = 0, second = 0;  ///< of `tile_operands`
  };
  std::vector<Sum> sums;
  /// A reduction over k of what depends on m alone, as the norm of a row of the first operand, which is read anyway.
  struct RowReduction {
    segment::ValueId reduction = 0;
    int tile_operand = 0;  ///< of `tile_operands`; its chunks lie along k
    int parts = 1;         ///< of its sum (sums_in_two_parts)
  };
  std::vector<RowReduction> row_reductions;
  /// Hoisted, of m alone, and asked for by what is not: computed once for each row of the tile.
  std::vector<segment::ValueId> row_values;
  /// Reductions over the innermost `block` positions of n, of which a tile has whole ones: of a row's results, as
  /// partial statistics for a norm that follows.
  std::vector<segment::ValueId> epilogues;
  segment::ValueId kept = 0;  ///< with them: what results become before they are reduced; stays in registers meanwhile
  int block = 0;
  int elements = 1;  ///< neighbours along n that are stored together; divides the innermost axis of n
  std::int64_t tiles_m = 1, tiles_n = 1;

  /// Of cooperative matrices, a subgroup's or a workgroup's; null where products have none.
  [[nodiscard]] const CooperativeMatrixProducts* cooperative() const {
    if (const auto* own = std::get_if<CooperativeMatrixProducts>(&products)) return own;
    if (const auto* own = std::get_if<LaneFragmentProducts>(&products)) return own;
    return std::get_if<WorkgroupMatrixProducts>(&products);
  }
  [[nodiscard]] CooperativeMatrixProducts* cooperative() {
    return const_cast<CooperativeMatrixProducts*>(std::as_const(*this).cooperative());
  }
  [[nodiscard]] const MatrixShape* mma() const { return cooperative() != nullptr ? &cooperative()->mma : nullptr; }
  [[nodiscard]] bool integer_dot() const { return std::holds_alternative<IntegerDotProducts>(products); }
  [[nodiscard]] const WorkgroupMatrixProducts* workgroup() const {
    return std::get_if<WorkgroupMatrixProducts>(&products);
  }
  [[nodiscard]] bool workgroup_scope() const { return workgroup() != nullptr; }
  [[nodiscard]] bool lane_fragments() const { return std::holds_alternative<LaneFragmentProducts>(products); }
};

}  // namespace vkfuse::schedule
