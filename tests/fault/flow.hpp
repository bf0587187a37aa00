// Everything that a program does with a device, from opening it to results on the host, with calls that fail on the
// way.
#pragma once

#include "support/compare.hpp"
#include "vulkan/functions.hpp"

namespace vkfuse::test {

struct FlowGraph {
  const char* name;
  ir::Graph graph;
};

/// An elementwise kernel, a chain of reductions and products with an intermediate value, a sort with scratch memory.
std::vector<FlowGraph> flow_graphs();

/// Opens a device, compiles, runs from the host and on buffers. The outputs are those of the last run.
/// SPIR-V comes from `store`, so that no shader is compiled twice.
Result<NamedBytes> whole_flow(const ir::Graph& graph, const Data& data, const std::string& store,
                              vulkan::FaultPlan* faults, bool floor);

/// A folder of this process.
std::string store_folder();

}  // namespace vkfuse::test
