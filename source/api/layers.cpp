// Layers, positions that are data and random numbers, written with the primitives.
#include <cmath>
#include <numbers>

#include "api/composites.hpp"
#include "api/known_positions.hpp"
#include "api/tensor_node.hpp"
#include "base/shape.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

using api::text_of_type;

Tensor api::with_number(std::string_view op, const Tensor& x, double number) {
  return Tensor::apply(op, {x, Tensor::scalar(x.dtype(), number)});
}

Tensor api::whole_number(std::int64_t value) { return Tensor::scalar_int(DType::i32, value); }
std::string api::text_of_type(const Tensor& x) { return to_text(TensorType{x.dtype(), x.shape()}); }

Tensor api::or_failed(Result<Tensor> made) { return made ? *std::move(made) : Tensor::failed(std::move(made).error()); }

Tensor linear(const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias) {
  if (w.valid() && w.shape().size() != 2)
    return Tensor::failed(invalid("'linear' takes a matrix of weights, but they are {}.", text_of_type(w)));
  const Tensor product = matmul(x, w);
  return bias ? product + *bias : product;
}

Tensor embedding(const Tensor& table, const Tensor& indices) {
  if (table.valid() && table.shape().empty())
    return Tensor::failed(invalid("'embedding' takes rows of a table, but it is {}.", text_of_type(table)));
  return table.gather(indices, 0);
}

namespace {

Result<Tensor> turned(const Tensor& x, const Tensor& cosine, const Tensor& sine, const RotaryOptions& options) {
  for (const Tensor* operand : {&x, &cosine, &sine}) {
    if (!operand->valid()) return Error(operand->error());
  }
  if (x.shape().empty() || x.shape().back().is_symbol())
    return invalid("'rotary' turns elements of a last axis whose size is a number, which {} does not have.",
                   text_of_type(x));
  const int last = static_cast<int>(x.shape().size()) - 1;
  const std::int64_t size = x.shape().back().size();
  const std::int64_t count = options.size == 0 ? size : options.size;
  if (count < 2 || count > size || count % 2 != 0)
    return invalid("A rotary embedding of {} of {} elements is not possible.", count, size);
  const std::int64_t half = count / 2;
  const Tensor head = count < size ? x.slice(last, 0, count) : x;
  Tensor joined = head;
  if (options.interleaved) {
    const Tensor first = head.slice(last, 0, count, 2), second = head.slice(last, 1, count, 2);
    const Tensor a = first * cosine - second * sine, b = first * sine + second * cosine;
    joined = concat({a.unsqueeze(last + 1), b.unsqueeze(last + 1)}, last + 1).reshape(head.shape());
  } else {
    const Tensor first = head.slice(last, 0, half), second = head.slice(last, half, count);
    joined = concat({first * cosine - second * sine, first * sine + second * cosine}, last);
  }
  return count < size ? concat({joined, x.slice(last, count, size)}, last) : joined;
}

}  // namespace

Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine, const RotaryOptions& options) {
  return api::or_failed(turned(x, cosine, sine, options));
}

Tensor log_sum_exp(const Tensor& x, int axis, bool keep_dims) {
  if (!x.valid()) return x;
  if (!is_float(x.dtype()))
    return Tensor::failed(invalid("'log_sum_exp' takes floats, but it is given {}.", text_of_type(x)));
  const Tensor largest = api::largest_along(x, axis);
  // An infinite maximum is the result; the sum below it, which is a softmax's, is no number.
  const Tensor result = select(is_finite(largest), largest + log(exp(x - largest).sum({axis}, true)), largest);
  return keep_dims || !result.valid() ? result : result.squeeze(axis);
}

AttentionParts attention_and_log_sum_exp(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionOptions& options) {
  if (options.sink) {
    const Tensor none = Tensor::failed(unsupported(
        "'attention_and_log_sum_exp' takes no attention sinks, but they are {}.", text_of_type(*options.sink)));
    return {none, none};
  }
  const Tensor scores = attention_scores(q, k, options);
  if (!scores.valid()) return {scores, scores};
  const Tensor wide = scores.cast(options.softmax_dtype.value_or(scores.dtype()));
  return {attention_output(softmax(wide).cast(v.dtype()), v), log_sum_exp(wide)};
}

Tensor api::hot_at(const Tensor& positions, std::int64_t depth, const Tensor& on, const Tensor& off, int axis) {
  Shape ramp(positions.shape().size() + 1, Dim(1));
  ramp[static_cast<std::size_t>(axis)] = depth;
  return select(eq(positions.unsqueeze(axis), Tensor::iota(DType::i32, ramp, axis)), on, off);
}

Tensor one_hot(const Tensor& indices, std::int64_t depth, const Tensor& on, const Tensor& off, int axis) {
  if (!indices.valid()) return indices;
  const std::size_t rank = indices.shape().size() + 1;
  const int counted = api::counted_axis(axis, rank);
  if (!is_integer(indices.dtype()) || depth < 0 || depth > INT32_MAX || counted < 0 ||
      counted >= static_cast<int>(rank)) {
    return Tensor::failed(
        invalid("'one_hot' of integers has a depth of 0 to {} and an axis of its result, but they are "
                "{}, {} and {}.",
                INT32_MAX, text_of_type(indices), depth, axis));
  }
  const Tensor index = indices.cast(DType::i32);
  const Tensor position = select(api::with_number("lt", index, 0), index + static_cast<double>(depth), index);
  return api::hot_at(position, depth, on, off, counted);
}

namespace {

/// Whether every line along the axis has one update: a choice for each element then, and no search for its updates.
bool is_one_of_each_line(const Tensor& x, const Tensor& positions, int axis) {
  Shape lines = x.shape();
  lines[static_cast<std::size_t>(axis)] = Dim(1);
  return positions.shape() == lines;
}

/// Each element, or what an update makes of it. A position that is no element's changes none.
Tensor updated_where(const Tensor& x, const Tensor& positions, const Tensor& updates, int axis, std::string_view mode) {
  Shape ramp(x.shape().size(), Dim(1));
  ramp[static_cast<std::size_t>(axis)] = x.shape()[static_cast<std::size_t>(axis)];
  const Tensor is_here = eq(positions, Tensor::iota(positions.dtype(), ramp, axis));
  const Tensor updated = mode == "set"
                             ? updates
                             : api::build_tensor(ops::row(mode), {x, updates}, {x.dtype(), x.shape()}, ir::NoPayload());
  return select(is_here, updated, x);
}

}  // namespace

Tensor api::scatter_at(const Tensor& x, const Tensor& positions, const Tensor& updates, int axis,
                       std::string_view mode) {
  std::int64_t count = 1;
  for (const Dim& dim : x.shape()) count *= dim.size();
  const DType dtype = position_dtype(count);
  if (is_one_of_each_line(x, positions, axis) && ir::scatter_mode_named(mode))
    return updated_where(x, positions.cast(dtype), updates, axis, mode);
  Tensor position = Tensor::scalar_int(dtype, 0);
  std::int64_t stride = 1;
  for (std::size_t i = x.shape().size(); i-- > 0;) {
    Tensor coordinate = positions.cast(dtype);
    if (static_cast<int>(i) != axis) {
      Shape ramp(x.shape().size(), Dim(1));
      ramp[i] = positions.shape()[i];
      coordinate = Tensor::iota(dtype, ramp, static_cast<int>(i));
    }
    position = position + coordinate * Tensor::scalar_int(dtype, stride);
    stride *= x.shape()[i].size();
  }
  const Shape flat{Dim(-1)};
  return x.reshape(flat).scatter(position.reshape(flat), updates.reshape(flat), mode).reshape(x.shape());
}

namespace {

bool fits_along(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis) {
  bool fits = updates.shape() == indices.shape() && indices.shape().size() == x.shape().size();
  for (std::size_t i = 0; fits && i < x.shape().size(); ++i) {
    const Dim &own = x.shape()[i], &given = indices.shape()[i];
    fits = !own.is_symbol() && !given.is_symbol() && (static_cast<int>(i) == axis || given.size() <= own.size());
  }
  return fits;
}

Result<Tensor> scattered(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis,
                         std::string_view mode) {
  for (const Tensor* operand : {&x, &indices, &updates}) {
    if (!operand->valid()) return Error(operand->error());
  }
  const int counted = api::counted_axis(axis, x.shape().size());
  const bool is_there = counted >= 0 && counted < static_cast<int>(x.shape().size());
  if (!is_there || !is_integer(indices.dtype()) || updates.dtype() != x.dtype() ||
      !fits_along(x, indices, updates, counted)) {
    return invalid(
        "'scatter_along' of {} takes integers and updates of one shape that fits it, along one of its axes, "
        "but they are {} and {} along axis {}.",
        text_of_type(x), text_of_type(indices), text_of_type(updates), axis);
  }
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : x.shape()) sizes.push_back(dim.size());
  VKF_TRY(count, element_count(sizes));
  const std::int64_t size = sizes[static_cast<std::size_t>(counted)];
  const DType dtype = api::position_dtype(count);
  const auto number = [dtype](std::int64_t value) { return Tensor::scalar_int(dtype, value); };
  const Tensor index = indices.cast(size <= INT32_MAX && size_of(indices.dtype()) < 8 ? DType::i32 : DType::i64);
  const auto bound = [&](std::int64_t value) { return Tensor::scalar_int(index.dtype(), value); };
  const Tensor from_start = select(lt(index, bound(0)), index + bound(size), index);
  const Tensor inside = logical_and(ge(from_start, bound(0)), lt(from_start, bound(size)));
  // The flat position of what is out of range is another element's: it is moved before the first element.
  std::int64_t stride = 1;
  for (std::size_t i = static_cast<std::size_t>(counted) + 1; i < sizes.size(); ++i) stride *= sizes[i];
  const std::int64_t nowhere = stride == 0 ? 0 : size - count / stride - 1;
  return api::scatter_at(x, select(inside, from_start.cast(dtype), number(nowhere)), updates, counted, mode);
}

}  // namespace

Tensor scatter_along(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis, std::string_view mode) {
  return api::or_failed(scattered(x, indices, updates, axis, mode));
}

namespace {

Tensor word(std::uint32_t value) { return Tensor::scalar_int(DType::u32, value); }

/// Every bit of the result depends on every bit of the operand, and equal results have equal operands: the finaliser of
/// MurmurHash3 (Appleby, 2011).
Tensor mixed(Tensor x) {
  x = bit_xor(x, shift_right(x, word(16))) * word(0x85ebca6b);
  x = bit_xor(x, shift_right(x, word(13))) * word(0xc2b2ae35);
  return bit_xor(x, shift_right(x, word(16)));
}

/// Words of the counter, mixed with both halves of the seed: one by one they are as random as the counter's, as mixing
/// is a permutation.
Result<Tensor> words_of(const Shape& shape, const Tensor& seed) {
  if (!seed.valid()) return Error(seed.error());
  bool is_one = is_integer(seed.dtype());
  for (const Dim& dim : seed.shape()) is_one = is_one && dim == Dim(1);
  if (!is_one) return invalid("A seed is one integer, but it is {}.", text_of_type(seed));
  const Tensor one = seed.reshape({});
  const bool is_wide = size_of(one.dtype()) == 8;
  const Tensor low = one.cast(DType::u32);
  const Tensor high =
      is_wide ? shift_right(one.cast(DType::u64), Tensor::scalar_int(DType::u64, 32)).cast(DType::u32) : word(0);
  constexpr std::uint64_t kStart = 0x9e3779b97f4a7c15;
  const Tensor once = mixed(bit_xor(Tensor::random(shape, kStart), mixed(low + word(0x9e3779b9))));
  return mixed(once + mixed(bit_xor(high, word(0x7f4a7c15))));
}

}  // namespace

Tensor random_words(const Shape& shape, const Seed& seed) {
  if (const auto* number = std::get_if<std::uint64_t>(&seed)) return Tensor::random(shape, *number);
  return api::or_failed(words_of(shape, std::get<Tensor>(seed)));
}

Tensor random_uniform(const Shape& shape, const Seed& seed) {
  return shift_right(random_words(shape, seed), word(8)).cast(DType::f32) * 0x1p-24;
}

Tensor random_normal(const Shape& shape, const Seed& seed) {
  constexpr std::uint64_t kOther = 0x9e3779b97f4a7c15;  // another counter
  Seed other = seed;
  if (auto* number = std::get_if<std::uint64_t>(&other)) {
    *number ^= kOther;
  } else {
    const Tensor& given = std::get<Tensor>(seed);
    if (!given.valid()) return given;
    other = bit_xor(given.cast(DType::u64), Tensor::scalar_int(DType::u64, static_cast<std::int64_t>(kOther)));
  }
  // A radius of one number, an angle of another.
  const Tensor radius = sqrt(log(1.0 - random_uniform(shape, seed)) * -2.0);
  return radius * cos(random_uniform(shape, other) * (2 * std::numbers::pi));
}

}  // namespace vkfuse
