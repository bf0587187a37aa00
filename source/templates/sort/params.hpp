// The passes of a sort.
#pragma once

#include <cstdint>
#include <vector>

namespace vkfuse::schedule {

/// One dispatch of the sort template. What goes from one to the next is in device memory: pairs of a key and
/// its position, so many slots a row.
struct SortPass {
  enum class Kind : std::uint8_t {
    block,  ///< sorts blocks in shared memory
    merge,  ///< merges neighbouring runs
    store,  ///< only stores the results of rows that are sorted
  };
  Kind kind = Kind::block;
  bool computes_keys = false;  ///< else they come from the pass before
  bool stores = false;         ///< rows are sorted: what is computed from their order is stored
  std::int64_t keys = 0;       ///< of a row, that come in
  std::int64_t run = 0;        ///< merge: keys of a run that comes in
  std::int64_t groups = 1;     ///< workgroups of a row; of a store: of the launch
};

/// A workgroup sorts rows, or blocks of a row, in shared memory.
struct SortParams {
  std::vector<SortPass> passes;
  std::int64_t keys = 0;        ///< elements of a row
  std::int64_t requested = 0;   ///< of which so many come first in what is asked for
  int block_keys = 0;           ///< sorted at a time in shared memory
  std::int64_t slots = 0;       ///< of a row, for pairs that go from pass to pass
  int parallel_threads = 1;     ///< rows of a workgroup
  bool rows_neighbour = false;  ///< neighbouring threads take neighbouring rows
};

}  // namespace vkfuse::schedule
