// Every kernel prints as Metal and as HLSL, and the HLSL, compiled again, computes the same.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "portability/hlsl.hpp"
#include "runtime/context.hpp"
#include "spirv/compile.hpp"
#include "spirv/reflect.hpp"
#include "spirv/tools.hpp"
#include "support/device.hpp"
#include "support/random.hpp"
#include "vulkan/command_buffer.hpp"

namespace vkfuse::test {
namespace {

constexpr std::uint32_t kPoison = 0xa5c3a5c3;
constexpr std::size_t kGuardWords = 8;

std::shared_ptr<vulkan::Device> gpu() {
  static const auto context = must(runtime::Context::open({}));
  return context->device();
}

std::size_t bytes_of_value(const BuiltGraph& built, ir::NodeId value) {
  const TensorType& type = built.graph.node(value).type;
  return static_cast<std::size_t>(must(byte_count(type.dtype, must(resolve(type.shape, built.symbols)))));
}

void append_element(DType dtype, Random& random, std::vector<std::byte>& bytes) {
  constexpr double kSpecial[] = {0.0,
                                 -0.0,
                                 1.0,
                                 -1.0,
                                 0.5,
                                 1e-40,
                                 -1e-40,
                                 65504.0,
                                 1e38,
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN()};
  const std::uint64_t bits = random.word() | static_cast<std::uint64_t>(random.word()) << 32;
  if (dtype == DType::boolean) {
    bytes.push_back(static_cast<std::byte>(bits & 1));
  } else if (is_float(dtype) && random.chance(70)) {
    ir::encode(dtype, random.chance(30) ? kSpecial[random.below(std::size(kSpecial))] : random.between(-8, 8), bytes);
  } else if (is_integer(dtype) && random.chance(30)) {
    ir::encode_int(dtype, static_cast<std::int64_t>(random.below(9)) - 4, bytes);
  } else {
    const auto* at = reinterpret_cast<const std::byte*>(&bits);
    bytes.insert(bytes.end(), at, at + size_of(dtype));
  }
}

/// Elements of any value: ordinary ones, special ones and any bits; padded to whole words of 16 bytes.
std::vector<std::byte> operand_bytes(const BuiltGraph& built, ir::NodeId value) {
  std::vector<std::byte> bytes;
  Random random(seed_of(value, built.graph.name));
  const std::size_t wanted = bytes_of_value(built, value);
  while (bytes.size() < wanted) append_element(built.graph.node(value).type.dtype, random, bytes);
  bytes.resize((wanted + 15) / 16 * 16);
  return bytes;
}

vulkan::Buffer filled(std::span<const std::byte> bytes) {
  auto buffer = must(vulkan::Buffer::create(gpu(), bytes.size(), vulkan::BufferKind::device));
  if (buffer.mapped() == nullptr) throw std::runtime_error("the software drivers map device memory");
  std::memcpy(buffer.mapped(), bytes.data(), bytes.size());
  return buffer;
}

/// The dispatches of one step of a plan, as modules and as what they were made from.
struct Step {
  std::vector<const lowering::Kernel*> kernels;
  std::vector<spirv::Module> modules;
  std::int64_t scratch_bytes = 0, counter_bytes = 0;
};

/// Inputs; poison where something is stored, but counts, which are 0 before a run.
vulkan::Buffer buffer_for(const BuiltGraph& built, const lowering::Binding& binding, const Step& step) {
  if (!binding.store) return filled(operand_bytes(built, binding.value));
  const auto bytes = binding.counts    ? static_cast<std::size_t>(step.counter_bytes)
                     : binding.scratch ? static_cast<std::size_t>(step.scratch_bytes)
                                       : bytes_of_value(built, binding.value);
  const std::vector<std::uint32_t> words((bytes + 15) / 16 * 4 + kGuardWords,  // buffers are multiples of 16 bytes
                                         binding.counts ? 0 : kPoison);
  return filled(std::as_bytes(std::span(words)));
}

/// Every byte of every stored value after the step, by binding; what is around them too.
std::vector<std::vector<std::byte>> run_step(const BuiltGraph& built, const Step& step) {
  std::vector<vulkan::Buffer> buffers;
  for (const lowering::Binding& binding : step.kernels[0]->bindings)
    buffers.push_back(buffer_for(built, binding, step));
  std::vector<vulkan::BufferRange> ranges;
  for (const vulkan::Buffer& buffer : buffers) ranges.push_back({&buffer});
  std::vector<vulkan::ComputePipeline> pipelines;
  auto commands = must(vulkan::CommandBuffer::create(gpu()));
  must(commands.begin());
  for (std::size_t i = 0; i < step.kernels.size(); ++i) {
    const lowering::Kernel& kernel = *step.kernels[i];
    vulkan::PipelineInfo info;
    info.name = built.graph.name;
    info.spirv = step.modules[i];
    info.buffers = static_cast<std::uint32_t>(kernel.bindings.size());
    info.push_constant_bytes = static_cast<std::uint32_t>(kernel.constants.size() * 4);
    info.constants = {{0, static_cast<std::uint32_t>(kernel.workgroup)}};
    pipelines.push_back(must(vulkan::ComputePipeline::create(gpu(), info)));
    commands.bind(pipelines.back());
    commands.bind_buffers(ranges);
    commands.push_constants(std::as_bytes(std::span(kernel.constants)));
    commands.dispatch(kernel.groups_x, kernel.groups_y);
    commands.barrier(vulkan::Access::compute, vulkan::Access::compute | vulkan::Access::host);
  }
  must(commands.end());
  must(must(gpu()->submit(commands)).wait());
  std::vector<std::vector<std::byte>> stored;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const lowering::Binding& binding = step.kernels[0]->bindings[i];
    if (binding.store && !binding.scratch) stored.emplace_back(buffers[i].bytes().begin(), buffers[i].bytes().end());
  }
  return stored;
}

std::string element_text(DType dtype, const std::vector<std::byte>& bytes, std::size_t index) {
  const std::byte* at = bytes.data() + index * static_cast<std::size_t>(size_of(dtype));
  return is_float(dtype) ? fmt::format("{}", ir::decode(dtype, at)) : fmt::format("{}", ir::decode_int(dtype, at));
}

/// Equal bytes; or two NaNs, whose sign and payload Vulkan leaves open.
bool same(DType dtype, const std::byte* a, const std::byte* b) {
  if (std::equal(a, a + size_of(dtype), b)) return true;
  return is_float(dtype) && std::isnan(ir::decode(dtype, a)) && std::isnan(ir::decode(dtype, b));
}

/// The first element that differs, as a sentence; empty if none does. Bytes beyond the elements, which
/// hold poison or the rest of a word, count too.
std::string difference(const BuiltGraph& built, const lowering::Kernel& kernel,
                       const std::vector<std::vector<std::byte>>& want,
                       const std::vector<std::vector<std::byte>>& got) {
  std::size_t store = 0;
  for (const lowering::Binding& binding : kernel.bindings) {
    if (!binding.store || binding.scratch) continue;
    const DType dtype = built.graph.node(binding.value).type.dtype;
    const auto width = static_cast<std::size_t>(size_of(dtype));
    for (std::size_t i = 0; i < want[store].size() / width; ++i) {
      if (same(dtype, want[store].data() + i * width, got[store].data() + i * width)) continue;
      return fmt::format("%{} = {} : {} at element {}: {} in GLSL, {} in HLSL", binding.value,
                         built.graph.node(binding.value).op->name, name_of(dtype), i,
                         element_text(dtype, want[store], i), element_text(dtype, got[store], i));
    }
    ++store;
  }
  return {};
}

bool all_poison(const std::vector<std::byte>& bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    if (std::memcmp(bytes.data() + i, &kPoison, 4) != 0) return false;
  }
  return true;
}

/// GLSL functions that no other language has: a call that is printed as it stands does not compile there.
void expect_no_glsl(const std::string& msl) {
  for (const char* name :
       {"uaddCarry", "usubBorrow", "umulExtended", "imulExtended", "bitfieldExtract", "findMSB", "findLSB",
        "floatBitsToUint", "uintBitsToFloat", "packUint2x32", "packDouble2x32", "roundEven"}) {
    const std::string call = std::string(name) + "(";
    std::size_t at = msl.find(call);
    while (at != std::string::npos && msl[at + call.size()] == ')')
      at = msl.find(call, at + 1);  // "findMSB()" in a comment
    EXPECT_EQ(at, std::string::npos) << name << " in Metal:\n" << msl;
  }
}

class Translate : public testing::TestWithParam<NamedGraph> {
 protected:
  static BuiltGraph built_for(const Target& target, const schedule::Tuning& tuning) {
    return build(GetParam().graph, small_symbols(GetParam().graph), target, tuning);
  }

  static void run(const BuiltGraph& built) {
    ASSERT_FALSE(built.kernels.empty());
    for (std::size_t i = 0; i < built.steps.size(); ++i) check_step(built, i);
  }

  static void check_step(const BuiltGraph& built, std::size_t number) {
    Step glsl;
    Step hlsl;
    std::string texts;
    glsl.scratch_bytes = hlsl.scratch_bytes = built.steps[number].schedule.scratch_bytes;
    glsl.counter_bytes = hlsl.counter_bytes = built.steps[number].schedule.counter_bytes;
    for (const BuiltKernel& one : built.kernels) {
      if (one.step != number) continue;
      SCOPED_TRACE(one.kernel.name);
      glsl.kernels.push_back(&one.kernel);
      glsl.modules.push_back(must(spirv::compile_glsl(one.kernel.glsl, one.kernel.name)));
      expect_metal(glsl.modules.back(), one.kernel);
      const auto printed = spirv::print_hlsl(glsl.modules.back());
      ASSERT_TRUE(printed.ok()) << printed.error().text() << "\n" << one.kernel.glsl;
      const std::string source = for_vulkan(*printed, one.kernel);
      auto again = spirv::compile_hlsl(source, one.kernel.name);
      ASSERT_TRUE(again.ok()) << again.error().text();
      must(spirv::validate(*again));
      hlsl.modules.push_back(*std::move(again));
      texts += one.kernel.glsl + "\n" + source;
    }
    hlsl.kernels = glsl.kernels;
    const auto want = run_step(built, glsl);
    const auto got = run_step(built, hlsl);
    for (const std::vector<std::byte>& bytes : want) EXPECT_FALSE(all_poison(bytes)) << "the kernel wrote nothing";
    EXPECT_EQ(difference(built, *glsl.kernels[0], want, got), "") << texts;
  }

  static void expect_metal(const spirv::Module& module, const lowering::Kernel& kernel) {
    const auto msl = spirv::print_msl(module);
    ASSERT_TRUE(msl.ok()) << msl.error().text() << "\n" << kernel.glsl;
    EXPECT_NE(msl->find("kernel void"), std::string::npos);
    expect_no_glsl(*msl);
  }
};

std::string name_of_graph(const testing::TestParamInfo<NamedGraph>& info) { return info.param.name; }

TEST_P(Translate, ToMetalAndThroughHlsl) { run(built_for(minimum_target(), {})); }

/// Those whose text that changes: tiles of products have no chunks in flight.
using TranslateGolden = Translate;
TEST_P(TranslateGolden, ToMetalAndThroughHlslWithItemsInFlight) {
  Target target = minimum_target();
  target.type = DeviceType::discrete;
  const auto with = [&](int unroll_factor) {
    schedule::Tuning tuning;
    tuning.unroll_factor = unroll_factor;
    return built_for(target, tuning);
  };
  const BuiltGraph four = with(4);
  const auto text_of = [](const BuiltGraph& built) {
    std::string text;
    for (const BuiltKernel& one : built.kernels) text += one.kernel.glsl;
    return text;
  };
  if (text_of(four) != text_of(with(1))) run(four);
}

/// Prints, or says which type it is that cannot be printed. Returns how often it did not print.
int count_refusals(const Result<std::string>& text, const char* type) {
  if (text.ok()) return 0;
  EXPECT_EQ(text.error().code, ErrorCode::unsupported);
  EXPECT_NE(text.error().message.find(type), std::string::npos) << text.error().message;
  return 1;
}

struct Refusals {
  int kernels = 0;
  int msl = 0;
  int hlsl = 0;
};

Refusals refusals(const std::vector<NamedGraph>& graphs, const Target& target, const char* type) {
  Refusals found;
  for (const NamedGraph& one : graphs) {
    for (const BuiltKernel& built : build(one.graph, {}, target).kernels) {
      SCOPED_TRACE(one.name);
      const spirv::Module module = must(spirv::compile_glsl(built.kernel.glsl, one.name));
      ++found.kernels;
      const auto msl = spirv::print_msl(module);
      if (msl.ok()) expect_no_glsl(*msl);
      found.msl += count_refusals(msl, type);
      found.hlsl += count_refusals(spirv::print_hlsl(module), type);
    }
  }
  return found;
}

TEST(BeyondTheMinimum, DoublesAreRefusedByName) {
  Target target = minimum_target();
  target.caps.arithmetic.float64 = true;
  const Refusals found = refusals(double_graphs(), target, "ouble");  // "double" in Metal, "packDouble2x32" in HLSL
  EXPECT_GT(found.kernels, 0);
  EXPECT_EQ(found.msl, found.kernels);
  EXPECT_EQ(found.hlsl, found.kernels);
}

TEST(BeyondTheMinimum, NativeWideIntegersAndHalvesPrint) {
  Target target = minimum_target();
  target.caps.arithmetic.int64 = target.caps.arithmetic.float16 = target.caps.memory.storage_16bit = true;
  target.tiers[static_cast<std::size_t>(FeatureTier::float16)] = true;
  const Refusals found = refusals(row_graphs(), target, "");
  EXPECT_GT(found.kernels, 0);
  EXPECT_EQ(found.msl, 0);
  EXPECT_EQ(found.hlsl, 0);
}

INSTANTIATE_TEST_SUITE_P(Rows, Translate, testing::ValuesIn(row_graphs()), name_of_graph);
INSTANTIATE_TEST_SUITE_P(Golden, Translate, testing::ValuesIn(golden_graphs()), name_of_graph);
INSTANTIATE_TEST_SUITE_P(Golden, TranslateGolden, testing::ValuesIn(golden_graphs()), name_of_graph);

}  // namespace
}  // namespace vkfuse::test
