#include "onnx/long_recurrence.hpp"

#include <algorithm>

#include "api/program.hpp"
#include "api/tensor_node.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// Of a round: so few that planning takes no second, so many that the host's part does not count.
constexpr std::int64_t kStepsOfRound = 32;

/// How elements lie around an axis.
struct Around {
  std::size_t outer = 1, bytes = 0;  ///< rows before the axis, and bytes of one position along it
};
Around around(const TensorData& tensor, int axis) {
  Around result{1, static_cast<std::size_t>(size_of(tensor.dtype))};
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    const auto size = static_cast<std::size_t>(tensor.sizes[i]);
    if (i < static_cast<std::size_t>(axis)) result.outer *= size;
    if (i > static_cast<std::size_t>(axis)) result.bytes *= size;
  }
  return result;
}

/// Positions begin to begin + count of an axis.
TensorData cut(const TensorData& tensor, int axis, std::int64_t begin, std::int64_t count) {
  TensorData part{{}, tensor.dtype, tensor.sizes, {}};
  std::int64_t& size = part.sizes[static_cast<std::size_t>(axis)];
  const auto [outer, bytes] = around(tensor, axis);
  const std::size_t row = static_cast<std::size_t>(size) * bytes;
  size = count;
  for (std::size_t i = 0; i < outer; ++i) {
    const std::byte* from = tensor.bytes.data() + i * row + static_cast<std::size_t>(begin) * bytes;
    part.bytes.insert(part.bytes.end(), from, from + static_cast<std::size_t>(count) * bytes);
  }
  return part;
}

TensorData joined(const std::vector<TensorData>& parts, int axis) {
  TensorData all{{}, parts[0].dtype, parts[0].sizes, {}};
  std::int64_t& size = all.sizes[static_cast<std::size_t>(axis)] = 0;
  for (const TensorData& part : parts) size += part.sizes[static_cast<std::size_t>(axis)];
  const std::size_t outer = around(parts[0], axis).outer;
  for (std::size_t i = 0; i < outer; ++i) {
    for (const TensorData& part : parts) {
      const std::size_t row = part.bytes.size() / outer;
      const auto from = part.bytes.begin() + static_cast<std::ptrdiff_t>(i * row);
      all.bytes.insert(all.bytes.end(), from, from + static_cast<std::ptrdiff_t>(row));
    }
  }
  return all;
}

TensorData taken(HostTensor& tensor) { return {{}, tensor.dtype, std::move(tensor.sizes), std::move(tensor.bytes)}; }

/// The elements of an operand in the dtype of its tensor.
TensorData elements_of(const Value& value) {
  return value.known->dtype == value.tensor.dtype() ? *value.known : converted(*value.known, value.tensor.dtype());
}

/// The least and the largest element, each as a tensor of one; 0 is in every range.
std::pair<TensorData, TensorData> range_of(const TensorData& tensor) {
  const auto count = tensor.bytes.size() / static_cast<std::size_t>(size_of(tensor.dtype));
  float least = 0, largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto element = static_cast<float>(element_real(tensor, i));
    least = std::min(least, element);
    largest = std::max(largest, element);
  }
  const auto one = [&](float number) {
    const auto bytes = std::as_bytes(std::span(&number, 1));
    return converted({{}, DType::f32, {}, {bytes.begin(), bytes.end()}}, tensor.dtype);
  };
  return {one(least), one(largest)};
}

bool is_computed(const Value& value) { return value.part != kFixed && !value.known; }

std::string name_of_operand(int operand) { return fmt::format("operand{}", operand); }

void replace_text(pb::NodeProto& node, const char* name, std::span<const std::string_view> texts) {
  auto& attributes = *node.mutable_attribute();
  for (int i = attributes.size(); i-- > 0;) {
    if (attributes[i].name() == name) attributes.DeleteSubrange(i, 1);
  }
  pb::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  const bool is_list = std::string_view(name) == "activations";
  attribute.set_type(is_list ? pb::AttributeProto::STRINGS : pb::AttributeProto::STRING);
  for (const std::string_view text : texts)
    is_list ? attribute.add_strings(std::string(text)) : attribute.set_s(std::string(text));
}

/// The node of one direction.
Result<pb::NodeProto> node_of_direction(const NodeContext& node, const pb::NodeProto& proto, std::size_t number,
                                        bool is_reversed, std::size_t directions) {
  pb::NodeProto one = proto;
  const std::string_view direction[] = {is_reversed ? "reverse" : "forward"};
  replace_text(one, "direction", direction);
  if (directions == 1) return one;
  VKF_TRY(activations, node.attributes().texts("activations"));
  if (node.attributes().has("activation_alpha") || node.attributes().has("activation_beta"))
    return unsupported(
        "A sequence of more than {} steps in both directions is not supported with numbers for its activations.",
        kMostStepsAtOnce);
  if (activations.empty()) return one;
  const std::size_t each = activations.size() / directions;
  replace_text(one, "activations", std::span(activations).subspan(number * each, each));
  return one;
}

}  // namespace

Result<void> LongRecurrence::take_sizes(const NodeContext& node) {
  for (const int operand : {recurrent_operand::kInput, recurrent_operand::kWeights, recurrent_operand::kRecurrence})
    VKF_CHECK_OK(check_rank(node, operand, 3));
  VKF_TRY(layout, node.attributes().integer("layout", 0));
  VKF_TRY(x, static_sizes(node.tensor(recurrent_operand::kInput).shape()));
  VKF_TRY(r, static_sizes(node.tensor(recurrent_operand::kRecurrence).shape()));
  has_cell_ = node.row().name.find("LSTM") != std::string_view::npos;
  rounds_ = node.row().name == "DynamicQuantizeLSTM";
  batch_first_ = layout != 0;
  steps_ = x[batch_first_ ? 1 : 0];
  batch_ = x[batch_first_ ? 0 : 1];
  hidden_ = std::min(r[1], r[2]);  // the other is as many for each gate
  dtype_ = node.dtype();
  if (steps_ < 1) return unsupported("A sequence of {} steps is not supported.", steps_);
  VKF_TRY(direction, node.attributes().text("direction", "forward"));
  if (r[0] < 1 || r[0] > 2) return invalid("The recurrence weights are of {} directions; there are 1 or 2.", r[0]);
  for (std::int64_t i = 0; i < r[0]; ++i) directions_.push_back({i == 1 || direction == "reverse", {}, {}});
  for (int i = 0; i < node.inputs(); ++i)
    reads_.push_back(node.has(i) &&
                     (i == recurrent_operand::kInput || i == recurrent_operand::kLengths ||
                      i == recurrent_operand::kHidden || i == recurrent_operand::kCell || is_computed(node.value(i))));
  return {};
}

/// An operand of the kernels for so many steps of a direction: its part of the node's.
Result<Value> LongRecurrence::operand_of(const NodeContext& node, int operand, std::int64_t number,
                                         std::int64_t steps) const {
  if (operand == recurrent_operand::kInput) {
    Shape shape = node.tensor(recurrent_operand::kInput).shape();
    shape[batch_first_ ? 1 : 0] = steps;
    return Value(Tensor::input("x", dtype_, shape));
  }
  if (operand == recurrent_operand::kHidden || operand == recurrent_operand::kCell) {
    const Shape shape = batch_first_ ? Shape{batch_, 1, hidden_} : Shape{1, batch_, hidden_};
    return Value(Tensor::input(operand == recurrent_operand::kHidden ? "h" : "c", dtype_, shape));
  }
  if (operand == recurrent_operand::kLengths)
    return Value(Tensor::input("lengths", node.dtype(recurrent_operand::kLengths), {batch_}));
  const Value& whole = node.value(operand);
  const Tensor tensor = is_computed(whole)
                            ? Tensor::input(name_of_operand(operand), whole.tensor.dtype(), whole.tensor.shape())
                            : whole.tensor;
  if (directions_.size() == 1) return is_computed(whole) ? Value(tensor) : whole;
  if (tensor.shape().empty())
    return invalid("Operand {} of operator '{}' has no axis of directions.", operand, node.row().name);
  return Value(tensor.slice(0, number, number + 1));
}

Result<ir::Graph> LongRecurrence::graph_of(const NodeContext& node, const pb::NodeProto& proto,
                                           const Attributes* caller, std::int64_t number, std::int64_t steps) const {
  const Direction& direction = directions_[static_cast<std::size_t>(number)];
  VKF_TRY(one,
          node_of_direction(node, proto, static_cast<std::size_t>(number), direction.is_reversed, directions_.size()));
  const int states = has_cell_ ? recurrent_operand::kCell : recurrent_operand::kHidden;
  std::vector<std::optional<Value>> held(static_cast<std::size_t>(std::max(node.inputs(), states + 1)));
  for (int i = 0; i < static_cast<int>(held.size()); ++i) {
    const bool is_state = i == recurrent_operand::kHidden || (i == recurrent_operand::kCell && has_cell_);
    if (!is_state && !node.has(i)) continue;
    VKF_TRY(value, operand_of(node, i, number, steps));
    if (!value.tensor.valid()) return Error(value.tensor.error());
    held[static_cast<std::size_t>(i)] = std::move(value);
  }
  if (rounds_) {
    held.resize(recurrent_operand::kLargest + 1);
    held[recurrent_operand::kLeast] = Value(Tensor::input("least", dtype_, {}));
    held[recurrent_operand::kLargest] = Value(Tensor::input("largest", dtype_, {}));
  }
  std::vector<const Value*> operands;
  for (const std::optional<Value>& value : held) operands.push_back(value ? &*value : nullptr);
  VKF_TRY(outputs, node.row().import(NodeContext(node.row(), node.opset(), has_cell_ ? 3 : 2, Attributes(one, caller),
                                                 std::move(operands))));
  std::vector<Tensor> tensors;
  for (const Value& output : outputs) {
    if (!output.tensor.valid()) return Error(output.tensor.error());
    tensors.push_back(output.tensor);
  }
  std::vector<std::string> names{"y", "next_h", "next_c"};
  names.resize(tensors.size());
  return api::to_graph(tensors, names, std::string(node.row().name));
}

Result<std::shared_ptr<const LongRecurrence>> LongRecurrence::make(const NodeContext& node, const pb::NodeProto& proto,
                                                                   const Attributes* caller) {
  auto made = std::make_shared<LongRecurrence>();
  VKF_CHECK_OK(made->take_sizes(node));
  const std::int64_t rest = made->steps_ % kStepsOfRound;
  for (std::size_t i = 0; i < made->directions_.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    VKF_TRY(full, made->graph_of(node, proto, caller, number, kStepsOfRound));
    made->directions_[i].full = std::move(full);
    if (rest == 0) continue;
    VKF_TRY(last, made->graph_of(node, proto, caller, number, rest));
    made->directions_[i].rest = std::move(last);
  }
  const auto directions = static_cast<std::int64_t>(made->directions_.size());
  const std::int64_t batch = made->batch_, hidden = made->hidden_;
  made->types_.emplace_back(made->dtype_, made->batch_first_ ? Sizes{batch, made->steps_, directions, hidden}
                                                             : Sizes{made->steps_, directions, batch, hidden});
  for (int i = 0; i < (made->has_cell_ ? 2 : 1); ++i)
    made->types_.emplace_back(made->dtype_,
                              made->batch_first_ ? Sizes{batch, directions, hidden} : Sizes{directions, batch, hidden});
  return std::shared_ptr<const LongRecurrence>(std::move(made));
}

std::string LongRecurrence::text() const {
  const std::int64_t rest = steps_ % kStepsOfRound;
  return fmt::format("{} steps, {} times{}", kStepsOfRound, steps_ / kStepsOfRound,
                     rest == 0 ? "" : fmt::format(", and {} steps", rest));
}

Result<std::vector<LongRecurrence::Rounds>> LongRecurrence::compile(const Device& device,
                                                                    const CompileOptions& options) const {
  std::vector<Rounds> all;
  for (const Direction& direction : directions_) {
    VKF_TRY(full, api::compile_graph(device, direction.full, options));
    Rounds rounds{std::move(full), {}};
    if (direction.rest) {
      VKF_TRY(rest, api::compile_graph(device, *direction.rest, options));
      rounds.rest = std::move(rest);
    }
    all.push_back(std::move(rounds));
  }
  return all;
}

/// The states that a direction begins with: its part of the operands, or zeros.
LongRecurrence::States LongRecurrence::initial(const std::vector<std::optional<Value>>& operands,
                                               std::int64_t number) const {
  const auto state = [&](std::size_t operand) {
    if (operand < operands.size() && operands[operand])
      return cut(elements_of(*operands[operand]), batch_first_ ? 1 : 0, number, 1);
    const Sizes sizes = batch_first_ ? Sizes{batch_, 1, hidden_} : Sizes{1, batch_, hidden_};
    return TensorData{
        {},
        dtype_,
        sizes,
        std::vector<std::byte>(static_cast<std::size_t>(batch_ * hidden_) * static_cast<std::size_t>(size_of(dtype_)))};
  };
  return {state(recurrent_operand::kHidden), has_cell_ ? std::optional(state(recurrent_operand::kCell)) : std::nullopt};
}

/// What is the same in every round.
vkfuse::Inputs LongRecurrence::inputs_of(const std::vector<std::optional<Value>>& operands) const {
  vkfuse::Inputs inputs;
  for (std::size_t i = 1; i < operands.size(); ++i) {
    if (!operands[i] || !reads_[i] || i == recurrent_operand::kLengths || i == recurrent_operand::kHidden ||
        i == recurrent_operand::kCell)
      continue;
    inputs.emplace(name_of_operand(static_cast<int>(i)),
                   HostView(operands[i]->known->bytes, operands[i]->known->sizes));
  }
  return inputs;
}

/// The steps of the longest sequence.
std::int64_t LongRecurrence::longest(const std::vector<std::optional<Value>>& operands) const {
  if (recurrent_operand::kLengths >= operands.size() || !operands[recurrent_operand::kLengths]) return steps_;
  std::int64_t most = 0;
  for (std::int64_t k = 0; k < batch_; ++k)
    most = std::max(most, element_int(*operands[recurrent_operand::kLengths]->known, static_cast<std::size_t>(k)));
  return std::clamp<std::int64_t>(most, 0, steps_);
}

/// All steps of one direction; the states are then the last.
Result<TensorData> LongRecurrence::run_direction(const Rounds& rounds,
                                                 const std::vector<std::optional<Value>>& operands, std::int64_t number,
                                                 States& states) const {
  const bool is_reversed = directions_[static_cast<std::size_t>(number)].is_reversed;
  const TensorData x = elements_of(*operands[recurrent_operand::kInput]);
  const int time = batch_first_ ? 1 : 0;
  const auto [least, largest] =
      rounds_ ? range_of(cut(x, time, 0, longest(operands))) : std::pair<TensorData, TensorData>();
  const std::int64_t count = (steps_ + kStepsOfRound - 1) / kStepsOfRound;
  std::vector<TensorData> results(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t round = is_reversed ? count - 1 - i : i, begin = round * kStepsOfRound;
    const std::int64_t steps = std::min(kStepsOfRound, steps_ - begin);
    const TensorData part = cut(x, time, begin, steps);
    std::vector<std::int32_t> lengths;
    vkfuse::Inputs inputs = inputs_of(operands);
    inputs.emplace("x", HostView(part.bytes, part.sizes));
    inputs.emplace("h", HostView(states.h.bytes, states.h.sizes));
    if (rounds_) {
      inputs.emplace("least", HostView(least.bytes, least.sizes));
      inputs.emplace("largest", HostView(largest.bytes, largest.sizes));
    }
    if (states.c) inputs.emplace("c", HostView(states.c->bytes, states.c->sizes));
    if (recurrent_operand::kLengths < operands.size() && operands[recurrent_operand::kLengths]) {
      for (std::int64_t k = 0; k < batch_; ++k) {
        const std::int64_t length =
            element_int(*operands[recurrent_operand::kLengths]->known, static_cast<std::size_t>(k));
        lengths.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(length - begin, 0, steps)));
      }
      inputs.emplace("lengths", HostView(lengths));
    }
    VKF_TRY(outputs, (steps == kStepsOfRound ? rounds.full : *rounds.rest).run(inputs));
    results[static_cast<std::size_t>(round)] = taken(outputs.at("y"));
    states.h = taken(outputs.at("next_h"));
    if (states.c) states.c = taken(outputs.at("next_c"));
  }
  return joined(results, time);
}

Result<HostResults> LongRecurrence::run(const std::vector<Rounds>& rounds,
                                        const std::vector<std::optional<Value>>& operands) const {
  std::vector<TensorData> sequences, hidden, cells;
  for (std::size_t i = 0; i < directions_.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    States states = initial(operands, number);
    VKF_TRY(sequence, run_direction(rounds[i], operands, number, states));
    sequences.push_back(std::move(sequence));
    hidden.push_back(std::move(states.h));
    if (states.c) cells.push_back(*std::move(states.c));
  }
  HostResults results{joined(sequences, batch_first_ ? 2 : 1), joined(hidden, batch_first_ ? 1 : 0)};
  if (has_cell_) results.push_back(joined(cells, batch_first_ ? 1 : 0));
  return results;
}

}  // namespace vkfuse::onnx
