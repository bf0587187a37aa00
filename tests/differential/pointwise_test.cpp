// Fixed graphs whose shapes, dtypes or buffers have once been somebody's bug.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <thread>

#include "support/cases.hpp"
#include "support/compare.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

ir::Graph parsed(const std::string& text) { return must(ir::parse(text)); }

/// Fused and unfused, standard and strict, against the reference, with guards around every output.
void check(const Case& one, int kernels = 1, bool special = false) {
  Case made = one;
  made.special = special;
  const Data data = data_for(made);
  for (const Numerics numerics : {Numerics::standard, Numerics::strict}) {
    NamedBytes fused;
    for (const bool fusion : {true, false}) {
      const Executable program = compile_graph(one.graph, numerics, fusion);
      // Workgroups of a GPU share rows, whose parts another dispatch joins.
      const bool is_gpu = target(false).type != DeviceType::cpu;
      const std::size_t steps = program.state()->program->plan().steps.size();
      EXPECT_TRUE(!fusion || are_kernels(program.kernel_count(), kernels) || (is_gpu && are_kernels(steps, kernels)))
          << program.kernel_count() << " kernels\n"
          << ir::print(one.graph);
      GuardedRun run = run_guarded(program, one.graph, data);
      EXPECT_EQ(run.broken, "") << ir::print(one.graph);
      const Verdict verdict = check_outputs(one.graph, data, run.outputs);
      EXPECT_EQ(verdict.wrong, "") << (fusion ? "fused\n" : "unfused\n") << ir::print(one.graph);
      EXPECT_LE(verdict.undecided * 20, verdict.elements) << ir::print(one.graph);
      if (fusion) fused = std::move(run.outputs);
      EXPECT_TRUE(fusion || numerics != Numerics::strict || run.outputs == fused) << ir::print(one.graph);
    }
  }
}

void check_text(const std::string& text, int kernels = 1, const SymbolValues& symbols = {}) {
  check({parsed(text), symbols, 7, false}, kernels);
}

// --- lengths and tails -------------------------------------------------------------------------------

struct Row {
  DType dtype;
  int length;
  friend std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.length << " of " << name_of(row.dtype);
  }
};
class Rows : public testing::TestWithParam<Row> {};

ir::Graph row_graph(const Row& row) {
  ir::Graph graph;
  const ir::NodeId x = must(graph.add_input("x", {row.dtype, {Dim(row.length)}}));
  const ir::NodeId other = must(graph.add_input("z", {row.dtype, {Dim(row.length)}}));
  const char* op = row.dtype == DType::boolean ? "xor" : is_float(row.dtype) ? "sub" : "bit_xor";
  must(graph.add_output("y", must(graph.add(ops::row(op), {x, other}))));
  return graph;
}

TEST_P(Rows, AreExactUpToTheLastWord) { check({row_graph(GetParam()), {}, 11, false}); }

TEST_P(Rows, AreExactInPlace) {
  const Case one{row_graph(GetParam()), {}, 12, false};
  const Data data = data_for(one);
  for (const char* shared : {"x", "z"}) {
    const GuardedRun run =
        run_guarded(compile_graph(one.graph, Numerics::strict, true), one.graph, data, {{"y", shared}});
    EXPECT_EQ(run.broken, "");
    EXPECT_EQ(check_outputs(one.graph, data, run.outputs).wrong, "") << "in place of " << shared;
  }
}

INSTANTIATE_TEST_SUITE_P(Differential, Rows,
                         testing::Values(Row{DType::f16, 1}, Row{DType::f16, 3}, Row{DType::f16, 7},
                                         Row{DType::f16, 4097}, Row{DType::i8, 1}, Row{DType::i8, 3}, Row{DType::i8, 7},
                                         Row{DType::i8, 4097}, Row{DType::boolean, 1}, Row{DType::boolean, 3},
                                         Row{DType::boolean, 7}, Row{DType::boolean, 4097}, Row{DType::i64, 3},
                                         Row{DType::f32, 4097}, Row{DType::bf16, 33}),
                         [](const auto& row) {
                           return std::string(name_of(row.param.dtype)) + "_" + std::to_string(row.param.length);
                         });

TEST(Differential, NothingIsWrittenWhereThereIsNothing) {
  check_text(R"(graph "empty" {
  %0 = input "x" : f32[0]
  %1 = relu %0 : f32[0]
  output "y" = %1
})");
  check_text(R"(graph "empty rows" {
  %0 = input "x" : f16[3, 0, 5]
  %1 = input "b" : f16[5]
  %2 = add %0 %1 : f16[3, 0, 5]
  %3 = neg %2 : f16[3, 0, 5]
  output "y" = %2
  output "z" = %3
})");
}

// --- broadcasts ----------------------------------------------------------------------------------------

std::string bias(const std::string& dtype, int rows, int columns) {
  return fmt::format(R"(graph "bias" {{
  %0 = input "x" : {0}[{1}, {2}]
  %1 = input "b" : {0}[{2}]
  %2 = add %0 %1 : {0}[{1}, {2}]
  %3 = relu %2 : {0}[{1}, {2}]
  output "y" = %3
}})",
                     dtype, rows, columns);
}

/// At n = 0 one result has elements and the other none.
TEST(Differential, OfASizeThatMayBeZero) {
  for (const std::int64_t n : {0, 1, 9}) {
    check_text(
        "graph \"z\" {\n %0 = input \"a\" : f32[n, 4]\n %1 = exp %0 : f32[n, 4]\n %2 = reduce_sum axes=[0] %0 : "
        "f32[4]\n output \"y\" = %1\n output \"s\" = %2\n}",
        2, {{"n", n}});
  }
}

/// 0 - 1 is beyond what f16 holds, and so is -1 as an unsigned number; 255 + 2 is beyond the integers of bf16.
/// One kernel that rounds to both: each has a form of its own where the device rounds f16 by itself.
TEST(Differential, RoundsToBothHalves) {
  const Tensor x = Tensor::input("x", DType::f32, {1000});
  const ir::Graph graph = graph_of({x.cast(DType::f16).cast(DType::f32) * 1.5 + x.cast(DType::bf16).cast(DType::f32)});
  for (const Numerics numerics : {Numerics::standard, Numerics::strict}) {
    Build how;
    how.numerics = numerics;
    compare_with_reference(compile_graph(graph, how), graph, data_for({graph, {}, 5, false}), "casts to f16 and bf16");
  }
}

TEST(Differential, IntegersThatAreNoHalvesAreRounded) {
  const auto first_of = [](const std::string& body, std::vector<std::uint8_t> a, std::vector<std::uint8_t> b) {
    const Executable program = compile_graph(parsed("graph \"g\" {\n" + body + "\n}"), Numerics::standard, true);
    const Outputs out = must(program.run({{"a", HostView(a)}, {"b", HostView(b)}}));
    return out.at("y").as<float>().front();
  };
  const std::string inputs = " %0 = input \"a\" : u8[8]\n %1 = input \"b\" : u8[8]\n";
  const auto difference = [&](const std::string& between, const std::string& to) {
    return inputs + " %2 = cast %0 : " + between + "[8]\n %3 = cast %1 : " + between +
           "[8]\n %4 = sub %2 %3 : " + between + "[8]\n %5 = cast %4 : " + to +
           "[8]\n %6 = cast %5 : f32[8]\n output \"y\" = %6";
  };
  const std::vector<std::uint8_t> ones(8, 1), zeros(8, 0);
  EXPECT_EQ(first_of(difference("u32", "f16"), zeros, ones), std::numeric_limits<float>::infinity());
  EXPECT_EQ(first_of(difference("i32", "f16"), zeros, ones), -1.0F);
  EXPECT_EQ(first_of(inputs + " %2 = add %0 %1 : u8[8]\n %3 = cast %2 : i8[8]\n %4 = cast %3 : u32[8]\n %5 = cast %4 : "
                              "f16[8]\n %6 = cast %5 : f32[8]\n output \"y\" = %6",
                     std::vector<std::uint8_t>(8, 254), ones),
            std::numeric_limits<float>::infinity());
  // -1 of few bits with a sign, as a whole number without one.
  for (const char* narrow : {"i8", "i16", "i32"}) {
    for (const auto& [wide, largest] :
         {std::pair{"u16", 65535.0F}, {"u32", 4294967296.0F}, {"u64", 18446744073709551616.0F}}) {
      const std::string text = fmt::format(
          " %2 = cast %0 : {0}[8]\n %3 = cast %1 : {0}[8]\n %4 = sub %2 %3 : {0}[8]\n %5 = cast %4 : {1}[8]\n %6 = "
          "cast %5 : f32[8]\n output \"y\" = %6",
          narrow, wide);
      EXPECT_EQ(first_of(inputs + text, zeros, ones), largest) << narrow << " to " << wide;
    }
  }
  EXPECT_EQ(first_of(inputs + " %2 = cast %0 : i32[8]\n %3 = cast %1 : i32[8]\n %4 = add %2 %3 : i32[8]\n %5 = cast %4 "
                              ": bf16[8]\n %6 = cast %5 : f32[8]\n output \"y\" = %6",
                     std::vector<std::uint8_t>(8, 255), std::vector<std::uint8_t>(8, 2)),
            256.0F);
}

TEST(Differential, BiasOfAlignedAndUnalignedRows) {
  for (const char* dtype : {"f32", "f16", "i8"}) {
    for (int columns : {1, 3, 8, 16, 31, 64, 100}) check_text(bias(dtype, 13, columns));
  }
}

TEST(Differential, EveryBroadcastOfRankFour) {
  // Every pattern of which dimensions each of two operands has: 16 x 16 of them, in four graphs.
  const int sizes[4] = {3, 2, 5, 8};
  for (int first = 0; first < 4; ++first) {
    ir::Graph graph;
    std::vector<ir::NodeId> inputs;
    for (int pattern = 0; pattern < 16; ++pattern) {
      Shape shape;
      for (int i = 0; i < 4; ++i) shape.push_back(Dim((pattern >> i & 1) != 0 ? sizes[i] : 1));
      inputs.push_back(
          must(graph.add_input("x" + std::to_string(pattern), {first % 2 == 0 ? DType::i32 : DType::i16, shape})));
    }
    for (int a = first; a < 16; a += 4) {
      for (int b = 0; b < 16; b += 5) {
        must(graph.add_output(fmt::format("y{}_{}", a, b), must(graph.add(ops::row("sub"), {inputs[a], inputs[b]}))));
      }
    }
    const Case one{graph, {}, 21, false};
    const Data data = data_for(one);
    const GuardedRun run = run_guarded(compile_graph(graph, Numerics::standard, true), graph, data);
    EXPECT_EQ(run.broken, "");
    EXPECT_EQ(check_outputs(graph, data, run.outputs).wrong, "");
  }
}

TEST(Differential, OuterProductsOfRankFour) {
  for (const char* shapes : {"[3, 1, 5, 1] [1, 4, 1, 8]", "[3, 1, 5, 1] [1, 4, 1, 7]", "[2, 1, 1, 9] [1, 6, 4, 1]"}) {
    const std::string text(shapes);
    const std::string a = text.substr(0, text.find(']') + 1);
    const std::string b = text.substr(text.find(']') + 2);
    ir::Graph graph = parsed("graph \"g\" {\n %0 = input \"a\" : f32" + a + "\n %1 = input \"b\" : f32" + b +
                             "\n output \"o\" = %0\n}");
    ir::Graph made;
    const ir::NodeId x = must(made.add_input("a", graph.node(0).type));
    const ir::NodeId z = must(made.add_input("b", graph.node(1).type));
    must(made.add_output("y", must(made.add(ops::row("mul"), {x, z}))));
    check({made, {}, 5, false});
  }
}

TEST(Differential, MoreThanTenAxes) {
  // Two operands that take turns in having a dimension: nothing can be merged.
  ir::Graph graph;
  Shape a;
  Shape b;
  for (int i = 0; i < 12; ++i) {
    a.push_back(Dim(i % 2 == 0 ? 2 : 1));
    b.push_back(Dim(i % 2 == 0 ? 1 : 2));
  }
  const ir::NodeId x = must(graph.add_input("x", {DType::f32, a}));
  const ir::NodeId z = must(graph.add_input("z", {DType::f32, b}));
  must(graph.add_output("y", must(graph.add(ops::row("sub"), {x, z}))));
  check({graph, {}, 3, false});
}

TEST(Differential, PositionsOfBroadcastShapes) {
  check_text(R"(graph "positions" {
  %0 = input "x" : u32[6, 5, 7]
  %1 = iota axis=1 : u32[5, 7]
  %2 = iota axis=0 : u32[6, 1, 7]
  %3 = random seed=12345678901234 : u32[5, 1]
  %4 = random seed=99 : u32[6, 5, 7]
  %5 = bit_xor %0 %1 : u32[6, 5, 7]
  %6 = add %5 %2 : u32[6, 5, 7]
  %7 = bit_xor %6 %3 : u32[6, 5, 7]
  %8 = sub %7 %4 : u32[6, 5, 7]
  output "y" = %8
})");
}

// --- outputs -------------------------------------------------------------------------------------------

TEST(Differential, ThreeOutputsComeFromOneKernel) {
  check_text(R"(graph "three" {
  %0 = input "x" : f16[1000]
  %1 = mul %0 %0 : f16[1000]
  %2 = gt %1 %0 : bool[1000]
  %3 = cast %1 : i8[1000]
  %4 = neg %1 : f16[1000]
  output "a" = %1
  output "b" = %2
  output "c" = %3
})");
}

TEST(Differential, OutputsThatAreInputsConstantsOrEachOther) {
  check_text(R"(graph "identity" {
  %0 = input "x" : i8[11]
  output "y" = %0
})",
             0);
  check_text(R"(graph "constants" {
  %0 = constant {1, 2, 3} : f16[3]
  %1 = constant {-7} : i64[]
  %2 = constant {0, 1, 1, 0, 1} : bool[5]
  output "a" = %0
  output "b" = %1
  output "c" = %2
})");  // the literal is written; the others are the constants' bytes
  check_text(R"(graph "twice" {
  %0 = input "x" : f32[9]
  %1 = exp %0 : f32[9]
  %2 = exp %0 : f32[9]
  output "a" = %1
  output "b" = %1
  output "c" = %2
  output "d" = %0
  output "e" = %0
})");
}

// --- long, mixed, large --------------------------------------------------------------------------------

TEST(Differential, ChainOf64Ops) {
  ir::Graph graph;
  ir::NodeId value = must(graph.add_input("x", {DType::f32, {Dim(5000)}}));
  const ir::NodeId half = graph.add_scalar(DType::f32, 0.5);
  for (int i = 0; i < 32; ++i) {
    value = must(graph.add(ops::row("mul"), {value, half}));
    value = must(graph.add(ops::row(i % 2 == 0 ? "add" : "sub"), {value, graph.add_scalar(DType::f32, 0.25 * i)}));
  }
  must(graph.add_output("y", value));
  check({graph, {}, 64, false});
}

TEST(Differential, BooleansAndCastsMix) {
  check_text(R"(graph "mix" {
  %0 = input "x" : f32[40, 33]
  %1 = input "m" : bool[33]
  %2 = constant {0.5} : f32[]
  %3 = gt %0 %2 : bool[40, 33]
  %4 = and %3 %1 : bool[40, 33]
  %5 = cast %4 : f16[40, 33]
  %6 = cast %0 : i32[40, 33]
  %7 = cast %6 : i8[40, 33]
  %8 = cast %7 : f16[40, 33]
  %9 = select %4 %8 %5 : f16[40, 33]
  %10 = not %4 : bool[40, 33]
  output "y" = %9
  output "z" = %10
  output "w" = %7
})");
}

TEST(Differential, WidthsFromOneToEightBytesInOneKernel) {
  check_text(R"(graph "widths" {
  %0 = input "a" : i8[203]
  %1 = input "b" : i64[203]
  %2 = cast %0 : i64[203]
  %3 = add %1 %2 : i64[203]
  %4 = cast %3 : u16[203]
  %5 = lt %1 %2 : bool[203]
  output "y" = %3
  output "z" = %4
  output "w" = %5
})");
}

TEST(Differential, MoreWorkgroupsThanOneAxisHas) {
  // 16 i8 elements an invocation, 128 invocations a workgroup: 65536 workgroups and a bit.
  DeviceOptions options;
  options.limits = {{"max_invocations", 64}, {"max_groups_per_axis", 1000}};
  const Device small = must(Device::open(options));
  constexpr int kElements = 64 * 16 * 1003 + 5;
  const Tensor x = Tensor::input("x", DType::u8, {kElements});
  const Executable program = must(compile(small, {x + 3.0}));
  std::vector<std::uint8_t> data(kElements);
  for (int i = 0; i < kElements; ++i) data[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i * 7);
  const Outputs outputs = must(program.run({{"x", data}}));
  const auto got = outputs.at("y").as<std::uint8_t>();
  for (std::size_t i = 0; i < data.size(); ++i) ASSERT_EQ(got[i], static_cast<std::uint8_t>(data[i] + 3)) << i;
}

TEST(Differential, MoreWorkgroupsThanTheDeviceHasAlongAnAxis) {
  DeviceOptions options = has_least_limits() ? least_of(device()) : DeviceOptions{};
  options.limits["max_groups_per_axis"] = 65'535;  // the least that there may be: GPUs have more
  const Device limited = must(Device::open(options));
  constexpr std::int64_t kElements = 65'540 * 32 + 5;
  const ir::Graph graph = graph_of({Tensor::input("x", DType::u32, {kElements}) * 3.0 + 7.0});
  const Executable program =
      compile_graph(graph, {.device = &limited, .tuning = {.workgroup = 32, .vector_bytes = 4, .unroll_factor = 1}});
  const runtime::Launch kernel = specialization_of(program)->kernels[0][0];
  EXPECT_LE(kernel.groups_x, 65'535U);
  EXPECT_GT(kernel.groups_y, 1u);
  EXPECT_GT(std::int64_t{kernel.groups_x} * kernel.groups_y, 65'535);
  Data data;
  std::vector<std::byte>& x = data.inputs["x"];
  x.resize(kElements * 4);
  for (std::int64_t i = 0; i < kElements; ++i) {
    const auto value = static_cast<std::uint32_t>(i * 2'654'435'761);
    std::memcpy(x.data() + i * 4, &value, 4);
  }
  const GuardedRun run = run_guarded(program, graph, data);
  EXPECT_EQ(run.broken, "");
  for (std::int64_t i = 0; i < kElements; ++i) {
    std::uint32_t value = 0;
    std::memcpy(&value, run.outputs.at("y").data() + i * 4, 4);
    ASSERT_EQ(value, static_cast<std::uint32_t>(i * 2'654'435'761) * 3 + 7) << i;
  }
}

TEST(Differential, FewestInvocationsAndBuffers) {
  DeviceOptions options;
  options.limits = {{"max_invocations", 128}, {"storage_buffers", 4}};
  const Device small = must(Device::open(options));
  std::vector<Tensor> inputs;
  std::map<std::string, std::vector<float>> data;
  Inputs views;
  for (int i = 0; i < 9; ++i) {
    const std::string name = "x" + std::to_string(i);
    inputs.push_back(Tensor::input(name, DType::f32, {501}));
    data[name].assign(501, static_cast<float>(i + 1));
    views.emplace(name, HostView(data[name]));
  }
  Tensor sum = inputs[0];
  for (int i = 1; i < 9; ++i) sum = sum + inputs[static_cast<std::size_t>(i)];
  const Executable program = must(compile(small, {sum}));
  EXPECT_EQ(program.kernel_count(), 4);  // three operands and a result each, one of them carried on
  const Outputs outputs = must(program.run(views));
  for (float value : outputs.at("y").as<float>()) ASSERT_EQ(value, 45.0F);
}

// --- sizes and threads -----------------------------------------------------------------------------------

TEST(Differential, OneProgramRunsAtManySizes) {
  const std::string text = R"(graph "sizes" {
  %0 = input "x" : f16[n, 6]
  %1 = input "b" : f16[6]
  %2 = mul %0 %1 : f16[n, 6]
  %3 = iota axis=0 : f16[n, 1]
  %4 = add %2 %3 : f16[n, 6]
  output "y" = %4
})";
  const ir::Graph graph = parsed(text);
  const Executable program = compile_graph(graph, Numerics::strict, true);
  for (std::int64_t n : {1, 5, 4096, 4097, 0, 5}) {
    if (n > 1000) n /= 16;  // the reference would take long
    const Case one{graph, {{"n", n}}, 31, false};
    const Data data = data_for(one);
    const GuardedRun run = run_guarded(program, graph, data);
    EXPECT_EQ(run.broken, "") << n;
    EXPECT_EQ(check_outputs(graph, data, run.outputs).wrong, "") << n;
  }
  const ir::Graph flat =
      parsed("graph \"flat\" {\n %0 = input \"x\" : f32[n]\n %1 = neg %0 : f32[n]\n output \"y\" = %1\n}");
  const Executable one = compile_graph(flat, Numerics::strict, true);
  for (std::int64_t n : {1, 5, 4096, 4097}) {
    const Data data = data_for({flat, {{"n", n}}, 32, false});
    const GuardedRun run = run_guarded(one, flat, data);
    EXPECT_EQ(run.broken, "") << n;
    EXPECT_EQ(check_outputs(flat, data, run.outputs).wrong, "") << n;
  }
}

TEST(Differential, FourThreadsRunOneProgram) {
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n")});
  const Executable program = must(compile(device(), {x * 3.0 - 1.0}));
  std::vector<std::string> faults(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&faults, &program, t] {
      for (int round = 0; round < 12; ++round) {
        std::vector<float> data(static_cast<std::size_t>(100 + 37 * (round % 6)), static_cast<float>(t * 100 + round));
        const auto outputs = program.run({{"x", data}});
        if (!outputs) {
          faults[static_cast<std::size_t>(t)] = outputs.error().text();
          return;
        }
        const auto got = outputs->at("y").as<float>();
        const bool right = got.size() == data.size() &&
                           std::all_of(got.begin(), got.end(), [&](float y) { return y == data[0] * 3 - 1; });
        if (!right) faults[static_cast<std::size_t>(t)] = fmt::format("round {} of thread {} is wrong", round, t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& fault : faults) EXPECT_EQ(fault, "");
}

TEST(Differential, SubmissionsOnOneBufferFollowEachOther) {
  const Tensor x = Tensor::input("x", DType::i32, {1025});
  const Executable program = must(compile(device(), {x + 1.0}));
  Bindings bindings;
  std::vector<std::int32_t> zeros(1025, 0);
  const Buffer buffer = must(device().allocate(1025 * 4));
  must(buffer.write(std::as_bytes(std::span(zeros))));
  bindings.inputs["x"] = buffer;
  bindings.outputs["y"] = buffer;
  std::vector<Submission> submissions;
  for (int i = 0; i < 20; ++i) submissions.push_back(must(program.submit(bindings)));
  for (const Submission& submission : submissions) must(submission.wait());
  must(buffer.read(std::as_writable_bytes(std::span(zeros))));
  for (std::int32_t value : zeros) ASSERT_EQ(value, 20);
}

// --- in place --------------------------------------------------------------------------------------------

std::string refusal(const std::string& text, const std::map<std::string, std::string>& in_place, bool fusion = true) {
  const ir::Graph graph = parsed(text);
  try {
    run_guarded(compile_graph(graph, Numerics::standard, fusion), graph, data_for({graph, {}, 1, false}), in_place);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Differential, HarmfulSharingIsRefused) {
  const std::string broadcast_row = R"(graph "row" {
  %0 = input "x" : f32[4, 8]
  %1 = input "b" : f32[8]
  %2 = add %0 %1 : f32[4, 8]
  output "y" = %2
})";
  EXPECT_EQ(refusal(broadcast_row, {{"y", "x"}}), "");
  const std::string late_reader = R"(graph "late" {
  %0 = input "x" : f32[64]
  %1 = neg %0 : f32[64]
  %2 = add %1 %0 : f32[64]
  output "y" = %1
  output "z" = %2
})";
  // One kernel loads x once for both, and y is computed from it; of two kernels the second reads what is gone.
  EXPECT_EQ(refusal(late_reader, {{"y", "x"}}), "");
  EXPECT_NE(refusal(late_reader, {{"y", "x"}}, false).find("shares memory with %0, which is still read"),
            std::string::npos);
  EXPECT_EQ(refusal(late_reader, {{"z", "x"}}, false), "");
  // A driver's compiler may store y, which does not need x, before it loads x for z.
  const std::string other_reader = R"(graph "other" {
  %0 = input "x" : f32[64]
  %1 = input "w" : f32[64]
  %2 = neg %1 : f32[64]
  %3 = add %0 %2 : f32[64]
  output "y" = %2
  output "z" = %3
})";
  EXPECT_NE(refusal(other_reader, {{"y", "x"}}).find("which is still read when"), std::string::npos);
  const std::string apart = R"(graph "apart" {
  %0 = input "x" : f32[64]
  %1 = neg %0 : f32[64]
  %2 = input "w" : f32[64]
  %3 = exp %2 : f32[64]
  output "y" = %1
  output "z" = %3
})";
  EXPECT_EQ(refusal(apart, {{"y", "x"}}), "");
  EXPECT_NE(refusal(apart, {{"y", "x"}, {"z", "x"}}).find("Outputs 'y' and 'z' share memory"), std::string::npos);
  const std::string widened = R"(graph "wide" {
  %0 = input "x" : f16[64]
  %1 = cast %0 : f32[64]
  %2 = cast %1 : i16[64]
  output "y" = %2
})";
  EXPECT_EQ(refusal(widened, {{"y", "x"}}), "");
  const std::string stretched = R"(graph "stretched" {
  %0 = input "x" : f32[8, 1]
  %1 = input "z" : f32[1, 1]
  %2 = iota axis=1 : f32[8, 1]
  %3 = add %0 %1 : f32[8, 1]
  %4 = add %3 %2 : f32[8, 1]
  output "y" = %4
})";
  EXPECT_EQ(refusal(stretched, {{"y", "x"}}), "");
}

// --- literals --------------------------------------------------------------------------------------------

TEST(Differential, LiteralZerosKeepNaNAndInfinity) {
  const ir::Graph graph = parsed(R"(graph "zeros" {
  %0 = input "x" : f32[400]
  %1 = constant {0} : f32[]
  %2 = constant {-0} : f32[]
  %3 = mul %0 %1 : f32[400]
  %4 = div %0 %1 : f32[400]
  %5 = div %2 %0 : f32[400]
  %6 = fma %0 %1 %0 : f32[400]
  output "product" = %3
  output "quotient" = %4
  output "inverse" = %5
  output "sum" = %6
})");
  const Data data = data_for({graph, {}, 2, true});
  for (bool fusion : {true, false}) {
    const GuardedRun run = run_guarded(compile_graph(graph, Numerics::strict, fusion), graph, data);
    EXPECT_EQ(check_outputs(graph, data, run.outputs).wrong, "") << "fusion " << fusion;
  }
}

TEST(Differential, OpsOnLiteralsAloneAreComputedByTheDevice) {
  // Each op of the table that has a float form: a driver that folds it must not change the answer.
  ir::Graph graph;
  const DType dtypes[] = {DType::f32, DType::f16};
  for (const DType dtype : dtypes) {
    for (const ops::OpRow& row : ops::table()) {
      if (row.cls != ops::OpClass::elementwise || row.signature != ops::Signature::same ||
          (row.types & ops::bit(dtype)) == 0)
        continue;
      std::vector<ir::NodeId> operands;
      for (int i = 0; i < row.arity; ++i)
        operands.push_back(graph.add_scalar(dtype, row.low + (row.high - row.low) * (i == 0 ? 0.84375 : 0.6875)));
      const ir::NodeId value = must(graph.add(row, operands));
      const ir::NodeId again = must(graph.add(ops::row("atan"), {value}));
      must(graph.add_output(fmt::format("{} of {}", row.name, name_of(dtype)), again));
    }
  }
  const Data data = data_for({graph, {}, 1, false});
  NamedBytes fused;
  for (const bool fusion : {true, false}) {
    const GuardedRun run = run_guarded(compile_graph(graph, Numerics::strict, fusion), graph, data);
    EXPECT_EQ(check_outputs(graph, data, run.outputs).wrong, "") << "fusion " << fusion;
    for (const auto& output : run.outputs)
      EXPECT_TRUE(fusion || output.second == fused.at(output.first)) << output.first;
    if (fusion) fused = run.outputs;
  }
}

/// Divisors that were 32-bit integers: the magnitude of a negative one was 0 on lavapipe.
TEST(Differential, DivisorsThatWereNarrower) {
  const Tensor x = Tensor::input("x", DType::i64, {64}), y = Tensor::input("y", DType::i32, {64}).cast(DType::i64);
  const ir::Graph graph = graph_of({x / y, rem(x, y), mod(x, y)});
  Data data;
  for (std::int64_t i = 0; i < 64; ++i) {
    ir::encode_int(DType::i64, i * 1'000'003 - 7, data.inputs["x"]);
    ir::encode_int(DType::i32, i % 3 == 0 ? i : -1 - i, data.inputs["y"]);
  }
  for (const bool fusion : {true, false}) {
    const GuardedRun run = run_guarded(compile_graph(graph, Numerics::standard, fusion), graph, data);
    EXPECT_EQ(check_outputs(graph, data, run.outputs).wrong, "") << (fusion ? "fused" : "unfused");
  }
}

TEST(Differential, SubtractionFromItselfKeepsNaN) {
  const ir::Graph graph =
      parsed("graph \"self\" {\n %0 = input \"x\" : f32[400]\n %1 = sub %0 %0 : f32[400]\n output \"y\" = %1\n}");
  const Data data = data_for({graph, {}, 2, true});
  const GuardedRun run = run_guarded(compile_graph(graph, Numerics::standard, true), graph, data);
  EXPECT_EQ(check_outputs(graph, data, run.outputs).wrong, "");
}

}  // namespace
}  // namespace vkfuse::test
