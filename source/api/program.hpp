// The way into the API for those who already have a graph: the importer, the command, tests.
#pragma once

#include "ir/graph.hpp"
#include "vkfuse/executable.hpp"

namespace vkfuse::api {

/// Compiles a graph as it is, after the pass pipeline.
Result<Executable> compile_graph(const Device& device, ir::Graph graph, const CompileOptions& options = {});

/// Whether it would, without compiling a shader.
Result<void> supports_graph(const Device& device, const ir::Graph& graph, const CompileOptions& options = {});

/// The sizes of an input on the host: given, static, or with one symbol that follows from the byte count. Sizes that
/// are given are not compared with the type.
Result<std::vector<std::int64_t>> host_sizes(const TensorType& type, const std::string& name, const HostView& view);

}  // namespace vkfuse::api
