// Numbers that depend on sizes, in texts that serve many of them.
#include <gtest/gtest.h>

#include "codegen/numbers.hpp"

namespace vkfuse::codegen {
namespace {

struct Text {
  std::string text;
  std::vector<Place> places;
};

/// Rows of `n` elements in tiles of 16, at a stride of 8.
Text text_at(std::int64_t n, std::int64_t stride = 8) {
  Numbers numbers(true);
  Text made;
  made.text = "uint row = " + numbers.remainder("i", n, false) +
              ";\nuint tile = " + numbers.quotient(numbers.quotient("i", n, false), 16, false) + ";\nuint at = row * " +
              numbers.size(stride) + " + " + numbers.size(n) + ";\n";
  made.places = numbers.places();
  return made;
}

TEST(Numbers, WhatTwoSizesAgreeOnIsALiteral) {
  const Text one = text_at(521), other = text_at(331);
  ASSERT_EQ(one.text, other.text);
  const auto filling = Filling::shared(one.places, other.places, 8);
  ASSERT_TRUE(filling);
  EXPECT_EQ(filling->fill(one.text),
            "uint row = i - quotient(i, p.magic0, p.shift0) * p.size0;\nuint tile = (quotient(i, p.magic0, p.shift0)) "
            "/ 16u;\nuint at = row * 8u + p.size0;\n");
  const auto words = filling->words_for(text_at(100).places);
  ASSERT_TRUE(words);
  EXPECT_EQ(words->front(), 100u);
}

TEST(Numbers, ATextServesNoSizesAtWhichALiteralWouldDiffer) {
  const Text one = text_at(521), other = text_at(331);
  const auto filling = Filling::shared(one.places, other.places, 8);
  ASSERT_TRUE(filling);
  EXPECT_TRUE(filling->words_for(text_at(8).places)) << "equal to a literal by chance, which does no harm";
  EXPECT_FALSE(filling->words_for(text_at(100, 9).places));
}

TEST(Numbers, ATextServesNoSizesAtWhichOneNumberWouldBeTwo) {
  const auto places = [](std::int64_t a, std::int64_t b) {
    return std::vector<Place>{{a, 's', false}, {b, 's', false}};
  };
  const auto filling = Filling::shared(places(521, 521), places(331, 331), 8);
  ASSERT_TRUE(filling);
  EXPECT_TRUE(filling->words_for(places(7, 7)));
  EXPECT_FALSE(filling->words_for(places(7, 8)));
}

TEST(Numbers, WithoutRoomThereIsNoSharedText) {
  const Text one = text_at(521), other = text_at(331);
  EXPECT_FALSE(Filling::shared(one.places, other.places, 2));
  EXPECT_TRUE(Filling::shared(one.places, other.places, 3));
  const Filling alone = Filling::alone(one.places, 0);
  EXPECT_EQ(alone.fill(one.text),
            "uint row = i % 521u;\nuint tile = ((i / 521u)) / 16u;\nuint at = row * 8u + 521u;\n");
}

TEST(Numbers, DivisionsAreOfTheNumberThatIsPassed) {
  for (const std::int64_t d : {1, 2, 3, 7, 64, 300, 1023, 65537}) {
    Numbers numbers(true);
    static_cast<void>(numbers.quotient("i", d, false));
    const auto words = Filling::alone(numbers.places(), 8).words_for(numbers.places());
    ASSERT_TRUE(words);
    ASSERT_EQ(words->size(), 2u);
    const std::uint64_t magic = (*words)[0], shift = (*words)[1];
    for (std::uint64_t i = 0; i < 100000; ++i)
      ASSERT_EQ(((i << 1) * magic >> 32) >> shift, i / static_cast<std::uint64_t>(d)) << i << " / " << d;
  }
}

}  // namespace
}  // namespace vkfuse::codegen
