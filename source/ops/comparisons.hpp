// The comparisons of the op table, as passes and templates reason about them.
#pragma once

#include <algorithm>
#include <iterator>

#include "ops/op.hpp"

namespace vkfuse::ops {

/// What a comparison says of two numbers, neither of them NaN, of which the first is less, equal or greater.
struct Comparison {
  std::string_view name;
  Role role = Role::none;
  Role opposite = Role::none;  ///< true where it is false
  Role turned = Role::none;    ///< the same of operands that have changed places
  bool less = false, equal = false, greater = false;

  template <typename Number>
  [[nodiscard]] constexpr bool holds(Number a, Number b) const {
    if (a < b) return less;
    return a > b ? greater : equal;
  }
};

inline constexpr Comparison kComparisons[] = {
    {.name = "lt", .role = Role::lt, .opposite = Role::ge, .turned = Role::gt, .less = true},
    {.name = "le", .role = Role::le, .opposite = Role::gt, .turned = Role::ge, .less = true, .equal = true},
    {.name = "gt", .role = Role::gt, .opposite = Role::le, .turned = Role::lt, .greater = true},
    {.name = "ge", .role = Role::ge, .opposite = Role::lt, .turned = Role::le, .equal = true, .greater = true},
    {.name = "eq", .role = Role::eq, .opposite = Role::ne, .turned = Role::eq, .equal = true},
    {.name = "ne", .role = Role::ne, .opposite = Role::eq, .turned = Role::ne, .less = true, .greater = true},
};

/// Null where the role is not that of a comparison.
constexpr const Comparison* comparison_of(Role role) {
  const auto* found = std::find_if(std::begin(kComparisons), std::end(kComparisons),
                                   [&](const Comparison& one) { return one.role == role; });
  return found == std::end(kComparisons) ? nullptr : found;
}

}  // namespace vkfuse::ops
