// Fabricated devices: what plans and kernels look like on them needs no device.
#pragma once

#include "device_model/device_model.hpp"

namespace vkfuse::test {

/// The row of a device, and what it says of registers and subgroups.
inline void take_model(Target& target, const DeviceIdentity& identity) {
  target.model = model_of(identity);
  apply_model(*target.model, target.caps);
}

/// What goldens and plans of discrete GPUs are of.
inline constexpr DeviceIdentity kH200 = {.vendor_id = 0x10DE,
                                         .device_id = 0x2335,
                                         .name = "NVIDIA H200",
                                         .driver_name = "NVIDIA",
                                         .type = DeviceType::discrete};

/// A discrete GPU with everything up to T2.
inline Target discrete_gpu(std::uint32_t subgroup = 32, std::uint32_t invocations = 1024) {
  Target target;
  target.name = "fabricated discrete GPU";
  target.type = DeviceType::discrete;
  target.caps.workgroup.max_invocations = invocations;
  target.caps.workgroup.max_x = invocations;
  target.caps.memory.storage_buffers = 32;
  target.caps.memory.storage_buffer_range = std::uint64_t{4} << 30;
  target.caps.subgroup.size = target.caps.subgroup.size_min = target.caps.subgroup.size_max = subgroup;
  target.caps.subgroup.vote = target.caps.subgroup.shuffle = target.caps.subgroup.size_control =
      target.caps.subgroup.full = true;
  target.caps.workgroup.shared_memory_bytes = 49152;
  target.caps.memory.storage_16bit = target.caps.arithmetic.float16 = target.caps.arithmetic.int64 =
      target.caps.arithmetic.float64 = true;
  target.tiers = {true, true, true, false, false, false};
  take_model(target, kH200);
  return target;
}

/// The same with cooperative matrices of 16 x 16 x 16, and functions of their elements.
inline Target discrete_gpu_with_matrices() {
  Target target = discrete_gpu();
  target.caps.matrix.shapes = {{16, 16, 16, DType::f16, DType::f16, DType::f32, DType::f32},
                               {16, 16, 16, DType::bf16, DType::bf16, DType::f32, DType::f32},
                               {16, 16, 32, DType::i8, DType::i8, DType::i32, DType::i32},
                               {16, 16, 32, DType::u8, DType::u8, DType::u32, DType::u32}};
  target.caps.matrix.sub_byte = MatrixShape{16, 8, 16, DType::f16, DType::f16, DType::f32, DType::f32};
  target.caps.matrix.lane_fragments = target.caps.matrix.sub_byte;
  target.caps.matrix2.reductions = target.caps.matrix2.conversions = target.caps.matrix2.per_element = true;
  target.tiers[static_cast<std::size_t>(FeatureTier::cooperative_matrix)] =
      target.tiers[static_cast<std::size_t>(FeatureTier::cooperative_matrix2)] = true;
  return target;
}

/// The same without functions of their elements, as devices of most vendors have them, and with f16 sums.
inline Target discrete_gpu_with_matrix_products() {
  Target target = discrete_gpu_with_matrices();
  target.caps.matrix.shapes.push_back({16, 16, 16, DType::f16, DType::f16, DType::f16, DType::f16});
  target.caps.matrix2 = {};
  target.tiers[static_cast<std::size_t>(FeatureTier::cooperative_matrix2)] = false;
  return target;
}

/// The same with the shared memory of an H200, and what that has been measured to cost.
inline Target discrete_gpu_with_measured_costs() {
  Target target = discrete_gpu_with_matrices();
  target.caps.workgroup.shared_memory_bytes = 49152;
  target.costs = CostModel{.copy_gb_per_s = 4230, .launch_us = 1.9, .gflops = 30300, .accesses_per_us = 1.89e6};
  return target;
}

/// With matrices, and which multiplies whole tiles as one (T5) and whose exponentials keep NaN.
inline Target discrete_gpu_with_whole_tiles() {
  Target target = discrete_gpu_with_matrices();
  target.caps.float_controls.keep_nan_f32 = target.caps.float_controls.exp_of_nan = true;
  target.caps.matrix2.tensor_addressing = target.caps.matrix2.workgroup_scope = target.caps.matrix2.flexible = true;
  target.caps.matrix2.tiles.assign(std::begin(kWorkgroupTiles), std::end(kWorkgroupTiles));
  return target;
}

/// The same without them, that multiplies four bytes at once.
inline Target discrete_gpu_with_dots() {
  Target target = discrete_gpu();
  target.caps.arithmetic.dot_product_i8 = target.caps.arithmetic.dot_product_i8_accelerated = true;
  target.tiers[static_cast<std::size_t>(FeatureTier::dot_product)] = true;
  return target;
}

/// Of a vendor whose lanes have few registers, as Mesa's drivers describe such devices, with T2 and no subgroups: what
/// there is of both chips of a family.
inline Target integrated_gpu(const DeviceIdentity& identity, std::uint32_t invocations) {
  Target target;
  target.name = "fabricated integrated GPU";
  target.type = DeviceType::integrated;
  target.caps.workgroup.max_invocations = target.caps.workgroup.max_x = invocations;
  target.caps.memory.storage_buffers = 16;
  target.caps.workgroup.shared_memory_bytes = 32768;
  target.caps.memory.storage_16bit = target.caps.arithmetic.float16 = true;
  target.tiers = {true, false, true, false, false, false};
  take_model(target, identity);
  return target;
}

/// With what Mali G52 and G610 have in common.
inline Target mali() {
  Target target = integrated_gpu({.vendor_id = 0x13B5, .name = "Mali-G610"}, 256);
  target.caps.arithmetic.dot_product_i8 = target.caps.arithmetic.dot_product_i8_accelerated = true;
  target.tiers[static_cast<std::size_t>(FeatureTier::dot_product)] = true;
  return target;
}

inline Target adreno() { return integrated_gpu({.vendor_id = 0x5143, .name = "Adreno (TM) 660"}, 1024); }

/// What every Vulkan 1.1 device has.
inline Target minimum_device() {
  Target target;
  take_model(target, {});
  return target;
}

/// A CPU driver without 16-bit arithmetic or 64-bit integers.
inline Target cpu_driver() {
  Target target;
  target.name = "fabricated CPU";
  target.type = DeviceType::cpu;
  target.caps.workgroup.max_invocations = target.caps.workgroup.max_x = 256;
  target.caps.memory.storage_buffers = 30;
  target.caps.subgroup.size = 4;
  return target;
}

}  // namespace vkfuse::test
