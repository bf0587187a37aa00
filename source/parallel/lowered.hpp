// The graph of a rank whose collectives move bytes and compute nothing: what they compute is ops of the graph, and so
// fuses with what is around them.
#pragma once

#include <map>
#include <vector>

#include "parallel/sharding.hpp"

namespace vkfuse::parallel {

/// What a rank does in a collective. One of a pipeline that is between other stages has neither.
struct Participation {
  bool sends = true;     ///< it computes the operand
  bool receives = true;  ///< it reads the result
};

/// Collectives are of four kinds here, each on whole values that lie as they are sent: all_gather and all_to_all along
/// axis 0, broadcast_from and send_receive.
struct Lowered {
  ir::Graph graph;
  std::map<ir::NodeId, ir::NodeId> origins;   ///< of each collective: the one that it is part of, in the graph before
  std::map<ir::NodeId, Participation> roles;  ///< of this rank in each collective of a pipeline; in others it has both
  std::vector<int> slots;                     ///< by value, as of Sharded; none: all in one
};

/// Sums become messages and additions: of two ranks, and of small values, each sends its own whole to the others; else
/// each has a part from all, adds it up and sends the sum to all. Every rank adds in the order of the ranks or takes
/// over what another one has added, so that results have the same bits on all; more than 8 values that every rank
/// adds up for itself (symbolic sizes that no rank's part divides) are a reduction, whose order is the device's. f16
/// and bf16 are added up in f32 and rounded once.
Result<Lowered> lower_collectives(const ir::Graph& graph);
/// The same with the slots of its values, and what this rank does in each collective.
Result<Lowered> lower_collectives(const Sharded& sharded);

/// Bytes that one rank sends to others in a collective of the graph before, for plans.
std::int64_t bytes_sent(const ir::Node& node, std::int64_t operand_bytes);

}  // namespace vkfuse::parallel
