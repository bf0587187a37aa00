// A pass over the loops of a kernel: which floats are made from some bits of a loaded byte, and where in the words of a
// chunk each of them is. Emitter's sub_byte.cpp writes them.
#pragma once

#include <map>
#include <vector>

#include "schedule/sub_byte.hpp"

namespace vkfuse::lowering {

/// One of a chunk's.
struct SubByteElement {
  int word = 0;   ///< of the chunk's
  int place = 0;  ///< of its lowest bit, once the word is shifted
  int down = 0;   ///< by so many bits: beyond bit 22 are those of an exponent
  std::uint32_t mask = 0;
};

struct UnpackedField : schedule::SubByteField {
  std::vector<SubByteElement> elements;  ///< of a chunk
};
/// By the float that each of them is.
using UnpackedFields = std::map<segment::ValueId, UnpackedField>;

struct SubByteInput {
  const ir::Graph& graph;
  const segment::Loops& loops;
  const schedule::Schedule& schedule;                ///< the fields of its loads that are vectors are found
  int elements;                                      ///< of a chunk
  const std::map<index::AxisId, index::Expr>& axes;  ///< loop axes of an element of a chunk
  index::AxisId element_axis;                        ///< that counts the elements of a chunk
};

/// Bits of an f32 below its leading one.
inline constexpr int kFractionBits = 23;

UnpackedFields find_sub_byte_fields(const SubByteInput& in);

}  // namespace vkfuse::lowering
