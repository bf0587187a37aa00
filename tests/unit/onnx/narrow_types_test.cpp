// Elements of fewer than 8 bits and floats of 8, against what ml_dtypes and the text of ONNX say.
#include "onnx/narrow_types.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

constexpr auto kFloat8 = static_cast<pb::TensorProto::DataType>(17);
constexpr auto kInt4 = static_cast<pb::TensorProto::DataType>(22);
constexpr auto kFloat4 = static_cast<pb::TensorProto::DataType>(23);
constexpr auto kInt2 = static_cast<pb::TensorProto::DataType>(26);

/// Numbers, the codes that they become, and the numbers of some codes.
struct Coded {
  int type;
  List codes;
  List read, numbers;
};

const List kNumbers = {0.10000000149011612,
                       -0.30000001192092896,
                       0.75,
                       1.0625,
                       1.1875,
                       -3.299999952316284,
                       6.099999904632568,
                       17,
                       0.0020000000949949026,
                       -0.0009765625,
                       4.999999873689376e-06};

const Coded kCoded[] = {
    {17,
     {29, 170, 52, 56, 58, 197, 76, 88, 1, 128, 0},
     {0, 23, 46, 69, 92, 115, 139, 162, 185, 208, 231, 255},
     {0, 0.05859375, 0.4375, 3.25, 24, 176, -0.021484375, -0.15625, -1.125, -8, -60, NAN}},  // FLOAT8E4M3FN
    {18,
     {37, 178, 60, 64, 66, 205, 84, 96, 2, 129, 0},
     {0, 23, 46, 69, 92, 115, 139, 162, 185, 208, 231, 255},
     {0, 0.029296875, 0.21875, 1.625, 12, 88, -0.0107421875, -0.078125, -0.5625, -4, -30, -240}},  // FLOAT8E4M3FNUZ
    {19,
     {46, 181, 58, 60, 61, 195, 70, 76, 24, 148, 0},
     {0, 23, 46, 69, 92, 115, 139, 162, 185, 208, 231, 255},
     {0, 0.001708984375, 0.09375, 5, 256, 14336, -0.000213623046875, -0.01171875, -0.625, -32, -1792,
      NAN}},  // FLOAT8E5M2
    {20,
     {50, 185, 62, 64, 65, 199, 74, 80, 28, 152, 1},
     {0, 23, 46, 69, 92, 115, 139, 162, 185, 208, 231, 255},
     {0, 0.0008544921875, 0.046875, 2.5, 128, 7168, -0.0001068115234375, -0.005859375, -0.3125, -16, -896,
      -57344}},  // FLOAT8E5M2FNUZ
    {23,
     {0, 9, 2, 2, 2, 13, 7, 7, 0, 8, 0},
     {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 15},
     {0, 0.5, 1, 2, 3, 4, 0, -0.5, -1, -2, -3, -6}},  // FLOAT4E2M1
    {27,
     {1, 34, 6, 8, 10, 53, 28, 31, 0, 32, 0},
     {0, 5, 11, 17, 22, 28, 34, 40, 45, 51, 57, 63},
     {0, 0.625, 1.375, 2.25, 3.5, 6, -0.25, -1, -1.625, -2.75, -4.5, -7.5}},  // FLOAT6E2M3
    {28,
     {2, 37, 10, 12, 13, 51, 22, 28, 0, 32, 0},
     {0, 5, 11, 17, 22, 28, 34, 40, 45, 51, 57, 63},
     {0, 0.3125, 0.875, 2.5, 6, 16, -0.125, -0.5, -1.25, -3.5, -10, -28}},  // FLOAT6E3M2
};

void expect_same(const List& got, const List& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i];
    } else {
      EXPECT_EQ(got[i], want[i]) << "element " << i;
    }
  }
}

TEST(OnnxNarrowTypes, NumbersBecomeCodes) {
  for (const Coded& coded : kCoded) {
    SCOPED_TRACE(find_narrow(coded.type)->name);
    const auto count = static_cast<std::int64_t>(kNumbers.size());
    expect_same(OneNode("Cast", 28).input({count}, kNumbers).integer("to", coded.type).value(), coded.codes);
  }
}

TEST(OnnxNarrowTypes, CodesBecomeNumbers) {
  for (const Coded& coded : kCoded) {
    SCOPED_TRACE(find_narrow(coded.type)->name);
    const auto type = static_cast<pb::TensorProto::DataType>(coded.type);
    const auto count = static_cast<std::int64_t>(coded.read.size());
    expect_same(OneNode("Cast", 28).input({count}, coded.read, type).integer("to", pb::TensorProto::FLOAT).value(),
                coded.numbers);
  }
}

TEST(OnnxNarrowTypes, BeyondTheLargestMagnitude) {
  const List x = {1e6, -1e6, INFINITY, NAN};
  const auto cast = [&](int type, int saturates) {
    return OneNode("Cast", 28).input({4}, x).integer("to", type).integer("saturate", saturates).value();
  };
  expect_same(cast(17, 1), {0x7e, 0xfe, 0x7e, 0x7f});
  expect_same(cast(17, 0), {0x7f, 0xff, 0x7f, 0x7f});
  expect_same(cast(18, 0), {0x80, 0x80, 0x80, 0x80});
  expect_same(cast(19, 1), {0x7b, 0xfb, 0x7b, 0x7e});
  expect_same(cast(19, 0), {0x7c, 0xfc, 0x7c, 0x7e});
  expect_same(cast(23, 0), {7, 15, 7, 8});
}

TEST(OnnxNarrowTypes, PowersOfTwo) {
  const List x = {0, 0.124, 0.25, 1.1, 1.6, 8, INFINITY, -1};
  const auto cast = [&](const std::string& mode) {
    return OneNode("Cast", 28).input({8}, x).integer("to", 24).text("round_mode", mode).value();
  };
  expect_same(cast("up"), {0, 124, 125, 128, 128, 130, 254, 255});
  expect_same(cast("down"), {0, 123, 125, 127, 127, 130, 254, 255});
  expect_same(cast("nearest"), {0, 124, 125, 127, 128, 130, 254, 255});
  const List bare = OneNode("Cast", 28)
                        .input({4}, {0, 0.25, INFINITY, 1})
                        .integer("to", 24)
                        .integer("saturate", 0)
                        .text("round_mode", "nearest")
                        .value();
  expect_same(bare, {255, 125, 255, 127});
}

TEST(OnnxNarrowTypes, IntegersKeepTheirLowBits) {
  const List x = {-9, -8, -1, 0, 7, 8, 15};
  expect_same(OneNode("Cast", 28).input({7}, x).integer("to", 22).value(), {7, -8, -1, 0, 7, -8, -1});
  expect_same(OneNode("Cast", 28).input({7}, x).integer("to", 21).value(), {7, 8, 15, 0, 7, 8, 15});
  expect_same(OneNode("Cast", 28).input({7}, x).integer("to", 26).value(), {-1, 0, -1, 0, -1, 0, -1});
  expect_same(OneNode("Cast", 28).input({7}, x).integer("to", 25).value(), {3, 0, 3, 0, 3, 0, 3});
}

TEST(OnnxNarrowTypes, StoredElementsAreUnpacked) {
  expect_same(OneNode("Cast", 28).packed({5}, {0xe4, 0x03}, kInt2).integer("to", pb::TensorProto::INT32).value(),
              {0, 1, -2, -1, -1});
  expect_same(OneNode("Cast", 28).packed({3}, {0xf8, 0x07}, kInt4).integer("to", pb::TensorProto::INT32).value(),
              {-8, -1, 7});
  expect_same(OneNode("Cast", 28).packed({3}, {0x92, 0x0f}, kFloat4).integer("to", pb::TensorProto::FLOAT).value(),
              {1, -0.5, -6});
}

TEST(OnnxNarrowTypes, AreQuantisedTo) {
  const List x = {0, 2.5, 4.8, 8.6, -30, -20};
  expect_same(OneNode("QuantizeLinear", 28)
                  .input({6}, x)
                  .known({}, {2}, pb::TensorProto::FLOAT)
                  .integer("output_dtype", 26)
                  .value(),
              {0, 1, 1, 1, -2, -2});
  expect_same(OneNode("QuantizeLinear", 28)
                  .input({6}, x)
                  .known({}, {2}, pb::TensorProto::FLOAT)
                  .integer("output_dtype", 23)
                  .value(),
              {0, 2, 4, 6, 15, 15});
}

TEST(OnnxNarrowTypes, AreDequantised) {
  expect_same(OneNode("DequantizeLinear", 28)
                  .input({3}, {0x38, 0xb8, 0x7e}, kFloat8)
                  .known({}, {0.5}, pb::TensorProto::FLOAT)
                  .value(),
              {0.5, -0.5, 224});
  expect_same(
      OneNode("DequantizeLinear", 28).input({3}, {1, -2, 0}, kInt2).known({}, {0.5}, pb::TensorProto::FLOAT).value(),
      {0.5, -1, 0});
}

TEST(OnnxNarrowTypes, AreMovedButNotComputedWith) {
  expect_same(OneNode("Transpose", 28).input({2, 2}, {1, 2, 3, 4}, kFloat8).value(), {1, 3, 2, 4});
  expect_unsupported(OneNode("Add", 28).input({1}, {1}, kFloat8).input({1}, {1}, kFloat8).error(),
                     "is FLOAT8E4M3FN, which this operator does not take");
  expect_unsupported(OneNode("Equal", 28).input({1}, {1}, kInt4).input({1}, {1}, kInt4).error(), "is INT4");
}

}  // namespace
}  // namespace vkfuse::onnx
