#include "kernel/names.hpp"

#include <algorithm>
#include <iterator>

namespace vkfuse::lowering {

namespace {

/// Names that templates give, in order.
constexpr std::string_view kReserved[] = {
    "added",      "base",       "batch",    "begin",   "block",     "chunk",     "column",
    "count",      "d",          "element",  "end",     "fallen",    "first",     "first_k",
    "first_m",    "first_n",    "four",     "g",       "highest",   "i",         "in_swizzle",
    "in_tile",    "inside",     "j",        "k",       "kept",      "keys",      "larger",
    "larger_of",  "last",       "lowest",   "m",       "n",         "nearest",   "next",
    "order",      "own",        "p",        "part",    "place",     "position",  "power",
    "power_of",   "prefetched", "product",  "reduced", "result_at", "row",       "scale",
    "score",      "score_at",   "second",   "start",   "step",      "steps",     "subgroup",
    "subgroup_m", "subgroup_n", "subtile",  "swizzle", "t",         "third",     "thread",
    "thread_k",   "thread_m",   "thread_n", "tile",    "tile_m",    "tile_n",    "tile_operand",
    "top",        "turned",     "u",        "unit",    "weight",    "weight_at", "whole",
    "workgroup"};
static_assert(std::is_sorted(std::begin(kReserved), std::end(kReserved)));

}  // namespace

bool Names::may_take(const std::string& name) {
  return !std::binary_search(std::begin(kReserved), std::end(kReserved), name) && taken_.insert(name).second;
}

Code Names::unique(const Code& requested) {
  if (may_take(requested.text_)) return requested;
  for (int i = 1;; ++i) {
    std::string name = requested.text_ + std::to_string(i);
    if (may_take(name)) return name;
  }
}

}  // namespace vkfuse::lowering
