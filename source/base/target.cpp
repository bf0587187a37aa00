#include "base/target.hpp"

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

}  // namespace vkfuse
