// The rows of architectures: which device has which, whether each is whole, and what of it reaches the limits.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.hpp"
#include "golden/row_targets.hpp"
#include "schedule/schedule.hpp"

namespace vkfuse::test {
namespace {

std::string row_of(const DeviceIdentity& identity) { return std::string(model_of(identity)->name); }

TEST(DeviceRows, EveryRowHasADeviceThatChoosesIt) {
  std::set<std::string_view> chosen;
  for (const RowDevice& device : kRowDevices) {
    EXPECT_EQ(row_of(device.identity), device.row) << device.identity.name;
    chosen.insert(device.row);
  }
  for (const DeviceModel* row : device_model_rows()) EXPECT_TRUE(chosen.contains(row->name)) << row->name;
}

TEST(DeviceRows, MoreDevices) {
  struct Known {
    DeviceIdentity identity;
    const char* row;
  };
  const Known all[] = {
      {{0x10DE, 0x1EB8, "Tesla T4"}, "NVIDIA Turing"},
      {{0x10DE, 0x2184, "NVIDIA GeForce GTX 1660"}, "NVIDIA Turing"},
      {{0x10DE, 0x2331, "NVIDIA H100 PCIe"}, "NVIDIA Hopper"},
      {{0x10DE, 0x2342, "NVIDIA GH200 480GB"}, "NVIDIA Hopper"},
      {{0x10DE, 0x2520, "NVIDIA GeForce RTX 3060 Laptop GPU"}, "NVIDIA Ampere GA10x"},
      {{0x10DE, 0x27B8, "NVIDIA L4"}, "NVIDIA Ada"},
      {{0x10DE, 0x2D04, "NVIDIA GeForce RTX 5060 Ti"}, "NVIDIA Blackwell GB20x"},
      {{0x10DE, 0x1B06, "NVIDIA GeForce GTX 1080 Ti"}, "NVIDIA Turing"},  // older than any row
      {{0x10DE, 0, "NVIDIA AD102 (NVK AD102)"}, "NVIDIA Ada"},
      {{0x1002, 0x67DF, "AMD Radeon RX 580"}, "AMD GCN"},
      {{0x1002, 0x15D8, "AMD Radeon Vega 8 Graphics (RADV RAVEN)"}, "AMD GCN"},
      {{0x1002, 0x163F, "AMD Custom GPU 0405 (RADV VANGOGH)"}, "AMD RDNA 2"},
      {{0x1002, 0x743F, "AMD Radeon RX 6500 XT"}, "AMD RDNA 2"},
      {{0x1002, 0x15BF, "AMD Radeon 780M (RADV PHOENIX)"}, "AMD RDNA 3"},
      {{0x1002, 0x7590, "AMD Radeon RX 9060 XT"}, "AMD RDNA 4"},
      {{0x1002, 0x74A1, "AMD Instinct MI300X"}, "AMD CDNA"},
      {{0x1002, 0xFFFF, "AMD Radeon (RADV GFX1250)"}, "AMD RDNA 4"},
      {{0x144D, 0x73A0, "Samsung Xclipse 920"}, "AMD RDNA 2"},
      {{0x8086, 0x1912, "Intel(R) HD Graphics 530 (SKL GT2)"}, "Intel Gen9"},
      {{0x8086, 0x8A52, "Intel(R) Iris(R) Plus Graphics (ICL GT2)"}, "Intel Gen9"},
      {{0x8086, 0x46A6, "Intel(R) Iris(R) Xe Graphics (ADL GT2)"}, "Intel Xe-LP"},
      {{0x8086, 0x7D55, "Intel(R) Arc(tm) Graphics (MTL)"}, "Intel Xe-HPG"},
      {{0x8086, 0x64A0, "Intel(R) Arc(tm) Graphics (LNL)"}, "Intel Xe2"},
      {{0x8086, 0xFFFF, "Intel(R) Graphics"}, "Intel Gen9"},  // not out yet
      {{0x5143, 0x07030001, "Adreno (TM) 730"}, "Adreno 7xx"},
      {{0x5143, 0x05040001, "Adreno (TM) 540"}, "Adreno 6xx"},  // older than any row
      {{0x13B5, 0x90910010, "Mali-G78"}, "Mali Valhall"},
      {{0x13B5, 0, "Immortalis-G720"}, "Mali Valhall"},
      {{0x10005, 0, "Apple M1 (G13G B1)", "Honeykrisp"}, "Apple"},
      {{0x14E4, 0, "V3D 4.2.14.0"}, "V3D 4"},
      {{0, 0, "some software driver", "", DeviceType::cpu}, "llvmpipe"},
      {{}, "unknown"},
  };
  for (const Known& known : all) EXPECT_EQ(row_of(known.identity), known.row) << known.identity.name;
}

TEST(DeviceRows, ComputeUnitsAreThoseOfTheDeviceOrOfTheTableOfIds) {
  EXPECT_EQ(model_of({0x10DE, 0x2331, "NVIDIA H100 PCIe", "", kDiscrete, 114})->units.count.value, 114);
  EXPECT_EQ(model_of({0x10DE, 0x2331, "NVIDIA H100 PCIe", "", kDiscrete, 114})->units.count.source->kind,
            SourceKind::device);
  EXPECT_EQ(model_of({0x8086, 0x56A1, "Intel(R) Arc(tm) A750 Graphics (DG2)"})->units.count.value, 28);
  EXPECT_EQ(model_of({0x8086, 0xE20C, "Intel(R) Arc(tm) B570 Graphics"})->units.count.value, 18);
}

TEST(DeviceRows, WhatIsMeasuredReplacesWhatIsAssumedAlone) {
  CostModel costs;
  costs.compute_units = 12;
  const auto unknown = calibrated(model_of({}), costs);
  EXPECT_EQ(unknown->units.count.value, 12);
  EXPECT_EQ(unknown->units.count.source->kind, SourceKind::calibrated);
  EXPECT_EQ(calibrated(model_of(kH200), costs)->units.count.value, 12) << "of an H200 that does not tell";
  DeviceIdentity told = kH200;
  told.compute_units = 132;
  EXPECT_EQ(calibrated(model_of(told), costs)->units.count.value, 132);
  EXPECT_EQ(calibrated(model_of({}), CostModel{})->units.count.value, model_of({})->units.count.value);
}

TEST(DeviceRows, EveryNumberHasASourceAndIsOne) {
  const std::set<std::string> may_be_zero = {
      "registers.of_moved_load",       "registers.elsewhere", "registers.of_hardware_thread", "registers.subgroup",
      "units.workgroup_shared_memory", "stencil.element",     "stencil.loaded_weight"};
  const auto may_be_zero_of_software = [](const DeviceModel& row, const Figure& figure) {
    return figure.group == "stencil" && (row.name == "llvmpipe" || row.name == "SwiftShader");
  };
  for (const DeviceModel* row : device_model_rows()) {
    for (const Figure& figure : figures()) {
      const Number& number = figure.of(*row);
      const std::string name = fmt::format("{}: {}.{}", row->name, figure.group, figure.name);
      EXPECT_TRUE(std::isfinite(number.value)) << name;
      EXPECT_TRUE(number.value > 0 || may_be_zero.contains(fmt::format("{}.{}", figure.group, figure.name)) ||
                  may_be_zero_of_software(*row, figure))
          << name;
      ASSERT_NE(number.source, nullptr) << name;
      EXPECT_FALSE(number.source->text.empty()) << name;
    }
  }
}

TEST(DeviceRows, NumbersOfARowAgree) {
  for (const DeviceModel* row : device_model_rows()) {
    const ComputeUnits& units = row->units;
    SCOPED_TRACE(row->name);
    EXPECT_GE(units.matrix_multiply_adds.value, units.multiply_adds.value);
    EXPECT_LE(units.transcendentals.value, units.multiply_adds.value);
    EXPECT_LE(row->caches.tile_bytes.value, row->caches.bytes.value);
    EXPECT_LE(row->latencies.shared_memory.value, row->latencies.last_level_cache.value);
    EXPECT_LE(row->latencies.last_level_cache.value, row->latencies.memory.value);
    EXPECT_TRUE(std::has_single_bit(static_cast<std::uint64_t>(units.cache_line_bytes.value)));
    // As many threads as may be resident have registers left for little more than addresses.
    EXPECT_GE(units.registers.value, 16 * units.threads.value);
    EXPECT_LE(row->pressure.matmul_registers.value, units.registers_per_thread.value);
    EXPECT_LE(row->pressure.attention_registers.value, units.registers_per_thread.value);
    if (row->registers.per_thread != kUnknownRegistersPerThread) {
      EXPECT_LE(row->registers.per_thread.value, units.registers_per_thread.value);
    }
    if (row->registers.of_hardware_thread == 0) continue;
    // Lanes share what a hardware thread has: no fewer than planned in the size that kernels ask for, and at most
    // those of half as many lanes.
    const double of_lane = row->registers.of_hardware_thread / row->registers.subgroup;
    EXPECT_GE(of_lane, row->registers.per_thread.value);
    EXPECT_LE(units.registers_per_thread.value, 2 * of_lane);
  }
}

TEST(DeviceRows, TheH200HasTheNumbersThatWereFittedThere) {
  const DeviceModel& row = *model_of(kH200);
  EXPECT_EQ(row.units.count.value, 132);
  EXPECT_EQ(row.caches.bytes.value, 32e6);
  EXPECT_EQ(row.caches.tile_bytes.value, 128 << 10);
  EXPECT_EQ(row.pressure.matmul_registers.value, 80);
  EXPECT_EQ(row.pressure.attention_registers.value, 128);
  EXPECT_EQ(row.packed_gemv.threads.value, 512);
  EXPECT_EQ(row.packed_gemv.bytes_per_us_and_subgroup.value, 3000);
  EXPECT_EQ(row.packed_gemv.first_us.value, 2);
  EXPECT_EQ(row.attention.threads.value, 128);
  EXPECT_EQ(row.attention.exponential.value, 20);
  EXPECT_EQ(row.attention.cooperative_matrix_speedup.value, 16);
  EXPECT_EQ(row.matrices.step.latency.value, 326);
  EXPECT_EQ(row.matrices.kernels.matmul_registers.value, 232);
  EXPECT_EQ(row.matrices.kernels.attention_registers.value, 240);
}

TEST(DeviceRows, RegistersAndSubgroupsReachTheLimits) {
  EXPECT_EQ(target_of(row_device("Mali Valhall")).caps.registers.per_thread, 64U);
  EXPECT_EQ(target_of(row_device("Adreno 7xx")).caps.registers.per_workgroup, 32768U);
  EXPECT_EQ(target_of(row_device("V3D 4")).caps.registers.per_thread, 32U);
  EXPECT_EQ(target_of(row_device("NVIDIA Hopper")).caps.registers.per_thread, kUnknownRegistersPerThread);
  EXPECT_EQ(target_of(row_device("Intel Xe-LP")).caps.subgroup.size, 16U);
  EXPECT_EQ(target_of(row_device("Intel Xe-LP")).caps.registers.per_thread, 64U);
  EXPECT_EQ(target_of(row_device("Intel Xe2")).caps.registers.per_thread, 96U);
  RowDevice fixed = row_device("Intel Xe-LP");
  fixed.subgroup_min = 32;  // no pipeline may ask for less
  EXPECT_EQ(target_of(fixed).caps.subgroup.size, 32U);
}

TEST(DeviceRows, RaspberryPisKeepAddressesInUniformsAndArraysInMemory) {
  for (const char* row : {"V3D 4", "V3D 7"}) {
    const Target target = target_of(row_device(row));
    EXPECT_FALSE(target.caps.registers.arrays) << row;
    EXPECT_EQ(schedule::registers_over(target, 52), 0) << "32, and 24 elsewhere, of which 4 are left";
    EXPECT_EQ(schedule::registers_over(target, 53), 1);
    EXPECT_FALSE(schedule::overfills_registers(target, 32 + 24, 256)) << row;
  }
  EXPECT_TRUE(schedule::overfills_registers(target_of(row_device("V3D 4")), 33 + 24, 256));
  EXPECT_TRUE(target_of(row_device("Mali Valhall")).caps.registers.arrays);
  EXPECT_EQ(schedule::registers_over(target_of(row_device("Mali Valhall")), 61), 1);
}

TEST(DeviceRows, FewerLanesHaveMoreRegistersEachWhereTheyShareThem) {
  Target xe = target_of(row_device("Intel Xe-LP"));
  xe.caps.subgroup.most_in_workgroup = 64;
  const auto narrower = with_narrower_subgroups(xe);
  ASSERT_TRUE(narrower.has_value());
  EXPECT_EQ(narrower->caps.subgroup.size, 8U);
  EXPECT_EQ(narrower->caps.registers.per_thread, 128U);
  EXPECT_EQ(narrower->caps.workgroup.max_invocations, 512U);
  EXPECT_FALSE(with_narrower_subgroups(*narrower).has_value()) << "8 is the least";
  EXPECT_FALSE(with_narrower_subgroups(target_of(row_device("NVIDIA Hopper"))).has_value());
  EXPECT_FALSE(with_narrower_subgroups(target_of(row_device("AMD RDNA 3"))).has_value());
}

TEST(DeviceRows, WorkaroundsAreOfDrivers) {
  EXPECT_TRUE(target_of(row_device("llvmpipe")).workarounds.folds_nan_away);
  EXPECT_FALSE(target_of(row_device("SwiftShader")).workarounds.folds_nan_away);
  EXPECT_TRUE(target_of(row_device("llvmpipe")).workarounds.loses_widened_comparisons);
  EXPECT_FALSE(target_of(row_device("SwiftShader")).workarounds.loses_widened_comparisons);
  EXPECT_EQ(target_of(row_device("NVIDIA Hopper")).workarounds.unrolled_iterations, 2304);
  EXPECT_GT(target_of(row_device("AMD RDNA 3")).workarounds.unrolled_iterations, 1'000'000);
  EXPECT_EQ(target_of(row_device("AMD GCN")).caps.workgroup.shared_memory_bytes, 65536U - 256U);
  const auto aborts = [](std::string_view device, std::string_view driver) {
    return workarounds_of({.name = device, .driver_name = driver}).aborts_on_indexed_stores;
  };
  EXPECT_TRUE(aborts("llvmpipe (LLVM 19.1.7, 256 bits)", "llvmpipe"));
  EXPECT_FALSE(aborts("llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe"));
  EXPECT_FALSE(aborts("llvmpipe", "llvmpipe")) << "it does not say of which LLVM";
  EXPECT_FALSE(aborts("AMD Radeon (RADV, LLVM 19.1.7)", "radv"));
}

}  // namespace
}  // namespace vkfuse::test
