// Chains of elementwise ops.
#include <cmath>

#include "row_groups.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

constexpr int kAdamTensors = 64;

Built textbook(DType dtype, const Shape& shape) {
  const Tensor x = Tensor::input("x", dtype, shape);
  return {relu(x * 2.0) + 1.0};
}

Tensor biased(DType dtype, const Shape& shape) {
  return Tensor::input("x", dtype, shape) + Tensor::input("bias", dtype, {shape.back()});
}

Built bias_gelu_tanh(DType dtype, const Shape& shape) {
  const Tensor x = biased(dtype, shape);
  return framework_ops({gelu(x, GeluForm::tanh)}, {x});
}

Built bias_gelu_erf(DType dtype, const Shape& shape) {
  const Tensor x = biased(dtype, shape);
  return framework_ops({gelu(x)}, {x});
}

Built swiglu(DType dtype, const Shape& shape) {
  const Tensor gate = Tensor::input("gate", dtype, shape);
  const Tensor silu = gate * sigmoid(gate);
  return framework_ops({silu * Tensor::input("up", dtype, shape)}, {silu});
}

/// Keeps nine elements of ten.
Built dropout_residual(DType dtype, const Shape& shape) {
  const Tensor x = Tensor::input("x", dtype, shape);
  const Tensor keep = lt(Tensor::random(shape, 2024), Tensor::scalar_int(DType::u32, 3865470566));
  const Tensor kept = select(keep, x * (1.0 / 0.9), Tensor::scalar(dtype, 0));
  return framework_ops({kept + Tensor::input("residual", dtype, shape)}, {kept});
}

/// AdamW at its usual settings, in step 10: the new parameters and both moments of each tensor. Stored between are
/// what the eight calls of the textbook form leave: decay, lerp, scale, multiply-add, root, division, sum; the
/// parameter is the last.
Built adamw_of(DType dtype, const std::vector<Shape>& shapes) {
  constexpr double rate = 1e-3, decay = 0.01, beta1 = 0.9, beta2 = 0.999;
  constexpr double correct1 = 1 / (1 - 0.3486784401), correct2 = 1 / (1 - 0.9900448802);
  std::vector<Tensor> outputs, between;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto input = [&](const char* name) { return Tensor::input(name + std::to_string(i), dtype, shapes[i]); };
    const Tensor p = input("p"), g = input("g"), m = input("m"), v = input("v");
    const Tensor m1 = m * beta1 + g * (1 - beta1);
    const Tensor scaled = v * beta2;
    const Tensor v1 = scaled + g * g * (1 - beta2);
    const Tensor root = sqrt(v1);
    const Tensor corrected = root * std::sqrt(correct2);
    const Tensor divisor = corrected + 1e-8;
    const Tensor decayed = p * (1 - rate * decay);
    between.insert(between.end(), {decayed, m1, scaled, v1, root, corrected, divisor});
    outputs.push_back(decayed - m1 * (rate * correct1) / divisor);
    outputs.push_back(m1);
    outputs.push_back(v1);
  }
  return framework_ops(outputs, between);
}

Built adamw(DType dtype, const Shape& shape) { return adamw_of(dtype, std::vector<Shape>(kAdamTensors, shape)); }

/// The parameters of eight layers of a transformer of a width: matrices and vectors, one of an odd length.
Built adamw_unlike(DType dtype, const Shape& shape) {
  const std::int64_t width = shape[0].size();
  const std::vector<Shape> of_layer = {{width},     {width, 3 * width}, {3 * width},        {width, width},
                                       {width + 1}, {width, 4 * width}, {4 * width, width}, {4 * width}};
  std::vector<Shape> shapes;
  while (shapes.size() < kAdamTensors) shapes.insert(shapes.end(), of_layer.begin(), of_layer.end());
  return adamw_of(dtype, shapes);
}

Built small_ops(DType dtype, const Shape& shape) {
  Tensor x = Tensor::input("x", dtype, shape);
  for (int i = 0; i < 5; ++i) x = tanh(x * 1.25 + 0.1) * 0.75 + 0.2;
  return {x};
}

}  // namespace

std::vector<Row> chain_rows() {
  return {
      {"textbook f32", "chain", DType::f32, {1 << 28}, textbook, {.sweep = true, .quick = true}},
      {"textbook f16", "chain", DType::f16, {1 << 28}, textbook, {.sweep = true, .quick = true}},
      {"bias+gelu tanh f16", "chain", DType::f16, {16384, 8192}, bias_gelu_tanh, {.sweep = true, .quick = true}},
      {"bias+gelu erf f16", "chain", DType::f16, {16384, 8192}, bias_gelu_erf, {.sweep = true}},
      {"swiglu f16", "chain", DType::f16, {8192, 14336}, swiglu, {.quick = true}},
      {"dropout+add f16", "chain", DType::f16, {16384, 8192}, dropout_residual, {.quick = true}},
      {"adamw f32", "chain", DType::f32, {7812500}, adamw, {.tensors = kAdamTensors, .positive = "v"}},
      {"adamw unlike f32", "chain", DType::f32, {1024}, adamw_unlike, {.positive = "v"}},
      {"25 small ops f32", "chain", DType::f32, {1 << 16}, small_ops, {.launch_bound = true, .quick = true}},
  };
}

}  // namespace vkfuse::bench
