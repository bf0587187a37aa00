// Names of kernels: which may be equal, and how a kernel is printed with those of a graph or with those of an order.
#include "kernel/names.hpp"

#include <gtest/gtest.h>

#include "kernel/printer.hpp"
#include "kernel/writer.hpp"
#include "support/hidden_names.hpp"

namespace vkfuse::lowering {
namespace {

std::string printed(const Names& names, const Code& code, Naming naming = Naming::of_graph) {
  return Printer(names.texts(naming, code), nullptr).text(code);
}

TEST(Names, AKernelIsPrintedWithEitherNames) {
  Names names;
  const Code x = names.given("in_x", "v0");
  const Code at = names.unique(x + "_at"), again = names.unique(x + "_at");
  const Code line = code("{} = {}[{}];", at, x, again);
  EXPECT_EQ(printed(names, line), "in_x_at = in_x[in_x_at1];");
  EXPECT_EQ(printed(names, line, Naming::by_order), "v0_at = v0[v0_at1];");
}

TEST(Names, AGivenNameIsNotGivenAgain) {
  Names names;
  const Code sum = names.unique("sum");
  const Code line = code("{} = {};", sum, names.given("sum", "v0"));
  EXPECT_EQ(printed(names, line), "sum1 = sum;");
  EXPECT_EQ(printed(names, line, Naming::by_order), "sum = v0;");
}

TEST(Names, AVariableOfTheVocabularyIsAvoidedWhereTheKernelHasIt) {
  Names names;
  const Code row = names.unique("row");
  EXPECT_EQ(printed(names, code("uint {};", row)), "uint row;");
  EXPECT_EQ(printed(names, code("uint {} = row + 1u;", row)), "uint row1 = row + 1u;");
  EXPECT_EQ(printed(names, code("uint {} = at.row;", row)), "uint row = at.row;") << "a component is no variable";
}

/// Two blocks beside each other, and what surrounds them.
struct TwoBlocks {
  Names names;
  Code first = names.unique("q"), second = names.unique("q"), around = names.unique("q");
  Writer out;

  Code code(bool uses_around) {
    out.open("void f() {{");
    if (uses_around) out.line("uint {} = 0u;", around);
    for (const Code& own : {first, second}) {
      out.open("if (b) {{");
      out.line("uint {} = 1u;", own);
      out.close();
    }
    out.close();
    return out.take();
  }
};

TEST(Names, BlocksBesideEachOtherMayHaveTheSameName) {
  TwoBlocks blocks;
  EXPECT_EQ(printed(blocks.names, blocks.code(false)),
            "void f() {\n  if (b) {\n    uint q = 1u;\n  }\n  if (b) {\n    uint q = 1u;\n  }\n}\n");
}

TEST(Names, ABlockHasNoNameOfTheBlockAroundIt) {
  TwoBlocks blocks;
  const std::string text = printed(blocks.names, blocks.code(true));
  EXPECT_NE(text.find("uint q1 = 0u"), std::string::npos) << text;
  EXPECT_EQ(test::hidden_names(text), std::vector<std::string>()) << text;
}

TEST(Names, ANameThatSeveralBlocksUseIsOfTheBlockAroundThem) {
  Names names;
  const Code shared = names.unique("q"), own = names.unique("q");
  const Code text = code("{{ {{ {}; }} {{ {}; }} {{ {}; }} }}", shared, shared, own);
  EXPECT_EQ(printed(names, text), "{ { q; } { q; } { q1; } }");
}

TEST(Names, OperandsOfDivisionsAreUses) {
  Names names;
  const Code inner = names.unique("q"), outer = names.unique("q");
  const Code quotient = Code::division(Symbol::Kind::quotient, inner, 3);
  EXPECT_EQ(printed(names, code("{}; {{ {}; }}", outer, quotient)), "q1; { #3(q); }");
}

TEST(HiddenNames, AreThoseThatAreDeclaredWhereAnotherIsVisible) {
  using Hidden = std::vector<std::string>;
  EXPECT_EQ(test::hidden_names("void f(float x) { float y = x; } void g(float x) { if (a(x)) { uint y; } }"), Hidden());
  EXPECT_EQ(test::hidden_names("void f(float x) { float x = 1.0; }"), Hidden{"x"});
  EXPECT_EQ(test::hidden_names("for (uint e = 0u; e < 3u; ++e) { if (c) { uvec4 e[2]; } }"), Hidden{"e"});
  EXPECT_EQ(test::hidden_names("void f(uint row) { uint row = 1u; }"), Hidden()) << "of the vocabulary";
  EXPECT_EQ(test::hidden_names("shared float s[4];\nvoid main() { // float t;\n  float t; bool s; }"), Hidden{"s"});
}

}  // namespace
}  // namespace vkfuse::lowering
