// Numbers that depend on sizes, in texts that serve many of them.
#include <gtest/gtest.h>

#include "kernel/numbers.hpp"
#include "kernel/printer.hpp"

namespace vkfuse::lowering {
namespace {

struct Text {
  Code code;
  std::vector<Relocation> relocations;
};

/// Rows of `n` elements in tiles of 16, at a stride of 8.
Text text_at(std::int64_t n, std::int64_t stride = 8) {
  Numbers numbers(true);
  Text made;
  made.code = code("uint row = {};\nuint tile = {};\nuint at = row * {} + {};\n", numbers.remainder("i", n, false),
                   numbers.quotient(numbers.quotient("i", n, false), 16, false), numbers.size(stride), numbers.size(n));
  made.relocations = numbers.relocations();
  return made;
}

std::string printed(const Text& text, const SizeBinding* sizes) { return Printer({}, sizes).text(text.code); }

TEST(Numbers, WhatTwoSizesAgreeOnIsALiteral) {
  const Text one = text_at(521), other = text_at(331);
  ASSERT_EQ(printed(one, nullptr), printed(other, nullptr));
  const auto size_binding = SizeBinding::shared(one.relocations, other.relocations, 8);
  ASSERT_TRUE(size_binding);
  EXPECT_EQ(printed(one, &*size_binding),
            "uint row = i - quotient(i, p.magic0, p.shift0) * p.size0;\nuint tile = (quotient(i, p.magic0, p.shift0)) "
            "/ 16u;\nuint at = row * 8u + p.size0;\n");
  const auto words = size_binding->words_for(text_at(100).relocations);
  ASSERT_TRUE(words);
  EXPECT_EQ(words->front(), 100u);
}

TEST(Numbers, DivisorsThat32BitsDoNotHoldAreAboveAllPositions) {
  const std::int64_t large = std::int64_t{3} << 32;
  const Text one = text_at(521), other = text_at(331), at_large = text_at(large);
  const auto size_binding = SizeBinding::shared(one.relocations, other.relocations, 8);
  ASSERT_TRUE(size_binding);
  const auto words = size_binding->words_for(at_large.relocations),
             most = size_binding->words_for(text_at(0xffffffff).relocations);
  ASSERT_TRUE(words && most);
  for (const std::size_t word : {1U, 2U}) EXPECT_EQ((*words)[word], (*most)[word]) << "magic number and shift";
  const SizeBinding no_room = SizeBinding::alone(at_large.relocations, 0);
  EXPECT_NE(printed(at_large, &no_room).find("i % 4294967295u"), std::string::npos) << printed(at_large, &no_room);
}

TEST(Numbers, ATextServesNoSizesAtWhichALiteralWouldDiffer) {
  const Text one = text_at(521), other = text_at(331);
  const auto size_binding = SizeBinding::shared(one.relocations, other.relocations, 8);
  ASSERT_TRUE(size_binding);
  EXPECT_TRUE(size_binding->words_for(text_at(8).relocations)) << "equal to a literal by chance, which does no harm";
  EXPECT_FALSE(size_binding->words_for(text_at(100, 9).relocations));
}

TEST(Numbers, ATextServesNoSizesAtWhichOneNumberWouldBeTwo) {
  const auto relocations = [](std::int64_t a, std::int64_t b) {
    return std::vector<Relocation>{{a, 's', false}, {b, 's', false}};
  };
  const auto size_binding = SizeBinding::shared(relocations(521, 521), relocations(331, 331), 8);
  ASSERT_TRUE(size_binding);
  EXPECT_TRUE(size_binding->words_for(relocations(7, 7)));
  EXPECT_FALSE(size_binding->words_for(relocations(7, 8)));
}

TEST(Numbers, WithoutRoomThereIsNoSharedText) {
  const Text one = text_at(521), other = text_at(331);
  EXPECT_FALSE(SizeBinding::shared(one.relocations, other.relocations, 2));
  EXPECT_TRUE(SizeBinding::shared(one.relocations, other.relocations, 3));
  const SizeBinding alone = SizeBinding::alone(one.relocations, 0);
  EXPECT_EQ(printed(one, &alone),
            "uint row = i % 521u;\nuint tile = ((i / 521u)) / 16u;\nuint at = row * 8u + 521u;\n");
}

TEST(Numbers, DivisionsAreOfTheNumberThatIsPassed) {
  for (const std::int64_t d : {1, 2, 3, 7, 64, 300, 1023, 65537}) {
    Numbers numbers(true);
    static_cast<void>(numbers.quotient("i", d, false));
    const auto words = SizeBinding::alone(numbers.relocations(), 8).words_for(numbers.relocations());
    ASSERT_TRUE(words);
    ASSERT_EQ(words->size(), 2u);
    const std::uint64_t magic = (*words)[0], shift = (*words)[1];
    for (std::uint64_t i = 0; i < 100000; ++i)
      ASSERT_EQ(((i << 1) * magic >> 32) >> shift, i / static_cast<std::uint64_t>(d)) << i << " / " << d;
  }
}

}  // namespace
}  // namespace vkfuse::lowering
