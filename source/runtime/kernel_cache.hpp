// Kernels that are compiled on a device, each once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel/kernel.hpp"
#include "runtime/open_device.hpp"
#include "vulkan/pipeline.hpp"

namespace vkfuse::runtime {

/// A kernel on a device. Immutable; shared between executables.
struct CompiledKernel {
  std::vector<std::uint32_t> spirv;
  vulkan::ComputePipeline pipeline;
  double compile_ms = 0;   ///< GLSL to SPIR-V, or reading it from the store and checking it
  double pipeline_ms = 0;  ///< in the driver
};

/// Thread-safe. The device outlives it.
class KernelCache {
 public:
  explicit KernelCache(OpenDevice& opened) : opened_(opened) {}

  /// The compiled form of a kernel; equal keys on one device are compiled once, and what the store has of them is not
  /// compiled at all.
  Result<std::shared_ptr<const CompiledKernel>> compile(const lowering::Kernel& kernel);
  /// The same for several, on as many threads as the machine has; the first kernel's error where there are more.
  Result<std::vector<std::shared_ptr<const CompiledKernel>>> compile_all(
      const std::vector<const lowering::Kernel*>& kernels);
  /// What the driver says of a kernel: it is made once more, because drivers that keep what they need for this do not
  /// take pipelines from a cache.
  Result<std::vector<vulkan::Statistic>> statistics(const lowering::Kernel& kernel);

  /// The next compile() of any kernel starts from the store, as in a new process: for measuring that.
  void forget();
  /// For tests: a compiler that refuses the kernels of which `refuses` is true. Before anything is compiled.
  void refuse(std::function<bool(const lowering::Kernel&)> refuses) { refuses_ = std::move(refuses); }

 private:
  Result<CompiledKernel> make(const lowering::Kernel& kernel);
  [[nodiscard]] std::string pipeline_key(const lowering::Kernel& kernel) const;

  OpenDevice& opened_;
  std::function<bool(const lowering::Kernel&)> refuses_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const CompiledKernel>> kernels_;  ///< by workgroup size and key
};

}  // namespace vkfuse::runtime
