#include "ort/graph.hpp"

namespace vkfuse::ort {
namespace {

/// Calls a pair of functions of the interface: how many, and all of them.
template <typename Item, typename Of>
Result<std::vector<const Item*>> all_of(const Host& host, const Of* of, OrtStatus* (*count)(const Of*, std::size_t*),
                                        OrtStatus* (*get)(const Of*, const Item**, std::size_t)) {
  std::size_t size = 0;
  VKF_CHECK_OK(taken(host, count(of, &size)));
  std::vector<const Item*> items(size);
  if (size > 0) VKF_CHECK_OK(taken(host, get(of, items.data(), size)));
  return items;
}

class Reader {
 public:
  Reader(const Host& host, const OrtGraph* graph) : host_(host), api_(*host.api) { result_.handle = graph; }

  Result<HostGraph> read() {
    VKF_CHECK_OK(read_header());
    VKF_TRY(initialisers, values(api_.Graph_GetNumInitializers, api_.Graph_GetInitializers));
    result_.initialisers = std::move(initialisers);
    VKF_TRY(inputs, values(api_.Graph_GetNumInputs, api_.Graph_GetInputs));
    result_.inputs = std::move(inputs);
    VKF_TRY(nodes, all_of(host_, result_.handle, api_.Graph_GetNumNodes, api_.Graph_GetNodes));
    for (const OrtNode* node : nodes) VKF_CHECK_OK(read_node(node));
    mark_known_ranks();
    VKF_CHECK_OK(mark_stated_ranks());
    VKF_TRY(outputs, values(api_.Graph_GetNumOutputs, api_.Graph_GetOutputs));
    result_.outputs = std::move(outputs);
    for (const HostNode& node : result_.nodes) {
      for (const int value : read_by(node)) ++result_.values[static_cast<std::size_t>(value)].readers;
    }
    for (const int output : result_.outputs) {
      if (output >= 0) result_.values[static_cast<std::size_t>(output)].is_output = true;
    }
    return std::move(result_);
  }

  Result<HostGraph> read_around(const HostGraph& inner, const OrtNode* around) {
    result_.opsets = inner.opsets;
    result_.ir_version = inner.ir_version;
    VKF_CHECK_OK(read_node(around));
    mark_known_ranks();
    for (const int output : written_by(result_.nodes[0]))
      result_.values[static_cast<std::size_t>(output)].is_output = true;
    return std::move(result_);
  }

 private:
  using GraphCount = OrtStatus* (*)(const OrtGraph*, std::size_t*);
  using GraphGet = OrtStatus* (*)(const OrtGraph*, const OrtValueInfo**, std::size_t);

  Result<std::vector<int>> values(GraphCount count, GraphGet get) {
    VKF_TRY(infos, all_of(host_, result_.handle, count, get));
    return add(infos);
  }

  Result<void> read_header() {
    const OrtGraph* graph = result_.handle;
    const char* name = nullptr;
    VKF_CHECK_OK(taken(host_, api_.Graph_GetName(graph, &name)));
    result_.name = name == nullptr ? "" : name;
    VKF_CHECK_OK(taken(host_, api_.Graph_GetOnnxIRVersion(graph, &result_.ir_version)));
    std::size_t count = 0;
    VKF_CHECK_OK(taken(host_, api_.Graph_GetNumOperatorSets(graph, &count)));
    std::vector<const char*> domains(count);
    std::vector<std::int64_t> versions(count);
    VKF_CHECK_OK(taken(host_, api_.Graph_GetOperatorSets(graph, domains.data(), versions.data(), count)));
    for (std::size_t i = 0; i < count; ++i) result_.opsets.emplace_back(domains[i], versions[i]);
    return {};
  }

  void mark_known_ranks() {
    for (HostValue& value : result_.values)
      value.is_rank_known = value.constant || (value.type && !value.type->dims.empty());
  }

  /// What a run gives is as the model states it; a branch is given what other nodes compute.
  Result<void> mark_stated_ranks() {
    const OrtNode* around = nullptr;
    VKF_CHECK_OK(taken(host_, api_.Graph_GetParentNode(result_.handle, &around)));
    if (around != nullptr) return {};
    for (const int input : result_.inputs) {
      if (input >= 0) result_.values[static_cast<std::size_t>(input)].is_rank_known = true;
    }
    return {};
  }

  Result<std::vector<int>> add(const std::vector<const OrtValueInfo*>& infos) {
    std::vector<int> positions;
    for (const OrtValueInfo* info : infos) {
      VKF_TRY(position, add(info));
      positions.push_back(position);
    }
    return positions;
  }

  Result<int> add(const OrtValueInfo* info) {
    const char* name = nullptr;
    if (info != nullptr) VKF_CHECK_OK(taken(host_, api_.GetValueInfoName(info, &name)));
    if (name == nullptr || *name == '\0') return -1;
    const auto [entry, is_new] = result_.value_by_name.emplace(name, static_cast<int>(result_.values.size()));
    if (!is_new) return entry->second;
    HostValue value;
    value.name = name;
    VKF_CHECK_OK(read_type(info, value));
    VKF_CHECK_OK(read_constant(info, value));
    result_.values.push_back(std::move(value));
    return entry->second;
  }

  Result<void> read_type(const OrtValueInfo* info, HostValue& value) {
    const OrtTypeInfo* type = nullptr;
    VKF_CHECK_OK(taken(host_, api_.GetValueInfoTypeInfo(info, &type)));
    if (type == nullptr) return {};
    const OrtTensorTypeAndShapeInfo* tensor = nullptr;
    VKF_CHECK_OK(taken(host_, api_.CastTypeInfoToTensorInfo(type, &tensor)));
    if (tensor == nullptr) return {};
    VKF_TRY(read, type_of(host_, tensor));
    value.type = std::move(read);
    return {};
  }

  Result<void> read_constant(const OrtValueInfo* info, HostValue& value) {
    bool is_constant = false;
    VKF_CHECK_OK(taken(host_, api_.ValueInfo_IsConstantInitializer(info, &is_constant)));
    if (!is_constant) return {};
    const OrtValue* elements = nullptr;
    VKF_CHECK_OK(taken(host_, api_.ValueInfo_GetInitializerValue(info, &elements)));
    if (elements == nullptr) return {};
    VKF_TRY(constant, elements_of(host_, elements));
    value.constant = std::move(constant);
    return {};
  }

  Result<void> read_node(const OrtNode* handle) {
    HostNode node;
    node.handle = handle;
    const char *name = nullptr, *op_type = nullptr, *domain = nullptr;
    VKF_CHECK_OK(taken(host_, api_.Node_GetName(handle, &name)));
    VKF_CHECK_OK(taken(host_, api_.Node_GetOperatorType(handle, &op_type)));
    VKF_CHECK_OK(taken(host_, api_.Node_GetDomain(handle, &domain)));
    node.name = name == nullptr ? "" : name;
    node.op_type = op_type == nullptr ? "" : op_type;
    node.domain = domain == nullptr ? "" : domain;
    VKF_TRY(inputs, all_of(host_, handle, api_.Node_GetNumInputs, api_.Node_GetInputs));
    VKF_TRY(input_positions, add(inputs));
    node.inputs = std::move(input_positions);
    VKF_TRY(implicit, all_of(host_, handle, api_.Node_GetNumImplicitInputs, api_.Node_GetImplicitInputs));
    VKF_TRY(implicit_positions, add(implicit));
    node.implicit_inputs = std::move(implicit_positions);
    VKF_TRY(outputs, all_of(host_, handle, api_.Node_GetNumOutputs, api_.Node_GetOutputs));
    VKF_TRY(output_positions, add(outputs));
    node.outputs = std::move(output_positions);
    result_.nodes.push_back(std::move(node));
    return {};
  }

  const Host& host_;
  const OrtApi& api_;
  HostGraph result_;
};

}  // namespace

Result<HostType> type_of(const Host& host, const OrtTensorTypeAndShapeInfo* info) {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  VKF_CHECK_OK(taken(host, host.api->GetTensorElementType(info, &type)));
  std::size_t rank = 0;
  VKF_CHECK_OK(taken(host, host.api->GetDimensionsCount(info, &rank)));
  std::vector<std::int64_t> sizes(rank);
  std::vector<const char*> names(rank);
  VKF_CHECK_OK(taken(host, host.api->GetDimensions(info, sizes.data(), rank)));
  VKF_CHECK_OK(taken(host, host.api->GetSymbolicDimensions(info, names.data(), rank)));
  HostType result;
  result.type = static_cast<std::int32_t>(type);
  for (std::size_t axis = 0; axis < rank; ++axis)
    result.dims.push_back({sizes[axis], names[axis] == nullptr ? "" : names[axis]});
  return result;
}

Result<HostElements> elements_of(const Host& host, const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  VKF_CHECK_OK(taken(host, host.api->GetTensorTypeAndShape(value, &info)));
  Result<HostType> type = type_of(host, info);
  host.api->ReleaseTensorTypeAndShapeInfo(info);
  if (!type) return std::move(type).error();
  HostElements result;
  result.type = type->type;
  for (const HostDim& dim : type->dims) result.sizes.push_back(dim.size);
  if (type->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) return result;  // texts have no bytes of their own
  const void* data = nullptr;
  std::size_t bytes = 0;
  VKF_CHECK_OK(taken(host, host.api->GetTensorData(value, &data)));
  VKF_CHECK_OK(taken(host, host.api->GetTensorSizeInBytes(value, &bytes)));
  result.bytes = {static_cast<const std::byte*>(data), bytes};
  return result;
}

Result<std::span<std::byte>> memory_of(const Host& host, OrtValue* value) {
  void* data = nullptr;
  std::size_t bytes = 0;
  VKF_CHECK_OK(taken(host, host.api->GetTensorMutableData(value, &data)));
  VKF_CHECK_OK(taken(host, host.api->GetTensorSizeInBytes(value, &bytes)));
  return std::span(static_cast<std::byte*>(data), bytes);
}

Result<std::vector<std::string>> names_of(const Host& host, std::span<const OrtValueInfo* const> infos) {
  std::vector<std::string> names;
  for (const OrtValueInfo* info : infos) {
    const char* name = nullptr;
    if (info != nullptr) VKF_CHECK_OK(taken(host, host.api->GetValueInfoName(info, &name)));
    names.emplace_back(name == nullptr ? "" : name);
  }
  return names;
}

std::vector<int> read_by(const HostNode& node) {
  std::vector<int> values = node.inputs;
  values.insert(values.end(), node.implicit_inputs.begin(), node.implicit_inputs.end());
  std::erase(values, -1);
  return values;
}

std::vector<int> written_by(const HostNode& node) {
  std::vector<int> values = node.outputs;
  std::erase(values, -1);
  return values;
}

Result<HostGraph> read_graph(const Host& host, const OrtGraph* graph) { return Reader(host, graph).read(); }

Result<HostGraph> read_around(const Host& host, const HostGraph& inner, const OrtNode* around) {
  return Reader(host, nullptr).read_around(inner, around);
}

}  // namespace vkfuse::ort
