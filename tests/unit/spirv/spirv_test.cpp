// Compiling, checking and reading back SPIR-V.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "spirv/compile.hpp"
#include "spirv/probe.hpp"
#include "spirv/reflect.hpp"
#include "spirv/tools.hpp"
#include "spirv/walk.hpp"
#include "support/environment.hpp"

namespace vkfuse::spirv {
namespace {

constexpr const char* kVectors = R"(#version 450
layout(local_size_x_id = 7, local_size_y = 2) in;
layout(constant_id = 3) const uint kTile = 5u;
layout(push_constant) uniform Push { uint count; uvec4 base; } push;
layout(set = 0, binding = 0) readonly buffer A { uvec4 w[]; } a;
layout(set = 0, binding = 1) readonly buffer B { uint w[]; } b;
layout(set = 0, binding = 2) writeonly buffer C { uvec4 w[]; } c;
layout(set = 0, binding = 3) buffer D { uint total; } d;
layout(set = 0, binding = 4) uniform E { uint word; } e;
shared uint scratch[64];
uint tail(uint i) { return b.w[i]; }
void main() {
  uint i = gl_GlobalInvocationID.x;
  scratch[gl_LocalInvocationIndex] = tail(i);
  uvec4 v = a.w[i];
  if (i < push.count) c.w[i] = v + scratch[0] + e.word + kTile;
  atomicAdd(d.total, 1u);
}
)";

Module compiled(std::string_view glsl = kVectors) {
  Result<Module> module = compile_glsl(glsl, "test.comp");
  EXPECT_TRUE(module.ok()) << module.error().text();
  return module.ok() ? *std::move(module) : Module();
}

TEST(CompileTest, MakesValidSpirv13) {
  const Module module = compiled();
  ASSERT_GT(module.size(), 5u);
  EXPECT_EQ(module[1], 0x00010300u);
  EXPECT_TRUE(validate(module).ok()) << validate(module).error().text();
}

TEST(CompileTest, ErrorsNameTheLineAndShowTheText) {
  const auto result =
      compile_glsl("#version 450\nlayout(local_size_x = 1) in;\nvoid main() {\n  float x = y;\n}\n", "k");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::internal);
  EXPECT_NE(result.error().message.find("k:4: error: 'y' : undeclared identifier"), std::string::npos);
  EXPECT_NE(result.error().message.find(">    4 |   float x = y;"), std::string::npos) << result.error().message;
  EXPECT_NE(result.error().message.find("     3 | void main() {"), std::string::npos);
}

TEST(CompileTest, WarningsAreErrors) {
  const auto result = compile_glsl(
      "#version 450\n#extension GL_no_such_thing : enable\nlayout(local_size_x = 1) in;\nvoid main() {}\n", "k");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("GL_no_such_thing"), std::string::npos) << result.error().message;
}

TEST(CompileTest, TakesHlsl) {
  const auto result = compile_hlsl(
      "RWStructuredBuffer<float> x : register(u0);\n"
      "[numthreads(64, 1, 1)] void main(uint3 id : SV_DispatchThreadID) { x[id.x] = x[id.x] * 2; }\n",
      "k.hlsl");
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_TRUE(validate(*result).ok());
  const auto accesses = memory_accesses(*result);
  ASSERT_TRUE(accesses.ok());
  EXPECT_EQ(count_of(*accesses, AccessKind::load, 0, 4), 1);
  EXPECT_EQ(count_of(*accesses, AccessKind::store, 0, 4), 1);
}

// OpFAdd (129) on integers: shaderc writes what it is told, and no driver has to survive it.
constexpr const char* kInvalidModule = R"(#version 450
#extension GL_EXT_spirv_intrinsics : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer A { uint w[]; } a;
spirv_instruction(id = 129) uint float_add(uint x, uint y);
void main() { a.w[0] = float_add(a.w[1], a.w[2]); }
)";

TEST(CompileTest, EveryTestRunsWithTheCheckOn) {
  const char* value = std::getenv("VKFUSE_CHECK_SPIRV");
  ASSERT_NE(value, nullptr) << "ctest sets VKFUSE_CHECK_SPIRV=1; set it by hand to run this program by itself";
  EXPECT_STREQ(value, "1");
}

TEST(CompileTest, TheCheckFindsAnInvalidModule) {
  const test::Variable on("VKFUSE_CHECK_SPIRV", "1");
  const auto result = compile_glsl(kInvalidModule, "wrong.comp");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::internal);
  EXPECT_NE(result.error().message.find("FAdd"), std::string::npos) << result.error().text();
  EXPECT_NE(result.error().text().find("wrong.comp"), std::string::npos) << result.error().text();
}

TEST(CompileTest, WithoutTheCheckNobodyLooks) {
  const test::Variable off("VKFUSE_CHECK_SPIRV", "0");
  const auto result = compile_glsl(kInvalidModule, "wrong.comp");
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_FALSE(validate(*result).ok());
}

TEST(CompileTest, ThreadsCompileAtOnce) {
  std::vector<std::thread> threads;
  std::vector<Module> modules(4);
  for (Module& module : modules) threads.emplace_back([&module] { module = compiled(); });
  for (std::thread& thread : threads) thread.join();
  for (const Module& module : modules) EXPECT_EQ(module, modules.front());
}

TEST(ProbeTest, KnowsWhatEveryShadercHas) {
  EXPECT_TRUE(can_compile(GlslExtension::arithmetic_float16));
  EXPECT_TRUE(can_compile(GlslExtension::storage_16bit));
  EXPECT_TRUE(can_compile(GlslExtension::subgroup_shuffle));
  EXPECT_TRUE(can_compile(GlslExtension::control_flow_attributes));
  for (int i = 0; i < kGlslExtensionCount; ++i) {
    const auto extension = static_cast<GlslExtension>(i);
    EXPECT_TRUE(name_of(extension).starts_with("GL_"));
    RecordProperty(std::string(name_of(extension)), can_compile(extension));
  }
}

TEST(ToolsTest, RejectsABrokenModuleAndPrintsAGoodOne) {
  Module module = compiled();
  const auto text = disassemble(module);
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find("OpAtomicIAdd"), std::string::npos);
  module.resize(module.size() - 2);  // no OpFunctionEnd
  const auto verdict = validate(module);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.error().message.find("is not valid: "), std::string::npos);
  EXPECT_FALSE(disassemble(Module{1, 2, 3}).ok());
}

TEST(ReflectTest, FindsTheWholeInterface) {
  const auto shader = reflect(compiled());
  ASSERT_TRUE(shader.ok()) << shader.error().text();
  ASSERT_EQ(shader->bindings.size(), 5u);
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(shader->bindings[i].binding, i);
  EXPECT_TRUE(shader->bindings[0].readonly);
  EXPECT_FALSE(shader->bindings[0].writeonly);
  EXPECT_TRUE(shader->bindings[2].writeonly);
  EXPECT_FALSE(shader->bindings[3].readonly);
  EXPECT_TRUE(shader->bindings[4].is_uniform);
  EXPECT_EQ(shader->bindings[2].name, "C");
  EXPECT_EQ(shader->push_constant_bytes, 32u);
  EXPECT_EQ(shader->specialisation_ids, (std::vector<std::uint32_t>{3, 7}));
  EXPECT_EQ(shader->workgroup_size, (std::array<std::uint32_t, 3>{1, 2, 1}));
  EXPECT_EQ(shader->workgroup_ids[0], 7u);
  EXPECT_EQ(shader->workgroup_ids[1], Interface::kNoId);
}

TEST(ReflectTest, PrintsOtherLanguages) {
  const auto msl = print_msl(compiled());
  ASSERT_TRUE(msl.ok()) << msl.error().text();
  EXPECT_NE(msl->find("kernel void"), std::string::npos);
  const auto hlsl = print_hlsl(compiled());
  ASSERT_TRUE(hlsl.ok()) << hlsl.error().text();
  EXPECT_NE(hlsl->find("numthreads"), std::string::npos);
}

TEST(ReflectTest, HlslHasItsConstantsWhereTheHeaderSays) {
  const auto hlsl = print_hlsl(compiled(R"(#version 450
layout(local_size_x = 64) in;
layout(push_constant) uniform Sizes { uint count; } p;
layout(set = 0, binding = 2) writeonly buffer A { uint w[]; } a;
void main() {
  uint carry;
  uint high, low;
  umulExtended(uaddCarry(gl_WorkGroupID.x, p.count, carry), gl_NumWorkGroups.y, high, low);
  a.w[0] = high + low + carry;
}
)"));
  ASSERT_TRUE(hlsl.ok()) << hlsl.error().text();
  for (const char* text :
       {"register(b0, space0)", "SPIRV_Cross_NumWorkgroups : register(b1, space0)", "register(u2, space0)",
        "uint uaddCarry(uint a, uint b, out uint carry)\n{", "void umulExtended("}) {
    EXPECT_NE(hlsl->find(text), std::string::npos) << text << "\n" << *hlsl;
  }
  const auto again = compile_hlsl(*hlsl, "again.hlsl");
  EXPECT_TRUE(again.ok()) << again.error().text();
}

TEST(ReflectTest, SaysWhyThereIsNoHlsl) {
  // HLSL pads the elements of arrays in constant buffers to 16 bytes.
  const auto hlsl = print_hlsl(compiled(R"(#version 450
layout(local_size_x = 1) in;
layout(push_constant) uniform Push { uint sizes[4]; } push;
layout(binding = 0) buffer A { uint a[]; };
void main() { a[0] = push.sizes[1]; }
)"));
  ASSERT_FALSE(hlsl.ok());
  EXPECT_NE(hlsl.error().message.find("sizes"), std::string::npos) << hlsl.error().message;
}

TEST(ReflectTest, SaysWhyThereIsNoMetal) {
  const auto msl = print_msl(compiled(R"(#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer A { double a[]; };
void main() { a[0] = a[1] * 2.0LF; }
)"));
  ASSERT_FALSE(msl.ok());
  EXPECT_EQ(msl.error().code, ErrorCode::unsupported);
  EXPECT_NE(msl.error().message.find("double"), std::string::npos) << msl.error().message;
}

TEST(ReflectTest, RejectsWordsThatAreNoSpirv) {
  EXPECT_FALSE(reflect(Module{}).ok());
  EXPECT_FALSE(reflect(Module{1, 2, 3, 4, 5, 6}).ok());
}

TEST(WalkTest, CountsEveryAccessOnceWithItsWidth) {
  const auto accesses = memory_accesses(compiled());
  ASSERT_TRUE(accesses.ok());
  const std::vector<MemoryAccess> expected = {
      {0, 0, AccessKind::load, 16, "main"},
      {2, 0, AccessKind::store, 16, "main"},
      {3, 0, AccessKind::atomic, 4, "main"},
      {1, 0, AccessKind::load, 4, "tail(u1;"},
  };
  EXPECT_EQ(*accesses, expected);
}

TEST(WalkTest, SurvivesTruncatedWords) {
  const Module module = compiled();
  for (std::size_t words = 0; words < module.size(); ++words) {
    (void)memory_accesses(std::span(module).first(words));
  }
  Module zero = module;
  zero[20] = 0;
  EXPECT_FALSE(memory_accesses(Module{}).ok());
}

}  // namespace
}  // namespace vkfuse::spirv
