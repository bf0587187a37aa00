// The way into the API for those who already have a graph: the importer, the command, tests.
#pragma once

#include "ir/graph.hpp"
#include "vkfuse/executable.hpp"

namespace vkfuse::api {

/// Compiles a graph as it is, after the pass pipeline.
Result<Executable> compile_graph(const Device& device, ir::Graph graph, const CompileOptions& options = {});

/// Whether it would, without compiling a shader.
Result<void> supports_graph(const Device& device, const ir::Graph& graph, const CompileOptions& options = {});

}  // namespace vkfuse::api
