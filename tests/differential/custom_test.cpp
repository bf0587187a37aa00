// Ops whose GLSL the user gives: elements fuse like any others, kernels are segments of their own, and what is wrong is
// a sentence.
#include <gtest/gtest.h>

#include <cmath>

#include "api/program.hpp"
#include "api/states.hpp"
#include "api/tensor_node.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "support/random.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

CustomOp swish() {
  return {.name = "swish",
          .glsl = "x0 / (1.0 + exp(-x0))",
          .dtype = DType::f32,
          .reference = [](std::span<const double> x) { return x[0] / (1 + std::exp(-x[0])); }};
}

Data random_data(const ir::Graph& graph, const SymbolValues& symbols = {}, std::uint64_t seed = 3) {
  Data data;
  data.symbols = symbols;
  Random random(seed);
  for (ir::NodeId id : graph.inputs()) {
    const DType dtype = graph.node(id).type.dtype;
    std::vector<std::byte> bytes;
    const std::size_t count = bytes_of(graph, id, symbols) / static_cast<std::size_t>(size_of(dtype));
    for (std::size_t i = 0; i < count; ++i) {
      if (is_float(dtype)) {
        ir::encode(dtype, random.between(-4, 4), bytes);
      } else {
        ir::encode_int(dtype,
                       dtype == DType::boolean ? static_cast<int>(random.below(2))
                                               : ops::wrap(dtype, static_cast<std::int64_t>(random.word())),
                       bytes);
      }
    }
    data.inputs[std::get<ir::InputPayload>(graph.node(id).payload).name] = std::move(bytes);
  }
  return data;
}

ir::Graph graph_with_op(const Tensor& y) { return must(api::to_graph({&y, 1}, {}, "custom")); }

/// Runs fused and unfused, compares both with the reference, and says how many kernels the fused one has.
int kernels_checked(const Tensor& y, Numerics numerics = Numerics::standard, const SymbolValues& symbols = {}) {
  const ir::Graph graph = graph_with_op(y);
  const Data data = random_data(graph, symbols);
  const Executable fused = compile_graph(graph, numerics, true);
  const Executable unfused = compile_graph(graph, numerics, false);
  const GuardedRun one = run_guarded(fused, graph, data);
  const GuardedRun other = run_guarded(unfused, graph, data);
  EXPECT_EQ(one.broken, "");
  for (const GuardedRun* run : {&one, &other}) {
    const Verdict verdict = check_outputs(graph, data, run->outputs);
    EXPECT_EQ(verdict.wrong, "");
    EXPECT_EQ(verdict.undecided, 0);
  }
  if (numerics == Numerics::strict) {
    EXPECT_EQ(one.outputs, other.outputs);
  }
  return fused.kernel_count();
}

TEST(Custom, ElementsFuseWithWhatStandsAround) {
  const Tensor x = Tensor::input("x", DType::f32, {24, 100});
  const Tensor b = Tensor::input("b", DType::f32, {100});
  EXPECT_TRUE(are_kernels(kernels_checked(custom(swish(), {x})), 1));
  EXPECT_TRUE(are_kernels(kernels_checked(relu(custom(swish(), {x * 2.0}) + b)), 1));
  EXPECT_TRUE(are_kernels(kernels_checked(custom(swish(), {x}).sum({1})), 1));
  EXPECT_TRUE(are_kernels(kernels_checked(custom(swish(), {(x - x.max({1}, true)).sum({1}, true)}) * b), 1));
  EXPECT_TRUE(are_kernels(kernels_checked(custom(swish(), {x.transpose()}) + b.unsqueeze(1)), 1));
  const Tensor w = Tensor::input("w", DType::f32, {100, 32});
  EXPECT_TRUE(are_kernels(kernels_checked(custom(swish(), {matmul(custom(swish(), {x}) * 0.1, w)})), 1));
}

TEST(Custom, OperandsBroadcastAndMayBeOfAnyDTypes) {
  const Tensor h = Tensor::input("h", DType::f16, {7, 33});
  const Tensor i = Tensor::input("i", DType::i8, {33});
  const Tensor u = Tensor::input("u", DType::u16, {7, 1});
  const Tensor c = Tensor::input("c", DType::boolean, {7, 33});
  CustomOp mixed{.name = "mixed",
                 .glsl = "float t = x3 ? x0 : float(x1);\nif (x2 > 30000u) t += 1.0;\nreturn t * 0.5;",
                 .dtype = DType::f16,
                 .ulps = 2};
  mixed.reference = [](std::span<const double> x) {
    return ((x[3] != 0 ? x[0] : x[1]) + (x[2] > 30000 ? 1 : 0)) * 0.5;
  };
  for (const Numerics numerics : {Numerics::standard, Numerics::strict}) {
    if (has_least_limits()) {
      const Result<Executable> none = compile(device(), {custom(mixed, {h, i, u, c}) + 1.0}, {.numerics = numerics});
      ASSERT_FALSE(none.ok());
      EXPECT_NE(none.error().text().find("needs 5 storage buffers, and the device allows 4"), std::string::npos)
          << none.error().text();
      continue;
    }
    EXPECT_TRUE(are_kernels(kernels_checked(custom(mixed, {h, i, u, c}) + 1.0, numerics), 1));
  }
  // Integers wrap to their dtype, whatever the code gives; booleans come from comparisons.
  CustomOp times{
      .name = "times", .glsl = "x0 * 3 + 100", .dtype = DType::i8, .reference = [](std::span<const double> x) {
        return x[0] * 3 + 100;
      }};
  EXPECT_TRUE(are_kernels(kernels_checked(custom(times, {i}).cast(DType::i32) * Tensor::scalar(DType::i32, 2)), 1));
  CustomOp odd{
      .name = "odd", .glsl = "(x0 & 1u) == 1u", .dtype = DType::boolean, .reference = [](std::span<const double> x) {
        return std::fmod(x[0], 2);
      }};
  EXPECT_TRUE(are_kernels(kernels_checked(Tensor::apply("and", {custom(odd, {u}), c})), 1));
}

TEST(Custom, LiteralsSymbolsAndCommentsInTheCode) {
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 12});
  CustomOp mix{.name = "mix_of", .glsl = "/* } */ mix(x0, x1,  // a third )\n  x2) // to the end", .dtype = DType::f32};
  mix.reference = [](std::span<const double> v) { return v[0] * (1 - v[2]) + v[1] * v[2]; };
  const Tensor y = custom(mix, {x, Tensor::scalar(DType::f32, 2.5), Tensor::scalar(DType::f32, 0.25)});
  EXPECT_TRUE(are_kernels(kernels_checked(y.sum({1}), Numerics::standard, {{"n", 37}}), 1));
  EXPECT_TRUE(are_kernels(kernels_checked(custom(mix, {Tensor::scalar(DType::f32, 1), Tensor::scalar(DType::f32, 2),
                                                       Tensor::scalar(DType::f32, 0.5)})),
                          1));
}

TEST(Custom, OneFunctionForEqualCodeAndAnotherForOther) {
  const Tensor x = Tensor::input("x", DType::f32, {64});
  CustomOp other = swish();
  other.glsl = "x0 * 2.0";
  other.reference = [](std::span<const double> v) { return v[0] * 2; };
  const Tensor y = custom(other, {custom(swish(), {custom(swish(), {x})})});
  EXPECT_TRUE(are_kernels(kernels_checked(y), 1));
  const std::string glsl = must(compile_graph(graph_with_op(y), Numerics::standard, true).explain(Stage::glsl));
  std::size_t functions = 0;
  for (std::size_t at = glsl.find("float custom_swish_"); at != std::string::npos;
       at = glsl.find("float custom_swish_", at + 1))
    functions += glsl.compare(at + 27, 9, "(float x0") == 0;
  EXPECT_EQ(functions, 2U) << glsl;
}

TEST(Custom, TheTextFormHasThem) {
  const Tensor x = Tensor::input("x", DType::f32, {8, 4});
  CustomOp op = swish();
  op.glsl = "float e = exp(-x0);  // \"quoted\"\nreturn x0 / (1.0 + e);";
  const Tensor y = custom(op, {x});
  const ir::Graph graph = graph_with_op(y);
  const std::string text = ir::print(graph);
  const ir::ParseOptions allowed{.allow_custom = true};
  EXPECT_EQ(ir::print(must(ir::parse(text, allowed))), text);
  EXPECT_NE(text.find(R"(%1 = custom name="swish" code="float e = exp(-x0);  // \"quoted\"\x0areturn x0 / (1.0 + e);" )"
                      "ulps=16 cost=8 %0 : f32[8, 4]"),
            std::string::npos)
      << text;
  const Data data = random_data(graph);
  EXPECT_EQ(run_guarded(compile_graph(must(ir::parse(text, allowed)), Numerics::standard, true), graph, data).outputs,
            run_guarded(compile_graph(graph, Numerics::standard, true), graph, data).outputs);
}

TEST(Custom, WithoutAHostFunctionNothingIsValidated) {
  const Tensor x = Tensor::input("x", DType::f32, {8});
  CustomOp op = swish();
  op.reference = nullptr;
  const ir::Graph graph = graph_with_op(custom(op, {x}) + 1.0);
  const Data data = random_data(graph);
  reference::InputBindings input_bindings;
  for (const auto& input : data.inputs) input_bindings.inputs[input.first] = input.second;
  const auto column = reference::evaluate(graph, graph.outputs()[0].value, input_bindings);
  ASSERT_FALSE(column.ok());
  EXPECT_EQ(column.error().code, ErrorCode::unsupported);
  EXPECT_EQ(column.error().message,
            "The custom op 'swish' has no host function, so that what is computed from it has no reference and is not "
            "validated.");
}

std::string refused(const CustomOp& op, std::initializer_list<Tensor> operands) {
  const Tensor made = custom(op, operands);
  const auto program = compile(device(), {made});
  return program.ok() ? "" : program.error().message;
}

TEST(Custom, BadCodeIsOneSentenceWithItsLine) {
  const Tensor x = Tensor::input("x", DType::f32, {8});
  const auto with = [&](const std::string& glsl) {
    CustomOp op = swish();
    op.glsl = glsl;
    return refused(op, {x});
  };
  EXPECT_EQ(with("x0 + foo(x0)"),
            "The code of the custom op 'swish' does not compile: line 1, 'x0 + foo(x0)': 'foo' : no matching "
            "overloaded function found.");
  EXPECT_EQ(
      with("float a = 1.0;\n  float b = a + c;\nreturn b;"),
      "The code of the custom op 'swish' does not compile: line 2, 'float b = a + c;': 'c' : undeclared identifier.");
  EXPECT_EQ(with("x0 + x1").substr(0, 83),
            "The code of the custom op 'swish' does not compile: line 1, 'x0 + x1': 'x1' : undec");
  EXPECT_EQ(with("return uvec2(1u);").substr(0, 81),
            "The code of the custom op 'swish' does not compile: line 1, 'return uvec2(1u);': ");
  EXPECT_EQ(with("v0").substr(0, 56), "The code of the custom op 'swish' does not compile: line")
      << "what a kernel calls its values is not in scope";
  EXPECT_EQ(with("x0; } void f() {"),
            "The code of the custom op 'swish' has a '}' that closes nothing: 'x0; } void f() {'.");
  EXPECT_EQ(with("(x0"), "The code of the custom op 'swish' has a '(' that nothing closes: '(x0'.");
  EXPECT_EQ(with("x0\n#define x0 2\n"),
            "The code of the custom op 'swish' has a '#': it is part of a shader, and no directive fits there.");
  EXPECT_EQ(with("float(gl_GlobalInvocationID.x)"),
            "The code of the custom op 'swish' names 'gl_GlobalInvocationID', but an element is a function of its "
            "operands alone.");
  EXPECT_EQ(with("barrier(); return x0;"),
            "The code of the custom op 'swish' names 'barrier', but an element is a function of its operands alone.");
  EXPECT_EQ(with(" // nothing"), "The custom op 'swish' has no code.");
  CustomOp op = swish();
  op.name = "1st";
  EXPECT_EQ(refused(op, {x}),
            "'custom' has the name '1st', which is not a word of letters, digits and single underscores, 48 at most, "
            "that begins with a letter.");
  EXPECT_EQ(refused(swish(), {}), "'custom' takes one operand or more, but none was given.");
  EXPECT_EQ(refused(swish(), {x, Tensor::input("y", DType::f32, {3})}).substr(0, 10), "Shapes [8]");
  EXPECT_EQ(Tensor::apply("custom", {x}).error().message, "'custom' was given the attributes of another op.");
}

// Kernels. ------------------------------------------------------------------------------------------

/// Row sums scaled by a number of each row, one workgroup a row; sizes are push constants.
constexpr const char* kScaledSums = R"(#version 450
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Sizes { uint rows, columns, scales, results; };
void main() {
  uint row = gl_WorkGroupID.x;
  if (gl_LocalInvocationID.x != 0u) return;
  float sum = 0.0;
  for (uint i = 0u; i < columns; ++i) sum += a[row * columns + i];
  c[row] = sum * b[row];
}
)";

CustomKernel scaled_sums(Dim rows) {
  return {
      .name = "scaled_sums", .glsl = kScaledSums, .dtype = DType::f32, .shape = {rows}, .workgroup = 32, .tile = {1}};
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> all(bytes.size() / 4);
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

/// What the program gives for y = scaled_sums(left(x), right(b)) + 1, against sums in double.
void expect_scaled_sums(const Executable& program, const ir::Graph& graph, const Data& data, std::size_t rows,
                        std::size_t columns,
                        const std::function<double(std::size_t, std::size_t, const std::vector<float>&)>& at) {
  const GuardedRun run = run_guarded(program, graph, data);
  EXPECT_EQ(run.broken, "");
  const std::vector<float> y = floats_of(run.outputs.at("y"));
  const std::vector<float> x = floats_of(data.inputs.at("x"));
  const std::vector<float> b = floats_of(data.inputs.at("b"));
  ASSERT_EQ(y.size(), rows);
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < columns; ++i) sum += at(row, i, x);
    EXPECT_NEAR(y[row], sum * std::abs(b[row]) + 1, 1e-3) << row;
  }
}

TEST(Custom, AKernelIsASegmentOfItsOwn) {
  const Tensor x = Tensor::input("x", DType::f32, {20, 50});
  const Tensor b = Tensor::input("b", DType::f32, {20});
  const Tensor y = custom(scaled_sums(20), {relu(x), abs(b)}) + 1.0;
  const ir::Graph graph = graph_with_op(y);
  const Executable fused = compile_graph(graph, Numerics::standard, true);
  const std::string plan = must(fused.explain(Stage::plan));
  EXPECT_NE(plan.find(": custom over [20]"), std::string::npos) << plan;
  EXPECT_NE(plan.find("  ops:    custom_kernel 'scaled_sums'"), std::string::npos) << plan;
  EXPECT_TRUE(are_kernels(fused.kernel_count(), 4)) << plan;  // relu and abs have other sizes
  expect_scaled_sums(fused, graph, random_data(graph), 20, 50,
                     [](std::size_t row, std::size_t i, const auto& v) { return std::max(0.0f, v[row * 50 + i]); });
  // Nothing is fused into it, and what stands around it is fused as ever.
  EXPECT_NE(plan.find("is a kernel of the user's, in which nothing"), std::string::npos) << plan;
  const Tensor longer = tanh(relu(custom(scaled_sums(20), {x, b}) + 1.0)) * 2.0;
  EXPECT_TRUE(are_kernels(compile_graph(graph_with_op(longer), Numerics::standard, true).kernel_count(), 2));
}

TEST(Custom, OperandsOfKernelsAreDenseBuffers) {
  const Tensor x = Tensor::input("x", DType::f32, {50, 20});
  const Tensor b = Tensor::input("b", DType::f32, {20});
  // A transposed view is written first; so are a literal and positions.
  const ir::Graph graph = graph_with_op(custom(scaled_sums(20), {x.transpose(), abs(b)}) + 1.0);
  expect_scaled_sums(compile_graph(graph, Numerics::standard, true), graph, random_data(graph), 20, 50,
                     [](std::size_t row, std::size_t i, const auto& v) { return v[i * 20 + row]; });
  const Tensor one =
      custom(scaled_sums(1), {Tensor::iota(DType::f32, {1, 10}, 1), Tensor::scalar(DType::f32, 3).reshape({1})});
  const ir::Graph constant = graph_with_op(one);
  const GuardedRun run = run_guarded(compile_graph(constant, Numerics::standard, true), constant, {});
  EXPECT_EQ(floats_of(run.outputs.at("y")), std::vector<float>{135});
}

TEST(Custom, KernelsOfSymbolicSizesGetThem) {
  const Dim n = Dim::any("n");
  const Tensor x = Tensor::input("x", DType::f32, {n, 50});
  const Tensor b = Tensor::input("b", DType::f32, {n});
  const ir::Graph graph = graph_with_op(custom(scaled_sums(n), {x, abs(b)}) + 1.0);
  const Executable program = compile_graph(graph, Numerics::standard, true);
  for (const std::int64_t rows : {1, 17, 64}) {
    expect_scaled_sums(program, graph, random_data(graph, {{"n", rows}}), static_cast<std::size_t>(rows), 50,
                       [](std::size_t row, std::size_t i, const auto& v) { return v[row * 50 + i]; });
  }
}

/// Turns an array round: writes every element where another one is read.
constexpr const char* kReversed = R"(#version 450
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer A { uint a[]; };
layout(set = 0, binding = 1) buffer B { uint b[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < 1000u) b[i] = a[999u - i];
}
)";

TEST(Custom, AKernelsResultNeverTakesItsOperandsBuffer) {
  const CustomKernel reversed{
      .name = "reversed", .glsl = kReversed, .dtype = DType::u32, .shape = {1000}, .workgroup = 64, .tile = {64}};
  Tensor x = Tensor::input("x", DType::u32, {1000});
  const Tensor y = custom(reversed, {custom(reversed, {custom(reversed, {x})})});
  const ir::Graph graph = graph_with_op(y);
  const Executable program = compile_graph(graph, Numerics::standard, true);
  EXPECT_TRUE(are_kernels(program.kernel_count(), 3));
  Bindings bindings;
  std::vector<std::uint32_t> numbers(1000);
  for (std::uint32_t i = 0; i < 1000; ++i) numbers[i] = i * i;
  bindings.inputs["x"] = must(device().allocate(4000));
  must(bindings.inputs["x"].write(std::as_bytes(std::span(numbers))));
  bindings.donated = {"x"};
  const Submission submission = must(program.submit(bindings));
  must(submission.wait());
  std::vector<std::uint32_t> got(1000);
  must(submission.outputs().at("y").read(std::as_writable_bytes(std::span(got))));
  std::reverse(numbers.begin(), numbers.end());
  EXPECT_EQ(got, numbers);
  // Bound to its operand's own buffer it is refused.
  const Executable alone = compile_graph(graph_with_op(custom(reversed, {x})), Numerics::standard, true);
  Bindings shared;
  shared.inputs["x"] = must(device().allocate(4000));
  shared.outputs["y"] = shared.inputs["x"];
  EXPECT_EQ(alone.submit(shared).error().message,
            "Output 'y' shares memory with %0, which is still read when the output is written.");
}

TEST(Custom, BadKernelsAreOneSentence) {
  const Tensor x = Tensor::input("x", DType::f32, {20, 50});
  const Tensor b = Tensor::input("b", DType::f32, {20});
  const auto with = [&](const std::function<void(CustomKernel&)>& change) {
    CustomKernel kernel = scaled_sums(20);
    change(kernel);
    const auto program = compile(device(), {custom(kernel, {x, b})});
    return program.ok() ? std::string() : program.error().message;
  };
  const auto edited = [&](const std::string& from, const std::string& to) {
    return with([&](CustomKernel& kernel) { kernel.glsl.replace(kernel.glsl.find(from), from.size(), to); });
  };
  EXPECT_EQ(edited("sum * b[row]", "sum * d[row]"),
            "The custom kernel 'scaled_sums' does not compile: line 12, 'c[row] = sum * d[row];': 'd' : undeclared "
            "identifier.");
  EXPECT_EQ(edited("readonly buffer A", "buffer A"),
            "The custom kernel 'scaled_sums' has not the interface that its operands ask for: reads are readonly, "
            "stores are not.");
  EXPECT_EQ(edited("binding = 2", "binding = 3"),
            "The custom kernel 'scaled_sums' has not the interface that its operands ask for: buffers are bound in the "
            "order lowering recorded.");
  EXPECT_EQ(edited("scales, results", "scales"),
            "The custom kernel 'scaled_sums' has not the interface that its operands ask for: the shader's push "
            "constants are those lowering recorded.");
  EXPECT_EQ(edited("local_size_x_id = 0", "local_size_x = 64"),
            "The custom kernel 'scaled_sums' has not the interface that its operands ask for: the workgroup size is "
            "specialisation constant 0.");
  EXPECT_EQ(with([](CustomKernel& kernel) {
              kernel.tile = {1, 1};
            }),
            "The custom kernel 'scaled_sums' has a tile of 2 sizes, but its result [20] has 1 axes.");
  EXPECT_EQ(with([](CustomKernel& kernel) { kernel.tile = {0}; }),
            "The custom kernel 'scaled_sums' has a tile of [0], but sizes are 1 or more.");
  EXPECT_EQ(with([](CustomKernel& kernel) { kernel.workgroup = 8192; }).substr(0, 76),
            "The custom kernel 'scaled_sums' has workgroups of 8192 invocations, and the ");
  EXPECT_EQ(with([](CustomKernel& kernel) { kernel.glsl.clear(); }),
            "The code of the custom kernel 'scaled_sums' has 0 bytes, or a zero among them; it may have 1 to 262144.");
}

}  // namespace
}  // namespace vkfuse::test
