// Where the outputs that are validated come from.
#pragma once

#include <filesystem>
#include <optional>

#include "tool/validation.hpp"

namespace vkfuse::tool {

/// A device, or a folder of what another program has computed.
struct OutputSource {
  const Device* device = nullptr;
  std::filesystem::path folder;
};

/// A graph with the inputs of one run. All must outlive it.
struct GraphRun {
  const ir::Graph& graph;
  const RunInputs& inputs;
  const Inputs& given;  ///< views of those that the graph reads
};

/// What a graph makes of its inputs. Notes in the result what has run.
Result<Outputs> outputs_of(const OutputSource& source, const GraphRun& run, Validation& validation);

/// Whether this is an output of another program that does not have the shape or dtype of the graph's: it is wrong, not
/// refused.
bool is_wrong_output(const OutputSource& source, const Error& error);

/// One kernel per op beside them, if a device is at hand and fusion is on.
std::optional<OneKernelPerOp> unfused_of(const OutputSource& source, const GraphRun& run,
                                         const ValidateOptions& options);

}  // namespace vkfuse::tool
