// Which nodes one kernel computes, what it reads and what it stores.
#pragma once

#include <vector>

#include "base/visited_set.hpp"
#include "ir/graph.hpp"

namespace vkfuse::segment {

/// The nodes of one kernel. Scalar literals are part of the text and are neither members nor reads.
struct Segment {
  std::vector<ir::NodeId> members;  ///< computed here, in graph order
  std::vector<ir::NodeId> reads;    ///< loaded from buffers: inputs, tensor constants, other segments' values
  std::vector<ir::NodeId> stores;   ///< members that are written, in graph order
};

/// Whether a node is a literal that the kernel text holds: a constant of one element.
bool is_literal(const ir::Graph& graph, ir::NodeId id);
/// Whether a node's elements come from one value or another, by their position.
bool is_choice(const ir::Node& node);
/// Whether a node is stored outside every kernel: an input, or a constant of several elements.
bool is_resident(const ir::Graph& graph, ir::NodeId id);

/// Reads and stores of a set of members. `escapes[id]` says whether somebody outside the members reads
/// the value; such members are stored. Members are sorted by id.
Segment build_segment(const ir::Graph& graph, std::vector<ir::NodeId> members, const std::vector<bool>& escapes);
/// The same for a caller who does so again and again: `marks` is of all nodes of the graph.
Segment build_segment(const ir::Graph& graph, std::vector<ir::NodeId> members, const std::vector<bool>& escapes,
                      VisitedSet& visited);

}  // namespace vkfuse::segment
