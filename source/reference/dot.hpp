// Sums of products. Their values and bounds are the same whether elements are asked for alone or all at once.
#pragma once

#include "reference/elementwise.hpp"
#include "reference/parallel.hpp"
#include "reference/reader.hpp"

namespace vkfuse::reference {

/// Some axes of a tensor as mixed-radix digits, outermost first.
struct Digits {
  Sizes sizes;
  Sizes strides;

  Digits(const Sizes& of, std::span<const int> axes);
  [[nodiscard]] std::int64_t count() const;
  /// The offset in the tensor of the position with this number.
  [[nodiscard]] std::int64_t offset(std::int64_t number) const;
  /// The offsets of all positions.
  [[nodiscard]] std::vector<std::int64_t> offsets() const;
};

/// Which elements of its operands an element of a `dot` needs: those at the offset of a batch, of a row of `a` or a
/// column of `b`, and of each step along the sum.
struct DotShape {
  Digits batch_a, batch_b, free_a, free_b, along_a, along_b;
  DotShape(const ir::DotPayload& dot, const Sizes& a, const Sizes& b);
  [[nodiscard]] std::int64_t length() const { return along_a.count(); }
};

/// How bounds of the products of one dot are summed. A product of a and b is off by |a| eb + |b| ea + ea eb + unit |a
/// b|, and a sum of them by `length` units of what they come to; that is `mine` |other| + `both` e_other with
/// coefficients that depend on one operand alone.
class DotBounds {
 public:
  DotBounds(DType dtype, std::int64_t length);
  /// The coefficients of a finite element of the operand whose own error is in both.
  [[nodiscard]] double mine(double magnitude, double error) const { return rounding_ * magnitude + growth_ * error; }
  [[nodiscard]] double both(double magnitude, double error) const { return growth_ * (magnitude + error); }
  /// The element, where all coefficients are finite and every product is decided; nothing where partial sums may
  /// overflow. `product` is the largest magnitude that a product may have, errors left out: without a bound that says
  /// anything, the element is undecided.
  [[nodiscard]] std::optional<Element> result(double sum, double bound, double product) const;

 private:
  DType dtype_;
  double terms_ = 0, rounding_ = 0, growth_ = 1, tiny_ = 0;
};

/// Whether the errors of the first operand are those with coefficients: where the second operand is stored, its own are
/// nearly all zero.
bool coefficients_of_first(const ir::Graph& graph, const ir::Node& dot);

/// Whether an element has a value that sums of f32 products can be computed with in plain doubles.
inline bool is_plain(double value) { return std::abs(value) < 0x1p300; }

/// The sum of products of two lines of operands.
Element dot_of_lines(const ir::Node& node, bool coefficients_first, std::span<const Element> a,
                     std::span<const Element> b);

/// Every element of a dot of floats narrower than f64 or of integers, from operands that `reader` knows.
void dense_dot(ir::NodeId id, const Reader& reader, const Deadline& deadline, Dense& into);
/// Whether dense_dot takes it.
bool is_dense_dot(const ir::Node& node);

}  // namespace vkfuse::reference
