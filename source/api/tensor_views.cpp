// Views and positions in data: what the handles count from the end, clamp or complete before the graph
// builder checks it.
#include <algorithm>
#include <limits>

#include "api/tensor_node.hpp"

namespace vkfuse {

using api::build_tensor;
using api::counted_axis;

namespace {

/// Whether the axis exists; the others of a rule are the builder's to find.
bool has_axis(const Tensor& x, int axis) { return axis >= 0 && axis < static_cast<int>(x.shape().size()); }

Tensor no_such_axis(const Tensor& x, std::string_view op, int axis) {
  const std::size_t rank = x.shape().size();
  return Tensor::failed(invalid("'{}' names axis {}, but {} has {} ax{}s.", op, axis, to_text({x.dtype(), x.shape()}),
                                rank, rank == 1 ? "i" : "e"));
}

std::string type_text(const Tensor& x) { return to_text(TensorType{x.dtype(), x.shape()}); }

/// What one open dimension is when the others are `stated`.
Result<Dim> remaining(const Tensor& x, const Shape& stated, const Shape& asked) {
  Shape symbols;  // of the tensor, less those that are stated
  Sizes numbers;
  for (const Dim& dim : x.shape()) {
    if (dim.is_symbol()) {
      symbols.push_back(dim);
    } else {
      numbers.push_back(dim.size());
    }
  }
  VKF_TRY(count, element_count(numbers));
  std::int64_t divisor = 1;
  for (const Dim& dim : stated) {
    const auto found = std::find(symbols.begin(), symbols.end(), dim);
    if (found != symbols.end()) {
      symbols.erase(found);
      continue;
    }
    const auto product = dim.is_symbol() ? std::nullopt : checked_mul(divisor, dim.size());
    if (!product)
      return invalid("'reshape' of {} to {} has no number for its open dimension.", type_text(x), to_text(asked));
    divisor = *product;
  }
  if (divisor == 0 || count % divisor != 0) {
    return invalid("'reshape' of {} to {} cannot divide {} elements by {}.", type_text(x), to_text(asked), count,
                   divisor);
  }
  if (symbols.empty()) return Dim(count / divisor);
  if (symbols.size() == 1 && count == divisor) return symbols[0];
  return invalid(
      "'reshape' of {} to {} leaves the product of {} and {} for one dimension, and there is no symbol for a product.",
      type_text(x), to_text(asked), to_text(symbols), count / divisor);
}

/// Where a slice with NumPy's bounds starts, and how many elements it has.
struct Run {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

Run clamped(std::int64_t size, std::int64_t start, std::int64_t end, std::int64_t step) {
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? size : size - 1;
  const auto bound = [&](std::int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  start = bound(start);
  end = bound(end);
  const std::int64_t distance = step > 0 ? end - start : start - end;
  if (distance <= 0) return {};
  // The magnitude of the least number is no i64.
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const auto count = static_cast<std::int64_t>((static_cast<std::uint64_t>(distance) - 1) / stride) + 1;
  return {start, count == 1 ? 1 : step, count};
}

/// On a symbolic axis bounds that lie outside whatever the size is; no axis is as long as 2^62.
std::int64_t reach(const Dim& symbol) { return std::min(symbol.facts().max, std::int64_t{1} << 62); }

Tensor with_runs(const Tensor& x, const std::vector<Run>& runs) {
  ir::SlicePayload payload;
  Shape shape;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    payload.starts.push_back(runs[i].start);
    payload.steps.push_back(runs[i].step);
    shape.push_back(x.shape()[i].is_symbol() ? x.shape()[i] : Dim(runs[i].count));
  }
  if (shape == x.shape() &&
      std::all_of(runs.begin(), runs.end(), [](const Run& run) { return run.start == 0 && run.step == 1; }))
    return x;
  return build_tensor(ops::row("slice"), {x}, {x.dtype(), std::move(shape)}, std::move(payload));
}

/// Every element of every axis.
std::vector<Run> whole_runs(const Tensor& x) {
  std::vector<Run> runs;
  for (const Dim& dim : x.shape()) runs.push_back({0, 1, dim.size()});
  return runs;
}

}  // namespace

Tensor Tensor::reshape(Shape shape) const {
  if (!valid()) return *this;
  const auto is_open = [](const Dim& dim) { return dim == Dim(-1); };
  const auto open = std::find_if(shape.begin(), shape.end(), is_open);
  if (open != shape.end()) {
    if (std::count_if(shape.begin(), shape.end(), is_open) > 1) {
      return failed(
          invalid("'reshape' of {} to {} leaves more than one dimension open.", type_text(*this), to_text(shape)));
    }
    Shape stated = shape;
    stated.erase(stated.begin() + (open - shape.begin()));
    auto rest = remaining(*this, stated, shape);
    if (!rest) return failed(std::move(rest).error());
    *open = *std::move(rest);
  }
  if (shape == this->shape()) return *this;
  return build_tensor(ops::row("reshape"), {*this}, {dtype(), std::move(shape)}, ir::NoPayload{});
}

Tensor Tensor::permute(std::vector<int> axes) const {
  if (!valid()) return *this;
  const std::size_t rank = shape().size();
  bool same = axes.size() == rank;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i] = counted_axis(axes[i], rank);
    same = same && axes[i] == static_cast<int>(i);
  }
  if (same) return *this;
  return build_tensor(ops::row("permute"), {*this}, {}, ir::AxesPayload{std::move(axes)});
}

Tensor Tensor::swap_dims(int a, int b) const {
  if (!valid()) return *this;
  std::vector<int> axes;
  for (int i = 0; i < static_cast<int>(shape().size()); ++i) axes.push_back(i);
  for (int* axis : {&a, &b}) {
    *axis = counted_axis(*axis, axes.size());
    if (!has_axis(*this, *axis)) return no_such_axis(*this, "swap_dims", *axis);
  }
  std::swap(axes[static_cast<std::size_t>(a)], axes[static_cast<std::size_t>(b)]);
  return permute(std::move(axes));
}

Tensor Tensor::transpose() const {
  if (valid() && shape().size() < 2)
    return failed(invalid("'transpose' swaps the last two axes, but {} has fewer.", type_text(*this)));
  return swap_dims(-1, -2);
}

Tensor Tensor::broadcast_to(Shape shape) const {
  if (valid() && shape == this->shape()) return *this;
  return build_tensor(ops::row("broadcast"), {*this}, {dtype(), std::move(shape)}, ir::NoPayload{});
}

Tensor Tensor::unsqueeze(int axis) const {
  if (!valid()) return *this;
  Shape shape = this->shape();
  const int at = counted_axis(axis, shape.size() + 1);
  if (at < 0 || at > static_cast<int>(shape.size())) {
    return failed(
        invalid("'unsqueeze' puts an axis at {}, but {} takes one at 0 to {}.", axis, type_text(*this), shape.size()));
  }
  shape.insert(shape.begin() + at, Dim(1));
  return reshape(std::move(shape));
}

Tensor Tensor::squeeze(int axis) const {
  if (!valid()) return *this;
  Shape shape = this->shape();
  const int at = counted_axis(axis, shape.size());
  if (!has_axis(*this, at)) return no_such_axis(*this, "squeeze", axis);
  if (shape[static_cast<std::size_t>(at)] != Dim(1)) {
    return failed(invalid("'squeeze' removes a dimension of 1, but dimension {} of {} is {}.", at, type_text(*this),
                          shape[static_cast<std::size_t>(at)].text()));
  }
  shape.erase(shape.begin() + at);
  return reshape(std::move(shape));
}

namespace {

/// How many elements a symbolic axis has at every size, as far as positions of i32 reach.
std::int64_t promised(const Dim& dim) { return std::min<std::int64_t>(dim.facts().min, INT32_MAX); }

/// A run that a symbolic axis is promised to have: its positions are known, and its length is.
Tensor gathered_run(const Tensor& x, int axis, const Run& run) {
  const Tensor positions = Tensor::iota(DType::i32, {run.count}, 0);
  const auto number = [](std::int64_t value) { return Tensor::scalar_int(DType::i32, value); };
  const Tensor stepped = run.step == 1 ? positions : positions * number(run.step);
  return x.gather(run.start == 0 ? stepped : stepped + number(run.start), axis);
}

/// What slice() is asked for.
struct Bounds {
  std::int64_t start = 0, end = 0, step = 1;
};

Tensor symbolic_slice(const Tensor& x, int at, const Bounds& bounds) {
  const auto [start, end, step] = bounds;
  const Dim& dim = x.shape()[static_cast<std::size_t>(at)];
  const std::int64_t most = reach(dim);
  if (step == 1 && (start == 0 || start <= -most) && end >= most) return x;
  if (step == -1 && (start == -1 || start >= most - 1) && end < -most) return x.reverse({at});
  if (step > 0 && start >= 0 && end >= 0 && end <= promised(dim))
    return gathered_run(x, at, clamped(end, start, end, step));
  return Tensor::failed(
      invalid("'slice' from {} to {} in steps of {} along axis {} of {} is neither the whole of the symbolic axis nor "
              "its reversal.",
              start, end, step, at, type_text(x)));
}

}  // namespace

Tensor Tensor::slice(int axis, std::int64_t start, std::int64_t end, std::int64_t step) const {
  if (!valid()) return *this;
  const int at = counted_axis(axis, shape().size());
  if (!has_axis(*this, at)) return no_such_axis(*this, "slice", axis);
  if (step == 0) return failed(invalid("'slice' has a step of 0 along axis {}.", at));
  const Dim& dim = shape()[static_cast<std::size_t>(at)];
  if (!dim.is_symbol()) {
    std::vector<Run> runs = whole_runs(*this);
    runs[static_cast<std::size_t>(at)] = clamped(dim.size(), start, end, step);
    return with_runs(*this, runs);
  }
  return symbolic_slice(*this, at, {start, end, step});
}

Tensor Tensor::select(int axis, std::int64_t index) const {
  if (!valid()) return *this;
  const int named = counted_axis(axis, shape().size());
  if (!has_axis(*this, named)) return no_such_axis(*this, "select", axis);
  const auto at = static_cast<std::size_t>(named);
  const Dim& dim = shape()[at];
  if (dim.is_symbol() && index >= 0 && index < promised(dim))
    return gathered_run(*this, named, {index, 1, 1}).squeeze(named);
  if (dim.is_symbol()) {
    return failed(invalid("'select' takes index {} along axis {} of {}, but a symbolic axis can only be taken whole.",
                          index, named, type_text(*this)));
  }
  const std::int64_t from = index < 0 ? index + dim.size() : index;
  if (from < 0 || from >= dim.size()) {
    return failed(
        invalid("'select' takes index {} along axis {} of {}, which is out of range.", index, named, type_text(*this)));
  }
  std::vector<Run> runs = whole_runs(*this);
  runs[at] = {from, 1, 1};
  return with_runs(*this, runs).squeeze(named);
}

Tensor Tensor::reverse(std::vector<int> axes) const {
  if (!valid() || axes.empty()) return *this;
  for (int& axis : axes) axis = counted_axis(axis, shape().size());
  return build_tensor(ops::row("reverse"), {*this}, {}, ir::AxesPayload{std::move(axes)});
}

Tensor Tensor::repeat(const std::vector<std::int64_t>& times) const {
  if (!valid()) return *this;
  if (times.size() != shape().size()) {
    return failed(
        invalid("'repeat' takes one number for each axis of {}, but {} were given.", type_text(*this), times.size()));
  }
  // [n, m] as [1, n, 1, m], stretched to [a, n, b, m], is [a * n, b * m]; axes that stay stay alone.
  Shape apart, stretched, joined;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Dim& dim = shape()[i];
    const auto size = times[i] < 0 ? std::nullopt : checked_mul(times[i], dim.size());
    if (!size) return failed(invalid("'repeat' cannot repeat axis {} of {} {} times.", i, type_text(*this), times[i]));
    if (times[i] != 1) {
      if (dim.is_symbol())
        return failed(
            invalid("'repeat' of axis {} of {} by {} has no symbol for the product.", i, type_text(*this), times[i]));
      apart.emplace_back(1);
      stretched.emplace_back(times[i]);
    }
    apart.push_back(dim);
    stretched.push_back(dim);
    joined.push_back(times[i] == 1 ? dim : Dim(*size));
  }
  return reshape(std::move(apart)).broadcast_to(std::move(stretched)).reshape(std::move(joined));
}

Tensor Tensor::pad(std::vector<std::int64_t> low, std::vector<std::int64_t> high, double value) const {
  if (!valid()) return *this;
  const std::size_t rank = shape().size();
  if (low.size() != rank || high.size() != rank) {
    return failed(invalid("'pad' takes a low and a high amount for each axis of {}, but {} and {} were given.",
                          type_text(*this), low.size(), high.size()));
  }
  std::vector<Run> runs = whole_runs(*this);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t front = std::min<std::int64_t>(low[i], 0);
    const std::int64_t back = std::min<std::int64_t>(high[i], 0);
    if (front == 0 && back == 0) continue;
    const std::int64_t size = shape()[i].size();
    if (front < -size || back < -size || front < -size - back) {
      return failed(invalid("'pad' of axis {} of {} by {} and {} cuts more elements than are known to be there.", i,
                            type_text(*this), low[i], high[i]));
    }
    runs[i] = {-front, 1, size + front + back};
    low[i] -= front;
    high[i] -= back;
  }
  const Tensor cut = with_runs(*this, runs);
  const auto is_zero = [](std::int64_t amount) { return amount == 0; };
  if (std::all_of(low.begin(), low.end(), is_zero) && std::all_of(high.begin(), high.end(), is_zero)) return cut;
  return build_tensor(ops::row("pad"), {cut, scalar(dtype(), value)}, {},
                      ir::PadPayload{std::move(low), std::move(high)});
}

Tensor Tensor::unfold(int axis, std::int64_t size, std::int64_t stride, std::int64_t dilation) const {
  ir::WindowPayload window{{counted_axis(axis, shape().size())}, {size}, {stride}, {dilation}};
  return build_tensor(ops::row("unfold"), {*this}, {}, std::move(window));
}

Tensor Tensor::slice_assign(const Tensor& update, std::vector<std::int64_t> starts,
                            std::vector<std::int64_t> steps) const {
  if (steps.empty()) steps.assign(starts.size(), 1);
  return build_tensor(ops::row("slice_assign"), {*this, update}, {},
                      ir::SlicePayload{std::move(starts), std::move(steps)});
}

Tensor Tensor::gather(const Tensor& indices, int axis) const {
  return build_tensor(ops::row("gather"), {*this, indices}, {}, ir::AxisPayload{counted_axis(axis, shape().size())});
}

Tensor Tensor::take_along(const Tensor& indices, int axis) const {
  return build_tensor(ops::row("take_along"), {*this, indices}, {},
                      ir::AxisPayload{counted_axis(axis, shape().size())});
}

Tensor Tensor::scatter(const Tensor& indices, const Tensor& updates, std::string_view mode) const {
  const auto known = ir::scatter_mode_named(mode);
  if (valid() && !known) return failed(invalid("'{}' is not a mode of scatter: set, add, mul, max or min.", mode));
  return build_tensor(ops::row("scatter"), {*this, indices, updates}, {},
                      ir::ScatterPayload{known.value_or(ir::ScatterMode::set)});
}

Tensor Tensor::update_rows(const Tensor& starts, const Tensor& rows, int axis, bool circular) const {
  return build_tensor(ops::row("update_rows"), {*this, starts, rows}, {},
                      ir::UpdatePayload{counted_axis(axis, shape().size()), circular});
}

Tensor concat(const std::vector<Tensor>& tensors, int axis) {
  const std::size_t rank = tensors.empty() ? 0 : tensors[0].shape().size();
  Tensor joined = build_tensor(ops::row("concat"), tensors, {}, ir::AxisPayload{counted_axis(axis, rank)});
  return joined.valid() && tensors.size() == 1 ? tensors[0] : joined;
}

}  // namespace vkfuse
