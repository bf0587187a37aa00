// How a segment runs on a target: which template, which elements belong to which invocation, vector
// widths, workgroup size; and what that moves. The partitioner asks here; it never decides by itself
// whether a kernel is possible.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "base/error.hpp"
#include "base/target.hpp"
#include "segment/loops.hpp"
#include "templates/attention/params.hpp"
#include "templates/custom/params.hpp"
#include "templates/matmul/params.hpp"
#include "templates/pointwise/params.hpp"
#include "templates/reduction/params.hpp"
#include "templates/sort/params.hpp"
#include "templates/stencil/params.hpp"
#include "templates/transpose/params.hpp"

namespace vkfuse::schedule {

enum class Template : std::uint8_t {
  pointwise,  ///< every invocation owns whole chunks of consecutive elements
  reduction,  ///< threads share the columns of a row and reduce across each other
  sort,       ///< a workgroup sorts rows, or blocks of a row, in shared memory
  matmul,     ///< a workgroup owns a tile of contractions; both operands cross shared memory, tile by tile
  attention,  ///< products weighted by a softmax, which need not exist as a whole, nor what it is of
  stencil,    ///< a thread owns a block of reductions over small windows
  transpose,  ///< a workgroup owns a box of positions: what is read along other axes than stored crosses shared memory
  custom,     ///< a kernel of the user's, in workgroups and over tiles as the user says
};
std::string_view name_of(Template kind);

/// How an access reaches the elements of a chunk: `chunk_size` neighbours along the vector axis.
enum class AccessKind : std::uint8_t {
  vector,      ///< whole vectors
  scalar,      ///< one element for the whole chunk
  uniform,     ///< one element for the whole kernel
  element,     ///< addressed element by element
  transposed,  ///< tiled: vectors along its own axes, handed to the chunks through shared memory
  unaligned,   ///< the words around a run of 16-bit elements, or every second of one, that may begin in the middle of a
               ///< word; those outside the buffer replaced
  opaque,      ///< however the user's kernel does
};
std::string_view name_of(AccessKind kind);

struct AccessPlan {
  AccessKind kind = AccessKind::element;
  int vector_bytes = 0;  ///< of one load or store instruction
  int repeat = 1;        ///< of a vector load: so many neighbours of the chunk are one element of memory
  int step = 1;          ///< of a shifted load: between neighbours of the chunk, in elements of memory, 1 or 2
  std::int64_t run = 1;  ///< of a transposed load: consecutive elements of memory that a tile reads
};

/// The choices of the templates, in the order of Template.
using TemplateParams = std::variant<PointwiseParams, ReductionParams, SortParams, MatmulParams, AttentionParams,
                                    StencilParams, TransposeParams, CustomParams>;

/// What has become of a segment's loops before they were scheduled, in this order.
struct LoopTransforms {
  bool sunk_scales = false;      ///< segment::with_sunk_scales
  bool sunk_literals = false;    ///< segment::with_sunk_literals
  int register_block_axis = -1;  ///< segment::with_register_blocking; -1: every thread has one row
  int register_block_rows = 1;
  bool online = false;            ///< segment::with_online_reductions: pairs of reductions in one pass
  int merged_reduction_axes = 1;  ///< the innermost so many reduction axes are counted as one
};

/// The launch at these sizes.
struct LaunchSizes {
  std::int64_t elements = 0;
  std::int64_t chunks = 0;
  std::int64_t parallel_chunks = 0;   ///< where rows are reduced or sorted: groups of rows that threads own
  std::int64_t reduction_chunks = 0;  ///< and chunks along their columns
  std::int64_t workgroups = 0;
  std::int64_t workgroups_x = 0;  ///< of one row of the dispatch; the last row may have idle ones
};

/// What a schedule moves and executes, as the cost model has it.
struct ScheduleCost {
  std::int64_t bytes_read = 0;  ///< each element once
  std::int64_t bytes_written = 0;
  std::int64_t bytes_read_again = 0;  ///< by later passes over rows of which no cache holds as many as are in flight
  std::int64_t loads_executed = 0;    ///< load instructions, all threads together
  std::int64_t stores_executed = 0;
  std::int64_t transactions = 0;  ///< 128-byte lines touched per subgroup-wide access, summed
  int registers = 0;              ///< estimate of live 32-bit values per thread
  double modelled_us = 0;
};

/// The choices, and what they cost.
struct Schedule {
  TemplateParams params;
  LoopTransforms transforms;
  int chunk_size = 1;
  int unroll_factor = 1;  ///< chunks per thread; their loads are issued together
  int workgroup = 1;
  int vector_axis = -1;            ///< the loop axis along which a chunk's elements lie; -1: there is none
  bool full_chunks = false;        ///< no chunk has fewer elements than the others
  bool crosses_rows = false;       ///< chunks may cross rows of the vector axis; coordinates are per element
  bool wide = false;               ///< more than 2^31 elements: no 31-bit division tricks
  bool reads_of_others = false;    ///< an invocation may read, for its results, where another one stores
  std::vector<AccessPlan> loads;   ///< one per value of the loops; of those that are loads
  std::vector<AccessPlan> stores;  ///< of Loops::stores
  int splits = 1;  ///< workgroups per row, per tile of a matmul (split-K) or of attention; more than 1: one dispatch
                   ///< per pass, and one for the results where the last workgroup of a tile does not compute them
  int dispatches = 1;
  int subgroup = 0;                ///< threads of a subgroup that shuffles serve; 0: shared memory alone
  std::int64_t scratch_bytes = 0;  ///< device memory for partial results
  std::int64_t counter_bytes = 0;  ///< and for counts of workgroups that have left theirs: 0 before a run and after it
  std::int64_t shared_bytes = 0;
  LaunchSizes launch;
  ScheduleCost cost;

  /// Workgroups that share one of so many tiles or rows count themselves: the last one goes on with what they have
  /// left.
  void count_workgroups(std::int64_t shared) {
    counter_bytes = ceil_div(4 * shared, kBindingGranule) * kBindingGranule;
    shared_bytes += kBytesOfCount;
  }
  /// What each of them has found in its count, in shared memory.
  static constexpr std::int64_t kBytesOfCount = 16;

  [[nodiscard]] Template kind() const { return static_cast<Template>(params.index()); }
  /// The choices of the template that this is a schedule of.
  template <typename Params>
  [[nodiscard]] Params& as() {
    check(std::holds_alternative<Params>(params), "a schedule is read as one of its template");
    return *std::get_if<Params>(&params);
  }
  template <typename Params>
  [[nodiscard]] const Params& as() const {
    check(std::holds_alternative<Params>(params), "a schedule is read as one of its template");
    return *std::get_if<Params>(&params);
  }
  /// The same, null where it is one of another.
  template <typename Params>
  [[nodiscard]] const Params* get_if() const {
    return std::get_if<Params>(&params);
  }
};

/// The choices of a schedule's template in words, for reports and plan files: equal descriptions, equal kernels.
struct Description {
  nlohmann::ordered_json choices = nlohmann::ordered_json::object();  ///< names as in docs/command-line.md
  std::string launch;  ///< what a plan prints after "launch: "; empty: workgroups, elements and chunks as usual
  std::vector<std::string> more_launch;  ///< lines below that
};

/// What is scheduled, and where.
struct Problem {
  const ir::Graph& graph;
  const segment::Loops& loops;
  const Target& target;
  const Tuning& tuning;
  segment::AxisSet varying = 0;  ///< axes that have other sizes where the same text runs

  /// The same for loops that these have been transformed into.
  [[nodiscard]] Problem with(const segment::Loops& transformed) const {
    return {graph, transformed, target, tuning, varying};
  }
};

/// Whether products are made by cooperative matrices, where they suit.
bool uses_cooperative_matrices(const Problem& problem);

/// The loops as the schedule runs them, whose values its `loads` are of: with pairs in one pass, or with scales
/// after sums, where it says so.
segment::Loops scheduled_loops(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule);

/// The innermost `count` reduction axes of loops without keys counted as one.
segment::Loops merge_reduction_axes(const segment::Loops& loops, int count);

/// Whether a value differs between the elements of one chunk.
bool varies_in_chunk(const segment::Loops& loops, const Schedule& schedule, const segment::Value& value);

/// The axes of a set, outermost first.
std::vector<int> axes_in(const segment::Loops& loops, segment::AxisSet set);

/// The values that `value` is computed from, itself included, up to (and without) reductions and `stops`.
std::vector<segment::ValueId> backward_slice_of(const segment::Loops& loops, segment::ValueId value,
                                                std::span<const segment::ValueId> stops = {});

/// The same of all stores and epilogue reductions: what is computed after the reductions.
std::vector<segment::ValueId> backward_slice_of_results(const segment::Loops& loops);

/// The distinct buffers that are loaded, in the order of their first load.
std::vector<ir::NodeId> buffers_read(const segment::Loops& loops);

/// Stand-ins for symbols where a plan is made before the sizes are known: about 4096, less where
/// several of them would make a large tensor, within the facts of each symbol.
SymbolValues representative_symbols(const ir::Graph& graph);

/// Conservative constants of a device type.
CostModel default_costs(DeviceType type);
/// What was measured on the device, else the constants of its type.
CostModel costs_of(const Target& target);

/// Whether kernels may count on subgroups that are full and whose threads exchange values.
bool may_shuffle(const Target& target);

/// What a thread may be estimated to want, so that its values do not spill into memory.
int thread_register_limit(const Target& target);
/// Whether so many threads, each with the estimate, want more registers than a workgroup has.
bool overfills_registers(const Target& target, std::int64_t estimated, std::int64_t threads);
/// By how many registers an estimate is over that.
int registers_over(const Target& target, int estimated);
/// What arithmetic takes longer in a thread of so many: 1 where it has them.
double cost_of_spilling(const Target& target, int estimated);

}  // namespace vkfuse::schedule
