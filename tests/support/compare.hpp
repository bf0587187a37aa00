// Compiling a graph in every way the library can, and asking the plan what became of it.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "api/states.hpp"
#include "device_model/device_model.hpp"
#include "support/cases.hpp"
#include "support/device.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {

/// How a graph is compiled.
struct Build {
  const Device* device = nullptr;  ///< null: the device under test
  Numerics numerics = Numerics::standard;
  bool fusion = true;
  schedule::Tuning tuning;
  bool sorts_scatters = false;                  ///< however few updates there are
  std::optional<CostModel> costs;               ///< that planning counts with; nothing: the device's
  std::optional<DeviceIdentity> planned_as;     ///< a CPU driver runs what this device would
  std::optional<double> longest_submission_us;  ///< nothing: the library's own
  std::int64_t memory_budget = 0;               ///< of intermediate values; 0: any number
};

Executable compile_graph(const ir::Graph& graph, const Build& how);

/// The graph of some tensors, outputs named "y", "y1", ...
ir::Graph graph_of(const std::vector<Tensor>& outputs);

/// The device under test without subgroup operations: folds across lanes go through shared memory.
const Device& device_without_subgroups();

/// The device under test with what every Vulkan 1.1 device has and nothing else: 128 invocations, 16 KiB of shared
/// memory, 4 storage buffers, no subgroups, no optional feature.
const Device& device_with_low_limits();

/// What the program runs at these sizes.
std::shared_ptr<const runtime::Specialization> specialization_of(const Executable& program,
                                                                 const SymbolValues& symbols = {});

/// So many kernels, or dispatches; where the device under test has the least limits, whose four buffers a kernel may
/// cut what is whole elsewhere, so many or more.
testing::AssertionResult are_kernels(std::size_t counted, std::size_t expected);
/// The same of a number that there must not be more of.
testing::AssertionResult are_kernels_at_most(std::size_t counted, std::size_t most);

/// Whether a kernel of attention by threads has so many rows and keys of each, in slices or not.
bool has_tile_of_threads(const Executable& program, const schedule::AttentionShape& asked);

/// Bytes that the kernels of a program move.
std::int64_t bytes_moved(const Executable& program, const SymbolValues& symbols = {});

/// Widths of the loads of an input and of the stores of an output, each width once, ascending.
std::vector<int> load_widths(const Executable& program, const std::string& input);
std::vector<int> store_widths(const Executable& program, const std::string& output);

/// Of every program that compile_graph has made so far, and of what was counted beside: how many accesses are
/// proven to stay inside their buffers.
segment::Proof proof_so_far();
void count_proof(const segment::Proof& more);

/// Runs, and adds a test failure with the graph for whatever is wrong: an error, a byte beyond an output, an
/// element outside its bound, too many undecided ones.
NamedBytes compare_with_reference(const Executable& program, const ir::Graph& graph, const Data& data,
                                  const std::string& what);

/// The same, compared with the reference by `check_rows`.
NamedBytes compare_rows(const Executable& program, const ir::Graph& graph, const Data& data, const std::string& what);

/// Elements that one graph is sure of are those that the other has, within the error that the first may have.
void expect_same_values(const ir::Graph& before, const ir::Graph& made, const Data& data, const std::string& what);

}  // namespace vkfuse::test
