// Operators of the domain com.microsoft that optimised exports are full of.
#include <cmath>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

Tensor erf_gelu(const Tensor& x) { return 0.5 * x * (1.0 + op("erf", x * std::sqrt(0.5))); }
Tensor tanh_gelu(const Tensor& x) {
  return 0.5 * x * (1.0 + op("tanh", (x + x * x * x * 0.044715) * 0.7978845608028654));
}

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

/// Turns pairs of elements of x [batch, heads, positions, size] by the angles of `cosine` and `sine`, which broadcast
/// to [batch, heads, positions, half]; pairs are neighbours, or an element of each half.
Result<Tensor> rotated(const Tensor& x, const Tensor& cosine, const Tensor& sine, std::int64_t turned,
                       bool interleaved) {
  if (!x.valid()) return Error(x.error());
  VKF_TRY(size, static_size(x.shape(), 3));
  if (turned == 0) turned = size;
  if (turned < 2 || turned > size || turned % 2 != 0)
    return invalid("A rotary embedding of {} of {} elements is not possible.", turned, size);
  const std::int64_t half = turned / 2;
  const Tensor head = turned < size ? x.slice(3, 0, turned) : x;
  Tensor joined = head;
  if (interleaved) {
    const Tensor first = head.slice(3, 0, turned, 2), second = head.slice(3, 1, turned, 2);
    const Tensor a = first * cosine - second * sine, b = first * sine + second * cosine;
    Shape shape = head.shape();
    joined = concat({a.unsqueeze(4), b.unsqueeze(4)}, 4).reshape(shape);
  } else {
    const Tensor first = head.slice(3, 0, half), second = head.slice(3, half, turned);
    joined = concat({first * cosine - second * sine, first * sine + second * cosine}, 3);
  }
  return turned < size ? concat({joined, x.slice(3, turned, size)}, 3) : joined;
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
  VKF_TRY(result, rotated(x, cosine, sine, turned, interleaved != 0));
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

Result<Outputs> import_bias_gelu(const NodeContext& node) { return Outputs{erf_gelu(with_bias(node))}; }
Result<Outputs> import_fast_gelu(const NodeContext& node) { return Outputs{tanh_gelu(with_bias(node))}; }

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
  enum Operand { kQuery, kKey, kValue, kBias, kPadding, kScores, kPastKey, kPastValue };
  VKF_TRY(heads, node.attributes().integer("num_heads", 0));
  VKF_TRY(unidirectional, node.attributes().integer("unidirectional", 0));
  VKF_TRY(scale, stated_scale(node));
  if (!node.has(kKey) || !node.has(kValue))
    return unsupported("Keys and values packed with the queries are not supported.");
  Tensor parts[3] = {node.tensor(kQuery), node.tensor(kKey), node.tensor(kValue)};
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
    const Tensor& padding = node.tensor(kPadding);
    if (padding.shape().size() != 2)
      return unsupported("A padding mask of rank {} is not supported; it must be 2.", padding.shape().size());
    options.mask = op("ne", padding, 0).unsqueeze(1).unsqueeze(1);
  }
  VKF_TRY(joined, join_heads(attention(q, k, v, options)));
  return Outputs{joined, k, v};
}

Result<Outputs> import_group_query_attention(const NodeContext& node) {
  enum Operand { kQuery, kKey, kValue, kPastKey, kPastValue, kLastKey, kTotal, kCosine, kSine };
  const Attributes& attributes = node.attributes();
  VKF_TRY(heads, attributes.integer("num_heads", 0));
  VKF_TRY(key_heads, attributes.integer("kv_num_heads", 0));
  VKF_TRY(turns, attributes.integer("do_rotary", 0));
  VKF_TRY(interleaved, attributes.integer("rotary_interleaved", 0));
  VKF_TRY(window, attributes.integer("local_window_size", -1));
  VKF_TRY(softcap, attributes.real("softcap", 0));
  VKF_TRY(smooth, attributes.integer("smooth_softmax", 0));
  VKF_TRY(scale, stated_scale(node));
  if (!node.has(kKey) || !node.has(kValue))
    return unsupported("Keys and values packed with the queries are not supported.");
  VKF_TRY(plain_q, split_heads(node, node.tensor(kQuery), heads, "num_heads"));
  VKF_TRY(plain_k, split_heads(node, node.tensor(kKey), key_heads, "kv_num_heads"));
  VKF_TRY(own_v, split_heads(node, node.tensor(kValue), key_heads, "kv_num_heads"));
  std::int64_t past = 0;
  if (node.has(kPastKey)) {
    VKF_CHECK_OK(check_rank(node, kPastKey, 4));
    VKF_TRY(length, static_size(node.tensor(kPastKey).shape(), 2));
    past = length;
  }
  Tensor q = plain_q, own_k = plain_k;
  if (turns != 0) {
    if (!node.has(kCosine) || !node.has(kSine))
      return invalid("Attribute 'do_rotary' is {}, but the tables of angles are left out.", turns);
    VKF_TRY(half, angle_count(node.tensor(kCosine)));
    VKF_TRY(cosine, angles_at(node.tensor(kCosine), std::nullopt, q.shape()[2], past));
    VKF_TRY(sine, angles_at(node.tensor(kSine), std::nullopt, q.shape()[2], past));
    VKF_TRY(turned_q, rotated(q, cosine, sine, 2 * half, interleaved != 0));
    VKF_TRY(turned_k, rotated(own_k, cosine, sine, 2 * half, interleaved != 0));
    q = turned_q;
    own_k = turned_k;
  }
  VKF_TRY(k, with_past(node, kPastKey, own_k));
  VKF_TRY(v, with_past(node, kPastValue, own_v));
  if (!k.valid() || !v.valid()) return Outputs{k.valid() ? v : k};
  AttentionOptions options;
  options.scale = scale;
  options.softcap = softcap;
  options.causal = true;
  options.first_query = past;
  if (smooth == 1) options.sink = Tensor::scalar(q.dtype(), 0).reshape({1}).broadcast_to({heads});
  if (window > 0) options.window_before = window - 1;
  if (past == 0) {
    // Sequences shorter than the longest are padded behind their end.
    if (!node.has(kLastKey))
      return invalid("Operand 5 of operator 'GroupQueryAttention' is left out, but is not optional.");
    VKF_CHECK_OK(check_rank(node, kLastKey, 1));
    const Tensor last = node.tensor(kLastKey).reshape({Dim(-1), 1, 1, 1});
    const Tensor key = Tensor::iota(last.dtype(), {1, 1, 1, k.shape()[2]}, 3);
    options.mask = op("le", key, last);
  }
  VKF_TRY(joined, join_heads(attention(q, k, v, options)));
  return Outputs{joined, k, v};
}

Result<Outputs> import_matmul_n_bits(const NodeContext& node) {
  const Attributes& attributes = node.attributes();
  for (const char* name : {"K", "N", "block_size"}) {
    if (!attributes.has(name)) return invalid("Attribute '{}' is missing.", name);
  }
  VKF_TRY(rows, attributes.integer("N", 0));
  VKF_TRY(columns, attributes.integer("K", 0));
  VKF_TRY(block, attributes.integer("block_size", 0));
  VKF_TRY(bits, attributes.integer("bits", 4));
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (bits != 4 && bits != 8) return unsupported("Weights of {} bits are not supported; there are 4 and 8.", bits);
  if (rows < 1 || rows > kMost || columns < 1 || columns > kMost || block < 2 || block > kMost || block % 2 != 0) {
    return invalid("The attributes say {} rows of {} weights in blocks of {}.", rows, columns, block);
  }
  if (node.has(4))
    return unsupported("Weights in another order (operand 4 of operator 'MatMulNBits') are not supported.");
  const std::int64_t blocks = (columns + block - 1) / block;
  const auto unpacked = [&](const Tensor& bytes) { return bits == 4 ? unpack_int4(bytes, false) : bytes; };
  const Shape packed{rows, blocks, block * bits / 8};
  if (node.dtype(1) != DType::u8 || node.tensor(1).shape() != packed) {
    return invalid("The weights are {}{}; they must be u8{}.", name_of(node.dtype(1)), to_text(node.tensor(1).shape()),
                   to_text(packed));
  }
  VKF_TRY(scales, static_count(node.tensor(2).shape(), 0, node.tensor(2).shape().size()));
  if (scales != rows * blocks)
    return invalid("There are {} scales; {} rows of {} blocks need {}.", scales, rows, blocks, rows * blocks);
  const DType dtype = node.dtype(2);
  const Tensor scale = node.tensor(2).reshape({rows, blocks, 1});
  Tensor zero = Tensor::scalar(dtype, bits == 4 ? 8 : 128);
  if (node.has(3)) {
    const std::int64_t in_row = (blocks * bits + 7) / 8;
    const bool is_packed = node.dtype(3) == DType::u8;
    VKF_TRY(stored, static_count(node.tensor(3).shape(), 0, node.tensor(3).shape().size()));
    if (stored != rows * (is_packed ? in_row : blocks))
      return invalid("Operand 3 has {} elements; {} rows of {} blocks need {}.", stored, rows, blocks,
                     rows * (is_packed ? in_row : blocks));
    const Tensor points =
        is_packed ? unpacked(node.tensor(3).reshape({rows, in_row})).slice(1, 0, blocks) : node.tensor(3);
    zero = points.cast(dtype).reshape({rows, blocks, 1});
  }
  Tensor weights = ((unpacked(node.tensor(1)).cast(dtype) - zero) * scale).reshape({rows, blocks * block});
  if (blocks * block != columns) weights = weights.slice(1, 0, columns);
  const Tensor product = matmul(node.tensor(0), weights.transpose());
  return Outputs{plus(node, product, 5)};
}

}  // namespace vkfuse::onnx
