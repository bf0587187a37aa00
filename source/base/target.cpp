#include "base/target.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "base/mutations.hpp"

namespace vkfuse {

std::uint32_t usable_invocations(const Caps& caps) {
  const std::uint32_t most = std::min(caps.workgroup.max_invocations, caps.workgroup.max_x);
  return VKF_PLANT(odd_workgroups, std::bit_floor(most), most);
}

namespace {

/// A size that the device does not have is not assumed anywhere: 1 stands for kernels without subgroup operations.
Result<void> settle_subgroup(const Caps& offered, Caps& caps) {
  const std::uint32_t size = caps.subgroup.size;
  if (size == offered.subgroup.size) return {};
  if (size == 1) {
    caps.subgroup.shuffle = caps.subgroup.full = false;
    caps.matrix.shapes.clear();
    return {};
  }
  const bool has = std::has_single_bit(size) && caps.subgroup.size_control && size >= offered.subgroup.size_min &&
                   size <= offered.subgroup.size_max;
  if (has) return {};
  std::string sizes;
  for (std::uint32_t one = caps.subgroup.size_control ? offered.subgroup.size_min : offered.subgroup.size;
       one <= offered.subgroup.size; one *= 2) {
    if (one > 1) sizes += fmt::format("{}, ", one);
  }
  return invalid(
      "The limit subgroup_size cannot be {}: kernels of this device have subgroups of {}or 1, which stands for none.",
      size, sizes);
}

}  // namespace

Result<void> settle_lowered(const Caps& offered, Caps& caps) {
  VKF_CHECK_OK(settle_subgroup(offered, caps));
  if (caps.memory.storage_buffer_range < kBindingGranule) {
    return invalid("The limit storage_range cannot be {}: a storage buffer is bound in vectors of {} bytes.",
                   caps.memory.storage_buffer_range, kBindingGranule);
  }
  return {};
}

std::optional<MatrixShape> matrix_of(const Caps& caps, DType operands, DType sums) {
  std::optional<MatrixShape> best;
  for (const MatrixShape& shape : caps.matrix.shapes) {
    if (shape.a != operands || shape.b != operands || shape.c != sums || shape.result != sums) continue;
    if (shape.m % 8 != 0 || shape.n % 8 != 0 || shape.k % 8 != 0) continue;  // vectors of 16 bytes make rows
    if (!best || shape.m * shape.n * shape.k > best->m * best->n * best->k) best = shape;
  }
  return best;
}

std::optional<MatrixShape> thin_matrix_of(const Caps& caps, DType operands, DType sums) {
  Caps thin = caps;
  const auto fewest = std::min_element(
      caps.matrix.shapes.begin(), caps.matrix.shapes.end(), [&](const MatrixShape& a, const MatrixShape& b) {
        const auto columns = [&](const MatrixShape& shape) {
          return shape.a == operands && shape.c == sums && shape.n % 8 == 0 ? shape.n : ~0U;
        };
        return columns(a) < columns(b);
      });
  if (fewest == caps.matrix.shapes.end()) return std::nullopt;
  std::erase_if(thin.matrix.shapes, [&](const MatrixShape& shape) { return shape.n != fewest->n; });
  return matrix_of(thin, operands, sums);
}

std::optional<MatrixShape> lane_fragments_of(const Caps& caps) {
  if (caps.subgroup.size != 32) return std::nullopt;
  const std::optional<MatrixShape> thin = thin_matrix_of(caps, DType::f16, DType::f32);
  return thin && thin->m == 16 && thin->n == 8 && thin->k == 16 ? thin : std::nullopt;
}

}  // namespace vkfuse
