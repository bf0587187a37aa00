#include "kernel/vocabulary.hpp"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "ops/op.hpp"
#include "ops/prelude.hpp"

namespace vkfuse::lowering {

namespace {

constexpr WordRow kWords[] = {
    {"int64_t", Need::int64},
    {"uint64_t", Need::int64},
    {"i64vec2", Need::int64},
    {"i64vec4", Need::int64},
    {"u64vec2", Need::int64},
    {"u64vec4", Need::int64},
    {"packUint2x32", Need::int64},
    {"unpackUint2x32", Need::int64},
    {"f16vec2", Need::float16},
    {"f16x2_values_native", Need::float16},
    {"f16x2_bits_native", Need::float16},
    {"float8_e4m3fn_x4_bits_native", Need::float16},
    {"float8_e5m2_x4_bits_native", Need::float16},
    {"float8_e4m3fnuz_x4_bits_native", Need::float16},
    {"float8_e5m2fnuz_x4_bits_native", Need::float16},
    {"double", Need::float64},
    {"doubleBitsToInt64", Need::float64},
    {"doubleBitsToUint64", Need::float64},
    {"gl_WorkGroupID", Need::workgroup},
    {"gl_SubgroupID", Need::subgroups},
    {"gl_SubgroupInvocationID", Need::subgroups},
    {"gl_SubgroupSize", Need::subgroups},
    {"subgroupShuffle", Need::shuffles},
    {"subgroupShuffleXor", Need::shuffles},
    {"subgroupAny", Need::votes},
    {"coopmat", Need::matrices},
    {"coopMatPerElementNV", Need::matrix_functions},
    {"coopMatLoadTensorNV", Need::matrix_functions},
    {"i8x4_dot", Need::integer_dots},
    {"unroll", Need::loop_control},
    {"dont_unroll", Need::loop_control},
};

/// Names of variables that templates give. A name that is made of a value's is none of those that a kernel has.
constexpr std::string_view kLocals[] = {
    "added",       "base",       "batch",      "begin",    "block",        "chunk",     "column",       "count",
    "d",           "element",    "end",        "fallen",   "first",        "first_k",   "first_m",      "first_n",
    "four",        "g",          "highest",    "i",        "in_swizzle",   "in_tile",   "inside",       "j",
    "k",           "kept",       "keys",       "larger",   "larger_of",    "last",      "lowest",       "m",
    "n",           "nearest",    "next",       "order",    "own",          "p",         "part",         "part_of_row",
    "place",       "position",   "power",      "power_of", "prefetched",   "product",   "reduced",      "result_at",
    "row",         "scale",      "score",      "score_at", "second",       "start",     "step",         "steps",
    "subgroup",    "subgroup_m", "subgroup_n", "subtile",  "swizzle",      "t",         "third",        "thread",
    "thread_k",    "thread_m",   "thread_n",   "tile",     "tile_m",       "tile_n",    "tile_operand", "top",
    "turned",      "u",          "unit",       "weight",   "weight_at",    "whole",     "workgroup",    "first_row",
    "first_plane", "plane",      "line",       "line_tap", "sheet",        "sheet_tap", "serial",       "tap",
    "low",         "turn",       "visited",    "depth",    "partial_rows", "block0",    "block1",       "block2",
    "block3",      "block4",     "block5",     "block6",   "block7",       "outer"};

struct Vocabulary {
  std::vector<WordRow> rows;
  std::unordered_map<std::string_view, Word> numbers;

  Vocabulary() {
    for (const WordRow& row : kWords) add(row);
    for (const std::string_view local : kLocals) add({.name = local, .is_local = true});
    for (const std::string_view function : ops::prelude_functions()) {
      if (const auto known = numbers.find(function); known != numbers.end())
        rows[known->second].of_prelude = true;
      else
        add({function, Need::nothing, true});
    }
  }
  void add(const WordRow& row) {
    check(numbers.emplace(row.name, static_cast<Word>(rows.size())).second, "a word of a kernel means one thing");
    rows.push_back(row);
  }
};

const Vocabulary& vocabulary() {
  static const Vocabulary all;
  return all;
}

}  // namespace

Word word_of(std::string_view name) {
  const auto found = vocabulary().numbers.find(name);
  return found == vocabulary().numbers.end() ? kNoWord : found->second;
}

const WordRow& row_of(Word word) { return vocabulary().rows[word]; }

}  // namespace vkfuse::lowering
