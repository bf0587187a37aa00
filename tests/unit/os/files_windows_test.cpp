// What names and folders of Windows have that no others do.
#include <gtest/gtest.h>

#include <cstdlib>

#include "os/files.hpp"
#include "os/system.hpp"
#include "os/windows.hpp"
#include "support/environment.hpp"
#include "unit/store/fixture.hpp"

#include <aclapi.h>
#include <sddl.h>

namespace vkfuse::os {
namespace {

namespace fs = std::filesystem;

/// Lets a group, by its SID in text form, do everything in a folder; this user, too.
bool let_in(const fs::path& folder, const std::string& sid) {
  PSECURITY_DESCRIPTOR descriptor = nullptr;
  const std::string text = "D:P(A;OICI;FA;;;" + sid + ")(A;OICI;FA;;;OW)";
  if (!::ConvertStringSecurityDescriptorToSecurityDescriptorA(text.c_str(), SDDL_REVISION_1, &descriptor, nullptr))
    return false;
  const bool set = ::SetFileSecurityW(folder.c_str(), DACL_SECURITY_INFORMATION, descriptor) != 0;
  ::LocalFree(descriptor);
  return set;
}

TEST(OsFilesOfWindows, AFolderOfEverybodyIsObjectedTo) {
  const store::test::ScratchFolder folder;
  fs::create_directory(folder.path);
  ASSERT_TRUE(let_in(folder.path, "WD")) << last_failure();
  const auto objection = objection_to_folder(open_folder(folder.path), "shared");
  ASSERT_TRUE(objection.has_value());
  EXPECT_EQ(*objection, "The folder 'shared' lets S-1-1-0 in: others than its owner may write to it.");
  store::Store shared(folder.options());
  EXPECT_NE(shared.off().find("others than its owner may write to it."), std::string::npos) << shared.off();
}

TEST(OsFilesOfWindows, NamesOfAFolderAreNoPathsStreamsOrDevices) {
  const fs::path path = make_scratch_folder("vkfuse-os-").value();
  const Handle folder = open_folder(path);
  { ASSERT_TRUE(create_file_in(folder, "file").is_open()); }
  for (const char* name : {"", ".", "..", "file:stream", "file::$DATA", "a\\b", "a/b"}) {
    EXPECT_FALSE(open_file_in(folder, name).is_open()) << name;
    EXPECT_FALSE(create_file_in(folder, name).is_open()) << name;
  }
  EXPECT_FALSE(open_file_in(folder, "NUL").is_open()) << "a device";
  fs::remove_all(path);
}

TEST(OsFilesOfWindows, TextsAreUtf8) {
  EXPECT_EQ(to_path("k\xc3\xbchl \xe6\xa8\xa1"), fs::path(L"k\u00fchl \u6a21"));
  EXPECT_EQ(to_path("\xff.bin"), fs::path(L"\ufffd.bin"));
  EXPECT_EQ(to_path("cut off \xc3"), fs::path(L"cut off \ufffd"));
  EXPECT_EQ(to_path(""), fs::path());
  const vkfuse::test::Variable unset("VKFUSE_TEST_VARIABLE", std::nullopt);
  EXPECT_EQ(variable("VKFUSE_TEST_VARIABLE"), std::nullopt);
  ASSERT_EQ(::_wputenv_s(L"VKFUSE_TEST_VARIABLE", L"k\u00fchl"), 0);
  EXPECT_EQ(variable("VKFUSE_TEST_VARIABLE"), "k\xc3\xbchl");
}

TEST(OsFilesOfWindows, DevicesAreNoFiles) {
  EXPECT_EQ(size_of_regular(open_file("NUL")), std::nullopt);
  EXPECT_TRUE(write_all(open_in_place("NUL"), {}));
  EXPECT_TRUE(is_pipe_or_device("NUL"));
}

TEST(OsFilesOfWindows, TheStoreIsInTheLocalFolder) {
  const store::test::ScratchFolder folder;
  const fs::path drive_and_path = fs::absolute(folder.path);
  const vkfuse::test::Variable none("VKFUSE_CACHE", std::nullopt);
  {
    const vkfuse::test::Variable local("LOCALAPPDATA", drive_and_path.string());
    EXPECT_EQ(store::Store({}).path(), drive_and_path.string() + "/vkfuse");
    EXPECT_TRUE(fs::is_directory(folder.path / "vkfuse"));
  }
  const vkfuse::test::Variable relative("LOCALAPPDATA", "cache");
  EXPECT_EQ(store::Store({}).off(),
            "There is no place for the kernel store: neither VKFUSE_CACHE nor LOCALAPPDATA names a folder.");
}

}  // namespace
}  // namespace vkfuse::os
