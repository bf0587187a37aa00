// What the API refuses: each is one full sentence that names the value.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "support/device.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

/// The error of a call that must fail; fails the test if it does not, or if it is no sentence.
template <typename T>
Error refused(const Result<T>& result) {
  if (result.ok()) {
    ADD_FAILURE() << "it was accepted";
    return {};
  }
  const Error& error = result.error();
  EXPECT_FALSE(error.message.empty());
  EXPECT_TRUE(!error.message.empty() && error.message.back() == '.') << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
  EXPECT_NE(error.code, ErrorCode::internal) << error.text();
  return error;
}

void expect_part(const Error& error, ErrorCode code, const std::string& part) {
  EXPECT_EQ(name_of(error.code), std::string(name_of(code))) << error.text();
  EXPECT_NE(error.text().find(part), std::string::npos) << error.text() << "\nwanted: " << part;
}

Executable doubling(const Shape& shape = {4}) {
  return must(compile(device(), {Tensor::input("x", DType::f32, shape) * 2.0}));
}

TEST(DeviceErrors, UnknownNameListsTheDevices) {
  DeviceOptions options;
  options.name = "GeForce 256";
  const Error error = refused(Device::open(options));
  expect_part(error, ErrorCode::not_found,
              "No Vulkan device matches 'GeForce 256'; there are 0: " + device().description().name);
  options.name = "17";
  expect_part(refused(Device::open(options)), ErrorCode::not_found, "No Vulkan device matches '17'");
}

TEST(DeviceErrors, LimitsAndFeaturesByName) {
  DeviceOptions options;
  options.limits = {{"max_invocation", 64}};
  expect_part(refused(Device::open(options)), ErrorCode::invalid_argument, "There is no limit named 'max_invocation'");
  options.limits = {{"max_invocations", 1u << 20}};
  expect_part(refused(Device::open(options)), ErrorCode::invalid_argument, "cannot be raised to 1048576");
  options.limits = {{"registers_per_thread", 1u << 20}};
  expect_part(refused(Device::open(options)), ErrorCode::invalid_argument,
              "The limit registers_per_thread is 1024 on this device and cannot be raised to 1048576");
  options.limits = {{"storage_buffers", 0}};
  expect_part(refused(Device::open(options)), ErrorCode::invalid_argument, "The limit storage_buffers cannot be 0");
  options.limits = {};
  options.disable = {"T9"};
  expect_part(refused(Device::open(options)), ErrorCode::invalid_argument, "'T9' is neither a feature tier");
}

TEST(RunErrors, InputsByNameAndSize) {
  const Executable program = doubling();
  const std::vector<float> four(4);
  const std::vector<float> five(5);
  expect_part(refused(program.run({})), ErrorCode::invalid_argument, "Input 'x' of type f32[4] was not given");
  expect_part(refused(program.run({{"x", four}, {"z", four}})), ErrorCode::invalid_argument, "has no input 'z'");
  expect_part(refused(program.run({{"x", five}})), ErrorCode::invalid_argument,
              "Input 'x' has 20 bytes, but f32[4] takes 16");
  expect_part(refused(program.run({{"x", HostView(four, {2, 2})}})), ErrorCode::invalid_argument,
              "Input 'x' has shape [2, 2], but the program declares [4]");
  expect_part(refused(program.run({{"x", HostView(five, {5})}})), ErrorCode::invalid_argument,
              "Input 'x' has size 5 in dimension 0, where 4 is 4");
  EXPECT_TRUE(program.run({{"x", four}}).ok());  // still usable
}

TEST(RunErrors, SymbolsAgreeAndKeepTheirPromises) {
  const Dim n = Dim::any("n", {2, 8, 2});
  const Tensor sum = Tensor::input("x", DType::f32, {n}) + Tensor::input("z", DType::f32, {n});
  const Executable program = must(compile(device(), {sum}));
  const std::vector<float> four(4);
  const std::vector<float> six(6);
  const std::vector<float> three(3);
  const std::vector<float> ten(10);
  expect_part(refused(program.run({{"x", four}, {"z", six}})), ErrorCode::invalid_argument, "where n is 4");
  expect_part(refused(program.run({{"x", three}, {"z", three}})), ErrorCode::invalid_argument,
              "The dimension 'n' is 3, but it was declared as min 2, max 8, multiple of 2");
  expect_part(refused(program.run({{"x", ten}, {"z", ten}})), ErrorCode::invalid_argument, "The dimension 'n' is 10");
  const std::vector<std::byte> odd(7);
  expect_part(refused(program.run({{"x", odd}, {"z", four}})), ErrorCode::invalid_argument, "7 bytes of input 'x'");
  EXPECT_TRUE(program.run({{"x", six}, {"z", six}}).ok());
  const Executable two =
      must(compile(device(), {Tensor::input("x", DType::f32, {Dim::any("a"), Dim::any("b")}) * 2.0}));
  expect_part(refused(two.run({{"x", six}})), ErrorCode::invalid_argument, "more than one dimension is symbolic");
  EXPECT_TRUE(two.run({{"x", HostView(six, {2, 3})}}).ok());
}

TEST(SubmitErrors, BuffersByNameAndSize) {
  const Executable program = doubling({Dim::any("n")});
  Bindings bindings;
  bindings.symbols["n"] = 4;
  expect_part(refused(program.submit(bindings)), ErrorCode::invalid_argument, "No buffer was bound to the input 'x'");
  bindings.inputs["x"] = must(device().allocate(15));
  expect_part(refused(program.submit(bindings)), ErrorCode::invalid_argument,
              "The input 'x' takes 16 bytes, but its buffer has 15");
  bindings.inputs["x"] = must(device().allocate(16));
  expect_part(refused(program.submit(bindings)), ErrorCode::invalid_argument, "No buffer was bound to the output 'y'");
  bindings.outputs["y"] = Buffer();
  expect_part(refused(program.submit(bindings)), ErrorCode::invalid_argument, "No buffer was bound to the output 'y'");
  bindings.outputs["y"] = must(device().allocate(16));
  // A name that is misspelt, also where outputs may be left out.
  bindings.outputs["Y"] = must(device().allocate(16));
  expect_part(refused(program.submit(bindings)), ErrorCode::invalid_argument, "has no output 'Y'");
  bindings.outputs.erase("y");
  bindings.donated = {"x"};
  expect_part(refused(program.submit(bindings)), ErrorCode::invalid_argument, "has no output 'Y'");
  bindings.outputs = {{"y", must(device().allocate(16))}};
  bindings.donated.clear();
  bindings.inputs["X"] = bindings.inputs["x"];
  expect_part(refused(program.submit(bindings)), ErrorCode::invalid_argument, "has no input 'X'");
  bindings.inputs.erase("X");
  EXPECT_TRUE(program.submit(bindings).ok());
  bindings.symbols.clear();
  expect_part(refused(program.submit(bindings)), ErrorCode::invalid_argument,
              "The symbolic dimension 'n' has no value");
}

TEST(SubmitErrors, SymbolsByName) {
  const Executable program = doubling({Dim::any("n")});
  const std::string sentence = "The program 'graph' has no symbol 'm'.";
  Bindings bindings;
  bindings.symbols = {{"n", 4}, {"m", 3}};
  bindings.inputs["x"] = must(device().allocate(16));
  bindings.outputs["y"] = must(device().allocate(16));
  expect_part(refused(program.submit(bindings)), ErrorCode::invalid_argument, sentence);
  expect_part(refused(program.profile(bindings)), ErrorCode::invalid_argument, sentence);
  expect_part(refused(program.memory(bindings.symbols)), ErrorCode::invalid_argument, sentence);
  expect_part(refused(program.tune(1, bindings.symbols)), ErrorCode::invalid_argument, sentence);
  expect_part(refused(doubling().memory({{"m", 3}})), ErrorCode::invalid_argument, sentence);
  bindings.symbols = {{"m", 4}};  // as many as it has
  expect_part(refused(program.submit(bindings)), ErrorCode::invalid_argument, sentence);
  // The passes leave nothing of this one; it is of the program all the same.
  const Executable without =
      must(compile(device(), {Tensor::input("x", DType::f32, {4}) +
                              Tensor::input("w", DType::f32, {Dim::any("k"), 4}).sum({0}) * 0.0}));
  EXPECT_TRUE(without.memory({{"k", 3}}).ok());
  bindings.symbols = {{"n", 4}};
  EXPECT_TRUE(program.submit(bindings).ok());
}

// Handles that were moved from are handles: what they were is what they are.
TEST(HandleErrors, WhatWasMovedFromIsUsable) {
  Executable program = doubling();
  const Executable moved = std::move(program);
  EXPECT_TRUE(program.run({{"x", std::vector<float>(4)}}).ok());  // NOLINT(bugprone-use-after-move): that is the point
  Device first = device();
  const Device second = std::move(first);
  EXPECT_EQ(first.description().name, second.description().name);  // NOLINT(bugprone-use-after-move)
  Stream stream(device());
  const Stream other = std::move(stream);
  EXPECT_EQ(stream.report().evaluations, 0U);  // NOLINT(bugprone-use-after-move)
  Bindings bindings;
  bindings.inputs["x"] = must(device().allocate(16));
  bindings.outputs["y"] = must(device().allocate(16));
  Submission submission = must(moved.submit(bindings));
  const Submission kept = std::move(submission);
  EXPECT_TRUE(submission.wait().ok() && kept.wait().ok());  // NOLINT(bugprone-use-after-move)
}

TEST(TensorErrors, DTypesThatThereAreNone) {
  const auto wrong = static_cast<DType>(77);
  const std::string sentence = "77 is not a dtype: they are numbered from 0 to 12.";
  const Tensor x = Tensor::input("x", DType::f32, {4, 6});
  const Tensor q = Tensor::input("q", DType::f32, {1, 1, 4, 8});
  AttentionOptions attending;
  attending.softmax_dtype = wrong;
  const std::vector<std::byte> bytes(12);
  for (const Tensor& tensor :
       {Tensor::input("x", wrong, {3}), Tensor::constant(wrong, {3}, bytes), Tensor::scalar(wrong, 1),
        Tensor::scalar_int(wrong, 1), Tensor::iota(wrong, {3}, 0), x.cast(wrong), x.bitcast(wrong),
        custom(CustomOp{.name = "a", .glsl = "x0", .dtype = wrong}, {x}), attention(q, q, q, attending)}) {
    ASSERT_FALSE(tensor.valid());
    expect_part(tensor.error(), ErrorCode::invalid_argument, sentence);
  }
  const std::int64_t sizes[] = {3};
  expect_part(refused(device().allocate(wrong, sizes)), ErrorCode::invalid_argument, sentence);
  const Stream stream(device());
  expect_part(refused(stream.tensor(wrong, {3}, bytes)), ErrorCode::invalid_argument, sentence);
  expect_part(refused(stream.wrap(must(device().allocate(12)), wrong, {3})), ErrorCode::invalid_argument, sentence);
}

TEST(TensorErrors, SizesOfStreamsAreNotNegative) {
  const Stream stream(device());
  const std::vector<float> four(4);
  expect_part(refused(stream.tensor(DType::f32, {-2, -2}, four)), ErrorCode::invalid_argument,
              "has a negative dimension -2 in its shape [-2, -2]");
  expect_part(refused(stream.wrap(must(device().allocate(16)), DType::f32, {-2, -2})), ErrorCode::invalid_argument,
              "has a negative dimension -2");
}

TEST(TensorErrors, FactsThatNoSizeKeeps) {
  const auto refusal = [](const std::string& name, DimFacts facts) {
    const Tensor tensor = Tensor::input("x", DType::f32, {Dim::any(name, facts)});
    EXPECT_FALSE(tensor.valid());
    return tensor.valid() ? std::string() : tensor.error().message;
  };
  EXPECT_EQ(refusal("n", {0, 3, 0}),
            "Input 'x' has a dimension 'n' with impossible facts: min 0, max 3, multiple of 0.");
  EXPECT_EQ(refusal("n", {0, 3, -2}),
            "Input 'x' has a dimension 'n' with impossible facts: min 0, max 3, multiple of -2.");
  EXPECT_EQ(refusal("n", {-7, 3, 1}),
            "Input 'x' has a dimension 'n' with impossible facts: min -7, max 3, multiple of 1.");
  EXPECT_EQ(refusal("n", {5, 3, 1}),
            "Input 'x' has a dimension 'n' with impossible facts: min 5, max 3, multiple of 1.");
  // One that is large leaves one size, or none.
  for (const DimFacts facts : {DimFacts{0, INT64_MAX, INT64_MAX}, DimFacts{1, INT64_MAX, std::int64_t{1} << 62},
                               DimFacts{INT64_MAX, INT64_MAX, 2}}) {
    refused(compile(device(), {Tensor::input("x", DType::f32, {Dim::any("n", facts)}) * 2.0}));
  }
}

TEST(CompileErrors, OptionsThatThereAreNone) {
  const Tensor y = Tensor::input("x", DType::f32, {4}) * 2.0;
  CompileOptions options;
  options.numerics = static_cast<Numerics>(99);
  expect_part(refused(compile(device(), {y}, options)), ErrorCode::invalid_argument, "99 is not a kind of numerics");
  options = {};
  options.tune = static_cast<Tune>(99);
  expect_part(refused(compile(device(), {y}, options)), ErrorCode::invalid_argument, "99 is not a way to tune");
  for (const double budget : {std::nan(""), -1.0}) {
    options = {};
    options.tune_ms = budget;
    expect_part(refused(compile(device(), {y}, options)), ErrorCode::invalid_argument, "ms are no budget");
  }
  DeviceOptions opening;
  opening.disable = {"T0"};
  expect_part(refused(Device::open(opening)), ErrorCode::invalid_argument, "'T0' is neither a feature tier (T1 to T5)");
}

// What a function of the caller throws, whatever it is, is the error of the call that it ended.
TEST(CallbackErrors, AnythingMayBeThrown) {
  for (const bool standard : {true, false}) {
    DeviceOptions opening;
    opening.log = [standard](LogLevel level, std::string_view) {
      if (level != LogLevel::debug) return;
      if (standard) throw std::runtime_error("mine");
      throw 5;  // NOLINT: that is the point
    };
    const Device open = must(Device::open(opening));
    const auto compiled = compile(open, {Tensor::input("x", DType::f32, {4}) * 2.0});
    ASSERT_FALSE(compiled.ok());
    EXPECT_NE(compiled.error().message.find("thrown"), std::string::npos) << compiled.error().text();
  }
  CompileOptions options;
  options.tune = Tune::background;
  options.tune_ms = 50;
  std::atomic<int> told = 0;
  options.on_tune = [&](const TuneProgress&) {
    ++told;
    throw 5;  // NOLINT
  };
  const Executable program = must(compile(device(), {Tensor::input("x", DType::f32, {4}) * 2.0}, options));
  EXPECT_TRUE(program.run({{"x", std::vector<float>(4)}}).ok());
  for (int i = 0; i < 2000 && told == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(program.run({{"x", std::vector<float>(4)}}).ok());
}

TEST(BufferErrors, WindowsStayInside) {
  const Buffer buffer = must(device().allocate(10));
  std::vector<std::byte> bytes(11);
  expect_part(refused(buffer.write(bytes)), ErrorCode::invalid_argument,
              "11 bytes at offset 0 do not fit a buffer of 10 bytes");
  expect_part(refused(buffer.read(std::span(bytes).first(4), 7)), ErrorCode::invalid_argument, "4 bytes at offset 7");
  expect_part(refused(buffer.read(std::span(bytes).first(4), ~std::uint64_t{0})), ErrorCode::invalid_argument,
              "do not fit");
  expect_part(refused(Buffer().write(bytes)), ErrorCode::invalid_argument, "The buffer is empty");
  expect_part(refused(device().allocate(std::uint64_t{1} << 60)), ErrorCode::out_of_memory,
              "1152921504606846976 bytes");
  expect_part(refused(device().allocate(~std::uint64_t{0})), ErrorCode::out_of_memory, "18446744073709551615 bytes");
}

TEST(CompileErrors, SizesBeyondTheDevice) {
  const Tensor large = Tensor::input("x", DType::f32, {std::int64_t{1} << 45}) * 2.0;
  expect_part(refused(compile(device(), {large})), ErrorCode::unsupported,
              "workgroups, and one dispatch of this device has");
  for (const Shape& shape :
       {Shape{std::int64_t{1} << 62}, Shape{INT64_MAX}, Shape{std::int64_t{1} << 31, std::int64_t{1} << 31}}) {
    refused(compile(device(), {Tensor::input("x", DType::f32, shape) * 2.0}));
    refused(compile(device(), {abs(Tensor::input("x", DType::i8, shape))}));
    refused(compile(device(), {Tensor::iota(DType::f64, shape, 0).cast(DType::u8)}));
  }
  const Executable program = doubling({Dim::any("n")});
  Bindings bindings;
  bindings.symbols["n"] = std::int64_t{1} << 61;
  bindings.inputs["x"] = bindings.outputs["y"] = must(device().allocate(16));
  refused(program.submit(bindings));
  bindings.symbols["n"] = INT64_MAX;
  refused(program.submit(bindings));
  bindings.symbols["n"] = -4;
  refused(program.submit(bindings));
}

TEST(CompileErrors, EmptyTensorsOfHugeDimensionsAreFine) {
  const Tensor x = Tensor::input("x", DType::f32, {std::int64_t{1} << 62, 0, std::int64_t{1} << 62});
  const Executable program = must(compile(device(), {x * 2.0}));
  EXPECT_TRUE(must(program.run({{"x", std::vector<float>{}}})).at("y").bytes.empty());
}

TEST(CompileErrors, MoreAxesThanAKernelHas) {
  // Two operands that take turns in having a dimension: nothing can be merged.
  Shape few(34, Dim(1));
  Shape other(34, Dim(1));
  for (std::size_t i = 0; i < 34; ++i) (i % 2 == 0 ? few : other)[i] = Dim(2);
  expect_part(refused(compile(device(), {Tensor::input("x", DType::i8, few) + Tensor::input("z", DType::i8, other)})),
              ErrorCode::unsupported, "Its loops have 34 axes, and a kernel has 32 at most.");
}

TEST(CompileErrors, TextAndTensors) {
  expect_part(refused(compile_text(device(), "graph \"g\" {\n  %0 = inputs\n}")), ErrorCode::invalid_argument,
              "Line 2: 'inputs' is not the name of an op");
  expect_part(refused(compile(device(), std::initializer_list<Tensor>{})), ErrorCode::invalid_argument,
              "at least one output");
  const Tensor bad = Tensor::input("x", DType::f32, {3}) + Tensor::input("z", DType::i32, {3});
  expect_part(refused(compile(device(), {bad})), ErrorCode::invalid_argument,
              "must have one dtype, but they are f32 and i32");
}

TEST(CompileErrors, DoublesAreRefusedWhereThereAreNone) {
  DeviceOptions options;
  options.disable = {};
  for (const std::string& feature : device().description().features) {
    if (feature == "float64") options.disable = {"float64"};
  }
  const Device without = must(Device::open(options));
  expect_part(refused(compile(without, {-Tensor::input("x", DType::f64, {3})})), ErrorCode::unsupported,
              "has no 64-bit floats");
}

TEST(ExplainErrors, SegmentsByNumber) {
  const Executable program = doubling();
  expect_part(refused(program.explain(Stage::glsl, 1)), ErrorCode::invalid_argument,
              "There is no segment 1: the plan has 1");
  expect_part(refused(program.explain(Stage::spirv, -1)), ErrorCode::invalid_argument, "There is no segment -1");
  for (const Stage stage :
       {Stage::graph, Stage::plan, Stage::json, Stage::glsl, Stage::spirv, Stage::msl, Stage::hlsl}) {
    EXPECT_FALSE(must(program.explain(stage)).empty());
  }
}

}  // namespace
}  // namespace vkfuse::test
