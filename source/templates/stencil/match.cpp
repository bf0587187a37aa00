#include "templates/stencil/match.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/numerics.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::schedule {

using segment::AxisSet;
using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

constexpr std::size_t kMostWindows = 3;
constexpr std::int64_t kMostTaps = 64;    // along an axis
constexpr std::int64_t kMostSerial = 16;  // positions of reduction axes without windows
constexpr std::int64_t kFarthest = 64;    // step and dilation: what is further apart is in other rows

/// Whether a thread can reduce such values one by one.
bool reduces_plainly(const ir::Graph& graph, const Value& value) {
  const ir::Node& node = graph.node(value.node);
  const ops::Reduction& how = node.op->reduction;
  return (how.kind == ops::Reduction::Kind::plain || how.kind == ops::Reduction::Kind::mean) &&
         value.online == Value::Online::no && has_vectors(node.type.dtype) &&
         has_vectors(graph.node(node.operands[0]).type.dtype);
}

bool has_plain_reductions(const ir::Graph& graph, const Loops& loops) {
  if (loops.opaque || loops.empty || loops.passes != 1 || loops.keys() != 0 || loops.inner() != 0) return false;
  for (const Value& value : loops.values) {
    const bool other = value.kind == Value::Kind::scan || value.kind == Value::Kind::sort ||
                       value.kind == Value::Kind::nested || value.kind == Value::Kind::epilogue;
    if (other || (value.kind == Value::Kind::reduction && !reduces_plainly(graph, value))) return false;
  }
  return std::none_of(loops.stores.begin(), loops.stores.end(),
                      [&](const segment::Store& store) { return (store.axes & loops.columns()) != 0; });
}

/// What reductions are computed from.
std::vector<bool> operands_of_reductions(const Loops& loops) {
  std::vector<bool> needed(loops.values.size(), false);
  for (ValueId id = static_cast<ValueId>(loops.values.size()); id-- > 0;) {
    const Value& value = loops.values[id];
    if (!needed[id] && value.kind != Value::Kind::reduction) continue;
    for (ValueId operand : value.operands) needed[operand] = true;
  }
  return needed;
}

/// A reduction axis and a parallel axis along which a load moves by commensurate steps, the nearest first.
struct Pair {
  WindowAxis window;
  std::int64_t stride = 0;  ///< in memory, of one position of the window axis
  [[nodiscard]] std::int64_t distance() const { return window.step + window.dilation; }
};

/// The load that depends on most parallel axes and on some taps: what is read in windows. Weights have fewer, and their
/// axes may be as near to each other.
std::optional<ValueId> widest_load(const Loops& loops, const std::vector<bool>& needed) {
  std::optional<ValueId> widest;
  const auto positions = [&](ValueId id) { return std::popcount(loops.values[id].axes & ~loops.columns()); };
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (!needed[id] || value.kind != Value::Kind::load || (value.axes & loops.columns()) == 0) continue;
    if (!widest || positions(id) > positions(*widest)) widest = id;
  }
  return widest;
}

std::vector<Pair> pairs_of(const Loops& loops, const std::vector<bool>& needed) {
  std::vector<Pair> pairs;
  const auto widest = widest_load(loops, needed);
  if (!widest) return pairs;
  const Value& value = loops.values[*widest];
  for (int tap : axes_in(loops, loops.columns() & value.axes)) {
    const std::int64_t of_tap = index::stride_of(value.offset, tap).value_or(0);
    if (of_tap == 0 || size_of_axis(loops, tap) > kMostTaps) continue;
    for (int position : axes_in(loops, value.axes & ~loops.columns())) {
      const std::int64_t of_position = index::stride_of(value.offset, position).value_or(0);
      if (of_position == 0 || (of_position > 0) != (of_tap > 0)) continue;
      const std::int64_t common = std::gcd(of_position, of_tap);
      const Pair pair{{position, tap, std::abs(of_position / common), std::abs(of_tap / common)}, common};
      if (pair.distance() <= kFarthest) pairs.push_back(pair);
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.distance() < b.distance(); });
  return pairs;
}

/// Outermost in memory first. Neighbours along one axis at least share what they read.
bool find_windows(const Loops& loops, const std::vector<bool>& needed, StencilParams& params) {
  std::vector<Pair> chosen;
  for (const Pair& pair : pairs_of(loops, needed)) {
    const bool taken = std::any_of(chosen.begin(), chosen.end(), [&](const Pair& other) {
      return other.window.tap == pair.window.tap || other.window.position == pair.window.position;
    });
    if (!taken && chosen.size() < kMostWindows) chosen.push_back(pair);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const Pair& a, const Pair& b) { return a.stride > b.stride; });
  for (const Pair& pair : chosen) params.windows.push_back(pair.window);
  std::int64_t serial = 1;
  for (int axis : axes_in(loops, loops.columns())) {
    if (std::any_of(chosen.begin(), chosen.end(), [&](const Pair& pair) { return pair.window.tap == axis; })) continue;
    if (size_of_axis(loops, axis) == 1) continue;
    params.serial.push_back(axis);
    serial *= size_of_axis(loops, axis);
  }
  const bool overlaps = std::any_of(chosen.begin(), chosen.end(), [&](const Pair& pair) {
    return pair.window.step <= pair.window.dilation * (size_of_axis(loops, pair.window.tap) - 1);
  });
  // A sum is one chain, and those of this length are as short as any (base/numerics.hpp).
  const std::int64_t taps = loops.reduction_count();
  return (overlaps || chosen.size() > 1) && serial <= kMostSerial && taps <= longest_sum_chain(taps);
}

/// What an expression is along all windows together; nothing where it is neither of windows, nor of taps alone.
std::optional<StencilRole> role_of(const StencilParams& params, const index::Expr& expr) {
  StencilRole role = StencilRole::fixed;
  for (const WindowAxis& window : params.windows) {
    const bool of_tap = index::depends_on(expr, window.tap);
    const bool of_position = index::depends_on(expr, window.position);
    if (!of_tap && !of_position) continue;
    if (!of_tap) return std::nullopt;
    StencilRole own = StencilRole::weight;
    if (of_position) {
      const auto along_taps = index::stride_of(expr, window.tap);
      const auto along_positions = index::stride_of(expr, window.position);
      if (!along_taps || !along_positions || *along_taps % window.dilation != 0 ||
          *along_taps * window.step != *along_positions * window.dilation)
        return std::nullopt;
      own = StencilRole::window;
    }
    if (role != StencilRole::fixed && role != own) return std::nullopt;
    role = own;
  }
  for (int axis : params.serial) {
    if (role == StencilRole::fixed && index::depends_on(expr, axis)) role = StencilRole::weight;
  }
  return role;
}

StencilRole joined(StencilRole a, StencilRole b) {
  if (a == b || b == StencilRole::fixed) return a;
  return a == StencilRole::fixed ? b : StencilRole::tap;
}

/// What one value is, where its operands are known.
std::optional<StencilRole> role_of(const Loops& loops, const StencilParams& params, ValueId id) {
  const Value& value = loops.values[id];
  if (value.kind == Value::Kind::literal) return StencilRole::fixed;
  if (!value.data.empty()) return std::nullopt;
  StencilRole role = StencilRole::fixed;
  const auto add = [&](const index::Expr& expr) {
    const auto own = role_of(params, expr);
    if (own) role = joined(role, *own);
    return own.has_value();
  };
  if (value.kind == Value::Kind::load || value.kind == Value::Kind::position) {
    if (!add(value.offset)) return std::nullopt;
  }
  for (const segment::Predicate& predicate : value.predicates) {
    for (const segment::Predicate::Range& range : predicate.ranges) {
      if (!add(range.value)) return std::nullopt;
    }
  }
  for (ValueId operand : value.operands) role = joined(role, params.roles[operand]);
  // At a tap of a result, positions are known neither of the window nor of the tap alone.
  if (role == StencilRole::tap && value.kind != Value::Kind::compute) return std::nullopt;
  return role;
}

}  // namespace

std::optional<StencilParams> match_stencil(const ir::Graph& graph, const Loops& loops) {
  if (!has_plain_reductions(graph, loops) || loops.stores.empty()) return std::nullopt;
  const std::vector<bool> needed = operands_of_reductions(loops);
  StencilParams params;
  if (!find_windows(loops, needed, params)) return std::nullopt;
  params.roles.assign(loops.values.size(), StencilRole::result);
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    if (value.kind == Value::Kind::reduction) {
      const StencilRole operand = params.roles[value.operands[0]];
      if (operand != StencilRole::window && operand != StencilRole::tap) return std::nullopt;
      continue;
    }
    if (!needed[id]) continue;
    if (size_of(graph.node(value.node).type.dtype) > 4) return std::nullopt;
    const auto role = role_of(loops, params, id);
    if (!role) return std::nullopt;
    params.roles[id] = *role;
  }
  return params;
}

}  // namespace vkfuse::schedule
