// Which positions of a softmax a mask leaves to a row, where it is a comparison of positions: key <= query + 7, as
// causal masks and windows have it. Blocks beyond are never visited.
#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/operands.hpp"
#include "templates/attention/tiles.hpp"

namespace vkfuse::schedule {

using index::Expr;
using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 30;  // positions and their sums stay within 32 bits

bool stays_near(const Expr& expr) {
  const index::Interval interval = index::interval_of(expr);
  return interval.low > -kFar && interval.high < kFar;
}

/// A value as an expression of positions, if it is one and does not wrap.
std::optional<Expr> position_of(const ir::Graph& graph, const Loops& loops, ValueId id) {
  const Value& value = loops.values[id];
  const ir::Node& node = graph.node(value.node);
  std::optional<Expr> expr;
  if (node.type.dtype != DType::i32 && node.type.dtype != DType::i64) return std::nullopt;
  if (const auto number = number_of(graph, value)) {
    if (std::abs(*number) < static_cast<double>(kFar)) expr = Expr(static_cast<std::int64_t>(*number));
  } else if (value.kind == Value::Kind::position && node.op->role == ops::Role::iota) {
    expr = value.offset;
  } else if (value.kind == Value::Kind::compute &&
             (node.op->role == ops::Role::add || node.op->role == ops::Role::sub)) {
    const auto a = position_of(graph, loops, value.operands[0]);
    const auto b = position_of(graph, loops, value.operands[1]);
    if (a && b) expr = node.op->role == ops::Role::add ? *a + *b : *a - *b;
  }
  return expr && stays_near(*expr) ? expr : std::nullopt;
}

/// Expressions that are not above 0 wherever the condition holds.
void add_conditions(const ir::Graph& graph, const Loops& loops, ValueId id, std::vector<Expr>& not_above) {
  const Value& value = loops.values[id];
  if (value.kind != Value::Kind::compute) return;
  const ops::Role op = graph.node(value.node).op->role;
  if (op == ops::Role::logical_and) {
    for (ValueId operand : value.operands) add_conditions(graph, loops, operand, not_above);
    return;
  }
  const bool is_below = op == ops::Role::le || op == ops::Role::lt;
  const bool is_above = op == ops::Role::ge || op == ops::Role::gt;
  if (!is_below && !is_above) return;
  const auto a = position_of(graph, loops, value.operands[0]);
  const auto b = position_of(graph, loops, value.operands[1]);
  if (!a || !b) return;
  const Expr apart = is_below ? *a - *b : *b - *a;
  const bool is_strict = op == ops::Role::lt || op == ops::Role::gt;
  not_above.push_back(is_strict ? apart + 1 : apart);
}

}  // namespace

void find_mask_bounds(const ir::Graph& graph, const Loops& loops, AttentionParams& tile) {
  if (tile.axes.k.size() != 1 || tile.axes.m.empty()) return;
  std::vector<Expr> not_above;
  for (ValueId id = tile.values.score;;) {
    const Value& value = loops.values[id];
    const bool masks = value.kind == Value::Kind::compute && graph.node(value.node).op->role == ops::Role::select &&
                       number_of(graph, loops.values[value.operands[2]]) == -std::numeric_limits<double>::infinity();
    if (!masks) break;
    add_conditions(graph, loops, value.operands[0], not_above);
    id = value.operands[1];
  }
  const int k = tile.axes.k[0];
  const int m = tile.axes.m.back();
  for (const Expr& expr : not_above) {
    const auto along_k = index::stride_of(expr, k);
    const auto along_m = index::stride_of(expr, m);
    if (!along_k || !along_m || std::abs(*along_k) != 1) continue;
    const Expr rest = expr - Expr::axis(k, loops.axes[static_cast<std::size_t>(k)].size) * *along_k -
                      Expr::axis(m, loops.axes[static_cast<std::size_t>(m)].size) * *along_m;
    if (!rest.is_constant()) continue;
    if (*along_k == 1) {
      tile.mask.upper.push_back({-*along_m, -rest.constant()});
    } else {
      tile.mask.lower.push_back({*along_m, rest.constant()});
    }
  }
}

Blocks blocks_of(const Loops& loops, const AttentionParams& tile, std::int64_t tile_m) {
  const std::int64_t rows = loops.axes[static_cast<std::size_t>(tile.axes.m.back())].size;
  const std::int64_t lowest = tile_m * tile.tile_m() % rows;
  const std::int64_t highest = std::min(lowest + tile.tile_m(), rows) - 1;
  std::int64_t last = count_along(loops, tile.axes.k) - 1;
  std::int64_t first = 0;
  for (const MaskBound& mask_bound : tile.mask.upper)
    last = std::min(last, mask_bound.slope * (mask_bound.slope > 0 ? highest : lowest) + mask_bound.constant);
  for (const MaskBound& mask_bound : tile.mask.lower)
    first = std::max(first, mask_bound.slope * (mask_bound.slope > 0 ? lowest : highest) + mask_bound.constant);
  return {first / tile.tile_k(), (std::max<std::int64_t>(last, -1) + tile.tile_k()) / tile.tile_k()};
}

}  // namespace vkfuse::schedule
