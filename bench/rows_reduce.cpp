// Reductions whose results are small: sums, losses, positions.
#include "row_groups.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

Tensor squared(DType dtype, const Shape& shape) {
  const Tensor x = Tensor::input("x", dtype, shape);
  return x * x;
}

Built squares_by_row(DType dtype, const Shape& shape) { return {squared(dtype, shape).sum({1})}; }
Built squares_by_column(DType dtype, const Shape& shape) { return {squared(dtype, shape).sum({0})}; }
Built squares_all(DType dtype, const Shape& shape) { return {squared(dtype, shape).sum()}; }

/// One loss per row: [rows, classes].
Built cross_entropy_rows(DType dtype, const Shape& shape) {
  return framework_ops(
      {cross_entropy(Tensor::input("logits", dtype, shape), Tensor::input("labels", DType::i32, {shape[0]}))});
}

Built argmax_rows(DType dtype, const Shape& shape) { return {Tensor::input("x", dtype, shape).argmax(1)}; }

}  // namespace

std::vector<Row> reduce_rows() {
  return {
      {"squares rows f32",
       "reduce",
       DType::f32,
       {16384, 4096},
       squares_by_row,
       {.whole = 4, .sweep = true, .quick = true}},
      {"squares columns f32",
       "reduce",
       DType::f32,
       {16384, 4096},
       squares_by_column,
       {.whole = 4, .sweep = true, .quick = true}},
      {"squares all f32", "reduce", DType::f32, {1 << 28}, squares_all, {.whole = 1, .sweep = true}},
      {"cross-entropy f16", "reduce", DType::f16, {8192, 32000}, cross_entropy_rows, {.sweep = true, .quick = true}},
      {"argmax rows f16", "reduce", DType::f16, {256, 128256}, argmax_rows, {.sweep = true, .quick = true}},
  };
}

}  // namespace vkfuse::bench
