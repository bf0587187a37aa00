#include "build_info.hpp"

#include <fmt/format.h>

#include "spirv/compile.hpp"
#include "spirv/probe.hpp"

namespace vkfuse::bench {

/// Of the source tree, in a file that every build makes anew.
std::string_view git_commit();

namespace {

using nlohmann::json;
using spirv::GlslExtension;

json text_or_null(std::string_view text) { return text.empty() ? json() : json(text); }

constexpr const char* kCompiler =
#if defined(__clang__)
    "clang " __clang_version__;
#else
    "g++ " __VERSION__;
#endif

}  // namespace

json build_facts() {
  return {{"version", VKFUSE_VERSION},
          {"commit", text_or_null(git_commit())},
          {"compiler", kCompiler},
          {"flags", VKFUSE_BUILD_FLAGS},
          {"build_type", text_or_null(VKFUSE_BUILD_TYPE)}};
}

json shaderc_facts() {
  const std::string& identity = spirv::compiler_identity();
  // A library of the system need not be the one that was there when this program was built.
  const bool is_loaded = identity.find(", libshaderc") != std::string::npos;
  return {{"version", is_loaded ? json() : text_or_null(VKFUSE_SHADERC_VERSION)},
          {"identity", identity},
          {"cooperative_matrix", spirv::can_compile(GlslExtension::khr_cooperative_matrix)},
          {"cooperative_matrix2", spirv::can_compile(GlslExtension::nv_cooperative_matrix2)},
          {"bfloat16", spirv::can_compile(GlslExtension::bfloat16)},
          {"integer_dot_product", spirv::can_compile(GlslExtension::integer_dot_product)}};
}

}  // namespace vkfuse::bench
