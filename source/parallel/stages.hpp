// On which stages of a pipeline the values of a program are.
#pragma once

#include <set>
#include <vector>

#include "ir/graph.hpp"

namespace vkfuse::parallel {

/// The stages of a graph, as its annotations say. A program without any has one stage, which all ranks are.
struct Stages {
  int mesh_axis = -1;  ///< that they are along; -1: there are no annotations
  int count = 1;
  /// By value: its stage, the latest of its operands where it is not annotated; -1: it follows from no annotated value.
  std::vector<int> homes;
  /// By value: the stages that compute it. What has no stage is computed on each that reads it, and where an output is
  /// read on all.
  std::vector<std::set<int>> places;
};

/// ErrorCode::invalid_argument where an annotation names an axis or a stage that the mesh does not have, where two name
/// other axes, or where values are divided over the axis of the stages.
Result<Stages> stages_of(const ir::Graph& graph, const std::vector<int>& mesh);

}  // namespace vkfuse::parallel
