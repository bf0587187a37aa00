// What the walk from results to loads has asked for so far: values at positions, under predicates.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "segment/loops.hpp"

namespace vkfuse::segment {

using Coordinates = std::vector<index::Expr>;

/// A value that somebody needs, before views are resolved.
struct ElementRequest {
  ir::NodeId node = 0;
  Coordinates coordinates;
  int context = 0;  ///< of predicates
  Value value;
  std::optional<ValueId> alias;
};

/// Of members that compute the same, the first, by the number of each of the others: it is computed for all of them.
using EqualMembers = std::map<ir::NodeId, ir::NodeId>;
EqualMembers equal_members(const ir::Graph& graph, const Segment& segment);

class ElementRequests {
 public:
  explicit ElementRequests(EqualMembers equal) : equal_(std::move(equal)) {}

  ElementRequest& operator[](ValueId id) { return all_[id]; }
  const ElementRequest& operator[](ValueId id) const { return all_[id]; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }

  ValueId find_or_add(ir::NodeId node, Coordinates coordinates, int context);
  /// A value that is made of the node beside what is asked for: no request finds it.
  ValueId add_unlisted(ir::NodeId node, int context);
  /// The value itself, or what it is an alias of.
  [[nodiscard]] ValueId resolved(ValueId id) const;

  /// Of all nodes that are asked for, users first.
  using ByNode = std::map<ir::NodeId, std::vector<ValueId>, std::greater<>>;
  [[nodiscard]] const ByNode& by_node() const { return by_node_; }
  [[nodiscard]] std::span<const ValueId> of(ir::NodeId node) const;
  /// The member that is computed for this one, too: often itself.
  [[nodiscard]] ir::NodeId first_equal(ir::NodeId node) const {
    const auto found = equal_.find(node);
    return found == equal_.end() ? node : found->second;
  }

 private:
  EqualMembers equal_;
  std::vector<ElementRequest> all_;
  ByNode by_node_;
};

/// Predicates under which values are needed. A context has one more than its parent; context 0 has none.
class PredicateContexts {
 public:
  /// The context of the predicate inside another one, which is that one where the predicate always holds.
  int inside(int context, Predicate predicate);
  [[nodiscard]] std::vector<Predicate> predicates_of(int context) const;

 private:
  struct Context {
    int parent = -1;
    Predicate predicate;
  };
  std::vector<Context> all_{{}};
};

}  // namespace vkfuse::segment
