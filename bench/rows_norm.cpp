// Softmax and norms: reductions with work before, between and after them.
#include <numeric>

#include "row_groups.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

Built softmax_last(DType dtype, const Shape& shape) {
  return framework_ops({softmax(Tensor::input("x", dtype, shape), -1)});
}
Built softmax_middle(DType dtype, const Shape& shape) {
  return framework_ops({softmax(Tensor::input("x", dtype, shape), 1)});
}

Built layer_norm(DType dtype, const Shape& shape) {
  const Tensor x = Tensor::input("x", dtype, shape);
  return framework_ops({normalize(x, {1}, 1e-5) * Tensor::input("weight", dtype, {shape[1]}) +
                        Tensor::input("bias", dtype, {shape[1]})});
}

Built rms_norm(DType dtype, const Shape& shape) {
  return framework_ops(
      {rms_normalize(Tensor::input("x", dtype, shape), {1}, 1e-6) * Tensor::input("weight", dtype, {shape[1]})});
}

/// The norm and the sum that the next block adds to.
Built residual_rms_norm(DType dtype, const Shape& shape) {
  const Tensor sum = Tensor::input("x", dtype, shape) + Tensor::input("residual", dtype, shape);
  return framework_ops({rms_normalize(sum, {1}, 1e-6) * Tensor::input("weight", dtype, {shape[1]}), sum}, {sum});
}

/// The same in f32, and the norm as int8 with one scale per row. The sums stay in `dtype`.
Built residual_rms_norm_quantised(DType dtype, const Shape& shape) {
  const auto wide = [](const Tensor& x) { return x.cast(DType::f32); };
  const Tensor sum = wide(Tensor::input("x", dtype, shape)) + wide(Tensor::input("residual", dtype, shape));
  const Tensor norm = rms_normalize(sum, {1}, 1e-6) * wide(Tensor::input("weight", dtype, {shape[1]}));
  const Tensor scale = abs(norm).max({1}, true) * (1.0 / 127.0);
  return framework_ops({round(norm / scale).cast(DType::i8), scale, sum.cast(dtype)}, {sum, norm, scale});
}

/// [batch, channels, height, width], ten channels to a group where there are as many.
Built group_norm_silu(DType dtype, const Shape& shape) {
  const std::int64_t channels = shape[1].size();
  const std::int64_t per_group = std::gcd<std::int64_t>(10, channels);
  const Tensor x = Tensor::input("x", dtype, shape);
  const Tensor grouped = x.reshape({shape[0], channels / per_group, -1});
  const Tensor weight = Tensor::input("weight", dtype, {channels}).reshape({channels, 1, 1});
  const Tensor bias = Tensor::input("bias", dtype, {channels}).reshape({channels, 1, 1});
  const Tensor norm = normalize(grouped, {2}, 1e-5).reshape(shape) * weight + bias;
  return framework_ops({silu(norm)}, {norm});
}

/// From the mean and the reciprocal deviation that the forward pass kept: gradients of the input, the scale and
/// the bias. In f32, as frameworks do.
Built layer_norm_backward(DType dtype, const Shape& shape) {
  const auto wide = [&](const char* name, const Shape& of) { return Tensor::input(name, dtype, of).cast(DType::f32); };
  const Tensor gradient = wide("gradient", shape);
  const Tensor mean = Tensor::input("mean", DType::f32, {shape[0], 1});
  const Tensor reciprocal = Tensor::input("reciprocal", DType::f32, {shape[0], 1});
  const Tensor normal = (wide("x", shape) - mean) * reciprocal;
  const Tensor scaled = gradient * wide("weight", {shape[1]});
  const Tensor along = (scaled * normal).mean({1}, true);
  const Tensor dx = reciprocal * (scaled - scaled.mean({1}, true) - normal * along);
  return framework_ops({dx.cast(dtype), (gradient * normal).sum({0}).cast(dtype), gradient.sum({0}).cast(dtype)});
}

}  // namespace

std::vector<Row> norm_rows() {
  const DType f16 = DType::f16;
  return {
      {"softmax f32", "reduce", DType::f32, {16384, 4096}, softmax_last, {.sweep = true, .quick = true}},
      {"softmax f16", "reduce", f16, {16384, 4096}, softmax_last, {.sweep = true, .quick = true}},
      {"softmax middle f16", "reduce", f16, {64, 4096, 1024}, softmax_middle, {.divide = {0, 2}, .sweep = true}},
      {"softmax long f16", "reduce", f16, {1024, 131072}, softmax_last, {.sweep = true}},
      {"layernorm 1024 f16", "reduce", f16, {16384, 1024}, layer_norm, {.sweep = true}},
      {"layernorm 4096 f16", "reduce", f16, {16384, 4096}, layer_norm, {.sweep = true, .quick = true}},
      {"layernorm 8192 f16", "reduce", f16, {16384, 8192}, layer_norm, {.sweep = true}},
      {"layernorm 12288 f16", "reduce", f16, {16384, 12288}, layer_norm, {.sweep = true}},
      {"layernorm 4098 f16", "reduce", f16, {16384, 4098}, layer_norm, {.sweep = true}},
      {"rmsnorm 1024 f16", "reduce", f16, {16384, 1024}, rms_norm, {.sweep = true}},
      {"rmsnorm 4096 f16", "reduce", f16, {16384, 4096}, rms_norm, {.sweep = true}},
      {"rmsnorm 8192 f16", "reduce", f16, {16384, 8192}, rms_norm, {.sweep = true}},
      {"rmsnorm 12288 f16", "reduce", f16, {16384, 12288}, rms_norm, {.sweep = true}},
      {"rmsnorm 4098 f16", "reduce", f16, {16384, 4098}, rms_norm, {.sweep = true}},
      {"add+rmsnorm f16", "reduce", f16, {16384, 4096}, residual_rms_norm, {.sweep = true, .quick = true}},
      {"add+rmsnorm+int8", "reduce", f16, {16384, 4096}, residual_rms_norm_quantised, {.sweep = true}},
      {"groupnorm+silu f16", "reduce", f16, {16, 320, 64, 64}, group_norm_silu, {.divide = {0, 1}, .sweep = true}},
      {"layernorm back f16",
       "reduce",
       f16,
       {16384, 8192},
       layer_norm_backward,
       {.positive = "reciprocal", .sweep = true}},
  };
}

}  // namespace vkfuse::bench
