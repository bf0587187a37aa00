// From a set of nodes to loops. The walk goes from results to operands, node by node in descending order:
// when a node is reached, every position somebody needs it at is known. Views only change positions; a
// node needed at two positions becomes two values.
#include "segment/loops.hpp"

#include <algorithm>
#include <bit>
#include <set>

#include "index/arithmetic.hpp"
#include "segment/builder.hpp"
#include "segment/views.hpp"

namespace vkfuse::segment {

using index::AxisId;
using index::Expr;

namespace {

AxisSet set_of(const std::vector<Axis>& axes, Role role) {
  AxisSet set = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].role == role) set |= AxisSet{1} << i;
  }
  return set;
}

std::int64_t count_of(const std::vector<Axis>& axes, AxisSet set) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (((set >> i) & 1u) != 0) count = index::saturating_mul(count, axes[i].size);
  }
  return count;
}

}  // namespace

ValueId add_once(std::vector<Value>& values, Value value) {
  const auto same = std::find_if(values.begin(), values.end(), [&](const Value& other) {
    return other.kind == value.kind && other.node == value.node && other.operands == value.operands &&
           other.offset == value.offset && other.predicates == value.predicates && other.online == value.online &&
           other.partner == value.partner;
  });
  if (same != values.end()) return static_cast<ValueId>(same - values.begin());
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size()) - 1;
}

AxisSet Loops::columns() const { return set_of(axes, Role::reduction); }
AxisSet Loops::keys() const { return set_of(axes, Role::key); }
AxisSet Loops::inner() const { return set_of(axes, Role::inner); }
std::int64_t Loops::parallel_count() const { return count_of(axes, set_of(axes, Role::parallel)); }
std::int64_t Loops::reduction_count() const { return count_of(axes, columns()); }
std::int64_t Loops::key_count() const { return count_of(axes, keys()); }

namespace {

constexpr int kMaxRuns = 32;

/// Of loops that run over nothing, the sizes of 0 are 1.
std::int64_t positions(const Sizes& sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count = index::saturating_mul(count, std::max<std::int64_t>(size, 1));
  return count;
}

/// The positions over which a member runs that reduces or scans: its result's and those that it reduces.
std::optional<Sizes> positions_of(const ir::Graph& graph, ir::NodeId id, const SymbolValues& symbols) {
  const ir::Node& node = graph.node(id);
  const bool contracts = node.op->cls == ops::OpClass::contraction;
  if (!contracts && node.op->cls != ops::OpClass::reduce && node.op->cls != ops::OpClass::scan) return std::nullopt;
  const auto operand = resolve(graph.node(node.operands[0]).type.shape, symbols);
  const auto own = resolve(node.type.shape, symbols);
  if (!operand || !own) return std::nullopt;
  if (!contracts)
    return node.op->cls == ops::OpClass::scan || saturating_product(*operand) > saturating_product(*own)
               ? std::optional(*operand)
               : std::nullopt;
  Sizes sizes = *own;
  std::int64_t contracted = 1;
  for (int axis : std::get<ir::DotPayload>(node.payload).contract_a) {
    sizes.push_back((*operand)[static_cast<std::size_t>(axis)]);
    contracted *= sizes.back();
  }
  return contracted > 1 ? std::optional(sizes) : std::nullopt;
}

/// The members that are computed from `from`, itself included, in graph order.
std::vector<ir::NodeId> members_above(const ir::Graph& graph, const Segment& segment, ir::NodeId from) {
  std::vector<ir::NodeId> above{from};
  for (auto id = std::upper_bound(segment.members.begin(), segment.members.end(), from); id != segment.members.end();
       ++id) {
    const std::vector<ir::NodeId>& operands = graph.node(*id).operands;
    if (std::any_of(operands.begin(), operands.end(),
                    [&](ir::NodeId operand) { return std::binary_search(above.begin(), above.end(), operand); }))
      above.push_back(*id);
  }
  return above;
}

/// The last contraction that every store is computed from, if it runs over the positions of `last`; else `last`.
ir::NodeId leading_contraction(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols,
                               ir::NodeId last) {
  const auto requested = positions_of(graph, last, symbols);
  for (auto id = segment.members.rbegin(); id != segment.members.rend(); ++id) {
    if (graph.node(*id).op->cls != ops::OpClass::contraction || positions_of(graph, *id, symbols) != requested)
      continue;
    const std::vector<ir::NodeId> above = members_above(graph, segment, *id);
    // One that leads to `last` is no sibling of it: attention's scores, of heads as large as there are keys.
    if (*id != last && std::binary_search(above.begin(), above.end(), last)) continue;
    if (std::includes(above.begin(), above.end(), segment.stores.begin(), segment.stores.end())) return *id;
  }
  return last;
}

/// The first member that reduces what the contraction `last` leads to, over as many positions as that has results.
std::optional<ir::NodeId> reduction_of_sums(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols,
                                            ir::NodeId last) {
  const auto sums = resolve(graph.node(last).type.shape, symbols);
  if (!sums) return std::nullopt;
  for (ir::NodeId id : members_above(graph, segment, last)) {
    if (graph.node(id).op->cls != ops::OpClass::reduce) continue;
    const auto sizes = positions_of(graph, id, symbols);
    if (sizes && saturating_product(*sizes) == saturating_product(*sums)) return id;
  }
  return std::nullopt;
}

/// The operand of a reduction over these positions as the base.
Base base_of_reduction(const ir::Graph& graph, ir::NodeId id, Sizes positions) {
  return {graph.node(id).operands[0], id, std::move(positions)};
}

/// What the first member that reduces runs over, or the last contraction, which runs over the most positions. One that
/// runs over nothing is no base of elements that are stored: those are identities of what reduces its results.
Base base_of_reductions(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols) {
  Base base;
  const bool stores = !stores_nothing(graph, segment, symbols);
  for (ir::NodeId id : segment.members) {
    auto sizes = positions_of(graph, id, symbols);
    const bool contracts = graph.node(id).op->cls == ops::OpClass::contraction;
    if (!sizes || (base.reduction && !contracts) || (stores && has_no_elements(*sizes))) continue;
    base = base_of_reduction(graph, id, *std::move(sizes));
    if (contracts) base.node = id;
  }
  // Of contractions over as many positions, one that leads to all stores finds a place for each: of an LSTM's gates the
  // last leads to the state, but not to the cell.
  if (base.reduction && base.node == *base.reduction && segment.stores.size() > 1)
    base.reduction = base.node = leading_contraction(graph, segment, symbols, *base.reduction);
  return base;
}

/// The largest stored value instead of the base that is reduced, if there is one that the reduction feeds: from it the
/// walk comes to the reduction. From one beside it nothing would say which axes are reduction axes, and results of rows
/// alone would find no place.
Result<Base> base_or_largest_store(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols,
                                   Base base) {
  const auto reduction = base.reduction;
  std::vector<ir::NodeId> leads_to_reduction;
  std::int64_t requested = -1;
  if (reduction) {
    VKF_CHECK_OK(element_count(base.sizes));
    requested = positions(base.sizes);
    leads_to_reduction = members_above(graph, segment, *reduction);
  }
  const auto is_fed = [&](ir::NodeId id) {
    return std::binary_search(leads_to_reduction.begin(), leads_to_reduction.end(), id);
  };
  std::int64_t largest = -1;
  for (ir::NodeId id : segment.stores) {
    VKF_TRY(sizes, resolve(walked_shape(graph, id), symbols));
    VKF_CHECK_OK(element_count(sizes));
    const std::int64_t count = positions(sizes);
    if (reduction && count > requested) {
      return unsupported(
          "%{} has {} elements, and %{} reduces only {}: the reduction would be computed again for each of the others.",
          id, count, *reduction, requested);
    }
    if ((reduction && (count != requested || !is_fed(id))) || count < largest) continue;
    largest = count;
    base = {id, std::nullopt, std::move(sizes)};
  }
  return base;
}

/// The reduction that the loops may begin with where they cannot with the member `base`: that of a contraction's
/// results which all stores are computed from.
std::optional<ir::NodeId> reduction_after_contraction(const ir::Graph& graph, const Segment& segment,
                                                      const SymbolValues& symbols, ir::NodeId base) {
  const ir::Node& node = graph.node(base);
  // Of sizes that are known alone: at others such a kernel might not be possible.
  const auto is_known = [](const Dim& dim) { return !dim.is_symbol(); };
  if (node.op->cls != ops::OpClass::contraction ||
      !std::all_of(node.type.shape.begin(), node.type.shape.end(), is_known))
    return std::nullopt;
  // What has nothing to do with the sums is no business of a tile's.
  const std::vector<ir::NodeId> above = members_above(graph, segment, base);
  if (!std::includes(above.begin(), above.end(), segment.stores.begin(), segment.stores.end())) return std::nullopt;
  return reduction_of_sums(graph, segment, symbols, base);
}

/// Chooses the base: the value whose elements the axes are, and whether that is a stored one.
Result<Base> choose_base(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols) {
  return base_or_largest_store(graph, segment, symbols, base_of_reductions(graph, segment, symbols));
}

/// The same where contractions are not reduced first: what the first reduction of their results runs over.
Result<Base> choose_base_after(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols,
                               ir::NodeId later) {
  return base_or_largest_store(graph, segment, symbols,
                               base_of_reduction(graph, later, *positions_of(graph, later, symbols)));
}

/// The store's positions cover its value exactly once, over rows alone or over all axes. With `fewer_rows`, over some
/// of the rows' axes alone, and as often as the others have positions: it is stored at one of these.
bool is_complete(const WalkAxes& axes, const Expr& offset, std::int64_t count, bool fewer_rows) {
  if (!index::covers(offset, count)) return false;
  const std::vector<AxisId> used = index::axes_of(offset);
  const auto has = [&](const WalkAxis& axis) { return std::find(used.begin(), used.end(), axis.id) != used.end(); };
  // What is computed for every key is not a result.
  if (std::any_of(axes.own.begin(), axes.own.end(), has)) return false;
  bool all_rows = true;
  bool any_column = false;
  bool all_columns = true;
  for (const WalkAxis& axis : axes.base) {
    if (axis.size == 1) continue;
    if (axes.is_reduction(axis.id)) {
      any_column = any_column || has(axis);
      all_columns = all_columns && has(axis);
    } else {
      all_rows = all_rows && has(axis);
    }
  }
  if (fewer_rows && !any_column) return true;
  return all_rows && (!any_column || all_columns);
}

/// Finds where each store stands; a store that the others do not lead to becomes a root of another run. With
/// `fewer_rows`, some may be of fewer axes than the rows have.
Result<Loops> position_stores(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols, Base base,
                              bool fewer_rows = false) {
  std::map<ir::NodeId, std::vector<Expr>> placed;  // roots beside the base
  std::vector<SplitRequest> splits;
  for (int run = 0; run < kMaxRuns; ++run) {
    Builder builder(graph, segment, symbols, base, splits);
    for (const auto& [node, coordinates] : placed) builder.add_root(node, coordinates);
    VKF_CHECK_OK(builder.run());
    if (const auto split = builder.requested_split()) {
      splits.push_back(*split);
      placed.clear();  // positions are in terms of axes that no longer exist
      continue;
    }
    bool again = false;
    for (ir::NodeId id : segment.stores) {
      if (builder.has_store(id)) continue;
      const auto complete = [&](bool with_fewer_rows) {
        return builder.find_position(id, [&](const Expr& offset, std::int64_t count) {
          return is_complete(builder.axes(), offset, count, with_fewer_rows);
        });
      };
      auto found = complete(false);
      if (!found && fewer_rows) found = complete(true);
      if (!found) {
        return unsupported(
            "%{} of shape {} is stored, and the kernel runs over {} where no position of its own is known.", id,
            to_text(graph.node(id).type.shape), to_text(graph.node(base.node).type.shape));
      }
      if (found->is_requested) {
        builder.add_store(id, found->coordinates);
      } else {
        placed[id] = found->coordinates;
        again = true;
      }
    }
    if (again) continue;
    return builder.finish();
  }
  return unsupported("Its positions did not settle after {} rounds of splitting axes.", kMaxRuns);
}

/// A kernel that the user wrote: its operands, each once, and its result.
Result<Loops> loops_of_kernel(const ir::Graph& graph, ir::NodeId id, const SymbolValues& symbols) {
  Loops loops;
  loops.opaque = true;
  Value result;
  result.kind = Value::Kind::compute;
  result.node = id;
  result.offset = Expr(0);
  for (ir::NodeId operand : graph.node(id).operands) {
    VKF_TRY(sizes, resolve(graph.node(operand).type.shape, symbols));
    VKF_TRY(count, element_count(sizes));
    loops.opaque_sizes.insert(loops.opaque_sizes.end(), sizes.begin(), sizes.end());
    Value load;
    load.kind = Value::Kind::load;
    load.node = operand;
    load.offset = Expr(0);
    load.buffer_elements = count;
    result.operands.push_back(add_once(loops.values, std::move(load)));
  }
  VKF_TRY(sizes, resolve(graph.node(id).type.shape, symbols));
  VKF_TRY(count, element_count(sizes));
  loops.opaque_sizes.insert(loops.opaque_sizes.end(), sizes.begin(), sizes.end());
  for (std::int64_t size : sizes) loops.axes.push_back({std::max<std::int64_t>(size, 1), Role::parallel});
  loops.empty = count == 0;
  loops.values.push_back(std::move(result));
  loops.stores.push_back({static_cast<ValueId>(loops.values.size() - 1), id, Expr(0), count, 0});
  return loops;
}

/// An update writes to memory that something else has filled, and what reads its result reads that memory.
Result<void> check_update_members(const ir::Graph& graph, const Segment& segment) {
  const auto is_member = [&](ir::NodeId id) {
    return std::binary_search(segment.members.begin(), segment.members.end(), id);
  };
  for (const ir::NodeId id : segment.members) {
    const ir::Node& node = graph.node(id);
    for (const ir::NodeId operand : node.operands) {
      if (is_member(operand) && graph.node(operand).op->role == ops::Role::update_rows)
        return unsupported("%{} reads the result of 'update_rows' %{}, which is in memory after the kernel has ended.",
                           id, operand);
    }
    if (node.op->role == ops::Role::update_rows && is_member(node.operands[0]))
      return unsupported("'update_rows' %{} writes into %{}, which has to be in memory before the kernel begins.", id,
                         node.operands[0]);
  }
  return {};
}

}  // namespace

Result<Loops> build_loops(const ir::Graph& graph, const Segment& segment, const SymbolValues& symbols) {
  const auto own = std::find_if(segment.members.begin(), segment.members.end(),
                                [&](ir::NodeId id) { return graph.node(id).op->cls == ops::OpClass::opaque; });
  if (own != segment.members.end()) {
    if (segment.members.size() == 1) return loops_of_kernel(graph, *own, symbols);
    return unsupported("'{}' is a kernel of the user's, in which nothing else is computed.",
                       std::get<ir::KernelPayload>(graph.node(*own).payload).name);
  }
  VKF_CHECK_OK(check_update_members(graph, segment));
  VKF_TRY(base, choose_base(graph, segment, symbols));
  const auto reduction = base.reduction;
  auto loops = position_stores(graph, segment, symbols, base);
  if (loops || !reduction) return loops;
  if (const auto later = reduction_after_contraction(graph, segment, symbols, *reduction)) {
    VKF_TRY(base_after, choose_base_after(graph, segment, symbols, *later));
    loops = position_stores(graph, segment, symbols, std::move(base_after));
  }
  if (loops || graph.node(*reduction).op->cls != ops::OpClass::contraction) return loops;
  // What attention knows of a row, beside the row's columns.
  auto of_fewer_rows = position_stores(graph, segment, symbols, std::move(base), true);
  return of_fewer_rows ? std::move(of_fewer_rows) : std::move(loops);
}

}  // namespace vkfuse::segment
