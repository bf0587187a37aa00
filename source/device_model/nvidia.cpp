// NVIDIA: Turing to Blackwell. A compute unit is a streaming multiprocessor.
#include "device_model/rows.hpp"

namespace vkfuse::device_rows {

namespace {

constexpr Source kCuda{SourceKind::document, "CUDA programming guide, table of compute capabilities"};
constexpr Source kTuringPaper{SourceKind::document, "NVIDIA Turing GPU Architecture (2018); GeForce RTX 2080 Ti"};
constexpr Source kA100Paper{SourceKind::document, "NVIDIA A100 Tensor Core GPU Architecture (2020)"};
constexpr Source kGa102Paper{SourceKind::document, "NVIDIA Ampere GA102 GPU Architecture (2021); GeForce RTX 3090"};
constexpr Source kAdaPaper{SourceKind::document, "NVIDIA Ada GPU Architecture (2022); GeForce RTX 4090"};
constexpr Source kHopperPaper{SourceKind::document, "NVIDIA H100 Tensor Core GPU Architecture (2022); H200 data sheet"};
constexpr Source kB200Sheet{SourceKind::document, "NVIDIA Blackwell Architecture Technical Brief (2024); B200"};
constexpr Source kGb202Paper{SourceKind::document, "NVIDIA RTX Blackwell GPU Architecture (2025); GeForce RTX 5090"};
constexpr Source kMmaSync{SourceKind::document,
                          "half of what the vendor states: Vulkan's matrices compile to mma.sync, not to wgmma"};
constexpr Source kSumsInF32{SourceKind::document, "the GeForce rate with sums in f32; professional cards have twice"};
constexpr Source kFittedCache{SourceKind::assumed, "assumed when matrices.step was fitted, which multiplies it"};
constexpr Source kCopied{SourceKind::measured, "a copy (bench/results/h200-full.json) over 132 units and 1.98 GHz"};
constexpr Source kJia{SourceKind::document, "Jia et al., Dissecting the NVidia Turing T4 GPU (2019)"};
constexpr Source kLuo{SourceKind::document, "Luo et al., Benchmarking and Dissecting the NVIDIA Hopper GPU (2024)"};
constexpr Source kLikeAda{SourceKind::assumed, "as Ada's"};
constexpr Source kLikeHopper{SourceKind::assumed, "as Hopper's"};
constexpr Source kUnasked{SourceKind::measured, "no limit: schedules were timed without one on an H200"};

/// Registers are handed out to threads as a kernel asks: what plans keep within is what was timed on an H200.
constexpr PlannedRegisters kNvidiaRegisters = {.per_thread = {kUnknownRegistersPerThread, &kUnasked},
                                               .per_workgroup = {65536, &kCuda},
                                               .elsewhere = {0, &kAllCounted},
                                               .of_moved_load = {0, &kAllCounted},
                                               .of_hardware_thread = {0, &kNotDivided},
                                               .subgroup = {0, &kNotDivided}};

/// What is the same of all: 4 schedulers with 16 lanes of special functions in all, 32 banks of four bytes.
struct NvidiaUnits {
  Number count, multiply_adds, matrix_multiply_adds, memory_bytes, threads, shared_memory;
};
constexpr ComputeUnits units_of(const NvidiaUnits& of) {
  return {.count = of.count,
          .multiply_adds = of.multiply_adds,
          .matrix_multiply_adds = of.matrix_multiply_adds,
          .transcendentals = {16, &kCuda},
          .subgroup_instructions = {4, &kCuda},
          .shared_memory_bytes = {128, &kCuda},
          .last_level_cache_bytes = {22, &kFittedCache},
          .memory_bytes = of.memory_bytes,
          .cache_line_bytes = {128, &kCuda},
          .registers = {65536, &kCuda},
          .threads = of.threads,
          .shared_memory = of.shared_memory,
          .workgroup_shared_memory = {1 << 10, &kCuda},
          .registers_per_thread = {255, &kCuda}};
}

constexpr DeviceModel kTuring = row_of({.name = "NVIDIA Turing",
                                        .units = units_of({.count = {68, &kTuringPaper},
                                                           .multiply_adds = {64, &kTuringPaper},
                                                           .matrix_multiply_adds = {256, &kSumsInF32},
                                                           .memory_bytes = {5.9, &kTuringPaper},
                                                           .threads = {1024, &kCuda},
                                                           .shared_memory = {64 << 10, &kCuda}}),
                                        .registers = kNvidiaRegisters,
                                        .latencies = {{19, &kJia}, {188, &kJia}, {466, &kLuo}},
                                        .cache_bytes = {5.5e6, &kTuringPaper}});

constexpr DeviceModel kAmpereGa100 = row_of({.name = "NVIDIA Ampere GA100",
                                             .units = units_of({.count = {108, &kA100Paper},
                                                                .multiply_adds = {64, &kA100Paper},
                                                                .matrix_multiply_adds = {1024, &kA100Paper},
                                                                .memory_bytes = {10.2, &kA100Paper},
                                                                .threads = {2048, &kCuda},
                                                                .shared_memory = {163 << 10, &kCuda}}),
                                             .registers = kNvidiaRegisters,
                                             .latencies = {{29, &kLuo}, {262, &kLuo}, {466, &kLuo}},
                                             .cache_bytes = {40e6, &kA100Paper}});

constexpr DeviceModel kAmpere = row_of({.name = "NVIDIA Ampere GA10x",
                                        .units = units_of({.count = {82, &kGa102Paper},
                                                           .multiply_adds = {128, &kGa102Paper},
                                                           .matrix_multiply_adds = {256, &kSumsInF32},
                                                           .memory_bytes = {6.7, &kGa102Paper},
                                                           .threads = {1536, &kCuda},
                                                           .shared_memory = {99 << 10, &kCuda}}),
                                        .registers = kNvidiaRegisters,
                                        .latencies = {{29, &kLuo}, {262, &kLuo}, {466, &kLuo}},
                                        .cache_bytes = {6e6, &kGa102Paper}});

constexpr DeviceModel kAda = row_of({.name = "NVIDIA Ada",
                                     .units = units_of({.count = {128, &kAdaPaper},
                                                        .multiply_adds = {128, &kAdaPaper},
                                                        .matrix_multiply_adds = {256, &kSumsInF32},
                                                        .memory_bytes = {3.1, &kAdaPaper},
                                                        .threads = {1536, &kCuda},
                                                        .shared_memory = {99 << 10, &kCuda}}),
                                     .registers = kNvidiaRegisters,
                                     .latencies = {{30, &kLuo}, {273, &kLuo}, {541, &kLuo}},
                                     .cache_bytes = {72e6, &kAdaPaper}});

/// The one architecture on which kernels were timed (an H200, driver 580): what others carry over is this row's.
constexpr DeviceModel hopper() {
  DeviceModel row = row_of({.name = "NVIDIA Hopper",
                            .units = units_of({.count = {132, &kHopperPaper},
                                               .multiply_adds = {128, &kHopperPaper},
                                               .matrix_multiply_adds = {1024, &kMmaSync},
                                               .memory_bytes = {16, &kCopied},
                                               .threads = {2048, &kCuda},
                                               .shared_memory = {227 << 10, &kCuda}}),
                            .registers = kNvidiaRegisters,
                            .latencies = {{29, &kLuo}, {263, &kLuo}, {kFittedLatency, &kLuo}},
                            .cache_bytes = {50e6, &kHopperPaper}});
  row.caches.bytes = {32e6, &kRest};
  row.caches.tile_bytes = {128 << 10, &kRest};
  return row;
}
constexpr DeviceModel kHopper = hopper();

constexpr DeviceModel kBlackwellGb100 =
    row_of({.name = "NVIDIA Blackwell GB100",
            .units = units_of({.count = {148, &kB200Sheet},
                               .multiply_adds = {128, &kCuda},
                               .matrix_multiply_adds = {1024, &kLikeHopper},
                               .memory_bytes = {29, &kB200Sheet},
                               .threads = {2048, &kCuda},
                               .shared_memory = {227 << 10, &kCuda}}),
            .registers = kNvidiaRegisters,
            .latencies = {{29, &kLikeHopper}, {263, &kLikeHopper}, {479, &kLikeHopper}},
            .cache_bytes = {126e6, &kB200Sheet}});

constexpr DeviceModel kBlackwell = row_of({.name = "NVIDIA Blackwell GB20x",
                                           .units = units_of({.count = {170, &kGb202Paper},
                                                              .multiply_adds = {128, &kGb202Paper},
                                                              .matrix_multiply_adds = {256, &kSumsInF32},
                                                              .memory_bytes = {4.4, &kGb202Paper},
                                                              .threads = {1536, &kCuda},
                                                              .shared_memory = {99 << 10, &kCuda}}),
                                           .registers = kNvidiaRegisters,
                                           .latencies = {{30, &kLikeAda}, {273, &kLikeAda}, {541, &kLikeAda}},
                                           .cache_bytes = {96e6, &kGb202Paper}});

constexpr std::uint32_t kNvidia = 0x10DE;
/// Ids: chips as the PCI ID repository and open-gpu-kernel-modules list them. Names: NVK's, of chips whose id it lacks.
constexpr DeviceEntry kNvidiaDevices[] = {
    {&kTuring, kNvidia, 0x1E00, 0x1FFF},          // TU102, TU104, TU106, TU117
    {&kAmpereGa100, kNvidia, 0x2080, 0x20FF},     // GA100
    {&kTuring, kNvidia, 0x2180, 0x21FF},          // TU116
    {&kAmpere, kNvidia, 0x2200, 0x22FF},          // GA102
    {&kHopper, kNvidia, 0x2300, 0x23FF},          // GH100
    {&kAmpere, kNvidia, 0x2400, 0x25FF},          // GA103, GA104, GA106, GA107
    {&kAda, kNvidia, 0x2600, 0x28FF},             // AD102 to AD107
    {&kBlackwellGb100, kNvidia, 0x2900, 0x29FF},  // GB100, GB102
    {&kBlackwell, kNvidia, 0x2B80, 0x2FFF},       // GB202 to GB207, GB10
    {&kBlackwellGb100, kNvidia, 0x3180, 0x31FF},  // GB110
    {.row = &kAmpereGa100, .vendor_id = kNvidia, .name = "GA100"},
    {.row = &kAmpere, .vendor_id = kNvidia, .name = "GA10"},
    {.row = &kAda, .vendor_id = kNvidia, .name = "AD10"},
    {.row = &kHopper, .vendor_id = kNvidia, .name = "GH100"},
    {.row = &kBlackwellGb100, .vendor_id = kNvidia, .name = "GB10"},
    {.row = &kBlackwell, .vendor_id = kNvidia, .name = "GB20"},
    {.row = &kTuring, .vendor_id = kNvidia},  // older ones, and those that are not out yet
};

}  // namespace

std::span<const DeviceEntry> nvidia_devices() { return kNvidiaDevices; }

}  // namespace vkfuse::device_rows
