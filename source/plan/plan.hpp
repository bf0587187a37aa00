// The chosen segments in order, what they move, and where intermediate values live.
#pragma once

#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "partition/partition.hpp"
#include "schedule/dispatch_split.hpp"

namespace vkfuse::plan {

/// One segment, in running order.
struct PlannedKernel {
  segment::Segment segment;
};

/// What a graph costs by the model, at the sizes that stood for symbols when it was planned.
struct Cost {
  std::int64_t bytes = 0;
  double microseconds = 0;
};

/// A rewrite of the whole graph, which was weighed against the one there was by then.
struct GraphRewrite {
  partition::PlannerPass planner_pass = partition::PlannerPass::merged_matmuls;
  Cost before;
  std::optional<Cost> with;  ///< nothing: it could not be planned
  bool taken = false;
  std::string refusal;            ///< why it could not be planned, in one sentence
  std::int64_t spared_bytes = 0;  ///< of the largest product that is then not stored, where it was taken for that
};

/// What such a rewrite is; empty of a planner pass that makes none.
std::string_view rewrite_text(partition::PlannerPass planner_pass);

/// Which kernel of another plan runs at each step, some of them more than once.
struct StepOrder {
  std::vector<std::size_t> kernels;
  /// Steps that store all that their kernel stores. Any other stores what outputs and later steps need.
  std::set<std::size_t> whole = {};
};

/// The most bytes that intermediate values of a run may take, and what became of the plan that takes more.
struct ArenaBudget {
  std::int64_t bytes = 0;
  std::int64_t arena_bytes_without = 0;  ///< of the plan without a budget, at the sizes that stood for symbols
  double microseconds_without = 0;
  /// What the plan was made of: the kernels of another form of the graph, and which of them runs at each step. Empty
  /// where the plan is the one without a budget.
  StepOrder order = {};
  std::vector<segment::Segment> segments = {};
  std::optional<ir::Graph> graph = {};
};

/// A plan is valid for every size of its symbols; loops, schedules and memory follow once those are known.
struct Plan {
  ir::Graph graph;
  Target target;
  std::vector<PlannedKernel> steps;
  std::vector<partition::FusionBoundary> fusion_boundaries;
  std::vector<GraphRewrite>
      rewrites;  ///< in the order in which they were weighed; those that do not apply to the graph are not there
  std::optional<ArenaBudget> budget = {};
};

/// How much faster a rewrite has to be, as a part of the time there was: where it moves more bytes, by ten times what
/// it moves more, up to 13 % as where windows are divided anew.
double asked_speedup(const Cost& before, const Cost& with);

/// Products that kernels would pass on in more bytes than this are computed where they are multiplied, if that takes at
/// most so many times as long: what a backward pass keeps is then in proportion to the positions, not to their square.
inline constexpr std::int64_t kLargeProduct = 256 << 20;
inline constexpr double kTimeForMemory = 2;

/// Partitions a graph that the pass pipeline has prepared.
Result<Plan> make_plan(ir::Graph graph, const Target& target, const partition::Options& options = {});

/// The bytes of a value that another buffer holds already.
struct Alias {
  ir::NodeId of = 0;  ///< an input, a constant or an output that a kernel writes
  std::int64_t offset = 0;
};

/// A part of a step's positions, which is a kernel of its own.
struct ScheduledDispatchPart {
  segment::Loops loops;  ///< as the schedule runs them
  schedule::Schedule schedule;
  std::map<ir::NodeId, schedule::Window> windows;
};

/// A step at given sizes.
struct ScheduledKernel {
  segment::Loops loops;  ///< as the schedule runs them
  schedule::Schedule schedule;
  /// Set: nothing has to run. The kernel is there for runs that bind the output to a buffer of its own.
  std::optional<Alias> alias;
  /// Where a value is over a limit of the device: what runs instead of `loops`. `schedule` is then the first one's,
  /// with the launch and the costs of all.
  std::vector<ScheduledDispatchPart> pieces;
};

/// A step that computes the same as an earlier one, of other values: layers that repeat.
struct StructuralDuplicate {
  std::size_t of = 0;
  std::vector<std::pair<ir::NodeId, ir::NodeId>> values;  ///< of that step, ascending, and what stands here for each
  /// The value of this step that corresponds to `there`, a value of the other one.
  [[nodiscard]] ir::NodeId here(ir::NodeId there) const;
};
/// One entry per step; nothing for the first of its kind.
using StructuralDuplicates = std::vector<std::optional<StructuralDuplicate>>;

/// Every step of a plan at given sizes, in order. A step that computes what an earlier one does shares what that one
/// has.
class ScheduledKernels {
 public:
  ScheduledKernels() = default;
  ScheduledKernels(std::vector<ScheduledKernel> all);  // NOLINT(google-explicit-constructor)
  explicit ScheduledKernels(std::shared_ptr<const StructuralDuplicates> duplicates)
      : duplicates_(std::move(duplicates)) {}

  void reserve(std::size_t count) { at_.reserve(count); }
  void add(ScheduledKernel step);
  /// The next one is as its original is, which is no alias.
  void add_duplicate();

  [[nodiscard]] std::size_t size() const { return at_.size(); }
  /// Whether the step shares what an earlier one has: its loops then name that one's values.
  [[nodiscard]] bool is_duplicate(std::size_t step) const;
  /// The loops are those of the original, and have its values.
  const ScheduledKernel& operator[](std::size_t step) const { return own_[at_[step]]; }
  [[nodiscard]] const ScheduledKernel& at(std::size_t step) const { return own_.at(at_.at(step)); }
  [[nodiscard]] const ScheduledKernel& front() const { return at(0); }
  /// What those loops call a value of the step.
  [[nodiscard]] ir::NodeId in_loops(std::size_t step, ir::NodeId value) const;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = ScheduledKernel;
    using difference_type = std::ptrdiff_t;
    using pointer = const ScheduledKernel*;
    using reference = const ScheduledKernel&;
    Iterator(const ScheduledKernels* steps, std::size_t step) : steps_(steps), step_(step) {}
    reference operator*() const { return (*steps_)[step_]; }
    pointer operator->() const { return &(*steps_)[step_]; }
    Iterator& operator++() {
      ++step_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++step_;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const ScheduledKernels* steps_;
    std::size_t step_;
  };
  [[nodiscard]] Iterator begin() const { return {this, 0}; }
  [[nodiscard]] Iterator end() const { return {this, size()}; }

 private:
  std::vector<ScheduledKernel> own_;
  std::vector<std::uint32_t> at_;  ///< of `own_`, for each step
  std::shared_ptr<const StructuralDuplicates> duplicates_;
};

/// Chooses how a step runs whose loops have been built; nothing: as is best.
using Choose = std::function<std::optional<ScheduledKernel>(std::size_t step, const segment::Loops& loops)>;

/// Whether a step runs as its original among those before it, so that its loops need not be built.
using Reuse = std::function<bool(std::size_t step)>;

/// Steps that repeat, and which of them run as their originals.
struct DuplicateSteps {
  std::shared_ptr<const StructuralDuplicates> duplicates;
  Reuse reuse;
};

/// Every step at these sizes, in order.
Result<std::vector<ScheduledKernel>> schedule_all(const Plan& plan, const SymbolValues& symbols,
                                                  const schedule::Tuning& tuning = {}, const Choose& choose = {});
/// The same where steps have duplicates.
Result<ScheduledKernels> schedule_steps(const Plan& plan, const SymbolValues& symbols, const schedule::Tuning& tuning,
                                        const Choose& choose, const DuplicateSteps& repeated);

/// Where each intermediate value lives in the arena.
struct Slot {
  ir::NodeId value = 0;  ///< or scratch_id() of a step, or counters_id() of all
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::size_t written = 0, read = 0;  ///< steps: that writes it, and the last that reads it
};

/// Stands for the partial results of a step where a value's id is asked for.
inline ir::NodeId scratch_id(const Plan& plan, std::size_t step) {
  return static_cast<ir::NodeId>(plan.graph.size() + step);
}

/// Stands for the counts of a step's workgroups (Schedule::counter_bytes); with the number of all steps, for those of
/// all of them.
inline ir::NodeId counters_id(const Plan& plan, std::size_t step) {
  return static_cast<ir::NodeId>(plan.graph.size() + plan.steps.size() + step);
}

/// What a run may write over, and what it has to find room for beside intermediate values.
struct Donations {
  std::map<ir::NodeId, std::int64_t> inputs;  ///< inputs that nobody needs afterwards, and the bytes of their buffers
  std::vector<ir::NodeId> outputs;            ///< outputs that have no buffer of their own
  friend bool operator==(const Donations&, const Donations&) = default;
};

struct Memory {
  /// Values written by one step and read by a later one, not outputs; scratch of steps. A value whose every element
  /// takes the place of the one that the same invocation read for the last time lies in the same bytes.
  std::vector<Slot> slots;
  /// Those of steps in the slot of counters_id(), which is 0 before a run and after it and holds nothing else.
  std::vector<Slot> counters;
  std::int64_t arena_bytes = 0;  ///< of all pieces
  /// The arena is one buffer, or several where the device allocates no more at once: the slot at `offset` is in the
  /// piece offset / piece_bytes.
  std::int64_t piece_bytes = 0;
  std::vector<std::int64_t> pieces;
  /// What is larger than the device allocates at once: buffers of their own, for one value after the other. `each`: see
  /// schedule::bytes_of_each_buffer.
  struct Large {
    std::int64_t bytes = 0;
    std::int64_t each = 0;
    friend bool operator==(const Large&, const Large&) = default;
  };
  std::vector<Large> large;
  std::map<ir::NodeId, std::size_t> in_large;  ///< the values that lie in them
  /// Bytes of the slots that are alive during the step with most of them, those in the same bytes counted once: no
  /// arena can be smaller.
  std::int64_t largest_live = 0;
  /// Values that lie at the start of the buffer of a donated input instead.
  std::map<ir::NodeId, ir::NodeId> in_inputs;
};

/// Packs intermediate values by lifetime: a slot is free again after the last step that reads it, a donated input's
/// buffer after the last step that reads the input, or during it where each element is replaced by the invocation that
/// read it. Offsets are multiples of max(256, the device's offset alignment). ErrorCode::out_of_memory where the arena
/// would be larger than the plan's budget.
Result<Memory> plan_memory(const Plan& plan, const SymbolValues& symbols, const ScheduledKernels& steps,
                           const Donations& donations = {});

/// Whether every load of `read` is of an element that the same invocation stores to `stored`, after it has loaded all
/// of its own.
bool reads_own_place(const Plan& plan, const ScheduledKernels& steps, std::size_t step, ir::NodeId read,
                     ir::NodeId stored);

/// What one run does, all kernels together.
struct Totals {
  std::int64_t launches = 0;
  std::int64_t bytes = 0;
  std::int64_t loads = 0;
  std::int64_t stores = 0;
  std::int64_t transactions = 0;
  std::int64_t arena_bytes = 0;
  double modelled_us = 0;
  segment::Proof proof;  ///< of accesses that stay inside their buffers
};
Result<Totals> totals(const Plan& plan, const SymbolValues& symbols);

/// What a driver says of a compiled kernel; empty where it does not tell.
struct KernelFigures {
  std::optional<std::int64_t> registers, spills, code_bytes;
};

/// What is known of the compiled kernels of each step. Both lists have one entry per step, or are empty.
struct CompiledSteps {
  std::vector<KernelFigures> figures;
  std::vector<std::string> code;  ///< the shaders of a step
};

/// The name of an op; of the user's own with what the user calls it.
std::string op_text(const ir::Node& node);

/// Device times of one run, where somebody has measured them.
struct Measured {
  std::vector<double> steps_us;      ///< of each step, those without a kernel included; empty: nobody has
  std::optional<double> unfused_us;  ///< of a run with one kernel per op
  [[nodiscard]] std::optional<double> fused_us() const;
};

/// Why a value is stored, in sentences.
std::string text_of(const std::vector<partition::Refusal>& reasons);

/// The plan as a person reads it, and as JSON with the fields of docs/command-line.md. `unfused` is the
/// plan of the same graph with one kernel per op, or why there is none; `figures` has one entry per step, or is empty.
Result<std::string> to_text(const Plan& plan, const Result<Plan>& unfused, const SymbolValues& symbols,
                            const Measured& measured = {});
Result<std::string> to_json(const Plan& plan, const Result<Plan>& unfused, const SymbolValues& symbols,
                            const std::vector<KernelFigures>& figures, const Measured& measured = {});
/// The same as one page for a browser, which needs nothing else: the graph as a drawing with a box for each kernel.
Result<std::string> to_html(const Plan& plan, const Result<Plan>& unfused, const SymbolValues& symbols,
                            const CompiledSteps& compiled, const Measured& measured = {});

}  // namespace vkfuse::plan
