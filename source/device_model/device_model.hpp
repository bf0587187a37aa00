// What the planner believes of a device beside its limits (Caps) and its measured rates (CostModel): one row for each
// architecture, and where every number is from. No other folder knows an architecture.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/target.hpp"

namespace vkfuse {

/// How a number came to be known.
enum class SourceKind : std::uint8_t {
  measured,    ///< on such a device, for this project
  document,    ///< stated by the vendor, or by who examined the hardware
  driver,      ///< stated by an open driver's sources
  device,      ///< told by the device that is open
  calibrated,  ///< measured at first use
  derived,     ///< computed of other numbers of the row
  fitted,      ///< to measurements of another architecture, and carried over
  assumed,     ///< on the safe side: nobody has said or measured it
};
constexpr std::string_view name_of(SourceKind kind) {
  constexpr std::string_view names[8] = {"measured",   "document", "driver", "device",
                                         "calibrated", "derived",  "fitted", "assumed"};
  return names[static_cast<int>(kind)];
}

/// Lives as long as the program.
struct Source {
  SourceKind kind = SourceKind::assumed;
  std::string_view text;
};

/// A number of a row, and where it is from.
struct Number {
  double value = 0;
  const Source* source = nullptr;
  // NOLINTNEXTLINE(google-explicit-constructor): a number is used as one
  constexpr operator double() const { return value; }
};

/// The compute units of a device (NVIDIA: streaming multiprocessors, AMD: compute units, Intel: Xe cores, ARM: shader
/// cores, CPUs: cores) and what one of them has. Rates are those of one unit in one cycle.
struct ComputeUnits {
  Number count;
  Number multiply_adds;           ///< fused, of f32
  Number matrix_multiply_adds;    ///< of f16, with cooperative matrices; without them, of threads
  Number transcendentals;         ///< exponentials, reciprocals and the like
  Number subgroup_instructions;   ///< issued
  Number shared_memory_bytes;     ///< read or written
  Number last_level_cache_bytes;  ///< read from the cache that all units share
  Number memory_bytes;            ///< its share of the device's memory bandwidth
  Number cache_line_bytes;
  Number registers;                ///< of 32 bits
  Number threads;                  ///< resident at a time
  Number shared_memory;            ///< bytes
  Number workgroup_shared_memory;  ///< bytes that a driver takes of it for each workgroup
  Number registers_per_thread;     ///< at most
};

/// What schedules keep within, where Vulkan does not tell.
struct PlannedRegisters {
  Number per_thread;     ///< kUnknownRegistersPerThread: whatever a kernel wants
  Number per_workgroup;  ///< of all its threads
  /// Of what is estimated, addresses and sizes that a thread has elsewhere.
  Number elsewhere;
  /// What estimates of unrolled text add for each load: compilers move loads ahead of what uses them.
  Number of_moved_load;
  /// Of a hardware thread, whose lanes share them, so that fewer lanes have more each; 0: they do not.
  Number of_hardware_thread;
  /// Lanes of a subgroup that kernels require where the device lets them and nothing else is wanted; 0: as the device
  /// has it.
  Number subgroup;
};

/// Cycles from asking to having.
struct Latencies {
  Number shared_memory;
  Number last_level_cache;
  Number memory;
};

/// Caches between compute units and memory, beside the memory.
struct Caches {
  Number bandwidth;         ///< of what several workgroups read: times the memory's
  Number sector_bandwidth;  ///< of sectors that are loaded and used in part: times the memory's
  Number bytes;             ///< that stay in the last one beside what else is in flight
  Number tile_bytes;        ///< that a workgroup may come back to, while the others of a full device do
};

/// How many workgroups and rows a device is given before threads get more work each. Of one compute unit.
struct Occupancy {
  Number rows_to_overlap;  ///< from so many on, long rows have fewer threads each: workgroups wait at other times
  Number workgroups;       ///< that fill it a few times
  Number rows_in_flight;   ///< whose memory should still be in the last cache when it is read again
};

/// What registers beyond those that leave room for enough subgroups cost.
struct RegisterPressure {
  Number matmul_registers;     ///< of a thread: no slower up to here
  Number attention_registers;  ///< the same of attention
  Number slowdown;             ///< of each register more: a share of the time
};

/// The tiled template.
struct Transposition {
  Number workgroup_bytes;  ///< what starting a workgroup costs: bytes moved in that time
  Number run_bytes;        ///< runs of n consecutive bytes take (1 + run_bytes / n) times as long as endless ones
};

/// Windows of images: what a thread's block takes beside the multiply-adds of its taps, in multiply-adds.
struct StencilRates {
  Number element;        ///< of a window, wherever it is
  Number row_element;    ///< that a row of registers has: shifted out, and compared with the ends of an axis
  Number chunk_element;  ///< of a chunk that lies inside or outside as a whole
  Number loaded_weight;  ///< that is loaded for each result
  Number kept_weight;    ///< that all results of a block share
  Number result;
  Number line;                  ///< a cache line that a load touches after its first: in accesses
  Number skipped_padding;       ///< the share of what is known to be padding that is not read
  Number registers;             ///< of a thread: no slower up to here
  Number few_threads;           ///< resident threads, over those that hide waiting where each has a block
  Number cached_instructions;   ///< of a kernel: no slower up to here
  Number instruction_fetch_us;  ///< that each further one takes, once a launch
  // What drivers compile in seconds.
  Number unrolled_taps;
  Number rows;              ///< of a block
  Number predicated_loads;  ///< of single elements, each with conditions of its place
};

/// One vector times weights of few bits, with cooperative matrices.
struct PackedGemv {
  Number threads;                    ///< of a compute unit at a time, for their registers
  Number subgroups;                  ///< of a workgroup
  Number copy_share;                 ///< of the bandwidth of a copy
  Number bytes_per_us_and_subgroup;  ///< while a subgroup waits for memory
  Number first_us;                   ///< until a workgroup has the vector where it wants it
};

/// The same where lanes make the fragments of weights from memory.
struct LaneGemv {
  Number subgroups;             ///< of a workgroup
  Number start_us;              ///< beside the launch
  Number wave_us;               ///< of each wave of workgroups, until it multiplies
  Number vector_us;             ///< until a workgroup has the vector in shared memory, beside that
  Number copy_share_of_fours;   ///< of the bandwidth of a copy, with numbers of four bits
  Number copy_share_of_eights;  ///< with numbers of eight
};

/// Few rows times weights whose fragments lanes make from memory.
struct LaneFragments {
  Number first_us;     ///< until a workgroup multiplies
  Number copy_share;   ///< of the bandwidth of a copy: above 1, as nothing is written
  Number piece_bytes;  ///< that each piece of a row costs beside those that its lanes load
  Number latency_us;   ///< of memory, while all lanes wait for it
  Number issue_share;  ///< of the instructions that a compute unit could execute
  Number beside;       ///< of the shorter of computing and loading, what is seen beside the other
};

/// Attention.
struct AttentionRates {
  Number threads;      ///< of a compute unit, which keep it busy
  Number exponential;  ///< of a score, with what rescales: in fused multiply-adds
  Number cooperative_matrix_speedup;
};

/// Products with cooperative matrices, fitted to measured tiles: cycles, instructions, or shares of what ComputeUnits
/// says. First, one step along the sum.
struct MatrixStep {
  Number products, fragments, near_lines, near_words, tile_stores, far, far_unaligned;
  Number barriers, latency, latency_of_unaligned, chain, prefetch, prefetch_of_others;
  /// How much of what units, memory and instructions take is at the same time: the exponent of a norm.
  Number overlap;
};
/// The same: instructions of a thread that loads operands.
struct MatrixLoads {
  Number chunk, load, unaligned_element, flattened_element, single_element, computed_element;
};
/// The same: registers of a thread.
struct MatrixRegisters {
  Number own, fragment, buffer, prefetch, loading;
};
/// The same: what a tile takes once.
struct MatrixResults {
  Number instructions, bytes, of_many_bytes, round, round_of_loads, start, last_wave;
};
/// What kernels with cooperative matrices gain and lose beside others.
struct MatrixKernels {
  /// Of the arithmetic of results, what is left while other workgroups multiply.
  Number visible_epilogue;
  /// Epilogue reductions are hidden as other arithmetic is behind sums as long as this, and less behind shorter ones.
  Number sum_that_hides_reductions;
  Number edges;                                  ///< what tiles that stand out cost, on top of what they compute
  Number projections_slowdown;                   ///< of several products of one value in one kernel
  Number matmul_registers, attention_registers;  ///< of a thread: beyond it the sums spill
};
/// Tiles that a workgroup multiplies as one (cooperative_matrix2), fitted likewise: a step executes so much of what
/// ComputeUnits says for its multiply-adds and for the bytes of its operands from shared memory.
struct WorkgroupTiles {
  Number resident;  ///< workgroups of a compute unit
  Number products, loads;
  Number waited;   ///< cycles of a step that a workgroup alone on its compute unit does not execute
  Number results;  ///< of the time of what results move
  Number start;    ///< cycles until the first step, once
  /// Of the last wave, how many times as long as measured it is said to take: the fit of tiles of subgroups, beside
  /// which these are chosen, says so of theirs.
  Number last_wave;
  Number odd_steps;      ///< how many times as long it takes where eight do not divide the steps
  Number epilogue;       ///< of the arithmetic of results, what is seen behind a short sum
  Number short_sum;      ///< up to this length all of that is
  Number multiply_adds;  ///< that a product has at least, for such a tile to be compiled
};
struct CooperativeMatrices {
  MatrixStep step;
  MatrixLoads loads;
  MatrixRegisters registers;
  MatrixResults results;
  MatrixKernels kernels;
  WorkgroupTiles workgroup_tiles;
};

struct DeviceModel {
  std::string_view name;
  ComputeUnits units;
  PlannedRegisters registers;
  Latencies latencies;
  Caches caches;
  Occupancy occupancy;
  RegisterPressure pressure;
  Transposition transposition;
  StencilRates stencil;
  PackedGemv packed_gemv;
  LaneGemv lane_gemv;
  LaneFragments lane_fragments;
  AttentionRates attention;
  CooperativeMatrices matrices;
};

/// A number of DeviceModel by its name.
struct Figure {
  std::string_view group, name;
  std::string_view unit;  ///< "bytes", "a cycle"; empty: a count or a share
  const Number& (*of)(const DeviceModel& model) = nullptr;
  void (*set)(DeviceModel& model, const Number& number) = nullptr;
};
/// All of them, in the order of the structures: `vkfuse devices` prints them, tests check and exchange them.
std::span<const Figure> figures();

/// What a row is chosen by. Ids and names as VkPhysicalDeviceProperties and VkPhysicalDeviceDriverProperties have them.
struct DeviceIdentity {
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::string_view name;
  std::string_view driver_name;
  DeviceType type = DeviceType::other;
  std::uint32_t compute_units = 0;  ///< as the device tells; 0: it does not
};

/// The row of a device: that of its architecture with the number of compute units that this device has. Never null.
std::shared_ptr<const DeviceModel> model_of(const DeviceIdentity& identity);

/// Every row, for tests and for documents.
std::span<const DeviceModel* const> device_model_rows();

/// Puts what the row knows of registers and subgroups into the limits of a device, which says nothing of them.
void apply_model(const DeviceModel& model, Caps& caps);

/// Invocations of a workgroup at most, in subgroups of such a size.
std::uint32_t invocations_of_subgroups(const Caps& caps, std::uint32_t subgroup);

/// The same row, where what was measured at first use takes the place of what was assumed: the number of compute units.
std::shared_ptr<const DeviceModel> calibrated(std::shared_ptr<const DeviceModel> model, const CostModel& costs);

/// The row of a target. It lives as long as the target; that of a target without one lives as long as the program.
const DeviceModel& device_model(const Target& target);

/// The same target with half the lanes to a subgroup and twice the registers to a lane; nothing where its row does not
/// divide registers so, or no pipeline may require such a size.
std::optional<Target> with_narrower_subgroups(const Target& target);

/// Has kernels planned for another device, within the limits of the target's own: for tests.
void plan_as(const DeviceIdentity& identity, Target& target);

/// What to step around in a driver, and limits that it states wrongly.
DriverWorkarounds workarounds_of(const DeviceIdentity& identity);
void apply_driver_limits(const DeviceIdentity& identity, Caps& caps);

}  // namespace vkfuse
