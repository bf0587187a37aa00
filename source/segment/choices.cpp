// Views whose elements come from one value or another, by their position: pad, an assignment to a slice, concat.
#include "segment/builder.hpp"
#include "segment/views.hpp"

namespace vkfuse::segment {

void Builder::process_choice(ValueId id) {
  const ir::Node& node = graph_.node(requests_[id].node);
  if (node.op->role == ops::Role::pad) return process_pad(id);
  if (node.op->role == ops::Role::slice_assign) return process_slice_assign(id);
  process_concat(id);
}

void Builder::choose(ValueId id, ValueId where_it_holds, ValueId otherwise, Predicate predicate) {
  Value& value = requests_[id].value;
  value.kind = Value::Kind::choose;
  value.operands = {where_it_holds, otherwise};
  value.predicates = {std::move(predicate)};
}

void Builder::process_pad(ValueId id) {
  const ir::NodeId node_id = requests_[id].node;
  const ir::Node& node = graph_.node(node_id);
  const int context = requests_[id].context;
  if (is_empty(node.operands[0])) {
    requests_[id].alias = request_element(node.operands[1], {}, context);
    return;
  }
  OperandPosition place = position_in_operand(node, requests_[id].coordinates,
                                              {.result = sizes_of(node_id), .sizes = sizes_of(node.operands[0])});
  const int inside = contexts_.inside(context, *place.predicate);
  const ValueId element = request_element(node.operands[0], std::move(place.coordinates), inside);
  if (inside == context) {
    requests_[id].alias = element;
    return;
  }
  const ValueId fill = request_element(node.operands[1], {}, context);
  choose(id, element, fill, *std::move(place.predicate));
}

void Builder::process_slice_assign(ValueId id) {
  const ir::NodeId node_id = requests_[id].node;
  const ir::Node& node = graph_.node(node_id);
  const int context = requests_[id].context;
  const Coordinates coordinates = requests_[id].coordinates;
  if (is_empty(node.operands[1])) {
    requests_[id].alias = request_element(node.operands[0], coordinates, context);
    return;
  }
  OperandPosition place = position_in_operand(
      node, coordinates, {.result = sizes_of(node_id), .sizes = sizes_of(node.operands[1]), .number = 1});
  const int inside = contexts_.inside(context, *place.predicate);
  const ValueId update = request_element(node.operands[1], std::move(place.coordinates), inside);
  if (inside == context) {
    requests_[id].alias = update;
    return;
  }
  Predicate outside = *place.predicate;
  outside.negated = true;
  const ValueId base = request_element(node.operands[0], coordinates, contexts_.inside(context, std::move(outside)));
  choose(id, update, base, *std::move(place.predicate));
}

/// Each operand where it stands, the last one wherever none of the others does.
void Builder::process_concat(ValueId id) {
  const ir::NodeId node_id = requests_[id].node;
  const ir::Node& node = graph_.node(node_id);
  const int context = requests_[id].context;
  const Coordinates coordinates = requests_[id].coordinates;
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
  std::vector<std::pair<ValueId, Predicate>> parts;
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < node.operands.size(); ++k) {
    if (is_empty(node.operands[k])) continue;
    const Sizes& sizes = sizes_of(node.operands[k]);
    OperandPosition place = position_in_operand(
        node, coordinates, {.result = sizes_of(node_id), .sizes = sizes, .number = k, .begin = begin});
    begin += sizes[axis];
    const index::Interval interval = index::interval_of(place.predicate->ranges[0].value);
    if (interval.high < 0 || interval.low >= place.predicate->ranges[0].size) continue;  // never here
    const int inside = contexts_.inside(context, *place.predicate);
    parts.emplace_back(request_element(node.operands[k], std::move(place.coordinates), inside), *place.predicate);
  }
  if (parts.empty()) {
    requests_[id].value.kind = Value::Kind::position;  // an empty tensor: nobody runs this
    return;
  }
  // A chain of choices: (is it a? a : is it b? b : c). The extra links are values of the same node.
  ValueId rest = parts.back().first;
  for (std::size_t k = parts.size() - 1; k-- > 0;) {
    const ValueId link = k > 0 ? requests_.add_unlisted(node_id, context) : id;
    choose(link, parts[k].first, rest, std::move(parts[k].second));
    rest = link;
  }
  if (rest != id) requests_[id].alias = rest;
}

}  // namespace vkfuse::segment
