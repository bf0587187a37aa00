// What fusing k ops gains: k launches for one where launches count, and the bytes of the values between where bandwidth
// does. And how fast this device computes, for the roofline of the report.
#include <fmt/format.h>

#include "row_groups.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

/// Ops of one operand: by turns a product and a sum with a number.
Built unary_chain(int ops, DType dtype, const Shape& shape) {
  Tensor x = Tensor::input("x", dtype, shape);
  for (int i = 0; i < ops; ++i) x = i % 2 == 0 ? x * 0.875 : x + 0.125;
  return {x};
}

/// Ops of two operands, the second one fresh from memory every time.
Built binary_chain(int ops, DType dtype, const Shape& shape) {
  Tensor x = Tensor::input("x", dtype, shape);
  for (int i = 0; i < ops; ++i) {
    const Tensor fresh = Tensor::input("operand" + std::to_string(i), dtype, shape);
    x = i % 2 == 0 ? x + fresh : x * fresh;
  }
  return {x};
}

constexpr int kArithmetic = 128;

/// Multiply-adds on one element: two operations each for eight bytes in all.
Built arithmetic(DType dtype, const Shape& shape) {
  Tensor x = Tensor::input("x", dtype, shape);
  const Tensor scale = Tensor::scalar(dtype, 0.875), shift = Tensor::scalar(dtype, 0.125);
  for (int i = 0; i < kArithmetic; ++i) x = fma(x, scale, shift);
  return framework_ops({x});
}

}  // namespace

std::vector<Row> law_rows() {
  std::vector<Row> all;
  for (const bool small : {true, false}) {
    for (auto* chain : {unary_chain, binary_chain}) {
      for (const int ops : {1, 2, 3, 5, 8, 16, 32}) {
        Row row;
        row.name =
            fmt::format("law {} {} {} f32", chain == unary_chain ? "unary" : "binary", ops, small ? "small" : "large");
        row.group = "law";
        row.dtype = DType::f32;
        row.full = {small ? 1 << 16 : 1 << 28};
        row.build = [chain, ops](DType dtype, const Shape& shape) { return chain(ops, dtype, shape); };
        row.traits = {.launch_bound = small, .quick = small && ops == 8, .law_ops = ops};
        all.push_back(std::move(row));
      }
    }
  }
  all.push_back({"arithmetic f32", "limit", DType::f32, {1 << 23}, arithmetic, {.quick = true}});
  return all;
}

}  // namespace vkfuse::bench
