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

ValueId Builder::demand(ir::NodeId node, Coordinates coordinates, int context) {
  std::vector<ValueId>& known = by_node_[node];
  for (ValueId id : known) {
    if (demands_[id].context == context && demands_[id].coordinates == coordinates) return id;
  }
  const auto id = static_cast<ValueId>(demands_.size());
  known.push_back(id);
  demands_.push_back({node, std::move(coordinates), context, {}, std::nullopt});
  demands_.back().value.node = node;
  return id;
}

void Builder::add_root(ir::NodeId node, const Coordinates& coordinates) {
  demand(node, coordinates, 0);
  stores_[node] = coordinates;
}

int Builder::guarded(int context, Guard guard) {
  std::erase_if(guard.ranges, [](const Guard::Range& range) {
    const index::Interval interval = index::interval_of(range.value);
    return interval.low >= 0 && interval.high < range.size;
  });
  if (guard.ranges.empty() && !guard.negated) return context;
  for (std::size_t i = 1; i < contexts_.size(); ++i) {
    if (contexts_[i].parent == context && contexts_[i].guard == guard) return static_cast<int>(i);
  }
  contexts_.push_back({context, std::move(guard)});
  return static_cast<int>(contexts_.size()) - 1;
}

std::vector<Guard> Builder::guards_of(int context) const {
  std::vector<Guard> guards;
  for (int at = context; at > 0; at = contexts_[static_cast<std::size_t>(at)].parent)
    guards.push_back(contexts_[static_cast<std::size_t>(at)].guard);
  std::reverse(guards.begin(), guards.end());
  return guards;
}

bool Builder::changes_along_columns(const Expr& expr) const {
  const std::vector<AxisId> used = index::axes_of(expr);
  if (std::any_of(used.begin(), used.end(), [&](AxisId axis) { return columns_.count(axis) != 0; })) return true;
  const std::vector<index::DataId> picked = index::data_of(expr);
  return std::any_of(picked.begin(), picked.end(), [&](index::DataId data) {
    const Coordinates& coordinates = demands_[static_cast<ValueId>(data)].coordinates;
    return std::any_of(coordinates.begin(), coordinates.end(),
                       [&](const Expr& one) { return changes_along_columns(one); });
  });
}

int Builder::of_whole_rows(int context) {
  int made = VKF_PLANT(choice_inside_a_fold, 0, context);
  for (Guard guard : guards_of(context)) {
    const auto changes = [&](const Guard::Range& range) { return changes_along_columns(range.value); };
    // "Not all of these" is not known of the rest of them.
    if (guard.negated && std::any_of(guard.ranges.begin(), guard.ranges.end(), changes)) continue;
    std::erase_if(guard.ranges, changes);
    made = guarded(made, std::move(guard));
  }
  return made;
}

Result<void> Builder::run() {
  if (base_.fold) {
    const ir::Node& fold = graph_.node(*base_.fold);
    Coordinates own;
    if (fold.op->cls == ops::OpClass::contraction) {
      const std::size_t rank = fold.type.shape.size();
      own.assign(base_coordinates_.begin(), base_coordinates_.begin() + static_cast<std::ptrdiff_t>(rank));
      for (const BaseAxis& axis : axes_) {
        if (static_cast<std::size_t>(axis.dim) >= rank) columns_.insert(axis.id);
      }
      columns_known_ = true;
    } else if (const auto* reduced = std::get_if<ir::AxesPayload>(&fold.payload)) {
      const auto is_reduced = [&](int dim) {
        return std::find(reduced->axes.begin(), reduced->axes.end(), dim) != reduced->axes.end();
      };
      for (std::size_t i = 0; i < base_coordinates_.size(); ++i) {
        if (!is_reduced(static_cast<int>(i))) own.push_back(base_coordinates_[i]);
      }
      for (const BaseAxis& axis : axes_) {
        if (is_reduced(axis.dim)) columns_.insert(axis.id);
      }
      columns_known_ = true;
    } else {
      own = base_coordinates_;
    }
    demand(*base_.fold, std::move(own), 0);
  } else {
    add_root(base_.node, base_coordinates_);
  }
  const std::size_t limit = 64 + 8 * segment_.members.size();
  for (auto node = by_node_.begin(); node != by_node_.end(); ++node) {
    // By position: processing one demand may add others, but only of earlier nodes.
    for (std::size_t i = 0; i < node->second.size(); ++i) {
      VKF_CHECK_OK(process(node->second[i]));
      if (wanted_split_) return {};
    }
    if (demands_.size() > limit) {
      return unsupported("Its {} ops would be computed at more than {} positions.", segment_.members.size(), limit);
    }
  }
  return {};
}

Result<void> Builder::process(ValueId id) {
  const ir::NodeId node_id = demands_[id].node;
  const ir::Node& node = graph_.node(node_id);
  if (is_literal(graph_, node_id)) {
    demands_[id].value.kind = Value::Kind::literal;
    return {};
  }
  if (!std::binary_search(segment_.members.begin(), segment_.members.end(), node_id)) {
    Demand& load = demands_[id];
    load.value.kind = Value::Kind::load;
    load.value.offset = index::linearize(load.coordinates, sizes_of(node_id));
    load.value.buffer_elements = count_of(node_id);
    load.value.guards = guards_of(load.context);
    return {};
  }
  switch (node.op->cls) {
    case ops::OpClass::elementwise:
    case ops::OpClass::convert: process_elementwise(id); return {};
    case ops::OpClass::generate: process_generate(id); return {};
    case ops::OpClass::view: is_choice(node) ? process_choice(id) : process_view(id); return {};
    case ops::OpClass::gather: return process_gather(id);
    case ops::OpClass::reduce: return process_fold(id);
    case ops::OpClass::contraction: return process_contraction(id);
    case ops::OpClass::scan: return process_scan(id);
    case ops::OpClass::sort: return process_sort(id);
    default: return unsupported("'{}' has no kernel yet.", node.op->name);
  }
}

void Builder::process_elementwise(ValueId id) {
  demands_[id].value.kind = Value::Kind::compute;
  for (ir::NodeId operand : graph_.node(demands_[id].node).operands) {
    const ValueId made =
        demand(operand, broadcast_coordinates(demands_[id].coordinates, sizes_of(operand)), demands_[id].context);
    demands_[id].value.operands.push_back(made);
  }
}

void Builder::process_generate(ValueId id) {
  Demand& demand = demands_[id];
  demand.value.kind = Value::Kind::position;
  const auto* iota = std::get_if<ir::IotaPayload>(&graph_.node(demand.node).payload);
  demand.value.offset = iota != nullptr ? demand.coordinates[static_cast<std::size_t>(iota->axis)]
                                        : index::linearize(demand.coordinates, sizes_of(demand.node));
}

void Builder::process_view(ValueId id) {
  const ir::NodeId node = demands_[id].node;
  const ir::NodeId operand = graph_.node(node).operands[0];
  Place place = place_in_operand(graph_.node(node), demands_[id].coordinates, sizes_of(node), sizes_of(operand), 0, 0);
  demands_[id].alias = demand(operand, std::move(place.coordinates), demands_[id].context);
}

void Builder::process_choice(ValueId id) {
  const ir::NodeId node_id = demands_[id].node;
  const ir::Node& node = graph_.node(node_id);
  const int context = demands_[id].context;
  const Coordinates coordinates = demands_[id].coordinates;
  // sizes_of knows no zeros, and what is empty stands nowhere: none of it is read.
  const auto is_empty = [&](ir::NodeId operand) {
    return product(*resolve(graph_.node(operand).type.shape, symbols_)) == 0;
  };
  if (node.op->name == "pad" && is_empty(node.operands[0])) {
    demands_[id].alias = demand(node.operands[1], {}, context);
    return;
  }
  if (node.op->name == "slice_assign" && is_empty(node.operands[1])) {
    demands_[id].alias = demand(node.operands[0], coordinates, context);
    return;
  }
  if (node.op->name == "pad") {
    Place place = place_in_operand(node, coordinates, sizes_of(node_id), sizes_of(node.operands[0]), 0, 0);
    const int inside = guarded(context, *place.guard);
    const ValueId element = demand(node.operands[0], std::move(place.coordinates), inside);
    if (inside == context) {
      demands_[id].alias = element;
      return;
    }
    const ValueId fill = demand(node.operands[1], {}, context);
    demands_[id].value.kind = Value::Kind::choose;
    demands_[id].value.operands = {element, fill};
    demands_[id].value.guards = {*place.guard};
    return;
  }
  if (node.op->name == "slice_assign") {
    Place place = place_in_operand(node, coordinates, sizes_of(node_id), sizes_of(node.operands[1]), 1, 0);
    const int inside = guarded(context, *place.guard);
    const ValueId update = demand(node.operands[1], std::move(place.coordinates), inside);
    if (inside == context) {
      demands_[id].alias = update;
      return;
    }
    Guard outside = *place.guard;
    outside.negated = true;
    const ValueId base = demand(node.operands[0], coordinates, guarded(context, outside));
    demands_[id].value.kind = Value::Kind::choose;
    demands_[id].value.operands = {update, base};
    demands_[id].value.guards = {*place.guard};
    return;
  }
  // concat: each operand where it stands, the last one wherever none of the others does.
  std::vector<std::pair<ValueId, Guard>> parts;
  std::int64_t begin = 0;
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
  for (std::size_t k = 0; k < node.operands.size(); ++k) {
    const auto sizes = resolve(graph_.node(node.operands[k]).type.shape, symbols_);
    if (product(*sizes) == 0) continue;
    Place place = place_in_operand(node, coordinates, sizes_of(node_id), *sizes, k, begin);
    begin += (*sizes)[axis];
    const index::Interval reach = index::interval_of(place.guard->ranges[0].value);
    if (reach.high < 0 || reach.low >= place.guard->ranges[0].size) continue;  // never here
    const int inside = guarded(context, *place.guard);
    parts.emplace_back(demand(node.operands[k], std::move(place.coordinates), inside), *place.guard);
  }
  if (parts.empty()) {
    demands_[id].value.kind = Value::Kind::position;  // an empty tensor: nobody runs this
    return;
  }
  // A chain of choices: (is it a? a : is it b? b : c). The extra links are values of the same node.
  ValueId rest = parts.back().first;
  for (std::size_t k = parts.size() - 1; k-- > 0;) {
    ValueId link = id;
    if (k > 0) {
      link = static_cast<ValueId>(demands_.size());
      demands_.push_back({node_id, {}, context, {}, std::nullopt});
      demands_.back().value.node = node_id;
    }
    demands_[link].value.kind = Value::Kind::choose;
    demands_[link].value.operands = {parts[k].first, rest};
    demands_[link].value.guards = {parts[k].second};
    rest = link;
  }
  if (rest != id) demands_[id].alias = rest;
}

Result<void> Builder::process_gather(ValueId id) {
  const ir::Node& node = graph_.node(demands_[id].node);
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
  const ir::NodeId data = node.operands[0];
  const Sizes& sizes = sizes_of(data);
  const Sizes& index_sizes = sizes_of(node.operands[1]);
  const Coordinates coordinates = demands_[id].coordinates;
  const int context = demands_[id].context;
  VKF_CHECK_OK(ir::check_picks(graph_, demands_[id].node, symbols_));
  Coordinates position;
  Coordinates wanted;
  if (node.op->name == "gather") {
    const auto begin = coordinates.begin() + static_cast<std::ptrdiff_t>(axis);
    wanted.assign(begin, begin + static_cast<std::ptrdiff_t>(index_sizes.size()));
    wanted = broadcast_coordinates(wanted, index_sizes);
    position.assign(coordinates.begin(), begin);
    position.emplace_back(0);
    position.insert(position.end(), begin + static_cast<std::ptrdiff_t>(index_sizes.size()), coordinates.end());
    for (std::size_t i = 0; i < position.size(); ++i) {
      if (sizes[i] == 1) position[i] = Expr(0);
    }
  } else {
    wanted = broadcast_coordinates(coordinates, index_sizes);
    position = broadcast_coordinates(coordinates, sizes);
  }
  // Of one element there is nothing to choose, and a position that nobody asks for would stand in the kernel.
  position[axis] = sizes[axis] == 1 ? Expr(0)
                                    : Expr::data(static_cast<int>(demand(node.operands[1], std::move(wanted), context)),
                                                 sizes[axis]);
  demands_[id].alias = demand(data, std::move(position), context);
  return {};
}

bool Builder::request_split(const Expr& expr) {
  const auto split = index::useful_split(expr);
  if (!split) return false;
  const auto axis =
      std::find_if(axes_.begin(), axes_.end(), [&](const BaseAxis& candidate) { return candidate.id == split->axis; });
  if (axis == axes_.end()) return false;
  wanted_split_ = SplitRequest{axis->dim, axis->piece, split->factor};
  return true;
}

std::vector<Expr> Builder::column_axes() const {
  std::vector<Expr> all;
  for (const BaseAxis& axis : axes_) {
    if (columns_.count(axis.id) != 0) all.push_back(Expr::axis(axis.id, axis.size));
  }
  return all;
}

/// The position in the order in which the columns are counted.
Expr Builder::column_position() const {
  Sizes sizes;
  for (const BaseAxis& axis : axes_) {
    if (columns_.count(axis.id) != 0) sizes.push_back(axis.size);
  }
  return index::linearize(column_axes(), sizes);
}

/// Columns are the axes that the first fold's position does not depend on; every other fold must agree.
Result<void> Builder::settle_columns(ir::NodeId node, std::span<const Expr> rows, std::int64_t count) {
  if (!own_axes_.empty() && own_role_ == Role::key)
    return unsupported("%{} folds or scans rows, and another member of the kernel sorts them.", node);
  std::set<AxisId> used;
  for (const Expr& row : rows) {
    if (request_split(row)) return {};
    for (AxisId axis : index::axes_of(row)) used.insert(axis);
  }
  if (!columns_known_) {
    for (const BaseAxis& axis : axes_) {
      if (used.count(axis.id) == 0) columns_.insert(axis.id);
    }
    columns_known_ = true;
  }
  std::int64_t columns = 1;
  for (const BaseAxis& axis : axes_) columns *= columns_.count(axis.id) != 0 ? axis.size : 1;
  if (columns != count)
    return unsupported("%{} runs over {} elements at a time, and the other members of the kernel over {}.", node, count,
                       columns);
  for (AxisId axis : used) {
    if (columns_.count(axis) != 0)
      return unsupported("%{} runs along other axes than the other members of the kernel.", node);
  }
  return {};
}

Result<void> Builder::process_fold(ValueId id) {
  const ir::NodeId node_id = demands_[id].node;
  const ir::Node& node = graph_.node(node_id);
  const ir::NodeId operand = node.operands[0];
  const Sizes sizes = sizes_of(operand);
  const auto& axes = std::get<ir::AxesPayload>(node.payload).axes;
  const Coordinates rows = demands_[id].coordinates;
  Sizes folded;
  for (int axis : axes) folded.push_back(sizes[static_cast<std::size_t>(axis)]);
  const auto real = resolve(graph_.node(operand).type.shape, symbols_);
  if (product(*real) == 0 && count_of(node_id) > 0) {
    demands_[id].value.kind = Value::Kind::literal;  // the identity
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
  const int context = demands_[id].context;
  if (product(folded) == 1) {
    if (node.op->fold.kind == ops::Fold::Kind::arg) {
      demands_[id].value.kind = Value::Kind::position;
    } else {
      demands_[id].alias = demand(operand, with(Coordinates(folded.size(), Expr(0))), context);
    }
    return {};
  }
  if (runs_apart(node_id, rows, product(folded))) {
    VKF_TRY(along, add_inner_axes(node_id, folded));
    demands_[id].value.kind = Value::Kind::contract;
    demands_[id].value.over = AxisSet{1} << along.group;
    const ValueId made = demand(operand, with(along.coordinates), context);
    demands_[id].value.operands = {made};
    return {};
  }
  VKF_CHECK_OK(settle_columns(node_id, rows, product(folded)));
  if (wanted_split_) return {};
  if (const int whole = of_whole_rows(context); whole != context) {
    demands_[id].alias = demand(node_id, rows, whole);
    return {};
  }
  const Folded folds[] = {{operand, with}};
  const Coordinates columns = columns_of_fold(folded, context, folds);
  demands_[id].value.kind = Value::Kind::fold;
  demands_[id].value.offset = index::linearize(columns, folded);  // the position that an arg fold reports
  const ValueId made = demand(operand, with(columns), context);
  demands_[id].value.operands = {made};
  return {};
}

/// The positions along what a fold folds, in the order in which the elements of some operand are needed anyway,
/// else row-major.
Builder::Coordinates Builder::columns_of_fold(const Sizes& folded, int context, std::span<const Folded> operands) {
  for (const Folded& operand : operands) {
    std::vector<AxisId> fresh;
    Coordinates unknown;
    for (std::int64_t size : folded) unknown.push_back(size == 1 ? Expr(0) : fresh_axis(size, fresh));
    const auto solved = meet(operand.node, operand.at(unknown), context, fresh, false);
    if (!solved) continue;
    Coordinates found;
    for (const Expr& coordinate : unknown) found.push_back(index::substitute(coordinate, *solved));
    const Expr flat = index::linearize(found, folded);
    const std::vector<AxisId> used = index::axes_of(flat);
    const bool inside = std::all_of(used.begin(), used.end(), [&](AxisId axis) { return columns_.count(axis) != 0; });
    // An arg's position counts row-major: it must be able to say which element it was.
    if (inside && used.size() == column_axes().size() && index::covers(flat, product(folded))) return found;
  }
  return index::delinearize(column_position(), folded);
}

Result<Builder::Inner> Builder::add_inner_axes(ir::NodeId node, const Sizes& sizes) {
  if (!own_axes_.empty() && own_role_ == Role::key)
    return unsupported("%{} folds values beside rows that another member of the kernel sorts.", node);
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
  if (!columns_known_ || std::none_of(segment_.members.begin(), segment_.members.end(), contracts)) return false;
  if (std::any_of(rows.begin(), rows.end(), [&](const Expr& row) { return changes_along_columns(row); })) return false;
  // Of sizes that are known alone: at others the kernel might not be possible.
  const Shape& shape = graph_.node(graph_.node(node).operands[0]).type.shape;
  if (is_after_contraction(node) ||
      std::any_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is_symbol(); }))
    return false;
  if (!base_.fold || !contracts(*base_.fold)) return true;
  std::int64_t columns = 1;
  for (const BaseAxis& axis : axes_) columns *= columns_.count(axis.id) != 0 ? axis.size : 1;
  return columns != count;
}

/// A product per position of the contracted axes, and its fold over them.
Result<void> Builder::process_contraction(ValueId id) {
  const ir::NodeId node_id = demands_[id].node;
  const ir::Node& node = graph_.node(node_id);
  const auto& dot = std::get<ir::DotPayload>(node.payload);
  const Coordinates rows = demands_[id].coordinates;
  const int context = demands_[id].context;
  Sizes contracted;
  bool none = false;
  const auto real = resolve(graph_.node(node.operands[0]).type.shape, symbols_);
  for (int axis : dot.contract_a) {
    contracted.push_back(sizes_of(node.operands[0])[static_cast<std::size_t>(axis)]);
    none = none || (*real)[static_cast<std::size_t>(axis)] == 0;
  }
  if (none && count_of(node_id) > 0) {
    demands_[id].value.kind = Value::Kind::literal;  // the identity
    return {};
  }
  const auto place = [&](bool second, const Coordinates& along) {
    return place_in_factor(dot, second, sizes_of(node.operands[second ? 1 : 0]).size(), rows, along);
  };
  Coordinates columns(contracted.size(), Expr(0));
  const bool folds = product(contracted) > 1;
  const bool at_columns =
      columns_known_ && std::any_of(rows.begin(), rows.end(), [&](const Expr& row) {
        const std::vector<AxisId> used = index::axes_of(row);
        return std::any_of(used.begin(), used.end(), [&](AxisId axis) { return columns_.count(axis) != 0; });
      });
  if (folds && at_columns) {
    for (const Expr& row : rows) {
      if (request_split(row)) return {};
    }
    VKF_TRY(inner, add_inner_axes(node_id, contracted));
    demands_[id].value.over = AxisSet{1} << inner.group;
    columns = inner.coordinates;
  } else if (folds) {
    VKF_CHECK_OK(settle_columns(node_id, rows, product(contracted)));
    if (wanted_split_) return {};
    if (const int whole = of_whole_rows(context); whole != context) {
      demands_[id].alias = demand(node_id, rows, whole);
      return {};
    }
    const Folded operands[] = {{node.operands[0], [&](const Coordinates& along) { return place(false, along); }},
                               {node.operands[1], [&](const Coordinates& along) { return place(true, along); }}};
    columns = columns_of_fold(contracted, context, operands);
  }
  ValueId factor = id;
  if (folds) {
    demands_[id].value.kind = at_columns ? Value::Kind::contract : Value::Kind::fold;
    factor = static_cast<ValueId>(demands_.size());
    demands_.push_back({node_id, {}, context, {}, std::nullopt});
    demands_[factor].value.node = node_id;
    demands_[id].value.operands = {factor};
  }
  demands_[factor].value.kind = Value::Kind::compute;
  const ValueId a = demand(node.operands[0], place(false, columns), context);
  const ValueId b = demand(node.operands[1], place(true, columns), context);
  demands_[factor].value.operands = {a, b};
  return {};
}

/// Element i of the result depends on the elements before it, so the columns are walked in the order of the
/// scanned axis, or in the opposite one; positions stay what they are.
Result<void> Builder::process_scan(ValueId id) {
  const ir::NodeId node_id = demands_[id].node;
  const ir::NodeId operand = graph_.node(node_id).operands[0];
  const auto& scan = std::get<ir::ScanPayload>(graph_.node(node_id).payload);
  const std::int64_t size = sizes_of(operand)[static_cast<std::size_t>(scan.axis)];
  const Coordinates coordinates = demands_[id].coordinates;
  if (size == 1) {
    if (scan.exclusive) {
      demands_[id].value.kind = Value::Kind::literal;  // the identity
    } else {
      demands_[id].alias = demand(operand, coordinates, demands_[id].context);
    }
    return {};
  }
  Coordinates rows = coordinates;
  rows.erase(rows.begin() + scan.axis);
  VKF_CHECK_OK(settle_columns(node_id, rows, size));
  if (wanted_split_) return {};
  const Expr along = coordinates[static_cast<std::size_t>(scan.axis)];
  const Expr forward = column_position();
  const bool mirrored = along == Expr(size - 1) - forward;
  if (!mirrored && !(along == forward)) {
    return unsupported("%{} runs along an axis that the other members of the kernel read in another order.", node_id);
  }
  const bool backwards = VKF_PLANT(scan_direction, scan.reverse, !scan.reverse) != mirrored;
  if (backwards_.value_or(backwards) != backwards) {
    return unsupported("%{} runs over its axis in the opposite direction of another scan of the kernel.", node_id);
  }
  backwards_ = backwards;
  if (const int whole = of_whole_rows(demands_[id].context); whole != demands_[id].context) {
    demands_[id].alias = demand(node_id, coordinates, whole);
    return {};
  }
  demands_[id].value.kind = Value::Kind::scan;
  demands_[id].value.offset = along;
  const ValueId made = demand(operand, coordinates, demands_[id].context);
  demands_[id].value.operands = {made};
  return {};
}

/// The elements of a row are sorted whoever asks for how much of the order, so they have an axis of their own,
/// which no result depends on.
Result<void> Builder::process_sort(ValueId id) {
  const ir::NodeId node_id = demands_[id].node;
  const ir::NodeId operand = graph_.node(node_id).operands[0];
  const int axis = std::get<ir::SortPayload>(graph_.node(node_id).payload).axis;
  const std::int64_t size = sizes_of(operand)[static_cast<std::size_t>(axis)];
  Coordinates rows = demands_[id].coordinates;
  const Expr along = rows[static_cast<std::size_t>(axis)];
  if (size == 1) {
    demands_[id].value.kind = Value::Kind::position;  // 0
    return {};
  }
  if (index::depends_on_data(along))
    return unsupported("%{} sorts rows of which data chooses elements: they have to be stored first.", node_id);
  if (!own_axes_.empty())
    return unsupported("%{} sorts rows of which another member of the kernel needs the order too, or that of others.",
                       node_id);
  if (columns_known_)
    return unsupported("%{} sorts rows, and another member of the kernel folds or scans them.", node_id);
  rows.erase(rows.begin() + axis);
  std::set<AxisId> used;
  for (const Expr& row : rows) {
    if (index::depends_on_data(row)) return unsupported("%{} sorts rows that are chosen by data.", node_id);
    if (request_split(row)) return {};
    for (AxisId own : index::axes_of(row)) used.insert(own);
  }
  for (const BaseAxis& own : axes_) {
    if (used.count(own.id) == 0) columns_.insert(own.id);
  }
  columns_known_ = true;
  own_role_ = Role::key;
  own_axes_.push_back({static_cast<AxisId>(axes_.size()), size, -1, 0});
  demands_[id].value.kind = Value::Kind::sort;
  demands_[id].value.offset = along;
  rows.insert(rows.begin() + axis, Expr::axis(own_axes_.back().id, size));
  const ValueId made = demand(operand, std::move(rows), 0);
  demands_[id].value.operands = {made};
  return {};
}

}  // namespace vkfuse::segment
