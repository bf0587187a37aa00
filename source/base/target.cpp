#include "base/target.hpp"

namespace vkfuse {

std::optional<MatrixShape> half_matrix(const Caps& caps) {
  std::optional<MatrixShape> best;
  for (const MatrixShape& shape : caps.matrix_shapes) {
    if (shape.a != DType::f16 || shape.b != DType::f16 || shape.c != DType::f32 || shape.result != DType::f32) continue;
    if (shape.m % 8 != 0 || shape.n % 8 != 0 || shape.k % 8 != 0) continue;  // vectors of 16 bytes make rows
    if (!best || shape.m * shape.n * shape.k > best->m * best->n * best->k) best = shape;
  }
  return best;
}

}  // namespace vkfuse
