// How a segment runs on a target: which template, which elements belong to which invocation, vector
// widths, workgroup size; and what that moves. The partitioner asks here; it never decides by itself
// whether a kernel is possible.
#pragma once

#include <optional>

#include "base/target.hpp"
#include "segment/loops.hpp"

namespace vkfuse::schedule {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

enum class Template : std::uint8_t {
  pointwise,  ///< every invocation owns whole chunks of consecutive elements
  reduction,  ///< threads share the columns of a row and fold across each other
  sort,       ///< a workgroup sorts rows, or blocks of a row, in shared memory
  matmul,     ///< a workgroup owns a tile of contractions; both operands cross shared memory, tile by tile
  attention,  ///< products weighted by a softmax, which need not exist as a whole, nor what it is of
  tiled,      ///< a workgroup owns a box of positions: what is read along other axes than stored crosses shared memory
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
};

/// Matrix: what a workgroup, and a thread of it, computes at a time. All but `k` are multiples of 4. With cooperative
/// matrices all are multiples of theirs, and what a thread has otherwise belongs to the `threads` of a subgroup
/// together.
struct TileShape {
  int m = 64, n = 64, k = 16;      ///< of the workgroup
  int thread_m = 4, thread_n = 4;  ///< of the thread, or of the subgroup
  int threads = 1;                 ///< that own it together
  [[nodiscard]] int owners() const { return m / thread_m * (n / thread_n); }
  [[nodiscard]] int workgroup() const { return owners() * threads; }
};

/// Attention: how large the tile of a workgroup is, with threads or, where `subgroups` are stated, with cooperative
/// matrices.
struct AttentionShape {
  int threads_m = 0, threads_k = 0;
  int subgroups = 0, key_fragments = 0;
  bool pipelined_scores = false;
};

/// Overrides for sweeps and tests; nothing is overridden by default.
struct Tuning {
  std::optional<int> workgroup;
  std::optional<int> vector_bytes;  ///< widest access: 4, 8 or 16
  std::optional<int> unroll_factor;
  std::optional<int> reduction_threads;  ///< rows: threads that share a row, a power of two
  std::optional<bool> online;            ///< rows: pairs of reductions in one pass where rows do not stay in registers
  std::optional<bool> persistent;        ///< rows: keep what was loaded between passes
  std::optional<int> register_block_rows;   ///< rows: of a thread, of those that share what they read
  std::optional<int> parts;                 ///< rows: workgroups that share a row; matrix: a tile
  std::optional<int> block;                 ///< sort: keys that a workgroup sorts in shared memory, a power of two
  std::optional<bool> matmul;               ///< the matmul template wherever there is a contraction, or nowhere
  std::optional<TileShape> tile;            ///< matrix
  std::optional<AttentionShape> attention;  ///< where the device and the operands allow it
  std::optional<bool> cooperative_matrix;   ///< matrix: T4 wherever the operands allow it, or nowhere
  std::optional<bool> integer_dot;          ///< matrix: T3 wherever the operands allow it, or nowhere
  bool f16_accumulation = false;            ///< matrix: f16 sums of f16 products, where T4 offers them
  std::optional<bool> tiled;                ///< the tiled template wherever a load can be transposed, or nowhere
};

/// One dispatch of the sort template. What goes from one to the next is in device memory: pairs of a key and
/// its position, so many slots a row.
struct SortPass {
  enum class Kind : std::uint8_t {
    block,  ///< sorts blocks in shared memory
    merge,  ///< merges neighbouring runs
    store,  ///< only stores the results of rows that are sorted
  };
  Kind kind = Kind::block;
  bool computes_keys = false;  ///< else they come from the round before
  bool stores = false;         ///< rows are sorted: what is computed from their order is stored
  std::int64_t keys = 0;       ///< of a row, that come in
  std::int64_t run = 0;        ///< merge: keys of a run that comes in
  std::int64_t groups = 1;     ///< workgroups of a row; of a store: of the launch
};

/// Tiled: one load that runs along other axes than the stores.
struct TransposedLoad {
  segment::ValueId value = 0;
  std::vector<int> run;  ///< loop axes along which its memory is consecutive inside the tile, innermost first
  int elements = 1;      ///< of one load instruction
  int packed = 1;        ///< neighbours along the columns of the tile that share a word of shared memory
};

/// Tiled: the box of positions that a workgroup owns. Its columns are the innermost axis, or several that are
/// one axis to the chunks; its rows are all other axes.
struct Tile {
  std::vector<std::int64_t> extents;  ///< along each loop axis
  int merged = 1;                     ///< loop axes that the columns are made of
  std::vector<TransposedLoad> loads;
};

/// Matrix: one operand of the products, and how its elements reach shared memory.
struct TileOperand {
  segment::ValueId value = 0;
  bool second = false;     ///< runs along n instead of m
  bool along_k = false;    ///< what lies side by side in memory are positions of k, else of m or n
  int elements = 1;        ///< of one chunk: so many neighbours, computed together
  bool flattened = false;  ///< chunks lie along all those axes counted as one; else along the innermost
};

/// Between the rows of a tile for cooperative matrices in shared memory, which then start in other banks.
inline constexpr int kBytesBetweenRows = 16;

/// Matrix: sums over k of products of an operand at (batch, m, k) and one at (batch, n, k). Each of the four is a
/// set of loop axes, counted as one, outermost first.
struct MatmulTile {
  TileShape shape;
  std::optional<MatrixShape>
      mma;                   ///< T4: a subgroup multiplies so much at once; operands cross shared memory as its dtype
  bool integer_dot = false;  ///< T3: operands are i8, and four neighbours along k are a word
  bool workgroup_scope =
      false;        ///< T5: the workgroup multiplies workgroup-scope tiles, which the device itself brings from memory
  int subtile = 0;  ///< with it: columns of a subgroup's results that cross shared memory at a time
  std::vector<int> batch, m, n, k;
  std::vector<TileOperand> tile_operands;
  struct Sum {
    segment::ValueId reduction = 0;
    int first = 0, second = 0;  ///< of `factors`
  };
  std::vector<Sum> sums;
  /// A reduction over k of what depends on m alone, as the norm of a row of the first operand, which is read anyway.
  struct RowReduction {
    segment::ValueId reduction = 0;
    int tile_operand = 0;  ///< of `factors`; its chunks lie along k
    int parts = 1;         ///< of its sum (sums_in_two_parts)
  };
  std::vector<RowReduction> row_reductions;
  /// Hoisted, of m alone, and asked for by what is not: computed once for each row of the tile.
  std::vector<segment::ValueId> row_values;
  /// Folds over the innermost `block` positions of n, of which a tile has whole ones: of a row's results, as partial
  /// statistics for a norm that follows.
  std::vector<segment::ValueId> epilogues;
  segment::ValueId kept = 0;  ///< with them: what results become before they are reduced; stays in registers meanwhile
  int block = 0;
  int elements = 1;  ///< neighbours along n that are stored together; divides the innermost axis of n
  std::int64_t tiles_m = 1, tiles_n = 1;
};

/// Rows: weights of four bits, two in a byte, times one vector, with cooperative matrices (T4). A workgroup has `tiles`
/// tiles, one after another, of as many rows as the unit; its subgroups share the columns. Words reach shared memory as
/// they lie in memory, and a fragment of them becomes four of numbers.
struct PackedGemvTile {
  MatrixShape mma;
  int subgroups = 8, tiles = 1;
  int k_slice = 8;        ///< words of 16 bytes of every row that a subgroup takes at a time
  int scale_columns = 0;  ///< columns of a strip that share a scale
  segment::ValueId reduction = 0;
  segment::ValueId load = 0;    ///< of the bytes
  segment::ValueId vector = 0;  ///< what the weights are multiplied with, of f16
  std::optional<segment::ValueId> scale;
  std::uint32_t flip = 0;  ///< a weight is (four bits ^ flip) + offset
  std::int64_t offset = 0;
  [[nodiscard]] int rows() const { return tiles * static_cast<int>(mma.m); }
  [[nodiscard]] int k_slice_columns() const { return k_slice * 32; }
};

/// Attention: for each position of (batch, m), the softmax over k of a score, and the sum over k of its weights
/// times an operand at (batch, n, k). The score may be computed from a sum over d of products. Each letter is a set
/// of loop axes, counted as one, outermost first.
struct AttentionTile {
  std::vector<int> batch, m, n, k, d;
  int threads_m = 8, threads_k = 8;  ///< a thread has 4 rows of m, 4 positions of k, and its share of n
  bool low_register = false;  ///< it has few registers: between blocks, what it knows of its rows is in shared memory,
                              ///< and less is unrolled
  /// T5: a subgroup has the unit's rows of m, some of its columns of k at a time, and all of n; the threads above have
  /// no meaning.
  std::optional<MatrixShape> mma;
  int subgroups = 4, key_fragments = 4;  ///< with it: of the workgroup; units of k at a time
  int subtile = 0;                       ///< columns of a subgroup's results that cross shared memory at a time
  bool pipelined_scores = false;     ///< a block's products are found while scores of the one before it become weights
  segment::ValueId score = 0;        ///< the softmax is over it
  segment::ValueId exponential = 0;  ///< of the score less the largest one
  segment::ValueId weight = 0;       ///< what it becomes before it is multiplied
  segment::ValueId most = 0, total = 0, sum = 0;  ///< the reductions: maximum, sum of exponentials, result
  std::optional<segment::ValueId> contract;       ///< what the score is computed from
  struct Side {
    segment::ValueId value = 0;
    bool along_k = false;  ///< chunks lie along d (of the third: along k), else along m, k or n
    int elements = 1;
  };
  Side first, second, third;  ///< the operands of `contract`, and that of the weights
  /// A mask leaves a row at position p of the innermost axis of m no position of k beyond slope * p + constant.
  struct MaskBound {
    std::int64_t slope = 0, constant = 0;
  };
  std::vector<MaskBound> mask_upper_bounds;  ///< none above any of these
  std::vector<MaskBound> mask_lower_bounds;  ///< none below
  int elements = 1;                          ///< neighbours along n that are stored together
  [[nodiscard]] int tile_m() const { return mma ? subgroups * static_cast<int>(mma->m) : 4 * threads_m; }
  [[nodiscard]] int tile_k() const { return mma ? key_fragments * static_cast<int>(mma->n) : 4 * threads_k; }
  /// All of n and of d, with what stands out.
  [[nodiscard]] int extent_n(const segment::Loops& loops) const;
  [[nodiscard]] int extent_d(const segment::Loops& loops) const;
};

/// The choices, and what they cost.
struct Schedule {
  Template kind = Template::pointwise;
  int chunk_size = 1;
  int unroll_factor = 1;  ///< per invocation; their loads are issued together
  int workgroup = 1;
  int vector_axis = -1;            ///< the loop axis along which a chunk's elements lie; -1: there is none
  bool full_chunks = false;        ///< no chunk has fewer elements than the others
  bool crosses_rows = false;       ///< pointwise: chunks may cross rows of the vector axis; coordinates are per element
  bool wide = false;               ///< more than 2^31 elements: no 31-bit division tricks
  std::vector<AccessPlan> loads;   ///< one per value of the loops; of those that are loads
  std::vector<AccessPlan> stores;  ///< of Loops::stores

  // Rows.
  bool vector_rows = false;  ///< the vector axis is a row axis: each thread owns several rows
  int parallel_threads = 1;  ///< parallel_threads * reduction_threads is the workgroup
  int reduction_threads = 1;
  std::int64_t iterations = 1;   ///< chunks along the columns per thread and pass
  bool persistent = false;       ///< iterations are unrolled and what was loaded stays in registers
  bool online = false;           ///< a maximum and the sum of exponentials below it are one pass
  int register_block_axis = -1;  ///< of segment::with_register_blocking; -1: every thread has one row
  int register_block_rows = 1;
  int merged_reduction_axes = 1;  ///< the innermost so many column axes are counted as one
  std::optional<PackedGemvTile> packed;
  int block =
      0;  ///< chunks of a thread after which its reductions and scans start anew, so that no chain is long; 0: never
  int parts =
      1;  ///< workgroups per row, or per tile of a matrix; more than 1: one dispatch per pass, and one for the results
  int passes = 1;  ///< over the columns
  int dispatches = 1;
  int subgroup = 0;                ///< threads of a subgroup that shuffles serve; 0: shared memory alone
  std::int64_t scratch_bytes = 0;  ///< device memory for partial results
  std::int64_t shared_bytes = 0;

  // Sort.
  std::vector<SortPass> sort_passes;
  std::int64_t keys = 0;        ///< elements of a row
  std::int64_t requested = 0;   ///< of which so many come first in what is asked for
  int block_keys = 0;           ///< sorted at a time in shared memory
  std::int64_t slots = 0;       ///< of a row, for pairs that go from round to round
  bool rows_neighbour = false;  ///< neighbouring threads take neighbouring rows

  // Tiled. The vector axis counts the axes of merge_inner(loops, tile.merged).
  Tile tile;

  MatmulTile matmul;
  AttentionTile attention;
  bool sunk_scales = false;  ///< of segment::with_sunk_scales

  // The launch at these sizes.
  std::int64_t elements = 0;
  std::int64_t chunks = 0;
  std::int64_t parallel_chunks = 0;   ///< rows: groups of rows that threads own
  std::int64_t reduction_chunks = 0;  ///< rows: chunks along the columns
  std::int64_t workgroups = 0;
  std::int64_t workgroups_x = 0;  ///< of one row of the dispatch; the last row may have idle ones

  // The model.
  std::int64_t bytes_read = 0;  ///< each element once
  std::int64_t bytes_written = 0;
  std::int64_t bytes_read_again = 0;  ///< by later passes over rows of which no cache holds as many as are in flight
  std::int64_t loads_executed = 0;    ///< load instructions, all invocations together
  std::int64_t stores_executed = 0;
  std::int64_t transactions = 0;  ///< 128-byte lines touched per subgroup-wide access, summed
  int registers = 0;              ///< estimate of live 32-bit values per invocation
  double modelled_us = 0;
};

/// The best schedule of these loops, or the reason why they cannot be one kernel on this target (a full
/// sentence naming the limit).
Result<Schedule> best(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                      const Tuning& tuning = {});

/// The same choices at other sizes: `loops` are scheduled_loops(..., model), and launch and costs are theirs. Nothing
/// where the choices do not fit them, so that best() has to choose again.
std::optional<Schedule> at_other_sizes(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                                       const Tuning& tuning, const Schedule& model);

/// The loops as the schedule runs them, whose values its `loads` are of: with folds in one pass, or with factors
/// after sums, where it says so.
segment::Loops scheduled_loops(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule);

/// Whether a value differs between the elements of one chunk.
bool varies_in_chunk(const segment::Loops& loops, const Schedule& schedule, const segment::Value& value);

/// Rows: accumulators of one scan in shared memory, two halves; 0 where threads need none to scan.
int scan_slots(const Schedule& schedule);

/// The axes of a set, outermost first.
std::vector<int> axes_in(const segment::Loops& loops, segment::AxisSet set);

/// Positions along axes that are counted as one.
std::int64_t count_along(const segment::Loops& loops, std::span<const int> axes);

/// The values that `value` is computed from, itself included, up to (and without) what folds and `stops`.
std::vector<segment::ValueId> backward_slice_of(const segment::Loops& loops, segment::ValueId value,
                                                std::span<const segment::ValueId> stops = {});

/// The same of all stores and tails: what is computed after whatever folds.
std::vector<segment::ValueId> backward_slice_of_results(const segment::Loops& loops);

/// The same of all that is computed while an operand is read: itself, and what its row reductions fold. `factor` is one
/// of the tile's own.
std::vector<segment::ValueId> backward_slice_of_operand(const segment::Loops& loops, const MatmulTile& tile,
                                                        const TileOperand& tile_operand);

/// The distinct buffers that are loaded, in the order of their first load.
std::vector<ir::NodeId> buffers_read(const segment::Loops& loops);

/// Stand-ins for symbols where a plan is made before the sizes are known: about 4096, less where
/// several of them would make a large tensor, within the facts of each symbol.
SymbolValues representative_symbols(const ir::Graph& graph);

/// Conservative constants of a device type.
CostModel default_costs(DeviceType type);
/// What was measured on the device, else the constants of its type.
CostModel costs_of(const Target& target);

/// What a thread may be estimated to want, so that its values do not spill into memory.
int thread_register_limit(const Target& target);
/// By how many registers an estimate is over that.
int registers_over(const Target& target, int estimated);
/// What arithmetic takes longer in a thread of so many: 1 where it has them.
double cost_of_spilling(const Target& target, int estimated);

}  // namespace vkfuse::schedule
