// Views before, between and after pointwise work.
#include "row_groups.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

Built transpose_add(DType dtype, const Shape& shape) {
  const Tensor x = Tensor::input("x", dtype, {shape[1], shape[0]});
  return {x.transpose() * 2.0 + Tensor::input("b", dtype, shape)};
}

/// [batch, tokens, heads, width] to [batch, heads, tokens, width].
Built permute_0213(DType dtype, const Shape& shape) { return {Tensor::input("x", dtype, shape).permute({0, 2, 1, 3})}; }

/// The two halves of each head's elements, turned by an angle per token. Shape: [batch, heads, tokens, width].
Built rotary(DType dtype, const Shape& shape) {
  const std::int64_t width = shape[3].size();
  const Tensor q = Tensor::input("q", dtype, shape);
  const Tensor cosine = Tensor::input("cosine", dtype, {shape[2], width / 2});
  const Tensor sine = Tensor::input("sine", dtype, {shape[2], width / 2});
  const Tensor a = q.slice(3, 0, width / 2);
  const Tensor b = q.slice(3, width / 2, width);
  return {concat({a * cosine - b * sine, b * cosine + a * sine}, 3)};
}

/// Eight slices of one tensor, joined last to first.
Built concat_slices(DType dtype, const Shape& shape) {
  constexpr std::int64_t count = 8;
  const std::int64_t part = shape[0].size() / count;
  const Tensor x = Tensor::input("x", dtype, {part * count});
  std::vector<Tensor> slices;
  for (std::int64_t i = count; i-- > 0;) slices.push_back(x.slice(0, i * part, (i + 1) * part));
  return {relu(concat(slices, 0) * 2.0) + 1.0};
}

}  // namespace

std::vector<Row> view_rows() {
  return {
      {"transpose+add f32", "view", DType::f32, {8192, 8192}, transpose_add, {.sweep = true, .quick = true}},
      {"permute 0213 f16", "view", DType::f16, {32, 1024, 32, 128}, permute_0213, {.divide = {0, 1}, .sweep = true}},
      {"rotary f16", "view", DType::f16, {8, 32, 4096, 128}, rotary, {.divide = {0, 1}, .sweep = true, .quick = true}},
      {"concat 8 f16", "view", DType::f16, {1 << 27}, concat_slices, {.sweep = true, .quick = true}},
  };
}

}  // namespace vkfuse::bench
