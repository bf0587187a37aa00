// Loops + schedule -> the text of compute shaders and what they expect when they are launched.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/numbers.hpp"
#include "schedule/schedule.hpp"

namespace vkfuse::codegen {

/// How 16-bit floats are rounded inside a kernel.
enum class Numerics : std::uint8_t {
  standard,  ///< computed in f32 through the kernel; explicit casts and stores round
  strict,    ///< every op rounds to its dtype: fused and unfused runs are bit-identical
};

/// One storage buffer; its index in Kernel::bindings is its binding number.
struct Binding {
  ir::NodeId value = 0;
  bool store = false;
  bool scratch = false;  ///< partial results of the step, not a value of the graph
  /// Of the scratch memory: nothing for all of it, else its first or second half.
  std::optional<int> half = std::nullopt;
  /// Of a value: what of it is bound; 0 bytes stand for all of it.
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const Binding&, const Binding&) = default;
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
};

/// Sizes that decide what a text looks like, where not the numbers in it.
struct ReferenceSizes {
  const segment::Loops* loops = nullptr;  ///< as scheduled
  const schedule::Schedule* schedule = nullptr;
};

struct EmitOptions {
  Numerics numerics = Numerics::standard;
  /// Sizes are push constants instead of literals, so that one kernel serves many sizes.
  bool hoist_sizes = false;
  std::string name;
  /// Set: the text is that of these sizes if the loops, which have others, allow it. The schedule is then
  /// schedule::at_other_sizes() of that one.
  ReferenceSizes reference_sizes = {};
  bool only_canonical_key = false;  ///< Kernel::glsl and Kernel::key are not needed
};

/// A kernel whose numbers have not been filled in: where they depend on sizes, its texts have marks.
struct RelocatableKernel {
  Kernel kernel;
  /// What is left of the key without what follows from the rest: the keys of relocatable kernels of one target are
  /// equal where this is.
  std::string canonical_key;
  std::vector<Relocation> relocations;  ///< of each text
  std::size_t most_words = 0;  ///< that the push constants have room for beside those that the kernel has already
  bool differs = false;  ///< from the text of EmitOptions::reference_sizes, which makes use of something that is not so
                         ///< at these sizes
};

/// The shaders of a segment as relocatable kernels.
Result<std::vector<RelocatableKernel>> relocatable(const ir::Graph& graph, const segment::Segment& segment,
                                                   const segment::Loops& loops, const schedule::Schedule& schedule,
                                                   const Target& target, const EmitOptions& options);

/// A relocatable kernel with this text.
Kernel bind_sizes(const RelocatableKernel& relocatable, const SizeBinding& size_binding,
                  std::span<const std::uint32_t> words);

/// Whether part_of() can be asked for: kernels of the user's have push constants of their own, or none, and others may
/// have all there are.
bool has_parts(const Kernel& kernel, const Target& target);
/// The same kernel for a rectangle of its workgroups, of which the first is told by two more push constants: not by
/// vkCmdDispatchBase, with which workgroups beyond the first part left no results on NVIDIA 580 (an H200).
Kernel part_of(Kernel kernel, std::uint32_t base_x, std::uint32_t base_y, std::uint32_t groups_x,
               std::uint32_t groups_y);

/// The shaders of a segment, one per dispatch, in order. The workgroup size is specialisation constant 0.
Result<std::vector<Kernel>> emit(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
                                 const schedule::Schedule& schedule, const Target& target, const EmitOptions& options);

}  // namespace vkfuse::codegen
