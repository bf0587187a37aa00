// Nodes of an OrtGraph as the bytes of an ONNX model, which the importer reads.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "ort/graph.hpp"

namespace vkfuse::ort {

/// What some nodes of a graph have to do with the rest of it: positions among the values.
struct Boundary {
  std::vector<int> inputs;     ///< that others compute, or a run gives
  std::vector<int> constants;  ///< initialisers
  std::vector<int> outputs;    ///< that others read, or that are results of the graph
};

Boundary boundary_of(const HostGraph& graph, std::span<const int> nodes);

/// Constants with more bytes than this cannot decide shapes, and an import that is only tried does without them.
inline constexpr std::size_t kMostBytesOfTrial = 8192;

enum class Weights : std::uint8_t {
  all,   ///< in ONNX Runtime's memory, which the import reads
  small  ///< those that may decide what is computed; the others are inputs
};

/// A model, and the memory that its weights lie in, by the location that it states (OnnxOptions::external_data). That
/// memory is ONNX Runtime's: it lives as long as the OrtGraph.
struct WrittenModel {
  std::string bytes;
  std::map<std::string, std::span<const std::byte>, std::less<>> external_data;
};

/// Errors: ErrorCode::unsupported for attributes and types that a model cannot state.
Result<WrittenModel> write_model(const Host& host, const HostGraph& graph, std::span<const int> nodes, Weights weights);

}  // namespace vkfuse::ort
