// How GLSL spells what multiplies many narrow numbers at once: component types of cooperative matrices, dot products of
// bytes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "kernel/code.hpp"
#include "vkfuse/dtype.hpp"

namespace vkfuse::lowering {

/// What a cooperative matrix with components of that type needs beside matrices.
constexpr Need component_need(DType dtype) {
  switch (dtype) {
    case DType::f16: return Need::float16;
    case DType::bf16: return Need::bfloat16_components;
    case DType::i8:
    case DType::u8: return Need::int8_components;
    default: return Need::nothing;
  }
}

/// The component type of a cooperative matrix.
constexpr std::string_view component(DType dtype) {
  switch (dtype) {
    case DType::f16: return "float16_t";
    case DType::bf16: return "bfloat16_t";
    case DType::i8: return "int8_t";
    case DType::u8: return "uint8_t";
    case DType::i32: return "int";
    case DType::u32: return "uint";
    default: return "float";
  }
}

/// A cooperative matrix of a subgroup.
inline Code fragment(DType dtype, std::uint32_t rows, std::uint32_t columns, const char* use,
                     std::string_view scope = "Subgroup") {
  return code("coopmat<{}, gl_Scope{}, {}, {}, gl_MatrixUse{}>", component(dtype), scope, rows, columns, use)
      .needing(component_need(dtype));
}

/// What orders a subgroup's writes to shared memory before its reads.
inline constexpr const char* kSubgroupBarrier =
    "controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);";

/// Four of the sums of matrices side by side in memory: f32, i32 or u32.
constexpr std::string_view component_vec4(DType sums) {
  return sums == DType::i32 ? "ivec4" : sums == DType::u32 ? "uvec4" : "vec4";
}

/// The extension that an operand's component type needs.
constexpr std::string_view component_extension(DType factor) {
  switch (factor) {
    case DType::bf16: return "GL_EXT_bfloat16";
    case DType::i8:
    case DType::u8: return "GL_EXT_shader_explicit_arithmetic_types_int8";
    default: return "GL_EXT_shader_explicit_arithmetic_types_float16";
  }
}

/// T3: the sum of the products of four signed bytes each, OpSDot of SPV_KHR_integer_dot_product. `packed` is 0: four
/// bytes a word.
inline constexpr std::string_view kIntegerDotProduct =
    "spirv_instruction(extensions = [\"SPV_KHR_integer_dot_product\"], capabilities = [6019, 6018], id = 4450)\n"
    "int i8x4_dot(int a, int b, spirv_literal int packed);";

}  // namespace vkfuse::lowering
