// Files as every system has them.
#include "os/files.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>

namespace vkfuse::os {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string all_of(const Handle& file) {
  std::string text;
  char part[3];
  for (;;) {
    const std::ptrdiff_t got = read_some(file, std::as_writable_bytes(std::span(part)));
    if (got <= 0) return got == 0 ? text : "reading failed";
    text.append(part, static_cast<std::size_t>(got));
  }
}

class OsFiles : public testing::Test {
 protected:
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  [[nodiscard]] bool write(const std::string& name, std::string_view text) const {
    const Handle file = create_file(folder_ / to_path(name));
    return file.is_open() && write_all(file, bytes_of(text));
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    const Handle file = open_file(folder_ / to_path(name));
    return file.is_open() ? all_of(file) : "not open";
  }

  fs::path folder_ = make_scratch_folder("vkfuse-os-").value();
};

TEST_F(OsFiles, AreMadeOnceAndHoldEveryByte) {
  constexpr std::string_view text("one\ntwo\r\n\x1a\0three", 16);
  EXPECT_TRUE(write("file", text));
  EXPECT_FALSE(create_file(folder_ / "file").is_open()) << "it is there";
  EXPECT_FALSE(was_missing()) << last_failure();
  EXPECT_EQ(read("file"), text);
  EXPECT_EQ(size_of_regular(open_file(folder_ / "file")), text.size());
  EXPECT_EQ(size_of_regular(open_folder(folder_)), std::nullopt);
  for (const fs::path& path : {folder_ / "file", folder_, folder_ / "none"}) EXPECT_FALSE(is_pipe_or_device(path));
  for (const char* name : {"none", "none/inside"}) {
    EXPECT_FALSE(open_file(folder_ / name).is_open());
    EXPECT_TRUE(was_missing()) << name << ": " << last_failure();
    EXPECT_NE(last_failure(), "");
  }
  EXPECT_FALSE(open_folder(folder_ / "file").is_open()) << "it is no folder";
}

TEST_F(OsFiles, HaveNamesInUtf8) {
  const std::string name = "k\xc3\xbchl \xe6\xa8\xa1";
  ASSERT_TRUE(write(name, "cool"));
  EXPECT_EQ(read(name), "cool");
  EXPECT_EQ((folder_ / to_path(name)).filename().string(), name);
  const std::vector<Entry> all = list_files(open_folder(folder_));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, name);
}

TEST_F(OsFiles, AreReadFromAnyPosition) {
  ASSERT_TRUE(write("file", "0123456789"));
  const Handle file = open_file(folder_ / "file");
  char part[4] = {};
  ASSERT_EQ(read_some_at(file, 7, std::as_writable_bytes(std::span(part))), 3);
  EXPECT_EQ(std::string(part, 3), "789");
  EXPECT_EQ(read_some_at(file, 10, std::as_writable_bytes(std::span(part))), 0);
  EXPECT_EQ(read_some_at(file, std::uint64_t{5} << 32, std::as_writable_bytes(std::span(part))), 0);
}

TEST_F(OsFiles, OfAFolderAreNamedInIt) {
  const Handle folder = open_folder(folder_);
  ASSERT_TRUE(folder.is_open()) << last_failure();
  {
    const Handle file = create_file_in(folder, "new");
    ASSERT_TRUE(file.is_open()) << last_failure();
    EXPECT_TRUE(write_all(file, bytes_of("new")));
  }
  EXPECT_FALSE(create_file_in(folder, "new").is_open()) << "it is there";
  EXPECT_EQ(all_of(open_file_in(folder, "new")), "new");
  EXPECT_FALSE(open_file_in(folder, "none").is_open());
  EXPECT_FALSE(open_folder_in(folder, "new").is_open());
  fs::create_directory(folder_ / "inside");
  ASSERT_TRUE(write("inside/deep", "deep"));
  const Handle inside = open_folder_in(folder, "inside");
  EXPECT_EQ(all_of(open_file_in(inside, "deep")), "deep");
  remove_in(folder, "new");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(OsFiles, AreReplaced) {
  ASSERT_TRUE(write("old", "old"));
  const Handle folder = open_folder(folder_);
  ASSERT_TRUE(write_all(create_file_in(folder, "new"), bytes_of("new")));
  EXPECT_TRUE(replace_in(folder, "new", "old")) << last_failure();
  EXPECT_EQ(read("old"), "new");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  EXPECT_FALSE(replace_in(folder, "none", "old"));
  ASSERT_TRUE(write("newer", "newer"));
  EXPECT_TRUE(replace_file(folder_ / "newer", folder_ / "old")) << last_failure();
  EXPECT_EQ(read("old"), "newer");
  EXPECT_FALSE(replace_file(folder_ / "none", folder_ / "old"));
}

TEST_F(OsFiles, AreListedWithTheirTimes) {
  ASSERT_TRUE(write("a", "12345"));
  fs::create_directory(folder_ / "folder");
  fs::last_write_time(folder_ / "a", fs::file_time_type::clock::now() - std::chrono::hours(48));
  const Handle folder = open_folder(folder_);
  const auto now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch());
  const auto age = [&](const Entry& entry) { return now - std::chrono::nanoseconds(entry.changed_ns); };
  for (int twice = 0; twice < 2; ++twice) {
    const std::vector<Entry> all = list_files(folder);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].name, "a");
    EXPECT_EQ(all[0].bytes, 5u);
    EXPECT_GT(age(all[0]), std::chrono::hours(47));
    EXPECT_LT(age(all[0]), std::chrono::hours(49));
  }
  touch(open_file_in(folder, "a"));
  EXPECT_LT(age(list_files(folder).at(0)), std::chrono::hours(1));
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(write("a file with a name of some length " + std::to_string(i), ""));
  EXPECT_EQ(list_files(folder).size(), 1001u);
  remove_in(folder, "a");
  EXPECT_EQ(list_files(folder).size(), 1000u);
}

TEST_F(OsFiles, HaveOneResolvedPath) {
  ASSERT_TRUE(write("file", ""));
  const auto folder = resolve(folder_);
  ASSERT_TRUE(folder.has_value());
  EXPECT_TRUE(folder->is_absolute()) << *folder;
  EXPECT_EQ(resolve(folder_ / "." / "file"), *folder / "file");
  EXPECT_EQ(resolve(folder_ / "none"), std::nullopt);
}

TEST_F(OsFiles, OfAPrivateFolderAreThisUsersAlone) {
  EXPECT_EQ(objection_to_folder(open_folder(folder_), "scratch"), std::nullopt);
  ASSERT_TRUE(make_private_folder(folder_ / "private"));
  EXPECT_TRUE(make_private_folder(folder_ / "private")) << "it is there";
  EXPECT_FALSE(make_private_folder(folder_ / "none" / "private"));
  EXPECT_EQ(objection_to_folder(open_folder(folder_ / "private"), "private"), std::nullopt);
}

}  // namespace
}  // namespace vkfuse::os
