// Intel: Gen9 to Xe2. A compute unit is a subslice of 8 execution units, a dual subslice of 16, or an Xe core.
//
// The 128 registers of a hardware thread are vectors, which its lanes share: of 32 bytes (64 from Xe2 on), so that a
// lane has 32 of 32 bits in subgroups of 32, 64 in those of 16 and 128 in those of 8 (twice as many from Xe2 on).
// Drivers choose the size of kernels that require none, as large as spills nothing; kernels that reduce across lanes
// require one.
#include "device_model/rows.hpp"

namespace vkfuse::device_rows {

namespace {

constexpr Source kGen9{SourceKind::document,
                       "Intel, The Compute Architecture of Processor Graphics Gen9 (2015); HD 530"};
constexpr Source kXeLp{SourceKind::document, "Intel, oneAPI GPU Optimization Guide: Xe-LP; Iris Xe, 96 units"};
constexpr Source kXeHpg{SourceKind::document, "Intel, Introduction to the Xe-HPG Architecture (2022); Arc A770"};
constexpr Source kXe2{SourceKind::document, "Intel, Xe2 Graphics Architecture (2024); Arc B580"};
constexpr Source kGuide{SourceKind::document,
                        "Intel, oneAPI GPU Optimization Guide: 128 registers of 32 bytes a thread"};
constexpr Source kGuideXe2{SourceKind::document,
                           "Intel, oneAPI GPU Optimization Guide: 128 registers of 64 bytes a thread"};
constexpr Source kSixteen{SourceKind::measured,
                          "Mesa 25.0.7's compiler: norms that spill 68 to 144 values in 32 lanes spill 0 to 2 in 16"};
constexpr Source kSixtyFour{SourceKind::measured,
                            "Mesa 25.0.7's compiler: of 64, an attention that spilled 151 values spills none"};
constexpr Source kNinetySix{SourceKind::measured,
                            "Mesa 26.1's compiler: of 128, an attention of 120 spills 24 values, of 92 none"};
constexpr Source kAttentionSpills{SourceKind::measured,
                                  "Mesa 26.1's compiler: of 128, what is estimated at 96 spills 30 values"};
constexpr Source kMatmulSpills{SourceKind::measured,
                               "Mesa 26.1's compiler: of 128, a strided convolution of 96 spills 20 values"};
constexpr Source kNoSystolic{SourceKind::document, "no matrix units: f16 at twice the rate of f32"};
constexpr Source kSlm{SourceKind::document, "shared memory is given out without a share for the driver"};

constexpr PlannedRegisters planned(double of_unit, const Source& of_thread_source, double of_thread,
                                   const Number& per_thread = {64, &kSixtyFour}) {
  return {.per_thread = per_thread,
          .per_workgroup = {of_unit, &kDerived},
          .elsewhere = {0, &kAllCounted},
          .of_moved_load = {0, &kAllCounted},
          .of_hardware_thread = {of_thread, &of_thread_source},
          .subgroup = {16, &kSixteen}};
}

constexpr DeviceModel kGen9Row = row_of({.name = "Intel Gen9",
                                         .units = {.count = {3, &kGen9},
                                                   .multiply_adds = {64, &kGen9},
                                                   .matrix_multiply_adds = {128, &kNoSystolic},
                                                   .transcendentals = {16, &kGen9},
                                                   .subgroup_instructions = {4, &kGen9},
                                                   .shared_memory_bytes = {64, &kGen9},
                                                   .last_level_cache_bytes = {64, &kGen9},
                                                   .memory_bytes = {9.9, &kGen9},
                                                   .cache_line_bytes = {64, &kGen9},
                                                   .registers = {57344, &kGen9},
                                                   .threads = {1792, &kGen9},
                                                   .shared_memory = {64 << 10, &kGen9},
                                                   .workgroup_shared_memory = {0, &kSlm},
                                                   .registers_per_thread = {128, &kGuide}},
                                         .registers = planned(57344, kGuide, 1024),
                                         .latencies = {{100, &kAssumed}, {250, &kAssumed}, {500, &kAssumed}},
                                         .cache_bytes = {768e3, &kGen9}});

constexpr DeviceModel kXeLpRow = row_of({.name = "Intel Xe-LP",
                                         .units = {.count = {6, &kXeLp},
                                                   .multiply_adds = {128, &kXeLp},
                                                   .matrix_multiply_adds = {256, &kNoSystolic},
                                                   .transcendentals = {32, &kXeLp},
                                                   .subgroup_instructions = {8, &kXeLp},
                                                   .shared_memory_bytes = {128, &kXeLp},
                                                   .last_level_cache_bytes = {64, &kXeLp},
                                                   .memory_bytes = {8.4, &kXeLp},
                                                   .cache_line_bytes = {64, &kXeLp},
                                                   .registers = {114688, &kXeLp},
                                                   .threads = {3584, &kXeLp},
                                                   .shared_memory = {128 << 10, &kXeLp},
                                                   .workgroup_shared_memory = {0, &kSlm},
                                                   .registers_per_thread = {128, &kGuide}},
                                         .registers = planned(114688, kGuide, 1024),
                                         .latencies = {{100, &kAssumed}, {250, &kAssumed}, {550, &kAssumed}},
                                         .cache_bytes = {3.8e6, &kXeLp}});

constexpr DeviceModel kXeHpgRow = row_of({.name = "Intel Xe-HPG",
                                          .units = {.count = {32, &kXeHpg},
                                                    .multiply_adds = {128, &kXeHpg},
                                                    .matrix_multiply_adds = {1024, &kXeHpg},
                                                    .transcendentals = {32, &kXeHpg},
                                                    .subgroup_instructions = {8, &kXeHpg},
                                                    .shared_memory_bytes = {128, &kXeHpg},
                                                    .last_level_cache_bytes = {64, &kXeHpg},
                                                    .memory_bytes = {8.3, &kXeHpg},
                                                    .cache_line_bytes = {64, &kXeHpg},
                                                    .registers = {131072, &kXeHpg},
                                                    .threads = {4096, &kXeHpg},
                                                    .shared_memory = {128 << 10, &kXeHpg},
                                                    .workgroup_shared_memory = {0, &kSlm},
                                                    .registers_per_thread = {128, &kGuide}},
                                          .registers = planned(131072, kGuide, 1024),
                                          .latencies = {{100, &kAssumed}, {300, &kAssumed}, {700, &kAssumed}},
                                          .cache_bytes = {16e6, &kXeHpg}});

constexpr DeviceModel kXe2Row = row_of({.name = "Intel Xe2",
                                        .units = {.count = {20, &kXe2},
                                                  .multiply_adds = {128, &kXe2},
                                                  .matrix_multiply_adds = {1024, &kXe2},
                                                  .transcendentals = {32, &kXe2},
                                                  .subgroup_instructions = {8, &kXe2},
                                                  .shared_memory_bytes = {128, &kXe2},
                                                  .last_level_cache_bytes = {64, &kXe2},
                                                  .memory_bytes = {8.5, &kXe2},
                                                  .cache_line_bytes = {64, &kXe2},
                                                  .registers = {131072, &kXe2},
                                                  .threads = {2048, &kXe2},
                                                  .shared_memory = {128 << 10, &kXe2},
                                                  .workgroup_shared_memory = {0, &kSlm},
                                                  .registers_per_thread = {128, &kGuideXe2}},
                                        .registers = planned(131072, kGuideXe2, 2048, {96, &kNinetySix}),
                                        .latencies = {{80, &kAssumed}, {250, &kAssumed}, {600, &kAssumed}},
                                        .cache_bytes = {18e6, &kXe2},
                                        .matmul_beside = {33, &kMatmulSpills},
                                        .attention_beside = {33, &kAttentionSpills}});

constexpr std::uint32_t kIntel = 0x8086;
/// Ids and compute units: Mesa's include/pci_ids and intel_device_info.c.
constexpr DeviceEntry kIntelDevices[] = {
    {&kGen9Row, kIntel, 0x0A84, 0x0A84, "", 3},    // Apollo Lake
    {&kGen9Row, kIntel, 0x1600, 0x163F, "", 3},    // Broadwell
    {&kGen9Row, kIntel, 0x1902, 0x190F, "", 2},    // Skylake GT1
    {&kGen9Row, kIntel, 0x1912, 0x191F, "", 3},    // Skylake GT2
    {&kGen9Row, kIntel, 0x1921, 0x192F, "", 6},    // Skylake GT3
    {&kGen9Row, kIntel, 0x1932, 0x193F, "", 9},    // Skylake GT4
    {&kGen9Row, kIntel, 0x1A84, 0x1A85, "", 3},    // Apollo Lake
    {&kGen9Row, kIntel, 0x3184, 0x3185, "", 3},    // Gemini Lake
    {&kGen9Row, kIntel, 0x3E90, 0x3E93, "", 3},    // Coffee Lake
    {&kGen9Row, kIntel, 0x3E94, 0x3EA4, "", 3},    // Coffee Lake, Whiskey Lake
    {&kGen9Row, kIntel, 0x3EA5, 0x3EA8, "", 6},    // Coffee Lake GT3
    {&kGen9Row, kIntel, 0x3EA9, 0x3EA9, "", 3},    // Coffee Lake
    {&kGen9Row, kIntel, 0x4500, 0x4571, "", 4},    // Elkhart Lake
    {&kXeLpRow, kIntel, 0x4680, 0x4693, "", 2},    // Alder Lake-S
    {&kXeLpRow, kIntel, 0x4600, 0x46CF, "", 6},    // Alder Lake-P
    {&kXeLpRow, kIntel, 0x46D0, 0x46D4, "", 2},    // Alder Lake-N
    {&kXeLpRow, kIntel, 0x4905, 0x4909, "", 6},    // DG1
    {&kXeLpRow, kIntel, 0x4C80, 0x4C9A, "", 2},    // Rocket Lake
    {&kGen9Row, kIntel, 0x4E51, 0x4E71, "", 4},    // Jasper Lake
    {&kXeHpgRow, kIntel, 0x5690, 0x5690, "", 32},  // Arc A770M
    {&kXeHpgRow, kIntel, 0x5691, 0x5691, "", 24},  // Arc A730M
    {&kXeHpgRow, kIntel, 0x5692, 0x5692, "", 16},  // Arc A550M
    {&kXeHpgRow, kIntel, 0x5693, 0x5698, "", 8},   // Arc A370M and below
    {&kXeHpgRow, kIntel, 0x56A0, 0x56A0, "", 32},  // Arc A770
    {&kXeHpgRow, kIntel, 0x56A1, 0x56A1, "", 28},  // Arc A750
    {&kXeHpgRow, kIntel, 0x56A2, 0x56A2, "", 24},  // Arc A580
    {&kXeHpgRow, kIntel, 0x56A3, 0x56BF, "", 8},   // Arc A380, A310, Pro
    {&kXeHpgRow, kIntel, 0x56C0, 0x56C0, "", 32},  // Data Center GPU Flex 170
    {&kXeHpgRow, kIntel, 0x56C1, 0x56C2, "", 8},   // Data Center GPU Flex 140
    {&kGen9Row, kIntel, 0x5902, 0x590F, "", 2},    // Kaby Lake GT1
    {&kGen9Row, kIntel, 0x5912, 0x5921, "", 3},    // Kaby Lake GT2
    {&kGen9Row, kIntel, 0x5923, 0x5927, "", 6},    // Kaby Lake GT3
    {&kGen9Row, kIntel, 0x593B, 0x593B, "", 9},    // Kaby Lake GT4
    {&kGen9Row, kIntel, 0x5A84, 0x5A85, "", 3},    // Apollo Lake
    {&kXe2Row, kIntel, 0x6420, 0x64B0, "", 8},     // Lunar Lake
    {&kXeHpgRow, kIntel, 0x7D40, 0x7D41, "", 4},   // Meteor Lake-U, Arrow Lake-U
    {&kXeHpgRow, kIntel, 0x7D45, 0x7D45, "", 4},   // Meteor Lake-U
    {&kXeHpgRow, kIntel, 0x7D51, 0x7D60, "", 8},   // Arrow Lake-H, Meteor Lake-H
    {&kXeHpgRow, kIntel, 0x7D67, 0x7D67, "", 4},   // Arrow Lake-S
    {&kXeHpgRow, kIntel, 0x7DD1, 0x7DD5, "", 8},   // Arrow Lake, Meteor Lake
    {&kGen9Row, kIntel, 0x87C0, 0x87CA, "", 3},    // Amber Lake
    {&kGen9Row, kIntel, 0x8A50, 0x8A71, "", 8},    // Ice Lake
    {&kXeLpRow, kIntel, 0x9A40, 0x9A59, "", 6},    // Tiger Lake
    {&kXeLpRow, kIntel, 0x9A60, 0x9A70, "", 2},    // Tiger Lake-H
    {&kXeLpRow, kIntel, 0x9A78, 0x9AF8, "", 3},    // Tiger Lake, 48 units
    {&kGen9Row, kIntel, 0x9B21, 0x9BF6, "", 3},    // Comet Lake
    {&kXeLpRow, kIntel, 0xA780, 0xA78B, "", 2},    // Raptor Lake-S
    {&kXeLpRow, kIntel, 0xA720, 0xA7AD, "", 6},    // Raptor Lake-P
    {&kXe2Row, kIntel, 0xB080, 0xB0BF, "", 4},     // Panther Lake
    {&kXe2Row, kIntel, 0xE20B, 0xE20B, "", 20},    // Arc B580
    {&kXe2Row, kIntel, 0xE20C, 0xE20C, "", 18},    // Arc B570
    {&kXe2Row, kIntel, 0xE200, 0xE22F, "", 20},    // Battlemage
    {.row = &kXe2Row, .vendor_id = kIntel, .name = "(LNL)", .compute_units = 8},
    {.row = &kXe2Row, .vendor_id = kIntel, .name = "(BMG"},
    {.row = &kGen9Row, .vendor_id = kIntel},  // older ones, and those that are not out yet
};

}  // namespace

std::span<const DeviceEntry> intel_devices() { return kIntelDevices; }

}  // namespace vkfuse::device_rows
