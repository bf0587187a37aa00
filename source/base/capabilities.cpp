#include "base/capabilities.hpp"

#include <fmt/format.h>

namespace vkfuse {

namespace {

constexpr LimitRow kLimits[] = {
    {"max_invocations", &Caps::max_invocations},
    {"max_workgroup_x", &Caps::max_workgroup_x},
    {"max_groups_per_axis", &Caps::max_groups_per_axis},
    {"shared_memory_bytes", &Caps::shared_memory_bytes},
    {"storage_buffers", &Caps::storage_buffers},
    {"push_constant_bytes", &Caps::push_constant_bytes},
    {"storage_range", &Caps::storage_buffer_range},
    {"max_allocation", &Caps::max_allocation},
    {"subgroup_size", &Caps::subgroup_size},
    {"registers_per_thread", &Caps::registers_per_thread},
    {"workgroup_registers", &Caps::workgroup_registers},
    {"offset_alignment", &Caps::offset_alignment, Visibility::internal},
    {"subgroup_size_min", &Caps::subgroup_size_min, Visibility::internal},
    {"subgroup_size_max", &Caps::subgroup_size_max, Visibility::internal},
};

constexpr FeatureRow kFeatures[] = {
    {"subgroup_shuffle", &Caps::subgroup_shuffle},
    {"subgroup_size_control", &Caps::subgroup_size_control},
    {"full_subgroups", &Caps::full_subgroups},
    {"storage_16bit", &Caps::storage_16bit},
    {"storage_8bit", &Caps::storage_8bit},
    {"float16", &Caps::float16},
    {"round_to_even_f16", &Caps::round_to_even_f16},
    {"keep_nan_f32", &Caps::keep_nan_f32},
    {"keep_nan_f64", &Caps::keep_nan_f64},
    {"keep_denorms_f16", &Caps::keep_denorms_f16},
    {"int8", &Caps::int8},
    {"int16", &Caps::int16},
    {"int64", &Caps::int64},
    {"float64", &Caps::float64},
    {"executable_statistics", &Caps::executable_statistics, Visibility::user, false},
    {"subgroup_16bit", &Caps::subgroup_16bit, Visibility::internal},
    {"exp_of_nan", &Caps::exp_of_nan, Visibility::internal},
    {"dot_product_i8", &Caps::dot_product_i8, Visibility::internal},
    {"dot_product_i8_accelerated", &Caps::dot_product_i8_accelerated, Visibility::internal},
    {"matrix_bf16", &Caps::matrix_bf16, Visibility::internal},
    {"matrix2_reductions", &Caps::matrix2_reductions, Visibility::internal},
    {"matrix2_conversions", &Caps::matrix2_conversions, Visibility::internal},
    {"matrix2_per_element", &Caps::matrix2_per_element, Visibility::internal},
    {"matrix2_tensor_addressing", &Caps::matrix2_tensor_addressing, Visibility::internal},
    {"matrix2_workgroup_scope", &Caps::matrix2_workgroup_scope, Visibility::internal},
    {"matrix2_flexible", &Caps::matrix2_flexible, Visibility::internal},
};

std::string text_of(const MatrixShape& shape) {
  return fmt::format("{}x{}x{} {} {} {} {}", shape.m, shape.n, shape.k, name_of(shape.a), name_of(shape.b),
                     name_of(shape.c), name_of(shape.result));
}

}  // namespace

std::span<const LimitRow> limit_rows() { return kLimits; }
std::span<const FeatureRow> feature_rows() { return kFeatures; }

std::uint64_t value_of(const Caps& caps, const LimitRow& limit) {
  return std::visit([&](auto member) { return static_cast<std::uint64_t>(caps.*member); }, limit.member);
}

void set_value(Caps& caps, const LimitRow& limit, std::uint64_t value) {
  std::visit([&](auto member) { caps.*member = static_cast<std::remove_reference_t<decltype(caps.*member)>>(value); },
             limit.member);
}

std::string capabilities_text(const Caps& caps) {
  std::string all;
  for (const LimitRow& limit : kLimits) all += fmt::format("{} {} ", limit.name, value_of(caps, limit));
  for (const FeatureRow& feature : kFeatures) {
    if (feature.shapes_kernels && caps.*feature.member) all += fmt::format("{} ", feature.name);
  }
  if (caps.matrix_sub_byte) all += "sub-byte " + text_of(*caps.matrix_sub_byte) + " ";
  for (const MatrixShape& shape : caps.matrix_shapes) all += text_of(shape) + " ";
  return all;
}

}  // namespace vkfuse
