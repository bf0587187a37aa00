// Phones, tablets and boards: Adreno 6xx to 8xx, Mali Bifrost and Valhall, Apple, V3D.
#include "device_model/rows.hpp"

namespace vkfuse::device_rows {

namespace {

constexpr Source kIr3{SourceKind::driver,
                      "Mesa, freedreno_devices.py, ir3.c: of Adreno 642 to 690 the least, 64 vec4 for two waves of 64"};
constexpr Source kFreedreno{SourceKind::driver, "Mesa, freedreno_devices.py: shader processors, waves, shared memory"};
constexpr Source kAdrenoRate{SourceKind::document, "Qualcomm's GFLOPS of Adreno 630, over two processors and 710 MHz"};
constexpr Source kPhoneMemory{SourceKind::document, "the memory of such phones and boards, over units and clock"};
constexpr Source kArmGuide{SourceKind::document,
                           "Arm, Mali GPU OpenCL Developer Guide (101574): 64 registers a thread on Bifrost, Valhall"};
constexpr Source kArmSheet{SourceKind::document, "Arm, Mali GPU data sheet: the least of the family"};
constexpr Source kAsahi{SourceKind::driver, "Asahi Linux and applegpu: AGX registers, threads, threadgroup memory"};
constexpr Source kAppleM1{SourceKind::document, "Apple, M1 (2020): 8 cores, 1,024 lanes, 68 GB/s"};
constexpr Source kV3dDriver{SourceKind::driver, "Mesa, src/broadcom: 64 registers of a QPU, shared by 2 or 4 threads"};
constexpr Source kV3dUniforms{SourceKind::driver,
                              "Mesa 25.0: what is estimated at 52 is in the 32 of one of two threads"};
constexpr Source kV3dGuide{SourceKind::document, "Broadcom, VideoCore IV 3D Architecture Reference Guide; Pi 4 and 5"};
constexpr Source kIr3MovesLoads{
    SourceKind::measured, "Mesa 26.1's compiler: 32 scores of three loads each spill 78 values, of one load none"};
constexpr Source kAgxSpills{SourceKind::measured,
                            "Mesa 26.1's compiler: of 128, an attention of 112 spills 14 values, of 92 none"};
constexpr Source kThreadsOnly{SourceKind::document, "no matrix units: the rate of threads"};
constexpr Source kNothingKept{SourceKind::assumed, "nothing is known of a share for the driver"};
constexpr Source kArmUnitTold{SourceKind::document, "Mali-G52 MC2 and up; VK_ARM_shader_core_builtins tells"};

constexpr PlannedRegisters planned(const Number& per_thread, const Number& per_workgroup,
                                   const Number& elsewhere = {0, &kAllCounted},
                                   const Number& of_moved_load = {0, &kAllCounted}) {
  return {.per_thread = per_thread,
          .per_workgroup = per_workgroup,
          .elsewhere = elsewhere,
          .of_moved_load = of_moved_load,
          .of_hardware_thread = {0, &kNotDivided},
          .subgroup = {0, &kNotDivided}};
}

struct AdrenoUnits {
  double count, shared_memory, memory_bytes, threads;
};
/// Of all generations: lanes have as many registers as the least of them, so that drivers for several chips meet any.
constexpr DeviceModel adreno(std::string_view name, const AdrenoUnits& of, double cache_bytes) {
  return row_of({.name = name,
                 .units = {.count = {of.count, &kFreedreno},
                           .multiply_adds = {256, &kAdrenoRate},
                           .matrix_multiply_adds = {512, &kThreadsOnly},
                           .transcendentals = {64, &kAssumed},
                           .subgroup_instructions = {2, &kAssumed},
                           .shared_memory_bytes = {64, &kAssumed},
                           .last_level_cache_bytes = {64, &kAssumed},
                           .memory_bytes = {of.memory_bytes, &kPhoneMemory},
                           .cache_line_bytes = {64, &kFreedreno},
                           .registers = {32768, &kIr3},
                           .threads = {of.threads, &kFreedreno},
                           .shared_memory = {of.shared_memory, &kFreedreno},
                           .workgroup_shared_memory = {0, &kNothingKept},
                           .registers_per_thread = {128, &kIr3}},
                 .registers = planned({128, &kIr3}, {32768, &kIr3}, {0, &kAllCounted}, {0.25, &kIr3MovesLoads}),
                 .latencies = {{60, &kAssumed}, {250, &kAssumed}, {600, &kAssumed}},
                 .cache_bytes = {cache_bytes, &kAssumed}});
}
constexpr DeviceModel kAdreno6 = adreno("Adreno 6xx", {2, 32 << 10, 21, 2048}, 256e3);
constexpr DeviceModel kAdreno7 = adreno("Adreno 7xx", {4, 32 << 10, 18, 2048}, 1e6);
constexpr DeviceModel kAdreno8 = adreno("Adreno 8xx", {6, 32 << 10, 12, 2048}, 2e6);

struct MaliUnits {
  double count, multiply_adds, threads, registers;
};
constexpr DeviceModel mali(std::string_view name, const MaliUnits& of, double cache_bytes) {
  return row_of({.name = name,
                 .units = {.count = {of.count, &kArmUnitTold},
                           .multiply_adds = {of.multiply_adds, &kArmSheet},
                           .matrix_multiply_adds = {2 * of.multiply_adds, &kThreadsOnly},
                           .transcendentals = {of.multiply_adds / 4, &kAssumed},
                           .subgroup_instructions = {2, &kArmSheet},
                           .shared_memory_bytes = {16, &kArmSheet},
                           .last_level_cache_bytes = {32, &kArmSheet},
                           .memory_bytes = {8, &kPhoneMemory},
                           .cache_line_bytes = {64, &kArmSheet},
                           .registers = {of.registers, &kArmGuide},
                           .threads = {of.threads, &kArmSheet},
                           .shared_memory = {32 << 10, &kArmSheet},
                           .workgroup_shared_memory = {0, &kNothingKept},
                           .registers_per_thread = {64, &kArmGuide}},
                 .registers = planned({64, &kArmGuide}, {65536, &kArmGuide}),
                 .latencies = {{100, &kAssumed}, {200, &kAssumed}, {500, &kAssumed}},
                 .cache_bytes = {cache_bytes, &kArmSheet}});
}
constexpr DeviceModel kBifrost = mali("Mali Bifrost", {2, 24, 768, 24576}, 512e3);
constexpr DeviceModel kValhall = mali("Mali Valhall", {4, 32, 1024, 32768}, 1e6);

constexpr DeviceModel kApple = row_of({.name = "Apple",
                                       .units = {.count = {8, &kAppleM1},
                                                 .multiply_adds = {128, &kAppleM1},
                                                 .matrix_multiply_adds = {128, &kThreadsOnly},
                                                 .transcendentals = {32, &kAsahi},
                                                 .subgroup_instructions = {4, &kAsahi},
                                                 .shared_memory_bytes = {128, &kAssumed},
                                                 .last_level_cache_bytes = {64, &kAssumed},
                                                 .memory_bytes = {6.7, &kAppleM1},
                                                 .cache_line_bytes = {128, &kAsahi},
                                                 .registers = {53248, &kAsahi},
                                                 .threads = {1024, &kAsahi},
                                                 .shared_memory = {60 << 10, &kAsahi},
                                                 .workgroup_shared_memory = {0, &kNothingKept},
                                                 .registers_per_thread = {128, &kAsahi}},
                                       .registers = planned({96, &kAgxSpills}, {53248, &kAsahi}),
                                       .latencies = {{70, &kAssumed}, {250, &kAssumed}, {500, &kAssumed}},
                                       .cache_bytes = {8e6, &kAppleM1}});

/// A compute unit is all of a core, as a workgroup may be in any of its QPUs: 8 of a Pi 4, 12 of a Pi 5. Each has 16
/// lanes of 64 registers, which two or four threads share.
constexpr DeviceModel v3d(std::string_view name, double qpus, double memory_bytes) {
  return row_of({.name = name,
                 .units = {.count = {1, &kV3dGuide},
                           .multiply_adds = {4 * qpus, &kV3dGuide},
                           .matrix_multiply_adds = {4 * qpus, &kThreadsOnly},
                           .transcendentals = {qpus, &kV3dGuide},
                           .subgroup_instructions = {qpus / 4, &kV3dGuide},
                           .shared_memory_bytes = {16, &kAssumed},
                           .last_level_cache_bytes = {16, &kAssumed},
                           .memory_bytes = {memory_bytes, &kPhoneMemory},
                           .cache_line_bytes = {64, &kV3dDriver},
                           .registers = {1024 * qpus, &kV3dDriver},
                           .threads = {64 * qpus, &kV3dDriver},
                           .shared_memory = {16 << 10, &kV3dDriver},
                           .workgroup_shared_memory = {0, &kNothingKept},
                           .registers_per_thread = {32, &kV3dDriver}},
                 .registers = planned({32, &kV3dDriver}, {1024 * qpus, &kV3dDriver}, {24, &kV3dUniforms}),
                 .latencies = {{100, &kAssumed}, {200, &kAssumed}, {400, &kAssumed}},
                 .cache_bytes = {128e3, &kAssumed}});
}
constexpr DeviceModel kV3d4 = v3d("V3D 4", 8, 8);
constexpr DeviceModel kV3d7 = v3d("V3D 7", 12, 15);

constexpr std::uint32_t kArm = 0x13B5, kQualcomm = 0x5143, kAppleInc = 0x106B, kBroadcom = 0x14E4;
constexpr DeviceEntry kMobileDevices[] = {
    {.row = &kAdreno6, .vendor_id = kQualcomm, .name = "Adreno (TM) 6"},
    {.row = &kAdreno6, .vendor_id = kQualcomm, .name = "FD6"},
    {.row = &kAdreno7, .vendor_id = kQualcomm, .name = "Adreno (TM) 7"},
    {.row = &kAdreno7, .vendor_id = kQualcomm, .name = "FD7"},
    {.row = &kAdreno7, .vendor_id = kQualcomm, .name = "Adreno X1"},
    {.row = &kAdreno7, .vendor_id = kQualcomm, .name = "Adreno(TM) X1"},
    {.row = &kAdreno8, .vendor_id = kQualcomm, .name = "Adreno (TM) 8"},
    {.row = &kAdreno8, .vendor_id = kQualcomm, .name = "FD8"},
    {.row = &kAdreno8, .vendor_id = kQualcomm, .name = "Adreno X2"},
    {.row = &kAdreno6, .vendor_id = kQualcomm},
    {.row = &kBifrost, .vendor_id = kArm, .name = "Mali-G31"},
    {.row = &kBifrost, .vendor_id = kArm, .name = "Mali-G51"},
    {.row = &kBifrost, .vendor_id = kArm, .name = "Mali-G52"},
    {.row = &kBifrost, .vendor_id = kArm, .name = "Mali-G71"},
    {.row = &kBifrost, .vendor_id = kArm, .name = "Mali-G72"},
    {.row = &kBifrost, .vendor_id = kArm, .name = "Mali-G76"},
    {.row = &kBifrost, .vendor_id = kArm, .name = "Mali-T"},  // Midgard, of which less is known
    {.row = &kValhall, .vendor_id = kArm},
    {.row = &kApple, .vendor_id = kAppleInc},
    {.row = &kApple, .name = "Apple M"},  // Honeykrisp has Mesa's vendor id
    {.row = &kV3d7, .vendor_id = kBroadcom, .name = "V3D 7"},
    {.row = &kV3d4, .vendor_id = kBroadcom},
};

}  // namespace

std::span<const DeviceEntry> mobile_devices() { return kMobileDevices; }

}  // namespace vkfuse::device_rows
