#include "onnx/host_tensor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "onnx/value.hpp"

namespace vkfuse::onnx {
namespace {

template <typename T>
T load(const TensorData& tensor, std::size_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(TensorData& tensor, std::size_t index, T value) {
  std::memcpy(tensor.bytes.data() + index * sizeof(T), &value, sizeof(T));
}

double half_to_real(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = bits & 1023;
  double magnitude = 0;
  if (exponent == 31) {
    magnitude = fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else {
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double bfloat_to_real(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::int64_t truncated(double value) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (std::isnan(value)) return 0;
  if (value >= kTwo63) return INT64_MAX;
  if (value <= -kTwo63) return INT64_MIN;
  return static_cast<std::int64_t>(value);
}

TensorData empty_like(const TensorData& tensor, DType dtype) {
  TensorData result{{}, dtype, tensor.sizes, {}};
  result.bytes.resize(element_count(tensor) * static_cast<std::size_t>(size_of(dtype)));
  return result;
}

/// Stores an integer, wrapped to the dtype.
void store_int(TensorData& tensor, std::size_t index, std::int64_t value) {
  switch (size_of(tensor.dtype)) {
    case 1:
      store(tensor, index,
            tensor.dtype == DType::boolean ? static_cast<std::uint8_t>(value != 0) : static_cast<std::uint8_t>(value));
      break;
    case 2: store(tensor, index, static_cast<std::uint16_t>(value)); break;
    case 4: store(tensor, index, static_cast<std::uint32_t>(value)); break;
    default: store(tensor, index, value); break;
  }
}

double real_result(std::string_view op, double a, double b) {
  if (op == "add") return a + b;
  if (op == "sub") return a - b;
  if (op == "mul") return a * b;
  if (op == "div") return a / b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return op == "min" ? std::min(a, b) : std::max(a, b);
}

/// Wraps instead of overflowing, as the device does; division by zero gives 0.
std::int64_t int_result(std::string_view op, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  if (op == "add") return static_cast<std::int64_t>(x + y);
  if (op == "sub") return static_cast<std::int64_t>(x - y);
  if (op == "mul") return static_cast<std::int64_t>(x * y);
  if (op == "div") {
    if (b == 0) return 0;
    return b == -1 ? static_cast<std::int64_t>(0 - x) : a / b;
  }
  return op == "min" ? std::min(a, b) : std::max(a, b);
}

/// The dtypes whose arithmetic on the host is the device's to the bit: 16-bit floats are left to it.
bool has_host_arithmetic(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64;
}

void store_arithmetic(TensorData& result, std::size_t index, std::string_view op, const TensorData& a, std::size_t i,
                      const TensorData& b, std::size_t j) {
  if (!is_float(result.dtype)) {
    store_int(result, index, int_result(op, element_int(a, i), element_int(b, j)));
    return;
  }
  const double value = real_result(op, element_real(a, i), element_real(b, j));
  if (result.dtype == DType::f64) {
    store(result, index, value);
  } else {
    store(result, index, static_cast<float>(value));  // one float op in double rounds to the same float
  }
}

}  // namespace

std::size_t element_count(const TensorData& tensor) {
  return tensor.bytes.size() / static_cast<std::size_t>(size_of(tensor.dtype));
}

double element_real(const TensorData& tensor, std::size_t index) {
  switch (tensor.dtype) {
    case DType::f32: return load<float>(tensor, index);
    case DType::f64: return load<double>(tensor, index);
    case DType::f16: return half_to_real(load<std::uint16_t>(tensor, index));
    case DType::bf16: return bfloat_to_real(load<std::uint16_t>(tensor, index));
    case DType::u64: return static_cast<double>(load<std::uint64_t>(tensor, index));
    default: return static_cast<double>(element_int(tensor, index));
  }
}

std::int64_t element_int(const TensorData& tensor, std::size_t index) {
  switch (tensor.dtype) {
    case DType::i8: return load<std::int8_t>(tensor, index);
    case DType::u8:
    case DType::boolean: return load<std::uint8_t>(tensor, index);
    case DType::i16: return load<std::int16_t>(tensor, index);
    case DType::u16: return load<std::uint16_t>(tensor, index);
    case DType::i32: return load<std::int32_t>(tensor, index);
    case DType::u32: return load<std::uint32_t>(tensor, index);
    case DType::i64:
    case DType::u64: return load<std::int64_t>(tensor, index);
    default: return truncated(element_real(tensor, index));
  }
}

TensorData int64_data(std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values) {
  TensorData result{{}, DType::i64, std::move(sizes), {}};
  result.bytes.resize(values.size() * sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}

std::optional<TensorData> converted(const TensorData& tensor, DType dtype) {
  if (element_count(tensor) > kMaxComputedElements) return std::nullopt;
  const bool between_integers = !is_float(tensor.dtype) && !is_float(dtype);
  if (!between_integers && (!has_host_arithmetic(dtype) || tensor.dtype == DType::u64)) return std::nullopt;
  TensorData result = empty_like(tensor, dtype);
  for (std::size_t i = 0; i < element_count(tensor); ++i) {
    if (dtype == DType::f64) {
      store(result, i, element_real(tensor, i));
    } else if (dtype == DType::f32) {
      // Straight from the integer: by way of double it would round twice.
      store(result, i,
            is_float(tensor.dtype) ? static_cast<float>(element_real(tensor, i))
                                   : static_cast<float>(element_int(tensor, i)));
    } else if (is_float(tensor.dtype) && dtype == DType::i32) {
      store_int(result, i, std::clamp<std::int64_t>(element_int(tensor, i), INT32_MIN, INT32_MAX));
    } else {
      store_int(result, i, element_int(tensor, i));
    }
  }
  return result;
}

std::optional<TensorData> arithmetic(std::string_view op, const TensorData& a, const TensorData& b) {
  if (std::max(element_count(a), element_count(b)) > kMaxComputedElements) return std::nullopt;
  if (a.dtype != b.dtype || !has_host_arithmetic(a.dtype)) return std::nullopt;
  const bool b_stretches = element_count(b) == 1 && b.sizes.size() <= a.sizes.size();
  const bool a_stretches = element_count(a) == 1 && a.sizes.size() <= b.sizes.size();
  if (a.sizes != b.sizes && !b_stretches && !a_stretches) return std::nullopt;
  const bool like_a = a.sizes == b.sizes || b_stretches;
  TensorData result = empty_like(like_a ? a : b, a.dtype);
  for (std::size_t i = 0; i < element_count(result); ++i) {
    store_arithmetic(result, i, op, a, element_count(a) == 1 ? 0 : i, b, element_count(b) == 1 ? 0 : i);
  }
  return result;
}

}  // namespace vkfuse::onnx
