// What sweeps, tests and the tuner may ask for in place of what the cost model chooses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/target.hpp"

namespace vkfuse::schedule {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

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

/// What four subgroups of 32 multiply as one (cooperative_matrix2); the device shares it out.
constexpr TileShape shape_of(const WorkgroupTile& tile) { return {tile.m, tile.n, tile.k, tile.m / 2, tile.n / 2, 32}; }

/// Attention: how large the tile of a workgroup is, with threads or, where `subgroups` are stated, with cooperative
/// matrices; with `lanes`, whose subgroups have that many at a position of k.
struct AttentionShape {
  int threads_m = 0, threads_k = 0;
  int rows = 4, keys = 4;  ///< of a thread
  bool slices = false;     ///< operands are staged in slices of their sums
  int subgroups = 0, key_fragments = 0;
  bool pipelined_scores = false;
  int lanes = 0;
  int reloaded = 0;  ///< products whose queries are loaded from shared memory for every block
};

/// Stencil: results of a thread along the innermost axis of memory, along the window next to it, and along the one
/// after that.
struct StencilShape {
  int elements = 8, rows = 1, planes = 1;
};

/// How a kernel reaches the elements of scores and weights: which thread has which of a cooperative matrix is the
/// device's own affair.
enum class ElementAccess : std::uint8_t {
  functions,  ///< the device calls functions with positions, reduces rows and converts (cooperative_matrix2)
  /// By index. Positions are loaded as a matrix; rows are reduced, and weights become an operand, in shared memory.
  shared_memory,
  /// The same on devices without f16 sums of this shape: threads round what is on its way to the operand.
  shared_memory_rounded,
};

/// Who multiplies with cooperative matrices: subgroups what a workgroup has staged, a workgroup a tile as one, or
/// subgroups what their lanes have loaded.
enum class MatrixScope : std::uint8_t { subgroups, workgroup, lanes };

/// Overrides for sweeps and tests; nothing is overridden by default.
struct Tuning {
  std::optional<int> workgroup;
  std::optional<int> vector_bytes;  ///< widest access: 4, 8 or 16
  std::optional<int> unroll_factor;
  std::optional<int> reduction_threads;  ///< rows: threads that share a row, a power of two
  std::optional<bool> online;            ///< rows: pairs of reductions in one pass where rows do not stay in registers
  std::optional<bool> persistent;        ///< rows: keep what was loaded between passes
  std::optional<int> register_block_rows;   ///< rows: of a thread, of those that share what they read
  std::optional<int> splits;                ///< rows: workgroups that share a row; matrix: a tile
  std::optional<int> block;                 ///< sort: keys that a workgroup sorts in shared memory, a power of two
  std::optional<bool> matmul;               ///< the matmul template wherever there is a contraction, or nowhere
  std::optional<TileShape> tile;            ///< matrix
  std::optional<AttentionShape> attention;  ///< where the device and the operands allow it
  std::optional<ElementAccess> elements;    ///< attention with cooperative matrices, where the device allows it
  std::optional<bool> lazy_rescaling;       ///< the same, where results allow it
  std::optional<MatrixScope>
      matrix_scope;                        ///< matrix: who multiplies with cooperative matrices, where that is possible
  std::optional<bool> cooperative_matrix;  ///< matrix: T4 wherever the operands allow it, or nowhere
  std::optional<bool> integer_dot;         ///< matrix: T3 wherever the operands allow it, or nowhere
  bool f16_accumulation = false;           ///< matrix: f16 sums of f16 products, where T4 offers them
  std::optional<StencilShape> stencil;     ///< where reductions are over windows of which blocks of that shape fit
  std::optional<bool> tiled;               ///< the tiled template wherever a load can be transposed, or nowhere
};

/// A tuning in words: equal texts are equal tunings.
std::string to_text(const Tuning& tuning);

}  // namespace vkfuse::schedule
