// Programs bound to device memory: rotating sets of inputs and outputs, and what they keep between kernels.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "data.hpp"
#include "runtime/host_run.hpp"

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

/// One program, and where its values live in each set.
struct Part {
  std::shared_ptr<runtime::Program> program;
  std::shared_ptr<const runtime::Specialization> specialization;
  runtime::Arena arena;
  std::vector<runtime::Ranges> sets;
};

/// What one run is: a program, or several one after the other, of which later ones read what earlier ones wrote.
struct Bound {
  std::deque<Part> parts;
  std::deque<vulkan::Buffer> between;  ///< values that parts hand on, shared by all sets
  std::size_t sets = 1;

  [[nodiscard]] int kernels() const;
  [[nodiscard]] std::int64_t arena_bytes() const;
  /// Bytes that the kernels load and store: with intermediate values, unlike the traffic of the row.
  [[nodiscard]] Result<std::int64_t> moved_bytes() const;
  /// Two runs on different sets write the same memory, so that a barrier must part them.
  [[nodiscard]] bool keeps_values() const { return !between.empty() || arena_bytes() > 0; }
  [[nodiscard]] runtime::Context& context() const { return *parts.front().program->context(); }

  Result<void> record(vulkan::CommandBuffer& commands, std::size_t set) const;
};

/// The parts' inputs and outputs are found by name: in the sets, else among what earlier parts wrote, which gets
/// memory of its own that is used again after its last reader. Behind a pointer because ranges point into it.
Result<std::unique_ptr<Bound>> bind_programs(const std::vector<std::shared_ptr<runtime::Program>>& programs,
                                             const BufferSets& sets);

}  // namespace vkfuse::bench
