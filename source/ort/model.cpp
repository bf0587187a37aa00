#include "ort/model.hpp"

#include <algorithm>
#include <set>

#include "ort/wire.hpp"

namespace vkfuse::ort {
namespace {

// Numbers of fields, by the names that onnx.proto gives them.
namespace model_field {
constexpr int kIrVersion = 1, kGraph = 7, kOpsetImport = 8;
}
namespace opset_field {
constexpr int kDomain = 1, kVersion = 2;
}
namespace graph_field {
constexpr int kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
}
namespace node_field {
constexpr int kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5, kDomain = 7;
}
namespace attribute_field {
constexpr int kName = 1, kF = 2, kI = 3, kS = 4, kT = 5, kG = 6, kFloats = 7, kInts = 8, kStrings = 9, kType = 20;
}
namespace attribute_type {
constexpr int kFloat = 1, kInt = 2, kString = 3, kTensor = 4, kGraph = 5, kFloats = 6, kInts = 7, kStrings = 8;
}
namespace tensor_field {
constexpr int kDims = 1, kDataType = 2, kName = 8, kRawData = 9, kExternalData = 13, kDataLocation = 14;
constexpr int kKey = 1, kValue = 2, kExternal = 1;
}  // namespace tensor_field
namespace value_field {
constexpr int kName = 1, kType = 2, kTensorType = 1, kElemType = 1, kShape = 2, kDim = 1, kDimValue = 1, kDimParam = 2;
}

class Writer {
 public:
  explicit Writer(const Host& host) : host_(host), api_(*host.api) {}

  Result<WrittenModel> write(const HostGraph& graph, std::span<const int> nodes, Weights weights) {
    Boundary boundary = boundary_of(graph, nodes);
    const auto becomes_input = [&](int value) {
      return weights == Weights::small &&
             graph.values[static_cast<std::size_t>(value)].constant->bytes.size() > kMostBytesOfTrial;
    };
    std::ranges::copy_if(boundary.constants, std::back_inserter(boundary.inputs), becomes_input);
    std::erase_if(boundary.constants, becomes_input);
    VKF_TRY(body, graph_message(graph, nodes, boundary));
    Message model;
    model.integer(model_field::kIrVersion, graph.ir_version);
    for (const auto& [domain, version] : graph.opsets) {
      Message opset;
      opset.text(opset_field::kDomain, domain).integer(opset_field::kVersion, version);
      model.message(model_field::kOpsetImport, opset);
    }
    model.message(model_field::kGraph, body);
    written_.bytes = model.bytes();
    return std::move(written_);
  }

 private:
  Result<Message> graph_message(const HostGraph& graph, std::span<const int> nodes, const Boundary& boundary) {
    Message message;
    message.text(graph_field::kName, graph.name.empty() ? "graph" : graph.name);
    for (const int at : nodes) {
      VKF_TRY(node, node_message(graph, graph.nodes[static_cast<std::size_t>(at)]));
      message.message(graph_field::kNode, node);
    }
    for (const int at : boundary.constants) {
      const HostValue& value = graph.values[static_cast<std::size_t>(at)];
      message.message(graph_field::kInitializer,
                      depth_ == 0 ? external_tensor(value) : tensor(*value.constant, value.name));
    }
    for (const int at : boundary.inputs)
      message.message(graph_field::kInput, value_message(graph.values[static_cast<std::size_t>(at)]));
    // A result's type is what comes of it: ONNX Runtime's own inference may say less, or other symbols.
    for (const int at : boundary.outputs) {
      Message output;
      output.text(value_field::kName, graph.values[static_cast<std::size_t>(at)].name);
      message.message(graph_field::kOutput, output);
    }
    return message;
  }

  Message value_message(const HostValue& value) {
    Message message;
    message.text(value_field::kName, value.name);
    if (!value.type) return message;
    Message shape;
    for (const HostDim& dim : value.type->dims) {
      Message size;
      if (dim.size >= 0) {
        size.integer(value_field::kDimValue, dim.size);
      } else if (!dim.name.empty()) {
        size.text(value_field::kDimParam, dim.name);
      }
      shape.message(value_field::kDim, size);
    }
    Message tensor, type;
    tensor.integer(value_field::kElemType, value.type->type).message(value_field::kShape, shape);
    message.message(value_field::kType, type.message(value_field::kTensorType, tensor));
    return message;
  }

  static Message tensor_head(const HostElements& elements, const std::string& name) {
    Message tensor;
    for (const std::int64_t size : elements.sizes) tensor.integer(tensor_field::kDims, size);
    tensor.integer(tensor_field::kDataType, elements.type).text(tensor_field::kName, name);
    return tensor;
  }

  static Message tensor(const HostElements& elements, const std::string& name) {
    const std::string_view bytes(reinterpret_cast<const char*>(elements.bytes.data()), elements.bytes.size());
    return tensor_head(elements, name).text(tensor_field::kRawData, bytes);
  }

  /// An initialiser whose elements stay where they are. Those of graphs inside nodes are copied: no location is theirs.
  Message external_tensor(const HostValue& value) {
    const std::string location = fmt::format("weights/{}", written_.external_data.size());
    written_.external_data.emplace(location, value.constant->bytes);
    Message entry;
    entry.text(tensor_field::kKey, "location").text(tensor_field::kValue, location);
    return tensor_head(*value.constant, value.name)
        .message(tensor_field::kExternalData, entry)
        .integer(tensor_field::kDataLocation, tensor_field::kExternal);
  }

  Result<Message> node_message(const HostGraph& graph, const HostNode& node) {
    Message message;
    if (node.domain == kProviderName) return unsupported("Nodes inside it are compiled already, each group by itself.");
    const auto name_of_value = [&](int at) {
      return at < 0 ? std::string_view() : std::string_view(graph.values[static_cast<std::size_t>(at)].name);
    };
    for (const int input : node.inputs) message.text(node_field::kInput, name_of_value(input));
    for (const int output : node.outputs) message.text(node_field::kOutput, name_of_value(output));
    message.text(node_field::kName, node.name).text(node_field::kOpType, node.op_type);
    message.text(node_field::kDomain, node.domain);
    VKF_CHECK_OK(add_graphs(node, message));
    std::size_t count = 0;
    VKF_CHECK_OK(taken(host_, api_.Node_GetNumAttributes(node.handle, &count)));
    std::vector<const OrtOpAttr*> attributes(count);
    VKF_CHECK_OK(taken(host_, api_.Node_GetAttributes(node.handle, attributes.data(), count)));
    for (const OrtOpAttr* attribute : attributes) {
      if (attribute == nullptr) continue;  // an optional one that the node does not have
      VKF_CHECK_OK(add_attribute(attribute, message));
    }
    return message;
  }

  Result<void> add_graphs(const HostNode& node, Message& message) {
    std::size_t count = 0;
    VKF_CHECK_OK(taken(host_, api_.Node_GetNumSubgraphs(node.handle, &count)));
    if (count == 0) return {};
    std::vector<const OrtGraph*> graphs(count);
    std::vector<const char*> names(count);
    VKF_CHECK_OK(taken(host_, api_.Node_GetSubgraphs(node.handle, graphs.data(), count, names.data())));
    for (std::size_t i = 0; i < count; ++i) {
      VKF_TRY(inside, read_graph(host_, graphs[i]));
      ++depth_;
      VKF_TRY(body, inner_graph(inside));
      --depth_;
      Message attribute;
      attribute.text(attribute_field::kName, names[i]).message(attribute_field::kG, body);
      message.message(node_field::kAttribute, attribute.integer(attribute_field::kType, attribute_type::kGraph));
    }
    return {};
  }

  /// A branch, or the body of a loop, whole: what it reads from around it goes by the same names there.
  Result<Message> inner_graph(const HostGraph& graph) {
    std::vector<int> nodes;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) nodes.push_back(static_cast<int>(i));
    Boundary boundary{graph.inputs, {}, graph.outputs};
    for (const int at : graph.initialisers) {
      if (at >= 0 && graph.values[static_cast<std::size_t>(at)].constant) boundary.constants.push_back(at);
    }
    return graph_message(graph, nodes, boundary);
  }

  Result<void> add_attribute(const OrtOpAttr* handle, Message& node) {
    const char* name = nullptr;
    OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
    VKF_CHECK_OK(taken(host_, api_.OpAttr_GetName(handle, &name)));
    VKF_CHECK_OK(taken(host_, api_.OpAttr_GetType(handle, &type)));
    if (type == ORT_OP_ATTR_GRAPH) return {};  // add_graphs has it
    Message attribute;
    attribute.text(attribute_field::kName, name);
    if (type == ORT_OP_ATTR_TENSOR) {
      VKF_CHECK_OK(add_tensor(handle, attribute));
    } else {
      VKF_TRY(bytes, attribute_bytes(handle, name, type));
      add_elements(bytes, type, attribute);
    }
    node.message(node_field::kAttribute, attribute);
    return {};
  }

  Result<std::vector<char>> attribute_bytes(const OrtOpAttr* handle, const char* name, OrtOpAttrType type) {
    constexpr OrtOpAttrType kTaken[] = {ORT_OP_ATTR_INT,    ORT_OP_ATTR_INTS,   ORT_OP_ATTR_FLOAT,
                                        ORT_OP_ATTR_FLOATS, ORT_OP_ATTR_STRING, ORT_OP_ATTR_STRINGS};
    if (std::ranges::find(kTaken, type) == std::end(kTaken))
      return unsupported("Attribute '{}' is of a kind that ONNX Runtime's interface does not give out.", name);
    std::size_t size = 0;
    OrtStatus* status = api_.ReadOpAttr(handle, type, nullptr, 0, &size);  // says how much there is, and that it fails
    if (status != nullptr) api_.ReleaseStatus(status);
    std::vector<char> bytes(size);
    if (size > 0) VKF_CHECK_OK(taken(host_, api_.ReadOpAttr(handle, type, bytes.data(), size, &size)));
    return bytes;
  }

  template <typename T, typename Add>
  static void each(const std::vector<char>& bytes, Add add) {
    for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      T element;
      std::copy_n(bytes.data() + at, sizeof(T), reinterpret_cast<char*>(&element));
      add(element);
    }
  }

  static void add_elements(const std::vector<char>& bytes, OrtOpAttrType type, Message& to) {
    namespace field = attribute_field;
    const std::string_view text(bytes.data(), bytes.size());
    switch (type) {
      case ORT_OP_ATTR_INT:
        each<std::int64_t>(bytes, [&](std::int64_t value) { to.integer(field::kI, value); });
        to.integer(field::kType, attribute_type::kInt);
        break;
      case ORT_OP_ATTR_INTS:
        each<std::int64_t>(bytes, [&](std::int64_t value) { to.integer(field::kInts, value); });
        to.integer(field::kType, attribute_type::kInts);
        break;
      case ORT_OP_ATTR_FLOAT:
        each<float>(bytes, [&](float value) { to.real(field::kF, value); });
        to.integer(field::kType, attribute_type::kFloat);
        break;
      case ORT_OP_ATTR_FLOATS:
        each<float>(bytes, [&](float value) { to.real(field::kFloats, value); });
        to.integer(field::kType, attribute_type::kFloats);
        break;
      case ORT_OP_ATTR_STRINGS:  // each ends with a zero byte
        for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\0', at), text.size()) + 1)
          to.text(field::kStrings, text.substr(at, text.find('\0', at) - at));
        to.integer(field::kType, attribute_type::kStrings);
        break;
      default: to.text(field::kS, text).integer(field::kType, attribute_type::kString); break;
    }
  }

  Result<void> add_tensor(const OrtOpAttr* handle, Message& attribute) {
    OrtValue* value = nullptr;
    VKF_CHECK_OK(taken(host_, api_.OpAttr_GetTensorAttributeAsOrtValue(handle, &value)));
    Result<HostElements> elements = elements_of(host_, value);
    if (elements) {
      attribute.message(attribute_field::kT, tensor(*elements, ""));
      attribute.integer(attribute_field::kType, attribute_type::kTensor);
    }
    api_.ReleaseValue(value);
    if (!elements) return std::move(elements).error();
    return {};
  }

  const Host& host_;
  const OrtApi& api_;
  WrittenModel written_;
  int depth_ = 0;  ///< in how many nodes the graph lies that is being written
};

}  // namespace

Boundary boundary_of(const HostGraph& graph, std::span<const int> nodes) {
  std::set<int> computed, seen;
  std::map<int, int> readers;  // inside
  for (const int at : nodes) {
    const HostNode& node = graph.nodes[static_cast<std::size_t>(at)];
    for (const int value : written_by(node)) computed.insert(value);
    for (const int value : read_by(node)) ++readers[value];
  }
  Boundary boundary;
  for (const int at : nodes) {
    const HostNode& node = graph.nodes[static_cast<std::size_t>(at)];
    for (const int value : read_by(node)) {
      if (computed.contains(value) || !seen.insert(value).second) continue;
      const bool is_constant = graph.values[static_cast<std::size_t>(value)].constant.has_value();
      (is_constant ? boundary.constants : boundary.inputs).push_back(value);
    }
    for (const int value : written_by(node)) {
      const HostValue& output = graph.values[static_cast<std::size_t>(value)];
      if (output.is_output || output.readers > readers[value]) boundary.outputs.push_back(value);
    }
  }
  return boundary;
}

Result<WrittenModel> write_model(const Host& host, const HostGraph& graph, std::span<const int> nodes,
                                 Weights weights) {
  return Writer(host).write(graph, nodes, weights);
}

}  // namespace vkfuse::ort
