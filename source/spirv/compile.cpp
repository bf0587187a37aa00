// The only file that includes shaderc.
#include "spirv/compile.hpp"

#include <shaderc/shaderc.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "os/system.hpp"
#include "spirv/tools.hpp"

namespace vkfuse::spirv {
namespace {

constexpr int kExcerptLines = 3;  // shown before and after the offending line

template <auto Release>
struct Releaser {
  template <typename T>
  void operator()(T* object) const {
    Release(object);
  }
};
using Compiler = std::unique_ptr<shaderc_compiler, Releaser<shaderc_compiler_release>>;
using Options = std::unique_ptr<shaderc_compile_options, Releaser<shaderc_compile_options_release>>;
using Output = std::unique_ptr<shaderc_compilation_result, Releaser<shaderc_result_release>>;

// shaderc drops glslang's built-in symbol tables, which take most of the first compile, with the
// last compiler object of the process: one is kept. Compiling with it from many threads is allowed.
shaderc_compiler_t shared_compiler() {
  static const Compiler compiler(shaderc_compiler_initialize());
  return compiler.get();
}

// What make_options() sets: compiled words are kept under it.
constexpr const char* kOptionsText = "glsl, vulkan 1.1, spirv 1.3 (1.6 for NV matrices), unoptimised";

/// An extension that glslang knows for SPIR-V 1.6 alone; devices that have it have Vulkan 1.3.
bool needs_newest(std::string_view source) {
  return source.find("#extension GL_NV_cooperative_matrix2 : require") != std::string_view::npos;
}

Options make_options(shaderc_source_language language, bool newest) {
  Options options(shaderc_compile_options_initialize());
  if (!options) return options;
  shaderc_compile_options_set_source_language(options.get(), language);
  shaderc_compile_options_set_target_env(options.get(), shaderc_target_env_vulkan,
                                         newest ? shaderc_env_version_vulkan_1_3 : shaderc_env_version_vulkan_1_1);
  shaderc_compile_options_set_target_spirv(options.get(),
                                           newest ? shaderc_spirv_version_1_6 : shaderc_spirv_version_1_3);
  shaderc_compile_options_set_optimization_level(options.get(), shaderc_optimization_level_zero);
  shaderc_compile_options_set_warnings_as_errors(options.get());
  return options;
}

// Messages read "name:12: error: ..."; 0 when no line is named.
int first_line_in(std::string_view message, std::string_view name) {
  for (std::size_t at = message.find(name); at != std::string_view::npos; at = message.find(name, at + 1)) {
    std::string_view rest = message.substr(at + name.size());
    if (rest.empty() || rest.front() != ':') continue;
    int line = 0;
    rest.remove_prefix(1);
    if (std::from_chars(rest.data(), rest.data() + rest.size(), line).ec == std::errc() && line > 0) return line;
  }
  return 0;
}

// The whole text when no line is named: the reader then has to look everywhere.
std::string excerpt(std::string_view source, int offending) {
  std::string text;
  int number = 1;
  while (!source.empty()) {
    const std::size_t end = std::min(source.find('\n'), source.size());
    if (offending == 0 || std::abs(number - offending) <= kExcerptLines) {
      text += fmt::format("\n{} {:4} | {}", number == offending ? '>' : ' ', number, source.substr(0, end));
    }
    source.remove_prefix(std::min(end + 1, source.size()));
    ++number;
  }
  return text;
}

// Read at every call, so that a test can turn it on.
bool check_is_on() {
  const char* value = std::getenv("VKFUSE_CHECK_SPIRV");
  return value != nullptr && std::string_view(value) == "1";
}

std::atomic<std::uint64_t> calls = 0;

// Where the compiler is a library of the system, an upgrade replaces it under the same name.
std::string loaded_libraries() {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::string text;
  for (const auto& [file, bytes, changed_ns] : os::loaded_libraries()) {
    if (!file.starts_with("libshaderc") && !file.starts_with("libglslang") && !file.starts_with("libSPIRV") &&
        !file.starts_with("shaderc"))
      continue;
    text += fmt::format(", {} {} {}.{:09}", file, bytes, changed_ns / kSecond, changed_ns % kSecond);
  }
  return text;
}

Result<Module> compile(std::string_view source, std::string_view name, shaderc_source_language language) {
  const shaderc_compiler_t compiler = shared_compiler();
  const Options options = make_options(language, needs_newest(source));
  if (!compiler || !options) {
    return make_error(ErrorCode::out_of_memory, "shaderc could not be initialised to compile '{}'.", name);
  }
  const std::string file(name);
  ++calls;
  const Output output(shaderc_compile_into_spv(compiler, source.data(), source.size(), shaderc_compute_shader,
                                               file.c_str(), "main", options.get()));
  if (!output) return make_error(ErrorCode::out_of_memory, "shaderc gave no result for '{}'.", name);
  if (shaderc_result_get_compilation_status(output.get()) != shaderc_compilation_status_success) {
    const std::string_view message = shaderc_result_get_error_message(output.get());
    return make_error(ErrorCode::internal, "The shader '{}' does not compile: {}{}", name, message,
                      excerpt(source, first_line_in(message, name)));
  }
  const auto* words = reinterpret_cast<const std::uint32_t*>(shaderc_result_get_bytes(output.get()));
  Module module(words, words + shaderc_result_get_length(output.get()) / sizeof(std::uint32_t));
  if (check_is_on()) {
    auto valid = validate(module);
    if (!valid.ok()) return std::move(valid).error().within(fmt::format("checking the SPIR-V of '{}'", name));
  }
  return module;
}

}  // namespace

Result<Module> compile_glsl(std::string_view glsl, std::string_view name) {
  return compile(glsl, name, shaderc_source_language_glsl);
}

Result<Module> compile_hlsl(std::string_view hlsl, std::string_view name) {
  return compile(hlsl, name, shaderc_source_language_hlsl);
}

std::uint64_t compiler_calls() { return calls.load(); }

const std::string& compiler_identity() {
  static const std::string identity = fmt::format("{}; {}{}", kOptionsText, VKFUSE_SHADERC_ID, loaded_libraries());
  return identity;
}

}  // namespace vkfuse::spirv
