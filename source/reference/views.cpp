#include "reference/views.hpp"

#include <algorithm>

namespace vkfuse::reference {

namespace {

using Coordinates = std::vector<std::int64_t>;

/// A view, and the coordinates that a rule reads and writes.
struct View {
  const ir::Node& node;
  std::span<const Sizes> operands;
  Coordinates at;    ///< in the result
  Coordinates from;  ///< in the operand: as many entries as it has axes
};

std::size_t permute(View& view) {
  const auto& axes = std::get<ir::AxesPayload>(view.node.payload).axes;
  view.from.resize(view.at.size());
  for (std::size_t i = 0; i < axes.size(); ++i) view.from[static_cast<std::size_t>(axes[i])] = view.at[i];
  return 0;
}

std::size_t broadcast(View& view) {
  const Sizes& operand = view.operands[0];
  const std::size_t in_front = view.at.size() - operand.size();
  view.from.resize(operand.size());
  for (std::size_t i = 0; i < operand.size(); ++i) view.from[i] = operand[i] == 1 ? 0 : view.at[in_front + i];
  return 0;
}

std::size_t slice(View& view) {
  const auto& runs = std::get<ir::SlicePayload>(view.node.payload);
  view.from = view.at;
  for (std::size_t i = 0; i < view.at.size(); ++i) view.from[i] = runs.starts[i] + view.at[i] * runs.steps[i];
  return 0;
}

std::size_t reverse(View& view) {
  view.from = view.at;
  for (int axis : std::get<ir::AxesPayload>(view.node.payload).axes) {
    const auto i = static_cast<std::size_t>(axis);
    view.from[i] = view.operands[0][i] - 1 - view.at[i];
  }
  return 0;
}

std::size_t pad(View& view) {
  const auto& around = std::get<ir::PadPayload>(view.node.payload);
  view.from = view.at;
  for (std::size_t i = 0; i < view.at.size(); ++i) {
    view.from[i] -= around.low[i];
    if (view.from[i] >= 0 && view.from[i] < view.operands[0][i]) continue;
    view.from.clear();  // the scalar
    return 1;
  }
  return 0;
}

std::size_t concat(View& view) {
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(view.node.payload).axis);
  view.from = view.at;
  std::size_t operand = 0;
  while (view.from[axis] >= view.operands[operand][axis]) view.from[axis] -= view.operands[operand++][axis];
  return operand;
}

std::size_t unfold(View& view) {
  const auto& window = std::get<ir::WindowPayload>(view.node.payload);
  const std::size_t rank = view.operands[0].size();
  view.from.assign(view.at.begin(), view.at.begin() + static_cast<std::ptrdiff_t>(rank));
  for (std::size_t i = 0; i < window.axes.size(); ++i) {
    std::int64_t& position = view.from[static_cast<std::size_t>(window.axes[i])];
    position = position * window.strides[i] + view.at[rank + i] * window.dilations[i];
  }
  return 0;
}

std::size_t slice_assign(View& view) {
  const auto& runs = std::get<ir::SlicePayload>(view.node.payload);
  const Sizes& update = view.operands[1];
  view.from = view.at;
  for (std::size_t i = 0; i < view.at.size(); ++i) {
    const std::int64_t distance = view.at[i] - runs.starts[i];
    const std::int64_t position = distance / runs.steps[i];
    view.from[i] = position;
    if (distance % runs.steps[i] == 0 && position >= 0 && position < update[i]) continue;
    view.from = view.at;  // not written
    return 0;
  }
  return 1;
}

/// Sets `from` and returns the operand.
using Rule = std::size_t (*)(View& view);

Rule rule_of(ops::Role op) {
  struct Entry {
    ops::Role op;
    Rule rule;
  };
  constexpr Entry entries[] = {{ops::Role::permute, permute}, {ops::Role::broadcast, broadcast},
                               {ops::Role::slice, slice},     {ops::Role::reverse, reverse},
                               {ops::Role::pad, pad},         {ops::Role::concat, concat},
                               {ops::Role::unfold, unfold},   {ops::Role::slice_assign, slice_assign}};
  for (const Entry& entry : entries) {
    if (entry.op == op) return entry.rule;
  }
  check(op == ops::Role::reshape, "the reference knows every view");
  return nullptr;
}

}  // namespace

std::vector<std::int64_t> dense_strides(const Sizes& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) strides[i] = stride;
  return strides;
}

std::vector<std::int64_t> broadcast_strides(const Sizes& shape, const Sizes& operand) {
  const std::vector<std::int64_t> own = dense_strides(operand);
  std::vector<std::int64_t> strides(shape.size(), 0);
  const std::size_t in_front = shape.size() - operand.size();
  for (std::size_t i = 0; i < operand.size(); ++i) strides[in_front + i] = operand[i] == 1 ? 0 : own[i];
  return strides;
}

std::optional<AffineView> affine_view(const ir::Node& node, const Sizes& operand, const Sizes& result) {
  const ops::Role op = node.op->role;
  const std::vector<std::int64_t> own = dense_strides(operand);
  AffineView view{own, 0};
  if (op == ops::Role::permute) {
    const auto& axes = std::get<ir::AxesPayload>(node.payload).axes;
    for (std::size_t i = 0; i < axes.size(); ++i) view.strides[i] = own[static_cast<std::size_t>(axes[i])];
  } else if (op == ops::Role::broadcast) {
    view.strides = broadcast_strides(result, operand);
  } else if (op == ops::Role::slice) {
    const auto& runs = std::get<ir::SlicePayload>(node.payload);
    for (std::size_t i = 0; i < own.size(); ++i) {
      view.offset += runs.starts[i] * own[i];
      view.strides[i] = runs.steps[i] * own[i];
    }
  } else if (op == ops::Role::reverse) {
    for (const int axis : std::get<ir::AxesPayload>(node.payload).axes) {
      const auto i = static_cast<std::size_t>(axis);
      view.offset += (operand[i] - 1) * own[i];
      view.strides[i] = -own[i];
    }
  } else if (op == ops::Role::unfold) {
    const auto& window = std::get<ir::WindowPayload>(node.payload);
    for (std::size_t i = 0; i < window.axes.size(); ++i) {
      const auto axis = static_cast<std::size_t>(window.axes[i]);
      view.strides[axis] = own[axis] * window.strides[i];
      view.strides.push_back(own[axis] * window.dilations[i]);
    }
  } else {
    return std::nullopt;
  }
  return view;
}

void affine_run(const Sizes& sizes, const AffineView& view, std::int64_t begin, std::int64_t end,
                std::vector<std::int64_t>& into) {
  into.clear();
  if (begin >= end) return;
  into.reserve(static_cast<std::size_t>(end - begin));
  std::vector<std::int64_t> at;
  coordinates_of(begin, sizes, at);
  std::int64_t from = view.offset;
  for (std::size_t i = 0; i < at.size(); ++i) from += at[i] * view.strides[i];
  const std::size_t rank = sizes.size();
  const std::int64_t last = rank == 0 ? 1 : sizes[rank - 1], step = rank == 0 ? 0 : view.strides[rank - 1];
  for (std::int64_t left = end - begin;;) {
    const std::int64_t run = std::min(left, last - (rank == 0 ? 0 : at[rank - 1]));
    for (std::int64_t i = 0; i < run; ++i, from += step) into.push_back(from);
    left -= run;
    if (left == 0) return;
    from -= last * step;
    at[rank - 1] = 0;
    for (std::size_t i = rank - 1; i-- > 0;) {
      from += view.strides[i];
      if (++at[i] < sizes[i]) break;
      from -= sizes[i] * view.strides[i];
      at[i] = 0;
    }
  }
}

void coordinates_of(std::int64_t index, const Sizes& sizes, std::vector<std::int64_t>& at) {
  at.resize(sizes.size());
  for (std::size_t i = sizes.size(); i-- > 0;) {
    at[i] = index % sizes[i];
    index /= sizes[i];
  }
}

std::int64_t flat_index(const std::vector<std::int64_t>& at, const Sizes& sizes) {
  std::int64_t index = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) index = index * sizes[i] + at[i];
  return index;
}

std::int64_t broadcast_index(std::int64_t index, const Sizes& shape, const Sizes& operand) {
  std::int64_t stride = 1;
  std::int64_t at = 0;
  for (std::size_t back = 1; back <= operand.size(); ++back) {
    const std::int64_t size = shape[shape.size() - back];
    const std::int64_t own = operand[operand.size() - back];
    if (own != 1) at += index % size * stride;
    index /= size;
    stride *= own;
  }
  return at;
}

std::vector<Source> view_sources(const ir::Node& node, std::span<const Sizes> operands, const Sizes& result,
                                 std::span<const std::int64_t> indices) {
  std::vector<Source> sources;
  sources.reserve(indices.size());
  const Rule rule = rule_of(node.op->role);
  View view{node, operands, {}, {}};
  for (std::int64_t index : indices) {
    if (rule == nullptr) {  // reshape: the order of elements stays
      sources.push_back({0, index});
      continue;
    }
    coordinates_of(index, result, view.at);
    const std::size_t operand = rule(view);
    sources.push_back({operand, flat_index(view.from, operands[operand])});
  }
  return sources;
}

}  // namespace vkfuse::reference
