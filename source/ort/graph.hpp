// An OrtGraph as the provider looks at it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ort/host.hpp"

namespace vkfuse::ort {

/// A tensor of ONNX Runtime's in host memory, which is read and not owned.
struct HostElements {
  std::int32_t type = 0;  ///< TensorProto.DataType, whose numbers ONNXTensorElementDataType has
  std::vector<std::int64_t> sizes;
  std::span<const std::byte> bytes;
};

/// A dimension: a number, or a name, which is empty where nothing is known.
struct HostDim {
  std::int64_t size = -1;
  std::string name;
};

/// A tensor's type.
struct HostType {
  std::int32_t type = 0;
  std::vector<HostDim> dims;
};

/// What nodes read and compute.
struct HostValue {
  std::string name;
  std::optional<HostType> type;          ///< nothing for what is no tensor
  std::optional<HostElements> constant;  ///< of an initialiser that no input overrides
  /// ONNX Runtime 1.23 gives a rank that it does not know as 0. What the model states is known, and any other.
  bool is_rank_known = false;
  int readers = 0;         ///< how often nodes of the graph read it
  bool is_output = false;  ///< of the graph
};

struct HostNode {
  const OrtNode* handle = nullptr;
  std::string name, op_type, domain;
  std::vector<int> inputs, outputs;  ///< positions among the values; -1 where one is left out
  std::vector<int> implicit_inputs;  ///< what graphs among the attributes read from around the node
};

/// The graph's nodes, sorted, and the values by which they are joined. Valid as long as the OrtGraph is.
struct HostGraph {
  const OrtGraph* handle = nullptr;
  std::string name;
  std::int64_t ir_version = 0;
  std::vector<std::pair<std::string, std::int64_t>> opsets;  ///< by domain
  std::vector<HostValue> values;
  std::vector<HostNode> nodes;
  std::vector<int> inputs, outputs, initialisers;  ///< positions among the values
  std::map<std::string, int, std::less<>> value_by_name;
};

/// The values that a node reads, in order, those of the graphs inside it too; and those that it computes.
std::vector<int> read_by(const HostNode& node);
std::vector<int> written_by(const HostNode& node);

Result<HostGraph> read_graph(const Host& host, const OrtGraph* graph);

/// The node that a branch or body belongs to, as a graph of that node alone: ONNX Runtime does not hand out the graph
/// around it.
Result<HostGraph> read_around(const Host& host, const HostGraph& inner, const OrtNode* around);

/// The elements of a tensor in host memory.
Result<HostElements> elements_of(const Host& host, const OrtValue* value);
/// Where the elements of a tensor are written to, be it addresses of the device's.
Result<std::span<std::byte>> memory_of(const Host& host, OrtValue* value);

/// Type and sizes of what `info` describes.
Result<HostType> type_of(const Host& host, const OrtTensorTypeAndShapeInfo* info);

/// The names of values in order, empty ones where one is left out.
Result<std::vector<std::string>> names_of(const Host& host, std::span<const OrtValueInfo* const> infos);

}  // namespace vkfuse::ort
