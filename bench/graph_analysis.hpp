// What the benchmark asks of a graph before it is run. Sizes in the graph are numbers.
#pragma once

#include <optional>

#include "ir/graph.hpp"

namespace vkfuse::bench {

/// Bytes of every input and output, each once: the traffic that cannot be avoided. An input that only gathers
/// read counts what they read of it, if that is less.
Result<std::int64_t> traffic(const ir::Graph& graph);

/// Arithmetic operations, about: one per element of an elementwise op, two of a multiply-add or a product that is
/// summed up, one per element that is folded. What a driver makes of an exponential is its own affair.
Result<double> arithmetic(const ir::Graph& graph);

/// The number of positions that the elements of an integer input choose from: the size of the axis that they
/// index. None if the input is no index.
std::optional<std::int64_t> positions_of(const ir::Graph& graph, ir::NodeId input);

}  // namespace vkfuse::bench
