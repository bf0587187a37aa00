#include "runtime/cooperative_matrices.hpp"

#include <algorithm>

#include "runtime/rates.hpp"
#include "runtime/self_test/self_test.hpp"

namespace vkfuse::runtime {

Result<CooperativeMatrices::Missing> CooperativeMatrices::missing() {
  return missing_.get([&]() -> Result<Missing> {
    Missing missing;
    for (std::size_t i = 0; i < missing.size(); ++i) {
      VKF_TRY(reason, find_missing(kMatrixKinds[i]));
      missing[i] = reason;
    }
    return missing;
  });
}

Result<std::string> CooperativeMatrices::missing(const MatrixKind& kind) {
  VKF_TRY(missing, this->missing());
  const auto known = std::find_if(std::begin(kMatrixKinds), std::end(kMatrixKinds), [&](const MatrixKind& one) {
    return one.operands == kind.operands && one.sums == kind.sums;
  });
  return known == std::end(kMatrixKinds) ? "not used"
                                         : missing[static_cast<std::size_t>(known - std::begin(kMatrixKinds))];
}

Result<std::string> CooperativeMatrices::find_missing(const MatrixKind& kind) {
  const auto shape = matrix_of(opened_.caps(), kind.operands, kind.sums);
  const bool is_bf16 = kind.operands == DType::bf16;
  if (!shape || (is_bf16 && !opened_.caps().matrix.bf16)) return std::string("not offered");
  if (is_bf16 && !opened_.shaders().can_compile(spirv::GlslExtension::bfloat16))
    return fmt::format("the linked shaderc cannot compile {}", name_of(spirv::GlslExtension::bfloat16));
  if (kind.operands == DType::f16 && kind.sums == DType::f32) return std::string();  // that is the test of T4 itself
  VKF_TRY(fault, self_test_matrices(opened_, *shape));
  if (fault.empty()) {
    VKF_TRY(costs, costs_.get());
    VKF_TRY(slow, compare_matrices(opened_, *shape, costs));
    fault = slow;
  }
  if (!fault.empty())
    opened_.log(LogLevel::warning, fmt::format("Matrices of {} are not multiplied by cooperative matrices on '{}': {}",
                                               name_of(kind.operands), opened_.base_target().name, fault));
  return fault;
}

Result<std::vector<MatrixShape>> CooperativeMatrices::tested() {
  VKF_TRY(missing, this->missing());
  std::vector<MatrixShape> passed;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i].empty())
      passed.push_back(*matrix_of(opened_.caps(), kMatrixKinds[i].operands, kMatrixKinds[i].sums));
  }
  return passed;
}

Result<std::string> CooperativeMatrices::describe() {
  VKF_TRY(missing, this->missing());
  std::string text;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const MatrixKind& kind = kMatrixKinds[i];
    const auto shape = matrix_of(opened_.caps(), kind.operands, kind.sums);
    const std::string size = shape ? fmt::format("{} x {} x {}", shape->m, shape->n, shape->k) : "";
    text += fmt::format("{}{} with sums of {}: {}", text.empty() ? "" : "; ", name_of(kind.operands),
                        name_of(kind.sums), missing[i].empty() ? size : missing[i]);
  }
  return text;
}

Result<std::vector<WorkgroupTile>> CooperativeMatrices::workgroup_tiles(DType dtype) {
  const Target& base = opened_.base_target();
  if (!base.caps.matrix2.may_multiply_tiles() || base.caps.subgroup.size != 32 || base.type == DeviceType::cpu)
    return std::vector<WorkgroupTile>();
  return workgroup_tiles_[static_cast<std::size_t>(dtype)].get([&] { return find_workgroup_tiles(dtype); });
}

Result<std::vector<WorkgroupTile>> CooperativeMatrices::find_workgroup_tiles(DType dtype) {
  std::vector<WorkgroupTile> passed;
  VKF_TRY(shapes, tested());
  const bool offered = std::any_of(shapes.begin(), shapes.end(),
                                   [&](const MatrixShape& shape) { return shape.a == dtype && shape.c == DType::f32; });
  if (!offered) return passed;
  for (const WorkgroupTile& tile : kWorkgroupTiles) {
    VKF_TRY(wrong, self_test_workgroup_tile(opened_, dtype, tile));
    if (wrong.empty()) {
      passed.push_back(tile);
      continue;
    }
    opened_.log(LogLevel::warning, fmt::format("Tiles of {} x {} {} are not multiplied by workgroups on '{}': {}",
                                               tile.m, tile.n, name_of(dtype), opened_.base_target().name, wrong));
  }
  return passed;
}

Result<std::optional<MatrixShape>> CooperativeMatrices::sub_byte() {
  return sub_byte_.get([&] { return find_sub_byte(); });
}

Result<std::optional<MatrixShape>> CooperativeMatrices::find_sub_byte() {
  const std::optional<MatrixShape> shape = thin_matrix_of(opened_.caps(), DType::f16, DType::f32);
  if (!shape) return shape;
  VKF_TRY(wrong, self_test_sub_byte(opened_, *shape));
  if (wrong.empty()) return shape;
  opened_.log(LogLevel::warning,
              fmt::format("Weights of four bits are not multiplied by cooperative matrices on '{}': {}",
                          opened_.base_target().name, wrong));
  return std::optional<MatrixShape>();
}

Result<std::optional<MatrixShape>> CooperativeMatrices::lane_fragments() {
  return lane_fragments_.get([&] { return find_lane_fragments(); });
}

Result<std::optional<MatrixShape>> CooperativeMatrices::find_lane_fragments() {
  const std::optional<MatrixShape> shape = lane_fragments_of(opened_.caps());
  if (!shape) return shape;
  VKF_TRY(wrong, self_test_lane_fragments(opened_, *shape));
  if (wrong.empty()) return shape;
  opened_.log(LogLevel::info, fmt::format("Lanes do not make fragments of cooperative matrices on '{}': {}",
                                          opened_.base_target().name, wrong));
  return std::optional<MatrixShape>();
}

Result<std::vector<WorkgroupTile>> CooperativeMatrices::tiles_of(std::span<const DType> dtypes) {
  std::vector<WorkgroupTile> all;
  if (dtypes.empty()) return all;
  all.assign(std::begin(kWorkgroupTiles), std::end(kWorkgroupTiles));
  for (const DType dtype : dtypes) {
    VKF_TRY(passed, workgroup_tiles(dtype));
    std::erase_if(
        all, [&](const WorkgroupTile& tile) { return std::find(passed.begin(), passed.end(), tile) == passed.end(); });
  }
  return all;
}

}  // namespace vkfuse::runtime
