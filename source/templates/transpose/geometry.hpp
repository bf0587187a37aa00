// The geometry of the tiled template, which the schedule and the code generator must see alike.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// The same loops with the innermost `count` axes as one.
segment::Loops merge_inner(const segment::Loops& loops, int count);

/// What the axes of merge_inner are in a tile.
struct Box {
  Sizes sizes;            ///< of the axes
  Sizes extents;          ///< positions of one tile along them
  Sizes blocks;           ///< tiles along them
  std::int64_t rows = 1;  ///< of a tile: all axes but the last
  std::int64_t columns = 1;

  [[nodiscard]] std::int64_t volume() const { return rows * columns; }
  [[nodiscard]] std::int64_t tiles() const;
};
Box box_of(const segment::Loops& loops, const TransposeParams& tile);

/// The elements of one transposed load in shared memory. An entry is a word, or two words for 8-byte elements.
struct TileArray {
  std::int64_t entries = 0;
  std::int64_t pitch =
      0;           ///< entries from row to row, odd, so that neighbouring rows lie in other banks; 0: there is one row
  int packed = 1;  ///< columns per entry

  /// Where an element is.
  [[nodiscard]] index::Expr entry(const index::Expr& row, const index::Expr& column) const;
};
TileArray array_of(const Box& box, const TransposedLoad& load);

/// Positions of the tile along the run of a load, and the loads that they take.
std::int64_t run_length(const TransposeParams& tile, const TransposedLoad& load);

/// One thread's part of a transposed load: `packed` rows of its memory, and `elements` along each.
std::int64_t unit_count(const Box& box, const TransposedLoad& load);

/// How many neighbours stay together when threads are dealt out over runs and rows. Threads that write one entry
/// each at a distance of `stride` entries must not meet in a bank, and a line of memory is best read whole.
std::int64_t threads_along(std::int64_t count, std::int64_t stride);

}  // namespace vkfuse::schedule
