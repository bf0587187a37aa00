#include "segment/builder.hpp"

#include <algorithm>

#include "base/mutations.hpp"
#include "ir/structured.hpp"
#include "segment/views.hpp"

namespace vkfuse::segment {

using index::Expr;

const Sizes& Builder::sizes_of(ir::NodeId node) {
  const auto found = sizes_.find(node);
  if (found != sizes_.end()) return found->second;
  const Shape& shape = is_member(node) ? walked_shape(graph_, node) : graph_.node(node).type.shape;
  auto sizes = resolve(shape, symbols_);
  check(sizes.ok(), "the sizes of a segment's values are known");
  // An empty tensor is never loaded or stored; 1 keeps the index arithmetic defined.
  for (std::int64_t& size : *sizes) size = std::max<std::int64_t>(size, 1);
  return sizes_.emplace(node, *std::move(sizes)).first->second;
}

std::int64_t Builder::count_of(ir::NodeId node) { return saturating_product(sizes_of(node)); }

bool Builder::is_empty(ir::NodeId node) const {
  return saturating_product(*resolve(graph_.node(node).type.shape, symbols_)) == 0;
}

bool Builder::is_member(ir::NodeId node) const {
  return std::binary_search(segment_.members.begin(), segment_.members.end(), node);
}

void Builder::add_root(ir::NodeId node, const Coordinates& coordinates) {
  request_element(node, coordinates, 0);
  stores_[node] = coordinates;
}

void Builder::add_axes_of(const Expr& expr, std::set<index::AxisId>& axes) const {
  for (const index::AxisId axis : index::axes_of(expr)) axes.insert(axis);
  if (VKF_PLANT(axes_behind_data, false, true)) return;
  for (const index::DataId data : index::data_of(expr)) {
    for (const Expr& one : requests_[static_cast<ValueId>(data)].coordinates) add_axes_of(one, axes);
  }
}

bool Builder::varies_along_reduction(const Expr& expr) const {
  if (axes_.uses_reduction(expr)) return true;
  const std::vector<index::DataId> picked = index::data_of(expr);
  return std::any_of(picked.begin(), picked.end(), [&](index::DataId data) {
    const Coordinates& coordinates = requests_[static_cast<ValueId>(data)].coordinates;
    return std::any_of(coordinates.begin(), coordinates.end(),
                       [&](const Expr& one) { return varies_along_reduction(one); });
  });
}

int Builder::of_whole_rows(int context) {
  int made = VKF_PLANT(choice_inside_a_reduction, 0, context);
  for (Predicate predicate : contexts_.predicates_of(context)) {
    const auto changes = [&](const Predicate::Range& range) { return varies_along_reduction(range.value); };
    // "Not all of these" is not known of the rest of them.
    if (predicate.negated && std::any_of(predicate.ranges.begin(), predicate.ranges.end(), changes)) continue;
    std::erase_if(predicate.ranges, changes);
    made = contexts_.inside(made, std::move(predicate));
  }
  return made;
}

bool Builder::is_left_to_whole_rows(ValueId id) {
  const int context = requests_[id].context;
  const int whole = of_whole_rows(context);
  if (whole == context) return false;
  requests_[id].alias = request_element(requests_[id].node, requests_[id].coordinates, whole);
  return true;
}

/// The first request. Of what a member reduces, the position of its result follows from those of its operand.
void Builder::request_base() {
  if (!base_.reduction) return add_root(base_.node, axes_.base_coordinates);
  const ir::Node& reduction = graph_.node(*base_.reduction);
  const Coordinates& all = axes_.base_coordinates;
  Coordinates own;
  if (reduction.op->cls == ops::OpClass::contraction) {
    const std::size_t rank = reduction.type.shape.size();
    own.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rank));
    axes_.fix_reduction([&](const WalkAxis& axis) { return static_cast<std::size_t>(axis.dim) >= rank; });
  } else if (const auto* reduced = std::get_if<ir::AxesPayload>(&reduction.payload)) {
    const auto is_reduced = [&](int dim) {
      return std::find(reduced->axes.begin(), reduced->axes.end(), dim) != reduced->axes.end();
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!is_reduced(static_cast<int>(i))) own.push_back(all[i]);
    }
    axes_.fix_reduction([&](const WalkAxis& axis) { return is_reduced(axis.dim); });
  } else {
    own = all;
  }
  request_element(*base_.reduction, std::move(own), 0);
}

Result<void> Builder::run() {
  request_base();
  const std::size_t limit = 64 + 8 * segment_.members.size();
  for (const auto& [node, requested] : requests_.by_node()) {
    // By number: processing one request may add others, but only of earlier nodes.
    for (std::size_t i = 0; i < requested.size(); ++i) {
      VKF_CHECK_OK(process(requested[i]));
      if (requested_split_) return {};
    }
    if (requests_.size() > limit) {
      return unsupported("Its {} ops would be computed at more than {} positions.", segment_.members.size(), limit);
    }
  }
  return {};
}

Result<void> Builder::process(ValueId id) {
  const ir::NodeId node_id = requests_[id].node;
  const ir::Node& node = graph_.node(node_id);
  if (is_literal(graph_, node_id)) {
    requests_[id].value.kind = Value::Kind::literal;
    return {};
  }
  if (!is_member(node_id)) {
    process_load(id);
    return {};
  }
  switch (node.op->cls) {
    case ops::OpClass::elementwise:
    case ops::OpClass::convert: process_elementwise(id); return {};
    case ops::OpClass::generate: process_generate(id); return {};
    case ops::OpClass::view: is_choice(node) ? process_choice(id) : process_view(id); return {};
    case ops::OpClass::gather: return process_gather(id);
    case ops::OpClass::update: process_update(id); return {};
    case ops::OpClass::reduce: return process_reduction(id);
    case ops::OpClass::contraction: return process_contraction(id);
    case ops::OpClass::scan: return process_scan(id);
    case ops::OpClass::sort: return process_sort(id);
    default: return unsupported("'{}' has no kernel yet.", node.op->name);
  }
}

void Builder::process_load(ValueId id) {
  ElementRequest& load = requests_[id];
  load.value.kind = Value::Kind::load;
  load.value.offset = index::linearize(load.coordinates, sizes_of(load.node));
  load.value.buffer_elements = count_of(load.node);
  load.value.predicates = contexts_.predicates_of(load.context);
}

void Builder::process_elementwise(ValueId id) {
  requests_[id].value.kind = Value::Kind::compute;
  for (ir::NodeId operand : graph_.node(requests_[id].node).operands) {
    const ValueId made = request_element(operand, broadcast_coordinates(requests_[id].coordinates, sizes_of(operand)),
                                         requests_[id].context);
    requests_[id].value.operands.push_back(made);
  }
}

void Builder::process_generate(ValueId id) {
  ElementRequest& generated = requests_[id];
  generated.value.kind = Value::Kind::position;
  const auto* iota = std::get_if<ir::IotaPayload>(&graph_.node(generated.node).payload);
  generated.value.offset = iota != nullptr ? generated.coordinates[static_cast<std::size_t>(iota->axis)]
                                           : index::linearize(generated.coordinates, sizes_of(generated.node));
}

void Builder::process_view(ValueId id) {
  const ir::NodeId node = requests_[id].node;
  const ir::NodeId operand = graph_.node(node).operands[0];
  OperandPosition place = position_in_operand(graph_.node(node), requests_[id].coordinates,
                                              {.result = sizes_of(node), .sizes = sizes_of(operand)});
  requests_[id].alias = request_element(operand, std::move(place.coordinates), requests_[id].context);
}

/// At a position among the rows: where they go is for who stores them (write_stores).
void Builder::process_update(ValueId id) {
  const ir::Node& node = graph_.node(requests_[id].node);
  const int context = requests_[id].context;
  const Coordinates coordinates = requests_[id].coordinates;
  const auto first = static_cast<std::ptrdiff_t>(graph_.node(node.operands[1]).type.shape.size());
  const ValueId rows = request_element(node.operands[2], coordinates, context);
  const ValueId start =
      request_element(node.operands[1], Coordinates(coordinates.begin(), coordinates.begin() + first), context);
  Value& value = requests_[id].value;
  value.kind = Value::Kind::compute;
  value.operands = {rows, start};
}

Result<void> Builder::process_gather(ValueId id) {
  const ir::Node& node = graph_.node(requests_[id].node);
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
  const int context = requests_[id].context;
  const std::int64_t size = sizes_of(node.operands[0])[axis];
  VKF_CHECK_OK(ir::check_picks(graph_, requests_[id].node, symbols_));
  if (is_empty(node.operands[0])) {
    requests_[id].value.kind = Value::Kind::position;  // 0
    return {};
  }
  GatherPosition position =
      position_in_gather(node, requests_[id].coordinates, sizes_of(node.operands[0]), sizes_of(node.operands[1]));
  // Of one element there is nothing to choose, and a position that nobody asks for would stand in the kernel.
  if (size != 1) {
    const ValueId chosen = request_element(node.operands[1], std::move(position.in_indices), context);
    position.in_data[axis] = Expr::data(static_cast<int>(chosen), size);
  }
  requests_[id].alias = request_element(node.operands[0], std::move(position.in_data), context);
  return {};
}

}  // namespace vkfuse::segment
