// Kernel texts that serve many sizes: what a new size needs of a compiler is nothing.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "lowering/input.hpp"
#include "plan/plan.hpp"

namespace vkfuse::runtime {

/// A symbol's sizes that share texts: 1; else those up to `end`, a power of two times 512 that is the least of its
/// kind, and of them those that the widest accesses divide, or all others.
struct ShapeBucket {
  enum class Kind : std::uint8_t { one, multiple, other };
  Kind kind = Kind::one;
  std::int64_t end = 1;
  friend auto operator<=>(const ShapeBucket&, const ShapeBucket&) = default;
};

/// The kernels of a step as it is scheduled, piece by piece where it runs in pieces.
Result<std::vector<lowering::Kernel>> write_kernels(const plan::Plan& plan, std::size_t step,
                                                    const plan::ScheduledKernel& scheduled,
                                                    lowering::LoweringOptions options);

/// Steps that compute the same as an earlier one.
plan::StructuralDuplicates structural_duplicates_of(const plan::Plan& plan);

/// A kernel at given sizes: what all sizes share, and what a launch adds.
struct Launch {
  std::shared_ptr<const lowering::Kernel> kernel;  ///< its own launch is of whatever sizes it was made at
  std::shared_ptr<const std::vector<std::uint32_t>> constants;
  std::uint32_t groups_x = 0;
  std::uint32_t groups_y = 1;

  /// As the kernel has it.
  static Launch of(lowering::Kernel kernel);
  /// The kernel with this launch.
  [[nodiscard]] lowering::Kernel whole() const;
};
/// Of a step, one per dispatch.
using Launches = std::vector<Launch>;
Launches launches_of(std::vector<lowering::Kernel> kernels);

struct CompiledKernel;

/// The kernels of a plan's steps at given sizes. A step's text is chosen and written at sizes that stand for all of
/// their class, two of them, which agree on every number that is none of the sizes'. The loops are those of the actual
/// sizes, and so is every number: where they would give another text, that one is used. Thread-safe.
class ShapeBuckets {
 public:
  /// `plan` outlives it.
  ShapeBuckets(const plan::Plan& plan, schedule::Tuning tuning, lowering::LoweringOptions options);

  /// Kernels of one text in the driver, once they are.
  class Compiled {
   public:
    using Kernels = std::vector<std::shared_ptr<const CompiledKernel>>;
    [[nodiscard]] Kernels get() const {
      const std::lock_guard<std::mutex> lock(mutex_);
      return kernels_;
    }
    void set(Kernels kernels) {
      const std::lock_guard<std::mutex> lock(mutex_);
      kernels_ = std::move(kernels);
    }

   private:
    mutable std::mutex mutex_;
    Kernels kernels_;
  };

  /// One entry per step; schedules as well.
  struct Written {
    plan::ScheduledKernels steps;
    std::vector<Launches> kernels;
    std::vector<std::shared_ptr<Compiled>> compiled;  ///< null where the text is of these sizes alone
  };
  Result<Written> write(const SymbolValues& symbols);
  /// The schedules alone.
  Result<plan::ScheduledKernels> schedule(const SymbolValues& symbols);

  struct WrittenKernel {
    plan::ScheduledKernel scheduled;
    Launches kernels;
  };
  /// One step as it would be with another tuning, which is forgotten again.
  Result<WrittenKernel> write_planned_kernel(std::size_t step, const SymbolValues& symbols,
                                             const schedule::Tuning& tuning) const;
  /// From now on the step has this tuning at all sizes of the class of these.
  void tune(std::size_t step, const SymbolValues& symbols, const schedule::Tuning& tuning);

 private:
  /// What the sizes of a class share in one step.
  struct BucketKernels {
    plan::ScheduledKernel model;
    std::vector<lowering::RelocatableKernel> relocatables;
    std::vector<lowering::SizeBinding> size_bindings;              ///< of each
    std::vector<std::shared_ptr<const lowering::Kernel>> kernels;  ///< at the model's sizes
    std::shared_ptr<Compiled> compiled = std::make_shared<Compiled>();
    std::shared_ptr<const BucketKernels> original;  ///< the form of the step's original, if the texts are the same
    /// Whether the texts are those of another step.
    [[nodiscard]] bool has_text_of(const BucketKernels& other) const;
  };
  using BucketKey = std::map<std::string, ShapeBucket>;
  /// Of each step; null: there is none, or nobody has asked.
  using PerKernel = std::vector<std::shared_ptr<const BucketKernels>>;

  /// With the form of each step, or null.
  Result<plan::ScheduledKernels> schedule(const SymbolValues& symbols, PerKernel& used);
  std::shared_ptr<const BucketKernels> bucket_kernels_of(std::size_t step, const BucketKey& bucket_key);
  /// Those that are known.
  PerKernel known_bucket_kernels(const BucketKey& bucket_key);
  [[nodiscard]] BucketKey bucket_key_of(std::size_t step, const SymbolValues& symbols) const;
  [[nodiscard]] schedule::Tuning tuning_of(std::size_t step, const BucketKey& bucket_key);
  [[nodiscard]] static bool varies(const BucketKey& bucket_key);
  [[nodiscard]] std::optional<BucketKernels> make_bucket_kernels(std::size_t step, const BucketKey& bucket_key,
                                                                 const schedule::Tuning& tuning) const;
  [[nodiscard]] std::optional<BucketKernels> bucket_kernels_at(std::size_t step, const SymbolValues& one,
                                                               const SymbolValues& other,
                                                               const schedule::Tuning& tuning) const;
  [[nodiscard]] std::optional<plan::ScheduledKernel> schedule_at_other_sizes(const BucketKernels& bucket_kernels,
                                                                             const segment::Loops& loops) const;
  [[nodiscard]] Result<std::vector<lowering::RelocatableKernel>> relocatable(
      std::size_t step, const plan::ScheduledKernel& scheduled, const plan::ScheduledKernel* reference_kernel) const;
  /// The form's kernels with the numbers of a step at other sizes, if that is what its text would be.
  [[nodiscard]] std::optional<Launches> fill(std::size_t step, const BucketKernels& bucket_kernels,
                                             const plan::ScheduledKernel& scheduled) const;
  [[nodiscard]] Result<std::vector<lowering::Kernel>> own_text(std::size_t step,
                                                               const plan::ScheduledKernel& scheduled) const;

  const plan::Plan& plan_;
  std::vector<std::int64_t> runs_;  ///< widest_run() of each step
  std::shared_ptr<const plan::StructuralDuplicates> duplicates_;
  schedule::Tuning tuning_;
  lowering::LoweringOptions options_;
  std::mutex mutex_;
  struct Known {
    PerKernel known_kernels;
    std::vector<bool> asked;  ///< null forms of these steps are known to be none
  };
  std::map<BucketKey, Known> shape_buckets_;
  std::vector<std::map<BucketKey, schedule::Tuning>> tuned_;  ///< of each step
};

}  // namespace vkfuse::runtime
