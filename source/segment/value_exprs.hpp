// The index expressions that a value has.
#pragma once

#include "segment/loops.hpp"

namespace vkfuse::segment {

/// Applies `visit` to the offset of a value or a store and to the ranges of its predicates, in order.
template <typename AnyValue, typename Visit>
void for_each_expr(AnyValue& value, const Visit& visit) {
  visit(value.offset);
  for (auto& predicate : value.predicates) {
    for (auto& range : predicate.ranges) visit(range.value);
  }
}

}  // namespace vkfuse::segment
