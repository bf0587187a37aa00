// One group of nodes at work (OrtNodeComputeInfo).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ort/memory.hpp"
#include "ort/provider.hpp"

namespace vkfuse::ort {

/// Where a run finds what a program reads, and puts what it computes: positions among the fused node's.
struct Places {
  std::vector<std::pair<std::string, std::size_t>> inputs, outputs;
};

/// Runs a group. Thread-safe, as its program is.
class Compute : public OrtNodeComputeInfo {
 public:
  /// `blocks` is device memory that values may lie in; it outlives this.
  Compute(const Host& host, const Blocks& blocks, Device device, std::shared_ptr<const Provider::Group> group,
          Places places);

 private:
  struct Callbacks;
  Result<void> run(OrtKernelContext* context) const;
  /// What lies in a block of another device than the group's is copied by way of `held`.
  Result<onnx::RunInput> input(OrtKernelContext* context, std::size_t at, std::vector<std::byte>& held) const;
  /// Where ONNX Runtime wants an output of the fused node; nowhere if nobody reads it.
  Result<std::span<std::byte>> memory_of_output(OrtKernelContext* context, std::string_view name,
                                                std::span<const std::int64_t> sizes) const;
  /// `bytes` of a block as a buffer of their own, if kernels can be bound there.
  std::optional<Buffer> bindable(const Blocks::Window& window, std::size_t bytes) const;

  Host host_;
  const Blocks& blocks_;
  Device device_;
  std::shared_ptr<const Provider::Group> group_;
  Places places_;
};

}  // namespace vkfuse::ort
