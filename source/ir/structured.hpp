// What the builder, the printer and the parser share about ops other than elementwise ones.
#pragma once

#include "ir/graph.hpp"

namespace vkfuse::ir {

/// The payload that an op of add_structured carries, with its initial values; null for any other op.
const Payload* payload_form(const ops::OpRow& op);

/// Fails on negative dimensions, on symbols with facts that no size keeps, and on more elements than 64 bits can count;
/// `what` begins the sentence.
Result<void> check_dims(std::string_view what, const Shape& shape);

/// Fails where a gather, at these sizes, has elements to pick and none to pick from.
Result<void> check_picks(const Graph& graph, NodeId id, const SymbolValues& symbols);

/// Calls visit(name, member) for every attribute of a payload, in the order in which the text form writes
/// them. Payloads whose text is no list of names (inputs, constants) have none.
template <typename Visit>
void each_attribute(Payload& payload, Visit&& visit) {
  if (auto* axes = std::get_if<AxesPayload>(&payload)) {
    visit("axes", axes->axes);
  } else if (auto* axis = std::get_if<AxisPayload>(&payload)) {
    visit("axis", axis->axis);
  } else if (auto* slice = std::get_if<SlicePayload>(&payload)) {
    visit("starts", slice->starts);
    visit("steps", slice->steps);
  } else if (auto* pad = std::get_if<PadPayload>(&payload)) {
    visit("low", pad->low);
    visit("high", pad->high);
  } else if (auto* window = std::get_if<WindowPayload>(&payload)) {
    visit("axes", window->axes);
    visit("sizes", window->sizes);
    visit("strides", window->strides);
    visit("dilations", window->dilations);
  } else if (auto* scan = std::get_if<ScanPayload>(&payload)) {
    visit("axis", scan->axis);
    visit("exclusive", scan->exclusive);
    visit("reverse", scan->reverse);
  } else if (auto* sort = std::get_if<SortPayload>(&payload)) {
    visit("axis", sort->axis);
    visit("descending", sort->descending);
    visit("count", sort->count);
  } else if (auto* scatter = std::get_if<ScatterPayload>(&payload)) {
    visit("mode", scatter->mode);
  } else if (auto* dot = std::get_if<DotPayload>(&payload)) {
    visit("batch_a", dot->batch_a);
    visit("batch_b", dot->batch_b);
    visit("contract_a", dot->contract_a);
    visit("contract_b", dot->contract_b);
  } else if (auto* iota = std::get_if<IotaPayload>(&payload)) {
    visit("axis", iota->axis);
  } else if (auto* random = std::get_if<RandomPayload>(&payload)) {
    visit("seed", random->seed);
  } else if (auto* custom = std::get_if<CustomPayload>(&payload)) {
    visit("name", custom->name);
    visit("code", custom->code);
    visit("ulps", custom->ulps);
    visit("cost", custom->cost);
  } else if (auto* kernel = std::get_if<KernelPayload>(&payload)) {
    visit("name", kernel->name);
    visit("code", kernel->code);
    visit("workgroup", kernel->workgroup);
    visit("tile", kernel->tile);
  }
}

// Shape rules of views, in views.cpp; of the others, in structured.cpp. ----------------------------

/// What a rule looks at; the count and dtypes of the operands are checked before.
struct Call {
  const ops::OpRow& op;
  std::span<const TensorType> operands;
  const Payload& payload;
  const Shape& shape;  ///< the declared one, where it is an attribute

  template <typename T>
  [[nodiscard]] const T& attributes() const {
    return std::get<T>(payload);
  }
};

/// The axis exists: "'cumsum' names axis 2, but f32[3, 4] has 2 axes."
Result<void> check_axis(const Call& call, int axis, const TensorType& type);
/// Each of them exists, and none is named twice.
Result<void> check_axes(const Call& call, std::span<const int> axes, const TensorType& type);

Result<Shape> reshape_shape(const Call& call);
Result<Shape> permute_shape(const Call& call);
Result<Shape> broadcast_shape(const Call& call);
Result<Shape> slice_shape(const Call& call);
Result<Shape> reverse_shape(const Call& call);
Result<Shape> pad_shape(const Call& call);
Result<Shape> concat_shape(const Call& call);
Result<Shape> unfold_shape(const Call& call);
Result<Shape> slice_assign_shape(const Call& call);

// Of ops whose code the user gives, in custom.cpp.
Result<Shape> custom_shape(const Call& call);
Result<Shape> kernel_shape(const Call& call);
/// Whether the code of `custom` is the body of a function and not an expression: it has a `return`.
bool is_function_body(const std::string& code);

}  // namespace vkfuse::ir
