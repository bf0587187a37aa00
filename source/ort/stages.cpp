#include "ort/stages.hpp"

#include <algorithm>

namespace vkfuse::ort {

std::vector<std::vector<int>> stages_of(std::span<const StagedNode> nodes) {
  std::vector<int> stage(nodes.size(), 0);
  std::vector<std::vector<int>> groups;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    // Even stages are ours: along an edge a stage never falls, and between two of ours lies one of others. Others that
    // read nothing of ours come before all.
    stage[i] = nodes[i].is_ours ? 0 : -1;
    for (const int before : nodes[i].reads) {
      const auto at = static_cast<std::size_t>(before);
      stage[i] = std::max(stage[i], stage[at] + (nodes[at].is_ours == nodes[i].is_ours ? 0 : 1));
    }
    if (!nodes[i].is_ours) continue;
    const auto group = static_cast<std::size_t>(stage[i] / 2);
    if (groups.size() <= group) groups.resize(group + 1);
    groups[group].push_back(static_cast<int>(i));
  }
  std::erase_if(groups, [](const std::vector<int>& group) { return group.empty(); });
  return groups;
}

}  // namespace vkfuse::ort
