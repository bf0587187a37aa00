// A program of one rank, cut at its collectives: parts that one device runs, and what is between them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "parallel/lowered.hpp"

namespace vkfuse::parallel {

/// A collective that moves bytes, by the names of the values that it reads and makes.
struct Step {
  ir::Node node;  ///< without operands
  TensorType operand_type;
  std::string operand, result;
  ir::NodeId origin = 0;  ///< the collective that it is part of, in the graph before Lowered
  Participation role;  ///< of this rank, which has no operand if it does not send, and no result if it does not receive
};

/// A graph cut in parts. Part k runs before the collectives of steps[k], of which part k + 1 and later ones read the
/// results. Values that cross are inputs and outputs of the parts under one name each. A part whose graph has no
/// outputs computes nothing.
struct Cut {
  std::vector<ir::Graph> parts;
  std::vector<std::vector<Step>> steps;  ///< one fewer than parts
  struct Result {
    std::string name;   ///< of the output
    std::string value;  ///< which value it is
    TensorType type;
  };
  std::vector<Result> outputs;
  std::set<std::string, std::less<>> inputs;  ///< of the graph, that this rank reads
};

/// Each value is computed in the first part that can, but literals, positions and what follows from them element by
/// element, which every part that reads them has for itself. What is reshaped on its way to a collective or to an
/// output is the value before.
/// Of a pipeline a rank computes what its outputs follow from and what it sends, and what is of a later slot in a later
/// part: so the parts of a rank are those of its micro-batches, one after the other, and all ranks number them alike.
/// With `in_order`, collectives follow each other in the order of their nodes, whether or not one reads the other; else
/// those that do not are of one level.
vkfuse::Result<Cut> cut_at_collectives(const Lowered& lowered, bool in_order = false);

/// Whether a node is a collective between several ranks.
bool is_collective(const ir::Node& node);
/// Every collective of a graph in the order of its nodes, one line each: what ranks must agree about.
std::vector<std::string> collective_lines(const ir::Graph& graph);

}  // namespace vkfuse::parallel
