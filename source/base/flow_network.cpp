#include "base/flow_network.hpp"

#include <algorithm>

namespace vkfuse {

void FlowNetwork::connect(std::size_t from, std::size_t to, std::int64_t capacity) {
  edges_[from].push_back({to, edges_[to].size(), capacity});
  edges_[to].push_back({from, edges_[from].size() - 1, 0});
}

std::vector<std::optional<std::size_t>> FlowNetwork::distances(std::size_t source, std::int64_t least) const {
  std::vector<std::optional<std::size_t>> distance(edges_.size());
  std::vector<std::size_t> queue{source};
  distance[source] = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const Edge& edge : edges_[queue[i]]) {
      if (edge.left < least || distance[edge.to]) continue;
      distance[edge.to] = *distance[queue[i]] + 1;
      queue.push_back(edge.to);
    }
  }
  return distance;
}

void FlowNetwork::push_along(const std::vector<std::size_t>& path) {
  std::int64_t most = kInfinite;
  for (const std::size_t at : path) most = std::min(most, edges_[at][next_[at]].left);
  for (const std::size_t at : path) {
    Edge& edge = edges_[at][next_[at]];
    edge.left -= most;
    edges_[edge.to][edge.back].left += most;
  }
}

void FlowNetwork::push_blocking_flow(std::size_t source, std::size_t sink) {
  next_.assign(edges_.size(), 0);
  std::vector<std::size_t> path;
  std::size_t at = source;
  for (;;) {
    if (at == sink) {
      push_along(path);
      path.clear();
      at = source;
      continue;
    }
    std::size_t& next = next_[at];
    const auto leads_on = [&](const Edge& edge) {
      return edge.left > 0 && distance_[edge.to] && *distance_[edge.to] == *distance_[at] + 1;
    };
    while (next < edges_[at].size() && !leads_on(edges_[at][next])) ++next;
    if (next < edges_[at].size()) {
      path.push_back(at);
      at = edges_[at][next].to;
    } else if (path.empty()) {
      return;
    } else {
      at = path.back();
      path.pop_back();
      ++next_[at];
    }
  }
}

std::optional<std::vector<bool>> FlowNetwork::cut(std::size_t source, std::size_t sink) {
  if (distances(source, kInfinite)[sink]) return std::nullopt;
  for (;;) {
    distance_ = distances(source, 1);
    if (!distance_[sink]) break;
    push_blocking_flow(source, sink);
  }
  std::vector<bool> reached;
  for (const std::optional<std::size_t>& distance : distance_) reached.push_back(distance.has_value());
  return reached;
}

}  // namespace vkfuse
