// How the threads of a workgroup share the rows of a reduction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/target.hpp"
#include "ops/packed_code.hpp"
#include "segment/loops.hpp"

namespace vkfuse::schedule {

/// A matrix of weights of four or eight bits.
struct PackedMatrix {
  segment::ValueId load = 0;  ///< of the bytes
  std::optional<segment::ValueId> scale;
  ops::PackedCode code;
  std::int64_t end = 0;  ///< its rows are those of the result from the end of the one before up to here
};

/// Such matrices one below the other, as those for queries, keys and values, and the sum of their products. All have
/// one code, and scales or none.
struct PackedWeights {
  segment::ValueId reduction = 0;
  std::vector<PackedMatrix> matrices;
  [[nodiscard]] const PackedMatrix& first() const { return matrices.front(); }
};

/// Such weights times one vector, with cooperative matrices. A workgroup has `tiles` tiles, one after another, of as
/// many rows as a fragment; its subgroups share the reduction axes. 32-bit words reach shared memory as they lie in
/// memory, and a fragment of them becomes two or four of numbers. In each tile, sums of matrices of one shape follow
/// each other.
///
/// A fragment has the bits of `fragment_columns()` elements of a row. Where fewer share a scale, the columns of the
/// vector's fragments are not alike: each is zero but where one group of elements is, so that the columns of the sums
/// are those of the groups.
///
/// Where it is known which elements of a fragment a lane has, lanes load their own: four of them 64 bytes of a row side
/// by side, and each the same 16 of the row 8 further. Then nothing waits for shared memory, and a K-slice, which is as
/// long as these 64 bytes, takes the place of a fragment.
struct PackedGemvTile {
  MatrixShape mma;
  int subgroups = 8, tiles = 1;
  int k_slice = 8;                  ///< runs of 16 bytes of every row that a subgroup takes at a time
  int lane_steps = 0;               ///< K-slices that a lane loads at a time, with fragments that lanes make; 0: words
                                    ///< reach fragments through shared memory
  bool keeps_vector = true;         ///< in shared memory, in the order of the weights; else lanes load it as it is
  int scale_columns = 0;            ///< elements of a K-slice that share a scale
  segment::ValueId vector = 0;      ///< what the weights are multiplied with, of f16
  int statistics = 0;               ///< reductions that the vector is computed from, as in a norm: every workgroup has
                                    ///< them first
  std::vector<PackedWeights> sums;  ///< with codes that are alike
  [[nodiscard]] const ops::PackedCode& code() const { return sums.front().first().code; }
  [[nodiscard]] int rows() const { return tiles * static_cast<int>(mma.m); }
  [[nodiscard]] int k_slice_columns() const { return k_slice * code().per_chunk(); }
  [[nodiscard]] int fragment_columns() const { return code().per_half() * static_cast<int>(mma.k); }
  [[nodiscard]] int scales_of_k_slice() const { return k_slice_columns() / scale_columns * static_cast<int>(mma.m); }
  [[nodiscard]] bool has_scales() const {
    return std::any_of(sums.begin(), sums.end(),
                       [](const PackedWeights& one) { return one.first().scale.has_value(); });
  }
  [[nodiscard]] bool lane_fragments() const { return lane_steps > 0; }
  /// Runs of 16 bytes that a lane of so many has in flight.
  [[nodiscard]] int loads_of_lane(int lanes) const {
    return static_cast<int>(mma.m) * k_slice / lanes * std::max(1, lane_steps);
  }
  /// Groups of elements in a fragment, or in a K-slice of lanes, that each have a scale.
  [[nodiscard]] int groups() const {
    return has_scales() ? std::max(1, (lane_fragments() ? k_slice_columns() : fragment_columns()) / scale_columns) : 1;
  }
  /// Scales in shared memory. Fragments of them reach beyond those of the last subgroup's groups.
  [[nodiscard]] int scale_slots() const {
    const int beyond = groups() > 1 ? (static_cast<int>(mma.n) - groups()) * static_cast<int>(mma.m) : 0;
    return subgroups * scales_of_k_slice() + beyond;
  }
};

/// Threads share the reduction axes of a row and reduce across each other.
struct ReductionParams {
  bool vector_rows = false;  ///< the vector axis is a row axis: each thread owns several rows
  int parallel_threads = 1;  ///< parallel_threads * reduction_threads is the workgroup
  int reduction_threads = 1;
  std::int64_t iterations = 1;  ///< chunks along the reduction axes per thread and pass
  bool persistent = false;      ///< iterations are unrolled and what was loaded stays in registers
  int block = 0;                ///< chunks of a thread after which its reductions and scans start anew, so that no
                                ///< chain is long; 0: never
  int passes = 1;               ///< over a row
  std::optional<PackedGemvTile> packed;

  /// Accumulators of one scan in shared memory, two halves; 0 where threads need none to scan. `subgroup` as in
  /// Schedule.
  [[nodiscard]] int scan_slots(int subgroup) const;
};

}  // namespace vkfuse::schedule
