// The provider of one session (OrtEp): which nodes it takes, and what they are compiled to.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "ort/capability.hpp"
#include "ort/context.hpp"
#include "ort/memory.hpp"
#include "ort/model.hpp"
#include "ort/options.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::ort {

class Compute;

/// A session's provider. ONNX Runtime owns it: make_provider() makes one, and release() ends it.
class Provider : public OrtEp {
 public:
  /// `blocks` outlives it.
  Provider(const Host& host, Blocks& blocks, Device device, ProviderOptions options, const OrtLogger* logger);

  /// A group of nodes as one program, by names.
  struct Group {
    onnx::OnnxProgram program;
    std::vector<std::string> outputs;
  };

 private:
  struct Callbacks;

  Result<bool> belongs_to_its_node(const HostGraph& graph);
  Result<void> claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support);
  /// What runs a group that became `fused`, and the EPContext node for it where the session writes them.
  struct Compiled {
    std::unique_ptr<ort::Compute> compute;
    OrtNode* context = nullptr;
  };
  Result<Compiled> compile(const OrtGraph* graph, const OrtNode* fused);
  Result<std::shared_ptr<const Group>> group_of(const HostGraph& graph, const std::vector<int>& nodes);
  /// The group that an EPContext node holds.
  Result<std::shared_ptr<const Group>> unpacked_group(const HostGraph& graph);
  Result<std::shared_ptr<const Group>> compiled_group(
      std::span<const std::byte> model, std::map<std::string, std::span<const std::byte>, std::less<>> external_data);
  Result<void> dump(const WrittenModel& model, const onnx::OnnxProgram& program);
  void note(const std::string& sentence);

  Host host_;
  Blocks& blocks_;
  Device device_;
  Abilities abilities_;
  ProviderOptions options_;
  const OrtLogger* logger_;
  std::mutex mutex_;
  std::set<std::string> noted_;  ///< sentences that the log has
  /// Groups that were compiled to see whether they can be, until ONNX Runtime asks for them: by their nodes and where
  /// the weights lie.
  std::map<std::string, std::shared_ptr<const Group>> compiled_;
  int dumped_ = 0;
};

}  // namespace vkfuse::ort
