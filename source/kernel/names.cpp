#include "kernel/names.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "kernel/printer.hpp"

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

bool may_take(const std::string& name, std::set<std::string>& taken) {
  return !std::binary_search(std::begin(kReserved), std::end(kReserved), name) && taken.insert(name).second;
}

}  // namespace

Code Names::given(std::string of_graph, std::string by_order) {
  names_.push_back({{std::move(of_graph), std::move(by_order)}, {}});
  return Code::symbol(Symbol::Kind::name, names_.size() - 1);
}

Code Names::unique(const Code& requested) {
  names_.push_back({{}, requested});
  return Code::symbol(Symbol::Kind::name, names_.size() - 1);
}

std::vector<std::string> Names::texts(Naming naming) const {
  const auto column = static_cast<std::size_t>(naming);
  std::set<std::string> taken;
  for (const Name& name : names_) {
    if (name.requested.empty()) taken.insert(name.given[column]);
  }
  std::vector<std::string> texts;
  for (const Name& name : names_) {
    if (name.requested.empty()) {
      texts.push_back(name.given[column]);
      continue;
    }
    const std::string requested = Printer(texts, nullptr).text(name.requested);
    std::string own = requested;
    for (int i = 1; !may_take(own, taken); ++i) own = requested + std::to_string(i);
    texts.push_back(std::move(own));
  }
  return texts;
}

}  // namespace vkfuse::lowering
