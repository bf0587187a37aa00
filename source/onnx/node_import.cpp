#include "onnx/node_import.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <unordered_map>

#include "onnx/known_values.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// Functions calling functions, and graphs in graphs, may not nest deeper: a sound model does not recurse.
constexpr int kMaxCallDepth = 32;
/// Inlining can square the size of a model, or worse; this many bytes of nodes may be inlined.
constexpr std::size_t kMaxInlinedBytes = std::size_t{1} << 28;
/// Every operator on a sequence makes a list of its own: this many elements may be in all of them.
constexpr std::size_t kMaxSequenceElements = std::size_t{1} << 18;

/// Whether the space-separated list holds the name.
bool lists(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == name) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

/// An attribute the row does not read could change the result: better no answer than a wrong one.
Result<void> check_attributes(const OperatorRow& row, const Attributes& attributes) {
  for (std::string_view name : attributes.names()) {
    if (!lists(row.attributes, name)) {
      return unsupported("Attribute {} of operator {} is not supported.", in_quotes(name), in_quotes(row.name));
    }
  }
  return {};
}

Result<void> check_operand_count(const OperatorRow& row, std::int64_t count) {
  const auto [least, most] = row.operands;
  if (count >= least && count <= most) return {};
  return invalid("Operator {} has {} operands; it takes {}.", in_quotes(row.name), count,
                 least == most       ? fmt::format("{}", least)
                 : most == kVariadic ? fmt::format("at least {}", least)
                                     : fmt::format("{} to {}", least, most));
}

/// Operands that are not optional are there: all of a list, which has no gaps.
Result<void> check_required(const OperatorRow& row, std::span<const Value* const> operands) {
  const auto count = static_cast<std::int64_t>(operands.size());
  const std::int64_t required = row.operands.most == kVariadic ? count : row.operands.least;
  for (std::int64_t i = 0; i < required; ++i) {
    if (operands[static_cast<std::size_t>(i)] == nullptr) {
      return invalid("Operand {} of operator {} is left out, but is not optional.", i, in_quotes(row.name));
    }
  }
  return {};
}

/// The first operand of operators on sequences is one, and no other operand.
Result<void> check_sequences(const OperatorRow& row, std::span<const Value* const> operands) {
  if (row.takes == Takes::optional) return {};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool requested = row.takes == Takes::sequences && i == 0;
    if (operands[i] == nullptr || (operands[i]->sequence != nullptr) == requested) continue;
    return invalid("Operand {} of operator {} is a {}; it must be a {}.", i, in_quotes(row.name),
                   requested ? "tensor" : "sequence", requested ? "sequence" : "tensor");
  }
  return {};
}

/// Elements of narrow types are bytes, with which nothing can be computed: they are moved and converted.
Result<void> check_narrow(const OperatorRow& row, std::span<const Value* const> operands) {
  if (row.takes == Takes::converted || row.takes == Takes::optional) return {};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const NarrowType* narrow = operands[i] == nullptr ? nullptr : operands[i]->narrow;
    if (narrow == nullptr || (row.takes == Takes::moved && narrow == operands[0]->narrow)) continue;
    return unsupported("Operand {} of operator {} is {}, which this operator does not take.", i, in_quotes(row.name),
                       narrow->name);
  }
  return {};
}

Result<void> check_operands(const OperatorRow& row, std::span<const Value* const> operands) {
  VKF_CHECK_OK(check_operand_count(row, static_cast<std::int64_t>(operands.size())));
  // Which operands of these may be left out, and what they are, is said where they are entered.
  if (row.control == Control::loop || row.control == Control::scan) return {};
  VKF_CHECK_OK(check_required(row, operands));
  VKF_CHECK_OK(check_sequences(row, operands));
  VKF_CHECK_OK(check_narrow(row, operands));
  if (row.operands.least == 0 || operands[0]->sequence || takes(row.takes, operands[0]->tensor.dtype())) return {};
  return invalid("The first operand of operator {} is {}; it takes {}.", in_quotes(row.name),
                 name_of(operands[0]->tensor.dtype()), name_of(row.takes));
}

/// A number that tells nodes with random results apart: their names, and of one body the frames it is imported in.
std::uint64_t seed_from(const pb::NodeProto& node, int frame) {
  std::uint64_t seed = 0xcbf29ce484222325 + static_cast<std::uint64_t>(frame);  // FNV-1a
  for (const char c : describe(node)) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return seed;
}

/// A result as one of a part: an element of a sequence that came from elsewhere stays of its own.
Value of_part(Value value, int part) {
  if (value.sequence) {
    std::vector<Value> elements = *value.sequence;
    for (Value& element : elements) element = element.part == kFixed ? of_part(std::move(element), part) : element;
    value.sequence = std::make_shared<const std::vector<Value>>(std::move(elements));
  } else if (!value.known) {
    value.part = part;
  }
  return value;
}

void read_outside(const pb::GraphProto& graph, std::vector<std::string_view>& names);

/// The names that a node reads, those that graphs among its attributes read from around it among them.
void names_read(const pb::NodeProto& node, std::vector<std::string_view>& names) {
  names.insert(names.end(), node.input().begin(), node.input().end());
  for (const pb::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) read_outside(attribute.g(), names);
    for (const pb::GraphProto& graph : attribute.graphs()) read_outside(graph, names);
  }
}

void read_outside(const pb::GraphProto& graph, std::vector<std::string_view>& names) {
  std::set<std::string_view> inside;
  for (const pb::ValueInfoProto& input : graph.input()) inside.insert(input.name());
  for (const pb::TensorProto& initialiser : graph.initializer()) inside.insert(initialiser.name());
  std::vector<std::string_view> read;
  for (const pb::NodeProto& node : graph.node()) {
    names_read(node, read);
    inside.insert(node.output().begin(), node.output().end());
  }
  for (const pb::ValueInfoProto& output : graph.output()) read.push_back(output.name());
  std::ranges::copy_if(read, std::back_inserter(names), [&](std::string_view name) { return !inside.contains(name); });
}

/// Which node of a graph computes which name, and what each must wait for.
class Producers {
 public:
  explicit Producers(const Nodes& nodes) : nodes_(nodes) {
    for (int i = 0; i < nodes.size(); ++i) {
      for (const std::string& name : nodes.Get(i).output()) {
        if (!name.empty()) producer_.emplace(name, i);
      }
    }
  }

  [[nodiscard]] bool is_sorted() const {
    for (int i = 0; i < nodes_.size(); ++i) {
      for (const int before : waits_for(i)) {
        if (before > i) return false;
      }
    }
    return true;
  }

  [[nodiscard]] std::vector<int> as_written() const {
    std::vector<int> order(static_cast<std::size_t>(nodes_.size()));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  /// Of the nodes that may come next always the first in the file; nothing where they form a cycle.
  [[nodiscard]] std::optional<std::vector<int>> sorted() const {
    std::vector<std::vector<int>> readers(static_cast<std::size_t>(nodes_.size()));
    std::vector<int> missing(readers.size());
    std::set<int> ready;
    for (int i = 0; i < nodes_.size(); ++i) {
      const std::set<int> before = waits_for(i);
      for (const int one : before) readers[static_cast<std::size_t>(one)].push_back(i);
      missing[static_cast<std::size_t>(i)] = static_cast<int>(before.size());
      if (before.empty()) ready.insert(i);
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int next = *ready.begin();
      ready.erase(ready.begin());
      order.push_back(next);
      for (const int reader : readers[static_cast<std::size_t>(next)]) {
        if (--missing[static_cast<std::size_t>(reader)] == 0) ready.insert(reader);
      }
    }
    return order.size() == readers.size() ? std::optional(std::move(order)) : std::nullopt;
  }

 private:
  [[nodiscard]] std::set<int> waits_for(int i) const {
    std::vector<std::string_view> names;
    names_read(nodes_.Get(i), names);
    std::set<int> before;
    for (const std::string_view name : names) {
      const auto found = producer_.find(name);
      if (found != producer_.end()) before.insert(found->second);
    }
    return before;
  }

  const Nodes& nodes_;
  std::unordered_map<std::string_view, int> producer_;
};

}  // namespace

std::string describe(const pb::NodeProto& node) {
  if (!node.name().empty()) return fmt::format("node {}", in_quotes(node.name()));
  // Exporters may leave nodes unnamed; the first output names one as well.
  return node.output_size() > 0 ? fmt::format("the node that computes {}", in_quotes(node.output(0)))
                                : "an unnamed node";
}

Result<void> check_node(const OperatorRow& row, const Attributes& attributes, std::span<const Value* const> operands) {
  VKF_CHECK_OK(check_attributes(row, attributes));
  return check_operands(row, operands);
}

std::string_view normalised(std::string_view domain) { return domain.empty() ? kOnnxDomain : domain; }

Opsets::Opsets(const OpsetImports& imports) {
  for (const pb::OperatorSetIdProto& import : imports) {
    versions_[std::string(normalised(import.domain()))] = import.version();
  }
}

std::int64_t Opsets::of(std::string_view domain) const {
  const auto found = versions_.find(normalised(domain));
  return found != versions_.end() ? found->second : 0;
}

const pb::FunctionProto* Library::find(const pb::NodeProto& node) const {
  const auto found = functions.find({normalised(node.domain()), node.op_type()});
  return found != functions.end() ? found->second : nullptr;
}

Result<Library> index_functions(const pb::ModelProto& model) {
  Library library;
  for (const pb::FunctionProto& function : model.functions()) {
    const std::pair<std::string_view, std::string_view> key{normalised(function.domain()), function.name()};
    if (!library.functions.emplace(key, &function).second) {
      return invalid("Function {} of domain {} is defined twice.", in_quotes(key.second), in_quotes(key.first));
    }
  }
  return library;
}

Value in_dtype(Value value, const std::optional<DType>& floats) {
  if (floats && !value.sequence && value.tensor.valid() && value.tensor.dtype() == DType::f32)
    value.tensor = value.tensor.cast(*floats);
  return value;
}

Result<int> NodeImport::open(Frame frame) {
  if (frame.depth > kMaxCallDepth) {
    return invalid("Operator {} is {} levels deep: it calls itself, or nests too deeply.",
                   in_quotes(frame.node->op_type()), kMaxCallDepth);
  }
  frames_.push_back(std::move(frame));
  return static_cast<int>(frames_.size()) - 1;
}

Result<void> NodeImport::define(int frame, const std::string& name, std::optional<Value> value) {
  if (name.empty()) return invalid("A value without a name cannot be used.");
  auto& values = frames_[static_cast<std::size_t>(frame)].values;
  const auto [entry, is_new] = values.try_emplace(name);
  if (!is_new && !(entry->second && entry->second->pending)) {
    return invalid("The name {} is given to two values; in ONNX each name has one.", in_quotes(name));
  }
  entry->second = std::move(value);
  return {};
}

Result<const Value*> NodeImport::find(int frame, const std::string& name, const std::string& reader) const {
  for (int at = frame; at >= 0; at = frames_[static_cast<std::size_t>(at)].parent) {
    const auto& values = frames_[static_cast<std::size_t>(at)].values;
    if (const auto found = values.find(name); found != values.end()) return found->second ? &*found->second : nullptr;
  }
  for (int at = frame; at >= 0; at = frames_[static_cast<std::size_t>(at)].parent) {
    const Nodes* nodes = frames_[static_cast<std::size_t>(at)].nodes;
    const bool computed_later = nodes != nullptr && std::ranges::any_of(*nodes, [&](const pb::NodeProto& node) {
                                  return std::ranges::find(node.output(), name) != node.output().end();
                                });
    if (!computed_later) continue;
    return invalid("{} reads {} before the node that computes it: the nodes are not sorted, or form a cycle.", reader,
                   in_quotes(name));
  }
  return invalid("{} reads {}, which is not an input, an initialiser or the output of a node.", reader,
                 in_quotes(name));
}

/// Nodes in an order that computes values before they are read: the file's own wherever it can be, and wherever there
/// is none.
const std::vector<int>& NodeImport::order_of(const Nodes& nodes, const std::string& graph) {
  const auto [entry, is_new] = orders_.try_emplace(&nodes);
  if (!is_new) return entry->second;
  const Producers producers(nodes);
  if (producers.is_sorted()) {
    entry->second = producers.as_written();
    return entry->second;
  }
  std::optional<std::vector<int>> sorted = producers.sorted();
  if (sorted)
    notes_.push_back(fmt::format(
        "The nodes of {} are not in the order in which they compute: their order in the file is ignored.", graph));
  entry->second = sorted ? *std::move(sorted) : producers.as_written();
  return entry->second;
}

void NodeImport::push_nodes(int frame) {
  const Frame& of = frames_[static_cast<std::size_t>(frame)];
  const Nodes& nodes = *of.nodes;
  const std::vector<int>& order =
      order_of(nodes, of.node == nullptr ? "the graph" : fmt::format("a graph of {}", describe(*of.node)));
  for (int i = nodes.size(); i-- > 0;) {
    Step step;
    step.node = &nodes.Get(order[static_cast<std::size_t>(i)]);
    step.frame = frame;
    left_.push_back(std::move(step));
  }
}

Result<void> NodeImport::proceed() {
  while (!left_.empty()) {
    Step step = std::move(left_.back());
    left_.pop_back();
    const pb::NodeProto* node = step.node;
    int frame = step.frame;
    std::optional<Step> again = library_.host == HostUse::allowed ? std::optional(step) : std::nullopt;
    Result<void> taken = take(std::move(step));
    if (taken) continue;
    Error error = std::move(taken).error();
    if (again) {
      VKF_TRY(waits, put_off_to_read(*std::move(again), error));
      if (waits) continue;
    }
    while (node != nullptr) {
      error = std::move(error).within(fmt::format("importing {} ({})", describe(*node), node->op_type()));
      failed_ = node;
      node = frames_[static_cast<std::size_t>(frame)].node;
      frame = frames_[static_cast<std::size_t>(frame)].caller;
    }
    return error;
  }
  return {};
}

Result<void> NodeImport::take(Step step) {
  asked_.clear();
  if (step.kind == Step::Kind::leave) return leave(std::move(step));
  if (step.kind == Step::Kind::iterate) return iterate(std::move(step));
  if (step.kind == Step::Kind::join) return join(step);
  if (step.kind == Step::Kind::modify) return take_modified(std::move(step));
  return take_node(std::move(step));
}

Result<void> NodeImport::take_node(Step step) {
  const pb::NodeProto& node = *step.node;
  const std::string_view domain = normalised(node.domain());
  const std::int64_t opset = opset_of(step);
  const pb::FunctionProto* function = library_.find(node);
  const OperatorRow* row = function == nullptr ? find_operator(domain, node.op_type(), opset) : nullptr;
  if (function == nullptr && row == nullptr) {
    const std::string opsets = opsets_of(domain, node.op_type());
    return unsupported("Operator {} (domain {}, opset {}), {}, is not supported{}.", in_quotes(node.op_type()),
                       in_quotes(domain), opset, describe(node),
                       opsets.empty() ? "" : fmt::format("; it is in opsets {}", opsets));
  }
  std::deque<Value> held;
  std::vector<const Value*> operands;
  for (const std::string& name : node.input()) {
    operands.push_back(nullptr);
    if (name.empty()) continue;
    VKF_TRY(found, find(step.frame, name, fmt::format("Operator {}", in_quotes(node.op_type()))));
    if (found == nullptr) continue;
    if (found->pending) return put_off(std::move(step));
    held.push_back(here(*found));
    operands.back() = &held.back();
  }
  if (function != nullptr) return call(*function, step, operands);
  if (has_graphs(row->control)) return enter(*row, step, operands);
  VKF_TRY(outputs, apply(*row, step, operands));
  VKF_CHECK_OK(check_outputs(outputs));
  return bind(step, std::move(outputs));
}

Result<void> NodeImport::check_outputs(const Outputs& outputs) {
  for (const Value& output : outputs) {
    if (output.sequence) {
      library_.sequence_elements += output.sequence->size();
    } else if (!output.pending && !output.is_none) {
      if (!output.tensor.valid()) return Error(output.tensor.error());
      note_promises(output.tensor);
    }
  }
  if (library_.sequence_elements > kMaxSequenceElements) {
    return unsupported("The sequences of the model have more than {} elements together.", kMaxSequenceElements);
  }
  return {};
}

void NodeImport::note_promises(const Tensor& tensor) {
  for (const Dim& dim : tensor.shape()) {
    if (!dim.is_symbol() || dim.facts().max == DimFacts().max) continue;
    std::int64_t& most = largest_.try_emplace(dim.name(), dim.facts().max).first->second;
    most = std::min(most, dim.facts().max);
  }
}

Result<Outputs> NodeImport::computed_by(const OperatorRow& row, const Step& step, const Attributes& attributes,
                                        const std::vector<const Value*>& operands) {
  NodeContext node(row, opset_of(step), step.node->output_size(), attributes, operands);
  node.note_asked(row.host != nullptr && library_.host != HostUse::never ? nullptr : &asked_);
  node.set_own_seed(seed_from(*step.node, step.frame));
  node.set_shared_caches(library_.shared_caches);
  if (library_.host != HostUse::never) node.set_most_steps(kMostStepsAtOnce);
  return row.import(node);
}

Result<Outputs> NodeImport::apply(const OperatorRow& row, const Step& step, const std::vector<const Value*>& operands) {
  Attributes attributes(*step.node, frames_[static_cast<std::size_t>(step.frame)].attributes.get());
  VKF_CHECK_OK(check_node(row, attributes, operands));
  Result<Outputs> outputs = row.import != nullptr ? computed_by(row, step, attributes, operands) : Outputs();
  if (row.import == nullptr || (!outputs && outputs.error().code == ErrorCode::unsupported))
    outputs = postponed(row, step, std::move(attributes), operands, std::move(outputs));
  if (!outputs) return outputs;
  const bool is_fixed =
      std::ranges::none_of(operands, [](const Value* operand) { return operand != nullptr && varies(*operand); });
  const NarrowType* narrow = row.takes == Takes::moved ? operands[0]->narrow : nullptr;
  for (Value& output : *outputs) {
    if (output.pending || output.is_none) continue;
    const NarrowType* type = narrow != nullptr ? narrow : output.narrow;
    output = in_dtype(folded(std::move(output), operands), library_.floats);
    output.narrow = type;
    if (!is_fixed) output = of_part(std::move(output), part_);
  }
  return outputs;
}

Result<void> NodeImport::call(const pb::FunctionProto& function, const Step& step,
                              const std::vector<const Value*>& operands) {
  library_.inlined_bytes += function.ByteSizeLong();
  if (library_.inlined_bytes > kMaxInlinedBytes) {
    return unsupported("Inlining function {} makes the model larger than {} bytes.", in_quotes(function.name()),
                       kMaxInlinedBytes);
  }
  if (static_cast<int>(operands.size()) > function.input_size()) {
    return invalid("Function {} has {} operands; it takes {}.", in_quotes(function.name()), operands.size(),
                   function.input_size());
  }
  const Frame& caller = frames_[static_cast<std::size_t>(step.frame)];
  Frame body;
  body.caller = step.frame;
  body.node = step.node;
  body.depth = caller.depth + 1;
  body.nodes = &function.node();
  body.opsets = std::make_shared<const Opsets>(function.opset_import());
  body.attributes = std::make_shared<const Attributes>(*step.node, caller.attributes.get());
  VKF_TRY(frame, open(std::move(body)));
  for (int i = 0; i < function.input_size(); ++i) {
    const Value* given = i < static_cast<int>(operands.size()) ? operands[static_cast<std::size_t>(i)] : nullptr;
    VKF_CHECK_OK(define(frame, function.input(i), given != nullptr ? std::optional(*given) : std::nullopt));
  }
  Step after = step;
  after.kind = Step::Kind::leave;
  after.body = frame;
  after.results.assign(function.output().begin(), function.output().end());
  left_.push_back(std::move(after));
  push_nodes(frame);
  return {};
}

Result<void> NodeImport::leave(Step step) {
  Outputs outputs;
  for (const std::string& name : step.results) {
    const bool is_call = frames_[static_cast<std::size_t>(step.body)].parent < 0;
    VKF_TRY(value, find(step.body, name,
                        fmt::format("The end of {} {}", is_call ? "function" : "a branch of operator",
                                    in_quotes(step.node->op_type()))));
    if (value == nullptr) {
      return invalid("Function {} returns {}, which its caller left out.", in_quotes(step.node->op_type()),
                     in_quotes(name));
    }
    if (value->pending) return put_off(std::move(step));
    outputs.push_back(*value);
  }
  // Nobody can read the names of the body any more, unless something in it was put off.
  if (put_off_.empty()) frames_[static_cast<std::size_t>(step.body)].values.clear();
  return bind(step, std::move(outputs));
}

Result<void> NodeImport::bind(const Step& step, Outputs outputs) {
  const pb::NodeProto& node = *step.node;
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;  // nobody reads it
    if (i >= static_cast<int>(outputs.size())) {
      return unsupported("Output {} ({}) of operator {} is not supported.", i, in_quotes(node.output(i)),
                         in_quotes(node.op_type()));
    }
    Value& output = outputs[static_cast<std::size_t>(i)];
    VKF_CHECK_OK(define(step.frame, node.output(i), output.is_none ? std::nullopt : std::optional(std::move(output))));
  }
  return {};
}

std::int64_t NodeImport::opset_of(const Step& step) const {
  return frames_[static_cast<std::size_t>(step.frame)].opsets->of(normalised(step.node->domain()));
}

}  // namespace vkfuse::onnx
