// Gradients of views: the same view the other way round.
#include <algorithm>

#include "autodiff/rules.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::autodiff {

namespace {

bool is_all_ones(std::span<const std::int64_t> steps) {
  return std::all_of(steps.begin(), steps.end(), [](std::int64_t step) { return step == 1; });
}

/// Zeros around each axis, or what is cut off where numbers are negative.
struct Margins {
  std::vector<std::int64_t> low, high;
};

/// Those of a dot's operand, whose axes are the free axes of the result from `first` on, and its batch axes.
Tensor operand_with(const Tensor& x, std::span<const int> batch, std::span<const int> contract, const Margins& of,
                    std::size_t first) {
  Margins own{std::vector<std::int64_t>(x.shape().size()), std::vector<std::int64_t>(x.shape().size())};
  const auto set = [&](int axis, std::size_t from) {
    own.low[static_cast<std::size_t>(axis)] = of.low[from];
    own.high[static_cast<std::size_t>(axis)] = of.high[from];
  };
  for (std::size_t i = 0; i < batch.size(); ++i) set(batch[i], i);
  for (const int axis : ir::free_axes(batch, contract, x.shape().size())) set(axis, first++);
  return x.pad(own.low, own.high);
}

std::optional<Tensor> sum_with_margins(const Call& c, const Tensor& x, const Margins& margins);

/// Of a sum over axes, and of a product: those of what is summed.
Tensor summed_with(const Tensor::Node& node, const Margins& margins) {
  const Tensor& x = node.operands[0];
  if (node.op->role == ops::Role::dot) {
    const auto& axes = std::get<ir::DotPayload>(node.payload);
    const std::size_t first = axes.batch_a.size();
    const std::size_t second = first + x.shape().size() - first - axes.contract_a.size();
    const Tensor a = operand_with(x, axes.batch_a, axes.contract_a, margins, first);
    const Tensor b = operand_with(node.operands[1], axes.batch_b, axes.contract_b, margins, second);
    return dot_general(a, b, {axes.contract_a, axes.contract_b, axes.batch_a, axes.batch_b});
  }
  const std::vector<int>& axes = std::get<ir::AxesPayload>(node.payload).axes;
  Margins wide = margins;
  for (const int axis : axes) {
    wide.low.insert(wide.low.begin() + axis, 0);
    wide.high.insert(wide.high.begin() + axis, 0);
  }
  return x.pad(wide.low, wide.high).sum(axes);
}

/// The same through a reshape that keeps the axes which have margins, and what follows them.
std::optional<Tensor> reshape_with_margins(const Call& c, const Tensor& x, const Margins& margins) {
  const Tensor& from = x.node()->operands[0];
  const std::size_t rank = x.shape().size(), inner_rank = from.shape().size();
  std::size_t kept = 0;
  while (kept < std::min(rank, inner_rank) && x.shape()[rank - 1 - kept] == from.shape()[inner_rank - 1 - kept]) ++kept;
  Margins inner{std::vector<std::int64_t>(inner_rank), std::vector<std::int64_t>(inner_rank)};
  Shape shape = x.shape();
  for (std::size_t i = 0; i < rank; ++i) {
    if (margins.low[i] == 0 && margins.high[i] == 0) continue;
    if (i < rank - kept) return std::nullopt;
    const std::size_t at = i + inner_rank - rank;
    inner.low[at] = margins.low[i];
    inner.high[at] = margins.high[i];
    shape[i] = Dim(shape[i].size() + margins.low[i] + margins.high[i]);
  }
  const auto made = sum_with_margins(c, from, inner);
  return made ? std::optional(made->reshape(std::move(shape))) : std::nullopt;
}

/// Margins of a sum that a rule has just made, as a sum over operands with margins: they are part of the loads then,
/// and no kernel of their own. Nothing of other tensors.
std::optional<Tensor> sum_with_margins(const Call& c, const Tensor& x, const Margins& margins) {
  if (!x.valid() || c.is_forward(x)) return std::nullopt;
  const Tensor::Node& node = *x.node();
  if (node.op->role == ops::Role::reshape) return reshape_with_margins(c, x, margins);
  if (node.op->role == ops::Role::dot || node.op->role == ops::Role::reduce_sum) return summed_with(node, margins);
  if (node.op->role != ops::Role::permute) return std::nullopt;
  const std::vector<int>& axes = std::get<ir::AxesPayload>(node.payload).axes;
  Margins inner = margins;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    inner.low[static_cast<std::size_t>(axes[i])] = margins.low[i];
    inner.high[static_cast<std::size_t>(axes[i])] = margins.high[i];
  }
  const auto made = sum_with_margins(c, node.operands[0], inner);
  return made ? std::optional(made->permute(axes)) : std::nullopt;
}

Tensor with_margins(const Call& c, const Tensor& x, const Margins& margins) {
  const auto sum = sum_with_margins(c, x, margins);
  return sum ? *sum : x.pad(margins.low, margins.high);
}

/// The elements of a slice at their places, zeros elsewhere.
Tensor placed(const Call& c, const Tensor& g, const ir::SlicePayload& slice, const Shape& whole) {
  if (!is_all_ones(slice.steps)) return zeros(g.dtype(), whole).slice_assign(g, slice.starts, slice.steps);
  std::vector<std::int64_t> high;
  for (std::size_t i = 0; i < whole.size(); ++i)
    high.push_back(whole[i].size() - g.shape()[i].size() - slice.starts[i]);  // 0 of symbols, which are whole
  return with_margins(c, g, {slice.starts, high});
}

Tensor taken(const Tensor& g, const ir::SlicePayload& slice, const Shape& sizes) {
  return api::build_tensor(ops::row("slice"), {g}, {g.dtype(), sizes}, slice);
}

Tensor of_slice_assign(const Call& c, std::size_t operand) {
  const auto& slice = c.attributes<ir::SlicePayload>();
  if (operand == 1) return taken(c.g, slice, c.x(1).shape());
  return c.g.slice_assign(zeros(c.g.dtype(), c.x(1).shape()), slice.starts, slice.steps);
}

Tensor of_pad(const Call& c, std::size_t operand) {
  const auto& pad = c.attributes<ir::PadPayload>();
  if (operand == 0) {
    Margins cut = {pad.low, pad.high};
    for (std::vector<std::int64_t>* side : {&cut.low, &cut.high}) {
      for (std::int64_t& one : *side) one = -one;
    }
    return with_margins(c, c.g, cut);
  }
  const Tensor hidden = zeros(c.g.dtype(), c.x(0).shape());
  return c.g.slice_assign(hidden, pad.low).sum();
}

Tensor of_concat(const Call& c, std::size_t operand) {
  const auto axis = static_cast<std::size_t>(c.axis());
  ir::SlicePayload slice{std::vector<std::int64_t>(c.y.shape().size()),
                         std::vector<std::int64_t>(c.y.shape().size(), 1)};
  for (std::size_t i = 0; i < operand; ++i) slice.starts[axis] += c.x(i).shape()[axis].size();
  return taken(c.g, slice, c.x(operand).shape());
}

/// One axis of windows, and the last axis of what has them.
struct Window {
  int axis = 0;
  std::int64_t size = 1, stride = 1, dilation = 1;
  std::int64_t whole = 0;  ///< elements of the axis that the windows are over
};

/// x with `stride` - 1 zeros behind each element of an axis.
Tensor spread(const Tensor& x, int axis, std::int64_t stride) {
  if (stride == 1 || !x.valid()) return x;
  const auto at = static_cast<std::size_t>(axis);
  Shape joined = x.shape();
  joined[at] = Dim(joined[at].size() * stride);
  std::vector<std::int64_t> none(x.shape().size() + 1), behind(x.shape().size() + 1);
  behind[at + 1] = stride - 1;
  return x.unsqueeze(axis + 1).pad(none, behind).reshape(std::move(joined));
}

/// An axis cut, or padded with zeros, to so many elements.
Tensor resized(const Tensor& x, int axis, std::int64_t size) {
  if (!x.valid()) return x;
  const auto at = static_cast<std::size_t>(axis);
  std::vector<std::int64_t> none(x.shape().size()), behind(x.shape().size());
  behind[at] = size - x.shape()[at].size();
  return x.pad(none, behind);
}

/// Where windows do not overlap, an element is in one at most.
Tensor side_by_side(const Tensor& g, const Window& window) {
  const auto at = static_cast<std::size_t>(window.axis);
  const int last = static_cast<int>(g.shape().size()) - 1;
  std::vector<int> order;
  for (int axis = 0; axis < last; ++axis) {
    order.push_back(axis);
    if (axis == window.axis) order.push_back(last);
  }
  Shape joined(g.shape().begin(), g.shape().end() - 1);
  joined[at] = Dim(joined[at].size() * window.stride);
  const Tensor apart = resized(g.permute(order), window.axis + 1, window.stride);
  return resized(apart.reshape(std::move(joined)), window.axis, window.whole);
}

/// Windows whose elements are taken as sums of so many terms: of more, a sum along an axis is faster.
constexpr std::int64_t kMostTerms = 4;

/// How windows lie over an axis whose elements are in rows of `phases`: element phases * j + phase of window o is
/// element `phase` of row o * `spread` + j * `step`.
struct WindowRows {
  std::int64_t terms = 1;   ///< rows that a window reaches
  std::int64_t step = 1;    ///< from one to the next
  std::int64_t phases = 1;  ///< elements of a row
  std::int64_t spread = 1;  ///< rows from one window to the next
  std::int64_t rows = 1;    ///< of the axis; the last may be longer than what is left of that
};
WindowRows rows_of(const Window& window) {
  const auto divided = [&](std::int64_t size) { return (size + window.stride - 1) / window.stride; };
  if (window.dilation == 1) return {divided(window.size), 1, window.stride, 1, divided(window.whole)};
  return {window.size, window.dilation, 1, window.stride, window.whole};
}

/// A sum that shifted_sums has just rounded, as it was before.
Tensor unrounded(const Call& c, const Tensor& g) {
  if (c.is_forward(g) || g.node()->op->role != ops::Role::cast) return g;
  const Tensor& sum = g.node()->operands[0];
  const ops::Role role = sum.node()->op->role;
  const bool is_put_together = role == ops::Role::reshape || role == ops::Role::slice || role == ops::Role::pad;
  return !c.is_forward(sum) && sum.dtype() == DType::f32 && is_put_together ? sum : g;
}

/// What all windows have of each element, as a sum of a few terms: those of each row of elements in turn, moved to
/// where they belong. 16-bit floats are added up in f32.
Tensor shifted_sums(const Call& c, const Tensor& g, const Window& window, const WindowRows& rows) {
  const bool is_narrow = size_of(g.dtype()) == 2;
  Tensor apart = is_narrow ? unrounded(c, g) : g;
  if (is_narrow && apart.dtype() != DType::f32) apart = apart.cast(DType::f32);
  const int last = static_cast<int>(g.shape().size()) - 1;
  const auto at = static_cast<std::size_t>(window.axis);
  apart = spread(resized(apart, last, rows.terms * rows.phases), window.axis, rows.spread);
  if (!apart.valid()) return apart;
  const std::int64_t windows = apart.shape()[at].size();
  Shape split = apart.shape();
  split.back() = Dim(rows.terms);
  split.emplace_back(rows.phases);
  apart = apart.reshape(split);
  std::vector<int> order;  // [..., windows, phases, ...]
  for (int axis = 0; axis < last; ++axis) {
    order.push_back(axis);
    if (axis == window.axis) order.push_back(last);
  }
  const auto term = [&](std::int64_t j) {
    std::vector<std::int64_t> low(order.size()), high(order.size());
    low[at] = j * rows.step;
    high[at] = rows.rows - windows - low[at];
    return apart.slice(last, j, j + 1).squeeze(last).permute(order).pad(low, high);
  };
  Tensor sum = term(0);
  for (std::int64_t j = 1; j < rows.terms; ++j) sum = sum + term(j);
  if (!sum.valid()) return sum;
  Shape joined(g.shape().begin(), g.shape().end() - 1);
  joined[at] = Dim(rows.rows * rows.phases);
  sum = resized(sum.reshape(std::move(joined)), window.axis, window.whole);
  return is_narrow ? sum.cast(g.dtype()) : sum;
}

/// The sums of what all windows have of each element. Element o of the windows' axis is `stride` * o elements from the
/// first one's, so with zeros between them, row w of [windows' elements, axis] is to be moved on by w * `dilation`:
/// rows that are longer by that much than the axis are, read one after the other as rows of the axis. No table of
/// positions is needed, and what runs over the end of a row is zeros. A sum that windows over another axis have just
/// made becomes part of this one.
Tensor overlapped(const Call& c, Tensor g, Window window) {
  std::vector<int> sums;
  if (!c.is_forward(g) && g.node()->op->role == ops::Role::reduce_sum) {
    const std::vector<int> axes = std::get<ir::AxesPayload>(g.node()->payload).axes;
    const Tensor inner = g.node()->operands[0];
    std::vector<int> first = axes;
    for (const int axis : ir::free_axes({}, axes, inner.shape().size())) first.push_back(axis);
    g = inner.permute(first);
    for (int axis = 0; axis < static_cast<int>(axes.size()); ++axis) sums.push_back(axis);
    window.axis += static_cast<int>(axes.size());
  }
  sums.push_back(window.axis);
  const int last = static_cast<int>(g.shape().size()) - 1;
  std::vector<int> order;
  for (int axis = 0; axis < last; ++axis) {
    if (axis == window.axis) order.push_back(last);
    order.push_back(axis);
  }
  const auto at = static_cast<std::size_t>(window.axis);
  const std::int64_t row = window.whole + window.dilation;
  const Tensor rows = resized(spread(g.permute(order), window.axis + 1, window.stride), window.axis + 1, row);
  if (!rows.valid()) return rows;
  Shape line = rows.shape(), moved = rows.shape();
  line[at] = Dim(window.size * row);
  line.erase(line.begin() + window.axis + 1);
  moved[at + 1] = Dim(window.whole);
  return resized(rows.reshape(std::move(line)), window.axis, window.size * window.whole)
      .reshape(std::move(moved))
      .sum(sums);
}

/// What a product of two operands with windows in the result is, where the elements of the windows are an axis of one
/// operand and the windows one of the other: the gradient of a convolution.
struct WindowProduct {
  const Tensor::Node* dot = nullptr;
  bool windows_in_a = false;
  int windows = 0, elements = 0;  ///< axes of the operands
  std::vector<int> order;         ///< of the dot's axes, which the cotangent has
};

/// Which operand an axis of the dot's result is of, and which axis it is there; nothing for batch axes.
struct FreeAxis {
  bool in_a = false;
  int axis = 0;
};
std::optional<FreeAxis> free_axis(const Tensor::Node& dot, int axis) {
  const auto& axes = std::get<ir::DotPayload>(dot.payload);
  const std::vector<int> a = ir::free_axes(axes.batch_a, axes.contract_a, dot.operands[0].shape().size());
  const std::vector<int> b = ir::free_axes(axes.batch_b, axes.contract_b, dot.operands[1].shape().size());
  auto at = static_cast<std::size_t>(axis);
  if (at < axes.batch_a.size()) return std::nullopt;
  at -= axes.batch_a.size();
  return at < a.size() ? FreeAxis{true, a[at]} : FreeAxis{false, b[at - a.size()]};
}

std::optional<WindowProduct> window_product(const Tensor& g, const Window& window) {
  const Tensor::Node* node = g.node().get();
  WindowProduct made;
  for (int axis = 0; axis < static_cast<int>(g.shape().size()); ++axis) made.order.push_back(axis);
  while (node->op->role == ops::Role::permute) {
    const std::vector<int>& axes = std::get<ir::AxesPayload>(node->payload).axes;
    for (int& axis : made.order) axis = axes[static_cast<std::size_t>(axis)];
    node = node->operands[0].node().get();
  }
  if (node->op->role != ops::Role::dot || node->gradient != nullptr) return std::nullopt;
  const auto windows = free_axis(*node, made.order[static_cast<std::size_t>(window.axis)]);
  const auto elements = free_axis(*node, made.order.back());
  if (!windows || !elements || windows->in_a == elements->in_a) return std::nullopt;
  made.dot = node;
  made.windows_in_a = windows->in_a;
  made.windows = windows->axis;
  made.elements = elements->axis;
  return made;
}

/// The elements of windows as rows of phases, of which a product contracts the rows: zeros fill the last one.
Tensor elements_in_rows(const Tensor& elements, int axis, const WindowRows& rows) {
  const Tensor whole = resized(elements, axis, rows.terms * rows.phases);
  if (!whole.valid() || rows.phases == 1) return whole;
  Shape split = whole.shape();
  split[static_cast<std::size_t>(axis)] = Dim(rows.terms);
  split.insert(split.begin() + axis + 1, Dim(rows.phases));
  return whole.reshape(std::move(split));
}

/// Axes of a tensor that has got another one behind `axis`.
void make_room(std::vector<int>& axes, int axis) {
  for (int& one : axes) one += one > axis ? 1 : 0;
}

/// The sum over the windows' elements of a product is a product that contracts them too: each row of phases with the
/// windows that reach it, of which the rows run backwards. No product is stored for each element of a window, and none
/// is with a zero between windows, but for dilated ones.
Tensor correlated(const WindowProduct& product, const Window& window, const WindowRows& rows) {
  const bool in_a = product.windows_in_a;
  const Tensor of_windows = spread(product.dot->operands[in_a ? 0 : 1], product.windows, rows.spread);
  const Tensor elements = elements_in_rows(product.dot->operands[in_a ? 1 : 0], product.elements, rows);
  if (!of_windows.valid() || !elements.valid()) return of_windows.valid() ? elements : of_windows;
  const auto& axes = std::get<ir::DotPayload>(product.dot->payload);
  DotAxes all{axes.contract_a, axes.contract_b, axes.batch_a, axes.batch_b};
  if (rows.phases > 1) {
    make_room(in_a ? all.contract_b : all.contract_a, product.elements);
    make_room(in_a ? all.batch_b : all.batch_a, product.elements);
  }
  // Every row has as many windows, some of zeros: `before` of them begin before the first one.
  const std::int64_t before = (rows.terms - 1) * rows.step;
  std::vector<std::int64_t> low(of_windows.shape().size()), high(of_windows.shape().size());
  const auto at = static_cast<std::size_t>(product.windows);
  low[at] = before;
  high[at] = rows.rows - of_windows.shape()[at].size();
  const Tensor in_windows = of_windows.pad(low, high).unfold(product.windows, rows.terms, 1, rows.step);
  const Tensor backwards = elements.reverse({product.elements});
  (in_a ? all.contract_a : all.contract_b).push_back(static_cast<int>(of_windows.shape().size()));
  (in_a ? all.contract_b : all.contract_a).push_back(product.elements);
  const Tensor sums = in_a ? dot_general(in_windows, backwards, all) : dot_general(backwards, in_windows, all);
  if (rows.phases > 1) {  // they have taken the place of the windows' elements
    return side_by_side(sums.permute(product.order), {window.axis, rows.phases, rows.phases, 1, window.whole});
  }
  // The axis of the windows' elements is gone from the result.
  std::vector<int> order = product.order;
  const int gone = order.back();
  order.pop_back();
  for (int& axis : order) axis -= axis > gone ? 1 : 0;
  return sums.permute(order);
}

/// Phases that side_by_side has put together along an axis, as they were before: `axis`, and the next one.
struct Joined {
  Tensor apart;
  int axis = 0;
  std::int64_t whole = 0;
};

std::optional<Joined> joined_phases(const Call& c, const Tensor& g) {
  const auto is_cut = [](const Tensor::Node& node) {
    const auto* slice = std::get_if<ir::SlicePayload>(&node.payload);
    return slice != nullptr && is_all_ones(slice->steps) &&
           std::all_of(slice->starts.begin(), slice->starts.end(), [](std::int64_t start) { return start == 0; });
  };
  if (c.is_forward(g)) return std::nullopt;
  const Tensor whole = g.node()->op->role == ops::Role::slice && is_cut(*g.node()) ? g.node()->operands[0] : g;
  if (c.is_forward(whole) || whole.node()->op->role != ops::Role::reshape) return std::nullopt;
  const Tensor& apart = whole.node()->operands[0];
  const Shape& split = apart.shape();
  const std::size_t rank = whole.shape().size();
  if (split.size() != rank + 1) return std::nullopt;
  std::size_t at = 0;
  while (at < rank && split[at] == whole.shape()[at]) ++at;
  if (at == rank || !std::equal(split.begin() + static_cast<std::ptrdiff_t>(at) + 2, split.end(),
                                whole.shape().begin() + static_cast<std::ptrdiff_t>(at) + 1))
    return std::nullopt;
  Shape cut = whole.shape();
  cut[at] = g.shape()[at];
  if (cut != g.shape() || cut[at].is_symbol()) return std::nullopt;
  return Joined{apart, static_cast<int>(at), cut[at].size()};
}

Tensor of_windows(const Call& c, const Tensor& g, const Window& window);

/// The same where windows over another axis have left phases side by side: they are put together behind.
std::optional<Tensor> through_joined_phases(const Call& c, const Tensor& g, const Window& window) {
  const auto joined = joined_phases(c, g);
  if (!joined || joined->axis == window.axis || joined->axis == static_cast<int>(g.shape().size()) - 1)
    return std::nullopt;
  Window inner = window;
  inner.axis += window.axis > joined->axis ? 1 : 0;
  if (!window_product(joined->apart, inner)) return std::nullopt;
  const Tensor made = of_windows(c, joined->apart, inner);
  if (!made.valid()) return made;
  Shape shape = made.shape();
  const auto at = static_cast<std::size_t>(joined->axis);
  shape[at] = Dim(shape[at].size() * shape[at + 1].size());
  shape.erase(shape.begin() + joined->axis + 1);
  return resized(made.reshape(std::move(shape)), joined->axis, joined->whole);
}

/// The gradient of windows over one axis, whose elements are the last axis.
Tensor of_windows(const Call& c, const Tensor& g, const Window& window) {
  if (!g.valid()) return g;
  const bool overlaps = window.size > window.stride || (window.dilation > 1 && window.size > 1);
  if (!overlaps) return side_by_side(g, window);
  const WindowRows rows = rows_of(window);
  if (const auto product = window_product(g, window)) return correlated(*product, window, rows);
  if (auto made = through_joined_phases(c, g, window)) return *std::move(made);
  return rows.terms <= kMostTerms ? shifted_sums(c, g, window, rows) : overlapped(c, g, window);
}

Tensor of_unfold(const Call& c, std::size_t) {
  const auto& window = c.attributes<ir::WindowPayload>();
  Tensor g = c.g;
  for (std::size_t i = window.axes.size(); i-- > 0;) {
    const std::int64_t whole = c.x(0).shape()[static_cast<std::size_t>(window.axes[i])].size();
    g = of_windows(c, g, {window.axes[i], window.sizes[i], window.strides[i], window.dilations[i], whole});
  }
  return g;
}

// A row is a paragraph.
// clang-format off
constexpr GradientRow kViews[] = {
    {.op = "reshape", .rule = [](const Call& c, std::size_t) { return c.g.reshape(c.x(0).shape()); },
     .doc = "g in the operand's shape"},
    {.op = "permute",
     .rule = [](const Call& c, std::size_t) { return c.g.permute(inverse_of(c.attributes<ir::AxesPayload>().axes)); },
     .doc = "g permuted back"},
    {.op = "broadcast", .rule = [](const Call& c, std::size_t) { return c.g; },
     .doc = "the sum of g over what was stretched"},
    {.op = "slice",
     .rule = [](const Call& c, std::size_t) {
       return placed(c, c.g, c.attributes<ir::SlicePayload>(), c.x(0).shape());
     },
     .doc = "g at its places, 0 elsewhere"},
    {.op = "reverse",
     .rule = [](const Call& c, std::size_t) { return c.g.reverse(c.attributes<ir::AxesPayload>().axes); },
     .doc = "g turned round"},
    {.op = "pad", .rule = of_pad, .doc = "the part of g that is x; the sum of the rest to the scalar"},
    {.op = "concat", .rule = of_concat, .doc = "each its part of g"},
    {.op = "unfold", .rule = of_unfold,
     .doc = "the sum of g over the windows that an element is in; of a convolution the transposed one"},
    {.op = "slice_assign", .rule = of_slice_assign, .doc = "g with 0 under the update; the part that is the update"},
};
// clang-format on

}  // namespace

std::span<const GradientRow> view_rows() { return kViews; }

}  // namespace vkfuse::autodiff
