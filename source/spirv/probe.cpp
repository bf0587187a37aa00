#include "spirv/probe.hpp"

#include <array>
#include <atomic>

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
    "GL_KHR_shader_subgroup_shuffle",
    "GL_EXT_control_flow_attributes",
    "GL_KHR_cooperative_matrix",
    "GL_NV_cooperative_matrix2",
    "GL_EXT_bfloat16",
    "GL_EXT_integer_dot_product",
};

}  // namespace

std::string_view name_of(GlslExtension extension) { return kNames[static_cast<std::size_t>(extension)]; }

bool can_compile(GlslExtension extension) {
  enum : signed char { unknown, no, yes };
  static std::array<std::atomic<signed char>, kGlslExtensionCount> answers{};
  std::atomic<signed char>& answer = answers[static_cast<std::size_t>(extension)];
  if (answer != unknown) return answer == yes;
  const std::string text = fmt::format(
      "#version 450\n#extension {} : require\nlayout(local_size_x = 1) in;\nvoid main() {{}}\n", name_of(extension));
  answer = compile_glsl(text, "probe.comp").ok() ? yes : no;
  return answer == yes;
}

}  // namespace vkfuse::spirv
