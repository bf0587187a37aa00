// What every pass does: copy a graph node by node, and leave some out.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/passes.hpp"

namespace vkfuse::passes {

/// Casts among them.
inline bool is_elementwise(const ir::Node& node) {
  return node.op->cls == ops::OpClass::elementwise || node.op->cls == ops::OpClass::convert;
}

/// The one element of a constant, as ir::decode reads it; null for constants of other sizes and for other nodes.
inline const std::byte* literal_element(const ir::Node& node) {
  const auto* constant = std::get_if<ir::ConstantPayload>(&node.payload);
  const bool is_one =
      constant != nullptr && constant->bytes->size() == static_cast<std::size_t>(size_of(node.type.dtype));
  return is_one ? constant->bytes->data() : nullptr;
}

/// The axes of more than one element.
inline std::vector<int> long_axes(const Shape& shape) {
  std::vector<int> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!(shape[i] == Dim(1))) axes.push_back(static_cast<int>(i));
  }
  return axes;
}
/// Whether a reshape changes nothing but how many axes of one element there are.
inline bool keeps_long_axes(const Shape& from, const Shape& to) {
  const std::vector<int> a = long_axes(from), b = long_axes(to);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](int i, int j) { return from[static_cast<std::size_t>(i)] == to[static_cast<std::size_t>(j)]; });
}

/// Copies a graph node by node; `map` takes old ids to new ones.
class Rewriter {
 public:
  explicit Rewriter(const ir::Graph& from) : from_(from), map_(from.size(), 0), placed_(from.size(), false) {
    to_.name = from.name;
  }

  Result<void> keep(ir::NodeId id) {
    VKF_TRY(made, ir::append_copy(to_, from_.node(id), mapped(id)));
    alias(id, made);
    return {};
  }
  void alias(ir::NodeId id, ir::NodeId made) {
    map_[id] = made;
    placed_[id] = true;
  }
  [[nodiscard]] std::vector<ir::NodeId> mapped(ir::NodeId id) const {
    std::vector<ir::NodeId> operands;
    for (ir::NodeId operand : from_.node(id).operands) operands.push_back(map_[operand]);
    return operands;
  }
  [[nodiscard]] ir::NodeId at(ir::NodeId id) const { return map_[id]; }
  ir::Graph& graph() { return to_; }

  // --- new nodes, of nodes of the copy ---
  Result<ir::NodeId> op(std::string_view name, std::vector<ir::NodeId> operands) {
    return to_.add(ops::row(name), std::move(operands));
  }
  Result<ir::NodeId> reshape(ir::NodeId value, Shape shape) {
    return to_.add_structured(ops::row("reshape"), {value}, ir::NoPayload{}, std::move(shape));
  }
  Result<ir::NodeId> cast(ir::NodeId value, DType dtype) {
    return to_.node(value).type.dtype == dtype ? value : to_.add(ops::row("cast"), {value}, dtype);
  }
  /// A reduction along the last axis.
  Result<ir::NodeId> reduce_rows(std::string_view name, ir::NodeId value) {
    return to_.add_structured(ops::row(name), {value},
                              ir::AxesPayload{{static_cast<int>(to_.node(value).type.shape.size()) - 1}});
  }

  Result<ir::Graph> finish() {
    for (const ir::Output& output : from_.outputs()) VKF_CHECK_OK(to_.add_output(output.name, map_[output.value]));
    return std::move(to_);
  }
  /// With where each node went.
  Result<Rewritten> finish_with_places() {
    Rewritten made;
    for (ir::NodeId id = 0; id < from_.size(); ++id)
      made.places.push_back(placed_[id] ? std::optional(map_[id]) : std::nullopt);
    VKF_TRY(graph, finish());
    made.graph = std::move(graph);
    return made;
  }

 private:
  const ir::Graph& from_;
  ir::Graph to_;
  std::vector<ir::NodeId> map_;
  std::vector<bool> placed_;
};

/// Numbers of axes where `moved` has become the last of `rank`.
inline void renumber(std::vector<int>& axes, int moved, int rank) {
  for (int& axis : axes) axis = axis == moved ? rank - 1 : axis > moved ? axis - 1 : axis;
}
/// A constant with one of its axes as the last, computed here and now.
Result<ir::NodeId> turned_constant(ir::Graph& to, const ir::Node& constant, int axis);

/// As remove_dead, of what another pass has made.
Result<Rewritten> without_dead(Rewritten made);

/// What was made of what was made.
inline Rewritten behind(const Rewritten& first, Rewritten second) {
  std::vector<std::optional<ir::NodeId>> places;
  for (const std::optional<ir::NodeId>& place : first.places)
    places.push_back(place ? second.places[*place] : std::nullopt);
  second.places = std::move(places);
  return second;
}

}  // namespace vkfuse::passes
