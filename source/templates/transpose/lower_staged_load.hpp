// A transposed load of the tiled template: who reads what, and where it lies in shared memory.
#pragma once

#include "lowering/packing.hpp"
#include "templates/transpose/geometry.hpp"

namespace vkfuse::lowering {

/// A thread reads a *unit* at a time: a vector along the run of each of `packed` neighbouring columns, whose
/// elements become entries of the array.
class StagedLoad {
 public:
  StagedLoad(const segment::Loops& loops, const schedule::TransposeParams& tile, const schedule::Box& box,
             const schedule::TransposedLoad& load);

  [[nodiscard]] const schedule::TransposedLoad& load() const { return load_; }
  [[nodiscard]] const schedule::TileArray& array() const { return array_; }
  [[nodiscard]] std::int64_t units() const { return units_; }

  /// Where element `element` of vector `column` of a unit lies in the tile, along the axes of the box.
  [[nodiscard]] std::vector<index::Expr> position(const index::Expr& unit, int element, int column) const;
  /// Its entry in shared memory, the same for all columns of the unit.
  [[nodiscard]] index::Expr entry(const index::Expr& unit, int element) const;

 private:
  const schedule::TransposeParams& tile_;
  const schedule::Box& box_;
  const schedule::TransposedLoad& load_;
  schedule::TileArray array_;
  std::int64_t units_ = 1;
  std::int64_t length_ = 1;  ///< of a run
  std::vector<int> others_;  ///< loop axes of the tile beside the run, outermost first
};

/// The bits of an element of a unit: `raw` are its vectors, of `elements` elements each. A uint with as many
/// elements as there are vectors, or the lowest bits of one with garbage above; a uvec2 for 8-byte elements.
Code entry_bits(DType dtype, std::span<const Code> raw, int elements, int element);

}  // namespace vkfuse::lowering
