// What the files of the index algebra share and nobody else needs.
#pragma once

#include <vector>

#include "index/index.hpp"

namespace vkfuse::index {

/// A total order: axes, data, quotients, remainders; by id, or by divisor and operand.
int compare(const Atom& a, const Atom& b);

/// A sum under construction: terms in any order, repeats allowed.
struct Sum {
  std::int64_t constant = 0;
  std::vector<Expr::Term> terms;

  void add(const Expr& expr, std::int64_t factor = 1);
};

/// Joins digits of one number in a sorted sum: a * (x / a) + x % a = x and its relatives. One step; true if
/// it found something, and then the terms are no longer sorted.
bool recombine(Sum& sum);

/// One axis replaced by an expression.
Expr substitute(const Expr& expr, AxisId axis, const Expr& value);

/// The bit of an axis in Atom::axis_bits.
inline std::uint64_t bit_of(AxisId axis) { return std::uint64_t{1} << (static_cast<unsigned>(axis) % 64U); }

}  // namespace vkfuse::index
