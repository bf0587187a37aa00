#include "onnx/operator_table.hpp"

#include <algorithm>
#include <string>

#include "onnx/operators.hpp"

namespace vkfuse::onnx {
namespace {

constexpr OperandCount kUnary{1, 1}, kBinary{2, 2}, kTernary{3, 3}, kMany{1, kVariadic};
constexpr std::int64_t kOld = kOldestOpset, kNew = kNewestOpset;

/// Attributes of opsets before 7 that chose another broadcasting rule; the importer refuses any
/// value that changes the result.
constexpr std::string_view kLegacyBroadcast = "broadcast axis";

// clang-format off
constexpr OperatorRow kRows[] = {
    {"Abs", kOld, kNew, kUnary, Takes::numbers, apply_primitive, "abs"},
    {"Acos", 7, kNew, kUnary, Takes::floats, apply_primitive, "acos"},
    {"Acosh", 9, kNew, kUnary, Takes::floats, apply_primitive, "acosh"},
    {"Add", kOld, 6, kBinary, Takes::numbers, import_arithmetic, "add", kLegacyBroadcast, "broadcast=0"},
    {"Add", 7, kNew, kBinary, Takes::numbers, import_arithmetic, "add"},
    {"And", kOld, 6, kBinary, Takes::booleans, apply_primitive, "and", kLegacyBroadcast, "broadcast=0"},
    {"And", 7, kNew, kBinary, Takes::booleans, apply_primitive, "and"},
    {"Asin", 7, kNew, kUnary, Takes::floats, apply_primitive, "asin"},
    {"Asinh", 9, kNew, kUnary, Takes::floats, apply_primitive, "asinh"},
    {"Atan", 7, kNew, kUnary, Takes::floats, apply_primitive, "atan"},
    {"Atanh", 9, kNew, kUnary, Takes::floats, apply_primitive, "atanh"},
    {"BitShift", 11, kNew, kBinary, Takes::unsigned_integers, import_bit_shift, "", "direction"},
    {"BitwiseAnd", 18, kNew, kBinary, Takes::integers, apply_primitive, "bit_and"},
    {"BitwiseNot", 18, kNew, kUnary, Takes::integers, apply_primitive, "bit_not"},
    {"BitwiseOr", 18, kNew, kBinary, Takes::integers, apply_primitive, "bit_or"},
    {"BitwiseXor", 18, kNew, kBinary, Takes::integers, apply_primitive, "bit_xor"},
    {"BlackmanWindow", 17, kNew, kUnary, Takes::integers, import_blackman_window, "", "output_datatype periodic", "size known at import"},
    {"Cast", kOld, kNew, kUnary, Takes::anything, import_cast, "", "to saturate round_mode"},
    {"CastLike", 15, kNew, kBinary, Takes::anything, import_cast_like, "", "saturate round_mode"},
    {"Ceil", kOld, kNew, kUnary, Takes::floats, apply_primitive, "ceil"},
    {"Celu", 12, kNew, kUnary, Takes::floats, import_celu, "", "alpha"},
    {"Clip", kOld, 10, kUnary, Takes::floats, import_clip_6, "", "max min"},
    {"Clip", 11, kNew, {1, 3}, Takes::numbers, import_clip_11},
    {"Constant", kOld, kNew, {0, 0}, Takes::anything, import_constant, "", "value value_float value_floats value_int value_ints", "dense numbers"},
    {"ConstantOfShape", 9, kNew, kUnary, Takes::integers, import_constant_of_shape, "", "value", "shape known at import"},
    {"Cos", 7, kNew, kUnary, Takes::floats, apply_primitive, "cos"},
    {"Cosh", 9, kNew, kUnary, Takes::floats, apply_primitive, "cosh"},
    {"DequantizeLinear", 10, kNew, {2, 3}, Takes::integers, import_dequantize, "", "axis block_size", "per tensor or per axis; scales of an axis other than the innermost known at import"},
    {"Div", kOld, 6, kBinary, Takes::numbers, import_arithmetic, "div", kLegacyBroadcast, "broadcast=0"},
    {"Div", 7, kNew, kBinary, Takes::numbers, import_arithmetic, "div"},
    {"Dropout", kOld, 6, kUnary, Takes::floats, import_dropout_6, "", "is_test ratio", "is_test=1"},
    {"Dropout", 7, 11, kUnary, Takes::floats, import_dropout_7, "", "ratio"},
    {"Dropout", 12, kNew, {1, 3}, Takes::floats, import_dropout_12, "", "seed", "inference; training mode with ratio 0"},
    {"Elu", kOld, kNew, kUnary, Takes::floats, import_elu, "", "alpha"},
    {"Equal", kOld, 6, kBinary, Takes::anything, apply_primitive, "eq", kLegacyBroadcast, "broadcast=0"},
    {"Equal", 7, kNew, kBinary, Takes::anything, apply_primitive, "eq"},
    {"Erf", 9, kNew, kUnary, Takes::floats, apply_primitive, "erf"},
    {"Exp", kOld, kNew, kUnary, Takes::floats, apply_primitive, "exp"},
    {"Expand", 8, kNew, kBinary, Takes::anything, import_expand, "", "", "shape known at import"},
    {"EyeLike", 9, kNew, kUnary, Takes::anything, import_eye_like, "", "dtype k"},
    {"Floor", kOld, kNew, kUnary, Takes::floats, apply_primitive, "floor"},
    {"Gelu", 20, kNew, kUnary, Takes::floats, import_gelu, "", "approximate"},
    {"Greater", kOld, 6, kBinary, Takes::numbers, apply_primitive, "gt", kLegacyBroadcast, "broadcast=0"},
    {"Greater", 7, kNew, kBinary, Takes::numbers, apply_primitive, "gt"},
    {"GreaterOrEqual", 12, kNew, kBinary, Takes::numbers, apply_primitive, "ge"},
    {"HammingWindow", 17, kNew, kUnary, Takes::integers, import_hamming_window, "", "output_datatype periodic", "size known at import"},
    {"HannWindow", 17, kNew, kUnary, Takes::integers, import_hann_window, "", "output_datatype periodic", "size known at import"},
    {"HardSigmoid", kOld, kNew, kUnary, Takes::floats, import_hard_sigmoid, "", "alpha beta"},
    {"HardSwish", 14, kNew, kUnary, Takes::floats, import_hard_swish},
    {"Identity", 1, kNew, kUnary, Takes::anything, import_identity},
    {"IsInf", 10, kNew, kUnary, Takes::floats, import_is_inf, "", "detect_negative detect_positive"},
    {"IsNaN", 9, kNew, kUnary, Takes::floats, apply_primitive, "is_nan"},
    {"LeakyRelu", kOld, kNew, kUnary, Takes::floats, import_leaky_relu, "", "alpha"},
    {"Less", kOld, 6, kBinary, Takes::numbers, apply_primitive, "lt", kLegacyBroadcast, "broadcast=0"},
    {"Less", 7, kNew, kBinary, Takes::numbers, apply_primitive, "lt"},
    {"LessOrEqual", 12, kNew, kBinary, Takes::numbers, apply_primitive, "le"},
    {"Log", kOld, kNew, kUnary, Takes::floats, apply_primitive, "log"},
    {"Max", kOld, kNew, kMany, Takes::numbers, import_variadic, "max"},
    {"Mean", kOld, kNew, kMany, Takes::floats, import_mean},
    {"Min", kOld, kNew, kMany, Takes::numbers, import_variadic, "min"},
    {"Mish", 18, kNew, kUnary, Takes::floats, import_mish},
    {"Mod", 10, kNew, kBinary, Takes::numbers, import_mod, "", "fmod"},
    {"Mul", kOld, 6, kBinary, Takes::numbers, import_arithmetic, "mul", kLegacyBroadcast, "broadcast=0"},
    {"Mul", 7, kNew, kBinary, Takes::numbers, import_arithmetic, "mul"},
    {"Neg", kOld, kNew, kUnary, Takes::numbers, apply_primitive, "neg"},
    {"Not", 1, kNew, kUnary, Takes::booleans, apply_primitive, "not"},
    {"Or", kOld, 6, kBinary, Takes::booleans, apply_primitive, "or", kLegacyBroadcast, "broadcast=0"},
    {"Or", 7, kNew, kBinary, Takes::booleans, apply_primitive, "or"},
    {"PRelu", 7, kNew, kBinary, Takes::numbers, import_prelu},
    {"Pow", kOld, 6, kBinary, Takes::numbers, import_pow, "", kLegacyBroadcast, "broadcast=0"},
    {"Pow", 7, kNew, kBinary, Takes::numbers, import_pow},
    {"QuantizeLinear", 10, kNew, {2, 3}, Takes::numbers, import_quantize, "", "axis block_size output_dtype saturate", "per tensor or per axis; scales of an axis other than the innermost known at import"},
    {"Range", 11, kNew, kTernary, Takes::numbers, import_range, "", "", "operands known at import"},
    {"Reciprocal", kOld, kNew, kUnary, Takes::floats, apply_primitive, "reciprocal"},
    {"Relu", kOld, kNew, kUnary, Takes::numbers, apply_primitive, "relu"},
    {"Round", 11, kNew, kUnary, Takes::floats, apply_primitive, "round"},
    {"Selu", kOld, kNew, kUnary, Takes::floats, import_selu, "", "alpha gamma"},
    {"Shape", 1, kNew, kUnary, Takes::anything, import_shape, "", "end start", "sizes known at import"},
    {"Shrink", 9, kNew, kUnary, Takes::numbers, import_shrink, "", "bias lambd"},
    {"Sigmoid", kOld, kNew, kUnary, Takes::floats, apply_primitive, "sigmoid"},
    {"Sign", 9, kNew, kUnary, Takes::numbers, apply_primitive, "sign"},
    {"Sin", 7, kNew, kUnary, Takes::floats, apply_primitive, "sin"},
    {"Sinh", 9, kNew, kUnary, Takes::floats, apply_primitive, "sinh"},
    {"Size", 1, kNew, kUnary, Takes::anything, import_size, "", "", "sizes known at import"},
    {"Softplus", 1, kNew, kUnary, Takes::floats, import_softplus},
    {"Softsign", 1, kNew, kUnary, Takes::floats, import_softsign},
    {"Sqrt", kOld, kNew, kUnary, Takes::floats, apply_primitive, "sqrt"},
    {"Sub", kOld, 6, kBinary, Takes::numbers, import_arithmetic, "sub", kLegacyBroadcast, "broadcast=0"},
    {"Sub", 7, kNew, kBinary, Takes::numbers, import_arithmetic, "sub"},
    {"Sum", kOld, kNew, kMany, Takes::numbers, import_variadic, "add"},
    {"Swish", 24, kNew, kUnary, Takes::floats, import_swish, "", "alpha"},
    {"Tan", 7, kNew, kUnary, Takes::floats, apply_primitive, "tan"},
    {"Tanh", kOld, kNew, kUnary, Takes::floats, apply_primitive, "tanh"},
    {"ThresholdedRelu", 10, kNew, kUnary, Takes::floats, import_thresholded_relu, "", "alpha"},
    {"Where", 9, kNew, kTernary, Takes::booleans, import_where},
    {"Xor", kOld, 6, kBinary, Takes::booleans, apply_primitive, "xor", kLegacyBroadcast, "broadcast=0"},
    {"Xor", 7, kNew, kBinary, Takes::booleans, apply_primitive, "xor"},
};
// clang-format on

std::string opset_text(const OperatorRow& row) {
  if (row.until == kNewestOpset) return fmt::format("{}+", row.since);
  return row.until == row.since ? fmt::format("{}", row.since) : fmt::format("{} to {}", row.since, row.until);
}

constexpr std::string_view kPageHead = R"(# ONNX operators

What `load_onnx` imports. Written by `operator_table_markdown()`; a test compares this file with it.

Opsets up to {} are known. *First operand* is what dtypes it may have. Strings, complex numbers, floats of 8 and 4 bits,
sequences, optionals and sparse tensors are not supported. Model-local functions are inlined.

| operator | opset | first operand | attributes | taken |
| --- | --- | --- | --- | --- |
)";

}  // namespace

std::span<const OperatorRow> operator_table() { return kRows; }

const OperatorRow* find_operator(std::string_view domain, std::string_view name, std::int64_t opset) {
  const OperatorRow* row = std::lower_bound(std::begin(kRows), std::end(kRows), name,
                                            [](const OperatorRow& r, std::string_view n) { return r.name < n; });
  for (; row != std::end(kRows) && row->name == name; ++row) {
    if (row->domain == domain && row->since <= opset && opset <= row->until) return row;
  }
  return nullptr;
}

bool takes(Takes set, DType dtype) {
  switch (set) {
    case Takes::anything: return true;
    case Takes::floats: return is_float(dtype);
    case Takes::numbers: return dtype != DType::boolean;
    case Takes::integers: return is_integer(dtype);
    case Takes::unsigned_integers: return is_integer(dtype) && !is_signed_integer(dtype);
    case Takes::booleans: return dtype == DType::boolean;
  }
  return false;
}

std::string_view name_of(Takes set) {
  constexpr std::string_view names[] = {"anything", "floats", "numbers", "integers", "unsigned integers", "bool"};
  return names[static_cast<int>(set)];
}

std::string operator_table_markdown() {
  std::string text = fmt::format(kPageHead, kNewestOpset);
  for (const OperatorRow& row : kRows) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", row.name, opset_text(row), name_of(row.takes),
                        row.attributes.empty() ? "none" : row.attributes, row.note.empty() ? "all" : row.note);
  }
  return text;
}

}  // namespace vkfuse::onnx
