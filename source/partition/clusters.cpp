#include "partition/clusters.hpp"

#include <algorithm>

namespace vkfuse::partition {

using ir::NodeId;

ClusterId Clusters::add() {
  all.emplace_back();
  return static_cast<ClusterId>(all.size() - 1);
}

bool Clusters::are_frozen(std::span<const ClusterId> clusters) const {
  return std::all_of(clusters.begin(), clusters.end(), [&](ClusterId cluster) { return all[cluster].frozen; });
}

bool Clusters::leads_back_below(NodeId last) const {
  return std::any_of(backwards.begin(), backwards.end(),
                     [&](const auto& cluster) { return cluster.second.first < last && cluster.second.second >= last; });
}

std::vector<ClusterId> Clusters::neighbours_of(ClusterId cluster) const {
  constexpr std::size_t kMost = 8;
  const segment::Segment& segment = all[cluster].kernel_cost.segment;
  std::vector<ClusterId> neighbours;
  const auto add_neighbour = [&](ClusterId other) {
    if (other != kNoCluster && other != cluster && neighbours.size() < kMost && !is_among(neighbours, other))
      neighbours.push_back(other);
  };
  for (NodeId id : segment.reads) add_neighbour(owner[id]);
  const auto add_readers = [&](const std::vector<NodeId>& values) {
    for (NodeId id : values) {
      for (ClusterId reader : readers[id]) {
        if (neighbours.size() == kMost) return;  // a value may have very many
        add_neighbour(reader);
      }
    }
  };
  add_readers(segment.stores);
  add_readers(segment.reads);
  return neighbours;
}

void Clusters::note_backwards(ClusterId cluster) {
  const segment::Segment& segment = all[cluster].kernel_cost.segment;
  backwards.erase(cluster);
  if (segment.stores.empty()) return;
  NodeId highest = 0;
  for (NodeId id : segment.reads) highest = std::max(highest, owner[id] == kNoCluster ? 0 : id);
  if (segment.stores.front() < highest) backwards[cluster] = {segment.stores.front(), highest};
}

ProvisionalOwners::~ProvisionalOwners() {
  for (auto owned = before_.rbegin(); owned != before_.rend(); ++owned) clusters_.owner[owned->first] = owned->second;
}

void ProvisionalOwners::set(NodeId id, ClusterId owner) {
  before_.emplace_back(id, clusters_.owner[id]);
  clusters_.owner[id] = owner;
}

}  // namespace vkfuse::partition
