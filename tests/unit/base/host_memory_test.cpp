#include "base/host_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "os/system.hpp"

namespace vkfuse {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

std::vector<std::byte> counted(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 4096);
  return bytes;
}

TEST(HostBytes, AreCopiedWhole) {
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, 4 * kMebibyte - 1, 8 * kMebibyte, 37 * kMebibyte + 5}) {
    const std::vector<std::byte> from = counted(count);
    std::vector<std::byte> to(count + 64, std::byte{0xc3});
    copy_bytes(from, to.data());
    EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin())) << count;
    EXPECT_EQ(std::count(to.end() - 64, to.end(), std::byte{0xc3}), 64) << count;
  }
}

TEST(HostBytes, KeepWhatIsInThemWhenTheyArePrepared) {
  for (const std::size_t count : {std::size_t{0}, 3 * kMebibyte, 5 * kMebibyte + 3, 70 * kMebibyte + 1}) {
    std::vector<std::byte> bytes = counted(count);
    prepare_memory(bytes.data(), bytes.size());
    EXPECT_TRUE(bytes == counted(count)) << count;
    const std::vector<std::byte> zeros = zero_bytes(count);
    EXPECT_EQ(zeros.size(), count);
    EXPECT_TRUE(std::ranges::all_of(zeros, [](std::byte one) { return one == std::byte{0}; })) << count;
  }
}

TEST(Addresses, AreReservedForOneAlone) {
  constexpr std::size_t kBytes = std::size_t{1} << 34;  // more than some machines have: there is no memory at them
  void* const first = os::reserve_addresses(kBytes);
  void* const second = os::reserve_addresses(kBytes);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  const auto a = reinterpret_cast<std::uintptr_t>(first), b = reinterpret_cast<std::uintptr_t>(second);
  EXPECT_EQ(a % 4096, 0U);
  EXPECT_GE(a > b ? a - b : b - a, kBytes);
  os::release_addresses(first, kBytes);
  os::release_addresses(second, kBytes);
}

}  // namespace
}  // namespace vkfuse
