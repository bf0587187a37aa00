// Discrete Fourier transforms as products with matrices of cosines and sines; filters of mel scales.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/positions.hpp"
#include "onnx/tensor_proto.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

/// A signal along its last axis; without an imaginary part where that is 0.
struct Signal {
  Tensor real;
  std::optional<Tensor> imaginary;
};

struct Transform {
  std::int64_t length = 0;  ///< of the transform: shorter signals are filled with zeros, longer ones cut
  bool inverse = false;
  bool onesided = false;
};

/// Longer matrices than this are computed where they are read.
constexpr std::int64_t kMostTabled = 1 << 20;

/// cos or sin of 2 pi row column / length, [rows, columns].
Tensor waves(bool is_sine, std::int64_t rows, std::int64_t columns, const Transform& how, DType dtype) {
  const double turn = 2 * std::numbers::pi / static_cast<double>(how.length);
  if (rows * columns > kMostTabled) {
    const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    const Tensor row = Tensor::iota(DType::i64, {rows, 1}, 0), column = Tensor::iota(DType::i64, {1, columns}, 1);
    const Tensor part = op("mod", row * column, Tensor::scalar_int(DType::i64, how.length));
    return op(is_sine ? "sin" : "cos", part.cast(wide) * turn).cast(dtype);
  }
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const double angle = static_cast<double>(row * column % how.length) * turn;
      values.push_back(is_sine ? std::sin(angle) : std::cos(angle));
    }
  }
  return real_constant(values, {rows, columns}, dtype);
}

Tensor cut_to(const Tensor& x, std::int64_t size) { return x.slice(static_cast<int>(x.shape().size()) - 1, 0, size); }

/// The real signal of a spectrum of which one half is stated: every frequency but the first, and the one in the middle
/// of an even length, stands for two.
Tensor from_half(const Signal& in, const Transform& how, std::int64_t size, DType dtype) {
  const std::int64_t rows = std::min(size, how.length / 2 + 1);
  std::vector<double> shares(static_cast<std::size_t>(rows), 2);
  shares[0] = 1;
  if (how.length % 2 == 0 && rows == how.length / 2 + 1) shares.back() = 1;
  const Tensor share = real_constant(shares, {rows}, dtype);
  Tensor sum = matmul(cut_to(in.real, rows) * share, waves(false, rows, how.length, how, dtype));
  if (in.imaginary) sum = sum - matmul(cut_to(*in.imaginary, rows) * share, waves(true, rows, how.length, how, dtype));
  return (sum / static_cast<double>(how.length)).unsqueeze(static_cast<int>(sum.shape().size()));
}

/// The transform along the last axis, which has `size` elements; its parts are a new last axis.
Tensor transformed(const Signal& in, const Transform& how, std::int64_t size) {
  const DType dtype = in.real.dtype();
  if (how.inverse && how.onesided) return from_half(in, how, size, dtype);
  const std::int64_t rows = std::min(size, how.length);
  const std::int64_t columns = how.onesided ? how.length / 2 + 1 : how.length;
  const Tensor cosines = waves(false, rows, columns, how, dtype);
  Tensor sines = waves(true, rows, columns, how, dtype);
  if (!how.inverse) sines = -sines;
  Tensor real = matmul(cut_to(in.real, rows), cosines), imaginary = matmul(cut_to(in.real, rows), sines);
  if (in.imaginary) {
    const Tensor other = cut_to(*in.imaginary, rows);
    real = real - matmul(other, sines);
    imaginary = imaginary + matmul(other, cosines);
  }
  if (!real.valid() || !imaginary.valid()) return real.valid() ? imaginary : real;
  const int last = static_cast<int>(real.shape().size());
  const Tensor joined = concat({real.unsqueeze(last), imaginary.unsqueeze(last)}, last);
  return how.inverse ? joined / static_cast<double>(how.length) : joined;
}

/// The parts of [..., 1 or 2] with `axis` as the last one, in a dtype that holds sums.
Result<Signal> signal_of(const Tensor& x, int axis) {
  const std::size_t rank = x.shape().size();
  VKF_TRY(parts, static_size(x.shape(), rank - 1));
  if (parts != 1 && parts != 2)
    return invalid("The last axis of {} holds real and imaginary parts; it must have 1 or 2 elements.",
                   to_text(x.shape()));
  const Tensor wide = x.cast(x.dtype() == DType::f64 ? DType::f64 : DType::f32);
  const int last = static_cast<int>(rank) - 2;
  const auto part = [&](std::int64_t i) { return wide.select(-1, i).swap_dims(axis, last); };
  Signal signal{part(0), std::nullopt};
  if (parts == 2) signal.imaginary = part(1);
  return signal;
}

Result<int> transform_axis(const NodeContext& node) {
  std::int64_t stated = node.opset() < 20 ? 1 : -2;
  if (node.opset() < 20) {
    VKF_TRY(attribute, node.attributes().integer("axis", 1));
    stated = attribute;
  } else if (node.has(2)) {
    VKF_TRY(operand, known_integer(node, 2, "axis"));
    stated = operand;
  }
  VKF_TRY(axis, checked_axis(stated, node.tensor(0).shape().size(), "The axis"));
  if (axis + 1 == static_cast<int>(node.tensor(0).shape().size()))
    return invalid("The axis is {}, which holds real and imaginary parts.", stated);
  return axis;
}

Result<void> check_length(std::int64_t length) {
  constexpr std::int64_t kMost = 1 << 24;
  if (length >= 1 && length <= kMost) return {};
  return invalid("The transform has the length {}; it must be 1 to {}.", length, kMost);
}

/// How many samples a window or frame of STFT has.
Result<std::int64_t> frame_length(const NodeContext& node) {
  if (node.has(3)) return known_integer(node, 3, "frame length");
  if (!node.has(2)) return invalid("Operator 'STFT' has neither a window nor a frame length.");
  VKF_CHECK_OK(check_rank(node, 2, 1));
  return static_size(node.tensor(2).shape(), 0);
}

struct MelFilters {
  std::int64_t filters = 0, length = 0, rate = 0;
  double low = 0, high = 0;
};

/// The bins at which filters begin, peak and end: even steps on the mel scale.
std::vector<std::int64_t> mel_bins(const MelFilters& mel) {
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = to_mel(mel.low), step = (to_mel(mel.high) - low) / static_cast<double>(mel.filters + 2);
  std::vector<std::int64_t> bins;
  for (std::int64_t i = 0; i < mel.filters + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (low + static_cast<double>(i) * step) / 2595) - 1);
    bins.push_back(static_cast<std::int64_t>(
        std::floor(static_cast<double>(mel.length + 1) * hertz / static_cast<double>(mel.rate))));
  }
  return bins;
}

/// Triangles over the bins, [bins, filters].
std::vector<double> mel_matrix(const MelFilters& mel, std::int64_t rows) {
  const std::vector<std::int64_t> bins = mel_bins(mel);
  std::vector<double> matrix(static_cast<std::size_t>(rows * mel.filters));
  for (std::int64_t i = 0; i < mel.filters; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t low = bins[at], peak = bins[at + 1], high = bins[at + 2];
    for (std::int64_t bin = std::max<std::int64_t>(low, 0); bin <= std::min(std::max(peak, high - 1), rows - 1);
         ++bin) {
      double weight = peak == low ? 1 : static_cast<double>(bin - low) / static_cast<double>(peak - low);
      if (bin >= peak && high > peak) weight = static_cast<double>(high - bin) / static_cast<double>(high - peak);
      matrix[static_cast<std::size_t>(bin * mel.filters + i)] = weight;
    }
  }
  return matrix;
}

Result<double> known_number(const NodeContext& node, int operand, std::string_view what) {
  VKF_TRY(data, node.known(operand, what));
  if (element_count(data) == 1) return element_real(data, 0);
  return invalid("The {} (operand {}) has {} elements; it must be one number.", what, operand, element_count(data));
}

}  // namespace

Result<Outputs> import_dft(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  const Tensor& x = node.tensor(0);
  VKF_TRY(axis, transform_axis(node));
  VKF_TRY(inverse, node.attributes().integer("inverse", 0));
  VKF_TRY(onesided, node.attributes().integer("onesided", 0));
  VKF_TRY(size, static_size(x.shape(), static_cast<std::size_t>(axis)));
  Transform how{inverse != 0 && onesided != 0 ? 2 * (size - 1) : size, inverse != 0, onesided != 0};
  if (node.has(1)) {
    VKF_TRY(length, known_integer(node, 1, "length of the transform"));
    how.length = length;
  }
  VKF_CHECK_OK(check_length(how.length));
  if (size < 1) return invalid("Operator 'DFT' takes a signal; axis {} of {} is empty.", axis, to_text(x.shape()));
  VKF_TRY(signal, signal_of(x, axis));
  const Tensor result = transformed(signal, how, size);
  if (!result.valid()) return Outputs{result};
  return Outputs{result.swap_dims(axis, static_cast<int>(result.shape().size()) - 2).cast(x.dtype())};
}

Result<Outputs> import_stft(const NodeContext& node) {
  Tensor x = node.tensor(0);
  if (x.shape().size() == 2) x = x.unsqueeze(2);
  if (x.shape().size() != 3)
    return invalid("The signal of operator 'STFT' has rank {}; it must be 3.", x.shape().size());
  VKF_TRY(step, known_integer(node, 1, "frame step"));
  VKF_TRY(length, frame_length(node));
  VKF_TRY(onesided, node.attributes().integer("onesided", 1));
  VKF_CHECK_OK(check_length(length));
  VKF_TRY(size, static_size(x.shape(), 1));
  if (step < 1 || length > size)
    return invalid("Frames of {} samples every {} do not fit a signal of {}.", length, step, size);
  VKF_TRY(signal, signal_of(x, 1));
  const auto framed = [&](const Tensor& part) {
    const Tensor frames = part.unfold(1, length, step);
    return node.has(2) ? frames * node.tensor(2).cast(frames.dtype()) : frames;
  };
  Signal frames{framed(signal.real), std::nullopt};
  if (signal.imaginary) frames.imaginary = framed(*signal.imaginary);
  return Outputs{transformed(frames, {length, false, onesided != 0}, length).cast(x.dtype())};
}

Result<Outputs> import_mel_weight_matrix(const NodeContext& node) {
  VKF_TRY(filters, known_integer(node, 0, "number of filters"));
  VKF_TRY(length, known_integer(node, 1, "length of the transform"));
  VKF_TRY(rate, known_integer(node, 2, "sample rate"));
  VKF_TRY(low, known_number(node, 3, "lower edge"));
  VKF_TRY(high, known_number(node, 4, "upper edge"));
  VKF_TRY(to, node.attributes().integer("output_datatype", pb::TensorProto::FLOAT));
  VKF_TRY(dtype, dtype_from(static_cast<int>(to), "Attribute 'output_datatype'"));
  constexpr std::int64_t kMost = 1 << 16;
  if (filters < 1 || filters > kMost || length < 1 || length > kMost || rate < 1 || low < 0 || high < low ||
      (length / 2 + 1) * filters > kMostPositions) {
    return invalid("{} mel filters from {} to {} Hz over a transform of {} at {} Hz are not possible.", filters, low,
                   high, length, rate);
  }
  const std::int64_t rows = length / 2 + 1;
  const std::vector<double> matrix = mel_matrix({filters, length, rate, low, high}, rows);
  return Outputs{real_constant(matrix, {rows, filters}, DType::f32).cast(dtype)};
}

}  // namespace vkfuse::onnx
