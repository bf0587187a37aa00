// Values of which every element is held.
#pragma once

#include <memory>
#include <vector>

#include "reference/elementwise.hpp"

namespace vkfuse::reference {

/// All elements of a value, row-major: `real` of floats, `integer` of other dtypes. Without `bound` every element is
/// exact.
struct Dense {
  std::unique_ptr<double[]> real;
  std::unique_ptr<std::int64_t[]> integer;
  std::unique_ptr<double[]> bound;
  std::int64_t count = 0;

  Dense() = default;
  /// Elements that are not yet known.
  Dense(DType dtype, std::int64_t elements)
      : bound(std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(elements))), count(elements) {
    if (is_float(dtype)) {
      real = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(elements));
    } else {
      integer = std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(elements));
    }
  }
  [[nodiscard]] Element at(std::int64_t index) const {
    const auto i = static_cast<std::size_t>(index);
    return {real ? real[i] : 0, integer ? integer[i] : 0, bound ? bound[i] : 0};
  }
  void set(std::int64_t index, const Element& element) {
    const auto i = static_cast<std::size_t>(index);
    if (real) {
      real[i] = element.real;
    } else {
      integer[i] = element.integer;
    }
    bound[i] = element.bound;
  }
};

inline constexpr std::int64_t kDenseBytes = 16;  ///< of an element

/// The values that are held, by node; null where a value is not.
using Materialised = std::vector<std::shared_ptr<const Dense>>;

/// Elements in the order in which they were asked for.
struct Block {
  std::vector<double> real;
  std::vector<std::int64_t> integer;
  std::vector<double> bound;

  void resize(DType dtype, std::size_t count) {
    if (is_float(dtype)) {
      real.resize(count);
    } else {
      integer.resize(count);
    }
    bound.resize(count);
  }
};

}  // namespace vkfuse::reference
