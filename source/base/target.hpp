// What a device can do, as plain numbers: a test can fabricate any device.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vkfuse/dtype.hpp"
#include "vkfuse/result.hpp"

namespace vkfuse {

/// The feature tiers of docs/design.md. Every tier falls back to the one below.
enum class FeatureTier : std::uint8_t {
  baseline,
  subgroup,
  float16,
  dot_product,
  cooperative_matrix,
  cooperative_matrix2
};
inline constexpr int kFeatureTierCount = 6;
constexpr std::string_view name_of(FeatureTier tier) {
  constexpr std::string_view names[kFeatureTierCount] = {"T0", "T1", "T2", "T3", "T4", "T5"};
  return names[static_cast<int>(tier)];
}

enum class DeviceType : std::uint8_t { discrete, integrated, virtualized, cpu, other };
constexpr std::string_view name_of(DeviceType type) {
  constexpr std::string_view names[5] = {"discrete", "integrated", "virtual", "cpu", "other"};
  return names[static_cast<int>(type)];
}

/// One product a cooperative matrix offers, per subgroup: c[m,n] + a[m,k] b[k,n].
struct MatrixShape {
  std::uint32_t m = 0;
  std::uint32_t n = 0;
  std::uint32_t k = 0;
  DType a = DType::f16;
  DType b = DType::f16;
  DType c = DType::f32;
  DType result = DType::f32;
};

/// More than any kernel of ours is estimated to want.
inline constexpr std::uint32_t kUnknownRegistersPerThread = 1024;

/// Bytes of the widest access; buffers are padded to multiples of it.
inline constexpr std::int64_t kBindingGranule = 16;

struct WorkgroupLimits {
  std::uint32_t max_invocations = 128;
  std::uint32_t max_x = 128;                  ///< invocations along the first axis
  std::uint32_t max_groups_per_axis = 65535;  ///< workgroups per dispatch, any axis
  std::uint32_t shared_memory_bytes = 16384;
};

struct MemoryCaps {
  std::uint32_t storage_buffers = 4;  ///< per shader stage
  std::uint32_t push_constant_bytes = 128;
  std::uint64_t storage_buffer_range = 128u << 20;
  std::uint64_t max_allocation = 1u << 30;
  std::uint32_t offset_alignment = 256;  ///< of a storage-buffer binding, bytes
  bool storage_16bit = false;            ///< T2, as is storage_8bit
  bool storage_8bit = false;
};

/// T1.
struct SubgroupCaps {
  std::uint32_t size = 1;
  std::uint32_t size_min = 1;                  ///< with size_control: what a pipeline may require; else
  std::uint32_t size_max = 1;                  ///< both are size
  std::uint32_t most_in_workgroup = 1u << 16;  ///< subgroups, where a pipeline may require their size
  bool shuffle = false;
  bool vote = false;
  bool size_control = false;
  bool full = false;
  bool extended_types = false;  ///< operations on 8-, 16- and 64-bit types
};

/// Vulkan tells neither; see PlannedRegisters (device_model). The defaults leave every schedule as it is.
struct RegisterLimits {
  std::uint32_t per_thread = kUnknownRegistersPerThread;  ///< of 32 bits: what a thread has beyond them lies in memory
  std::uint32_t per_workgroup = 1u << 16;                 ///< of all threads: 64 per thread of 1024, on NVIDIA and GCN
  /// Arrays are registers where an unrolled loop's counter tells their elements apart. Without it they are memory, as
  /// V3DV has them: such loops are written out.
  bool arrays = true;
};

struct ArithmeticCaps {
  bool float16 = false;  ///< T2
  bool float64 = false;
  bool int8 = false;
  bool int16 = false;
  bool int64 = false;
  bool dot_product_i8 = false;              ///< T3: SPV_KHR_integer_dot_product
  bool dot_product_i8_accelerated = false;  ///< packed 4x8 signed, faster than its expansion
};

/// VK_KHR_shader_float_controls, and what of it the self-test shows.
struct FloatControls {
  bool round_to_even_f16 = false;  ///< shaderRoundingModeRTEFloat16
  bool keep_nan_f32 = false;       ///< shaderSignedZeroInfNanPreserveFloat32
  bool keep_nan_f64 = false;       ///< the same for f64
  /// With keep_nan_f32: NaN and infinities go through exp, exp2, inversesqrt and reciprocals as IEEE has it. Not
  /// offered by a device, but shown by the self-test.
  bool exp_of_nan = false;
  bool keep_denorms_f16 = false;  ///< shaderDenormPreserveFloat16
};

/// T4: KHR cooperative matrix.
struct MatrixCaps {
  std::vector<MatrixShape> shapes;  ///< empty without the extension; none saturates
  bool bf16 = false;                ///< SPV_KHR_bfloat16 in cooperative matrices
  /// The product whose first factor may be bits of any kind, 16 an element, that become numbers where they are: asked
  /// for and tested where a graph has a use for it.
  std::optional<MatrixShape> sub_byte;
  /// The product of whose fragments it is known which elements each lane has (lowering/fragments.hpp): asked for and
  /// tested where a graph multiplies few rows.
  std::optional<MatrixShape> lane_fragments;
};

/// What a workgroup may multiply as one: results and steps along the sum.
struct WorkgroupTile {
  int m = 0, n = 0, k = 0;
  bool operator==(const WorkgroupTile&) const = default;
};
/// The fastest of 25 that were tried on an H200, and with 96 rows or columns, whose workgroups are shorter: where those
/// of 128 leave the last wave half empty, a sixth of the time is saved. All are multiples of 32: of 80, 112 and 144
/// rows results were wrong without an error (bench/results/h200-workgroup-tiles.txt).
inline constexpr WorkgroupTile kWorkgroupTiles[] = {{128, 128, 64}, {96, 128, 64}, {128, 96, 64}};

/// T5: NV cooperative matrix 2.
struct Matrix2Caps {
  bool reductions = false;
  bool conversions = false;
  bool per_element = false;
  bool tensor_addressing = false;
  bool workgroup_scope = false;
  bool flexible = false;  ///< sizes beyond MatrixCaps::shapes
  /// Whether a workgroup may be able to multiply tiles as one, which the device brings from memory by itself.
  [[nodiscard]] bool may_multiply_tiles() const { return tensor_addressing && workgroup_scope && flexible; }
  /// Of kWorkgroupTiles those that self-tests have shown to be right for all 16-bit floats of the graph: a device need
  /// not offer every size.
  std::vector<WorkgroupTile> tiles;
};

struct ProfilingCaps {
  float timestamp_period_ns = 0.0F;  ///< 0 when the queue has no timestamps
  bool executable_statistics = false;
};

/// Limits and features. The defaults are the minimum every Vulkan 1.1 device offers.
struct Caps {
  WorkgroupLimits workgroup;
  MemoryCaps memory;
  SubgroupCaps subgroup;
  RegisterLimits registers;
  ArithmeticCaps arithmetic;
  FloatControls float_controls;
  MatrixCaps matrix;
  Matrix2Caps matrix2;
  ProfilingCaps profiling;
};

/// Invocations of the largest workgroup that a template of ours has. Templates halve and double workgroups, so it is a
/// power of two: of 384, as on some Mali, 256. A workgroup that the user states (a custom kernel) may have all of them.
std::uint32_t usable_invocations(const Caps& caps);

/// Brings limits that somebody lowered into the form that templates run with, or says in one sentence why none can:
/// what is true of every device of Vulkan (a subgroup is a power of two, a binding has room for a vector) need not be
/// true of numbers that a user wrote. `offered` is what the device has.
Result<void> settle_lowered(const Caps& offered, Caps& caps);

/// What work is taken to cost; see schedule::costs_of.
struct CostModel {
  double copy_gb_per_s = 100;     ///< read and written together
  double launch_us = 5;           ///< of a kernel that waits for the one before
  double gflops = 500;            ///< fused multiply-adds of f32, in thousands of millions a second
  double accesses_per_us = 50e3;  ///< loads and stores executed, from near caches
  double compute_units = 0;       ///< workgroups that multiply as fast as one alone does; 0: not measured
};

/// What a kernel of several ops may be for a driver's compiler at most. Compilers put every function in place of its
/// call and take longer than in proportion, some exponentially in conditions that follow each other: what is within
/// these compiles in seconds on the drivers that were measured (docs/results.md, "How long drivers compile").
struct KernelBudget {
  std::int64_t statements = 5000;  ///< of GLSL, functions in place of their calls, for all elements of an item
  std::int64_t unrolled_statements = 10'000;  ///< the same, with all iterations of a row that stays in registers
  std::int64_t members = 256;                 ///< ops
  std::int64_t choices = 64;                  ///< between values by position: a concatenation of n has n - 1
  std::int64_t choices_in_loops = 16;         ///< the same where elements are read in a loop
};

/// Known bugs that the generated code steps around, each named after what goes wrong.
struct DriverWorkarounds {
  /// Folds 0*x and 0/x to 0 and x/0 to nothing in particular where the zero is a literal, even where
  /// the operation is `precise` and x is infinite or NaN (lavapipe).
  bool folds_nan_away = false;
  /// Leaves all loops of an invocation when they have gone through so many iterations together, and goes on behind them
  /// without a word (lavapipe).
  std::int64_t leaves_loops_after = std::numeric_limits<std::int64_t>::max();
  /// Takes "less than a constant", of an int made an int64_t, for never true or always (Mesa 22.3's lavapipe and RADV,
  /// whose compiler Intel's driver shares; Mesa 25.0's lavapipe does not).
  bool loses_widened_comparisons = false;
  /// Ends the process while it compiles lanes' stores into a local array at a place that a loop's counter gives
  /// (lavapipe with LLVM 19, on processors with AVX-512; LLVM 15 does not).
  bool aborts_on_indexed_stores = false;
  /// Leaves loops as they are that have more iterations than this, all inside each other together, asked to unroll them
  /// or not. Arrays in registers that their counters index then lie in memory: kernels up to 2.7 times as slow
  /// (NVIDIA's).
  std::int64_t unrolled_iterations = std::numeric_limits<std::int64_t>::max();
  /// What a workgroup has stored stays hidden from others of the same dispatch, whatever fences say: Metal had none of
  /// the device before 3.2 (MoltenVK).
  bool hides_stores = false;
};

struct DeviceModel;  // device_model/device_model.hpp

/// Everything the scheduler and the code generator may know about a device.
struct Target {
  std::string name = "minimum Vulkan 1.1 device";
  DeviceType type = DeviceType::other;
  Caps caps;
  DriverWorkarounds workarounds;
  std::shared_ptr<const DeviceModel> model;  ///< the row of its architecture; null: that of unknown devices
  std::optional<CostModel> costs;            ///< as measured on the device
  KernelBudget budget;
  /// Feature tiers in use: offered by the device, compilable by the linked shaderc, passed by the
  /// self-test, and not switched off. T0 always is.
  std::array<bool, kFeatureTierCount> tiers = {true, false, false, false, false, false};

  [[nodiscard]] bool has(FeatureTier tier) const { return tiers[static_cast<std::size_t>(tier)]; }
};

/// The largest product of operands of a dtype, with such sums, that a cooperative matrix offers.
std::optional<MatrixShape> matrix_of(const Caps& caps, DType operands, DType sums);

/// The one with the fewest columns, for a factor that has one.
std::optional<MatrixShape> thin_matrix_of(const Caps& caps, DType operands, DType sums);

/// Rows of a product whose fragments lanes make, at most.
inline constexpr std::int64_t kMostLaneRows = 8;
inline constexpr int kLanesOfRow = 4;

/// The product of which lanes may make fragments, 16 x 8 x 16 of f16 with sums of f32 by 32 lanes; nothing where the
/// device has none. Of A, lane i is taken to have rows i / 4 and i / 4 + 8, of B column i / 4, and of each of these,
/// along the sum, positions 2 * (i % 4) + {0, 1, 8, 9}, as PTX states it for mma.m16n8k16. Vulkan does not tell, so a
/// self-test multiplies what is made so.
std::optional<MatrixShape> lane_fragments_of(const Caps& caps);

/// What cooperative matrices are used for, where a device offers them and its self-test passes: dtypes of operands and
/// sums.
struct MatrixKind {
  DType operands, sums;
};
inline constexpr MatrixKind kMatrixKinds[] = {{DType::f16, DType::f32},
                                              {DType::bf16, DType::f32},
                                              {DType::i8, DType::i32},
                                              {DType::u8, DType::u32},
                                              {DType::f16, DType::f16}};

}  // namespace vkfuse
