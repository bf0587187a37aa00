// The text of compute shaders, and what they expect when they are launched.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/target.hpp"
#include "ir/graph.hpp"
#include "kernel/code.hpp"
#include "kernel/numbers.hpp"

namespace vkfuse::lowering {

/// One storage buffer; its index in Kernel::bindings is its binding number.
struct Binding {
  ir::NodeId value = 0;
  bool store = false;
  bool scratch = false;  ///< partial results of the step, not a value of the graph
  /// Of the scratch memory: nothing for all of it, else which of `halves` equal pieces.
  std::optional<int> half = std::nullopt;
  int halves = 1;
  /// Of a value: what of it is bound; 0 bytes stand for all of it.
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool replaced = false;  ///< it is read, and a result may be stored over it while others are computed from it
  bool counts = false;    ///< with `scratch`: the step's counts of workgroups (Schedule::counter_bytes) instead
  [[nodiscard]] bool is_readonly() const { return !store && !replaced; }
  friend bool operator==(const Binding&, const Binding&) = default;
};

/// What a kernel's texts are printed from.
struct KernelCode {
  Code glsl, key;
  std::vector<std::string> names, names_by_order;
};

struct Kernel {
  std::string name;
  std::string glsl;
  /// Kernels of one device with equal keys and workgroup sizes are the same but for names and comments.
  std::string key;
  std::vector<Binding> bindings;
  /// The push constants of this launch, at the sizes the loops were built for.
  std::vector<std::uint32_t> constants;
  int workgroup = 1;
  int subgroup = 0;  ///< the size that the text relies on, with full subgroups; 0: none
  std::uint32_t groups_x = 0;
  std::uint32_t groups_y = 1;
  std::string user;  ///< the name of the user's kernel, if its text is that
  /// Nothing for kernels of the user's.
  std::shared_ptr<const KernelCode> code;
  std::shared_ptr<const SizeBinding> sizes;
};

/// A kernel whose numbers are not known yet: it has code and no texts.
struct RelocatableKernel {
  Kernel kernel;
  /// What is left of the key without what follows from the rest: the keys of relocatable kernels of one target are
  /// equal where this is.
  std::string canonical_key;
  std::vector<Relocation> relocations;  ///< of each text
  std::size_t most_words = 0;  ///< that the push constants have room for beside those that the kernel has already
  bool differs = false;  ///< from the text of LoweringOptions::reference_sizes, which makes use of something that is
                         ///< not so at these sizes
};

/// The relocatable kernel with these numbers.
Kernel bind_sizes(const RelocatableKernel& relocatable, const SizeBinding& size_binding,
                  std::span<const std::uint32_t> words);

/// Whether part_of() can be asked for: kernels of the user's have push constants of their own, or none, and others may
/// have all there are. Workgroups that are counted are submitted together, so that counts are 0 whatever fails between.
bool has_parts(const Kernel& kernel, const Target& target);
/// The same kernel for a rectangle of its workgroups, of which the first is told by two more push constants: not by
/// vkCmdDispatchBase, with which workgroups beyond the first part left no results on NVIDIA 580 (an H200).
Kernel part_of(Kernel kernel, std::uint32_t base_x, std::uint32_t base_y, std::uint32_t groups_x,
               std::uint32_t groups_y);

}  // namespace vkfuse::lowering
