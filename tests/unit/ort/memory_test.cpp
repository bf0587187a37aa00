#include "ort/memory.hpp"

#include <gtest/gtest.h>

#include "support/device.hpp"

namespace vkfuse::ort {
namespace {

using test::device;
using test::must;

TEST(Blocks, AreFoundByEveryAddressInThem) {
  Blocks blocks(nullptr);
  auto* const first = static_cast<std::byte*>(must(blocks.allocate(device(), 10000)));
  auto* const second = static_cast<std::byte*>(must(blocks.allocate(device(), 10000)));
  const auto begin = blocks.find(first), inside = blocks.find(first + 9999), other = blocks.find(second + 256);
  ASSERT_TRUE(begin && inside && other);
  EXPECT_EQ(begin->offset, 0U);
  EXPECT_EQ(inside->offset, 9999U);
  EXPECT_EQ(other->offset, 256U);
  EXPECT_GE(begin->buffer.size(), 10000U);
  EXPECT_EQ(begin->buffer.state(), inside->buffer.state());
  EXPECT_NE(begin->buffer.state(), other->buffer.state());
  EXPECT_FALSE(blocks.find(&blocks));
  EXPECT_FALSE(blocks.find(nullptr));
  blocks.free(first);
  EXPECT_FALSE(blocks.find(first));
  EXPECT_TRUE(blocks.find(second));
  blocks.free(second);
  blocks.free(&blocks);  // nothing of theirs
}

TEST(Blocks, ServeAgainForTheirSizeAlone) {
  Blocks blocks(nullptr);
  void* const small = must(blocks.allocate(device(), 5000));
  blocks.free(small);
  void* const large = must(blocks.allocate(device(), 50000));
  EXPECT_NE(large, small);
  EXPECT_EQ(must(blocks.allocate(device(), 6000)), small);
  EXPECT_GE(blocks.find(large)->buffer.size(), 50000U);
  blocks.free(small);
  blocks.drop_idle();
  EXPECT_TRUE(blocks.find(large));
  blocks.free(large);
}

}  // namespace
}  // namespace vkfuse::ort
