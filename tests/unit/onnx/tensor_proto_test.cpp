// Elements of TensorProto in every form ONNX stores them, and data beside the model.
#include <gtest/gtest.h>

#include <cmath>

#include "onnx/host_tensor.hpp"
#include "onnx/tensor_proto.hpp"
#include "unit/onnx/external_data_fixture.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {
namespace {

using pb::TensorProto;

TensorProto tensor_of(TensorProto::DataType type, const Sizes& sizes) {
  TensorProto tensor;
  tensor.set_name("t");
  tensor.set_data_type(type);
  for (const std::int64_t size : sizes) tensor.add_dims(size);
  return tensor;
}

TEST(OnnxTensor, ReadsEveryIntegerType) {
  const TensorProto::DataType small[] = {TensorProto::INT8, TensorProto::UINT8, TensorProto::INT16, TensorProto::UINT16,
                                         TensorProto::INT32};
  for (const TensorProto::DataType type : small) {
    TensorProto tensor = tensor_of(type, {2});
    tensor.add_int32_data(100);
    tensor.add_int32_data(7);
    const Result<TensorData> data = decode_tensor(tensor, {});
    ASSERT_TRUE(data.ok()) << data.error().text();
    EXPECT_EQ(element_int(*data, 0), 100);
    EXPECT_EQ(element_int(*data, 1), 7);
  }
}

TEST(OnnxTensor, ReadsTheOtherFields) {
  TensorProto i64 = tensor_of(TensorProto::INT64, {});
  i64.add_int64_data(INT64_MIN);
  EXPECT_EQ(element_int(*decode_tensor(i64, {}), 0), INT64_MIN);
  TensorProto u32 = tensor_of(TensorProto::UINT32, {1});
  u32.add_uint64_data(4000000000U);
  EXPECT_EQ(element_int(*decode_tensor(u32, {}), 0), 4000000000);
  TensorProto f64 = tensor_of(TensorProto::DOUBLE, {1});
  f64.add_double_data(0.1);
  EXPECT_EQ(element_real(*decode_tensor(f64, {}), 0), 0.1);
}

TEST(OnnxTensor, ReadsHalfBits) {
  TensorProto half = tensor_of(TensorProto::FLOAT16, {4});
  for (const int bits : {0x3c00, 0xc000, 0x0001, 0x7c00}) half.add_int32_data(bits);
  const Result<TensorData> data = decode_tensor(half, {});
  ASSERT_TRUE(data.ok()) << data.error().text();
  EXPECT_EQ(element_real(*data, 0), 1);
  EXPECT_EQ(element_real(*data, 1), -2);
  EXPECT_EQ(element_real(*data, 2), 0x1p-24);
  EXPECT_TRUE(std::isinf(element_real(*data, 3)));
  TensorProto brain = tensor_of(TensorProto::BFLOAT16, {1});
  brain.add_int32_data(0x4049);
  EXPECT_EQ(element_real(*decode_tensor(brain, {}), 0), 3.140625);
}

TEST(OnnxTensor, MakesBooleansZeroOrOne) {
  TensorProto tensor = tensor_of(TensorProto::BOOL, {3});
  tensor.set_raw_data(std::string("\x00\x01\x80", 3));
  const Result<TensorData> data = decode_tensor(tensor, {});
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->bytes, (std::vector<std::byte>{std::byte{0}, std::byte{1}, std::byte{1}}));
}

TEST(OnnxTensor, ReadsATensorFile) {
  const ScratchFolder folder;
  TensorProto tensor = tensor_of(TensorProto::FLOAT, {1, 2});
  tensor.add_float_data(1);
  tensor.add_float_data(2);
  const Result<TensorData> data = read_tensor_proto(folder.write("t.pb", tensor.SerializeAsString()));
  ASSERT_TRUE(data.ok()) << data.error().text();
  EXPECT_EQ(data->name, "t");
  EXPECT_EQ(data->sizes, (Sizes{1, 2}));
  EXPECT_EQ(element_real(*data, 1), 2);
  EXPECT_EQ(read_tensor_proto(folder / "none.pb").error().code, ErrorCode::not_found);
  EXPECT_EQ(read_tensor_proto(folder.write("cut.pb", tensor.SerializeAsString().substr(0, 5))).error().code,
            ErrorCode::invalid_argument);
}

TEST_F(ExternalData, IsReadBesideTheModel) {
  const Result<TensorData> data = read("weights.bin");
  ASSERT_TRUE(data.ok()) << data.error().text();
  EXPECT_EQ(element_real(*data, 0), 1);
  EXPECT_EQ(element_real(*data, 1), 2);
}

TEST_F(ExternalData, IsNamedFromTheFolderOn) {
  std::filesystem::create_directory(folder_ / "below");
  for (const char* location : {"/etc/passwd", "../weights.bin", "below/../weights.bin"}) {
    const Result<TensorData> data = read(location);
    ASSERT_FALSE(data.ok()) << location;
    EXPECT_EQ(data.error().code, ErrorCode::invalid_argument) << data.error().text();
    EXPECT_NE(data.error().message.find(location), std::string::npos) << data.error().text();
  }
  for (const char* location : {"none.bin", "below", "\xff.bin"})
    EXPECT_EQ(read(location).error().code, ErrorCode::not_found) << location;
}

TEST_F(ExternalData, MustHaveTheRightLength) {
  EXPECT_FALSE(read("weights.bin", "8").ok());
  EXPECT_FALSE(read("weights.bin", "4", "12").ok());
  EXPECT_FALSE(read("weights.bin", "9223372036854775807").ok());
  EXPECT_FALSE(read("weights.bin", "-4").ok());
  EXPECT_FALSE(read("weights.bin", "four").ok());
  EXPECT_FALSE(read("").ok());
}

}  // namespace
}  // namespace vkfuse::onnx
