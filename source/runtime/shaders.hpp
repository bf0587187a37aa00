// GLSL to SPIR-V by way of the store.
#pragma once

#include "kernel/kernel.hpp"
#include "spirv/compile.hpp"
#include "spirv/probe.hpp"
#include "store/store.hpp"

namespace vkfuse::runtime {

/// Thread-safe. The store outlives it.
class Shaders {
 public:
  explicit Shaders(store::Store& store) : store_(store) {}

  /// The module of a kernel. One that the store has is used if it is valid SPIR-V and its interface is the one lowering
  /// recorded; else the text is compiled, and kept.
  Result<spirv::Module> compile(const lowering::Kernel& kernel);
  /// The same for text written by hand, with `buffers` storage buffers and no push constants.
  Result<spirv::Module> compile(const std::string& glsl, const std::string& name, std::size_t buffers);

  /// Whether the linked compiler takes an extension.
  bool can_compile(spirv::GlslExtension extension);

 private:
  struct Requested;
  Result<spirv::Module> compile(const std::string& key, const std::string& glsl, const std::string& name,
                                const Requested& requested);
  store::Store& store_;
};

/// What decides the words that a text is compiled to: the text itself and the compiler.
std::string shader_key(const std::string& text);
/// The same of a kernel, but for names and comments: kernels of two programs that differ in nothing else are one file.
std::string shader_key(const lowering::Kernel& kernel);

}  // namespace vkfuse::runtime
