// What a run takes is known, checked, and shared where it can be.
#include <gtest/gtest.h>

#include "unit/runtime/watched_device.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

CompileOptions one_kernel_per_op() {
  CompileOptions options;
  options.fusion = false;
  return options;
}

Executable chain(const Device& device, std::int64_t elements, const std::vector<std::string>& ops) {
  return must(compile_text(device, chain_text(elements, ops), one_kernel_per_op()));
}

/// As the driver has memory, and as a GPU has it.
class MemoryUse : public OfMemory {};
INSTANTIATE_TEST_SUITE_P(Memories, MemoryUse, testing::Values(Memory::as_it_is, Memory::apart),
                         [](const auto& param) { return param.param == Memory::apart ? "apart" : "as_it_is"; });

TEST_P(MemoryUse, IsWhatIsAllocated) {
  const WatchedDevice watched({}, GetParam());
  const std::vector<float> weights = ramp(3000);
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 1000});
  const Tensor w = Tensor::constant(DType::f32, {3, 1000}, std::as_bytes(std::span(weights))).slice(0, 1, 2);
  const Executable program = must(compile(watched.device(), {relu(exp(x) * w) + x}, one_kernel_per_op()));
  WatchedDevice::counts().clear();  // of self-tests
  const vkfuse::MemoryUse use = must(program.memory({{"n", 7}}));
  EXPECT_EQ(use.inputs, 28000u);
  EXPECT_EQ(use.outputs, 28000u);
  EXPECT_EQ(use.constants % 16, 0u);
  EXPECT_GT(use.constants, 0u);
  EXPECT_EQ(use.arena % 256, 0u);
  EXPECT_EQ(use.staging, (watched.stages_inputs() ? 28000u : 0u) + (watched.stages_outputs() ? 28000u : 0u));
  EXPECT_EQ(use.total(), use.arena + use.constants + use.inputs + use.outputs + use.staging);
  EXPECT_EQ(WatchedDevice::counts().allocations, 0) << "to be asked is to allocate nothing";
  // Constants go through staging memory, which the device keeps for all that comes later.
  const Buffer other = must(watched.device().allocate(16));
  must(other.write(std::as_bytes(std::span(weights).first(4))));
  const std::uint64_t before = watched.allocated();
  const std::vector<float> data = ramp(7000);
  must(program.run({{"x", HostView(data)}}));
  EXPECT_GE(watched.allocated() - before, use.total()) << "drivers may round up";
  EXPECT_LE(watched.allocated() - before, use.total() + 7 * 4096);
  EXPECT_GT(must(program.memory({{"n", 70}})).arena, use.arena * 9);
}

TEST_P(MemoryUse, NeedsEverySymbol) {
  const WatchedDevice watched({}, GetParam());
  const Executable program = must(compile(watched.device(), {exp(Tensor::input("x", DType::f32, {Dim::any("rows")}))}));
  const auto use = program.memory();
  ASSERT_FALSE(use.ok());
  EXPECT_EQ(use.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(use.error().message.find("rows"), std::string::npos) << use.error().message;
}

TEST_P(MemoryUse, TooMuchIsRefusedBeforeAnythingIsAllocated) {
  DeviceOptions options;
  options.limits["memory_bytes"] = 1 << 20;
  const WatchedDevice watched(options, GetParam());
  const Executable program = chain(watched.device(), 100000, {"neg", "exp", "abs"});
  const std::vector<float> data = ramp(100000);
  WatchedDevice::counts().clear();
  const auto run = program.run({{"x", HostView(data)}});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(WatchedDevice::counts().allocations, 0);
  const vkfuse::MemoryUse use = must(program.memory());
  const std::uint64_t needed = use.total() - (watched.staging_is_apart() ? use.staging : 0);
  EXPECT_NE(run.error().message.find(fmt::format("needs {} bytes", needed)), std::string::npos) << run.error().message;
  EXPECT_NE(run.error().message.find("has 1048576 left."), std::string::npos) << run.error().message;

  // On the caller's buffers it is the arena that does not fit beside them.
  Bindings bindings;
  bindings.inputs["x"] = must(watched.device().allocate(400000));
  bindings.outputs["y"] = must(watched.device().allocate(400000));
  const auto submission = program.submit(bindings);
  ASSERT_FALSE(submission.ok());
  EXPECT_EQ(submission.error().code, ErrorCode::out_of_memory);
  bindings = {};
  const std::vector<float> less = ramp(20000);
  must(chain(watched.device(), 20000, {"neg", "exp", "abs"})
           .run({{"x", HostView(less)}}));  // what is freed counts no more
}

TEST_P(MemoryUse, NoBufferIsLargerThanTheDeviceAllocates) {
  const std::string text = R"(graph "narrow" {
  %0 = input "x" : f32[100000]
  %1 = neg %0 : f32[100000]
  %2 = reduce_sum axes=[0] %1 : f32[]
  output "y" = %2
})";
  const std::vector<float> data = ramp(100000);
  // What the input takes, and less than the intermediate value as the arena pads it.
  const WatchedDevice within({.limits = {{"max_allocation", 400000}}}, GetParam());
  const Outputs sum = must(must(compile_text(within.device(), text, one_kernel_per_op())).run({{"x", HostView(data)}}));
  EXPECT_NE(sum.at("y").as<float>()[0], 0.0F);
  // A sum of what lies in two buffers is no kernel.
  const WatchedDevice watched({.limits = {{"max_allocation", 300000}}}, GetParam());
  const auto reductions = compile_text(watched.device(), text, one_kernel_per_op());
  ASSERT_FALSE(reductions.ok());
  EXPECT_EQ(reductions.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(reductions.error().message.find("takes 400000 bytes, and one allocation of this device holds 300000 "
                                            "(max_allocation); the segment has no axis to cut"),
            std::string::npos)
      << reductions.error().message;
  const Tensor table = Tensor::constant(DType::f32, {100000}, std::as_bytes(std::span(data)));
  const std::vector<float> ten = ramp(10);
  const auto constant = must(compile(watched.device(), {Tensor::input("x", DType::f32, {10}) + table.slice(0, 10, 20)}))
                            .run({{"x", HostView(ten)}});
  ASSERT_FALSE(constant.ok());
  EXPECT_EQ(constant.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(constant.error().message.find("at most 300000 at once (max_allocation)."), std::string::npos)
      << constant.error().message;
  EXPECT_FALSE(Device::open({.limits = {{"memory_bytes", ~std::uint64_t{0}}}}).ok());
}

TEST_P(MemoryUse, AnArenaBeyondThatIsSeveralBuffers) {
  DeviceOptions options;
  options.limits["max_allocation"] = 65536;
  const WatchedDevice watched(options, GetParam());
  // Four values of 40,000 bytes are alive at a time, and no two fit one allocation.
  const std::string text = R"(graph "wide" {
  %0 = input "x" : f32[10000]
  %1 = neg %0 : f32[10000]
  %2 = exp %1 : f32[10000]
  %3 = abs %1 : f32[10000]
  %4 = add %2 %3 : f32[10000]
  %5 = mul %4 %1 : f32[10000]
  output "y" = %5
})";
  const Executable program = must(compile_text(watched.device(), text, one_kernel_per_op()));
  const auto specialization = must(program.state()->program->specialization({}));
  EXPECT_GT(specialization->memory.pieces.size(), 1u);
  for (const std::int64_t bytes : specialization->memory.pieces) EXPECT_LE(bytes, 65536);
  std::vector<float> data(10000, -2.0F);
  const Outputs outputs = must(program.run({{"x", HostView(data)}}));
  for (const float value : outputs.at("y").as<float>()) ASSERT_NEAR(value, (std::exp(2.0F) + 2.0F) * 2.0F, 1e-4);
}

/// Two folds of what is dear to compute twice: the fastest plan stores it. Beside them products of one value, which one
/// of the two plans may join: inputs and constants are known by other numbers then.
TEST(MemoryOfADevice, IsEnoughForAPlanOfFewerBytesWhereTheFastestNeedsMore) {
  constexpr std::uint64_t kSide = 512, kStored = kSide * kSide * 4;
  const std::vector<float> column(kSide, 0.5F), row(kSide, 1.0F), rows = ramp(16 * 64), weights = ramp(64 * 48);
  std::map<std::int64_t, std::vector<float>> of_width;
  for (const std::int64_t width : {16, 8, 12, 20, 24})
    of_width[width].assign(weights.begin(), weights.begin() + 64 * width);
  for (const bool constant : {false, true}) {
    std::vector<std::pair<std::string, HostView>> inputs = {
        {"a", HostView(column)}, {"b", HostView(row)}, {"x", HostView(rows)}};
    const Tensor a = Tensor::input("a", DType::f32, {static_cast<std::int64_t>(kSide), 1}),
                 b = Tensor::input("b", DType::f32, {1, static_cast<std::int64_t>(kSide)});
    const Tensor x = Tensor::input("x", DType::f32, {16, 64});
    Tensor dear = a * b;
    for (int i = 0; i < 3; ++i) dear = sin(exp(-dear * dear));
    std::vector<Tensor> results = {dear.sum({0}), dear.sum({1})};
    for (const auto& [width, values] : of_width) {
      const std::string name = fmt::format("w{}", width);
      if (!constant) inputs.emplace_back(name, HostView(values));
      results.push_back(matmul(x, constant ? Tensor::constant(DType::f32, {64, width}, std::as_bytes(std::span(values)))
                                           : Tensor::input(name, DType::f32, {64, width})));
    }
    const auto outputs_of = [&](const DeviceOptions& options, std::int64_t& arena) {
      const WatchedDevice watched(options);
      const Executable program = must(compile(watched.device(), results));
      arena = static_cast<std::int64_t>(must(program.memory({})).arena);
      return must(program.run({inputs.begin(), inputs.end()}));
    };
    std::int64_t fast = 0, small = 0;
    const Outputs want = outputs_of({.disable = {"calibration"}}, fast);
    const Outputs got = outputs_of({.disable = {"calibration"}, .limits = {{"memory_bytes", kStored * 9 / 10}}}, small);
    EXPECT_GE(fast, static_cast<std::int64_t>(kStored));
    EXPECT_LT(small, static_cast<std::int64_t>(kStored / 2));
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string name = i == 0 ? "y" : fmt::format("y{}", i);
      const auto right = want.at(name).as<float>(), left = got.at(name).as<float>();
      for (std::size_t k = 0; k < right.size(); ++k)
        ASSERT_NEAR(left[k], right[k], 1e-3) << name << " " << k << (constant ? " of constants" : "");
    }
  }
}

TEST(StorageRange, IsOneErrorThatNamesTheLimit) {
  DeviceOptions options;
  options.limits["storage_range"] = 1 << 20;
  const WatchedDevice watched(options);
  // Values that no kernel binds may be as large as they like: the sum is one kernel.
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 16});
  const Tensor ones = Tensor::scalar(DType::f32, 1).broadcast_to({4096, 1024});
  EXPECT_TRUE(compile(watched.device(), {(ones + 1.0F).sum()}).ok());
  // Sums of tensors within the range work, one row more does not, unless each row has its own.
  const Executable program = must(compile(watched.device(), {x.sum({0})}));
  const std::vector<float> fits(256 * 1024, 1.0F);
  const Outputs outputs = must(program.run({{"x", HostView(fits)}}));
  EXPECT_EQ(outputs.at("y").as<float>()[3], 16384.0F);
  const std::vector<float> beyond(16385 * 16, 1.0F);
  WatchedDevice::counts().clear();
  const auto run = program.run({{"x", HostView(beyond)}});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(run.error().message.find("takes 1048640 bytes, and one storage buffer of this device holds 1048576 "
                                     "(storage_range); at one position of each axis"),
            std::string::npos)
      << run.error().text();
  EXPECT_EQ(WatchedDevice::counts().allocations, 0);
  const Outputs rows = must(must(compile(watched.device(), {x.sum({1})})).run({{"x", HostView(beyond)}}));
  EXPECT_EQ(rows.at("y").as<float>()[16384], 16.0F);
}

TEST(Constants, AreSharedByTheProgramsOfADevice) {
  const WatchedDevice watched;
  const std::vector<float> weights = ramp(250000);
  std::vector<float> other = weights;
  other.back() += 1;
  const std::vector<float> data(250000, 3.0F);
  const auto program = [&](const std::vector<float>& values, bool negated) {
    const Tensor x = Tensor::input("x", DType::f32, {250000});
    const Tensor w = Tensor::constant(DType::f32, {250000}, std::as_bytes(std::span(values)));
    return must(compile(watched.device(), {negated ? -(x * w) : x + w}));
  };
  const auto grown_by = [&](const Executable& one) {
    const std::uint64_t before = watched.allocated();
    const Outputs outputs = must(one.run({{"x", HostView(data)}}));
    EXPECT_EQ(outputs.at("y").as<float>().size(), data.size());
    return watched.allocated() - before;
  };
  std::optional<Executable> first = program(weights, false);
  const std::uint64_t with_constant = grown_by(*first);
  EXPECT_GE(with_constant, 3000000u);
  const Executable second = program(weights, true);
  EXPECT_LT(grown_by(second), with_constant - 900000) << "equal bytes are there already";
  const Executable third = program(other, true);
  EXPECT_GT(grown_by(third), with_constant - 900000) << "one byte differs";
  const std::uint64_t before = watched.allocated();
  first.reset();
  EXPECT_LT(watched.allocated(), before);
  const Outputs still =
      must(second.run({{"x", HostView(data)}}));  // the constant lives as long as a program that reads it
  EXPECT_EQ(still.at("y").as<float>()[7], -3.0F * weights[7]);
}

TEST(Constants, GoWithTheirLastProgram) {
  const WatchedDevice watched;
  const std::vector<float> data = ramp(5000);
  const Tensor x = Tensor::input("x", DType::f32, {5000});
  const auto left_by = [&](const Tensor& y) {
    const Executable program = must(compile(watched.device(), {y}));
    must(program.run({{"x", HostView(data)}}));
    EXPECT_GT(watched.allocated(), 0u);
  };
  left_by(x + 1.0);
  const std::uint64_t of_device = watched.allocated();  // slots that results are read from, where these are copied
  left_by(x + Tensor::constant(DType::f32, {5000}, std::as_bytes(std::span(data))));
  EXPECT_EQ(watched.allocated(), of_device);
}

}  // namespace
}  // namespace vkfuse::test
