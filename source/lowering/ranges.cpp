#include "lowering/ranges.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "index/arithmetic.hpp"
#include "ir/structured.hpp"
#include "schedule/sub_byte.hpp"

namespace vkfuse::lowering {

using segment::Value;
using segment::ValueId;

namespace {

/// Of an integer dtype that fits a register; nothing for others.
std::optional<IntegerRange> range_of_type(DType type) {
  if (!is_integer(type) || size_of(type) > 4) return std::nullopt;
  const int bits = 8 * size_of(type);
  if (is_signed_integer(type))
    return IntegerRange{-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
  return IntegerRange{0, (std::int64_t{1} << bits) - 1};
}

bool is_inside(const IntegerRange& range, const IntegerRange& of) {
  return of.low <= range.low && range.high <= of.high;
}

/// All ones up to the highest bit of either.
std::int64_t ones_above(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(a, b)) + 1)) - 1;
}

IntegerRange range_of_product(const IntegerRange& a, const IntegerRange& b) {
  using index::saturating_mul;
  const auto [low, high] = std::minmax({saturating_mul(a.low, b.low), saturating_mul(a.low, b.high),
                                        saturating_mul(a.high, b.low), saturating_mul(a.high, b.high)});
  return {low, high};
}

/// A mask that is not negative leaves no other bits.
std::optional<IntegerRange> range_of_and(const IntegerRange& a, const IntegerRange& b) {
  if (a.low < 0 && b.low < 0) return std::nullopt;
  return IntegerRange{0, a.low < 0 ? b.high : b.low < 0 ? a.high : std::min(a.high, b.high)};
}

std::optional<IntegerRange> range_of_or(const IntegerRange& a, const IntegerRange& b) {
  if (a.low < 0 || b.low < 0) return std::nullopt;
  return IntegerRange{0, ones_above(a.high, b.high)};
}

using Range = std::optional<IntegerRange>;

/// What an op of two operands gives before it wraps.
struct RangeRow {
  ops::Role op;
  Range (*range)(const IntegerRange& a, const IntegerRange& b);
};
constexpr RangeRow kRanges[] = {
    {ops::Role::add,
     [](const IntegerRange& a, const IntegerRange& b) -> Range {
       return IntegerRange{a.low + b.low, a.high + b.high};
     }},
    {ops::Role::sub,
     [](const IntegerRange& a, const IntegerRange& b) -> Range {
       return IntegerRange{a.low - b.high, a.high - b.low};
     }},
    {ops::Role::min,
     [](const IntegerRange& a, const IntegerRange& b) -> Range {
       return IntegerRange{std::min(a.low, b.low), std::min(a.high, b.high)};
     }},
    {ops::Role::max,
     [](const IntegerRange& a, const IntegerRange& b) -> Range {
       return IntegerRange{std::max(a.low, b.low), std::max(a.high, b.high)};
     }},
    {ops::Role::mul, [](const IntegerRange& a, const IntegerRange& b) -> Range { return range_of_product(a, b); }},
    {ops::Role::shift_right,
     [](const IntegerRange& a, const IntegerRange&) -> Range {
       return a.low < 0 ? a : IntegerRange{0, a.high};
     }},
    {ops::Role::bit_and, range_of_and},
    {ops::Role::bit_or, range_of_or},
    {ops::Role::bit_xor, range_of_or},
};

/// What an op gives before it wraps, where that is known. Operands are 32-bit
/// at most: only products of two u32 go beyond 64 bits.
std::optional<IntegerRange> before_wrapping(ops::Role op, std::span<const IntegerRange> x) {
  if (op == ops::Role::cast) return x[0];
  if (op == ops::Role::neg) return IntegerRange{-x[0].high, -x[0].low};
  if (x.size() != 2) return std::nullopt;
  const auto* const row =
      std::find_if(std::begin(kRanges), std::end(kRanges), [&](const RangeRow& one) { return one.op == op; });
  return row == std::end(kRanges) ? std::nullopt : row->range(x[0], x[1]);
}

}  // namespace

std::optional<IntegerRange> IntegerRanges::unwrapped_range(const Value& value) const {
  std::vector<IntegerRange> operands;
  for (ValueId operand : value.operands) {
    const auto range = range_of(operand);
    if (!range) return std::nullopt;
    operands.push_back(*range);
  }
  return before_wrapping(ops::element_row(*graph_.node(value.node).op).role, operands);
}

bool IntegerRanges::stays_inside(ValueId id, DType type) const {
  const auto range = range_of(id);
  const auto all = range_of_type(type);
  return range && all && is_inside(*range, *all);
}

bool IntegerRanges::holds_exactly(DType type, ValueId id) const {
  const std::int64_t most = schedule::most_whole(type);
  const auto range = range_of(id);
  return range && most > 0 && -most <= range->low && range->high <= most;
}

bool IntegerRanges::wraps(const Value& value) const {
  const auto all = range_of_type(dtype_of(value));
  const auto range = all ? unwrapped_range(value) : std::nullopt;
  return !range || !is_inside(*range, *all);
}

std::optional<IntegerRange> IntegerRanges::range_of(ValueId id) const {
  const auto known = ranges_.find(id);
  if (known != ranges_.end()) return known->second;
  const Value& value = loops_.values[id];
  std::optional<IntegerRange> range = range_of_type(dtype_of(value));
  if (range && value.kind == Value::Kind::literal) {
    if (const auto* constant = std::get_if<ir::ConstantPayload>(&graph_.node(value.node).payload)) {
      const std::int64_t number = ir::decode_int(dtype_of(value), constant->bytes->data());
      range = IntegerRange{number, number};
    }
  } else if (range && value.kind == Value::Kind::position &&
             !std::holds_alternative<ir::RandomPayload>(graph_.node(value.node).payload)) {
    const index::Interval positions = index::interval_of(value.offset);
    if (is_inside({positions.low, positions.high}, *range)) range = IntegerRange{positions.low, positions.high};
  } else if (range && value.kind == Value::Kind::compute) {
    const auto computed = unwrapped_range(value);
    if (computed && is_inside(*computed, *range)) range = computed;
  }
  ranges_.emplace(id, range);
  return range;
}

}  // namespace vkfuse::lowering
