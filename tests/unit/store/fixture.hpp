// A folder of its own for every test, which is gone afterwards.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "os/system.hpp"
#include "store/store.hpp"

namespace vkfuse::store::test {

namespace fs = std::filesystem;

/// In memory where there is such a place: these tests make tens of thousands of files.
inline fs::path scratch() {
  return fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::path(::testing::TempDir());
}

struct ScratchFolder {
  ScratchFolder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path = scratch() / (std::string("vkfuse-store-") + test->name() + "-" + std::to_string(os::process_id()));
    fs::remove_all(path);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] StoreOptions options(std::uint64_t limit = std::uint64_t{256} << 20) const {
    return {true, path.string(), limit};
  }

  fs::path path;
};

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Bytes that look like a file's, the same for the same seed.
inline std::vector<std::byte> noise(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>((seed = seed * 6364136223846793005U + 1442695040888963407U) >> 56);
  return bytes;
}

inline std::vector<std::byte> read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return bytes_of(text);
}

inline void write(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

/// One damage of many kinds, of what may happen to a file: never the file itself.
inline std::vector<std::byte> damaged(const std::vector<std::byte>& file, std::uint64_t seed) {
  std::vector<std::byte> changed = file;
  const auto random = [&seed](std::size_t below) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>((seed >> 33) % below);
  };
  // Half of all damage is done to the first bytes, where lengths are.
  const std::size_t reach = random(2) == 0 ? std::min<std::size_t>(64, file.size()) : file.size();
  switch (random(8)) {
    case 0: changed[random(reach)] ^= static_cast<std::byte>(1U << random(8)); break;
    case 1: changed.resize(random(file.size())); break;
    case 2: changed.resize(file.size() + 1 + random(100)); break;
    case 3: std::fill_n(changed.begin() + static_cast<std::ptrdiff_t>(random(reach)), 1, std::byte{0xFF}); break;
    case 4: {  // a length that is huge, or wraps around when another is added
      const std::uint64_t huge = ~std::uint64_t{0} - random(64);
      std::memcpy(changed.data() + 16 + 8 * random(2), &huge, sizeof huge);
      break;
    }
    case 5:
      std::fill(changed.begin() + static_cast<std::ptrdiff_t>(random(reach)), changed.end(), std::byte{0});
      break;  // a torn page
    case 6:
      std::rotate(changed.begin(), changed.begin() + 1 + static_cast<std::ptrdiff_t>(random(file.size() - 1)),
                  changed.end());
      break;
    default: changed = noise(random(2 * file.size()), seed); break;
  }
  if (changed == file) changed.push_back(std::byte{0});
  return changed;
}

}  // namespace vkfuse::store::test
