// Software drivers, and devices of which nothing is known.
#include "device_model/rows.hpp"

namespace vkfuse::device_rows {

namespace {

constexpr Source kDesktop{SourceKind::assumed, "a desktop processor of 8 cores with AVX2, one thread to a core"};
constexpr Source kSoftware{SourceKind::driver, "LLVM and Subzero keep values in memory where registers end"};
constexpr Source kCompiled{SourceKind::measured, "lavapipe and SwiftShader compile as much in seconds"};
constexpr Source kThreadsOfCpu{SourceKind::document, "no matrix units: the rate of threads"};

/// Every element of a window is unpacked, and replaced where it is padding; a thread waits for nothing. SwiftShader
/// takes gigabytes to compile a few dozen elements that are read one by one.
constexpr StencilRates kStencilOfSoftware = {.element = {2, &kDesktop},
                                             .row_element = {0, &kDesktop},
                                             .chunk_element = {0, &kDesktop},
                                             .loaded_weight = {1, &kDesktop},
                                             .kept_weight = {1, &kDesktop},
                                             .result = {0, &kDesktop},
                                             .line = {0, &kDesktop},
                                             .skipped_padding = {0, &kDesktop},
                                             .registers = {kUnknownRegistersPerThread, &kSoftware},
                                             .few_threads = {1e9, &kDesktop},
                                             .cached_instructions = {0, &kDesktop},
                                             .instruction_fetch_us = {0, &kDesktop},
                                             .unrolled_taps = {512, &kCompiled},
                                             .rows = {8, &kCompiled},
                                             .predicated_loads = {8, &kCompiled}};

constexpr DeviceModel software(std::string_view name, double lanes) {
  DeviceModel row = row_of({.name = name,
                            .units = {.count = {8, &kDesktop},
                                      .multiply_adds = {lanes, &kDesktop},
                                      .matrix_multiply_adds = {lanes, &kThreadsOfCpu},
                                      .transcendentals = {lanes / 8, &kDesktop},
                                      .subgroup_instructions = {2, &kDesktop},
                                      .shared_memory_bytes = {32, &kDesktop},
                                      .last_level_cache_bytes = {16, &kDesktop},
                                      .memory_bytes = {2, &kDesktop},
                                      .cache_line_bytes = {64, &kDesktop},
                                      .registers = {65536, &kSoftware},
                                      .threads = {1024, &kDesktop},
                                      .shared_memory = {32 << 10, &kDesktop},
                                      .workgroup_shared_memory = {0, &kDesktop},
                                      .registers_per_thread = {kUnknownRegistersPerThread, &kSoftware}},
                            .registers = {.per_thread = {kUnknownRegistersPerThread, &kSoftware},
                                          .per_workgroup = {65536, &kSoftware},
                                          .elsewhere = {0, &kAllCounted},
                                          .of_moved_load = {0, &kAllCounted},
                                          .of_hardware_thread = {0, &kNotDivided},
                                          .subgroup = {0, &kNotDivided}},
                            .latencies = {{5, &kDesktop}, {40, &kDesktop}, {300, &kDesktop}},
                            .cache_bytes = {12.5e6, &kDesktop}});
  row.stencil = kStencilOfSoftware;
  return row;
}
constexpr DeviceModel kLlvmpipe = software("llvmpipe", 8);
constexpr DeviceModel kSwiftShader = software("SwiftShader", 4);

/// Small everywhere, so that nothing is planned that such a device lacks. The number of compute units is measured at
/// first use.
constexpr DeviceModel kUnknown = row_of({.name = "unknown",
                                         .units = {.count = {8, &kAssumed},
                                                   .multiply_adds = {64, &kAssumed},
                                                   .matrix_multiply_adds = {128, &kAssumed},
                                                   .transcendentals = {16, &kAssumed},
                                                   .subgroup_instructions = {1, &kAssumed},
                                                   .shared_memory_bytes = {64, &kAssumed},
                                                   .last_level_cache_bytes = {16, &kAssumed},
                                                   .memory_bytes = {4, &kAssumed},
                                                   .cache_line_bytes = {64, &kAssumed},
                                                   .registers = {65536, &kAssumed},
                                                   .threads = {1024, &kAssumed},
                                                   .shared_memory = {32 << 10, &kAssumed},
                                                   .workgroup_shared_memory = {0, &kAssumed},
                                                   .registers_per_thread = {128, &kAssumed}},
                                         .registers = {.per_thread = {128, &kAssumed},
                                                       .per_workgroup = {65536, &kAssumed},
                                                       .elsewhere = {0, &kAllCounted},
                                                       .of_moved_load = {0, &kAllCounted},
                                                       .of_hardware_thread = {0, &kNotDivided},
                                                       .subgroup = {0, &kNotDivided}},
                                         .latencies = {{60, &kAssumed}, {300, &kAssumed}, {600, &kAssumed}},
                                         .cache_bytes = {2e6, &kAssumed}});

constexpr DeviceEntry kOtherDevices[] = {
    {.row = &kLlvmpipe, .name = "llvmpipe"},
    {.row = &kSwiftShader, .name = "SwiftShader"},
    {.row = &kLlvmpipe, .cpu = true},
    {.row = &kUnknown},
};

}  // namespace

std::span<const DeviceEntry> other_devices() { return kOtherDevices; }

}  // namespace vkfuse::device_rows
