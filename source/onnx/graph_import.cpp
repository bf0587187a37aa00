#include "onnx/graph_import.hpp"

#include <algorithm>
#include <set>

#include "api/tensor_node.hpp"
#include "onnx/deciding_inputs.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/packed_integers.hpp"
#include "onnx/tensor_proto.hpp"
#include "onnx/text.hpp"
#include "onnx/value_types.hpp"

namespace vkfuse::onnx {
namespace {

/// What the names of inputs that stand between parts begin with: no input of the graph begins so.
std::string prefix_for(const pb::GraphProto& graph) {
  std::string prefix = "part";
  const auto is_taken = [&](const pb::ValueInfoProto& info) { return info.name().starts_with(prefix); };
  while (std::ranges::any_of(graph.input(), is_taken)) prefix += '_';
  return prefix;
}

}  // namespace

Result<ModelImport> ModelImport::load(const pb::ModelProto& model, const ExternalFiles& files,
                                      const OnnxOptions& options, HostUse host) {
  VKF_TRY(library, index_functions(model));
  if (options.floats && options.floats != DType::f16 && options.floats != DType::bf16) {
    return invalid("The floats of a model cannot become {}; they become f16 or bf16.", name_of(*options.floats));
  }
  library.floats = options.floats;
  library.shared_caches = options.shared_caches;
  library.host = host;
  OnnxOptions kept = options;
  kept.input_values.clear();   // an import is copied often
  kept.external_data.clear();  // the caller's memory, which is read here alone
  ModelImport import(model, std::move(kept), NodeImport(std::move(library)));
  import.prefix_ = prefix_for(model.graph());
  import.result_.name = model.graph().name();
  import.result_.opset = Opsets(model.opset_import()).of(kOnnxDomain);
  if (import.result_.opset > kNewestOpset) {
    import.note({fmt::format("The model is of opset {}; opsets up to {} are known, and it is read as one of opset {}.",
                             import.result_.opset, kNewestOpset, kNewestOpset)});
  }
  VKF_CHECK_OK(import.check_given_names(options));
  for (const auto& entry : options.known_inputs) import.result_.constant_inputs.push_back(entry.first);
  for (const pb::ValueInfoProto& info : model.graph().input()) import.note(ignored_sizes(info));
  Frame main;
  main.nodes = &model.graph().node();
  main.opsets = std::make_shared<const Opsets>(model.opset_import());
  VKF_TRY(frame, import.nodes_.open(std::move(main)));
  static_cast<void>(frame);  // the first: kMain
  VKF_CHECK_OK(import.import_initialisers(files));
  return import;
}

Result<void> ModelImport::take_input_sizes() {
  std::vector<std::string> notes;
  for (const pb::ValueInfoProto& info : graph_->input()) VKF_CHECK_OK(take_sizes(info, fixed_dims_, sized_, notes));
  note(notes);
  return {};
}

/// A model that is begun again and again says the same each time.
void ModelImport::note(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) {
    if (std::ranges::find(result_.notes, sentence) == result_.notes.end()) result_.notes.push_back(sentence);
  }
}

void ModelImport::freeze(const std::string& name, TensorData value) {
  note({fmt::format("The value of input {} decides what is computed, so that it is a constant of the program.",
                    in_quotes(name))});
  result_.constant_inputs.push_back(name);
  sized_.known_inputs.insert_or_assign(name, std::move(value));
}

bool ModelImport::agrees_with(const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes) const {
  OnnxOptions sized;
  sized.dims = sized_.dims;
  sized.input_sizes = sizes;
  std::vector<std::string> notes;
  for (const pb::ValueInfoProto& info : graph_->input()) {
    if (!take_sizes(info, fixed_dims_, sized, notes)) return true;  // that is an error, and said elsewhere
  }
  return notes.empty();
}

std::vector<std::string> ModelImport::deciding_inputs() const { return inputs_that_decide(nodes_.asked()); }

std::optional<int> ModelImport::failed_node() const {
  const auto& nodes = graph_->node();
  const auto found = std::ranges::find(nodes, nodes_.failed(), [](const pb::NodeProto& node) { return &node; });
  if (found == nodes.end()) return std::nullopt;
  return static_cast<int>(found - nodes.begin());
}

Result<void> ModelImport::begin(const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes) {
  for (const auto& [name, stated] : sizes) sized_.input_sizes.insert_or_assign(name, stated);
  VKF_CHECK_OK(take_input_sizes());
  const ModelImport before = *this;
  VKF_CHECK_OK(begin_once());
  // What operators promise of symbols is said of the inputs that have them, so that a run which breaks it is refused.
  constexpr int kMostPasses = 4;
  for (int pass = 1; nodes_.largest() != largest_; ++pass) {
    if (pass == kMostPasses)
      return unsupported(
          "What the operators of the model promise of its symbolic dimensions does not settle; give them sizes when "
          "importing.");
    auto largest = nodes_.largest();
    *this = before;
    largest_ = std::move(largest);
    VKF_CHECK_OK(begin_once());
  }
  return {};
}

Result<void> ModelImport::begin_once() {
  VKF_CHECK_OK(import_inputs());
  nodes_.push_nodes(kMain);
  return advance();
}

/// Imports up to the host's next steps, or to the end, and says what the kernels of this part store.
Result<void> ModelImport::advance() {
  part_.outputs.clear();
  part_.steps.clear();
  VKF_CHECK_OK(nodes_.proceed());
  if (nodes_.host_steps().empty()) return import_outputs();
  for (const Value& value : nodes_.read_later()) keep(value);
  for (const pb::ValueInfoProto& info : graph_->output()) {
    VKF_TRY(value, nodes_.find(kMain, info.name(), "The list of graph outputs"));
    if (value != nullptr && !value->pending) keep(*value);
  }
  for (const HostStep& step : nodes_.host_steps()) {
    PlacedStep placed{step, {}};
    for (const std::optional<Value>& operand : step.operands) {
      placed.operands.push_back(!operand || operand->known ? std::string() : place(operand->tensor, operand->part));
    }
    part_.steps.push_back(std::move(placed));
  }
  return {};
}

Result<void> ModelImport::resume(const std::vector<StepResults>& results) {
  std::vector<std::vector<Value>> values;
  for (std::size_t i = 0; i < results.size(); ++i) {
    values.emplace_back();
    for (std::size_t k = 0; k < results[i].types.size(); ++k) {
      const auto& [dtype, sizes] = results[i].types[k];
      Value value(Tensor::input(result_name(static_cast<int>(i), static_cast<int>(k)), dtype,
                                Shape(sizes.begin(), sizes.end())));
      if (!value.tensor.valid()) return Error(value.tensor.error());
      value.part = nodes_.part() + 1;
      values.back().push_back(std::move(value));
    }
  }
  const std::vector<HostStep> steps = nodes_.host_steps();
  nodes_.begin_next_part();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].reads) {
      nodes_.take_read(steps[i], results[i].values);
    } else {
      VKF_CHECK_OK(nodes_.define_results(steps[i], values[i]));
    }
  }
  return advance();
}

std::string ModelImport::result_name(int step, int output) const {
  return fmt::format("{}{}.host{}.{}", prefix_, nodes_.part() + 1, step, output);
}

/// The name under which a run finds the elements of a tensor that this part computes, or has.
std::string ModelImport::place(const Tensor& tensor, int part) {
  if (const auto* input = std::get_if<ir::InputPayload>(&tensor.node()->payload)) return input->name;
  const auto found = places_.find(tensor.node().get());
  if (found != places_.end()) return found->second.name;
  check(part == kFixed || part == nodes_.part(), "a value of an earlier part was not kept");
  std::string name = fmt::format("{}{}.{}", prefix_, nodes_.part(), part_.outputs.size());
  part_.outputs.emplace_back(name, tensor);
  places_.emplace(tensor.node().get(), Place{tensor, name});
  return name;
}

/// Lets later parts read a value.
void ModelImport::keep(const Value& value) {
  if (value.sequence) {
    for (const Value& element : *value.sequence) keep(element);
    return;
  }
  if (value.known || value.part == kFixed || nodes_.is_brought(value)) return;
  if (std::holds_alternative<ir::InputPayload>(value.tensor.node()->payload)) return;
  const std::string name = place(value.tensor, value.part);
  nodes_.bring(value, Tensor::input(name, value.tensor.dtype(), value.tensor.shape()));
}

/// A misspelt name would otherwise change nothing and say nothing.
Result<void> ModelImport::check_given_names(const OnnxOptions& options) {
  const auto exists = [&](const std::string& name) {
    return std::ranges::any_of(graph_->input(), [&](const pb::ValueInfoProto& info) { return info.name() == name; });
  };
  for (const auto& entry : options.known_inputs) {
    if (!exists(entry.first))
      return invalid("The known input {} is not an input of the graph.", in_quotes(entry.first));
  }
  for (const auto& entry : options.input_values) {
    if (!exists(entry.first))
      note({fmt::format("A value is given for {}, which is not an input of the graph.", in_quotes(entry.first))});
  }
  return {};
}

/// A weight in what f32 becomes: rounded here, so that the program holds it in half the bytes.
Result<Value> ModelImport::converted_from(const pb::TensorProto& initialiser, const ExternalFiles& files) const {
  if (!sized_.floats || initialiser.data_type() != pb::TensorProto::FLOAT) return value_from(initialiser, files);
  VKF_TRY(data, decode_tensor(initialiser, files));
  Value value = constant_value(converted(data, *sized_.floats));
  if (value.known) value.known = std::make_shared<const TensorData>(std::move(data));
  return value;
}

Result<void> ModelImport::import_initialisers(const ExternalFiles& files) {
  if (graph_->sparse_initializer_size() > 0)
    return unsupported(
        "The model has sparse initialisers, which are not "
        "supported.");
  for (const pb::TensorProto& initialiser : graph_->initializer()) {
    VKF_TRY(value, converted_from(initialiser, files));
    VKF_CHECK_OK(nodes_.define(kMain, initialiser.name(), std::move(value)));
  }
  return {};
}

Result<std::vector<Port>> ModelImport::stated_inputs() const {
  std::set<std::string_view> initialisers;
  for (const pb::TensorProto& tensor : graph_->initializer()) initialisers.insert(tensor.name());
  std::vector<Port> ports;
  for (const pb::ValueInfoProto& info : graph_->input()) {
    // Before IR version 4 every initialiser was listed as an input too.
    if (initialisers.contains(info.name()) || sized_.known_inputs.contains(info.name())) continue;
    VKF_TRY(type, input_type(info, sized_));
    if (sized_.floats && type.dtype == DType::f32) type.dtype = *sized_.floats;
    for (Dim& dim : type.shape) {
      if (const auto largest = largest_.find(dim.name()); dim.is_symbol() && largest != largest_.end())
        dim = Dim::any(dim.name(), {.max = largest->second});
    }
    ports.push_back({info.name(), type.dtype, std::move(type.shape)});
  }
  return ports;
}

Result<void> ModelImport::import_inputs() {
  for (const pb::ValueInfoProto& info : graph_->input()) {
    const auto known = sized_.known_inputs.find(info.name());
    if (known == sized_.known_inputs.end()) continue;
    VKF_TRY(type, input_type(info, sized_));
    VKF_CHECK_OK(define_known_input(info, type, known->second));
  }
  std::map<std::string_view, const NarrowType*> narrow;
  for (const pb::ValueInfoProto& info : graph_->input()) narrow.emplace(info.name(), narrow_type(info));
  VKF_TRY(ports, stated_inputs());
  for (Port& port : ports) {
    Value value(Tensor::input(port.name, port.dtype, port.shape));
    if (!value.tensor.valid()) return Error(value.tensor.error());
    value.part = nodes_.part();
    value.narrow = narrow.at(port.name);
    result_.inputs.push_back(value.tensor);
    result_.input_names.push_back(port.name);
    VKF_CHECK_OK(nodes_.define(kMain, port.name, std::move(value)));
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
  Value value = in_dtype(constant_value(data), sized_.floats);
  value.narrow = narrow_type(info);
  return nodes_.define(kMain, info.name(), std::move(value));
}

Result<void> ModelImport::import_outputs() {
  if (graph_->output_size() == 0) return invalid("The graph has no outputs.");
  std::vector<std::string> notes = nodes_.notes();
  for (const pb::ValueInfoProto& info : graph_->output()) {
    VKF_TRY(value, nodes_.find(kMain, info.name(), "The list of graph outputs"));
    if (value == nullptr) {
      return unsupported("Output {} is an optional without an element, which is not supported.",
                         in_quotes(info.name()));
    }
    if (value->sequence) return unsupported("Output {} is a sequence, which is not supported.", in_quotes(info.name()));
    VKF_CHECK_OK(check_output(info, *value, sized_.floats, notes));
    result_.outputs.push_back(value->tensor);
    result_.output_names.push_back(info.name());
    part_.results.emplace_back(info.name(), place(value->tensor, value->part));
  }
  note(notes);
  is_finished_ = true;
  return {};
}

}  // namespace vkfuse::onnx
