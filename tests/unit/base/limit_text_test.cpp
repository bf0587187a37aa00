#include "base/limit_text.hpp"

#include <gtest/gtest.h>

namespace vkfuse::test {
namespace {

TEST(LimitText, IsANameAndANumberWithOrWithoutAUnit) {
  const auto number = [](std::string_view text) {
    const auto parsed = parse_limit(text);
    EXPECT_TRUE(parsed.ok()) << text;
    return parsed.ok() ? parsed->second : ~std::uint64_t{0};
  };
  EXPECT_EQ(parse_limit("storage_range=1MiB")->first, "storage_range");
  EXPECT_EQ(number("storage_range=1048576"), 1u << 20);
  EXPECT_EQ(number("storage_range=1MiB"), 1u << 20);
  EXPECT_EQ(number("shared_memory=16KiB"), 16384u);
  EXPECT_EQ(number("max_allocation=3GiB"), std::uint64_t{3} << 30);
  EXPECT_EQ(number("memory=2TiB"), std::uint64_t{2} << 40);
  EXPECT_EQ(number("storage_buffers=0"), 0u) << "whether that is too little is said where the device is opened";
  EXPECT_EQ(number("memory=18446744073709551615"), ~std::uint64_t{0});
  EXPECT_EQ(number("memory=16777215TiB"), std::uint64_t{16777215} << 40);
}

TEST(LimitText, AnythingElseIsQuotedInASentence) {
  for (const char* text :
       {"", "=", "=5", "storage_range", "storage_range=", "storage_range=MiB", "storage_range=1MB", "storage_range=1M",
        "storage_range=1mib", "storage_range=1 MiB", "storage_range=1MiBs", "storage_range=-1", "storage_range=+1",
        "storage_range=0x10", "storage_range=1.5MiB", "storage_range==1", "storage_range=1=1"}) {
    const auto parsed = parse_limit(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().message, "'--limit " + std::string(text) +
                                          "' is not NAME=NUMBER, where KiB, MiB, GiB or TiB may follow the number.");
  }
  for (const char* text : {"memory=18446744073709551616", "memory=16777216TiB", "memory=99999999999999999999KiB"}) {
    const auto parsed = parse_limit(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().message, "'--limit " + std::string(text) + "' is a number that 64 bits do not hold.");
  }
}

}  // namespace
}  // namespace vkfuse::test
