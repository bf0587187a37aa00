#include "segment/segment.hpp"

#include <algorithm>

namespace vkfuse::segment {

bool is_literal(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  const auto* constant = std::get_if<ir::ConstantPayload>(&node.payload);
  return constant != nullptr && constant->bytes->size() == static_cast<std::size_t>(size_of(node.type.dtype));
}

bool is_resident(const ir::Graph& graph, ir::NodeId id) {
  const ops::OpClass cls = graph.node(id).op->cls;
  return cls == ops::OpClass::input || (cls == ops::OpClass::constant && !is_literal(graph, id));
}

Segment build_segment(const ir::Graph& graph, std::vector<ir::NodeId> members, const std::vector<bool>& escapes) {
  Segment segment;
  std::sort(members.begin(), members.end());
  segment.members = std::move(members);
  for (ir::NodeId id : segment.members) {
    auto space = broadcast(segment.space, graph.node(id).type.shape);
    check(space.ok(), "the members of a segment share one iteration space");
    segment.space = *std::move(space);
    for (ir::NodeId operand : graph.node(id).operands) {
      const bool computed = std::binary_search(segment.members.begin(), segment.members.end(), operand);
      const bool known = std::find(segment.reads.begin(), segment.reads.end(), operand) != segment.reads.end();
      if (!computed && !known && !is_literal(graph, operand)) segment.reads.push_back(operand);
    }
    if (escapes[id]) segment.stores.push_back(id);
  }
  return segment;
}

namespace {

/// Which dimensions of the space a value of this shape depends on. A dimension of 1 in the space
/// tells nothing apart and is left out of the loops altogether.
std::vector<bool> depends(const Shape& shape, const Shape& space) {
  std::vector<bool> flags(space.size(), false);
  const std::size_t skip = space.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) flags[skip + i] = !(shape[i] == Dim(1));
  return flags;
}

struct Wanted {
  ir::NodeId value;
  std::vector<bool> depends;
};

std::vector<Wanted> positions_of(const ir::Graph& graph, const Segment& segment) {
  std::vector<Wanted> all;
  for (ir::NodeId id : segment.members) {
    const ir::Node& node = graph.node(id);
    if (node.op->cls != ops::OpClass::generate) continue;
    std::vector<bool> flags = depends(node.type.shape, segment.space);
    if (const auto* iota = std::get_if<ir::IotaPayload>(&node.payload)) {
      const std::size_t axis = segment.space.size() - node.type.shape.size() + static_cast<std::size_t>(iota->axis);
      const bool varies = flags[axis];
      flags.assign(flags.size(), false);
      flags[axis] = varies;
    }
    all.push_back({id, std::move(flags)});
  }
  return all;
}

}  // namespace

Loops build_loops(const ir::Graph& graph, const Segment& segment) {
  std::vector<Wanted> reads;
  for (ir::NodeId id : segment.reads) reads.push_back({id, depends(graph.node(id).type.shape, segment.space)});
  const std::vector<Wanted> positions = positions_of(graph, segment);

  // Walk the dimensions outermost first; one that every access treats like the axis before it joins
  // that axis, because together they are contiguous for whoever uses them.
  Loops loops;
  std::vector<std::size_t> first_dim;  // of each axis
  const auto alike = [&](std::size_t a, std::size_t b) {
    const auto same = [&](const Wanted& wanted) { return wanted.depends[a] == wanted.depends[b]; };
    return std::all_of(reads.begin(), reads.end(), same) && std::all_of(positions.begin(), positions.end(), same);
  };
  for (std::size_t dim = 0; dim < segment.space.size(); ++dim) {
    if (segment.space[dim] == Dim(1)) continue;
    if (!first_dim.empty() && alike(first_dim.back(), dim)) {
      loops.axes.back().push_back(segment.space[dim]);
    } else {
      first_dim.push_back(dim);
      loops.axes.push_back({segment.space[dim]});
    }
  }
  const auto access = [&](const Wanted& wanted) {
    Access made{wanted.value, {}};
    for (std::size_t dim : first_dim) made.uses.push_back(wanted.depends[dim]);
    return made;
  };
  for (const Wanted& wanted : reads) loops.reads.push_back(access(wanted));
  for (const Wanted& wanted : positions) loops.positions.push_back(access(wanted));
  return loops;
}

}  // namespace vkfuse::segment
