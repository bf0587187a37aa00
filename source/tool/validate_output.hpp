// One output of a run, judged: what vkfuse validate does with models, with their parts and with test data.
#pragma once

#include <optional>

#include "reference/parallel.hpp"
#include "tool/validate.hpp"

namespace vkfuse::tool {

CompileOptions compile_options(const ValidateOptions& options);
reference::InputBindings input_bindings_of(const RunInputs& inputs);

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

/// When a case should be done.
class TimeLimit {
 public:
  explicit TimeLimit(const ValidateOptions& options);
  [[nodiscard]] const reference::Deadline& deadline() const { return deadline_; }
  /// Infinite without a limit.
  [[nodiscard]] double seconds_left() const;

 private:
  reference::Deadline deadline_;
};

/// What an output should be, of all its elements or of some.
struct Referenced {
  std::vector<std::int64_t> elements;  ///< ascending
  reference::Column column;
};

/// The elements of outputs that the reference looks at: all; of outputs over 2^22 elements, and where all take seconds
/// more, a sample; and fewer where a model of the work says that there is no time for as many.
Result<std::vector<reference::Request>> affordable_requests(const ir::Graph& graph, const RunInputs& inputs,
                                                            std::span<const ir::Output> outputs, bool all_elements,
                                                            double seconds);

/// What the reference says of some outputs of a graph, each or an error. They are evaluated together, at
/// affordable_requests.
std::vector<Result<Referenced>> referenced(const ir::Graph& graph, const RunInputs& inputs,
                                           std::span<const ir::Output> outputs, bool all_elements,
                                           const TimeLimit& limit);

/// What an output came from, and what it is compared with.
struct Computed {
  Referenced& reference;
  OneKernelPerOp* unfused;           ///< null: one kernel per op is not asked
  bool has_file = false;             ///< which speaks of elements without a bound
  const HostTensor* file = nullptr;  ///< if it is known, and of as many elements
  const ir::Graph* graph = nullptr;  ///< with the file: what the output is computed by
};

/// An output that has been compared with the reference; compare_with_file may add to it.
struct Compared {
  OutputResult result;
  Referenced reference;
  std::string wrong;  ///< one sentence, or nothing
};

/// Judges `got` by the reference. `beside_unfused` takes what became of the comparison with one kernel per op.
Compared compare_output(const Computed& from, const ir::Output& output, const HostTensor& got,
                        std::string& beside_unfused);
/// One of which the reference says nothing: compare_with_file may.
Compared unreferenced_output(const ir::Output& output, const HostTensor& got);

/// Whether a file has the dtype and the sizes of an output.
bool fits(const HostTensor& got, const HostTensor& file);

/// Adds what its file says. `has_reference`: the reference has said something.
void compare_with_file(const HostTensor& got, const HostTensor& file, bool has_reference, Compared& outcome);

}  // namespace vkfuse::tool
