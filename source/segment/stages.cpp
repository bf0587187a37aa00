// What has to be finished before a value can be known, and so what each pass over the columns computes.
#include <algorithm>

#include "segment/loops.hpp"

namespace vkfuse::segment {

bool folds_first(const Loops& loops, const Value& value) {
  return value.kind == Value::Kind::fold || value.kind == Value::Kind::sort ||
         (value.kind == Value::Kind::scan && loops.scans_in_parts);
}

void derive_stages(Loops& loops) {
  loops.passes = 1;
  for (Value& value : loops.values) {
    value.stage = 0;
    for (ValueId id : value.operands) value.stage = std::max(value.stage, loops.values[id].stage);
    for (ValueId id : value.data) value.stage = std::max(value.stage, loops.values[id].stage);
    if (!folds_first(loops, value)) continue;
    ++value.stage;
    loops.passes = std::max(loops.passes, value.stage);
  }
  for (const Store& store : loops.stores) {
    if ((store.axes & loops.columns()) != 0) loops.passes = std::max(loops.passes, pass_of_store(loops, store) + 1);
  }
}

Loops with_scans_in_parts(Loops loops) {
  loops.scans_in_parts = true;
  derive_stages(loops);
  return loops;
}

std::vector<bool> needed_in_pass(const Loops& loops, int pass) {
  std::vector<bool> needed(loops.values.size(), false);
  const auto need = [&](ValueId id) { needed[id] = needed[id] || loops.per_element(loops.values[id]); };
  for (const Value& value : loops.values) {
    if (folds_first(loops, value) && pass_of_fold(value) == pass) need(value.operands[0]);
  }
  for (const Store& store : loops.stores) {
    if ((store.axes & loops.columns()) != 0 && pass_of_store(loops, store) == pass) need(store.value);
  }
  for (ValueId id = static_cast<ValueId>(loops.values.size()); id-- > 0;) {
    if (!needed[id] || loops.values[id].kind == Value::Kind::fold || loops.values[id].kind == Value::Kind::sort)
      continue;
    for (ValueId operand : loops.values[id].operands) need(operand);
    for (ValueId data : loops.values[id].data) need(data);
  }
  return needed;
}

}  // namespace vkfuse::segment
