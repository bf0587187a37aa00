// What a template is given to write kernels from.
#pragma once

#include <string>

#include "kernel/kernel.hpp"
#include "lowering/names.hpp"
#include "schedule/schedule.hpp"

namespace vkfuse::lowering {

/// How 16-bit floats are rounded inside a kernel.
enum class Numerics : std::uint8_t {
  standard,  ///< computed in f32 through the kernel; explicit casts and stores round
  strict,    ///< every op rounds to its dtype: fused and unfused runs are bit-identical
};

/// Sizes that decide what a text looks like, where not the numbers in it.
struct ReferenceSizes {
  const segment::Loops* loops = nullptr;  ///< as scheduled
  const schedule::Schedule* schedule = nullptr;
};

struct LoweringOptions {
  Numerics numerics = Numerics::standard;
  /// Sizes are push constants instead of literals, so that one kernel serves many sizes.
  bool hoist_sizes = false;
  std::string name;
  /// Set: the text is that of these sizes if the loops, which have others, allow it. The schedule is then
  /// schedule::at_other_sizes() of that one.
  ReferenceSizes reference_sizes = {};
  bool only_canonical_key = false;  ///< Kernel::glsl and Kernel::key are not needed
};

/// A planned kernel, and how its text is wanted.
struct LoweringInput {
  const ir::Graph& graph;
  const segment::Segment& segment;
  const segment::Loops& loops;
  const schedule::Schedule& schedule;
  const Target& target;
  const LoweringOptions& options;
  KernelNames names = {};

  /// The same for loops that these have been transformed into.
  [[nodiscard]] LoweringInput with(const segment::Loops& transformed) const {
    return {graph, segment, transformed, schedule, target, options, names};
  }
};

}  // namespace vkfuse::lowering
