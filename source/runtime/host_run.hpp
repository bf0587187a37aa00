// Runs with inputs and outputs on the host: buffers, staging and commands kept for one set of sizes.
#pragma once

#include "runtime/program.hpp"

namespace vkfuse::runtime {

class HostRun {
 public:
  /// Allocates everything and records it once.
  static Result<std::unique_ptr<HostRun>> create(std::shared_ptr<Program> program, std::shared_ptr<const Variant> variant);

  /// Bytes of every input by node; the outputs' bytes by node come back. One run at a time.
  Result<std::map<ir::NodeId, std::vector<std::byte>>> run(const std::map<ir::NodeId, std::span<const std::byte>>& inputs);

  /// Device time of each kernel of one run on what the last run uploaded.
  Result<std::vector<StepTime>> profile();

 private:
  /// One input or output: where kernels see it, and how the host reaches it.
  struct Port {
    ir::NodeId value = 0;
    std::int64_t bytes = 0;
    vulkan::Buffer buffer;
    std::optional<vulkan::Buffer> staging;  // none where the buffer itself is mapped
  };
  HostRun() = default;
  /// An output that lies in another value's bytes: it has no buffer, and nothing is downloaded for it.
  struct Window {
    ir::NodeId value = 0;
    plan::Alias alias;
    std::int64_t bytes = 0;
  };
  Result<void> add_windows();
  Result<void> add_port(ir::NodeId value, vulkan::BufferKind staging, std::vector<Port>& ports);
  Result<void> record();

  std::shared_ptr<Program> program_;
  std::shared_ptr<const Variant> variant_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<Window> windows_;
  std::optional<vulkan::Buffer> arena_;
  Ranges ranges_;
  std::optional<vulkan::CommandBuffer> commands_;
};

/// Adds the arena's values to `ranges`.
void add_arena(const plan::Memory& memory, const vulkan::Buffer& arena, Ranges& ranges);

}  // namespace vkfuse::runtime
