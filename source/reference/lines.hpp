// Shapes seen from some of their axes.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace vkfuse::reference {

/// A shape seen from one axis: [outer, size, inner].
struct Lines {
  std::int64_t size = 1;
  std::int64_t inner = 1;

  Lines(const Sizes& sizes, int axis) : size(sizes[static_cast<std::size_t>(axis)]) {
    for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < sizes.size(); ++i) inner *= sizes[i];
  }
  [[nodiscard]] std::int64_t line_of(std::int64_t index) const {
    return index / (size * inner) * inner + index % inner;
  }
  [[nodiscard]] std::int64_t position_of(std::int64_t index) const { return index / inner % size; }
  [[nodiscard]] std::int64_t index_of(std::int64_t line, std::int64_t position) const {
    return (line / inner * size + position) * inner + line % inner;
  }
};

/// The elements of an operand that a reduction folds into one: those at base + offset(k).
class Fibers {
 public:
  Fibers(const Sizes& operand, const std::vector<int>& axes) : reduced_(operand.size(), false) {
    std::int64_t stride = 1;
    for (int axis : axes) reduced_[static_cast<std::size_t>(axis)] = true;
    for (std::size_t i = operand.size(); i-- > 0;) {
      (reduced_[i] ? reduced_axes_ : left_).push_back({operand[i], stride});
      if (reduced_[i]) length_ *= operand[i];
      stride *= operand[i];
    }
  }
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::int64_t base(std::int64_t result_index) const { return along(left_, result_index); }
  [[nodiscard]] std::int64_t offset(std::int64_t k) const { return along(reduced_axes_, k); }

 private:
  struct Axis {
    std::int64_t size;
    std::int64_t stride;
  };
  static std::int64_t along(const std::vector<Axis>& axes, std::int64_t index) {  // innermost first
    std::int64_t at = 0;
    for (const Axis& axis : axes) {
      at += index % axis.size * axis.stride;
      index /= axis.size;
    }
    return at;
  }
  std::vector<bool> reduced_;
  std::vector<Axis> left_, reduced_axes_;
  std::int64_t length_ = 1;
};

}  // namespace vkfuse::reference
