// Whole numbers that are some bits of a loaded byte, found by structure.
#pragma once

#include <functional>

#include "ops/packed_code.hpp"
#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// ((byte >> shift) & mask ^ flip) + offset, of no more bits than its dtype has.
struct SubByteField {
  segment::ValueId load = 0;  ///< of u8
  std::uint32_t mask = 0xff, flip = 0;
  std::int64_t offset = 0;
  std::optional<segment::ValueId> shift;
};

/// What an integer of at most 32 bits is so; nothing where it is not, or may wrap on the way.
std::optional<SubByteField> sub_byte_field_of(const ir::Graph& graph, const segment::Loops& loops, segment::ValueId id);

/// Up to where a float's dtype holds all whole numbers; 0 for other dtypes.
std::int64_t most_whole(DType type);

/// What a float is so: such an integer as a float, and whole numbers that are added to it or taken from it there, all
/// of which its dtype holds exactly.
std::optional<SubByteField> sub_byte_number_of(const ir::Graph& graph, const segment::Loops& loops,
                                               segment::ValueId id);

/// Numbers that bytes of a load are, or their lower and upper four bits by turns.
struct PackedNumber {
  segment::ValueId load = 0;
  ops::PackedCode code;
  std::optional<segment::ValueId> shift;  ///< of codes of four bits
};

/// What a float is so: a whole number of four or eight bits, signed bytes too, or that of a float's code.
std::optional<PackedNumber> packed_number_of(const ir::Graph& graph, const segment::Loops& loops, segment::ValueId id);

/// What an integer is where positions are what `position` makes of them; nothing where that, or anything else it
/// depends on, is not known.
std::optional<std::int64_t> number_at(
    const ir::Graph& graph, const segment::Loops& loops, segment::ValueId id,
    const std::function<std::optional<std::int64_t>(const index::Expr& offset)>& position);

}  // namespace vkfuse::schedule
