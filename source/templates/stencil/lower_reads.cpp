// The stencil template: what is read of a window, as words of memory or one by one.
#include <algorithm>

#include "base/mutations.hpp"
#include "templates/stencil/lower_emitter.hpp"

namespace vkfuse::lowering {

using index::Expr;
using schedule::AccessKind;
using schedule::StencilRole;

namespace {

constexpr index::AxisId kRowPosition = 1 << 30, kChunkPosition = (1 << 30) + 1;

/// Whether a value chooses between a load and a number where its predicates hold.
bool is_padding(const segment::Loops& loops, const Value& value, ValueId load) {
  return value.kind == Value::Kind::choose && value.operands[0] == load &&
         loops.values[value.operands[1]].kind == Value::Kind::literal &&
         std::none_of(value.predicates.begin(), value.predicates.end(),
                      [](const segment::Predicate& predicate) { return predicate.negated; });
}

bool is_copy(const ir::Graph& graph, const Value& value) {
  return value.kind == Value::Kind::compute && graph.node(value.node).op->role == ops::Role::copy;
}

std::vector<ValueId> readers_of(const segment::Loops& loops, ValueId id) {
  std::vector<ValueId> readers;
  for (ValueId other = 0; other < loops.values.size(); ++other) {
    const std::vector<ValueId>& operands = loops.values[other].operands;
    if (std::find(operands.begin(), operands.end(), id) != operands.end()) readers.push_back(other);
  }
  return readers;
}

/// Whether all bytes of what a choice has in place of the load are 0.
bool is_padded_with_zeros(const ir::Graph& graph, const segment::Loops& loops, const Value& choice) {
  const ir::Node& literal = graph.node(loops.values[choice.operands[1]].node);
  const auto& bytes = *std::get<ir::ConstantPayload>(literal.payload).bytes;
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte one) { return one == std::byte{0}; });
}

}  // namespace

void StencilEmitter::find_reads() {
  for (ValueId id : values_of(StencilRole::window)) {
    if (loops_.values[id].kind != Value::Kind::load) continue;
    Read read{id, id, false, {}, false};
    ValueId last = id;  // of copies, the last one
    std::vector<ValueId> readers = readers_of(loops_, last);
    while (readers.size() == 1 && is_copy(graph_, loops_.values[readers[0]])) {
      last = readers[0];
      readers = readers_of(loops_, last);
    }
    if (readers.size() == 1 && is_padding(loops_, loops_.values[readers[0]], last)) {
      read.value = readers[0];
      read.is_padded = true;
    }
    read.along_chunk = !params_.along_window && varies_along_chunk(id);
    read.array = unique(names_.values[id] + "_row");
    reads_.push_back(std::move(read));
  }
}

segment::Predicate StencilEmitter::ranges_of(const Read& one, bool along_row) const {
  segment::Predicate all;
  if (!one.is_padded) return all;
  const index::AxisId row = schedule::kWindowAxis + static_cast<int>(params_.windows.size()) - 1;
  for (const segment::Predicate& predicate : loops_.values[one.value].predicates) {
    for (const segment::Predicate::Range& range : predicate.ranges) {
      if ((params_.along_window && index::depends_on(range.value, row)) == along_row) all.ranges.push_back(range);
    }
  }
  return all;
}

/// A select, no branch, as the element can be read anyway: there are dozens of these, and SwiftShader's compiler needs
/// gigabytes for as many branches. Pairs of words would need a condition for each.
Code StencilEmitter::or_padding(const Read& one, const Code& inside, const Code& value) const {
  if (inside.empty()) return value;
  const Code padding = use({}, loops_.values[one.value].operands[1]);
  const bool is_pair = size_of(dtype_of(loops_.values[one.load])) == 8;
  return is_pair ? code("{} ? {} : {}", inside, value, padding) : code("mix({}, {}, {})", padding, value, inside);
}

void StencilEmitter::read(const Scope& scope, const Read& one) {
  const std::int64_t row = row_extent();
  main_.line("{} {}[{}];", scalar_type(loops_.values[one.load].node), one.array,
             row * (one.along_chunk ? chunk_.elements : 1));
  Scope inner = scope;
  if (params_.along_window && schedule_.loads[one.load].kind != AccessKind::element) return read_row(inner, one);
  if (!params_.has_row) {
    main_.open("{{");
    read_chunk(inner, one, "0u");
    main_.close();
    return;
  }
  main_.open_unrolled("i", row);
  inner.axis_names[kRowPosition] = "i";
  Expr& at = inner.axes.at(schedule::kWindowAxis + static_cast<int>(params_.windows.size()) - 1);
  at = at + Expr::axis(kRowPosition, row);
  read_chunk(inner, one, "i");
  main_.close();
}

/// Elements beside each other along the last window axis.
void StencilEmitter::read_row(Scope& scope, const Read& one) {
  const std::int64_t row = row_extent();
  const int bytes = size_of(dtype_of(loops_.values[one.load]));
  const int per_word = 4 / bytes;
  const schedule::AccessPlan& plan = schedule_.loads[one.load];
  Elements elements{row, 0, "0u"};
  std::vector<Code> words;
  if (plan.kind == AccessKind::unaligned) {
    words = unaligned_words_of(scope, one, schedule::ceil_div(row, per_word));
  } else {
    const auto vectors = blocks_.row_vectors(loops_.values[one.load], plan.vector_bytes / bytes);
    check(vectors.has_value(), "a row that is read as vectors has one phase");
    elements.phase = vectors->phase;
    words = words_of(scope, one, schedule::ceil_div(elements.phase + row, per_word), elements.phase);
  }
  const segment::Predicate of_line = ranges_of(one, false);
  Code line = condition(scope, std::span(&of_line, 1));
  if (line.is_always()) {
    line = {};
  } else {
    const Code name = unique(names_.values[one.load] + "_inside");
    main_.line("bool {} = {};", name, line);
    line = name;
  }
  const segment::Predicate of_element = ranges_of(one, true);
  const index::AxisId axis = schedule::kWindowAxis + static_cast<int>(params_.windows.size()) - 1;
  const Expr start = scope.axes.at(axis);
  unpack_elements(one, words, elements, [&](std::int64_t i) {
    scope.axes[axis] = start + i;
    const Code own = condition(scope, std::span(&of_element, 1));
    if (own.is_always()) return line;
    return line.empty() ? own : code("{} && {}", line, own);
  });
}

std::vector<Code> StencilEmitter::words_of(Scope& scope, const Read& one, std::int64_t words, int phase) {
  const Value& load = loops_.values[one.load];
  const int bytes = schedule_.loads[one.load].vector_bytes;
  const int per_vector = bytes / size_of(dtype_of(load));
  const std::int64_t vectors = schedule::ceil_div(words * 4, bytes);
  const Expr first = index::floor_div(in_scope(scope, load.offset) - Expr(phase), per_vector);
  const std::int64_t last = (load.buffer_elements - 1) / per_vector;
  const index::Interval range = index::interval_of(first);
  const bool inside = range.low >= 0 && range.high + vectors - 1 <= last;
  const Code& block = names_.nodes.at(load.node);
  const Code at = unique(block + "_at");
  main_.line("uint {} = {};", at, scoped(scope, first));
  std::vector<Code> all;
  for (std::int64_t v = 0; v < vectors; ++v) {
    const Code place = v == 0 ? at : code("{} + {}u", at, v);
    const Code name = code("{}_w{}", names_.values[one.load], v);
    // Vectors outside the buffer have no element that is used: any other will do.
    main_.line("{} {} = {}.w[{}];", word_type(bytes), name, block,
               inside ? place : code("min({}, {})", place, numbers_.size(last)));
    for (int k = 0; k < bytes / 4; ++k) all.push_back(bytes == 4 ? name : code("{}.{}", name, "xyzw"[k]));
  }
  all.resize(static_cast<std::size_t>(words));
  return all;
}

std::vector<Code> StencilEmitter::unaligned_words_of(Scope& scope, const Read& one, std::int64_t words) {
  const Value& load = loops_.values[one.load];
  const Code& block = names_.nodes.at(load.node);
  const Code& value = names_.values[one.load];
  const Code at = unique(block + "_at");
  main_.line("int {} = int({});", at, position(scope, load.offset));
  const Code last = numbers_.size((load.buffer_elements - 1) / 2);
  for (std::int64_t v = 0; v <= words; ++v) {
    const Code place = code("min(uint({} >> 1){}, {})", at, v == 0 ? "" : code(" + {}u", v), last);
    main_.line("uint {}_w{} = {};", value, v, load_word(block, buffer_bytes(load.node), place));
  }
  main_.line("bool {}_odd = (uint({}) & 1u) != 0u;", value, at);
  std::vector<Code> all;
  for (std::int64_t v = 0; v < words; ++v)
    all.push_back(code("mix({0}_w{1}, ({0}_w{1} >> 16) | ({0}_w{2} << 16), {0}_odd)", value, v, v + 1));
  return all;
}

void StencilEmitter::unpack_elements(const Read& one, const std::vector<Code>& words, const Elements& elements,
                                     const std::function<Code(std::int64_t)>& inside) {
  const DType type = dtype_of(loops_.values[one.load]);
  const int per_word = 4 / size_of(type);
  for (std::int64_t i = 0; i < elements.count; ++i) {
    const std::int64_t at = elements.phase + i;
    const std::int64_t word = at / per_word;
    Code element = unpack(type, per_word, std::vector<Code>{words[static_cast<std::size_t>(word)]}, dialect_, false);
    if (per_word > 1) {
      const Code name = code("{}_g{}", names_.values[one.load], word);
      if (i == 0 || at % per_word == 0)
        main_.line("{} {} = {};", group_type(ops::register_type_of(type), per_word, dialect_), name, element);
      element = element_of(name, static_cast<int>(at % per_word), per_word);
    }
    const Code place = elements.first.is_zero() ? code("{}u", i)
                       : i == 0                 ? elements.first
                                                : code("{} + {}u", elements.first, i);
    main_.line("{}[{}] = {};", one.array, place, or_padding(one, inside(i), element));
  }
}

/// A chunk of elements that lie side by side, as the array's from `first` on. Padding of zeros takes a word's place.
void StencilEmitter::read_vectors(Scope& scope, const Read& one, const Code& inside, const Code& first) {
  const DType type = dtype_of(loops_.values[one.load]);
  scope.axes[blocks_.local_axis(params_.chunk_axis)] = Expr(0);
  Code name;
  if (!inside.empty()) {
    name = unique(names_.values[one.load] + "_inside");
    main_.line("bool {} = {};", name, inside);
  }
  const std::int64_t count = schedule::ceil_div(std::int64_t{chunk_.elements} * size_of(type), 4);
  std::vector<Code> words = words_of(scope, one, count, 0);
  if (one.is_padded && !name.empty() && is_padded_with_zeros(graph_, loops_, loops_.values[one.value])) {
    for (Code& word : words) word = VKF_PLANT(words_of_padding, code("mix(0u, {}, {})", word, name), word);
    name = {};
  }
  unpack_elements(one, words, {chunk_.elements, 0, first}, [&](std::int64_t) { return name; });
}

/// The elements of a chunk at one position of the window.
void StencilEmitter::read_chunk(Scope& scope, const Read& one, const Code& position_in_row) {
  segment::Predicate all = ranges_of(one, false);
  const segment::Predicate of_element = ranges_of(one, true);
  all.ranges.insert(all.ranges.end(), of_element.ranges.begin(), of_element.ranges.end());
  const Code inside = condition(scope, std::span(&all, 1));
  const Code chosen = inside.is_always() ? Code() : inside;
  if (!one.along_chunk) {
    const Code value = load_scalar(scope, one.load);
    main_.line("{}[{}] = {};", one.array, position_in_row, or_padding(one, chosen, value));
    return;
  }
  const Code first = window_index(position_in_row, "0u", true);
  if (schedule_.loads[one.load].kind == AccessKind::vector) {
    read_vectors(scope, one, chosen, first);
    return;
  }
  main_.open_unrolled("j", chunk_.elements);
  scope.axis_names[kChunkPosition] = "j";
  scope.axes[blocks_.local_axis(params_.chunk_axis)] = Expr::axis(kChunkPosition, chunk_.elements);
  const Code own = condition(scope, std::span(&all, 1));
  const Code value = load_scalar(scope, one.load);
  main_.line("{}[{}] = {};", one.array, window_index(position_in_row, "j", true),
             or_padding(one, own.is_always() ? Code() : own, value));
  main_.close();
}

}  // namespace vkfuse::lowering
