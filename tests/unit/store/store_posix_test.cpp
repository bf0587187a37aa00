// The store where there are processes that fork, links, pipes, modes and other users.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support/environment.hpp"
#include "unit/store/fixture.hpp"

namespace vkfuse::store::test {
namespace {

TEST(Store, APipeOrALinkIsAMiss) {
  const ScratchFolder folder;
  Store store(folder.options());
  const fs::path path = folder.path / file_name(Kind::spirv, "key");
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

TEST(Store, IsOffInAFolderOfOthers) {
  const ScratchFolder folder;
  ASSERT_EQ(Store(folder.options()).off(), "");
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
  const vkfuse::test::Variable home("HOME", folder.path.string());
  const vkfuse::test::Variable none("VKFUSE_CACHE", std::nullopt);
  {
    const vkfuse::test::Variable relative("XDG_CACHE_HOME", "cache");
    EXPECT_EQ(Store({}).path(), (folder.path / ".cache/vkfuse").string());
    EXPECT_EQ(fs::status(folder.path / ".cache/vkfuse").permissions(), fs::perms::owner_all);
  }
  const vkfuse::test::Variable cache("XDG_CACHE_HOME", (folder.path / "xdg").string());
  EXPECT_EQ(Store({}).path(), (folder.path / "xdg/vkfuse").string());
  const vkfuse::test::Variable own("VKFUSE_CACHE", (folder.path / "own").string());
  EXPECT_EQ(Store({}).path(), (folder.path / "own").string());
  const vkfuse::test::Variable nowhere("VKFUSE_CACHE", std::nullopt), no_cache("XDG_CACHE_HOME", std::nullopt),
      no_home("HOME", std::nullopt);
  EXPECT_EQ(Store({}).off(),
            "There is no place for the kernel store: neither VKFUSE_CACHE nor XDG_CACHE_HOME nor HOME names a folder.");
}

/// On Windows an open folder stays until it is closed.
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
