#include "schedule/in_place.hpp"

#include <algorithm>
#include <span>

namespace vkfuse::schedule {

using segment::Value;

std::vector<bool> computed_from(const segment::Loops& loops, ir::NodeId read) {
  std::vector<bool> reached(loops.values.size(), false);
  for (segment::ValueId id = 0; id < reached.size(); ++id) {
    const Value& value = loops.values[id];
    const auto is_reached = [&](segment::ValueId other) { return reached[other]; };
    reached[id] = (value.kind == Value::Kind::load && value.node == read) ||
                  std::any_of(value.operands.begin(), value.operands.end(), is_reached) ||
                  std::any_of(value.data.begin(), value.data.end(), is_reached);
  }
  return reached;
}

bool replaces_input(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule, ir::NodeId read,
                    ir::NodeId stored) {
  const std::span<const ir::Output> outputs = graph.outputs();
  const bool is_output =
      std::any_of(outputs.begin(), outputs.end(), [&](const ir::Output& one) { return one.value == stored; });
  const ir::Node& input = graph.node(read);
  if (schedule.kind() != Template::pointwise || !is_output ||
      !std::holds_alternative<ir::InputPayload>(input.payload) || input.type.dtype != graph.node(stored).type.dtype)
    return false;
  const std::vector<bool> reached = computed_from(loops, read);
  return std::all_of(loops.stores.begin(), loops.stores.end(), [&](const segment::Store& store) {
    const auto is_elsewhere = [&](const Value& value) {
      return value.kind == Value::Kind::load && value.node == read && value.offset != store.offset;
    };
    return store.node != stored ||
           (reached[store.value] && std::none_of(loops.values.begin(), loops.values.end(), is_elsewhere));
  });
}

}  // namespace vkfuse::schedule
