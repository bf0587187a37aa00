// One output of a run, judged: what vkfuse validate does with models, with their parts and with test data.
#pragma once

#include <optional>

#include "tool/validate.hpp"

namespace vkfuse::tool {

CompileOptions compile_options(const ValidateOptions& options);
reference::Feeds feeds_of(const RunInputs& inputs);

/// The same graph with one kernel per op: compiled and run where somebody asks for it.
class OneKernelPerOp {
 public:
  /// All but the options must outlive it.
  OneKernelPerOp(const Device& device, const ir::Graph& graph, const Inputs& inputs, const ValidateOptions& options);
  Result<const HostTensor*> output(const std::string& name);

 private:
  const Device& device_;
  const ir::Graph& graph_;
  const Inputs& inputs_;
  ValidateOptions options_;
  std::optional<Result<Outputs>> outputs_;
};

/// What an output came from.
struct Computed {
  const ir::Graph& graph;
  const RunInputs& inputs;  ///< that the device has read
  OneKernelPerOp* unfused;  ///< null: one kernel per op is not asked
  bool all_elements = false;  ///< as a file has them, however many there are
  bool has_file = false;      ///< which speaks of elements without a bound
};

/// An output that has been judged by the reference; judge_by_file may add to it.
struct Judged {
  OutputResult result;
  reference::Column column;
  std::string wrong;  ///< one sentence, or nothing
};

/// Judges `got` by the reference. `beside_unfused` takes what became of the comparison with one kernel per op.
Result<Judged> judge_output(const Computed& from, const ir::Output& output, const HostTensor& got, std::string& beside_unfused);

/// Adds what its file says. An output that no kernel has computed has no column.
void judge_by_file(const HostTensor& got, const HostTensor& file, bool has_column, Judged& judged);

}  // namespace vkfuse::tool
