// What the planner believes of a device beside its limits (Caps) and its measured rates (CostModel): one row for each
// architecture, and where every number is from.
#pragma once

#include <cstdint>

#include "base/target.hpp"

namespace vkfuse {

/// The compute units of a device (NVIDIA: streaming multiprocessors, AMD: compute units, Intel: Xe cores) and what one
/// of them has. Rates are those of one unit in one cycle.
struct ComputeUnits {
  double count = 0;
  double multiply_adds = 0;           ///< fused, of f32
  double matrix_multiply_adds = 0;    ///< of f16, with cooperative matrices
  double subgroup_instructions = 0;   ///< issued
  double shared_memory_bytes = 0;     ///< read or written
  double last_level_cache_bytes = 0;  ///< read from the cache that all units share
  double memory_bytes = 0;            ///< its share of the device's memory bandwidth
  double cache_line_bytes = 0;
  int registers = 0;                ///< of 32 bits
  int threads = 0;                  ///< resident at a time
  int shared_memory = 0;            ///< bytes
  int workgroup_shared_memory = 0;  ///< bytes that a driver takes of it for each workgroup
  int registers_per_thread = 0;     ///< at most
};

/// Caches between compute units and memory, beside the memory.
struct Caches {
  double bandwidth = 0;         ///< of what several workgroups read: times the memory's
  double sector_bandwidth = 0;  ///< of sectors that are loaded and used in part: times the memory's
  double bytes = 0;             ///< that stay in the last one beside what else is in flight
  std::int64_t tile_bytes = 0;  ///< that a workgroup may come back to, while some hundred others do
};

/// How many workgroups and rows a device is given before threads get more work each. Of one compute unit.
struct Occupancy {
  double rows_to_overlap = 0;  ///< from so many on, long rows have fewer threads each: workgroups wait at other times
  double workgroups = 0;       ///< that fill it a few times
};

/// What registers beyond those that leave room for enough subgroups cost.
struct RegisterPressure {
  int matmul_registers = 0;     ///< of a thread: no slower up to here
  int attention_registers = 0;  ///< the same of attention
  double slowdown = 0;          ///< of each register more: a share of the time
};

/// The tiled template.
struct Transposition {
  double workgroup_bytes = 0;  ///< what starting a workgroup costs: bytes moved in that time
  double run_bytes = 0;        ///< runs of n consecutive bytes take (1 + run_bytes / n) times as long as endless ones
};

/// One vector times weights of few bits, with cooperative matrices.
struct PackedGemv {
  int threads = 0;                       ///< of a compute unit at a time, for their registers
  int subgroups = 0;                     ///< of a workgroup
  double copy_share = 0;                 ///< of the bandwidth of a copy
  double bytes_per_us_and_subgroup = 0;  ///< while a subgroup waits for memory
  double first_us = 0;                   ///< until a workgroup has the vector where it wants it
};

/// Attention.
struct AttentionRates {
  double threads = 0;      ///< of a compute unit, which keep it busy
  double exponential = 0;  ///< of a score, with what rescales: in fused multiply-adds
  double cooperative_matrix_speedup = 0;
};

/// Products with cooperative matrices, fitted to measured tiles: cycles, instructions, or shares of what ComputeUnits
/// says. First, one step along the sum.
struct MatrixStep {
  double products, fragments, near_lines, near_words, tile_stores, far, far_unaligned;
  double barriers, latency, latency_of_unaligned, chain, prefetch, prefetch_of_others;
  /// How much of what units, memory and instructions take is at the same time: the exponent of a norm.
  double overlap;
};
/// The same: instructions of a thread that loads operands.
struct MatrixLoads {
  double chunk, load, unaligned_element, flattened_element, single_element, computed_element;
};
/// The same: registers of a thread.
struct MatrixRegisters {
  double own, fragment, buffer, prefetch, loading;
};
/// The same: what a tile takes once.
struct MatrixResults {
  double instructions, bytes, of_many_bytes, round, round_of_loads, start, last_wave;
};
/// What kernels with cooperative matrices gain and lose beside others.
struct MatrixKernels {
  /// Of the arithmetic of results, what is left while other workgroups multiply.
  double visible_epilogue;
  /// Epilogue reductions are hidden as other arithmetic is behind sums as long as this, and less behind shorter ones.
  double sum_that_hides_reductions;
  double workgroup_scope_gain;                ///< of tiles that a workgroup multiplies as one
  double workgroup_scope_multiply_adds;       ///< that a product has at least, for such a tile to be compiled
  double projections_slowdown;                ///< of several products of one value in one kernel
  int matmul_registers, attention_registers;  ///< of a thread: beyond it the sums spill
};
struct CooperativeMatrices {
  MatrixStep step;
  MatrixLoads loads;
  MatrixRegisters registers;
  MatrixResults results;
  MatrixKernels kernels;
};

struct DeviceModel {
  const char* name = "";
  ComputeUnits units;
  Caches caches;
  Occupancy occupancy;
  RegisterPressure pressure;
  Transposition transposition;
  PackedGemv packed_gemv;
  AttentionRates attention;
  CooperativeMatrices matrices;
};

/// The row of the target's architecture. It lives as long as the program.
const DeviceModel& device_model(const Target& target);

}  // namespace vkfuse
