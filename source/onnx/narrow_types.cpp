#include "onnx/narrow_types.hpp"

#include <algorithm>

#include "onnx/compose.hpp"

namespace vkfuse::onnx {
namespace {

// The numbers of TensorProto.DataType: older schemas do not name them.
constexpr NarrowType kTypes[] = {
    {17, "FLOAT8E4M3FN", 8, DType::u8, FloatFormat::float8_e4m3fn},
    {18, "FLOAT8E4M3FNUZ", 8, DType::u8, FloatFormat::float8_e4m3fnuz},
    {19, "FLOAT8E5M2", 8, DType::u8, FloatFormat::float8_e5m2},
    {20, "FLOAT8E5M2FNUZ", 8, DType::u8, FloatFormat::float8_e5m2fnuz},
    {21, "UINT4", 4, DType::u8},
    {22, "INT4", 4, DType::i8},
    {23, "FLOAT4E2M1", 4, DType::u8, FloatFormat::float4_e2m1fn},
    {24, "FLOAT8E8M0", 8, DType::u8, FloatFormat::float8_e8m0fnu},
    {25, "UINT2", 2, DType::u8},
    {26, "INT2", 2, DType::i8},
    {27, "FLOAT6E2M3", 6, DType::u8, FloatFormat::float6_e2m3fn},
    {28, "FLOAT6E3M2", 6, DType::u8, FloatFormat::float6_e3m2fn},
};

}  // namespace

const NarrowType* find_narrow(int data_type) {
  const auto* found = std::ranges::find(kTypes, data_type, &NarrowType::data_type);
  return found != std::end(kTypes) ? found : nullptr;
}

Tensor widened(const Tensor& held, const NarrowType& type) {
  return type.format ? decode_float(held, *type.format) : held;
}

Tensor narrowed(const Tensor& x, const NarrowType& type, const EncodeFloatOptions& options) {
  if (type.format) return encode_float(x, *type.format, options);
  const Tensor shift = Tensor::scalar_int(DType::i32, 32 - type.bits);
  const Tensor high = op("shift_left", x.cast(DType::i32), shift);
  if (is_signed_integer(type.held)) return op("shift_right", high, shift).cast(type.held);
  const Tensor unsigned_shift = Tensor::scalar_int(DType::u32, 32 - type.bits);
  return op("shift_right", high.bitcast(DType::u32), unsigned_shift).cast(type.held);
}

}  // namespace vkfuse::onnx
