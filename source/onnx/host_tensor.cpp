#include "onnx/host_tensor.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/graph.hpp"

namespace vkfuse::onnx {
namespace {

template <typename T>
T load(const TensorData& tensor, std::size_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
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

TensorData converted(const TensorData& tensor, DType dtype) {
  TensorData result{tensor.name, dtype, tensor.sizes, {}};
  const std::size_t count = element_count(tensor);
  result.bytes.reserve(count * static_cast<std::size_t>(size_of(dtype)));
  for (std::size_t i = 0; i < count; ++i) ir::encode(dtype, element_real(tensor, i), result.bytes);
  return result;
}

TensorData int64_data(std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values) {
  TensorData result{{}, DType::i64, std::move(sizes), {}};
  result.bytes.resize(values.size() * sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}

}  // namespace vkfuse::onnx
