// What planning and lowering of the stencil template must see alike: blocks of results and the windows that they read.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// How an axis is cut in blocks. Where they do not divide it, the last one begins early, and results that two blocks
/// have are computed twice: a block is always full.
struct BlockAxis {
  std::int64_t blocks = 1;
  std::int64_t starts = 1;  ///< positions at which a block may begin, `step` apart
  std::int64_t step = 1;
  std::int64_t block_steps = 1;  ///< from one block to the next, in steps; to the last one fewer
  [[nodiscard]] bool overlaps() const { return blocks != starts; }
};
BlockAxis block_axis(std::int64_t size, std::int64_t extent);

/// Elements of memory from one vector to the next, and where in the first one a row of the window begins, wherever the
/// block is. A row is what a load reads along the last window axis.
struct RowVectors {
  int elements = 1;
  int phase = 0;
};

inline constexpr index::AxisId kWindowAxis = 1 << 26;

/// The loops as blocks see them. A loop axis counts the starts of blocks; positions inside a block are axes after the
/// others (local_axis). Values of windows are functions of window axes, kWindowAxis and those after it.
class StencilBlocks {
 public:
  StencilBlocks(const segment::Loops& loops, const StencilParams& params);

  [[nodiscard]] const segment::Loops& loops() const { return loops_; }
  [[nodiscard]] const BlockAxis& axis(int axis) const { return axes_[static_cast<std::size_t>(axis)]; }
  /// Of all axes together.
  [[nodiscard]] std::int64_t count() const;
  /// Where a block begins along a loop axis.
  [[nodiscard]] index::Expr start(int axis) const;
  /// The axis of positions inside a block; -1: it has one.
  [[nodiscard]] int local_axis(int axis) const;
  [[nodiscard]] std::int64_t extent(int axis) const { return params_.extents[static_cast<std::size_t>(axis)]; }

  [[nodiscard]] std::int64_t taps(std::size_t window) const;
  /// Positions of a window axis that a block reads.
  [[nodiscard]] std::int64_t window_extent(std::size_t window) const;
  /// All parallel axes, outermost in memory first.
  [[nodiscard]] std::vector<int> axes_in_memory() const;
  /// The position of a row's first element, in the axes of loops() and those of windows but the last.
  [[nodiscard]] index::Expr row_start(const index::Expr& offset) const;
  /// Vectors of so many elements; nothing where their phase differs from row to row.
  [[nodiscard]] std::optional<RowVectors> row_vectors(const segment::Value& load, int elements) const;

 private:
  [[nodiscard]] index::Expr of_windows(const segment::Loops& loops, const index::Expr& expr) const;

  const StencilParams& params_;
  std::vector<BlockAxis> axes_;
  std::vector<std::int64_t> taps_;
  std::size_t loop_axes_ = 0;
  segment::Loops loops_;
};

/// The window that runs along an axis of positions; -1: none does.
int window_along(const StencilParams& params, int axis);
/// Results of a block.
std::int64_t block_volume(const StencilParams& params);

}  // namespace vkfuse::schedule
