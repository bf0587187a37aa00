#include "peaks.hpp"

#include <gtest/gtest.h>

#include "api/tensor_node.hpp"
#include "spirv/compile.hpp"
#include "spirv/probe.hpp"

namespace vkfuse::bench {
namespace {

Caps caps_of_a_gpu() {
  Caps caps;
  caps.workgroup = {.max_invocations = 1024, .max_x = 1024, .shared_memory_bytes = 48 << 10};
  caps.subgroup.size = caps.subgroup.size_min = caps.subgroup.size_max = 32;
  return caps;
}

std::vector<MatrixShape> shapes_of(Instruction instruction) {
  switch (instruction) {
    case Instruction::matrix_f16: return {{16, 16, 16, DType::f16, DType::f16, DType::f32, DType::f32}};
    case Instruction::matrix_f16_f16: return {{16, 8, 16, DType::f16, DType::f16, DType::f16, DType::f16}};
    case Instruction::matrix_bf16: return {{16, 16, 16, DType::bf16, DType::bf16, DType::f32, DType::f32}};
    case Instruction::matrix_i8: return {{16, 16, 32, DType::i8, DType::i8, DType::i32, DType::i32}};
    default: return {};
  }
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

spirv::GlslExtension extension_of(Instruction instruction) {
  using spirv::GlslExtension;
  switch (instruction) {
    case Instruction::fma_f16x2: return GlslExtension::arithmetic_float16;
    case Instruction::dot_i8x4: return GlslExtension::spirv_intrinsics;
    case Instruction::matrix_bf16: return GlslExtension::bfloat16;
    default: break;
  }
  return instruction < Instruction::matrix_f16 ? GlslExtension::control_flow_attributes
                                               : GlslExtension::khr_cooperative_matrix;
}

TEST(PeakKernels, EveryOneIsValidWhereTheCompilerHasItsExtension) {
  for (const Instruction instruction : kInstructions) {
    const auto kernels = peak_kernels(instruction, caps_of_a_gpu(), shapes_of(instruction), 1);
    ASSERT_GE(kernels.size(), 2u) << name_of(instruction);
    if (!spirv::can_compile(extension_of(instruction)) ||
        (instruction >= Instruction::matrix_f16 && !spirv::can_compile(spirv::GlslExtension::khr_cooperative_matrix)))
      continue;  // an older compiler; the benchmark then skips the instruction, with that reason
    for (const PeakKernel& kernel : kernels) {
      const auto module = spirv::compile_glsl(kernel.glsl, "peak");
      EXPECT_TRUE(module.ok()) << module.error().text() << kernel.glsl;
    }
  }
}

/// The step of the loop, as often as it is written out.
const char* step_of(Instruction instruction) {
  switch (instruction) {
    case Instruction::fma_f32:
    case Instruction::fma_f16x2: return "= fma(";
    case Instruction::mad_i32: return " * a + b;";
    case Instruction::dot_i8x4: return "+= i8x4_dot(";
    default: return "= coopMatMulAdd(";
  }
}

TEST(PeakKernels, OperationsAreThoseThatTheTextMakes) {
  for (const Instruction instruction : kInstructions) {
    const auto shapes = shapes_of(instruction);
    for (const PeakKernel& kernel : peak_kernels(instruction, caps_of_a_gpu(), shapes, 7)) {
      auto steps = static_cast<double>(count_of(kernel.glsl, step_of(instruction)));
      if (instruction == Instruction::fma_f32) steps += static_cast<double>(count_of(kernel.glsl, " * a + b;"));
      double each = instruction == Instruction::fma_f16x2 ? 4 : instruction == Instruction::dot_i8x4 ? 8 : 2;
      double of_workgroup = kernel.workgroup;
      if (!shapes.empty()) {
        each = 2.0 * shapes[0].m * shapes[0].n * shapes[0].k;
        of_workgroup = kernel.workgroup / 32.0;
      }
      EXPECT_EQ(kernel.input[0], 7u);
      EXPECT_EQ(kernel.operations, each * steps * 7 * of_workgroup) << name_of(instruction) << ", " << kernel.text;
    }
  }
}

TEST(PeakKernels, WhatIsStoredTellsOneStepMoreOrLess) {
  for (const Instruction instruction : kInstructions) {
    std::set<std::uint32_t> stored;
    for (std::uint32_t steps = 1; steps <= 20; ++steps)
      stored.insert(peak_kernels(instruction, caps_of_a_gpu(), shapes_of(instruction), steps).front().expected);
    EXPECT_EQ(stored.size(), 20u) << name_of(instruction);
  }
}

TEST(PeakKernels, ChainsOfOnesCountTheirSteps) {
  // 256 threads that start at 0, 1, 2 and 3 by turns, and eight chains of which each starts one later.
  const auto kernels = peak_kernels(Instruction::fma_f32, caps_of_a_gpu(), {}, 1);
  EXPECT_EQ(kernels.front().expected, 256u * (8 * 16 + 28) + 64 * 8 * (0 + 1 + 2 + 3));
  EXPECT_EQ(peak_kernels(Instruction::fma_f16x2, caps_of_a_gpu(), {}, 1).front().expected,
            2 * kernels.front().expected);
}

TEST(PeakKernels, SumsStayExact) {
  // What f16 counts to, of one step each.
  EXPECT_LE(most_steps(Instruction::fma_f16x2) * 16 + 14, 2048u);
  // Multiples of the depth of a product, up to 2048 of them.
  EXPECT_LE(most_steps(Instruction::matrix_f16_f16) * 4 + 8, 2048u);
  for (const Instruction instruction : kInstructions) {
    // lavapipe leaves loops after 65,535 iterations.
    EXPECT_LT(most_steps(instruction), 65'535u) << name_of(instruction);
    const auto most = peak_kernels(instruction, caps_of_a_gpu(), shapes_of(instruction), 1u << 30);
    EXPECT_EQ(most.front().input[0], most_steps(instruction)) << name_of(instruction);
  }
}

TEST(PeakKernels, KeepToTheLimitsOfASmallDevice) {
  Caps caps = caps_of_a_gpu();
  caps.workgroup = {.max_invocations = 128, .max_x = 128, .shared_memory_bytes = 16 << 10};
  for (const Instruction instruction : kInstructions) {
    for (const PeakKernel& kernel : peak_kernels(instruction, caps, shapes_of(instruction), 1))
      EXPECT_LE(kernel.workgroup, 128u) << name_of(instruction);
  }
}

Request request_of(std::string_view name) {
  for (const Row& row : rows()) {
    if (row.name == name) return {&row, {}};
  }
  throw std::invalid_argument("There is no such row.");
}

TEST(Peaks, ARowIsComparedWithTheInstructionsForItsProducts) {
  const auto of = [](std::string_view name) {
    const Request request = request_of(name);
    return instructions_of({&request, 1});
  };
  using Some = std::vector<Instruction>;
  EXPECT_EQ(of("textbook f16"), Some{Instruction::fma_f32});
  EXPECT_EQ(of("matmul 4096 f32"), Some{Instruction::fma_f32});
  EXPECT_EQ(of("matmul 4096 f16"), (Some{Instruction::fma_f32, Instruction::matrix_f16}));
  EXPECT_EQ(of("attention causal f16"), (Some{Instruction::fma_f32, Instruction::matrix_f16}));
  EXPECT_EQ(of("conv 3x3 f16"), (Some{Instruction::fma_f32, Instruction::matrix_f16}));
  EXPECT_EQ(of("int4 matmul f16"), (Some{Instruction::fma_f32, Instruction::matrix_f16}));
  EXPECT_EQ(of("matmul bf16"), (Some{Instruction::fma_f32, Instruction::matrix_bf16}));
  EXPECT_EQ(of("matmul int8"), (Some{Instruction::mad_i32, Instruction::dot_i8x4, Instruction::matrix_i8}));
}

TEST(Peaks, WhatTakesLongerAtTheDevicesOwnRatesIsTheLimit) {
  RowResult row;
  row.row = request_of("matmul 4096 f16").row;
  row.bytes = row.copy_bytes = 1'000'000;
  row.copy.timing.alone.median = 10;  // 100 GB/s
  row.fused.timing.alone.median = 40;
  row.operations = 2e6;
  EXPECT_FALSE(row.peak_percent().has_value());
  EXPECT_FALSE(row.limit().has_value());
  row.peak = Peak{Instruction::matrix_f16, 100};  // 20 us
  EXPECT_DOUBLE_EQ(*row.peak_percent(), 50);
  EXPECT_EQ(row.limit(), Limit::arithmetic);
  row.peak->gops = 1000;  // 2 us
  EXPECT_DOUBLE_EQ(*row.peak_percent(), 5);
  EXPECT_EQ(row.limit(), Limit::memory);
  row.row = request_of("25 small ops f32").row;
  EXPECT_EQ(row.limit(), Limit::launch);
}

}  // namespace
}  // namespace vkfuse::bench
