// Factors of fewer bits than a register, for cooperative matrices and dot products of bytes: as words of several
// elements, where bytes that lie across in memory are turned in flight to shared memory.
#include <cstring>

#include "lowering/tile_operands.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::lowering {

using index::Expr;

void OperandEmitter::make_sub32(TileOperand& tile_operand, std::optional<DType> unit, bool integer_dot) const {
  tile_operand.unit = unit;
  tile_operand.integer_dot = integer_dot;
  // Units of bytes want what they add up side by side.
  tile_operand.turned = unit && size_of(*unit) == 1 && !tile_operand.along_k();
  if (tile_operand.steps() > 1) {
    const auto words = schedule::ceil_div(tile_operand.part.elements, 4) * tile_operand.steps();
    tile_operand.units /= tile_operand.steps();
    tile_operand.iterations = schedule::ceil_div(tile_operand.units, schedule_.workgroup);
    // Turning them wants as many registers again.
    tile_operand.prefetched = tile_operand.prefetched && !schedule::has_few_registers(target_) &&
                              schedule::is_double_buffered(static_cast<int>(words), tile_operand.iterations);
    unroll_where_it_pays(tile_operand);
  }
  // Only casts that lose nothing stand between the operand and the value that is narrow.
  const ValueId id = schedule::sub32_value(graph_, loops_, tile_operand.value);
  const std::vector<ValueId>& vectors = tile_operand.part.vectors;
  const bool alone = vectors.size() == 1 && vectors.front() == id && loops_.values[id].kind == Value::Kind::load &&
                     !is_unaligned(id) && tile_operand.beside.empty();
  if (alone && dtype_of(loops_.values[id]) == (integer_dot ? DType::i8 : *unit) && tile_operand.part.elements > 1)
    tile_operand.as_read = id;
  tile_operand.copied = !tile_operand.as_read && unit && size_of(*unit) == 2 && tile_operand.part.elements % 2 == 0 &&
                        tile_operand.beside.empty() && tile_operand.of_rows.empty() && is_copied(id, *unit);
}

bool OperandEmitter::is_copied(ValueId id, DType unit) const {
  const Value& value = loops_.values[id];
  if (dtype_of(value) != unit || !value.data.empty()) return false;
  if (is_literal(id))
    return std::holds_alternative<ir::ConstantPayload>(graph_.node(value.node).payload);  // not a reduction's identity
  if (value.kind == Value::Kind::load)
    return schedule_.loads[id].repeat == 1 &&
           (schedule_.loads[id].kind == schedule::AccessKind::vector || is_unaligned(id));
  return value.kind == Value::Kind::choose && is_copied(value.operands[0], unit) && is_copied(value.operands[1], unit);
}

std::vector<std::string> OperandEmitter::copied_words(const TileOperand& tile_operand, Scope& scope, ValueId id) {
  const Value& value = loops_.values[id];
  const auto count = static_cast<std::size_t>(tile_operand.part.elements / 2);
  if (is_literal(id)) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, std::get<ir::ConstantPayload>(graph_.node(value.node).payload).bytes->data(), sizeof bits);
    return std::vector<std::string>(count, bits == 0 ? "0u" : fmt::format("0x{:08x}u", bits * 0x10001u));
  }
  std::vector<std::string> words;
  const std::string in_flight = tile_operand.prefetched ? register_index(tile_operand) : "";
  for (std::size_t w = 0; value.kind == Value::Kind::load && w < count; ++w) {
    if (!is_unaligned(id)) {
      words.push_back(word_as_read(tile_operand, id, static_cast<int>(w)));
      continue;
    }
    words.push_back(fmt::format("{}_{}", value_names_[id], w));
    main_.line("uint {} = {};", words.back(), unaligned_word(id, static_cast<int>(w), in_flight));
  }
  if (value.kind == Value::Kind::load) return words;

  const std::vector<std::string> yes = copied_words(tile_operand, scope, value.operands[0]),
                                 no = copied_words(tile_operand, scope, value.operands[1]);
  // What is the same for all elements of a chunk is asked once, and what follows from the sizes never.
  std::map<index::AxisId, Expr> of_chunk = scope.axes;
  scope.axes.clear();
  set_axes(scope, tile_operand.part, true);
  std::vector<segment::Predicate> alike, own;
  const auto differs = [&](const segment::Predicate::Range& range) {
    const Expr at = in_scope(scope, range.value);
    if (!index::depends_on(at, kElement)) return false;
    const std::int64_t elements = tile_operand.part.elements;
    const bool within = index::stride_of(at, kElement) == 1 &&
                        index::alignment_of(at - Expr::axis(kElement, elements), elements) >= elements &&
                        range.size % elements == 0;
    return !within;  // a chunk lies on one side, as where tensors of whole chunks are put side by side
  };
  for (const segment::Predicate& predicate : value.predicates) {
    if (predicate.negated) {  // of a conjunction that must not hold no part can be asked alone
      (std::any_of(predicate.ranges.begin(), predicate.ranges.end(), differs) ? own : alike).push_back(predicate);
      continue;
    }
    segment::Predicate same, each;
    for (const segment::Predicate::Range& range : predicate.ranges)
      (differs(range) ? each : same).ranges.push_back(range);
    if (!same.ranges.empty()) alike.push_back(std::move(same));
    if (!each.ranges.empty()) own.push_back(std::move(each));
  }
  const std::map<index::AxisId, Expr> of_element = scope.axes;
  const auto go_to = [&](std::size_t element) {
    for (auto& [axis, expr] : scope.axes)
      expr = index::substitute(of_element.at(axis), {{kElement, Expr(static_cast<std::int64_t>(element))}});
  };
  go_to(0);
  std::string inside = condition(scope, alike);
  if (inside != "true") {
    const std::string name = value_names_[id] + "_inside";
    main_.line("bool {} = {};", name, inside);
    inside = name;
  }
  const auto holds = [&](std::size_t element) {
    go_to(element);
    const std::string here = condition(scope, own);
    return here == "true" ? inside : inside == "true" ? here : inside + " && " + here;
  };
  for (std::size_t w = 0; w < count; ++w) {
    const std::string low = holds(2 * w), high = holds(2 * w + 1);
    if (low == high && low == "true") {
      words.push_back(yes[w]);
      continue;
    }
    words.push_back(fmt::format("{}_{}", value_names_[id], w));
    if (low == high) {
      main_.line("uint {} = {} ? {} : {};", words.back(), low, yes[w], no[w]);
      continue;
    }
    const auto half = [&](const std::string& condition, const char* mask) {
      const auto masked = [&](const std::string& word) {
        return word == "0u" ? word : fmt::format("{} & {}", word, mask);
      };
      return condition == "true" ? fmt::format("({})", masked(yes[w]))
                                 : fmt::format("({} ? {} : {})", condition, masked(yes[w]), masked(no[w]));
    };
    main_.line("uint {} = {} | {};", words.back(), half(low, "0xffffu"), half(high, "0xffff0000u"));
  }
  scope.axes = std::move(of_chunk);
  return words;
}

std::vector<std::string> OperandEmitter::sub32_words(const TileOperand& tile_operand, Scope& scope, DType narrow) {
  std::vector<std::string> words;
  if (tile_operand.as_read) {
    for (int v = 0; v < vectors_of(*tile_operand.as_read); ++v)
      words.push_back(raw_name(*tile_operand.as_read, v) +
                      (tile_operand.prefetched ? register_index(tile_operand) : ""));
    return words;
  }
  if (tile_operand.copied)
    return copied_words(tile_operand, scope, schedule::sub32_value(graph_, loops_, tile_operand.value));
  const ops::RegisterType from = ops::register_type_of(dtype_of(loops_.values[tile_operand.value]));
  const ops::RegisterType to = ops::register_type_of(narrow);
  for (int g = 0; g < groups_; ++g) {
    std::string value = tile_operand_group(tile_operand, scope, g);
    if (group_ == 1) return {fmt::format("{}({})", component(narrow), value)};
    if (from != to) {  // a cast that loses nothing is taken back
      main_.line("{0} {1}_narrow = {0}({1});", group_type(to, group_, dialect_), value);
      value += "_narrow";
    }
    const std::vector<std::string> packed = pack(narrow, group_, value, dialect_);
    words.insert(words.end(), packed.begin(), packed.end());
  }
  return words;
}

std::string OperandEmitter::word_as_read(const TileOperand& tile_operand, ValueId load, int word) const {
  const int per = schedule_.loads[load].vector_bytes / 4;
  const std::string vector = raw_name(load, word / per) + (tile_operand.prefetched ? register_index(tile_operand) : "");
  return per == 1 ? vector : fmt::format("{}.{}", vector, "xyzw"[word % per]);
}

/// A thread's chunk in words of four neighbours in depth: as it is read where they lie side by side, else of four
/// chunks.
void OperandEmitter::put_integer_dots(const TileOperand& tile_operand, Scope& scope, const std::string& inside) {
  const int elements = tile_operand.part.elements;
  const std::vector<std::string> words = sub32_words(tile_operand, scope, DType::i8);
  std::vector<std::string> single = words;  // of four bytes
  for (int g = 0; tile_operand.as_read && g < elements / 4; ++g) {
    if (g == 0) single.clear();
    single.push_back(word_as_read(tile_operand, *tile_operand.as_read, g));
  }
  for (std::size_t g = 0; g < single.size(); ++g) {
    const std::string column = single.size() == 1 ? "column" : fmt::format("(column * {}u + {}u)", single.size(), g);
    const std::string word = fmt::format("int({})", single[g]);
    main_.line("{}[{} * {}u + row / 4u][row % 4u] = {};", tile_operand.tile, column, tile_operand.stride(),
               inside.empty() ? word : fmt::format("{} ? {} : 0", inside, word));
  }
}

void OperandEmitter::open_steps(const TileOperand& tile_operand, const std::string& depth, std::string* inside) {
  const Counted& owns_k = counted(tile_operand.depth);
  const Extent all = extent(owns_k.axes);
  const std::string position =
      fmt::format("{}column * {}u + d", depth.empty() ? "" : fmt::format("{} * {}u + ", depth, tile_operand.k_extent),
                  tile_operand.steps());
  main_.open("[[unroll]] for (uint d = 0u; d < {}u; ++d) {{", tile_operand.steps());
  main_.line("uint {} = {};", owns_k.name, limited(position, all, tile_operand.k_extent));
  if (inside != nullptr && !divides(tile_operand.k_extent, all))
    *inside = fmt::format("{} < {}", position, numbers_.size(all.count));
}

/// Chunks that lie across, four neighbours in depth one after the other: a word for each position across.
Result<void> OperandEmitter::gather_steps(const TileOperand& tile_operand, const std::string& depth) {
  for (int g = 0; g < groups_; ++g) main_.line("ivec4 words_{} = ivec4(0);", g);
  std::string inside;
  open_steps(tile_operand, depth, &inside);
  Scope scope = part_scope(tile_operand.part);
  if (tile_operand.prefetched) {
    for (ValueId id : loads_of_chunks(tile_operand.part))
      scope.names[id] = value_names_[id] + "_ahead" + register_index(tile_operand);
  }
  for (ValueId id : tile_operand.part.per_chunk) {
    if (scope.names.count(id) == 0) VKF_CHECK_OK(emit_value(scope, id));
  }
  if (!tile_operand.prefetched) {
    for (ValueId id : tile_operand.part.vectors) load_vectors(scope, id, "");
  }
  const bool integers = ops::register_type_of(dtype_of(loops_.values[tile_operand.value])) == ops::RegisterType::i32;
  for (int g = 0; g < groups_; ++g) {
    std::string value;
    if (tile_operand.as_read) {
      value = fmt::format("ivec4(u8x4_values({}))", word_as_read(tile_operand, *tile_operand.as_read, g));
    } else {
      value = tile_operand_group(tile_operand, scope, g);
      value = fmt::format("({} & 0xff)", integers ? value : "ivec4(" + value + ")");
    }
    main_.line("{}words_{} |= {} << (d * 8u);", inside.empty() ? "" : "if (" + inside + ") ", g, value);
  }
  main_.close();
  const int elements = tile_operand.part.elements;
  for (int g = 0; g < groups_; ++g) {
    if (tile_operand.integer_dot) {
      main_.line("{}[column * {}u + row{}] = words_{};", tile_operand.tile, tile_operand.stride(),
                 elements == 4 ? std::string() : fmt::format(" * {}u + {}u", elements / 4, g), g);
      continue;
    }
    for (int e = 0; e < 4; ++e) {
      main_.line("{}[{}(row * {}u + {}u) * {}u + column] = uint(words_{}.{});", tile_operand.tile,
                 tile_operand.begin > 0 ? fmt::format("{}u + ", tile_operand.begin) : "", elements, 4 * g + e,
                 tile_operand.row_words(), g, "xyzw"[e]);
    }
  }
  return {};
}

}  // namespace vkfuse::lowering
