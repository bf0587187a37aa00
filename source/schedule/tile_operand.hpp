// How an operand of a contraction reaches shared memory, tile by tile.
#pragma once

#include "schedule/tuning.hpp"
#include "segment/loops.hpp"

namespace vkfuse::schedule {

/// Matrix: one operand of the products, and how its elements reach shared memory.
struct TileOperand {
  segment::ValueId value = 0;
  bool second = false;     ///< runs along n instead of m
  bool along_k = false;    ///< what lies side by side in memory are positions of k, else of m or n
  int elements = 1;        ///< of one chunk: so many neighbours, computed together
  bool flattened = false;  ///< chunks lie along all those axes counted as one; else along the innermost
};

/// Between the rows of a tile for cooperative matrices in shared memory, which then start in other banks.
inline constexpr int kBytesBetweenRows = 16;

inline std::int64_t size_of_axis(const segment::Loops& loops, int axis) {
  return loops.axes[static_cast<std::size_t>(axis)].size;
}
segment::AxisSet set_of(std::span<const int> axes);
/// Positions along axes that are counted as one.
std::int64_t count_along(const segment::Loops& loops, std::span<const int> axes);

}  // namespace vkfuse::schedule
