// If, Loop and Scan: the branch that is taken, and the iterations one after the other, stand in the place of the node.
#include <algorithm>

#include "onnx/deciding_inputs.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/known_values.hpp"
#include "onnx/node_import.hpp"
#include "onnx/operands.hpp"
#include "onnx/packed_integers.hpp"
#include "onnx/text.hpp"
#include "onnx/value_types.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::onnx {
namespace {

constexpr std::int64_t kMostIterations = 1024;
/// Loops in loops: this many nodes may come of all of them.
constexpr std::size_t kMostUnrolledNodes = std::size_t{1} << 16;
constexpr std::size_t kMostUnrolledBytes = std::size_t{1} << 26;

/// A graph among the attributes of a node.
Result<const pb::GraphProto*> graph_attribute(const Attributes& attributes, std::string_view name) {
  const pb::AttributeProto* attribute = attributes.find(name);
  if (attribute == nullptr || !attribute->has_g())
    return invalid("Attribute {} is missing; it must be a graph.", in_quotes(name));
  return &attribute->g();
}

Result<const Value*> given(const std::vector<const Value*>& operands, std::size_t i, std::string_view op) {
  if (i < operands.size() && operands[i] != nullptr) return operands[i];
  return invalid("Operand {} of operator {} is left out, but is not optional.", i, in_quotes(op));
}

Result<void> check_body(const pb::GraphProto& body, std::size_t inputs, std::size_t outputs, std::string_view op) {
  if (static_cast<std::size_t>(body.input_size()) == inputs && static_cast<std::size_t>(body.output_size()) >= outputs)
    return {};
  return invalid("The body of operator {} has {} inputs and {} outputs; there must be {}, and at least {}.",
                 in_quotes(op), body.input_size(), body.output_size(), inputs, outputs);
}

/// Where the elements of `list` for each of `count` tensors are: 0 where nothing is stated.
Result<std::vector<std::int64_t>> stated_or_zero(const Attributes& attributes, std::string_view name,
                                                 std::size_t count) {
  VKF_TRY(list, attributes.integers(name));
  if (list.empty()) list.resize(count);
  if (list.size() != count)
    return invalid("Attribute {} has {} entries; it takes {}.", in_quotes(name), list.size(), count);
  return list;
}

/// The axes and directions that a Scan states for its scanned inputs, or for its collected outputs.
struct StatedAlong {
  std::vector<std::int64_t> axes, directions;
};
Result<StatedAlong> stated_along(const Attributes& attributes, std::string_view axes_name,
                                 std::string_view directions_name, std::size_t count) {
  VKF_TRY(axes, stated_or_zero(attributes, axes_name, count));
  VKF_TRY(directions, stated_or_zero(attributes, directions_name, count));
  return StatedAlong{std::move(axes), std::move(directions)};
}

/// The operands from `first` on: the states, and after them the inputs that are scanned.
Result<void> take_scan_operands(Iterations& scan, const Attributes& attributes,
                                const std::vector<const Value*>& operands, std::size_t first) {
  VKF_TRY(scanned, attributes.integer("num_scan_inputs", 0));
  const std::size_t count = operands.size() - first;
  if (scanned < 1 || scanned > static_cast<std::int64_t>(count))
    return invalid("Attribute 'num_scan_inputs' is {}; the Scan has {} inputs.", scanned, count);
  const std::size_t states = count - static_cast<std::size_t>(scanned);
  for (std::size_t i = first; i < operands.size(); ++i) {
    VKF_TRY(value, given(operands, i, "Scan"));
    if (value->sequence) return invalid("Operand {} of operator 'Scan' is a sequence; it must be a tensor.", i);
    (i < first + states ? scan.state : scan.scanned).push_back(*value);
  }
  return {};
}

Result<void> take_scan_outputs(Iterations& scan, const StatedAlong& stated) {
  for (std::size_t i = 0; i < scan.collected.size(); ++i) {
    if (stated.axes[i] < -64 || stated.axes[i] > 64)
      return invalid("Attribute 'scan_output_axes' holds {}.", stated.axes[i]);
    scan.outputs.push_back({static_cast<int>(stated.axes[i]), stated.directions[i] != 0});
  }
  return {};
}

/// The axes of the scanned inputs, and their size, which is the number of iterations. In a batch they are the second.
Result<void> take_scan_inputs(Iterations& scan, const StatedAlong& stated, bool is_batched) {
  for (std::size_t i = 0; i < scan.scanned.size(); ++i) {
    const Shape& shape = scan.scanned[i].tensor.shape();
    if (is_batched && shape.size() < 2)
      return invalid("A scanned input of a batch has rank {}; it must be at least 2.", shape.size());
    VKF_TRY(axis, checked_axis(is_batched ? 1 : stated.axes[i], shape.size(), "Attribute 'scan_input_axes'"));
    VKF_TRY(size, static_size(shape, static_cast<std::size_t>(axis)));
    if (i > 0 && size != scan.count)
      return invalid("The scanned inputs have {} and {} elements along their axes; they must be equal.", scan.count,
                     size);
    scan.count = size;
    scan.inputs.push_back({axis, stated.directions[i] != 0});
  }
  return {};
}

/// Fails where the first dimension of one of them is not the batch.
Result<void> check_batch(const std::vector<Value>& values, std::int64_t batch) {
  for (const Value& value : values) {
    const Shape& shape = value.tensor.shape();
    if (shape.empty() || !(shape[0] == Dim(batch)))
      return invalid("An input of operator 'Scan' is {}; its first dimension must be the batch of {}.", to_text(shape),
                     batch);
  }
  return {};
}

}  // namespace

void NodeImport::ask(const Value& value) {
  if (!value.known && !value.sequence && !value.pending) asked_.push_back(value.tensor);
}

/// The only element of a condition or a count.
Result<std::int64_t> NodeImport::deciding_integer(const Value& given_value, std::string_view what) {
  const Value value = here(given_value);
  ask(value);
  if (value.sequence) return invalid("The {} is a sequence; it must be one number.", what);
  if (!value.known)
    return unsupported("The {} is only known when the program runs; it must be a constant, or computed from shapes.",
                       what);
  if (element_count(*value.known) != 1 || is_float(value.known->dtype)) {
    return invalid("The {} must be one number; it is {} of {} elements.", what, name_of(value.known->dtype),
                   element_count(*value.known));
  }
  return element_int(*value.known, 0);
}

Result<void> NodeImport::enter(const OperatorRow& row, const Step& step, std::vector<const Value*> operands) {
  const Attributes attributes(*step.node, frames_[static_cast<std::size_t>(step.frame)].attributes.get());
  VKF_CHECK_OK(check_node(row, attributes, operands));
  if (row.control == Control::branch) return branch(step, attributes, operands);
  if (row.control == Control::flex_attention) return begin_flex_attention(step, attributes, operands);
  Result<Iterations> loop =
      row.control == Control::loop ? loop_of(attributes, operands) : scan_of(row, attributes, operands);
  if (!loop) return std::move(loop).error();
  Step iterating = step;
  iterating.kind = Step::Kind::iterate;
  iterating.iterations = *std::move(loop);
  return begin_iteration(std::move(iterating));
}

Result<std::vector<std::pair<std::string, Value>>> NodeImport::initialisers_of(const pb::GraphProto& graph) const {
  if (graph.sparse_initializer_size() > 0)
    return unsupported("Graph {} has sparse initialisers, which are not supported.", in_quotes(graph.name()));
  std::vector<std::pair<std::string, Value>> result;
  for (const pb::TensorProto& initialiser : graph.initializer()) {
    VKF_TRY(value, value_from(initialiser, {}));
    result.emplace_back(initialiser.name(), in_dtype(std::move(value), library_.floats));
  }
  return result;
}

Result<int> NodeImport::open_graph(const Step& step, const pb::GraphProto& graph) {
  library_.unrolled_nodes += static_cast<std::size_t>(graph.node_size()) + 1;
  library_.inlined_bytes += graph.ByteSizeLong();
  if (library_.unrolled_nodes > kMostUnrolledNodes || library_.inlined_bytes > kMostUnrolledBytes) {
    return unsupported("Graph {} and others in it make more than {} nodes, or {} bytes of them.",
                       in_quotes(graph.name()), kMostUnrolledNodes, kMostUnrolledBytes);
  }
  const Frame& around = frames_[static_cast<std::size_t>(step.frame)];
  Frame frame;
  frame.parent = frame.caller = step.frame;
  frame.node = step.node;
  frame.depth = around.depth + 1;
  frame.nodes = &graph.node();
  frame.opsets = around.opsets;
  frame.attributes = around.attributes;
  return open(std::move(frame));
}

/// A frame for a branch, with its initialisers; its nodes are still to be pushed.
Result<int> NodeImport::open_branch(const Step& step, const pb::GraphProto& graph, std::vector<std::string>& results) {
  if (graph.input_size() > 0)
    return invalid("A branch of operator 'If' has {} inputs; it has none.", graph.input_size());
  VKF_TRY(frame, open_graph(step, graph));
  VKF_TRY(initialisers, initialisers_of(graph));
  for (auto& [name, value] : initialisers) VKF_CHECK_OK(define(frame, name, std::move(value)));
  for (const pb::ValueInfoProto& output : graph.output()) results.push_back(output.name());
  return frame;
}

Result<void> NodeImport::branch(const Step& step, const Attributes& attributes,
                                const std::vector<const Value*>& operands) {
  const Value& decides = *operands[0];
  // Inputs that may become constants decide by themselves: the other branch may be none of a sound model.
  if (!decides.known && !decides.sequence && inputs_that_decide({&decides.tensor, 1}).empty())
    return both_branches(step, attributes, decides);
  VKF_TRY(condition, deciding_integer(decides, "condition of operator 'If'"));
  VKF_TRY(graph, graph_attribute(attributes, condition != 0 ? "then_branch" : "else_branch"));
  Step after = step;
  after.kind = Step::Kind::leave;
  VKF_TRY(frame, open_branch(step, *graph, after.results));
  after.body = frame;
  left_.push_back(std::move(after));
  push_nodes(frame);
  return {};
}

Result<void> NodeImport::both_branches(const Step& step, const Attributes& attributes, const Value& condition) {
  VKF_TRY(taken, graph_attribute(attributes, "then_branch"));
  VKF_TRY(other, graph_attribute(attributes, "else_branch"));
  Step after = step;
  after.kind = Step::Kind::join;
  after.condition = condition;
  VKF_TRY(frame, open_branch(step, *taken, after.results));
  VKF_TRY(other_frame, open_branch(step, *other, after.other_results));
  after.body = frame;
  after.other_body = other_frame;
  if (after.results.size() != after.other_results.size()) {
    return invalid("The branches of operator 'If' have {} and {} outputs; they must have as many.",
                   after.results.size(), after.other_results.size());
  }
  left_.push_back(std::move(after));
  push_nodes(other_frame);
  push_nodes(frame);
  return {};
}

/// An output of an If whose condition is data: the condition selects between the branches' results. Where they do not
/// fit each other, the condition is asked for.
Result<Value> NodeImport::selected(const Step& step, std::size_t output) {
  const Value condition = here(*step.condition);
  VKF_TRY(a, find(step.body, step.results[output], "The end of a branch of operator 'If'"));
  VKF_TRY(b, find(step.other_body, step.other_results[output], "The end of a branch of operator 'If'"));
  if (a == nullptr || b == nullptr || a->pending || b->pending || a->sequence || b->sequence) {
    ask(condition);
    return unsupported(
        "The condition of operator 'If' is only known when the program runs, and output {} is a sequence or waits for "
        "the host.",
        output);
  }
  const Value first = here(*a), second = here(*b);
  if (first.tensor.shape() != second.tensor.shape() || first.tensor.dtype() != second.tensor.dtype() ||
      first.narrow != second.narrow) {
    ask(condition);
    return unsupported(
        "The condition of operator 'If' is only known when the program runs, and output {} is {}{} of one branch and "
        "{}{} of the other; they must be equal.",
        output, name_of(first.tensor.dtype()), to_text(first.tensor.shape()), name_of(second.tensor.dtype()),
        to_text(second.tensor.shape()));
  }
  VKF_TRY(chosen, computed(select(condition.tensor.reshape({}), first.tensor, second.tensor),
                           {*step.condition, first, second}));
  chosen.narrow = first.narrow;
  return chosen;
}

/// Both branches have been computed.
Result<void> NodeImport::join(const Step& step) {
  const Shape& shape = step.condition->tensor.shape();
  if (std::ranges::any_of(shape, [](const Dim& dim) { return dim != Dim(1); }))
    return invalid("The condition of operator 'If' is {}; it must have one element.", to_text(shape));
  // The host has read it, as the branches do not fit each other.
  if (const Value decides = here(*step.condition); decides.known) {
    Step taken = step;
    taken.kind = Step::Kind::leave;
    if (element_int(*decides.known, 0) == 0) {
      taken.body = step.other_body;
      taken.results = step.other_results;
    }
    return leave(std::move(taken));
  }
  Outputs outputs;
  for (std::size_t i = 0; i < step.results.size(); ++i) {
    VKF_TRY(chosen, selected(step, i));
    outputs.push_back(std::move(chosen));
  }
  VKF_CHECK_OK(check_outputs(outputs));
  return bind(step, std::move(outputs));
}

Result<Iterations> NodeImport::loop_of(const Attributes& attributes, const std::vector<const Value*>& operands) {
  Iterations loop;
  loop.is_loop = true;
  VKF_TRY(body, graph_attribute(attributes, "body"));
  loop.body = body;
  loop.count = INT64_MAX;
  if (operands[0] != nullptr) {
    VKF_TRY(count, deciding_integer(*operands[0], "trip count of operator 'Loop'"));
    loop.count = std::max<std::int64_t>(count, 0);
  }
  if (operands[1] != nullptr) loop.condition = *operands[1];
  for (std::size_t i = 2; i < operands.size(); ++i) {
    VKF_TRY(value, given(operands, i, "Loop"));
    loop.state.push_back(*value);
  }
  VKF_CHECK_OK(check_body(*body, loop.state.size() + 2, loop.state.size() + 1, "Loop"));
  loop.collected.resize(static_cast<std::size_t>(body->output_size()) - loop.state.size() - 1);
  loop.outputs.resize(loop.collected.size());
  VKF_TRY(initialisers, initialisers_of(*body));
  loop.initialisers = std::move(initialisers);
  return loop;
}

/// Fails where the sequences of a batch are not all of the length that the scanned inputs have.
Result<void> NodeImport::check_sequence_lengths(const Value& lengths, std::int64_t length) {
  ask(lengths);
  if (!lengths.known)
    return unsupported("The sequence lengths of operator 'Scan' are only known when the program runs.");
  for (std::size_t i = 0; i < element_count(*lengths.known); ++i) {
    if (element_int(*lengths.known, i) != length)
      return unsupported("A Scan over sequences of different lengths is not supported.");
  }
  return {};
}

/// Opset 8: the iterations of all sequences, one sequence after the other. `lengths` may be left out.
Result<void> NodeImport::repeat_for_batch(Iterations& scan, const Value* lengths) {
  VKF_TRY(batch, static_size(scan.scanned[0].tensor.shape(), 0));
  if (batch < 1 || batch > kMostIterations) return unsupported("A Scan over a batch of {} is not supported.", batch);
  if (lengths != nullptr) VKF_CHECK_OK(check_sequence_lengths(*lengths, scan.count));
  VKF_CHECK_OK(check_batch(scan.state, batch));
  VKF_CHECK_OK(check_batch(scan.scanned, batch));
  scan.batch = batch;
  if (scan.count == 0 || scan.count > kMostIterations)
    return unsupported("A Scan over {} elements is not supported.", scan.count);
  scan.count *= batch;
  scan.first_state = scan.state;
  scan.last_states.resize(scan.state.size());
  return {};
}

Result<Iterations> NodeImport::scan_of(const OperatorRow& row, const Attributes& attributes,
                                       const std::vector<const Value*>& operands) {
  const bool is_batched = row.until == 8;
  Iterations scan;
  VKF_TRY(body, graph_attribute(attributes, "body"));
  scan.body = body;
  VKF_CHECK_OK(take_scan_operands(scan, attributes, operands, is_batched ? 1 : 0));
  const std::size_t states = scan.state.size();
  VKF_CHECK_OK(check_body(*body, states + scan.scanned.size(), states, "Scan"));
  scan.collected.resize(static_cast<std::size_t>(body->output_size()) - states);
  const std::string_view directions = is_batched ? "directions" : "scan_input_directions";
  VKF_TRY(inputs, stated_along(attributes, "scan_input_axes", directions, scan.scanned.size()));
  VKF_TRY(outputs, stated_along(attributes, "scan_output_axes", "scan_output_directions", scan.collected.size()));
  VKF_CHECK_OK(take_scan_outputs(scan, outputs));
  VKF_CHECK_OK(take_scan_inputs(scan, inputs, is_batched));
  if (is_batched) VKF_CHECK_OK(repeat_for_batch(scan, operands[0]));
  VKF_TRY(initialisers, initialisers_of(*body));
  scan.initialisers = std::move(initialisers);
  return scan;
}

/// What is computed from values here: folded where they are known, else of this part.
Result<Value> NodeImport::computed(Tensor tensor, const std::vector<Value>& from) const {
  if (!tensor.valid()) return Error(tensor.error());
  std::vector<const Value*> operands;
  bool is_fixed = true;
  for (const Value& value : from) {
    operands.push_back(&value);
    is_fixed = is_fixed && (value.known || value.part == kFixed);
  }
  Value result = folded(Value(std::move(tensor)), operands);
  if (!is_fixed && !result.known) result.part = part_;
  return result;
}

Result<std::vector<Value>> NodeImport::inputs_of(const Iterations& loop) const {
  if (loop.is_loop) {
    const std::byte yes{1};
    std::vector<Value> inputs{constant_value(int64_data({}, {loop.done})),
                              constant_value({{}, DType::boolean, {}, {yes}})};
    inputs.insert(inputs.end(), loop.state.begin(), loop.state.end());
    return inputs;
  }
  const std::int64_t length = loop.batch > 0 ? loop.count / loop.batch : loop.count;
  const std::int64_t sequence = loop.done / length, at = loop.done % length;
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < loop.state.size(); ++i) {
    if (loop.batch == 0 || at > 0) {
      inputs.push_back(loop.state[i]);
      continue;
    }
    const Value all = here(loop.first_state[i]);
    VKF_TRY(first, computed(all.tensor.select(0, sequence), {all}));
    inputs.push_back(std::move(first));
  }
  for (std::size_t i = 0; i < loop.scanned.size(); ++i) {
    const Value all = here(loop.scanned[i]);
    const Iterations::Along& how = loop.inputs[i];
    const std::int64_t index = how.reversed ? length - 1 - at : at;
    const Tensor one =
        loop.batch > 0 ? all.tensor.select(0, sequence).select(0, index) : all.tensor.select(how.axis, index);
    VKF_TRY(element, computed(one, {all}));
    inputs.push_back(std::move(element));
  }
  return inputs;
}

Result<void> NodeImport::begin_iteration(Step step) {
  Iterations& loop = *step.iterations;
  bool goes_on = loop.done < loop.count;
  if (goes_on && loop.condition) {
    VKF_TRY(condition, deciding_integer(*loop.condition,
                                        fmt::format("condition of operator 'Loop' after {} iterations", loop.done)));
    goes_on = condition != 0;
  }
  if (!goes_on) {
    VKF_TRY(outputs, results_of(loop));
    VKF_CHECK_OK(check_outputs(outputs));
    return bind(step, std::move(outputs));
  }
  if (loop.done / std::max<std::int64_t>(loop.batch, 1) >= kMostIterations) {
    return unsupported("Operator {} has more than {} iterations.", in_quotes(step.node->op_type()), kMostIterations);
  }
  VKF_TRY(frame, open_graph(step, *loop.body));
  for (const auto& [name, value] : loop.initialisers) VKF_CHECK_OK(define(frame, name, value));
  VKF_TRY(inputs, inputs_of(loop));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    VKF_CHECK_OK(define(frame, loop.body->input(static_cast<int>(i)).name(), std::move(inputs[i])));
  step.body = frame;
  step.results.clear();
  for (const pb::ValueInfoProto& output : loop.body->output()) step.results.push_back(output.name());
  left_.push_back(std::move(step));
  push_nodes(frame);
  return {};
}

/// Fails where a value that is not known decides whether another iteration follows, before anything is taken.
Result<void> NodeImport::check_goes_on(const Step& step) {
  const Iterations& loop = *step.iterations;
  if (!loop.is_loop || loop.done + 1 >= loop.count) return {};
  VKF_TRY(condition, find(step.body, step.results[0], "The end of an iteration"));
  VKF_TRY(goes_on,
          deciding_integer(*condition, fmt::format("condition of operator 'Loop' after {} iterations", loop.done + 1)));
  static_cast<void>(goes_on);
  return {};
}

/// The end of an iteration; those whose results wait are put off.
Result<void> NodeImport::iterate(Step step) {
  for (const std::string& name : step.results) {
    VKF_TRY(value, find(step.body, name, fmt::format("The body of operator {}", in_quotes(step.node->op_type()))));
    if (value == nullptr)
      return invalid("The body of operator {} returns {}, which its caller left out.", in_quotes(step.node->op_type()),
                     in_quotes(name));
    if (value->pending) return put_off(std::move(step));
  }
  VKF_CHECK_OK(check_goes_on(step));
  VKF_CHECK_OK(take_results(step, *step.iterations));
  if (put_off_.empty()) frames_[static_cast<std::size_t>(step.body)].values.clear();
  return begin_iteration(std::move(step));
}

Result<void> NodeImport::take_results(const Step& step, Iterations& loop) {
  std::vector<Value> results;
  for (const std::string& name : step.results) {
    VKF_TRY(value, find(step.body, name, "The end of an iteration"));
    results.push_back(*value);
  }
  std::size_t next = 0;
  if (loop.is_loop) loop.condition = results[next++];
  for (Value& state : loop.state) state = std::move(results[next++]);
  for (auto& values : loop.collected) {
    if (results[next].sequence)
      return invalid("Output {} of the body is a sequence; what is put together from all iterations are tensors.",
                     next);
    values.push_back(std::move(results[next++]));
  }
  ++loop.done;
  if (loop.batch > 0 && loop.done % (loop.count / loop.batch) == 0) {
    for (std::size_t i = 0; i < loop.state.size(); ++i) loop.last_states[i].push_back(loop.state[i]);
  }
  return {};
}

/// One tensor with an axis that counts the values.
Result<Value> NodeImport::joined(const std::vector<Value>& values, const Iterations::Along& how,
                                 const pb::ValueInfoProto& output) const {
  if (values.empty()) {
    VKF_TRY(type, input_type(output, {}));
    VKF_TRY(sizes, static_sizes(type.shape));
    VKF_TRY(axis, checked_axis(how.axis, sizes.size() + 1, "Attribute 'scan_output_axes'"));
    sizes.insert(sizes.begin() + axis, 0);
    return in_dtype(constant_value({{}, type.dtype, std::move(sizes), {}}), library_.floats);
  }
  std::vector<Value> all;
  for (const Value& value : values) all.push_back(here(value));
  if (how.reversed) std::ranges::reverse(all);
  std::vector<Tensor> parts;
  for (const Value& value : all) {
    VKF_TRY(axis, checked_axis(how.axis, value.tensor.shape().size() + 1, "Attribute 'scan_output_axes'"));
    parts.push_back(value.tensor.unsqueeze(axis));
  }
  const std::size_t rank = parts[0].valid() ? parts[0].shape().size() : 1;
  VKF_TRY(axis, checked_axis(how.axis, rank, "Attribute 'scan_output_axes'"));
  return computed(parts.size() == 1 ? parts[0] : concat(parts, axis), all);
}

Result<Outputs> NodeImport::results_of(const Iterations& loop) const {
  Outputs outputs;
  const int first = loop.is_loop ? 1 : 0;
  const int states = static_cast<int>(loop.state.size());
  for (int i = 0; i < states; ++i) {
    if (loop.batch == 0) {
      outputs.push_back(loop.state[static_cast<std::size_t>(i)]);
      continue;
    }
    VKF_TRY(all, joined(loop.last_states[static_cast<std::size_t>(i)], {}, loop.body->output(first + i)));
    outputs.push_back(std::move(all));
  }
  for (std::size_t i = 0; i < loop.collected.size(); ++i) {
    VKF_TRY(all, joined(loop.collected[i], loop.outputs[i], loop.body->output(first + states + static_cast<int>(i))));
    if (loop.batch > 0) {
      Shape shape = all.tensor.shape();
      shape[0] = loop.count / loop.batch;
      shape.insert(shape.begin(), Dim(loop.batch));
      VKF_TRY(split, computed(all.tensor.reshape(shape), {all}));
      all = std::move(split);
    }
    outputs.push_back(std::move(all));
  }
  return outputs;
}

}  // namespace vkfuse::onnx
