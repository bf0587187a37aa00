// Folds of elements, with what the order of the joins on a device may change.
#pragma once

#include <variant>

#include "reference/elementwise.hpp"

namespace vkfuse::reference {

/// What is known of the elements so far, by the kind of fold.
namespace partial {
struct Sum {
  double sum = 0;
  double carry = 0;      ///< what additions to `sum` have lost
  double magnitude = 0;  ///< of finite elements, with their bounds
  double spread = 0;     ///< the sum of the bounds
  bool positive = false, negative = false;
  double first = 0;
  bool equal = true;  ///< all elements are the first one, exactly
  bool to_infinity = false, to_minus_infinity = false;

  [[nodiscard]] bool has_infinity() const { return to_infinity || to_minus_infinity; }
  [[nodiscard]] bool has_both_signs() const { return (positive || to_infinity) && (negative || to_minus_infinity); }
};
struct Product {
  double product = 1;
  double magnitude = 1, widest = 1;  ///< of |x|, of |x| + bound; infinities left out
  double greatest = 1, least = 1;    ///< of any partial product
  bool zero = false;                 ///< one is exactly zero
  bool infinite = false;
};
struct Extreme {  ///< of side * x, so that min is max
  double side = 1;
  double value, low, high;
  bool subnormal = false;  ///< one of them is, and a device may compare it as zero
};
struct Position {  ///< of the first greatest side * x
  double side = 1;
  std::int64_t at = -1;
  std::int64_t first_nan = -1;
  double value = 0, bound = 0;
  double highest_exact, highest_inexact;  ///< that any other element may be
  bool subnormal = false;                 ///< as of Extreme
  std::int64_t integer = 0;
};
struct Whole {
  std::int64_t value = 0;
  bool absorbed = false;  ///< a boolean fold that nothing changes any more
};
}  // namespace partial

/// The reduction of the elements added so far, in any association. A device's result of a float sum lies within
/// chain * unit * (the sum of the magnitudes), plus the operands' own bounds, of the exact one.
class Reducer {
 public:
  /// `dtype` is the operands'; `chain` the most partial results that are added one after the other.
  Reducer(ops::Reduction reduction, DType dtype, std::int64_t chain);

  void add(const Element& x);
  /// Of the elements so far, rounded to the dtype; of none, the identity.
  [[nodiscard]] Element result() const;

 private:
  [[nodiscard]] bool is_absorbed() const;
  [[nodiscard]] bool is_mean() const { return reduction_.kind == ops::Reduction::Kind::mean; }
  [[nodiscard]] bool has_exact_mean(const partial::Sum& sum) const;
  [[nodiscard]] double in_double(const partial::Sum& sum) const;
  void divide_by_count(double& value, double& bound) const;
  void take(partial::Sum& sum, const Element& x) const;
  void take(partial::Product& product, const Element& x) const;
  void take(partial::Extreme& extreme, const Element& x) const;
  void take(partial::Position& position, const Element& x) const;
  void take(partial::Whole& whole, const Element& x) const;
  [[nodiscard]] Element finish(const partial::Sum& sum) const;
  [[nodiscard]] Element finish(const partial::Product& product) const;
  [[nodiscard]] Element finish(const partial::Extreme& extreme) const;
  [[nodiscard]] Element finish(const partial::Position& position) const;
  [[nodiscard]] Element finish(const partial::Whole& whole) const;

  ops::Reduction reduction_;
  const ops::OpRow& join_;
  DType dtype_;
  std::int64_t chain_;
  std::int64_t count_ = 0;
  bool undecided_ = false;
  bool has_nan_ = false;
  bool maybe_nan_ = false;  ///< among what is undecided
  std::variant<partial::Sum, partial::Product, partial::Extreme, partial::Position, partial::Whole> state_;
};

}  // namespace vkfuse::reference
