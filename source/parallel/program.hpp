// The way into programs of several ranks for those who already have a graph.
#pragma once

#include <memory>

#include "ir/graph.hpp"
#include "vkfuse/parallel.hpp"

namespace vkfuse::parallel {

/// compile_parallel() of a graph. An error in place of one is this rank's, and the others are told.
Result<ParallelProgram> compile_graph(const Device& device, std::shared_ptr<Transport> transport,
                                      Result<ir::Graph> graph, const ParallelOptions& options = {});

}  // namespace vkfuse::parallel
