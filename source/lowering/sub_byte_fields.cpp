#include "lowering/sub_byte_fields.hpp"

#include <algorithm>
#include <bit>

namespace vkfuse::lowering {

namespace {

/// Where the float of each of a chunk's elements comes from; nothing where that is not the same for all chunks.
std::vector<SubByteElement> elements_of(const SubByteInput& in, const schedule::SubByteField& field) {
  const int repeat = in.schedule.loads[field.load].repeat;
  std::vector<SubByteElement> elements;
  int lowest = 32;  // that is among the bits of the exponent
  for (int e = 0; e < in.elements; ++e) {
    const auto in_chunk = [&](const index::Expr& offset) -> std::optional<std::int64_t> {
      const index::Expr at = index::substitute(index::substitute(offset, in.axes), {{in.element_axis, index::Expr(e)}});
      return at.is_constant() ? std::optional(at.constant()) : std::nullopt;
    };
    const auto shift = field.shift ? schedule::number_at(in.graph, in.loops, *field.shift, in_chunk) : 0;
    const std::uint32_t mask = shift && *shift >= 0 && *shift < 8 ? field.mask & (0xffU >> *shift) : 0;
    if (mask == 0) return {};
    elements.push_back({e / repeat / 4, e / repeat % 4 * 8 + static_cast<int>(*shift), 0, mask});
    if (elements.back().place + std::bit_width(mask | field.flip) > kFractionBits)
      lowest = std::min(lowest, elements.back().place);
  }
  for (SubByteElement& element : elements) {
    if (element.place < lowest) continue;
    element.down = lowest;
    element.place -= lowest;
  }
  return elements;
}

}  // namespace

UnpackedFields find_sub_byte_fields(const SubByteInput& in) {
  UnpackedFields fields;
  for (segment::ValueId id = 0; id < in.loops.values.size(); ++id) {
    if (!in.loops.per_element(in.loops.values[id])) continue;
    const auto bits = schedule::sub_byte_number_of(in.graph, in.loops, id);
    if (!bits || in.schedule.loads[bits->load].kind != schedule::AccessKind::vector) continue;
    if (bits->mask == 0xff && !bits->shift)
      continue;  // whole bytes have conversions of their own (int8 on an H200: 17 % faster)
    std::vector<SubByteElement> elements = elements_of(in, *bits);
    if (!elements.empty()) fields[id] = {*bits, std::move(elements)};
  }
  return fields;
}

}  // namespace vkfuse::lowering
