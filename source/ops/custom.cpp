// Rows of ops whose code the user gives. What they compute is in their nodes' payloads.
#include "ops/rows.hpp"

namespace vkfuse::ops {
namespace {

// A row is a paragraph.
// clang-format off
constexpr OpRow kRows[] = {
    {.name = "custom", .arity = kVariadic, .signature = Signature::stated, .types = kAll, .cost = 8,
     .doc = "`name=\"...\" code=\"...\" ulps=N cost=N`: one element by GLSL, an expression of the operands' "
         "elements x0, x1, ... or, "
            "where it has a `return`, the body of a function of them. Operands broadcast and may be of any dtypes; the "
            "declared dtype is the result's. Elements are float, int, uint, bool, double or 64-bit integers, 16- "
                "and 8-bit "
            "ones widened. The code is off by at most so many units in the last place of f32, and costs so many "
            "multiply-adds."},
    {.name = "custom_kernel", .arity = kVariadic, .cls = OpClass::opaque, .signature = Signature::stated, .types = kAll,
     .shape_is_attribute = true, .cost = 8,
     .doc = "`name=\"...\" code=\"...\" workgroup=N tile=[...]`: a whole GLSL compute shader. Operand i is the "
         "storage buffer "
            "at binding i, dense, and the result the one after the last; there is one workgroup for so many elements "
            "of the result along each axis, the innermost counted by gl_WorkGroupID.x, the others together by .y."},
};
// clang-format on

}  // namespace

std::span<const OpRow> custom_rows() { return kRows; }

}  // namespace vkfuse::ops
