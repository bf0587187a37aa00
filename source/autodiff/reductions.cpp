// Gradients of reductions, scans and sorts.
#include <algorithm>

#include "autodiff/rules.hpp"
#include "vkfuse/gradients.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::autodiff {

namespace {

Tensor integer_zero() { return Tensor::scalar_int(DType::i32, 0); }
Tensor integer_one() { return Tensor::scalar_int(DType::i32, 1); }

const std::vector<int>& axes_of(const Call& c) { return c.attributes<ir::AxesPayload>().axes; }

Tensor back(const Call& c, const Tensor& reduced) { return with_axes(reduced, axes_of(c), c.x(0).shape()); }

Tensor of_sum(const Call& c, std::size_t) { return back(c, c.g).broadcast_to(c.x(0).shape()); }

/// In f32 for 16-bit floats, which cannot count far.
Tensor of_mean(const Call& c, std::size_t) {
  const DType wide = c.y.dtype() == DType::f64 ? DType::f64 : DType::f32;
  double count = 1;
  Shape symbols;
  for (const int axis : axes_of(c)) {
    const Dim& dim = c.x(0).shape()[static_cast<std::size_t>(axis)];
    if (dim.is_symbol()) {
      symbols.push_back(dim);
    } else {
      count *= static_cast<double>(dim.size());
    }
  }
  Tensor each = c.g.cast(wide) / count;
  if (!symbols.empty()) each = each / Tensor::scalar(wide, 1).broadcast_to(symbols).sum();
  return back(c, each.cast(c.y.dtype())).broadcast_to(c.x(0).shape());
}

/// The reduction axes as one, which comes last: an order of axes and two shapes.
struct Line {
  std::vector<int> order;
  Shape moved, flat;
};

/// Nothing where two of them are symbols: no symbol stands for a product.
std::optional<Line> line_of(const Shape& shape, std::span<const int> axes) {
  Line line;
  line.order = ir::free_axes({}, axes, shape.size());
  for (const int axis : line.order) line.flat.push_back(shape[static_cast<std::size_t>(axis)]);
  line.order.insert(line.order.end(), axes.begin(), axes.end());
  Dim joined = 1;
  for (const int axis : axes) {
    const Dim& dim = shape[static_cast<std::size_t>(axis)];
    if (joined == Dim(1)) {
      joined = dim;
    } else if (dim.is_symbol() || joined.is_symbol()) {
      if (dim != Dim(1)) return std::nullopt;
    } else {
      const auto product = checked_mul(joined.size(), dim.size());
      if (!product || *product > INT32_MAX) return std::nullopt;
      joined = Dim(*product);
    }
  }
  line.flat.push_back(joined);
  for (const int axis : line.order) line.moved.push_back(shape[static_cast<std::size_t>(axis)]);
  return line;
}

/// The gradient of a reduction over several axes that no line has, as that of one over the last of them and one over
/// the others.
Tensor one_by_one(const Call& c, Rule rule) {
  std::vector<int> others = axes_of(c);
  const int last = others.back();
  others.pop_back();
  const std::string_view name = c.y.node()->op->name;
  const Tensor inner = c.x(0).reduce(name, {last}), outer = inner.reduce(name, others);
  if (!outer.valid()) return outer;
  const Tensor outer_operands[] = {inner}, inner_operands[] = {c.x(0)};
  const Tensor between = rule({outer, outer_operands, c.g, c.is_forward}, 0);
  return between.valid() ? rule({inner, inner_operands, between, c.is_forward}, 0) : between;
}

/// To the first of the elements that are the extreme. They are found by their position, not by their value: a value
/// that another kernel computes again may be another one, and then no element would be the extreme.
Tensor of_extreme(const Call& c, std::size_t) {
  const Tensor& x = c.x(0);
  const auto line = line_of(x.shape(), axes_of(c));
  if (!line) return one_by_one(c, of_extreme);
  const Tensor flat = x.permute(line->order).reshape(line->flat);
  const bool is_max = c.y.node()->op->role == ops::Role::reduce_max;
  const Tensor at = is_max ? flat.argmax(-1, true) : flat.argmin(-1, true);
  Shape ramp(line->flat.size(), Dim(1));
  ramp.back() = line->flat.back();
  const Tensor is_it = eq(Tensor::iota(DType::i32, ramp, static_cast<int>(ramp.size()) - 1), at);
  return select(is_it, c.g.unsqueeze(-1), c.number(0)).reshape(line->moved).permute(inverse_of(line->order));
}

/// The product of the others is that of those before and of those after: nothing is divided by, so a 0 does no harm.
Tensor of_product(const Call& c, std::size_t) {
  const auto line = line_of(c.x(0).shape(), axes_of(c));
  if (!line) return one_by_one(c, of_product);
  const Tensor flat = c.x(0).permute(line->order).reshape(line->flat);
  const Tensor others = flat.cumprod(-1, true) * flat.cumprod(-1, true, true);
  return (others * c.g.unsqueeze(-1)).reshape(line->moved).permute(inverse_of(line->order));
}

const ir::ScanPayload& scan_of(const Call& c) { return c.attributes<ir::ScanPayload>(); }

Tensor of_cumsum(const Call& c, std::size_t) {
  const auto& scan = scan_of(c);
  return c.g.cumsum(scan.axis, scan.exclusive, !scan.reverse);
}

/// The parts of the gradient of a running product with nothing divided by and nothing chosen, so that its own gradient
/// is right where elements are 0: what is before an element and, for each product that it is in, what is between the
/// two. As many values as all pairs of elements.
struct Pairs {
  Tensor before;   ///< of each element
  Tensor between;  ///< elements along the axis of the scan, products along the next
  Tensor has_it;   ///< whether the element is in the product
};

Pairs pairs_of(const Tensor& x, const ir::ScanPayload& scan) {
  const int rank = static_cast<int>(x.shape().size());
  Shape from(static_cast<std::size_t>(rank) + 1, Dim(1)), to = from;
  from[static_cast<std::size_t>(scan.axis)] = to[static_cast<std::size_t>(scan.axis) + 1] =
      x.shape()[static_cast<std::size_t>(scan.axis)];
  const Tensor element = Tensor::iota(DType::i32, from, scan.axis), other = Tensor::iota(DType::i32, to, scan.axis + 1);
  const Tensor is_later = scan.reverse ? lt(other, element) : gt(other, element);
  const Tensor has_it = scan.exclusive ? is_later : logical_or(is_later, eq(other, element));
  const Tensor between = select(is_later, x.unsqueeze(scan.axis), Tensor::scalar(x.dtype(), 1))
                             .cumprod(scan.axis + 1, scan.exclusive, scan.reverse);
  return {x.cumprod(scan.axis, true, scan.reverse), between, has_it};
}

/// The gradients of before * sum(g between), the gradient of a running product, with respect to x and g. The cotangent
/// g may depend on x: what is differentiated here must not have both, or x would get its part twice.
std::vector<Tensor> of_pairs(const GradientCall& call, const ir::ScanPayload& scan) {
  const Tensor &x = call.operands[0], &g = call.operands[1];
  const Pairs pairs = pairs_of(x, scan);
  const Tensor none = Tensor::scalar(x.dtype(), 0), along = g.unsqueeze(scan.axis);
  const Tensor weights = select(pairs.has_it, (call.cotangent * pairs.before).unsqueeze(scan.axis + 1), none);
  const Tensor after = select(pairs.has_it, along * pairs.between, none).sum({scan.axis + 1});
  const Tensor of_x = gradients({pairs.before, pairs.between}, {x}, {call.cotangent * after, weights * along})[0];
  return {of_x, (weights * pairs.between).sum({scan.axis})};
}

/// The sum of g y from an element on, divided by it. Before the first 0 that is right, and after it there is nothing;
/// at the first 0 itself the products are those without it. The choices hide what depends on elements that are 0, so
/// gradients of this are those of the other form.
Tensor of_cumprod(const Call& c, std::size_t) {
  const ir::ScanPayload scan = scan_of(c);
  const Tensor& x = c.x(0);
  const Tensor none = c.number(0), one = c.number(1);
  const Tensor is_zero = eq(x, none);
  const Tensor before = select(is_zero, integer_one(), integer_zero()).cumsum(scan.axis, false, scan.reverse);
  const Tensor is_first = logical_and(is_zero, eq(before, integer_one()));
  const auto from_here = [&](const Tensor& terms) { return terms.cumsum(scan.axis, scan.exclusive, !scan.reverse); };
  const Tensor without_it = select(is_first, one, x).cumprod(scan.axis, scan.exclusive, scan.reverse);
  const Tensor usual = from_here(c.g * c.y) / select(is_zero, one, x);
  const Tensor value = select(eq(before, integer_zero()), usual, select(is_first, from_here(c.g * without_it), none));
  return with_gradient(value, {x, c.g}, [scan](const GradientCall& call) { return of_pairs(call, scan); });
}

/// Each element's cotangent goes to the first of the elements that are the extreme so far.
Tensor of_running_extreme(const Call& c, bool is_max) {
  const auto& scan = scan_of(c);
  const auto at = static_cast<std::size_t>(scan.axis);
  const Tensor& x = c.x(0);
  const Dim& size = x.shape()[at];
  Shape ramp(x.shape().size(), Dim(1));
  ramp[at] = size;
  const Tensor position = Tensor::iota(DType::i32, ramp, scan.axis);
  // How many elements were before, in the direction of the scan.
  const Tensor ones = integer_one().broadcast_to(ramp);
  const Tensor rank = scan.reverse ? ones.cumsum(scan.axis, true, true) : position;
  const Tensor so_far = is_max ? x.cummax(scan.axis, true, scan.reverse) : x.cummin(scan.axis, true, scan.reverse);
  Tensor is_new = is_max ? gt(x, so_far) : lt(x, so_far);
  is_new = logical_or(is_new, logical_and(is_nan(x), logical_not(is_nan(so_far))));
  is_new = logical_or(is_new, eq(rank, integer_zero()));
  const Tensor best =
      select(is_new, rank, Tensor::scalar_int(DType::i32, -1)).cummax(scan.axis, scan.exclusive, scan.reverse);
  // Of each element, the sum over those whose extreme it is.
  const Tensor hit = eq(best.unsqueeze(scan.axis), rank.unsqueeze(scan.axis + 1));
  return select(hit, c.g.unsqueeze(scan.axis), c.number(0)).sum({scan.axis + 1});
}

// A row is a paragraph.
// clang-format off
constexpr GradientRow kReductions[] = {
    {.op = "reduce_sum", .rule = of_sum, .doc = "g to each element"},
    {.op = "reduce_prod", .rule = of_product, .doc = "g times the product of the others, also where elements are 0"},
    {.op = "reduce_mean", .rule = of_mean, .doc = "g / n to each element"},
    {.op = "reduce_max", .rule = of_extreme,
     .doc = "g to the first of the largest elements"},
    {.op = "reduce_min", .rule = of_extreme,
     .doc = "g to the first of the smallest elements"},
    {.op = "reduce_any", .kind = Kind::discrete},
    {.op = "reduce_all", .kind = Kind::discrete},
    {.op = "argmax", .kind = Kind::discrete},
    {.op = "argmin", .kind = Kind::discrete},
    {.op = "cumsum", .rule = of_cumsum, .doc = "the running sum of g in the other direction"},
    {.op = "cumprod", .rule = of_cumprod,
     .doc = "the running sum of g y in the other direction, divided by x; exact where elements are 0"},
    {.op = "cummax", .rule = [](const Call& c, std::size_t) { return of_running_extreme(c, true); },
     .doc = "the sum of g over the results that an element is; to the first of equal ones"},
    {.op = "cummin", .rule = [](const Call& c, std::size_t) { return of_running_extreme(c, false); },
     .doc = "the sum of g over the results that an element is; to the first of equal ones"},
    {.op = "argsort", .kind = Kind::discrete},
};
// clang-format on

}  // namespace

std::span<const GradientRow> reduction_rows() { return kReductions; }

}  // namespace vkfuse::autodiff
