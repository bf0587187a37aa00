// Data beside a model that links lead to, and pipes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/environment.hpp"
#include "unit/onnx/external_data_fixture.hpp"

namespace vkfuse::onnx {
namespace {

TEST_F(ExternalData, NeverLeavesTheFolderByALink) {
  const ScratchFolder elsewhere;
  elsewhere.write("weights.bin", std::string(12, '\0'));
  std::filesystem::create_symlink(elsewhere / "weights.bin", folder_ / "link.bin");
  std::filesystem::create_symlink("link.bin", folder_ / "link_to_link.bin");
  std::filesystem::create_directory_symlink("/", folder_ / "root");
  std::filesystem::create_directory_symlink(elsewhere.path(), folder_ / "blobs");
  for (const char* location : {"link.bin", "link_to_link.bin", "root/etc/passwd", "blobs/weights.bin"}) {
    const Result<TensorData> data = read(location);
    ASSERT_FALSE(data.ok()) << location;
    EXPECT_EQ(data.error().code, ErrorCode::invalid_argument) << data.error().text();
    EXPECT_NE(data.error().message.find(location), std::string::npos) << data.error().text();
  }
  std::filesystem::create_symlink("nowhere.bin", folder_ / "dangling.bin");
  EXPECT_EQ(read("dangling.bin").error().code, ErrorCode::not_found);
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
  pb::TensorProto tensor = tensor_at("weights.bin", "4", "8");
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
  const test::Variable variable("HF_HUB_CACHE", cache.path().string());
  const Result<TensorData> data = read("model.onnx_data");
  EXPECT_TRUE(data.ok()) << data.error().text();
}

/// It is neither waited for nor read.
TEST_F(ExternalData, IsNoPipe) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(read("pipe").error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace vkfuse::onnx
