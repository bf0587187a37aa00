// Rows of what moves elements without computing: views, and gathers, whose positions are data.
#include "ops/rows.hpp"

namespace vkfuse::ops {
namespace {

// Elements arrive as they are, so errors arrive as they are too: the reference reads the class and never
// the spread. The cost is 0, because a view is read through where it stands.
// A row is a paragraph.
// clang-format off
constexpr OpRow kRows[] = {
    {.name = "reshape", .role = Role::reshape, .cls = OpClass::view, .types = kAll,
        .propagation = ErrorPropagation::exact,
        .shape_is_attribute = true,
        .cost = 0,
     .doc = "The same elements in row-major order under the declared shape. The numbers multiply out to the operand's, "
            "and every symbol stays, as often as it was."},
    {.name = "permute", .role = Role::permute, .cls = OpClass::view, .types = kAll,
        .propagation = ErrorPropagation::exact, .cost = 0,
     .doc = "`axes=[...]`: axis i of the result is axis axes[i] of the operand."},
    {.name = "broadcast", .role = Role::broadcast, .cls = OpClass::view, .types = kAll,
        .propagation = ErrorPropagation::exact,
        .shape_is_attribute = true,
        .cost = 0,
     .doc = "The operand stretched to the declared shape as NumPy broadcasts: dimensions of 1, and new ones in front."},
    {.name = "slice", .role = Role::slice, .cls = OpClass::view, .types = kAll, .propagation = ErrorPropagation::exact,
        .shape_is_attribute = true,
        .cost = 0,
     .doc = "`starts=[...] steps=[...]`, one per axis: element i along an axis is element start + i * step of the "
            "operand. Steps may be negative, not 0. A symbolic axis is taken whole."},
    {.name = "reverse", .role = Role::reverse, .cls = OpClass::view, .types = kAll,
        .propagation = ErrorPropagation::exact, .cost = 0,
     .doc = "`axes=[...]`: the order of elements turned round along these axes."},
    {.name = "pad", .role = Role::pad, .arity = 2, .cls = OpClass::view, .types = kAll,
        .propagation = ErrorPropagation::exact, .cost = 0,
     .doc = "pad(x, value), `low=[...] high=[...]`, one per axis: so many elements of the scalar before and after x. A "
            "symbolic axis gets none."},
    {.name = "concat", .role = Role::concat, .arity = kVariadic, .cls = OpClass::view, .types = kAll,
        .propagation = ErrorPropagation::exact,
        .cost = 0,
     .doc = "`axis=K`: the operands one after the other along an axis that is a number in each; the other "
         "dimensions are "
            "equal."},
    {.name = "unfold", .role = Role::unfold, .cls = OpClass::view, .types = kAll,
        .propagation = ErrorPropagation::exact, .cost = 0,
     .doc = "`axes=[...] sizes=[...] strides=[...] dilations=[...]`: windows. Each of the axes, numbers all, counts "
         "the "
            "windows that fit, and for each an axis of the window's size is appended: element (..., o, ..., w) is "
            "element (..., o * stride + w * dilation, ...) of the operand."},
    {.name = "slice_assign", .role = Role::slice_assign, .arity = 2, .cls = OpClass::view, .types = kAll,
        .propagation = ErrorPropagation::exact,
        .cost = 0,
     .doc = "slice_assign(base, update), `starts=[...] steps=[...]`: base with update in place of the elements that a "
            "slice of update's shape would read."},
    {.name = "gather", .role = Role::gather, .arity = 2, .cls = OpClass::gather, .signature = Signature::indexed,
     .types = kAll,
     .propagation = ErrorPropagation::exact, .cost = 0,
     .doc = "gather(data, positions), `axis=K`: the axis is replaced by the axes of the positions. What is out of "
         "range "
            "is the nearest element."},
    {.name = "take_along", .role = Role::take_along, .arity = 2, .cls = OpClass::gather,
     .signature = Signature::indexed,
     .types = kAll,
     .propagation = ErrorPropagation::exact, .cost = 0,
     .doc = "take_along(data, positions), `axis=K`: element (..., i, ...) is element (..., positions[..., i, ...], "
         "...) of "
            "data. The other dimensions of the positions are data's or 1. What is out of range is the nearest "
                "element."},
    {.name = "update_rows", .role = Role::update_rows, .arity = 3, .cls = OpClass::update,
     .signature = Signature::indexed, .types = kAll,
     .glsl = {.f32 = "{0}", .i32 = "{0}", .u32 = "{0}", .boolean = "{0}", .i64 = "{0}", .u64 = "{0}", .pair64 = "{0}",
              .f64 = "{0}"},
     .propagation = ErrorPropagation::exact, .cost = 0,
     .doc = "update_rows(base [..., n, ...], starts, rows [..., k, ...]), `axis=K circular=B`: base with the rows in "
            "place of those from a start on, along an axis. The starts are one number, or one for each position of the "
            "first axes of base, before K. A start below 0 counts as 0, and rows that are past the end are left out; "
            "circular: they go on at 0, a start past the end is n - 1, and k is at most n. Or each row has a position, "
            "along an axis K of starts that has k: rows whose position is below 0 or past the end are left out, and "
            "where positions are equal, one of the rows is written, not always the same. A kernel writes the rows "
            "alone where the result lies in the buffer of base (docs/generation.md); elsewhere base is copied first."},
};
// clang-format on

}  // namespace

std::span<const OpRow> view_rows() { return kRows; }

}  // namespace vkfuse::ops
