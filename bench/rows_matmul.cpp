// Contractions: what stands before and after them is part of their kernel.
#include "api/tensor_node.hpp"
#include "row_groups.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

/// [m, k] x [k, n].
Tensor product(const Tensor& a, const Tensor& b) {
  return api::build_tensor(ops::row("dot"), {a, b}, {}, ir::DotPayload{{}, {}, {1}, {0}});
}

/// The tanh form.
Tensor gelu_tanh(const Tensor& x) { return x * 0.5 * (tanh((x + x * x * x * 0.044715) * 0.7978845608) + 1.0); }

Tensor weights(const char* name, DType dtype, const Dim& in, const Dim& out) { return Tensor::input(name, dtype, {in, out}); }

/// Shapes of all rows here are [m, k, n].
Built square(DType dtype, const Shape& shape) {
  return {product(Tensor::input("a", dtype, {shape[0], shape[1]}), weights("b", dtype, shape[1], shape[2]))};
}

/// The weights as [n, k], as linear layers have them.
Built transposed(DType dtype, const Shape& shape) {
  const Tensor b = Tensor::input("b", dtype, {shape[2], shape[1]});
  return {product(Tensor::input("a", dtype, {shape[0], shape[1]}), b.transpose())};
}

Built bias_gelu(DType dtype, const Shape& shape) {
  const Tensor sum = product(Tensor::input("a", dtype, {shape[0], shape[1]}), weights("b", dtype, shape[1], shape[2]));
  const Tensor biased = sum + Tensor::input("bias", dtype, {shape[2]});
  return framework_ops({gelu_tanh(biased)}, {sum, biased});
}

Built gated(DType dtype, const Shape& shape) {
  const Tensor x = Tensor::input("a", dtype, {shape[0], shape[1]});
  const Tensor gate = product(x, weights("gate", dtype, shape[1], shape[2]));
  const Tensor up = product(x, weights("up", dtype, shape[1], shape[2]));
  const Tensor active = silu(gate);
  return framework_ops({active * up}, {gate, up, active});
}

}  // namespace

std::vector<Row> matmul_rows() {
  std::vector<Row> all;
  const auto add = [&](std::string name, DType dtype, std::vector<std::int64_t> shape, auto build) {
    all.push_back({std::move(name), "matmul", dtype, std::move(shape), build, {.divide = {0, 2, 1}, .sweep = true}});
  };
  for (const DType dtype : {DType::f32, DType::f16}) {
    for (const std::int64_t size : {1024, 2048, 4096, 8192}) {
      add(fmt::format("matmul {} {}", size, name_of(dtype)), dtype, {size, size, size}, square);
    }
  }
  add("matmul bf16", DType::bf16, {4096, 4096, 4096}, square);
  add("matmul+bias+gelu f16", DType::f16, {8192, 4096, 16384}, bias_gelu);
  add("gated mlp f16", DType::f16, {8192, 4096, 14336}, gated);
  add("matvec f16", DType::f16, {1, 8192, 28672}, square);
  add("matvec transposed f16", DType::f16, {1, 8192, 28672}, transposed);
  return all;
}

}  // namespace vkfuse::bench
