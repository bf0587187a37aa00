// Contractions: what stands before and after them is part of their kernel.
#include "row_groups.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/float_codes.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

Tensor weights(const char* name, DType dtype, const Dim& in, const Dim& out) {
  return Tensor::input(name, dtype, {in, out});
}

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
  return framework_ops({gelu(biased, GeluForm::tanh)}, {sum, biased});
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

/// Weights as integers in groups of 128 along k, as [n, k], with a scale for each group.
Built quantized(DType dtype, const Shape& shape, bool four_bits) {
  constexpr std::int64_t kGroup = 128;
  const Tensor stored = four_bits ? Tensor::input("weights", DType::u8, {shape[2], shape[1].size() / 2})
                                  : Tensor::input("weights", DType::i8, {shape[2], shape[1]});
  const Tensor scale = Tensor::input("scale", dtype, {shape[2], shape[1].size() / kGroup}) * 0.03125;
  const Tensor real =
      dequantize(four_bits ? unpack_int4(stored, true) : stored, {.scale = scale, .axis = 1, .group = kGroup});
  return framework_ops({matmul(Tensor::input("a", dtype, {shape[0], shape[1]}), real.transpose())}, {real});
}
Built quantized_int4(DType dtype, const Shape& shape) { return quantized(dtype, shape, true); }
Built quantized_int8(DType dtype, const Shape& shape) { return quantized(dtype, shape, false); }

/// float8_e4m3fn with a scale for each row.
Built float8_weights(DType dtype, const Shape& shape) {
  const Tensor codes = Tensor::input("codes", DType::u8, {shape[2], shape[1]});
  const Tensor scale = Tensor::input("scale", dtype, {shape[2], 1}) * 0x1p-5;
  const Tensor real = decode_float(codes, FloatFormat::float8_e4m3fn, dtype) * scale;
  return framework_ops({matmul(Tensor::input("a", dtype, {shape[0], shape[1]}), real.transpose())}, {real});
}

/// MXFP4: floats of 4 bits in groups of 32 along k, each with a power of two.
Built mxfp4_weights(DType dtype, const Shape& shape) {
  constexpr std::int64_t kGroup = 32;
  const Tensor stored = Tensor::input("weights", DType::u8, {shape[2], shape[1].size() / 2});
  const Tensor powers = Tensor::input("powers", DType::u8, {shape[2], shape[1].size() / kGroup});
  const Tensor real =
      dequantize(decode_float(unpack_int4(stored, false), FloatFormat::float4_e2m1fn, dtype),
                 {.scale = decode_float(powers, FloatFormat::float8_e8m0fnu, dtype), .axis = 1, .group = kGroup});
  return framework_ops({matmul(Tensor::input("a", dtype, {shape[0], shape[1]}), real.transpose())}, {real});
}

/// Signed bytes with a scale for each row of one factor and each column of the other.
Built bytes(DType, const Shape& shape) {
  const Tensor sum = matmul(Tensor::input("a", DType::i8, {shape[0], shape[1]}).cast(DType::i32),
                            Tensor::input("b", DType::i8, {shape[1], shape[2]}).cast(DType::i32));
  const Tensor scaled = sum.cast(DType::f32) * Tensor::input("rows", DType::f32, {shape[0], 1}) *
                        Tensor::input("columns", DType::f32, {shape[2]});
  return framework_ops({(scaled * 0x1p-16).cast(DType::f16)}, {sum});
}

/// The last product of a language model in training, [rows, width] times [classes, width] transposed, and its loss in
/// f32.
Built linear_cross_entropy(DType dtype, const Shape& shape) {
  const Tensor logits =
      matmul(Tensor::input("x", dtype, {shape[0], shape[1]}), weights("w", dtype, shape[2], shape[1]).transpose());
  return framework_ops(
      {cross_entropy(logits.cast(DType::f32) * 0x1p-5, Tensor::input("labels", DType::i32, {shape[0]}))}, {logits});
}

/// [batch, heads, length, size] of each of q, k and v.
Built attention_of(DType dtype, const Shape& shape, const AttentionOptions& options) {
  const auto input = [&](const char* name) { return Tensor::input(name, dtype, shape); };
  return {attention(input("q"), input("k"), input("v"), options)};
}

Built attention_plain(DType dtype, const Shape& shape) { return attention_of(dtype, shape, {}); }
Built attention_causal(DType dtype, const Shape& shape) { return attention_of(dtype, shape, {.causal = true}); }
Built attention_softcap(DType dtype, const Shape& shape) { return attention_of(dtype, shape, {.softcap = 30}); }

/// A slope for each head times the distance.
Built attention_alibi(DType dtype, const Shape& shape) {
  AttentionOptions options;
  options.alibi_slopes = Tensor::input("slopes", dtype, {shape[1]}) * 0x1p-9;  // some units over the whole length
  return attention_of(dtype, shape, options);
}

/// A position sees itself and the 1024 before it.
Built attention_window(DType dtype, const Shape& shape) {
  AttentionOptions options;
  options.causal = true;
  options.window_before = 1024;
  return attention_of(dtype, shape, options);
}

/// A bias for every pair of positions, as [heads, length, length], shared by the batch.
Built attention_bias(DType dtype, const Shape& shape) {
  AttentionOptions options;
  options.bias = Tensor::input("bias", dtype, {shape[1], shape[2], shape[2]});
  return attention_of(dtype, shape, options);
}

/// One new position for each sequence, against [batch, heads / 4, length, size] of k and v: four heads share one.
Built attention_decode(DType dtype, const Shape& shape) {
  const auto kept = [&](const char* name) {
    return Tensor::input(name, dtype, {shape[0], shape[1].size() / 4, shape[2], shape[3]});
  };
  return {attention(Tensor::input("q", dtype, {shape[0], shape[1], 1, shape[3]}), kept("k"), kept("v"))};
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
  add("matmul int8", DType::i8, {4096, 4096, 4096}, bytes);
  // One loss is made of all classes: what there is no time to check is taken off the width.
  all.push_back({"linear+cross-entropy f16",
                 "matmul",
                 DType::f16,
                 {8192, 4096, 128256},
                 linear_cross_entropy,
                 {.divide = {1}, .sweep = true}});
  add("matmul+bias+gelu f16", DType::f16, {8192, 4096, 16384}, bias_gelu);
  add("norm+matmul f16", DType::f16, {8192, 4096, 4096}, norm_first);
  add("gated mlp f16", DType::f16, {8192, 4096, 14336}, gated);
  add("matvec f16", DType::f16, {1, 8192, 28672}, square);
  add("matvec transposed f16", DType::f16, {1, 8192, 28672}, transposed);
  const std::pair<const char*, Built (*)(DType, const Shape&)> forms[] = {
      {"attention f16", attention_plain},           {"attention causal f16", attention_causal},
      {"attention softcap f16", attention_softcap}, {"attention bias f16", attention_bias},
      {"attention alibi f16", attention_alibi},     {"attention window f16", attention_window}};
  for (const auto& [name, build] : forms) {
    all.push_back({name, "attention", DType::f16, {4, 32, 4096, 128}, build, {.divide = {0, 1, 2}}});
  }
  all.push_back(
      {"attention bf16", "attention", DType::bf16, {4, 32, 4096, 128}, attention_plain, {.divide = {0, 1, 2}}});
  all.push_back(
      {"attention decode f16", "attention", DType::f16, {16, 32, 8192, 128}, attention_decode, {.divide = {0, 2}}});
  const std::pair<const char*, Built (*)(DType, const Shape&)> formats[] = {
      {"int4", quantized_int4}, {"int8", quantized_int8}, {"float8", float8_weights}, {"mxfp4", mxfp4_weights}};
  for (const auto& [name, build] : formats) {
    const Traits traits{.divide = {0, 2, 1}, .sweep = true, .codes = "codes", .powers = "powers"};
    all.push_back({fmt::format("{} matvec f16", name), "matmul", DType::f16, {1, 4096, 14336}, build, traits});
    all.push_back({fmt::format("{} matvec large f16", name), "matmul", DType::f16, {1, 8192, 28672}, build, traits});
  }
  add("int4 matmul f16", DType::f16, {512, 4096, 14336}, quantized_int4);
  add("int8 matmul f16", DType::f16, {512, 4096, 14336}, quantized_int8);
  return all;
}

}  // namespace vkfuse::bench
