// Segment + schedule -> the text of one compute shader and what it expects when it is launched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace vkfuse::codegen {

/// How 16-bit floats are rounded inside a kernel.
enum class Numerics : std::uint8_t {
  standard,  ///< computed in f32 through the kernel; explicit casts and stores round
  strict,    ///< every op rounds to its dtype: fused and unfused runs are bit-identical
};

/// One 32-bit push constant, computed when the sizes are known.
struct Param {
  enum class Kind : std::uint8_t {
    items,         ///< number of items
    last,          ///< elements in the last item
    axis,          ///< size of a loop axis, in vectors for the innermost one of aligned rows
    magic, shift,  ///< of the division by that size: see shaders/index.glsl
  };
  Kind kind = Kind::items;
  int axis = 0;
  friend bool operator==(const Param&, const Param&) = default;
};

/// One storage buffer; its index in Kernel::bindings is its binding number.
struct Binding {
  ir::NodeId value = 0;
  bool store = false;
};

struct Kernel {
  std::string name;
  std::string glsl;
  /// Kernels of one device with equal keys and workgroup sizes are the same but for names and comments.
  std::string key;
  std::vector<Binding> bindings;
  std::vector<Param> params;
  int workgroup = 1;
};

/// The shader. Sizes are push constants, the workgroup size is specialisation constant 0: one kernel
/// serves every size of one schedule.
Result<Kernel> emit_pointwise(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
                              const schedule::Schedule& schedule, const Target& target, Numerics numerics,
                              const std::string& name);

/// The values of the push constants at these sizes of the loop axes.
std::vector<std::uint32_t> push_constants(const Kernel& kernel, const schedule::Schedule& schedule, const Sizes& axes);

}  // namespace vkfuse::codegen
