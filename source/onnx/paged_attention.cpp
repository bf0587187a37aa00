// PagedAttention of com.microsoft: caches in pages, and the new tokens of all sequences one after the other.
#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/generation.hpp"

namespace vkfuse::onnx {
namespace {

struct Paged {
  enum Operand {
    kQuery,
    kKey,
    kValue,
    kKeyCache,
    kValueCache,
    kEnds,  ///< where the tokens of each sequence begin, and where the last ends
    kPast,
    kTable,
    kCosine,
    kSine,
    kSlots,  ///< where in the pool each token's key and value go
    kSink,
    kQueryNorm,
    kKeyNorm,
    kKeyScale,
    kValueScale
  };

  std::int64_t heads = 0, key_heads = 0;
  bool rotates = false, interleaved = false;
  double epsilon = 1e-6;  ///< of the norms
  CachedAttentionOptions attention;
};

/// Attributes by which the operator is another one.
Result<void> check_kind(const NodeContext& node) {
  struct Text {
    std::string_view name, usual;
    std::vector<std::string_view> supported;
  };
  const std::vector<Text> texts = {{"kv_cache_layout", "SEPARATE", {"SEPARATE"}},
                                   {"k_quant_type", "NONE", {"NONE"}},
                                   {"v_quant_type", "NONE", {"NONE"}},
                                   {"k_cache_dtype", "", {"", "float16", "bfloat16"}},
                                   {"v_cache_dtype", "", {"", "float16", "bfloat16"}}};
  for (const Text& text : texts) {
    VKF_TRY(value, node.attributes().text(text.name, text.usual));
    if (std::ranges::find(text.supported, value) == text.supported.end()) {
      return unsupported("Attribute '{}' of operator 'PagedAttention' is '{}'; supported is '{}'.", text.name, value,
                         text.supported.back());
    }
  }
  const std::vector<std::pair<std::string_view, std::int64_t>> numbers = {
      {"is_causal", 1}, {"rotary_offset", 0}, {"v_head_size", 0}};
  for (const auto& [name, supported] : numbers) {
    VKF_TRY(value, node.attributes().integer(name, supported));
    if (value != supported) {
      return unsupported("Attribute '{}' of operator 'PagedAttention' is {}; supported is {}.", name, value, supported);
    }
  }
  return {};
}

Result<Paged> paged_of(const NodeContext& node) {
  VKF_CHECK_OK(check_kind(node));
  const Attributes& attributes = node.attributes();
  Paged in;
  VKF_TRY(heads, attributes.integer("num_heads", 0));
  VKF_TRY(key_heads, attributes.integer("kv_num_heads", 0));
  VKF_TRY(rotates, attributes.integer("do_rotary", 0));
  VKF_TRY(interleaved, attributes.integer("rotary_interleaved", 0));
  VKF_TRY(window, attributes.integer("local_window_size", -1));
  VKF_TRY(softcap, attributes.real("softcap", 0));
  VKF_TRY(scale, attributes.real("scale", 0));
  VKF_TRY(epsilon, attributes.real("qk_norm_epsilon", 1e-6));
  constexpr std::int64_t kMostHeads = std::int64_t{1} << 20;
  if (heads < 1 || heads > kMostHeads || key_heads < 1 || heads % key_heads != 0) {
    return invalid("Operator 'PagedAttention' has num_heads {} and kv_num_heads {}; the second must divide the first.",
                   heads, key_heads);
  }
  in.heads = heads;
  in.key_heads = key_heads;
  in.rotates = rotates != 0;
  in.interleaved = interleaved != 0;
  in.epsilon = epsilon;
  in.attention.softcap = softcap;
  if (scale != 0) in.attention.scale = scale;
  if (window > 0) in.attention.window = window;
  if (node.has(Paged::kSink)) in.attention.sink = node.tensor(Paged::kSink);
  return in;
}

Result<void> check_paged_shape(const NodeContext& node, int operand, const Shape& shape) {
  if (!node.has(operand))
    return invalid("Operand {} of operator 'PagedAttention' is left out, but is needed.", operand);
  if (node.tensor(operand).shape() == shape) return {};
  return invalid("Operand {} of operator 'PagedAttention' is {}; it must be {}.", operand,
                 to_text(node.tensor(operand).shape()), to_text(shape));
}

/// The pool and the tokens.
struct PagedSizes {
  Dim tokens;
  std::int64_t batch = 0, pages = 0, page = 0, size = 0;  ///< of the pool, of a page, of a head
};

Result<void> check_operands(const NodeContext& node, const Paged& in, const PagedSizes& sizes) {
  const bool is_packed = !node.has(Paged::kKey);
  const std::int64_t own = in.heads * sizes.size, shared = in.key_heads * sizes.size;
  VKF_CHECK_OK(check_paged_shape(node, Paged::kQuery, {sizes.tokens, Dim(is_packed ? own + 2 * shared : own)}));
  if (!is_packed || node.has(Paged::kValue)) {
    for (const int operand : {Paged::kKey, Paged::kValue})
      VKF_CHECK_OK(check_paged_shape(node, operand, {sizes.tokens, Dim(shared)}));
  }
  for (const int cache : {Paged::kKeyCache, Paged::kValueCache}) {
    VKF_CHECK_OK(
        check_paged_shape(node, cache, {Dim(sizes.pages), Dim(sizes.page), Dim(in.key_heads), Dim(sizes.size)}));
  }
  VKF_CHECK_OK(check_paged_shape(node, Paged::kEnds, {Dim(sizes.batch + 1)}));
  VKF_CHECK_OK(check_paged_shape(node, Paged::kPast, {Dim(sizes.batch)}));
  if (node.has(Paged::kSlots)) VKF_CHECK_OK(check_paged_shape(node, Paged::kSlots, {sizes.tokens}));
  for (const int scale : {Paged::kKeyScale, Paged::kValueScale}) {
    if (node.has(scale))
      return invalid("Operand {} of operator 'PagedAttention' is the scale of a cache that is not quantised.", scale);
  }
  if (in.rotates && (!node.has(Paged::kCosine) || !node.has(Paged::kSine)))
    return invalid("Attribute 'do_rotary' of operator 'PagedAttention' is 1, but the tables of angles are left out.");
  return {};
}

Result<PagedSizes> paged_sizes(const NodeContext& node) {
  for (const int operand : {Paged::kKeyCache, Paged::kTable}) {
    if (!node.has(operand))
      return invalid("Operand {} of operator 'PagedAttention' is left out, but is needed.", operand);
  }
  VKF_CHECK_OK(check_rank(node, Paged::kQuery, 2));
  VKF_CHECK_OK(check_rank(node, Paged::kKeyCache, 4));
  VKF_CHECK_OK(check_rank(node, Paged::kTable, 2));
  const Shape& pool = node.tensor(Paged::kKeyCache).shape();
  VKF_TRY(pages, static_size(pool, 0));
  VKF_TRY(page, static_size(pool, 1));
  VKF_TRY(size, static_size(pool, 3));
  VKF_TRY(batch, static_size(node.tensor(Paged::kTable).shape(), 0));
  if (batch < 1) return invalid("Operator 'PagedAttention' has a table of no sequence.");
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // rows are counted in i32
  if (pages < 1 || page < 1 || size < 1 || pages > kMost / page || size > kMost || batch > kMost) {
    return unsupported("Operator 'PagedAttention' has {} pages of {} rows of {} elements; 1 to {} rows are supported.",
                       pages, page, size, kMost);
  }
  return PagedSizes{node.tensor(Paged::kQuery).shape()[0], batch, pages, page, size};
}

/// Tokens as sequences that have as many new ones each.
struct NewTokens {
  PagedSequences sequences;
  Dim count;              ///< of sequences
  std::int64_t each = 1;  ///< new tokens of one

  [[nodiscard]] Tensor of_heads(const Tensor& x, std::int64_t heads, std::int64_t size) const {
    return x.reshape({count, each, heads, size}).permute({0, 2, 1, 3});
  }
};

/// How many new tokens every sequence has, where this is known at import.
std::optional<std::int64_t> common_count(const NodeContext& node, const PagedSizes& sizes) {
  if (sizes.tokens.is_symbol() || sizes.tokens.size() == 0) return std::nullopt;
  if (sizes.batch == 1) return sizes.tokens.size();
  if (!node.value(Paged::kEnds).known) return std::nullopt;
  const auto ends = node.known_list(Paged::kEnds, "cumulative_sequence_length");
  const std::int64_t each = sizes.tokens.size() / sizes.batch;
  for (std::size_t i = 0; ends && i < ends->size(); ++i) {
    if ((*ends)[i] != static_cast<std::int64_t>(i) * each) return std::nullopt;
  }
  return ends && each * sizes.batch == sizes.tokens.size() ? std::optional(each) : std::nullopt;
}

/// Where counts are data, each token is a sequence of one new token, with its own sequence's pages: it sees the keys up
/// to its own, which all have been written.
NewTokens new_tokens(const NodeContext& node, const PagedSizes& sizes) {
  const Tensor &table = node.tensor(Paged::kTable), &past = node.tensor(Paged::kPast);
  if (const auto each = common_count(node, sizes)) return {{table, past, sizes.page}, Dim(sizes.batch), *each};
  const Tensor& ends = node.tensor(Paged::kEnds);
  const Tensor token = Tensor::iota(DType::i32, {sizes.tokens}, 0);
  const Tensor is_ended = op("le", ends.slice(0, 1, sizes.batch + 1).unsqueeze(0), token.unsqueeze(1));
  const Tensor owner = op("min", is_ended.cast(DType::i32).sum({1}), static_cast<double>(sizes.batch - 1));
  const Tensor position = past.gather(owner, 0) + token - ends.gather(owner, 0);
  return {{table.gather(owner, 0), position, sizes.page}, sizes.tokens, 1};
}

struct PagedOperands {
  Tensor q, k, v;  ///< [sequences, heads, new tokens, size]
};

PagedOperands operands_by_heads(const NodeContext& node, const Paged& in, const PagedSizes& sizes,
                                const NewTokens& tokens) {
  const std::int64_t own = in.heads * sizes.size, shared = in.key_heads * sizes.size;
  const Tensor& all = node.tensor(Paged::kQuery);
  const bool is_packed = !node.has(Paged::kKey);
  const Tensor q = is_packed ? all.slice(1, 0, own) : all;
  const Tensor k = is_packed ? all.slice(1, own, own + shared) : node.tensor(Paged::kKey);
  const Tensor v = is_packed ? all.slice(1, own + shared, own + 2 * shared) : node.tensor(Paged::kValue);
  return {tokens.of_heads(q, in.heads, sizes.size), tokens.of_heads(k, in.key_heads, sizes.size),
          tokens.of_heads(v, in.key_heads, sizes.size)};
}

/// Rows of the last axis, each divided by its root of mean squares.
Tensor normalised_heads(const Tensor& x, const Tensor& weight, double epsilon) {
  const Tensor wide = x.cast(x.dtype() == DType::f64 ? DType::f64 : DType::f32);
  const Tensor inverse = op("rsqrt", (wide * wide).mean({3}, true) + epsilon);
  return (wide * inverse * weight.cast(wide.dtype())).cast(x.dtype());
}

/// What the operator does to queries and keys before the keys are written.
Result<PagedOperands> prepared(const NodeContext& node, const Paged& in, const NewTokens& tokens,
                               const PagedOperands& plain) {
  PagedOperands result = plain;
  if (node.has(Paged::kQueryNorm) != node.has(Paged::kKeyNorm))
    return invalid("Operator 'PagedAttention' has one of the weights that queries and keys are normalised with.");
  if (node.has(Paged::kQueryNorm)) {
    result.q = normalised_heads(plain.q, node.tensor(Paged::kQueryNorm), in.epsilon);
    result.k = normalised_heads(plain.k, node.tensor(Paged::kKeyNorm), in.epsilon);
  }
  if (!in.rotates) return result;
  VKF_CHECK_OK(check_rank(node, Paged::kCosine, 2));
  VKF_TRY(half, static_size(node.tensor(Paged::kCosine).shape(), 1));
  const Tensor own = Tensor::iota(DType::i32, {Dim(1), Dim(tokens.each)}, 1);
  const Tensor position = tokens.sequences.starts.unsqueeze(1) + own;
  const auto angles = [&](int operand) { return node.tensor(operand).gather(position, 0).unsqueeze(1); };
  const RotaryOptions options{2 * half, in.interleaved};
  result.q = rotary(result.q, angles(Paged::kCosine), angles(Paged::kSine), options);
  result.k = rotary(result.k, angles(Paged::kCosine), angles(Paged::kSine), options);
  return result;
}

/// For each page, the places of its new rows, or -1, and what is written there: [pages, rows] and [pages, rows, heads,
/// size]. A pool is a tensor of pages: rows that were counted through all of them would need it in another shape, and a
/// copy.
struct RowsOfPages {
  Tensor places, tokens;
  bool is_of_all = false;  ///< every page has a row for each token, and `tokens` says nothing

  [[nodiscard]] Tensor of(const Tensor& rows) const {
    if (!rows.valid() || !places.valid()) return rows.valid() ? places : rows;
    const Shape& shape = rows.shape();
    if (!is_of_all) return rows.gather(tokens, 0);
    return rows.unsqueeze(0).broadcast_to({places.shape()[0], shape[0], shape[1], shape[2]});
  }
};

/// `at`: the row of the pool of each token, -1 for none.
RowsOfPages rows_of_pages(const Tensor& at, const PagedSizes& sizes) {
  const auto page = static_cast<double>(sizes.page);
  const Tensor none = Tensor::scalar(DType::i32, -1);
  if (!sizes.tokens.is_symbol() && sizes.tokens.size() <= sizes.page) {
    const Tensor own = Tensor::iota(DType::i32, {Dim(sizes.pages), Dim(1)}, 0);
    const Tensor places = select(op("eq", op("div", at, page), own), op("rem", at, page), none);  // -1 stays below 0
    return {places, places, true};
  }
  const Tensor nobody = filled({Dim(sizes.pages * sizes.page)}, none);
  const Tensor token =
      nobody.scatter(at, Tensor::iota(DType::i32, {sizes.tokens}, 0)).reshape({Dim(sizes.pages), Dim(sizes.page)});
  const Tensor place = Tensor::iota(DType::i32, {Dim(sizes.pages), Dim(sizes.page)}, 1);
  return {select(op("ge", token, 0), place, none), op("max", token, 0), false};
}

}  // namespace

Result<Outputs> import_paged_attention(const NodeContext& node) {
  VKF_TRY(in, paged_of(node));
  VKF_TRY(sizes, paged_sizes(node));
  VKF_CHECK_OK(check_operands(node, in, sizes));
  const NewTokens tokens = new_tokens(node, sizes);
  VKF_TRY(own, prepared(node, in, tokens, operands_by_heads(node, in, sizes, tokens)));
  const Tensor at = node.has(Paged::kSlots) ? node.tensor(Paged::kSlots)
                                            : page_rows(tokens.sequences, tokens.each).reshape({sizes.tokens});
  const RowsOfPages pages = rows_of_pages(at, sizes);
  const auto written = [&](int cache, const Tensor& x) {
    const Tensor rows = x.permute({0, 2, 1, 3}).reshape({sizes.tokens, in.key_heads, sizes.size});
    return node.tensor(cache).update_rows(pages.places, pages.of(rows), 1);
  };
  const Tensor keys = written(Paged::kKeyCache, own.k), values = written(Paged::kValueCache, own.v);
  const auto pool = [&](const Tensor& cache) {
    return cache.reshape({Dim(sizes.pages * sizes.page), Dim(in.key_heads), Dim(sizes.size)});
  };
  const Tensor seen = paged_attention(own.q, pool(keys), pool(values), tokens.sequences, in.attention);
  if (!seen.valid()) return Outputs{seen};
  return Outputs{seen.permute({0, 2, 1, 3}).reshape({sizes.tokens, in.heads * sizes.size}), keys, values};
}

}  // namespace vkfuse::onnx
