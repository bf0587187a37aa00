// A plan bound to a device: kernels per size, buffers, recorded commands.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "device_model/device_model.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "runtime/context.hpp"
#include "runtime/shape_buckets.hpp"
#include "vkfuse/executable.hpp"
#include "vulkan/command_buffer.hpp"

namespace vkfuse::runtime {

struct ProgramOptions {
  lowering::Numerics numerics = lowering::Numerics::standard;
  bool fusion = true;
  partition::Options planning;  ///< but for `fusion`
  passes::Options passes;
  std::string plan;                ///< of a file: nothing is planned, and `planning` is not looked at
  schedule::Tuning tuning;         ///< for sweeps and tests
  std::optional<CostModel> costs;  ///< that planning counts with instead of the device's own: for tests
  std::optional<DeviceIdentity>
      planned_as;  ///< the device that kernels are planned for instead: for tests. Its texts live on
  /// What one submission may take: drivers reset a device after some seconds, and others wait meanwhile.
  double longest_submission_us = 250e3;
};

/// The times that a specialization's runs have taken. Thread-safe.
struct Pace {
  /// What else the machine did made the others longer. 0: it has not run yet.
  std::atomic<double> shortest_us = 0;
  /// From the submission of a run to the end that was waited for, the last time: where the next is expected to end.
  /// 0: none was waited for.
  std::atomic<std::int64_t> waited_ns = 0;

  void note(double microseconds);
  /// Waits for a run, whose end it expects where the last one's was.
  Result<void> wait_for(const vulkan::Submission& run);
};

/// A plan of the program's graph, and the texts of its kernels.
struct Planned {
  Planned(plan::Plan made, schedule::Tuning tuning, lowering::LoweringOptions emitting)
      : plan(std::move(made)), shape_buckets(plan, std::move(tuning), std::move(emitting)) {}
  plan::Plan plan;
  ShapeBuckets shape_buckets;
  std::size_t alone_count = 0;  ///< ops that were to have a kernel each when it was made
};

/// The memory of runs that inputs are given away to, planned once for as long as the same are: a training step gives
/// the same away each time, and to plan a thousand values takes longer than to run a small model. Thread-safe.
class DonatedMemory {
 public:
  using Planning = std::function<Result<plan::Memory>()>;
  Result<std::shared_ptr<const plan::Memory>> find(const plan::Donations& donations, const Planning& planning);

 private:
  std::mutex mutex_;
  plan::Donations donations_;                   ///< of the last run
  std::shared_ptr<const plan::Memory> memory_;  ///< for them
};

/// What a run needs at one set of sizes; no device memory yet.
struct Specialization {
  SymbolValues symbols;
  /// Set: a kernel of the program's plan is impossible at these sizes, and this plan is run in its place.
  std::shared_ptr<Planned> other;
  plan::ScheduledKernels steps;
  /// Per step. Those of an alias are compiled when a run copies it.
  std::vector<Launches> kernels;
  std::vector<std::vector<std::shared_ptr<const CompiledKernel>>> compiled;
  plan::Memory memory;
  mutable Pace pace;
  mutable DonatedMemory donated;

  /// That a step's kernels read and write.
  [[nodiscard]] std::uint64_t bytes_moved(std::size_t step) const {
    const schedule::Schedule& schedule = steps[step].schedule;
    return steps[step].alias ? 0
                             : static_cast<std::uint64_t>(schedule.cost.bytes_read + schedule.cost.bytes_read_again +
                                                          schedule.cost.bytes_written);
  }

  /// Of a whole run.
  [[nodiscard]] double modelled_us() const;
  /// As measured; before the first run, as modelled.
  [[nodiscard]] double expected_us() const;
  /// Of a run whose outputs are where the plan has them.
  [[nodiscard]] int dispatches() const {
    int count = 0;
    for (std::size_t i = 0; i < kernels.size(); ++i) count += steps[i].alias ? 0 : static_cast<int>(kernels[i].size());
    return count;
  }
};

/// Workgroups of one dispatch: all of them, or a rectangle.
struct Unit {
  std::size_t step = 0;
  std::size_t dispatch = 0;  ///< of the step
  std::uint32_t base_x = 0, base_y = 0;
  std::uint32_t groups_x = 0, groups_y = 0;
};
/// What is submitted at once, in running order.
using Part = std::vector<Unit>;

/// Where each value of a run lives.
using Ranges = std::map<ir::NodeId, vulkan::BufferRange>;

bool overlap(const vulkan::BufferRange& a, const vulkan::BufferRange& b);

/// The scratch memory of a step as a binding has it: that of a sort has two halves where one is read while the other is
/// written.
vulkan::BufferRange scratch_range(vulkan::BufferRange all, const schedule::Schedule& schedule,
                                  const lowering::Binding& binding);

/// Times of one run.
struct StepTime {
  std::string kernel;
  double microseconds = 0;
  std::uint64_t bytes = 0;
};

class Program {
 public:
  /// Plans a graph (after the pass pipeline) and compiles its kernels for the sizes it declares, or
  /// for representative ones where they are symbolic.
  static Result<std::shared_ptr<Program>> create(std::shared_ptr<Context> context, const ir::Graph& graph,
                                                 const ProgramOptions& options);

  /// Whether create() would succeed, as far as can be told without a compiler.
  static Result<void> check(Context& context, const ir::Graph& graph, const ProgramOptions& options);

  [[nodiscard]] const plan::Plan& plan() const { return plan_; }
  /// The plan that a specialization runs: of the same graph, as a rule plan().
  [[nodiscard]] const plan::Plan& plan_of(const Specialization& specialization) const {
    return specialization.other ? specialization.other->plan : plan_;
  }
  [[nodiscard]] const std::shared_ptr<Context>& context() const { return context_; }
  [[nodiscard]] const ProgramOptions& options() const { return options_; }
  /// Input nodes of the plan's graph in the order in which the program has them.
  [[nodiscard]] const std::vector<ir::NodeId>& inputs() const { return inputs_; }

  /// The specialization for these sizes, compiled on first use. Thread-safe.
  Result<std::shared_ptr<const Specialization>> specialization(const SymbolValues& symbols);
  /// A kernel of the specialization; that of an alias is compiled now.
  [[nodiscard]] Result<std::shared_ptr<const CompiledKernel>> compiled(const Specialization& specialization,
                                                                       std::size_t step, std::size_t dispatch) const;
  /// Sizes that stand for the symbols where none are given.
  [[nodiscard]] const SymbolValues& representative() const { return representative_; }

  /// Checks sizes of inputs against the graph and each other.
  Result<SymbolValues> symbols_for(const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes) const;

  /// Fails on a symbol that the program has not, as it was written down: the passes may have left nothing of one that
  /// it has.
  [[nodiscard]] Result<void> check_symbols(const SymbolValues& symbols) const;

  /// Bytes of each named input and output at these sizes.
  Result<std::int64_t> bytes_of(ir::NodeId value, const SymbolValues& symbols) const;

  /// A buffer for a value at these sizes: in pieces where the device allocates no more at once.
  Result<vulkan::Buffer> make_buffer(ir::NodeId value, const SymbolValues& symbols, vulkan::BufferKind kind) const;
  /// Bytes of each of those pieces; 0: one buffer has them all.
  Result<std::uint64_t> piece_bytes(ir::NodeId value, const SymbolValues& symbols) const;

  /// Whether a step's value is an alias, and bound to the very bytes that it stands for.
  [[nodiscard]] bool is_in_place(const Specialization& specialization, const Ranges& ranges, std::size_t step) const;

  /// Records all steps but aliases that lie where they should: barriers for real hazards only. Timestamps, if a pool is
  /// given, around each step. `ranges` has every input, output, constant and arena value.
  Result<void> record(vulkan::CommandBuffer& commands, const Specialization& specialization, const Ranges& ranges,
                      const vulkan::TimestampPool* timestamps = nullptr) const;

  /// A run as submissions that are expected to take no longer than the options say: one, as a rule.
  [[nodiscard]] std::vector<Part> parts(const Specialization& specialization) const;
  /// Records one of them. What the parts before wrote must be visible to its kernels.
  Result<void> record_part(vulkan::CommandBuffer& commands, const Specialization& specialization, const Ranges& ranges,
                           const Part& part, const vulkan::TimestampPool* timestamps = nullptr) const;

  /// A step as it would run with another tuning.
  [[nodiscard]] Result<ShapeBuckets::WrittenKernel> write_planned_kernel(const Specialization& specialization,
                                                                         std::size_t step,
                                                                         const schedule::Tuning& tuning) const;
  /// Steps run with these tunings from now on, at the specialization's sizes and those that share texts with them. Runs
  /// that have begun end as they began.
  void adopt(const Specialization& specialization, const std::map<std::size_t, schedule::Tuning>& tunings);
  /// How often something was adopted.
  [[nodiscard]] std::uint64_t adoptions() const { return adoptions_; }

  /// The buffers of constants, uploaded on first use and shared by all runs of all programs of the device.
  Result<Ranges> constant_ranges();

  /// Bytes of one run at these sizes. Nothing is compiled or allocated.
  Result<MemoryUse> memory(const SymbolValues& symbols);
  /// One sentence with the bytes that are needed and those that there are, unless the run can get its memory: the arena
  /// and the constants that are not on the device yet, and where `ports` all its inputs and outputs.
  Result<void> check_memory(const Specialization& specialization, const plan::Memory& memory, bool ports);

  /// An output may share an input's buffer only if that is harmless: the same bytes, read at the same
  /// place by the kernel that writes them, and by none after it.
  Result<void> check_sharing(const Specialization& specialization, const Ranges& ranges) const;

  /// The plan of the same graph with one kernel per op, for comparison.
  Result<plan::Plan> unfused_plan() const;

 private:
  Program() = default;
  [[nodiscard]] std::shared_ptr<const Specialization> known_specialization(const SymbolValues& symbols);
  Result<MemoryUse> memory_of(const SymbolValues& symbols, const plan::ScheduledKernels& steps,
                              const plan::Memory& memory) const;
  Result<std::shared_ptr<const Specialization>> make_specialization(const SymbolValues& symbols);
  /// Plans; nothing is compiled.
  Result<void> prepare(Context& context, const ir::Graph& graph, const ProgramOptions& options);
  /// Schedules and kernel texts for these sizes; nothing is compiled.
  Result<std::shared_ptr<Specialization>> write_specialization(
      const SymbolValues& symbols, std::vector<std::shared_ptr<ShapeBuckets::Compiled>>& known);
  /// Of a graph without symbols.
  Result<void> write_fixed(Specialization& specialization) const;
  using Attempt = std::function<Result<void>(ShapeBuckets&, const std::shared_ptr<Planned>&)>;
  /// Tries what a plan is needed for with the program's own, then with those that other sizes have needed, then with
  /// one that is made for these sizes. If that fails too, the first error.
  Result<void> with_plan_for(const SymbolValues& symbols, const Attempt& attempt);
  Result<std::shared_ptr<Planned>> plan_again(const SymbolValues& symbols) const;
  /// After `error` of the compiler: the ops of the kernel that it refuses have a kernel each in the next plan, and the
  /// variant's plan is used no more. False where its plan had them alone already, or where defects are to show
  /// (DeviceOptions::self_check). Other threads may have set them apart since its plan was made.
  bool set_apart(const Specialization& specialization, const Error& error);
  [[nodiscard]] bool is_refused(const plan::Plan& plan) const;
  void note_constants(const plan::Plan& plan);
  /// `known`: one entry per step, or none; see ShapeBuckets::Written.
  Result<void> compile_kernels(Specialization& specialization,
                               const std::vector<std::shared_ptr<ShapeBuckets::Compiled>>& known) const;

  std::shared_ptr<Context> context_;
  ProgramOptions options_;
  ir::Graph prepared_;  ///< by the passes; that of the plan may have norms with partial statistics
  plan::Plan plan_;
  SymbolValues representative_;                  ///< of the plan's graph, all of which is looked at for them
  std::unique_ptr<ShapeBuckets> shape_buckets_;  ///< where the graph has symbols
  std::vector<ir::NodeId> inputs_;
  std::set<std::string, std::less<>> symbols_;  ///< of the graph as it was written down
  mutable std::mutex mutex_;
  std::map<ir::NodeId, ir::Bytes> constants_read_;  ///< by some step of some plan
  std::vector<std::shared_ptr<Planned>> others_;    ///< plans for sizes at which the first one is impossible
  std::set<ir::NodeId> alone_;                      ///< partition::Options::alone of plans that are made from now on
  /// Plans that have a kernel which the compiler refuses, and what holds them; null for `plan_`.
  std::map<const plan::Plan*, std::shared_ptr<Planned>> refused_plans_;
  std::map<SymbolValues, std::shared_ptr<const Specialization>> specializations_;
  std::map<std::size_t, schedule::Tuning> tuned_;  ///< where the graph has no symbols
  std::atomic<std::uint64_t> adoptions_ = 0;
  std::list<SymbolValues> recent_;  ///< most recently used first
  std::map<ir::NodeId, std::shared_ptr<const DeviceConstant>> constants_;
};

}  // namespace vkfuse::runtime
