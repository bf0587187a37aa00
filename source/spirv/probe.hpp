// Which GLSL extensions the linked shaderc can compile: they differ between its releases.
#pragma once

#include <cstdint>
#include <string_view>

namespace vkfuse::spirv {

enum class GlslExtension : std::uint8_t {
  arithmetic_float16,
  arithmetic_int64,
  arithmetic_int8,
  arithmetic_int16,
  storage_16bit,
  storage_8bit,
  spirv_intrinsics,
  subgroup_shuffle,
  control_flow_attributes,
  khr_cooperative_matrix,
  nv_cooperative_matrix2,
  bfloat16,
  integer_dot_product,
};
inline constexpr int kGlslExtensionCount = 13;

/// The name for an #extension line: "GL_EXT_shader_16bit_storage".
std::string_view name_of(GlslExtension extension);

/// Compiles a few lines at the first question about an extension (under 2 ms once the compiler is warm) and remembers
/// the answer. Thread-safe.
bool can_compile(GlslExtension extension);

}  // namespace vkfuse::spirv
