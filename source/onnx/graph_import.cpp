#include "onnx/graph_import.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "onnx/host_tensor.hpp"
#include "onnx/known_values.hpp"
#include "onnx/operator_table.hpp"
#include "onnx/packed_integers.hpp"
#include "onnx/tensor_proto.hpp"
#include "onnx/text.hpp"
#include "onnx/value_types.hpp"

namespace vkfuse::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<pb::NodeProto>;
using OpsetImports = google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>;

/// Functions calling functions may not nest deeper: a sound model does not recurse.
constexpr int kMaxCallDepth = 32;
/// Inlining can square the size of a model, or worse; this many bytes of nodes may be inlined.
constexpr std::size_t kMaxInlinedBytes = std::size_t{1} << 28;

/// Every operator on a sequence makes a list of its own: this many elements may be in all of them.
constexpr std::size_t kMaxSequenceElements = std::size_t{1} << 18;

std::string_view normalised(std::string_view domain) { return domain.empty() ? kOnnxDomain : domain; }

/// Opset versions by domain.
class Opsets {
 public:
  explicit Opsets(const OpsetImports& imports) {
    for (const pb::OperatorSetIdProto& import : imports) {
      versions_[std::string(normalised(import.domain()))] = import.version();
    }
  }
  /// The version a model imports of a domain, or 0.
  [[nodiscard]] std::int64_t of(std::string_view domain) const {
    const auto found = versions_.find(normalised(domain));
    return found != versions_.end() ? found->second : 0;
  }

 private:
  std::map<std::string, std::int64_t, std::less<>> versions_;
};

/// The model-local functions, and what importing them has taken so far.
struct Library {
  std::map<std::pair<std::string_view, std::string_view>, const pb::FunctionProto*> functions;
  std::optional<DType> floats;  ///< what f32 becomes
  std::size_t inlined_bytes = 0;
  std::size_t sequence_elements = 0;

  [[nodiscard]] const pb::FunctionProto* find(const pb::NodeProto& node) const {
    const auto found = functions.find({normalised(node.domain()), node.op_type()});
    return found != functions.end() ? found->second : nullptr;
  }
};

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

std::string describe(const pb::NodeProto& node) {
  if (!node.name().empty()) return fmt::format("node {}", in_quotes(node.name()));
  // Exporters may leave nodes unnamed; the first output names one as well.
  return node.output_size() > 0 ? fmt::format("the node that computes {}", in_quotes(node.output(0)))
                                : "an unnamed node";
}

/// The names of one graph or one function body, and the nodes imported so far. Names of an outer
/// scope are not visible inside a function.
class Scope {
 public:
  /// `caller` holds the attributes of the call; null for the main graph.
  Scope(Library& library, const Opsets& opsets, const Nodes& nodes, const Attributes* caller, int depth)
      : library_(library), opsets_(opsets), nodes_(nodes), caller_(caller), depth_(depth) {}

  /// Gives a name its value; `nullopt` stands for an operand that a caller left out.
  Result<void> define(const std::string& name, std::optional<Value> value);
  Result<void> import_nodes();
  /// The value of a name (null if left out), or why there is none; `reader` says who asks.
  [[nodiscard]] Result<const Value*> find(const std::string& name, const std::string& reader) const;

 private:
  Result<void> import_node(const pb::NodeProto& node);
  Result<Outputs> evaluate(const pb::NodeProto& node);
  Result<Outputs> apply(const OperatorRow& row, std::int64_t opset, const pb::NodeProto& node,
                        std::vector<const Value*> inputs);
  Result<Outputs> call(const pb::FunctionProto& function, const pb::NodeProto& node,
                       std::span<const Value* const> inputs);
  Result<void> bind(const pb::NodeProto& node, Outputs outputs);
  [[nodiscard]] Result<std::vector<const Value*>> operands_of(const pb::NodeProto& node) const;

  Library& library_;
  const Opsets& opsets_;
  const Nodes& nodes_;
  const Attributes* caller_;
  int depth_;
  std::map<std::string, std::optional<Value>, std::less<>> values_;
};

Result<void> Scope::define(const std::string& name, std::optional<Value> value) {
  if (name.empty()) return invalid("A value without a name cannot be used.");
  if (!values_.emplace(name, std::move(value)).second) {
    return invalid("The name {} is given to two values; in ONNX each name has one.", in_quotes(name));
  }
  return {};
}

Result<const Value*> Scope::find(const std::string& name, const std::string& reader) const {
  if (const auto found = values_.find(name); found != values_.end()) {
    return found->second ? &*found->second : nullptr;
  }
  const bool computed_later = std::ranges::any_of(
      nodes_, [&](const pb::NodeProto& node) { return std::ranges::find(node.output(), name) != node.output().end(); });
  if (computed_later) {
    return invalid("{} reads {} before the node that computes it: the nodes are not sorted, or form a cycle.", reader,
                   in_quotes(name));
  }
  return invalid("{} reads {}, which is not an input, an initialiser or the output of a node.", reader,
                 in_quotes(name));
}

Result<void> Scope::import_nodes() {
  for (const pb::NodeProto& node : nodes_) {
    if (Result<void> imported = import_node(node); !imported) {
      return std::move(imported).error().within(fmt::format("importing {} ({})", describe(node), node.op_type()));
    }
  }
  return {};
}

Result<void> Scope::import_node(const pb::NodeProto& node) {
  VKF_TRY(outputs, evaluate(node));
  for (const Value& output : outputs) {
    if (output.sequence) {
      library_.sequence_elements += output.sequence->size();
    } else if (!output.tensor.valid()) {
      return Error(output.tensor.error());
    }
  }
  if (library_.sequence_elements > kMaxSequenceElements) {
    return unsupported("The sequences of the model have more than {} elements together.", kMaxSequenceElements);
  }
  return bind(node, std::move(outputs));
}

Result<std::vector<const Value*>> Scope::operands_of(const pb::NodeProto& node) const {
  std::vector<const Value*> operands;
  for (const std::string& name : node.input()) {
    const Value* value = nullptr;
    if (!name.empty()) {
      VKF_TRY(found, find(name, fmt::format("Operator {}", in_quotes(node.op_type()))));
      value = found;
    }
    operands.push_back(value);
  }
  return operands;
}

Result<Outputs> Scope::evaluate(const pb::NodeProto& node) {
  const std::string_view domain = normalised(node.domain());
  const std::int64_t opset = opsets_.of(domain);
  const pb::FunctionProto* function = library_.find(node);
  const OperatorRow* row = function == nullptr ? find_operator(domain, node.op_type(), opset) : nullptr;
  if (function == nullptr && row == nullptr) {
    return unsupported("Operator {} (domain {}, opset {}), {}, is not supported.", in_quotes(node.op_type()),
                       in_quotes(domain), opset, describe(node));
  }
  VKF_TRY(operands, operands_of(node));
  return function != nullptr ? call(*function, node, operands) : apply(*row, opset, node, std::move(operands));
}

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

Result<void> check_operands(const OperatorRow& row, std::span<const Value* const> operands) {
  const auto count = static_cast<std::int64_t>(operands.size());
  if (count < row.operands.least || count > row.operands.most) {
    return invalid("Operator {} has {} operands; it takes {}.", in_quotes(row.name), count,
                   row.operands.least == row.operands.most ? fmt::format("{}", row.operands.least)
                   : row.operands.most == kVariadic        ? fmt::format("at least {}", row.operands.least)
                                                    : fmt::format("{} to {}", row.operands.least, row.operands.most));
  }
  // A list has no gaps.
  const std::int64_t required = row.operands.most == kVariadic ? count : row.operands.least;
  for (std::int64_t i = 0; i < required; ++i) {
    if (operands[static_cast<std::size_t>(i)] == nullptr) {
      return invalid("Operand {} of operator {} is left out, but is not optional.", i, in_quotes(row.name));
    }
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool wanted = row.takes == Takes::sequences && i == 0;
    if (operands[i] == nullptr || (operands[i]->sequence != nullptr) == wanted) continue;
    return invalid("Operand {} of operator {} is a {}; it must be a {}.", i, in_quotes(row.name),
                   wanted ? "tensor" : "sequence", wanted ? "sequence" : "tensor");
  }
  if (row.operands.least == 0 || row.takes == Takes::sequences || takes(row.takes, operands[0]->tensor.dtype())) return {};
  return invalid("The first operand of operator {} is {}; it takes {}.", in_quotes(row.name),
                 name_of(operands[0]->tensor.dtype()), name_of(row.takes));
}

/// A value in what f32 becomes. Its elements, where they are known, stay exact: sizes are computed from them.
Value in_dtype(Value value, const std::optional<DType>& floats) {
  if (floats && !value.sequence && value.tensor.valid() && value.tensor.dtype() == DType::f32) value.tensor = value.tensor.cast(*floats);
  return value;
}

Result<Outputs> Scope::apply(const OperatorRow& row, std::int64_t opset, const pb::NodeProto& node,
                             std::vector<const Value*> inputs) {
  Attributes attributes(node, caller_);
  VKF_CHECK_OK(check_attributes(row, attributes));
  VKF_CHECK_OK(check_operands(row, inputs));
  VKF_TRY(outputs, row.import(NodeContext(row, opset, node.output_size(), std::move(attributes), inputs)));
  for (Value& output : outputs) output = in_dtype(folded(std::move(output), inputs), library_.floats);
  return outputs;
}

Result<Outputs> Scope::call(const pb::FunctionProto& function, const pb::NodeProto& node,
                            std::span<const Value* const> inputs) {
  if (depth_ == kMaxCallDepth) {
    return invalid("Function {} is called {} levels deep: it calls itself, or nests too deeply.",
                   in_quotes(function.name()), kMaxCallDepth);
  }
  library_.inlined_bytes += function.ByteSizeLong();
  if (library_.inlined_bytes > kMaxInlinedBytes) {
    return unsupported("Inlining function {} makes the model larger than {} bytes.", in_quotes(function.name()),
                       kMaxInlinedBytes);
  }
  if (static_cast<int>(inputs.size()) > function.input_size()) {
    return invalid("Function {} has {} operands; it takes {}.", in_quotes(function.name()), inputs.size(),
                   function.input_size());
  }
  const Attributes attributes(node, caller_);
  const Opsets opsets(function.opset_import());
  Scope body(library_, opsets, function.node(), &attributes, depth_ + 1);
  for (int i = 0; i < function.input_size(); ++i) {
    const bool given = i < static_cast<int>(inputs.size()) && inputs[static_cast<std::size_t>(i)] != nullptr;
    VKF_CHECK_OK(
        body.define(function.input(i), given ? std::optional(*inputs[static_cast<std::size_t>(i)]) : std::nullopt));
  }
  VKF_CHECK_OK(body.import_nodes());
  Outputs outputs;
  for (const std::string& name : function.output()) {
    VKF_TRY(value, body.find(name, fmt::format("The end of function {}", in_quotes(function.name()))));
    if (value == nullptr)
      return invalid("Function {} returns {}, which its caller left out.", in_quotes(function.name()), in_quotes(name));
    outputs.push_back(*value);
  }
  return outputs;
}

Result<void> Scope::bind(const pb::NodeProto& node, Outputs outputs) {
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;  // nobody reads it
    if (i >= static_cast<int>(outputs.size())) {
      return unsupported("Output {} ({}) of operator {} is not supported.", i, in_quotes(node.output(i)),
                         in_quotes(node.op_type()));
    }
    VKF_CHECK_OK(define(node.output(i), std::move(outputs[static_cast<std::size_t>(i)])));
  }
  return {};
}

/// The main graph: initialisers and inputs, then the nodes, then the outputs.
class ModelImport {
 public:
  ModelImport(const pb::ModelProto& model, const std::filesystem::path& folder, const OnnxOptions& options,
              Library& library)
      : graph_(model.graph()),
        folder_(folder),
        options_(options),
        sized_(options),
        opsets_(model.opset_import()),
        scope_(library, opsets_, graph_.node(), nullptr, 0) {
    result_.name = graph_.name();
    result_.opset = opsets_.of(kOnnxDomain);
  }

  Result<OnnxModel> run() {
    VKF_CHECK_OK(check_known_names());
    for (const pb::ValueInfoProto& info : graph_.input()) VKF_CHECK_OK(take_sizes(info, sized_));
    VKF_CHECK_OK(import_initialisers());
    VKF_CHECK_OK(import_inputs());
    VKF_CHECK_OK(scope_.import_nodes());
    VKF_CHECK_OK(import_outputs());
    return std::move(result_);
  }

 private:
  Result<void> check_known_names() const;
  Result<void> import_initialisers();
  [[nodiscard]] Result<Value> converted_from(const pb::TensorProto& initialiser) const;
  Result<void> import_inputs();
  Result<void> import_outputs();
  Result<void> define_known_input(const pb::ValueInfoProto& info, const TensorType& type, const TensorData& data);

  const pb::GraphProto& graph_;
  const std::filesystem::path& folder_;
  const OnnxOptions& options_;
  OnnxOptions sized_;  ///< with a size for every symbol that the sizes of inputs decide
  Opsets opsets_;
  Scope scope_;
  OnnxModel result_;
};

/// A misspelt name would otherwise change nothing and say nothing.
Result<void> ModelImport::check_known_names() const {
  for (const auto& entry : options_.known_inputs) {
    const std::string& name = entry.first;
    const bool exists =
        std::ranges::any_of(graph_.input(), [&](const pb::ValueInfoProto& info) { return info.name() == name; });
    if (!exists) return invalid("The known input {} is not an input of the graph.", in_quotes(name));
  }
  return {};
}

/// A weight in what f32 becomes: rounded here, so that the program holds it in half the bytes.
Result<Value> ModelImport::converted_from(const pb::TensorProto& initialiser) const {
  if (!options_.floats || initialiser.data_type() != pb::TensorProto::FLOAT) return value_from(initialiser, folder_);
  VKF_TRY(data, decode_tensor(initialiser, folder_));
  Value value = constant_value(converted(data, *options_.floats));
  if (value.known) value.known = std::make_shared<const TensorData>(std::move(data));
  return value;
}

Result<void> ModelImport::import_initialisers() {
  if (graph_.sparse_initializer_size() > 0)
    return unsupported(
        "The model has sparse initialisers, which are not "
        "supported.");
  for (const pb::TensorProto& initialiser : graph_.initializer()) {
    VKF_TRY(value, converted_from(initialiser));
    VKF_CHECK_OK(scope_.define(initialiser.name(), std::move(value)));
  }
  return {};
}

Result<void> ModelImport::import_inputs() {
  std::set<std::string_view> initialisers;
  for (const pb::TensorProto& tensor : graph_.initializer()) initialisers.insert(tensor.name());
  for (const pb::ValueInfoProto& info : graph_.input()) {
    // Before IR version 4 every initialiser was listed as an input too.
    if (initialisers.contains(info.name())) continue;
    VKF_TRY(type, input_type(info, sized_));
    if (const auto known = options_.known_inputs.find(info.name()); known != options_.known_inputs.end()) {
      VKF_CHECK_OK(define_known_input(info, type, known->second));
      continue;
    }
    if (options_.floats && type.dtype == DType::f32) type.dtype = *options_.floats;
    Tensor input = Tensor::input(info.name(), type.dtype, type.shape);
    if (!input.valid()) return Error(input.error());
    VKF_CHECK_OK(scope_.define(info.name(), input));
    result_.inputs.push_back(std::move(input));
    result_.input_names.push_back(info.name());
  }
  return {};
}

Result<void> ModelImport::define_known_input(const pb::ValueInfoProto& info, const TensorType& type,
                                             const TensorData& data) {
  bool agrees = data.dtype == type.dtype && data.sizes.size() == type.shape.size();
  for (std::size_t axis = 0; agrees && axis < data.sizes.size(); ++axis) {
    agrees = type.shape[axis].is_symbol() || type.shape[axis].size() == data.sizes[axis];
  }
  const Result<std::int64_t> bytes = byte_count(data.dtype, data.sizes);
  if (!agrees || !bytes || *bytes != static_cast<std::int64_t>(data.bytes.size())) {
    return invalid("The known input {} is {}[{}] in {} bytes; the graph takes {}.", in_quotes(info.name()),
                   name_of(data.dtype), fmt::join(data.sizes, ", "), data.bytes.size(), to_text(type));
  }
  return scope_.define(info.name(), in_dtype(constant_value(data), options_.floats));
}

Result<void> ModelImport::import_outputs() {
  if (graph_.output_size() == 0) return invalid("The graph has no outputs.");
  for (const pb::ValueInfoProto& info : graph_.output()) {
    VKF_TRY(value, scope_.find(info.name(), "The list of graph outputs"));
    if (value->sequence) return unsupported("Output {} is a sequence, which is not supported.", in_quotes(info.name()));
    VKF_CHECK_OK(check_output(info, value->tensor, options_.floats));
    result_.outputs.push_back(value->tensor);
    result_.output_names.push_back(info.name());
  }
  return {};
}

}  // namespace

Result<OnnxModel> import_model(const pb::ModelProto& model, const std::filesystem::path& folder,
                               const OnnxOptions& options) {
  VKF_TRY(library, index_functions(model));
  if (options.floats && options.floats != DType::f16 && options.floats != DType::bf16) {
    return invalid("The floats of a model cannot become {}; they become f16 or bf16.", name_of(*options.floats));
  }
  library.floats = options.floats;
  ModelImport import(model, folder, options, library);
  return import.run();
}

}  // namespace vkfuse::onnx
