// What follows a product in a network, each beside the product alone.
#include <cmath>

#include "row_groups.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

/// Shapes of all rows here are [m, k, n].
Tensor product(DType dtype, const Shape& shape) {
  return matmul(Tensor::input("a", dtype, {shape[0], shape[1]}), Tensor::input("b", dtype, {shape[1], shape[2]}));
}
Built plain(DType dtype, const Shape& shape) { return {product(dtype, shape)}; }

/// A linear layer of a framework is one op: the product with its bias.
Tensor linear(DType dtype, const Shape& shape) {
  return product(dtype, shape) + Tensor::input("bias", dtype, {shape[2]});
}

Built with_bias(DType dtype, const Shape& shape) { return framework_ops({linear(dtype, shape)}); }

Built with_gelu_erf(DType dtype, const Shape& shape) {
  const Tensor x = linear(dtype, shape);
  return framework_ops({gelu(x)}, {x});
}

Built with_gelu_tanh(DType dtype, const Shape& shape) {
  const Tensor x = linear(dtype, shape);
  return framework_ops({gelu(x, GeluForm::tanh)}, {x});
}

Built with_silu(DType dtype, const Shape& shape) {
  const Tensor x = linear(dtype, shape);
  return framework_ops({silu(x)}, {x});
}

Built with_residual(DType dtype, const Shape& shape) {
  const Tensor x = linear(dtype, shape);
  return framework_ops({x + Tensor::input("residual", dtype, {shape[0], shape[2]})}, {x});
}

/// A scale for each column, and the result in the other 16-bit dtype.
Built with_scale_and_cast(DType dtype, const Shape& shape) {
  const Tensor x = product(dtype, shape);
  const Tensor scaled = x * Tensor::input("scale", dtype, {shape[2]});
  return framework_ops({scaled.cast(dtype == DType::f16 ? DType::bf16 : DType::f16)}, {x, scaled});
}

}  // namespace

std::vector<Row> epilogue_rows() {
  struct Form {
    const char* name;
    Built (*build)(DType, const Shape&);
    DType dtype = DType::f16;
    bool named = true;
  };
  const Form forms[] = {{"matmul+bias f16", with_bias},
                        {"matmul+gelu erf f16", with_gelu_erf, DType::f16, false},
                        {"matmul+gelu erf bf16", with_gelu_erf, DType::bf16},
                        {"matmul+gelu tanh f16", with_gelu_tanh},
                        {"matmul+silu f16", with_silu},
                        {"matmul+residual f16", with_residual, DType::f16, false},
                        {"matmul+scale+cast f16", with_scale_and_cast}};
  std::vector<Row> all;
  for (const Form& form : forms) {
    all.push_back({form.name,
                   "epilogue",
                   form.dtype,
                   {4096, 1024, 4096},
                   form.build,
                   {.divide = {0, 1, 2}, .named = form.named, .small = "b"},
                   Beside{"plain", plain}});
  }
  return all;
}

}  // namespace vkfuse::bench
