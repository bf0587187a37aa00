// The only file that includes SPIRV-Tools.
#include "spirv/tools.hpp"

#include <spirv-tools/libspirv.h>

#include <memory>

#include "base/error.hpp"

namespace vkfuse::spirv {
namespace {

struct DestroyContext {
  void operator()(spv_context context) const { spvContextDestroy(context); }
};
using Context = std::unique_ptr<spv_context_t, DestroyContext>;

struct DestroyOptions {
  void operator()(spv_validator_options options) const { spvValidatorOptionsDestroy(options); }
};
using Options = std::unique_ptr<spv_validator_options_t, DestroyOptions>;

struct Diagnostic {
  spv_diagnostic value = nullptr;
  Diagnostic() = default;
  Diagnostic(const Diagnostic&) = delete;
  Diagnostic& operator=(const Diagnostic&) = delete;
  ~Diagnostic() { spvDiagnosticDestroy(value); }

  [[nodiscard]] std::string text() const {
    if (!value) return "no reason was given";
    return fmt::format("{} (word {})", value->error ? value->error : "no reason was given", value->position.index);
  }
};

spv_target_env to_env(Environment environment) {
  switch (environment) {
    case Environment::vulkan_1_1: return SPV_ENV_VULKAN_1_1;
    case Environment::vulkan_1_2: return SPV_ENV_VULKAN_1_2;
    case Environment::vulkan_1_3: return SPV_ENV_VULKAN_1_3;
  }
  return SPV_ENV_VULKAN_1_1;
}

}  // namespace

Result<void> validate(std::span<const std::uint32_t> spirv, Environment environment) {
  constexpr std::uint32_t kVersion16 = 0x00010600;
  const bool newest = spirv.size() > 1 && spirv[1] >= kVersion16;  // no earlier Vulkan takes it
  const Context context(spvContextCreate(newest ? SPV_ENV_VULKAN_1_3 : to_env(environment)));
  if (!context) return make_error(ErrorCode::out_of_memory, "SPIRV-Tools could not create a context.");
  const Options options(spvValidatorOptionsCreate());
  if (!options) return make_error(ErrorCode::out_of_memory, "SPIRV-Tools could not create options.");
  // A third of the time goes into names for messages that hardly anybody sees, and every warm start waits for it.
  spvValidatorOptionsSetFriendlyNames(options.get(), false);
  spv_const_binary_t binary{spirv.data(), spirv.size()};  // not changed: the type of the parameter has no const
  Diagnostic diagnostic;
  if (spvValidateWithOptions(context.get(), options.get(), &binary, &diagnostic.value) == SPV_SUCCESS) return {};
  return make_error(ErrorCode::internal, "A SPIR-V module of {} words is not valid: {}.", spirv.size(),
                    diagnostic.text());
}

Result<std::string> disassemble(std::span<const std::uint32_t> spirv) {
  const Context context(spvContextCreate(SPV_ENV_UNIVERSAL_1_6));
  if (!context) return make_error(ErrorCode::out_of_memory, "SPIRV-Tools could not create a context.");
  spv_text text = nullptr;
  Diagnostic diagnostic;
  const std::uint32_t style = SPV_BINARY_TO_TEXT_OPTION_FRIENDLY_NAMES | SPV_BINARY_TO_TEXT_OPTION_INDENT;
  if (spvBinaryToText(context.get(), spirv.data(), spirv.size(), style, &text, &diagnostic.value) != SPV_SUCCESS) {
    spvTextDestroy(text);
    return invalid("{} words cannot be disassembled as SPIR-V: {}.", spirv.size(), diagnostic.text());
  }
  std::string result(text->str, text->length);
  spvTextDestroy(text);
  return result;
}

}  // namespace vkfuse::spirv
