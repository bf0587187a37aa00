// Files that come back as they were, or not at all.
#include <chrono>
#include <thread>

#include "support/environment.hpp"
#include "unit/store/fixture.hpp"

namespace vkfuse::store::test {
namespace {

TEST(StoreEntry, ComesBackForItsOwnKeyAndKind) {
  const auto payload = noise(1000, 1);
  const auto file = encode(Kind::spirv, "a key", payload);
  const auto back = decode(Kind::spirv, "a key", file);
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(std::equal(back->begin(), back->end(), payload.begin(), payload.end()));
  EXPECT_FALSE(decode(Kind::spirv, "another key", file));
  EXPECT_FALSE(decode(Kind::spirv, "a kez", file));
  EXPECT_FALSE(decode(Kind::pipeline, "a key", file));
  ASSERT_TRUE(decode(Kind::probe, "", encode(Kind::probe, "", {})));  // nothing at all is something
}

TEST(StoreEntry, FilesOfTheStoreAreKnownByTheirNames) {
  EXPECT_TRUE(is_file_name(file_name(Kind::spirv, "x")));
  EXPECT_NE(file_name(Kind::spirv, "x"), file_name(Kind::spirv, "y"));
  EXPECT_NE(file_name(Kind::spirv, "x"), file_name(Kind::pipeline, "x"));
  for (const char* other : {"", "notes.txt", "0123456789abcdef", "0123456789abcdef.", "0123456789abcdef.spv",
                            "0123456789ABCDEF.spirv", "0123456789abcdeg.spirv"}) {
    EXPECT_FALSE(is_file_name(other)) << other;
  }
}

TEST(Store, KeepsWhatIsSavedForTheNextOne) {
  const ScratchFolder folder;
  const auto payload = noise(5000, 2);
  {
    Store first(folder.options());
    EXPECT_EQ(first.off(), "");
    EXPECT_FALSE(first.load(Kind::spirv, "key"));
    first.save(Kind::spirv, "key", payload);
    EXPECT_EQ(first.missed(), 1u);
    EXPECT_EQ(first.saved(), 1u);
  }
  Store second(folder.options());
  EXPECT_EQ(second.load(Kind::spirv, "key"), payload);
  second.save(Kind::spirv, "key", noise(10, 3));
  EXPECT_EQ(second.load(Kind::spirv, "key"), noise(10, 3));
  EXPECT_EQ(second.usage().entries, 1u);
  EXPECT_EQ(second.loaded(), 2u);
}

TEST(Store, TenThousandDamagedFilesAreMisses) {
  const ScratchFolder folder;
  Store store(folder.options());
  const std::string key = "glsl " + std::string(300, 'k');
  const auto payload = noise(700, 4);
  store.save(Kind::spirv, key, payload);
  const fs::path path = folder.path / file_name(Kind::spirv, key);
  const auto whole = read(path);
  ASSERT_EQ(store.load(Kind::spirv, key), payload);
  for (std::uint64_t seed = 1; seed <= 10'000; ++seed) {
    write(path, damaged(whole, seed));
    ASSERT_FALSE(store.load(Kind::spirv, key)) << "damage " << seed << " was not noticed";
  }
  store.save(Kind::spirv, key, payload);  // over the damaged one
  EXPECT_EQ(store.load(Kind::spirv, key), payload);
}

TEST(Store, AnotherEntryUnderItsNameIsAMiss) {
  const ScratchFolder folder;
  Store store(folder.options());
  store.save(Kind::spirv, "a", noise(100, 5));
  store.save(Kind::spirv, "b", noise(100, 6));
  fs::rename(folder.path / file_name(Kind::spirv, "a"), folder.path / file_name(Kind::spirv, "b"));
  EXPECT_FALSE(store.load(Kind::spirv, "b"));
}

TEST(Store, WhatIsNoFileIsAMiss) {
  const ScratchFolder folder;
  Store store(folder.options());
  const fs::path path = folder.path / file_name(Kind::spirv, "key");
  fs::create_directory(path);
  EXPECT_FALSE(store.load(Kind::spirv, "key"));
  store.save(Kind::spirv, "key", noise(10, 7));
  EXPECT_FALSE(store.load(Kind::spirv, "key"));
}

TEST(Store, IsOffAndSaysWhy) {
  const ScratchFolder folder;
  StoreOptions none = folder.options();
  none.enabled = false;
  EXPECT_EQ(Store(none).off(), "The kernel store is switched off by an option.");
  const vkfuse::test::Variable off("VKFUSE_CACHE", "off");
  EXPECT_EQ(Store({}).off(), "The kernel store is switched off by VKFUSE_CACHE.");
  EXPECT_EQ(Store(folder.options()).off(), "");  // an option counts before the environment

  write(folder.path / "file", {});
  const Store in_file({true, (folder.path / "file" / "store").string()});
  EXPECT_NE(in_file.off().find("store' could not be"), std::string::npos) << in_file.off();
}

TEST(Store, TheLeastRecentlyUsedGo) {
  const ScratchFolder folder;
  Store store(folder.options(100'000));
  for (int i = 0; i < 300; ++i) {
    store.save(Kind::spirv, "key " + std::to_string(i), noise(1000, 11));
    EXPECT_TRUE(store.load(Kind::spirv, "key 0")) << "used after every save, and gone after " << i;
    ASSERT_LE(store.usage().bytes, 100'000u + 100'000u / 16 + 2000);
    std::this_thread::sleep_for(std::chrono::microseconds(20));  // files' times are the kernel's
  }
  EXPECT_TRUE(store.load(Kind::spirv, "key 299"));
  EXPECT_FALSE(store.load(Kind::spirv, "key 1"));
  EXPECT_GT(store.usage().bytes, 50'000u);
  store.save(Kind::spirv, "large", noise(30'000, 12));  // would push out a quarter of the rest
  EXPECT_FALSE(store.load(Kind::spirv, "large"));
}

TEST(Store, ClearingLeavesOtherFilesAlone) {
  const ScratchFolder folder;
  Store store(folder.options());
  for (int i = 0; i < 5; ++i) store.save(Kind::probe, std::to_string(i), noise(10, 13));
  write(folder.path / "notes.txt", noise(10, 14));
  write(folder.path / "vkfuse-1-2-3.tmp", noise(10, 15));  // of a process that died
  EXPECT_EQ(store.clear().entries, 5u);
  EXPECT_EQ(store.usage().bytes, 0u);
  EXPECT_TRUE(fs::exists(folder.path / "notes.txt"));
  EXPECT_FALSE(fs::exists(folder.path / "vkfuse-1-2-3.tmp"));
}

}  // namespace
}  // namespace vkfuse::store::test
