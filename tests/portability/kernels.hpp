// Graphs to kernels without a device: what the runtime does up to the driver, for a fabricated
// target, so that a compiler whose hardware is not here can be fed too.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "kernel/kernel.hpp"
#include "plan/plan.hpp"

namespace vkfuse::test {

struct NamedGraph {
  std::string name;
  ir::Graph graph;
  friend void PrintTo(const NamedGraph& one, std::ostream* out) { *out << one.name; }
};

/// The graphs of tests/golden and of this folder, by file name.
std::vector<NamedGraph> golden_graphs();

/// Every op row on every dtype it is offered for, in batches of one dtype; conversions in graphs of
/// their own. Each result is an output.
std::vector<NamedGraph> row_graphs();

/// The same on f64, which is an optional feature of Vulkan.
std::vector<NamedGraph> double_graphs();

/// One dispatch.
struct BuiltKernel {
  lowering::Kernel kernel;
  std::size_t step = 0;      ///< of the plan
  std::size_t dispatch = 0;  ///< of the step
};

struct BuiltGraph {
  ir::Graph graph;  ///< after the passes; bindings refer to it
  SymbolValues symbols;
  std::vector<plan::ScheduledKernel> steps;
  std::vector<BuiltKernel> kernels;
};

/// Throws with the error's text.
BuiltGraph build(const ir::Graph& graph, const SymbolValues& symbols, const Target& target,
                 const schedule::Tuning& tuning = {});

/// Small sizes that keep the promises of each symbol.
SymbolValues small_symbols(const ir::Graph& graph);

/// The minimum of Vulkan 1.1, but for storage buffers: lavapipe and AMD's driver have more, and batches need them.
Target minimum_target();

}  // namespace vkfuse::test
