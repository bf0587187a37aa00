#include "base/target.hpp"

#include <algorithm>

namespace vkfuse {

std::optional<MatrixShape> matrix_of(const Caps& caps, DType factors, DType sums) {
  std::optional<MatrixShape> best;
  for (const MatrixShape& shape : caps.matrix_shapes) {
    if (shape.a != factors || shape.b != factors || shape.c != sums || shape.result != sums) continue;
    if (shape.m % 8 != 0 || shape.n % 8 != 0 || shape.k % 8 != 0) continue;  // vectors of 16 bytes make rows
    if (!best || shape.m * shape.n * shape.k > best->m * best->n * best->k) best = shape;
  }
  return best;
}

std::optional<MatrixShape> thin_matrix_of(const Caps& caps, DType factors, DType sums) {
  Caps thin = caps;
  const auto fewest = std::min_element(caps.matrix_shapes.begin(), caps.matrix_shapes.end(), [&](const MatrixShape& a, const MatrixShape& b) {
    const auto columns = [&](const MatrixShape& shape) { return shape.a == factors && shape.c == sums && shape.n % 8 == 0 ? shape.n : ~0U; };
    return columns(a) < columns(b);
  });
  if (fewest == caps.matrix_shapes.end()) return std::nullopt;
  std::erase_if(thin.matrix_shapes, [&](const MatrixShape& shape) { return shape.n != fewest->n; });
  return matrix_of(thin, factors, sums);
}

}  // namespace vkfuse
