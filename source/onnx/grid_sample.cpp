// GridSample: interpolation at positions that are data.
#include <cmath>
#include <limits>
#include <optional>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/text.hpp"
#include "onnx/truncation.hpp"

namespace vkfuse::onnx {
namespace {

enum class Mode : std::uint8_t { nearest, linear, cubic };
enum class Beyond : std::uint8_t { zeros, border, reflection };

struct Sampling {
  Mode mode = Mode::linear;
  Beyond beyond = Beyond::zeros;
  bool align_corners = false;
};

Result<Sampling> sampling_of(const NodeContext& node) {
  Sampling result;
  VKF_TRY(mode, node.attributes().text("mode", "linear"));
  VKF_TRY(padding, node.attributes().text("padding_mode", "zeros"));
  VKF_TRY(align_corners, node.attributes().integer("align_corners", 0));
  // Opset 20 renamed the modes, for they are no longer those of images alone.
  if (mode == "nearest") {
    result.mode = Mode::nearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    result.mode = Mode::cubic;
  } else if (mode != "linear" && mode != "bilinear") {
    return invalid("Attribute 'mode' is {}; it must be 'nearest', 'linear' or 'cubic'.", in_quotes(mode));
  }
  if (padding == "border") {
    result.beyond = Beyond::border;
  } else if (padding == "reflection") {
    result.beyond = Beyond::reflection;
  } else if (padding != "zeros") {
    return invalid("Attribute 'padding_mode' is {}; it must be 'zeros', 'border' or 'reflection'.", in_quotes(padding));
  }
  result.align_corners = align_corners != 0;
  return result;
}

/// Sampling along one axis of `size` elements. Positions become integers as soon as they are whole: from
/// there on all is exact, and which element is read does not hang on a rounding error.
class AxisSampler {
 public:
  AxisSampler(const Sampling& sampling, std::int64_t size)
      : sampling_(sampling), last_(static_cast<double>(size - 1)) {}

  struct Tap {
    Tensor position;               ///< i32, within the axis
    std::optional<Tensor> weight;  ///< nothing for 1
    std::optional<Tensor> counts;  ///< false outside the image, where that is 0
  };

  /// What is read along this axis at grid values -1 to 1.
  [[nodiscard]] std::vector<Tap> taps(const Tensor& grid) const {
    Tensor x = finite(position_of(grid));
    if (sampling_.beyond == Beyond::border) x = near_the_image(x);
    if (sampling_.mode == Mode::nearest) return {tap(op("round", x).cast(DType::i32), std::nullopt)};
    const Tensor floor = op("floor", x);
    const Tensor t = x - floor;
    const Tensor first = floor.cast(DType::i32);
    if (sampling_.mode == Mode::linear) return {tap(first, 1.0 - t), tap(first + 1.0, t)};
    return {tap(first - 1.0, cubic_outer(t + 1.0)), tap(first, cubic_inner(t)), tap(first + 1.0, cubic_inner(1.0 - t)),
            tap(first + 2.0, cubic_outer(2.0 - t))};
  }

 private:
  [[nodiscard]] Tensor position_of(const Tensor& grid) const {
    if (sampling_.align_corners) return (grid + 1.0) * (last_ / 2);
    return ((grid + 1.0) * (last_ + 1) - 1.0) * 0.5;
  }

  /// A position that is no number, or beyond all numbers, is 0, as ONNX Runtime's is: the image has none of its own
  /// there.
  [[nodiscard]] Tensor finite(const Tensor& x) const {
    if (sampling_.beyond == Beyond::zeros) return x;
    return select(op("le", op("abs", x), std::numeric_limits<float>::max()), x, Tensor::scalar(x.dtype(), 0));
  }

  /// The border goes on for ever: every position further out than the kernel reaches reads the same. Taps are clamped
  /// one by one, so a cubic kernel still sees the second element from a position just outside.
  [[nodiscard]] Tensor near_the_image(const Tensor& x) const {
    const double reach = sampling_.mode == Mode::cubic ? 2 : 1;
    return op("min", op("max", x, -reach), last_ + reach);
  }

  [[nodiscard]] Tensor clamped(const Tensor& x) const { return op("min", op("max", x, 0), last_); }

  /// The image and its mirror image, in turns: about the outer elements, or about their outer edges. Kernels
  /// are symmetric, so that reflecting what they read is reflecting where they are.
  [[nodiscard]] Tensor reflected(const Tensor& position) const {
    const double period = sampling_.align_corners ? 2 * last_ : 2 * (last_ + 1);
    if (period == 0) return clamped(position);
    const Tensor folded = op("mod", position, period);
    return op("min", folded, (sampling_.align_corners ? period : period - 1) - folded);
  }

  [[nodiscard]] Tap tap(const Tensor& position, std::optional<Tensor> weight) const {
    const Tensor inside = sampling_.beyond == Beyond::reflection ? reflected(position) : clamped(position);
    std::optional<Tensor> counts;
    if (sampling_.beyond == Beyond::zeros) counts = op("eq", inside, position);
    return {inside, std::move(weight), std::move(counts)};
  }

  static constexpr double kCubic = -0.75;

  /// The kernel at a distance of at most 1, and of 1 to 2.
  static Tensor cubic_inner(const Tensor& t) { return ((kCubic + 2) * t - (kCubic + 3)) * t * t + 1.0; }
  static Tensor cubic_outer(const Tensor& t) { return ((kCubic * t - 5 * kCubic) * t + 8 * kCubic) * t - 4 * kCubic; }

  Sampling sampling_;
  double last_;
};

/// One tap along every axis: a row-major position in the image, the product of the weights, and whether
/// all of them count.
using Corner = AxisSampler::Tap;

std::optional<Tensor> joined(std::string_view with, const std::optional<Tensor>& a, const std::optional<Tensor>& b) {
  if (!a || !b) return a ? a : b;
  return op(with, *a, *b);
}

std::vector<Corner> with_axis(const std::vector<Corner>& corners, const std::vector<AxisSampler::Tap>& taps,
                              std::int64_t size) {
  std::vector<Corner> result;
  for (const Corner& corner : corners) {
    for (const AxisSampler::Tap& tap : taps) {
      result.push_back({corner.position * Tensor::scalar_int(DType::i32, size) + tap.position,
                        joined("mul", corner.weight, tap.weight), joined("and", corner.counts, tap.counts)});
    }
  }
  return result;
}

Result<void> check_operands(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 4));
  const Shape& x = node.tensor(0).shape();
  const Shape& grid = node.tensor(1).shape();
  const auto axes = static_cast<std::int64_t>(x.size() - 2);
  if (is_float(node.dtype(1)) && grid.size() == x.size() && grid[0] == x[0] && grid.back() == Dim(axes)) return {};
  return invalid("The grid is {}{}; an input of {} asks for floats of rank {}, batch {} and {} numbers per position.",
                 name_of(node.dtype(1)), to_text(grid), to_text(x), x.size(), x[0].text(), axes);
}

}  // namespace

Result<Outputs> import_grid_sample(const NodeContext& node) {
  VKF_TRY(sampling, sampling_of(node));
  VKF_CHECK_OK(check_operands(node));
  const Shape& shape = node.tensor(0).shape();
  const Shape& grid_shape = node.tensor(1).shape();
  const std::size_t axes = shape.size() - 2;
  VKF_TRY(pixels, static_count(shape, 2, shape.size()));
  VKF_TRY(samples, static_count(grid_shape, 1, grid_shape.size() - 1));
  if (pixels < 1 || pixels > INT32_MAX) return invalid("The input {} has {} pixels.", to_text(shape), pixels);
  const Tensor grid = node.tensor(1).cast(DType::f32).reshape({shape[0], 1, samples, static_cast<int>(axes)});
  std::vector<Corner> corners{{Tensor::scalar(DType::i32, 0), {}, {}}};
  for (std::size_t i = 0; i < axes; ++i) {
    // The grid's last number belongs to the outermost axis.
    const Tensor along = grid.select(-1, static_cast<std::int64_t>(axes - 1 - i));
    const std::int64_t size = shape[i + 2].size();
    corners = with_axis(corners, AxisSampler(sampling, size).taps(along), size);
  }
  const Tensor image = node.tensor(0).reshape({shape[0], shape[1], pixels});
  std::optional<Tensor> sum;
  for (const Corner& corner : corners) {
    Tensor value = image.take_along(corner.position, 2);
    if (corner.weight) value = value.cast(DType::f32) * *corner.weight;
    if (corner.counts) value = select(*corner.counts, value, Tensor::scalar(value.dtype(), 0));
    sum = sum ? *sum + value : value;
  }
  Shape result{shape[0], shape[1]};
  result.insert(result.end(), grid_shape.begin() + 1, grid_shape.end() - 1);
  return Outputs{truncated_to(node.dtype(), *sum, kLargestByte).reshape(result)};
}

}  // namespace vkfuse::onnx
