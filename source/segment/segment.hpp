// One candidate kernel as loops: which nodes it computes, over which axes, and how each value it
// reads or writes is addressed.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace vkfuse::segment {

/// The nodes of one kernel. Scalar literals are part of the text and are neither members nor reads.
struct Segment {
  std::vector<ir::NodeId> members;  ///< computed here, in graph order
  std::vector<ir::NodeId> reads;    ///< loaded from buffers: inputs, tensor constants, other segments' values
  std::vector<ir::NodeId> stores;   ///< members that are written, in graph order
  Shape space;                      ///< the iteration space: every stored value has this shape
};

/// Whether a node is a literal that the kernel text holds: a constant of one element.
bool is_literal(const ir::Graph& graph, ir::NodeId id);
/// Whether a node is stored outside every kernel: an input, or a constant of several elements.
bool is_resident(const ir::Graph& graph, ir::NodeId id);

/// Reads, stores and space of a set of members. `escapes[id]` says whether somebody outside the
/// members reads the value; such members are stored. Members are sorted by id.
Segment build_segment(const ir::Graph& graph, std::vector<ir::NodeId> members, const std::vector<bool>& escapes);

/// How a value is addressed: the loop axes its position depends on, outermost first. The position
/// in memory is the row-major index over those axes; the others are broadcast.
struct Access {
  ir::NodeId value = 0;
  std::vector<bool> uses;  ///< one flag per axis of Loops
};

/// The segment's iteration space with adjacent axes merged wherever no access tells them apart.
struct Loops {
  std::vector<Shape> axes;        ///< each a product of graph dimensions, outermost first
  std::vector<Access> reads;      ///< of Segment::reads, in order
  std::vector<Access> positions;  ///< of generator members (iota: its axis; random: its flat index)
};

Loops build_loops(const ir::Graph& graph, const Segment& segment);

}  // namespace vkfuse::segment
