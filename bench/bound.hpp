// Programs bound to device memory: rotating sets of inputs and outputs, and the arena.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "data.hpp"
#include "runtime/program.hpp"

namespace vkfuse::bench {

/// One buffer for every input and output of a graph, by name.
struct BufferSet {
  std::deque<vulkan::Buffer> buffers;  // a deque: ranges point into it
  std::map<std::string, vulkan::BufferRange, std::less<>> inputs;
  std::map<std::string, vulkan::BufferRange, std::less<>> outputs;
};

/// Sets of the same data. The same set may be bound to several programs of one graph.
struct BufferSets {
  std::deque<BufferSet> sets;
};

/// Uploads the pools once and copies from there to every input on the device.
Result<BufferSets> make_sets(runtime::Context& context, const ir::Graph& graph, const HostData& data, int count);

/// A program and where its values live in each set.
struct Bound {
  std::shared_ptr<runtime::Program> program;
  std::shared_ptr<const runtime::Variant> variant;
  std::optional<vulkan::Buffer> arena;
  std::vector<runtime::Ranges> sets;

  [[nodiscard]] int kernels() const { return variant->dispatches(); }
};
/// The result is behind a pointer because the ranges point to its arena.
Result<std::unique_ptr<Bound>> bind(std::shared_ptr<runtime::Program> program, const BufferSets& sets);

}  // namespace vkfuse::bench
