#include "peak_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/printer.hpp"
#include "lowering/components.hpp"

namespace vkfuse::bench {

namespace {

/// Steps of one iteration of the loop, written out: the loop's own instructions are then 1 or 2 % of all.
constexpr std::uint32_t kUnrolled = 16;
/// Sums of matrices take more registers.
constexpr std::uint32_t kUnrolledMatrices = 4;
/// Starts of a chain that differ between threads.
constexpr std::uint32_t kStarts = 4;

/// How a thread's chain is written and what becomes of it. "{0}" in a text is the chain, or the number that it starts
/// with.
struct Chain {
  Instruction instruction;
  const char* step;
  double operations;  ///< of a step
  const char* what;   ///< the step in a few words, where there are several ways
};

constexpr Chain kSteps[] = {
    {Instruction::fma_f32, "{0} = fma({0}, a, b);", 2, "fma, "},
    // A driver without the instruction computes fma() in many.
    {Instruction::fma_f32, "{0} = {0} * a + b;", 2, "product and sum, "},
    {Instruction::fma_f16x2, "{0} = fma({0}, a, b);", 4, ""},
    {Instruction::mad_i32, "{0} = {0} * a + b;", 2, ""},
    {Instruction::dot_i8x4, "{0} += i8x4_dot({0}, a, 0);", 8, ""},
};

/// The variables that a chain is made of.
struct Scalars {
  const char* extensions;
  const char* type;
  const char* from_bits;   ///< an operand from its bits
  const char* from_count;  ///< the start of a chain
  const char* to_count;    ///< the end of a chain as an unsigned number
  std::uint32_t a, b;      ///< bits of the operands
  std::uint32_t (*after)(std::uint32_t start, std::uint32_t steps);
};

std::uint32_t after_mads(std::uint32_t start, std::uint32_t steps) {
  for (std::uint32_t i = 0; i < steps; ++i) start = start * 5 + 3;
  return start;
}

/// Never 0: the lowest byte is odd, and stays so because its factor is even.
std::uint32_t after_dots(std::uint32_t start, std::uint32_t steps) {
  constexpr std::uint32_t kFactors[] = {2, 6, 4, 2};
  start = 2 * start + 1;
  for (std::uint32_t i = 0; i < steps; ++i) {
    std::uint32_t dot = 0;
    for (std::uint32_t byte = 0; byte < 4; ++byte) {
      const auto number = static_cast<std::int8_t>(start >> (8 * byte));
      dot += static_cast<std::uint32_t>(std::int32_t{number}) * kFactors[byte];
    }
    start += dot;
  }
  return start;
}

/// Operands of floats are 1, so that a chain counts its steps.
Scalars scalars_of(Instruction instruction) {
  switch (instruction) {
    case Instruction::fma_f16x2:
      return {"#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n",
              "f16vec2",
              "f16vec2(unpackHalf2x16({}))",
              "f16vec2(vec2(float({})))",
              "uint(float({0}.x) + float({0}.y))",
              0x3c003c00,
              0x3c003c00,
              [](std::uint32_t start, std::uint32_t steps) { return 2 * (start + steps); }};
    case Instruction::mad_i32: return {"", "uint", "{}", "{}", "{}", 5, 3, after_mads};
    case Instruction::dot_i8x4:
      return {"#extension GL_EXT_spirv_intrinsics : require\n",
              "int",
              "int({})",
              "int(2u * {} + 1u)",
              "uint({})",
              0x02040602,
              0,
              after_dots};
    default:
      return {"",
              "float",
              "uintBitsToFloat({})",
              "float({})",
              "uint({})",
              0x3f800000,
              0x3f800000,
              [](std::uint32_t start, std::uint32_t steps) { return start + steps; }};
  }
}

constexpr const char* kChains = R"(#version 450
{extensions}layout(local_size_x_id = 0) in;
{functions}layout(set = 0, binding = 0) readonly buffer In {{ uint w[]; }} x;
layout(set = 0, binding = 1) writeonly buffer Out {{ uint w[]; }} y;
shared uint total;
void main() {{
  uint iterations = x.w[0], start = gl_LocalInvocationID.x % {starts}u;
  {type} a = {a}, b = {b};
{chains}  for (uint k = 0u; k < iterations; ++k) {{
{steps}  }}
  if (gl_LocalInvocationID.x == 0u) total = 0u;
  barrier();
  atomicAdd(total, {sum});
  barrier();
  if (gl_LocalInvocationID.x == 0u) y.w[gl_WorkGroupID.x] = total;
}}
)";

std::string glsl_of(const Chain& chain, const Scalars& scalars, std::uint32_t chains) {
  const auto fill = [](const char* text, const std::string& with) { return fmt::format(fmt::runtime(text), with); };
  std::string starts, step, sum, steps;
  for (std::uint32_t i = 0; i < chains; ++i) {
    const std::string name = fmt::format("s{}", i);
    starts +=
        fmt::format("  {} {} = {};\n", scalars.type, name, fill(scalars.from_count, fmt::format("(start + {}u)", i)));
    step += fmt::format("    {}\n", fill(chain.step, name));
    sum += fmt::format("{}{}", i == 0 ? "" : " + ", fill(scalars.to_count, name));
  }
  for (std::uint32_t i = 0; i < kUnrolled; ++i) steps += step;
  const bool dots = chain.instruction == Instruction::dot_i8x4;
  return fmt::format(kChains, fmt::arg("extensions", scalars.extensions),
                     fmt::arg("functions", dots ? fmt::format("{}\n", lowering::kIntegerDotProduct) : std::string()),
                     fmt::arg("starts", kStarts), fmt::arg("type", scalars.type),
                     fmt::arg("a", fill(scalars.from_bits, "x.w[1]")), fmt::arg("b", fill(scalars.from_bits, "x.w[2]")),
                     fmt::arg("chains", starts), fmt::arg("steps", steps), fmt::arg("sum", sum));
}

PeakKernel chains_kernel(const Chain& chain, const Caps& caps, std::uint32_t chains, std::uint32_t iterations) {
  const Scalars scalars = scalars_of(chain.instruction);
  PeakKernel kernel;
  kernel.workgroup = std::min({256u, usable_invocations(caps), caps.workgroup.max_x});
  kernel.glsl = glsl_of(chain, scalars, chains);
  kernel.text = fmt::format("{}{} chains, {} threads", chain.what, chains, kernel.workgroup);
  kernel.input = {iterations, scalars.a, scalars.b};
  const std::uint32_t steps = iterations * kUnrolled;
  kernel.operations = chain.operations * steps * chains * kernel.workgroup;
  std::vector<std::uint32_t> ends;  // by start
  for (std::uint32_t start = 0; start < kStarts + chains; ++start) ends.push_back(scalars.after(start, steps));
  for (std::uint32_t thread = 0; thread < kernel.workgroup; ++thread) {
    for (std::uint32_t i = 0; i < chains; ++i) kernel.expected += ends[thread % kStarts + i];
  }
  return kernel;
}

constexpr const char* kMatrices = R"(#version 450
#extension {extension} : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_cooperative_matrix : require
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In {{ uint w[]; }} x;
layout(set = 0, binding = 1) writeonly buffer Out {{ uint w[]; }} y;
shared {four} tiles[{fours}];
shared uint total;
void main() {{
  uint iterations = x.w[0];
  {number} factor = {number}(x.w[1]), start = {number}(x.w[2]);
  {a} a = {a}({operand}(factor));
  {b} b = {b}({operand}(factor));
{starts}  for (uint k = 0u; k < iterations; ++k) {{
{steps}  }}
  {wide} all = {wide}(s0);
{sums}  coopMatStore(all, tiles, gl_SubgroupID * {tile}u, {n} / 4, gl_CooperativeMatrixLayoutRowMajor);
  if (gl_LocalInvocationID.x == 0u) total = 0u;
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < {fours}u; i += {threads}u)
    atomicAdd(total, uint(tiles[i].x) + uint(tiles[i].y) + uint(tiles[i].z) + uint(tiles[i].w));
  barrier();
  if (gl_LocalInvocationID.x == 0u) y.w[gl_WorkGroupID.x] = total;
}}
)";

/// How many sums and subgroups a kernel of matrices has.
struct MatrixForm {
  std::uint32_t chains, subgroups;
};

/// The type of a cooperative matrix.
std::string type_of(DType dtype, std::uint32_t rows, std::uint32_t columns, const char* use) {
  return lowering::Printer({}, nullptr).text(lowering::fragment(dtype, rows, columns, use));
}

std::string glsl_of(const MatrixShape& shape, const MatrixForm& form, std::uint32_t threads) {
  const std::string sum = type_of(shape.c, shape.m, shape.n, "Accumulator");
  std::string starts, step, sums;
  for (std::uint32_t i = 0; i < form.chains; ++i) {
    starts += fmt::format("  {0} s{1} = {0}({2}(start * {3}({1})));\n", sum, i, lowering::component(shape.c),
                          is_float(shape.a) ? "float" : "int");
    step += fmt::format("    s{0} = coopMatMulAdd(a, b, s{0});\n", i);
  }
  const DType wide_type = is_float(shape.c) ? DType::f32 : shape.c;
  const std::string wide = type_of(wide_type, shape.m, shape.n, "Accumulator");
  for (std::uint32_t i = 1; i < form.chains; ++i) sums += fmt::format("  all = all + {}(s{});\n", wide, i);
  std::string steps;
  for (std::uint32_t i = 0; i < kUnrolledMatrices; ++i) steps += step;
  const std::uint32_t tile = shape.m * shape.n / 4;
  return fmt::format(
      kMatrices, fmt::arg("extension", lowering::component_extension(shape.a)),
      fmt::arg("four", lowering::component_vec4(shape.c)), fmt::arg("fours", tile * form.subgroups),
      fmt::arg("number", is_float(shape.a) ? "float" : "int"), fmt::arg("a", type_of(shape.a, shape.m, shape.k, "A")),
      fmt::arg("b", type_of(shape.b, shape.k, shape.n, "B")), fmt::arg("operand", lowering::component(shape.a)),
      fmt::arg("starts", starts), fmt::arg("steps", steps), fmt::arg("wide", wide), fmt::arg("sums", sums),
      fmt::arg("tile", tile), fmt::arg("n", shape.n), fmt::arg("threads", threads));
}

PeakKernel matrices_kernel(const MatrixShape& shape, const Caps& caps, const MatrixForm& form,
                           std::uint32_t iterations) {
  PeakKernel kernel;
  kernel.subgroup = caps.subgroup.size;
  kernel.workgroup = form.subgroups * kernel.subgroup;
  kernel.glsl = glsl_of(shape, form, kernel.workgroup);
  kernel.text = fmt::format("{} x {} x {}, {} chains, {} subgroups of {}", shape.m, shape.n, shape.k, form.chains,
                            form.subgroups, kernel.subgroup);
  kernel.input = {iterations, 1, shape.k};
  const std::uint32_t steps = iterations * kUnrolledMatrices;
  kernel.operations = 2.0 * shape.m * shape.n * shape.k * steps * form.chains * form.subgroups;
  for (std::uint32_t i = 0; i < form.chains; ++i)
    kernel.expected += shape.m * shape.n * form.subgroups * shape.k * (i + steps);
  return kernel;
}

}  // namespace

std::string_view name_of(Instruction instruction) {
  constexpr std::string_view names[] = {
      "fma f32", "fma f16x2", "mad i32", "dot i8x4", "matrix f16", "matrix f16, f16 sums", "matrix bf16", "matrix i8"};
  return names[static_cast<int>(instruction)];
}

DType dtype_of(Instruction instruction) {
  constexpr DType dtypes[] = {DType::f32, DType::f16, DType::i32,  DType::i8,
                              DType::f16, DType::f16, DType::bf16, DType::i8};
  return dtypes[static_cast<int>(instruction)];
}

std::uint32_t most_steps(Instruction instruction) {
  switch (instruction) {
    // Chains count to 2048 in f16, and start at up to 14.
    case Instruction::fma_f16x2: return 2000 / kUnrolled;
    case Instruction::matrix_f16_f16: return 2000 / kUnrolledMatrices;
    default: return 512;
  }
}

std::vector<PeakKernel> peak_kernels(Instruction instruction, const Caps& caps, std::span<const MatrixShape> shapes,
                                     std::uint32_t steps) {
  const std::uint32_t iterations = std::clamp(steps, 1u, most_steps(instruction));
  std::vector<PeakKernel> kernels;
  if (instruction < Instruction::matrix_f16) {
    for (const Chain& chain : kSteps) {
      if (chain.instruction != instruction) continue;
      // The least that hides a latency of four on two ports, and what sixteen registers of a processor hold.
      for (const std::uint32_t chains : {8u, 12u}) kernels.push_back(chains_kernel(chain, caps, chains, iterations));
    }
    return kernels;
  }
  for (const MatrixShape& shape : shapes) {
    for (const MatrixForm& form : {MatrixForm{4, 4}, MatrixForm{8, 4}, MatrixForm{4, 8}}) {
      const bool fits =
          form.subgroups * caps.subgroup.size <= std::min(usable_invocations(caps), caps.workgroup.max_x) &&
          shape.m * shape.n * 4 * form.subgroups + 4 <= caps.workgroup.shared_memory_bytes;
      if (fits) kernels.push_back(matrices_kernel(shape, caps, form, iterations));
    }
  }
  return kernels;
}

}  // namespace vkfuse::bench
