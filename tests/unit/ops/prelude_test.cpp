// The prelude gives what is called, in an order that compiles, and nothing else.
#include <gtest/gtest.h>

#include "ops/op.hpp"
#include "spirv/compile.hpp"

namespace vkfuse::ops {
namespace {

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(PreludeTest, IsEmptyForTextThatCallsNothingOfIt) {
  EXPECT_EQ(prelude_for("float f32_sin = 1.0; float y = sqrt(x) + max(f32_sin, 2.0);"), "");
}

TEST(PreludeTest, GivesDependenciesFirstAndOnce) {
  const std::string text = prelude_for("y = f32_sigmoid(x) + f32_sigmoid(z);");
  EXPECT_EQ(count(text, "float f32_sigmoid(float x) {"), 1u);
  EXPECT_EQ(count(text, "float f32_exp_times("), 1u);
  EXPECT_LT(text.find("float f32_power_of_two("), text.find("float f32_scale("));
  EXPECT_LT(text.find("float f32_scale("), text.find("float f32_exp_times("));
  EXPECT_LT(text.find("float f32_exp_times("), text.find("float f32_sigmoid("));
  EXPECT_EQ(text.find("f32_sin"), std::string::npos);
}

TEST(PreludeTest, KeepsTheCommentOfAFunction) {
  EXPECT_EQ(prelude_for("u32_div(a, b)"),
            "// x / 0 is 0.\nuint u32_div(uint x, uint y) {\n  uint quotient = x / max(y, 1u);\n  return y == 0u ? 0u "
            ": quotient;\n}\n");
}

/// Every expression of one dtype and form as a compute shader.
std::string shader_for(DType dtype, bool native) {
  const std::string operands[] = {"x0", "x1", "x2"};
  const std::string selected[] = {"c", "x1", "x2"};
  const std::string type(glsl_type(register_type_of(dtype), native));
  std::string body;
  for (const OpRow& each : table()) {
    if (each.cls != OpClass::elementwise || (each.types & bit(dtype)) == 0) continue;
    const bool compares = each.signature == Signature::compare;
    const std::string value =
        expression(each, dtype, native, each.signature == Signature::select ? selected : operands);
    body += "  " + (compares ? "bool" : type) + " " + std::string(each.name) +
            "_of = " + (compares ? value : narrow(dtype, value)) + ";\n";
  }
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto to = static_cast<DType>(i);
    body += "  " + std::string(glsl_type(register_type_of(to), native)) + " to_" + std::string(name_of(to)) + " = " +
            cast_expression(dtype, to, native, "x0") + ";\n";
  }
  const std::string extension = native ? "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n" : "";
  const std::string members = "  " + (type == "bool" ? "uint" : type) + " given[];\n";
  std::string loads;
  for (int k = 0; k < 3; ++k) {
    const std::string element = "given[" + std::to_string(k) + "]";
    loads += "  " + type + " " + operands[k] + " = " + (type == "bool" ? element + " != 0u" : element) + ";\n";
  }
  return "#version 450\n" + extension + "layout(local_size_x = 1) in;\nlayout(binding = 0) buffer Given {\n" + members +
         "};\n" + prelude_for(body) + "void main() {\n" + loads + "  bool c = gl_GlobalInvocationID.x == 0u;\n" + body +
         "}\n";
}

TEST(PreludeTest, EveryExpressionCompiles) {
  for (int i = 0; i < kDTypeCount; ++i) {
    for (const bool native : {false, true}) {
      const auto dtype = static_cast<DType>(i);
      SCOPED_TRACE(std::string(name_of(dtype)) + (native ? ", native 64-bit integers" : ""));
      const auto compiled = spirv::compile_glsl(shader_for(dtype, native), "every_op.comp");
      EXPECT_TRUE(compiled.ok()) << compiled.error().text();
    }
  }
}

/// Instructions of a kind in a module.
int count(const spirv::Module& words, std::uint32_t opcode) {
  int found = 0;
  for (std::size_t at = 5; at < words.size(); at += std::max<std::uint32_t>(1, words[at] >> 16))
    found += (words[at] & 0xffffu) == opcode ? 1 : 0;
  return found;
}

// A kernel has one for every element it loads or stores, and drivers take exponential time where conditions follow each
// other: 32 roundings that branched took SwiftShader more than five minutes. A choice whose operand is not a plain name
// is a branch.
TEST(PreludeTest, ConversionsOf16BitsHaveNoBranches) {
  constexpr std::uint32_t kBranchConditional = 250;
  const auto branches = [](const std::string& expression) {
    const std::string body = "  result = " + expression + ";\n";
    const auto module = spirv::compile_glsl(
        "#version 450\nlayout(local_size_x = 1) in;\nlayout(binding = 0) buffer Given {\n  float x;\n  float "
        "result;\n};\n" +
            prelude_for(body) + "void main() {\n" + body + "}\n",
        "one.comp");
    EXPECT_TRUE(module.ok()) << module.error().text();
    return module.ok() ? count(*module, kBranchConditional) : -1;
  };
  EXPECT_GT(branches("f32_tan(x)"), 0) << "what is counted must be there to be counted";
  for (const char* conversion : {"f16_round(x)", "bf16_round(x)", "float(f16_bits(x))", "float(bf16_bits(x))",
                                 "f16_value(floatBitsToUint(x))", "bf16_value(floatBitsToUint(x))"})
    EXPECT_EQ(branches(conversion), 0) << conversion;
}

}  // namespace
}  // namespace vkfuse::ops
