// An open device as the runtime sees it: the Vulkan device, what may be used of it, and the kernels
// compiled on it so far.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/target.hpp"
#include "codegen/kernel.hpp"
#include "runtime/constants.hpp"
#include "runtime/shaders.hpp"
#include "runtime/stoppable_mutex.hpp"
#include "vkfuse/device.hpp"
#include "vulkan/buffer.hpp"
#include "vulkan/device.hpp"
#include "vulkan/pipeline.hpp"

namespace vkfuse::runtime {

/// What memory is filled with before one run and before the next (DeviceOptions::self_check): no bit is the same in
/// both.
inline constexpr std::array<std::uint32_t, 2> kPoison = {0xA5A5A5A5u, 0x5A5A5A5Au};

/// A kernel on a device. Immutable; shared between executables.
struct CompiledKernel {
  std::vector<std::uint32_t> spirv;
  vulkan::ComputePipeline pipeline;
  double compile_ms = 0;   ///< GLSL to SPIR-V, or reading it from the store and checking it
  double pipeline_ms = 0;  ///< in the driver
};

/// What the compiler says about the first line that is wrong, counted from where the user's code begins in the file.
Error error_in_user_code(const std::string& what, const std::string& file, const std::string& code, int code_begins,
                         const Error& error);

class Context {
 public:
  /// Picks, opens and restricts a device. `without` is for tests: drivers without hardware lack what every device has.
  static Result<std::shared_ptr<Context>> open(const DeviceOptions& options, const vulkan::DeviceOptions& without = {});

  /// On the device of a host program; `options.name` says nothing.
  static Result<std::shared_ptr<Context>> adopt(std::shared_ptr<const vulkan::Instance> instance,
                                                const vulkan::ExternalDevice& external, const DeviceOptions& options);

  /// Every device of this machine, in the order of their indices.
  static Result<std::vector<vulkan::DeviceInfo>> devices();

  [[nodiscard]] const std::shared_ptr<vulkan::Device>& device() const { return device_; }
  [[nodiscard]] int index() const { return index_; }

  /// The device as any kernel may use it: limits, and no feature tier but T0.
  [[nodiscard]] const Target& base_target() const { return base_; }
  /// The device as kernels may use it. A feature tier is in it only if it is wanted, so that nobody else waits for
  /// its self-test.
  /// `whole` are the dtypes of which tiles are wanted that a workgroup multiplies as one; with `sub_byte`, so are
  /// weights of four bits.
  Result<Target> target(std::span<const FeatureTier> requested, std::span<const DType> whole = {},
                        bool sub_byte = false);

  /// See Caps::exp_of_nan: tested once, on first demand.
  Result<bool> exp_of_nan();

  /// Why a feature tier is not used, or an empty string if it is: tested once, on first demand.
  Result<std::string> missing(FeatureTier tier);
  /// Which products T4 has, where it is in use, and why not others.
  Result<std::string> matrices();

  /// The compiled form of a kernel; equal keys on one device are compiled once, and what the store has of them is not
  /// compiled at all. Thread-safe.
  Result<std::shared_ptr<const CompiledKernel>> compile(const codegen::Kernel& kernel);
  /// The same for several, on as many threads as the machine has; the first kernel's error where there are more.
  Result<std::vector<std::shared_ptr<const CompiledKernel>>> compile_all(
      const std::vector<const codegen::Kernel*>& kernels);
  /// An error that names the op and its line unless the code of every `custom` node of the graph is a function by
  /// itself; what compiled once is not compiled again.
  Result<void> check_custom_code(const ir::Graph& graph);
  /// What the driver says of a kernel: it is made once more, because drivers that keep what they need for this do not
  /// take pipelines from a cache.
  Result<std::vector<vulkan::Statistic>> statistics(const codegen::Kernel& kernel);

  /// For tests: a compiler that refuses the kernels of which `refuses` is true. Before anything is compiled.
  void refuse_kernels(std::function<bool(const codegen::Kernel&)> refuses) { refuses_ = std::move(refuses); }

  [[nodiscard]] Constants& constants() { return constants_; }
  /// Of those who measure schedules in the background.
  [[nodiscard]] StoppableMutex& searches() { return searches_; }
  /// Lowered limits, and no feature tiers.
  [[nodiscard]] const Caps& caps() const { return base_.caps; }
  /// Whether memory is filled before each run: see DeviceOptions::self_check.
  [[nodiscard]] bool self_checks() const { return self_checks_; }
  /// The word for the next run on the caller's buffers.
  [[nodiscard]] std::uint32_t next_poison();
  /// Bytes that buffers of a kind may still take: what the heap has, or the limit "memory_bytes", less the buffers that
  /// are alive. What other programs hold is not known.
  [[nodiscard]] std::uint64_t memory_left(vulkan::BufferKind kind) const;
  /// What buffers on the device may take in all.
  [[nodiscard]] std::uint64_t memory_limit() const { return memory_limit_; }

  /// Says something to whoever asked to be told.
  void log(LogLevel level, const std::string& sentence) const;

  [[nodiscard]] store::Store& store() { return *store_; }
  /// The next compile() of any kernel starts from the store, as in a new process: for measuring that.
  void forget_kernels();

  /// A self-test: a hand-written kernel whose results are known. Buffer 0 is `input`, 1 the results; with `subgroup`
  /// the workgroup consists of full subgroups of that size.
  struct KnownAnswer {
    std::string glsl, name;
    std::vector<std::uint32_t> input;
    std::size_t output_words = 0;
    std::uint32_t workgroups = 1, workgroup = 1, subgroup = 0;
  };
  /// What `wrong` says of the results: one sentence, or nothing, which is kept in the store for the next process with
  /// this driver. What is wrong is looked at again each time.
  Result<std::string> known_answer(const KnownAnswer& test,
                                   const std::function<std::string(const std::vector<std::uint32_t>& results)>& wrong);

  /// A pipeline of such a kernel.
  Result<vulkan::ComputePipeline> words_pipeline(const std::string& glsl, const std::string& name,
                                                 std::uint32_t workgroup, std::uint32_t subgroup = 0);

  Result<std::vector<MatrixShape>> tested_matrices();
  Result<bool> workgroup_tiles(DType dtype);
  Result<std::optional<MatrixShape>> matrix_sub_byte();
  /// See Target::costs: measured, or read from the store, on first demand. Nothing for CPU drivers, whose plans would
  /// differ with what else the machine does, and where "calibration" is switched off.
  Result<std::optional<CostModel>> costs();

  Result<void> upload(const vulkan::Buffer& to, std::uint64_t offset, std::span<const std::byte> bytes);
  Result<void> download(const vulkan::Buffer& from, std::uint64_t offset, std::span<std::byte> bytes);

 private:
  Context() = default;
  /// What open() and adopt() have in common.
  static Result<std::shared_ptr<Context>> over(std::shared_ptr<vulkan::Device> device, std::size_t index,
                                               const Caps& caps, const DeviceOptions& options);
  /// Of each of kMatrixKinds, why it is not used; empty if it is.
  using MissingMatrices = std::array<std::string, std::size(kMatrixKinds)>;
  Result<MissingMatrices> missing_matrices();
  Result<CompiledKernel> make_kernel(const codegen::Kernel& kernel);
  /// The device and the driver, down to its version.
  [[nodiscard]] std::string driver_key() const;
  [[nodiscard]] std::string pipeline_key(const codegen::Kernel& kernel) const;
  Result<std::vector<std::uint32_t>> run_words(const KnownAnswer& test);

  std::shared_ptr<vulkan::Device> device_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Shaders> shaders_;
  Target base_;  ///< T0 with the lowered limits
  std::vector<std::string> disabled_;
  int index_ = 0;
  std::function<void(LogLevel, std::string_view)> log_;
  std::uint64_t memory_limit_ = 0;
  bool self_checks_ = false;
  std::atomic<std::size_t> poisoned_runs_ = 0;
  std::function<bool(const codegen::Kernel&)> refuses_;
  Constants constants_;
  StoppableMutex searches_;
  std::mutex mutex_;
  std::optional<MissingMatrices> missing_matrices_;            ///< as tested on first demand
  std::map<DType, bool> workgroup_tiles_;                      ///< as tested on first demand
  std::optional<std::optional<MatrixShape>> matrix_sub_byte_;  ///< the same
  std::map<FeatureTier, std::string> missing_;
  std::optional<bool> exp_of_nan_;                                        ///< as tested on first demand
  std::optional<std::optional<CostModel>> costs_;                         ///< likewise
  std::map<std::string, std::shared_ptr<const CompiledKernel>> kernels_;  ///< by workgroup size and key
};

/// A device as users see it described. Sentences of tiers are filled in by the caller.
DeviceDescription describe(int index, const vulkan::DeviceInfo& info, const Caps& caps);

/// Lowers named limits and switches named features off; an error names what does not exist or what
/// would be raised. Names of tiers are left to the caller.
Result<void> restrict_caps(const DeviceOptions& options, Caps& caps);

/// The limit "memory_bytes": of the main heap, lowered where the options say so.
Result<std::uint64_t> restrict_memory(const DeviceOptions& options, std::uint64_t heap_bytes);

/// The costs of the open device from its store, else measured and stored; nothing where that is impossible.
Result<std::optional<CostModel>> calibrate(Context& context);

/// Whether exponentials and inverse roots of NaN and infinities are what IEEE has them be on the open device, which
/// offers keep_nan_f32.
Result<bool> test_exp_of_nan(Context& context);

/// A known-answer test of one feature tier on the open device: empty if it passed, else what is wrong.
Result<std::string> self_test(Context& context, FeatureTier tier);
/// The same of one product of T4.
Result<std::string> self_test_matrices(Context& context, const MatrixShape& shape);
/// The same of tiles of `dtype` that a workgroup multiplies as one.
Result<std::string> self_test_workgroup_tiles(Context& context, DType dtype);
/// The same of fragments of bits that become weights of four bits (Caps::matrix_sub_byte).
Result<std::string> self_test_sub_byte(Context& context, const MatrixShape& shape);

/// What is wrong with a tier's speed, measured once a device and driver: empty where it multiplies at least as fast as
/// threads do without it, or where nothing can be measured.
Result<std::string> compare_integer_dot(Context& context);
Result<std::string> compare_matrices(Context& context, const MatrixShape& shape);
/// 10^9 multiply-adds of bytes in a second; nothing where they cannot be measured.
Result<std::optional<double>> rate_of_integer_dot(Context& context);
/// The sentence for two rates in 10^9 multiply-adds a second, or nothing.
std::string slower_than_scalar(double rate, double lanes);

}  // namespace vkfuse::runtime
