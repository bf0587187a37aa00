// Operands of fewer bits than a register, for cooperative matrices and integer dot products: as 32-bit words of several
// elements, where bytes that lie across in memory are turned on their way to shared memory.
#include <algorithm>
#include <cstring>

#include "lowering/tile_operands.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::lowering {

using index::Expr;

namespace {

/// One 16-bit element of `yes` where its condition holds, else of `no`; the other half of the word is zero.
Code chosen_half(const Code& condition, const char* mask, const Code& yes, const Code& no) {
  const auto masked = [&](const Code& word) { return word.is_zero() ? word : code("{} & {}", word, mask); };
  return condition.is_always() ? code("({})", masked(yes)) : code("({} ? {} : {})", condition, masked(yes), masked(no));
}

/// What a conjunction asks of an element of a chunk: positions, and sizes that they are below.
std::vector<std::pair<Expr, std::int64_t>> asked_at(const std::vector<segment::Predicate>& conjunction,
                                                    const std::map<index::AxisId, Expr>& axes, std::size_t element) {
  std::vector<std::pair<Expr, std::int64_t>> asked;
  for (const segment::Predicate& predicate : conjunction) {
    for (const segment::Predicate::Range& range : predicate.ranges) {
      const Expr at = index::substitute(index::substitute(range.value, axes),
                                        {{kElement, Expr(static_cast<std::int64_t>(element))}});
      if (!always_inside(at, range.size)) asked.emplace_back(at, range.size);
    }
  }
  return asked;
}

/// The two elements of a word, of which each has a condition.
Code chosen_word(const Code& low, const Code& high, bool alike, const Code& yes, const Code& no) {
  if (alike) return code("{} ? {} : {}", low, yes, no);
  return code("{} | {}", chosen_half(low, "0xffffu", yes, no), chosen_half(high, "0xffff0000u", yes, no));
}

}  // namespace

bool OperandEmitter::is_loaded_alone(const TileOperand& tile_operand, ValueId load) const {
  const std::vector<ValueId>& vectors = tile_operand.part.vectors;
  return vectors.size() == 1 && vectors.front() == load && loops_.values[load].kind == Value::Kind::load &&
         !is_unaligned(load) && schedule_.loads[load].repeat == 1 && tile_operand.beside.empty();
}

/// Chunks of neighbouring positions along k are brought by one thread, which turns them.
void OperandEmitter::join_steps(TileOperand& tile_operand) const {
  TileOperand::Staging& staging = tile_operand.staging;
  const auto words = schedule::ceil_div(tile_operand.part.elements, 4) * tile_operand.steps();
  staging.chunks /= tile_operand.steps();
  staging.iterations = schedule::ceil_div(staging.chunks, schedule_.workgroup);
  // Turning them wants as many registers again.
  staging.prefetched = staging.prefetched && !schedule::has_few_registers(target_) &&
                       schedule::is_double_buffered(static_cast<int>(words), staging.iterations);
  unroll_where_it_pays(tile_operand);
}

void OperandEmitter::make_sub32(TileOperand& tile_operand, std::optional<DType> component, bool integer_dot) const {
  TileOperand::Encoding& encoding = tile_operand.encoding;
  encoding.component = component;
  encoding.integer_dot = integer_dot;
  // Cooperative matrices of bytes want what they add up side by side.
  encoding.turned = component && size_of(*component) == 1 && !tile_operand.along_k();
  const int elements = tile_operand.part.elements;
  if (tile_operand.steps() > 1) join_steps(tile_operand);
  // Between this value and the operand are only casts that lose nothing.
  const ValueId id = schedule::sub32_value(graph_, loops_, tile_operand.value);
  if (elements > 1 && is_loaded_alone(tile_operand, id) &&
      dtype_of(loops_.values[id]) == (integer_dot ? DType::i8 : *component))
    encoding.as_read = id;
  const bool copies = component && size_of(*component) == 2 && elements % 2 == 0 && is_copied(id, *component);
  encoding.copied = !encoding.as_read && copies && tile_operand.beside.empty() && tile_operand.of_rows.empty();
}

bool OperandEmitter::is_copied(ValueId id, DType component) const {
  const Value& value = loops_.values[id];
  if (dtype_of(value) != component || !value.data.empty()) return false;
  if (is_literal(id))
    return std::holds_alternative<ir::ConstantPayload>(graph_.node(value.node).payload);  // not a reduction's identity
  if (value.kind == Value::Kind::load)
    return schedule_.loads[id].repeat == 1 &&
           (schedule_.loads[id].kind == schedule::AccessKind::vector || is_unaligned(id));
  return value.kind == Value::Kind::choose && is_copied(value.operands[0], component) &&
         is_copied(value.operands[1], component);
}

std::vector<Code> OperandEmitter::literal_words(const TileOperand& tile_operand, ValueId literal) const {
  std::uint16_t bits = 0;
  const ir::Node& node = graph_.node(loops_.values[literal].node);
  std::memcpy(&bits, std::get<ir::ConstantPayload>(node.payload).bytes->data(), sizeof bits);
  return std::vector<Code>(static_cast<std::size_t>(tile_operand.part.elements / 2),
                           bits == 0 ? Code::zero() : code("0x{:08x}u", bits * 0x10001u));
}

std::vector<Code> OperandEmitter::loaded_words(const TileOperand& tile_operand, ValueId load) {
  std::vector<Code> words;
  const Code in_flight = index_of(tile_operand, load);
  for (int w = 0; w < tile_operand.part.elements / 2; ++w) {
    if (!is_unaligned(load)) {
      words.push_back(word_as_read(tile_operand, load, w));
      continue;
    }
    words.push_back(code("{}_{}", names_.values[load], w));
    main_.line("uint {} = {};", words.back(), unaligned_word(load, w, in_flight));
  }
  return words;
}

OperandEmitter::ChunkPredicates OperandEmitter::split_predicates(const Scope& scope, const Value& choice,
                                                                 int elements) const {
  const auto differs = [&](const segment::Predicate::Range& range) {
    const Expr at = in_scope(scope, range.value);
    if (!index::depends_on(at, kElement)) return false;
    const bool within = index::stride_of(at, kElement) == 1 &&
                        index::alignment_of(at - Expr::axis(kElement, elements), elements) >= elements &&
                        range.size % elements == 0;
    return !within;  // a chunk lies on one side, as where tensors of whole chunks are put side by side
  };
  ChunkPredicates split;
  for (const segment::Predicate& predicate : choice.predicates) {
    if (predicate.negated) {  // of a conjunction that must not hold no part can be asked alone
      const bool own = std::any_of(predicate.ranges.begin(), predicate.ranges.end(), differs);
      (own ? split.of_element : split.of_chunk).push_back(predicate);
      continue;
    }
    segment::Predicate same, each;
    for (const segment::Predicate::Range& range : predicate.ranges)
      (differs(range) ? each : same).ranges.push_back(range);
    if (!same.ranges.empty()) split.of_chunk.push_back(std::move(same));
    if (!each.ranges.empty()) split.of_element.push_back(std::move(each));
  }
  return split;
}

/// What is the same for all elements of a chunk is asked once, and what follows from the sizes never.
std::vector<Code> OperandEmitter::chosen_words(const TileOperand& tile_operand, Scope& scope, ValueId choice) {
  const Value& value = loops_.values[choice];
  const std::vector<Code> yes = copied_words(tile_operand, scope, value.operands[0]),
                          no = copied_words(tile_operand, scope, value.operands[1]);
  std::map<index::AxisId, Expr> of_chunk = scope.axes;
  scope.axes.clear();
  set_axes(scope, tile_operand.part, true);
  const ChunkPredicates predicates = split_predicates(scope, value, tile_operand.part.elements);
  const std::map<index::AxisId, Expr> of_element = scope.axes;
  const auto condition_at = [&](std::size_t element, const std::vector<segment::Predicate>& conjunction) {
    for (auto& [axis, expr] : scope.axes)
      expr = index::substitute(of_element.at(axis), {{kElement, Expr(static_cast<std::int64_t>(element))}});
    return condition(scope, conjunction);
  };
  Code inside = condition_at(0, predicates.of_chunk);
  if (!inside.is_always()) {
    const Code name = names_.values[choice] + "_inside";
    main_.line("bool {} = {};", name, inside);
    inside = name;
  }
  const auto holds = [&](std::size_t element) {
    const Code here = condition_at(element, predicates.of_element);
    return here.is_always() ? inside : inside.is_always() ? here : inside + " && " + here;
  };
  std::vector<Code> words;
  for (std::size_t w = 0; w < yes.size(); ++w) {
    const Code low = holds(2 * w), high = holds(2 * w + 1);
    const bool alike =
        asked_at(predicates.of_element, of_element, 2 * w) == asked_at(predicates.of_element, of_element, 2 * w + 1);
    if (low.is_always() && high.is_always()) {
      words.push_back(yes[w]);
      continue;
    }
    words.push_back(code("{}_{}", names_.values[choice], w));
    main_.line("uint {} = {};", words.back(), chosen_word(low, high, alike, yes[w], no[w]));
  }
  scope.axes = std::move(of_chunk);
  return words;
}

std::vector<Code> OperandEmitter::copied_words(const TileOperand& tile_operand, Scope& scope, ValueId id) {
  if (is_literal(id)) return literal_words(tile_operand, id);
  if (loops_.values[id].kind == Value::Kind::load) return loaded_words(tile_operand, id);
  return chosen_words(tile_operand, scope, id);
}

std::vector<Code> OperandEmitter::sub32_words(const TileOperand& tile_operand, Scope& scope, DType dtype) {
  std::vector<Code> words;
  if (tile_operand.encoding.as_read) {
    for (int v = 0; v < vectors_of(*tile_operand.encoding.as_read); ++v)
      words.push_back(raw_name(*tile_operand.encoding.as_read, v) +
                      index_of(tile_operand, *tile_operand.encoding.as_read));
    return words;
  }
  if (tile_operand.encoding.copied)
    return copied_words(tile_operand, scope, schedule::sub32_value(graph_, loops_, tile_operand.value));
  const ops::RegisterType from = ops::register_type_of(dtype_of(loops_.values[tile_operand.value]));
  const ops::RegisterType to = ops::register_type_of(dtype);
  for (int g = 0; g < chunk_.groups; ++g) {
    Code value = tile_operand_group(tile_operand, scope, g);
    if (chunk_.group == 1) return {code("{}({})", component(dtype), value)};
    if (from != to) {  // a cast that loses nothing is taken back
      main_.line("{0} {1}_narrow = {0}({1});", group_type(to, chunk_.group, dialect_), value);
      value += "_narrow";
    }
    const std::vector<Code> packed = pack(dtype, chunk_.group, value, dialect_);
    words.insert(words.end(), packed.begin(), packed.end());
  }
  return words;
}

/// Of four bits, eight of which are a word in their order.
std::optional<OperandEmitter::TileOperand::NumberPairs> OperandEmitter::pairs_of_field(ValueId id,
                                                                                       const UnpackedField& field) {
  constexpr std::int64_t kMostOffset = 64;  // the power of 2 and it are a number of f16
  if (std::abs(field.offset) > kMostOffset || field.flip > 15) return std::nullopt;
  for (std::size_t e = 0; e < field.elements.size(); ++e) {
    const SubByteElement& element = field.elements[e];
    if (element.word != static_cast<int>(e / 8) || element.place + element.down != static_cast<int>(e % 8 * 4) ||
        element.mask != 15)
      return std::nullopt;
  }
  return TileOperand::NumberPairs{id, field.load, 4, field.flip, field.offset, std::nullopt};
}

/// Of whole bytes, signed or not.
std::optional<OperandEmitter::TileOperand::NumberPairs> OperandEmitter::pairs_of_bytes(ValueId id) const {
  constexpr std::int64_t kMostOffset = 128;
  const auto bytes = schedule::sub_byte_number_of(graph_, loops_, id);
  if (bytes) {
    const bool fits = !bytes->shift && bytes->mask == 0xff && bytes->flip <= 0xff &&
                      std::abs(bytes->offset) <= kMostOffset && dtype_of(loops_.values[bytes->load]) == DType::u8;
    return fits ? std::optional(TileOperand::NumberPairs{id, bytes->load, 8, bytes->flip, bytes->offset, std::nullopt})
                : std::nullopt;
  }
  const Value& cast = loops_.values[id];
  if (cast.kind != Value::Kind::compute || ops::element_row(*graph_.node(cast.node).op).name != "cast")
    return std::nullopt;
  const Value& load = loops_.values[cast.operands[0]];
  if (load.kind != Value::Kind::load || dtype_of(load) != DType::i8) return std::nullopt;
  return TileOperand::NumberPairs{id, cast.operands[0], 8, 0x80, -128, std::nullopt};
}

std::optional<OperandEmitter::TileOperand::NumberPairs> OperandEmitter::pairs_of_number(const Part& part,
                                                                                        ValueId id) const {
  const auto field = part.fields.find(id);
  auto pairs = field != part.fields.end() ? pairs_of_field(id, field->second) : pairs_of_bytes(id);
  if (!pairs || dtype_of(loops_.values[id]) != DType::f16) return std::nullopt;
  const schedule::AccessPlan& load = schedule_.loads[pairs->load];
  const bool has_words = load.kind == schedule::AccessKind::vector && load.vector_bytes >= 4 &&
                         load.repeat == (pairs->bits == 4 ? 2 : 1) && loops_.values[pairs->load].predicates.empty();
  return has_words ? pairs : std::nullopt;
}

std::optional<OperandEmitter::TileOperand::NumberPairs> OperandEmitter::number_pairs_of(
    const TileOperand& tile_operand) const {
  const Part& part = tile_operand.part;
  if (auto pairs = pairs_of_number(part, tile_operand.value)) return pairs;
  const Value& product = loops_.values[tile_operand.value];
  // f16 may be rounded either way when they are multiplied; floats that become f16 are rounded as they should be.
  const bool may_scale = options_.numerics != Numerics::strict && product.kind == Value::Kind::compute &&
                         ops::element_row(*graph_.node(product.node).op).name == "mul";
  if (!may_scale) return std::nullopt;
  for (const std::size_t side : {0u, 1u}) {
    const ValueId scale = product.operands[1 - side];
    const bool of_chunk = is_literal(scale) || std::ranges::find(part.per_chunk, scale) != part.per_chunk.end();
    if (!of_chunk || dtype_of(loops_.values[scale]) != DType::f16) continue;
    if (auto pairs = pairs_of_number(part, product.operands[side])) {
      pairs->scale = scale;
      return pairs;
    }
  }
  return std::nullopt;
}

void OperandEmitter::write_pairs(const TileOperand& tile_operand) {
  const TileOperand::NumberPairs& pairs = *tile_operand.encoding.pairs;
  main_.line("// Powers of 2, and what of the numbers is flipped.");
  for (int place = 0; place < 8; place += pairs.bits)
    main_.line("uint {}_power_{} = 0x{:08x}u + {};", tile_operand.tile, place,
               (0x6400u | pairs.flip << place) * 0x10001u, nan_.barrier);
}

/// Two numbers at a time become f16 among the low bits of a power of 2, which is then taken away: exact, and no
/// conversion. The driver is not to know the power, as of other numbers of a few bits (sub_byte.cpp).
std::vector<Code> OperandEmitter::words_of_pairs(const TileOperand& tile_operand, Scope& scope) {
  const TileOperand::NumberPairs& pairs = *tile_operand.encoding.pairs;
  Code scale;
  if (pairs.scale) {
    scale = " * " + tile_operand.part.name + "_scale";
    main_.line("f16vec2 {}_scale = f16vec2({});", tile_operand.part.name, use(scope, *pairs.scale));
  }
  std::vector<Code> words;
  const std::uint32_t mask = (1u << pairs.bits) - 1;
  for (int w = 0; w < tile_operand.part.elements * pairs.bits / 32; ++w) {
    const Code word = word_as_read(tile_operand, pairs.load, w);
    for (int first = 0; first < 16; first += pairs.bits) {
      const int place = first % 8;
      const Code bits = code("unpackFloat2x16(({}{} & 0x{:08x}u) ^ {}_power_{})", word, first < 8 ? "" : " >> 8u",
                             (mask << place) * 0x10001u, tile_operand.tile, place);
      const std::int64_t power = place == 0 ? 1024 : 64;
      const Code number =
          code("fma({}, f16vec2({}hf), f16vec2({}.0hf))", bits, place == 0 ? "1.0" : "0.0625", pairs.offset - power);
      words.push_back(code("packFloat2x16({}{})", number, scale));
    }
  }
  return words;
}

Result<std::vector<Code>> OperandEmitter::words_of_chunk(const TileOperand& tile_operand) {
  Scope scope = part_scope(tile_operand.part);
  VKF_CHECK_OK(load_staged_chunk(tile_operand, scope));
  if (tile_operand.encoding.pairs) return words_of_pairs(tile_operand, scope);
  if (!tile_operand.encoding.as_read) return sub32_words(tile_operand, scope, *tile_operand.encoding.component);
  std::vector<Code> words;
  for (int w = 0; w < tile_operand.part.elements / 2; ++w)
    words.push_back(word_as_read(tile_operand, *tile_operand.encoding.as_read, w));
  return words;
}

Code OperandEmitter::word_as_read(const TileOperand& tile_operand, ValueId load, int word) const {
  const int per = schedule_.loads[load].vector_bytes / 4;
  const Code vector = raw_name(load, word / per) + index_of(tile_operand, load);
  return per == 1 ? vector : code("{}.{}", vector, "xyzw"[word % per]);
}

/// A thread's chunk in words of four neighbours along k: as it is read where they lie side by side, else of four
/// chunks.
void OperandEmitter::put_integer_dots(const TileOperand& tile_operand, Scope& scope, const Code& inside) {
  const int elements = tile_operand.part.elements;
  const std::vector<Code> words = sub32_words(tile_operand, scope, DType::i8);
  std::vector<Code> single = words;  // of four bytes
  for (int g = 0; tile_operand.encoding.as_read && g < elements / 4; ++g) {
    if (g == 0) single.clear();
    single.push_back(word_as_read(tile_operand, *tile_operand.encoding.as_read, g));
  }
  for (std::size_t g = 0; g < single.size(); ++g) {
    const Code column = single.size() == 1 ? "column" : code("(column * {}u + {}u)", single.size(), g);
    const Code word = code("int({})", single[g]);
    main_.line("{}[{} * {}u + row / 4u][row % 4u] = {};", tile_operand.tile, column, tile_operand.stride(),
               inside.empty() ? word : code("{} ? {} : 0", inside, word));
  }
}

void OperandEmitter::open_steps(const TileOperand& tile_operand, const Code& depth, Code* inside) {
  const Counted& owns_k = counted(tile_operand.depth);
  const Extent all = extent(owns_k.axes);
  const Code position =
      code("{}column * {}u + d", depth.empty() ? "" : code("{} * {}u + ", depth, tile_operand.k_extent),
           tile_operand.steps());
  main_.open_unrolled("d", tile_operand.steps());
  main_.line("uint {} = {};", owns_k.name, limited(position, all, tile_operand.k_extent));
  if (inside != nullptr && !divides(tile_operand.k_extent, all))
    *inside = code("{} < {}", position, numbers_.size(all.count));
}

/// A word for each position across.
void OperandEmitter::put_gathered(const TileOperand& tile_operand) {
  const int elements = tile_operand.part.elements;
  for (int g = 0; g < chunk_.groups; ++g) {
    if (tile_operand.encoding.integer_dot) {
      main_.line("{}[column * {}u + row{}] = words_{};", tile_operand.tile, tile_operand.stride(),
                 elements == 4 ? Code() : code(" * {}u + {}u", elements / 4, g), g);
      continue;
    }
    for (int e = 0; e < 4; ++e) {
      main_.line("{}[{}(row * {}u + {}u) * {}u + column] = uint(words_{}.{});", tile_operand.tile,
                 tile_operand.begin > 0 ? code("{}u + ", tile_operand.begin) : "", elements, 4 * g + e,
                 tile_operand.row_words(), g, "xyzw"[e]);
    }
  }
}

/// Chunks that lie across, four neighbours along k one after the other.
Result<void> OperandEmitter::gather_steps(const TileOperand& tile_operand, const Code& depth) {
  for (int g = 0; g < chunk_.groups; ++g) main_.line("ivec4 words_{} = ivec4(0);", g);
  Code inside;
  open_steps(tile_operand, depth, &inside);
  Scope scope = part_scope(tile_operand.part);
  VKF_CHECK_OK(load_staged_chunk(tile_operand, scope));
  const bool integers = ops::register_type_of(dtype_of(loops_.values[tile_operand.value])) == ops::RegisterType::i32;
  for (int g = 0; g < chunk_.groups; ++g) {
    Code value;
    if (tile_operand.encoding.as_read) {
      value = code("ivec4(u8x4_values({}))", word_as_read(tile_operand, *tile_operand.encoding.as_read, g));
    } else {
      value = tile_operand_group(tile_operand, scope, g);
      value = code("({} & 0xff)", integers ? value : "ivec4(" + value + ")");
    }
    main_.line("{}words_{} |= {} << (d * 8u);", inside.empty() ? "" : "if (" + inside + ") ", g, value);
  }
  main_.close();
  put_gathered(tile_operand);
  return {};
}

}  // namespace vkfuse::lowering
