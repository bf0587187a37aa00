// What is known of code when it is joined, and what its symbols become.
#include "kernel/code.hpp"

#include <gtest/gtest.h>

#include "kernel/printer.hpp"
#include "kernel/writer.hpp"

namespace vkfuse::lowering {
namespace {

std::string printed(const Code& code, bool of_part = false) { return Printer({}, nullptr, of_part).text(code); }

// Code has no member that returns its text, so that nothing can be searched for
// in it.
template <typename T>
concept Readable = requires(const T& code) {
  std::string_view(code);
}
|| requires(const T& code) { code.text(); }
|| requires(const T& code) { code.find("x"); }
|| requires(const T& code) { code == code; };
static_assert(!Readable<Code>);
static_assert(!Readable<Writer>);

TEST(Code, FormatsJoinCodeAndNumbers) {
  const Code sum = code("{} + {}u", "a", 3);
  EXPECT_EQ(printed(code("{{{0}}} {1:08x} {0}", sum, 10)), "{a + 3u} 0000000a a + 3u");
}

TEST(Code, OnlyWhatIsMoreThanAWordIsPutInParentheses) {
  EXPECT_EQ(printed(Code("a").parenthesised()), "a");
  EXPECT_EQ(printed(code("{} + {}", "a", "b").parenthesised()), "(a + b)");
  EXPECT_FALSE(Code("-a").is_primary());
  EXPECT_TRUE(Code("a[0]").is_primary());
}

TEST(Code, NeedsAreThoseOfAllParts) {
  const Code shuffled = code("subgroupShuffleXor({}, 1u)", "x");
  Writer out;
  out.open("void main() {{");
  out.line("float y = {} + {};", shuffled, "gl_SubgroupSize");
  out.close();
  const Code all = out.take();
  EXPECT_TRUE(all.needs(Need::shuffles));
  EXPECT_TRUE(all.needs(Need::subgroups));
  EXPECT_FALSE(all.needs(Need::matrices));
  EXPECT_TRUE(code("{} y;", Code("coopmat<float16_t>").needing(Need::float16)).needs(Need::float16));
}

TEST(Code, PreludeFunctionsAreThoseThatAreCalled) {
  const Code calls = code("{}_add_term(a, b, c); y = {}({}); float f16_value = 1.0;", "f32", "f32_is_nan", "x");
  EXPECT_EQ(calls.prelude_calls(), (std::vector<std::string_view>{"f32_add_term", "f32_is_nan"}))
      << "a word of two pieces is one word, and a variable is no call";
}

TEST(Code, CoordinatesAreWordsAndNoComponents) {
  EXPECT_TRUE(code("{} + 1u", "row").uses("row"));
  EXPECT_TRUE(Code("row").uses("row"));
  EXPECT_FALSE(Code("p.row + arrow + row_at").uses("row"));
  EXPECT_FALSE(code("first_{} + 1u", Code("row")).uses("row"));
}

TEST(Code, WhatIsKnownOfAConditionEndsWhereItIsJoined) {
  EXPECT_TRUE(Code::always().is_always());
  EXPECT_TRUE(code("{}", Code::zero()).is_zero());
  EXPECT_FALSE((Code::always() + " && x").is_always());
}

TEST(Code, APatternPutsOperandsInParenthesesWhereTheyNeedThem) {
  const Code operands[] = {code("{} + {}", "a", "b"), "-c"};
  const FunctionForm forms[] = {{"f32_min(", "f32_min_bits(p.chunks, "}};
  EXPECT_EQ(printed(fill_pattern("{0} * {1}", operands)), "(a + b) * (-c)");
  EXPECT_EQ(printed(fill_pattern("f32_min({0}, {1})", operands, forms)), "f32_min_bits(p.chunks, a + b, -c)");
}

TEST(Code, AFunctionWhoseNameEndsLikeAnothersKeepsItsForm) {
  const Code operands[] = {"a", "b"};
  const FunctionForm forms[] = {{"f32_min(", "f32_min_bits(p.chunks, "}};
  EXPECT_EQ(printed(fill_pattern("packed_f32_min({0}, {1})", operands, forms)), "packed_f32_min(a, b)");
}

TEST(Code, APartOfADispatchCountsItsWorkgroupsFromItsFirst) {
  const Code at = code("uint at = {}.x;", "gl_WorkGroupID");
  EXPECT_EQ(printed(at), "uint at = gl_WorkGroupID.x;");
  EXPECT_EQ(printed(at, true), "uint at = (gl_WorkGroupID + uvec3(p.base_x, p.base_y, 0u)).x;");
  EXPECT_NE(printed(Code::symbol(Symbol::Kind::declarations), true).find("base_y"), std::string::npos);
}

}  // namespace
}  // namespace vkfuse::lowering
