// Whole numbers that are some bits of a loaded byte, made floats by their bits. Put among the low bits of a large power
// of two they need no conversion, and nothing shifts them down: one bitwise instruction and one difference for each,
// where GPUs do few of the former at a time.
#include "lowering/emitter.hpp"

namespace vkfuse::lowering {

namespace {

Code float_literal(float value, const Dialect& dialect) {
  return literal(DType::f32, reinterpret_cast<const std::byte*>(&value), dialect);
}

Code uints_type(int count) { return count == 1 ? "uint" : code("uvec{}", count); }
Code floats_type(int count) { return count == 1 ? "float" : code("vec{}", count); }

/// "uvec4(a, b, c, d)", or the one scalar.
Code vector_of(const char* type, const std::vector<Code>& values) {
  return values.size() == 1 ? values.front() : code("{}{}({})", type, values.size(), listed(values));
}

}  // namespace

/// What the function takes out of a word, and what its constant is, for each element of a group.
Emitter::SubByteNumbers Emitter::sub_byte_numbers(const UnpackedField& field, int group) const {
  SubByteNumbers numbers;
  for (int e = group * chunk_.group; e < (group + 1) * chunk_.group; ++e) {
    const SubByteElement& element = field.elements[static_cast<std::size_t>(e)];
    const int exponent = kFractionBits - element.place;
    const double difference = static_cast<double>(std::int64_t{1} << exponent) - static_cast<double>(field.offset);
    numbers.taken.push_back({element.down, element.mask << element.place, static_cast<float>(difference)});
    numbers.bits.push_back((static_cast<std::uint32_t>(127 + exponent) << kFractionBits) |
                           (field.flip << element.place));
  }
  return numbers;
}

/// The value of the function.
Code Emitter::sub_byte_value(const SubByteNumbers& numbers) const {
  std::vector<Code> words, masks, differences;
  bool alike = true;
  for (const SubByteNumbers::Taken& one : numbers.taken) {
    words.push_back(one.down == 0 ? "word" : code("word >> {}u", one.down));
    masks.push_back(code("0x{:x}u", one.mask));
    differences.push_back(float_literal(one.difference, dialect_));
    alike = alike && one.down == numbers.taken.front().down;
  }
  if (alike) words.resize(1);
  return code("uintBitsToFloat(({}({}) & {}) ^ bits) - {}", uints_type(chunk_.group), listed(words),
              vector_of("uvec", masks), vector_of("vec", differences));
}

void Emitter::write_sub_byte_function(const Code& name, const Code& value) {
  const Code floats = floats_type(chunk_.group);
  functions_.open("{} {}(uint word, {} bits) {{", floats, name, uints_type(chunk_.group));
  functions_.line("precise {} values = {};", floats, value);
  functions_.line("return values;");
  functions_.close();
  functions_.blank();
}

/// Functions and constants are written once for all groups that are alike.
void Emitter::write_sub_byte_functions(const UnpackedFields& fields) {
  std::map<std::vector<SubByteNumbers::Taken>, Code> functions;  // names by what they are
  std::map<std::vector<std::uint32_t>, Code> constants;
  const auto named = [&](auto& known, const auto& of, const char* stem) {
    Code& name = known[of];
    const bool first = name.empty();
    if (first) name = unique(stem);
    return std::pair(name, first);
  };
  for (const auto& [id, field] : fields) {
    for (int g = 0; g < chunk_.groups; ++g) {
      const SubByteNumbers numbers = sub_byte_numbers(field, g);
      const auto [function, first_function] = named(functions, numbers.taken, "field_values");
      const auto [constant, first_constant] = named(constants, numbers.bits, "field_bits");
      if (first_function && functions.size() == 1) {
        functions_.line(
            "// Numbers of a few bits become floats among the low bits of powers of 2. The driver is not to know "
            "these: with two constants that");
        functions_.line("// it knows, an `and` and an `xor` are two instructions.");
      }
      if (first_function) write_sub_byte_function(function, sub_byte_value(numbers));
      if (first_constant && constants.size() == 1) main_.line("// Powers of 2, and what of the numbers is flipped.");
      if (first_constant) {
        std::vector<Code> bits;
        for (const std::uint32_t one : numbers.bits) bits.push_back(code("0x{:08x}u", one));
        main_.line("{} {} = {} + {};", uints_type(chunk_.group), constant, vector_of("uvec", bits), nan_.barrier);
      }
      found_.sub_byte_groups[id].push_back({function, constant});
    }
  }
}

Code Emitter::sub_byte_group(ValueId id, int group, const Code& register_index) const {
  const UnpackedField& field = found_.sub_byte_fields.at(id);
  const int vector_words = schedule_.loads[field.load].vector_bytes / 4;
  const int word =
      field.elements[static_cast<std::size_t>(group * chunk_.group)].word;  // of bytes, a group is in one word
  const Code raw = raw_name(field.load, word / vector_words) + register_index;
  const SubByteGroup& text = found_.sub_byte_groups.at(id)[static_cast<std::size_t>(group)];
  return code("{}({}, {})", text.function, vector_words == 1 ? raw : code("{}.{}", raw, "xyzw"[word % vector_words]),
              text.bits);
}

}  // namespace vkfuse::lowering
