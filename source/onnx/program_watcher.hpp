// Looking on while an OnnxProgram runs: for the command.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// The kernels of one part have run.
struct PartRun {
  const ir::Graph& graph;
  const vkfuse::Outputs& inputs;   ///< what they have read
  const vkfuse::Outputs& outputs;  ///< and stored
};

struct Watcher {
  std::function<Result<void>(const PartRun&)> part;  ///< may be empty
  bool times = false;                                ///< kernels and steps of the host are timed
  std::vector<KernelTime> measured;
  int kernels = 0, host_steps = 0;
  /// After the run: the model's outputs by name, and what each is called among the outputs of parts, if a part has
  /// stored it.
  std::vector<std::pair<std::string, std::string>> results;
};

/// OnnxProgram::run, watched.
Result<vkfuse::Outputs> run_program(const OnnxProgram& program, const Inputs& inputs, Watcher& watcher);

}  // namespace vkfuse::onnx
