// Which nodes share a kernel.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"
#include "segment/segment.hpp"

namespace vkfuse::partition {

struct Options {
  bool fusion = true;  ///< off: one kernel per op
};

/// A value that is written by one kernel and read by another, and why the two are not one.
struct Boundary {
  ir::NodeId value = 0;
  std::string reason;
};

struct Partition {
  std::vector<segment::Segment> segments;  ///< in an order where producers come first
  std::vector<Boundary> boundaries;
};

/// Partitions every node that an output needs. Two kernels are merged when the result is convex,
/// fits the target, moves no more bytes and is modelled no slower than the two.
Result<Partition> partition(const ir::Graph& graph, const Target& target, const Options& options = {});

}  // namespace vkfuse::partition
