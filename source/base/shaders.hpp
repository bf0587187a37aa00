// The hand-written GLSL of shaders/, embedded at build time.
#pragma once

#include <span>
#include <string_view>

namespace vkfuse {

struct EmbeddedShader {
  std::string_view name;  ///< file name, e.g. "prelude.glsl"
  std::string_view text;
};

/// Every file of shaders/.
std::span<const EmbeddedShader> embedded_shaders();

}  // namespace vkfuse
