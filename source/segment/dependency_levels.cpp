// What has to be finished before a value can be known, and so what each pass over the columns computes.
#include <algorithm>

#include "segment/loops.hpp"

namespace vkfuse::segment {

bool reduces_first(const Loops& loops, const Value& value) {
  return value.kind == Value::Kind::reduction || value.kind == Value::Kind::sort ||
         (value.kind == Value::Kind::scan && loops.split_scans);
}

void derive_levels(Loops& loops) {
  loops.passes = 1;
  for (Value& value : loops.values) {
    value.level = 0;
    for (ValueId id : value.operands) value.level = std::max(value.level, loops.values[id].level);
    for (ValueId id : value.data) value.level = std::max(value.level, loops.values[id].level);
    if (!reduces_first(loops, value)) continue;
    ++value.level;
    loops.passes = std::max(loops.passes, value.level);
  }
  for (const Store& store : loops.stores) {
    if ((store.axes & loops.columns()) != 0) loops.passes = std::max(loops.passes, pass_of_store(loops, store) + 1);
  }
}

Loops with_split_scans(Loops loops) {
  loops.split_scans = true;
  derive_levels(loops);
  return loops;
}

std::vector<bool> needed_in_pass(const Loops& loops, int pass) {
  std::vector<bool> needed(loops.values.size(), false);
  const auto need = [&](ValueId id) { needed[id] = needed[id] || loops.per_element(loops.values[id]); };
  for (const Value& value : loops.values) {
    if (reduces_first(loops, value) && pass_of_reduction(value) == pass) need(value.operands[0]);
  }
  for (const Store& store : loops.stores) {
    if ((store.axes & loops.columns()) != 0 && pass_of_store(loops, store) == pass) need(store.value);
  }
  for (ValueId id = static_cast<ValueId>(loops.values.size()); id-- > 0;) {
    if (!needed[id] || loops.values[id].kind == Value::Kind::reduction || loops.values[id].kind == Value::Kind::sort)
      continue;
    for (ValueId operand : loops.values[id].operands) need(operand);
    for (ValueId data : loops.values[id].data) need(data);
  }
  return needed;
}

}  // namespace vkfuse::segment
