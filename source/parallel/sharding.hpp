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

/// The graph of one rank and how what it takes and gives is divided.
struct Sharded {
  ir::Graph graph;
  std::map<std::string, Layout, std::less<>> inputs;
  std::map<std::string, Layout, std::less<>> outputs;
  std::vector<Reason> reasons;
};

/// Divides a graph as its annotations say. What has none takes the layout that its operands suggest; an op that cannot
/// keep one gathers first. Outputs that are not annotated are gathered. ErrorCode::invalid_argument where an annotation
/// names an axis that the mesh does not have, or divides a dimension that is no multiple.
Result<Sharded> shard_graph(const ir::Graph& graph, const std::vector<int>& mesh, int rank);

/// Which part of a dimension a rank has, along an axis of the mesh; ranks count along the last axis first.
int coordinate_of(const std::vector<int>& mesh, int axis, int rank);
/// The group of a collective along an axis of the mesh.
ir::RankGroup group_along(const std::vector<int>& mesh, int axis);

}  // namespace vkfuse::parallel
