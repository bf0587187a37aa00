#include "support/masks.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "ir/graph.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::int64_t queries_of(const Tensor& scores) { return scores.shape()[2].size(); }
std::int64_t keys_of(const Tensor& scores) { return scores.shape()[3].size(); }

Tensor scalar(const Tensor& like, double value) { return Tensor::scalar(like.dtype(), value); }
Tensor whole(std::int64_t value) { return Tensor::scalar_int(DType::i64, value); }

template <typename Value>
Tensor counted(DType dtype, const Shape& shape, std::int64_t count, Value value) {
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    if (is_float(dtype)) {
      ir::encode(dtype, static_cast<double>(value(i)), bytes);
    } else {
      ir::encode_int(dtype, static_cast<std::int64_t>(value(i)), bytes);
    }
  }
  return Tensor::constant(dtype, shape, bytes);
}

/// 0, 1, ... along an axis of four, as a constant.
Tensor stored_positions(DType dtype, std::int64_t count, int axis) {
  Shape shape(4, Dim(1));
  shape[static_cast<std::size_t>(axis)] = Dim(count);
  return counted(dtype, shape, count, [](std::int64_t i) { return i; });
}

Tensor stored_queries(const Tensor& scores, DType dtype = DType::i64) {
  return stored_positions(dtype, queries_of(scores), 2);
}
Tensor stored_keys(const Tensor& scores, DType dtype = DType::i64) {
  return stored_positions(dtype, keys_of(scores), 3);
}

/// A matrix of queries and keys, `copies` of it, as a constant.
template <typename Value>
Tensor stored_matrix(const Tensor& scores, DType dtype, Value value, std::int64_t copies = 1) {
  const std::int64_t queries = queries_of(scores), keys = keys_of(scores);
  return counted(dtype, {copies, 1, queries, keys}, copies * queries * keys,
                 [&](std::int64_t i) { return value(i / keys % queries, i % keys); });
}

Tensor added(const Tensor& scores, const Tensor& sees, double masked) {
  return scores + select(sees, scalar(scores, 0), scalar(scores, masked));
}
Tensor kept(const Tensor& scores, const Tensor& sees, double masked) {
  return select(sees, scores, scalar(scores, masked));
}

/// What lies above a diagonal of a matrix, or from there down, as Trilu is imported.
Tensor triangle(const Tensor& x, bool upper, std::int64_t diagonal) {
  const Shape matrix(x.shape().end() - 2, x.shape().end());
  const Tensor from = Tensor::iota(DType::i32, matrix, 1) - Tensor::iota(DType::i32, matrix, 0);
  const Tensor k = Tensor::scalar_int(DType::i32, diagonal);
  return select(upper ? ge(from, k) : le(from, k), x, scalar(x, 0));
}
Tensor full(const Tensor& scores, double value) {
  return scalar(scores, value).broadcast_to({queries_of(scores), keys_of(scores)});
}

bool causal(std::int64_t query, std::int64_t key) { return key <= query; }
bool before(std::int64_t query, std::int64_t key) { return key < query; }
bool after(std::int64_t query, std::int64_t key) { return key >= query; }
bool window(std::int64_t query, std::int64_t key) { return key <= query && key > query - 20; }
bool with_sinks(std::int64_t query, std::int64_t key) { return key <= query && (key > query - 20 || key < 4); }
bool prefix(std::int64_t query, std::int64_t key) { return key <= query || key < 30; }
bool offset(std::int64_t query, std::int64_t key) { return key <= query + 13; }
bool blocks(std::int64_t query, std::int64_t key) { return key / 32 == query / 32; }
bool far_ahead(std::int64_t query, std::int64_t key) { return key >= query + 60; }
bool far_behind(std::int64_t query, std::int64_t key) { return key <= query - 30; }
bool between(std::int64_t query, std::int64_t key) { return key < query && key >= 5; }
bool everything(std::int64_t, std::int64_t) { return true; }
bool nearly(std::int64_t query, std::int64_t key) { return key <= query || (query == 3 && key == 40); }

Tensor positions(const Tensor& scores, DType dtype, int axis) {
  return Tensor::iota(dtype, {axis == 0 ? queries_of(scores) : 1, axis == 0 ? 1 : keys_of(scores)}, axis);
}

const MaskSpelling kSpellings[] = {
    {"llama_of_dynamo",
     [](const Tensor& s, double masked) {
       Tensor sees = logical_and(Tensor::scalar_int(DType::boolean, 1), le(stored_keys(s), stored_queries(s)));
       const Tensor zeros = stored_queries(s) * 0,
                    others = counted(DType::i64, {1, 1, 1, keys_of(s)}, keys_of(s), [](std::int64_t) { return 0; });
       sees = logical_and(sees, eq(zeros, others));
       return added(s, sees, masked);
     },
     causal},
    {"stored_sum",
     [](const Tensor& s, double masked) {
       return s + stored_matrix(
                      s, s.dtype(), [=](auto q, auto k) { return k <= q ? 0 : masked; }, s.shape()[0].size());
     },
     causal},
    {"stored_sum_of_infinity",
     [](const Tensor& s, double) {
       return s + stored_matrix(s, s.dtype(), [](auto q, auto k) { return k <= q ? 0 : -kInfinity; });
     },
     causal, true, true},
    {"gpt2", [](const Tensor& s, double masked) { return kept(s, stored_matrix(s, DType::boolean, causal), masked); },
     causal},
    {"gpt2_of_bytes",
     [](const Tensor& s, double) {
       const std::int64_t size = queries_of(s) + keys_of(s);
       const Tensor all = counted(DType::u8, {1, 1, size, size}, size * size,
                                  [&](std::int64_t i) { return i % size <= i / size ? 1 : 0; });
       return kept(s, all.slice(2, 0, queries_of(s)).slice(3, 0, keys_of(s)).cast(DType::boolean), -1e4);
     },
     causal},
    {"triangle_of_numbers",
     [](const Tensor& s, double masked) {
       return s + triangle(full(s, masked), true, 1).reshape({1, 1, queries_of(s), keys_of(s)});
     },
     causal},
    {"triangle_times_comparison",
     [](const Tensor& s, double masked) {
       const Tensor beyond = gt(positions(s, DType::i64, 1), positions(s, DType::i64, 0));
       const Tensor mask = triangle(full(s, masked), true, 1) * beyond.cast(s.dtype());
       return s + mask.unsqueeze(0).unsqueeze(0);
     },
     causal},
    {"triangle_of_ones",
     [](const Tensor& s, double masked) {
       const Tensor sees = triangle(full(s, 1), false, 0).cast(DType::boolean);
       return select(logical_not(sees), scalar(s, masked), s);
     },
     causal},
    {"one_less_triangle",
     [](const Tensor& s, double masked) { return s + (1.0 - triangle(full(s, 1), false, 0)) * scalar(s, masked); },
     causal},
    {"gpt",
     [](const Tensor& s, double) {
       const Tensor sees = stored_matrix(s, s.dtype(), causal);
       return s * sees - (1.0 - sees) * 1e4;
     },
     causal},
    {"minus_ten_thousand",
     [](const Tensor& s, double) {
       return s - stored_matrix(s, s.dtype(), [](auto q, auto k) { return k <= q ? 0 : 1; }) * 1e4;
     },
     causal},
    {"running_sum",
     [](const Tensor& s, double masked) {
       const Tensor query = whole(1).broadcast_to({queries_of(s), 1}).cumsum(0) - whole(1);
       const Tensor key = whole(1).broadcast_to({1, keys_of(s)}).cumsum(1, true);
       return kept(s, le(key, query), masked);
     },
     causal},
    {"positions_of_f32",
     [](const Tensor& s, double) {
       return select(lt(positions(s, DType::f32, 0), positions(s, DType::f32, 1)), scalar(s, -kInfinity), s);
     },
     causal, true, true},
    {"comparison_turned",
     [](const Tensor& s, double masked) {
       return added(s,
                    logical_not(lt(stored_queries(s, DType::i32) - stored_keys(s, DType::i32),
                                   Tensor::scalar_int(DType::i32, 0))),
                    masked);
     },
     causal},
    {"clamped",
     [](const Tensor& s, double masked) {
       return max(added(s, le(stored_keys(s), stored_queries(s)), masked), scalar(s, masked));
     },
     causal},
    {"before", [](const Tensor& s, double masked) { return added(s, lt(stored_keys(s), stored_queries(s)), masked); },
     before},
    {"before_or_nothing",
     [](const Tensor& s, double) { return kept(s, stored_matrix(s, DType::boolean, before), -kInfinity); }, before,
     true, true},
    {"after", [](const Tensor& s, double masked) { return kept(s, stored_matrix(s, DType::boolean, after), masked); },
     after},
    {"window",
     [](const Tensor& s, double masked) {
       const Tensor q = stored_queries(s), k = stored_keys(s);
       return added(s, logical_and(le(k, q), gt(k, q - whole(20))), masked);
     },
     window},
    {"stored_window",
     [](const Tensor& s, double masked) {
       return s + stored_matrix(s, s.dtype(), [&](auto q, auto k) { return window(q, k) ? 0 : masked; });
     },
     window},
    {"window_and_sinks",
     [](const Tensor& s, double masked) {
       const Tensor q = stored_queries(s), k = stored_keys(s);
       return kept(s, logical_and(le(k, q), logical_or(gt(k, q - whole(20)), lt(k, whole(4)))), masked);
     },
     with_sinks},
    {"prefix",
     [](const Tensor& s, double masked) {
       return added(s, logical_or(le(stored_keys(s), stored_queries(s)), lt(stored_keys(s), whole(30))), masked);
     },
     prefix},
    {"after_a_cache",
     [](const Tensor& s, double masked) { return added(s, le(stored_keys(s), stored_queries(s) + whole(13)), masked); },
     offset},
    {"blocks",
     [](const Tensor& s, double masked) {
       const auto block = [](const Tensor& x) { return x / Tensor::scalar_int(x.dtype(), 32); };
       return added(s, eq(block(positions(s, DType::i32, 0)), block(positions(s, DType::i32, 1))), masked);
     },
     blocks},
    {"everything",
     [](const Tensor& s, double masked) {
       return added(s, ge(stored_queries(s), whole(0)).broadcast_to(s.shape()), masked);
     },
     everything, false},
    {"with_padding",
     [](const Tensor& s, double masked) {
       const Tensor padding = Tensor::input("padding", DType::boolean, {s.shape()[0], 1, 1, keys_of(s)});
       return added(s, logical_and(le(stored_keys(s), stored_queries(s)), padding), masked);
     },
     causal, true, false, true},
    {"plus_padding",
     [](const Tensor& s, double masked) {
       const Tensor padding = Tensor::input("padding", DType::boolean, {s.shape()[0], 1, 1, keys_of(s)});
       const Tensor sees = stored_matrix(s, DType::boolean, causal);
       const Tensor zero = scalar(s, 0), hidden = scalar(s, masked);
       return s + (select(sees, zero, hidden) + select(padding, zero, hidden));
     },
     causal, true, false, true},
    {"padding_around_infinity",
     [](const Tensor& s, double masked) {
       const Tensor padding = Tensor::input("padding", DType::boolean, {s.shape()[0], 1, 1, keys_of(s)});
       return kept(kept(s, le(stored_keys(s), stored_queries(s)), -kInfinity), padding, masked);
     },
     causal, true, false, true},
    {"with_lengths",
     [](const Tensor& s, double masked) {
       const Tensor lengths = Tensor::input("lengths", DType::i64, {s.shape()[0], 1, 1, 1});
       return added(s, logical_and(le(stored_keys(s), stored_queries(s)), lt(stored_keys(s), lengths)), masked);
     },
     causal, true, false, true},
    // Rows that see nothing.
    {"far_ahead",
     [](const Tensor& s, double masked) { return added(s, ge(stored_keys(s), stored_queries(s) + whole(60)), masked); },
     far_ahead, true, false, true},
    {"stored_far_ahead",
     [](const Tensor& s, double masked) {
       return s + stored_matrix(s, s.dtype(), [=](auto q, auto k) { return far_ahead(q, k) ? 0 : masked; });
     },
     far_ahead, true, false, true},
    {"far_behind",
     [](const Tensor& s, double masked) { return kept(s, le(stored_keys(s), stored_queries(s) - whole(30)), masked); },
     far_behind, true, false, true},
    {"far_behind_or_nothing",
     [](const Tensor& s, double) { return kept(s, le(stored_keys(s), stored_queries(s) - whole(30)), -kInfinity); },
     far_behind, true, true, true},
    {"two_masks_added",
     [](const Tensor& s, double masked) {
       const Tensor zero = scalar(s, 0), hidden = scalar(s, masked);
       const Tensor q = stored_queries(s), k = stored_keys(s);
       return s + (select(lt(k, q), zero, hidden) + select(ge(k, whole(5)), zero, hidden));
     },
     between, true, false, true},
    // Nearly so.
    {"one_element_more",
     [](const Tensor& s, double masked) { return kept(s, stored_matrix(s, DType::boolean, nearly), masked); }, nearly,
     false},
    {"wrapped",
     [](const Tensor& s, double) {
       const Tensor q = positions(s, DType::i32, 0).cast(DType::i8), k = positions(s, DType::i32, 1).cast(DType::i8);
       return kept(s, le(k * Tensor::scalar_int(DType::i8, 4), q * Tensor::scalar_int(DType::i8, 4)), -1e4);
     },
     [](std::int64_t q, std::int64_t k) { return static_cast<std::int8_t>(4 * k) <= static_cast<std::int8_t>(4 * q); },
     false},
    {"a_small_bias", [](const Tensor& s, double) { return added(s, le(stored_keys(s), stored_queries(s)), -3); },
     everything, false},
};

}  // namespace

std::span<const MaskSpelling> mask_spellings() { return kSpellings; }

double least_number(DType dtype) {
  if (dtype == DType::f16) return -65504;
  return dtype == DType::bf16 ? -0x1.fep127 : -0x1.fffffep127;
}

}  // namespace vkfuse::test
