// Random values whose gradients are checked: every op with a rule, and composites, on random shapes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/random.hpp"
#include "support/run.hpp"
#include "vkfuse/gradients.hpp"

namespace vkfuse::test {

/// Draws operands, and remembers their elements.
class GradientDraw {
 public:
  /// With `symbolic`, some dimensions are symbols, equal ones where sizes are.
  GradientDraw(std::uint64_t seed, DType dtype, bool symbolic = false)
      : random(seed), dtype_(dtype), symbolic_(symbolic) {}

  /// An operand that gradients are taken with respect to.
  Tensor floats(const Sizes& sizes, double low = -2, double high = 2);
  /// The same away from 0, of either sign.
  Tensor nonzero(const Sizes& sizes);
  Tensor integers(const Sizes& sizes, std::int64_t low, std::int64_t high);
  Tensor booleans(const Sizes& sizes);

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(high - low + 1)));
  }
  /// Sizes from 1 to 5.
  Sizes sizes(std::size_t least, std::size_t most);
  /// Sizes that broadcast to these.
  Sizes part_of(const Sizes& whole);
  int axis_of(const Sizes& sizes) { return static_cast<int>(random.below(sizes.size())); }
  std::vector<int> some_axes(const Sizes& sizes);

  Random random;
  std::vector<Tensor> wrt;
  Data data;

 private:
  Tensor input(const Sizes& sizes, DType dtype, const std::function<double()>& next, bool is_wrt);
  DType dtype_;
  bool symbolic_;
};

struct GradientFamily {
  std::string name;
  std::function<Tensor(GradientDraw& draw)> make;
};

/// Each in one place: every row with a rule has a family of its name, or one that begins with it.
const std::vector<GradientFamily>& gradient_families();

}  // namespace vkfuse::test
