// Which nodes become one: groups that a graph can be cut into without a cycle.
#pragma once

#include <span>
#include <vector>

namespace vkfuse::ort {

/// A node of a graph whose nodes are sorted: it reads what nodes before it compute.
struct StagedNode {
  std::vector<int> reads;  ///< positions of other nodes
  bool is_ours = false;
};

/// Our nodes in as few groups as any order of groups allows, each in the order of the graph. A node's stage counts
/// how often the paths to it change hands, so that nothing between two nodes of a stage is outside.
std::vector<std::vector<int>> stages_of(std::span<const StagedNode> nodes);

}  // namespace vkfuse::ort
