// Cooperative-matrix int4 GEMV: weights of four bits times one vector.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// The same rows with cooperative matrices; nothing where they are no weights of four bits times a vector, or that is
/// not faster.
std::optional<Schedule> best_packed_gemv(const Problem& problem, const Schedule& rows);

/// Scales that a subgroup has of each row.
inline std::int64_t scales_of_subgroup(const PackedGemvTile& tile, std::int64_t columns) {
  return ceil_div(columns / tile.k_slice_columns(), tile.subgroups) * (tile.k_slice_columns() / tile.scale_columns);
}

}  // namespace vkfuse::schedule
