// Positions that are data.
#include "row_groups.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

/// Tokens of [batch, tokens, width] looked up in a table of four times as many rows, so that few are looked up twice.
Built embedding_layer_norm(DType dtype, const Shape& shape) {
  const Dim width = shape[2];
  const Tensor table = Tensor::input("table", dtype, {4 * shape[0].size() * shape[1].size(), width});
  const Tensor tokens = Tensor::input("tokens", DType::i32, {shape[0], shape[1]});
  const Tensor found = table.gather(tokens, 0);
  const Tensor sum = found + Tensor::input("position", dtype, {shape[1], width});
  const Tensor norm =
      normalize(sum, {2}, 1e-5) * Tensor::input("weight", dtype, {width}) + Tensor::input("bias", dtype, {width});
  return framework_ops({norm}, {found, sum});
}

/// The gradient of an embedding: 16384 rows added into 128256 of zeros, or as many in proportion.
Built scatter_add(DType dtype, const Shape& shape) {
  constexpr std::int64_t updates = 16384, table = 128256;
  const std::int64_t count = (shape[0].size() * updates + table - 1) / table;
  const Tensor zeros = Tensor::scalar(dtype, 0).broadcast_to(shape);
  return {zeros.scatter(Tensor::input("tokens", DType::i32, {count}),
                        Tensor::input("updates", dtype, {count, shape[1]}), "add")};
}

}  // namespace

std::vector<Row> gather_rows() {
  return {
      {"embedding+norm f16",
       "gather",
       DType::f16,
       {8, 4096, 1024},
       embedding_layer_norm,
       {.divide = {0, 1}, .sweep = true, .quick = true}},
      {"scatter-add f16", "gather", DType::f16, {128256, 4096}, scatter_add},
  };
}

}  // namespace vkfuse::bench
