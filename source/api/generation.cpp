// Attention against a cache whose length is data, as the ops a person would write. Every mask compares positions with a
// start: by that the attention template knows which blocks of keys there are (templates/attention/mask_conditions.cpp).
#include <algorithm>
#include <cmath>
#include <limits>

#include "api/composites.hpp"
#include "api/tensor_node.hpp"
#include "index/arithmetic.hpp"
#include "vkfuse/generation.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

namespace {

constexpr std::int64_t kMostQueriesInParts = 16;
/// Rows of queries that share keys for which a kernel divides the keys among workgroups by itself, as is best on its
/// device (templates/attention): a graph that has parts would only stand in its way.
constexpr std::int64_t kMostRowsOfKernel = 8;
constexpr std::int64_t kMostInOne = 256;  ///< keys that one workgroup is done with as soon as two and a join

/// CacheSizes of the operands, all but the batch numbers.
struct CacheSizes {
  Dim batch;
  std::int64_t heads = 0, key_heads = 0, queries = 0, size = 0, capacity = 0, value_size = 0;
  std::int64_t part = 0;  ///< keys that are looked at together

  [[nodiscard]] std::int64_t group() const { return heads / key_heads; }
  [[nodiscard]] std::int64_t parts() const { return capacity / part; }
};

Result<void> check_shapes(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& starts) {
  for (const Tensor* x : {&q, &keys, &values}) {
    const Shape& shape = x->shape();
    const auto is_symbol = [](const Dim& dim) { return dim.is_symbol(); };
    if (shape.size() != 4 || std::any_of(shape.begin() + 1, shape.end(), is_symbol) || shape[0] != q.shape()[0])
      return invalid(
          "'cached_attention' takes tensors of [batch, heads, positions, size], whose batch alone may be a symbol, but "
          "it was given {}, {} and {}.",
          api::text_of_type(q), api::text_of_type(keys), api::text_of_type(values));
  }
  const bool is_one = starts.shape().empty(), is_of_batch = starts.shape() == Shape{q.shape()[0]};
  if (starts.dtype() != DType::i32 || (!is_one && !is_of_batch))
    return invalid("'cached_attention' takes a start of i32, or one for each of {} sequences, but they are {}.",
                   q.shape()[0].text(), api::text_of_type(starts));
  return {};
}

/// Parts enough to keep a large GPU busy, but not so short that joining them takes long (bench/results/
/// h200-generation.txt). Longer ones only for many sequences: of a long cache few keys may have been written.
std::int64_t wanted_part(const CacheSizes& sizes) {
  constexpr std::int64_t kMostParts = 512, kShortest = 128, kLongest = 512, kLongestOfMany = 1024, kMany = 64;
  const std::int64_t caches =
      sizes.key_heads * (sizes.batch.is_symbol() ? 1 : std::max<std::int64_t>(sizes.batch.size(), 1));
  const std::int64_t even = index::saturating_mul(caches, sizes.capacity) / kMostParts;
  return std::clamp(even, kShortest, caches >= kMany ? kLongestOfMany : kLongest);
}

/// The number near `wanted`, by their ratio, that divides the capacity and by which blocks of keys are whole; the
/// capacity where there is none.
std::int64_t divisor_near(std::int64_t wanted, std::int64_t capacity) {
  constexpr std::int64_t kBlock = 16, kFarthest = 2;
  std::int64_t best = capacity;
  double least = kFarthest;
  for (std::int64_t part = kBlock; part <= kFarthest * wanted && part < capacity; part += kBlock) {
    const double ratio = static_cast<double>(std::max(part, wanted)) / static_cast<double>(std::min(part, wanted));
    if (capacity % part != 0 || ratio > least) continue;
    best = part;
    least = ratio;
  }
  return best;
}

Result<std::int64_t> part_of(const CacheSizes& sizes, const CachedAttentionOptions& options) {
  if (!options.part) {
    const bool in_parts = sizes.queries <= kMostQueriesInParts && sizes.capacity > kMostInOne &&
                          sizes.queries * sizes.group() > kMostRowsOfKernel;
    return in_parts ? divisor_near(wanted_part(sizes), sizes.capacity) : sizes.capacity;
  }
  if (*options.part < 2 || sizes.capacity % *options.part != 0)
    return invalid("'cached_attention' looks at parts of {} keys, which must be above 1 and divide the capacity {}.",
                   *options.part, sizes.capacity);
  return *options.part;
}

Result<CacheSizes> sizes_of(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& starts,
                            const CachedAttentionOptions& options) {
  VKF_CHECK_OK(check_shapes(q, keys, values, starts));
  CacheSizes sizes{q.shape()[0],        q.shape()[1].size(),    keys.shape()[1].size(),  q.shape()[2].size(),
                   q.shape()[3].size(), keys.shape()[2].size(), values.shape()[3].size()};
  const Shape expected{sizes.batch, sizes.key_heads, sizes.capacity, sizes.value_size};
  if (keys.shape()[3] != q.shape()[3] || values.shape() != expected || sizes.key_heads < 1 ||
      sizes.heads % sizes.key_heads != 0 || sizes.size < 1)
    return invalid(
        "'cached_attention' of queries {} has keys {} and values {}: heads, positions or sizes do not agree.",
        api::text_of_type(q), api::text_of_type(keys), api::text_of_type(values));
  if (sizes.capacity < 1 || sizes.capacity > api::kMostCachePositions || sizes.queries > sizes.capacity)
    return invalid(
        "'cached_attention' takes a cache of 1 to {} positions and no more queries than that, but there are "
        "{} and {}.",
        api::kMostCachePositions, sizes.capacity, sizes.queries);
  if (options.window && (*options.window < 1 || *options.window > api::kMostCachePositions))
    return invalid("'cached_attention' has a window of 1 to {} keys, but it is {}.", api::kMostCachePositions,
                   *options.window);
  VKF_TRY(part, part_of(sizes, options));
  sizes.part = part;
  return sizes;
}

/// The sequences' starts as [batch or 1, 1, ...] of so many axes.
Tensor beside(const Tensor& start, std::size_t rank) {
  Shape shape(rank, Dim(1));
  if (!start.shape().empty()) shape[0] = start.shape()[0];
  return start.reshape(std::move(shape));
}

/// Numbers along some axes of so many: [1, ..., sizes, 1, ...].
Tensor positions(std::size_t rank, std::size_t first, const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  Shape shape(rank, Dim(1));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    count *= sizes[i];
    shape[first + i] = Dim(sizes[i]);
  }
  return Tensor::iota(DType::i32, {Dim(count)}, 0).reshape(std::move(shape));
}

/// [batch, key heads, group, queries, parts, keys of a part], with -infinity where a query does not look.
Tensor scores_of(const Tensor& q, const Tensor& keys, const Tensor& start, const CacheSizes& sizes,
                 const CachedAttentionOptions& options) {
  const Shape grouped{sizes.batch, sizes.key_heads, sizes.group(), sizes.queries, sizes.size};
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(sizes.size)));
  const Tensor scaled = scale == 1 ? q : q * scale;
  Tensor scores = dot_general(scaled.reshape(grouped), keys,
                              {.contract_a = {4}, .contract_b = {3}, .batch_a = {0, 1}, .batch_b = {0, 1}});
  if (options.softcap > 0) scores = tanh(scores / options.softcap) * options.softcap;
  if (options.bias) {
    const Tensor all = options.bias->broadcast_to({sizes.batch, sizes.heads, sizes.queries, Dim(sizes.capacity)});
    scores = scores + all.reshape({sizes.batch, sizes.key_heads, sizes.group(), sizes.queries, sizes.capacity});
  }
  scores = scores.reshape({sizes.batch, sizes.key_heads, sizes.group(), sizes.queries, sizes.parts(), sizes.part});
  const DType wide = scores.dtype() == DType::f64 ? DType::f64 : DType::f32;
  // How far a key is after the first query's position, less what its own query is: of positions alone, no sum wraps.
  const Tensor key = positions(6, 4, {sizes.parts(), sizes.part}), query = positions(6, 3, {sizes.queries});
  const Tensor last = options.causal ? key - query : key - api::whole_number(sizes.queries - 1);
  const Tensor none = Tensor::scalar(wide, -std::numeric_limits<double>::infinity());
  scores = select(le(last, beside(start, 6)), scores.cast(wide), none);
  if (!options.window) return scores;
  return select(ge(key - query + api::whole_number(*options.window - 1), beside(start, 6)), scores, none);
}

/// The values that have been written, as [batch, key heads, parts, keys of a part, value size]: a weight of 0 would not
/// keep the infinities and NaNs of others out.
Tensor written_values(const Tensor& values, const Tensor& start, const CacheSizes& sizes) {
  const Tensor key = positions(5, 2, {sizes.parts(), sizes.part});
  const Tensor parts = values.reshape({sizes.batch, sizes.key_heads, sizes.parts(), sizes.part, sizes.value_size});
  return select(le(key - api::whole_number(sizes.queries - 1), beside(start, 5)), parts,
                Tensor::scalar(values.dtype(), 0));
}

/// [batch, key heads, parts, group, queries, value size] as [batch, heads, queries, parts, value size].
Tensor by_heads(const Tensor& x, const CacheSizes& sizes) {
  return x.permute({0, 1, 3, 4, 2, 5})
      .reshape({sizes.batch, sizes.heads, sizes.queries, sizes.parts(), sizes.value_size});
}

/// Results of parts, each beside the logarithm of its sum, put together: a softmax over parts, in which each head's
/// sink has a part. Divided at the end, both sums are of one pass.
Tensor joined_parts(const Tensor& results, const Tensor& log_sums, const CachedAttentionOptions& options) {
  const Tensor own = log_sums.max({3}, true);
  if (!options.sink) {
    const Tensor raised = exp(log_sums - api::as_constant(own));
    return (raised * results).sum({3}) / raised.sum({3});
  }
  const Tensor sink = options.sink->cast(log_sums.dtype()).reshape({1, log_sums.shape()[1], 1, 1, 1});
  const Tensor largest = api::as_constant(max(own, sink));
  const Tensor raised = exp(log_sums - largest);
  return (raised * results).sum({3}) / (raised.sum({3}, true) + exp(sink - largest)).squeeze(3);
}

}  // namespace

Tensor cached_attention(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& starts,
                        const CachedAttentionOptions& options) {
  for (const Tensor* x : {&q, &keys, &values, &starts}) {
    if (!x->valid()) return *x;
  }
  const auto agreed = sizes_of(q, keys, values, starts, options);
  if (!agreed) return Tensor::failed(agreed.error());
  const CacheSizes& sizes = *agreed;
  if (options.sink && (!options.sink->valid() || options.sink->shape() != Shape{q.shape()[1]}))
    return options.sink->valid() ? Tensor::failed(invalid("'cached_attention' takes a sink for each of {} heads, but "
                                                          "they are {}.",
                                                          sizes.heads, api::text_of_type(*options.sink)))
                                 : *options.sink;
  const Tensor start = max(starts, api::whole_number(0));
  const Tensor scores = scores_of(q, keys, start, sizes, options);
  if (!scores.valid()) return scores;
  // [batch, key heads, parts, group, queries, ...] from here on.
  const Tensor shown = written_values(values, start, sizes);
  // Parts are put together in f32.
  const DType dtype = sizes.parts() > 1 || options.sink ? scores.dtype() : values.dtype();
  // Where a query sees no key of a part, nothing of these is a number, and nothing of them is used.
  const Tensor most = api::as_constant(scores.max({5}, true));
  const Tensor raised = exp(scores - most), total = raised.sum({5}, true);
  const auto beside_results = [](const Tensor& x) { return x.permute({0, 1, 4, 2, 3, 5}); };
  const Tensor results =
      dot_general((raised / total).cast(dtype), shown.cast(dtype),
                  {.contract_a = {5}, .contract_b = {3}, .batch_a = {0, 1, 4}, .batch_b = {0, 1, 2}});
  const Tensor lowest = Tensor::scalar(scores.dtype(), -std::numeric_limits<double>::infinity());
  const Tensor none = beside_results(eq(most, lowest));
  const Tensor known = by_heads(select(none, Tensor::scalar(dtype, 0), results), sizes);
  if (sizes.parts() == 1 && !options.sink)
    return known.reshape({sizes.batch, sizes.heads, sizes.queries, sizes.value_size}).cast(values.dtype());
  // A kernel stores what all its threads have: the logarithm beside each element, which it is made to depend on.
  const Tensor log_sum = max(beside_results(log(total) + most), min(results, lowest));
  const Tensor least = Tensor::scalar(scores.dtype(), std::numeric_limits<float>::lowest());
  return joined_parts(known, by_heads(select(none, least, log_sum), sizes), options).cast(values.dtype());
}

}  // namespace vkfuse
