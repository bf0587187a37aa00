#include "support/gradient_cases.hpp"

#include <algorithm>
#include <numeric>

#include "api/composite_table.hpp"
#include "api/tensor_node.hpp"
#include "autodiff/rules.hpp"
#include "support/device.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {

Tensor GradientDraw::input(const Sizes& sizes, DType dtype, const std::function<double()>& next, bool is_wrt) {
  const std::string name = "x" + std::to_string(data.inputs.size());
  Shape shape;
  for (const std::int64_t size : sizes) {
    // By its size, so that dimensions that were equal are.
    const bool is_symbol = symbolic_ && size > 1 && size % 2 == 1;
    const std::string symbol = "n" + std::to_string(size);
    if (is_symbol) data.symbols[symbol] = size;
    shape.push_back(is_symbol ? Dim::any(symbol, {.min = 1}) : Dim(size));
  }
  std::vector<std::byte>& bytes = data.inputs[name];
  const std::int64_t count = must(element_count(sizes));
  for (std::int64_t i = 0; i < count; ++i) ir::encode(dtype, next(), bytes);
  Tensor made = Tensor::input(name, dtype, shape);
  if (is_wrt) wrt.push_back(made);
  return made;
}

Tensor GradientDraw::floats(const Sizes& sizes, double low, double high) {
  return input(
      sizes, dtype_, [&] { return random.between(low, high); }, true);
}

Tensor GradientDraw::nonzero(const Sizes& sizes) {
  return input(
      sizes, dtype_, [&] { return random.between(0.4, 3) * (random.chance(50) ? 1 : -1); }, true);
}

Tensor GradientDraw::integers(const Sizes& sizes, std::int64_t low, std::int64_t high) {
  return input(
      sizes, DType::i32, [&] { return static_cast<double>(draw(low, high)); }, false);
}

Tensor GradientDraw::booleans(const Sizes& sizes) {
  return input(
      sizes, DType::boolean, [&] { return random.chance(60) ? 1.0 : 0.0; }, false);
}

Sizes GradientDraw::sizes(std::size_t least, std::size_t most) {
  Sizes made(least + random.below(most - least + 1));
  for (std::int64_t& size : made) size = draw(1, 5);
  return made;
}

Sizes GradientDraw::part_of(const Sizes& whole) {
  Sizes part(whole.begin() + static_cast<std::ptrdiff_t>(random.chance(30) ? random.below(whole.size() + 1) : 0),
             whole.end());
  for (std::int64_t& size : part) {
    if (random.chance(30)) size = 1;
  }
  return part;
}

std::vector<int> GradientDraw::some_axes(const Sizes& sizes) {
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(sizes.size()); ++axis) {
    if (random.chance(50)) axes.push_back(axis);
  }
  if (axes.empty()) axes.push_back(axis_of(sizes));
  return axes;
}

namespace {

using Make = std::function<Tensor(GradientDraw&)>;
using Integers = std::vector<std::int64_t>;

Sizes with(Sizes sizes, int axis, std::int64_t size) {
  sizes[static_cast<std::size_t>(axis)] = size;
  return sizes;
}

// --- elementwise ---

/// Operands on which the op is smooth: off its poles and the edges of its domain.
Tensor operand_of(const ops::OpRow& row, int i, GradientDraw& d, const Sizes& sizes) {
  if (row.name == "pow") return i == 0 ? d.floats(sizes, 0.3, 3) : d.floats(sizes);
  for (const std::string_view name : {"div", "rem", "mod", "reciprocal", "atan2"}) {
    if (row.name == name) return d.nonzero(sizes);
  }
  const double margin = (row.high - row.low) / 8;
  return d.floats(sizes, std::max(row.low + margin, -3.0), std::min(row.high - margin, 3.0));
}

Make elementwise(const ops::OpRow& row) {
  return [&row](GradientDraw& d) {
    const Sizes whole = d.sizes(0, 3);
    const auto full = d.random.below(static_cast<std::size_t>(row.arity));  // one of them has the whole shape
    std::vector<Tensor> operands;
    for (int i = 0; i < row.arity; ++i) {
      const Sizes sizes = static_cast<std::size_t>(i) == full ? whole : d.part_of(whole);
      const bool is_condition = row.signature == ops::Signature::select && i == 0;
      operands.push_back(is_condition ? d.booleans(sizes) : operand_of(row, i, d, sizes));
    }
    return Tensor::apply(row.name, operands);
  };
}

Make unary(std::string_view composite) {
  return [composite](GradientDraw& d) { return apply_composite(composite, {d.floats(d.sizes(1, 3), -2.8, 2.8)}); };
}

// --- views ---

Tensor sliced(GradientDraw& d) {
  const Sizes sizes = d.sizes(1, 3);
  Tensor x = d.floats(sizes);
  for (int axis = 0; axis < static_cast<int>(sizes.size()); ++axis) {
    const std::int64_t size = sizes[static_cast<std::size_t>(axis)], step = d.draw(1, 3);
    if (d.random.chance(40)) {
      x = x.slice(axis, size - 1, -size - 1, -step);
    } else {
      x = x.slice(axis, d.draw(0, size - 1), size, step);
    }
  }
  return x;
}

Tensor padded(GradientDraw& d) {
  const Sizes sizes = d.sizes(1, 3);
  ir::PadPayload pad;
  for (const std::int64_t size : sizes) {
    const bool stays = size % 2 == 1 && size > 1;  // it may be a symbol
    pad.low.push_back(stays ? 0 : d.draw(0, 2));
    pad.high.push_back(stays ? 0 : d.draw(0, 2));
  }
  return api::build_tensor(ops::row("pad"), {d.floats(sizes), d.floats({})}, {}, pad);
}

Tensor unfolded(GradientDraw& d, bool several) {
  Sizes sizes = d.sizes(2, 3);
  ir::WindowPayload window;
  for (int axis = 0; axis < (several ? 2 : 1); ++axis) {
    const std::int64_t size = d.draw(1, 3), dilation = d.draw(1, 2);
    window.axes.push_back(several ? 1 - axis : axis);
    window.sizes.push_back(size);
    window.strides.push_back(d.draw(1, 4));
    window.dilations.push_back(dilation);
    sizes[static_cast<std::size_t>(window.axes.back())] = 2 * ((size - 1) * dilation + d.draw(1, 4));
  }
  return api::build_tensor(ops::row("unfold"), {d.floats(sizes)}, {}, window);
}

Tensor slice_assigned(GradientDraw& d) {
  const Sizes sizes = d.sizes(1, 3);
  Sizes part;
  Integers starts, steps;
  for (const std::int64_t size : sizes) {
    const std::int64_t step = d.draw(1, 2), count = (size - 1) / step + 1;
    const bool backwards = d.random.chance(40);
    part.push_back(count);
    starts.push_back(backwards ? size - 1 : 0);
    steps.push_back(backwards ? -step : step);
  }
  return d.floats(sizes).slice_assign(d.floats(part), starts, steps);
}

Tensor concatenated(GradientDraw& d) {
  const Sizes sizes = d.sizes(1, 3);
  const int axis = d.axis_of(sizes);
  std::vector<Tensor> parts;
  for (int i = 0; i < 3; ++i) parts.push_back(d.floats(with(sizes, axis, 2 * d.draw(0, 2))));
  return concat(parts, axis);
}

// --- positions ---

Tensor gathered(GradientDraw& d) {
  const Sizes sizes = d.sizes(1, 3);
  const int axis = d.axis_of(sizes);
  const std::int64_t size = sizes[static_cast<std::size_t>(axis)];
  return d.floats(sizes).gather(d.integers(d.sizes(0, 2), -2, size + 1), axis);
}

Tensor taken_along(GradientDraw& d) {
  const Sizes sizes = d.sizes(1, 3);
  const int axis = d.axis_of(sizes);
  Sizes of_positions = with(sizes, axis, d.draw(1, 6));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (static_cast<int>(i) != axis && d.random.chance(30)) of_positions[i] = 1;
  }
  const std::int64_t size = sizes[static_cast<std::size_t>(axis)];
  return d.floats(sizes).take_along(d.integers(of_positions, -2, size + 1), axis);
}

Make scattered(const char* mode) {
  return [mode](GradientDraw& d) {
    Sizes base = d.sizes(1, 3);
    const std::int64_t rows = d.draw(1, 6), size = base[0];
    Sizes updates = base;
    updates[0] = rows;
    return d.nonzero(base).scatter(d.integers({rows}, -1, size), d.nonzero(updates), mode);
  };
}

Make updated(bool circular) {
  return [circular](GradientDraw& d) {
    const Sizes base = d.sizes(1, 3);
    const int axis = d.axis_of(base);
    const std::int64_t size = base[static_cast<std::size_t>(axis)];
    const Sizes rows = with(base, axis, d.draw(1, size));
    const Sizes starts(base.begin(), base.begin() + d.draw(0, axis));
    return d.floats(base).update_rows(d.integers(starts, -1, size + 1), d.floats(rows), axis, circular);
  };
}

/// Each row at a position, no two at the same.
Tensor placed(GradientDraw& d) {
  const Sizes base = d.sizes(1, 3);
  const int axis = d.axis_of(base);
  const std::int64_t count = d.draw(1, base[static_cast<std::size_t>(axis)] + 2);
  const Sizes rows = with(base, axis, count);
  Shape positions;
  for (int i = 0; i <= axis; ++i) positions.emplace_back(rows[static_cast<std::size_t>(i)]);
  const Tensor last = Tensor::scalar_int(DType::i32, d.draw(count - 2, count + 1));
  return d.floats(base).update_rows(last - Tensor::iota(DType::i32, positions, axis), d.floats(rows), axis);
}

Tensor sorted(GradientDraw& d) {
  const Sizes sizes = d.sizes(1, 3);
  const int axis = d.axis_of(sizes);
  const Tensor x = d.floats(sizes);
  return x.take_along(x.argsort(axis, d.random.chance(50)), axis);
}

// --- reductions and scans ---

Make reduced(const char* op) {
  return [op](GradientDraw& d) {
    const Sizes sizes = d.sizes(1, 4);
    return d.nonzero(sizes).reduce(op, d.some_axes(sizes), d.random.chance(50));
  };
}

Make scanned(const char* op) {
  return [op](GradientDraw& d) {
    const Sizes sizes = d.sizes(1, 3);
    const int axis = d.axis_of(sizes);
    const bool is_extreme = std::string_view(op) == "cummax" || std::string_view(op) == "cummin";
    const Tensor x = d.nonzero(sizes);
    const bool exclusive = d.random.chance(50), reverse = d.random.chance(50);
    const Tensor y = api::build_tensor(ops::row(op), {x}, {}, ir::ScanPayload{axis, exclusive, reverse});
    // The first of an exclusive one is infinite, which no difference can be taken of.
    return is_extreme && exclusive ? select(is_finite(y), y, Tensor::scalar(y.dtype(), 0)) : y;
  };
}

// --- products ---

Tensor contracted(GradientDraw& d) {
  // Axes of both operands in random order: batch, contracted, free of each.
  struct Axis {
    int kind;  // 0 batch, 1 contracted, 2 free
    int pair;
    std::int64_t size;
  };
  std::vector<Axis> a, b;
  for (const int kind : {0, 1}) {
    const auto count = static_cast<int>(d.random.below(3));
    for (int i = 0; i < count; ++i) {
      const std::int64_t size = d.draw(1, 4);
      a.push_back({kind, i, size});
      b.push_back({kind, i, size});
    }
  }
  for (std::vector<Axis>* side : {&a, &b}) {
    const std::size_t count = d.random.below(3);
    for (std::size_t i = 0; i < count; ++i) side->push_back({2, 0, d.draw(1, 4)});
    for (std::size_t i = side->size(); i > 1; --i) std::swap((*side)[i - 1], (*side)[d.random.below(i)]);
  }
  const auto places = [](const std::vector<Axis>& side, int kind) {
    std::map<int, int> found;
    for (std::size_t i = 0; i < side.size(); ++i) {
      if (side[i].kind == kind) found[side[i].pair] = static_cast<int>(i);
    }
    std::vector<int> axes;
    for (const auto& [pair, axis] : found) axes.push_back(axis);
    return axes;
  };
  const auto sizes = [](const std::vector<Axis>& side) {
    Sizes made;
    for (const Axis& axis : side) made.push_back(axis.size);
    return made;
  };
  return dot_general(
      d.floats(sizes(a)), d.floats(sizes(b)),
      {.contract_a = places(a, 1), .contract_b = places(b, 1), .batch_a = places(a, 0), .batch_b = places(b, 0)});
}

Tensor multiplied(GradientDraw& d) {
  const std::int64_t rows = d.draw(1, 5), depth = d.draw(1, 5), columns = d.draw(1, 5);
  return matmul(d.floats({d.draw(1, 3), rows, depth}), d.floats({depth, columns}));
}

Make convolved(bool transposed) {
  return [transposed](GradientDraw& d) {
    const std::size_t axes = 1 + d.random.below(2);
    const std::int64_t groups = d.draw(1, 2), in = d.draw(1, 2), out = d.draw(1, 2);
    Sizes x{d.draw(1, 2), groups * in}, w{transposed ? groups * in : groups * out, transposed ? out : in};
    ConvOptions options{.groups = groups};
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t kernel = d.draw(1, 3), dilation = d.draw(1, 2);
      options.strides.push_back(d.draw(1, 3));
      options.dilations.push_back(dilation);
      options.low.push_back(transposed ? 0 : d.draw(0, 2));
      options.high.push_back(transposed ? 0 : d.draw(0, 2));
      w.push_back(kernel);
      x.push_back((kernel - 1) * dilation + d.draw(1, 4));
    }
    return transposed ? conv_transpose(d.floats(x), d.floats(w), options) : conv(d.floats(x), d.floats(w), options);
  };
}

PoolOptions pool_of(GradientDraw& d) {
  PoolOptions options;
  for (int i = 0; i < 2; ++i) {
    const std::int64_t size = d.draw(1, 3);
    options.sizes.push_back(size);
    options.strides.push_back(d.draw(1, 3));
    options.dilations.push_back(d.draw(1, 2));
    options.low.push_back(d.draw(0, size - 1));
    options.high.push_back(d.draw(0, size - 1));
  }
  return options;
}

Make pooled(bool largest) {
  return [largest](GradientDraw& d) {
    const Tensor x = d.floats({1, 2, d.draw(5, 7), d.draw(5, 7)});
    return largest ? max_pool(x, pool_of(d)) : average_pool(x, pool_of(d));
  };
}

Make resized(Interpolation mode) {
  return [mode](GradientDraw& d) {
    return interpolate(
        d.floats({1, 2, d.draw(2, 5), d.draw(2, 5)}), {2, 3}, {d.draw(1, 9), d.draw(1, 9)},
        {.mode = mode, .coordinates = d.random.chance(50) ? Coordinates::half_pixel : Coordinates::asymmetric});
  };
}

// --- networks ---

Make along(std::string_view composite) {
  return [composite](GradientDraw& d) {
    const Sizes sizes = d.sizes(1, 3);
    return apply_composite(composite, {d.floats(sizes)}, {{"axis", std::int64_t{d.axis_of(sizes)}}});
  };
}

Tensor layer_normalised(GradientDraw& d) {
  Sizes sizes = d.sizes(1, 2);
  sizes.push_back(d.draw(2, 6));
  const Sizes last{sizes.back()};
  return layer_norm(d.floats(sizes), -1, {.scale = d.floats(last), .bias = d.floats(last)});
}

Tensor rms_normalised(GradientDraw& d) {
  Sizes sizes = d.sizes(1, 2);
  sizes.push_back(d.draw(2, 6));
  return rms_norm(d.floats(sizes), -1, {.scale = d.floats({sizes.back()})});
}

Tensor group_normalised(GradientDraw& d) {
  return group_norm(d.floats({2, 4, d.draw(2, 4)}), 2, {.scale = d.floats({4}), .bias = d.floats({4})});
}

Tensor batch_normalised(GradientDraw& d) {
  const Tensor x = d.floats({3, 2, d.draw(1, 4)});
  return batch_norm(x, d.floats({2}), d.floats({2}, 0.5, 2), {.scale = d.floats({2}), .bias = d.floats({2})});
}

Tensor entropy(GradientDraw& d) {
  const std::int64_t rows = d.draw(1, 5), classes = d.draw(1, 6);
  return cross_entropy(d.floats({rows, classes}), d.integers({rows}, 0, classes - 1));
}

Tensor attended(GradientDraw& d) {
  const std::int64_t batch = d.draw(1, 2), key_heads = d.draw(1, 2), heads = key_heads * d.draw(1, 2);
  const std::int64_t queries = d.draw(1, 4), keys = queries + d.draw(0, 2), size = d.draw(1, 3);
  AttentionOptions options;
  options.causal = d.random.chance(50);
  if (d.random.chance(30)) options.window_before = 1;
  if (d.random.chance(40)) options.softcap = 2;
  if (d.random.chance(40)) options.bias = d.floats({heads, queries, keys});
  if (d.random.chance(30)) options.alibi_slopes = d.floats({heads}, 0.1, 1);
  if (d.random.chance(30)) options.sink = d.floats({heads});
  return attention(d.floats({batch, heads, queries, size}), d.floats({batch, key_heads, keys, size}),
                   d.floats({batch, key_heads, keys, d.draw(1, 3)}), options);
}

Tensor turned(GradientDraw& d) {
  const std::int64_t half = d.draw(1, 3), rows = d.draw(1, 4);
  return rotary(d.floats({2, rows, 2 * half}), d.floats({rows, half}), d.floats({rows, half}),
                {.interleaved = d.random.chance(50)});
}

Tensor dequantised(GradientDraw& d) {
  const std::int64_t rows = d.draw(1, 4), columns = d.draw(1, 4);
  return dequantize(d.integers({rows, columns}, -8, 7), {.scale = d.floats({columns}, 0.1, 1), .axis = 1});
}

/// Two layers, in which most values have several readers.
Tensor network(GradientDraw& d) {
  const std::int64_t rows = d.draw(1, 4), in = d.draw(2, 4), hidden = d.draw(2, 5);
  const Tensor x = d.floats({rows, in});
  const Tensor h = gelu(linear(x, d.floats({in, hidden}), d.floats({hidden})));
  const Tensor y = layer_norm(linear(h, d.floats({hidden, in})) + x);
  return (softmax(y) * y).mean({-1}) + tanh(h.sum({-1}));
}

/// The gradient of a gradient: the second order of what is differentiated again.
Make second(const Make& first) {
  return [first](GradientDraw& d) {
    const Tensor y = first(d);
    std::vector<Tensor> inner = gradients(std::span(&y, 1), d.wrt);
    Tensor sum = inner[0].sum();
    for (std::size_t i = 1; i < inner.size(); ++i) sum = sum + (inner[i] * inner[i]).sum();
    return sum;
  };
}

std::vector<GradientFamily> made_families() {
  std::vector<GradientFamily> all;
  for (const ops::OpRow& row : ops::table()) {
    if (row.cls == ops::OpClass::elementwise && autodiff::row_of(row).kind == autodiff::Kind::rule)
      all.push_back({std::string(row.name), elementwise(row)});
  }
  const auto add = [&](const char* name, Make make) { all.push_back({name, std::move(make)}); };
  add("reshape", [](GradientDraw& d) { return d.floats({2, d.draw(1, 3), 4}).reshape({4, Dim(-1)}); });
  add("permute", [](GradientDraw& d) { return d.floats({2, 3, d.draw(1, 4)}).permute({2, 0, 1}); });
  add("broadcast", [](GradientDraw& d) {
    const Tensor x = d.floats({d.draw(1, 3), 1});
    return x.broadcast_to({2, x.shape()[0], 4});
  });
  add("slice", sliced);
  add("reverse", [](GradientDraw& d) {
    const Sizes sizes = d.sizes(1, 3);
    return d.floats(sizes).reverse(d.some_axes(sizes));
  });
  add("pad", padded);
  add("concat", concatenated);
  add("unfold", [](GradientDraw& d) { return unfolded(d, false); });
  add("unfold of several axes", [](GradientDraw& d) { return unfolded(d, true); });
  add("slice_assign", slice_assigned);
  add("gather", gathered);
  add("take_along", taken_along);
  add("update_rows", updated(false));
  add("update_rows that is circular", updated(true));
  add("update_rows by positions", placed);
  add("take_along of a sorted order", sorted);
  add("take_along of the best", [](GradientDraw& d) {
    const Sizes sizes = d.sizes(1, 3);
    const int axis = d.axis_of(sizes);
    return top_k(d.floats(sizes), sizes[static_cast<std::size_t>(axis)] % 2 == 1 ? 1 : 2, axis).values;
  });
  for (const char* mode : {"set", "add", "mul", "max", "min"})
    all.push_back({std::string("scatter ") + mode, scattered(mode)});
  for (const char* op : {"reduce_sum", "reduce_prod", "reduce_mean", "reduce_max", "reduce_min"}) add(op, reduced(op));
  for (const char* op : {"cumsum", "cumprod", "cummax", "cummin"}) add(op, scanned(op));
  add("dot", contracted);
  add("matmul", multiplied);
  add("conv", convolved(false));
  add("conv_transpose", convolved(true));
  add("max_pool", pooled(true));
  add("average_pool", pooled(false));
  add("interpolate nearest", resized(Interpolation::nearest));
  add("interpolate linear", resized(Interpolation::linear));
  add("interpolate cubic", resized(Interpolation::cubic));
  for (const char* name : {"gelu", "softplus", "mish", "hard_sigmoid", "hard_swish", "elu", "leaky_relu", "silu"})
    add(name, unary(name));
  for (const char* name : {"softmax", "log_softmax"}) add(name, along(name));
  add("log_sum_exp", [](GradientDraw& d) { return log_sum_exp(d.floats(d.sizes(1, 3))); });
  add("layer_norm", layer_normalised);
  add("rms_norm", rms_normalised);
  add("group_norm", group_normalised);
  add("batch_norm", batch_normalised);
  add("cross_entropy", entropy);
  add("attention", attended);
  add("rotary", turned);
  add("dequantize", dequantised);
  add("dropout", [](GradientDraw& d) { return dropout(d.floats(d.sizes(1, 3)), 0.7, 5); });
  add("network", network);
  const std::vector<GradientFamily> first = all;
  const auto twice = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const auto of = std::find_if(first.begin(), first.end(), [&](const auto& one) { return one.name == name; });
      all.push_back({"second order of " + of->name, second(of->make)});
    }
  };
  twice({"mul",     "div",  "pow",   "exp",     "log",        "tanh",        "sigmoid",       "sin",
         "erf",     "sqrt", "atan2", "gather",  "take_along", "scatter mul", "reduce_prod",   "reduce_max",
         "cumprod", "dot",  "conv",  "softmax", "layer_norm", "attention",   "cross_entropy", "network"});
  return all;
}

}  // namespace

const std::vector<GradientFamily>& gradient_families() {
  static const std::vector<GradientFamily> all = made_families();
  return all;
}

}  // namespace vkfuse::test
