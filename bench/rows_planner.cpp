// One program in several spellings: t3 = sum(t1 * t2), t4 = sum(t2 * t3), t5 = t4 + t1 * t2, sums along the last axis.
// What it costs must not depend on the spelling, only on where t1 and t2 come from.
#include "row_groups.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

Tensor sums(const Tensor& t1, const Tensor& t2) {
  const Tensor product = t1 * t2;
  const Tensor t3 = product.sum({2}, true);
  return (t2 * t3).sum({2}, true) + product;
}

Built stored_operands(DType dtype, const Shape& shape) {
  return {sums(Tensor::input("t1", dtype, shape), Tensor::input("t2", dtype, shape))};
}

/// The product is written twice, the other way round, and the last sum's operands are swapped.
Built stored_respelled(DType dtype, const Shape& shape) {
  const Tensor t1 = Tensor::input("t1", dtype, shape), t2 = Tensor::input("t2", dtype, shape);
  const Tensor t3 = (t2 * t1).sum({2}, true);
  return {t1 * t2 + (t3 * t2).sum({2}, true)};
}

/// Both operands from one tensor: to compute them again costs no more reads.
Built operands_of_one(DType dtype, const Shape& shape) {
  const Tensor a = Tensor::input("a", dtype, shape);
  return {sums(a * 2.0, relu(a))};
}

/// From four: a product that is kept costs one write and one read, and computing it again costs four reads.
Built operands_of_four(DType dtype, const Shape& shape) {
  const auto input = [&](const char* name) { return Tensor::input(name, dtype, shape); };
  return {sums(input("a") * input("b"), input("c") * input("d"))};
}

}  // namespace

std::vector<Row> planner_rows() {
  const std::vector<std::int64_t> rows = {512, 512, 512}, lines = {1, 64, 1 << 20};
  const Traits by_row = {.divide = {0, 1}}, by_line = {.divide = {1}};
  return {
      {"sums stored f32", "planner", DType::f32, rows, stored_operands, by_row},
      {"sums respelled f32", "planner", DType::f32, rows, stored_respelled, by_row},
      {"sums of one f32", "planner", DType::f32, rows, operands_of_one, by_row},
      {"sums of four f32", "planner", DType::f32, rows, operands_of_four, by_row},
      {"sums long stored f32", "planner", DType::f32, lines, stored_operands, by_line},
      {"sums long of one f32", "planner", DType::f32, lines, operands_of_one, by_line},
      {"sums long of four f32", "planner", DType::f32, lines, operands_of_four, by_line},
  };
}

}  // namespace vkfuse::bench
