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
  bool is_last = false;
  /// Of the last part: the model's outputs, and which of `outputs` each is, where it is one.
  const std::vector<std::pair<std::string, std::string>>& results;
};

struct Watcher {
  std::function<Result<void>(const PartRun&)> part;  ///< may be empty
  bool times = false;                                ///< kernels and steps of the host are timed
  std::vector<KernelTime> measured;
  int kernels = 0, host_steps = 0;
};

/// OnnxProgram::run, watched.
Result<vkfuse::Outputs> run_program(const OnnxProgram& program, const Inputs& inputs, Watcher& watcher);

}  // namespace vkfuse::onnx
