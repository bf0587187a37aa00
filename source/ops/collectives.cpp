// Rows of what ranks do together, and of the annotation that says how a value is laid out over them.
#include "ops/rows.hpp"

namespace vkfuse::ops {
namespace {

constexpr Reduction joined_by(std::string_view join) { return {.kind = Reduction::Kind::plain, .join = join}; }

// A row is a paragraph.
// clang-format off
constexpr OpRow kCollectiveRows[] = {
    {.name = "all_reduce_sum", .cls = OpClass::collective, .types = kNumbers, .reduction = joined_by("add"),
     .doc = "The sum of the members' values, the same bits on each. f16 and bf16 are added up in f32 and rounded "
            "once."},
    {.name = "all_reduce_max", .cls = OpClass::collective, .types = kNumbers, .reduction = joined_by("max"),
     .doc = "The largest of the members' elements; NaN where one is NaN."},
    {.name = "all_reduce_min", .cls = OpClass::collective, .types = kNumbers, .reduction = joined_by("min"),
     .doc = "The smallest of the members' elements; NaN where one is NaN."},
    {.name = "reduce_scatter_sum", .cls = OpClass::collective, .types = kNumbers, .reduction = joined_by("add"),
     .doc = "`axis=K`: the sum of the members' values, of which member i keeps part i along the axis."},
    {.name = "reduce_scatter_max", .cls = OpClass::collective, .types = kNumbers, .reduction = joined_by("max"),
     .doc = "`axis=K`: the same of the largest elements."},
    {.name = "reduce_scatter_min", .cls = OpClass::collective, .types = kNumbers, .reduction = joined_by("min"),
     .doc = "`axis=K`: the same of the smallest elements."},
    {.name = "all_gather", .cls = OpClass::collective, .types = kAll, .propagation = ErrorPropagation::exact, .cost = 0,
     .doc = "`axis=K`: the members' values side by side along the axis, in the order of the members."},
    {.name = "all_to_all", .cls = OpClass::collective, .types = kAll, .propagation = ErrorPropagation::exact, .cost = 0,
     .doc = "`split=K concat=K`: part i along the axis `split` goes to member i; what arrives is put together along "
            "the axis `concat`, in the order of the members."},
    {.name = "broadcast_from", .cls = OpClass::collective, .types = kAll, .propagation = ErrorPropagation::exact,
     .cost = 0,
     .doc = "`root=K`: the value of member K, on each."},
    {.name = "send_receive", .cls = OpClass::collective, .types = kAll, .propagation = ErrorPropagation::exact,
     .cost = 0,
     .doc = "`from=[...]`: member i gets the value of member from[i], or zeros where that is -1. No member sends "
            "twice."},
    {.name = "shard", .cls = OpClass::annotation, .types = kAll,
     .real = [](const double* x) { return x[0]; }, .integer = [](const std::int64_t* x, DType) { return x[0]; },
     .propagation = ErrorPropagation::lipschitz, .cost = 0,
     .doc = "`mesh_axes=[...]`: the operand, divided along axis i over the axis mesh_axes[i] of the mesh, or whole "
            "there where that is -1. On one device it is the operand."},
    {.name = "at_stage", .cls = OpClass::annotation, .types = kAll,
     .real = [](const double* x) { return x[0]; }, .integer = [](const std::int64_t* x, DType) { return x[0]; },
     .propagation = ErrorPropagation::lipschitz, .cost = 0,
     .doc = "`stage=K mesh_axis=K`: the operand, on the ranks that are member `stage` along that axis of the mesh. On "
            "one device it is the operand."},
    {.name = "micro_batch", .cls = OpClass::annotation, .types = kAll,
     .real = [](const double* x) { return x[0]; }, .integer = [](const std::int64_t* x, DType) { return x[0]; },
     .propagation = ErrorPropagation::lipschitz, .cost = 0,
     .doc = "`axis=K`: the operand, worked on in micro-batches along the axis, as many as the program is compiled for. "
            "On one device it is the operand."},
};
// clang-format on

}  // namespace

std::span<const OpRow> collective_rows() { return kCollectiveRows; }

}  // namespace vkfuse::ops
