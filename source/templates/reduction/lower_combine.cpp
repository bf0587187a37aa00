#include "templates/reduction/lower_combine.hpp"

#include <bit>

#include "base/mutations.hpp"

namespace vkfuse::lowering {

using ops::RegisterType;

namespace {

/// Whether `b` at `b1` takes the place of `a` at `a1` in an argmax or argmin: NaN comes first, and the earlier one of
/// equals. What is no candidate holds the worst value, and a position beyond all others.
Code takes_place(const ReductionText& reduction, const Dialect& dialect) {
  const bool largest = reduction.node->op->reduction.join == "max";
  const auto row = [&](const char* name, std::vector<Code> operands) {
    return expression(ops::row(name), reduction.operand, dialect, operands);
  };
  const Code earlier = code("b1 {} a1", VKF_PLANT(last_of_equals, "<", ">"));
  if (reduction.operand == DType::boolean)
    return code("{} || (a == b && {})", largest ? "(b && !a)" : "(a && !b)", earlier);
  const Code numbers = code("{} || ({} && {})", row(largest ? "gt" : "lt", {"b", "a"}), row("eq", {"b", "a"}), earlier);
  if (!is_float(reduction.operand)) return numbers;
  const Code with_nan =
      code("{} ? !{} || {} : {}", row("is_nan", {"b"}), row("is_nan", {"a"}).parenthesised(), earlier, numbers);
  return VKF_PLANT(nan_is_not_first, with_nan, numbers);
}

/// Both sides of a join as parameters: "inout float a, inout uint a_i, float b, uint b_i".
Code parameters(const ReductionText& reduction, std::span<const char* const> own, std::span<const char* const> theirs) {
  Code all;
  for (std::size_t i = 0; i < reduction.accumulators.size(); ++i)
    all += (i == 0 ? "inout " : ", inout ") + reduction.accumulators[i].type + " " + own[i];
  for (std::size_t i = 0; i < reduction.accumulators.size(); ++i)
    all += ", " + reduction.accumulators[i].type + " " + theirs[i];
  return all;
}

}  // namespace

Code Combine::apply(std::string_view row, DType dtype, std::vector<Code> operands) const {
  return expression(ops::row(row), dtype, dialect_, operands);
}

void Combine::one_element_softmax(const ReductionText& reduction, Writer& functions) const {
  functions.line("// One more element: a single exponential rescales either the sum or the element.");
  functions.open("void {}(inout float most, inout float sum, float x) {{", add_element(reduction));
  functions.line("precise float apart = -abs(x - most);");
  // Chosen after the exponential: with the choice before it, a chain of eight elements takes SwiftShader 40 seconds
  // to compile.
  functions.line("precise float scale = x == most ? 1.0 : {};", apply("exp", reduction.operand, {"apart"}));
  functions.line("sum = x <= most ? sum + scale : fma(sum, scale, 1.0);");
  functions.line("most = {};", apply("max", DType::f32, {"most", "x"}));
  functions.close();
  functions.blank();
}

/// Where exponentials keep NaN, so does the sum, and only then is it worth asking for NaN in the maximum.
void Combine::four_elements_softmax(const ReductionText& reduction, Writer& functions) const {
  const auto largest = [&](const auto& larger) {
    return larger(larger(larger("x.x", "x.y"), larger("x.z", "x.w")), "most");
  };
  const auto with_nan = [&](const Code& a, const Code& b) { return apply("max", DType::f32, {a, b}); };
  const auto any = [](const Code& a, const Code& b) { return code("max({}, {})", a, b); };
  const bool native = dialect_.native_exp;
  functions.line("// Four more elements: one exponential rescales the sum for all of them.");
  functions.open("void {}(inout float most, inout float sum, vec4 x) {{", add_four(reduction));
  functions.line("float top = {};", native ? largest(any) : largest(with_nan));
  functions.line(
      "precise float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;  // as long as all are -infinity");
  functions.line("precise float fallen = most - base;");
  functions.line("precise float scale = most == base ? 1.0 : {};", apply("exp", reduction.operand, {"fallen"}));
  functions.line("precise vec4 apart = x - base;");
  const auto power = [&](const char* element) { return apply("exp", reduction.operand, {element}); };
  functions.line("precise float added = ({} + {}) + ({} + {});", power("apart.x"), power("apart.y"), power("apart.z"),
                 power("apart.w"));
  functions.line("sum = fma(sum, scale, added);");
  if (native) functions.line("if (f32_is_nan(sum)) top = {};", largest(with_nan));
  functions.line("most = top;");
  functions.close();
  functions.blank();
}

/// One sum for all, and what it has lost, by what each element is away from a share of it: of elements that are nearly
/// alike that is exact. Where the zeros of a ragged row may be among them, two by two: half of an element is exact, a
/// quarter less than it is not.
void Combine::four_elements_mean(const ReductionText& reduction, Writer& functions) const {
  functions.line("// Four more elements.");
  functions.open("void {}(inout float a, inout float a1, vec4 x) {{", add_four(reduction));
  if (reduction.ragged) {
    functions.line("precise vec2 sums = vec2(x.x + x.y, x.z + x.w);");
    functions.line("precise vec4 apart = x - vec4(sums.xx, sums.yy) * 0.5;");
    functions.line("precise float lost = a1 + ((apart.x + apart.y) + (apart.z + apart.w));");
    functions.line("a1 = lost;");
    functions.line("f32_add_term(a, a1, sums.x);");
    functions.line("f32_add_term(a, a1, sums.y);");
  } else {
    functions.line("precise float sum = (x.x + x.y) + (x.z + x.w);");
    functions.line("precise vec4 apart = x - sum * 0.25;");
    functions.line("precise float lost = a1 + ((apart.x + apart.y) + (apart.z + apart.w));");
    functions.line("a1 = lost;");
    functions.line("f32_add_term(a, a1, sum);");
  }
  functions.close();
  functions.blank();
}

void Combine::four_elements_moments(const ReductionText& reduction, Writer& functions) const {
  functions.line("// Four more elements, around their own mean.");
  functions.open("void {}(inout float count, inout float mean, inout float squares, inout float low, vec4 x) {{",
                 add_four(reduction));
  functions.line("precise float own = ((x.x + x.y) + (x.z + x.w)) * 0.25;");
  functions.line("precise vec4 beside = x - own;");
  functions.line("precise float own_low = ((beside.x + beside.y) + (beside.z + beside.w)) * 0.25;");
  functions.line("precise vec4 apart = beside - own_low;");
  functions.line(
      "precise float around = (apart.x * apart.x + apart.y * apart.y) + (apart.z * apart.z + apart.w * apart.w);");
  functions.line("{}(count, mean, squares, low, 4.0, own, around, own_low);", reduction.join);
  functions.close();
  functions.blank();
}

/// The best of four and which of them it is, then one comparison with what is best so far: a fourth of the instructions
/// of one by one. NaN, which comes before all numbers, makes the sum NaN; so may two infinities.
void Combine::four_elements_arg(const ReductionText& reduction, Writer& functions) const {
  const bool largest = reduction.node->op->reduction.join == "max";
  const char* best = largest ? "max" : "min";
  functions.line("// Four more elements, side by side from `first` on.");
  functions.open("void {}(inout float a, inout uint a1, vec4 x, uint first) {{", add_four(reduction));
  functions.line("precise float sum = (x.x + x.y) + (x.z + x.w);");
  functions.open("if (f32_is_nan(sum)) {{");
  for (int i = 0; i < 4; ++i)
    functions.line("{}(a, a1, x.{}, first{});", reduction.join, "xyzw"[i], i == 0 ? "" : code(" + {}u", i));
  functions.line("return;");
  functions.close();
  functions.line("float b = {0}({0}(x.x, x.y), {0}(x.z, x.w));", best);
  functions.line("uint b1 = first + (x.x == b ? 0u : x.y == b ? 1u : x.z == b ? 2u : 3u);");
  functions.line("if (a1 == 0xffffffffu || b {} a) {{ a = b; a1 = b1; }}  // what is as good comes later",
                 largest ? ">" : "<");
  functions.close();
  functions.blank();
}

/// "void join(inout fields..., fields...) {", with this comment above it.
void Combine::open_join(const ReductionText& reduction, std::string_view comment, Writer& functions) {
  const char* const own[] = {"a", "a1", "a2", "a3"};
  const char* const theirs[] = {"b", "b1", "b2", "b3"};
  if (!comment.empty()) functions.line("// {}", comment);
  functions.open("void {}({}) {{", reduction.join, parameters(reduction, own, theirs));
}

void Combine::join_args(const ReductionText& reduction, Writer& functions) const {
  open_join(reduction, "Keeps the better of two candidates, the earlier one of equals.", functions);
  functions.line("bool better = {};", takes_place(reduction, dialect_));
  functions.line("a = better ? b : a;");
  functions.line("a1 = better ? b1 : a1;");
}

void Combine::join_softmaxes(const ReductionText& reduction, Writer& functions) const {
  open_join(reduction, "A maximum and the sum of exponentials below it, with those below another maximum.", functions);
  functions.line("precise float most = {};", apply("max", DType::f32, {"a", "b"}));
  functions.line("precise float own_scale = a == most ? 1.0 : {};", apply("exp", reduction.operand, {"(a - most)"}));
  functions.line("precise float other_scale = b == most ? 1.0 : {};", apply("exp", reduction.operand, {"(b - most)"}));
  functions.line("{}", VKF_PLANT(softmax_not_rescaled, "a1 = fma(a1, own_scale, b1 * other_scale);", "a1 = a1 + b1;"));
  functions.line("a = most;");
}

void Combine::join_moments(const ReductionText& reduction, Writer& functions) {
  open_join(reduction,
            "Count, mean, squares around the mean, and what rounding that has lost, of two sets taken together.",
            functions);
  functions.line("precise float count = a + b;");
  functions.line("precise float apart = (b1 - a1) + (b3 - a3);");
  functions.line("precise float share = count == 0.0 ? 0.0 : b / count;");
  functions.line("a2 = a2 + b2 + apart * (apart * (a * share));");
  functions.line("precise float moved = apart * share;");
  functions.line("precise float mean = a1 + moved;");
  functions.line("precise float low = a3 + (moved - (mean - a1));");
  functions.line("bool finite = f32_is_finite(apart);  // else infinities of one sign, or no number");
  functions.line("a3 = finite ? a == 0.0 ? b3 : low : 0.0;");
  functions.line("a1 = finite ? a == 0.0 ? b1 : mean : a1 + b1;");
  functions.line("a = count;");
}

void Combine::join_means(const ReductionText& reduction, Writer& functions) {
  open_join(reduction, "Two sums of two parts each.", functions);
  functions.line("{}_add_term(a, a1, b);", reduction.operand == DType::f64 ? "f64" : "f32");
  functions.line("precise {} low = a1 + b1;", reduction.type);
  functions.line("a1 = low;");
}

void Combine::join_plain(const ReductionText& reduction, Writer& functions) const {
  const bool floats = is_float(reduction.operand);
  const DType register_type = floats && reduction.operand != DType::f64 ? DType::f32 : reduction.operand;
  open_join(reduction, "", functions);
  functions.line("{}{} joined = {};", floats ? "precise " : "", reduction.type,
                 apply(reduction.node->op->reduction.join, register_type, {"a", "b"}));
  functions.line("a = joined;");
}

/// The function that adds four elements, of reductions other than a softmax: it calls the join.
void Combine::four_elements(const ReductionText& reduction, Writer& functions) const {
  if (reduction.kind == ReductionText::Kind::mean) four_elements_mean(reduction, functions);
  if (reduction.kind == ReductionText::Kind::moments) four_elements_moments(reduction, functions);
  if (reduction.kind == ReductionText::Kind::arg) four_elements_arg(reduction, functions);
}

void Combine::join_function(const ReductionText& reduction, Writer& functions) const {
  switch (reduction.kind) {
    case ReductionText::Kind::arg: join_args(reduction, functions); break;
    case ReductionText::Kind::softmax:
      reduction.vec4s ? four_elements_softmax(reduction, functions) : one_element_softmax(reduction, functions);
      join_softmaxes(reduction, functions);
      break;
    case ReductionText::Kind::moments: join_moments(reduction, functions); break;
    case ReductionText::Kind::mean: join_means(reduction, functions); break;
    case ReductionText::Kind::plain: join_plain(reduction, functions); break;
  }
  functions.close();
  functions.blank();
  if (reduction.vec4s) four_elements(reduction, functions);
}

Code Combine::shuffled(DType dtype, const Code& value, const Code& mask) const {
  const RegisterType register_type = ops::register_type_of(dtype);
  if (dialect_.native_int64 && register_type == RegisterType::u64)
    return code("packUint2x32(subgroupShuffleXor(unpackUint2x32({}), {}))", value, mask);
  if (dialect_.native_int64 && register_type == RegisterType::i64) {
    return code("int64_t(packUint2x32(subgroupShuffleXor(unpackUint2x32(uint64_t({})), {})))", value, mask);
  }
  return code("subgroupShuffleXor({}, {})", value, mask);
}

std::vector<const ReductionText*> Combine::of_level(std::span<const ReductionText> reductions, int level) {
  std::vector<const ReductionText*> own;
  for (const ReductionText& reduction : reductions) {
    if (reduction.level == level) own.push_back(&reduction);
  }
  return own;
}

void Combine::across_threads(std::span<const ReductionText> reductions, int level, Writer& main, Writer& shared,
                             Readers readers) const {
  const std::vector<const ReductionText*> own = of_level(reductions, level);
  if (own.empty() || params_.reduction_threads == 1) return;
  if (schedule_.subgroup > 0) {
    by_shuffles(own, main, shared, readers);
  } else {
    by_memory(own, main, shared);
  }
}

/// Afterwards each of so many neighbouring threads holds the reduction over all of them.
void Combine::butterfly(std::span<const ReductionText* const> reductions, int threads, Writer& main) const {
  main.open("for (uint mask = {}u; mask > {}u; mask >>= 1) {{", threads / 2, VKF_PLANT(skipped_thread, 0, 1));
  for (const ReductionText* reduction : reductions)
    main.line("{}", join(*reduction, 0, [&](const Accumulator& accumulator) {
                return shuffled(accumulator.dtype, accumulator.name, "mask");
              }));
  main.close();
}

void Combine::by_shuffles(std::span<const ReductionText* const> reductions, Writer& main, Writer& shared,
                          Readers readers) const {
  const int subgroup = schedule_.subgroup;
  const int inside = std::min(params_.reduction_threads, subgroup);
  if (inside > 1) butterfly(reductions, inside, main);
  if (params_.reduction_threads > subgroup) across_subgroups(reductions, main, shared, readers);
}

/// From what the threads of each subgroup hold to what those of a row do, through shared memory.
void Combine::across_subgroups(std::span<const ReductionText* const> reductions, Writer& main, Writer& shared,
                               Readers readers) const {
  const int subgroup = schedule_.subgroup;
  const int per_row = params_.reduction_threads / subgroup;
  const auto each_accumulator = [&](const auto& visit) {
    for (const ReductionText* reduction : reductions) {
      for (const Accumulator& accumulator : reduction->accumulators) visit(accumulator);
    }
  };
  each_accumulator([&](const Accumulator& accumulator) {
    shared.line("shared {} {}[{}];", accumulator.type, accumulator.shared, schedule_.workgroup / subgroup);
  });
  main.open("if (gl_SubgroupInvocationID == 0u) {{");
  each_accumulator([&](const Accumulator& accumulator) {
    main.line("{}[gl_SubgroupID] = {};", accumulator.shared, accumulator.name);
  });
  main.close();
  main.line("barrier();");
  if (readers == Readers::first_thread && schedule_.workgroup / subgroup == per_row)
    main.line("if (gl_SubgroupID > 0u) return;  // the first subgroup joins what all have found");
  const int wide = std::min(per_row, subgroup);
  Code from = wide == subgroup ? "gl_SubgroupInvocationID" : code("gl_SubgroupInvocationID % {}u", wide);
  if (schedule_.workgroup / subgroup > per_row) from = code("gl_SubgroupID / {0}u * {0}u + {1}", per_row, from);
  each_accumulator(
      [&](const Accumulator& accumulator) { main.line("{} = {}[{}];", accumulator.name, accumulator.shared, from); });
  if (per_row > subgroup) {
    main.open("for (uint k = {0}u; k < {1}u; k += {0}u) {{", subgroup, per_row);
    for (const ReductionText* reduction : reductions)
      main.line("{}", join(*reduction, 0, [&](const Accumulator& accumulator) {
                  return code("{}[{} + k]", accumulator.shared, from);
                }));
    main.close();
  }
  if (wide > 1) butterfly(reductions, wide, main);
}

/// Where the accumulators of a thread's row j are in shared memory, from where those of its first one are.
Code Combine::shared_index(const Code& first, int j) const {
  return j == 0 ? first : code("{} + {}u", first, j * schedule_.workgroup);
}

void Combine::to_memory(const ReductionText& reduction, int j, Writer& main) const {
  for (const Accumulator& accumulator : reduction.accumulators)
    main.line("{}[{}] = {};", accumulator.shared, shared_index("thread", j), at(accumulator.name, j));
}

/// The lines of a step in which each thread joins what the one so far away has written, and writes the result.
void Combine::join_from_memory(std::span<const ReductionText* const> reductions, Writer& main) const {
  // Threads of one row are `step` apart.
  const int step = params_.vector_rows ? params_.parallel_threads : 1;
  const Code other = step == 1 ? "thread + reach" : code("thread + reach * {}u", step);
  for (const ReductionText* reduction : reductions) {
    for (int j = 0; j < width_; ++j) {
      main.line("{}", join(*reduction, j, [&](const Accumulator& accumulator) {
                  return code("{}[{}]", accumulator.shared, shared_index(other, j));
                }));
      to_memory(*reduction, j, main);
    }
  }
}

void Combine::by_memory(std::span<const ReductionText* const> reductions, Writer& main, Writer& shared) const {
  for (const ReductionText* reduction : reductions) {
    for (const Accumulator& accumulator : reduction->accumulators)
      shared.line("shared {} {}[{}];", accumulator.type, accumulator.shared, schedule_.workgroup * width_);
    for (int j = 0; j < width_; ++j) to_memory(*reduction, j, main);
  }
  main.line("barrier();");
  main.open("for (uint reach = {}u; reach > {}u; reach >>= 1) {{", params_.reduction_threads / 2,
            VKF_PLANT(skipped_thread_without_subgroups, 0, 1));
  main.open("if (reduction_thread < reach) {{");
  join_from_memory(reductions, main);
  main.close();
  main.line("barrier();");
  main.close();
  const Code first = params_.vector_rows ? code("thread % {}u", params_.parallel_threads) : "thread - reduction_thread";
  for (const ReductionText* reduction : reductions) {
    for (int j = 0; j < width_; ++j) {
      for (const Accumulator& accumulator : reduction->accumulators)
        main.line("{} = {}[{}];", at(accumulator.name, j), accumulator.shared, shared_index(first, j));
    }
  }
}

std::vector<Code> Combine::words_of(DType dtype, const Code& value) const {
  switch (ops::register_type_of(dtype)) {
    case RegisterType::f32: return {code("floatBitsToUint({})", value)};
    case RegisterType::u32: return {value};
    case RegisterType::i32:
    case RegisterType::boolean: return {code("uint({})", value)};
    default: return pack(dtype, 1, value, dialect_);
  }
}

Code Combine::value_of(DType dtype, const Code& at_word) const {
  const Code word = code("partials.w[{}]", at_word);
  switch (ops::register_type_of(dtype)) {
    case RegisterType::f32: return code("uintBitsToFloat({})", word);
    case RegisterType::u32: return word;
    case RegisterType::i32: return code("int({})", word);
    case RegisterType::boolean: return code("{} != 0u", word);
    default: {
      const std::vector<Code> words{word, code("partials.w[{} + 1u]", at_word)};
      return unpack(dtype, 1, words, dialect_, false);
    }
  }
}

namespace {

int words_of_accumulator(const Accumulator& accumulator) { return std::max(1, size_of(accumulator.dtype) / 4); }

int words_of_reduction(const ReductionText& reduction) {
  int words = 0;
  for (const Accumulator& accumulator : reduction.accumulators) words += words_of_accumulator(accumulator);
  return words;
}

}  // namespace

std::int64_t Combine::base(std::span<const ReductionText> reductions, const ReductionText& reduction,
                           std::int64_t rows) const {
  std::int64_t words = 0;
  for (const ReductionText& other : reductions) {
    if (other.id == reduction.id) break;
    words += rows * schedule_.splits * words_of_reduction(other);
  }
  return words;
}

/// The first word of what one workgroup has seen of a row.
Code Combine::partial_position(std::int64_t base, int j, const Code& part, int words) const {
  const Code row = width_ == 1 ? "row" : code("(row * {}u + {}u)", width_, j);
  Code place = code("{} * {}u + {}", row, schedule_.splits, part);
  if (words > 1) place = code("({}) * {}u", place, words);
  return base == 0 ? place : code("{}u + {}", base, place);
}

void Combine::to_parts(std::span<const ReductionText> reductions, int level, std::int64_t rows, Writer& main) const {
  main.open("if (inside{}) {{", params_.reduction_threads > 1 ? " && reduction_thread == 0u" : "");
  for (const ReductionText& reduction : reductions) {
    if (reduction.level != level) continue;
    for (int j = 0; j < width_; ++j) {
      std::vector<Code> values;
      for (const Accumulator& accumulator : reduction.accumulators) {
        for (Code& word : words_of(accumulator.dtype, at(accumulator.name, j))) values.push_back(std::move(word));
      }
      const Code place = partial_position(base(reductions, reduction, rows), j, "part", words_of_reduction(reduction));
      for (std::size_t k = 0; k < values.size(); ++k)
        main.line("partials.w[{}{}] = {};", place, k == 0 ? "" : code(" + {}u", k), values[k]);
    }
  }
  main.close();
}

void Combine::from_parts(std::span<const ReductionText> reductions, int level, std::int64_t rows, Writer& main) const {
  main.open("for (uint k = reduction_thread; k < {}u; k += {}u) {{", schedule_.splits, params_.reduction_threads);
  for (const ReductionText& reduction : reductions) {
    if (reduction.level != level) continue;
    for (int j = 0; j < width_; ++j) {
      const Code place = partial_position(base(reductions, reduction, rows), j, "k", words_of_reduction(reduction));
      int offset = 0;
      main.line("{}{}", reduction.prefix ? "if (k < part) " : "",
                join(reduction, j, [&](const Accumulator& accumulator) {
                  const Code at_word = offset == 0 ? place : code("{} + {}u", place, offset);
                  offset += words_of_accumulator(accumulator);
                  return value_of(accumulator.dtype, at_word);
                }));
    }
  }
  main.close();
}

void Combine::join_parts(std::span<const ReductionText> reductions, int level, std::int64_t rows, Writer& main) const {
  const int subgroup = schedule_.subgroup;
  if (subgroup > 0 && schedule_.splits <= subgroup && params_.reduction_threads > subgroup &&
      params_.parallel_threads == 1) {
    main.line("if (gl_SubgroupID > 0u) return;  // the first subgroup has a thread for each of them");
    from_parts(reductions, level, rows, main);
    butterfly(of_level(reductions, level), std::bit_ceil(static_cast<unsigned>(schedule_.splits)), main);
    return;
  }
  Writer declared;
  from_parts(reductions, level, rows, main);
  across_threads(reductions, level, main, declared, Readers::first_thread);
}

}  // namespace vkfuse::lowering
