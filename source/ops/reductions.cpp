// Rows of what joins many elements into one or orders them: reductions, scans, sorts, scatter.
#include "ops/rows.hpp"

namespace vkfuse::ops {
namespace {

constexpr Reduction plain(std::string_view join, double identity) { return {Reduction::Kind::plain, join, identity}; }
constexpr Reduction kArgmax = {Reduction::Kind::arg, "max", -kInfinity};
constexpr Reduction kArgmin = {Reduction::Kind::arg, "min", kInfinity};
constexpr Reduction kMean = {Reduction::Kind::mean, "add", 0};

// The cost is that of one element joined on. How errors spread and what rounding adds depends on all the
// elements and on the order of the joins: the reference knows, by the reduction.
// A row is a paragraph.
// clang-format off
constexpr OpRow kRows[] = {
    {.name = "reduce_sum", .role = Role::reduce_sum, .cls = OpClass::reduce, .types = kNumbers,
     .reduction = plain("add", 0), .cost = 1,
     .doc = "Sum, in any order; 16-bit floats are added up in f32. Integers wrap. 0 for no elements."},
    {.name = "reduce_prod", .cls = OpClass::reduce, .types = kNumbers, .reduction = plain("mul", 1), .cost = 1,
     .doc = "Product, in any order; 16-bit floats are multiplied in f32. Integers wrap. 1 for no elements."},
    {.name = "reduce_mean", .role = Role::reduce_mean, .cls = OpClass::reduce, .types = kFloats,
     .reduction = kMean, .cost = 1,
     .doc = "The sum divided by the number of elements, rounded once or nearly so: of equal elements exactly these. "
         "NaN for none."},
    {.name = "reduce_max", .role = Role::reduce_max, .cls = OpClass::reduce, .types = kNumbers,
     .reduction = plain("max", -kInfinity), .cost = 2,
     .doc = "The largest; NaN if one is there. Either zero may stand for both zeros. Not of an axis of 0."},
    {.name = "reduce_min", .cls = OpClass::reduce, .types = kNumbers, .reduction = plain("min", kInfinity), .cost = 2,
     .doc = "The smallest; NaN if one is there. Either zero may stand for both zeros. Not of an axis of 0."},
    {.name = "reduce_any", .cls = OpClass::reduce, .types = kBool, .propagation = ErrorPropagation::exact,
        .reduction = plain("or", 0),
        .cost = 1,
     .doc = "Whether one is true; false for no elements."},
    {.name = "reduce_all", .cls = OpClass::reduce, .types = kBool, .propagation = ErrorPropagation::exact,
        .reduction = plain("and", 1),
        .cost = 1,
     .doc = "Whether none is false; true for no elements."},
    {.name = "argmax", .cls = OpClass::reduce, .signature = Signature::position, .types = kNumbers,
        .reduction = kArgmax,
        .cost = 12,
     .doc = "The position of the first largest element along one axis; of the first NaN if one is there. Zeros of "
         "either "
            "sign are equal. Not of an axis of 0."},
    {.name = "argmin", .cls = OpClass::reduce, .signature = Signature::position, .types = kNumbers,
        .reduction = kArgmin,
        .cost = 12,
     .doc = "The position of the first smallest element along one axis; of the first NaN if one is there. Zeros of "
         "either "
            "sign are equal. Not of an axis of 0."},
    {.name = "dot", .role = Role::dot, .arity = 2, .cls = OpClass::contraction, .types = kNumbers,
     .reduction = {Reduction::Kind::plain, "add", 0, "mul"}, .cost = 1,
     .doc = "Sums of products along the axes `contract_a` of the first operand and `contract_b` of the second, in "
         "pairs, "
            "for each position of the axes `batch_a` and `batch_b`. The result has the batch axes, then what is "
                "left of "
            "the first operand, then of the second. 16-bit floats are multiplied and added up in f32. Integers wrap. 0 "
            "where nothing is contracted over an axis of 0."},
    {.name = "cumsum", .role = Role::cumsum, .cls = OpClass::scan, .types = kNumbers, .reduction = plain("add", 0),
     .cost = 2,
     .doc = "Running sum, added up as reduce_sum adds. Integers wrap."},
    {.name = "cumprod", .cls = OpClass::scan, .types = kNumbers, .reduction = plain("mul", 1), .cost = 2,
     .doc = "Running product, multiplied as reduce_prod multiplies. Integers wrap."},
    {.name = "cummax", .cls = OpClass::scan, .types = kNumbers, .reduction = plain("max", -kInfinity), .cost = 4,
     .doc = "The largest so far; NaN from the first NaN on. Of no elements: -infinity, or the least integer."},
    {.name = "cummin", .cls = OpClass::scan, .types = kNumbers, .reduction = plain("min", kInfinity), .cost = 4,
     .doc = "The smallest so far; NaN from the first NaN on. Of no elements: infinity, or the greatest integer."},
    {.name = "argsort", .cls = OpClass::sort, .signature = Signature::position, .types = kNumbers, .cost = 40,
     .doc = "`axis=K descending=B count=N`: the first N positions of the sorted order; a symbolic axis is sorted "
         "whole, "
            "and N is 0. Equal elements keep their order in both directions; NaN is larger than infinity, -0 equals "
                "0."},
    {.name = "scatter", .arity = 3, .cls = OpClass::scatter, .signature = Signature::indexed, .types = kAll, .cost = 2,
     .doc = "scatter(base [n, ...], positions [k], updates [k, ...]), `mode=M`: base with each row of updates "
         "joined onto "
            "the row at its position, in order. The mode is set, which keeps the last, or add, mul, max or min, of "
                "numbers. "
            "What is out of range is dropped."},
};
// clang-format on

}  // namespace

std::span<const OpRow> reduction_rows() { return kRows; }

}  // namespace vkfuse::ops
