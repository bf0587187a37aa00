// Running sums.
#include "row_groups.hpp"

namespace vkfuse::bench {

namespace {

Built cumsum_last(DType dtype, const Shape& shape) { return {Tensor::input("x", dtype, shape).cumsum(-1)}; }

}  // namespace

std::vector<Row> scan_rows() {
  return {
      {"cumsum rows f32", "scan", DType::f32, {4096, 65536}, cumsum_last, {.whole = 4, .sweep = true, .quick = true}},
      {"cumsum long f32", "scan", DType::f32, {1 << 28}, cumsum_last, {.whole = 4, .sweep = true}},
  };
}

}  // namespace vkfuse::bench
