// Precompiled models: EPContext nodes, each of which holds one group of nodes as this provider took it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ort/model.hpp"
#include "ort/options.hpp"

namespace vkfuse::ort {

/// Errors: ErrorCode::invalid_argument for values that ONNX Runtime does not document.
Result<ContextOptions> read_context_options(const Host& host, const OrtSessionOptions* session);

/// Whether it is an EPContext node of any provider.
bool is_context(const HostNode& node);
/// Whether it is one that this provider wrote.
Result<bool> is_our_context(const Host& host, const HostNode& node);

/// The bytes of a group: its model, and the weights that the model refers to.
std::string pack(const WrittenModel& model);

/// A group that was packed.
struct UnpackedModel {
  std::vector<std::byte> held;  ///< what the others lie in
  std::span<const std::byte> model;
  std::map<std::string, std::span<const std::byte>, std::less<>> external_data;
};
/// Errors: ErrorCode::invalid_argument for bytes that pack() did not write.
Result<UnpackedModel> unpack(std::vector<std::byte> bytes);

/// What an EPContext node of ours in this graph holds, or the file that it names.
Result<UnpackedModel> read_context(const Host& host, const OrtGraph* graph, const HostNode& node);

/// What an EPContext node has to say besides the group.
struct ContextNode {
  std::string name;  ///< of the node that ONNX Runtime made of the group
  std::vector<std::string> inputs, outputs;
};
/// An EPContext node for a group of this graph. ONNX Runtime owns it.
Result<OrtNode*> write_context(const Host& host, const OrtGraph* graph, const ContextOptions& options,
                               const ContextNode& node, const WrittenModel& model);

}  // namespace vkfuse::ort
