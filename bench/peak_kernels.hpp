// Kernels that do nothing but multiply and add in registers: how fast the instructions are that kernels are made of.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/target.hpp"

namespace vkfuse::bench {

/// The instructions whose rate is measured.
enum class Instruction : std::uint8_t {
  fma_f32,
  fma_f16x2,       ///< two f16 at once
  mad_i32,         ///< what products of bytes are made of where there is nothing better
  dot_i8x4,        ///< four products of bytes, and their sum
  matrix_f16,      ///< cooperative matrices, with f32 sums
  matrix_f16_f16,  ///< the same, with f16 sums
  matrix_bf16,
  matrix_i8,
};
inline constexpr Instruction kInstructions[] = {
    Instruction::fma_f32,    Instruction::fma_f16x2,      Instruction::mad_i32,     Instruction::dot_i8x4,
    Instruction::matrix_f16, Instruction::matrix_f16_f16, Instruction::matrix_bf16, Instruction::matrix_i8};

/// "fma f32", "matrix f16": what reports call it.
std::string_view name_of(Instruction instruction);
/// Of what it multiplies.
DType dtype_of(Instruction instruction);

/// One way of keeping the instruction busy. `glsl` reads the number of steps and its operands from binding 0, so that
/// no compiler knows them, and stores a number for each workgroup at binding 1 that depends on every product.
struct PeakKernel {
  std::string glsl;
  std::string text;             ///< "8 chains, 256 threads"
  std::uint32_t workgroup = 1;  ///< threads
  std::uint32_t subgroup = 0;   ///< full subgroups of that size; 0: as the device likes
  std::vector<std::uint32_t> input;
  double operations = 0;       ///< of a workgroup: a product and its addition are two
  std::uint32_t expected = 0;  ///< what every workgroup stores
};

/// The ways that are tried; the fastest counts. `shapes` are the products of the cooperative matrices to use, and say
/// nothing for other instructions. `steps` multiplies the length of every chain: 1 is the shortest.
std::vector<PeakKernel> peak_kernels(Instruction instruction, const Caps& caps, std::span<const MatrixShape> shapes,
                                     std::uint32_t steps);

/// The most steps of which every sum is exact in the dtype that holds it, and no more than a loop of any driver takes.
std::uint32_t most_steps(Instruction instruction);

}  // namespace vkfuse::bench
