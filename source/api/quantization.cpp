// Real numbers from small integers.
#include <algorithm>

#include "api/tensor_node.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

namespace {

std::string type_text(const Tensor& x) { return to_text(TensorType{x.dtype(), x.shape()}); }

/// One number per channel [n], so that it lines up with an axis of `like` when it broadcasts.
Tensor along(const Tensor& numbers, const Shape& like, std::size_t axis) {
  Shape shape(like.size() - axis, Dim(1));
  shape[0] = like[axis];
  return numbers.reshape(std::move(shape));
}

/// One number for every `group` neighbours along an axis, repeated for each of `size`.
Tensor repeated(const Tensor& numbers, std::size_t axis, std::int64_t group, std::int64_t size) {
  Shape stretched = numbers.shape();
  Shape joined = numbers.shape();
  joined[axis] = Dim(stretched[axis].size() * group);
  stretched.insert(stretched.begin() + static_cast<std::ptrdiff_t>(axis) + 1, Dim(group));
  const auto at = static_cast<int>(axis);
  return numbers.unsqueeze(at + 1).broadcast_to(std::move(stretched)).reshape(std::move(joined)).slice(at, 0, size);
}

/// Whether `numbers` has the shape of `like` but for ceil(size / group) elements along the axis.
bool fits_groups(const Shape& numbers, Shape like, std::size_t axis, std::int64_t group) {
  like[axis] = Dim((like[axis].size() - 1) / group + 1);
  return numbers == like;
}

/// Scales or zero points, one for each integer by broadcasting.
Result<Tensor> lined_up(const Tensor& numbers, const Tensor& integers, const Quantization& how) {
  const Shape& shape = integers.shape();
  if (numbers.shape().empty()) return numbers;
  const int counted = api::counted_axis(how.axis, shape.size());
  if (counted < 0 || counted >= static_cast<int>(shape.size()))
    return invalid("'dequantize' names axis {}, but it was given {}.", how.axis, type_text(integers));
  const auto axis = static_cast<std::size_t>(counted);
  const Dim& size = shape[axis];
  if (how.group == 0 && numbers.shape() == Shape{size}) return along(numbers, shape, axis);
  if (how.group > 0 && !size.is_symbol() && fits_groups(numbers.shape(), shape, axis, how.group))
    return repeated(numbers, axis, how.group, size.size());
  return invalid("'dequantize' of {} along axis {} in groups of {} was given {}, which does not fit.",
                 type_text(integers), counted, how.group, type_text(numbers));
}

/// Differences of integers are taken in i32, which these types fit.
Result<void> check_types(const Tensor& numbers, const Quantization& how) {
  const DType dtype = numbers.dtype();
  const bool is_small = is_integer(dtype) && (size_of(dtype) < 4 || dtype == DType::i32);
  if ((!is_small && !is_float(dtype)) || !is_float(how.scale.dtype())) {
    return unsupported(
        "'dequantize' takes integers up to i32, or floats, and scales of floats, but it was given {} and scales of {}.",
        name_of(dtype), name_of(how.scale.dtype()));
  }
  if (is_float(dtype) && how.zero_point) {
    return invalid("'dequantize' of {} has no zero point, but it was given {}.", type_text(numbers),
                   type_text(*how.zero_point));
  }
  return {};
}

}  // namespace

Tensor dequantize(const Tensor& integers, const Quantization& how) {
  if (!integers.valid()) return integers;
  if (!how.scale.valid()) return how.scale;
  if (how.zero_point && !how.zero_point->valid()) return *how.zero_point;
  if (auto fits = check_types(integers, how); !fits) return Tensor::failed(std::move(fits).error());
  auto scale = lined_up(how.scale, integers, how);
  if (!scale) return Tensor::failed(std::move(scale).error());
  if (is_float(integers.dtype())) return integers.cast(how.scale.dtype()) * *scale;
  Tensor steps = integers.cast(DType::i32);
  if (how.zero_point) {
    auto zero_point = lined_up(*how.zero_point, integers, how);
    if (!zero_point) return Tensor::failed(std::move(zero_point).error());
    steps = steps - zero_point->cast(DType::i32);
  }
  return steps.cast(how.scale.dtype()) * *scale;
}

Tensor unpack_int4(const Tensor& bytes, bool is_signed) {
  if (!bytes.valid()) return bytes;
  if (bytes.dtype() != DType::u8 || bytes.shape().empty() || bytes.shape().back().is_symbol()) {
    return Tensor::failed(
        invalid("'unpack_int4' takes u8 with a last axis of a known size, but it was given {}.", type_text(bytes)));
  }
  Shape joined = bytes.shape();
  joined.back() = Dim(2 * joined.back().size());
  const Tensor shifts = Tensor::iota(DType::u8, {2}, 0) * 4;
  const Tensor nibbles =
      bit_and(shift_right(bytes.unsqueeze(-1), shifts), Tensor::scalar(DType::u8, 15)).reshape(std::move(joined));
  if (!is_signed) return nibbles;
  // The sign bit is 8: what carries it is 16 less.
  const Tensor eight = Tensor::scalar(DType::i8, 8);
  return bit_xor(nibbles.cast(DType::i8), eight) - eight;
}

}  // namespace vkfuse
