#include "runtime/feature_tiers.hpp"

#include <algorithm>

#include "base/mutations.hpp"
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
    {FeatureTier::subgroup, [](const Caps& caps) { return caps.subgroup.shuffle; },
     "The device has no subgroup shuffles in compute shaders."},
    {FeatureTier::subgroup, [](const Caps& caps) { return caps.subgroup.full; }, kNoFullSubgroups},
    {FeatureTier::float16, [](const Caps& caps) { return caps.arithmetic.float16; },
     "The device has no float16 arithmetic."},
    {FeatureTier::float16, [](const Caps& caps) { return caps.memory.storage_16bit; },
     "The device has no 16-bit storage."},
    {FeatureTier::dot_product, [](const Caps& caps) { return caps.arithmetic.dot_product_i8; },
     "The device multiplies no four bytes at once."},
    {FeatureTier::cooperative_matrix,
     [](const Caps& caps) { return matrix_of(caps, DType::f16, DType::f32).has_value(); },
     "The device multiplies no matrices of f16 with f32 sums."},
    {FeatureTier::cooperative_matrix, [](const Caps& caps) { return caps.subgroup.full; }, kNoFullSubgroups},
    {FeatureTier::cooperative_matrix2,
     [](const Caps& caps) { return caps.matrix2.reductions && caps.matrix2.conversions && caps.matrix2.per_element; },
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

std::array<bool, kFeatureTierCount> offered_tiers(const Caps& caps) {
  std::array<bool, kFeatureTierCount> offered{};
  offered[static_cast<std::size_t>(FeatureTier::baseline)] = true;
  for (const TierBasis& basis : kTierBases) {  // each after the one that it uses
    offered[static_cast<std::size_t>(basis.tier)] =
        offered[static_cast<std::size_t>(basis.below)] && missing_on_device(caps, basis.tier).empty();
  }
  return offered;
}

Result<Target> FeatureTiers::target(std::span<const FeatureTier> requested, const MatrixUses& uses) {
  Target target = opened_.base_target();
  for (const FeatureTier tier : requested) {
    VKF_TRY(reason, missing(tier));
    target.tiers[static_cast<std::size_t>(tier)] = reason.empty();
    if (!reason.empty()) continue;
    if (tier == FeatureTier::cooperative_matrix) VKF_CHECK_OK(add_matrices(target.caps, uses));
    if (tier == FeatureTier::cooperative_matrix2) {
      VKF_TRY(tiles, matrices_.tiles_of(uses.workgroup_tiles));
      target.caps.matrix2.tiles = tiles;
    }
  }
  VKF_TRY(keeps_nan, exp_of_nan());
  target.caps.float_controls.exp_of_nan = keeps_nan;
  VKF_TRY(measured, costs());
  target.costs = measured;
  if (measured) target.model = calibrated(target.model, *measured);
  return target;
}

Result<void> FeatureTiers::add_matrices(Caps& caps, const MatrixUses& uses) {
  VKF_TRY(shapes, matrices_.tested());
  caps.matrix.shapes = shapes;
  if (uses.sub_byte) {
    VKF_TRY(shape, matrices_.sub_byte());
    caps.matrix.sub_byte = shape;
  }
  if (uses.lane_fragments) {
    VKF_TRY(shape, matrices_.lane_fragments());
    caps.matrix.lane_fragments = shape;
  }
  return {};
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
  if (tier != FeatureTier::dot_product && tier != FeatureTier::cooperative_matrix) return std::string();
  VKF_TRY(measured, costs());
  if (tier == FeatureTier::dot_product) return compare_integer_dot(opened_, measured);
  return compare_matrices(opened_, *matrix_of(opened_.caps(), DType::f16, DType::f32), measured);
}

Result<bool> FeatureTiers::exp_of_nan() {
  // A driver that folds NaN away does so where a test cannot see it.
  if (!opened_.caps().float_controls.keep_nan_f32 || opened_.base_target().workarounds.folds_nan_away) return false;
  return exp_of_nan_.get([&] { return test_exp_of_nan(opened_); });
}

}  // namespace vkfuse::runtime
