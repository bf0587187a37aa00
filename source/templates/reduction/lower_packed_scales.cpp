// The scales of a cooperative-matrix GEMV: in flight beside the words of their K-slice, and in shared memory where
// fragments of them are loaded.
#include <algorithm>

#include "schedule/operands.hpp"
#include "templates/reduction/lower_emitter.hpp"

namespace vkfuse::lowering {

using schedule::PackedGemvTile;
using schedule::PackedMatrix;
using schedule::PackedWeights;

/// What a number of fragments is worth, as a factor.
Code ReductionEmitter::times_unit(const PackedGemvTile& packed) {
  const auto unit = static_cast<std::int64_t>(packed.code().unit());
  return unit == 1 ? Code() : code(" * {}.0", unit);
}

/// The one load that a scale is a function of, beside literals; nothing where it is something else.
std::optional<ValueId> ReductionEmitter::only_load_of(ValueId scale) const {
  std::optional<ValueId> only;
  for (const ValueId id : schedule::backward_slice_of(loops_, scale)) {
    const Value& value = loops_.values[id];
    if (value.kind == Value::Kind::load) {
      if (only || !value.data.empty() || size_of(dtype(value.node)) > 4) return std::nullopt;
      only = id;
    } else if (value.kind != Value::Kind::literal &&
               (value.kind != Value::Kind::compute ||
                std::holds_alternative<ir::CustomPayload>(graph_.node(value.node).payload))) {
      return std::nullopt;
    }
  }
  return only;
}

/// Whether two values are the same function of loads of one dtype.
bool ReductionEmitter::are_alike(ValueId a, ValueId b) const {
  const Value &first = loops_.values[a], &second = loops_.values[b];
  if (first.kind != second.kind || dtype(first.node) != dtype(second.node)) return false;
  if (first.kind == Value::Kind::load) return true;
  if (first.kind == Value::Kind::literal) {
    const auto number = schedule::number_of(graph_, first);
    return number && number == schedule::number_of(graph_, second);
  }
  const ir::Node &node = graph_.node(first.node), &other = graph_.node(second.node);
  if (node.op != other.op || first.operands.size() != second.operands.size()) return false;
  for (std::size_t i = 0; i < first.operands.size(); ++i) {
    if (!are_alike(first.operands[i], second.operands[i])) return false;
  }
  return true;
}

/// Whether scales are in flight as the 32-bit words that hold them, and become numbers only when these are there:
/// every sum has one function of one load.
bool ReductionEmitter::finds_scales_in_words(const PackedGemvTile& packed) const {
  return std::all_of(packed.sums.begin(), packed.sums.end(), [&](const PackedWeights& weights) {
    return std::all_of(weights.matrices.begin(), weights.matrices.end(), [&](const PackedMatrix& matrix) {
      return !matrix.scale || (only_load_of(*matrix.scale) && are_alike(*matrix.scale, *weights.first().scale));
    });
  });
}

/// The scales of a K-slice, of which a thread has some: those of a row side by side, as they lie in memory.
Result<void> ReductionEmitter::load_scales(const PackedGemvTile& packed, const PackedMatrix& matrix, const Code& first,
                                           const Code& k_slice) {
  if (!matrix.scale) return {};
  const int all = packed.scales_of_k_slice(), of_row = all / static_cast<int>(packed.mma.m);
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", schedule::ceil_div(all, schedule_.subgroup));
  main_.line("uint i = {};",
             all < schedule_.subgroup ? code("own_lane % {}u", all) : code("u * {}u + own_lane", schedule_.subgroup));
  const Code row = of_row == 1 ? "i" : code("i / {}u", of_row);
  main_.line("uint row = min({} + {}, {} - 1u);", first, row, rows_);
  main_.line("uint column = {} * {}u{};", k_slice, packed.k_slice,
             of_row == 1 ? Code() : code(" + i % {}u * {}u", of_row, packed.scale_columns / packed.code().per_chunk()));
  VKF_CHECK_OK(load_scale(packed, *matrix.scale, "column", "u"));
  main_.close();
  return {};
}

/// The scale of `row` and the chunk `column`, to the one of those in flight that has this index.
Result<void> ReductionEmitter::load_scale(const PackedGemvTile& packed, ValueId scale, const Code& column,
                                          const Code& index) {
  Scope scope;
  scope.out = &main_;
  scope.axis_names = {{kRow, "row"}, {kColumn, column}};
  set_parallel_axes(scope, false);
  set_reduction_axes(scope, false);
  if (finds_scales_in_words(packed)) {
    const ValueId load = *only_load_of(scale);
    const ir::NodeId node = loops_.values[load].node;
    const Code at = index_of_load(scope, load);
    const ElementInWord element = element_in_word(size_of(dtype(node)), names_.nodes.at(node), buffer_bytes(node), at);
    main_.line("next_scales[{}] = {};", index, element.word);
    main_.line("next_shifts[{}] = {};", index, element.shift.empty() ? Code("0u") : element.shift);
  } else {
    VKF_CHECK_OK(emit_backward_slice(scope, scale));
    main_.line("next_scales[{}] = {}{};", index, use(scope, scale), times_unit(packed));
  }
  return {};
}

/// A scale that was in flight, as a number.
Result<Code> ReductionEmitter::loaded_scale(const PackedGemvTile& packed, ValueId scale, const Code& index) {
  const Code number = code("next_scales[{}]", index);
  if (!finds_scales_in_words(packed)) return number;
  const ValueId load = *only_load_of(scale);
  const ir::NodeId node = loops_.values[load].node;
  const Code word = size_of(dtype(node)) == 4 ? number : code("{} >> next_shifts[{}]", number, index);
  Scope scope;
  scope.out = &main_;
  scope.names[load] = unique(names_.nodes.at(node) + "_e");
  main_.line("{} {} = {};", scalar_type(node), scope.names[load],
             decoded(load, lowest_element(dtype(node), word, dialect_)));
  VKF_CHECK_OK(emit_backward_slice(scope, scale));
  return code("{}{}", use(scope, scale), times_unit(packed));
}

/// The scales of a K-slice to shared memory, those of all rows side by side.
Result<void> ReductionEmitter::stage_scales(const PackedGemvTile& packed, ValueId scale) {
  const auto rows = static_cast<int>(packed.mma.m);
  const int all = packed.scales_of_k_slice(), of_row = all / rows;
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", schedule::ceil_div(all, schedule_.subgroup));
  main_.line("uint i = u * {}u + own_lane;", schedule_.subgroup);
  VKF_TRY(number, loaded_scale(packed, scale, "u"));
  main_.line("{}scales[own_scales + {}] = {};", all < schedule_.subgroup ? code("if (i < {}u) ", all) : Code(),
             of_row == 1 ? Code("i") : code("i % {}u * {}u + i / {}u", of_row, rows, of_row), number);
  main_.close();
  return {};
}

}  // namespace vkfuse::lowering
