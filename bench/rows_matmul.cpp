// Contractions: what stands before and after them is part of their kernel.
#include "row_groups.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

/// The tanh form.
Tensor gelu_tanh(const Tensor& x) { return x * 0.5 * (tanh((x + x * x * x * 0.044715) * 0.7978845608) + 1.0); }

Tensor weights(const char* name, DType dtype, const Dim& in, const Dim& out) { return Tensor::input(name, dtype, {in, out}); }

/// Shapes of all rows here are [m, k, n].
Built square(DType dtype, const Shape& shape) {
  return {matmul(Tensor::input("a", dtype, {shape[0], shape[1]}), weights("b", dtype, shape[1], shape[2]))};
}

/// The weights as [n, k], as linear layers have them.
Built transposed(DType dtype, const Shape& shape) {
  const Tensor b = Tensor::input("b", dtype, {shape[2], shape[1]});
  return {matmul(Tensor::input("a", dtype, {shape[0], shape[1]}), b.transpose())};
}

Built bias_gelu(DType dtype, const Shape& shape) {
  const Tensor sum = matmul(Tensor::input("a", dtype, {shape[0], shape[1]}), weights("b", dtype, shape[1], shape[2]));
  // Sums of thousands of products, brought back to where the cube of GELU stays in range.
  const Tensor biased = sum * 0.0625 + Tensor::input("bias", dtype, {shape[2]});
  return framework_ops({gelu_tanh(biased)}, {sum, biased});
}

/// RMS norm before: x is divided by the root of its mean square, along k.
Built norm_first(DType dtype, const Shape& shape) {
  const Tensor x = Tensor::input("a", dtype, {shape[0], shape[1]});
  const Tensor normal = rms_normalize(x, {1}, 1e-5) * Tensor::input("weight", dtype, {shape[1]});
  return framework_ops({matmul(normal, weights("b", dtype, shape[1], shape[2]))}, {normal});
}

Built gated(DType dtype, const Shape& shape) {
  const Tensor x = Tensor::input("a", dtype, {shape[0], shape[1]});
  const Tensor gate = matmul(x, weights("gate", dtype, shape[1], shape[2]));
  const Tensor up = matmul(x, weights("up", dtype, shape[1], shape[2]));
  const Tensor active = silu(gate);
  return framework_ops({active * up}, {gate, up, active});
}

/// [batch, heads, length, size] of each of q, k and v.
Built attention_of(DType dtype, const Shape& shape, const AttentionOptions& options) {
  const auto input = [&](const char* name) { return Tensor::input(name, dtype, shape); };
  return {attention(input("q"), input("k"), input("v"), options)};
}

Built attention_plain(DType dtype, const Shape& shape) { return attention_of(dtype, shape, {}); }
Built attention_causal(DType dtype, const Shape& shape) { return attention_of(dtype, shape, {.causal = true}); }
Built attention_softcap(DType dtype, const Shape& shape) { return attention_of(dtype, shape, {.softcap = 30}); }

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
  add("norm+matmul f16", DType::f16, {8192, 4096, 4096}, norm_first);
  add("gated mlp f16", DType::f16, {8192, 4096, 14336}, gated);
  add("matvec f16", DType::f16, {1, 8192, 28672}, square);
  add("matvec transposed f16", DType::f16, {1, 8192, 28672}, transposed);
  const std::pair<const char*, Built (*)(DType, const Shape&)> forms[] = {
      {"attention f16", attention_plain}, {"attention causal f16", attention_causal}, {"attention softcap f16", attention_softcap}};
  for (const auto& [name, build] : forms) {
    all.push_back({name, "attention", DType::f16, {4, 32, 4096, 128}, build, {.divide = {0, 1, 2}}});
  }
  return all;
}

}  // namespace vkfuse::bench
