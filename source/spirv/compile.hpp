// GLSL and HLSL compute shaders to SPIR-V.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vkfuse/result.hpp"

namespace vkfuse::spirv {

/// SPIR-V words, first the header.
using Module = std::vector<std::uint32_t>;

/// Compiles one compute shader for Vulkan 1.1 (SPIR-V 1.3), without optimisation: drivers optimise
/// again anyway. Warnings are errors. `name` stands for the file name in messages. An error is
/// ErrorCode::internal, because the text is ours, and shows the lines around the offending one.
/// With VKFUSE_CHECK_SPIRV=1 in the environment, as in every test, the module also goes through
/// validate(): shaderc trusts its own output.
/// Thread-safe; the first call of a process takes 100 to 250 ms, later ones 1 to 3 ms.
Result<Module> compile_glsl(std::string_view glsl, std::string_view name);

/// The same for HLSL; the entry point is `main`.
Result<Module> compile_hlsl(std::string_view hlsl, std::string_view name);

/// How many shaders this process has given to shaderc so far.
std::uint64_t compiler_calls();

/// One line that differs between any two compilers or options that may give different words for one text: what of
/// shaderc was linked, what is loaded now, and the options of compile_glsl().
const std::string& compiler_identity();

}  // namespace vkfuse::spirv
