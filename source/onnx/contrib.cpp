// Operators of the domain com.microsoft that optimised exports are full of.
#include <cmath>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"
#include "onnx/unpacked_bits.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/generation.hpp"

namespace vkfuse::onnx {
namespace {

/// Operand 0, and operand 1 added where it is given.
Tensor with_bias(const NodeContext& node) { return node.has(1) ? node.tensor(0) + node.tensor(1) : node.tensor(0); }

/// A vector, or nothing, added.
Tensor plus(const NodeContext& node, const Tensor& x, int operand) {
  return node.has(operand) ? x + node.tensor(operand) : x;
}

/// The sum that SkipLayerNormalization normalises, in its dtype and in the one for statistics.
struct Skipped {
  Tensor sum, wide;
  std::vector<int> last;
  double epsilon = 0;
};
Result<Skipped> skipped(const NodeContext& node, int bias) {
  VKF_CHECK_OK(check_rank(node, 0, 1));
  VKF_TRY(epsilon, node.attributes().real("epsilon", 1e-12));
  const Tensor sum = plus(node, node.tensor(0) + node.tensor(1), bias);
  return Skipped{sum,
                 sum.cast(node.dtype() == DType::f64 ? DType::f64 : DType::f32),
                 {static_cast<int>(node.tensor(0).shape().size()) - 1},
                 epsilon};
}

/// [batch, positions, heads * size] as [batch, heads, positions, size].
Result<Tensor> split_heads(const NodeContext& node, const Tensor& x, std::int64_t heads, std::string_view attribute) {
  if (!x.valid()) return Error(x.error());
  if (x.shape().size() == 4) return x;
  if (x.shape().size() != 3)
    return invalid("An operand of operator '{}' has rank {}; it must be 3 or 4.", node.row().name, x.shape().size());
  VKF_TRY(size, static_size(x.shape(), 2));
  if (heads < 1 || size % heads != 0)
    return invalid("Attribute '{}' is {}; it must divide the {} elements of the last axis.", attribute, heads, size);
  return x.reshape({x.shape()[0], x.shape()[1], heads, size / heads}).permute({0, 2, 1, 3});
}

Result<Tensor> join_heads(const Tensor& x) {
  if (!x.valid()) return Error(x.error());
  VKF_TRY(width, static_count({x.shape()[1], x.shape()[3]}, 0, 2));
  return x.permute({0, 2, 1, 3}).reshape({x.shape()[0], x.shape()[2], width});
}

/// The last dimension of a table of angles.
Result<std::int64_t> angle_count(const Tensor& table) {
  if (table.shape().empty()) return invalid("A table of angles has rank 0; it must be 2 or 3.");
  return static_size(table.shape(), table.shape().size() - 1);
}

/// Rows of a table [positions, half] at positions [batch, length], one number each [1] counted up from it, as [batch,
/// 1, length, half].
Result<Tensor> angles_at(const Tensor& table, const std::optional<Tensor>& positions, const Dim& length,
                         std::int64_t first) {
  if (table.shape().size() == 3) return table.unsqueeze(1);  // stated for every position already
  if (table.shape().size() != 2)
    return invalid("A table of angles has rank {}; it must be 2 or 3.", table.shape().size());
  if (positions && positions->shape().size() == 2) return table.gather(*positions, 0).unsqueeze(1);
  Tensor counted = Tensor::iota(DType::i64, {length}, 0) + Tensor::scalar_int(DType::i64, first);
  if (positions) counted = counted + positions->cast(DType::i64);
  return table.gather(counted.unsqueeze(0), 0).unsqueeze(1);
}

struct Rotary {
  Tensor x, cosine, sine;
  std::optional<Tensor> positions;
};

Result<Outputs> rotary(const NodeContext& node, const Rotary& how) {
  VKF_TRY(interleaved, node.attributes().integer("interleaved", 0));
  VKF_TRY(turned, node.attributes().integer("rotary_embedding_dim", 0));
  VKF_TRY(heads, node.attributes().integer("num_heads", 0));
  std::int64_t count = heads;
  if (how.x.shape().size() == 3 && heads == 0) {
    // As many as the tables are narrower.
    VKF_TRY(width, static_size(how.x.shape(), 2));
    VKF_TRY(half, angle_count(how.cosine));
    if (half < 1 || width % (2 * half) != 0)
      return invalid("Attribute 'num_heads' is missing, and {} elements are no multiple of {}.", width, 2 * half);
    count = width / (2 * half);
  }
  VKF_TRY(x, split_heads(node, how.x, count, "num_heads"));
  const Dim& length = x.shape()[2];
  VKF_TRY(cosine, angles_at(how.cosine, how.positions, length, 0));
  VKF_TRY(sine, angles_at(how.sine, how.positions, length, 0));
  const Tensor result = vkfuse::rotary(x, cosine, sine, {turned, interleaved != 0});
  if (how.x.shape().size() == 4) return Outputs{result};
  VKF_TRY(joined, join_heads(result));
  return Outputs{joined};
}

/// The scale where it is stated and not 0, which stands for the usual one.
Result<std::optional<double>> stated_scale(const NodeContext& node) {
  VKF_TRY(scale, node.attributes().real("scale", 0));
  return scale != 0 ? std::optional<double>(scale) : std::nullopt;
}

Result<Tensor> with_past(const NodeContext& node, int operand, const Tensor& current) {
  if (!node.has(operand)) return current;
  const Tensor& past = node.tensor(operand);
  if (past.shape().size() != 4)
    return invalid("Operand {} of operator '{}' has rank {}; it must be 4.", operand, node.row().name,
                   past.shape().size());
  return concat({past, current}, 2);
}

/// Operands and attributes of GroupQueryAttention.
struct GroupQuery {
  enum Operand {
    kQuery,
    kKey,
    kValue,
    kPastKey,
    kPastValue,
    kLastKey,
    kTotal,
    kCosine,
    kSine,
    kPositions,
    kBias,
    kSink
  };

  std::int64_t heads = 0, key_heads = 0;
  std::int64_t rotates = 0, interleaved = 0;
  std::int64_t window = -1;  ///< of keys, that of the query among them; none unless it is above 0
  std::int64_t smooth = 0;   ///< 1: a sink of 0 for each head
  double softcap = 0;
  std::optional<double> scale;
};

Result<GroupQuery> group_query_of(const NodeContext& node) {
  const Attributes& attributes = node.attributes();
  VKF_TRY(heads, attributes.integer("num_heads", 0));
  VKF_TRY(key_heads, attributes.integer("kv_num_heads", 0));
  VKF_TRY(rotates, attributes.integer("do_rotary", 0));
  VKF_TRY(interleaved, attributes.integer("rotary_interleaved", 0));
  VKF_TRY(window, attributes.integer("local_window_size", -1));
  VKF_TRY(softcap, attributes.real("softcap", 0));
  VKF_TRY(smooth, attributes.integer("smooth_softmax", 0));
  VKF_TRY(scale, stated_scale(node));
  return GroupQuery{heads, key_heads, rotates, interleaved, window, smooth, softcap, scale};
}

/// How many keys a past has; 0 where none is given.
Result<std::int64_t> past_length(const NodeContext& node, int operand) {
  if (!node.has(operand)) return 0;
  VKF_CHECK_OK(check_rank(node, operand, 4));
  return static_size(node.tensor(operand).shape(), 2);
}

/// [batch, heads, positions, size] each.
struct QueriesAndKeys {
  Tensor q, k;
};

/// With a rotary embedding, where the node has one; position 0 of either is position `past` of the sequence.
/// `starts`, where they are data, are [batch].
Result<QueriesAndKeys> with_rotary(const NodeContext& node, const GroupQuery& in, const QueriesAndKeys& plain,
                                   std::int64_t past, const std::optional<Tensor>& starts = {}) {
  if (in.rotates == 0) return plain;
  if (!node.has(GroupQuery::kCosine) || !node.has(GroupQuery::kSine))
    return invalid("Attribute 'do_rotary' is {}, but the tables of angles are left out.", in.rotates);
  const Tensor &cosines = node.tensor(GroupQuery::kCosine), &sines = node.tensor(GroupQuery::kSine);
  VKF_TRY(half, angle_count(cosines));
  std::optional<Tensor> positions;
  if (node.has(GroupQuery::kPositions)) positions = node.tensor(GroupQuery::kPositions);
  if (starts && !positions)
    positions = starts->unsqueeze(1) + Tensor::iota(DType::i32, {Dim(1), plain.q.shape()[2]}, 1);
  VKF_TRY(cosine, angles_at(cosines, positions, plain.q.shape()[2], past));
  VKF_TRY(sine, angles_at(sines, positions, plain.q.shape()[2], past));
  const Tensor q = vkfuse::rotary(plain.q, cosine, sine, {2 * half, in.interleaved != 0});
  const Tensor k = vkfuse::rotary(plain.k, cosine, sine, {2 * half, in.interleaved != 0});
  return QueriesAndKeys{q, k};
}

struct QueriesKeysValues {
  Tensor q, k, v;
};

/// The operands, or their parts where keys and values stand behind the queries of one.
Result<QueriesKeysValues> group_query_operands(const NodeContext& node, const GroupQuery& in) {
  const Tensor& q = node.tensor(GroupQuery::kQuery);
  if (node.has(GroupQuery::kKey) && node.has(GroupQuery::kValue))
    return QueriesKeysValues{q, node.tensor(GroupQuery::kKey), node.tensor(GroupQuery::kValue)};
  VKF_CHECK_OK(check_rank(node, GroupQuery::kQuery, 3));
  VKF_TRY(width, static_size(q.shape(), 2));
  const std::int64_t all = in.heads + 2 * in.key_heads;
  if (in.heads < 1 || in.key_heads < 1 || width % all != 0) {
    return invalid("{} packed elements do not make {} heads of queries and {} each of keys and values.", width,
                   in.heads, in.key_heads);
  }
  const std::int64_t size = width / all, first = in.heads * size, second = first + in.key_heads * size;
  return QueriesKeysValues{q.slice(2, 0, first), q.slice(2, first, second), q.slice(2, second, width)};
}

/// The queries, keys and values of MultiHeadAttention, [batch, heads, positions, size] each where they were packed.
Result<QueriesKeysValues> multi_head_operands(const NodeContext& node) {
  const Tensor& q = node.tensor(0);
  if (node.has(1) && node.has(2)) return QueriesKeysValues{q, node.tensor(1), node.tensor(2)};
  const bool is_pair = node.has(1);
  const Tensor& packed = is_pair ? node.tensor(1) : q;  // [batch, positions, heads, 2 or 3, size]
  if (packed.shape().size() != 5 || packed.shape()[3] != Dim(is_pair ? 2 : 3)) {
    return invalid("The packed operand of operator 'MultiHeadAttention' is {}; it must hold {} for each head.",
                   to_text(packed.shape()), is_pair ? "a key and a value" : "a query, a key and a value");
  }
  const auto part = [&](std::int64_t i) { return packed.select(3, i).permute({0, 2, 1, 3}); };
  if (is_pair) return QueriesKeysValues{q, part(0), part(1)};
  return QueriesKeysValues{part(0), part(1), part(2)};
}

/// The widths of queries, keys and values that Attention's weights project to.
Result<std::vector<std::int64_t>> projection_widths(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 3));
  VKF_CHECK_OK(check_rank(node, 1, 2));
  VKF_TRY(width, static_size(node.tensor(1).shape(), 1));
  VKF_TRY(stated, node.attributes().integers("qkv_hidden_sizes"));
  if (stated.empty()) stated.assign(3, width / 3);
  std::int64_t sum = 0;
  for (const std::int64_t size : stated) sum += size > 0 && size <= width ? size : -width;
  if (stated.size() == 3 && sum == width) return stated;
  return invalid("Attribute 'qkv_hidden_sizes' is [{}]; the weights project to {} elements.", fmt::join(stated, ", "),
                 width);
}

/// Which keys a mask of com.microsoft lets count: booleans that broadcast to [batch, heads, queries, keys].
Result<Tensor> contrib_mask(const NodeContext& node, int operand, const Dim& keys) {
  const Tensor& mask = node.tensor(operand);
  const std::size_t rank = mask.shape().size();
  if (rank == 1 && mask.shape()[0] == node.tensor(0).shape()[0]) {  // how many keys of each sequence count
    const Tensor key = Tensor::iota(mask.dtype(), {1, 1, 1, keys}, 3);
    return op("lt", key, mask.reshape({Dim(-1), 1, 1, 1}));
  }
  if (rank == 2) return op("ne", mask, 0).unsqueeze(1).unsqueeze(1);
  if (rank == 3) return op("ne", mask, 0).unsqueeze(1);
  if (rank == 4) return op("ne", mask, 0);
  return unsupported("A mask of shape {} is not supported by operator '{}'.", to_text(mask.shape()), node.row().name);
}

/// True for the keys of each sequence: those shorter than the longest are padded after their end.
Result<Tensor> padding_mask(const NodeContext& node, const Dim& keys) {
  if (!node.has(GroupQuery::kLastKey))
    return invalid("Operand 5 of operator 'GroupQueryAttention' is left out, but is not optional.");
  VKF_CHECK_OK(check_rank(node, GroupQuery::kLastKey, 1));
  const Tensor last = node.tensor(GroupQuery::kLastKey).reshape({Dim(-1), 1, 1, 1});
  const Tensor key = Tensor::iota(last.dtype(), {1, 1, 1, keys}, 3);
  return op("le", key, last);
}

/// Whether the past is a cache of its full length.
bool has_shared_cache(const NodeContext& node, std::int64_t past) {
  if (past == 0 || !node.has(GroupQuery::kLastKey)) return false;
  if (node.shared_caches()) return true;
  if (!node.has(GroupQuery::kTotal) || !node.value(GroupQuery::kTotal).known) return false;
  const auto total = node.known_list(GroupQuery::kTotal, "total_sequence_length");
  return total && total->size() == 1 && total->front() >= 1 && total->front() <= past;
}

/// New rows go where each sequence ends: its last key is the last of them, but in a prompt, which begins at 0.
Result<Outputs> attention_in_caches(const NodeContext& node, const GroupQuery& in, const QueriesKeysValues& plain) {
  VKF_CHECK_OK(check_rank(node, GroupQuery::kLastKey, 1));
  if (!node.has(GroupQuery::kPastValue)) return invalid("There is a past_key and no past_value.");
  VKF_CHECK_OK(check_rank(node, GroupQuery::kPastValue, 4));
  VKF_TRY(queries, static_size(plain.q.shape(), 2));
  const Tensor last = node.tensor(GroupQuery::kLastKey).cast(DType::i32);
  const Tensor starts = op("max", last - static_cast<double>(queries - 1), 0);
  VKF_TRY(own, with_rotary(node, in, {plain.q, plain.k}, 0, starts));
  const auto written = [&](int operand, const Tensor& rows) {
    const Tensor& past = node.tensor(operand);
    return past.update_rows(last.shape() == Shape{Dim(1)} ? starts.reshape({}) : starts, rows, 2);
  };
  const Tensor keys = written(GroupQuery::kPastKey, own.k), values = written(GroupQuery::kPastValue, plain.v);
  CachedAttentionOptions options;
  options.scale = in.scale;
  options.softcap = in.softcap;
  if (in.window > 0) options.window = in.window;
  if (in.smooth == 1) options.sink = Tensor::scalar(own.q.dtype(), 0).reshape({1}).broadcast_to({in.heads});
  if (node.has(GroupQuery::kSink)) options.sink = node.tensor(GroupQuery::kSink);
  if (node.has(GroupQuery::kBias)) options.bias = node.tensor(GroupQuery::kBias);
  VKF_TRY(joined, join_heads(cached_attention(own.q, keys, values, starts, options)));
  return Outputs{joined, keys, values};
}

/// The weights of MatMulNBits: rows of blocks that share a scale and a zero point.
struct WeightLayout {
  std::int64_t rows = 0, columns = 0;
  std::int64_t block_size = 0;
  std::int64_t bits = 4;

  [[nodiscard]] std::int64_t blocks() const { return (columns + block_size - 1) / block_size; }  ///< of a row
};

Result<WeightLayout> weight_layout(const Attributes& attributes) {
  for (const char* name : {"K", "N", "block_size"}) {
    if (!attributes.has(name)) return invalid("Attribute '{}' is missing.", name);
  }
  VKF_TRY(rows, attributes.integer("N", 0));
  VKF_TRY(columns, attributes.integer("K", 0));
  VKF_TRY(block, attributes.integer("block_size", 0));
  VKF_TRY(bits, attributes.integer("bits", 4));
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    return unsupported("Weights of {} bits are not supported; there are 2, 3, 4 and 8.", bits);
  const std::int64_t whole = bits == 3 ? 8 : 8 / bits;  // integers that fill bytes
  if (rows < 1 || rows > kMost || columns < 1 || columns > kMost || block < 2 || block > kMost || block % whole != 0) {
    return invalid("The attributes say {} rows of {} weights in blocks of {}.", rows, columns, block);
  }
  return WeightLayout{rows, columns, block, bits};
}

/// One for each block, packed as the weights are or in the dtype of the scales; else the middle of what the bits hold.
Result<Tensor> zero_points(const NodeContext& node, const WeightLayout& layout) {
  const DType dtype = node.dtype(2);
  if (!node.has(3)) return Tensor::scalar(dtype, static_cast<double>(std::int64_t{1} << (layout.bits - 1)));
  const std::int64_t rows = layout.rows, blocks = layout.blocks();
  const bool is_packed = node.dtype(3) == DType::u8;
  const std::int64_t row_size = is_packed ? (blocks * layout.bits + 7) / 8 : blocks;
  VKF_TRY(stored, static_count(node.tensor(3).shape(), 0, node.tensor(3).shape().size()));
  if (stored != rows * row_size)
    return invalid("Operand 3 has {} elements; {} rows of {} blocks need {}.", stored, rows, blocks, rows * row_size);
  Tensor points = node.tensor(3);
  if (is_packed) {
    // Of 3 bits a row may end within the bytes that are taken together.
    const std::int64_t missing = layout.bits == 3 ? (3 - row_size % 3) % 3 : 0;
    points = unpacked_bits(points.reshape({rows, row_size}).pad({0, 0}, {0, missing}), layout.bits).slice(1, 0, blocks);
  }
  return points.cast(dtype).reshape({rows, blocks, 1});
}

}  // namespace

Result<Outputs> import_fused_matmul(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 1));
  VKF_TRY(transposes_a, node.attributes().integer("transA", 0));
  VKF_TRY(transposes_b, node.attributes().integer("transB", 0));
  for (const int operand : {0, 1})
    VKF_CHECK_OK(check_rank(node, operand, (operand == 0 ? transposes_a : transposes_b) != 0 ? 2 : 1));
  const Tensor a = transposes_a != 0 ? node.tensor(0).transpose() : node.tensor(0);
  const Tensor b = transposes_b != 0 ? node.tensor(1).transpose() : node.tensor(1);
  const Tensor product = matmul(a, b);
  return Outputs{alpha == 1 ? product : product * alpha};
}

Result<Outputs> import_bias_gelu(const NodeContext& node) { return Outputs{gelu(with_bias(node))}; }
Result<Outputs> import_fast_gelu(const NodeContext& node) { return Outputs{gelu(with_bias(node), GeluForm::tanh)}; }

Result<Outputs> import_quick_gelu(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 1.702));
  return Outputs{node.tensor(0) * op("sigmoid", node.tensor(0) * alpha)};
}

Result<Outputs> import_skip_layer_normalization(const NodeContext& node) {
  VKF_TRY(in, skipped(node, 4));
  const Tensor mean = in.wide.mean(in.last, true);
  const Tensor deviation = in.wide - mean;
  const Tensor inverse = op("rsqrt", (deviation * deviation).mean(in.last, true) + in.epsilon);
  return Outputs{plus(node, (deviation * inverse).cast(node.dtype()) * node.tensor(2), 3), mean, inverse, in.sum};
}

Result<Outputs> import_skip_rms_normalization(const NodeContext& node) {
  VKF_TRY(in, skipped(node, 3));
  const Tensor inverse = op("rsqrt", (in.wide * in.wide).mean(in.last, true) + in.epsilon);
  return Outputs{(in.wide * inverse).cast(node.dtype()) * node.tensor(2), inverse, inverse, in.sum};
}

Result<Outputs> import_rotary_embedding(const NodeContext& node) {
  return rotary(node, {node.tensor(0), node.tensor(1), node.tensor(2),
                       node.has(3) ? std::optional(node.tensor(3)) : std::nullopt});
}

Result<Outputs> import_contrib_rotary_embedding(const NodeContext& node) {
  VKF_TRY(scale, node.attributes().real("scale", 1));
  VKF_TRY(packed, node.attributes().integer("is_packed_batching", 0));
  if (scale != 1 || packed != 0)
    return unsupported("Attributes 'scale' and 'is_packed_batching' of operator 'RotaryEmbedding' are not supported.");
  return rotary(node, {node.tensor(0), node.tensor(2), node.tensor(3), node.tensor(1)});
}

Result<Outputs> import_multi_head_attention(const NodeContext& node) {
  enum Operand { kBias = 3, kPadding, kScores, kPastKey, kPastValue };
  VKF_TRY(heads, node.attributes().integer("num_heads", 0));
  VKF_TRY(unidirectional, node.attributes().integer("unidirectional", 0));
  VKF_TRY(scale, stated_scale(node));
  VKF_TRY(given, multi_head_operands(node));
  Tensor parts[3] = {given.q, given.k, given.v};
  if (node.has(kBias)) {
    std::int64_t first = 0;
    for (Tensor& part : parts) {
      if (part.shape().size() != 3) return unsupported("A bias of heads that are apart already is not supported.");
      VKF_TRY(width, static_size(part.shape(), 2));
      part = part + node.tensor(kBias).slice(0, first, first + width);
      first += width;
    }
  }
  VKF_TRY(q, split_heads(node, parts[0], heads, "num_heads"));
  VKF_TRY(own_k, split_heads(node, parts[1], heads, "num_heads"));
  VKF_TRY(own_v, split_heads(node, parts[2], heads, "num_heads"));
  VKF_TRY(k, with_past(node, kPastKey, own_k));
  VKF_TRY(v, with_past(node, kPastValue, own_v));
  if (!k.valid() || !v.valid()) return Outputs{k.valid() ? v : k};
  AttentionOptions options;
  options.scale = scale;
  options.causal = unidirectional != 0;
  if (node.has(kPastKey) && options.causal) {
    VKF_TRY(past, static_size(node.tensor(kPastKey).shape(), 2));
    options.first_query = past;
  }
  if (node.has(kScores)) options.bias = node.tensor(kScores);
  if (node.has(kPadding)) {
    VKF_TRY(mask, contrib_mask(node, kPadding, k.shape()[2]));
    options.mask = mask;
  }
  VKF_TRY(joined, join_heads(attention(q, k, v, options)));
  return Outputs{joined, k, v};
}

Result<Outputs> import_group_query_attention(const NodeContext& node) {
  VKF_TRY(in, group_query_of(node));
  VKF_TRY(given, group_query_operands(node, in));
  VKF_TRY(plain_q, split_heads(node, given.q, in.heads, "num_heads"));
  VKF_TRY(plain_k, split_heads(node, given.k, in.key_heads, "kv_num_heads"));
  VKF_TRY(own_v, split_heads(node, given.v, in.key_heads, "kv_num_heads"));
  VKF_TRY(past, past_length(node, GroupQuery::kPastKey));
  if (has_shared_cache(node, past)) return attention_in_caches(node, in, {plain_q, plain_k, own_v});
  VKF_TRY(own, with_rotary(node, in, {plain_q, plain_k}, past));
  VKF_TRY(k, with_past(node, GroupQuery::kPastKey, own.k));
  VKF_TRY(v, with_past(node, GroupQuery::kPastValue, own_v));
  if (!k.valid() || !v.valid()) return Outputs{k.valid() ? v : k};
  AttentionOptions options;
  options.scale = in.scale;
  options.softcap = in.softcap;
  options.causal = true;
  options.first_query = past;
  if (in.smooth == 1) options.sink = Tensor::scalar(own.q.dtype(), 0).reshape({1}).broadcast_to({in.heads});
  if (node.has(GroupQuery::kSink)) options.sink = node.tensor(GroupQuery::kSink);
  if (node.has(GroupQuery::kBias)) options.bias = node.tensor(GroupQuery::kBias);
  if (in.window > 0) options.window_before = in.window - 1;
  if (past == 0) {
    VKF_TRY(mask, padding_mask(node, k.shape()[2]));
    options.mask = mask;
  }
  VKF_TRY(joined, join_heads(attention(own.q, k, v, options)));
  return Outputs{joined, k, v};
}

Result<Outputs> import_contrib_attention(const NodeContext& node) {
  enum Operand { kInput, kWeights, kBias, kMask, kPast, kScores };
  VKF_TRY(heads, node.attributes().integer("num_heads", 0));
  VKF_TRY(unidirectional, node.attributes().integer("unidirectional", 0));
  VKF_TRY(scale, stated_scale(node));
  VKF_TRY(widths, projection_widths(node));
  Tensor all = matmul(node.tensor(kInput), node.tensor(kWeights));
  if (node.has(kBias)) all = all + node.tensor(kBias);
  const auto part = [&](std::int64_t first, std::int64_t width) {
    return split_heads(node, all.slice(-1, first, first + width), heads, "num_heads");
  };
  VKF_TRY(q, part(0, widths[0]));
  VKF_TRY(own_k, part(widths[0], widths[1]));
  VKF_TRY(own_v, part(widths[0] + widths[1], widths[2]));
  Tensor k = own_k, v = own_v;
  AttentionOptions options;
  options.scale = scale;
  options.causal = unidirectional != 0;
  if (node.has(kPast)) {
    VKF_CHECK_OK(check_rank(node, kPast, 5));
    VKF_TRY(past, static_size(node.tensor(kPast).shape(), 3));
    k = concat({node.tensor(kPast).select(0, 0), k}, 2);
    v = concat({node.tensor(kPast).select(0, 1), v}, 2);
    options.first_query = past;
  }
  if (!k.valid() || !v.valid()) return Outputs{k.valid() ? v : k};
  if (node.has(kScores)) options.bias = node.tensor(kScores);
  if (node.has(kMask)) {
    VKF_TRY(mask, contrib_mask(node, kMask, k.shape()[2]));
    options.mask = mask;
  }
  VKF_TRY(joined, join_heads(attention(q, k, v, options)));
  if (node.outputs() < 2) return Outputs{joined};  // of values with other sizes than keys there is no present
  return Outputs{joined, concat({k.unsqueeze(0), v.unsqueeze(0)}, 0)};
}

Result<Outputs> import_matmul_n_bits(const NodeContext& node) {
  VKF_TRY(layout, weight_layout(node.attributes()));
  if (node.has(4))
    return unsupported("Weights in another order (operand 4 of operator 'MatMulNBits') are not supported.");
  const std::int64_t rows = layout.rows, blocks = layout.blocks();
  const Shape packed{rows, blocks, layout.block_size * layout.bits / 8};
  if (node.dtype(1) != DType::u8 || node.tensor(1).shape() != packed) {
    return invalid("The weights are {}{}; they must be u8{}.", name_of(node.dtype(1)), to_text(node.tensor(1).shape()),
                   to_text(packed));
  }
  VKF_TRY(scales, static_count(node.tensor(2).shape(), 0, node.tensor(2).shape().size()));
  if (scales != rows * blocks)
    return invalid("There are {} scales; {} rows of {} blocks need {}.", scales, rows, blocks, rows * blocks);
  const Tensor scale = node.tensor(2).reshape({rows, blocks, 1});
  VKF_TRY(zero, zero_points(node, layout));
  const Tensor numbers = unpacked_bits(node.tensor(1), layout.bits).cast(node.dtype(2));
  Tensor weights = ((numbers - zero) * scale).reshape({rows, blocks * layout.block_size});
  if (blocks * layout.block_size != layout.columns) weights = weights.slice(1, 0, layout.columns);
  const Tensor product = matmul(node.tensor(0), weights.transpose());
  return Outputs{plus(node, product, 5)};
}

}  // namespace vkfuse::onnx
