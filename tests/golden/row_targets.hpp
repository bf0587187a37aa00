// One device of each row of source/device_model, fabricated: ids, names and limits as its driver states them.
#pragma once

#include <span>

#include "golden/targets.hpp"

namespace vkfuse::test {

struct RowDevice {
  const char* row;  ///< DeviceModel::name
  DeviceIdentity identity;
  std::uint32_t invocations, shared_memory_bytes;
  std::uint32_t subgroup, subgroup_min, subgroup_max;
};

inline constexpr DeviceType kDiscrete = DeviceType::discrete, kIntegrated = DeviceType::integrated;
inline constexpr RowDevice kRowDevices[] = {
    {"NVIDIA Turing", {0x10DE, 0x1E07, "NVIDIA GeForce RTX 2080 Ti", "NVIDIA", kDiscrete, 68}, 1024, 49152, 32, 32, 32},
    {"NVIDIA Ampere GA100",
     {0x10DE, 0x20B5, "NVIDIA A100 80GB PCIe", "NVIDIA", kDiscrete, 108},
     1024,
     49152,
     32,
     32,
     32},
    {"NVIDIA Ampere GA10x",
     {0x10DE, 0x2204, "NVIDIA GeForce RTX 3090", "NVIDIA", kDiscrete, 82},
     1024,
     49152,
     32,
     32,
     32},
    {"NVIDIA Ada", {0x10DE, 0x2684, "NVIDIA GeForce RTX 4090", "NVIDIA", kDiscrete, 128}, 1024, 49152, 32, 32, 32},
    {"NVIDIA Hopper", {0x10DE, 0x2335, "NVIDIA H200", "NVIDIA", kDiscrete, 132}, 1024, 49152, 32, 32, 32},
    {"NVIDIA Blackwell GB100", {0x10DE, 0x2901, "NVIDIA B200", "NVIDIA", kDiscrete, 148}, 1024, 49152, 32, 32, 32},
    {"NVIDIA Blackwell GB20x",
     {0x10DE, 0x2B85, "NVIDIA GeForce RTX 5090", "NVIDIA", kDiscrete, 170},
     1024,
     49152,
     32,
     32,
     32},
    {"AMD GCN", {0x1002, 0x687F, "AMD Radeon RX Vega (RADV VEGA10)", "radv", kDiscrete, 56}, 1024, 65536, 64, 64, 64},
    {"AMD RDNA 1",
     {0x1002, 0x731F, "AMD Radeon RX 5700 XT (RADV NAVI10)", "radv", kDiscrete, 40},
     1024,
     65536,
     64,
     32,
     64},
    {"AMD RDNA 2",
     {0x1002, 0x73BF, "AMD Radeon RX 6800 XT (RADV NAVI21)", "radv", kDiscrete, 72},
     1024,
     65536,
     64,
     32,
     64},
    {"AMD RDNA 3",
     {0x1002, 0x744C, "AMD Radeon RX 7900 XTX (RADV NAVI31)", "radv", kDiscrete, 96},
     1024,
     65536,
     64,
     32,
     64},
    {"AMD RDNA 4",
     {0x1002, 0x7550, "AMD Radeon RX 9070 XT (RADV GFX1201)", "radv", kDiscrete, 64},
     1024,
     65536,
     64,
     32,
     64},
    {"AMD CDNA", {0x1002, 0x740F, "AMD Instinct MI210 (RADV MI200)", "radv", kDiscrete, 104}, 1024, 65536, 64, 64, 64},
    {"Intel Gen9",
     {0x8086, 0x5917, "Intel(R) UHD Graphics 620 (KBL GT2)", "Intel open-source Mesa driver", kIntegrated},
     1024,
     65536,
     32,
     8,
     32},
    {"Intel Xe-LP",
     {0x8086, 0x9A49, "Intel(R) Iris(R) Xe Graphics (TGL GT2)", "Intel open-source Mesa driver", kIntegrated},
     1024,
     65536,
     32,
     8,
     32},
    {"Intel Xe-HPG",
     {0x8086, 0x56A0, "Intel(R) Arc(tm) A770 Graphics (DG2)", "Intel open-source Mesa driver", kDiscrete},
     1024,
     65536,
     32,
     8,
     32},
    {"Intel Xe2",
     {0x8086, 0xE20B, "Intel(R) Arc(tm) B580 Graphics (BMG G21)", "Intel open-source Mesa driver", kDiscrete},
     1024,
     131072,
     32,
     16,
     32},
    {"Adreno 6xx",
     {0x5143, 0x06030001, "Turnip Adreno (TM) 630", "turnip Mesa driver", kIntegrated},
     1024,
     32768,
     64,
     64,
     128},
    {"Adreno 7xx", {0x5143, 0x43050A01, "Adreno (TM) 740", "Qualcomm", kIntegrated}, 1024, 32768, 64, 64, 128},
    {"Adreno 8xx", {0x5143, 0x44050000, "Adreno (TM) 830", "Qualcomm", kIntegrated}, 1024, 32768, 64, 64, 128},
    {"Mali Bifrost", {0x13B5, 0x74021000, "Mali-G52 (Panfrost)", "panvk", kIntegrated}, 384, 32768, 8, 8, 8},
    {"Mali Valhall", {0x13B5, 0xA8670000, "Mali-G610", "Mali-G610", kIntegrated, 4}, 512, 32768, 16, 16, 16},
    {"Apple", {0x106B, 0xC0E03EF, "Apple M1", "MoltenVK", kIntegrated}, 1024, 32768, 32, 32, 32},
    {"V3D 4", {0x14E4, 0xBE485FD3, "V3D 4.2", "V3DV Mesa", kIntegrated}, 256, 16384, 16, 16, 16},
    {"V3D 7", {0x14E4, 0x55701C33, "V3D 7.1.7", "V3DV Mesa", kIntegrated}, 256, 16384, 16, 16, 16},
    {"llvmpipe", {0x10005, 0, "llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe", DeviceType::cpu}, 1024, 32768, 8, 8, 8},
    {"SwiftShader",
     {0x1AE0, 0xC0DE, "SwiftShader Device (Subzero)", "SwiftShader driver", DeviceType::cpu},
     256,
     32768,
     4,
     4,
     4},
    {"unknown", {0x1010, 0x36104182, "PowerVR B-Series BXS-4-64", "PowerVR", kIntegrated}, 512, 16384, 32, 32, 32},
};

/// The device with subgroups and T2, and enough memory for the benchmark's rows, whatever it has.
inline Target target_of(const RowDevice& device) {
  Target target;
  target.name = device.identity.name;
  target.type = device.identity.type;
  target.caps.workgroup.max_invocations = target.caps.workgroup.max_x = device.invocations;
  target.caps.workgroup.shared_memory_bytes = device.shared_memory_bytes;
  target.caps.memory.storage_buffers = 32;
  target.caps.memory.storage_buffer_range = std::uint64_t{4} << 30;
  target.caps.subgroup.size = device.subgroup;
  target.caps.subgroup.size_min = device.subgroup_min;
  target.caps.subgroup.size_max = device.subgroup_max;
  target.caps.subgroup.shuffle = target.caps.subgroup.size_control = target.caps.subgroup.full = true;
  target.caps.memory.storage_16bit = target.caps.arithmetic.float16 = target.caps.arithmetic.int64 = true;
  target.tiers = {true, true, true, false, false, false};
  take_model(target, device.identity);
  apply_driver_limits(device.identity, target.caps);
  target.workarounds = workarounds_of(device.identity);
  return target;
}

inline const RowDevice& row_device(std::string_view row) {
  for (const RowDevice& device : kRowDevices) {
    if (row == device.row) return device;
  }
  check(false, "every row has a device");
  return kRowDevices[0];
}

}  // namespace vkfuse::test
