// Convolutions as views and one dot: padding, windows and groups cost nothing where they stand.
#include <algorithm>

#include "api/tensor_node.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse {

namespace {

std::string type_text(const Tensor& x) { return to_text(TensorType{x.dtype(), x.shape()}); }

/// What a convolution does along one spatial axis.
struct SpatialAxis {
  std::int64_t kernel = 1, stride = 1, low = 0, high = 0, dilation = 1;
};

/// A convolution whose operands fit each other.
struct Problem {
  std::vector<SpatialAxis> axes;
  Dim batch = 1;
  std::int64_t groups = 1;
  std::int64_t in = 0;   ///< channels of x in one group
  std::int64_t out = 0;  ///< channels of the result in one group
};

constexpr std::int64_t kFar = std::int64_t{1} << 30;  // products and sums of a few of these do not overflow

/// An option with one entry for each spatial axis; where it is empty, each is `otherwise`.
struct SpatialOption {
  std::string_view name;
  const std::vector<std::int64_t>& entries;
  std::int64_t otherwise = 0;
};

Result<std::int64_t> entry(std::string_view op, const SpatialOption& option, std::size_t axis, std::size_t count) {
  const std::vector<std::int64_t>& entries = option.entries;
  if (entries.empty()) return option.otherwise;
  if (entries.size() != count) {
    return invalid("'{}' takes one entry of {} for each of {} spatial axes, but {} {} given.", op, option.name, count,
                   entries.size(), entries.size() == 1 ? "was" : "were");
  }
  const bool is_padding = option.otherwise == 0;
  if (entries[axis] < (is_padding ? -kFar : 1) || entries[axis] > kFar) {
    return invalid("'{}' has {} in its {}, where entries are {} to {}.", op, entries[axis], option.name,
                   is_padding ? -kFar : 1, kFar);
  }
  return entries[axis];
}

Result<void> check_operands(std::string_view op, const Tensor& x, const Tensor& w, std::int64_t groups) {
  const std::size_t rank = x.shape().size();
  if (rank < 2 || w.shape().size() != rank) {
    return invalid("'{}' takes two tensors of [.., channels, spatial...] with as many axes, but they are {} and {}.",
                   op, type_text(x), type_text(w));
  }
  for (std::size_t axis = 1; axis < rank; ++axis) {
    if (!x.shape()[axis].is_symbol()) continue;
    return invalid("'{}' needs a number for axis {} of {}, but it is the symbol '{}'.", op, axis, type_text(x),
                   x.shape()[axis].name());
  }
  for (const Dim& dim : w.shape()) {
    if (dim.is_symbol())
      return invalid("'{}' needs numbers for the dimensions of its kernel, but it is {}.", op, type_text(w));
  }
  if (groups < 1) return invalid("'{}' has {} groups, but it takes 1 at least.", op, groups);
  return {};
}

Result<Problem> problem_of(std::string_view op, const Tensor& x, const Tensor& w, const ConvOptions& options,
                           bool is_transposed) {
  VKF_CHECK_OK(check_operands(op, x, w, options.groups));
  const std::int64_t channels = x.shape()[1].size();
  const std::int64_t first = w.shape()[0].size();
  const std::int64_t second = w.shape()[1].size();
  const std::int64_t groups = options.groups;
  if (!checked_mul(second, groups)) return invalid("'{}' has {} groups, more than there may be channels.", op, groups);
  const std::int64_t requested = is_transposed ? first : second * groups;
  if (requested != channels || (is_transposed ? channels : first) % groups != 0) {
    return invalid("'{}' of {} with the kernel {} in {} group{} does not fit: the kernel is for {} channels{}.", op,
                   type_text(x), type_text(w), groups, groups == 1 ? "" : "s", requested,
                   requested == channels ? ", which the groups do not divide" : "");
  }
  Problem problem{{}, x.shape()[0], groups, channels / groups, is_transposed ? second : first / groups};
  const std::size_t count = x.shape().size() - 2;
  for (std::size_t i = 0; i < count; ++i) {
    VKF_TRY(stride, entry(op, {"strides", options.strides, 1}, i, count));
    VKF_TRY(low, entry(op, {"low", options.low, 0}, i, count));
    VKF_TRY(high, entry(op, {"high", options.high, 0}, i, count));
    VKF_TRY(dilation, entry(op, {"dilations", options.dilations, 1}, i, count));
    const std::int64_t kernel = w.shape()[i + 2].size();
    if (kernel < 1 || kernel > kFar / dilation || x.shape()[i + 2].size() > kFar) {
      return invalid("'{}' of {} with the kernel {} dilated by {} is too large or empty along axis {}.", op,
                     type_text(x), type_text(w), dilation, i + 2);
    }
    problem.axes.push_back({kernel, stride, low, high, dilation});
  }
  return problem;
}

/// x with `low` and `high` put around its spatial axes.
Tensor padded(const Tensor& x, const std::vector<SpatialAxis>& axes) {
  std::vector<std::int64_t> low{0, 0}, high{0, 0};
  for (const SpatialAxis& axis : axes) {
    low.push_back(axis.low);
    high.push_back(axis.high);
  }
  return x.pad(low, high);
}

/// The windows of x [batch, channels, spatial...], padding included, against w
/// [groups, channels out, channels in, kernel...]: [groups, channels out, batch, spatial...]. The kernel comes first,
/// so that the result's innermost axis is x's.
Tensor correlated(const Tensor& x, const Tensor& w, const Problem& problem) {
  const int count = static_cast<int>(problem.axes.size());
  Shape apart{x.shape()[0], problem.groups, problem.in};
  apart.insert(apart.end(), x.shape().begin() + 2, x.shape().end());
  Tensor windows = x.reshape(apart);
  for (int i = 0; i < count; ++i) {
    const SpatialAxis& axis = problem.axes[static_cast<std::size_t>(i)];
    windows = windows.unfold(i + 3, axis.kernel, axis.stride, axis.dilation);
  }
  DotAxes axes{.contract_a = {2}, .contract_b = {2}, .batch_a = {0}, .batch_b = {1}};
  for (int i = 0; i < count; ++i) {
    axes.contract_a.push_back(3 + i);
    axes.contract_b.push_back(3 + count + i);
  }
  return dot_general(w, windows, axes);
}

/// x with stride - 1 zeros between neighbours along the spatial axes.
Tensor spread(Tensor x, const std::vector<SpatialAxis>& axes) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!x.valid()) return x;
    const std::int64_t stride = axes[i].stride;
    const std::int64_t size = x.shape()[i + 2].size();
    if (stride == 1 || size == 0) continue;
    std::vector<std::int64_t> none(x.shape().size() + 1), behind(x.shape().size() + 1);
    behind[i + 3] = stride - 1;
    Shape joined = x.shape();
    joined[i + 2] = Dim(size * stride);
    x = x.unsqueeze(static_cast<int>(i) + 3)
            .pad(none, behind)
            .reshape(joined)
            .slice(static_cast<int>(i) + 2, 0, (size - 1) * stride + 1);
  }
  return x;
}

/// w [channels, channels out / groups, kernel...] as correlated takes it, turned round.
Tensor turned(const Tensor& w, const Problem& problem) {
  Shape apart{problem.groups, problem.in};
  apart.insert(apart.end(), w.shape().begin() + 1, w.shape().end());
  std::vector<int> spatial;
  for (int axis = 3; axis < static_cast<int>(apart.size()); ++axis) spatial.push_back(axis);
  return w.reshape(apart).reverse(spatial).swap_dims(1, 2);
}

/// Where strides divide the kernel, every `stride` neighbours of the result are as many convolutions with a part of
/// the kernel each: no product with a zero that stands between elements, and none with a tap that does not exist.
bool is_in_phases(const std::vector<SpatialAxis>& axes) {
  const auto whole = [](const SpatialAxis& axis) {
    return axis.stride == 1 || (axis.kernel % axis.stride == 0 && axis.dilation == 1);
  };
  return std::all_of(axes.begin(), axes.end(), whole);
}

/// The transposed convolution where is_in_phases holds, [batch, channels out, spatial...] before anything is cut.
/// Tap stride * j + phase of the kernel becomes tap j of the channel (out, phase).
Tensor in_phases(const Tensor& x, const Tensor& w, Problem problem) {
  const std::size_t count = problem.axes.size();
  Shape split{problem.groups, problem.in, problem.out};
  std::vector<int> order{0, 2}, reversed;  // [groups, out, phases..., in, taps...]
  Shape joined{problem.groups, problem.out, problem.in};
  for (std::size_t i = 0; i < count; ++i) {
    SpatialAxis& axis = problem.axes[i];
    reversed.push_back(static_cast<int>(split.size()));
    split.emplace_back(axis.kernel / axis.stride);
    split.emplace_back(axis.stride);
    order.push_back(static_cast<int>(split.size()) - 1);
    joined[1] = Dim(joined[1].size() * axis.stride);
    joined.emplace_back(axis.kernel / axis.stride);
  }
  order.push_back(1);
  order.insert(order.end(), reversed.begin(), reversed.end());
  const Tensor taps = w.reshape(split).reverse(reversed).permute(order).reshape(joined);

  Shape phases{problem.groups, problem.out};
  for (SpatialAxis& axis : problem.axes) {
    phases.emplace_back(axis.stride);
    axis.kernel /= axis.stride;
    axis.stride = 1;
    axis.low = axis.high = (axis.kernel - 1) * axis.dilation;
  }
  const Tensor room = padded(x, problem.axes);
  const Tensor result =
      room.valid() ? correlated(room, taps, problem) : room;  // [groups, out * phases, batch, spatial...]
  if (!result.valid()) return result;
  phases.insert(phases.end(), result.shape().begin() + 2, result.shape().end());
  // To [batch, groups, out, (spatial, phase)...].
  const auto n = static_cast<int>(count);
  std::vector<int> back{2 + n, 0, 1};
  Shape whole{problem.batch, problem.groups * problem.out};
  for (int i = 0; i < n; ++i) {
    back.push_back(3 + n + i);
    back.push_back(2 + i);
    whole.emplace_back(phases[static_cast<std::size_t>(3 + n + i)].size() *
                       phases[static_cast<std::size_t>(2 + i)].size());
  }
  return result.reshape(phases).permute(back).reshape(whole);
}

/// [groups, channels out, batch, spatial...] as [batch, channels, spatial...].
Tensor batch_first(const Tensor& x, const Problem& problem) {
  if (!x.valid()) return x;
  std::vector<int> order{2, 0, 1};
  for (int axis = 3; axis < static_cast<int>(x.shape().size()); ++axis) order.push_back(axis);
  Shape joined{problem.batch, problem.groups * problem.out};
  joined.insert(joined.end(), x.shape().begin() + 3, x.shape().end());
  return x.permute(order).reshape(joined);
}

}  // namespace

Tensor conv(const Tensor& x, const Tensor& w, const ConvOptions& options) {
  if (!x.valid()) return x;
  if (!w.valid()) return w;
  auto problem = problem_of("conv", x, w, options, false);
  if (!problem) return Tensor::failed(std::move(problem).error());
  Shape apart{problem->groups, problem->out, problem->in};
  apart.insert(apart.end(), w.shape().begin() + 2, w.shape().end());
  const Tensor room = padded(x, problem->axes);
  return batch_first(room.valid() ? correlated(room, w.reshape(apart), *problem) : room, *problem);
}

Tensor conv_transpose(const Tensor& x, const Tensor& w, const ConvOptions& options) {
  if (!x.valid()) return x;
  if (!w.valid()) return w;
  auto problem = problem_of("conv_transpose", x, w, options, true);
  if (!problem) return Tensor::failed(std::move(problem).error());
  for (std::size_t i = 0; i < problem->axes.size(); ++i) {
    const SpatialAxis& axis = problem->axes[i];
    const std::int64_t last = x.shape()[i + 2].size() - 1;
    const auto reach = last < 0 ? std::nullopt : checked_mul(last, axis.stride);
    if (!reach || *reach > kFar || *reach + (axis.kernel - 1) * axis.dilation + 1 - axis.low - axis.high < 1) {
      return Tensor::failed(
          invalid("'conv_transpose' of {} with the kernel {} makes no elements, or more than {}, along axis {}.",
                  type_text(x), type_text(w), kFar, i + 2));
    }
  }
  if (is_in_phases(problem->axes)) {
    std::vector<SpatialAxis> cut = problem->axes;
    for (SpatialAxis& axis : cut) {
      axis.low = -axis.low;
      axis.high = -axis.high;
    }
    return padded(in_phases(x, w, *problem), cut);
  }
  Problem plain = *problem;
  for (SpatialAxis& axis : plain.axes) {
    const std::int64_t reach = (axis.kernel - 1) * axis.dilation;
    axis = {axis.kernel, 1, reach - axis.low, reach - axis.high, axis.dilation};
  }
  const Tensor room = padded(spread(x, problem->axes), plain.axes);
  return batch_first(room.valid() ? correlated(room, turned(w, *problem), plain) : room, plain);
}

}  // namespace vkfuse
