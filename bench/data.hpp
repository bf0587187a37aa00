// Input data on the host: what the device is fed and the reference reads.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "reference/reference.hpp"
#include "rows.hpp"

namespace vkfuse::bench {

/// Inputs are windows of a few pools, one per kind of element: each input begins elsewhere in its
/// pool, so that a program that mixes inputs up is found out, and gigabytes of random numbers need
/// not be drawn.
struct HostData {
  struct Window {
    std::string name;
    std::size_t pool = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<std::vector<std::byte>> pools;
  std::vector<Window> inputs;

  [[nodiscard]] reference::InputBindings input_bindings() const;
};

/// Floats are N(0,1) unless the row's traits say otherwise; integers are positions along the axis that they index,
/// or in [0, 4). Sizes in the graph are numbers.
Result<HostData> make_data(const ir::Graph& graph, const Traits& traits);

}  // namespace vkfuse::bench
