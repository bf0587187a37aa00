// Tensors over a limit of the device: how they lie in memory, and segments as dispatches over a part of the positions
// each.
#pragma once

#include <map>
#include <span>

#include "base/target.hpp"
#include "segment/loops.hpp"

namespace vkfuse::schedule {

/// Bytes of a value that a kernel binds.
struct Window {
  std::int64_t offset = 0;  ///< from the start of its buffer, a multiple of 16 and of the device's offset alignment
  std::int64_t bytes = 0;   ///< a multiple of 16
};

/// A segment at a part of the positions of one of its axes.
struct DispatchPart {
  segment::Loops loops;  ///< offsets count from the windows
  std::map<ir::NodeId, Window>
      windows;  ///< of every value that is read or stored; none crosses from one buffer into the next
};

/// A value larger than the device allocates at once lies in buffers of so many bytes each, the last one excepted: whole
/// rows of its outermost axes, a multiple of 256 bytes where that is possible. 0: in one buffer.
std::int64_t bytes_of_each_buffer(std::int64_t element_bytes, std::span<const std::int64_t> sizes,
                                  std::uint64_t max_allocation);

/// The pieces as which loops run that touch a value over storage_range or max_allocation: each binds windows that the
/// device has. Nothing where no value is that large. One error that names the value and the limit where the loops
/// cannot be cut.
Result<std::vector<DispatchPart>> split_dispatch(const ir::Graph& graph, const segment::Loops& loops,
                                                 const SymbolValues& symbols, const Target& target);

}  // namespace vkfuse::schedule
