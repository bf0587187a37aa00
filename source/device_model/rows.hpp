// What the files of rows share: a row states what is known of its architecture, and the rest follows from that or is
// carried over from the one architecture on which kernels were timed.
#pragma once

#include <algorithm>

#include "device_model/device_model.hpp"

namespace vkfuse::device_rows {

inline constexpr Source kTold{SourceKind::device, "told by the device"};
inline constexpr Source kById{SourceKind::driver, "table of device ids: Mesa, intel_device_info.c and include/pci_ids"};
inline constexpr Source kTimed{SourceKind::calibrated,
                               "many workgroups' multiply-adds over those of one, at first use"};
inline constexpr Source kAssumed{SourceKind::assumed, "on the safe side; nobody has measured it"};
inline constexpr Source kDerived{SourceKind::derived, "follows from other numbers of the row"};
inline constexpr Source kAllCounted{SourceKind::assumed, "all that is estimated is in registers"};
inline constexpr Source kNotDivided{SourceKind::document, "Vulkan has one size, or lanes have registers of their own"};
inline constexpr Source kRest{
    SourceKind::measured, "bench/results/h200-full.json: rows that read again; of the 50 MB about 32 beside a stream"};
inline constexpr Source kHand{SourceKind::measured, "rows of the benchmark on an H200, by hand"};
inline constexpr Source kPressure{SourceKind::derived, "the H200's 80 and 128 at its 32 registers a resident thread"};
inline constexpr Source kSlowdown{SourceKind::fitted, "what NVIDIA's compiler reports, and times, of tiles on an H200"};
inline constexpr Source kTransposes{SourceKind::fitted, "transposes of many shapes on an H200 (docs/experiments.md)"};
inline constexpr Source kWindows{SourceKind::fitted,
                                 "186 kernels on an H200: bench/results/h200-windows-of-channels.txt"};
inline constexpr Source kPacked{SourceKind::fitted, "bench/results/h200-decode-kernels.txt"};
inline constexpr Source kLaneGemv{SourceKind::fitted, "bench/results/h200-lane-gemv.txt"};
inline constexpr Source kFewRows{SourceKind::fitted, "bench/results/h200-few-rows.txt"};
inline constexpr Source kTiles{SourceKind::fitted,
                               "1,380 tiles on an H200 (bench/results/h200-sweep-tiles.json, h200-sweep-tiles-2.json)"};
inline constexpr Source kScaled{SourceKind::derived,
                                "the H200's fit, times this row's latency of memory over the H200's"};
inline constexpr Source kWorkgroups{SourceKind::fitted, "bench/results/h200-workgroup-tiles.txt"};
inline constexpr Source kPrograms{SourceKind::fitted, "bench/results/h200-workgroup-tiles.txt: products in programs"};
inline constexpr Source kKernels{SourceKind::fitted, "bench/results/h200-full.json, h200-by-hand.txt"};

/// The latency of an H200's memory in cycles, to which the fits belong.
inline constexpr double kFittedLatency = 479;
/// Bytes of the last-level cache for each compute unit, where workgroups may come back to 128 KiB.
inline constexpr double kFittedCacheOfUnit = 32e6 / 132;

/// What an architecture's own row says.
struct Stated {
  std::string_view name;
  ComputeUnits units;
  PlannedRegisters registers;
  Latencies latencies;
  Number cache_bytes;  ///< of the last-level cache
  /// Registers of a thread that a kernel with cooperative matrices has beyond its estimate.
  Number matmul_beside = {23, &kDerived}, attention_beside = {15, &kDerived};
};

constexpr Number fitted(double value) { return {value, &kTiles}; }
constexpr Number gained(double value) { return {value, &kKernels}; }

/// Kernels with cooperative matrices. A GELU behind a product costs nothing, and neither do the softmax statistics of
/// 128256 columns. Behind sums of 256 a cross-entropy of 128256 columns took 4.2 ms, and 2.9 where results were stored
/// (h200-full.json). The pair of projections of a gated MLP at 8192 took 6584 us, and 6038 in two kernels; tiles of
/// several sums were not among those of the fit. Sums spill beyond 232 and 240 of the H200's 255 registers.
constexpr MatrixKernels matrix_kernels_of(const Stated& stated) {
  const auto of_registers = [&](double kept) {
    return Number{std::max(16.0, stated.units.registers_per_thread - kept), &kDerived};
  };
  return {.visible_epilogue = gained(0.1),
          .sum_that_hides_reductions = gained(2048),
          .edges = {1.12, &kPrograms},
          .projections_slowdown = gained(1.09),
          .matmul_registers = of_registers(stated.matmul_beside),
          .attention_registers = of_registers(stated.attention_beside)};
}

/// Tiles that a workgroup multiplies as one. Eight steps of one are in flight at a time, in shared memory, which holds
/// two of them. What a workgroup by itself waits for, and the start, are of programs, where operands come from memory.
/// Compiling one takes 0.7 s.
constexpr WorkgroupTiles workgroup_tiles_of(const Stated& stated) {
  const double slower = stated.latencies.memory / kFittedLatency;
  const auto of_tiles = [](double value) { return Number{value, &kWorkgroups}; };
  return {.resident = of_tiles(2),
          .products = of_tiles(0.47),
          .loads = of_tiles(3.8),
          .waited = {900 * slower, &kScaled},
          .results = of_tiles(0.676),
          .start = {10000 * slower, &kScaled},
          .last_wave = {1.14, &kPrograms},
          .odd_steps = of_tiles(1.1),
          .epilogue = gained(1.5),
          .short_sum = gained(1024),
          .multiply_adds = gained(2e9)};
}

/// Products with cooperative matrices.
constexpr CooperativeMatrices matrices_of(const Stated& stated) {
  const double slower = stated.latencies.memory / kFittedLatency;
  const auto waited = [slower](double value) { return Number{value * slower, &kScaled}; };
  return {.step = {.products = fitted(1.153),
                   .fragments = fitted(0.441),
                   .near_lines = fitted(1.639),
                   .near_words = fitted(0.237),
                   .tile_stores = fitted(1.132),
                   .far = fitted(0.356),
                   .far_unaligned = fitted(1.366),
                   .barriers = fitted(121),
                   .latency = waited(326),
                   .latency_of_unaligned = waited(911),
                   .chain = fitted(0.223),
                   .prefetch = waited(1073),
                   .prefetch_of_others = fitted(0.304),
                   .overlap = fitted(3.44)},
          .loads = {.chunk = fitted(26.7),
                    .load = fitted(5.82),
                    .unaligned_element = fitted(7.47),
                    .flattened_element = fitted(1.04),
                    .single_element = fitted(40),
                    .computed_element = fitted(4.29)},
          .registers = {.own = fitted(22.6),
                        .fragment = fitted(0.805),
                        .buffer = fitted(9.53),
                        .prefetch = fitted(1.023),
                        .loading = fitted(0.148)},
          .results = {.instructions = fitted(11),
                      .bytes = fitted(1.919),
                      .of_many_bytes = fitted(1.25),
                      .round = waited(638),
                      .round_of_loads = waited(2842),
                      .start = fitted(227),
                      .last_wave = fitted(1.252)},
          .kernels = matrix_kernels_of(stated),
          .workgroup_tiles = workgroup_tiles_of(stated)};
}

/// Of a thread: so many times what each has where as many as possible are resident.
constexpr Number unhurried(const ComputeUnits& units, double times) {
  return {std::min<double>(units.registers_per_thread, times * units.registers / units.threads), &kPressure};
}

constexpr Caches caches_of(const Stated& stated) {
  constexpr double kLargestTile = 128 << 10;
  constexpr double kShare = 32.0 / 50;  // of a cache, beside a stream
  const double bytes = stated.cache_bytes * kShare;
  const double tile = kLargestTile * (bytes / stated.units.count) / kFittedCacheOfUnit;
  return {.bandwidth = {4, &kRest},
          .sector_bandwidth = {1.5, &kRest},
          .bytes = {bytes, &kDerived},
          .tile_bytes = {std::clamp(tile, 4096.0, kLargestTile), &kDerived}};
}

/// Windows of images. Nobody has found a number of predicated loads that a GPU's compiler does not end with.
constexpr StencilRates stencil_rates() {
  const auto of_windows = [](double value) { return Number{value, &kWindows}; };
  return {.element = of_windows(0),
          .row_element = of_windows(2),
          .chunk_element = of_windows(0.5),
          .loaded_weight = of_windows(0),
          .kept_weight = of_windows(4),
          .result = of_windows(2),
          .line = of_windows(0.05),
          .skipped_padding = of_windows(1),
          .registers = of_windows(140),
          .few_threads = of_windows(12),
          .cached_instructions = of_windows(1500),
          .instruction_fetch_us = of_windows(0.0085),
          .unrolled_taps = of_windows(3200),
          .rows = of_windows(14),
          .predicated_loads = {1e9, &kAssumed}};
}

/// A row: what is stated, and what follows.
constexpr DeviceModel row_of(const Stated& stated) {
  const ComputeUnits& units = stated.units;
  const double slower = stated.latencies.memory / kFittedLatency;
  return {
      .name = stated.name,
      .units = units,
      .registers = stated.registers,
      .latencies = stated.latencies,
      .caches = caches_of(stated),
      .occupancy = {.rows_to_overlap = {16, &kHand}, .workgroups = {4, &kHand}, .rows_in_flight = {2, &kHand}},
      .pressure = {.matmul_registers = unhurried(units, 2.5),
                   .attention_registers = unhurried(units, 4),
                   .slowdown = {0.01, &kSlowdown}},
      .transposition = {.workgroup_bytes = {2560, &kTransposes}, .run_bytes = {8, &kTransposes}},
      .stencil = stencil_rates(),
      // A kilobyte of every row side by side, where a row has so many K-slices. A thread has some 110 registers.
      .packed_gemv = {.threads = {units.registers / 128, &kDerived},
                      .subgroups = {8, &kPacked},
                      .copy_share = {0.5, &kPacked},
                      .bytes_per_us_and_subgroup = {3000 / slower, &kScaled},
                      .first_us = {2 * slower, &kScaled}},
      // Two K-slices of 16 subgroups, of 64 bytes of a row each.
      .lane_gemv = {.subgroups = {16, &kLaneGemv},
                    .start_us = {slower, &kScaled},
                    .wave_us = {0.5 * slower, &kScaled},
                    .vector_us = {0.4 * slower, &kScaled},
                    .copy_share_of_fours = {0.8, &kLaneGemv},
                    .copy_share_of_eights = {1, &kLaneGemv}},
      .lane_fragments = {.first_us = {0.2 * slower, &kScaled},
                         .copy_share = {1.1, &kFewRows},
                         .piece_bytes = {16, &kFewRows},
                         .latency_us = {1.2 * slower, &kScaled},
                         .issue_share = {0.435, &kFewRows},
                         .beside = {0.27, &kFewRows}},
      // A score is an exponential, and twelve multiply-adds' time for what rescales. With matrices 16 times as
      // fast where they multiply 8 times as much, beside what they wait for shared memory.
      .attention = {.threads = {units.multiply_adds, &kDerived},
                    .exponential = {12 + units.multiply_adds / units.transcendentals, &kDerived},
                    .cooperative_matrix_speedup = {std::max(1.0, 2 * units.matrix_multiply_adds / units.multiply_adds),
                                                   &kDerived}},
      .matrices = matrices_of(stated)};
}

/// A device of the table: the first entry that fits decides.
struct DeviceEntry {
  const DeviceModel* row = nullptr;
  std::uint32_t vendor_id = 0;                       ///< 0: of any vendor
  std::uint32_t first_id = 0, last_id = 0xFFFFFFFF;  ///< device ids
  std::string_view name;                             ///< that the device's name has in it
  std::uint32_t compute_units = 0;                   ///< where the device does not tell; 0: the row's
  bool cpu = false;                                  ///< CPU drivers alone
};

std::span<const DeviceEntry> nvidia_devices();
std::span<const DeviceEntry> amd_devices();
std::span<const DeviceEntry> intel_devices();
std::span<const DeviceEntry> mobile_devices();
std::span<const DeviceEntry> other_devices();

}  // namespace vkfuse::device_rows
