// Caches in pages: the pool of rows gathered by a table, as attention against a cache reads it.
#include "api/composites.hpp"
#include "api/tensor_node.hpp"
#include "vkfuse/generation.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

namespace {

constexpr std::int64_t kMostPositions = std::int64_t{1} << 26;  ///< of a sequence, and of a page: sums of them are i32

Tensor number(std::int64_t value) { return Tensor::scalar_int(DType::i32, value); }

Result<void> check_table(std::string_view composite, const Tensor& table, std::int64_t page) {
  const Shape& shape = table.shape();
  if (table.dtype() != DType::i32 || shape.size() != 2 || shape[1].is_symbol() || shape[1].size() < 1)
    return invalid("'{}' takes a table of i32 [batch, pages], at least one page, but it is {}.", composite,
                   api::text_of_type(table));
  if (page < 1 || page > kMostPositions / shape[1].size())
    return invalid("'{}' takes pages of 1 to {} positions, {} of a sequence, but they have {}.", composite,
                   kMostPositions / shape[1].size(), shape[1].size(), page);
  return {};
}

/// The pool as [batch, key heads, pages * page, size].
Result<Tensor> gathered(const Tensor& pool, const Tensor& table, std::int64_t page) {
  const Shape& shape = pool.shape();
  if (shape.size() != 3 || shape[0].is_symbol() || shape[0].size() < page || shape[0].size() % page != 0)
    return invalid(
        "'paged_attention' takes keys and values of [rows, key heads, size], whole pages of {} rows, but they "
        "are {}.",
        page, api::text_of_type(pool));
  const Tensor pages = pool.reshape({Dim(shape[0].size() / page), Dim(page), shape[1], shape[2]});
  const Dim capacity(table.shape()[1].size() * page);
  return pages.gather(table, 0).permute({0, 3, 1, 2, 4}).reshape({table.shape()[0], shape[1], capacity, shape[2]});
}

}  // namespace

Tensor page_rows(const Tensor& table, const Tensor& starts, std::int64_t count, std::int64_t page) {
  for (const Tensor* x : {&table, &starts}) {
    if (!x->valid()) return *x;
  }
  if (auto checked = check_table("page_rows", table, page); !checked) return Tensor::failed(std::move(checked).error());
  const Shape& shape = table.shape();
  const bool is_one = starts.shape().empty(), is_of_batch = starts.shape() == Shape{shape[0]};
  if (starts.dtype() != DType::i32 || (!is_one && !is_of_batch) || count < 1 || count > kMostPositions)
    return Tensor::failed(
        invalid("'page_rows' takes 1 to {} positions from a start of i32 on, or one for each of {} sequences, but it "
                "was given {} and {}.",
                kMostPositions, shape[0].text(), count, api::text_of_type(starts)));
  const std::int64_t pages = shape[1].size();
  // No sum wraps, and a start past the end is past it.
  const Tensor first = min(max(starts, number(0)), number(pages * page));
  const Tensor column = first.reshape({is_one ? Dim(1) : shape[0], Dim(1)});
  const Tensor position = (column + Tensor::iota(DType::i32, {Dim(1), Dim(count)}, 1)).broadcast_to({shape[0], count});
  const Tensor entry = table.take_along(min(position / number(page), number(pages - 1)), 1);
  const Tensor is_there = logical_and(lt(position, number(pages * page)), ge(entry, number(0)));
  return select(is_there, entry * number(page) + rem(position, number(page)), number(-1));
}

Tensor paged_attention(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& table,
                       const Tensor& starts, std::int64_t page, const CachedAttentionOptions& options) {
  for (const Tensor* x : {&q, &keys, &values, &table, &starts}) {
    if (!x->valid()) return *x;
  }
  if (auto checked = check_table("paged_attention", table, page); !checked)
    return Tensor::failed(std::move(checked).error());
  Result<Tensor> own_keys = gathered(keys, table, page), own_values = gathered(values, table, page);
  for (Result<Tensor>* one : {&own_keys, &own_values}) {
    if (!*one) return Tensor::failed(std::move(*one).error());
  }
  return cached_attention(q, *own_keys, *own_values, starts, options);
}

}  // namespace vkfuse
