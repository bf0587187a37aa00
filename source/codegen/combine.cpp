#include "codegen/combine.hpp"

namespace vkfuse::codegen {

using ops::Lane;

namespace {

/// Whether `a` comes before `b` for an arg fold; NaN comes first.
std::string better(const FoldText& fold, const Dialect& dialect, const std::string& a, const std::string& b) {
  const bool largest = fold.node->op->fold.join == "max";
  const auto compare = [&](const std::string& x, const std::string& y) {
    return ops::expression(ops::row(largest ? "gt" : "lt"), fold.operand, dialect.native_int64, std::vector<std::string>{x, y});
  };
  if (fold.operand == DType::boolean) return largest ? fmt::format("{} && !{}", a, b) : fmt::format("!{} && {}", a, b);
  if (!is_float(fold.operand)) return compare(a, b);
  const auto nan = [&](const std::string& x) {
    return ops::expression(ops::row("is_nan"), fold.operand, dialect.native_int64, std::vector<std::string>{x});
  };
  return fmt::format("!({2}) && ({0} || {1})", nan(a), compare(a, b), nan(b));
}

}  // namespace

void Combine::join_function(const FoldText& fold, Writer& functions) const {
  if (fold.arg) {
    functions.line("// Keeps the better of two candidates, the earlier one of equals; an index of all ones is no candidate.");
    functions.open("void {}(inout {} a, inout uint a_i, {} b, uint b_i) {{", fold.join, fold.type, fold.type);
    functions.line("bool better = {};", better(fold, dialect_, "b", "a"));
    functions.line("bool worse = {};", better(fold, dialect_, "a", "b"));
    functions.line("if (b_i != 0xffffffffu && (a_i == 0xffffffffu || better || (!worse && b_i < a_i))) {{ a = b; a_i = b_i; }}");
  } else {
    const DType lane = is_float(fold.operand) && fold.operand != DType::f64 ? DType::f32 : fold.operand;
    functions.open("void {}(inout {} a, {} b) {{", fold.join, fold.type, fold.type);
    functions.line("{}{} joined = {};", is_float(fold.operand) ? "precise " : "", fold.type,
                   ops::expression(ops::row(fold.node->op->fold.join), lane, dialect_.native_int64, std::vector<std::string>{"a", "b"}));
    functions.line("a = joined;");
  }
  functions.close();
  functions.blank();
}

std::string Combine::join(const FoldText& fold, int j, const std::string& value, const std::string& index) const {
  if (!fold.arg) return fmt::format("{}({}, {});", fold.join, at(fold.accumulator, j), value);
  return fmt::format("{}({}, {}, {}, {});", fold.join, at(fold.accumulator, j), at(fold.index + "_i", j), value, index);
}

std::string Combine::shuffled(const FoldText& fold, const std::string& value, const std::string& mask) const {
  const Lane lane = ops::lane_of(fold.operand);
  if (dialect_.native_int64 && lane == Lane::u64) return fmt::format("packUint2x32(subgroupShuffleXor(unpackUint2x32({}), {}))", value, mask);
  if (dialect_.native_int64 && lane == Lane::i64) {
    return fmt::format("int64_t(packUint2x32(subgroupShuffleXor(unpackUint2x32(uint64_t({})), {})))", value, mask);
  }
  return fmt::format("subgroupShuffleXor({}, {})", value, mask);
}

void Combine::across_lanes(std::span<const FoldText> folds, int stage, Writer& main, Writer& shared) const {
  bool any = false;
  for (const FoldText& fold : folds) any = any || fold.stage == stage;
  if (!any || schedule_.column_lanes == 1) return;
  if (schedule_.subgroup > 0) {
    by_shuffles(folds, stage, main, shared);
  } else {
    by_memory(folds, stage, main, shared);
  }
}

void Combine::by_shuffles(std::span<const FoldText> folds, int stage, Writer& main, Writer& shared) const {
  const int subgroup = schedule_.subgroup;
  const int inside = std::min(schedule_.column_lanes, subgroup);
  const auto butterfly = [&](int lanes) {
    main.open("for (uint mask = {}u; mask > 0u; mask >>= 1) {{", lanes / 2);
    for (const FoldText& fold : folds) {
      if (fold.stage != stage) continue;
      main.line("{}", join(fold, 0, shuffled(fold, fold.accumulator, "mask"), fold.arg ? fmt::format("subgroupShuffleXor({}_i, mask)", fold.index) : ""));
    }
    main.close();
  };
  if (inside > 1) butterfly(inside);
  if (schedule_.column_lanes <= subgroup) return;
  const int per_row = schedule_.column_lanes / subgroup;
  const int count = schedule_.workgroup / subgroup;
  for (const FoldText& fold : folds) {
    if (fold.stage != stage) continue;
    shared.line("shared {} {}[{}];", fold.type, fold.shared, count);
    if (fold.arg) shared.line("shared uint {}[{}];", fold.shared_index, count);
  }
  main.open("if (gl_SubgroupInvocationID == 0u) {{");
  for (const FoldText& fold : folds) {
    if (fold.stage != stage) continue;
    main.line("{}[gl_SubgroupID] = {};", fold.shared, fold.accumulator);
    if (fold.arg) main.line("{}[gl_SubgroupID] = {}_i;", fold.shared_index, fold.index);
  }
  main.close();
  main.line("barrier();");
  main.line("{{");
  main.indent();
  const int wide = std::min(per_row, subgroup);
  main.line("uint from = gl_SubgroupID / {0}u * {0}u + gl_SubgroupInvocationID % {1}u;", per_row, wide);
  for (const FoldText& fold : folds) {
    if (fold.stage != stage) continue;
    main.line("{} = {}[from];", fold.accumulator, fold.shared);
    if (fold.arg) main.line("{}_i = {}[from];", fold.index, fold.shared_index);
    if (per_row > subgroup) {
      main.line("for (uint k = {0}u; k < {1}u; k += {0}u) {2}", subgroup, per_row,
                join(fold, 0, fmt::format("{}[from + k]", fold.shared), fold.arg ? fmt::format("{}[from + k]", fold.shared_index) : ""));
    }
  }
  main.close();
  if (wide > 1) butterfly(wide);
}

void Combine::by_memory(std::span<const FoldText> folds, int stage, Writer& main, Writer& shared) const {
  const int size = schedule_.workgroup;
  // Lanes of one row are `step` apart.
  const int step = schedule_.vector_rows ? schedule_.row_lanes : 1;
  const auto slot = [&](int j) { return j == 0 ? std::string("lane") : fmt::format("lane + {}u", j * size); };
  for (const FoldText& fold : folds) {
    if (fold.stage != stage) continue;
    shared.line("shared {} {}[{}];", fold.type, fold.shared, size * width_);
    if (fold.arg) shared.line("shared uint {}[{}];", fold.shared_index, size * width_);
    for (int j = 0; j < width_; ++j) {
      main.line("{}[{}] = {};", fold.shared, slot(j), at(fold.accumulator, j));
      if (fold.arg) main.line("{}[{}] = {};", fold.shared_index, slot(j), at(fold.index + "_i", j));
    }
  }
  main.line("barrier();");
  main.open("for (uint reach = {}u; reach > 0u; reach >>= 1) {{", schedule_.column_lanes / 2);
  main.open("if (column_lane < reach) {{");
  const std::string other = step == 1 ? "lane + reach" : fmt::format("lane + reach * {}u", step);
  for (const FoldText& fold : folds) {
    if (fold.stage != stage) continue;
    for (int j = 0; j < width_; ++j) {
      const std::string theirs = j == 0 ? other : fmt::format("{} + {}u", other, j * size);
      main.line("{}", join(fold, j, fmt::format("{}[{}]", fold.shared, theirs), fold.arg ? fmt::format("{}[{}]", fold.shared_index, theirs) : ""));
      main.line("{}[{}] = {};", fold.shared, slot(j), at(fold.accumulator, j));
      if (fold.arg) main.line("{}[{}] = {};", fold.shared_index, slot(j), at(fold.index + "_i", j));
    }
  }
  main.close();
  main.line("barrier();");
  main.close();
  const std::string first = schedule_.vector_rows ? fmt::format("lane % {}u", schedule_.row_lanes) : "lane - column_lane";
  for (const FoldText& fold : folds) {
    if (fold.stage != stage) continue;
    for (int j = 0; j < width_; ++j) {
      const std::string from = j == 0 ? first : fmt::format("{} + {}u", first, j * size);
      main.line("{} = {}[{}];", at(fold.accumulator, j), fold.shared, from);
      if (fold.arg) main.line("{} = {}[{}];", at(fold.index + "_i", j), fold.shared_index, from);
    }
  }
}

std::vector<std::string> Combine::words_of(const FoldText& fold, const std::string& value) const {
  switch (ops::lane_of(fold.operand)) {
    case Lane::f32: return {fmt::format("floatBitsToUint({})", value)};
    case Lane::u32: return {value};
    case Lane::i32:
    case Lane::boolean: return {fmt::format("uint({})", value)};
    default: return pack(fold.operand, 1, value, dialect_);
  }
}

std::string Combine::value_of(const FoldText& fold, const std::string& at_word) const {
  const std::string word = fmt::format("partials.w[{}]", at_word);
  switch (ops::lane_of(fold.operand)) {
    case Lane::f32: return fmt::format("uintBitsToFloat({})", word);
    case Lane::u32: return word;
    case Lane::i32: return fmt::format("int({})", word);
    case Lane::boolean: return fmt::format("{} != 0u", word);
    default: {
      const std::vector<std::string> words{word, fmt::format("partials.w[{} + 1u]", at_word)};
      return unpack(fold.operand, 1, words, dialect_, false);
    }
  }
}

std::int64_t Combine::base(std::span<const FoldText> folds, const FoldText& fold, std::int64_t rows) const {
  std::int64_t words = 0;
  for (const FoldText& other : folds) {
    if (other.id == fold.id) break;
    words += rows * schedule_.parts * (other.words + (other.arg ? 1 : 0));
  }
  return words;
}

void Combine::to_parts(std::span<const FoldText> folds, int stage, std::int64_t rows, Writer& main) const {
  main.open("if (inside{}) {{", schedule_.column_lanes > 1 ? " && column_lane == 0u" : "");
  for (const FoldText& fold : folds) {
    if (fold.stage != stage) continue;
    const int words = fold.words + (fold.arg ? 1 : 0);
    for (int j = 0; j < width_; ++j) {
      const std::string row = width_ == 1 ? "row" : fmt::format("(row * {}u + {}u)", width_, j);
      const std::string place = fmt::format("{}u + ({} * {}u + part) * {}u", base(folds, fold, rows), row, schedule_.parts, words);
      std::vector<std::string> values = words_of(fold, at(fold.accumulator, j));
      if (fold.arg) values.push_back(at(fold.index + "_i", j));
      for (std::size_t k = 0; k < values.size(); ++k) main.line("partials.w[{}{}] = {};", place, k == 0 ? "" : fmt::format(" + {}u", k), values[k]);
    }
  }
  main.close();
}

void Combine::from_parts(std::span<const FoldText> folds, int stage, std::int64_t rows, Writer& main) const {
  main.open("for (uint k = column_lane; k < {}u; k += {}u) {{", schedule_.parts, schedule_.column_lanes);
  for (const FoldText& fold : folds) {
    if (fold.stage != stage) continue;
    const int words = fold.words + (fold.arg ? 1 : 0);
    for (int j = 0; j < width_; ++j) {
      const std::string row = width_ == 1 ? "row" : fmt::format("(row * {}u + {}u)", width_, j);
      main.line("{{");
      main.indent();
      main.line("uint place = {}u + ({} * {}u + k) * {}u;", base(folds, fold, rows), row, schedule_.parts, words);
      main.line("{}{}", fold.prefix ? "if (k < part) " : "",
                join(fold, j, value_of(fold, "place"), fold.arg ? fmt::format("partials.w[place + {}u]", fold.words) : ""));
      main.close();
    }
  }
  main.close();
}

}  // namespace vkfuse::codegen
