// What predicates say about where a load is.
#pragma once

#include "segment/loops.hpp"

namespace vkfuse::segment {

/// The offset with what a predicate bounds replaced by an axis of just that size: its interval is that of the positions
/// that are read.
index::Expr narrowed(index::Expr offset, std::span<const Predicate> predicates);

}  // namespace vkfuse::segment
