// Gradients of products, and what the other rows have.
#include <algorithm>

#include "autodiff/rules.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::autodiff {

namespace {

/// One operand's axes of a dot.
struct Side {
  const std::vector<int>&batch, &contract;
  std::vector<int> free;
};

std::vector<int> from(int first, std::size_t count) {
  std::vector<int> axes;
  for (std::size_t i = 0; i < count; ++i) axes.push_back(first + static_cast<int>(i));
  return axes;
}

/// The cotangent [batch, free of a, free of b] against the other operand, over what is free of it:
/// [batch, free, what was contracted in the order of the other's axes], with the axes put to their places.
Tensor of_dot(const Call& c, std::size_t operand) {
  const auto& axes = c.attributes<ir::DotPayload>();
  const Tensor& a = c.x(0);
  const Tensor& b = c.x(1);
  const Side first{axes.batch_a, axes.contract_a, ir::free_axes(axes.batch_a, axes.contract_a, a.shape().size())};
  const Side second{axes.batch_b, axes.contract_b, ir::free_axes(axes.batch_b, axes.contract_b, b.shape().size())};
  const Side& own = operand == 0 ? first : second;
  const Side& other = operand == 0 ? second : first;
  const int batches = static_cast<int>(own.batch.size());
  const int of_a = batches, of_b = batches + static_cast<int>(first.free.size());
  DotAxes made{.contract_a = from(operand == 0 ? of_b : of_a, other.free.size()),
               .contract_b = other.free,
               .batch_a = from(0, own.batch.size()),
               .batch_b = other.batch};
  const Tensor sums = dot_general(c.g, operand == 0 ? b : a, made);
  // The axis of the own operand that each axis of the sums is.
  std::vector<int> is = own.batch;
  is.insert(is.end(), own.free.begin(), own.free.end());
  std::vector<int> left = other.contract;
  std::sort(left.begin(), left.end());
  for (const int axis : left) {
    const auto pair = std::find(other.contract.begin(), other.contract.end(), axis) - other.contract.begin();
    is.push_back(own.contract[static_cast<std::size_t>(pair)]);
  }
  return sums.permute(inverse_of(is));
}

// A row is a paragraph.
// clang-format off
constexpr GradientRow kContractions[] = {
    {.op = "dot", .rule = of_dot, .doc = "the product of g with the other operand, over what is free of that"},
};
constexpr GradientRow kOthers[] = {
    {.op = "input", .kind = Kind::discrete},
    {.op = "constant", .kind = Kind::discrete},
    {.op = "iota", .kind = Kind::discrete},
    {.op = "random", .kind = Kind::discrete},
    {.op = "bitcast", .kind = Kind::refused,
     .doc = "its result is the bits of its operand, which is no function with a derivative"},
    {.op = "eq", .kind = Kind::discrete},
    {.op = "ne", .kind = Kind::discrete},
    {.op = "lt", .kind = Kind::discrete},
    {.op = "le", .kind = Kind::discrete},
    {.op = "gt", .kind = Kind::discrete},
    {.op = "ge", .kind = Kind::discrete},
    {.op = "is_nan", .kind = Kind::discrete},
    {.op = "is_inf", .kind = Kind::discrete},
    {.op = "is_finite", .kind = Kind::discrete},
    {.op = "and", .kind = Kind::discrete},
    {.op = "or", .kind = Kind::discrete},
    {.op = "xor", .kind = Kind::discrete},
    {.op = "not", .kind = Kind::discrete},
    {.op = "bit_and", .kind = Kind::discrete},
    {.op = "bit_or", .kind = Kind::discrete},
    {.op = "bit_xor", .kind = Kind::discrete},
    {.op = "bit_not", .kind = Kind::discrete},
    {.op = "shift_left", .kind = Kind::discrete},
    {.op = "shift_right", .kind = Kind::discrete},
    {.op = "decode_float8_e4m3fn", .kind = Kind::discrete},
    {.op = "decode_float8_e5m2", .kind = Kind::discrete},
    {.op = "decode_float8_e4m3fnuz", .kind = Kind::discrete},
    {.op = "decode_float8_e5m2fnuz", .kind = Kind::discrete},
    {.op = "decode_float6_e2m3fn", .kind = Kind::discrete},
    {.op = "decode_float6_e3m2fn", .kind = Kind::discrete},
    {.op = "decode_float4_e2m1fn", .kind = Kind::discrete},
    {.op = "decode_float8_e8m0fnu", .kind = Kind::discrete},
    {.op = "custom", .kind = Kind::refused, .doc = "none was given with it as CustomOp::gradient"},
    {.op = "custom_kernel", .kind = Kind::refused, .doc = "none was given with it as CustomKernel::gradient"},
};
// clang-format on

}  // namespace

std::span<const GradientRow> contraction_rows() { return kContractions; }
std::span<const GradientRow> other_rows() { return kOthers; }

}  // namespace vkfuse::autodiff
