// AMD: GCN, RDNA 1 to 4, CDNA. A compute unit is a compute unit, half of a work group processor of RDNA.
#include "device_model/rows.hpp"

namespace vkfuse::device_rows {

namespace {

constexpr Source kVegaPaper{SourceKind::document, "AMD, Radeon's next-generation Vega architecture (2017); Vega 64"};
constexpr Source kVegaIsa{SourceKind::document, "AMD, Vega Instruction Set Architecture (2017)"};
constexpr Source kRdnaPaper{SourceKind::document, "AMD, RDNA Architecture (2019); Radeon RX 5700 XT"};
constexpr Source kRdna2Isa{SourceKind::document, "AMD, RDNA 2 Instruction Set Architecture (2020); Radeon RX 6800 XT"};
constexpr Source kRdna3Isa{SourceKind::document, "AMD, RDNA3 Instruction Set Architecture (2023); Radeon RX 7900 XTX"};
constexpr Source kRdna4Isa{SourceKind::document, "AMD, RDNA4 Instruction Set Architecture (2025); Radeon RX 9070 XT"};
constexpr Source kCdna2Paper{SourceKind::document, "AMD, CDNA 2 Architecture (2021); Instinct MI250X"};
constexpr Source kCdna3Paper{SourceKind::document, "AMD, CDNA 3 Architecture (2023); Instinct MI300X"};
constexpr Source kRadv{SourceKind::driver, "Mesa, ac_gpu_info.c: waves and vector registers of a SIMD"};
constexpr Source kAlone{SourceKind::assumed, "without dual issue, which compilers find little of"};
constexpr Source kPackedHalves{SourceKind::document, "no matrix units: packed f16, two elements a lane"};
constexpr Source kLeastOfFamily{SourceKind::driver, "Mesa, ac_gpu_info.c: the least of the family (Navi 33, Phoenix)"};
constexpr Source kChips{SourceKind::document, "Chips and Cheese, Microbenchmarking AMD's RDNA 3 (2023), and before"};
constexpr Source kLikeRdna3{SourceKind::assumed, "as RDNA 3's"};
constexpr Source kAmdNoReserve{SourceKind::document, "shared memory is given out without a share for the driver"};

/// A thread has 256 vector registers, and RADV's waves have the size that a pipeline asks for.
constexpr PlannedRegisters planned(const Source& isa) {
  return {.per_thread = {256, &isa},
          .per_workgroup = {65536, &kRadv},
          .elsewhere = {0, &kAllCounted},
          .of_moved_load = {0, &kAllCounted},
          .of_hardware_thread = {0, &kNotDivided},
          .subgroup = {0, &kNotDivided}};
}

constexpr DeviceModel kGcn = row_of({.name = "AMD GCN",
                                     .units = {.count = {64, &kVegaPaper},
                                               .multiply_adds = {64, &kVegaPaper},
                                               .matrix_multiply_adds = {128, &kPackedHalves},
                                               .transcendentals = {16, &kVegaIsa},
                                               .subgroup_instructions = {1, &kVegaIsa},
                                               .shared_memory_bytes = {128, &kVegaIsa},
                                               .last_level_cache_bytes = {16, &kVegaPaper},
                                               .memory_bytes = {4.9, &kVegaPaper},
                                               .cache_line_bytes = {64, &kVegaIsa},
                                               .registers = {65536, &kVegaIsa},
                                               .threads = {2560, &kVegaIsa},
                                               .shared_memory = {64 << 10, &kVegaIsa},
                                               .workgroup_shared_memory = {0, &kAmdNoReserve},
                                               .registers_per_thread = {256, &kVegaIsa}},
                                     .registers = planned(kVegaIsa),
                                     .latencies = {{64, &kVegaIsa}, {350, &kAssumed}, {700, &kAssumed}},
                                     .cache_bytes = {4e6, &kVegaPaper}});

constexpr DeviceModel kRdna1 = row_of({.name = "AMD RDNA 1",
                                       .units = {.count = {40, &kRdnaPaper},
                                                 .multiply_adds = {64, &kRdnaPaper},
                                                 .matrix_multiply_adds = {128, &kPackedHalves},
                                                 .transcendentals = {16, &kRdnaPaper},
                                                 .subgroup_instructions = {2, &kRdnaPaper},
                                                 .shared_memory_bytes = {128, &kRdnaPaper},
                                                 .last_level_cache_bytes = {25.6, &kRdnaPaper},
                                                 .memory_bytes = {6.4, &kRdnaPaper},
                                                 .cache_line_bytes = {128, &kRdnaPaper},
                                                 .registers = {65536, &kRadv},
                                                 .threads = {1280, &kRadv},
                                                 .shared_memory = {64 << 10, &kRdnaPaper},
                                                 .workgroup_shared_memory = {0, &kAmdNoReserve},
                                                 .registers_per_thread = {256, &kRdnaPaper}},
                                       .registers = planned(kRdnaPaper),
                                       .latencies = {{60, &kAssumed}, {300, &kAssumed}, {600, &kAssumed}},
                                       .cache_bytes = {4e6, &kRdnaPaper}});

constexpr DeviceModel kRdna2 = row_of({.name = "AMD RDNA 2",
                                       .units = {.count = {72, &kRdna2Isa},
                                                 .multiply_adds = {64, &kRdna2Isa},
                                                 .matrix_multiply_adds = {128, &kPackedHalves},
                                                 .transcendentals = {16, &kRdna2Isa},
                                                 .subgroup_instructions = {2, &kRdna2Isa},
                                                 .shared_memory_bytes = {128, &kRdna2Isa},
                                                 .last_level_cache_bytes = {14, &kRdna2Isa},
                                                 .memory_bytes = {3.2, &kRdna2Isa},
                                                 .cache_line_bytes = {128, &kRdna2Isa},
                                                 .registers = {65536, &kRadv},
                                                 .threads = {1024, &kRadv},
                                                 .shared_memory = {64 << 10, &kRdna2Isa},
                                                 .workgroup_shared_memory = {0, &kAmdNoReserve},
                                                 .registers_per_thread = {256, &kRdna2Isa}},
                                       .registers = planned(kRdna2Isa),
                                       .latencies = {{60, &kAssumed}, {280, &kChips}, {600, &kChips}},
                                       .cache_bytes = {4e6, &kRdna2Isa}});

constexpr DeviceModel kRdna3 = row_of({.name = "AMD RDNA 3",
                                       .units = {.count = {96, &kRdna3Isa},
                                                 .multiply_adds = {64, &kAlone},
                                                 .matrix_multiply_adds = {256, &kRdna3Isa},
                                                 .transcendentals = {16, &kRdna3Isa},
                                                 .subgroup_instructions = {2, &kRdna3Isa},
                                                 .shared_memory_bytes = {128, &kRdna3Isa},
                                                 .last_level_cache_bytes = {24, &kChips},
                                                 .memory_bytes = {4.0, &kRdna3Isa},
                                                 .cache_line_bytes = {128, &kRdna3Isa},
                                                 .registers = {65536, &kLeastOfFamily},
                                                 .threads = {1024, &kRadv},
                                                 .shared_memory = {64 << 10, &kRdna3Isa},
                                                 .workgroup_shared_memory = {0, &kAmdNoReserve},
                                                 .registers_per_thread = {256, &kRdna3Isa}},
                                       .registers = planned(kRdna3Isa),
                                       .latencies = {{60, &kAssumed}, {300, &kChips}, {650, &kChips}},
                                       .cache_bytes = {6e6, &kRdna3Isa}});

constexpr DeviceModel kRdna4 = row_of({.name = "AMD RDNA 4",
                                       .units = {.count = {64, &kRdna4Isa},
                                                 .multiply_adds = {64, &kAlone},
                                                 .matrix_multiply_adds = {512, &kRdna4Isa},
                                                 .transcendentals = {16, &kRdna4Isa},
                                                 .subgroup_instructions = {2, &kRdna4Isa},
                                                 .shared_memory_bytes = {128, &kRdna4Isa},
                                                 .last_level_cache_bytes = {24, &kLikeRdna3},
                                                 .memory_bytes = {3.4, &kRdna4Isa},
                                                 .cache_line_bytes = {128, &kRdna4Isa},
                                                 .registers = {98304, &kRadv},
                                                 .threads = {1024, &kRadv},
                                                 .shared_memory = {64 << 10, &kRdna4Isa},
                                                 .workgroup_shared_memory = {0, &kAmdNoReserve},
                                                 .registers_per_thread = {256, &kRdna4Isa}},
                                       .registers = planned(kRdna4Isa),
                                       .latencies = {{60, &kAssumed}, {300, &kLikeRdna3}, {650, &kLikeRdna3}},
                                       .cache_bytes = {8e6, &kRdna4Isa}});

constexpr DeviceModel kCdna = row_of({.name = "AMD CDNA",
                                      .units = {.count = {104, &kCdna2Paper},
                                                .multiply_adds = {64, &kCdna2Paper},
                                                .matrix_multiply_adds = {512, &kCdna2Paper},
                                                .transcendentals = {16, &kCdna2Paper},
                                                .subgroup_instructions = {1, &kCdna2Paper},
                                                .shared_memory_bytes = {128, &kCdna2Paper},
                                                .last_level_cache_bytes = {20, &kCdna2Paper},
                                                .memory_bytes = {8.3, &kCdna3Paper},
                                                .cache_line_bytes = {128, &kCdna2Paper},
                                                .registers = {131072, &kCdna2Paper},
                                                .threads = {2048, &kCdna2Paper},
                                                .shared_memory = {64 << 10, &kCdna2Paper},
                                                .workgroup_shared_memory = {0, &kAmdNoReserve},
                                                .registers_per_thread = {256, &kCdna2Paper}},
                                      .registers = planned(kCdna2Paper),
                                      .latencies = {{64, &kVegaIsa}, {350, &kAssumed}, {800, &kAssumed}},
                                      .cache_bytes = {8e6, &kCdna2Paper}});

constexpr std::uint32_t kAmd = 0x1002, kSamsung = 0x144D;
/// Ids: Mesa's and Linux' amdgpu tables. Names: RADV puts the chip's into the device's.
constexpr DeviceEntry kAmdDevices[] = {
    {&kRdna2, kAmd, 0x1435, 0x1435},  // Van Gogh (Sephiroth)
    {&kRdna3, kAmd, 0x1114, 0x1114},  // Krackan
    {&kRdna2, kAmd, 0x1506, 0x1506},  // Mendocino
    {&kRdna3, kAmd, 0x150E, 0x150E},  // Strix Point
    {&kRdna3, kAmd, 0x1586, 0x1586},  // Strix Halo
    {&kRdna3, kAmd, 0x15BF, 0x15C8},  // Phoenix
    {&kGcn, kAmd, 0x15D8, 0x15DD},    // Raven, Picasso
    {&kGcn, kAmd, 0x1636, 0x1638},    // Renoir, Cezanne
    {&kRdna2, kAmd, 0x163F, 0x163F},  // Van Gogh
    {&kGcn, kAmd, 0x164C, 0x164C},    // Lucienne
    {&kRdna2, kAmd, 0x164D, 0x164E},  // Rembrandt, Raphael
    {&kRdna2, kAmd, 0x1681, 0x1681},  // Rembrandt
    {&kRdna3, kAmd, 0x1900, 0x1901},  // Hawk Point
    {&kGcn, kAmd, 0x6600, 0x69FF},    // Tahiti to Vega 20
    {&kGcn, kAmd, 0x7300, 0x730F},    // Fiji
    {&kRdna1, kAmd, 0x7310, 0x736F},  // Navi 10, 12, 14
    {&kCdna, kAmd, 0x7380, 0x738F},   // MI100
    {&kRdna2, kAmd, 0x73A0, 0x73FF},  // Navi 21, 22, 23
    {&kCdna, kAmd, 0x7400, 0x741F},   // MI200
    {&kRdna2, kAmd, 0x7420, 0x743F},  // Navi 24
    {&kRdna3, kAmd, 0x7440, 0x749F},  // Navi 31, 32, 33
    {&kCdna, kAmd, 0x74A0, 0x74BF},   // MI300
    {&kRdna4, kAmd, 0x7550, 0x759F},  // Navi 48, 44
    {&kCdna, kAmd, 0x75A0, 0x75BF},   // MI350
    {.row = &kRdna4, .vendor_id = kAmd, .name = "GFX12"},
    {.row = &kRdna3, .vendor_id = kAmd, .name = "GFX11"},
    {.row = &kRdna2, .vendor_id = kAmd, .name = "GFX103"},
    {.row = &kRdna4, .vendor_id = kAmd, .name = "NAVI4"},
    {.row = &kRdna3, .vendor_id = kAmd, .name = "NAVI3"},
    {.row = &kRdna2, .vendor_id = kAmd, .name = "NAVI2"},
    {.row = &kRdna1, .vendor_id = kAmd, .name = "NAVI1"},
    {.row = &kGcn, .vendor_id = kAmd},
    {.row = &kRdna2, .vendor_id = kSamsung, .name = "Xclipse"},
};

}  // namespace

std::span<const DeviceEntry> amd_devices() { return kAmdDevices; }

}  // namespace vkfuse::device_rows
