// Ops of a program's own, written in GLSL.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "vkfuse/gradients.hpp"
#include "vkfuse/tensor.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// One element of the result as a function of the operands' elements at the same, broadcast, position. It fuses like
/// any other elementwise op.
struct CustomOp {
  /// A word of letters, digits and single underscores; it is in kernels, plans and messages.
  std::string name;
  /// An expression of x0, x1, ..., one for each operand, as "x0 / (1.0 + exp(-x0))"; or, where it has a `return`, the
  /// body of a function of them. f32, f16 and bf16 elements are float; i8, i16 and i32 int; u8, u16 and u32 uint; bool,
  /// f64 (double), i64 and u64 (int64_t, uint64_t, where the device has them) themselves. The value has the result's
  /// type likewise; it is wrapped or rounded to the dtype afterwards. Nothing else is in scope: no buffers, no built-in
  /// variables, no barriers, no directives.
  std::string glsl;
  DType dtype = DType::f32;  ///< of the result
  /// The same for the reference (the tests and `vkfuse validate`): whole numbers for integers, 0 and 1 for booleans.
  /// Without it, what is computed from the op is not validated, and a sentence says so. Called by any thread.
  std::function<double(std::span<const double> operands)> reference;
  /// How far the GLSL may be off: units in the last place of f32, or of f64 where that is the result.
  int ulps = 16;
  /// What an element costs the planner, in fused multiply-adds; exp() is about 8.
  int cost = 8;
  /// For gradients(): the gradient of each operand, of its dtype and shape. Without it, there is none.
  GradientRule gradient;
};

/// The op on these operands, one at least. An invalid tensor if names, brackets or shapes are wrong; what the compiler
/// says about the GLSL is the error of compile(), one sentence with the line it is about.
///
///     CustomOp swish{.name = "swish", .glsl = "x0 / (1.0 + exp(-x0))", .dtype = DType::f32};
///     Tensor y = custom(swish, {x}) + 1.0;
Tensor custom(const CustomOp& op, std::span<const Tensor> operands);
Tensor custom(const CustomOp& op, std::initializer_list<Tensor> operands);

/// A whole compute shader, run as it is: it is a segment of its own, nothing is fused into it.
struct CustomKernel {
  std::string name;  ///< as of CustomOp
  /// The shader, from `#version` on. `layout(local_size_x_id = 0) in;` says its workgroup size, in one dimension.
  /// Operand i is the `readonly` storage buffer at set 0, binding i, and the result that at the binding after the last:
  /// dense, row-major, little-endian, booleans one byte each; memory behind the last element up to a multiple of 16
  /// bytes may be read, and of the result overwritten. A push-constant block, where there is one, is of uints: the
  /// sizes of all dimensions of each operand in order, then those of the result. The shader stores every element of the
  /// result, writes nothing else, and asks for nothing that the device lacks.
  std::string glsl;
  DType dtype = DType::f32;  ///< of the result
  Shape shape;               ///< of the result
  int workgroup = 64;        ///< invocations
  /// Elements of the result that one workgroup is for, along each of its axes; there are as many workgroups as cover
  /// it. gl_WorkGroupID.x counts them along the innermost axis, .y along all others, row-major.
  std::vector<std::int64_t> tile;
  /// As of CustomOp.
  GradientRule gradient;
};

/// The kernel on these operands, one at least. Its results have no reference: what is computed from them is not
/// validated.
///
///     CustomKernel twice{.name = "twice", .glsl = text, .dtype = DType::f32, .shape = x.shape(), .workgroup = 64,
///     .tile = {64}};
Tensor custom(const CustomKernel& kernel, std::span<const Tensor> operands);
Tensor custom(const CustomKernel& kernel, std::initializer_list<Tensor> operands);

}  // namespace VKFUSE_PUBLIC
