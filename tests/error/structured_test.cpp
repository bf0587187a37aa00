// What is refused of views, positions, reductions, scans and sorts, as a user of the API meets it: when the
// program is compiled, with the sentence of the first mistake.
#include <gtest/gtest.h>

#include "support/device.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

void expect_refused(const Result<Executable>& result, ErrorCode code, const std::string& part) {
  ASSERT_FALSE(result.ok()) << "it was accepted; wanted: " << part;
  const Error& error = result.error();
  EXPECT_EQ(name_of(error.code), std::string(name_of(code))) << error.text();
  EXPECT_EQ(error.message.back(), '.') << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
  EXPECT_NE(error.text().find(part), std::string::npos) << error.text() << "\nwanted: " << part;
}

/// What is made of an invalid tensor is refused with the first error, wherever that lies.
void expect_message(const Tensor& wrong, const std::string& part, ErrorCode code = ErrorCode::invalid_argument) {
  ASSERT_FALSE(wrong.valid()) << "it was accepted; wanted: " << part;
  expect_refused(compile(device(), {wrong * 2.0}), code, part);
}

TEST(StructuredErrors, Views) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 4});
  const Tensor n = Tensor::input("x", DType::f32, {Dim::any("n"), 12});
  expect_message(
      x.reshape({3, 3}),
      "'reshape' of f32[2, 4] to [3, 3] does not keep the number of elements: the numbers multiply out to 8 and to 9");
  expect_message(n.reshape({Dim::any("k"), 4}), "'reshape' of f32[n, 12] to [k, 4] leaves out the symbol 'n'");
  expect_message(n.reshape({-1}), "there is no symbol for a product");
  expect_message(x.permute({0, 0}), "'permute' names axis 0 twice");
  expect_message(x.permute({0}), "'permute' takes one entry of axes for each of 2 axes, but 1 was given");
  expect_message(x.broadcast_to({2, 5}), "'broadcast' cannot stretch f32[2, 4] to [2, 5]");
  expect_message(x.slice(2, 0, 1), "'slice' names axis 2, but f32[2, 4] has 2 axes");
  expect_message(x.slice(0, 0, 1, 0), "'slice' has a step of 0 along axis 0");
  expect_message(n.slice(0, 0, 10), "neither the whole of the symbolic axis nor its reversal");
  expect_message(x.select(0, 2), "'select' takes index 2 along axis 0 of f32[2, 4], which is out of range");
  expect_message(x.reverse({-3}), "'reverse' names axis -3, but f32[2, 4] has 2 axes");
  expect_message(n.pad({1, 0}, {0, 0}), "'pad' of axis 0 by 1 and 0 needs a number there, but it is the symbol 'n'");
  expect_message(x.unfold(1, 5),
                 "'unfold' along axis 1 of f32[2, 4] has no place for a window of size 5 and dilation 1");
  expect_message(
      x.slice_assign(Tensor::input("u", DType::f32, {2, 2}), {0, 3}),
      "'slice_assign' takes 2 elements from 3 in steps of 1 along axis 1, which is out of bounds of f32[2, 4]");
  expect_message(concat({}, 0), "'concat' takes one operand or more, but none was given");
  expect_message(concat({x, x.cast(DType::f16)}, 0),
                 "The operands of 'concat' must have one dtype, but they are f32 and f16");
  expect_message(concat({x, n}, 0),
                 "'concat' along axis 0 cannot join f32[2, 4] and f32[n, 12]: the other dimensions differ");
}

TEST(StructuredErrors, PositionsInData) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 4});
  const Tensor i = Tensor::input("i", DType::i32, {3});
  expect_message(x.gather(x, 0), "The positions that 'gather' takes must be i32, u32 or i64, but they are f32");
  expect_message(x.gather(i, 2), "'gather' names axis 2, but f32[2, 4] has 2 axes");
  expect_message(Tensor::input("e", DType::f32, {0, 4}).gather(i, 0),
                 "'gather' reads along axis 0 of f32[0, 4], which has no elements");
  expect_message(x.take_along(i, 0),
                 "'take_along' takes positions i32[3] of f32[2, 4], which has another number of axes");
  expect_message(x.scatter(i, x),
                 "'scatter' into f32[2, 4] at positions i32[3] takes updates of shape [3, 4], but they are f32[2, 4]");
  expect_message(x.scatter(i, x, "replace"), "'replace' is not a mode of scatter: set, add, mul, max or min");
  const Tensor flags = Tensor::input("b", DType::boolean, {3});
  expect_message(flags.scatter(i, flags, "max"), "'scatter' with the mode 'max' is not defined on bool",
                 ErrorCode::unsupported);
}

TEST(StructuredErrors, ReductionsScansAndSorts) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 4});
  expect_message(x.sum({2}), "'reduce_sum' names axis 2, but f32[2, 4] has 2 axes");
  expect_message(x.sum({1, -1}), "'reduce_sum' names axis 1 twice");
  expect_message(x.cast(DType::i32).mean(), "'reduce_mean' is not defined on i32; it takes f32, f16, bf16 and f64",
                 ErrorCode::unsupported);
  expect_message(x.all(), "'reduce_all' is not defined on f32; it takes bool", ErrorCode::unsupported);
  expect_message(Tensor::input("e", DType::f32, {0, 4}).max({0}),
                 "'reduce_max' along axis 0 of f32[0, 4] has no elements to choose from");
  expect_message(Tensor::input("e", DType::f32, {0, 4}).argmin(0),
                 "'argmin' along axis 0 of f32[0, 4] has no elements to choose from");
  expect_message(x.reduce("softmax"), "'softmax' is not the name of a reduction");
  expect_message(x.cumsum(-3), "'cumsum' names axis -3, but f32[2, 4] has 2 axes");
  expect_message(x.argsort(1, false, 5), "'argsort' gives 5 positions of axis 1 of f32[2, 4]; it can give 1 to 4");
  expect_message(top_k(x, 7).values, "'argsort' gives 7 positions of axis 1 of f32[2, 4]; it can give 1 to 4");
  expect_message(softmax(x.cast(DType::i32)), "'exp' is not defined on i32", ErrorCode::unsupported);
  expect_message(cross_entropy(x, Tensor::input("l", DType::f32, {2})),
                 "The positions that 'take_along' takes must be i32, u32 or i64, but they are f32");
  expect_message(dropout(x, 1.5, 3), "'dropout' keeps elements with a probability above 0 and up to 1, but it is 1.5");
}

TEST(StructuredErrors, TextNamesTheLine) {
  const std::string head = "graph \"g\" {\n  %0 = input \"x\" : f32[2, 4]\n  %1 = ";
  const std::string tail = "\n  output \"y\" = %1\n}";
  expect_refused(compile_text(device(), head + "permute axes=[1, 2] %0 : f32[4, 2]" + tail),
                 ErrorCode::invalid_argument, "Line 3: 'permute' names axis 2, but f32[2, 4] has 2 axes");
  expect_refused(compile_text(device(), head + "reduce_sum axes=[1] %0 : f32[4]" + tail), ErrorCode::invalid_argument,
                 "Line 3: 'reduce_sum' gives f32[2], but f32[4] is declared");
  expect_refused(compile_text(device(), head + "cumsum axis=0 %0 : f32[2, 4]" + tail), ErrorCode::invalid_argument,
                 "Line 3: expected 'exclusive=', found '%0");
}

}  // namespace
}  // namespace vkfuse::test
