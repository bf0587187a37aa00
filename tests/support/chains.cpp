// The chains of ops that people write, in random graphs: what the planner finds by structure.
#include "support/structured.hpp"

namespace vkfuse::test {

namespace {

/// A shape with one axis of size 1, as a reduction that keeps its axis would leave.
Shape with_one(Shape shape, int axis) {
  shape[static_cast<std::size_t>(axis)] = Dim(1);
  return shape;
}

}  // namespace

NodeId AnyGenerator::softmax(NodeId from, int axis) {
  if (size(shape(from)[static_cast<std::size_t>(axis)]) == 0 || shape(from)[static_cast<std::size_t>(axis)].is_symbol())
    return from;
  const Known number{1, false, false};
  const auto reduced = [&](const char* op, NodeId x) {
    const auto sum = attempt(ops::row(op), {x}, ir::AxesPayload{{axis}}, {kWild, false, false});
    return *attempt(ops::row("reshape"), {*sum}, ir::NoPayload{}, {kWild, false, false}, with_one(shape(x), axis));
  };
  const NodeId largest = reduced("reduce_max", from);
  const NodeId weights = derived("exp", {derived("sub", {from, largest}, number)}, number);
  if (random_.chance(25)) {
    // As libraries write log-sum-exp.
    const NodeId zero = note(graph_.add_scalar(dtype(from), 0), {0, true, true});
    const NodeId centre =
        derived("select", {derived("is_finite", {largest}, number), largest, zero}, {kWild, false, false});
    const NodeId total = reduced("reduce_sum", derived("exp", {derived("sub", {from, centre}, number)}, number));
    derived("add", {derived("log", {total}, {kWild, false, false}), centre}, {kWild, false, false});
  }
  return derived("div", {weights, reduced("reduce_sum", weights)}, number);
}

void AnyGenerator::normalise(NodeId from) {
  const int axis = any_axis(from);
  const Dim along = shape(from)[static_cast<std::size_t>(axis)];  // a copy: shapes move as the graph grows
  if (along.is_symbol() || along.size() == 0) return;
  const DType type = dtype(from);
  const Known tame_value{8, false, false};
  const auto mean = [&](NodeId x) {
    const auto made = attempt(ops::row("reduce_mean"), {x}, ir::AxesPayload{{axis}}, {64, false, false});
    return *attempt(ops::row("reshape"), {*made}, ir::NoPayload{}, {64, false, false}, with_one(shape(x), axis));
  };
  NodeId x = tamed(ops::row("sin"), from);
  if (random_.chance(50)) x = derived("sub", {x, mean(x)}, tame_value);
  const NodeId epsilon = note(graph_.add_scalar(type, 0.125), {0.125, true, true});
  const NodeId variance =
      derived("add", {mean(derived("mul", {x, x}, {64, false, false})), epsilon}, {64, false, false});
  const NodeId y = derived("mul", {x, derived("rsqrt", {variance}, {4, false, false})}, tame_value);
  if (random_.chance(50)) return;
  Shape weights(shape(y).size() - static_cast<std::size_t>(axis), Dim(1));
  weights[0] = along;
  derived("mul", {y, new_input(type, weights)}, {32, false, false});
}

/// What is reduced or scanned along an axis, at positions of data, beside a reduction of the values that it meets
/// there.
void AnyGenerator::pick_reduced(NodeId from) {
  const int axis = any_axis(from);
  const Dim along = shape(from)[static_cast<std::size_t>(axis)];  // a copy: shapes move as the graph grows
  if (along.is_symbol() || along.size() == 0 || elements(shape(from)) == 0) return;
  const Known little{64, false, false};
  const NodeId x = tamed(ops::row("sin"), from);
  std::optional<NodeId> known;
  if (random_.chance(30)) {
    known = attempt(ops::row("cumsum"), {x}, ir::ScanPayload{axis, random_.chance(50), random_.chance(50)}, little);
  } else {
    const char* const rows[] = {"reduce_sum", "reduce_max", "reduce_mean"};
    known = attempt(ops::row(rows[random_.below(3)]), {x}, ir::AxesPayload{{axis}}, little);
  }
  if (!known || shape(*known).empty()) return;
  const int picked = any_axis(*known);
  const Dim rows = shape(*known)[static_cast<std::size_t>(picked)];
  if (rows.is_symbol() || rows.size() == 0) return;
  // As many positions as a reduction goes over, or as many as there are rows.
  const std::int64_t count = random_.chance(70) ? along.size() : rows.size();
  const NodeId where = positions(rows.size(), {Dim(count)});
  const auto read = attempt(ops::row("gather"), {*known, where}, ir::AxisPayload{picked}, little);
  if (!read) return;
  const NodeId beside = random_.chance(50) ? *read : new_input(dtype(from), shape(*read));
  const auto sum = attempt(ops::row("reduce_max"), {beside}, ir::AxesPayload{{picked}}, little);
  if (!sum || random_.chance(30)) return;
  const auto wide = attempt(ops::row("reshape"), {*sum}, ir::NoPayload{}, little, with_one(shape(*read), picked));
  if (wide) derived("sub", {*read, *wide}, little);
}

void AnyGenerator::attention(NodeId from) {
  const std::vector<int> sizes = {1, 2, 3, 7, 8, 16, 17, 31};
  const DType type = dtype(from);
  const Dim heads(1 + static_cast<std::int64_t>(random_.below(3)));
  const Dim queries(random_.pick(sizes));
  const Dim keys(random_.pick(sizes));
  const Dim width(random_.pick(sizes));
  const Dim value_width(random_.pick(sizes));
  const NodeId q = new_input(type, {heads, queries, width});
  const NodeId k = new_input(type, {heads, keys, width});
  const NodeId v = new_input(type, {heads, keys, value_width});
  const auto scores = attempt(ops::row("dot"), {q, k}, ir::DotPayload{{0}, {0}, {2}, {2}}, {64, false, false});
  const double scale = 1 / std::sqrt(static_cast<double>(width.size()));
  NodeId scaled = derived("mul", {*scores, note(graph_.add_scalar(type, scale), {1, true, true})}, {16, false, false});
  if (random_.chance(30)) scaled = derived("add", {scaled, new_input(type, {queries, keys})}, {20, false, false});
  const NodeId weights = softmax(scaled, 2);
  attempt(ops::row("dot"), {weights, v}, ir::DotPayload{{0}, {0}, {2}, {1}}, {8, false, false});
}

/// A convolution of single channels or a pool, over images whose channels are the outer or the inner axis.
void AnyGenerator::windows(NodeId from) {
  const std::vector<int> sizes = {3, 4, 7, 8, 9, 13, 16, 20};
  const std::vector<int> channel_counts = {1, 2, 3, 8, 16};
  const DType type = dtype(from);
  const bool channels_last = random_.chance(40);
  const bool has_rows = random_.chance(75);
  const Dim channels(random_.pick(channel_counts));
  Shape image;
  if (!channels_last) image.push_back(channels);
  const int first = static_cast<int>(image.size());
  if (has_rows) image.emplace_back(random_.pick(sizes));
  image.emplace_back(random_.pick(sizes));
  if (channels_last) image.push_back(channels);
  NodeId x = new_input(type, image);
  if (random_.chance(30)) x = derived("relu", {x}, {4, false, true});
  const int axes = has_rows ? 2 : 1;
  ir::PadPayload pad;
  ir::WindowPayload window;
  for (int axis = 0; axis < static_cast<int>(image.size()); ++axis) {
    const bool spatial = axis >= first && axis < first + axes;
    pad.low.push_back(spatial ? static_cast<std::int64_t>(random_.below(3)) : 0);
    pad.high.push_back(spatial ? static_cast<std::int64_t>(random_.below(3)) : 0);
    if (!spatial) continue;
    window.axes.push_back(axis);
    window.sizes.push_back(1 + static_cast<std::int64_t>(random_.below(3)));
    window.strides.push_back(1 + static_cast<std::int64_t>(random_.below(3)));
    window.dilations.push_back(1 + static_cast<std::int64_t>(random_.below(window.sizes.back() == 3 ? 1 : 2)));
  }
  const NodeId around = note(graph_.add_scalar(type, random_.chance(80) ? 0 : -8), {8, true, true});
  const auto room = attempt(ops::row("pad"), {x, around}, pad, {8, false, true});
  if (!room) return;
  const auto taken = attempt(ops::row("unfold"), {*room}, window, {8, false, true});
  if (!taken) return;
  std::vector<int> taps;
  Shape weights{channels};
  for (int i = 0; i < axes; ++i) {
    taps.push_back(static_cast<int>(image.size()) + i);
    weights.emplace_back(window.sizes[static_cast<std::size_t>(i)]);
  }
  if (random_.chance(60)) {
    std::vector<int> own;
    for (int i = 0; i < axes; ++i) own.push_back(1 + i);
    const int channel = channels_last ? static_cast<int>(image.size()) - 1 : 0;
    attempt(ops::row("dot"), {*taken, new_input(type, weights)}, ir::DotPayload{{channel}, {0}, taps, own},
            {256, false, false});
    return;
  }
  const std::vector<const char*> reductions = {"reduce_max", "reduce_sum", "reduce_mean", "reduce_min"};
  attempt(ops::row(random_.pick(reductions)), {*taken}, ir::AxesPayload{taps}, {64, false, true});
}

}  // namespace vkfuse::test
