// The elementwise ops by name. docs/ops.md states what each does, also for NaN, infinities and out of
// range values; Tensor::apply takes the same names. Operands broadcast like NumPy's.
#pragma once

#include "vkfuse/tensor.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

inline Tensor abs(const Tensor& x) { return Tensor::apply("abs", {x}); }
inline Tensor sign(const Tensor& x) { return Tensor::apply("sign", {x}); }
inline Tensor relu(const Tensor& x) { return Tensor::apply("relu", {x}); }
inline Tensor floor(const Tensor& x) { return Tensor::apply("floor", {x}); }
inline Tensor ceil(const Tensor& x) { return Tensor::apply("ceil", {x}); }
inline Tensor round(const Tensor& x) { return Tensor::apply("round", {x}); }
inline Tensor trunc(const Tensor& x) { return Tensor::apply("trunc", {x}); }
inline Tensor sqrt(const Tensor& x) { return Tensor::apply("sqrt", {x}); }
inline Tensor rsqrt(const Tensor& x) { return Tensor::apply("rsqrt", {x}); }
inline Tensor reciprocal(const Tensor& x) { return Tensor::apply("reciprocal", {x}); }
inline Tensor exp(const Tensor& x) { return Tensor::apply("exp", {x}); }
inline Tensor exp2(const Tensor& x) { return Tensor::apply("exp2", {x}); }
inline Tensor expm1(const Tensor& x) { return Tensor::apply("expm1", {x}); }
inline Tensor log(const Tensor& x) { return Tensor::apply("log", {x}); }
inline Tensor log2(const Tensor& x) { return Tensor::apply("log2", {x}); }
inline Tensor log1p(const Tensor& x) { return Tensor::apply("log1p", {x}); }
inline Tensor sin(const Tensor& x) { return Tensor::apply("sin", {x}); }
inline Tensor cos(const Tensor& x) { return Tensor::apply("cos", {x}); }
inline Tensor tan(const Tensor& x) { return Tensor::apply("tan", {x}); }
inline Tensor asin(const Tensor& x) { return Tensor::apply("asin", {x}); }
inline Tensor acos(const Tensor& x) { return Tensor::apply("acos", {x}); }
inline Tensor atan(const Tensor& x) { return Tensor::apply("atan", {x}); }
inline Tensor sinh(const Tensor& x) { return Tensor::apply("sinh", {x}); }
inline Tensor cosh(const Tensor& x) { return Tensor::apply("cosh", {x}); }
inline Tensor tanh(const Tensor& x) { return Tensor::apply("tanh", {x}); }
inline Tensor asinh(const Tensor& x) { return Tensor::apply("asinh", {x}); }
inline Tensor acosh(const Tensor& x) { return Tensor::apply("acosh", {x}); }
inline Tensor atanh(const Tensor& x) { return Tensor::apply("atanh", {x}); }
inline Tensor erf(const Tensor& x) { return Tensor::apply("erf", {x}); }
inline Tensor sigmoid(const Tensor& x) { return Tensor::apply("sigmoid", {x}); }
inline Tensor is_nan(const Tensor& x) { return Tensor::apply("is_nan", {x}); }
inline Tensor is_inf(const Tensor& x) { return Tensor::apply("is_inf", {x}); }
inline Tensor is_finite(const Tensor& x) { return Tensor::apply("is_finite", {x}); }
inline Tensor bit_not(const Tensor& x) { return Tensor::apply("bit_not", {x}); }
inline Tensor logical_not(const Tensor& x) { return Tensor::apply("not", {x}); }

inline Tensor rem(const Tensor& a, const Tensor& b) { return Tensor::apply("rem", {a, b}); }
inline Tensor mod(const Tensor& a, const Tensor& b) { return Tensor::apply("mod", {a, b}); }
inline Tensor min(const Tensor& a, const Tensor& b) { return Tensor::apply("min", {a, b}); }
inline Tensor max(const Tensor& a, const Tensor& b) { return Tensor::apply("max", {a, b}); }
inline Tensor pow(const Tensor& a, const Tensor& b) { return Tensor::apply("pow", {a, b}); }
inline Tensor atan2(const Tensor& a, const Tensor& b) { return Tensor::apply("atan2", {a, b}); }
inline Tensor eq(const Tensor& a, const Tensor& b) { return Tensor::apply("eq", {a, b}); }
inline Tensor ne(const Tensor& a, const Tensor& b) { return Tensor::apply("ne", {a, b}); }
inline Tensor lt(const Tensor& a, const Tensor& b) { return Tensor::apply("lt", {a, b}); }
inline Tensor le(const Tensor& a, const Tensor& b) { return Tensor::apply("le", {a, b}); }
inline Tensor gt(const Tensor& a, const Tensor& b) { return Tensor::apply("gt", {a, b}); }
inline Tensor ge(const Tensor& a, const Tensor& b) { return Tensor::apply("ge", {a, b}); }
inline Tensor bit_and(const Tensor& a, const Tensor& b) { return Tensor::apply("bit_and", {a, b}); }
inline Tensor bit_or(const Tensor& a, const Tensor& b) { return Tensor::apply("bit_or", {a, b}); }
inline Tensor bit_xor(const Tensor& a, const Tensor& b) { return Tensor::apply("bit_xor", {a, b}); }
inline Tensor shift_left(const Tensor& a, const Tensor& b) { return Tensor::apply("shift_left", {a, b}); }
inline Tensor shift_right(const Tensor& a, const Tensor& b) { return Tensor::apply("shift_right", {a, b}); }
inline Tensor logical_and(const Tensor& a, const Tensor& b) { return Tensor::apply("and", {a, b}); }
inline Tensor logical_or(const Tensor& a, const Tensor& b) { return Tensor::apply("or", {a, b}); }
inline Tensor logical_xor(const Tensor& a, const Tensor& b) { return Tensor::apply("xor", {a, b}); }

inline Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  return Tensor::apply("clamp", {x, low, high});
}
inline Tensor fma(const Tensor& a, const Tensor& b, const Tensor& c) { return Tensor::apply("fma", {a, b, c}); }
/// a where the condition holds, else b.
inline Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return Tensor::apply("select", {condition, a, b});
}

}  // namespace VKFUSE_PUBLIC
