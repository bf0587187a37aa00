#include "runtime/kernel_cache.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <set>
#include <thread>

#include "base/mutations.hpp"
#include "base/side_by_side.hpp"
#include "runtime/custom.hpp"

namespace vkfuse::runtime {

namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::string key_of(const lowering::Kernel& kernel) {
  return fmt::format(
      "{} {}\n{}", kernel.workgroup, kernel.subgroup,
      VKF_PLANT(stale_kernel, kernel.key.empty() ? kernel.glsl : kernel.key, std::to_string(kernel.bindings.size())));
}

vulkan::PipelineInfo pipeline_info(const lowering::Kernel& kernel, std::span<const std::uint32_t> spirv,
                                   const Caps& caps) {
  vulkan::PipelineInfo info;
  info.name = kernel.name;
  info.spirv = spirv;
  info.buffers = static_cast<std::uint32_t>(kernel.bindings.size());
  info.push_constant_bytes = static_cast<std::uint32_t>(kernel.constants.size() * 4);
  if (kernel.subgroup > 0) {
    info.full_subgroups = true;
    if (caps.subgroup.size_control) info.subgroup_size = static_cast<std::uint32_t>(kernel.subgroup);
  }
  info.constants = {{0, static_cast<std::uint32_t>(kernel.workgroup)}};
  return info;
}

/// What went wrong on several threads. The first in order is told, so that it does not depend on who was faster.
class Failures {
 public:
  [[nodiscard]] bool any() const { return any_; }

  template <typename Call>
  void note(std::size_t index, Call&& call) {
    try {
      Result<void> done = call();
      if (!done) add(index, std::move(done).error(), nullptr);
    } catch (...) {
      add(index, {}, std::current_exception());
    }
  }

  /// Throws again what was thrown.
  Result<void> first() {
    if (failures_.empty()) return {};
    Failure& failure = failures_.begin()->second;
    if (failure.thrown) std::rethrow_exception(failure.thrown);
    return std::move(failure.error);
  }

 private:
  struct Failure {
    Error error;
    std::exception_ptr thrown;
  };
  void add(std::size_t index, Error error, std::exception_ptr thrown) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failures_.emplace(index, Failure{std::move(error), std::move(thrown)});
    any_ = true;
  }

  std::mutex mutex_;
  std::map<std::size_t, Failure> failures_;
  std::atomic<bool> any_ = false;
};

}  // namespace

std::string KernelCache::pipeline_key(const lowering::Kernel& kernel) const {
  return fmt::format("{} {} {}\n{}", opened_.driver_key(), kernel.workgroup, kernel.subgroup, shader_key(kernel));
}

Result<CompiledKernel> KernelCache::make(const lowering::Kernel& kernel) {
  if (refuses_ && refuses_(kernel))
    return make_error(ErrorCode::internal, "The shader '{}' does not compile: a test refuses it.", kernel.name);
  const auto start = std::chrono::steady_clock::now();
  auto words = [&] {
    if (kernel.user.empty()) return opened_.shaders().compile(kernel);
    // Not ours: that its interface is another one is no defect.
    try {
      return opened_.shaders().compile(kernel);
    } catch (const InternalError& other) {
      return Result<spirv::Module>(invalid(
          "The custom kernel '{}' has not the interface that its operands ask for: {}.", kernel.user, other.what()));
    }
  }();
  if (!words && !kernel.user.empty() && words.error().code == ErrorCode::internal) {
    return error_in_user_code(fmt::format("The custom kernel '{}'", kernel.user), kernel.name, kernel.glsl, 1,
                              words.error());
  }
  if (!words) return std::move(words).error().within("compiling " + kernel.name);
  const double compile_ms = milliseconds_since(start);
  vulkan::PipelineInfo info = pipeline_info(kernel, *words, opened_.device()->caps());
  const std::string key = pipeline_key(kernel);
  const auto kept = opened_.store().load(store::Kind::pipeline, key);
  if (kept) info.cache = *kept;
  info.keep_cache = !kept && opened_.store().off().empty();
  auto pipeline = vulkan::ComputePipeline::create(opened_.device(), info);
  if (!pipeline) return std::move(pipeline).error().within("creating the pipeline of " + kernel.name);
  if (!pipeline->cache_data().empty()) opened_.store().save(store::Kind::pipeline, key, pipeline->cache_data());
  const double pipeline_ms = std::chrono::duration<double, std::milli>(pipeline->creation_time()).count();
  opened_.log(LogLevel::debug,
              fmt::format("{}: {:.1f} ms to SPIR-V, {:.1f} ms in the driver.", kernel.name, compile_ms, pipeline_ms));
  return CompiledKernel{*std::move(words), *std::move(pipeline), compile_ms, pipeline_ms};
}

Result<std::shared_ptr<const CompiledKernel>> KernelCache::compile(const lowering::Kernel& kernel) {
  const std::string key = key_of(kernel);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = kernels_.find(key);
    if (known != kernels_.end()) return known->second;
  }
  VKF_TRY(made, make(kernel));
  auto compiled = std::make_shared<const CompiledKernel>(std::move(made));
  const std::lock_guard<std::mutex> lock(mutex_);
  return kernels_.emplace(key, std::move(compiled)).first->second;
}

Result<std::vector<std::shared_ptr<const CompiledKernel>>> KernelCache::compile_all(
    const std::vector<const lowering::Kernel*>& kernels) {
  if (kernels.empty()) return std::vector<std::shared_ptr<const CompiledKernel>>();
  // Each text once: two threads would otherwise compile the same.
  std::vector<const lowering::Kernel*> distinct;
  std::set<std::string> keys;
  for (const lowering::Kernel* kernel : kernels) {
    if (keys.insert(key_of(*kernel)).second) distinct.push_back(kernel);
  }
  Failures failures;
  std::atomic<std::size_t> next = 0;
  work_side_by_side(distinct.size(), [&] {
    // A number that was taken is worked on, so all before one that failed are.
    while (!failures.any()) {
      const std::size_t i = next++;
      if (i >= distinct.size()) return;
      failures.note(i, [&]() -> Result<void> {
        auto made = compile(*distinct[i]);
        return made ? Result<void>() : Result<void>(std::move(made).error());
      });
    }
  });
  VKF_CHECK_OK(failures.first());
  std::vector<std::shared_ptr<const CompiledKernel>> compiled;  // they are all known now
  for (const lowering::Kernel* kernel : kernels) {
    VKF_TRY(one, compile(*kernel));
    compiled.push_back(std::move(one));
  }
  return compiled;
}

void KernelCache::forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  kernels_.clear();
}

Result<std::vector<vulkan::Statistic>> KernelCache::statistics(const lowering::Kernel& kernel) {
  VKF_TRY(compiled, compile(kernel));
  vulkan::PipelineInfo info = pipeline_info(kernel, compiled->spirv, opened_.device()->caps());
  info.capture_statistics = true;
  VKF_TRY(pipeline, vulkan::ComputePipeline::create(opened_.device(), info));
  return vulkan::statistics(pipeline);
}

}  // namespace vkfuse::runtime
