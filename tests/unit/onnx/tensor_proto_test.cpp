// Elements of TensorProto in every form ONNX stores them, and data beside the model.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>

#include "onnx/host_tensor.hpp"
#include "onnx/tensor_proto.hpp"
#include "unit/onnx/models.hpp"
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

class ExternalData : public testing::Test {
 protected:
  void SetUp() override { folder_.write("weights.bin", std::string("\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 12)); }

  static TensorProto tensor_at(const std::string& location, const std::string& offset, const std::string& length) {
    TensorProto tensor = tensor_of(TensorProto::FLOAT, {2});
    tensor.set_data_location(TensorProto::EXTERNAL);
    const std::pair<const char*, const std::string&> entries[] = {
        {"location", location}, {"offset", offset}, {"length", length}};
    for (const auto& entry : entries) {
      pb::StringStringEntryProto& stored = *tensor.add_external_data();
      stored.set_key(entry.first);
      stored.set_value(entry.second);
    }
    return tensor;
  }

  Result<TensorData> read(const std::string& location, const std::string& offset = "4",
                          const std::string& length = "8") {
    return decode_tensor(tensor_at(location, offset, length), folder_.path());
  }

  ScratchFolder folder_;
};

TEST_F(ExternalData, IsReadBesideTheModel) {
  const Result<TensorData> data = read("weights.bin");
  ASSERT_TRUE(data.ok()) << data.error().text();
  EXPECT_EQ(element_real(*data, 0), 1);
  EXPECT_EQ(element_real(*data, 1), 2);
}

TEST_F(ExternalData, NeverLeavesTheFolder) {
  const ScratchFolder elsewhere;
  elsewhere.write("weights.bin", std::string(12, '\0'));
  std::filesystem::create_directory(folder_ / "below");
  std::filesystem::create_symlink(elsewhere / "weights.bin", folder_ / "link.bin");
  std::filesystem::create_symlink("link.bin", folder_ / "link_to_link.bin");
  std::filesystem::create_directory_symlink("/", folder_ / "root");
  std::filesystem::create_directory_symlink(elsewhere.path(), folder_ / "blobs");
  for (const char* location : {"/etc/passwd", "../weights.bin", "below/../weights.bin", "link.bin", "link_to_link.bin",
                               "root/etc/passwd", "blobs/weights.bin"}) {
    const Result<TensorData> data = read(location);
    ASSERT_FALSE(data.ok()) << location;
    EXPECT_EQ(data.error().code, ErrorCode::invalid_argument) << data.error().text();
    EXPECT_NE(data.error().message.find(location), std::string::npos) << data.error().text();
  }
  std::filesystem::create_symlink("nowhere.bin", folder_ / "dangling.bin");
  for (const char* location : {"none.bin", "below", "dangling.bin"})
    EXPECT_EQ(read(location).error().code, ErrorCode::not_found) << location;
}

TEST_F(ExternalData, MayBeALinkThatStaysInTheFolder) {
  std::filesystem::create_directories(folder_ / "below/deep");
  std::filesystem::create_symlink(folder_ / "weights.bin", folder_ / "absolute.bin");
  std::filesystem::create_symlink("../../weights.bin", folder_ / "below/deep/up.bin");
  std::filesystem::create_directory_symlink("below/deep", folder_ / "folder");
  std::filesystem::create_hard_link(folder_ / "weights.bin", folder_ / "second.bin");
  for (const char* location :
       {"absolute.bin", "below/deep/up.bin", "folder/up.bin", "second.bin", "weights.bin", "./weights.bin"}) {
    const Result<TensorData> data = read(location);
    ASSERT_TRUE(data.ok()) << location << ": " << data.error().text();
    EXPECT_EQ(element_real(*data, 1), 2);
  }
}

/// A model's folder that is named through a link, as /tmp is on some systems.
TEST_F(ExternalData, IsBesideAModelBehindALink) {
  const ScratchFolder elsewhere;
  std::filesystem::create_directory_symlink(folder_.path(), elsewhere / "model");
  TensorProto tensor = tensor_at("weights.bin", "4", "8");
  EXPECT_TRUE(decode_tensor(tensor, elsewhere / "model").ok());
}

/// models--NAME/snapshots/REVISION/FILE -> ../../blobs/HASH, as the Hugging Face hub stores what it downloads.
TEST_F(ExternalData, MayLieInTheBlobsOfItsRepository) {
  const ScratchFolder elsewhere;
  elsewhere.write("weights.bin", std::string(12, '\0'));
  const std::filesystem::path repository = folder_ / "models--a--b", snapshot = repository / "snapshots/1234",
                              nested = snapshot / "onnx";
  std::filesystem::create_directories(nested);
  std::filesystem::create_directories(repository / "blobs");
  std::filesystem::copy_file(folder_ / "weights.bin", repository / "blobs/hash");
  std::filesystem::create_symlink("../../blobs/hash", snapshot / "model.onnx_data");
  std::filesystem::create_symlink("../../../blobs/hash", nested / "model.onnx_data");
  std::filesystem::create_symlink("../../../weights.bin", snapshot / "outside");
  std::filesystem::create_symlink("../../blobs/escape", snapshot / "escape");
  std::filesystem::create_symlink(elsewhere / "weights.bin", repository / "blobs/escape");
  for (const auto& folder : {snapshot, nested})
    EXPECT_TRUE(decode_tensor(tensor_at("model.onnx_data", "4", "8"), folder).ok()) << folder;
  for (const char* location : {"outside", "escape"}) {
    EXPECT_EQ(decode_tensor(tensor_at(location, "4", "8"), snapshot).error().code, ErrorCode::invalid_argument)
        << location;
  }
  // Blobs that are elsewhere are somebody else's.
  std::filesystem::remove_all(repository / "blobs");
  elsewhere.write("hash", std::string(12, '\0'));
  std::filesystem::create_directory_symlink(elsewhere.path(), repository / "blobs");
  EXPECT_EQ(decode_tensor(tensor_at("model.onnx_data", "4", "8"), snapshot).error().code, ErrorCode::invalid_argument);
}

TEST_F(ExternalData, MayLieInTheUsersCache) {
  const ScratchFolder cache;
  cache.write("hash", std::string("\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 12));
  std::filesystem::create_symlink(cache / "hash", folder_ / "model.onnx_data");
  EXPECT_EQ(read("model.onnx_data").error().code, ErrorCode::invalid_argument);
  const char* const before = std::getenv("HF_HUB_CACHE");
  const std::string kept = before != nullptr ? before : "";
  setenv("HF_HUB_CACHE", cache.path().c_str(), 1);
  const Result<TensorData> data = read("model.onnx_data");
  before != nullptr ? setenv("HF_HUB_CACHE", kept.c_str(), 1) : unsetenv("HF_HUB_CACHE");
  EXPECT_TRUE(data.ok()) << data.error().text();
}

/// It is neither waited for nor read.
TEST_F(ExternalData, IsNoPipe) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(read("pipe").error().code, ErrorCode::not_found);
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
