// Running a graph on poisoned, guarded buffers, and comparing what comes back with the reference.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "reference/reference.hpp"
#include "support/device.hpp"
#include "vkfuse/executable.hpp"

namespace vkfuse::test {

using NamedBytes = std::map<std::string, std::vector<std::byte>, std::less<>>;

/// Everything one run of a graph takes.
struct Data {
  NamedBytes inputs;
  SymbolValues symbols;
};

/// The bytes of a value at these symbols.
std::size_t bytes_of(const ir::Graph& graph, ir::NodeId value, const SymbolValues& symbols);

/// On the device under test; compare.hpp has other ways.
Executable compile_graph(const ir::Graph& graph, Numerics numerics, bool fusion);

struct GuardedRun {
  NamedBytes outputs;
  std::string
      broken;  ///< one sentence if a byte changed that is no output's, nor behind one in its last word; else empty
};

/// Where the tensors of a guarded run lie.
enum class Placement {
  own_buffers,  ///< each at the start of its own
  one_buffer,   ///< all in one, at multiples of 256 bytes that are not 0
};

/// Runs on device buffers. Outputs hold poison before, and guard words follow the last word of each.
/// `in_place` names an input for an output whose buffer it shares. Throws on an error value.
GuardedRun run_guarded(const Executable& program, const ir::Graph& graph, const Data& data,
                       const std::map<std::string, std::string>& in_place = {},
                       Placement placement = Placement::own_buffers);

/// Memory that a run is given for its outputs: poison, and guards after it.
class ResultMemory {
 public:
  OutputMemory giver();
  /// Throws unless these are the outputs, and no guard changed.
  void expect(const NamedBytes& outputs) const;

 private:
  NamedBytes blocks_;
};

/// Runs with inputs and outputs on the host, twice: into memory of the caller, between guards, and into tensors of the
/// run's. Throws on an error value, where the two differ, and where a guard changed.
NamedBytes run_on_host(const Executable& program, const ir::Graph& graph, const Data& data);

/// The same of any program with Executable's run().
template <typename Program>
NamedBytes run_both_ways(const Program& program, const Inputs& inputs) {
  ResultMemory memory;
  must(program.run(inputs, memory.giver()));
  NamedBytes outputs;
  for (auto& [name, tensor] : must(program.run(inputs))) outputs.emplace(name, std::move(tensor.bytes));
  memory.expect(outputs);
  return outputs;
}

/// What the outputs of a run are worth.
struct Verdict {
  std::string wrong;  ///< one sentence; empty if every decided element is within its bound
  std::int64_t elements = 0;
  std::int64_t undecided = 0;
  double max_ratio = 0;  ///< of error over bound
  reference::Histogram ratios;
};

Verdict check_outputs(const ir::Graph& graph, const Data& data, const NamedBytes& outputs);

/// The same on all cores, a row along the first axis at a time. Rows that need each other's values compute them again:
/// for graphs where they do not.
Verdict check_rows(const ir::Graph& graph, const Data& data, const NamedBytes& outputs);

/// Reference values of every output, by output name.
std::map<std::string, reference::Column> expected(const ir::Graph& graph, const Data& data);

}  // namespace vkfuse::test
