#include "runtime/shaders.hpp"

#include <cstring>

#include "base/mutations.hpp"
#include "spirv/reflect.hpp"
#include "spirv/tools.hpp"

namespace vkfuse::runtime {

/// The interface that lowering recorded.
struct Shaders::Requested {
  std::size_t push_constant_bytes = 0;
  std::vector<bool> readonly;  ///< per binding
};

namespace {

/// How the interface of a module differs from what is wanted; empty if it does not. A SPIRV-Cross too old for the
/// module says nothing.
template <typename Requested>
Result<std::string> difference(const Requested& requested, std::span<const std::uint32_t> spirv) {
  auto found = spirv::reflect(spirv);
  if (!found)
    return found.error().code == ErrorCode::unsupported ? Result<std::string>(std::string())
                                                        : Result<std::string>(std::move(found).error());
  if (found->push_constant_bytes != requested.push_constant_bytes)
    return std::string("the shader's push constants are those lowering recorded");
  if (found->bindings.size() != requested.readonly.size())
    return std::string("the shader's buffers are those lowering recorded");
  for (std::size_t i = 0; i < requested.readonly.size(); ++i) {
    const spirv::Binding& binding = found->bindings[i];
    if (binding.binding != i || binding.set != 0 || binding.is_uniform)
      return std::string("buffers are bound in the order lowering recorded");
    if (requested.readonly[i] != binding.readonly) return std::string("reads are readonly, stores are not");
  }
  if (found->workgroup_ids[0] != 0) return std::string("the workgroup size is specialisation constant 0");
  return std::string();
}

std::optional<spirv::Module> to_words(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % sizeof(std::uint32_t) != 0) return std::nullopt;
  spirv::Module words(bytes.size() / sizeof(std::uint32_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

}  // namespace

std::string shader_key(const std::string& text) {
  return fmt::format("vkfuse {}\n{}\n{}", VKFUSE_VERSION, spirv::compiler_identity(),
                     VKF_PLANT(stale_store_key, text, text.substr(0, text.find("void "))));
}

std::string shader_key(const lowering::Kernel& kernel) {
  return shader_key(kernel.key.empty() ? kernel.glsl : kernel.key);
}

Result<spirv::Module> Shaders::compile(const lowering::Kernel& kernel) {
  Requested requested;
  requested.push_constant_bytes = kernel.constants.size() * 4;
  for (const lowering::Binding& binding : kernel.bindings) requested.readonly.push_back(binding.is_readonly());
  return compile(shader_key(kernel), kernel.glsl, kernel.name, requested);
}

Result<spirv::Module> Shaders::compile(const std::string& glsl, const std::string& name, std::size_t buffers) {
  Requested requested;
  requested.readonly.assign(buffers, false);
  requested.readonly.front() = true;
  return compile(shader_key(glsl), glsl, name, requested);
}

Result<spirv::Module> Shaders::compile(const std::string& key, const std::string& glsl, const std::string& name,
                                       const Requested& requested) {
  if (const auto kept = store_.load(store::Kind::spirv, key)) {
    auto words = to_words(*kept);
    if (words && spirv::validate(*words)) {
      VKF_TRY(differs, difference(requested, *words));
      if (differs.empty()) return *std::move(words);
    }
  }
  VKF_TRY(words, spirv::compile_glsl(glsl, name));
  VKF_TRY(differs, difference(requested, words));
  if (!differs.empty()) throw InternalError(differs);
  store_.save(store::Kind::spirv, key, std::as_bytes(std::span(words)));
  return words;
}

bool Shaders::can_compile(spirv::GlslExtension extension) {
  const std::string key = shader_key(std::string(name_of(extension)));
  if (const auto kept = store_.load(store::Kind::probe, key); kept && kept->size() == 1)
    return kept->front() == std::byte{1};
  const std::byte answer{spirv::can_compile(extension)};
  store_.save(store::Kind::probe, key, {&answer, 1});
  return answer == std::byte{1};
}

}  // namespace vkfuse::runtime
