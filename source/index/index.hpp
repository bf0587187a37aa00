// The index algebra: integer expressions over loop axes, kept in a canonical simplified form, with the
// facts from which everything about an access is decided: interval, congruence, stride, alignment.
//
// Sizes are numbers here: loops are built once the sizes of a run are known, so that "n divides a * b" is
// a congruence like any other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vkfuse::index {

/// Ids of loop axes and of data-dependent values; the two are numbered apart. Not negative: the algebra has
/// axes of its own below 0 while it works.
using AxisId = int;
using DataId = int;

struct Atom;

/// constant + sum of coefficient * atom, where an atom is an axis, a data value, or the floor quotient or
/// remainder of another expression by a positive number. Immutable and cheap to copy. Two expressions that
/// simplification takes to one form compare equal; those that it does not may still be equal functions.
class Expr {
 public:
  struct Term {
    std::int64_t coefficient = 0;
    std::shared_ptr<const Atom> atom;
  };

  Expr() = default;                                      ///< 0
  Expr(std::int64_t constant) : constant_(constant) {}   // NOLINT(google-explicit-constructor)
  Expr(std::int64_t constant, std::vector<Term> terms);  ///< any order, repeats allowed

  /// An axis that runs over 0 .. size-1. One id always has one size. An axis of size 1 (or 0) is the constant
  /// 0 and occurs nowhere.
  static Expr axis(AxisId id, std::int64_t size);
  /// A value known only on the device, already clamped to 0 .. size-1; the constant 0 as above.
  static Expr data(DataId id, std::int64_t size);

  [[nodiscard]] std::int64_t constant() const { return constant_; }
  /// In canonical order, no atom twice, no coefficient 0.
  [[nodiscard]] std::span<const Term> terms() const {
    return terms_ ? std::span<const Term>(*terms_) : std::span<const Term>();
  }
  [[nodiscard]] bool is_constant() const { return terms().empty(); }
  [[nodiscard]] bool is_constant(std::int64_t value) const { return is_constant() && constant_ == value; }
  /// The axis, if the expression is exactly one axis.
  [[nodiscard]] std::optional<AxisId> as_axis() const;

  friend bool operator==(const Expr& a, const Expr& b) { return compare(a, b) == 0; }
  friend bool operator<(const Expr& a, const Expr& b) { return compare(a, b) < 0; }
  /// A total order that does not depend on addresses.
  static int compare(const Expr& a, const Expr& b);

  /// These and all that follows throw InternalError where a coefficient or constant does not fit 64 bits.
  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, std::int64_t factor);

 private:
  std::int64_t constant_ = 0;
  std::shared_ptr<const std::vector<Term>> terms_;
};

struct Atom {
  enum class Kind : std::uint8_t { axis, data, div, mod };
  Kind kind = Kind::axis;
  int id = 0;                ///< of an axis or data value
  Expr operand;              ///< of div and mod
  std::int64_t divisor = 1;  ///< of div and mod; at least 2
  std::int64_t low = 0;      ///< the interval of the atom, inclusive
  std::int64_t high = 0;
  std::uint64_t axis_bits = 0;  ///< bit id % 64 of every axis inside, to say no quickly
  bool on_data = false;         ///< a data value is inside
};

/// Floor quotient and the remainder that goes with it (0 <= remainder < divisor), simplified. divisor > 0.
Expr floor_div(const Expr& a, std::int64_t divisor);
Expr floor_mod(const Expr& a, std::int64_t divisor);

// Facts. ------------------------------------------------------------------------------------------

/// Every value lies in [low, high]; saturated at the ends of 64 bits.
struct Interval {
  std::int64_t low = 0;
  std::int64_t high = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};
Interval interval_of(const Expr& expr);

/// Every value is `remainder` modulo `modulus`; modulus 0 means it is the constant `remainder`.
struct Congruence {
  std::int64_t modulus = 1;
  std::int64_t remainder = 0;
};
Congruence congruence_of(const Expr& expr);
/// The largest power of two, at most `limit`, that divides every value.
std::int64_t alignment_of(const Expr& expr, std::int64_t limit);

/// Whether the axis (data value) occurs anywhere.
bool depends_on(const Expr& expr, AxisId axis);
bool depends_on_data(const Expr& expr);
/// Every axis that occurs, ascending.
std::vector<AxisId> axes_of(const Expr& expr);
std::vector<DataId> data_of(const Expr& expr);

/// What the value grows by when the axis grows by one, if that is the same everywhere: 0 where the axis
/// does not occur; nothing where it occurs inside a quotient or remainder.
std::optional<std::int64_t> stride_of(const Expr& expr, AxisId axis);

/// How an access runs along `count` consecutive values of an axis that start at a multiple of `count`
/// (the axis's size is a multiple of count): the stride within such a run, and the alignment (a power of
/// two, at most `limit`) of its first element. Nothing where the stride is not the same everywhere. Runs of
/// one element have the stride of stride_of, or 0 where that says nothing.
struct Run {
  std::int64_t stride = 0;
  std::int64_t alignment = 1;
};
std::optional<Run> run_along(const Expr& expr, AxisId axis, std::int64_t axis_size, std::int64_t count,
                             std::int64_t limit);

// Transformations. --------------------------------------------------------------------------------

/// Axes replaced by expressions (of any axes), simplified again. An axis that is not in the map stays.
Expr substitute(const Expr& expr, const std::map<AxisId, Expr>& axes);

/// Every data value under another id; all that occur are in the map.
Expr rename_data(const Expr& expr, const std::map<DataId, DataId>& names);

/// Row-major position of coordinates in a dense array of these sizes.
Expr linearize(std::span<const Expr> coordinates, std::span<const std::int64_t> sizes);
/// The coordinates at a row-major position. The outermost one is not reduced modulo its size.
std::vector<Expr> delinearize(const Expr& position, std::span<const std::int64_t> sizes);

/// An axis that should run as two, outer * factor + inner, so that quotients and remainders vanish.
struct Split {
  AxisId axis = 0;
  std::int64_t factor = 1;
};
/// A split that helps this expression, if there is one: for (c * a + ...) / d or mod d with axis a of size
/// s, c dividing d, f = d / c < s and s a multiple of f. Apply, substitute, ask again.
std::optional<Split> useful_split(const Expr& expr);

/// Whether the expression takes each of 0 .. count-1 exactly once while the axes that occur in it run over
/// all their values: a mixed-radix number in some order of digits. May say no where the answer is yes.
bool covers(const Expr& expr, std::int64_t count);

/// For coordinates that are affine in distinct axes (each +-1 * axis + constant, each axis in at most one
/// coordinate), the axes as expressions of new axes: `solve(map, target)` finds the values of `unknowns`
/// for which map == target, component by component; nothing if some component cannot be solved or, after
/// solving, is not equal. Components without unknowns must be equal as they are. An unknown that no component
/// contains (one of size 1, for instance) is not in the answer. Where a target exceeds the range of its axis,
/// so does the value: whoever substitutes it must know that this cannot happen, or mask.
std::optional<std::map<AxisId, Expr>> solve(std::span<const Expr> map, std::span<const Expr> target,
                                            std::span<const AxisId> unknowns);

// For tests and messages. -------------------------------------------------------------------------

/// "4*a0 + a1 + (a2/3) + (a2%3)".
std::string to_text(const Expr& expr);
/// The value at these axes and data.
std::int64_t evaluate(const Expr& expr, const std::map<AxisId, std::int64_t>& axes,
                      const std::map<DataId, std::int64_t>& data = {});

}  // namespace vkfuse::index
