#include "device_model/device_model.hpp"

namespace vkfuse {

namespace {

// NVIDIA H200 (Hopper), driver 580: the one architecture that was measured, and what all others are planned with. A
// device with fewer compute units is as well served by as many tiles.
constexpr DeviceModel kH200 = {
    .name = "NVIDIA H200",
    // "NVIDIA H100 Tensor Core GPU Architecture" (2022) and the CUDA programming guide's table of compute capability
    // 9.0, but for three: matrix_multiply_adds is half of the 2048 stated there, as Vulkan's cooperative matrices
    // compile to mma.sync and not to wgmma; last_level_cache_bytes was assumed when matrices.step was fitted, which
    // multiplies both; memory_bytes is what a copy moves (bench/results/h200-full.json) over 132 units and 1.98 GHz.
    .units = {.count = 132,
              .multiply_adds = 128,
              .matrix_multiply_adds = 1024,
              .subgroup_instructions = 4,
              .shared_memory_bytes = 128,
              .last_level_cache_bytes = 22,
              .memory_bytes = 16,
              .cache_line_bytes = 128,
              .registers = 65536,
              .threads = 2048,
              .shared_memory = 227 << 10,
              .workgroup_shared_memory = 1 << 10,
              .registers_per_thread = 255},
    // Assumed from rows of bench/results/h200-full.json that read again: of the 50 MB, about 32 beside a stream.
    .caches = {.bandwidth = 4, .sector_bandwidth = 1.5, .bytes = 32e6, .tile_bytes = 128 << 10},
    // Chosen by hand on the rows of the benchmark.
    .occupancy = {.rows_to_overlap = 16, .workgroups = 4},
    // From what NVIDIA's compiler reports, and times, of tiles with 32 to 64 accumulators, of two operands and of
    // three. With many more than 128, AMD's compiler spills.
    .pressure = {.matmul_registers = 80, .attention_registers = 128, .slowdown = 0.01},
    // Transposes of many shapes (docs/experiments.md has one of them).
    .transposition = {.workgroup_bytes = 2560, .run_bytes = 8},
    // bench/results/h200-packed-rows.txt: a kilobyte of every row side by side. Half as many subgroups take half as
    // much of a row side by side, and 1.3 to 1.6 times as long. A thread has some 110 registers.
    .packed_gemv =
        {.threads = 512, .subgroups = 8, .copy_share = 0.82, .bytes_per_us_and_subgroup = 2300, .first_us = 3},
    .attention = {.threads = 128, .exponential = 20, .cooperative_matrix_speedup = 12},
    // Fitted to 1,380 tiles of 30 products and convolutions (bench/results/h200-sweep-tiles.json,
    // h200-sweep-tiles-2.json).
    .matrices = {
        .step = {.products = 1.153,
                 .fragments = 0.441,
                 .near_lines = 1.639,
                 .near_words = 0.237,
                 .tile_stores = 1.132,
                 .far = 0.356,
                 .far_unaligned = 1.366,
                 .barriers = 121,
                 .latency = 326,
                 .latency_of_unaligned = 911,
                 .chain = 0.223,
                 .prefetch = 1073,
                 .prefetch_of_others = 0.304,
                 .overlap = 3.44},
        .loads = {.chunk = 26.7,
                  .load = 5.82,
                  .unaligned_element = 7.47,
                  .flattened_element = 1.04,
                  .single_element = 40,
                  .computed_element = 4.29},
        .registers = {.own = 22.6, .fragment = 0.805, .buffer = 9.53, .prefetch = 1.023, .loading = 0.148},
        .results = {.instructions = 11,
                    .bytes = 1.919,
                    .of_many_bytes = 1.25,
                    .round = 638,
                    .round_of_loads = 2842,
                    .start = 227,
                    .last_wave = 1.252},
        // A GELU behind a product costs nothing, and neither do the softmax statistics of 128256 columns. Behind sums
        // of 256 a cross-entropy of 128256 columns took 4.2 ms, and 2.9 where results were stored (h200-full.json).
        // Workgroup-scope tiles: products of 8192 (h200-by-hand.txt); compiling one takes 0.7 s, which a tenth of a
        // short product does not bring back. The pair of projections of a gated MLP at 8192 took 6584 us, and 6038 in
        // two kernels; tiles of several sums were not among those of the fit.
        .kernels = {.visible_epilogue = 0.1,
                    .sum_that_hides_reductions = 2048,
                    .workgroup_scope_gain = 1.08,
                    .workgroup_scope_multiply_adds = 3e10,
                    .projections_slowdown = 1.09,
                    .matmul_registers = 232,
                    .attention_registers = 240}}};

}  // namespace

const DeviceModel& device_model(const Target& /*target*/) { return kH200; }

}  // namespace vkfuse
