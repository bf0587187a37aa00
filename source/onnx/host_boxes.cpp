// NonMaxSuppression: of boxes that overlap, the one with the best score.
#include <algorithm>
#include <numeric>

#include "onnx/host_operators.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"

namespace vkfuse::onnx {
namespace {

struct Box {
  float top = 0, left = 0, bottom = 0, right = 0;
  [[nodiscard]] float area() const { return (bottom - top) * (right - left); }
};

float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0 && width > 0)) return 0;
  const float common = height * width;
  return common / (a.area() + b.area() - common);
}

struct Detections {
  std::int64_t batches = 0, classes = 0, boxes = 0;
};

Result<Detections> detections_of(const Sizes& boxes, const Sizes& scores) {
  const bool fits =
      boxes.size() == 3 && scores.size() == 3 && boxes[2] == 4 && boxes[0] == scores[0] && boxes[1] == scores[2];
  if (fits) return Detections{boxes[0], scores[1], boxes[1]};
  return invalid(
      "Boxes [{}] and scores [{}] do not go together: they must be [batch, boxes, 4] and [batch, classes, boxes].",
      fmt::join(boxes, ", "), fmt::join(scores, ", "));
}

Box box_at(const TensorData& boxes, std::size_t index, bool has_centers) {
  const auto number = [&](std::size_t i) { return static_cast<float>(element_real(boxes, 4 * index + i)); };
  if (has_centers) {
    const float x = number(0), y = number(1), width = number(2) / 2, height = number(3) / 2;
    return {y - height, x - width, y + height, x + width};
  }
  // Any two opposite corners.
  const auto [top, bottom] = std::minmax({number(0), number(2)});
  const auto [left, right] = std::minmax({number(1), number(3)});
  return {top, left, bottom, right};
}

struct Thresholds {
  std::int64_t most = 0;
  float overlap = 0;
  std::optional<float> score;
};

Result<Thresholds> thresholds_of(const NodeContext& node) {
  Thresholds result;
  for (int i = 2; i < node.inputs(); ++i) {
    if (!node.has(i)) continue;
    const TensorData& data = node.data(i);
    if (element_count(data) != 1)
      return invalid("Operand {} of operator 'NonMaxSuppression' has {} elements; it must be one number.", i,
                     element_count(data));
    if (i == 2) result.most = element_int(data, 0);
    if (i == 3) result.overlap = static_cast<float>(element_real(data, 0));
    if (i == 4) result.score = static_cast<float>(element_real(data, 0));
  }
  return result;
}

/// The boxes of one class, best first, without those that a better one covers.
std::vector<std::int64_t> best_boxes(const std::vector<Box>& boxes, const std::vector<float>& scores,
                                     const Thresholds& limits) {
  std::vector<std::int64_t> order;
  const auto score = [&](std::int64_t i) { return scores[static_cast<std::size_t>(i)]; };
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(boxes.size()); ++i) {
    if (score(i) == score(i) && (!limits.score || score(i) > *limits.score)) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater<>(), score);
  std::vector<std::int64_t> kept;
  for (const std::int64_t candidate : order) {
    if (static_cast<std::int64_t>(kept.size()) >= limits.most) break;
    const Box& box = boxes[static_cast<std::size_t>(candidate)];
    const bool covered = std::ranges::any_of(kept, [&](std::int64_t other) {
      return overlap(boxes[static_cast<std::size_t>(other)], box) > limits.overlap;
    });
    if (!covered) kept.push_back(candidate);
  }
  return kept;
}

}  // namespace

Result<HostResults> non_max_suppression(const NodeContext& node) {
  const TensorData& boxes = node.data(0);
  const TensorData& scores = node.data(1);
  if (!is_float(scores.dtype))
    return invalid("The scores (operand 1) are {}; they must be floats.", name_of(scores.dtype));
  VKF_TRY(shape, detections_of(boxes.sizes, scores.sizes));
  VKF_TRY(has_centers, node.attributes().integer("center_point_box", 0));
  VKF_TRY(limits, thresholds_of(node));
  std::vector<std::int64_t> selected;
  for (std::int64_t batch = 0; batch < shape.batches; ++batch) {
    std::vector<Box> all;
    for (std::int64_t i = 0; i < shape.boxes; ++i)
      all.push_back(box_at(boxes, static_cast<std::size_t>(batch * shape.boxes + i), has_centers != 0));
    for (std::int64_t one = 0; one < shape.classes; ++one) {
      std::vector<float> of_class;
      for (std::int64_t i = 0; i < shape.boxes; ++i) {
        of_class.push_back(static_cast<float>(
            element_real(scores, static_cast<std::size_t>((batch * shape.classes + one) * shape.boxes + i))));
      }
      for (const std::int64_t box : best_boxes(all, of_class, limits))
        selected.insert(selected.end(), {batch, one, box});
    }
  }
  return HostResults{int64_data({static_cast<std::int64_t>(selected.size()) / 3, 3}, selected)};
}

Result<HostTypes> most_of_non_max_suppression(const NodeContext& node) {
  VKF_TRY(boxes, static_sizes(node.tensor(0).shape()));
  VKF_TRY(scores, static_sizes(node.tensor(1).shape()));
  VKF_TRY(shape, detections_of(boxes, scores));
  std::int64_t each = shape.boxes;
  if (!node.has(2)) each = 0;
  if (node.has(2) && node.value(2).known) {
    VKF_TRY(stated, known_integer(node, 2, "number of boxes"));
    each = std::clamp<std::int64_t>(stated, 0, each);
  }
  VKF_TRY(count, vkfuse::element_count(Sizes{shape.batches, shape.classes, each}));
  return HostTypes{{DType::i64, {count, 3}}};
}

}  // namespace vkfuse::onnx
