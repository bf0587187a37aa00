#include "backward_slice.hpp"

#include <algorithm>

namespace vkfuse::bench {

namespace {

using ops::OpClass;

/// How far a box of elements reaches along each axis.
using Extents = std::vector<std::int64_t>;

double volume(const Extents& box) {
  double product = 1;
  for (std::int64_t extent : box) product *= static_cast<double>(extent);
  return product;
}

/// Spreads `count` elements over axes, the innermost first.
void spread(std::int64_t count, std::span<const std::int64_t> sizes, std::span<std::int64_t> box) {
  for (std::size_t i = sizes.size(); i-- > 0;) {
    box[i] = std::clamp<std::int64_t>(count, 1, std::max<std::int64_t>(1, sizes[i]));
    count = (count + box[i] - 1) / box[i];
  }
}

/// A box of one shape as a box of another with as many elements: axes that hold equally many elements together are
/// matched, and within such a group the elements are spread anew.
Extents reshaped(const Extents& box, const Sizes& from, const Sizes& to) {
  Extents result(to.size(), 1);
  std::size_t f = from.size(), t = to.size();
  while (t > 0) {
    const std::size_t end = t;
    std::int64_t left = 1, right = to[--t], count = 1;
    while (left != right && (f > 0 || t > 0)) {
      if (left < right && f > 0) {
        --f;
        left *= from[f];
        count *= box[f];
      } else if (t > 0) {
        right *= to[--t];
      } else {
        break;
      }
    }
    spread(count, std::span(to).subspan(t, end - t), std::span(result).subspan(t, end - t));
  }
  return result;
}

/// Aligned at the innermost axis, and no larger than the operand: broadcasting, and views that keep the axes.
Extents aligned(const Extents& box, const Sizes& operand) {
  Extents result(operand.size());
  for (std::size_t back = 1; back <= operand.size(); ++back) {
    const std::int64_t extent = back <= box.size() ? box[box.size() - back] : 1;
    result[operand.size() - back] = std::min(extent, operand[operand.size() - back]);
  }
  return result;
}

Extents of_view(const ir::Node& node, const Extents& box, const Sizes& shape, const Sizes& operand) {
  if (node.op->name == "reshape") return reshaped(box, shape, operand);
  if (node.op->name == "permute") {
    Extents result(operand.size());
    const auto& axes = std::get<ir::AxesPayload>(node.payload).axes;
    for (std::size_t i = 0; i < axes.size(); ++i) result[static_cast<std::size_t>(axes[i])] = box[i];
    return result;
  }
  if (const auto* window = std::get_if<ir::WindowPayload>(&node.payload)) {
    Extents result(box.begin(), box.begin() + static_cast<std::ptrdiff_t>(operand.size()));
    for (std::size_t i = 0; i < window->axes.size(); ++i) {
      const auto axis = static_cast<std::size_t>(window->axes[i]);
      const std::int64_t reach =
          (box[axis] - 1) * window->strides[i] + (box[operand.size() + i] - 1) * window->dilations[i] + 1;
      result[axis] = std::min(reach, operand[axis]);
    }
    return result;
  }
  return aligned(box, operand);
}

/// The rows that indices choose are counted as if all were different ones.
Extents of_gather(const ir::Node& node, std::size_t k, const Extents& box, const Sizes& operand) {
  const auto axis = static_cast<std::size_t>(std::get<ir::AxisPayload>(node.payload).axis);
  if (node.op->name == "take_along") return aligned(box, operand);
  if (k == 1)
    return Extents(box.begin() + static_cast<std::ptrdiff_t>(axis),
                   box.begin() + static_cast<std::ptrdiff_t>(axis + operand.size()));
  const std::size_t indices = box.size() + 1 - operand.size();
  Extents result(operand.size());
  for (std::size_t i = 0; i < operand.size(); ++i) result[i] = i < axis ? box[i] : box[i + indices - 1];
  const std::span<const std::int64_t> chosen = std::span(box).subspan(axis, indices);
  result[axis] = std::min(operand[axis], static_cast<std::int64_t>(volume(Extents(chosen.begin(), chosen.end()))));
  return result;
}

Extents of_reduction(const ir::Node& node, const Extents& box, const Sizes& operand) {
  Extents result;
  const auto& axes = std::get<ir::AxesPayload>(node.payload).axes;
  std::size_t next = 0;
  for (std::size_t i = 0; i < operand.size(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end();
    result.push_back(reduced ? operand[i] : box[next++]);
  }
  return result;
}

/// Whole lines of what is contracted, at the rows (k = 0) or columns that are asked for.
Extents of_dot(const ir::Node& node, std::size_t k, const Extents& box, const Sizes& operand) {
  const auto& dot = std::get<ir::DotPayload>(node.payload);
  const std::vector<int>& batch = k == 0 ? dot.batch_a : dot.batch_b;
  const std::vector<int>& contracted = k == 0 ? dot.contract_a : dot.contract_b;
  Extents result(operand);
  const std::vector<int> free = ir::free_axes(batch, contracted, operand.size());
  for (std::size_t i = 0; i < batch.size(); ++i) result[static_cast<std::size_t>(batch[i])] = box[i];
  const std::size_t first = k == 0 ? batch.size() : box.size() - free.size();
  for (std::size_t i = 0; i < free.size(); ++i) result[static_cast<std::size_t>(free[i])] = box[first + i];
  return result;
}

/// The box of operand `k` that a box of a node needs.
Extents needed(const ir::Node& node, std::size_t k, const Extents& box, const Sizes& shape, const Sizes& operand) {
  const auto lines = [&](int axis) {
    Extents result = box;
    result[static_cast<std::size_t>(axis)] = operand[static_cast<std::size_t>(axis)];
    return result;
  };
  switch (node.op->cls) {
    case OpClass::reduce: return of_reduction(node, box, operand);
    case OpClass::scan: return lines(std::get<ir::ScanPayload>(node.payload).axis);
    case OpClass::sort: return lines(std::get<ir::SortPayload>(node.payload).axis);
    case OpClass::gather: return of_gather(node, k, box, operand);
    case OpClass::update: return k == 1 ? Extents(operand) : aligned(box, operand);
    case OpClass::scatter: return k == 1 ? Extents(operand) : aligned(box, operand);
    case OpClass::contraction: return of_dot(node, k, box, operand);
    case OpClass::view: return of_view(node, box, shape, operand);
    default: return aligned(box, operand);
  }
}

}  // namespace

Result<double> backward_slice_elements(const ir::Graph& graph, ir::NodeId value, std::int64_t count) {
  std::vector<Extents> boxes(value + 1);
  std::vector<bool> reached(value + 1, false);
  reached[value] = true;
  double total = 0;
  for (ir::NodeId id = value + 1; id-- > 0;) {
    if (!reached[id]) continue;
    const ir::Node& node = graph.node(id);
    VKF_TRY(shape, resolve(node.type.shape, {}));
    if (id == value) {
      boxes[id].resize(shape.size());
      spread(count, shape, boxes[id]);
    }
    total += volume(boxes[id]);
    if (node.op->cls == OpClass::contraction) {
      VKF_TRY(operand, resolve(graph.node(node.operands[0]).type.shape, {}));
      double products = volume(boxes[id]);
      for (int axis : std::get<ir::DotPayload>(node.payload).contract_a)
        products *= static_cast<double>(operand[static_cast<std::size_t>(axis)]);
      total += products;
    }
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      VKF_TRY(operand, resolve(graph.node(node.operands[k]).type.shape, {}));
      const Extents more = needed(node, k, boxes[id], shape, operand);
      Extents& box = boxes[node.operands[k]];
      if (!reached[node.operands[k]]) box.assign(operand.size(), 0);
      reached[node.operands[k]] = true;
      for (std::size_t i = 0; i < box.size(); ++i) box[i] = std::max(box[i], more[i]);
    }
  }
  return total;
}

}  // namespace vkfuse::bench
