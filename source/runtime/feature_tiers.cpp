#include "runtime/feature_tiers.hpp"

#include <algorithm>

#include "base/mutations.hpp"
#include "runtime/calibrate.hpp"
#include "runtime/rates.hpp"
#include "runtime/self_test/self_test.hpp"

namespace vkfuse::runtime {

namespace {

using spirv::GlslExtension;

struct DeviceNeed {
  FeatureTier tier;
  bool (*is_met)(const Caps&);
  const char* otherwise;
};

constexpr const char* kNoFullSubgroups = "The device does not promise full subgroups.";

// In the order in which they are looked at.
constexpr DeviceNeed kDeviceNeeds[] = {
    {FeatureTier::subgroup, [](const Caps& caps) { return caps.subgroup_shuffle; },
     "The device has no subgroup shuffles in compute shaders."},
    {FeatureTier::subgroup, [](const Caps& caps) { return caps.full_subgroups; }, kNoFullSubgroups},
    {FeatureTier::float16, [](const Caps& caps) { return caps.float16; }, "The device has no float16 arithmetic."},
    {FeatureTier::float16, [](const Caps& caps) { return caps.storage_16bit; }, "The device has no 16-bit storage."},
    {FeatureTier::dot_product, [](const Caps& caps) { return caps.dot_product_i8; },
     "The device multiplies no four bytes at once."},
    {FeatureTier::cooperative_matrix,
     [](const Caps& caps) { return matrix_of(caps, DType::f16, DType::f32).has_value(); },
     "The device multiplies no matrices of f16 with f32 sums."},
    {FeatureTier::cooperative_matrix, [](const Caps& caps) { return caps.full_subgroups; }, kNoFullSubgroups},
    {FeatureTier::cooperative_matrix2,
     [](const Caps& caps) { return caps.matrix2_reductions && caps.matrix2_conversions && caps.matrix2_per_element; },
     "The device does not reduce and convert cooperative matrices and take them through functions."},
};

/// What kernels of a tier are compiled with, and the tier below that they use as well.
struct TierBasis {
  FeatureTier tier;
  GlslExtension extension;
  FeatureTier below;
};

constexpr TierBasis kTierBases[] = {
    {FeatureTier::subgroup, GlslExtension::subgroup_shuffle, FeatureTier::baseline},
    {FeatureTier::float16, GlslExtension::arithmetic_float16, FeatureTier::baseline},
    {FeatureTier::dot_product, GlslExtension::spirv_intrinsics, FeatureTier::baseline},
    // Operands are converted to f16 as T2 does it.
    {FeatureTier::cooperative_matrix, GlslExtension::khr_cooperative_matrix, FeatureTier::float16},
    {FeatureTier::cooperative_matrix2, GlslExtension::nv_cooperative_matrix2, FeatureTier::cooperative_matrix},
};

const TierBasis& basis_of(FeatureTier tier) {
  return *std::find_if(std::begin(kTierBases), std::end(kTierBases),
                       [&](const TierBasis& basis) { return basis.tier == tier; });
}

std::string missing_on_device(const Caps& caps, FeatureTier tier) {
  for (const DeviceNeed& need : kDeviceNeeds) {
    if (need.tier == tier && !need.is_met(caps)) return need.otherwise;
  }
  return {};
}

}  // namespace

Result<Target> FeatureTiers::target(std::span<const FeatureTier> requested, std::span<const DType> workgroup_scope,
                                    bool sub_byte) {
  Target target = opened_.base_target();
  bool& multiplies_workgroup_tiles = target.caps.matrix2_workgroup_scope;
  multiplies_workgroup_tiles = multiplies_workgroup_tiles && !workgroup_scope.empty();
  for (const FeatureTier tier : requested) {
    VKF_TRY(reason, missing(tier));
    target.tiers[static_cast<std::size_t>(tier)] = reason.empty();
    if (!reason.empty()) continue;
    if (tier == FeatureTier::cooperative_matrix) VKF_CHECK_OK(add_matrices(target.caps, sub_byte));
    if (tier == FeatureTier::cooperative_matrix2) {
      VKF_TRY(passed, multiplies_tiles(workgroup_scope));
      multiplies_workgroup_tiles = multiplies_workgroup_tiles && passed;
    }
  }
  VKF_TRY(keeps_nan, exp_of_nan());
  target.caps.exp_of_nan = keeps_nan;
  VKF_TRY(measured, costs());
  target.costs = measured;
  return target;
}

Result<void> FeatureTiers::add_matrices(Caps& caps, bool sub_byte) {
  VKF_TRY(shapes, tested_matrices());
  caps.matrix_shapes = shapes;
  if (!sub_byte) return {};
  VKF_TRY(shape, matrix_sub_byte());
  caps.matrix_sub_byte = shape;
  return {};
}

Result<bool> FeatureTiers::multiplies_tiles(std::span<const DType> dtypes) {
  bool all = true;
  for (const DType dtype : dtypes) {
    VKF_TRY(passed, workgroup_tiles(dtype));
    all = all && passed;
  }
  return all;
}

Result<std::string> FeatureTiers::missing(FeatureTier tier) {
  return missing_[static_cast<std::size_t>(tier)].get([&] { return find_missing(tier); });
}

Result<std::string> FeatureTiers::find_missing(FeatureTier tier) {
  if (tier == FeatureTier::baseline) return std::string();
  if (opened_.is_disabled(name_of(tier))) return std::string("It is switched off.");
  std::string reason = missing_on_device(opened_.caps(), tier);
  if (!reason.empty()) return reason;
  const TierBasis& basis = basis_of(tier);
  if (!opened_.shaders().can_compile(basis.extension))
    return fmt::format("The linked shaderc cannot compile {}.", name_of(basis.extension));
  VKF_TRY(below, missing(basis.below));
  if (!below.empty()) return fmt::format("It stands on {}. {}", name_of(basis.below), below);
  VKF_TRY(fault, find_fault(tier));
  if (!fault.empty())
    opened_.log(LogLevel::warning,
                fmt::format("{} is not used on '{}': {}", name_of(tier), opened_.base_target().name, fault));
  return fault;
}

Result<std::string> FeatureTiers::find_fault(FeatureTier tier) {
  VKF_TRY(wrong, self_test(opened_, tier));
  std::string fault = VKF_PLANT(wrong_tier_in_use, wrong, std::string());
  if (!fault.empty()) return fault;
  if (tier == FeatureTier::cooperative_matrix)
    return slower_matrices(*matrix_of(opened_.caps(), DType::f16, DType::f32));
  if (tier != FeatureTier::dot_product) return std::string();
  VKF_TRY(measured, costs());
  return compare_integer_dot(opened_, measured);
}

Result<std::string> FeatureTiers::slower_matrices(const MatrixShape& shape) {
  VKF_TRY(measured, costs());
  return compare_matrices(opened_, shape, measured);
}

Result<FeatureTiers::MissingMatrices> FeatureTiers::missing_matrices() {
  return missing_matrices_.get([&]() -> Result<MissingMatrices> {
    MissingMatrices missing;
    for (std::size_t i = 0; i < missing.size(); ++i) {
      VKF_TRY(reason, find_missing_matrix(kMatrixKinds[i]));
      missing[i] = reason;
    }
    return missing;
  });
}

Result<std::string> FeatureTiers::find_missing_matrix(const MatrixKind& kind) {
  const auto shape = matrix_of(opened_.caps(), kind.operands, kind.sums);
  const bool is_bf16 = kind.operands == DType::bf16;
  if (!shape || (is_bf16 && !opened_.caps().matrix_bf16)) return std::string("not offered");
  if (is_bf16 && !opened_.shaders().can_compile(GlslExtension::bfloat16))
    return fmt::format("the linked shaderc cannot compile {}", name_of(GlslExtension::bfloat16));
  if (kind.operands == DType::f16 && kind.sums == DType::f32) return std::string();  // that is the test of T4 itself
  VKF_TRY(fault, self_test_matrices(opened_, *shape));
  if (fault.empty()) {
    VKF_TRY(slow, slower_matrices(*shape));
    fault = slow;
  }
  if (!fault.empty())
    opened_.log(LogLevel::warning, fmt::format("Matrices of {} are not multiplied by cooperative matrices on '{}': {}",
                                               name_of(kind.operands), opened_.base_target().name, fault));
  return fault;
}

Result<std::vector<MatrixShape>> FeatureTiers::tested_matrices() {
  VKF_TRY(missing, missing_matrices());
  std::vector<MatrixShape> passed;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i].empty())
      passed.push_back(*matrix_of(opened_.caps(), kMatrixKinds[i].operands, kMatrixKinds[i].sums));
  }
  return passed;
}

Result<std::string> FeatureTiers::matrices() {
  VKF_TRY(missing, missing_matrices());
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

Result<bool> FeatureTiers::workgroup_tiles(DType dtype) {
  const Target& base = opened_.base_target();
  if (!base.caps.matrix2_workgroup_tiles() || base.caps.subgroup_size != 32 || base.type == DeviceType::cpu)
    return false;
  return workgroup_tiles_[static_cast<std::size_t>(dtype)].get([&] { return find_workgroup_tiles(dtype); });
}

Result<bool> FeatureTiers::find_workgroup_tiles(DType dtype) {
  VKF_TRY(shapes, tested_matrices());
  const bool offered = std::any_of(shapes.begin(), shapes.end(),
                                   [&](const MatrixShape& shape) { return shape.a == dtype && shape.c == DType::f32; });
  if (!offered) return false;
  VKF_TRY(wrong, self_test_workgroup_tiles(opened_, dtype));
  if (!wrong.empty())
    opened_.log(LogLevel::warning, fmt::format("Tiles of {} are not multiplied by workgroups on '{}': {}",
                                               name_of(dtype), opened_.base_target().name, wrong));
  return wrong.empty();
}

Result<std::optional<MatrixShape>> FeatureTiers::matrix_sub_byte() {
  return matrix_sub_byte_.get([&] { return find_matrix_sub_byte(); });
}

Result<std::optional<MatrixShape>> FeatureTiers::find_matrix_sub_byte() {
  const std::optional<MatrixShape> shape = thin_matrix_of(opened_.caps(), DType::f16, DType::f32);
  if (!shape) return shape;
  VKF_TRY(wrong, self_test_sub_byte(opened_, *shape));
  if (wrong.empty()) return shape;
  opened_.log(LogLevel::warning,
              fmt::format("Weights of four bits are not multiplied by cooperative matrices on '{}': {}",
                          opened_.base_target().name, wrong));
  return std::optional<MatrixShape>();
}

Result<std::optional<CostModel>> FeatureTiers::costs() {
  if (opened_.is_disabled("calibration") || opened_.base_target().type == DeviceType::cpu)
    return std::optional<CostModel>();
  return costs_.get([&] { return calibrate(opened_); });
}

Result<bool> FeatureTiers::exp_of_nan() {
  // A driver that folds NaN away does so where a test cannot see it.
  if (!opened_.caps().keep_nan_f32 || opened_.base_target().workarounds.folds_nan_away) return false;
  return exp_of_nan_.get([&] { return test_exp_of_nan(opened_); });
}

}  // namespace vkfuse::runtime
