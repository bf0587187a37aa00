// The minimum cut of a network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace vkfuse {

/// Vertices, and edges between them with capacities. The maximum flow is found by blocking flows along shortest paths.
///   Dinitz: Algorithm for solution of a problem of maximum flow in a network with power estimation (1970).
class FlowNetwork {
 public:
  /// Of an edge that no cut may have. Sums of a few thousand other capacities must stay below it.
  static constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max() / 4;

  explicit FlowNetwork(std::size_t vertices) : edges_(vertices) {}

  void connect(std::size_t from, std::size_t to, std::int64_t capacity);

  /// Which vertices are on the side of `source` of the minimum cut that has the fewest there; nothing where every cut
  /// has an edge of infinite capacity. Asked once.
  std::optional<std::vector<bool>> cut(std::size_t source, std::size_t sink);

 private:
  struct Edge {
    std::size_t to = 0, back = 0;
    std::int64_t left = 0;
  };

  /// How many edges of at least so much left lead from the source to each vertex; nothing where none do.
  [[nodiscard]] std::vector<std::optional<std::size_t>> distances(std::size_t source, std::int64_t least) const;
  void push_blocking_flow(std::size_t source, std::size_t sink);
  /// Sends what fits along the edges of a path, each the `next_` one of its vertex.
  void push_along(const std::vector<std::size_t>& path);

  std::vector<std::vector<Edge>> edges_;
  std::vector<std::optional<std::size_t>> distance_;
  std::vector<std::size_t> next_;  ///< of each vertex, the first edge that may still lead on
};

}  // namespace vkfuse
