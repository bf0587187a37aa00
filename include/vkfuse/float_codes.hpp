// Tensors of floats of 8, 6 and 4 bits. They hold codes, one in the low bits of each u8; kernels compute with the
// numbers that these stand for. Weights and caches are kept so.
#pragma once

#include "vkfuse/float_format.hpp"
#include "vkfuse/tensor.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// The numbers of codes, u8 of any shape: bits above those of the format have no part in them. Exact in f32 and f64,
/// and in f16 and bf16 but for numbers that these do not hold. In front of a matmul it is part of the load.
///
///     Tensor w = decode_float(unpack_int4(bytes, false), FloatFormat::float4_e2m1fn);   // MXFP4
///     Tensor scale = decode_float(exponents, FloatFormat::float8_e8m0fnu);              // of 32 neighbours
///     w = dequantize(w, {.scale = scale, .axis = 1, .group = 32}).cast(DType::f16);
///     Tensor y = matmul(x, w.transpose());
Tensor decode_float(const Tensor& codes, FloatFormat format, DType dtype = DType::f32);

/// Where a number lies between two powers of two, to which float8_e8m0fnu rounds.
enum class PowerRounding : std::uint8_t { up, down, nearest };

struct EncodeFloatOptions {
  /// Numbers beyond the largest become the largest; else infinity, or NaN where the format has none. The formats of 6
  /// and 4 bits, which have neither, always saturate.
  bool saturates = true;
  PowerRounding power_rounding = PowerRounding::up;  ///< of float8_e8m0fnu alone
};

/// The codes, u8, of floats of any dtype, rounded to the nearest, halves to even; f64 is rounded to f32 first. NaN
/// becomes the format's NaN; of those without one, negative zero.
Tensor encode_float(const Tensor& x, FloatFormat format, const EncodeFloatOptions& options = {});

}  // namespace VKFUSE_PUBLIC
