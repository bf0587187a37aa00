// What the programs of several ranks compute together, as one graph of one device: the reference of collectives.
#pragma once

#include <span>
#include <string>

#include "ir/graph.hpp"

namespace vkfuse::parallel {

/// The graphs of ranks 0, 1, ... as one. An input or output "x" of rank r is "x@r" there. Collectives are written in
/// other ops: a sum of ranks is a sum along an axis of their values, so that the bound of the reference is that of any
/// order. ErrorCode::invalid_argument where ranks have other collectives than rank 0 has, in the order of their nodes.
Result<ir::Graph> join_ranks(std::span<const ir::Graph> graphs);

/// "x@3".
std::string name_on(std::string_view name, std::size_t rank);

}  // namespace vkfuse::parallel
