#include "segment/builder.hpp"

#include <algorithm>

#include "base/mutations.hpp"
#include "index/arithmetic.hpp"
#include "ir/structured.hpp"
#include "segment/views.hpp"

namespace vkfuse::segment {

using index::AxisId;
using index::Expr;

namespace {

std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count = index::saturating_mul(count, size);
  return count;
}

}  // namespace

Builder::Builder(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols, const Base& base,
                 std::span<const SplitRequest> splits)
    : graph_(graph), segment_(segment), symbols_(symbols), base_(base) {
  std::vector<Sizes> pieces;
  for (std::int64_t size : base.sizes) pieces.push_back({std::max<std::int64_t>(size, 1)});
  for (const SplitRequest& split : splits) {
    Sizes& own = pieces[static_cast<std::size_t>(split.dim)];
    const auto at = own.begin() + split.piece;
    *at /= split.factor;
    own.insert(at + 1, split.factor);
  }
  for (std::size_t dim = 0; dim < pieces.size(); ++dim) {
    Coordinates digits;
    for (std::size_t piece = 0; piece < pieces[dim].size(); ++piece) {
      const std::int64_t size = pieces[dim][piece];
      if (size == 1) {
        digits.emplace_back(0);
        continue;
      }
      const auto id = static_cast<AxisId>(axes_.size());
      axes_.push_back({id, size, static_cast<int>(dim), static_cast<int>(piece)});
      digits.push_back(Expr::axis(id, size));
    }
    base_coordinates_.push_back(index::linearize(digits, pieces[dim]));
  }
}

const Sizes& Builder::sizes_of(ir::NodeId node) {
  const auto found = sizes_.find(node);
  if (found != sizes_.end()) return found->second;
  auto sizes = resolve(graph_.node(node).type.shape, symbols_);
  check(sizes.ok(), "the sizes of a segment's values are known");
  // An empty tensor is never loaded or stored; 1 keeps the index arithmetic defined.
  for (std::int64_t& size : *sizes) size = std::max<std::int64_t>(size, 1);
  return sizes_.emplace(node, *std::move(sizes)).first->second;
}

std::int64_t Builder::count_of(ir::NodeId node) { return product(sizes_of(node)); }

ValueId Builder::request_element(ir::NodeId node, Coordinates coordinates, int context) {
  std::vector<ValueId>& known = by_node_[node];
  for (ValueId id : known) {
    if (element_requests_[id].context == context && element_requests_[id].coordinates == coordinates) return id;
  }
  const auto id = static_cast<ValueId>(element_requests_.size());
  known.push_back(id);
  element_requests_.push_back({node, std::move(coordinates), context, {}, std::nullopt});
  element_requests_.back().value.node = node;
  return id;
}

void Builder::add_root(ir::NodeId node, const Coordinates& coordinates) {
  request_element(node, coordinates, 0);
  stores_[node] = coordinates;
}

int Builder::predicated(int context, Predicate predicate) {
  std::erase_if(predicate.ranges, [](const Predicate::Range& range) {
    const index::Interval interval = index::interval_of(range.value);
    return interval.low >= 0 && interval.high < range.size;
  });
  if (predicate.ranges.empty() && !predicate.negated) return context;
  for (std::size_t i = 1; i < contexts_.size(); ++i) {
    if (contexts_[i].parent == context && contexts_[i].predicate == predicate) return static_cast<int>(i);
  }
  contexts_.push_back({context, std::move(predicate)});
  return static_cast<int>(contexts_.size()) - 1;
}

std::vector<Predicate> Builder::predicates_of(int context) const {
  std::vector<Predicate> predicates;
  for (int at = context; at > 0; at = contexts_[static_cast<std::size_t>(at)].parent)
    predicates.push_back(contexts_[static_cast<std::size_t>(at)].predicate);
  std::reverse(predicates.begin(), predicates.end());
  return predicates;
}

bool Builder::varies_along_reduction(const Expr& expr) const {
  const std::vector<AxisId> used = index::axes_of(expr);
  if (std::any_of(used.begin(), used.end(), [&](AxisId axis) { return reduction_axes_.count(axis) != 0; })) return true;
  const std::vector<index::DataId> picked = index::data_of(expr);
  return std::any_of(picked.begin(), picked.end(), [&](index::DataId data) {
    const Coordinates& coordinates = element_requests_[static_cast<ValueId>(data)].coordinates;
    return std::any_of(coordinates.begin(), coordinates.end(),
                       [&](const Expr& one) { return varies_along_reduction(one); });
  });
}

int Builder::of_whole_rows(int context) {
  int made = VKF_PLANT(choice_inside_a_reduction, 0, context);
  for (Predicate predicate : predicates_of(context)) {
    const auto changes = [&](const Predicate::Range& range) { return varies_along_reduction(range.value); };
    // "Not all of these" is not known of the rest of them.
    if (predicate.negated && std::any_of(predicate.ranges.begin(), predicate.ranges.end(), changes)) continue;
    std::erase_if(predicate.ranges, changes);
    made = predicated(made, std::move(predicate));
  }
  return made;
}

Result<void> Builder::run() {
  if (base_.reduction) {
    const ir::Node& reduction = graph_.node(*base_.reduction);
    Coordinates own;
    if (reduction.op->cls == ops::OpClass::contraction) {
      const std::size_t rank = reduction.type.shape.size();
      own.assign(base_coordinates_.begin(), base_coordinates_.begin() + static_cast<std::ptrdiff_t>(rank));
      for (const BaseAxis& axis : axes_) {
        if (static_cast<std::size_t>(axis.dim) >= rank) reduction_axes_.insert(axis.id);
      }
      reduction_axes_known_ = true;
    } else if (const auto* reduced = std::get_if<ir::AxesPayload>(&reduction.payload)) {
      const auto is_reduced = [&](int dim) {
        return std::find(reduced->axes.begin(), reduced->axes.end(), dim) != reduced->axes.end();
      };
      for (std::size_t i = 0; i < base_coordinates_.size(); ++i) {
        if (!is_reduced(static_cast<int>(i))) own.push_back(base_coordinates_[i]);
      }
      for (const BaseAxis& axis : axes_) {
        if (is_reduced(axis.dim)) reduction_axes_.insert(axis.id);
      }
      reduction_axes_known_ = true;
    } else {
      own = base_coordinates_;
    }
    request_element(*base_.reduction, std::move(own), 0);
  } else {
    add_root(base_.node, base_coordinates_);
  }
  const std::size_t limit = 64 + 8 * segment_.members.size();
  for (auto node = by_node_.begin(); node != by_node_.end(); ++node) {
    // By position: processing one demand may add others, but only of earlier nodes.
    for (std::size_t i = 0; i < node->second.size(); ++i) {
      VKF_CHECK_OK(process(node->second[i]));
      if (requested_split_) return {};
    }
    if (element_requests_.size() > limit) {
      return unsupported("Its {} ops would be computed at more than {} positions.", segment_.members.size(), limit);
    }
  }
  return {};
}

Result<void> Builder::process(ValueId id) {
  const ir::NodeId node_id = element_requests_[id].node;
  const ir::Node& node = graph_.node(node_id);
  if (is_literal(graph_, node_id)) {
    element_requests_[id].value.kind = Value::Kind::literal;
    return {};
  }
  if (!std::binary_search(segment_.members.begin(), segment_.members.end(), node_id)) {
    ElementRequest& load = element_requests_[id];
    load.value.kind = Value::Kind::load;
    load.value.offset = index::linearize(load.coordinates, sizes_of(node_id));
    load.value.buffer_elements = count_of(node_id);
    load.value.predicates = predicates_of(load.context);
    return {};
  }
  switch (node.op->cls) {
    case ops::OpClass::elementwise:
    case ops::OpClass::convert: process_elementwise(id); return {};
    case ops::OpClass::generate: process_generate(id); return {};
    case ops::OpClass::view: is_choice(node) ? process_choice(id) : process_view(id); return {};
    case ops::OpClass::gather: return process_gather(id);
    case ops::OpClass::reduce: return process_reduction(id);
    case ops::OpClass::contraction: return process_contraction(id);
    case ops::OpClass::scan: return process_scan(id);
    case ops::OpClass::sort: return process_sort(id);
    default: return unsupported("'{}' has no kernel yet.", node.op->name);
  }
}

void Builder::process_elementwise(ValueId id) {
  element_requests_[id].value.kind = Value::Kind::compute;
  for (ir::NodeId operand : graph_.node(element_requests_[id].node).operands) {
    const ValueId made =
        request_element(operand, broadcast_coordinates(element_requests_[id].coordinates, sizes_of(operand)),
                        element_requests_[id].context);
    element_requests_[id].value.operands.push_back(made);
  }
}

void Builder::process_generate(ValueId id) {
  ElementRequest& request_element = element_requests_[id];
  request_element.value.kind = Value::Kind::position;
  const auto* iota = std::get_if<ir::IotaPayload>(&graph_.node(request_element.node).payload);
  request_element.value.offset = iota != nullptr
                                     ? request_element.coordinates[static_cast<std::size_t>(iota->axis)]
                                     : index::linearize(request_element.coordinates, sizes_of(request_element.node));
}

void Builder::process_view(ValueId id) {
  const ir::NodeId node = element_requests_[id].node;
  const ir::NodeId operand = graph_.node(node).operands[0];
  OperandPosition place = position_in_operand(graph_.node(node), element_requests_[id].coordinates, sizes_of(node),
                                              sizes_of(operand), 0, 0);
  element_requests_[id].alias = request_element(operand, std::move(place.coordinates), element_requests_[id].context);
}

void Builder::process_choice(ValueId id) {
  const ir::NodeId node_id = element_requests_[id].node;
  const ir::Node& node = graph_.node(node_id);
  const int context = element_requests_[id].context;
  const Coordinates coordinates = element_requests_[id].coordinates;
  // sizes_of knows no zeros, and what is empty stands nowhere: none of it is read.
  const auto is_empty = [&](ir::NodeId operand) {
    return product(*resolve(graph_.node(operand).type.shape, symbols_)) == 0;
  };
  if (node.op->name == "pad" && is_empty(node.operands[0])) {
    element_requests_[id].alias = request_element(node.operands[1], {}, context);
    return;
  }
  if (node.op->name == "slice_assign" && is_empty(node.operands[1])) {
    element_requests_[id].alias = request_element(node.operands[0], coordinates, context);
    return;
  }
  if (node.op->name == "pad") {
    OperandPosition place = position_in_operand(node, coordinates, sizes_of(node_id), sizes_of(node.operands[0]), 0, 0);
    const int inside = predicated(context, *place.predicate);
    const ValueId element = request_element(node.operands[0], std::move(place.coordinates), inside);
    if (inside == context) {
      element_requests_[id].alias = element;
      return;
    }
    const ValueId fill = request_element(node.operands[1], {}, context);
    element_requests_[id].value.kind = Value::Kind::choose;
    element_requests_[id].value.operands = {element, fill};
    element_requests_[id].value.predicates = {*place.predicate};
    return;
  }
  if (node.op->name == "slice_assign") {
    OperandPosition place = position_in_operand(node, coordinates, sizes_of(node_id), sizes_of(node.operands[1]), 1, 0);
    const int inside = predicated(context, *place.predicate);
    const ValueId update = request_element(node.operands[1], std::move(place.coordinates), inside);
    if (inside == context) {
      element_requests_[id].alias = update;
      return;
    }
    Predicate outside = *place.predicate;
    outside.negated = true;
    const ValueId base = request_element(node.operands[0], coordinates, predicated(context, outside));
    element_requests_[id].value.kind = Value::Kind::choose;
    element_requests_[id].value.operands = {update, base};
    element_requests_[id].value.predicates = {*place.predicate};
    return;
  }
  // concat: each operand where it stands, the last one wherever none of the others does.
  std::vector<std::pair<ValueId, Predicate>> parts;
  std::int64_t begin = 0;
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
  for (std::size_t k = 0; k < node.operands.size(); ++k) {
    const auto sizes = resolve(graph_.node(node.operands[k]).type.shape, symbols_);
    if (product(*sizes) == 0) continue;
    OperandPosition place = position_in_operand(node, coordinates, sizes_of(node_id), *sizes, k, begin);
    begin += (*sizes)[axis];
    const index::Interval reach = index::interval_of(place.predicate->ranges[0].value);
    if (reach.high < 0 || reach.low >= place.predicate->ranges[0].size) continue;  // never here
    const int inside = predicated(context, *place.predicate);
    parts.emplace_back(request_element(node.operands[k], std::move(place.coordinates), inside), *place.predicate);
  }
  if (parts.empty()) {
    element_requests_[id].value.kind = Value::Kind::position;  // an empty tensor: nobody runs this
    return;
  }
  // A chain of choices: (is it a? a : is it b? b : c). The extra links are values of the same node.
  ValueId rest = parts.back().first;
  for (std::size_t k = parts.size() - 1; k-- > 0;) {
    ValueId link = id;
    if (k > 0) {
      link = static_cast<ValueId>(element_requests_.size());
      element_requests_.push_back({node_id, {}, context, {}, std::nullopt});
      element_requests_.back().value.node = node_id;
    }
    element_requests_[link].value.kind = Value::Kind::choose;
    element_requests_[link].value.operands = {parts[k].first, rest};
    element_requests_[link].value.predicates = {parts[k].second};
    rest = link;
  }
  if (rest != id) element_requests_[id].alias = rest;
}

Result<void> Builder::process_gather(ValueId id) {
  const ir::Node& node = graph_.node(element_requests_[id].node);
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
  const ir::NodeId data = node.operands[0];
  const Sizes& sizes = sizes_of(data);
  const Sizes& index_sizes = sizes_of(node.operands[1]);
  const Coordinates coordinates = element_requests_[id].coordinates;
  const int context = element_requests_[id].context;
  VKF_CHECK_OK(ir::check_picks(graph_, element_requests_[id].node, symbols_));
  Coordinates position;
  Coordinates requested;
  if (node.op->name == "gather") {
    const auto begin = coordinates.begin() + static_cast<std::ptrdiff_t>(axis);
    requested.assign(begin, begin + static_cast<std::ptrdiff_t>(index_sizes.size()));
    requested = broadcast_coordinates(requested, index_sizes);
    position.assign(coordinates.begin(), begin);
    position.emplace_back(0);
    position.insert(position.end(), begin + static_cast<std::ptrdiff_t>(index_sizes.size()), coordinates.end());
    for (std::size_t i = 0; i < position.size(); ++i) {
      if (sizes[i] == 1) position[i] = Expr(0);
    }
  } else {
    requested = broadcast_coordinates(coordinates, index_sizes);
    position = broadcast_coordinates(coordinates, sizes);
  }
  // Of one element there is nothing to choose, and a position that nobody asks for would stand in the kernel.
  position[axis] =
      sizes[axis] == 1
          ? Expr(0)
          : Expr::data(static_cast<int>(request_element(node.operands[1], std::move(requested), context)), sizes[axis]);
  element_requests_[id].alias = request_element(data, std::move(position), context);
  return {};
}

bool Builder::request_split(const Expr& expr) {
  const auto split = index::useful_split(expr);
  if (!split) return false;
  const auto axis =
      std::find_if(axes_.begin(), axes_.end(), [&](const BaseAxis& candidate) { return candidate.id == split->axis; });
  if (axis == axes_.end()) return false;
  requested_split_ = SplitRequest{axis->dim, axis->piece, split->factor};
  return true;
}

std::vector<Expr> Builder::reduction_axes() const {
  std::vector<Expr> all;
  for (const BaseAxis& axis : axes_) {
    if (reduction_axes_.count(axis.id) != 0) all.push_back(Expr::axis(axis.id, axis.size));
  }
  return all;
}

/// The position in the order in which the columns are counted.
Expr Builder::reduction_position() const {
  Sizes sizes;
  for (const BaseAxis& axis : axes_) {
    if (reduction_axes_.count(axis.id) != 0) sizes.push_back(axis.size);
  }
  return index::linearize(reduction_axes(), sizes);
}

/// Columns are the axes that the first fold's position does not depend on; every other fold must agree.
Result<void> Builder::fix_reduction_axes(ir::NodeId node, std::span<const Expr> rows, std::int64_t count) {
  if (!own_axes_.empty() && own_role_ == Role::key)
    return unsupported("%{} reduces or scans rows, and another member of the kernel sorts them.", node);
  std::set<AxisId> used;
  for (const Expr& row : rows) {
    if (request_split(row)) return {};
    for (AxisId axis : index::axes_of(row)) used.insert(axis);
  }
  if (!reduction_axes_known_) {
    for (const BaseAxis& axis : axes_) {
      if (used.count(axis.id) == 0) reduction_axes_.insert(axis.id);
    }
    reduction_axes_known_ = true;
  }
  std::int64_t columns = 1;
  for (const BaseAxis& axis : axes_) columns *= reduction_axes_.count(axis.id) != 0 ? axis.size : 1;
  if (columns != count)
    return unsupported("%{} runs over {} elements at a time, and the other members of the kernel over {}.", node, count,
                       columns);
  for (AxisId axis : used) {
    if (reduction_axes_.count(axis) != 0)
      return unsupported("%{} runs along other axes than the other members of the kernel.", node);
  }
  return {};
}

Result<void> Builder::process_reduction(ValueId id) {
  const ir::NodeId node_id = element_requests_[id].node;
  const ir::Node& node = graph_.node(node_id);
  const ir::NodeId operand = node.operands[0];
  const Sizes sizes = sizes_of(operand);
  const auto& axes = std::get<ir::AxesPayload>(node.payload).axes;
  const Coordinates rows = element_requests_[id].coordinates;
  Sizes reduced_sizes;
  for (int axis : axes) reduced_sizes.push_back(sizes[static_cast<std::size_t>(axis)]);
  const auto real = resolve(graph_.node(operand).type.shape, symbols_);
  if (product(*real) == 0 && count_of(node_id) > 0) {
    element_requests_[id].value.kind = Value::Kind::literal;  // the identity
    return {};
  }
  const auto with = [&](const Coordinates& columns) {
    Coordinates all;
    std::size_t row = 0;
    std::size_t column = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end();
      all.push_back(reduced ? columns[column++] : rows[row++]);
    }
    return all;
  };
  const int context = element_requests_[id].context;
  if (product(reduced_sizes) == 1) {
    if (node.op->reduction.kind == ops::Reduction::Kind::arg) {
      element_requests_[id].value.kind = Value::Kind::position;
    } else {
      element_requests_[id].alias = request_element(operand, with(Coordinates(reduced_sizes.size(), Expr(0))), context);
    }
    return {};
  }
  if (runs_apart(node_id, rows, product(reduced_sizes))) {
    VKF_TRY(along, add_inner_axes(node_id, reduced_sizes));
    element_requests_[id].value.kind = Value::Kind::nested;
    element_requests_[id].value.over = AxisSet{1} << along.group;
    const ValueId made = request_element(operand, with(along.coordinates), context);
    element_requests_[id].value.operands = {made};
    return {};
  }
  VKF_CHECK_OK(fix_reduction_axes(node_id, rows, product(reduced_sizes)));
  if (requested_split_) return {};
  if (const int whole = of_whole_rows(context); whole != context) {
    element_requests_[id].alias = request_element(node_id, rows, whole);
    return {};
  }
  const ReducedOperand reductions[] = {{operand, with}};
  const Coordinates columns = reduction_coordinates(reduced_sizes, context, reductions);
  element_requests_[id].value.kind = Value::Kind::reduction;
  element_requests_[id].value.offset =
      index::linearize(columns, reduced_sizes);  // the position that an arg fold reports
  const ValueId made = request_element(operand, with(columns), context);
  element_requests_[id].value.operands = {made};
  return {};
}

/// The positions along what a reduction folds, in the order in which the elements of some operand are needed anyway,
/// else row-major.
Builder::Coordinates Builder::reduction_coordinates(const Sizes& reduced_sizes, int context,
                                                    std::span<const ReducedOperand> operands) {
  for (const ReducedOperand& operand : operands) {
    std::vector<AxisId> fresh;
    Coordinates unknown;
    for (std::int64_t size : reduced_sizes) unknown.push_back(size == 1 ? Expr(0) : fresh_axis(size, fresh));
    const auto solved = meet(operand.node, operand.at(unknown), context, fresh, false);
    if (!solved) continue;
    Coordinates found;
    for (const Expr& coordinate : unknown) found.push_back(index::substitute(coordinate, *solved));
    const Expr flat = index::linearize(found, reduced_sizes);
    const std::vector<AxisId> used = index::axes_of(flat);
    const bool inside =
        std::all_of(used.begin(), used.end(), [&](AxisId axis) { return reduction_axes_.count(axis) != 0; });
    // An arg's position counts row-major: it must be able to say which element it was.
    if (inside && used.size() == reduction_axes().size() && index::covers(flat, product(reduced_sizes))) return found;
  }
  return index::delinearize(reduction_position(), reduced_sizes);
}

Result<Builder::Inner> Builder::add_inner_axes(ir::NodeId node, const Sizes& sizes) {
  if (!own_axes_.empty() && own_role_ == Role::key)
    return unsupported("%{} reduces values beside rows that another member of the kernel sorts.", node);
  const bool contracts = graph_.node(node).op->cls == ops::OpClass::contraction;
  if (contracts && contracts_inside_)
    return unsupported("%{} contracts for every element of a row, and so does another member of the kernel.", node);
  contracts_inside_ = contracts_inside_ || contracts;
  own_role_ = Role::inner;
  // Folds over as many positions run side by side.
  const auto known =
      std::find_if(inner_.begin(), inner_.end(), [&](const auto& one) { return !contracts && one.first == sizes; });
  if (known != inner_.end()) return known->second;
  Coordinates along(sizes.size(), Expr(0));
  const int group = own_groups_++;
  std::vector<BaseAxis> made;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    made.push_back({static_cast<AxisId>(axes_.size() + own_axes_.size() + made.size()), sizes[i], -1, 0, group});
    along[i] = Expr::axis(made.back().id, sizes[i]);
  }
  // Those of a contraction come first: they may become columns.
  own_axes_.insert(contracts ? own_axes_.begin() : own_axes_.end(), made.begin(), made.end());
  const Inner inner{group, std::move(along)};
  if (!contracts) inner_.emplace_back(sizes, inner);
  return inner;
}

bool Builder::is_after_contraction(ir::NodeId node) const {
  std::vector<ir::NodeId> open{node};
  std::set<ir::NodeId> seen;
  while (!open.empty()) {
    const ir::NodeId one = open.back();
    open.pop_back();
    if (!std::binary_search(segment_.members.begin(), segment_.members.end(), one) || !seen.insert(one).second)
      continue;
    if (graph_.node(one).op->cls == ops::OpClass::contraction) return true;
    open.insert(open.end(), graph_.node(one).operands.begin(), graph_.node(one).operands.end());
  }
  return false;
}

bool Builder::runs_apart(ir::NodeId node, std::span<const Expr> rows, std::int64_t count) const {
  const auto contracts = [&](ir::NodeId id) { return graph_.node(id).op->cls == ops::OpClass::contraction; };
  if (!reduction_axes_known_ || std::none_of(segment_.members.begin(), segment_.members.end(), contracts)) return false;
  if (std::any_of(rows.begin(), rows.end(), [&](const Expr& row) { return varies_along_reduction(row); })) return false;
  // Of sizes that are known alone: at others the kernel might not be possible.
  const Shape& shape = graph_.node(graph_.node(node).operands[0]).type.shape;
  if (is_after_contraction(node) ||
      std::any_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is_symbol(); }))
    return false;
  if (!base_.reduction || !contracts(*base_.reduction)) return true;
  std::int64_t columns = 1;
  for (const BaseAxis& axis : axes_) columns *= reduction_axes_.count(axis.id) != 0 ? axis.size : 1;
  return columns != count;
}

/// A product per position of the contracted axes, and its reduction over them.
Result<void> Builder::process_contraction(ValueId id) {
  const ir::NodeId node_id = element_requests_[id].node;
  const ir::Node& node = graph_.node(node_id);
  const auto& dot = std::get<ir::DotPayload>(node.payload);
  const Coordinates rows = element_requests_[id].coordinates;
  const int context = element_requests_[id].context;
  Sizes contracted;
  bool none = false;
  const auto real = resolve(graph_.node(node.operands[0]).type.shape, symbols_);
  for (int axis : dot.contract_a) {
    contracted.push_back(sizes_of(node.operands[0])[static_cast<std::size_t>(axis)]);
    none = none || (*real)[static_cast<std::size_t>(axis)] == 0;
  }
  if (none && count_of(node_id) > 0) {
    element_requests_[id].value.kind = Value::Kind::literal;  // the identity
    return {};
  }
  const auto place = [&](bool second, const Coordinates& along) {
    return position_in_matmul_operand(dot, second, sizes_of(node.operands[second ? 1 : 0]).size(), rows, along);
  };
  Coordinates columns(contracted.size(), Expr(0));
  const bool reductions = product(contracted) > 1;
  const bool at_columns =
      reduction_axes_known_ && std::any_of(rows.begin(), rows.end(), [&](const Expr& row) {
        const std::vector<AxisId> used = index::axes_of(row);
        return std::any_of(used.begin(), used.end(), [&](AxisId axis) { return reduction_axes_.count(axis) != 0; });
      });
  if (reductions && at_columns) {
    for (const Expr& row : rows) {
      if (request_split(row)) return {};
    }
    VKF_TRY(inner, add_inner_axes(node_id, contracted));
    element_requests_[id].value.over = AxisSet{1} << inner.group;
    columns = inner.coordinates;
  } else if (reductions) {
    VKF_CHECK_OK(fix_reduction_axes(node_id, rows, product(contracted)));
    if (requested_split_) return {};
    if (const int whole = of_whole_rows(context); whole != context) {
      element_requests_[id].alias = request_element(node_id, rows, whole);
      return {};
    }
    const ReducedOperand operands[] = {
        {node.operands[0], [&](const Coordinates& along) { return place(false, along); }},
        {node.operands[1], [&](const Coordinates& along) { return place(true, along); }}};
    columns = reduction_coordinates(contracted, context, operands);
  }
  ValueId factor = id;
  if (reductions) {
    element_requests_[id].value.kind = at_columns ? Value::Kind::nested : Value::Kind::reduction;
    factor = static_cast<ValueId>(element_requests_.size());
    element_requests_.push_back({node_id, {}, context, {}, std::nullopt});
    element_requests_[factor].value.node = node_id;
    element_requests_[id].value.operands = {factor};
  }
  element_requests_[factor].value.kind = Value::Kind::compute;
  const ValueId a = request_element(node.operands[0], place(false, columns), context);
  const ValueId b = request_element(node.operands[1], place(true, columns), context);
  element_requests_[factor].value.operands = {a, b};
  return {};
}

/// Element i of the result depends on the elements before it, so the columns are walked in the order of the
/// scanned axis, or in the opposite one; positions stay what they are.
Result<void> Builder::process_scan(ValueId id) {
  const ir::NodeId node_id = element_requests_[id].node;
  const ir::NodeId operand = graph_.node(node_id).operands[0];
  const auto& scan = std::get<ir::ScanPayload>(graph_.node(node_id).payload);
  const std::int64_t size = sizes_of(operand)[static_cast<std::size_t>(scan.axis)];
  const Coordinates coordinates = element_requests_[id].coordinates;
  if (size == 1) {
    if (scan.exclusive) {
      element_requests_[id].value.kind = Value::Kind::literal;  // the identity
    } else {
      element_requests_[id].alias = request_element(operand, coordinates, element_requests_[id].context);
    }
    return {};
  }
  Coordinates rows = coordinates;
  rows.erase(rows.begin() + scan.axis);
  VKF_CHECK_OK(fix_reduction_axes(node_id, rows, size));
  if (requested_split_) return {};
  const Expr along = coordinates[static_cast<std::size_t>(scan.axis)];
  const Expr forward = reduction_position();
  const bool mirrored = along == Expr(size - 1) - forward;
  if (!mirrored && !(along == forward)) {
    return unsupported("%{} runs along an axis that the other members of the kernel read in another order.", node_id);
  }
  const bool backwards = VKF_PLANT(scan_direction, scan.reverse, !scan.reverse) != mirrored;
  if (backwards_.value_or(backwards) != backwards) {
    return unsupported("%{} runs over its axis in the opposite direction of another scan of the kernel.", node_id);
  }
  backwards_ = backwards;
  if (const int whole = of_whole_rows(element_requests_[id].context); whole != element_requests_[id].context) {
    element_requests_[id].alias = request_element(node_id, coordinates, whole);
    return {};
  }
  element_requests_[id].value.kind = Value::Kind::scan;
  element_requests_[id].value.offset = along;
  const ValueId made = request_element(operand, coordinates, element_requests_[id].context);
  element_requests_[id].value.operands = {made};
  return {};
}

/// The elements of a row are sorted whoever asks for how much of the order, so they have an axis of their own,
/// which no result depends on.
Result<void> Builder::process_sort(ValueId id) {
  const ir::NodeId node_id = element_requests_[id].node;
  const ir::NodeId operand = graph_.node(node_id).operands[0];
  const int axis = std::get<ir::SortPayload>(graph_.node(node_id).payload).axis;
  const std::int64_t size = sizes_of(operand)[static_cast<std::size_t>(axis)];
  Coordinates rows = element_requests_[id].coordinates;
  const Expr along = rows[static_cast<std::size_t>(axis)];
  if (size == 1) {
    element_requests_[id].value.kind = Value::Kind::position;  // 0
    return {};
  }
  if (index::depends_on_data(along))
    return unsupported("%{} sorts rows of which data chooses elements: they have to be stored first.", node_id);
  if (!own_axes_.empty())
    return unsupported("%{} sorts rows of which another member of the kernel needs the order too, or that of others.",
                       node_id);
  if (reduction_axes_known_)
    return unsupported("%{} sorts rows, and another member of the kernel reduces or scans them.", node_id);
  rows.erase(rows.begin() + axis);
  std::set<AxisId> used;
  for (const Expr& row : rows) {
    if (index::depends_on_data(row)) return unsupported("%{} sorts rows that are chosen by data.", node_id);
    if (request_split(row)) return {};
    for (AxisId own : index::axes_of(row)) used.insert(own);
  }
  for (const BaseAxis& own : axes_) {
    if (used.count(own.id) == 0) reduction_axes_.insert(own.id);
  }
  reduction_axes_known_ = true;
  own_role_ = Role::key;
  own_axes_.push_back({static_cast<AxisId>(axes_.size()), size, -1, 0});
  element_requests_[id].value.kind = Value::Kind::sort;
  element_requests_[id].value.offset = along;
  rows.insert(rows.begin() + axis, Expr::axis(own_axes_.back().id, size));
  const ValueId made = request_element(operand, std::move(rows), 0);
  element_requests_[id].value.operands = {made};
  return {};
}

}  // namespace vkfuse::segment
