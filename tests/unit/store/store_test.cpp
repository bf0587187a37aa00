// Files that come back as they were, or not at all.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "unit/store/fixture.hpp"

namespace vkfuse::store::test {
namespace {

/// Sets a variable of the environment for the length of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

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
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);  // nobody writes into it: reading would wait
  EXPECT_FALSE(store.load(Kind::spirv, "key"));
  fs::remove(path);
  write(folder.path / "elsewhere", encode(Kind::spirv, "key", noise(10, 7)));
  fs::create_symlink(folder.path / "elsewhere", path);
  EXPECT_FALSE(store.load(Kind::spirv, "key"));
  store.save(Kind::spirv, "key", noise(10, 8));  // in place of the link, not through it
  EXPECT_EQ(store.load(Kind::spirv, "key"), noise(10, 8));
  EXPECT_EQ(read(folder.path / "elsewhere"), encode(Kind::spirv, "key", noise(10, 7)));
}

TEST(Store, IsOffAndSaysWhy) {
  const ScratchFolder folder;
  StoreOptions none = folder.options();
  none.enabled = false;
  EXPECT_EQ(Store(none).off(), "The kernel store is switched off by an option.");
  const Variable off("VKFUSE_CACHE", "off");
  EXPECT_EQ(Store({}).off(), "The kernel store is switched off by VKFUSE_CACHE.");
  EXPECT_EQ(Store(folder.options()).off(), "");  // an option counts before the environment

  write(folder.path / "file", {});
  const Store in_file({true, (folder.path / "file" / "store").string()});
  EXPECT_NE(in_file.off().find("/file/store' could not be"), std::string::npos) << in_file.off();
  fs::permissions(folder.path, fs::perms::others_write, fs::perm_options::add);
  Store shared(folder.options());
  EXPECT_NE(shared.off().find("others than its owner may write to it."), std::string::npos) << shared.off();
  shared.save(Kind::spirv, "key", noise(10, 9));
  EXPECT_FALSE(shared.load(Kind::spirv, "key"));
  EXPECT_EQ(shared.usage().entries, 0u);
  if (::geteuid() == 0) {
    fs::permissions(folder.path, fs::perms::owner_all);
    ASSERT_EQ(::chown(folder.path.c_str(), 12345, 12345), 0);
    EXPECT_NE(Store(folder.options()).off().find("belongs to user 12345"), std::string::npos);
  }
}

TEST(Store, IsWhereTheEnvironmentSays) {
  const ScratchFolder folder;
  const Variable home("HOME", folder.path.c_str());
  const Variable none("VKFUSE_CACHE", nullptr);
  {
    const Variable relative("XDG_CACHE_HOME", "cache");
    EXPECT_EQ(Store({}).path(), (folder.path / ".cache/vkfuse").string());
    EXPECT_EQ(fs::status(folder.path / ".cache/vkfuse").permissions(), fs::perms::owner_all);
  }
  const Variable cache("XDG_CACHE_HOME", (folder.path / "xdg").c_str());
  EXPECT_EQ(Store({}).path(), (folder.path / "xdg/vkfuse").string());
  const Variable own("VKFUSE_CACHE", (folder.path / "own").c_str());
  EXPECT_EQ(Store({}).path(), (folder.path / "own").string());
  const Variable nowhere("VKFUSE_CACHE", nullptr), no_cache("XDG_CACHE_HOME", nullptr), no_home("HOME", nullptr);
  EXPECT_EQ(Store({}).off(),
            "There is no place for the kernel store: neither VKFUSE_CACHE nor XDG_CACHE_HOME nor HOME names a folder.");
}

TEST(Store, AFolderThatVanishesIsNoError) {
  const ScratchFolder folder;
  Store store(folder.options());
  store.save(Kind::spirv, "key", noise(10, 10));
  fs::remove_all(folder.path);
  EXPECT_FALSE(store.load(Kind::spirv, "key"));
  store.save(Kind::spirv, "key", noise(10, 10));
  EXPECT_EQ(store.saved(), 1u);
  EXPECT_EQ(store.usage().entries, 0u);
}

/// What `done` says in a process of its own, whose limits and user are its own too; empty if it says nothing and ends.
template <typename F>
std::string in_child(const F& done) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string said = done();
    static_cast<void>(!::write(ends[1], said.data(), said.size()));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said(1000, '\0');
  said.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ends[0], said.data(), said.size()))));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? said : "The process died.";
}

TEST(Store, AFullDiskKeepsWhatWasThereAndLeavesNothingBehind) {
  const ScratchFolder folder;
  Store store(folder.options());
  store.save(Kind::spirv, "key", noise(1000, 20));
  EXPECT_EQ(in_child([&]() -> std::string {
              // Writing stops in the middle of a file, as where a disk is full.
              ::signal(SIGXFSZ, SIG_IGN);
              const rlimit least{3000, 3000};
              if (::setrlimit(RLIMIT_FSIZE, &least) != 0) return "no limit";
              store.save(Kind::spirv, "key", noise(5000, 21));
              store.save(Kind::spirv, "another", noise(5000, 22));
              if (store.saved() != 1) return "It says that it has saved them.";
              if (store.load(Kind::spirv, "key") != noise(1000, 20)) return "What was there is gone.";
              if (store.load(Kind::spirv, "another")) return "Half a file is loaded.";
              if (std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) != 1)
                return "Something is left behind.";
              store.save(Kind::spirv, "another", noise(2000, 23));
              return store.load(Kind::spirv, "another") == noise(2000, 23) ? "" : "What has room is not saved.";
            }),
            "");
}

TEST(Store, AReadOnlyFolderIsReadAndNotWritten) {
  const ScratchFolder folder;
  Store(folder.options()).save(Kind::spirv, "key", noise(1000, 24));
  const fs::path file = folder.path / file_name(Kind::spirv, "key");
  constexpr uid_t kSomebody = 12345;
  if (::geteuid() == 0) {  // who may write everywhere
    ASSERT_EQ(::chown(folder.path.c_str(), kSomebody, kSomebody), 0);
    ASSERT_EQ(::chown(file.c_str(), kSomebody, kSomebody), 0);
  }
  ASSERT_EQ(::chmod(file.c_str(), 0400), 0);
  ASSERT_EQ(::chmod(folder.path.c_str(), 0500), 0);
  EXPECT_EQ(in_child([&]() -> std::string {
              if (::geteuid() == 0 && ::setuid(kSomebody) != 0) return "no other user";
              Store store(folder.options());
              if (!store.off().empty()) return store.off();
              if (store.load(Kind::spirv, "key") != noise(1000, 24)) return "What is there is not loaded.";
              store.save(Kind::spirv, "key", noise(1000, 25));
              store.save(Kind::spirv, "another", noise(1000, 26));
              if (store.saved() != 0 || store.load(Kind::spirv, "another")) return "It says that it has saved them.";
              return store.load(Kind::spirv, "key") == noise(1000, 24) ? "" : "It was changed.";
            }),
            "");
  ::chmod(folder.path.c_str(), 0700);
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

/// What belongs to key `key` in round `round`: the first bytes say which, the rest follows from them.
std::vector<std::byte> payload_of(std::uint64_t key, std::uint64_t round) {
  auto bytes = noise(3000 + 500 * static_cast<std::size_t>(round % 7), 1000 * key + round);
  std::memcpy(bytes.data(), &key, 8);
  std::memcpy(bytes.data() + 8, &round, 8);
  return bytes;
}

/// Reads and writes 20 keys over and over; the number of files that were whole and wrong, or torn.
int fill(const StoreOptions& options, std::uint64_t process) {
  Store store(options);
  int bad = 0;
  for (std::uint64_t round = 0; round < 200; ++round) {
    const std::uint64_t key = (round + process) % 20;
    store.save(Kind::spirv, std::to_string(key), payload_of(key, 10 * round + process));
    const std::uint64_t other = (7 * round + process) % 20;
    const auto missed = store.missed();
    const auto got = store.load(Kind::spirv, std::to_string(other));
    if (!got) {
      bad += store.missed() != missed &&
             fs::exists(fs::path(options.folder) / file_name(Kind::spirv, std::to_string(other)));
      continue;
    }
    std::uint64_t of_round = 0;
    std::memcpy(&of_round, got->data() + 8, 8);
    bad += *got != payload_of(other, of_round);
  }
  return bad;
}

TEST(Store, EightProcessesFillItAtOnce) {
  const ScratchFolder folder;
  for (std::uint64_t key = 0; key < 20; ++key)
    Store(folder.options()).save(Kind::spirv, std::to_string(key), payload_of(key, 0));
  std::vector<pid_t> children;
  for (std::uint64_t process = 0; process < 8; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(std::min(fill(folder.options(), process), 100));
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "a process saw " << WEXITSTATUS(status) << " torn files, or died";
  }
  Store store(folder.options());
  for (std::uint64_t key = 0; key < 20; ++key) EXPECT_TRUE(store.load(Kind::spirv, std::to_string(key)));
  EXPECT_EQ(store.usage().entries, 20u);
  for (const auto& entry : fs::directory_iterator(folder.path))
    EXPECT_TRUE(is_file_name(entry.path().filename().string())) << entry.path();
}

}  // namespace
}  // namespace vkfuse::store::test
