// Loads and stores.
#include <algorithm>

#include "base/mutations.hpp"
#include "lowering/emitter.hpp"
#include "schedule/access.hpp"
#include "schedule/traffic.hpp"

namespace vkfuse::lowering {

using index::Expr;
using schedule::AccessKind;

namespace {

Code plus(const Code& text, int number) { return number == 0 ? text : code("{} + {}u", text, number); }

}  // namespace

int Emitter::buffer_bytes(ir::NodeId node) const {
  int bytes = 0;
  for (std::size_t i = 0; i < loops_.values.size(); ++i) {
    const Value& value = loops_.values[i];
    if (value.kind != Value::Kind::load || value.node != node) continue;
    const schedule::AccessPlan& plan = schedule_.loads[i];
    // Single words are taken out of an array of any type.
    const bool transposed =
        plan.kind == AccessKind::transposed && plan.vector_bytes > std::max(4, size_of(dtype(node)));
    if (plan.kind == AccessKind::vector || transposed) bytes = plan.vector_bytes;
  }
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    if (loops_.stores[i].node == node && schedule_.stores[i].kind == AccessKind::vector)
      bytes = schedule_.stores[i].vector_bytes;
  }
  return bytes != 0 ? bytes : std::max(4, size_of(dtype(node)));
}

Code Emitter::predicate_of(Scope& scope, const Value& load) {
  const Code predicate = load.predicates.empty() ? Code::always() : condition(scope, load.predicates);
  if (predicate.is_always()) return scope.exists;
  return scope.exists.empty() ? predicate : scope.exists + " && " + predicate;
}

Code Emitter::index_of_load(Scope& scope, ValueId id) {
  const Value& load = loops_.values[id];
  const Code& block = names_.nodes.at(load.node);
  Code at = position(scope, load.offset);
  // Where the guards fail the element is not used, but the load must stay inside the buffer. A branch instead
  // was slower on an H200, and software drivers take minutes to compile many of them.
  if (const Code predicate = predicate_of(scope, load); !predicate.empty()) {
    const Code name = unique(block + "_i");
    scope.out->line("uint {} = {} ? {} : 0u;", name, predicate, at);
    at = name;
  }
  if (size_of(dtype(load.node)) < 4 && !at.is_one_word()) {
    const Code name = unique(block + "_i");
    scope.out->line("uint {} = {};", name, at);
    at = name;
  }
  return at;
}

Code Emitter::decoded(ValueId id, const Code& element) const {
  const ops::FloatFormatRow* format = forms_[id].decodes;
  return format == nullptr ? element
                           : expression(ops::row(format->decode), DType::u32, dialect_, std::span(&element, 1));
}

Code Emitter::load_scalar(Scope& scope, ValueId id) {
  const Value& load = loops_.values[id];
  const Code at = index_of_load(scope, id);
  return decoded(id, load_element(dtype(load.node), names_.nodes.at(load.node), buffer_bytes(load.node), at, dialect_));
}

Code Emitter::decoder_of_word(ValueId load) const {
  return code("{}{}", forms_[load].decodes->decode_word, dialect_.native_f16 ? "_native" : "");
}

int Emitter::vectors_of(ValueId load) const {
  const int bytes = size_of(dtype_of(loops_.values[load]));
  const schedule::AccessPlan& plan = schedule_.loads[load];
  return std::max(1, chunk_.elements / plan.repeat * bytes / plan.vector_bytes);
}

bool Emitter::is_unaligned(ValueId load) const { return schedule_.loads[load].kind == AccessKind::unaligned; }

std::vector<Code> Emitter::raw_names(ValueId load) const {
  std::vector<Code> names;
  const int count =
      is_unaligned(load) ? schedule::words_around(schedule_.loads[load], chunk_.elements) : vectors_of(load);
  for (int v = 0; v < count; ++v) names.push_back(raw_name(load, v));
  if (is_unaligned(load)) names.push_back(names_.values[load] + "_odd");
  return names;
}

Code Emitter::raw_name(ValueId id, int vector) const { return code("{}_w{}", names_.values[id], vector); }

/// The index of a chunk's first vector, in vectors.
Expr Emitter::chunk_vector(Scope& scope, const Expr& offset, int per_vector) const {
  return index::floor_div(in_scope(scope, offset), per_vector);
}

/// The words around a run of 16-bit elements, of which each or every second one is wanted. Guards are left out: no
/// element for which they fail is in a word that has to be replaced, because the run leaves the buffer, for one for
/// which they hold.
void Emitter::load_unaligned(Scope& scope, ValueId id, const Code& register_index, bool declared) {
  const Value& load = loops_.values[id];
  const Code& block = names_.nodes.at(load.node);
  const Code at = unique(block + "_at");
  scope.out->line("int {} = int({});", at, position(scope, load.offset));
  const Code last = numbers_.size((load.buffer_elements - 1) / 2);
  const std::vector<Code> names = raw_names(id);
  const char* type = register_index.empty() && !declared ? "uint " : "";
  for (std::size_t v = 0; v + 1 < names.size(); ++v) {
    const Code word = code("min(uint({} >> 1){}, {})", at, v == 0 ? "" : code(" + {}u", v), last);
    scope.out->line("{}{}{} = {};", type, names[v], register_index, load_word(block, buffer_bytes(load.node), word));
  }
  scope.out->line("{}{}{} = uint({}) & 1u;", type, names.back(), register_index, at);
}

void Emitter::load_vectors(Scope& scope, ValueId id, const Code& register_index, bool declared) {
  if (is_unaligned(id)) return load_unaligned(scope, id, register_index, declared);
  const Value& load = loops_.values[id];
  const Code& block = names_.nodes.at(load.node);
  const int bytes = schedule_.loads[id].vector_bytes;
  const int per_vector = bytes / size_of(dtype(load.node));
  const int count = vectors_of(id);
  Code first = scoped(scope, chunk_vector(scope, load.offset, per_vector));
  const Code predicate = predicate_of(scope, load);
  if (!predicate.empty()) {
    const Code name = unique(block + "_i");
    scope.out->line("uint {} = {} ? {} : 0u;", name, predicate, first);
    first = name;
  }
  const Code type(word_type(bytes));
  for (int v = 0; v < count; ++v) {
    Code at = plus(first, v);
    // The last chunk may own fewer vectors than the others: reading its last one again keeps every load
    // inside the buffer.
    if (!schedule_.full_chunks && v > 0) {
      at = code("min({}, {})", at, numbers_.size((load.buffer_elements - 1) / per_vector));
    }
    scope.out->line("{}{}{} = {}.w[{}];", register_index.empty() && !declared ? type + " " : "", raw_name(id, v),
                    register_index, block, at);
  }
}

/// A select, no branch: a chunk has many of these, and some drivers' compilers need gigabytes for as many branches.
Code Emitter::unaligned_word(ValueId id, int word, const Code& register_index) const {
  const Code odd = raw_names(id).back() + register_index;
  if (schedule_.loads[id].step == 1) {
    const Code low = raw_name(id, word) + register_index;
    return code("mix({0}, ({0} >> 16) | ({1} << 16), {2} != 0u)", low, raw_name(id, word + 1) + register_index, odd);
  }
  const Code first = raw_name(id, 2 * word) + register_index, second = raw_name(id, 2 * word + 1) + register_index;
  return code("mix(({0} & 0xffffu) | ({1} << 16), ({0} >> 16) | ({1} & 0xffff0000u), {2} != 0u)", first, second, odd);
}

Code Emitter::unpacked(ValueId id, int group, const Code& register_index) const {
  const DType type = dtype_of(loops_.values[id]);
  const int bytes = schedule_.loads[id].vector_bytes;
  const int group_words = chunk_.group * size_of(type) / 4;
  const int vector_words = bytes / 4;
  const bool unpack_codes = forms_[id].decodes != nullptr;  // a group of them is a word
  if (is_unaligned(id)) {
    std::vector<Code> words;
    for (int w = group * group_words; w < (group + 1) * group_words; ++w)
      words.push_back(unaligned_word(id, w, register_index));
    return unpack(type, chunk_.group, words, dialect_, false);
  }
  if (const int repeat = schedule_.loads[id].repeat; repeat > 1) {
    // The group's elements are those of a part of another group.
    const int own = std::min(chunk_.group, chunk_.elements / repeat);
    const int first = group * chunk_.group / repeat;
    std::vector<Code> words;
    for (int w = first / own * own * size_of(type) / 4; w < (first / own + 1) * own * size_of(type) / 4; ++w) {
      const Code raw = raw_name(id, w / vector_words) + register_index;
      words.push_back(vector_words == 1 ? raw : code("{}.{}", raw, "xyzw"[w % vector_words]));
    }
    Code places;
    for (int i = 0; i < chunk_.group; ++i) places += code("{}", "xyzw"[(first + i / repeat) % own]);
    const Code values =
        unpack_codes ? code("{}({})", decoder_of_word(id), words.front()) : unpack(type, own, words, dialect_, false);
    return own == 1 ? code("{}({})", group_type_of(loops_.values[id].node), values) : code("{}.{}", values, places);
  }
  if (group_words == vector_words && size_of(type) <= 4 && !unpack_codes) {
    return unpack(type, chunk_.group, std::vector<Code>{raw_name(id, group) + register_index}, dialect_, true);
  }
  std::vector<Code> words;
  for (int w = 0; w < group_words; ++w) {
    const int word = group * group_words + w;
    const Code raw = raw_name(id, word / vector_words) + register_index;
    words.push_back(vector_words == 1 ? raw : code("{}.{}", raw, "xyzw"[word % vector_words]));
  }
  if (unpack_codes) return code("{}({})", decoder_of_word(id), words.front());
  return unpack(type, chunk_.group, words, dialect_, false);
}

Code Emitter::result_name(std::size_t store) const { return names_.stores[store] + "_result"; }

Code Emitter::result_group(std::size_t store, int group) const { return code("{}_{}", names_.stores[store], group); }

namespace {

/// A result of no elements beside results that have some: sizes of 0 are 1 in loops, and its buffer has not even that.
bool has_no_elements(const ir::Node& node) {
  return std::find(node.type.shape.begin(), node.type.shape.end(), Dim(0)) != node.type.shape.end();
}

}  // namespace

template <typename Write>
void Emitter::where_stored(Scope& scope, std::size_t store, const Write& write) {
  const segment::Store& target = loops_.stores[store];
  if (has_no_elements(graph_.node(target.node))) return;
  const Code predicate = condition(scope, target.predicates);
  if (predicate.is_always()) return write(scope);
  scope.out->open("if ({}) {{", predicate);
  Scope inside = scope;  // positions that are named there are known nowhere else
  write(inside);
  scope.out->close();
}

void Emitter::store_scalar(Scope& scope, std::size_t store, const Code& value) {
  where_stored(scope, store, [&](Scope& inside) { store_element(inside, store, value); });
}

void Emitter::store_element(Scope& scope, std::size_t store, const Code& value) {
  const segment::Store& target = loops_.stores[store];
  const Code& block = names_.nodes.at(target.node);
  const DType type = dtype(target.node);
  Code at = position(scope, target.offset);
  const int size = size_of(type);
  if (size == 8) {
    const std::vector<Code> words = pack(type, 1, value, dialect_);
    scope.out->line("{}.w[{}] = {};", block, at, join_words(words));
    return;
  }
  const Code bits = element_bits(type, value, dialect_);
  if (schedule::stores_sub32(graph_, loops_, target_, schedule_, target.node)) {
    scope.out->line("{}.w[{}] = {}({});", block, at, size == 2 ? "uint16_t" : "uint8_t", bits);
    return;
  }
  if (size == 4 || target.buffer_elements == 1) {
    scope.out->line("{}.w[{}] = {};", block, at, bits);
    return;
  }
  // Neighbours in one word belong to other invocations: each touches its own bits only.
  const int shift = size == 2 ? 1 : 2;
  const Code name = unique(block + "_i");
  const Code mask = unique(block + "_mask");
  scope.out->line("uint {} = {};", name, at);
  scope.out->line("uint {} = {} << (({} & {}u) * {}u);", mask, size == 2 ? "0xffffu" : "0xffu", name, (1 << shift) - 1,
                  8 * size);
  scope.out->line("atomicAnd({}.w[{} >> {}], {}{});", block, name, shift,
                  VKF_PLANT(bits_not_cleared, "~", "0xffffffffu | "), mask);
  scope.out->line("atomicOr({}.w[{} >> {}], {} & {});", block, name, shift, bits.parenthesised(), mask);
}

namespace {

/// The vectors of a chunk on their way to a buffer.
struct VectorStores {
  struct Write {
    Code at, text;
  };
  const Code& block;
  int element_bytes = 0;
  int vector_bytes = 0;
  std::vector<Write> writes = {};
};

/// Words that so many elements take.
Code word_count(const Code& elements, int element_bytes) {
  switch (element_bytes) {
    case 1: return code("({} + 3u) / 4u", elements);
    case 2: return code("({} + 1u) / 2u", elements);
    case 4: return elements;
    default: return code("{} * 2u", elements);
  }
}

/// Full vectors for all chunks but a shorter last one, whose words are stored one by one.
void store_vectors_or_words(Writer& out, const VectorStores& stores, const Code& whole, const Code& valid) {
  const Code& block = stores.block;
  std::vector<Code> names;
  for (const VectorStores::Write& write : stores.writes) {
    names.push_back(code("{}_w{}", block, names.size()));
    out.line("{} {} = {};", word_type(stores.vector_bytes), names.back(), write.text);
  }
  out.open("if ({}) {{", whole);
  for (std::size_t v = 0; v < names.size(); ++v) out.line("{}.w[{}] = {};", block, stores.writes[v].at, names[v]);
  out.otherwise();
  const int vector_words = stores.vector_bytes / 4;
  const Code words_left = word_count(valid, stores.element_bytes);
  for (std::size_t v = 0; v < names.size(); ++v) {
    const int before = static_cast<int>(v) * vector_words;
    const Code& at = stores.writes[v].at;
    if (vector_words == 1) {
      out.line("if ({}u < {}) {}.w[{}] = {};", before, words_left, block, at, names[v]);
      continue;
    }
    out.line("for (uint k = 0u; k < {}u && {}k < {}; ++k) {}.w[{}][k] = {}[k];", vector_words,
             before == 0 ? "" : code("{}u + ", before), words_left, block, at, names[v]);
  }
  out.close();
}

}  // namespace

void Emitter::store_vectors(Scope& scope, std::size_t store, const Code& whole, const Code& valid) {
  where_stored(scope, store, [&](Scope& inside) { store_chunk(inside, store, whole, valid); });
}

void Emitter::store_chunk(Scope& scope, std::size_t store, const Code& whole, const Code& valid) {
  const segment::Store& target = loops_.stores[store];
  const DType type = dtype(target.node);
  VectorStores stores{names_.nodes.at(target.node), size_of(type), schedule_.stores[store].vector_bytes};
  const int vector_words = stores.vector_bytes / 4;
  const int count = std::max(1, chunk_.elements * size_of(type) / stores.vector_bytes);
  const Code first = scoped(scope, chunk_vector(scope, target.offset, stores.vector_bytes / size_of(type)));
  std::vector<Code> words;
  for (int g = 0; g < chunk_.groups; ++g) {
    for (Code& word : pack(type, chunk_.group, result_group(store, g), dialect_)) words.push_back(std::move(word));
  }
  for (int v = 0; v < count; ++v) {
    const std::span<const Code> part(words.data() + v * vector_words, static_cast<std::size_t>(vector_words));
    const bool whole_group = size_of(type) == 4 && vector_words == chunk_.group;
    const Code text = whole_group ? pack_group(type, chunk_.group, result_group(store, v)) : join_words(part);
    stores.writes.push_back({plus(first, v), text});
  }
  if (!valid.empty() && (vector_words > 1 || count > 1))
    return store_vectors_or_words(*scope.out, stores, whole, valid);
  for (const VectorStores::Write& write : stores.writes)
    scope.out->line("{}.w[{}] = {};", stores.block, write.at, write.text);
}

}  // namespace vkfuse::lowering
