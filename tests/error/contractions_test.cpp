// What is refused of contractions and what is written with them: one sentence with the values.
#include <gtest/gtest.h>

#include "support/device.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

/// What is made of an invalid tensor is refused when it is compiled, with the first error.
void expect_message(const Tensor& wrong, const std::string& part, ErrorCode code = ErrorCode::invalid_argument) {
  ASSERT_FALSE(wrong.valid()) << "it was accepted; wanted: " << part;
  const Result<Executable> result = compile(device(), {wrong * 2.0});
  ASSERT_FALSE(result.ok()) << "it was accepted; wanted: " << part;
  const Error& error = result.error();
  EXPECT_EQ(name_of(error.code), std::string(name_of(code))) << error.text();
  EXPECT_EQ(error.message.back(), '.') << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
  EXPECT_NE(error.text().find(part), std::string::npos) << error.text() << "\nwanted: " << part;
}

Tensor input(const char* name, Shape shape, DType dtype = DType::f32) {
  return Tensor::input(name, dtype, std::move(shape));
}

TEST(ContractionErrors, Dot) {
  const Tensor a = input("a", {2, 3, 4});
  const Tensor b = input("b", {2, 5, 4});
  expect_message(dot_general(a, b, {.contract_a = {1}, .contract_b = {1}}),
                 "'dot' contracts axis 1 of f32[2, 3, 4] with axis 1 of f32[2, 5, 4], but 3 is not 5");
  expect_message(dot_general(a, b, {.contract_a = {2}, .contract_b = {2}, .batch_a = {1}, .batch_b = {0}}),
                 "'dot' pairs axis 1 of f32[2, 3, 4] with axis 0 of f32[2, 5, 4], but 3 is not 2");
  expect_message(dot_general(a, b, {.contract_a = {2}, .contract_b = {}}),
                 "'dot' contracts 1 axes of its first operand and 0 of its second");
  expect_message(dot_general(a, b, {.contract_a = {3}, .contract_b = {2}}),
                 "'dot' names axis 3, but f32[2, 3, 4] has 3 axes");
  expect_message(dot_general(a, b, {.contract_a = {2}, .contract_b = {2}, .batch_a = {-1}, .batch_b = {0}}),
                 "'dot' names axis 2 twice");
  expect_message(dot_general(a, b.cast(DType::f16), {.contract_a = {2}, .contract_b = {2}}),
                 "must have one dtype, but they are f32 and f16");
  expect_message(dot_general(a.cast(DType::boolean), b.cast(DType::boolean), {.contract_a = {2}, .contract_b = {2}}),
                 "'dot' is not defined on bool", ErrorCode::unsupported);
}

TEST(ContractionErrors, Matmul) {
  expect_message(matmul(input("a", {2, 3}), input("b", {4, 2})),
                 "'matmul' of f32[2, 3] and f32[4, 2] adds up over 3 and over 4 elements, which must be as many");
  expect_message(matmul(input("a", {3, 2, 4}), input("b", {2, 4, 5})),
                 "'matmul' of f32[3, 2, 4] and f32[2, 4, 5] meets dimensions of 3 and 2, which do not broadcast");
  expect_message(matmul(input("a", {}), input("b", {2})),
                 "'matmul' takes tensors of one axis or more, but they are f32[] and f32[2]");
  expect_message(matmul(input("a", {2, Dim::any("k")}), input("b", {Dim::any("l"), 2})),
                 "adds up over k and over l elements");
}

TEST(ContractionErrors, Convolutions) {
  const Tensor x = input("x", {1, 4, 8, 8});
  const Tensor w = input("w", {6, 4, 3, 3});
  expect_message(conv(x, input("w", {6, 3, 3, 3})),
                 "'conv' of f32[1, 4, 8, 8] with the kernel f32[6, 3, 3, 3] in 1 group does not fit: the kernel is for "
                 "3 channels");
  expect_message(conv(x, input("w", {5, 2, 3, 3}), {.groups = 2}),
                 "the kernel is for 4 channels, which the groups do not divide");
  expect_message(conv(x, input("w", {6, 4, 3})), "with as many axes, but they are f32[1, 4, 8, 8] and f32[6, 4, 3]");
  expect_message(conv(x, w, {.strides = {1}}),
                 "'conv' takes one entry of strides for each of 2 spatial axes, but 1 was given");
  expect_message(conv(x, w, {.strides = {1, 0}}), "'conv' has 0 in its strides, where entries are 1 to 1073741824");
  expect_message(conv(x, w, {.groups = 0}), "'conv' has 0 groups");
  expect_message(conv(x, input("w", {6, 4, 9, 3})), "has no place for a window of size 9");
  expect_message(conv(input("x", {1, 4, Dim::any("h"), 8}), w),
                 "'conv' needs a number for axis 2 of f32[1, 4, h, 8], but it is the symbol 'h'");
  expect_message(conv(x, input("w", {Dim::any("o"), 4, 3, 3})),
                 "'conv' needs numbers for the dimensions of its kernel, but it is f32[o, 4, 3, 3]");
  expect_message(conv(x, input("w", {6, 4, 0, 3})), "is too large or empty along axis 2");
  expect_message(conv(x, w, {.dilations = {std::int64_t{1} << 30, 1}}),
                 "dilated by 1073741824 is too large or empty along axis 2");
  expect_message(conv_transpose(x, w), "the kernel is for 6 channels");
  expect_message(conv_transpose(x, input("w", {4, 2, 3, 3}), {.low = {9, 0}, .high = {9, 0}}),
                 "makes no elements, or more than 1073741824, along axis 2");
}

TEST(ContractionErrors, Attention) {
  const Tensor q = input("q", {2, 6, 5, 8});
  const Tensor k = input("k", {2, 6, 7, 8});
  expect_message(attention(q, input("k", {2, 4, 7, 8}), input("v", {2, 4, 7, 8})),
                 "'attention' has 6 heads of queries and 4 of keys, which must divide them");
  expect_message(attention(q, k, input("v", {2, 5, 7, 8})), "'attention' has 6 heads of queries and 5 of values");
  expect_message(attention(q, input("k", {2, 6, 7, 9}), k),
                 "'dot' contracts axis 3 of f32[2, 6, 5, 8] with axis 3 of f32[2, 6, 7, 9], but 8 is not 9");
  expect_message(attention(q, k, input("v", {2, 6, 9, 8})), "but 7 is not 9");
  expect_message(attention(input("q", {6, 5, 8}), k, k),
                 "'attention' takes tensors of [batch, heads, positions, size]");
  expect_message(attention(q, k, k, {.window_before = -1}),
                 "'attention' counts positions and windows from 0 to 1073741824, but one is -1");
  expect_message(attention(q, k, k, {.alibi_slopes = input("s", {4})}),
                 "'attention' takes a slope for each of 6 heads, but they are f32[4]");
  expect_message(attention(q, k, k, {.mask = input("m", {3, 2, 6, 5, 7}, DType::boolean)}),
                 "has a bias or mask that makes the scores f32[3, 2, 6, 5, 7]");
  expect_message(attention(q, k, k, {.bias = input("m", {4, 7})}), "Shapes [2, 6, 5, 7] and [4, 7] do not broadcast");
}

TEST(ContractionErrors, Integers) {
  const Tensor x = input("x", {4, 8}, DType::i8);
  const Tensor one = Tensor::scalar(DType::f32, 1);
  expect_message(dequantize(eq(one, one), {.scale = one}),
                 "'dequantize' takes integers up to i32, or floats, and scales of floats, but it was given bool and "
                 "scales of f32",
                 ErrorCode::unsupported);
  expect_message(dequantize(one, {.scale = one, .zero_point = x}),
                 "'dequantize' of f32[] has no zero point, but it was given i8[4, 8]");
  expect_message(dequantize(x.cast(DType::i64), {.scale = one}), "but it was given i64 and scales of f32",
                 ErrorCode::unsupported);
  expect_message(dequantize(x, {.scale = input("s", {8}), .axis = 0}),
                 "'dequantize' of i8[4, 8] along axis 0 in groups of 0 was given f32[8], which does not fit");
  expect_message(dequantize(x, {.scale = input("s", {4, 3}), .axis = 1, .group = 4}),
                 "along axis 1 in groups of 4 was given f32[4, 3]");
  expect_message(dequantize(x, {.scale = input("s", {8}), .axis = 2}),
                 "'dequantize' names axis 2, but it was given i8[4, 8]");
  expect_message(unpack_int4(x, true),
                 "'unpack_int4' takes u8 with a last axis of a known size, but it was given i8[4, 8]");
  expect_message(decode_float(x, FloatFormat::float8_e5m2),
                 "'decode_float' makes floats of codes in u8, but it was given i8[4, 8] and asked for f32",
                 ErrorCode::unsupported);
  expect_message(decode_float(x.cast(DType::u8), FloatFormat::float8_e5m2, DType::i32), "and asked for i32",
                 ErrorCode::unsupported);
  expect_message(encode_float(x, FloatFormat::float8_e5m2),
                 "'encode_float' makes codes of floats, but it was given i8[4, 8]", ErrorCode::unsupported);
  const auto decoded_as = [&](const char* attribute, const char* value) {
    return apply_composite("decode_float", {x.cast(DType::u8)}, {{attribute, std::string(value)}});
  };
  expect_message(
      decoded_as("format", "float8"),
      "The attribute 'format' of 'decode_float' is 'float8'; it must be one of: float8_e4m3fn, float8_e5m2,");
  expect_message(decoded_as("dtype", "i8"),
                 "The attribute 'dtype' of 'decode_float' is 'i8'; it must be one of: f32, f16, bf16, f64");
  expect_message(apply_composite("encode_float", {one}, {{"power_rounding", std::string("even")}}),
                 "The attribute 'power_rounding' of 'encode_float' is 'even'; it must be one of: up, down, nearest");
}

}  // namespace
}  // namespace vkfuse::test
