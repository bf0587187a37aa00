// A small kernel and the steps to run it, shared by the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "spirv/compile.hpp"
#include "vulkan/command_buffer.hpp"

namespace vkfuse::vulkan::test {

inline constexpr std::uint32_t kCount = 1000;
inline constexpr const char* kVectorAdd = R"(#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kScale = 1u;
layout(push_constant) uniform Push { uint count; } push;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer C { float c[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < push.count) c[i] = a[i] + float(kScale) * b[i];
}
)";

/// Unwraps a result; the test fails with the error's text when there is none.
template <typename T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().text());
  return *std::move(result);
}
inline void must(Result<void> result) {
  if (!result.ok()) throw std::runtime_error(result.error().text());
}

inline const spirv::Module& vector_add_spirv() {
  static const spirv::Module module = must(spirv::compile_glsl(kVectorAdd, "vector_add.comp"));
  return module;
}

inline std::shared_ptr<Device> open_device(const DeviceOptions& options = {}, FaultPlan* faults = nullptr) {
  return must(Device::create(must(Instance::create({.faults = faults})), 0, options));
}

inline PipelineInfo vector_add_info() {
  PipelineInfo info;
  info.name = "vector_add";
  info.spirv = vector_add_spirv();
  info.buffers = 3;
  info.push_constant_bytes = 4;
  info.constants = {{0, 64}, {1, 2}};
  return info;
}

inline std::vector<float> ramp(float start) {
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), start);
  return values;
}

/// c = a + 2 b on the device: staged where device memory is not mapped. Every step may fail.
struct VectorAdd {
  std::shared_ptr<const Device> device;
  Buffer a, b, c, staging;
  ComputePipeline pipeline;
  CommandBuffer commands;

  static constexpr std::uint64_t kBytes = kCount * sizeof(float);
  static constexpr std::uint64_t kSlot = 4096;  // of the staging buffer

  static Result<std::unique_ptr<VectorAdd>> create(const std::shared_ptr<const Device>& device,
                                                   bool concurrent = false) {
    VKF_TRY(a, Buffer::create(device, kBytes, BufferKind::device));
    VKF_TRY(b, Buffer::create(device, kBytes, BufferKind::device));
    VKF_TRY(c, Buffer::create(device, kBytes, BufferKind::device));
    VKF_TRY(staging, Buffer::create(device, 3 * kSlot, BufferKind::readback));
    VKF_TRY(pipeline, ComputePipeline::create(device, vector_add_info()));
    VKF_TRY(commands, CommandBuffer::create(device, concurrent));
    auto add = std::unique_ptr<VectorAdd>(new VectorAdd{device, std::move(a), std::move(b), std::move(c),
                                                        std::move(staging), std::move(pipeline), std::move(commands)});
    return add;
  }

  Result<void> record(const TimestampPool* times = nullptr) {
    VKF_CHECK_OK(commands.begin());
    commands.barrier(Access::compute | Access::transfer,
                     Access::compute | Access::transfer);  // an earlier run may not be done
    if (times) commands.reset_timestamps(*times);
    if (!a.mapped()) commands.copy({&staging, 0, kBytes}, {&a});
    if (!b.mapped()) commands.copy({&staging, kSlot, kBytes}, {&b});
    if (!a.mapped() || !b.mapped()) commands.barrier(Access::transfer, Access::compute);
    if (times) commands.write_timestamp(*times, 0);
    commands.bind(pipeline);
    const BufferRange ranges[] = {{&a}, {&b}, {&c}};
    commands.bind_buffers(ranges);
    commands.push_constants(std::as_bytes(std::span(&kCount, 1)));
    commands.dispatch((kCount + 63) / 64);
    if (times) commands.write_timestamp(*times, 1);
    if (!c.mapped()) {
      commands.barrier(Access::compute, Access::transfer);
      commands.copy({&c, 0, kBytes}, {&staging, 2 * kSlot, kBytes});
    }
    commands.barrier(Access::compute | Access::transfer, Access::host);
    return commands.end();
  }

  void write_inputs(const std::vector<float>& left, const std::vector<float>& right) {
    std::memcpy(a.mapped() ? a.mapped() : staging.mapped(), left.data(), kBytes);
    std::memcpy(b.mapped() ? b.mapped() : staging.mapped() + kSlot, right.data(), kBytes);
  }

  [[nodiscard]] std::vector<float> output() const {
    std::vector<float> values(kCount);
    std::memcpy(values.data(), c.mapped() ? c.mapped() : staging.mapped() + 2 * kSlot, kBytes);
    return values;
  }
};

inline std::vector<float> expected(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + 2.0F * b[i];
  return sum;
}

}  // namespace vkfuse::vulkan::test
