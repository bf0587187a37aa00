// Programs and the store: what is compiled once is not compiled again, and nothing wrong is ever used.
#include <chrono>

#include "api/states.hpp"
#include "api/tensor_node.hpp"
#include "plan/file.hpp"
#include "runtime/shaders.hpp"
#include "spirv/compile.hpp"
#include "support/device.hpp"
#include "support/slowness.hpp"
#include "unit/store/fixture.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

using store::Kind;
using store::test::ScratchFolder;

Device open_with(const StoreOptions& options) {
  DeviceOptions device;
  device.store = options;
  return must(Device::open(device));
}

/// Several kernels, one of which folds across lanes, and 16-bit floats: both self-tests run where the device has them.
std::vector<Tensor> program() {
  const Tensor x = Tensor::input("x", DType::f32, {8, 64});
  const Tensor half = softmax((x * 2.0).cast(DType::f16));
  return {half.cast(DType::f32) + 1.0, x.argsort(1), relu(x).sum({0})};
}

Outputs run(const Executable& executable) {
  std::vector<float> data(8 * 64);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * 0.125F;
  return must(executable.run({{"x", HostView(data)}}));
}

Outputs run(const Device& device) {
  const auto tensors = program();
  return run(must(compile(device, std::span<const Tensor>(tensors))));
}

void expect_same(const Outputs& a, const Outputs& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& one : a) EXPECT_EQ(one.second.bytes, b.at(one.first).bytes) << one.first;
}

TEST(ProgramStore, AWarmStartCompilesNothing) {
  const ScratchFolder folder;
  const std::uint64_t before = spirv::compiler_calls();
  const Device cold = open_with(folder.options());
  const Outputs expected = run(cold);
  EXPECT_GE(spirv::compiler_calls(), before + 4);
  EXPECT_EQ(cold.store().compiler_calls, spirv::compiler_calls());
  EXPECT_GE(cold.store().saved, 4u);
  EXPECT_EQ(cold.store().folder, folder.path.string());
  EXPECT_EQ(cold.store().off, "");

  const std::uint64_t between = spirv::compiler_calls();
  const Device warm = open_with(folder.options());
  expect_same(run(warm), expected);
  EXPECT_EQ(spirv::compiler_calls(), between);
  EXPECT_EQ(warm.store().saved, 0u);
  EXPECT_GE(warm.store().loaded, 4u);
}

/// A plan that is kept is taken, in place of the one that would be made, and nothing but a plan of that graph is.
TEST(ProgramStore, AWarmStartPlansNothing) {
  const ScratchFolder folder;
  const Device cold = open_with(folder.options());
  const Outputs expected = run(cold);
  const auto tensors = program();
  const Executable made = must(compile(cold, std::span<const Tensor>(tensors)));
  CompileOptions apart;
  apart.fusion = false;
  const Executable unfused = must(compile(cold, std::span<const Tensor>(tensors), apart));
  ASSERT_GT(unfused.kernel_count(), made.kernel_count());

  const Device warm = open_with(folder.options());
  const Executable kept = must(compile(warm, std::span<const Tensor>(tensors)));
  for (const Stage stage : {Stage::plan, Stage::json, Stage::glsl})
    EXPECT_EQ(must(kept.explain(stage)), must(made.explain(stage)));
  expect_same(run(warm), expected);

  // Under the key of the one, the other's plan: who planned would not find so many kernels.
  const plan::Plan& plan = made.state()->program->plan();
  store::Store& store = warm.state()->context->opened().store();
  const ir::Graph graph =
      must(passes::run_pipeline(must(api::to_graph(std::span<const Tensor>(tensors), {}, "graph"))));
  const std::string key = plan::file_key(graph, plan.target, {});
  ASSERT_TRUE(store.load(Kind::plan, key).has_value());
  const auto keep = [&](const std::string& text) { store.save(Kind::plan, key, std::as_bytes(std::span(text))); };
  keep(must(unfused.save_plan()));
  EXPECT_EQ(must(compile(warm, std::span<const Tensor>(tensors))).kernel_count(), unfused.kernel_count());
  expect_same(run(warm), run(unfused));
  // Other options and other costs are other keys.
  EXPECT_NE(plan::file_key(graph, plan.target, {.fusion = false}), key);
  EXPECT_NE(plan::file_key(graph, plan.target, {.policy = partition::Policy::store_all}), key);
  EXPECT_NE(plan::file_key(graph, plan.target, {.without = {partition::PlannerPass::siblings}}), key);
  Target other = plan.target;
  other.costs = CostModel{};
  EXPECT_NE(plan::file_key(graph, other, {}), key);
  // What is no plan of it is planned anew, and mended.
  for (const std::string& text : {std::string("{"), must(must(compile(warm, {tensors[0]})).save_plan())}) {
    keep(text);
    EXPECT_EQ(must(compile(warm, std::span<const Tensor>(tensors))).kernel_count(), made.kernel_count());
    const auto mended = store.load(Kind::plan, key);
    ASSERT_TRUE(mended.has_value());
    EXPECT_NE(std::string(reinterpret_cast<const char*>(mended->data()), mended->size()), text);
  }
}

/// Blocks of a norm, a product, an activation, a product back and a sum, on 16 rows.
Tensor blocks(int count) {
  constexpr std::int64_t kWidth = 32;
  const auto weight = [](std::int64_t from, std::int64_t to, int seed) {
    std::vector<float> values(static_cast<std::size_t>(from * to));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(seed) * 7) % 17) * 0.02F - 0.16F;
    return Tensor::constant(DType::f32, {from, to}, std::as_bytes(std::span(values)));
  };
  Tensor x = Tensor::input("x", DType::f32, {16, kWidth});
  for (int i = 0; i < count; ++i)
    x = x + matmul(silu(matmul(normalize(x, {1}, 1e-5), weight(kWidth, 2 * kWidth, i))),
                   weight(2 * kWidth, kWidth, i + 50));
  return x;
}

TEST(ProgramStore, AWarmStartOfAHundredNodesIsQuick) {
  using Clock = std::chrono::steady_clock;
  const auto ms = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
  };
  const ScratchFolder folder;
  const std::vector<float> data(16 * 32, 0.5F);
  const ir::Graph graph = must(api::to_graph(std::vector<Tensor>{blocks(10)}, {}, "blocks"));
  EXPECT_GE(graph.size(), 100u);
  double cold_ms = 0, warm_ms = 1e9;
  std::vector<std::byte> expected;
  for (int start = 0; start < 4; ++start) {  // the first is cold
    const Device device = open_with(folder.options());
    Bindings bindings;
    bindings.inputs["x"] = must(device.allocate(data.size() * 4));
    bindings.outputs["y"] = must(device.allocate(data.size() * 4));
    must(bindings.inputs["x"].write(std::as_bytes(std::span(data))));
    const std::uint64_t calls = spirv::compiler_calls();
    const auto begin = Clock::now();
    const Executable program = must(compile(device, {blocks(10)}));
    const Submission submission = must(program.submit(bindings));
    const double taken = ms(begin, Clock::now());
    must(submission.wait());
    std::vector<std::byte> got(data.size() * 4);
    must(bindings.outputs["y"].read(got));
    if (start == 0) {
      cold_ms = taken;
      expected = got;
      EXPECT_GT(spirv::compiler_calls(), calls);
      continue;
    }
    warm_ms = std::min(warm_ms, taken);
    EXPECT_EQ(spirv::compiler_calls(), calls) << "a warm start calls no compiler";
    EXPECT_EQ(got, expected);
  }
  fmt::print("{} nodes, from the graph to the return of the first submission: cold {:.0f} ms, warm {:.0f} ms\n",
             graph.size(), cold_ms, warm_ms);
  // Pipelines of SwiftShader are compiled by it each time.
  const char* driver = std::getenv("VKFUSE_TEST_DRIVER");
  if (driver != nullptr && driver == std::string("lavapipe")) {
    EXPECT_LT(warm_ms, 400 * slowness()) << "100 ms are what is wanted, on a machine that does nothing else";
  }
}

// A process of its own, so that nothing is remembered from another test: not even what extensions the compiler takes.
[[noreturn]] void exit_with_compiler_calls(const StoreOptions& options) {
  const Device device = open_with(options);
  run(device);
  const StoreReport report = device.store();
  std::fprintf(stderr, "%llu compiled, %llu loaded, %llu saved\n",
               static_cast<unsigned long long>(report.compiler_calls), static_cast<unsigned long long>(report.loaded),
               static_cast<unsigned long long>(report.saved));
  std::_Exit(static_cast<int>(std::min<std::uint64_t>(report.compiler_calls, 100)));
}

TEST(ProgramStoreDeathTest, AFreshProcessWithAWarmStoreDoesNotCallTheCompiler) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // Both processes name the folder alike, and the tests of two drivers, which may run side by side, do not.
  const char* driver = std::getenv("VKFUSE_TEST_DRIVER");
  const StoreOptions options{true, ::testing::TempDir() + "/vkfuse-store-fresh-process-" + (driver ? driver : "any")};
  if (!testing::internal::InDeathTestChild()) {
    std::filesystem::remove_all(options.folder);
    run(open_with(options));
  }
  EXPECT_EXIT(exit_with_compiler_calls(options), testing::ExitedWithCode(0), "^0 compiled, .+ loaded, 0 saved");
  std::filesystem::remove_all(options.folder);
}

TEST(ProgramStore, AnotherProgramWithTheSameBuffersIsNotWhatIsKept) {
  const ScratchFolder folder;
  for (const float factor : {2.0F, 3.0F, 2.0F}) {
    const Device device = open_with(folder.options());
    const Executable executable = must(compile(device, {Tensor::input("x", DType::f32, {64}) * factor}));
    const Outputs outputs = must(executable.run({{"x", HostView(std::vector<float>(64, 5.0F))}}));
    EXPECT_EQ(outputs.at("y").as<float>()[63], 5.0F * factor);
  }
}

TEST(ProgramStore, SwitchedOffEverythingIsCompiledAndNothingKept) {
  const ScratchFolder folder;
  StoreOptions options = folder.options();
  options.enabled = false;
  const std::uint64_t before = spirv::compiler_calls();
  const Device device = open_with(options);
  run(device);
  EXPECT_GE(spirv::compiler_calls(), before + 3);
  EXPECT_NE(device.store().off, "");
  EXPECT_EQ(device.store().loaded + device.store().saved + device.store().missed, 0u);
  EXPECT_FALSE(std::filesystem::exists(folder.path));
}

TEST(ProgramStore, AStoreOfDamagedFilesIsCompiledAnewAndMended) {
  const ScratchFolder folder;
  const Device first = open_with(folder.options());
  const Outputs expected = run(first);
  const std::uint64_t of_itself = first.store().loaded;  // self-tests that have a kernel in common
  std::uint64_t seed = 0;
  for (int round = 0; round < 4; ++round) {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
      store::test::write(entry.path(), store::test::damaged(store::test::read(entry.path()), ++seed));
    }
    const Device device = open_with(folder.options());
    expect_same(run(device), expected);
    EXPECT_GE(device.store().saved, 4u);
    EXPECT_EQ(device.store().loaded, of_itself);
  }
}

lowering::Kernel doubling(const char* operation = "* 2.0") {
  lowering::Kernel kernel;
  kernel.name = "doubling";
  kernel.glsl = fmt::format(R"(#version 450
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Sizes {{ uint count; }} sizes;
layout(set = 0, binding = 0) readonly buffer In {{ float x[]; }};
layout(set = 0, binding = 1) writeonly buffer Out {{ float y[]; }};
void main() {{
  uint i = gl_GlobalInvocationID.x;
  if (i < sizes.count) y[i] = x[i] {};
}}
)",
                            operation);
  kernel.bindings = {{0, false}, {1, true}};
  kernel.constants = {64};
  kernel.workgroup = 64;
  return kernel;
}

/// Modules that are valid SPIR-V, and whose interface is another one.
std::vector<std::string> other_interfaces() {
  const std::string text = doubling().glsl;
  const auto with = [&](const std::string& what, const std::string& by) {
    std::string changed = text;
    for (std::size_t at = changed.find(what); at != std::string::npos; at = changed.find(what, at + by.size()))
      changed.replace(at, what.size(), by);
    return changed;
  };
  return {with("uint count;", "uint count; uint more;"),
          with("binding = 1", "binding = 2"),
          with("readonly ", ""),
          with("binding = 0", "binding = 7"),
          with("local_size_x_id = 0", "local_size_x = 1"),
          with("set = 0, binding = 1", "set = 1, binding = 1"),
          with("layout(set = 0, binding = 0) readonly buffer In { float x[]; };",
               "layout(set = 0, binding = 0) uniform In { float x[64]; };")};
}

TEST(Shaders, AnIntactFileWithTheWrongContentsIsNotUsed) {
  const ScratchFolder folder;
  store::Store kept(folder.options());
  runtime::Shaders shaders(kept);
  const lowering::Kernel kernel = doubling();
  const std::string key = runtime::shader_key(kernel.glsl);
  const spirv::Module right = must(spirv::compile_glsl(kernel.glsl, kernel.name));
  const auto used = [&](std::span<const std::uint32_t> words) {
    kept.save(Kind::spirv, key, std::as_bytes(words));
    const std::uint64_t before = spirv::compiler_calls();
    EXPECT_EQ(must(shaders.compile(kernel)), right);
    return spirv::compiler_calls() == before;
  };
  EXPECT_TRUE(used(right));
  for (const std::string& glsl : other_interfaces())
    EXPECT_FALSE(used(must(spirv::compile_glsl(glsl, "other")))) << glsl;
  for (std::size_t words : {std::size_t{0}, std::size_t{1}, std::size_t{5}, right.size() / 2, right.size() - 1})
    EXPECT_FALSE(used(std::span(right).first(words))) << words;
  kept.save(Kind::spirv, key, std::as_bytes(std::span(right)).first(right.size() * 4 - 1));
  EXPECT_EQ(must(shaders.compile(kernel)), right);
}

// What passes the validator and has the right interface may be a module that computes something else: nothing could
// tell, short of compiling. Nothing may crash, though, and whatever comes out is valid.
TEST(Shaders, ModulesChangedBehindTheHashReachNoDriverUnlessTheyAreValid) {
  const ScratchFolder folder;
  store::Store kept(folder.options());
  runtime::Shaders shaders(kept);
  const lowering::Kernel kernel = doubling();
  const std::string key = runtime::shader_key(kernel.glsl);
  const spirv::Module right = must(spirv::compile_glsl(kernel.glsl, kernel.name));
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const auto words = std::as_bytes(std::span(right));
    kept.save(Kind::spirv, key, store::test::damaged({words.begin(), words.end()}, seed));
    const std::uint64_t before = spirv::compiler_calls();
    const spirv::Module got = must(shaders.compile(kernel));
    if (spirv::compiler_calls() == before) continue;
    ++refused;
    EXPECT_EQ(got, right);
  }
  EXPECT_GT(refused, 200);
}

TEST(Shaders, AnswersAboutTheCompilerAreKept) {
  const ScratchFolder folder;
  store::Store kept(folder.options());
  runtime::Shaders shaders(kept);
  const bool takes = shaders.can_compile(spirv::GlslExtension::bfloat16);
  EXPECT_EQ(kept.saved(), 1u);
  EXPECT_EQ(shaders.can_compile(spirv::GlslExtension::bfloat16), takes);
  EXPECT_EQ(kept.loaded(), 1u);
  // The other answer, as a newer compiler would have left it under its own name: the store is believed.
  const std::byte other{!takes};
  kept.save(Kind::probe, runtime::shader_key("GL_EXT_bfloat16"), {&other, 1});
  EXPECT_NE(shaders.can_compile(spirv::GlslExtension::bfloat16), takes);
}

TEST(Shaders, NamesAndCommentsMakeNoOtherKernel) {
  const ScratchFolder folder;
  store::Store kept(folder.options());
  runtime::Shaders shaders(kept);
  lowering::Kernel one = doubling();
  lowering::Kernel other = one;
  one.key = other.key = one.glsl;
  other.glsl += "// of another program\n";
  const spirv::Module words = must(shaders.compile(one));
  const std::uint64_t before = spirv::compiler_calls();
  EXPECT_EQ(must(shaders.compile(other)), words);
  EXPECT_EQ(spirv::compiler_calls(), before);
}

TEST(Shaders, TheKeyNamesTheCompilerAndTheText) {
  EXPECT_NE(runtime::shader_key("a"), runtime::shader_key("b"));
  EXPECT_NE(runtime::shader_key("a").find(spirv::compiler_identity()), std::string::npos);
  EXPECT_GT(spirv::compiler_identity().size(), 16u);
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder, const char* extension) {
  std::vector<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == extension) all.push_back(entry.path());
  }
  return all;
}

// Both software drivers tell nothing of what they made; RADV, which compiles without hardware, does, and so do GPUs'.
TEST(PipelineStore, WhatADriverMadeIsHandedToItAgain) {
  const ScratchFolder folder;
  const std::vector<lowering::Kernel> kernels = {doubling(), doubling("* 3.0")};
  const auto compile = [&] {
    DeviceOptions options;
    options.store = folder.options();
    const Device device(
        std::make_shared<Device::State>(Device::State{must(runtime::Context::open(options, {.timeline = false}))}));
    must(device.state()->context->kernels().compile_all({&kernels[0], &kernels[1]}));
    return device.store();
  };
  compile();
  EXPECT_EQ(files_of(folder.path, ".spirv").size(), 2u);
  const char* name = std::getenv("VKFUSE_TEST_DRIVER");
  const std::string_view driver = name != nullptr ? name : "";
  const std::size_t kept = files_of(folder.path, ".pipeline").size();
  if (driver == "lavapipe" || driver == "swiftshader" || driver == "radv") {
    EXPECT_EQ(kept, driver == "radv" ? 2U : 0U);
  } else {
    EXPECT_TRUE(kept == 0 || kept == 2) << kept;
  }
  const StoreReport warm = compile();
  EXPECT_EQ(warm.saved, 0u);
  EXPECT_EQ(warm.loaded, 2 + kept + files_of(folder.path, ".probe").size());

  std::uint64_t seed = 0;
  for (int round = 0; round < 50; ++round) {
    for (const auto& path : files_of(folder.path, ".pipeline"))
      store::test::write(path, store::test::damaged(store::test::read(path), ++seed));
    EXPECT_EQ(compile().saved, kept);
  }
}

TEST(CompileAll, ManyKernelsAtOnceComeBackInOrderAndOnceEach) {
  const Device device = open_with({.enabled = false});
  runtime::Context& context = *device.state()->context;
  std::vector<lowering::Kernel> kernels;
  for (int i = 0; i < 24; ++i) kernels.push_back(doubling(fmt::format("* {}.0", i % 12).c_str()));
  std::vector<const lowering::Kernel*> wanted;
  for (const lowering::Kernel& kernel : kernels) wanted.push_back(&kernel);
  const std::uint64_t before = spirv::compiler_calls();
  const auto compiled = must(context.kernels().compile_all(wanted));
  EXPECT_EQ(spirv::compiler_calls(), before + 12);
  ASSERT_EQ(compiled.size(), 24u);
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(compiled[i], compiled[i % 12]);
    EXPECT_EQ(compiled[i]->spirv, must(spirv::compile_glsl(kernels[i].glsl, "again")));
  }
}

TEST(CompileAll, TheFirstKernelThatFailsIsTheErrorWhoeverIsFaster) {
  const Device device = open_with({.enabled = false});
  runtime::Context& context = *device.state()->context;
  for (int round = 0; round < 5; ++round) {
    std::vector<lowering::Kernel> kernels;
    for (int i = 0; i < 8; ++i) {
      kernels.push_back(doubling(fmt::format("+ nonsense{}", 8 * round + i).c_str()));
      kernels.back().name = fmt::format("kernel {}", i);
    }
    std::vector<const lowering::Kernel*> wanted;
    for (const lowering::Kernel& kernel : kernels) wanted.push_back(&kernel);
    const auto failed = context.kernels().compile_all(wanted);
    ASSERT_FALSE(failed.ok());
    EXPECT_NE(failed.error().text().find("compiling kernel 0"), std::string::npos) << failed.error().text();
  }
  lowering::Kernel broken = doubling();
  broken.constants.push_back(1);  // not what the text has: a broken invariant, which is thrown
  const lowering::Kernel whole = doubling("* 5.0");
  EXPECT_THROW(static_cast<void>(context.kernels().compile_all({&whole, &broken})), InternalError);
}

}  // namespace
}  // namespace vkfuse::test
