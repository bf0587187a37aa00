// Random numbers: words of a counter that the seed of the node starts, so that a program gives the same in every run.
#include <bit>

#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::onnx {
namespace {

/// The bits of the seed where one is stated; else those of the node's name.
Result<std::uint64_t> seed_of(const NodeContext& node) {
  if (!node.attributes().has("seed")) return node.own_seed();
  const pb::AttributeProto* stated = node.attributes().find("seed");
  if (stated->type() == pb::AttributeProto::INT) return static_cast<std::uint64_t>(stated->i());
  VKF_TRY(seed, node.attributes().real("seed", 0));
  return std::bit_cast<std::uint64_t>(seed);
}

Result<DType> stated_dtype(const NodeContext& node, DType otherwise) {
  if (!node.attributes().has("dtype")) return otherwise;
  VKF_TRY(stated, node.attributes().integer("dtype", 0));
  return dtype_from(static_cast<int>(stated), "Attribute 'dtype'");
}

/// The shape that attribute 'shape' states, or that of the operand.
Result<Shape> shape_of(const NodeContext& node) {
  if (node.inputs() > 0) return node.tensor(0).shape();
  if (!node.attributes().has("shape")) return invalid("Attribute 'shape' is missing.");
  VKF_TRY(sizes, node.attributes().integers("shape"));
  for (const std::int64_t size : sizes) {
    if (size < 0) return invalid("Attribute 'shape' holds {}; sizes are not negative.", size);
  }
  if (!byte_count(DType::f64, sizes)) return invalid("Attribute 'shape' has more elements than fit 64 bits.");
  return to_shape(sizes);
}

Result<Outputs> scaled(const NodeContext& node, const Tensor& numbers, double factor, double first) {
  VKF_TRY(dtype, stated_dtype(node, node.inputs() > 0 ? node.dtype() : DType::f32));
  if (!is_float(dtype)) {
    return invalid("Attribute 'dtype' of operator '{}' is {}; it must be a float.", node.row().name, name_of(dtype));
  }
  return Outputs{(numbers * factor + first).cast(dtype)};
}

}  // namespace

Result<Outputs> import_random_uniform(const NodeContext& node) {
  VKF_TRY(shape, shape_of(node));
  VKF_TRY(seed, seed_of(node));
  VKF_TRY(low, node.attributes().real("low", 0));
  VKF_TRY(high, node.attributes().real("high", 1));
  return scaled(node, random_uniform(shape, seed), high - low, low);
}

Result<Outputs> import_random_normal(const NodeContext& node) {
  VKF_TRY(shape, shape_of(node));
  VKF_TRY(seed, seed_of(node));
  VKF_TRY(mean, node.attributes().real("mean", 0));
  VKF_TRY(deviation, node.attributes().real("scale", 1));
  return scaled(node, random_normal(shape, seed), deviation, mean);
}

Result<Outputs> import_bernoulli(const NodeContext& node) {
  VKF_TRY(seed, seed_of(node));
  VKF_TRY(dtype, stated_dtype(node, node.dtype()));
  const Tensor& probability = node.tensor(0);
  const DType wide = node.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return Outputs{op("lt", random_uniform(probability.shape(), seed).cast(wide), probability.cast(wide)).cast(dtype)};
}

Result<Outputs> import_multinomial(const NodeContext& node) {
  VKF_TRY(seed, seed_of(node));
  VKF_TRY(dtype, stated_dtype(node, DType::i32));
  VKF_TRY(samples, node.attributes().integer("sample_size", 1));
  const Shape& shape = node.tensor(0).shape();
  if (shape.size() != 2 || samples < 1 || samples > INT32_MAX) {
    return invalid("Operator 'Multinomial' draws {} samples of {}; it takes rank 2 and at least 1.", samples,
                   to_text(shape));
  }
  VKF_TRY(classes, static_size(shape, 1));
  // The class of a number is how many classes end at or below it.
  const Tensor ends = softmax(node.tensor(0).cast(DType::f32), 1).cumsum(1).unsqueeze(1);
  const Tensor numbers = random_uniform({shape[0], samples}, seed).unsqueeze(2);
  const Tensor drawn = op("le", ends, numbers).cast(DType::i32).sum({2});
  return Outputs{op("min", drawn, static_cast<double>(classes - 1)).cast(dtype)};
}

Result<Outputs> dropout_in_training(const NodeContext& node, const Tensor& ratio, const Tensor& is_training) {
  VKF_TRY(seed, seed_of(node));
  const Tensor& x = node.tensor(0);
  const DType wide = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor share = ratio.cast(wide).reshape({});
  const Tensor drops = is_training.reshape({});
  const Tensor is_kept = op("or", op("ge", random_uniform(x.shape(), seed).cast(wide), share), op("not", drops));
  const Tensor scaled = (x.cast(wide) / (1.0 - share)).cast(x.dtype());
  return Outputs{select(is_kept, select(drops, scaled, x), Tensor::scalar(x.dtype(), 0)), is_kept};
}

}  // namespace vkfuse::onnx
