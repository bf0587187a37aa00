// Which values of a graph are made of positions alone, and what they are.
#pragma once

#include <optional>
#include <vector>

#include "index/index.hpp"
#include "ir/graph.hpp"

namespace vkfuse::passes {

/// The coordinate along an axis of a shape; of one whose size a run decides, as far as that may go.
index::Expr axis_of(const Shape& shape, std::size_t axis);

bool is_static(const Shape& shape);

/// Follows a graph that grows. What a value is, is an expression of its coordinates, axis i of the shape being axis i,
/// of which its dtype has every number.
class KnownPositions {
 public:
  explicit KnownPositions(const ir::Graph& graph) : graph_(graph) {}

  /// Nothing where the value is not made of positions alone.
  std::optional<index::Expr> of(ir::NodeId id);
  /// An operand of an elementwise op, or of a broadcast, at the coordinates of a result of this rank.
  std::optional<index::Expr> aligned(ir::NodeId operand, std::size_t rank);
  /// The boolean that every element is.
  std::optional<bool> truth(ir::NodeId id);

 private:
  using Known = std::optional<index::Expr>;

  /// Looks at the nodes that are new.
  void learn();
  [[nodiscard]] Known aligned_known(ir::NodeId operand, std::size_t rank) const;
  [[nodiscard]] Known known(const ir::Node& node) const;
  [[nodiscard]] Known known_view(const ir::Node& node) const;
  [[nodiscard]] Known known_count(const ir::Node& node) const;
  [[nodiscard]] Known known_arithmetic(const ir::Node& node) const;

  const ir::Graph& graph_;
  std::vector<Known> known_;  // of each node
};

}  // namespace vkfuse::passes
