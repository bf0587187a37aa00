#include "base/capabilities.hpp"

#include <fmt/format.h>

#include <type_traits>

namespace vkfuse {

namespace {

/// A row of the member of one of the groups of Caps.
template <auto group, auto member>
constexpr LimitRow limit(std::string_view name, Visibility visibility = Visibility::user) {
  return {name, [](const Caps& caps) -> std::uint64_t { return caps.*group.*member; },
          [](Caps& caps, std::uint64_t value) {
            auto& number = caps.*group.*member;
            number = static_cast<std::remove_reference_t<decltype(number)>>(value);
          },
          visibility};
}

template <auto group, auto member>
constexpr FeatureRow feature(std::string_view name, Visibility visibility = Visibility::user,
                             bool shapes_kernels = true) {
  return {name, [](const Caps& caps) { return caps.*group.*member; },
          [](Caps& caps, bool value) { caps.*group.*member = value; }, visibility, shapes_kernels};
}

constexpr LimitRow kLimits[] = {
    limit<&Caps::workgroup, &WorkgroupLimits::max_invocations>("max_invocations"),
    limit<&Caps::workgroup, &WorkgroupLimits::max_x>("max_workgroup_x"),
    limit<&Caps::workgroup, &WorkgroupLimits::max_groups_per_axis>("max_groups_per_axis"),
    limit<&Caps::workgroup, &WorkgroupLimits::shared_memory_bytes>("shared_memory_bytes"),
    limit<&Caps::memory, &MemoryCaps::storage_buffers>("storage_buffers"),
    limit<&Caps::memory, &MemoryCaps::push_constant_bytes>("push_constant_bytes"),
    limit<&Caps::memory, &MemoryCaps::storage_buffer_range>("storage_range"),
    limit<&Caps::memory, &MemoryCaps::max_allocation>("max_allocation"),
    limit<&Caps::subgroup, &SubgroupCaps::size>("subgroup_size"),
    limit<&Caps::registers, &RegisterLimits::per_thread>("registers_per_thread"),
    limit<&Caps::registers, &RegisterLimits::per_workgroup>("workgroup_registers"),
    limit<&Caps::memory, &MemoryCaps::offset_alignment>("offset_alignment", Visibility::internal),
    limit<&Caps::subgroup, &SubgroupCaps::size_min>("subgroup_size_min", Visibility::internal),
    limit<&Caps::subgroup, &SubgroupCaps::size_max>("subgroup_size_max", Visibility::internal),
    limit<&Caps::subgroup, &SubgroupCaps::most_in_workgroup>("workgroup_subgroups", Visibility::internal),
};

constexpr FeatureRow kFeatures[] = {
    feature<&Caps::subgroup, &SubgroupCaps::shuffle>("subgroup_shuffle"),
    feature<&Caps::subgroup, &SubgroupCaps::size_control>("subgroup_size_control"),
    feature<&Caps::subgroup, &SubgroupCaps::full>("full_subgroups"),
    feature<&Caps::registers, &RegisterLimits::arrays>("register_arrays"),
    feature<&Caps::memory, &MemoryCaps::storage_16bit>("storage_16bit"),
    feature<&Caps::memory, &MemoryCaps::storage_8bit>("storage_8bit"),
    feature<&Caps::arithmetic, &ArithmeticCaps::float16>("float16"),
    feature<&Caps::float_controls, &FloatControls::round_to_even_f16>("round_to_even_f16"),
    feature<&Caps::float_controls, &FloatControls::keep_nan_f32>("keep_nan_f32"),
    feature<&Caps::float_controls, &FloatControls::keep_nan_f64>("keep_nan_f64"),
    feature<&Caps::float_controls, &FloatControls::keep_denorms_f16>("keep_denorms_f16"),
    feature<&Caps::arithmetic, &ArithmeticCaps::int8>("int8"),
    feature<&Caps::arithmetic, &ArithmeticCaps::int16>("int16"),
    feature<&Caps::arithmetic, &ArithmeticCaps::int64>("int64"),
    feature<&Caps::arithmetic, &ArithmeticCaps::float64>("float64"),
    feature<&Caps::profiling, &ProfilingCaps::executable_statistics>("executable_statistics", Visibility::user, false),
    feature<&Caps::subgroup, &SubgroupCaps::extended_types>("subgroup_16bit", Visibility::internal),
    feature<&Caps::subgroup, &SubgroupCaps::vote>("subgroup_vote", Visibility::internal),
    feature<&Caps::float_controls, &FloatControls::exp_of_nan>("exp_of_nan", Visibility::internal),
    feature<&Caps::arithmetic, &ArithmeticCaps::dot_product_i8>("dot_product_i8", Visibility::internal),
    feature<&Caps::arithmetic, &ArithmeticCaps::dot_product_i8_accelerated>("dot_product_i8_accelerated",
                                                                            Visibility::internal),
    feature<&Caps::matrix, &MatrixCaps::bf16>("matrix_bf16", Visibility::internal),
    feature<&Caps::matrix2, &Matrix2Caps::reductions>("matrix2_reductions", Visibility::internal),
    feature<&Caps::matrix2, &Matrix2Caps::conversions>("matrix2_conversions", Visibility::internal),
    feature<&Caps::matrix2, &Matrix2Caps::per_element>("matrix2_per_element", Visibility::internal),
    feature<&Caps::matrix2, &Matrix2Caps::tensor_addressing>("matrix2_tensor_addressing", Visibility::internal),
    feature<&Caps::matrix2, &Matrix2Caps::workgroup_scope>("matrix2_workgroup_scope", Visibility::internal),
    feature<&Caps::matrix2, &Matrix2Caps::flexible>("matrix2_flexible", Visibility::internal),
};

std::string text_of(const MatrixShape& shape) {
  return fmt::format("{}x{}x{} {} {} {} {}", shape.m, shape.n, shape.k, name_of(shape.a), name_of(shape.b),
                     name_of(shape.c), name_of(shape.result));
}

}  // namespace

std::span<const LimitRow> limit_rows() { return kLimits; }
std::span<const FeatureRow> feature_rows() { return kFeatures; }

std::string capabilities_text(const Caps& caps) {
  std::string all;
  for (const LimitRow& row : kLimits) all += fmt::format("{} {} ", row.name, row.value(caps));
  for (const FeatureRow& row : kFeatures) {
    if (row.shapes_kernels && row.value(caps)) all += fmt::format("{} ", row.name);
  }
  if (caps.matrix.sub_byte) all += "sub-byte " + text_of(*caps.matrix.sub_byte) + " ";
  if (caps.matrix.lane_fragments) all += "lane fragments " + text_of(*caps.matrix.lane_fragments) + " ";
  for (const MatrixShape& shape : caps.matrix.shapes) all += text_of(shape) + " ";
  for (const WorkgroupTile& tile : caps.matrix2.tiles) all += fmt::format("tile {}x{}x{} ", tile.m, tile.n, tile.k);
  return all;
}

}  // namespace vkfuse
