// What planning and lowering of attention must see alike.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

inline int round_up(std::int64_t n, int to) { return static_cast<int>(ceil_div(n, to)) * to; }

/// Words of 16 bytes between rows of a fragment of f32 sums, and of an operand of 16-bit numbers, that passes through
/// shared memory: one more than a row has, so that neighbouring rows lie in different banks.
constexpr int sum_row_words(int columns) { return columns / 4 + 1; }
constexpr int operand_row_words(int columns) { return columns / 8 + 1; }

/// Rows of m that no tile fills, as those of one token: they have kernels for themselves, and few workgroups.
constexpr std::int64_t kFewRows = 8;

/// Weights of a block of k in shared memory, in vec4s along m: where those of a position begin, and all of them.
/// Threads have four neighbours along k, and a vec4 between these keeps their stores in different banks.
constexpr int kKeysTogether = 4;
inline int weight_words(const AttentionParams& tile) {
  return tile.tile_k() * (tile.tile_m() / 4) + tile.tile_k() / kKeysTogether;
}

/// The tiles of such attention that cooperative matrices may fill.
std::vector<AttentionShape> cooperative_attention_shapes(const AttentionParams& tile);

/// The product whose keys, along d, are a sum's values, along n, both as rows.
std::optional<std::size_t> keys_that_are_values(const segment::Loops& loops, const AttentionParams& tile,
                                                const AttentionOperand& values);

/// Fills in what masks of positions leave: `tile.mask`.
void find_mask_bounds(const ir::Graph& graph, const segment::Loops& loops, AttentionParams& tile);

/// The blocks of k, from one to before another, in which the mask leaves something to some row of a tile of m; none if
/// the second is not above the first. Of bounds in runs, those of the first run: other runs may begin inside a block.
struct Blocks {
  std::int64_t begin = 0, end = 0;
};
Blocks blocks_of(const segment::Loops& loops, const AttentionParams& tile, std::int64_t tile_m);
/// Whether data says where keys end.
bool has_data_bounds(const MaskBounds& mask);
/// How many positions of k the mask's bounds count: those of one run, or all of k.
std::int64_t keys_per_run(const segment::Loops& loops, const AttentionParams& tile);

}  // namespace vkfuse::schedule
