// Nodes that wait: for what the host computes between parts, for values that it reads because they decide, and for
// rounds of kernels; and what later parts read of earlier ones.
#include <algorithm>

#include "api/tensor_node.hpp"
#include "onnx/deciding_inputs.hpp"
#include "onnx/host_operators.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/node_import.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// What the host may compute during import: larger operands wait for the run.
constexpr std::size_t kMostFoldedOnHost = 4096;

void names_in(const pb::NodeProto& node, std::vector<std::string>& names) {
  names.insert(names.end(), node.input().begin(), node.input().end());
  const auto of_graph = [&](const pb::GraphProto& graph) {
    for (const pb::NodeProto& inner : graph.node()) names_in(inner, names);
    for (const pb::ValueInfoProto& output : graph.output()) names.push_back(output.name());
  };
  for (const pb::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) of_graph(attribute.g());
    for (const pb::GraphProto& graph : attribute.graphs()) of_graph(graph);
  }
}

/// By the host, for what they decide: their number is known.
bool can_be_read(const Shape& shape) { return std::ranges::none_of(shape, &Dim::is_symbol) && may_be_few(shape); }

}  // namespace

Result<HostTypes> largest_results(const HostStep& step) {
  if (step.recurrence) return step.recurrence->types();
  std::vector<const Value*> operands;
  for (const std::optional<Value>& operand : step.operands) operands.push_back(operand ? &*operand : nullptr);
  return step.row->most(
      NodeContext(*step.row, step.opset, step.node->output_size(), step.attributes, std::move(operands)));
}

/// What has no kernels in this part waits for the host, or for rounds of kernels; else it stays refused.
Result<Outputs> NodeImport::postponed(const OperatorRow& row, const Step& step, Attributes attributes,
                                      const std::vector<const Value*>& operands, Result<Outputs> refused) {
  if (row.host != nullptr) return on_host(row, step, std::move(attributes), operands);
  if (row.control == Control::recurrence && library_.host == HostUse::allowed)
    return in_rounds(row, step, attributes, operands);
  return refused;
}

Result<Outputs> NodeImport::on_host(const OperatorRow& row, const Step& step, Attributes attributes,
                                    const std::vector<const Value*>& operands) {
  const auto is_small = [](const Value* operand) {
    return operand == nullptr || (operand->known && element_count(*operand->known) <= kMostFoldedOnHost);
  };
  if (std::ranges::all_of(operands, is_small)) {
    VKF_TRY(results,
            row.host(NodeContext(row, opset_of(step), step.node->output_size(), std::move(attributes), operands)));
    Outputs outputs;
    for (TensorData& result : results) outputs.push_back(constant_value(std::move(result)));
    return outputs;
  }
  if (library_.host != HostUse::allowed) {
    return unsupported(
        "The shape that operator {} computes depends on data, so that it runs on the host between kernels, which is "
        "not allowed here.",
        in_quotes(row.name));
  }
  HostStep waiting{&row, opset_of(step), std::move(attributes), describe(*step.node), {}, step.node, step.frame};
  for (const Value* operand : operands)
    waiting.operands.push_back(operand != nullptr ? std::optional(*operand) : std::nullopt);
  host_steps_.push_back(std::move(waiting));
  return Outputs(static_cast<std::size_t>(step.node->output_size()), pending_value());
}

/// A sequence that is too long to be planned at once.
Result<Outputs> NodeImport::in_rounds(const OperatorRow& row, const Step& step, const Attributes& attributes,
                                      const std::vector<const Value*>& operands) {
  const NodeContext node(row, opset_of(step), step.node->output_size(), attributes, operands);
  VKF_TRY(recurrence,
          LongRecurrence::make(node, *step.node, frames_[static_cast<std::size_t>(step.frame)].attributes.get()));
  HostStep waiting{&row, opset_of(step), attributes, describe(*step.node), {}, step.node, step.frame};
  for (int i = 0; i < node.inputs(); ++i)
    waiting.operands.push_back(recurrence->reads(i) ? std::optional(node.value(i)) : std::nullopt);
  waiting.recurrence = std::move(recurrence);
  host_steps_.push_back(std::move(waiting));
  return Outputs(static_cast<std::size_t>(step.node->output_size()), pending_value());
}

Result<void> NodeImport::put_off(Step step) {
  for (const std::string& name : step.node->output()) {
    if (!name.empty() && step.frame >= 0) VKF_CHECK_OK(define(step.frame, name, pending_value()));
  }
  put_off_.push_back(std::move(step));
  return {};
}

Result<bool> NodeImport::put_off_to_read(Step step, const Error& failure) {
  // What runs are given decides by itself: such an input becomes a constant of the program.
  if (failure.code != ErrorCode::unsupported || (part_ == 0 && !inputs_that_decide(asked_).empty())) return false;
  HostStep reading{&reading_row(), 0,   Attributes(*step.node, nullptr), describe(*step.node), {}, step.node,
                   step.frame,     true};
  for (const Tensor& tensor : asked_) {
    if (!tensor.valid() || read_.contains(tensor.node().get()) || !can_be_read(tensor.shape())) continue;
    Value operand(tensor);
    operand.part = part_;
    reading.operands.emplace_back(std::move(operand));
  }
  if (reading.operands.empty()) return false;
  host_steps_.push_back(std::move(reading));
  VKF_CHECK_OK(put_off(std::move(step)));
  return true;
}

void NodeImport::take_read(const HostStep& step, const HostResults& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensor& tensor = step.operands[i]->tensor;
    read_.insert_or_assign(tensor.node().get(), Read{tensor, std::make_shared<const TensorData>(values[i])});
  }
}

const TensorData* NodeImport::read_value(const Value& value) const {
  if (read_.empty() || value.known || value.pending || value.sequence) return nullptr;
  const Tensor::Node* node = value.tensor.node().get();
  const auto brought = brought_.find(node);
  for (const Tensor::Node* one : {node, brought == brought_.end() ? nullptr : brought->second.as.node().get()}) {
    if (const auto found = read_.find(one); found != read_.end()) return found->second.data.get();
  }
  return nullptr;
}

Result<void> NodeImport::define_results(const HostStep& step, const std::vector<Value>& results) {
  Step bound;
  bound.node = step.node;
  bound.frame = step.frame;
  return bind(bound, results);
}

void NodeImport::begin_next_part() {
  ++part_;
  host_steps_.clear();
  left_.assign(std::make_move_iterator(put_off_.rbegin()), std::make_move_iterator(put_off_.rend()));
  put_off_.clear();
}

void NodeImport::bring(const Value& value, const Tensor& as) {
  brought_.insert_or_assign(value.tensor.node().get(), Brought{value.tensor, as});
}

Value NodeImport::here(const Value& value) const {
  if (value.sequence) {
    std::vector<Value> elements;
    for (const Value& element : *value.sequence) elements.push_back(here(element));
    Value result = value;
    result.sequence = std::make_shared<const std::vector<Value>>(std::move(elements));
    return result;
  }
  if (const TensorData* data = read_value(value)) {
    Value result = constant_value(*data);
    result.narrow = value.narrow;
    return result;
  }
  if (!varies(value) || value.part == part_ || std::holds_alternative<ir::InputPayload>(value.tensor.node()->payload))
    return value;
  const auto found = brought_.find(value.tensor.node().get());
  check(found != brought_.end(), "a value of an earlier part was not kept");
  Value result = value;
  result.tensor = found->second.as;
  result.part = part_;
  return result;
}

void NodeImport::look_up(const std::vector<std::string>& names, int frame, std::vector<Value>& found) const {
  for (const std::string& name : names) {
    for (int at = frame; at >= 0; at = frames_[static_cast<std::size_t>(at)].parent) {
      const auto& values = frames_[static_cast<std::size_t>(at)].values;
      const auto value = values.find(name);
      if (value == values.end()) continue;
      if (value->second && !value->second->pending) found.push_back(*value->second);
      break;
    }
  }
}

std::vector<Value> NodeImport::read_later() const {
  std::vector<Value> found;
  for (const Step& step : put_off_) {
    std::vector<std::string> names;
    if (step.kind != Step::Kind::leave) names_in(*step.node, names);
    look_up(names, step.frame, found);
    look_up(step.results, step.body, found);
    look_up(step.other_results, step.other_body, found);
    if (step.condition) found.push_back(*step.condition);
    if (!step.iterations) continue;
    const Iterations& loop = *step.iterations;
    const auto add = [&](const std::vector<Value>& values) { found.insert(found.end(), values.begin(), values.end()); };
    add(loop.state);
    add(loop.scanned);
    add(loop.first_state);
    for (const auto& values : loop.collected) add(values);
    for (const auto& values : loop.last_states) add(values);
  }
  return found;
}

}  // namespace vkfuse::onnx
