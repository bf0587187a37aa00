// Caches in pages: the pool of rows gathered by a table, as attention against a cache reads it.
#include <limits>

#include "api/composites.hpp"
#include "api/tensor_node.hpp"
#include "index/arithmetic.hpp"
#include "vkfuse/generation.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

namespace {

Result<void> check_table(std::string_view composite, const Tensor& table, std::int64_t page) {
  const Shape& shape = table.shape();
  if (table.dtype() != DType::i32 || shape.size() != 2 || shape[1].is_symbol() || shape[1].size() < 1)
    return invalid(
        "'{}' takes a table of i32 [batch, pages], at least one page, whose number is no symbol, but it is {}.",
        composite, api::text_of_type(table));
  if (page < 1 || index::saturating_mul(page, shape[1].size()) > api::kMostCachePositions)
    return invalid("'{}' takes 1 to {} positions of a sequence, but there are {} pages of {}.", composite,
                   api::kMostCachePositions, shape[1].size(), page);
  return {};
}

bool divides(std::int64_t divisor, std::int64_t number) { return divisor > 0 && number % divisor == 0; }

/// Of queries and a pool; what cached_attention checks besides is left to it.
Result<void> check_pool(const Tensor& q, const Tensor& keys, const Tensor& values, std::int64_t page) {
  const Shape &of_q = q.shape(), &of_keys = keys.shape(), &of_values = values.shape();
  const bool are_pools = of_keys.size() == 3 && of_values.size() == 3 && of_keys[0] == of_values[0] &&
                         of_keys[1] == of_values[1] && !of_keys[0].is_symbol() && !of_keys[1].is_symbol();
  const bool are_whole = are_pools && of_keys[0].size() >= page && divides(page, of_keys[0].size());
  const bool agree = are_whole && of_q.size() == 4 && !of_q[1].is_symbol() && of_q[3] == of_keys[2] &&
                     divides(of_keys[1].size(), of_q[1].size());
  if (agree) return {};
  return invalid(
      "'paged_attention' takes queries [batch, heads, queries, size], and keys [rows, key heads, size] and values "
      "[rows, "
      "key heads, value size] of a pool of whole pages of {} rows, but they are {}, {} and {}.",
      page, api::text_of_type(q), api::text_of_type(keys), api::text_of_type(values));
}

/// The pool as [batch, key heads, pages * page, size].
Tensor gathered(const Tensor& pool, const Tensor& table, std::int64_t page) {
  const Shape& shape = pool.shape();
  const Tensor pages = pool.reshape({Dim(shape[0].size() / page), Dim(page), shape[1], shape[2]});
  const Dim capacity(table.shape()[1].size() * page);
  return pages.gather(table, 0).permute({0, 3, 1, 2, 4}).reshape({table.shape()[0], shape[1], capacity, shape[2]});
}

}  // namespace

Tensor page_rows(const PagedSequences& sequences, std::int64_t count) {
  const Tensor &table = sequences.table, &starts = sequences.starts;
  const std::int64_t page = sequences.page;
  for (const Tensor* x : {&table, &starts}) {
    if (!x->valid()) return *x;
  }
  if (auto checked = check_table("page_rows", table, page); !checked) return Tensor::failed(std::move(checked).error());
  const Shape& shape = table.shape();
  const bool is_one = starts.shape().empty(), is_of_batch = starts.shape() == Shape{shape[0]};
  if (starts.dtype() != DType::i32 || (!is_one && !is_of_batch) || count < 1 || count > api::kMostCachePositions)
    return Tensor::failed(
        invalid("'page_rows' takes 1 to {} positions from a start of i32 on, or one for each of {} sequences, but it "
                "was given {} and {}.",
                api::kMostCachePositions, shape[0].text(), count, api::text_of_type(starts)));
  const std::int64_t pages = shape[1].size();
  // No sum wraps, and a start past the end is past it.
  const Tensor first = min(max(starts, api::whole_number(0)), api::whole_number(pages * page));
  const Tensor column = first.reshape({is_one ? Dim(1) : shape[0], Dim(1)});
  const Tensor position = (column + Tensor::iota(DType::i32, {Dim(1), Dim(count)}, 1)).broadcast_to({shape[0], count});
  // An entry past every pool stays past it.
  const Tensor entry = min(table.take_along(min(position / api::whole_number(page), api::whole_number(pages - 1)), 1),
                           api::whole_number(std::numeric_limits<std::int32_t>::max() / page - 1));
  const Tensor is_there = logical_and(lt(position, api::whole_number(pages * page)), ge(entry, api::whole_number(0)));
  return select(is_there, entry * api::whole_number(page) + rem(position, api::whole_number(page)),
                api::whole_number(-1));
}

Tensor paged_attention(const Tensor& q, const Tensor& keys, const Tensor& values, const PagedSequences& pages,
                       const CachedAttentionOptions& options) {
  const Tensor &table = pages.table, &starts = pages.starts;
  const std::int64_t page = pages.page;
  for (const Tensor* x : {&q, &keys, &values, &table, &starts}) {
    if (!x->valid()) return *x;
  }
  if (auto checked = check_table("paged_attention", table, page); !checked)
    return Tensor::failed(std::move(checked).error());
  if (auto checked = check_pool(q, keys, values, page); !checked) return Tensor::failed(std::move(checked).error());
  return cached_attention(q, gathered(keys, table, page), gathered(values, table, page), starts, options);
}

}  // namespace vkfuse
