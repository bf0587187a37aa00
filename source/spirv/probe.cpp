#include "spirv/probe.hpp"

#include <array>

#include "base/error.hpp"
#include "spirv/compile.hpp"

namespace vkfuse::spirv {
namespace {

constexpr std::array<std::string_view, kGlslExtensionCount> kNames = {
    "GL_EXT_shader_explicit_arithmetic_types_float16",
    "GL_EXT_shader_explicit_arithmetic_types_int64",
    "GL_EXT_shader_explicit_arithmetic_types_int8",
    "GL_EXT_shader_explicit_arithmetic_types_int16",
    "GL_EXT_shader_16bit_storage",
    "GL_EXT_shader_8bit_storage",
    "GL_EXT_spirv_intrinsics",
    "GL_KHR_shader_subgroup_arithmetic",
    "GL_EXT_control_flow_attributes",
    "GL_KHR_cooperative_matrix",
    "GL_NV_cooperative_matrix2",
    "GL_EXT_bfloat16",
    "GL_EXT_integer_dot_product",
};

std::array<bool, kGlslExtensionCount> probe_all() {
  std::array<bool, kGlslExtensionCount> answers{};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    answers[i] = compile_glsl(fmt::format("#version 450\n#extension {} : require\n"
                                          "layout(local_size_x = 1) in;\nvoid main() {{}}\n",
                                          kNames[i]),
                              "probe.comp")
                     .ok();
  }
  return answers;
}

}  // namespace

std::string_view name_of(GlslExtension extension) { return kNames[static_cast<std::size_t>(extension)]; }

bool can_compile(GlslExtension extension) {
  static const std::array<bool, kGlslExtensionCount> answers = probe_all();
  return answers[static_cast<std::size_t>(extension)];
}

}  // namespace vkfuse::spirv
