// What a language model needs to generate tokens: attention against a cache whose length is data, and the choice of a
// token on the device. Caches are buffers of a fixed capacity; rows go into them by Tensor::update_rows. How the
// pieces become a loop: docs/generation.md.
#pragma once

#include <cstdint>
#include <optional>

#include "vkfuse/composites.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

struct CachedAttentionOptions {
  /// Scores are multiplied by this; 1 / sqrt(head size) if absent.
  std::optional<double> scale;
  /// Above 0: scores become softcap * tanh(score / softcap), before anything is added to them.
  double softcap = 0;
  /// A query sees no keys after its own.
  bool causal = true;
  /// A query sees so many keys, the last of which is its own; absent: all up to its own.
  std::optional<std::int64_t> window;
  /// Added to the scores; broadcasts to [batch, heads, queries, capacity].
  std::optional<Tensor> bias;
  /// Each head's attention sink [heads]: see AttentionOptions.
  std::optional<Tensor> sink;
  /// Keys that one workgroup looks at, a divisor of the capacity above 1: their results are put together by a second
  /// kernel. Absent: all, by one kernel, whose workgroups divide the keys as is best on the device where up to 8 rows
  /// share keys (a query of each of 8 heads); of up to 16 queries of more rows against more than 256 keys, a divisor
  /// near 128 to 1,024, the more the more there are in all caches.
  std::optional<std::int64_t> part;
};

/// Attention of the newest positions of sequences against caches: q [batch, heads, queries, size], keys [batch, key
/// heads, capacity, size], values [batch, key heads, capacity, value size] give [batch, heads, queries, value size].
/// Query i of a sequence is at position start + i, and `starts` are one i32, or one for each sequence [batch]; a start
/// below 0 counts as 0. The rows of the queries' own keys and values have been written already. Key heads
/// divide heads; each serves as many neighbouring heads.
///
/// Softmax and the sums of parts are f32 (f64 for f64). Keys and values from start + queries on have no part in the
/// result, whatever they hold: blocks of them are not read. A query that sees no key gets zeros.
///
///     Tensor keys = past_keys.update_rows(start, k, 2);  // [1, 8, 4096, 128]; k [1, 8, 1, 128]
///     Tensor y = cached_attention(q, keys, values, start);
Tensor cached_attention(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& starts,
                        const CachedAttentionOptions& options = {});

// Caches in pages. All sequences share a pool of rows [pages * page, key heads, size], `page` of which are a page.

/// Where the positions of sequences are in a pool. An entry of the table is data: whoever hands out pages writes it
/// between steps. One below 0 stands for a page that there is not.
struct PagedSequences {
  Tensor table;   ///< i32 [batch, pages of a sequence]: the page of the pool
  Tensor starts;  ///< the first new position: one i32, or one for each sequence [batch]; below 0 it counts as 0
  std::int64_t page = 16;  ///< rows of a page; a sequence has 1 to 2^26 positions
};

/// The row of the pool of each sequence's new positions, start + i for i below `count`: i32 [batch, count], -1 where
/// the table has no page for it.
///
///     const PagedSequences pages{table, starts, 16};
///     Tensor at = page_rows(pages, 1).reshape({batch});
///     Tensor keys = pool.update_rows(at, k, 0);  // [4096 * 16, 8, 128], in place; k [batch, 8, 128]
Tensor page_rows(const PagedSequences& pages, std::int64_t count);

/// `cached_attention` of caches in pages: q [batch, heads, queries, size], keys [rows, key heads, size] and values
/// [rows, key heads, value size] of the pool, which has whole pages. The capacity of a sequence is all of its pages.
/// What lies beyond a sequence's positions is not read, nor is its part of the table.
Tensor paged_attention(const Tensor& q, const Tensor& keys, const Tensor& values, const PagedSequences& pages,
                       const CachedAttentionOptions& options = {});

// Sampling. Logits are [batch, tokens] of floats; what comes of them is computed in f32 (f64 for f64).

/// Logits of tokens that `seen` [batch, tokens], booleans, has: divided by the penalty where they are above 0, else
/// multiplied by it (Keskar et al., 2019). A penalty of 1 changes nothing.
Tensor repetition_penalty(const Tensor& logits, const Tensor& seen, double penalty);

struct SampleOptions {
  double temperature = 1;  ///< above 0: logits are divided by it
  std::int64_t top_k = 0;  ///< the k largest; of equal ones the first tokens. 0: all
  double top_p = 1;        ///< of what is left, the fewest of the largest whose probabilities reach p. 1: all
  double min_p = 0;        ///< tokens at least min_p times as probable as the most probable one. 0: all
};

/// A token for each sequence, i32 [batch]: drawn with the probabilities that the softmax of the logits has among the
/// tokens that are left, by the largest of logit + Gumbel noise. The options take part in the order in which they are
/// declared. Of equal logits the first tokens are kept, and of equal sums the first is drawn. The seed is one integer,
/// which is data: another one draws other tokens, and an equal one the same, bit for bit, on one device.
Tensor sample(const Tensor& logits, const Tensor& seed, const SampleOptions& options = {});
/// The first token with the largest logit, i32 [batch].
Tensor greedy(const Tensor& logits);

}  // namespace VKFUSE_PUBLIC
