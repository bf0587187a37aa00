// Which integers a value can be: what stays inside its dtype is not wrapped,
// and what a float holds is converted without rounding.
#pragma once

#include <map>
#include <optional>

#include "segment/loops.hpp"

namespace vkfuse::lowering {

/// From the least to the largest.
struct IntegerRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

class IntegerRanges {
 public:
  IntegerRanges(const ir::Graph& graph, const segment::Loops& loops) : graph_(graph), loops_(loops) {}

  /// What an integer of at most 32 bits can be, from what it is computed from;
  /// nothing for any other value.
  [[nodiscard]] std::optional<IntegerRange> range_of(segment::ValueId id) const;
  /// Whether the integers that a value can be are all integers of that dtype.
  [[nodiscard]] bool stays_inside(segment::ValueId id, DType type) const;
  /// Whether a float dtype holds every integer that the value can be.
  [[nodiscard]] bool holds_exactly(DType type, segment::ValueId id) const;
  /// Whether an op's result may have to be wrapped to its dtype.
  [[nodiscard]] bool wraps(const segment::Value& value) const;

 private:
  /// Of an op's result before it wraps.
  [[nodiscard]] std::optional<IntegerRange> unwrapped_range(const segment::Value& value) const;
  [[nodiscard]] DType dtype_of(const segment::Value& value) const { return graph_.node(value.node).type.dtype; }

  const ir::Graph& graph_;
  const segment::Loops& loops_;
  mutable std::map<segment::ValueId, std::optional<IntegerRange>> ranges_;  ///< of those that were asked for
};

}  // namespace vkfuse::lowering
