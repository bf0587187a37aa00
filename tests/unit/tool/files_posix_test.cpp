// Files as commands read and write them, where there are links, pipes and devices.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/files.hpp"
#include "unit/onnx/models.hpp"

namespace vkfuse::tool {
namespace {

namespace fs = std::filesystem;

std::string refusal(const fs::path& path) {
  const Result<std::string> text = read_whole_file(path);
  return text.ok() ? "It was read." : text.error().message;
}

TEST(Files, PipesAndDevicesAreRefusedAtOnce) {
  const onnx::ScratchFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal(pipe), "'" + pipe.string() + "' is not a regular file.");
  EXPECT_EQ(refusal("/dev/zero"), "'/dev/zero' is not a regular file.");
#ifdef __linux__
  for (const char* path : {"/proc/self/maps", "/proc/self/environ"})
    EXPECT_NE(refusal(path).find("the kernel makes it while it is read"), std::string::npos) << path;
  EXPECT_FALSE(check_whole_file("/proc/kmsg").ok());
#endif
  const Result<void> unread = write_whole_file(pipe, "text");
  ASSERT_FALSE(unread.ok()) << "nobody reads the pipe";
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_FALSE(write_whole_file("/dev/full", "text").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_FALSE(is_same_file("/dev/null", "/dev/null"));
}

/// What a link in a shared folder points at is not written to.
TEST(Files, ALinkIsReplaced) {
  const onnx::ScratchFolder folder;
  const fs::path other = folder / "other", link = folder / "link";
  ASSERT_TRUE(write_whole_file(other, "other's").ok());
  fs::create_symlink(other, link);
  ASSERT_TRUE(write_whole_file(link, "ours").ok());
  EXPECT_EQ(*read_whole_file(other), "other's");
  EXPECT_EQ(*read_whole_file(link), "ours");
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder / ".")) files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 2U) << "something half-written is left";
}

}  // namespace
}  // namespace vkfuse::tool
