// A program of one device, divided over a mesh: the graph of each rank.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace vkfuse::parallel {

/// For each axis of a value, the axis of the mesh that it is divided over, or -1.
using Layout = std::vector<int>;

/// Why a collective is in the graph of a rank.
struct Reason {
  ir::NodeId value = 0;  ///< the collective, in that graph
  std::string text;      ///< "the sum over axis 1 of the mesh of the parts of 'dot' %5"
};

/// Of a pipeline: the stage whose ranks have the operand of a collective, and the one that reads its result; -1: every
/// stage.
struct Crossing {
  int from = 0, to = 0;
};

/// The graph of one rank and how what it takes and gives is divided. Of a pipeline it has the values of all stages, and
/// collectives say what of it a rank computes: what its own operands and outputs follow from.
struct Sharded {
  ir::Graph graph;
  std::map<std::string, Layout, std::less<>> inputs;
  std::map<std::string, Layout, std::less<>> outputs;  ///< that this rank has
  std::vector<Reason> reasons;
  int stage_axis = -1;  ///< the axis of the mesh that stages are along; -1: there are none
  int stages = 1;
  int stage = 0;                             ///< of this rank
  std::map<ir::NodeId, Crossing> crossings;  ///< of each collective, where there are stages
  /// By value: in which step of the pipeline it is computed. Micro-batch i takes a step after micro-batch i - 1, and
  /// what has come from another stage one after what was sent.
  std::vector<int> slots;
};

/// How a program is divided.
struct Division {
  const std::vector<int>& mesh;
  int rank = 0;
  int micro_batches = 1;
};

/// Divides a graph as its annotations say. What has none takes the layout that its operands suggest; an op that cannot
/// keep one gathers first. Outputs that are not annotated are gathered. ErrorCode::invalid_argument where an annotation
/// names an axis or a stage that the mesh does not have, or divides a dimension that is no multiple.
Result<Sharded> shard_graph(const ir::Graph& graph, const Division& division);
inline Result<Sharded> shard_graph(const ir::Graph& graph, const std::vector<int>& mesh, int rank) {
  return shard_graph(graph, {mesh, rank});
}

/// Which part of a dimension a rank has, along an axis of the mesh; ranks count along the last axis first.
int coordinate_of(const std::vector<int>& mesh, int axis, int rank);
/// The group of a collective along an axis of the mesh.
ir::RankGroup group_along(const std::vector<int>& mesh, int axis);

}  // namespace vkfuse::parallel
