// Images with their channels as the last axis. A kernel stores a product with the axes of its second operand as the
// innermost, and users write a convolution with the image there: its columns are consecutive in memory. Each tap of a
// convolution reads other columns, from addresses that no vector is aligned to, and at the edges of the image some of
// them are padding. With channels last, a tap reads consecutive channels of one position: vectors, which are padding as
// a whole or not at all.
// Dense convolutions are rewritten so that their windows are the first operand. Those of single channels, whose
// channels are an axis of batches, are copied with channels last where their image is so. What is computed of their
// results keeps that order of axes up to where somebody needs the axes as the graph has them. Images that no
// convolution computed are permuted, and so are weights.
#include <algorithm>
#include <map>
#include <numeric>

#include "base/mutations.hpp"
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;

/// Axis i of a value of the graph is axis order[i] of what was made of it. Empty: they are the same.
using Order = std::vector<int>;

/// Channels of which a multiple is read as vectors alone: 16 bytes of the smallest floats.
constexpr std::int64_t kVectorOfChannels = 8;
constexpr int kNoAxis = -1;

bool is_identity(const Order& order) {
  return std::is_sorted(order.begin(), order.end());  // each number is there once
}

/// Entries of a value's axes as those of what was made of it.
template <typename Entries>
Entries ordered(const Entries& entries, const Order& order) {
  Entries made = entries;
  for (std::size_t i = 0; i < order.size(); ++i) made[static_cast<std::size_t>(order[i])] = entries[i];
  return made;
}

/// Axes of a value as those of what was made of it.
std::vector<int> axes_in(const std::vector<int>& axes, const Order& order) {
  std::vector<int> made;
  for (const int axis : axes) made.push_back(order[static_cast<std::size_t>(axis)]);
  return made;
}

/// Which of them each axis is, when they are sorted.
std::vector<int> ranks_of(const std::vector<int>& axes) {
  std::vector<int> ranks;
  for (const int axis : axes) {
    const auto before = std::count_if(axes.begin(), axes.end(), [&](int other) { return other < axis; });
    ranks.push_back(static_cast<int>(before));
  }
  return ranks;
}

/// A dense convolution: a product of the windows of an image with weights, summed over channels and taps.
struct Convolution {
  std::size_t image = 1;   ///< the operand of the product that has the windows
  int channels = kNoAxis;  ///< the axis of the image's channels
  std::int64_t taps = 1;
};

/// What windows are of.
struct Windows {
  int rank = 0;  ///< of the image: axes of taps come after these
  std::size_t tap_axes = 0;
  std::int64_t taps = 1;
};

Windows windows_of(const Graph& graph, NodeId windows) {
  Windows made;
  const Node* one = &graph.node(windows);
  while (one->op->role == ops::Role::unfold) {
    for (const std::int64_t size : std::get<ir::WindowPayload>(one->payload).sizes) made.taps *= size;
    one = &graph.node(one->operands[0]);
  }
  made.rank = static_cast<int>(one->type.shape.size());
  made.tap_axes = graph.node(windows).type.shape.size() - one->type.shape.size();
  return made;
}

std::optional<Convolution> convolution_of(const Graph& graph, const Node& node, std::size_t image) {
  const auto& dot = std::get<ir::DotPayload>(node.payload);
  const std::vector<int>& contracted = image == 0 ? dot.contract_a : dot.contract_b;
  const Shape& shape = graph.node(node.operands[image]).type.shape;
  const std::vector<int>& batch = image == 0 ? dot.batch_a : dot.batch_b;
  const auto is_single = [&](int axis) { return shape[static_cast<std::size_t>(axis)] == Dim(1); };
  if (!std::all_of(batch.begin(), batch.end(), is_single)) return std::nullopt;
  const auto [rank, tap_axes, taps] = windows_of(graph, node.operands[image]);
  Convolution made{image, kNoAxis, taps};
  if (tap_axes == 0 || contracted.size() != tap_axes + 1) return std::nullopt;
  const auto is_of_image = [rank = rank](int axis) { return axis < rank; };
  const auto channels = std::find_if(contracted.begin(), contracted.end(), is_of_image);
  const auto others = std::count_if(contracted.begin(), contracted.end(), is_of_image);
  if (others != 1) return std::nullopt;
  made.channels = *channels;
  return made;
}

std::optional<Convolution> convolution_of(const Graph& graph, const Node& node) {
  if (!std::holds_alternative<ir::DotPayload>(node.payload)) return std::nullopt;
  if (auto second = convolution_of(graph, node, 1)) return second;
  return convolution_of(graph, node, 0);
}

/// The axis of longer than one position among some of a shape; kNoAxis where there is none or several.
int only_long_axis(const Shape& shape, const std::vector<int>& axes) {
  int found = kNoAxis;
  for (const int axis : axes) {
    if (shape[static_cast<std::size_t>(axis)] == Dim(1)) continue;
    if (found != kNoAxis) return kNoAxis;
    found = axis;
  }
  return found;
}

std::optional<Convolution> depthwise_of(const Graph& graph, const Node& node, std::size_t image) {
  const auto& dot = std::get<ir::DotPayload>(node.payload);
  const Shape& shape = graph.node(node.operands[image]).type.shape;
  const Shape& weights = graph.node(node.operands[1 - image]).type.shape;
  const auto [rank, tap_axes, taps] = windows_of(graph, node.operands[image]);
  const Convolution made{image, only_long_axis(shape, image == 0 ? dot.batch_a : dot.batch_b), taps};
  if (tap_axes == 0 || made.channels == kNoAxis || made.channels >= rank) return std::nullopt;
  const auto is_long_of_image = [&, rank = rank](int axis) {
    return axis < rank && shape[static_cast<std::size_t>(axis)] != Dim(1);
  };
  const std::vector<int>& contracted = image == 0 ? dot.contract_a : dot.contract_b;
  if (std::any_of(contracted.begin(), contracted.end(), is_long_of_image)) return std::nullopt;
  const std::vector<int> features = image == 0 ? ir::free_axes(dot.batch_b, dot.contract_b, weights.size())
                                               : ir::free_axes(dot.batch_a, dot.contract_a, weights.size());
  const auto is_single = [&](int axis) { return weights[static_cast<std::size_t>(axis)] == Dim(1); };
  return std::all_of(features.begin(), features.end(), is_single) ? std::optional(made) : std::nullopt;
}

/// A convolution of single channels: their axis is one of batches.
std::optional<Convolution> depthwise_of(const Graph& graph, const Node& node) {
  if (!std::holds_alternative<ir::DotPayload>(node.payload)) return std::nullopt;
  if (auto second = depthwise_of(graph, node, 1)) return second;
  return depthwise_of(graph, node, 0);
}

/// Whether vectors of channels are read for a convolution's taps.
bool gains(const Graph& graph, const Node& node, const Convolution& convolution) {
  const Dim& channels =
      graph.node(node.operands[convolution.image]).type.shape[static_cast<std::size_t>(convolution.channels)];
  return convolution.taps > 1 && !channels.is_symbol() && channels.size() > 0 &&
         channels.size() % kVectorOfChannels == 0;
}

/// Finds the values that become images with channels last though no convolution makes them: what such an image is
/// computed from, through views and element by element.
class ImageSources {
 public:
  explicit ImageSources(const Graph& graph)
      : graph_(graph), channels_(graph.size(), kNoAxis), seen_(graph.size(), kNoAxis), keeps_(graph.size(), false) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      auto convolution = convolution_of(graph, graph.node(id));
      if (!convolution) convolution = depthwise_of(graph, graph.node(id));
      if (!convolution || !gains(graph, graph.node(id), *convolution)) continue;
      any_ = true;
      find(graph.node(id).operands[convolution->image], convolution->channels);
    }
  }
  [[nodiscard]] bool any() const { return any_; }
  /// The axis of a value's channels, which are to be its last; kNoAxis of others.
  [[nodiscard]] int channels(NodeId id) const { return channels_[id]; }
  /// Whether a permute reads a value whose channels the graph has last: its result is to stay in that order.
  [[nodiscard]] bool keeps_order(NodeId permute) const { return keeps_[permute]; }

 private:
  void find(NodeId id, int axis) {
    for (;;) {
      const Node& node = graph_.node(id);
      if (seen_[id] == axis || convolution_of(graph_, node)) return;
      seen_[id] = axis;
      const auto [before, at] = one_before(node, axis);
      if (at == kNoAxis) break;
      const bool is_last = static_cast<std::size_t>(at) + 1 == graph_.node(before).type.shape.size();
      if (node.op->role == ops::Role::permute && is_last) keeps_[id] = true;
      id = before;
      axis = at;
    }
    const std::size_t rank = graph_.node(id).type.shape.size();
    if (rank <= 2) return;
    channels_[id] = axis;
  }

  /// The operand that has a value's channels, and their axis there; no axis where there is none.
  [[nodiscard]] std::pair<NodeId, int> one_before(const Node& node, int axis) const {
    if (node.operands.empty()) return {0, kNoAxis};
    const NodeId operand = node.operands[0];
    const Shape& from = graph_.node(operand).type.shape;
    if (is_elementwise(node)) {
      const auto whole = std::find_if(node.operands.begin(), node.operands.end(),
                                      [&](NodeId one) { return graph_.node(one).type.shape == node.type.shape; });
      return whole == node.operands.end() ? std::pair(operand, kNoAxis) : std::pair(*whole, axis);
    }
    switch (node.op->role) {
      case ops::Role::permute:
        return {operand, std::get<ir::AxesPayload>(node.payload).axes[static_cast<std::size_t>(axis)]};
      case ops::Role::pad:
      case ops::Role::unfold: return {operand, static_cast<std::size_t>(axis) < from.size() ? axis : kNoAxis};
      case ops::Role::reshape: {
        if (!keeps_long_axes(from, node.type.shape)) return {operand, kNoAxis};
        const std::vector<int> axes = long_axes(node.type.shape);
        const auto at = std::find(axes.begin(), axes.end(), axis);
        return {operand, at == axes.end() ? kNoAxis : long_axes(from)[static_cast<std::size_t>(at - axes.begin())]};
      }
      default: return {operand, kNoAxis};
    }
  }

  const Graph& graph_;
  std::vector<int> channels_;
  std::vector<int> seen_;  ///< the axis of channels with which a value was looked at
  std::vector<bool> keeps_;
  bool any_ = false;
};

class ChannelsLast {
 public:
  ChannelsLast(const Graph& graph, const ImageSources& sources)
      : graph_(graph), sources_(sources), rewriter_(graph), orders_(graph.size()), plain_(graph.size()) {}

  Result<Rewritten> run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      VKF_CHECK_OK(make(id));
      VKF_CHECK_OK(turn_source(id));
    }
    for (const ir::Output& output : graph_.outputs()) {
      VKF_TRY(value, plain(output.value));
      rewriter_.alias(output.value, value);
    }
    VKF_TRY(made, rewriter_.finish_with_places());
    return without_dead(std::move(made));
  }

 private:
  Graph& to() { return rewriter_.graph(); }

  void place(NodeId id, NodeId made, Order order) {
    rewriter_.alias(id, made);
    if (!is_identity(order)) orders_[id] = std::move(order);
  }

  /// The value with its axes as the graph has them.
  Result<NodeId> plain(NodeId id) {
    if (orders_[id].empty()) return rewriter_.at(id);
    if (!plain_[id]) {
      VKF_TRY(made, to().add_structured(ops::row("permute"), {rewriter_.at(id)}, ir::AxesPayload{orders_[id]}));
      plain_[id] = made;
    }
    return *plain_[id];
  }

  Result<NodeId> permuted_to(NodeId made, const Order& order) {
    std::vector<int> axes(order.size());
    std::iota(axes.begin(), axes.end(), 0);
    return to().add_structured(ops::row("permute"), {made}, ir::AxesPayload{ordered(axes, order)});
  }

  /// A value in the order of what it is computed with; of fewer axes, too, as elementwise ops take them.
  Result<NodeId> in_order(NodeId id, const Order& order) {
    if (orders_[id] == order) return rewriter_.at(id);
    VKF_TRY(made, plain(id));
    Shape shape = to().node(made).type.shape;
    if (shape.empty()) return made;
    if (shape.size() < order.size()) {
      shape.insert(shape.begin(), order.size() - shape.size(), Dim(1));
      VKF_TRY(longer, rewriter_.reshape(made, std::move(shape)));
      made = longer;
    }
    return permuted_to(made, order);
  }

  /// The order of the first operand of so many axes that has one.
  [[nodiscard]] const Order* order_of_operands(const Node& node) const {
    for (const NodeId operand : node.operands) {
      if (!orders_[operand].empty() && orders_[operand].size() == node.type.shape.size()) return &orders_[operand];
    }
    return nullptr;
  }

  Result<void> make_plain(NodeId id) {
    std::vector<NodeId> operands;
    for (const NodeId operand : graph_.node(id).operands) {
      VKF_TRY(made, plain(operand));
      operands.push_back(made);
    }
    VKF_TRY(made, ir::append_copy(to(), graph_.node(id), std::move(operands)));
    rewriter_.alias(id, made);
    return {};
  }

  Result<void> make(NodeId id) {
    const Node& node = graph_.node(id);
    if (const auto convolution = convolution_of(graph_, node)) return make_convolution(id, *convolution);
    const auto depthwise = depthwise_of(graph_, node);
    if (depthwise && !orders_[node.operands[depthwise->image]].empty()) return make_depthwise(id, *depthwise);
    if (is_elementwise(node) || node.op->role == ops::Role::concat) {
      const Order* const order = order_of_operands(node);
      return order == nullptr ? make_plain(id) : make_together(id, *order);
    }
    if (node.op->role == ops::Role::permute) return make_permute(id);
    const bool is_ordered = !node.operands.empty() && !orders_[node.operands[0]].empty();
    return is_ordered ? make_ordered(id) : make_plain(id);
  }

  /// Of an operand that is in an order.
  Result<void> make_ordered(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op->cls == ops::OpClass::reduce) return make_reduction(id);
    switch (node.op->role) {
      case ops::Role::reshape: return make_reshape(id);
      case ops::Role::pad:
      case ops::Role::slice:
      case ops::Role::reverse:
      case ops::Role::unfold: return make_view(id);
      default: return make_plain(id);
    }
  }

  Result<void> make_permute(NodeId id) {
    const Node& node = graph_.node(id);
    const Order& order = orders_[node.operands[0]];
    const std::vector<int>& axes = std::get<ir::AxesPayload>(node.payload).axes;
    if (order.empty() && !sources_.keeps_order(id)) return make_plain(id);
    place(id, rewriter_.at(node.operands[0]), order.empty() ? axes : axes_in(axes, order));
    return {};
  }

  /// Element by element, or side by side.
  Result<void> make_together(NodeId id, Order order) {
    Node node = graph_.node(id);
    std::vector<NodeId> operands;
    for (const NodeId operand : node.operands) {
      VKF_TRY(made, in_order(operand, order));
      operands.push_back(made);
    }
    if (auto* const axis = std::get_if<ir::AxisPayload>(&node.payload))
      axis->axis = order[static_cast<std::size_t>(axis->axis)];
    VKF_TRY(made, ir::append_copy(to(), node, std::move(operands)));
    place(id, made, std::move(order));
    return {};
  }

  Result<void> make_view(NodeId id) {
    Node node = graph_.node(id);
    Order order = orders_[node.operands[0]];
    if (auto* const pad = std::get_if<ir::PadPayload>(&node.payload)) {
      pad->low = VKF_PLANT(channels_last_padding, ordered(pad->low, order), pad->low);
      pad->high = ordered(pad->high, order);
    } else if (auto* const slice = std::get_if<ir::SlicePayload>(&node.payload)) {
      slice->starts = ordered(slice->starts, order);
      slice->steps = ordered(slice->steps, order);
      node.type.shape = ordered(node.type.shape, order);
    } else if (auto* const turned = std::get_if<ir::AxesPayload>(&node.payload)) {
      turned->axes = axes_in(turned->axes, order);
      std::sort(turned->axes.begin(), turned->axes.end());
    } else {
      auto& windows = std::get<ir::WindowPayload>(node.payload);
      windows.axes = axes_in(windows.axes, order);
      for (std::size_t i = 0; i < windows.axes.size(); ++i) order.push_back(static_cast<int>(order.size()));
    }
    std::vector<NodeId> operands{rewriter_.at(node.operands[0])};
    for (std::size_t k = 1; k < node.operands.size(); ++k) {  // what padding is filled with
      VKF_TRY(made, plain(node.operands[k]));
      operands.push_back(made);
    }
    VKF_TRY(made, ir::append_copy(to(), node, std::move(operands)));
    place(id, made, std::move(order));
    return {};
  }

  /// Axes of one element come first; the others stay in the order that they have.
  Result<void> make_reshape(NodeId id) {
    const Node& node = graph_.node(id);
    const NodeId operand = node.operands[0];
    const Shape& from = graph_.node(operand).type.shape;
    if (!keeps_long_axes(from, node.type.shape)) return make_plain(id);
    const std::vector<int> before = long_axes(from), after = long_axes(node.type.shape);
    const auto singles = static_cast<int>(node.type.shape.size() - after.size());
    const std::vector<int> ranks = ranks_of(axes_in(before, orders_[operand]));
    Order order(node.type.shape.size(), kNoAxis);
    for (std::size_t i = 0; i < after.size(); ++i) order[static_cast<std::size_t>(after[i])] = singles + ranks[i];
    int next = 0;
    for (int& axis : order) {
      if (axis == kNoAxis) axis = next++;
    }
    VKF_TRY(made, rewriter_.reshape(rewriter_.at(operand), ordered(node.type.shape, order)));
    place(id, made, std::move(order));
    return {};
  }

  Result<void> make_reduction(NodeId id) {
    Node node = graph_.node(id);
    auto* const reduced = std::get_if<ir::AxesPayload>(&node.payload);
    if (reduced == nullptr || node.operands.size() != 1) return make_plain(id);
    const Order& all = orders_[node.operands[0]];
    const std::vector<int> left = ir::free_axes({}, reduced->axes, all.size());
    reduced->axes = axes_in(reduced->axes, all);
    std::sort(reduced->axes.begin(), reduced->axes.end());
    VKF_TRY(made, ir::append_copy(to(), node, {rewriter_.at(node.operands[0])}));
    place(id, made, ranks_of(axes_in(left, all)));
    return {};
  }

  /// The windows become the first operand, so that channels are the innermost axis of the result. Of an image that is
  /// in an order, the sum goes over taps, and for each tap over channels.
  Result<void> make_convolution(NodeId id, const Convolution& convolution) {
    Node node = graph_.node(id);
    auto& dot = std::get<ir::DotPayload>(node.payload);
    if (convolution.image == 0) exchange(dot);  // now b is the image
    const NodeId image = node.operands[convolution.image];
    Order order = orders_[image];
    const bool is_ordered = !order.empty();
    if (!is_ordered) {
      order.resize(graph_.node(image).type.shape.size());
      std::iota(order.begin(), order.end(), 0);
    }
    VKF_TRY(weights, plain(node.operands[1 - convolution.image]));
    const std::size_t rank = to().node(weights).type.shape.size();
    Order result = order_of_result(dot, rank, order, convolution.image == 1);
    if (is_ordered) {
      const auto channels = std::find(dot.contract_b.begin(), dot.contract_b.end(), convolution.channels);
      const auto pair = dot.contract_a.begin() + (channels - dot.contract_b.begin());
      std::rotate(channels, channels + 1, dot.contract_b.end());
      std::rotate(pair, pair + 1, dot.contract_a.end());
      const int moved = dot.contract_a.back();
      if (convolution.taps > 1 && moved + 1 != static_cast<int>(rank)) {
        VKF_TRY(turned, with_channels_last(weights, moved));
        weights = turned;
        renumber(dot.batch_a, moved, static_cast<int>(rank));
        renumber(dot.contract_a, moved, static_cast<int>(rank));
      }
    }
    dot.contract_b = axes_in(dot.contract_b, order);
    dot.batch_b = axes_in(dot.batch_b, order);
    exchange(dot);
    VKF_TRY(made, ir::append_copy(to(), node, {rewriter_.at(image), weights}));
    place(id, made, std::move(result));
    return {};
  }

  /// Products of batches have these as their first axes; a copy with channels last may be stored in their place.
  Result<void> make_depthwise(NodeId id, const Convolution& depthwise) {
    Node node = graph_.node(id);
    auto& dot = std::get<ir::DotPayload>(node.payload);
    std::vector<NodeId> operands;
    for (const NodeId operand : node.operands) {
      VKF_TRY(made, plain(operand));
      operands.push_back(made);
    }
    std::vector<int>& batch = depthwise.image == 0 ? dot.batch_b : dot.batch_a;  // of the weights
    const std::vector<int>& of_image = depthwise.image == 0 ? dot.batch_a : dot.batch_b;
    const auto channels = std::find(of_image.begin(), of_image.end(), depthwise.channels) - of_image.begin();
    NodeId& weights = operands[1 - depthwise.image];
    const int moved = batch[static_cast<std::size_t>(channels)];
    const auto rank = static_cast<int>(to().node(weights).type.shape.size());
    if (moved + 1 != rank) {
      VKF_TRY(turned, with_channels_last(weights, moved));
      weights = turned;
      renumber(batch, moved, rank);
      renumber(depthwise.image == 0 ? dot.contract_b : dot.contract_a, moved, rank);
    }
    VKF_TRY(made, ir::append_copy(to(), node, std::move(operands)));
    rewriter_.alias(id, made);
    return place_with_last(id, static_cast<int>(channels));
  }

  /// A value of the graph's order of axes, as a copy with one of them last.
  Result<void> place_with_last(NodeId id, int last) {
    const auto rank = static_cast<int>(graph_.node(id).type.shape.size());
    Order order;
    for (int axis = 0; axis < rank; ++axis) order.push_back(axis == last ? rank - 1 : axis - (axis > last ? 1 : 0));
    if (is_identity(order)) return {};
    plain_[id] = rewriter_.at(id);
    VKF_TRY(turned, permuted_to(rewriter_.at(id), order));
    VKF_TRY(made, rewriter_.op("copy", {turned}));
    place(id, made, std::move(order));
    return {};
  }

  static void exchange(ir::DotPayload& dot) {
    std::swap(dot.batch_a, dot.batch_b);
    std::swap(dot.contract_a, dot.contract_b);
  }

  /// Weights with the axis of channels as their last one, once for all convolutions that read them. Constants are
  /// permuted here, others by a copy, which the planner stores where that pays.
  Result<NodeId> with_channels_last(NodeId weights, int channels) {
    const auto found = turned_.find({weights, channels});
    if (found != turned_.end()) return found->second;
    const Node& node = to().node(weights);
    const Node& source = node.op->role == ops::Role::reshape ? to().node(node.operands[0]) : node;
    if (const auto* constant = std::get_if<ir::ConstantPayload>(&source.payload)) {
      const Node reshaped{source.op, {}, node.type, *constant};
      VKF_TRY(made, turned_constant(to(), reshaped, channels));
      return turned_[{weights, channels}] = made;
    }
    std::vector<int> axes;
    for (int axis = 0; axis < static_cast<int>(node.type.shape.size()); ++axis) {
      if (axis != channels) axes.push_back(axis);
    }
    axes.push_back(channels);
    VKF_TRY(permuted, to().add_structured(ops::row("permute"), {weights}, ir::AxesPayload{std::move(axes)}));
    VKF_TRY(made, rewriter_.op("copy", {permuted}));
    return turned_[{weights, channels}] = made;
  }

  /// Where the axes of a convolution's result are once its windows, b of `dot`, are the first operand and their image
  /// is in an order. The graph has those of the weights first or last.
  [[nodiscard]] static Order order_of_result(const ir::DotPayload& dot, std::size_t rank_of_weights,
                                             const Order& of_image, bool weights_first) {
    const std::size_t batches = dot.batch_a.size();
    const std::vector<int> of_weights = ir::free_axes(dot.batch_a, dot.contract_a, rank_of_weights);
    const std::vector<int> ranks =
        ranks_of(axes_in(ir::free_axes(dot.batch_b, dot.contract_b, of_image.size()), of_image));
    std::vector<int> weights, image;
    for (const int rank : ranks) image.push_back(static_cast<int>(batches) + rank);
    for (std::size_t i = 0; i < of_weights.size(); ++i) weights.push_back(static_cast<int>(batches + ranks.size() + i));
    Order order(batches);
    std::iota(order.begin(), order.end(), 0);
    for (const std::vector<int>* const part : {weights_first ? &weights : &image, weights_first ? &image : &weights})
      order.insert(order.end(), part->begin(), part->end());
    return order;
  }

  /// A value that an image with channels last is computed from, and that is none itself.
  Result<void> turn_source(NodeId id) {
    const int channels = sources_.channels(id);
    return channels == kNoAxis || !orders_[id].empty() ? Result<void>() : place_with_last(id, channels);
  }

  const Graph& graph_;
  const ImageSources& sources_;
  Rewriter rewriter_;
  std::vector<Order> orders_;
  std::vector<std::optional<NodeId>> plain_;
  std::map<std::pair<NodeId, int>, NodeId> turned_;  ///< weights with channels last, by weights and axis
};

}  // namespace

Result<std::optional<Rewritten>> put_channels_last(const Graph& graph) {
  const ImageSources sources(graph);
  if (!sources.any()) return std::optional<Rewritten>();
  VKF_TRY(made, ChannelsLast(graph, sources).run());
  return std::optional(std::move(made));
}

}  // namespace vkfuse::passes
