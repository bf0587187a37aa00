// Mixtures of experts as ONNX Runtime writes them: MoE, and QMoE, whose weights are integers of few bits. What becomes
// of them are the pieces of vkfuse/experts.hpp: products gather each block's matrices, and unpack them, as they read.
#include "vkfuse/experts.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/unpacked_bits.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

/// Attributes that both operators have.
struct ExpertAttributes {
  std::int64_t chosen = 1;
  bool normalises = false;  ///< shares add up to 1
  bool is_sparse_mixer = false;
  std::string_view activation = "relu";
  std::int64_t fusion = 0;  ///< of gate and up in the first weights; 0: none, 1: in turns, 2: one after the other
  double alpha = 1, beta = 0;
  std::optional<double> limit;  ///< of what SwiGLU multiplies
  bool limits_activated = false;

  [[nodiscard]] bool is_gated() const { return activation == "swiglu" || activation == "geglu"; }
  [[nodiscard]] std::int64_t parts() const { return is_gated() && fusion != 0 ? 2 : 1; }  ///< of the first weights
};

/// The numbers of SwiGLU.
Result<void> read_gating(const NodeContext& node, ExpertAttributes& in) {
  const Attributes& attributes = node.attributes();
  VKF_TRY(fusion, attributes.integer("swiglu_fusion", 0));
  VKF_TRY(alpha, attributes.real("activation_alpha", 1));
  VKF_TRY(beta, attributes.real("activation_beta", 0));
  VKF_TRY(limit, attributes.real("swiglu_limit", 0));
  VKF_TRY(after, attributes.integer("swiglu_limit_after_activation", 0));
  if (fusion < 0 || fusion > 2)
    return invalid("Attribute 'swiglu_fusion' of operator '{}' is {}; it must be 0, 1 or 2.", node.row().name, fusion);
  in.fusion = fusion;
  in.alpha = alpha;
  in.beta = beta;
  if (attributes.has("swiglu_limit")) in.limit = limit;
  in.limits_activated = after != 0;
  return {};
}

Result<ExpertAttributes> expert_attributes(const NodeContext& node) {
  constexpr std::array<std::string_view, 7> kActivations = {"relu",     "relu2",  "gelu", "silu",
                                                            "identity", "swiglu", "geglu"};
  ExpertAttributes in;
  VKF_TRY(chosen, node.attributes().integer("k", 1));
  VKF_TRY(normalises, node.attributes().integer("normalize_routing_weights", 0));
  VKF_TRY(sparse, node.attributes().integer("use_sparse_mixer", 0));
  VKF_TRY(activation, node.attributes().text("activation_type", "relu"));
  if (std::ranges::find(kActivations, activation) == kActivations.end()) {
    return unsupported("Attribute 'activation_type' of operator '{}' is '{}'; supported are {}.", node.row().name,
                       activation, fmt::join(kActivations, ", "));
  }
  in.chosen = chosen;
  in.normalises = normalises != 0;
  in.is_sparse_mixer = sparse != 0;
  in.activation = activation;
  VKF_CHECK_OK(read_gating(node, in));
  return in;
}

/// Where a projection's operands are; -1: the operator has none.
struct ProjectionOperands {
  int weights, bias, scale = -1, zero = -1;
  std::string_view bits;  ///< the attribute that states them for these weights alone
};

/// One linear map per expert: of `inputs` elements to `outputs`.
struct ProjectionSizes {
  std::int64_t experts = 0, outputs = 0, inputs = 0;
};

/// The weights of such maps: numbers [experts, outputs, inputs], or integers packed along the last axis, with a scale
/// and, where it is not the middle, a zero point for each block [experts, outputs, blocks].
struct Projection {
  Tensor weights;
  std::optional<Tensor> bias, scale, zero;
  std::int64_t bits = 0, block = 0;

  /// The numbers, in the dtype of what they multiply.
  [[nodiscard]] Tensor numbers(DType dtype) const {
    if (!scale) return weights;
    const Tensor point = zero ? *zero : Tensor::scalar(DType::u8, static_cast<double>(std::int64_t{1} << (bits - 1)));
    return dequantize(unpacked_bits(weights, bits), {.scale = *scale, .zero_point = point, .axis = 2, .group = block})
        .cast(dtype);
  }
};

/// Gate (0) or up (1) along axis 1, where one tensor holds both.
Tensor part_of(const Tensor& both, std::int64_t fusion, std::int64_t which) {
  if (!both.valid()) return both;
  const std::int64_t half = both.shape()[1].size() / 2;
  if (fusion == 2) return both.slice(1, which * half, (which + 1) * half);
  Shape pairs = both.shape();
  pairs[1] = Dim(half);
  pairs.insert(pairs.begin() + 2, Dim(2));
  return both.reshape(pairs).select(2, which);
}

Projection part_of(const Projection& both, std::int64_t fusion, std::int64_t which) {
  Projection one = both;
  one.weights = part_of(both.weights, fusion, which);
  for (std::optional<Tensor>* x : {&one.bias, &one.scale, &one.zero}) {
    if (*x) *x = part_of(**x, fusion, which);
  }
  return one;
}

/// The maps of a network: hidden values are an activation of `first`, or of a gate times `up`.
struct ExpertNetwork {
  Projection first, second;
  std::optional<Projection> up;
};

Result<void> check_operand_shape(const NodeContext& node, int operand, const Shape& shape) {
  if (node.tensor(operand).shape() == shape) return {};
  return invalid("Operand {} of operator '{}' is {}; it must be {}.", operand, node.row().name,
                 to_text(node.tensor(operand).shape()), to_text(shape));
}

/// How many tokens, experts, elements of a token and hidden values there are.
struct MixtureSizes {
  std::int64_t tokens = 0, experts = 0, width = 0, inner = 0;
};

/// `second` is the operand of the weights that results are made with: bytes of so many bits, or 8 for plain numbers.
Result<MixtureSizes> mixture_sizes(const NodeContext& node, int second, std::int64_t bits) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  VKF_CHECK_OK(check_rank(node, 1, 2));
  for (const int operand : {2, second}) {
    if (!node.has(operand))
      return invalid("Operand {} of operator '{}' is left out, but is not optional.", operand, node.row().name);
    VKF_CHECK_OK(check_rank(node, operand, 3));
  }
  const Shape& shape = node.tensor(0).shape();
  VKF_TRY(width, static_size(shape, shape.size() - 1));
  VKF_TRY(tokens, static_count(shape, 0, shape.size() - 1));
  VKF_TRY(experts, static_size(node.tensor(1).shape(), 1));
  VKF_TRY(columns, static_size(node.tensor(second).shape(), 2));
  VKF_CHECK_OK(check_operand_shape(node, 1, {Dim(tokens), Dim(experts)}));
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (width > kMost || columns > kMost) {
    return unsupported("Operator '{}' has {} elements of a token and {} of a row of weights; at most {} are supported.",
                       node.row().name, width, columns, kMost);
  }
  return MixtureSizes{tokens, experts, width, columns * 8 / bits};
}

Result<void> check_bias(const NodeContext& node, int operand, const ProjectionSizes& sizes) {
  if (!node.has(operand)) return {};
  return check_operand_shape(node, operand, {Dim(sizes.experts), Dim(sizes.outputs)});
}

std::optional<Tensor> given(const NodeContext& node, int operand) {
  return node.has(operand) ? std::optional(node.tensor(operand)) : std::nullopt;
}

Result<Projection> plain_projection(const NodeContext& node, const ProjectionOperands& operands,
                                    const ProjectionSizes& sizes) {
  VKF_CHECK_OK(
      check_operand_shape(node, operands.weights, {Dim(sizes.experts), Dim(sizes.outputs), Dim(sizes.inputs)}));
  VKF_CHECK_OK(check_bias(node, operands.bias, sizes));
  return Projection{node.tensor(operands.weights), given(node, operands.bias), {}, {}, 0, 0};
}

/// Bits of a projection's integers: its own attribute, or that of all.
Result<std::int64_t> expert_bits(const NodeContext& node, std::string_view own) {
  VKF_TRY(of_all, node.attributes().integer("expert_weight_bits", 4));
  VKF_TRY(bits, node.attributes().integer(own, of_all));
  if (bits == 2 || bits == 3 || bits == 4 || bits == 8) return bits;
  return unsupported("Weights of {} bits are not supported by operator 'QMoE'; there are 2, 3, 4 and 8.", bits);
}

/// Bytes that hold so many integers.
std::int64_t bytes_for(std::int64_t integers, std::int64_t bits) { return (integers * bits + 7) / 8; }

/// The first `count` integers of each row of bytes.
Tensor unpacked_row(const Tensor& bytes, std::int64_t bits, std::int64_t count) {
  const int last = static_cast<int>(bytes.shape().size()) - 1;
  const std::int64_t size = bytes.shape().back().size();
  const std::int64_t missing = bits == 3 ? (3 - size % 3) % 3 : 0;  // three bytes are eight whole integers
  const std::vector<std::int64_t> none(bytes.shape().size(), 0);
  std::vector<std::int64_t> after = none;
  after.back() = missing;
  return unpacked_bits(missing == 0 ? bytes : bytes.pad(none, after), bits).slice(last, 0, count);
}

/// The zero points at an operand, [experts, outputs, blocks]: packed along the blocks of a row, or where each row is
/// one block, along the rows.
Result<Tensor> expert_zeros(const NodeContext& node, int operand, const ProjectionSizes& sizes, std::int64_t bits,
                            std::int64_t blocks) {
  const Tensor& stored = node.tensor(operand);
  const bool are_in_rows = stored.shape().size() == 2 && blocks == 1;
  if (are_in_rows) {
    VKF_CHECK_OK(check_operand_shape(node, operand, {Dim(sizes.experts), Dim(bytes_for(sizes.outputs, bits))}));
  } else {
    VKF_CHECK_OK(
        check_operand_shape(node, operand, {Dim(sizes.experts), Dim(sizes.outputs), Dim(bytes_for(blocks, bits))}));
  }
  if (stored.dtype() != DType::u8)
    return invalid("Operand {} of operator 'QMoE' is {}; it must be u8.", operand, name_of(stored.dtype()));
  if (are_in_rows) return unpacked_row(stored, bits, sizes.outputs).unsqueeze(2);
  return unpacked_row(stored, bits, blocks);
}

Result<Projection> packed_projection(const NodeContext& node, const ProjectionOperands& operands,
                                     const ProjectionSizes& sizes) {
  VKF_TRY(bits, expert_bits(node, operands.bits));
  VKF_TRY(stated, node.attributes().integer("block_size", 0));
  const std::int64_t block = stated > 0 ? stated : sizes.inputs;
  if (sizes.inputs % block != 0 || sizes.inputs * bits % 8 != 0) {
    return invalid("Rows of {} weights of {} bits are not whole blocks of {} and whole bytes in operator 'QMoE'.",
                   sizes.inputs, bits, block);
  }
  const Dim experts(sizes.experts), outputs(sizes.outputs);
  VKF_CHECK_OK(check_operand_shape(node, operands.weights, {experts, outputs, Dim(bytes_for(sizes.inputs, bits))}));
  const Tensor& weights = node.tensor(operands.weights);
  if (weights.dtype() != DType::u8)
    return invalid("Operand {} of operator 'QMoE' is {}; it must be u8.", operands.weights, name_of(weights.dtype()));
  if (!node.has(operands.scale))
    return invalid("Operand {} of operator 'QMoE' is left out, but its weights are integers.", operands.scale);
  const std::int64_t blocks = sizes.inputs / block;
  Tensor scale = node.tensor(operands.scale);
  if (scale.shape() == Shape{experts, outputs} && blocks == 1) scale = scale.unsqueeze(2);
  if (scale.shape() != Shape{experts, outputs, Dim(blocks)})
    VKF_CHECK_OK(check_operand_shape(node, operands.scale, {experts, outputs, Dim(blocks)}));
  VKF_CHECK_OK(check_bias(node, operands.bias, sizes));
  Projection result{weights, given(node, operands.bias), scale, {}, bits, block};
  if (node.has(operands.zero)) {
    VKF_TRY(zero, expert_zeros(node, operands.zero, sizes, bits, blocks));
    result.zero = zero;
  }
  return result;
}

using ReadProjection = Result<Projection> (*)(const NodeContext&, const ProjectionOperands&, const ProjectionSizes&);

/// The operands of three projections, in the operator's order, and how they are read.
struct NetworkOperands {
  ProjectionOperands first, second, third;
  ReadProjection read;
};

Result<ExpertNetwork> expert_network(const NodeContext& node, const ExpertAttributes& in, const MixtureSizes& sizes,
                                     const NetworkOperands& operands) {
  const bool has_third = node.has(operands.third.weights), is_fused = in.parts() == 2;
  if (has_third == is_fused && (has_third || in.is_gated())) {
    return invalid(
        "Operator '{}' with activation '{}' and swiglu_fusion {} takes {} weights of gate and up, but operand {} is "
        "{}.",
        node.row().name, in.activation, in.fusion, is_fused ? "joined" : "separate", operands.third.weights,
        has_third ? "given" : "left out");
  }
  if (in.is_gated() && !is_fused && in.activation == "geglu")
    return invalid("Activation 'geglu' of operator '{}' needs swiglu_fusion 1 or 2, but it is 0.", node.row().name);
  if (!has_third && node.has(operands.third.bias))
    return invalid("Operand {} of operator '{}' is the bias of weights that are left out.", operands.third.bias,
                   node.row().name);
  VKF_TRY(first, operands.read(node, operands.first, {sizes.experts, in.parts() * sizes.inner, sizes.width}));
  VKF_TRY(second, operands.read(node, operands.second, {sizes.experts, sizes.width, sizes.inner}));
  if (is_fused) return ExpertNetwork{part_of(first, in.fusion, 0), second, part_of(first, in.fusion, 1)};
  if (!has_third) return ExpertNetwork{first, second, {}};
  VKF_TRY(third, operands.read(node, operands.third, {sizes.experts, sizes.inner, sizes.width}));
  return ExpertNetwork{first, second, third};
}

/// The two experts of SparseMixer, as of Phi-3.5-MoE: a share is the softmax at the largest logit over those that are
/// close to it, and the second one is chosen where the first is left out.
ExpertChoice sparse_mixture(const Tensor& logits) {
  constexpr double kJitter = 0.01;
  const Tensor experts = logits.argsort(1, true, 2), largest = logits.take_along(experts, 1);
  const Tensor expert = Tensor::iota(DType::i32, {Dim(1), logits.shape()[1]}, 1);
  std::vector<Tensor> shares;
  for (const std::int64_t i : {0, 1}) {
    const Tensor own = largest.slice(1, i, i + 1);
    Tensor is_out = op("gt", own - logits, op("max", op("abs", logits), own) * (2 * kJitter));
    if (i == 1) is_out = op("or", is_out, op("eq", expert, experts.slice(1, 0, 1)));
    const Tensor parts = select(is_out, Tensor::scalar(logits.dtype(), 0), op("exp", logits - own));
    shares.push_back(op("reciprocal", parts.sum({1}, true)));
  }
  return {experts, concat(shares, 1)};
}

/// Shares from another tensor than the one that experts are chosen by; `kNone`: from the same.
constexpr int kNone = -1;

Result<ExpertChoice> expert_choice(const NodeContext& node, const ExpertAttributes& in, const MixtureSizes& sizes,
                                   int weighed_by) {
  if (in.chosen < 1 || in.chosen > sizes.experts)
    return invalid("Attribute 'k' of operator '{}' is {}, but there are {} experts.", node.row().name, in.chosen,
                   sizes.experts);
  const DType wide = node.dtype(1) == DType::f64 ? DType::f64 : DType::f32;
  const Tensor logits = node.tensor(1).cast(wide);
  const bool has_weights = weighed_by != kNone && node.has(weighed_by);
  if (in.is_sparse_mixer) {
    if (in.chosen != 2 || has_weights) {
      return unsupported("Operator '{}' with use_sparse_mixer takes k 2 and no router_weights, but k is {}{}.",
                         node.row().name, in.chosen, has_weights ? " and router_weights are given" : "");
    }
    return sparse_mixture(logits);
  }
  if (!has_weights) return choose_experts(logits, in.chosen, in.normalises);
  VKF_CHECK_OK(check_operand_shape(node, weighed_by, {Dim(sizes.tokens), Dim(sizes.experts)}));
  const Tensor experts = logits.argsort(1, true, in.chosen);
  const Tensor shares = node.tensor(weighed_by).cast(wide).take_along(experts, 1);
  if (!in.normalises) return ExpertChoice{experts, shares};
  const Tensor sum = shares.sum({1}, true);
  return ExpertChoice{experts, select(op("eq", sum, 0), Tensor::scalar(wide, 0), shares / sum)};
}

/// Of one product, or of a gate that is not joined by SwiGLU's rule.
Tensor activated(const ExpertAttributes& in, const Tensor& x) {
  if (in.activation == "identity") return x;
  if (in.activation == "silu") return silu(x);
  if (in.activation == "gelu" || in.activation == "geglu") return gelu(x, GeluForm::tanh);
  const Tensor above = op("max", x, 0);
  return in.activation == "relu2" ? above * above : above;
}

Tensor swiglu(const ExpertAttributes& in, const Tensor& gate, const Tensor& up) {
  const bool limits_gate = in.limit && !in.limits_activated;
  const Tensor limited = limits_gate ? op("min", gate, *in.limit) : gate;
  Tensor swish = limited * op("sigmoid", limited * in.alpha);
  if (in.limit && in.limits_activated) swish = op("min", swish, *in.limit);
  const Tensor linear = in.limit ? op("max", op("min", up, *in.limit), -*in.limit) : up;
  return swish * (linear + in.beta);
}

Tensor projected(const ExpertBlocks& blocks, const Tensor& rows, const Projection& by) {
  const Tensor product = matmul(rows, blocks.weights_of(by.numbers(rows.dtype()).transpose()));
  return by.bias ? product + blocks.weights_of(*by.bias).unsqueeze(1) : product;
}

/// The node's result for a choice of experts.
Tensor mixed(const NodeContext& node, const ExpertAttributes& in, const ExpertChoice& choice,
             const ExpertNetwork& network, const MixtureSizes& sizes) {
  const ExpertBlocks blocks(choice.experts, sizes.experts);
  const Tensor rows = blocks.rows_of(node.tensor(0).reshape({Dim(sizes.tokens), Dim(sizes.width)}));
  const Tensor first = projected(blocks, rows, network.first);
  const auto joined = [&](const Tensor& hidden) {
    return blocks.joined(projected(blocks, hidden, network.second), choice.shares).reshape(node.tensor(0).shape());
  };
  if (!network.up) return joined(activated(in, first));
  const Tensor up = projected(blocks, rows, *network.up);
  return joined(in.activation == "swiglu" ? swiglu(in, first, up) : activated(in, first) * up);
}

Result<Outputs> mixture(const NodeContext& node, const NetworkOperands& operands, std::int64_t second_bits,
                        int weighed_by) {
  VKF_TRY(in, expert_attributes(node));
  VKF_TRY(sizes, mixture_sizes(node, operands.second.weights, second_bits));
  VKF_TRY(choice, expert_choice(node, in, sizes, weighed_by));
  VKF_TRY(network, expert_network(node, in, sizes, operands));
  return Outputs{mixed(node, in, choice, network, sizes)};
}

}  // namespace

Result<Outputs> import_moe(const NodeContext& node) {
  return mixture(node,
                 {.first = {.weights = 2, .bias = 3},
                  .second = {.weights = 4, .bias = 5},
                  .third = {.weights = 6, .bias = 7},
                  .read = plain_projection},
                 8, kNone);
}

Result<Outputs> import_qmoe(const NodeContext& node) {
  constexpr int kRouterWeights = 14;
  VKF_TRY(type, node.attributes().text("quant_type", "int"));
  if (type != "int")
    return unsupported("Attribute 'quant_type' of operator 'QMoE' is '{}'; supported are integers ('int').", type);
  VKF_TRY(prepacked, node.attributes().integer("weights_prepacked", -1));
  if (prepacked > 0) {
    return unsupported(
        "Attribute 'weights_prepacked' of operator 'QMoE' is {}: weights in the order of a provider's kernels are not "
        "supported.",
        prepacked);
  }
  for (int operand = kRouterWeights + 1; operand < node.inputs(); ++operand) {
    if (node.has(operand))
      return unsupported("Operand {} of operator 'QMoE', of weights that are floats, is not supported.", operand);
  }
  VKF_TRY(bits, expert_bits(node, "fc2_expert_weight_bits"));
  return mixture(node,
                 {.first = {.weights = 2, .bias = 4, .scale = 3, .zero = 11, .bits = "fc1_expert_weight_bits"},
                  .second = {.weights = 5, .bias = 7, .scale = 6, .zero = 12, .bits = "fc2_expert_weight_bits"},
                  .third = {.weights = 8, .bias = 10, .scale = 9, .zero = 13, .bits = "fc3_expert_weight_bits"},
                  .read = packed_projection},
                 bits, kRouterWeights);
}

}  // namespace vkfuse::onnx
